#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mixed load over connections that are cut at random, and eyes on what must stay constant.

    soak.py relay SERVER_PORT PORT_FILE LOSS SEED
        relays connections to SERVER_PORT on loopback, and writes its own port to PORT_FILE. Each piece of a stream that the
        client sends (a few calls, or some data) is with the probability LOSS the last of its connection. On SIGTERM it says how
        many connections there were, and how many it has cut.
    soak.py load DIR SECONDS SEED OUT
        works in DIR and checks all that it reads. No single call may take longer than MAX_CALL_S, not counting what a process
        that only sleeps had to wait for the processor meanwhile. Writes to OUT what it did.
    soak.py watch SECONDS OUT PID...
        notes each second descriptors, threads and resident KiB of the processes.
    soak.py judge OUT
        the notes of `watch`: nothing of the first process may have grown since the first fifth, or in a short run, in which memory is
        touched for the first time until late, the first two thirds. The others keep files open for some seconds: they are
        judged only after a long run, and may have half as much again.
"""
import json
import mmap
import multiprocessing
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
import time

MAX_CALL_S = 5 * float(os.environ.get("TIME_FACTOR", "1"))

# ---- the relay ----


class Relay:
    def __init__(self, server_port, loss, seed):
        self.server_port, self.loss, self.rng = server_port, loss, random.Random(seed)
        self.connections = self.cut = 0
        self.listener = socket.create_server(("127.0.0.1", 0))

    def run(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                client.close()
                continue
            self.connections += 1
            threading.Thread(target=self.pump, args=(client, server), daemon=True).start()

    def pump(self, client, server):
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 18)
                    if not data:
                        return
                    if source is client and self.rng.random() < self.loss:
                        self.cut += 1
                        for sock in (client, server):  # a reset, and not an end in good order
                            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    (server if source is client else client).sendall(data)
        except OSError:
            pass
        finally:
            client.close()
            server.close()


def relay(server_port, port_file, loss, seed):
    r = Relay(int(server_port), float(loss), int(seed))

    def end(*_):
        print(f"{r.connections} connections, {r.cut} cut", flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    with open(port_file + ".new", "w") as f:
        f.write(str(r.listener.getsockname()[1]))
    os.rename(port_file + ".new", port_file)
    r.run()


# ---- the load ----

stalled = multiprocessing.Value("d", 0.0)  # seconds, ever, that a process which only sleeps came too late


def feel_stalls():
    while True:
        begun = time.monotonic()
        time.sleep(0.05)
        late = time.monotonic() - begun - 0.05
        if late > 0.1:
            stalled.value += late


class Worker:
    """One process: steps at random until the time is over; each call is timed."""

    def __init__(self, directory, number, seed):
        self.dir = os.path.join(directory, f"worker{number}")
        self.rng = random.Random(seed * 100 + number)
        self.calls, self.slowest, self.slowest_name = 0, 0.0, ""
        self.do(os.mkdir, self.dir)

    def do(self, call, *args):
        begun, before = time.monotonic(), stalled.value
        result = call(*args)
        took = time.monotonic() - begun - (stalled.value - before)
        self.calls += 1
        if took > self.slowest:
            self.slowest, self.slowest_name = took, call.__name__
        if took > MAX_CALL_S:
            raise AssertionError(f"{call.__name__} took {took:.1f} s")
        return result

    def path(self, name):
        return os.path.join(self.dir, name)

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()
        self.finish()

    def finish(self):
        pass


class RandomAccess(Worker):
    """One file, its model in memory."""

    LIMIT = 2 << 20

    def __init__(self, *args):
        super().__init__(*args)
        self.model = bytearray()
        self.fd = self.do(os.open, self.path("file"), os.O_RDWR | os.O_CREAT)

    def step(self):
        self.rng.choice([self.write] * 6 + [self.read] * 4 + [self.sync, self.truncate, self.reopen, self.mapped])()

    def span(self):
        offset = self.rng.randrange(self.LIMIT)
        return offset, self.rng.randrange(1, 1 + min(self.rng.choice((100, 4096, 300000)), self.LIMIT - offset))

    def put(self, offset, data):
        if len(self.model) < offset:
            self.model += bytes(offset - len(self.model))
        self.model[offset : offset + len(data)] = data

    def write(self):
        offset, length = self.span()
        data = self.rng.randbytes(length)
        assert self.do(os.pwrite, self.fd, data, offset) == length
        self.put(offset, data)

    def read(self):
        offset, length = self.span()
        assert self.do(os.pread, self.fd, length, offset) == self.model[offset : offset + length], "read: other data"

    def sync(self):
        self.do(os.fsync, self.fd)
        self.do(os.posix_fadvise, self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def truncate(self):
        size = self.rng.randrange(self.LIMIT)
        self.do(os.ftruncate, self.fd, size)
        if size < len(self.model):
            del self.model[size:]
        else:
            self.model += bytes(size - len(self.model))
        assert self.do(os.fstat, self.fd).st_size == size, "another size"

    def reopen(self):
        self.do(os.close, self.fd)
        self.fd = self.do(os.open, self.path("file"), os.O_RDWR)

    def mapped(self):
        if not self.model:
            return
        with mmap.mmap(self.fd, len(self.model)) as m:
            offset = self.rng.randrange(len(self.model))
            data = self.rng.randbytes(min(self.rng.randrange(1, 9000), len(self.model) - offset))
            m[offset : offset + len(data)] = data
            self.do(m.flush)
        self.put(offset, data)

    def finish(self):
        self.sync()
        assert self.do(os.pread, self.fd, self.LIMIT, 0) == self.model, "read of all: other data"
        os.close(self.fd)


class Names(Worker):
    """A few names, made and taken away; what is listed must be what is there."""

    def __init__(self, *args):
        super().__init__(*args)
        self.there = {}

    def step(self):
        self.rng.choice([self.make] * 4 + [self.remove] * 2 + [self.rename] * 2 + [self.list, self.look])()

    def make(self):
        name = f"n{self.rng.randrange(60)}"
        data = self.rng.randbytes(self.rng.randrange(3000))
        fd = self.do(os.open, self.path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.do(os.write, fd, data)
        self.do(os.close, fd)
        self.there[name] = data

    def remove(self):
        if self.there:
            name = self.rng.choice(sorted(self.there))
            self.do(os.unlink, self.path(name))
            del self.there[name]

    def rename(self):
        if self.there:
            old, new = self.rng.choice(sorted(self.there)), f"n{self.rng.randrange(60)}"
            self.do(os.rename, self.path(old), self.path(new))
            self.there[new] = self.there.pop(old)

    def list(self):
        assert sorted(self.do(os.listdir, self.dir)) == sorted(self.there), "other names"

    def look(self):
        for name in sorted(self.there)[:5]:
            fd = self.do(os.open, self.path(name), os.O_RDONLY)
            assert self.do(os.read, fd, 4000) == self.there[name], f"{name}: other data"
            self.do(os.close, fd)

    finish = list


class Stream(Worker):
    """A file of some MiB from end to end, and back past the cache."""

    def step(self):
        data = self.rng.randbytes(6 << 20)
        fd = self.do(os.open, self.path("stream"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        piece = self.rng.choice((4096, 65536, 1 << 20))
        for at in range(0, len(data), piece):
            self.do(os.write, fd, data[at : at + piece])
        self.do(os.fsync, fd)
        self.do(os.posix_fadvise, fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for at in range(0, len(data), 1 << 20):
            assert self.do(os.pread, fd, 1 << 20, at) == data[at : at + (1 << 20)], "stream: other data"
        self.do(os.close, fd)


class Direct(Worker):
    """O_DIRECT, which is stable when it returns."""

    def __init__(self, *args):
        super().__init__(*args)
        self.fd = self.do(os.open, self.path("direct"), os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        self.buffer, self.model = memoryview(mmap.mmap(-1, 65536)), bytearray(1 << 20)
        self.do(os.ftruncate, self.fd, 1 << 20)

    def step(self):
        offset = self.rng.randrange(16) * 65536
        if self.rng.random() < 0.5:
            self.buffer[:] = self.model[offset : offset + 65536] = self.rng.randbytes(65536)
            assert self.do(os.pwritev, self.fd, [self.buffer], offset) == 65536
        else:
            assert self.do(os.preadv, self.fd, [self.buffer], offset) == 65536
            assert self.buffer == self.model[offset : offset + 65536], "direct: other data"


KINDS = (RandomAccess, RandomAccess, Names, Names, Stream, Direct)


def work(kind, directory, number, seed, seconds, results):
    worker = kind(directory, number, seed)
    why = None
    try:
        worker.run(seconds)
    except (AssertionError, OSError) as e:
        why = f"{type(e).__name__} {e}"
    results.put((kind.__name__, number, worker.calls, worker.slowest, worker.slowest_name, why))


def load(directory, seconds, seed, out):
    results = multiprocessing.Queue()
    multiprocessing.Process(target=feel_stalls, daemon=True).start()
    for number, kind in enumerate(KINDS):
        multiprocessing.Process(target=work, args=(kind, directory, number, int(seed), float(seconds), results), daemon=True).start()
    said = [results.get(timeout=float(seconds) + 20 * MAX_CALL_S) for _ in KINDS]
    with open(out, "w") as f:
        for kind, number, calls, slowest, name, why in sorted(said, key=lambda s: s[1]):
            print(f"{kind} {number}: {calls} calls, the slowest {slowest:.2f} s ({name}){'; FAILED: ' + why if why else ''}", file=f)
        print(f"the machine itself stood still for {stalled.value:.1f} s in all", file=f)
    sys.exit(1 if any(s[5] for s in said) else 0)


# ---- the eyes ----


def look_at(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    return {
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
        "kib": int(status["VmRSS"].split()[0]),
    }


def watch(seconds, out, *pids):
    end = time.monotonic() + float(seconds)
    with open(out, "w") as f:
        while time.monotonic() < end:
            print(json.dumps({pid: look_at(pid) for pid in pids}), file=f, flush=True)
            time.sleep(1)


def judge(out):
    notes = [json.loads(line) for line in open(out)]
    early_part = len(notes) // 5 if len(notes) >= 60 else len(notes) * 2 // 3
    first, rest = notes[: early_part + 1], notes[len(notes) * 4 // 5 :]
    bad = []
    for place, pid in enumerate(notes[0]):
        for what in ("descriptors", "threads", "kib"):
            early, late = (max(n[pid][what] for n in part) for part in (first, rest))
            allowed = early + 4096 + early // 10 if what == "kib" else early
            if place > 0:
                allowed = early * 3 // 2 if len(notes) >= 300 else late
            print(f"process {pid}: {what} at most {early} in the first {early_part} s, {late} in the last fifth")
            if late > allowed:
                bad.append(f"process {pid}: {what} grew from {early} to {late}")
    if bad:
        sys.exit("soak.py: " + "; ".join(bad))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
