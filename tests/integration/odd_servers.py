#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""odd_servers.py CASE NFSRDMA SCRATCH: one mount of a scripted server (scripted_server.py), and what must come of it.

A case is a function; its first lines say what the server is like, the rest what must hold.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from protection import Mount, check
from scripted_server import *


@contextlib.contextmanager
def mounted(server, options="", above=None, name="mnt"):
    nfsrdma, scratch = sys.argv[2:4]
    log = os.path.join(scratch, name + ".log")
    mount = Mount(nfsrdma, "/odd", above or scratch, server.rdma_port, server.tcp_port, log, options, name)
    yield mount
    mount.unmount()
    check(server.errors.empty(), "the scripted server has a mistake")


def fails_with(expected, function, *args):
    try:
        got = function(*args)
    except OSError as e:
        check(e.errno == expected, f"{function.__name__}{args}: {os.strerror(e.errno)}, expected {os.strerror(expected)}")
    else:
        check(False, f"{function.__name__}{args} gave {got!r}, expected {os.strerror(expected)}")


def equal(got, expected, what):
    check(got == expected, f"{what}: expected {expected!r}, got {got!r}")


def read_file(path):
    with open(path, "rb", buffering=0) as f:
        return f.read()


def eventually(limit_s, condition, what):
    deadline = time.monotonic() + limit_s
    while not condition():
        check(time.monotonic() < deadline, what)
        time.sleep(0.05)


libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
libc.memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def getdents(fd, room):
    """One getdents64(2): a list of (name, d_ino, d_off, d_type)."""
    buffer = ctypes.create_string_buffer(room)
    n = libc.syscall(217, fd, buffer, room)
    if n < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    found, at = [], 0
    while at < n:
        ino, off, length, kind = struct.unpack_from("=QqHB", buffer, at)
        name = buffer.raw[at + 19 : at + length].split(b"\0")[0]
        found.append((name, ino, off, kind))
        at += length
    return found


def names_of(count):
    return [b"name %05d" % i for i in range(count)]


def fill(server, count):
    for name in names_of(count):
        server.make(server.root, name, REG, 0o644, name)


def lists_all(mount, server):
    """Listed by names alone and with attributes, each name comes once; and each file can be looked at."""
    want = sorted(server.root.names)
    equal(sorted(os.listdir(os.fsencode(mount.dir))), want, "names")
    with os.scandir(os.fsencode(mount.dir)) as entries:
        equal(sorted((e.name, e.stat(follow_symlinks=False).st_size) for e in entries), [(n, len(n)) for n in want], "sizes")


# ---- procedures that a server lacks ----


