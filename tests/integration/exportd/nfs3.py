# SPDX-License-Identifier: MIT
"""A small NFSv3 and MOUNT client over TCP, for testing the server: it sends what it is told, legal or not."""

import socket
import struct

NFS, MOUNT = 100003, 100005
OK, PERM, NOENT, ACCES, EXIST, XDEV, NOTDIR, ISDIR, INVAL = 0, 1, 2, 13, 17, 18, 20, 21, 22
ROFS, NAMETOOLONG, NOTEMPTY, STALE = 30, 63, 66, 70
BADHANDLE, NOT_SYNC, BAD_COOKIE, NOTSUPP, TOOSMALL, BADTYPE = 10001, 10002, 10003, 10004, 10005, 10007
(NULL, GETATTR, SETATTR, LOOKUP, ACCESS, READLINK, READ, WRITE, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK,
 READDIR, READDIRPLUS, FSSTAT, FSINFO, PATHCONF, COMMIT) = range(22)
REG, DIR, BLK, CHR, LNK, SOCK, FIFO = range(1, 8)
UNSTABLE, DATA_SYNC, FILE_SYNC = range(3)


def u32(*values):
    return struct.pack(f">{len(values)}I", *values)


def u64(value):
    return struct.pack(">Q", value)


def opaque(data):
    data = data.encode() if isinstance(data, str) else data
    return u32(len(data)) + data + bytes(-len(data) % 4)


def sattr(mode=None, uid=None, gid=None, size=None, atime=None, mtime=None):
    """Times: None, "now", or (seconds, nanoseconds)."""
    out = b""
    for value in (mode, uid, gid):
        out += u32(0) if value is None else u32(1, value)
    out += u32(0) if size is None else u32(1) + u64(size)
    for value in (atime, mtime):
        out += u32(0) if value is None else u32(1) if value == "now" else u32(2, *value)
    return out


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def u32(self):
        self.at += 4
        return struct.unpack_from(">I", self.data, self.at - 4)[0]

    def u64(self):
        self.at += 8
        return struct.unpack_from(">Q", self.data, self.at - 8)[0]

    def opaque(self):
        length = self.u32()
        data = self.data[self.at:self.at + length]
        assert len(data) == length, "opaque runs past the end of the message"
        self.at += length + -length % 4
        return data

    def time(self):
        return self.u32(), self.u32()

    def fattr(self):
        names = ("type", "mode", "nlink", "uid", "gid")
        a = {name: self.u32() for name in names}
        a["size"], a["used"] = self.u64(), self.u64()
        a["rdev"] = (self.u32(), self.u32())
        a["fsid"], a["fileid"] = self.u64(), self.u64()
        a["atime"], a["mtime"], a["ctime"] = self.time(), self.time(), self.time()
        return a

    def post_op(self):
        return self.fattr() if self.u32() else None

    def post_fh(self):
        return self.opaque() if self.u32() else None

    def wcc(self):
        before = (self.u64(), self.time(), self.time()) if self.u32() else None
        return before, self.post_op()

    def end(self):
        assert self.at == len(self.data), f"{len(self.data) - self.at} bytes left over in the reply"


class RpcError(Exception):
    pass


class NfsError(Exception):
    def __init__(self, status, reader):
        super().__init__(f"status {status}")
        self.status, self.reader = status, reader


