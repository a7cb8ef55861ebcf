#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A writer whose every byte can be accounted for, and the one who accounts for them.

    kill.py write DIR LOG SEED     writes to two files in DIR, at random places, until LOG.stop exists or a call fails
    kill.py check DIR LOG          compares the files in DIR, as the server has them, with what LOG says

The writer notes in LOG what it is about to do, and what it was promised: that an fsync, an msync or a write with O_DSYNC has
returned. So at any moment each byte of a file must be what was promised for it last, or what a write has put there since: POSIX
lets unpromised writes be lost, one by one, and nothing else. What lies in no write is zero.

LOG is a file of another file system, with one line for each step:
    base FILE                a copy of FILE, as it is now, lies in LOG.FILE
    write FILE OFFSET BYTES N   about to write; its data are pattern(N)
    stable FILE              all of it so far
    stable N                 that write
    error TEXT               a call has failed; the writer ends
"""
import mmap
import os
import random
import sys

FILES = ("one", "two")
LIMIT = 1 << 20


def pattern(n, length):
    return random.Random(n).randbytes(length)


class Writer:
    def __init__(self, directory, log, seed):
        self.rng, self.number = random.Random(seed), seed * 1000000
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.stop = log + ".stop"
        self.fds, self.sync_fds = {}, {}
        for name in FILES:
            path = os.path.join(directory, name)
            self.fds[name] = os.open(path, os.O_RDWR | os.O_CREAT)
            self.sync_fds[name] = os.open(path, os.O_WRONLY | os.O_DSYNC)
            with open(path, "rb") as f, open(f"{log}.{name}", "wb") as copy:
                copy.write(f.read())
            self.note("base", name)

    def note(self, *words):
        os.write(self.log, (" ".join(map(str, words)) + "\n").encode())

    def span(self):
        name = self.rng.choice(FILES)
        size = os.fstat(self.fds[name]).st_size
        if self.rng.random() < 0.3 and size < LIMIT:
            offset = size  # append
        else:
            offset = self.rng.randrange(LIMIT - 1)
        length = self.rng.randrange(1, 1 + self.rng.choice((100, 4096, 70000)))
        self.number += 1
        return name, offset, min(length, LIMIT - offset)

    def begin(self):
        name, offset, length = self.span()
        self.note("write", name, offset, length, self.number)
        return name, offset, pattern(self.number, length)

    def write(self):
        name, offset, data = self.begin()
        assert os.pwrite(self.fds[name], data, offset) == len(data)

    def write_dsync(self):
        name, offset, data = self.begin()
        number = self.number
        assert os.pwrite(self.sync_fds[name], data, offset) == len(data)
        self.note("stable", number)

    def write_mapped(self):
        name, offset, data = self.begin()
        size = os.fstat(self.fds[name]).st_size
        if offset + len(data) > size:
            os.ftruncate(self.fds[name], offset + len(data))
        with mmap.mmap(self.fds[name], LIMIT if size >= LIMIT else max(size, offset + len(data))) as m:
            # A store may raise SIGBUS when the daemon is gone: that ends the writer, which is as good as an error.
            m[offset : offset + len(data)] = data
            m.flush()
        self.note("stable", name)

    def fsync(self):
        name = self.rng.choice(FILES)
        os.fsync(self.fds[name])
        self.note("stable", name)

    def reopen(self):
        name = self.rng.choice(FILES)
        path = os.readlink(f"/proc/self/fd/{self.fds[name]}")
        os.close(self.fds[name])
        self.note("stable", name)  # close has said so
        self.fds[name] = os.open(path, os.O_RDWR)

    def run(self):
        steps = [self.write] * 12 + [self.fsync] * 2 + [self.write_dsync, self.write_mapped, self.reopen]
        while not os.path.exists(self.stop):
            self.rng.choice(steps)()
        for name in FILES:
            os.fsync(self.fds[name])
            self.note("stable", name)


class Account:
    """What one file may be."""

    def __init__(self):
        self.promised, self.since = b"", []  # bytes; (offset, data, number) in order

    def promise(self, offset, data):
        if len(self.promised) < offset + len(data):
            self.promised += bytes(offset + len(data) - len(self.promised))
        self.promised = self.promised[:offset] + data + self.promised[offset + len(data) :]

    def stable(self):
        for offset, data, _ in self.since:
            self.promise(offset, data)
        self.since = []

    def stable_write(self, number):
        """It covers what was written before it; what comes after may cover it."""
        offset, data, _ = next(w for w in self.since if w[2] == number)
        end, older, newer = offset + len(data), [], []
        for o, d, n in self.since:
            if n > number:
                newer.append((o, d, n))
            elif n < number:
                if o < offset:
                    older.append((o, d[: offset - o], n))
                if o + len(d) > end:
                    older.append((max(o, end), d[max(0, end - o) :], n))
        self.promise(offset, data)
        self.since = older + newer

    def explain(self, name, got):
        if len(got) < len(self.promised):
            return f"{name}: {len(got)} bytes are left of {len(self.promised)} that were promised"
        longest = max([len(self.promised)] + [o + len(d) for o, d, _ in self.since])
        if len(got) > longest:
            return f"{name}: {len(got)} bytes, but nobody has written beyond {longest}"
        want = self.promised + bytes(len(got) - len(self.promised))
        if got == want:
            return None
        for i, (g, w) in enumerate(zip(got, want)):
            if g != w and not any(o <= i < o + len(d) and d[i - o] == g for o, d, _ in self.since):
                return f"{name}: byte {i} is {g:#x}; promised is {w:#x}, and no write since explains it"
        return None


def account(log):
    accounts, where = {name: Account() for name in FILES}, {}
    steps = promises = 0
    with open(log) as f:
        for line in f:
            if not line.endswith("\n"):
                break  # it is being written: not begun
            words = line.split()
            steps += 1
            if words[0] == "base":
                with open(f"{log}.{words[1]}", "rb") as copy:
                    accounts[words[1]] = Account()
                    accounts[words[1]].promised = copy.read()
            elif words[0] == "write":
                offset, length, number = map(int, words[2:])
                accounts[words[1]].since.append((offset, pattern(number, length), number))
                where[number] = words[1]
            elif words[0] == "stable":
                promises += 1
                if words[1] in accounts:
                    accounts[words[1]].stable()
                else:
                    accounts[where[int(words[1])]].stable_write(int(words[1]))
    return accounts, steps, promises


def check(directory, log):
    accounts, steps, promises = account(log)
    for name, a in accounts.items():
        with open(os.path.join(directory, name), "rb") as f:
            why = a.explain(name, f.read())
        if why:
            sys.exit(f"kill.py: after {steps} steps and {promises} promises: {why}")
    print(f"{steps} steps, {promises} promises; not promised: {sum(len(a.since) for a in accounts.values())} writes")


def write(directory, log, seed):
    writer = None
    try:
        writer = Writer(directory, log, seed)
        writer.run()
    except OSError as e:
        if writer:
            writer.note("error", e)
        sys.exit(f"kill.py: {e}")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        check(sys.argv[2], sys.argv[3])