def without_exclusive_create():
    class S(Server):
        def create(self, args):
            where = args.at
            self.child(args)
            if args.u32() == EXCLUSIVE:
                raise Nfs(NOTSUPP)
            args.at = where
            return super().create(args)

    server = S()
    with mounted(server) as mount:
        for name in ("first", "second"):
            fd = os.open(mount.path(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
            os.write(fd, b"data")
            os.close(fd)
            equal(os.stat(mount.path(name)).st_mode & 0o7777, 0o640, "mode")
            fails_with(errno.EEXIST, os.open, mount.path(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    equal(server.calls["create"], 3, "CREATE calls: exclusively once, and then no more")


def without_readdirplus():
    class S(Server):
        def readdirplus(self, args):
            raise Nfs(NOTSUPP)

    server = S()
    fill(server, 500)
    with mounted(server) as mount:
        lists_all(mount, server)
        lists_all(mount, server)
    equal(server.calls["readdirplus"], 1, "READDIRPLUS calls")


def that_has_never_heard_of_readdirplus():
    class S(Server):
        def readdirplus(self, args):
            raise ProcedureUnavailable

    server = S()
    fill(server, 500)
    with mounted(server) as mount:
        lists_all(mount, server)
    equal(server.calls["readdirplus"], 1, "READDIRPLUS calls")


def create_without_handle_and_attributes():
    class S(Server):
        def made(self, directory, pre, node):
            return u32(0, 0, 0, 0)

        def lookup(self, args):
            directory, name = self.child(args)
            if name not in directory.names:
                raise Nfs(NOENT)
            return opaque(directory.names[name].handle) + u32(0, 0)

        def write(self, args):
            super().write(args)
            return u32(0, 0, 4, 2) + bytes(8)

    server = S()
    with mounted(server) as mount:
        with open(mount.path("file"), "wb", buffering=0) as f:
            f.write(b"data")
        os.mkdir(mount.path("directory"))
        equal(os.stat(mount.path("file")).st_size, 4, "size")
        equal(read_file(mount.path("file")), b"data", "content")
        check(os.path.isdir(mount.path("directory")), "the directory is none")


# ---- listings ----


def listing_cookies_that_need_a_zero_verifier():
    class S(Server):


        def check_cookie(self, directory, cookie, verf):
            if cookie and verf != bytes(8):
                raise Nfs(BAD_COOKIE)
            self.listing_verf = b"verifier"

    server = S()
    fill(server, 500)
    with mounted(server) as mount:
        lists_all(mount, server)


def listing_cookies_that_end_with_each_change():
    """Then a listing goes on from the beginning, behind the entry that it had come to."""

    class S(Server):
        def check_cookie(self, directory, cookie, verf):
            self.listing_verf = u64(directory.mtime)
            if cookie and verf != self.listing_verf:
                raise Nfs(BAD_COOKIE)

    server = S()
    fill(server, 500)
    with mounted(server) as mount:
        fd = os.open(mount.dir, os.O_RDONLY)
        got = []
        while True:
            some = getdents(fd, 4096)
            if not some:
                break
            got += [name for name, *_ in some]
            with server.lock:
                server.make(server.root, b"new %03d" % len(got))
        os.close(fd)
        equal(len(got), len(set(got)), "names, each counted once")
        check(set(names_of(500)) <= set(got), "entries that stayed were left out")


def listing_place_that_is_lost():
    """The entry at which a listing had come is gone, and its cookie with it: an error, not a listing that lacks names."""

    class S(Server):
        def check_cookie(self, directory, cookie, verf):
            if cookie and cookie not in directory.cookies.values():
                raise Nfs(BAD_COOKIE)

    server = S()
    fill(server, 2000)
    with mounted(server) as mount:
        fd = os.open(mount.dir, os.O_RDONLY)
        getdents(fd, 4096)
        with server.lock:
            for name in names_of(1900):
                server.leave(server.root, name)

        def rest():
            while getdents(fd, 65536):
                pass

        fails_with(errno.EIO, rest)
        os.close(fd)
        equal(len(os.listdir(mount.dir)), 100, "names in a fresh listing")


def listing_that_needs_more_room():
    class S(Server):
        def list(self, args, plus):
            where = args.at
            self.node(args), args.fixed(16), args.u32()
            if (args.u32() if plus else 65536) < 30000:
                raise Nfs(TOOSMALL)
            args.at = where
            return super().list(args, plus)

    server = S()
    fill(server, 500)
    with mounted(server) as mount:
        lists_all(mount, server)
    equal(server.calls["readdir"], 0, "READDIR calls")


def listing_with_attributes_that_never_has_room():
    class S(Server):
        def readdirplus(self, args):
            raise Nfs(TOOSMALL)

    server = S()
    fill(server, 500)
    with mounted(server) as mount:
        lists_all(mount, server)


def listing_entries_without(attributes, handles):
    class S(Server):
        def entry_attr(self, directory, name, node):
            lacks = name[-1:] in b"02468"
            attr = u32(0) if lacks and not attributes else node.post_attr()
            return attr + (u32(0) if lacks and not handles else u32(1) + opaque(node.handle))

    server = S()
    fill(server, 500)
    with mounted(server) as mount:
        lists_all(mount, server)


def listing_in_a_circle():
    class S(Server):
        def entries(self, directory, cookie):
            return [(b"round %d" % i, 1 + i % 300, directory.names[b"x"]) for i in range(cookie % 300, cookie % 300 + 50)]

        def list(self, args, plus):
            return super().list(args, plus)[:-4] + u32(0)  # never the end

    server = S()
    server.make(server.root, b"x")
    with mounted(server) as mount:
        fails_with(errno.EIO, os.listdir, mount.dir)
        check(server.calls["readdirplus"] < 100, "the circle was gone round %d times" % server.calls["readdirplus"])
    check("goes round in a circle" in open(mount.log).read(), "the log does not say so")


def listing_that_starts_small_and_grows():
    server = Server()
    server.dtpref = 50000
    fill(server, 3000)
    with mounted(server) as mount:
        equal(len(os.listdir(mount.dir)), 3000, "names")
    rooms = [what[2] for what in server.log if what[0] == "readdirplus"]
    equal(rooms[:4], [8192, 16384, 32768, 50000], "bytes asked for")
    equal(set(rooms[3:]), {50000}, "bytes asked for at the end")


def listing_that_outlives_a_name():
    """A name that went away behind the place that a listing has come to is not brought back by it."""
    server = Server()
    fill(server, 200)
    with mounted(server) as mount:
        last = names_of(200)[30]
        fd = os.open(mount.dir, os.O_RDONLY)
        got = getdents(fd, 4096)
        check(last not in [name for name, *_ in got], "the kernel has taken all at once")
        os.rename(os.fsencode(mount.dir) + b"/" + last, mount.path("renamed"))
        while some := getdents(fd, 4096):
            got += some
        os.close(fd)
        fails_with(errno.ENOENT, os.stat, os.fsencode(mount.dir) + b"/" + last)
        equal({name for name, *_ in got} - {last, b"renamed"}, set(names_of(200)) - {last}, "names that stayed")


def listing_places_that_use_all_64_bits():
    server = Server()
    server.root.next_cookie = 2**64 - 600
    fill(server, 500)
    with mounted(server) as mount:
        lists_all(mount, server)


# ---- sizes ----


def small_transfer_sizes():
    class S(Server):
        def read(self, args):
            where = args.at
            self.node(args), args.u64()
            if args.u32() > self.rtmax:
                raise Nfs(INVAL)
            args.at = where
            return super().read(args)

        def write(self, args):
            where = args.at
            self.node(args), args.u64()
            if args.u32() > self.wtmax:
                raise Nfs(INVAL)
            args.at = where
            return super().write(args)

    server = S()
    server.rtmax, server.wtmax, server.dtpref = 1000, 700, 512
    fill(server, 100)
    with mounted(server) as mount:
        data = os.urandom(10000)
        mount.write("file", data)
        equal(bytes(server.root.names[b"file"].data), data, "what the server has")
        equal(mount.read("file"), data, "what is read")
        equal(len(os.listdir(mount.dir)), 101, "names")


def answers_that_are_shorter_than_asked():
    class S(Server):
        def content(self, node, offset, count):
            return super().content(node, offset, min(count, 3000))

        def write(self, args):
            self.wtmax = 700
            return super().write(args)

    server = S()
    with mounted(server) as mount:
        data = os.urandom(40000)
        mount.write("file", data)
        equal(bytes(server.root.names[b"file"].data), data, "what the server has")
        equal(mount.read("file"), data, "what is read")


def transfer_sizes_of_four_gigabytes():
    server = Server()
    server.rtmax = server.wtmax = server.dtpref = 2**32 - 1
    with mounted(server) as mount:
        data = os.urandom(300000)
        mount.write("file", data)
        equal(mount.read("file"), data, "what is read")
        equal(len(os.listdir(mount.dir)), 1, "names")


def transfer_sizes_unsaid():
    class S(Server):
        def fsinfo(self, args):
            return self.node(args).post_attr() + u32(0, 0, 0, 0, 0, 0, 0) + u64(0) + u32(0, 1, 0x1B)

    server = S()
    with mounted(server) as mount:
        data = os.urandom(100000)
        mount.write("file", data)
        equal(mount.read("file"), data, "what is read")


def file_system_without_bounds():
    server = Server()
    server.fsstat_words = (2**64 - 1,) * 6
    with mounted(server) as mount:
        st = os.statvfs(mount.dir)
        equal((st.f_frsize, st.f_blocks, st.f_bavail), (4096, 2**52, 2**52 - 1), "blocks")
        equal((st.f_files % 2**64, st.f_ffree % 2**64), (2**64 - 1,) * 2, "files")
        subprocess.run(["df", "-h", mount.dir], check=True, stdout=subprocess.DEVNULL)


def file_system_of_1000_bytes():
    server = Server()
    server.fsstat_words = (1000, 999, 998, 3, 2, 1)
    with mounted(server) as mount:
        st = os.statvfs(mount.dir)
        equal((st.f_blocks, st.f_bfree, st.f_bavail), (1, 0, 0), "blocks: there is a file system, and no room for a block")
        equal((st.f_files, st.f_ffree), (3, 2), "files")


class Huge(Server):
    """Files that say at each place where it is."""

    def content(self, node, offset, count):
        if node.size is None:
            return super().content(node, offset, count)
        count = min(count, node.size - offset)
        first = offset // 16
        return b"".join(b"%016x" % i for i in range(first, (offset + count) // 16 + 1))[offset % 16 :][:count]


def file_of_the_largest_size():
    server = Huge()
    node = server.make(server.root, b"huge")
    node.size, node.used = 2**63 - 1, 12345
    with mounted(server) as mount:
        st = os.stat(mount.path("huge"))
        equal((st.st_size, st.st_blocks), (2**63 - 1, 25), "size and blocks")
        fd = os.open(mount.path("huge"), os.O_RDWR)
        for offset in (2**32 - 5, 2**62, 2**63 - 4097, 2**63 - 101):
            equal(os.pread(fd, 100, offset), server.content(node, offset, 100), f"at {offset}")
        equal(os.lseek(fd, 0, os.SEEK_END), 2**63 - 1, "SEEK_END")
        fails_with(errno.EINVAL, os.lseek, fd, 1, os.SEEK_END)
        fails_with(errno.EINVAL, os.pwrite, fd, b"beyond", 2**63 - 1)
        os.close(fd)


def file_beyond_the_largest_size():
    server = Huge()
    server.maxfilesize = 2**64 - 1
    server.make(server.root, b"huge").size = 2**64 - 1
    with mounted(server) as mount:
        equal(os.stat(mount.path("huge")).st_size, 2**63 - 1, "size")
        fd = os.open(mount.path("huge"), os.O_RDONLY)
        equal(os.pread(fd, 100, 2**63 - 200), server.content(server.root.names[b"huge"], 2**63 - 200, 100), "content")
        os.close(fd)


def largest_size_of_the_server():
    server = Server()
    server.maxfilesize = 1 << 20
    with mounted(server) as mount:
        fd = os.open(mount.path("file"), os.O_CREAT | os.O_RDWR)
        fails_with(errno.EFBIG, os.ftruncate, fd, (1 << 20) + 1)
        os.ftruncate(fd, 1 << 20)
        fails_with(errno.EFBIG, os.pwrite, fd, b"x", 1 << 20)
        equal(os.pwrite(fd, b"four", (1 << 20) - 2), 2, "bytes of a write across the limit")
        os.close(fd)
        equal(len(server.root.names[b"file"].data), 1 << 20, "size at the server")


# ---- identity ----


def file_replaced_under_a_cached_name():
    server = Server()
    server.make(server.root, b"file", data=b"old")
    with mounted(server) as mount:
        equal(read_file(mount.path("file")), b"old", "content")
        with server.lock:
            server.forget(server.leave(server.root, b"file"))
            server.make(server.root, b"file", data=b"new!", mode=0o600)
        equal(read_file(mount.path("file")), b"new!", "content of the new file under the old name")
        equal(os.stat(mount.path("file")).st_size, 4, "size")
        with server.lock:
            server.forget(server.leave(server.root, b"file"))
            server.make(server.root, b"file", data=b"newer")
        os.chmod(mount.path("file"), 0o640)
        equal(server.root.names[b"file"].mode, 0o640, "mode of the newest file")
        with server.lock:
            server.forget(server.leave(server.root, b"file"))
        fails_with(errno.ENOENT, os.open, mount.path("file"), os.O_RDONLY)


def directory_replaced_above_a_cached_name():
    server = Server()
    old = server.make(server.root, b"directory", DIR, 0o755)
    server.make(old, b"file", data=b"old")
    with mounted(server) as mount:
        equal(read_file(mount.path("directory/file")), b"old", "content")
        with server.lock:
            server.forget(old.names[b"file"])
            server.forget(server.leave(server.root, b"directory"))
            new = server.make(server.root, b"directory", DIR, 0o755)
            server.make(new, b"file", data=b"new!")
        equal(read_file(mount.path("directory/file")), b"new!", "content below the new directory")
        os.mkdir(mount.path("directory/made"))
        check(b"made" in new.names, "a directory was made elsewhere")


def file_replaced_and_still_there():
    """A server keeps a file that has no name any more, for somebody has it open: its handle works, with link count 0."""
    server = Server()
    server.make(server.root, b"file", data=b"old")
    with mounted(server, "acregmin=1,acregmax=1,acdirmin=600,acdirmax=600") as mount:
        with open(mount.path("file"), "rb", buffering=0) as held:
            equal(held.read(), b"old", "content")
            with server.lock:
                server.leave(server.root, b"file").nlink = 0
                server.make(server.root, b"file", data=b"new!")
            equal(read_file(mount.path("file")), b"new!", "content of the new file under the old name")
            held.seek(0)
            equal(held.read(), b"old", "what the open file holds")
            equal(read_file(f"/proc/self/fd/{held.fileno()}"), b"old", "what the open file holds, opened once more")
            equal(os.fstat(held.fileno()).st_size, 3, "size of the open file")
        with server.lock:
            server.leave(server.root, b"file").nlink = 0
            server.make(server.root, b"file", data=b"the third")
        eventually(20, lambda: os.stat(mount.path("file")).st_size == 9, "stat(2) never shows the new file")


def handle_used_again():
    """The handle of a removed file comes to mean another one."""
    server = Server()
    old = server.make(server.root, b"old", data=b"old content")
    with mounted(server) as mount:
        fd = os.open(mount.path("old"), os.O_RDONLY)
        equal(os.pread(fd, 100, 0), b"old content", "content")
        with server.lock:
            server.forget(server.leave(server.root, b"old"))
            new = server.make(server.root, b"new", data=b"of another file")
            del server.handles[new.handle]
            new.handle = old.handle
            server.handles[new.handle] = new
        equal(read_file(mount.path("new")), b"of another file", "content of the new file")
        fails_with(errno.ENOENT, os.open, mount.path("old"), os.O_RDONLY)
        check(os.fstat(fd).st_ino != os.stat(mount.path("new")).st_ino, "the open file has become the new one")
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        fails_with(errno.ESTALE, os.pread, fd, 100, 0)
        os.close(fd)


def file_systems_within_the_export():
    """One that begins with the same file number as the export's root, and a file mounted over another."""
    server = Server()
    outer = server.make(server.root, b"outer", data=b"outer")
    nested = server.make(server.root, b"nested", DIR, 0o755)
    nested.fsid, nested.fileid = 2, server.root.fileid
    server.make(nested, b"inner").fsid = 2
    over = server.make(server.root, b"over", data=b"other")
    over.fsid, over.fileid = 3, outer.fileid
    over.nlink = outer.nlink = 2
    with mounted(server) as mount:
        equal(sorted(os.listdir(mount.dir)), ["nested", "outer", "over"], "names")
        numbers = {os.stat(mount.path(name)).st_ino for name in (".", "nested", "outer", "over")}
        equal(len(numbers), 4, "file numbers, each of another file")
        equal(os.stat(mount.dir).st_ino, server.root.fileid, "the root's file number")
        for attempt in (os.listdir, lambda d: os.open(d + "/inner", os.O_RDONLY), lambda d: os.mkdir(d + "/new")):
            fails_with(errno.EXDEV, attempt, mount.path("nested"))
        copy = os.path.join(sys.argv[3], "copy")
        run = lambda *command: subprocess.run(command, capture_output=True, text=True, timeout=60)
        said = run("find", mount.dir).stderr
        check("loop" not in said, f"find is fooled: {said}")
        equal(run("find", mount.dir, "-samefile", mount.path("outer")).stdout.split(), [mount.path("outer")], "find -samefile")
        run("cp", "-a", mount.dir, copy)
        equal(read_file(copy + "/over"), b"other", "what cp -a has made of the file mounted over another")
        said = open(mount.log).read()
        equal(said.count("is another file system of the server's"), 1, "lines about it in the log")
        with mounted(Server(), above=mount.dir, name="nested"):
            with open(mount.path("nested/file"), "w") as f:
                f.write("inner")
            os.link(mount.path("nested/file"), mount.path("nested/link"))
            check(os.stat(mount.path("nested")).st_dev != os.stat(mount.dir).st_dev, "one device number for two file systems")
            equal(run("find", mount.dir, "-xdev", "-name", "file").stdout, "", "find -xdev")
            run("cp", "-a", mount.dir, copy + ".both").check_returncode()
            equal(read_file(copy + ".both/nested/link"), b"inner", "what lies in the nested one, copied")
            equal(os.stat(copy + ".both/nested/link").st_nlink, 2, "links of the copy")
            fails_with(errno.EXDEV, os.link, mount.path("outer"), mount.path("nested/outer"))


# ---- caches ----


def own_changes_keep_the_cache():
    server = Server()
    server.make(server.root, b"file", data=bytes(1 << 18))
    with mounted(server) as mount:

        def rereads_without_the_server(what):
            before = server.calls["read"]
            check(len(read_file(mount.path("file"))) >= 1 << 18, "the file is short")
            equal(server.calls["read"] - before, 0, f"READ calls after {what}")

        def write():
            with open(mount.path("file"), "r+b", buffering=0) as f:
                f.write(b"ours")

        def append():
            with open(mount.path("file"), "ab", buffering=0) as f:
                f.write(b"x" * 4096)

        def rename_while_open():
            with open(mount.path("file"), "r+b", buffering=0) as f:
                os.rename(mount.path("file"), mount.path("other"))
                os.rename(mount.path("other"), mount.path("file"))
                f.write(b"ours")

        def link():
            os.link(mount.path("file"), mount.path("second"))
            os.unlink(mount.path("second"))

        read_file(mount.path("file"))
        rereads_without_the_server("nothing")
        for change in (write, append, rename_while_open, link, write, lambda: os.chmod(mount.path("file"), 0o600), write):
            change()
            rereads_without_the_server(getattr(change, "__name__", "?"))


def others_changes_are_seen_by_who_has_the_file_open():
    """At the latest when its attributes' time is over, as read(2) of the kernel's client does."""
    server = Server()
    node = server.make(server.root, b"file", data=b"before" * 2000)
    with mounted(server, "acregmin=1,acregmax=1") as mount:
        fd = os.open(mount.path("file"), os.O_RDONLY)
        equal(os.pread(fd, 6, 0), b"before", "content")
        address = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)

        def mapped():
            """Not by Python's own hands, which it would keep tied while the page is fetched, from a server in this process."""
            buffer = ctypes.create_string_buffer(6)
            libc.memcpy(buffer, address, 6)
            return buffer.raw

        equal(mapped(), b"before", "mapped content")
        with server.lock:
            server.change(node, b"AFTER." * 2000)
        eventually(20, lambda: mapped() == b"AFTER.", "the change is never seen by who maps it")
        equal(os.pread(fd, 6, 0), b"AFTER.", "content")
        with server.lock:
            server.change(node, b"longer" * 4000)
        eventually(20, lambda: os.pread(fd, 6, 0) == b"longer", "the longer content is never seen")
        equal(os.pread(fd, 6, 18000), b"longer", "what was added")
        with server.lock:
            server.change(node, b"short")
        eventually(20, lambda: os.pread(fd, 6, 0) == b"short", "the shorter content is never seen")
        with server.lock:
            server.forget(server.leave(server.root, b"file"))

        def is_stale():
            try:
                return os.pread(fd, 6, 0) and False
            except OSError as e:
                return e.errno == errno.ESTALE

        eventually(20, is_stale, "it is never seen that the file is gone")
        libc.munmap(address, 4096)
        os.close(fd)


def question_about_an_open_file_that_is_never_answered():
    """Nobody waits for it: neither who closes the file nor, longer than for any call, the end of the mount."""

    class S(Server):
        silent = False

        def getattr(self, args):
            if self.silent:
                raise NoAnswer
            return super().getattr(args)

    server = S()
    server.make(server.root, b"file", data=b"content")
    with mounted(server, "timeo=30,acregmin=1,acregmax=1,acdirmin=600,acdirmax=600") as mount:
        fd = os.open(mount.path("file"), os.O_RDONLY)
        os.stat(mount.dir)
        with server.lock:
            server.silent, asked = True, server.calls["getattr"]
        eventually(20, lambda: server.calls["getattr"] > asked, "the open file is not asked for")
        os.close(fd)


def attributes_are_believed_for_their_time():
    for options, believed in (("acregmin=600,acregmax=600", True), ("noac", False), ("actimeo=0", False)):
        server = Server()
        node = server.make(server.root, b"file", data=b"old")
        with mounted(server, options) as mount:
            equal(os.stat(mount.path("file")).st_size, 3, "size")
            with server.lock:
                server.change(node, b"newer")
            size = os.stat(mount.path("file")).st_size
            equal(size, 3 if believed else 5, f"size after a change by others, mounted with {options}")
            equal(read_file(mount.path("file")), b"newer", f"content of the file, opened anew, mounted with {options}")
            equal(os.stat(mount.path("file")).st_size, 5, "size after the file was opened")
    server = Server()
    node = server.make(server.root, b"file", data=b"old")
    with mounted(server, "acregmin=1,acregmax=1") as mount:
        equal(os.stat(mount.path("file")).st_size, 3, "size")
        with server.lock:
            server.change(node, b"newer")
        eventually(20, lambda: os.stat(mount.path("file")).st_size == 5, "the new size is never seen")


def name_that_a_listing_has_shown():
    """Once a change of a directory is noticed, names that were not there are looked up again before their time is over."""
    server = Server()
    fill(server, 300)
    with mounted(server, "acdirmin=600,acdirmax=600") as mount:
        check(not os.path.exists(mount.path("later")), "the name is there")
        with server.lock:
            server.make(server.root, b"later")
        check("later" in os.listdir(mount.dir), "the listing does not show it")
        eventually(20, lambda: os.path.exists(mount.path("later")), "what the listing has shown is not there")


def names_that_are_not_there():
    for options, believed in (("", True), ("lookupcache=pos", False), ("lookupcache=none", False), ("noac", False)):
        server = Server()
        with mounted(server, options) as mount:
            check(not os.path.exists(mount.path("name")), "the name is there")
            with server.lock:
                server.make(server.root, b"name")
            equal(os.path.exists(mount.path("name")), not believed, f"name made by others, mounted with '{options}'")
    server = Server()
    with mounted(server, "acdirmin=1,acdirmax=1") as mount:
        check(not os.path.exists(mount.path("name")), "the name is there")
        with server.lock:
            server.make(server.root, b"name")
        eventually(20, lambda: os.path.exists(mount.path("name")), "the new name is never seen")


CASES = {name: value for name, value in globals().items() if callable(value) and getattr(value, "__module__", "") == "__main__"}
CASES["listing_entries_without_attributes"] = lambda: listing_entries_without(False, True)
CASES["listing_entries_without_handles"] = lambda: listing_entries_without(True, False)
CASES["listing_entries_without_both"] = lambda: listing_entries_without(False, False)

if __name__ == "__main__":
    CASES[sys.argv[1]]()
