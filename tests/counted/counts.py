#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""counts.py FILE [BEFORE]: prints what the counting device has counted, "column count" a line; less what BEFORE says."""

import struct
import sys

COLUMNS = (
    "registrations deregistrations windows_made windows_freed binds invalidates remote_invalidates sends"
    " doorbells_with_sends doorbells_without answers violations live_peak"
).split()


def main():
    before = {}
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as f:
            before = {column: int(count) for column, count in (line.split() for line in f)}
    with open(sys.argv[1], "rb") as f:
        values = struct.unpack(f"={len(COLUMNS)}Q", f.read())
    for column, value in zip(COLUMNS, values):
        print(column, value - before.get(column, 0))


main()
