#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""prometheus_check.py FILE [NAME=VALUE...]: is this the text exposition format of Prometheus (version 0.0.4), by its
conventions? Stricter than Prometheus itself: HELP and TYPE for each name and before its samples, all samples of a name
together, none twice, base units, counters that count. NAME=VALUE: the samples of that name must add up to it."""

import math
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} (\S+)")
VALUE = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?")
UNITS_REFUSED = re.compile(r"_(ns|us|ms|s|kb|kib|mb|mib|nanoseconds|microseconds|milliseconds|minutes)(_|$)", re.I)


class Bad(Exception):
    """What is wrong, with the line."""


def require(condition, *what):
    if not condition:
        raise Bad(*what)


def family_of(name, types):
    """The name that TYPE was given for."""
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and types.get(base) == "histogram":
            return base
    return name


def check_name(name, kind, line):
    require(name.startswith("nfsrdma_"), "a name without the application's prefix", line)
    require(not UNITS_REFUSED.search(name), "a unit that is no base unit", line)
    require(name == name.lower() and "__" not in name, "no snake_case", line)
    require((kind == "counter") == name.endswith("_total"), "_total is what a counter ends in, and nothing else", line)
    stem = name.removesuffix("_total")
    for unit in ("seconds", "bytes"):
        require(unit not in stem.split("_") or stem.endswith("_" + unit), f"{unit} must come last", line)
    require(kind != "histogram" or stem.endswith("_seconds"), "a histogram without its unit", line)


def check_histogram(name, series):
    """series: label set without le -> {suffix: [(le, value)]}"""
    for labels, parts in series.items():
        where = (name, labels)
        buckets = parts.get("_bucket", [])
        require(buckets and buckets[-1][0] == math.inf, "no bucket for +Inf", *where)
        for (le, n), (next_le, next_n) in zip(buckets, buckets[1:]):
            require(le < next_le, "le does not rise", *where)
            require(n <= next_n, "buckets are not cumulative", *where)
        require(len(parts.get("_sum", [])) == 1 and len(parts.get("_count", [])) == 1, "no sum, or no count", *where)
        require(parts["_count"][0][1] == buckets[-1][1], "the count is not that of all", *where)


def check(text):
    """Returns {name: sum of its samples}."""
    require(text.endswith("\n"), "the last line does not end")
    types, helped, done, seen, sums, histograms = {}, set(), set(), set(), {}, {}
    current = None
    for line in text[:-1].split("\n"):
        comment = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
        if comment:
            what, name, rest = comment.groups()
            require(name not in done and name != current or what == "TYPE", "a name comes again", line)
            if what == "HELP":
                require(name not in helped and not re.search(r"\\(?![\\n])", rest), "HELP twice, or badly escaped", line)
                helped.add(name)
                done.add(current)
                current = name
            else:
                require(name == current and name in helped and name not in types, "TYPE not right behind HELP", line)
                require(rest in ("counter", "gauge", "histogram"), "an unknown type", line)
                types[name] = rest
                check_name(name, rest, line)
            continue
        sample = SAMPLE.fullmatch(line)
        require(sample, "neither a comment nor a sample", line)
        name, labels, value = sample.group(1), sample.group(2), sample.group(len(sample.groups()))
        family = family_of(name, types)
        require(family == current and family in types, "a sample that is not behind its TYPE", line)
        require((name, labels) not in seen, "a sample twice", line)
        seen.add((name, labels))
        pairs = [(m.group(1), m.group(2)) for m in re.finditer(LABEL, labels)]
        require(len({label for label, _ in pairs}) == len(pairs), "a label twice", line)
        require(pairs[0][0] == "mountpoint", "no label says which mount", line)
        require(VALUE.fullmatch(value), "not a number, or a negative one", line)
        if types[family] == "histogram":
            le = [float(v) for label, v in pairs if label == "le"]
            require((len(le) == 1) == name.endswith("_bucket"), "le belongs to buckets", line)
            rest = tuple(p for p in pairs if p[0] != "le")
            parts = histograms.setdefault(family, {}).setdefault(rest, {})
            parts.setdefault(name.removeprefix(family), []).append((le[0] if le else None, float(value)))
        else:
            require(name == family, "a sample of another name", line)
            require(types[family] != "counter" or value.isdigit(), "a counter that does not count", line)
        sums[name] = sums.get(name, 0) + float(value)
    require(set(types) == helped and types, "HELP without TYPE")
    for name, series in histograms.items():
        check_histogram(name, series)
    return sums


def main():
    with open(sys.argv[1], encoding="utf-8", newline="") as f:
        text = f.read()
    try:
        sums = check(text)
        for wanted in sys.argv[2:]:
            name, value = wanted.split("=")
            require(sums.get(name) == float(value), f"{name} is {sums.get(name)}, not {value}")
    except Bad as bad:
        sys.exit(f"prometheus_check: {': '.join(str(a) for a in bad.args)}")
    print(f"{len(sums)} names")


main()
