#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fsx_many.py shared   [--seconds N] [--seed N] [--workers N] DIR
fsx_many.py handover [--seconds N] [--seed N] [--workers N] --server DIR DIR DIR

Random reads, writes, truncations and mapped reads and writes by several processes, compared with a model in memory that the
processes share.

shared: all processes work on one file at the same time. It is cut into stripes, of odd lengths, so that a page has parts of
several; each process writes its own stripes only, and knows what must be in them while the others write beside. What
changes the size, and a look at the whole file, one process does while the others pause, keeping their mappings.

handover: the processes work on a few files through two mounts, the two DIRs: one opens a file, checks it, changes it, and
closes it; the next one, as likely as not through the other mount, must find just that. --server is the same directory as
the server has it: NFS tells versions of a file apart by its times, so each is kept for a tick of the server's clock.

Ends with the number of operations, or with what differs and the process's last operations.
"""

import argparse
import contextlib
import ctypes
import fcntl
import mmap
import multiprocessing
import os
import random
import sys
import time

PAGE = 4096


class Different(Exception):
    pass


class Model:
    """The content of one file, in memory that all processes share."""

    def __init__(self, limit):
        self.limit, self.bytes = limit, mmap.mmap(-1, limit)
        self.size_value = multiprocessing.Value("q", 0, lock=False)

    @property
    def size(self):
        return self.size_value.value

    def write(self, offset, data):
        self.bytes[offset : offset + len(data)] = data
        self.size_value.value = max(self.size, offset + len(data))

    def truncate(self, size):
        if size < self.size:
            self.bytes[size : self.size] = bytes(self.size - size)
        self.size_value.value = size

    def compare(self, what, got, offset, length):
        want = self.bytes[offset : min(offset + length, max(self.size, offset))]
        if got == want:
            return
        if len(got) != len(want):
            raise Different(f"{what}: {len(got)} bytes instead of {len(want)}")
        bad = [i for i in range(len(want)) if got[i] != want[i]]
        raise Different(
            f"{what}: {len(bad)} bytes from {offset + bad[0]} to {offset + bad[-1]}: the first is {got[bad[0]]:#x} instead of "
            f"{want[bad[0]]:#x}"
        )


libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Mapping:
    """A shared mapping that may be longer than the file, which Python's own may not."""

    def __init__(self, fd, length):
        self.length = length
        self.address = libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
        if self.address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")

    def read(self, offset, length):
        return ctypes.string_at(self.address + offset, length)

    def write(self, offset, data):
        ctypes.memmove(self.address + offset, data, len(data))

    def close(self):
        libc.munmap(self.address, self.length)


