# SPDX-License-Identifier: MIT
"""An NFSv3 server of a few objects in memory, for what a real server cannot be made to do: lack a procedure, leave out
attributes, list a directory in a circle, forget handles, claim huge sizes.

It speaks RPC-over-RDMA (RFC 8166) over iWARP framing (RFC 5040, 5041, 5044) on one TCP port, and MOUNT over TCP on another.
Each NFS procedure is a method with its name; a test derives from Server and overrides what it is about:

    class WithoutPlus(Server):
        def readdirplus(self, args):
            raise Nfs(NOTSUPP)

`args` reads the call's arguments in their order. A method returns what follows status 0 in the reply, or raises Nfs(status).
self.calls counts the calls by name; self.log has (name, what the method noted) in their order. Calls of one connection run
one after the other, those of several under one lock.
"""

import collections
import queue
import socket
import struct
import threading
import time

from hostile_proxy import READ_RESPONSE, SEND_OPCODES, TERMINATE, Connection, fpdu

WRITE = 0  # RDMAP opcode, RFC 5040 §4.1
NOENT, EXIST, INVAL, FBIG, NOTEMPTY, STALE, BAD_COOKIE, NOTSUPP, TOOSMALL = 2, 17, 22, 27, 66, 70, 10003, 10004, 10005
REG, DIR = 1, 2
EXCLUSIVE = 2
NFS_PROGRAM = 100003
PROG_UNAVAIL = 1

PROCEDURES = (
    "null getattr setattr lookup access readlink read write create mkdir symlink mknod remove rmdir rename link readdir "
    "readdirplus fsstat fsinfo pathconf commit"
).split()
# What follows the status of a failure, without any attributes: so many words of 0.
FAILURE_WORDS = dict(
    getattr=0, setattr=2, lookup=1, access=1, readlink=1, read=1, write=2, create=2, mkdir=2, symlink=2, mknod=2, remove=2,
    rmdir=2, rename=4, link=3, readdir=1, readdirplus=1, fsstat=1, fsinfo=1, pathconf=1, commit=2,
)  # fmt: skip


class Nfs(Exception):
    """An NFS status other than 0."""

    def __init__(self, status):
        self.status = status


class NoAnswer(Exception):
    """The call is never answered."""


class ProcedureUnavailable(Exception):
    """The RPC layer's answer to a procedure that the server has never heard of."""


def u32(*values):
    return struct.pack("!%dI" % len(values), *values)


def u64(*values):
    return struct.pack("!%dQ" % len(values), *values)


def opaque(data):
    return u32(len(data)) + data + bytes(-len(data) % 4)


