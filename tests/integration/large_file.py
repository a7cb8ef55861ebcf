#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""large_file.py write|read FILE MIB: writes data of which no two pieces are alike, or reads it; prints its SHA-256."""

import hashlib
import os
import random
import sys

MIB = 1 << 20


def pieces(mib):
    # Fast to make, and each MiB differs from any other in every 4 KiB page, so that a page in the wrong place shows.
    base = bytearray(random.Random(mib).randbytes(MIB))
    for i in range(mib):
        for page in range(0, MIB, 4096):
            base[page : page + 8] = (i << 32 | page).to_bytes(8, "big")
        yield base


def main():
    what, path, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
    digest = hashlib.sha256()
    if what == "write":
        with open(path, "wb", buffering=0) as f:
            for piece in pieces(mib):
                view = memoryview(piece)
                digest.update(view)
                while view:
                    view = view[f.write(view) :]
            os.fsync(f.fileno())
    else:
        with open(path, "rb", buffering=0) as f:
            while chunk := f.read(MIB):
                digest.update(chunk)
    print(digest.hexdigest())


main()
