#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fsx.py [--seed N] [--ops N] [--max-bytes N] FILE [OTHER]

Random reads, writes, truncations, mapped reads and writes, syncs and reopenings of FILE, each compared with a model in
memory; the same seed does the same. With OTHER, a second path to the same file (through another mount of it), the work
changes over between the two paths now and then: the one side closes, and from then on the other must see its data.
"""

import argparse
import mmap
import os
import random
import sys


class Run:
    def __init__(self, args):
        self.paths = [args.file] + ([args.other] if args.other else [])
        self.rng = random.Random(args.seed)
        self.max = args.max_bytes
        self.model = bytearray()
        self.log = []
        self.side = 0
        self.fd = os.open(args.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)

    def fail(self, what):
        print("fsx: %s; the last operations were:" % what, file=sys.stderr)
        for line in self.log[-30:]:
            print("  " + line, file=sys.stderr)
        sys.exit(1)

    def compare(self, what, got, offset, length):
        want = bytes(self.model[offset : offset + length])
        if got == want:
            return
        if len(got) != len(want):
            self.fail("%s: %d bytes instead of %d" % (what, len(got), len(want)))
        bad = next(i for i in range(len(want)) if got[i] != want[i])
        self.fail("%s: byte %d is %#x instead of %#x" % (what, offset + bad, got[bad], want[bad]))

    def span(self, limit):
        """Somewhere below limit; half of the time on page boundaries, for they are where things go wrong."""
        offset = self.rng.randrange(limit)
        length = self.rng.randrange(1, 1 + self.rng.choice((16, 4096, 65536, self.max // 2)))
        if self.rng.random() < 0.5:
            offset &= ~4095
            length = (length + 4095) & ~4095
        return offset, max(1, min(length, limit - offset))

    def op_read(self):
        offset, length = self.span(self.max)
        self.log.append("read %d+%d" % (offset, length))
        self.compare("read", os.pread(self.fd, length, offset), offset, length)

    def op_write(self):
        offset, length = self.span(self.max)
        self.log.append("write %d+%d" % (offset, length))
        data = self.rng.randbytes(length)
        n = os.pwrite(self.fd, data, offset)
        if n != length:
            self.fail("write: %d bytes taken of %d" % (n, length))
        if len(self.model) < offset:
            self.model.extend(bytes(offset - len(self.model)))
        self.model[offset : offset + length] = data

    def op_append(self):
        length = self.rng.randrange(1, 5000)
        if len(self.model) + length > self.max:
            return
        self.log.append("append %d" % length)
        data = self.rng.randbytes(length)
        with open(self.paths[self.side], "ab", buffering=0) as f:
            f.write(data)
        self.model.extend(data)

    def op_truncate(self):
        size = self.rng.randrange(self.max)
        self.log.append("truncate %d" % size)
        os.ftruncate(self.fd, size)
        if size < len(self.model):
            del self.model[size:]
        else:
            self.model.extend(bytes(size - len(self.model)))

    def op_mapped_read(self):
        if not self.model:
            return
        offset, length = self.span(len(self.model))
        self.log.append("mapped read %d+%d" % (offset, length))
        with mmap.mmap(self.fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as m:
            if len(m) != len(self.model):
                self.fail("mapped read: the file has %d bytes instead of %d" % (len(m), len(self.model)))
            self.compare("mapped read", m[offset : offset + length], offset, length)

    def op_mapped_write(self):
        if not self.model:
            return
        offset, length = self.span(len(self.model))
        self.log.append("mapped write %d+%d" % (offset, length))
        data = self.rng.randbytes(length)
        with mmap.mmap(self.fd, len(self.model), mmap.MAP_SHARED) as m:
            m[offset : offset + length] = data
            if self.rng.random() < 0.5:
                m.flush()
        self.model[offset : offset + length] = data

    def op_fsync(self):
        self.log.append("fsync")
        os.fsync(self.fd)

    def op_forget(self):
        self.log.append("fsync, forget the cache")
        os.fsync(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def op_size(self):
        size = os.fstat(self.fd).st_size
        self.log.append("size %d" % size)
        if size != len(self.model):
            self.fail("size is %d instead of %d" % (size, len(self.model)))

    def op_reopen(self):
        os.close(self.fd)
        if len(self.paths) > 1 and self.rng.random() < 0.7:
            self.side ^= 1
        self.log.append("reopen %s" % self.paths[self.side])
        self.fd = os.open(self.paths[self.side], os.O_RDWR)
        if len(self.paths) > 1:
            self.op_size()
            self.compare("read after reopening", os.pread(self.fd, self.max, 0), 0, self.max)

    def step(self):
        ops = (
            [self.op_read] * 20
            + [self.op_write] * 20
            + [self.op_mapped_read] * 8
            + [self.op_mapped_write] * 8
            + [self.op_truncate] * 6
            + [self.op_append] * 5
            + [self.op_size] * 5
            + [self.op_fsync, self.op_forget, self.op_reopen, self.op_reopen]
        )
        self.rng.choice(ops)()

    def finish(self):
        os.close(self.fd)
        for path in reversed(self.paths):
            with open(path, "rb") as f:
                self.compare("at the end", f.read(), 0, self.max + 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--max-bytes", type=int, default=400000)
    parser.add_argument("file")
    parser.add_argument("other", nargs="?")
    args = parser.parse_args()
    run = Run(args)
    for i in range(args.ops):
        try:
            run.step()
        except OSError as e:
            run.fail("operation %d: %s" % (i, e))
    run.finish()


main()
