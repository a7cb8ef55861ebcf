#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""faults.py CASE NFSRDMA SCRATCH: a mount of a scripted server (scripted_server.py) that refuses, puts off, forgets or falls
silent, and what a program must be told.

NFSRDMA is built with a clock that stands still until it is moved on from here (test_clock.c), and a server that puts off for
ten seconds does it by the same clock.
"""

import contextlib
import errno
import mmap
import os
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from odd_servers import equal, eventually, read_file
from protection import Mount, check
from scripted_server import *

LNK = 5
JUKEBOX = 10008

# RFC 1813 section 2.6, and what the Linux client makes of each (fs/nfs_common). Where that is a number of the kernel's own that
# no program knows (521 to 528), ours stands behind it.
ERRORS = {
    1: errno.EPERM,
    2: errno.ENOENT,
    5: errno.EIO,
    6: errno.ENXIO,
    13: errno.EACCES,
    17: errno.EEXIST,
    18: errno.EXDEV,
    19: errno.ENODEV,
    20: errno.ENOTDIR,
    21: errno.EISDIR,
    22: errno.EINVAL,
    27: errno.EFBIG,
    28: errno.ENOSPC,
    30: errno.EROFS,
    31: errno.EMLINK,
    63: errno.ENAMETOOLONG,
    66: errno.ENOTEMPTY,
    69: errno.EDQUOT,
    70: errno.ESTALE,
    71: errno.EREMOTE,
    10001: errno.ESTALE,  # BADHANDLE: 521
    10002: errno.EIO,  # NOT_SYNC: 522
    10003: errno.EIO,  # BAD_COOKIE: 523
    10004: errno.EOPNOTSUPP,  # NOTSUPP: 524
    10005: errno.EIO,  # TOOSMALL: 525
    10006: errno.EREMOTEIO,  # SERVERFAULT
    10007: errno.EOPNOTSUPP,  # BADTYPE: 527
    4711: errno.EIO,  # none of the RFC's
}


class Clock:
    """CLOCK_MONOTONIC of the daemons that are started from now on."""

    def __init__(self, path):
        with open(path, "w+b") as f:
            f.write(bytes(8))
            f.flush()
            self.map = mmap.mmap(f.fileno(), 8)
        self.seconds = 0
        self.move(1000)
        os.environ["TEST_CLOCK_FILE"] = path

    def move(self, seconds):
        self.seconds += seconds
        self.map[:] = struct.pack("=Q", int(self.seconds * 1e9))

    def run_until(self, condition, what, step_s=0.25, limit_s=36000):
        """Step by step; the daemon has its turn in between."""
        end = self.seconds + limit_s
        while not condition():
            check(self.seconds < end, f"{what}: not within {limit_s} s")
            self.move(step_s)
            time.sleep(0.006)

    @contextlib.contextmanager
    def running(self):
        over = threading.Event()
        hands = threading.Thread(target=self.run_until, args=(over.is_set, "what goes on"), daemon=True)
        hands.start()
        yield
        over.set()
        hands.join()


class Hostile(Server):
    """What is set here happens to calls of these procedures; verf is the write verifier."""

    def __init__(self):
        self.failing = {}  # name -> status
        self.put_off, self.put_off_until = None, 0  # name, and until when the answer is JUKEBOX
        self.silent, self.silent_once = set(), set()  # names
        self.bend = lambda name, reply: reply
        self.verf = bytes(8)
        self.xids = collections.defaultdict(list)  # name -> those of its calls
        super().__init__()

    def before(self, name):
        if name in self.silent or name in self.silent_once:
            self.silent_once.discard(name)
            raise NoAnswer
        if name == self.put_off and clock.seconds < self.put_off_until:
            raise Nfs(JUKEBOX)
        if name in self.failing:
            raise Nfs(self.failing[name])

    def answer(self, message):
        name = PROCEDURES[struct.unpack_from("!I", message, 20)[0]]
        self.xids[name].append(message[:4])
        body, bulk = super().answer(message)
        return (body and self.bend(name, body)), bulk

    def write(self, args):
        return super().write(args)[:-8] + self.verf

    def commit(self, args):
        return super().commit(args)[:-8] + self.verf

    def symlink(self, args):
        directory, name = self.child(args)
        pre = directory.pre_attr()
        node = self.make(directory, name, LNK, 0o777)
        self.set_attr(node, args)
        node.data[:] = args.opaque()
        return self.made(directory, pre, node)

    def mknod(self, args):
        directory, name = self.child(args)
        pre = directory.pre_attr()
        node = self.make(directory, name, args.u32(), 0o644)
        return self.made(directory, pre, node)


for name in PROCEDURES[1:]:
    inner = getattr(Hostile, name)

    def procedure(self, args, inner=inner, name=name):
        self.before(name)
        return inner(self, args)

    setattr(Hostile, name, procedure)


clock = Clock(os.path.join(sys.argv[3], "clock"))


@contextlib.contextmanager
def mounted(server, options=""):
    nfsrdma, scratch = sys.argv[2:4]
    mount = Mount(nfsrdma, "/faults", scratch, server.rdma_port, server.tcp_port, os.path.join(scratch, "log"), options)
    yield mount
    with clock.running():
        mount.unmount()
    check(server.errors.empty(), "the scripted server has a mistake")


def outcome(function, *args):
    """0, or the errno."""
    try:
        function(*args)
    except OSError as e:
        return e.errno
    return 0


def name_of(error):
    return errno.errorcode.get(error, str(error)) if error else "success"


# ---- each procedure, each status ----


class Try:
    """What a program does so that a procedure is called: once, on things that nothing is known of."""

    def __init__(self, server, mount, number):
        self.server, self.mount, self.number = server, mount, number

    def path(self, what):
        return self.mount.path(f"{what}{self.number}")

    def made(self, what, kind=REG, data=b"data"):
        with self.server.lock:
            self.server.make(self.server.root, f"{what}{self.number}".encode(), kind, 0o755, data)
        return self.path(what)


# Each is a generator: what is made ready, while nothing fails; yield; what calls the procedure.


def on_fd(flags, act):
    def run(t):
        fd = os.open(t.made("file"), flags)
        yield
        try:
            act(fd)
        finally:
            t.server.failing = {}
            outcome(os.close, fd)

    return run


def on_path(kind, act):
    """kind: what is made before, or None."""

    def run(t):
        path = t.path("new") if kind is None else t.made("old", kind)
        yield
        act(path)

    return run


def write_and_sync(fd):
    os.write(fd, b"new data")
    os.fsync(fd)


TRIES = {
    "getattr": on_fd(os.O_RDONLY, os.fstat),
    "setattr": on_path(REG, lambda path: os.chmod(path, 0o600)),
    "lookup": on_path(REG, os.stat),
    "access": on_path(REG, lambda path: os.close(os.open(path, os.O_RDONLY))),
    "readlink": on_path(LNK, os.readlink),
    "read": on_fd(os.O_RDONLY, lambda fd: os.read(fd, 100)),
    "write": on_fd(os.O_WRONLY | os.O_SYNC, lambda fd: os.write(fd, b"new")),
    "create": on_path(None, lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY))),
    "mkdir": on_path(None, os.mkdir),
    "symlink": on_path(None, lambda path: os.symlink("target", path)),
    "mknod": on_path(None, os.mkfifo),
    "remove": on_path(REG, os.unlink),
    "rmdir": on_path(DIR, os.rmdir),
    "rename": on_path(REG, lambda path: os.rename(path, path + ".new")),
    "link": on_path(REG, lambda path: os.link(path, path + ".new")),
    "readdir": on_path(DIR, os.listdir),
    "readdirplus": on_path(DIR, os.listdir),
    "fsstat": on_path(REG, os.statvfs),
    "commit": on_fd(os.O_WRONLY, write_and_sync),
}

# Where a program is told something else, and why.
OTHERWISE = {
    # The kernel believed that there was no such name: it is made to look again, and in the end gives up.
    ("create", 17): errno.ESTALE,
    # Some servers say it so of a directory that is not empty.
    ("rmdir", 17): errno.ENOTEMPTY,
    # The C library takes it for the end of a directory that is gone.
    ("readdir", 2): 0,
    ("readdirplus", 2): 0,
    # Then READDIR is asked.
    ("readdirplus", NOTSUPP): 0,
    ("readdirplus", TOOSMALL): 0,
}


def statuses_of(procedure, how=None):
    """how: tried as for that one instead."""
    server = Hostile()
    wrong = []
    with mounted(server, "noac" + (",nordirplus" if procedure == "readdir" else "")) as mount:
        for status, error in sorted(ERRORS.items(), key=lambda item: item[0] == NOTSUPP):  # which is remembered
            steps = TRIES[how or procedure](Try(server, mount, status))
            next(steps)
            before = server.calls[procedure]
            server.failing = {procedure: status}
            got = outcome(next, steps, None)
            server.failing = {}
            expected = OTHERWISE.get((procedure, status), error)
            if server.calls[procedure] == before:
                wrong.append(f"{status}: the procedure is not called")
            elif got != expected:
                wrong.append(f"{status}: {name_of(got)}, expected {name_of(expected)}")
    check(not wrong, f"{procedure}: " + "; ".join(wrong))


def mount_that_fails(server):
    """What nfsrdma says."""
    where = os.path.join(sys.argv[3], "mnt")
    os.makedirs(where, exist_ok=True)
    options = f"port={server.rdma_port},mountport={server.tcp_port},retry=0"
    done = subprocess.run([sys.argv[2], "127.0.0.1:/faults", where, "-o", options], capture_output=True, text=True, timeout=60)
    check(done.returncode, "mounted all the same")
    return done.stderr


def statuses_of_fsinfo():
    server = Hostile()
    for status, error in ERRORS.items():
        server.failing = {"fsinfo": status}
        said = mount_that_fails(server)
        check(os.strerror(error) in said, f"{status}: expected {os.strerror(error)}, nfsrdma said: {said}")
    equal(server.calls["fsinfo"], len(ERRORS), "FSINFO calls")


def statuses_of_pathconf():
    """It may be missing."""
    server = Hostile()
    for status in ERRORS:
        server.failing = {"pathconf": status}
        with mounted(server) as mount:
            os.stat(mount.dir)
    equal(server.calls["pathconf"], len(ERRORS), "PATHCONF calls")


def each_procedure():
    """(server, mount, procedure, what is to be done), on two mounts: READDIR is not used where there is READDIRPLUS."""
    for options, procedures in (("noac", [p for p in TRIES if p != "readdir"]), ("noac,nordirplus", ["readdir"])):
        server = Hostile()
        with mounted(server, options) as mount:
            for procedure in procedures:
                steps = TRIES[procedure](Try(server, mount, procedure))
                next(steps)
                server.xids.clear()
                yield server, mount, procedure, steps


# ---- not now ----


class Doing(threading.Thread):
    """Something that waits for the server, while the clock is moved on."""

    def __init__(self, function, *args):
        super().__init__(daemon=True)
        self.function, self.args = function, args
        self.outcome = None
        self.start()

    def run(self):
        self.outcome = outcome(self.function, *self.args)

    def is_done(self):
        return self.outcome is not None


def put_off_for_ten_seconds():
    """Each procedure in its turn: it is asked for again, not too often, each time with a new XID, and succeeds."""
    for server, _, procedure, steps in each_procedure():
        server.put_off, server.put_off_until = procedure, clock.seconds + 10
        doing = Doing(next, steps, None)
        clock.run_until(doing.is_done, procedure)
        equal(name_of(doing.outcome), "success", procedure)
        check(clock.seconds >= server.put_off_until, f"{procedure}: there was no need to wait")
        xids = server.xids[procedure]
        equal(len(xids), len(set(xids)), f"{procedure}: XIDs of {len(xids)} calls")
        check(2 <= len(xids) <= 12, f"{procedure}: {len(xids)} calls")


def put_off_while_mounting():
    for procedure in ("getattr", "fsinfo", "pathconf"):
        server = Hostile()
        server.put_off, server.put_off_until = procedure, clock.seconds + 10
        with clock.running():
            mount = contextlib.ExitStack()
            at = mount.enter_context(mounted(server))
        with mount:
            check(clock.seconds >= server.put_off_until, f"{procedure}: there was no need to wait")
            os.stat(at.dir)


def put_off_for_ever_can_be_killed():
    server = Hostile()
    server.make(server.root, b"file", data=b"data")
    with mounted(server, "noac") as mount:
        server.put_off, server.put_off_until = "read", 1e9
        reader = subprocess.Popen(["cat", mount.path("file")], stdout=subprocess.DEVNULL)
        clock.run_until(lambda: len(server.xids["read"]) > 2, "the reader does not read")
        reader.kill()
        clock.run_until(lambda: reader.poll() is not None, "the reader does not die")
        server.put_off = None
        with clock.running():
            equal(read_file(mount.path("file")), b"data", "content")


# ---- changed verifiers ----


def verifier_that_changes_once():
    """What was not committed is sent again, and fsync succeeds."""
    server = Hostile()
    data = os.urandom(200000)
    with mounted(server) as mount:
        fd = os.open(mount.path("file"), os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(fd, data)
        server.silent = {"commit"}
        syncing = Doing(os.fsync, fd)
        eventually(60, lambda: server.calls["commit"], "no COMMIT")
        with server.lock:
            server.verf = b"restart!"
            node = server.root.names[b"file"]
            node.data[:] = bytes(len(node.data))
            server.silent = set()
        clock.run_until(syncing.is_done, "fsync")
        equal(name_of(syncing.outcome), "success", "fsync")
        equal(bytes(node.data), data, "what the server had forgotten")
        os.close(fd)


def never_settles(server):
    """Bounded, told once, and it does not spoil the mount."""
    with mounted(server) as mount:
        fd = os.open(mount.path("file"), os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(fd, b"x" * 100000)
        syncing = Doing(os.fsync, fd)
        clock.run_until(syncing.is_done, "fsync")
        equal(name_of(syncing.outcome), "EIO", "fsync")
        check(server.calls["commit"] < 200, f"{server.calls['commit']} COMMIT calls")
        check(server.calls["write"] < 800, f"{server.calls['write']} WRITE calls")
        server.settled = True
        os.pwrite(fd, b"y" * 100000, 0)
        os.fsync(fd)
        os.close(fd)
        equal(bytes(server.root.names[b"file"].data), b"y" * 100000, "content")


def verifier_that_changes_at_every_commit():
    class S(Hostile):
        settled = False

        def commit(self, args):
            if not self.settled:
                self.verf = u64(self.calls["commit"])
            return super().commit(args)

    never_settles(S())


def verifier_that_changes_at_every_write():
    """COMMIT has yet another."""

    class S(Hostile):
        settled = False

        def write(self, args):
            reply = super().write(args)
            return reply if self.settled else reply[:-8] + u64(self.calls["write"])

    never_settles(S())


# ---- silence ----


def was_sent_once_on_each_connection(server):
    twice = [xid for (_, xid), times in server.transmissions.items() if times > 1]
    check(not twice, f"{len(twice)} calls were sent twice on one connection")


def silence_at_every_procedure():
    """Each in its turn is not answered for a time-out, and then is, on a new connection and with the same XID."""
    for server, _, procedure, steps in each_procedure():
        server.silent_once = {procedure}
        began = clock.seconds
        doing = Doing(next, steps, None)
        eventually(60, lambda: server.xids[procedure], f"{procedure} is not called")
        clock.run_until(doing.is_done, procedure, 2)
        equal(name_of(doing.outcome), "success", procedure)
        check(clock.seconds >= began + 60, f"{procedure}: sent again after {clock.seconds - began} s")
        sent = server.xids[procedure]
        equal(sent.count(sent[0]), 2, f"{procedure}: transmissions of the call that was not answered")
        was_sent_once_on_each_connection(server)


def silence_for_an_hour():
    """A hard mount waits."""
    server = Hostile()
    server.make(server.root, b"file", data=b"data")
    with mounted(server, "noac") as mount:
        fd = os.open(mount.path("file"), os.O_RDONLY)
        server.silent = set(PROCEDURES)
        reading = Doing(os.read, fd, 100)
        began = clock.seconds
        clock.run_until(lambda: clock.seconds >= began + 3600, "an hour", 10)
        check(not reading.is_done(), "an error on a hard mount")
        server.silent = set()
        clock.run_until(reading.is_done, "the reader")
        equal(name_of(reading.outcome), "success", "read")
        os.close(fd)
    was_sent_once_on_each_connection(server)


def silence_for_a_soft_mount():
    for options, error in (("soft", "EIO"), ("softerr", "ETIMEDOUT")):
        server = Hostile()
        server.make(server.root, b"file", data=b"data")
        with mounted(server, f"noac,{options},timeo=100,retrans=2") as mount:
            fd = os.open(mount.path("file"), os.O_RDONLY)
            server.silent = {"read"}
            reading = Doing(os.pread, fd, 100, 0)
            # 30 s for each READ, of which there are two: read-ahead's, and then the reader's own.
            clock.run_until(reading.is_done, options, 0.5, 100)
            equal(name_of(reading.outcome), error, f"read with {options}")
            server.silent = set()
            with clock.running():
                eventually(60, lambda: outcome(os.pread, fd, 100, 0) == 0, "the mount does not work again")
            os.close(fd)
        was_sent_once_on_each_connection(server)


# ---- replies that are none ----


def replies_cut_short():
    """Each procedure's, at every word: EIO, and nothing else happens."""
    for procedure in TRIES:
        server = Hostile()
        with mounted(server, "noac" + (",nordirplus" if procedure == "readdir" else "")) as mount:
            whole = cut = 24
            number = 0
            while cut < whole or number == 0:
                steps = TRIES[procedure](Try(server, mount, number))
                next(steps)
                seen = []

                def bend(name, reply):
                    if name != procedure:
                        return reply
                    seen.append(len(reply))
                    return reply[:cut]

                server.bend = bend
                got = outcome(next, steps, None)
                server.bend = lambda name, reply: reply
                check(seen, f"{procedure} is not called")
                whole = max(seen)
                equal(name_of(got), "EIO", f"{procedure}: {cut} of {whole} bytes")
                cut, number = cut + 4, number + 1