class Worker:
    """What both ways of working have in common: a file, open and mapped, and its model."""

    def __init__(self, number, args):
        self.number, self.rng = number, random.Random(args.seed * 1000 + number)
        self.log, self.count = [], 0
        self.end = time.monotonic() + args.seconds
        self.fd = self.map = None

    def note(self, text):
        self.log.append(text)
        del self.log[:-40]
        self.count += 1

    def open(self, path, model):
        self.path, self.model = path, model
        self.fd = os.open(path, os.O_RDWR)
        self.map = Mapping(self.fd, model.limit)

    def close(self):
        self.map.close()
        os.close(self.fd)
        self.fd = self.map = None

    def reopen(self):
        self.note("reopen")
        self.close()
        self.open(self.path, self.model)

    def span(self, limit):
        """Somewhere below limit; half of the time on page boundaries, for they are where things go wrong."""
        offset = self.rng.randrange(limit)
        length = self.rng.randrange(1, 1 + self.rng.choice((16, PAGE, 65536, self.model.limit // 2)))
        if self.rng.random() < 0.5:
            offset &= -PAGE
            length = (length + PAGE - 1) & -PAGE
        return offset, max(1, min(length, limit - offset))

    @contextlib.contextmanager
    def direct(self):
        fd = os.open(self.path, os.O_RDWR | os.O_DIRECT)
        yield fd
        os.close(fd)

    def read_direct(self, offset, length):
        buffer = mmap.mmap(-1, (length + PAGE - 1) & -PAGE)
        with self.direct() as fd:
            n = os.preadv(fd, [memoryview(buffer)[:length]], offset)
        return buffer[:n]

    def write_all(self, fd, data, offset):
        n = os.pwrite(fd, data, offset)
        if n != len(data):
            raise Different(f"write: {n} bytes taken of {len(data)}")

    # ---- with the file for oneself ----

    def op_write(self):
        offset, length = self.span(self.model.limit)
        self.note(f"write {offset}+{length}")
        data = self.rng.randbytes(length)
        self.write_all(self.fd, data, offset)
        self.model.write(offset, data)

    def op_write_direct(self):
        offset, length = self.span(self.model.limit)
        self.note(f"direct write {offset}+{length}")
        buffer = mmap.mmap(-1, (length + PAGE - 1) & -PAGE)
        buffer[:length] = self.rng.randbytes(length)
        with self.direct() as fd:
            self.write_all(fd, memoryview(buffer)[:length], offset)
        self.model.write(offset, buffer[:length])

    def op_write_mapped(self):
        if self.model.size:
            offset, length = self.span(self.model.size)
            self.note(f"mapped write {offset}+{length}")
            data = self.rng.randbytes(length)
            self.map.write(offset, data)
            self.model.write(offset, data)

    def op_append(self):
        length = self.rng.randrange(1, 9000)
        if self.model.size + length <= self.model.limit:
            self.note(f"append {length} at {self.model.size}")
            data = self.rng.randbytes(length)
            with open(self.path, "ab", buffering=0) as f:
                f.write(data)
            self.model.write(self.model.size, data)

    def op_truncate(self):
        size = self.rng.randrange(self.model.limit)
        self.note(f"truncate {size}")
        if self.rng.random() < 0.5:
            os.ftruncate(self.fd, size)
        else:
            os.truncate(self.path, size)
        self.model.truncate(size)

    def op_rename(self):
        self.note("rename")
        os.rename(self.path, self.path + ".moved")
        os.rename(self.path + ".moved", self.path)

    def op_read(self):
        offset, length = self.span(self.model.limit)
        self.note(f"read {offset}+{length}")
        self.model.compare("read", os.pread(self.fd, length, offset), offset, length)

    def op_forget(self):
        self.note("fsync, forget the cache")
        os.fsync(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def op_whole(self):
        self.note("look at all of it")
        size = os.fstat(self.fd).st_size
        if size != self.model.size:
            raise Different(f"the size is {size} instead of {self.model.size}")
        self.model.compare("read of all", os.pread(self.fd, self.model.limit, 0), 0, self.model.limit)
        self.model.compare("mapped read of all", self.map.read(0, self.model.size), 0, self.model.limit)

    ALONE = (
        [op_write] * 8 + [op_write_mapped] * 8 + [op_write_direct, op_append, op_append, op_forget, op_rename] + [op_truncate] * 4
    ) + [op_read] * 8 + [op_whole] * 3  # fmt: skip


class Room:
    """Many may be in it at the same time, or one alone. Who waits to be alone keeps newcomers out."""

    def __init__(self, path):
        self.path, self.door = path, multiprocessing.Lock()

    def enter(self):
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT)

    @contextlib.contextmanager
    def shared(self):
        with self.door:
            fcntl.flock(self.fd, fcntl.LOCK_SH)
        yield
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def alone(self):
        with self.door:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            yield
            fcntl.flock(self.fd, fcntl.LOCK_UN)


class Shared(Worker):
    def __init__(self, number, args, path, model, room, stripes):
        super().__init__(number, args)
        self.room, self.stripes = room, stripes
        room.enter()
        self.open(path, model)

    def my_stripe(self):
        """One below the end of the file, or None."""
        offset, length = self.rng.choice(self.stripes)
        length = min(length, self.model.size - offset)
        return (offset, length) if length > 0 else None

    def piece(self):
        stripe = self.my_stripe()
        if not stripe:
            return None
        first = self.rng.randrange(stripe[1])
        return stripe[0] + first, self.rng.randrange(1, stripe[1] - first + 1)

    def write_mine(self):
        for _ in range(self.rng.randrange(1, 5)):
            if piece := self.piece():
                data = self.rng.randbytes(piece[1])
                self.note(f"write {piece[0]}+{piece[1]}")
                self.write_all(self.fd, data, piece[0])
                self.model.bytes[piece[0] : sum(piece)] = data

    def write_mine_mapped(self):
        for _ in range(self.rng.randrange(1, 5)):
            if piece := self.piece():
                data = self.rng.randbytes(piece[1])
                self.note(f"mapped write {piece[0]}+{piece[1]}")
                self.map.write(piece[0], data)
                self.model.bytes[piece[0] : sum(piece)] = data

    def look(self, what, read):
        """A read across the stripes of all, of which our own can be judged."""
        if not self.model.size:
            return
        offset, length = self.span(self.model.size)
        self.note(f"{what} {offset}+{length}")
        got = read(offset, length)
        if len(got) != length:
            raise Different(f"{what}: {len(got)} bytes instead of {length}")
        for start, count in self.stripes:
            first, last = max(start, offset), min(start + count, offset + length)
            if first < last:
                self.model.compare(what, got[first - offset : last - offset], first, last - first)

    def look_by_read(self):
        self.look("read", lambda offset, length: os.pread(self.fd, length, offset))

    def look_mapped(self):
        self.look("mapped read", self.map.read)

    def look_direct(self):
        self.look("direct read", self.read_direct)

    TOGETHER = [write_mine] * 8 + [write_mine_mapped] * 8 + [look_by_read] * 8 + [look_mapped] * 8 + [look_direct]
    TOGETHER += [Worker.op_forget, Worker.reopen]  # fmt: skip

    def run(self):
        while time.monotonic() < self.end:
            if self.rng.random() < 0.04:
                with self.room.alone():
                    for _ in range(self.rng.randrange(1, 4)):
                        self.rng.choice(self.ALONE)(self)
            else:
                with self.room.shared():
                    for _ in range(self.rng.randrange(1, 6)):
                        self.rng.choice(self.TOGETHER)(self)
        with self.room.alone():
            self.op_whole()


class Handover(Worker):
    def __init__(self, number, args, models, locks):
        super().__init__(number, args)
        self.dir, self.server = args.dirs[number % len(args.dirs)], args.server
        self.models, self.locks = models, locks

    def wait_for_a_tick(self, name):
        last = os.stat(os.path.join(self.server, name)).st_ctime_ns
        tick = os.path.join(self.server, f"tick{self.number}")
        while True:
            with open(tick, "w"):
                pass
            os.utime(tick)
            if os.stat(tick).st_ctime_ns > last:
                return
            time.sleep(0.001)

    def run(self):
        while time.monotonic() < self.end:
            which = self.rng.randrange(len(self.models))
            with self.locks[which]:
                name = f"file{which}"
                self.note(f"open {self.dir}/{name}")
                self.open(os.path.join(self.dir, name), self.models[which])
                self.op_whole()
                for _ in range(self.rng.randrange(0, 8)):
                    self.rng.choice(self.ALONE)(self)
                self.note("close")
                self.close()
                self.wait_for_a_tick(name)


def run_one(make, counts, number):
    worker = make(number)
    try:
        worker.run()
    except (Different, OSError) as e:
        print(f"fsx_many: process {number}: {type(e).__name__}: {e}; its last operations were:", file=sys.stderr)
        print("".join(f"  {line}\n" for line in worker.log), file=sys.stderr)
        os._exit(1)
    counts[number] = worker.count


def run_all(args, make):
    counts = multiprocessing.Array("q", args.workers)
    workers = [multiprocessing.Process(target=run_one, args=(make, counts, i)) for i in range(args.workers)]
    for w in workers:
        w.start()
    while any(w.exitcode is None for w in workers):
        if any(w.exitcode for w in workers):
            for w in workers:
                w.kill()
        time.sleep(0.05)
    if any(w.exitcode for w in workers):
        sys.exit(f"fsx_many: seed {args.seed}: processes ended with {[w.exitcode for w in workers]}")
    print(f"fsx_many: {args.how}: {sum(counts)} operations of {args.workers} processes in {args.seconds} s, seed {args.seed}")


def shared(args):
    limit = 400000
    path = os.path.join(args.dirs[0], "file")
    open(path, "wb").close()
    os.truncate(path, limit // 2)
    model = Model(limit)
    model.truncate(limit // 2)
    rng, cuts = random.Random(args.seed), [0]
    while cuts[-1] < limit:
        cuts.append(min(limit, cuts[-1] + rng.randrange(1, 9000)))
    stripes = list(zip(cuts, (b - a for a, b in zip(cuts, cuts[1:]))))
    room = Room(os.path.join(args.scratch, "room"))
    run_all(args, lambda i: Shared(i, args, path, model, room, stripes[i :: args.workers]))


def handover(args):
    models, locks = [Model(200000) for _ in range(3)], [multiprocessing.Lock() for _ in range(3)]
    for i in range(3):
        open(os.path.join(args.server, f"file{i}"), "wb").close()
    run_all(args, lambda i: Handover(i, args, models, locks))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=("shared", "handover"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--server")
    parser.add_argument("--scratch", default=".")
    parser.add_argument("dirs", nargs="+")
    args = parser.parse_args()
    {"shared": shared, "handover": handover}[args.how](args)


main()