class Args:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def u32(self):
        self.at += 4
        return struct.unpack_from("!I", self.data, self.at - 4)[0]

    def u64(self):
        self.at += 8
        return struct.unpack_from("!Q", self.data, self.at - 8)[0]

    def fixed(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def opaque(self):
        count = self.u32()
        data = self.fixed(count)
        self.at += -count % 4
        return data


class Node:
    """A file, directory or symbolic link; change its attributes as a test needs."""

    def __init__(self, server, kind, mode):
        self.kind, self.mode, self.uid, self.gid, self.nlink = kind, mode, 0, 0, 1 + (kind == DIR)
        self.fileid = server.next_fileid = server.next_fileid + 1
        self.fsid = 1
        self.handle = b"handle %d" % self.fileid
        self.data = bytearray()
        self.size = None  # instead of len(data)
        self.used = None
        self.names = {}  # of a directory: name -> Node
        self.cookies = {}  # name -> where the listing goes on behind it
        self.next_cookie = 0
        self.atime = self.mtime = self.ctime = server.now()

    def attr(self):
        size = len(self.data) if self.size is None else self.size
        used = size if self.used is None else self.used
        times = [f(t, 10**9) for t in (self.atime, self.mtime, self.ctime) for f in (int.__floordiv__, int.__mod__)]
        return (
            u32(self.kind, self.mode, self.nlink, self.uid, self.gid)
            + u64(size, used)
            + u32(0, 0)
            + u64(self.fsid, self.fileid)
            + u32(*times)
        )

    def post_attr(self):
        return u32(1) + self.attr()

    def pre_attr(self):
        size = len(self.data) if self.size is None else self.size
        return u32(1) + u64(size) + u32(*(f(t, 10**9) for t in (self.mtime, self.ctime) for f in (int.__floordiv__, int.__mod__)))


class Server:
    def __init__(self):
        self.lock = threading.RLock()
        self.last_time = 0
        self.next_fileid = 1
        self.calls, self.log = collections.Counter(), []
        self.transmissions = collections.Counter()  # of (connection, XID)
        self.handles = {}
        self.listing_verf = bytes(8)
        self.root = self.make(None, None, DIR, 0o755)
        self.rtmax = self.wtmax = self.dtpref = 65536
        self.maxfilesize = 2**63 - 1
        self.fsstat_words = (1 << 40, 1 << 39, 1 << 39, 1000, 900, 900)  # bytes: total, free, available; files likewise
        self.rdma = socket.create_server(("127.0.0.1", 0))
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.rdma_port, self.tcp_port = self.rdma.getsockname()[1], self.tcp.getsockname()[1]
        self.errors = queue.Queue()  # what went wrong in here: a test that passed must have none
        for listener, kind in ((self.rdma, RdmaPeer), (self.tcp, MountPeer)):
            threading.Thread(target=self.accept, args=(listener, kind), daemon=True).start()

    def accept(self, listener, kind):
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(kind(self, client),), daemon=True).start()

    def serve(self, peer):
        try:
            peer.run()
        except (EOFError, OSError):
            pass
        except Exception as e:  # a mistake in here or in a test's own server
            self.errors.put(e)
            raise
        finally:
            peer.sock.close()

    # ---- the objects, for tests; take self.lock around more than one step ----

    def now(self):
        self.last_time = max(self.last_time + 1, time.time_ns())
        return self.last_time

    def make(self, directory, name, kind=REG, mode=0o644, data=b""):
        node = Node(self, kind, mode)
        node.data[:] = data
        self.handles[node.handle] = node
        if directory:
            self.enter(directory, name, node)
        return node

    def enter(self, directory, name, node):
        if name not in directory.names:
            directory.next_cookie += 1
            directory.cookies[name] = directory.next_cookie
        directory.names[name] = node
        directory.mtime = directory.ctime = self.now()

    def leave(self, directory, name):
        directory.mtime = directory.ctime = self.now()
        del directory.cookies[name]
        return directory.names.pop(name)

    def change(self, node, data):
        node.data[:] = data
        node.mtime = node.ctime = self.now()

    def forget(self, node):
        """Its handle is stale from now on."""
        del self.handles[node.handle]

    # ---- procedures ----

    def node(self, args):
        handle = args.opaque()
        if handle not in self.handles:
            raise Nfs(STALE)
        return self.handles[handle]

    def child(self, args):
        directory, name = self.node(args), args.opaque()
        return directory, name

    def note(self, *what):
        self.log[-1] += what

    def set_attr(self, node, args):
        if args.u32():
            node.mode = args.u32()
        if args.u32():
            node.uid = args.u32()
        if args.u32():
            node.gid = args.u32()
        if args.u32():
            size = args.u64()
            if size > self.maxfilesize:
                raise Nfs(FBIG)
            if size > 1 << 30:
                node.size = size
            else:
                node.data[size:] = bytes(max(0, size - len(node.data)))
                node.size = None
            node.mtime = self.now()
        for field in ("atime", "mtime"):
            how = args.u32()
            if how:
                setattr(node, field, args.u32() * 10**9 + args.u32() if how == 2 else self.now())
        node.ctime = self.now()

    def getattr(self, args):
        return self.node(args).attr()

    def setattr(self, args):
        node = self.node(args)
        pre = node.pre_attr()
        self.set_attr(node, args)
        return pre + node.post_attr()

    def lookup(self, args):
        directory, name = self.child(args)
        self.note(name)
        if name not in directory.names:
            raise Nfs(NOENT)
        node = directory.names[name]
        return opaque(node.handle) + node.post_attr() + directory.post_attr()

    def access(self, args):
        node = self.node(args)
        return node.post_attr() + u32(args.u32())

    def readlink(self, args):
        node = self.node(args)
        return node.post_attr() + opaque(bytes(node.data))

    def content(self, node, offset, count):
        return bytes(node.data[offset : offset + count])

    def read(self, args):
        node, offset, count = self.node(args), args.u64(), args.u32()
        self.note(offset, count)
        data = self.content(node, offset, min(count, self.rtmax))
        size = len(node.data) if node.size is None else node.size
        return node.post_attr() + u32(len(data), offset + len(data) >= size) + Bulk(data)

    def write(self, args):
        node, offset, _, _ = self.node(args), args.u64(), args.u32(), args.u32()
        data = args.opaque()
        self.note(offset, len(data))
        pre = node.pre_attr()
        data = data[: self.wtmax]
        node.data.extend(bytes(max(0, offset - len(node.data))))
        node.data[offset : offset + len(data)] = data
        node.mtime = node.ctime = self.now()
        return pre + node.post_attr() + u32(len(data), 0) + bytes(8)

    def commit(self, args):
        node = self.node(args)
        return node.pre_attr() + node.post_attr() + bytes(8)

    def made(self, directory, pre, node):
        return u32(1) + opaque(node.handle) + node.post_attr() + pre + directory.post_attr()

    def create(self, args):
        directory, name = self.child(args)
        how = args.u32()
        self.note(name, how)
        pre = directory.pre_attr()
        if name in directory.names:
            raise Nfs(EXIST)
        node = self.make(directory, name)
        if how != EXCLUSIVE:
            self.set_attr(node, args)
        return self.made(directory, pre, node)

    def mkdir(self, args):
        directory, name = self.child(args)
        pre = directory.pre_attr()
        if name in directory.names:
            raise Nfs(EXIST)
        node = self.make(directory, name, DIR, 0o755)
        self.set_attr(node, args)
        return self.made(directory, pre, node)

    def symlink(self, args):
        raise Nfs(NOTSUPP)

    mknod = symlink

    def remove(self, args):
        directory, name = self.child(args)
        self.note(name)
        pre = directory.pre_attr()
        if name not in directory.names:
            raise Nfs(NOENT)
        node = self.leave(directory, name)
        node.nlink -= 1
        if node.nlink == 0:
            self.forget(node)
        return pre + directory.post_attr()

    def rmdir(self, args):
        directory, name = self.child(args)
        pre = directory.pre_attr()
        if name not in directory.names:
            raise Nfs(NOENT)
        if directory.names[name].names:
            raise Nfs(NOTEMPTY)
        self.forget(self.leave(directory, name))
        return pre + directory.post_attr()

    def rename(self, args):
        source, old = self.child(args)
        target, new = self.child(args)
        pre = source.pre_attr(), target.pre_attr()
        if old not in source.names:
            raise Nfs(NOENT)
        if new in target.names:
            self.forget(self.leave(target, new))
        node = self.leave(source, old)
        self.enter(target, new, node)
        node.ctime = self.now()
        return pre[0] + source.post_attr() + pre[1] + target.post_attr()

    def link(self, args):
        node = self.node(args)
        directory, name = self.child(args)
        pre = directory.pre_attr()
        self.enter(directory, name, node)
        node.nlink += 1
        node.ctime = self.now()
        return node.post_attr() + pre + directory.post_attr()

    def entries(self, directory, cookie):
        """(name, cookie, node) of what lies behind that cookie, in order."""
        rest = [(c, n) for n, c in directory.cookies.items() if c > cookie]
        return [(n, c, directory.names[n]) for c, n in sorted(rest)]

    def entry_attr(self, directory, name, node):
        """What READDIRPLUS says of an entry: post_op_attr and post_op_fh3."""
        return node.post_attr() + u32(1) + opaque(node.handle)

    def check_cookie(self, directory, cookie, verf):
        """Raises Nfs(BAD_COOKIE) in a server that is strict about it."""

    def list(self, args, plus):
        directory, cookie, verf = self.node(args), args.u64(), args.fixed(8)
        if plus:
            args.u32()
        room = args.u32()
        self.note(cookie, room)
        self.check_cookie(directory, cookie, verf)
        head = directory.post_attr() + self.listing_verf
        room -= len(head) + 8
        out = b""
        for name, place, node in self.entries(directory, cookie):
            one = u32(1) + u64(node.fileid) + opaque(name) + u64(place)
            if plus:
                one += self.entry_attr(directory, name, node)
            if len(one) > room:
                if not out:
                    raise Nfs(TOOSMALL)
                return head + out + u32(0, 0)
            room -= len(one)
            out += one
        return head + out + u32(0, 1)

    def readdir(self, args):
        return self.list(args, False)

    def readdirplus(self, args):
        return self.list(args, True)

    def fsstat(self, args):
        return self.node(args).post_attr() + u64(*self.fsstat_words) + u32(0)

    def fsinfo(self, args):
        attr = self.node(args).post_attr()
        sizes = u32(self.rtmax, self.rtmax, 1, self.wtmax, self.wtmax, 1, self.dtpref)
        return attr + sizes + u64(self.maxfilesize) + u32(0, 1, 0x1B)

    def pathconf(self, args):
        return self.node(args).post_attr() + u32(32000, 255, 1, 1, 0, 1)

    # ---- RPC ----

    def answer(self, message):
        """The reply to a call, as (bytes, bulk): bulk is what may be placed by RDMA, at the end of the bytes."""
        args = Args(message)
        xid, _, _, program, _, procedure = (args.u32() for _ in range(6))
        if program != NFS_PROGRAM:  # NFSACL
            return u32(xid, 1, 0, 0, 0, PROG_UNAVAIL), None
        for _ in ("credential", "verifier"):
            args.u32()
            args.opaque()
        name = PROCEDURES[procedure]
        head = u32(xid, 1, 0, 0, 0)
        with self.lock:
            self.calls[name] += 1
            self.log.append((name,))
            try:
                body = u32(0) + getattr(self, name)(args) if procedure else b""
            except Nfs as e:
                body = u32(e.status, *([0] * FAILURE_WORDS[name]))
            except ProcedureUnavailable:
                return head + u32(3), None
            except NoAnswer:
                return None, None
        bulk = None
        if isinstance(body, WithBulk):
            body, bulk = body.before, body.bulk
        return head + u32(0) + body, bulk


