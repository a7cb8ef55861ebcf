#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""unit_report.py SUITE TESTLOG

Prints a result line (verdict, name, seconds, reason; separated by tabs) for every single test that the programs in meson's
testlog.json ran: a cmocka program says so as TAP when CMOCKA_MESSAGE_OUTPUT=TAP. A program that says nothing of the kind
counts as one test, and so does a program that ended otherwise than its tests did (a crash, a leak, a time limit).
"""

import json
import re
import sys

TAP = re.compile(r"^(not )?ok\b[ 0-9-]*(.*?)\s*(?:# *(SKIP\b.*))?$")
NOTE = re.compile(r"^#\s*(.*)$")
PLAN = re.compile(r"^(\d+)\.\.(\d+)")


def say(verdict, name, seconds, reason=""):
    print("%s\t%s\t%.1f\t%s" % (verdict, name, seconds, reason.replace("\t", " ")))


def report(suite, test):
    # meson calls a test of a project "project:suite / name".
    program = "%s/%s" % (suite, test["name"].split(" / ")[-1])
    passed = failed = skipped = planned = 0
    note = ""
    for line in test.get("stdout", "").splitlines():
        plan, tap, comment = PLAN.match(line), TAP.match(line), NOTE.match(line)
        if plan:
            planned += int(plan.group(2))
        elif tap:
            bad, name, skip = tap.groups()
            full = "%s/%s" % (program, name)
            if skip:
                skipped += 1
                # cmocka puts the name behind the word, and has no place for a reason.
                say("skip", full + skip[4:].strip(), 0, "the test says that it cannot run here")
            elif bad:
                failed += 1
                say("fail", full, 0, note)
            else:
                passed += 1
                say("pass", full, 0)
            note = ""
        elif comment:
            note = comment.group(1)
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    if test["result"] == "SKIP" and not passed + failed + skipped:
        say("skip", program, test["duration"], "the program says so")
    elif not good and not failed:
        say("fail", program, test["duration"], "%s, status %s" % (test["result"], test["returncode"]))
    elif planned > passed + failed + skipped:
        say("fail", program, test["duration"], "only %d of %d tests ran" % (passed + failed + skipped, planned))
    elif good and not passed + skipped:
        say("pass", program, test["duration"])


def main():
    seen = 0
    with open(sys.argv[2], encoding="utf-8") as log:
        for line in log:
            report(sys.argv[1], json.loads(line))
            seen += 1
    if not seen:
        say("fail", sys.argv[1], 0, "no test program ran")


main()
