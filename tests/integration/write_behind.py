#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""write_behind.py CASE NFSRDMA SCRATCH: a mount of a scripted server (scripted_server.py) that fails where a real one seldom does,
and what becomes of data whose write(2) has returned.
"""

import errno
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from odd_servers import check, equal, eventually, fails_with, mounted
from scripted_server import *

IO, NOSPC, DQUOT = 5, 28, 69


def errors_of(call, *args):
    try:
        call(*args)
    except OSError as e:
        return e.errno
    return 0


def mapped_write(path, offset, data):
    """The errno of msync. In another process: a page fault would stop the server's threads in this one."""
    program = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
with mmap.mmap(fd, 0) as m:
    m[int(sys.argv[2]):int(sys.argv[2]) + len(sys.argv[3])] = sys.argv[3].encode()
    try:
        m.flush()
    except OSError as e:
        sys.exit(e.errno)
"""
    done = subprocess.run([sys.executable, "-c", program, path, str(offset), data.decode()], timeout=40)
    return done.returncode


class Failing(Server):
    """Takes no WRITE beyond 64 KiB while status is set."""

    status = 0

    def write(self, args):
        where = args.at
        self.node(args)
        offset = args.u64()
        if self.status and offset >= 65536:
            raise Nfs(self.status)
        args.at = where
        return super().write(args)


def error_is_told_once(status, expected):
    server = Failing()
    node = server.make(server.root, b"file", REG, 0o666, bytes(200000))
    with mounted(server) as mount:
        path = mount.path("file")
        writer, other = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
        server.status = status
        equal(os.pwrite(writer, b"lost", 100000), 4, "write(2), which knows nothing yet")
        fails_with(expected, os.fsync, writer)
        equal(errors_of(os.fsync, writer), 0, "the second fsync of the same open file")
        fails_with(expected, os.fsync, other)
        equal(errors_of(os.fsync, other), 0, "the second fsync of the other")
        late = os.open(path, os.O_RDWR)
        equal(errors_of(os.fsync, late), 0, "fsync of a file that was opened after all that")
        # close(2) tells as well.
        os.pwrite(late, b"lost too", 110000)
        fails_with(expected, os.close, late)
        # And msync(2).
        equal(mapped_write(path, 120000, b"lost again"), expected, "what msync gives")
        server.status = 0
        os.pwrite(writer, b"kept", 130000)
        errors_of(os.fsync, writer)
        equal(errors_of(os.fsync, writer), 0, "fsync after the trouble is over")
        os.close(writer)
        fails_with(expected, os.close, other)  # it has not heard of the last two yet
        with server.lock:
            equal(bytes(node.data[130000:130004]), b"kept", "what was written afterwards")


def full_server():
    error_is_told_once(NOSPC, errno.ENOSPC)


def server_over_its_quota():
    error_is_told_once(DQUOT, errno.EDQUOT)


def server_with_a_broken_disk():
    error_is_told_once(IO, errno.EIO)


class Unsettled(Server):
    """Each WRITE and COMMIT brings another verifier, as if the server had restarted before each."""

    settles = False
    verf = 0

    def next_verf(self):
        self.verf += not self.settles
        return self.verf.to_bytes(8, "big")

    def write(self, args):
        return super().write(args)[:-8] + self.next_verf()

    def commit(self, args):
        return super().commit(args)[:-8] + self.next_verf()


def verifier_that_never_settles():
    server = Unsettled()
    with mounted(server) as mount:
        fd = os.open(mount.path("file"), os.O_RDWR | os.O_CREAT)
        os.write(fd, b"in vain")
        fails_with(errno.EIO, os.fsync, fd)
        check(server.calls["write"] < 200, f"{server.calls['write']} WRITEs of the same bytes")
        server.settles = True
        os.pwrite(fd, b"at last", 0)
        equal(errors_of(os.fsync, fd), 0, "fsync when the verifier has settled")
        os.close(fd)
        with server.lock:
            equal(bytes(server.root.names[b"file"].data), b"at last", "the file")


class Forgetful(Server):
    """Has no duplicate request cache: does what is asked, loses the connection instead of answering, and does it again."""

    lose = ""

    def answer(self, message):
        before = collections.Counter(self.calls)
        result = super().answer(message)
        with self.lock:
            if self.lose and self.calls[self.lose] > before[self.lose]:
                self.lose = ""
                raise EOFError
        return result


def calls_run_twice(options):
    """The errno of each call that changes names, when the server runs it twice."""
    server = Forgetful()
    for name in (b"victim", b"old", b"target"):
        server.make(server.root, name)
    server.make(server.root, b"dir", DIR, 0o755)
    with mounted(server, options) as mount:
        got = {}
        for lose, call, *names in (
            ("remove", os.unlink, "victim"),
            ("rmdir", os.rmdir, "dir"),
            ("rename", os.rename, "old", "new"),
            ("mkdir", os.mkdir, "made"),
        ):
            server.lose = lose
            got[lose] = errors_of(call, *map(mount.path, names))
            equal(server.lose, "", f"{lose}: the connection was lost")
        # What is not there was never there, if the call was sent once only.
        fails_with(errno.ENOENT, os.unlink, mount.path("never"))
        return got


def server_without_a_duplicate_request_cache():
    no = errno.ENOENT
    equal(calls_run_twice(""), {"remove": no, "rmdir": no, "rename": no, "mkdir": errno.EEXIST}, "without the option")
    equal(calls_run_twice("nodrc"), {"remove": 0, "rmdir": 0, "rename": 0, "mkdir": errno.EEXIST}, "with nodrc")


def exclusive_create_sent_twice():
    server = Forgetful()

    class S(Forgetful):
        def create(self, args):
            where = args.at
            directory, name = self.child(args)
            how = args.u32()
            verf = args.fixed(8) if how == EXCLUSIVE else None
            node = directory.names.get(name)
            if node and verf and getattr(node, "verf", None) == verf:
                return self.made(directory, directory.pre_attr(), node)
            args.at = where
            body = super().create(args)
            directory.names[name].verf = verf
            return body

    server = S()
    with mounted(server) as mount:
        server.lose = "create"
        os.close(os.open(mount.path("file"), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        equal(server.lose, "", "the connection was lost")
        fails_with(errno.EEXIST, os.open, mount.path("file"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)


class Reordering(Server):
    """Answers a WRITE after the SETATTR that came behind it, or a second later when none comes."""

    hold = False

    def write(self, args):
        body = super().write(args)
        if self.hold:
            self.held = True
        return body

    held = False


class ReorderingPeer(RdmaPeer):
    def __init__(self, server, sock):
        super().__init__(server, sock)
        self.sending, self.kept = threading.RLock(), []

    def flush(self):
        with self.sending:
            kept, self.kept = self.kept, []
            for message in kept:
                super().send(message)

    def send(self, message):
        with self.sending:
            if self.server.held:
                self.server.held = False
                self.kept.append(message)
                threading.Timer(1, self.flush).start()
                return
            super().send(message)
            if self.server.log[-1][0] == "setattr":
                self.flush()


def write_answered_after_a_truncation():
    """What it says of the size is not the last word."""
    import scripted_server

    scripted_server.RdmaPeer = ReorderingPeer
    server = Reordering()
    server.make(server.root, b"file", REG, 0o666, bytes(200000))
    with mounted(server) as mount:
        fd = os.open(mount.path("file"), os.O_RDWR)
        server.hold = True
        os.pwrite(fd, b"x" * 65536, 0)  # of wsize: it leaves at once
        eventually(20, lambda: server.calls["write"] > 0, "no WRITE comes")
        os.ftruncate(fd, 100000)
        equal(os.fstat(fd).st_size, 100000, "the size after the truncation")
        server.hold = False
        os.close(fd)


class Silent(Server):
    """At some time it stops answering WRITEs, though its connections stay."""

    silent = False

    def write(self, args):
        if self.silent:
            raise NoAnswer
        return super().write(args)


class Holder:
    """A process that writes to files and keeps them open: in this one each descriptor would be closed, and the server waited for,
    with each program that is run."""

    PROGRAM = """