class WithBulk:
    def __init__(self, before, bulk):
        self.before, self.bulk = before, bulk

    def __radd__(self, before):
        return WithBulk(before + self.before, self.bulk)


def Bulk(data):
    """READ data, for the end of a reply."""
    return WithBulk(b"", data)


class MountPeer:
    """MOUNT version 3 over TCP: whatever is asked for is the root."""

    def __init__(self, server, sock):
        self.server, self.sock = server, sock

    def run(self):
        while True:
            length = struct.unpack("!I", Connection.exactly(self.sock, 4))[0] & 0x7FFFFFFF
            args = Args(Connection.exactly(self.sock, length))
            xid, _, _, _, _, procedure = (args.u32() for _ in range(6))
            reply = u32(xid, 1, 0, 0, 0, 0)
            if procedure == 1:
                reply += u32(0) + opaque(self.server.root.handle) + u32(1, 1)
            self.sock.sendall(u32(0x80000000 | len(reply)) + reply)


class RdmaPeer:
    SEGMENT = 16384  # of a message, in one frame

    def __init__(self, server, sock):
        self.server, self.sock = server, sock
        self.sent = self.reads = 0
        self.inline = 1024
        self.message = b""
        self.messages = collections.deque()
        self.placed = bytearray()

    def set_up(self):
        head = Connection.exactly(self.sock, 20)
        flags, length = struct.unpack("!HH", head[16:])
        private = Connection.exactly(self.sock, length)
        at = private.find(bytes.fromhex("f6ab0e18"))
        if at >= 0:
            self.inline = min(4096, 1024 * (private[at + 7] + 1))
        answer = struct.pack("!HH", 16, 16) if flags & 0x1000 else b""
        answer += bytes.fromhex("f6ab0e1801000303")
        self.sock.sendall(b"MPA ID Rep Frame" + struct.pack("!HH", flags | 0x4000, len(answer)) + answer)

    def frame(self):
        length = struct.unpack("!H", Connection.exactly(self.sock, 2))[0]
        ulpdu = Connection.exactly(self.sock, length + (-(2 + length) % 4) + 4)[:length]
        opcode = ulpdu[1] & 15
        if opcode in SEND_OPCODES:
            self.message += ulpdu[18:]
            if ulpdu[0] & 0x40:
                self.messages.append(self.message)
                self.message = b""
        elif opcode == READ_RESPONSE:
            self.placed += ulpdu[14:]
        elif opcode == TERMINATE:
            raise EOFError
        elif opcode != WRITE or len(ulpdu) > 14:  # a Write of nothing is the client's question whether we are awake
            raise ValueError(f"a frame with RDMAP opcode {opcode} and {len(ulpdu)} bytes")

    def run(self):
        self.set_up()
        while True:
            while not self.messages:
                self.frame()
            self.serve(self.messages.popleft())

    def fetch(self, segments):
        """RDMA Read of a read chunk."""
        self.placed.clear()
        wanted = 0
        for handle, length, offset in segments:
            self.reads += 1
            wanted += length
            request = struct.pack("!BBIIII", 0x41, 0x41, 0, 1, self.reads, 0)
            self.sock.sendall(fpdu(request + struct.pack("!IQIIQ", 0x5EED, 0, length, handle, offset)))
            while len(self.placed) < wanted:
                self.frame()
        return bytes(self.placed)

    def place(self, segments, data):
        """RDMA Write into a chunk; returns the chunk with what was used of each segment."""
        out, at = u32(len(segments)), 0
        for handle, length, offset in segments:
            piece = data[at : at + length]
            for i in range(0, len(piece), self.SEGMENT):
                part = piece[i : i + self.SEGMENT]
                self.sock.sendall(fpdu(struct.pack("!BBIQ", 0xC1, 0x40, handle, offset + i) + part))
            out += u32(handle, len(piece)) + u64(offset)
            at += len(piece)
        if at < len(data):
            raise ValueError("the client's chunk is too small for %d bytes" % len(data))
        return out

    def send(self, message):
        self.sent += 1
        for at in range(0, len(message), self.SEGMENT):
            last = 0x40 if at + self.SEGMENT >= len(message) else 0
            head = struct.pack("!BBIIII", 0x01 | last, 0x43, 0, 0, self.sent, at)
            self.sock.sendall(fpdu(head + message[at : at + self.SEGMENT]))

    def serve(self, message):
        args = Args(message)
        xid, _, _, _ = (args.u32() for _ in range(4))
        self.server.transmissions[self, xid] += 1
        segment = lambda: (args.u32(), args.u32(), args.u64())
        chunk = lambda: [segment() for _ in range(args.u32())]
        reads, position, write, reply = [], 0, None, None
        while args.u32():
            position = args.u32()
            reads.append(segment())
        while args.u32():
            write = chunk()
        if args.u32():
            reply = chunk()
        call = message[args.at :]
        if reads:
            data = self.fetch(reads)
            call = call[:position] + data + bytes(-len(data) % 4) + call[position:]
        body, bulk = self.server.answer(call)
        if body is None:
            return
        write_list, reply_chunk = u32(0), u32(0)
        if bulk is not None and write:
            body += u32(len(bulk))
            write_list = u32(1) + self.place(write, bulk) + u32(0)
        else:
            body += opaque(bulk) if bulk is not None else b""
            write_list = u32(1) + self.place(write, b"") + u32(0) if write else u32(0)
        inline = 28 + len(write_list) + len(body) + (16 * len(reply) if reply else 0) <= self.inline
        if reply:
            reply_chunk = u32(1) + self.place(reply, b"" if inline else body)
        head = u32(xid, 1, 32, 0 if inline or not reply else 1, 0) + write_list + reply_chunk
        self.send(head + (body if inline or not reply else b""))