class Client:
    """cred: (uid, gid, [groups]) for AUTH_SYS, None for AUTH_NONE."""
    xid = 1

    def __init__(self, port, cred=(0, 0, []), timeout=20, source_port=0):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout, source_address=("", source_port))
        self.cred = cred

    def close(self):
        self.sock.close()

    def credential(self):
        if self.cred is None:
            return u32(0, 0)
        uid, gid, groups = self.cred
        return u32(1) + opaque(u32(0) + opaque("test") + u32(uid, gid, len(groups), *groups))

    def message(self, prog, proc, args, xid=None, vers=3):
        if xid is None:
            Client.xid += 1
            xid = Client.xid
        return u32(xid, 0, 2, prog, vers, proc) + self.credential() + u32(0, 0) + args

    def send(self, message):
        self.sock.sendall(u32(0x80000000 | len(message)) + message)

    def receive_exactly(self, length):
        data = b""
        while len(data) < length:
            piece = self.sock.recv(length - len(data))
            if not piece:
                raise EOFError("the server closed the connection")
            data += piece
        return data

    def receive(self):
        mark = struct.unpack(">I", self.receive_exactly(4))[0]
        assert mark & 0x80000000
        return self.receive_exactly(mark & 0x7fffffff)

    def call(self, prog, proc, args=b"", **kwargs):
        self.send(self.message(prog, proc, args, **kwargs))
        return accepted(self.receive())

    def nfs(self, proc, args=b"", **kwargs):
        r = self.call(NFS, proc, args, **kwargs)
        if proc == NULL:
            return r
        status = r.u32()
        if status:
            raise NfsError(status, r)
        return r

    # The procedures, as far as tests use them in more than one place.

    def mount(self, path):
        r = self.call(MOUNT, 1, opaque(path))
        status = r.u32()
        if status:
            raise NfsError(status, r)
        fh = r.opaque()
        flavors = [r.u32() for _ in range(r.u32())]
        assert 1 in flavors
        r.end()
        return fh

    def getattr(self, fh):
        r = self.nfs(GETATTR, opaque(fh))
        attr = r.fattr()
        r.end()
        return attr

    def setattr(self, fh, guard=None, **attrs):
        r = self.nfs(SETATTR, opaque(fh) + sattr(**attrs) + (u32(1, *guard) if guard else u32(0)))
        wcc = r.wcc()
        r.end()
        return wcc

    def lookup(self, fh, name):
        r = self.nfs(LOOKUP, opaque(fh) + opaque(name))
        found, attr, _ = r.opaque(), r.post_op(), r.post_op()
        r.end()
        return found, attr

    def walk(self, fh, *names):
        for name in names:
            fh, _ = self.lookup(fh, name)
        return fh

    def access(self, fh, bits=0x3f):
        r = self.nfs(ACCESS, opaque(fh) + u32(bits))
        r.post_op()
        granted = r.u32()
        r.end()
        return granted

    def read(self, fh, offset=0, count=1 << 20):
        r = self.nfs(READ, opaque(fh) + u64(offset) + u32(count))
        r.post_op()
        length, eof, data = r.u32(), r.u32(), r.opaque()
        assert length == len(data)
        r.end()
        return data, bool(eof)

    def write(self, fh, data, offset=0, stable=UNSTABLE):
        r = self.nfs(WRITE, opaque(fh) + u64(offset) + u32(len(data), stable) + opaque(data))
        wcc, count, committed, verf = r.wcc(), r.u32(), r.u32(), r.u64()
        r.end()
        assert count == len(data) and committed >= stable
        return wcc, verf

    def commit(self, fh):
        r = self.nfs(COMMIT, opaque(fh) + u64(0) + u32(0))
        r.wcc()
        verf = r.u64()
        r.end()
        return verf

    def made(self, r):
        fh, attr, wcc = r.post_fh(), r.post_op(), r.wcc()
        r.end()
        return fh, attr, wcc

    def create(self, fh, name, how=1, verf=None, **attrs):
        args = opaque(fh) + opaque(name) + u32(2 if verf else how) + (verf or sattr(**attrs))
        return self.made(self.nfs(CREATE, args))[0]

    def mkdir(self, fh, name, **attrs):
        return self.made(self.nfs(MKDIR, opaque(fh) + opaque(name) + sattr(**attrs)))[0]

    def symlink(self, fh, name, text):
        return self.made(self.nfs(SYMLINK, opaque(fh) + opaque(name) + sattr() + opaque(text)))[0]

    def readlink(self, fh):
        r = self.nfs(READLINK, opaque(fh))
        r.post_op()
        text = r.opaque()
        r.end()
        return text

    def remove(self, fh, name, proc=REMOVE, **kwargs):
        r = self.nfs(proc, opaque(fh) + opaque(name), **kwargs)
        wcc = r.wcc()
        r.end()
        return wcc

    def rmdir(self, fh, name):
        return self.remove(fh, name, RMDIR)

    def rename(self, fh, name, fh2, name2):
        r = self.nfs(RENAME, opaque(fh) + opaque(name) + opaque(fh2) + opaque(name2))
        r.wcc(), r.wcc()
        r.end()

    def link(self, fh, dir_fh, name):
        r = self.nfs(LINK, opaque(fh) + opaque(dir_fh) + opaque(name))
        r.post_op(), r.wcc()
        r.end()

    def readdir(self, fh, cookie=0, count=32768, verf=0):
        """[(name, fileid, cookie)], eof"""
        r = self.nfs(READDIR, opaque(fh) + u64(cookie) + u64(verf) + u32(count))
        assert len(r.data) - 24 <= count, "longer than asked for"
        r.post_op(), r.u64()
        entries = []
        while r.u32():
            fileid, name = r.u64(), r.opaque().decode()
            entries.append((name, fileid, r.u64()))
        eof = bool(r.u32())
        r.end()
        return entries, eof

    def readdirplus(self, fh, cookie=0, dircount=8192, count=32768):
        """[(name, fileid, cookie, attr, fh)], eof"""
        r = self.nfs(READDIRPLUS, opaque(fh) + u64(cookie) + u64(0) + u32(dircount, count))
        assert len(r.data) - 24 <= count, "longer than asked for"
        r.post_op(), r.u64()
        entries = []
        while r.u32():
            fileid, name, next_cookie = r.u64(), r.opaque().decode(), r.u64()
            entries.append((name, fileid, next_cookie, r.post_op(), r.post_fh()))
        eof = bool(r.u32())
        r.end()
        return entries, eof

    def list_all(self, fh, **kwargs):
        entries, cookie, eof = [], 0, False
        while not eof:
            more, eof = self.readdirplus(fh, cookie, **kwargs)
            assert more or eof
            entries += more
            cookie = entries[-1][2]
        return entries


def accepted(message):
    """The results of an accepted and successful reply."""
    r = Reader(message)
    r.xid = r.u32()
    assert r.u32() == 1
    denied = r.u32()
    if denied:
        raise RpcError(("denied", r.u32(), r.u32()))
    r.u32(), r.opaque()
    status = r.u32()
    if status:
        raise RpcError(("accepted", status))
    return r