import os, sys
for path, data in zip(sys.argv[1::2], sys.argv[2::2]):
    os.write(os.open(path, os.O_WRONLY | os.O_CREAT), data.encode())
print("written", flush=True)
sys.stdin.read()
"""

    def __init__(self, *args):
        command = [sys.executable, "-c", self.PROGRAM, *args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(self.process.stdout.readline(), b"written\n", "what the writer says")

    def end(self):
        self.process.stdin.close()
        self.process.wait(40)


def unsaved_files_are_named():
    """After the unmount the daemon tries for as long as a soft mount would, and then says what it could not save."""
    server = Silent()
    with_log = os.path.join(sys.argv[3], "mnt.log")
    m = mounted(server, "timeo=5,retrans=1").__enter__()
    server.silent = True
    holder = Holder(m.path("precious"), "x" * 1234, m.path("two\nlines"), "y" * 10)
    # Ends what is in progress, and detaches what is in use.
    subprocess.run(["umount", "-f", "-l", m.dir], check=True, timeout=30)
    holder.end()
    equal(m.process.wait(60), 1, "exit status of the daemon")
    log = open(with_log).read()
    for line in ("'precious' (id ", "1234 bytes are not saved", "'two?lines' (id ", "1244 bytes in all"):
        check(line in log, f"the log says nothing of {line}: {log}")


def saved_late():
    """A server that answers in time after the unmount gets all there is."""
    server = Silent()
    m = mounted(server, "timeo=20,retrans=2").__enter__()
    server.silent = True
    holder = Holder(m.path("file"), "late")
    subprocess.run(["umount", "-l", m.dir], check=True, timeout=30)
    holder.end()  # who exits does not wait for the server
    eventually(20, lambda: server.calls["write"] > 1, "no WRITE comes again")
    server.silent = False
    equal(m.process.wait(60), 0, "exit status of the daemon")
    with server.lock:
        equal(bytes(server.root.names[b"file"].data), b"late", "the file")


CASES = {name: value for name, value in globals().items() if callable(value) and getattr(value, "__module__", "") == "__main__"}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