def rpc_refusals():
    rows = (
        ((1, 0, 0, 0, 1), errno.EIO),  # PROG_UNAVAIL
        ((1, 0, 0, 0, 2, 2, 2), errno.EIO),  # PROG_MISMATCH
        ((1, 0, 0, 0, 3), errno.EOPNOTSUPP),  # PROC_UNAVAIL
        ((1, 0, 0, 0, 4), errno.EIO),  # GARBAGE_ARGS
        ((1, 0, 0, 0, 5), errno.EIO),  # SYSTEM_ERR
        ((1, 0, 0, 0, 6), errno.EIO),  # no such accept_stat
        ((1, 1, 0, 2, 2), errno.EIO),  # RPC_MISMATCH
        ((1, 1, 1, 1), errno.EACCES),  # AUTH_BADCRED
        ((1, 1, 1, 5), errno.EACCES),  # AUTH_TOOWEAK
        ((1, 2), errno.EIO),  # no such reply_stat
        ((0, 0, 0, 0, 0), errno.EIO),  # a call
        ((1, 0, 0, 401, 0), errno.EIO),  # a verifier that is too long
        ((1, 0, 0, 0xFFFFFFFF, 0), errno.EIO),
    )
    server = Hostile()
    server.make(server.root, b"file")
    with mounted(server, "noac") as mount:
        fd = os.open(mount.path("file"), os.O_RDONLY)
        for words, error in rows:
            server.bend = lambda name, reply: reply[:4] + u32(*words) if name == "getattr" else reply
            got = outcome(os.fstat, fd)
            server.bend = lambda name, reply: reply
            equal(name_of(got), name_of(error), f"{words}")
        os.fstat(fd)
        os.close(fd)


