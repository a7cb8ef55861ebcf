#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""alloc.py FILE [BEFORE]: prints what malloc_attr.so has counted, "object column count" a line; less what BEFORE says."""

import struct
import sys

COLUMNS = ("mallocs", "callocs", "reallocs", "aligneds", "frees", "bytes")
RECORD = struct.Struct("=64s6Q")


def counts(path):
    found = {}
    with open(path, "rb") as f:
        data = f.read()
    for name, *values in RECORD.iter_unpack(data):
        if not name[0]:
            break
        for column, value in zip(COLUMNS, values):
            found[name.rstrip(b"\0").decode(), column] = value
    return found


def main():
    before = {}
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as f:
            for line in f:
                name, column, value = line.split()
                before[name, column] = int(value)
    for (name, column), value in counts(sys.argv[1]).items():
        print(name, column, value - before.get((name, column), 0))


main()
