#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""protection.py CASE NFSRDMA EXPORT SCRATCH RDMA_PORT TCP_PORT LOG

A server that misuses the keys that a mount has given it: each misuse must be refused with the right Terminate, leave the
client's memory as it was, and cost no application anything, since the mount connects again and says so.
"""

import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hostile_proxy import READABLE, WRITABLE, Proxy

ARENA = 64 << 20
HUGE = 2 << 20
PROBE = b"This must not be in the memory of the client. " * 4

# (layer, error type, error code). RFC 5041 §7.2 (DDP, layer 1, tagged buffer errors) for RDMA Writes, RFC 5040 §4.8 (RDMAP,
# layer 0, remote protection errors) for RDMA Reads. DDP has no code for a missing right: such an STag is invalid to a Write.
WRITE_BAD_STAG, WRITE_BOUNDS, WRITE_WRAP = (1, 1, 0), (1, 1, 1), (1, 1, 3)
READ_BAD_STAG, READ_BOUNDS, READ_WRAP = (0, 1, 0), (0, 1, 1), (0, 1, 4)
NO_RIGHT = (0, 1, 2)


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


class Mount:
    def __init__(self, nfsrdma, export, scratch, port, tcp_port, log, options="", name="mnt"):
        self.dir, self.log = os.path.join(scratch, name), log
        os.makedirs(self.dir, exist_ok=True)
        self.export = export
        self.process = subprocess.Popen(
            [nfsrdma, f"127.0.0.1:{export}", self.dir, "-f", "-o", f"port={port},mountport={tcp_port},arena=64M,{options}"],
            stdout=open(log, "w"),
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 30
        while not self.mounted():
            check(self.process.poll() is None, f"nfsrdma ended: {open(log).read()}")
            check(time.monotonic() < deadline, "nfsrdma does not mount within 30 s")
            time.sleep(0.02)

    def mounted(self):
        with open("/proc/self/mountinfo") as mounts:
            return any(line.split()[4] == self.dir for line in mounts)

    def path(self, name):
        return os.path.join(self.dir, name)

    def make(self, name, size, seed):
        data = random.Random(seed).randbytes(size)
        with open(os.path.join(self.export, name), "wb") as f:
            f.write(data)
        return data

    def read(self, name):
        """From the server: the cache has never seen it, or is told to forget it."""
        fd = os.open(self.path(name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        with os.fdopen(fd, "rb") as f:
            return f.read()

    def write(self, name, data):
        fd = os.open(self.path(name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        with os.fdopen(fd, "wb", buffering=0) as f:
            f.write(data)
            os.fsync(f.fileno())

    def arenas(self):
        """The payload memory of each lane: that is what a server could reach."""
        found = []
        with open(f"/proc/{self.process.pid}/maps") as maps, open(f"/proc/{self.process.pid}/mem", "rb") as mem:
            for line in maps:
                span, rights = line.split()[:2]
                start, end = (int(part, 16) for part in span.split("-"))
                base = (start + HUGE - 1) // HUGE * HUGE
                if rights.startswith("rw") and len(line.split()) == 5 and end - base >= ARENA and end - start < 2 * ARENA:
                    mem.seek(base)
                    found.append(mem.read(ARENA))
        check(found, "the daemon's arena is not among its mappings")
        return found

    def terminated_lines(self):
        """Of connections, also of those that were misused before their first reply: 'cannot connect'."""
        with open(self.log) as log:
            return [line for line in log if "ended with a Terminate" in line]

    def unmount(self):
        subprocess.run(["umount", self.dir], check=True, timeout=60)
        check(self.process.wait(60) == 0, f"nfsrdma ended with status {self.process.returncode}")


class Test:
    def __init__(self, argv, options=""):
        nfsrdma, export, scratch, rdma_port, tcp_port, log = argv
        self.proxy = Proxy(int(rdma_port))
        self.mount = Mount(nfsrdma, export, scratch, self.proxy.port, tcp_port, log, options)

    def refused(self, connection, expected, what):
        verdict = connection.verdict()
        check(verdict.terminate == expected, f"{what}: expected Terminate {expected}, got {verdict}")
        check(verdict.read_response_bytes == 0, f"{what}: {verdict}")
        print(f"refused: {what}: {verdict}")

    def said_so(self, times):
        deadline = time.monotonic() + 20
        while len(self.mount.terminated_lines()) < times:
            check(time.monotonic() < deadline, f"the log has {self.mount.terminated_lines()}, expected {times} lines")
            time.sleep(0.02)

    def end(self):
        self.mount.unmount()


def during(argv, access, make, expected, what):
    """Misuses a key while it is valid; the request that gave it must succeed all the same."""
    test = Test(argv)
    size = 1 << 20
    wanted = lambda key: key.access == access and key.length >= 65536
    seen = {}

    def build(connection, key):
        seen["arenas"] = test.mount.arenas()
        seen["key"] = key
        return make(connection, key)

    data = test.mount.make("victim", size, 1)
    test.proxy.arm(wanted, build)
    if access == WRITABLE:
        check(test.mount.read("victim") == data, "the file read through the mount differs")
    else:
        test.mount.write("written", data)
        with open(os.path.join(test.mount.export, "written"), "rb") as f:
            check(f.read() == data, "the file written through the mount differs")
    connection, key = test.proxy.attacks.get(timeout=20)
    test.refused(connection, expected, f"{what}, {key}")
    check(not any(PROBE in arena for arena in test.mount.arenas()), "the probe is in the client's arena")
    test.said_so(1)
    check(test.mount.read("victim") == data, "the mount does not work afterwards")
    test.end()


def write_at(offset_of, length=len(PROBE)):
    return lambda connection, key: connection.write_frame(key.handle, offset_of(key), PROBE[:length])


def read_at(offset_of, length=64):
    return lambda connection, key: connection.read_frame(key.handle, offset_of(key), length)


def after_each_reply(argv):
    """Every key that was ever given, after its reply: all of them, by Write and by Read."""
    test = Test(argv, "rsize=65536,wsize=65536")
    data = test.mount.make("victim", 256 << 10, 2)
    check(test.mount.read("victim") == data, "the file read through the mount differs")
    test.mount.write("written", data)
    keys = test.proxy.all_keys()
    check({key.access for key in keys} == {READABLE, WRITABLE} and len(keys) >= 8, f"too few keys: {keys}")
    before = test.mount.arenas()
    for round, key in enumerate(keys):
        for write in (True, False):
            connection = test.proxy.newest()
            if write:
                connection.attack(connection.write_frame(key.handle, key.offset, PROBE))
            else:
                connection.attack(connection.read_frame(key.handle, key.offset, 64))
            test.refused(connection, WRITE_BAD_STAG if write else READ_BAD_STAG, f"{'Write' if write else 'Read'}, {key}")
            test.said_so(min(5, 2 * round + (1 if write else 2)))  # the log is limited in rate
    check(test.mount.arenas() == before, "the client's arena has changed")
    test.proxy.newest()  # the one after the last misuse comes when its pause is over
    check(len(test.proxy.connections) == 2 * len(keys) + 1, "a misuse has not ended its connection")
    check(test.mount.read("victim") == data, "the mount does not work afterwards")
    test.end()


def another_connection(argv):
    """A key that is valid, on the connection that it was not given to."""
    test = Test(argv, "nconnect=2")
    data = test.mount.make("victim", 1 << 20, 3)
    check(test.mount.read("victim") == data, "the file read through the mount differs")
    deadline = time.monotonic() + 20
    while len(test.proxy.connections) < 2:
        check(time.monotonic() < deadline, "the mount has one connection only")
        time.sleep(0.02)
    hit = []

    def foreign(connection, key):
        other = next(c for c in test.proxy.connections if c is not connection and not c.over.is_set())
        other.attack(other.write_frame(key.handle, key.offset, PROBE))
        other.verdict()
        other2 = next(c for c in test.proxy.connections[::-1] if c is not connection)
        hit.append((other, key, test.mount.arenas()))
        return connection.write_frame(key.handle, key.offset + key.length, PROBE)  # ends this one as well: bounds

    test.proxy.arm(lambda key: key.access == WRITABLE and key.length >= 65536, foreign)
    check(test.mount.read("victim") == data, "the file read through the mount differs")
    test.proxy.attacks.get(timeout=20)
    other, key, arenas = hit[0]
    test.refused(other, WRITE_BAD_STAG, f"Write on connection {other.number}, {key}")
    check(not any(PROBE in arena for arena in arenas), "the probe is in the client's arena")
    test.said_so(2)
    check(test.mount.read("victim") == data, "the mount does not work afterwards")
    test.end()


# A window begins at offset 0, so what is before it is at the far end of the 64 bits: an access there wraps around.
START = lambda key: key.offset
BEFORE = lambda key: key.offset - 1
BEHIND = lambda key: key.offset + key.length
LAST = lambda key: key.offset + key.length - 1

CASES = {
    "reads_what_it_may_only_write": lambda argv: during(argv, WRITABLE, read_at(START), NO_RIGHT, "Read of READ data"),
    "writes_what_it_may_only_read": lambda argv: during(argv, READABLE, write_at(START), WRITE_BAD_STAG, "Write to WRITE data"),
    "writes_one_byte_before": lambda argv: during(argv, WRITABLE, write_at(BEFORE, 1), WRITE_WRAP, "Write before"),
    "writes_one_byte_behind": lambda argv: during(argv, WRITABLE, write_at(BEHIND, 1), WRITE_BOUNDS, "Write behind"),
    "writes_across_the_end": lambda argv: during(argv, WRITABLE, write_at(LAST, 2), WRITE_BOUNDS, "Write across the end"),
    "writes_across_the_start": lambda argv: during(argv, WRITABLE, write_at(BEFORE, 2), WRITE_WRAP, "Write across the start"),
    "reads_one_byte_before": lambda argv: during(argv, READABLE, read_at(BEFORE, 1), READ_WRAP, "Read before"),
    "reads_one_byte_behind": lambda argv: during(argv, READABLE, read_at(BEHIND, 1), READ_BOUNDS, "Read behind"),
    "reads_across_the_end": lambda argv: during(argv, READABLE, read_at(LAST, 2), READ_BOUNDS, "Read across the end"),
    "reads_across_the_start": lambda argv: during(argv, READABLE, read_at(BEFORE, 2), READ_WRAP, "Read across the start"),
    "uses_every_key_after_its_reply": after_each_reply,
    "uses_a_key_of_another_connection": another_connection,
}

if __name__ == "__main__":
    CASES[sys.argv[1]](sys.argv[2:])