# ---- answers that make no sense ----


def gives(error, function, *args):
    """The call ends, with that error."""
    doing = Doing(function, *args)
    clock.run_until(doing.is_done, "an answer")
    equal(name_of(doing.outcome), name_of(error), "outcome")


def on_open(flags, *calls):
    """For gives(): a path, opened, and calls of os on it."""

    def act(path):
        fd = os.open(path, flags)
        try:
            for call, *args in calls:
                call(fd, *args)
        finally:
            outcome(os.close, fd)

    return act


def read_of_no_bytes():
    """Before the end, at the beginning or further on: taken for the end, it would cut the file."""

    class S(Hostile):
        def read(self, args):
            node, offset, count = self.node(args), args.u64(), args.u32()
            data = bytes(node.data)[offset : self.stops]
            return node.post_attr() + u32(len(data), 0) + Bulk(data)

    for stops in (0, 5000):
        server = S()
        server.stops = stops
        server.make(server.root, b"file", data=b"x" * 100000)
        with mounted(server) as mount:
            gives(errno.EIO, on_open(os.O_RDONLY | os.O_DIRECT, (os.read, 8192)), mount.path("file"))
        check(server.calls["read"] < 10, f"{server.calls['read']} READ calls")


def write_that_was_not_done():
    """Of no bytes, of more than were sent, or stable in a way that there is not."""

    class S(Hostile):
        def write(self, args):
            return super().write(args)[:-16] + u32(*self.says) + bytes(8)

    sync = (os.O_WRONLY | os.O_SYNC, (os.write, b"data"))
    fsync = (os.O_WRONLY, (os.write, b"data"), (os.fsync,))
    for says in ((0, 0), (5, 0), (2**32 - 1, 2), (4, 3)):
        for act in (sync, fsync):
            server = S()
            server.says = says
            server.make(server.root, b"file")
            with mounted(server) as mount:
                gives(errno.EIO, on_open(*act), mount.path("file"))
            check(server.calls["write"] < 10, f"{server.calls['write']} WRITE calls")


