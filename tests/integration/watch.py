#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""watch.py CASE STAT MOUNTPOINT [ARGUMENT]: nfsrdma-stat --watch as a person sees it, on a pseudo-terminal. The mount is kept
busy by whoever calls this."""

import os
import re
import signal
import subprocess
import sys

from terminal import Terminal

STAT, MOUNTPOINT = sys.argv[2:4]
UTF8 = {"LC_ALL": "C.UTF-8"}
ASCII = {"LC_ALL": "C"}
BARS = re.compile("[▁▂▃▄▅▆▇█]{3}")


def start(rows=40, columns=110, env=None):
    return Terminal([STAT, MOUNTPOINT, "--watch=1"], rows, columns, env or UTF8)


def shows_work(screen):
    text = screen.text()
    return re.search(r"^READ +[1-9]", text, re.M) and re.search(r"^0 +up ", text, re.M)


def updates_in_place():
    """Figures, bars that grow, one screen."""
    t = start()
    t.wait_for(shows_work)
    t.wait_for(lambda s: BARS.search(s.text()))
    lines = t.screen.lines()
    assert MOUNTPOINT in lines[0], lines[0]
    read = next(line for line in lines if line.startswith("read "))
    assert re.search(r"\d (K|M|G)iB/s", read), read
    assert t.screen.text().count("procedure") == 1
    assert t.screen.alternate
    t.type("q")
    assert t.wait_end() == 0
    assert t.screen.left_alternate and t.is_restored()


def any_size():
    """Smaller and larger, down to one cell: it draws what fits, and goes on."""
    t = start()
    t.wait_for(shows_work)
    for rows, columns in ((12, 50), (1, 1), (3, 10), (60, 200), (24, 80)):
        t.resize(rows, columns)
        t.wait_for(lambda s: s.text().strip())
        assert all(len(line) <= columns for line in t.screen.lines())
    t.wait_for(shows_work)
    t.wait_for(lambda s: BARS.search(s.text()))
    t.type("q")
    assert t.wait_end() == 0


def without_utf8():
    """Bars of ASCII; not a byte that such a terminal cannot show."""
    t = start(env=ASCII)
    t.wait_for(shows_work)
    t.wait_for(lambda s: re.search(r"^(read|RPCs) .*[#|:.]{3}", s.text(), re.M))
    assert all(b < 128 for b in t.bytes), "bytes beyond ASCII"
    t.type("q")
    assert t.wait_end() == 0


def signals():
    """Whatever ends it, the terminal is as it was before; and it has ended by that signal."""
    for sig in (signal.SIGTERM, signal.SIGHUP):
        t = start()
        t.wait_for(shows_work)
        os.kill(t.pid, sig)
        status = t.wait_end()
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == sig, status
        assert t.screen.left_alternate and t.is_restored(), sig
    t = start()
    t.wait_for(shows_work)
    t.type("\x03")  # ^C
    assert os.WTERMSIG(t.wait_end()) == signal.SIGINT
    assert t.is_restored()


def unmounted():
    """Its argument is a command that unmounts."""
    t = start()
    t.wait_for(lambda s: re.search(r"^0 +up ", s.text(), re.M))
    subprocess.run(sys.argv[4], shell=True, check=True)
    assert t.wait_end() == 0
    assert t.is_restored()
    assert b"unmounted" in t.bytes


def hanging():
    """The server does not answer: it says which call waits."""
    t = start()
    t.wait_for(lambda s: re.search(r"^[A-Z]+ on lane \d+ waits for an answer for \d+ s \(XID 0x", s.text(), re.M), 60)
    t.type("q")
    assert t.wait_end() == 0


globals()[sys.argv[1]]()
