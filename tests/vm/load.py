#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""load.py write|read FILE CONTROL [soft]: works on FILE until CONTROL/stop appears.

write: round after round, each with other bytes, every 8th block with fsync; at the end one more round, and prints the
SHA-256 of what FILE must hold now. read: reads what one round of write left, never from a cache, and compares each block.
CONTROL/write or CONTROL/read holds two numbers: the operations that went well, those that failed. They may fail on a soft
mount alone, with EIO or ETIMEDOUT, and are then tried again; not in the last round.
"""

import errno
import hashlib
import os
import random
import sys

BLOCK, BLOCKS, SYNC_EVERY = 128 << 10, 32, 8


def block_of(round_number, index):
    data = bytearray(random.Random(1).randbytes(BLOCK))
    for page in range(0, BLOCK, 4096):
        data[page : page + 16] = round_number.to_bytes(8, "big") + (index << 32 | page).to_bytes(8, "big")
    return bytes(data)


class Load:
    def __init__(self, what, path, control, soft):
        self.soft, self.stop, self.counts = soft, os.path.join(control, "stop"), [0, 0]
        self.report = os.open(os.path.join(control, what), os.O_WRONLY | os.O_CREAT, 0o644)
        self.fd = os.open(path, os.O_RDONLY if what == "read" else os.O_WRONLY | os.O_CREAT, 0o644)

    def try_until_done(self, operation, *args, may_fail):
        while True:
            try:
                operation(*args)
                self.counts[0] += 1
                return
            except OSError as e:
                if not may_fail or e.errno not in (errno.EIO, errno.ETIMEDOUT):
                    raise
                self.counts[1] += 1
            finally:
                os.pwrite(self.report, b"%10d %10d\n" % tuple(self.counts), 0)

    def write_block(self, round_number, index):
        view, at = memoryview(block_of(round_number, index)), index * BLOCK
        while view:
            n = os.pwrite(self.fd, view, at)
            view, at = view[n:], at + n

    def read_block(self, index):
        os.posix_fadvise(self.fd, index * BLOCK, BLOCK, os.POSIX_FADV_DONTNEED)
        data, at = b"", index * BLOCK
        while len(data) < BLOCK:
            piece = os.pread(self.fd, BLOCK - len(data), at + len(data))
            assert piece, "the file is too short"
            data += piece
        assert data == block_of(0, index), f"block {index} holds other bytes"

    def write_round(self, round_number, may_fail):
        for index in range(BLOCKS):
            self.try_until_done(self.write_block, round_number, index, may_fail=may_fail)
            if index % SYNC_EVERY == SYNC_EVERY - 1:
                self.try_until_done(os.fsync, self.fd, may_fail=may_fail)

    def write(self):
        round_number = 0
        while not os.path.exists(self.stop):
            self.write_round(round_number, self.soft)
            round_number += 1
        self.write_round(round_number, False)
        os.close(self.fd)
        digest = hashlib.sha256()
        for index in range(BLOCKS):
            digest.update(block_of(round_number, index))
        print(digest.hexdigest())

    def read(self):
        while not os.path.exists(self.stop):
            for index in range(BLOCKS):
                self.try_until_done(self.read_block, index, may_fail=self.soft)
        for index in range(BLOCKS):
            self.read_block(index)


def main():
    load = Load(*sys.argv[1:4], "soft" in sys.argv[4:])
    getattr(load, sys.argv[1])()


main()