def listing_of_no_names():
    class S(Hostile):
        def readdirplus(self, args):
            return self.node(args).post_attr() + bytes(8) + u32(0, 0)

        readdir = readdirplus

    for options in ("", "nordirplus"):
        server = S()
        with mounted(server, options) as mount:
            gives(errno.EIO, os.listdir, mount.dir)
        check(server.calls["readdir"] + server.calls["readdirplus"] < 10, "asked for ever")


def directory_within_itself():
    """The kernel refuses it, and the mount goes on."""

    class S(Hostile):
        def lookup(self, args):
            directory, name = self.child(args)
            node = self.root if name == b"root" else directory if name == b"self" else directory.names[name]
            return opaque(node.handle) + node.post_attr() + directory.post_attr()

    server = S()
    server.make(server.root, b"sub", DIR, 0o755)
    with mounted(server) as mount:
        gives(errno.EIO, os.stat, mount.path("sub/root"))
        gives(errno.ELOOP, os.stat, mount.path("sub/self"))
        gives(0, os.stat, mount.path("sub"))


def object_of_another_kind():
    class S(Hostile):
        def create(self, args):
            directory, name = self.child(args)
            return self.made(directory, directory.pre_attr(), self.make(directory, name, DIR, 0o755))

        def mkdir(self, args):
            directory, name = self.child(args)
            return self.made(directory, directory.pre_attr(), self.make(directory, name))

    server = S()
    node = server.make(server.root, b"file", data=b"data")
    with mounted(server, "noac") as mount:
        gives(errno.EISDIR, lambda: os.close(os.open(mount.path("new"), os.O_CREAT | os.O_WRONLY)))
        gives(errno.EIO, os.mkdir, mount.path("dir"))

        def become_directory(fd):
            node.kind = DIR

        gives(errno.ESTALE, on_open(os.O_RDONLY, (become_directory,), (os.fstat,)), mount.path("file"))
        gives(0, os.stat, mount.dir)


CASES = {name: value for name, value in globals().items() if callable(value) and getattr(value, "__module__", "") == "__main__"}

if __name__ == "__main__":
    CASES[sys.argv[1]](*sys.argv[4:])
