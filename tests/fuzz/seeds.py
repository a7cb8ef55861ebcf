#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""seeds.py DIR: writes the inputs that the fuzz targets begin with, to DIR/TARGET/NAME. What an input is made of is said at
the top of each target. The same files come out each time."""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration/exportd"))
from nfs3 import opaque, sattr, u32, u64  # noqa: E402


def write(target, name, data):
    directory = os.path.join(sys.argv[1], target)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as f:
        f.write(data)


# ---- RPC-over-RDMA headers (RFC 8166 section 4.1) ----


def segments(count, base=0x1000):
    return b"".join(u32(0xC0DE0000 + i, 4096 + i) + u64(base * i) for i in range(count))


def read_list(*positions):
    return b"".join(u32(1, position) + segments(1) for position in positions) + u32(0)


def write_list(count):
    return (u32(1, count) + segments(count) if count else b"") + u32(0)


def reply_chunk(count):
    return u32(1, count) + segments(count) if count else u32(0)


def headers():
    message = u32(7, 0, 2, 100003, 3, 0, 0, 0, 0, 0)
    for reply in (0, 1):
        for proc in (0, 1):
            for reads in ([],) if reply else ([], [0], [0, 0, 200], [200, 200]):
                for writes, back in ((0, 0), (1, 0), (0, 1), (16, 2)):
                    head = u32(7, 1, 32, proc) + read_list(*reads) + write_list(writes) + reply_chunk(back)
                    name = f"{'reply' if reply else 'call'}{proc}r{''.join(map(str, reads))}w{writes}b{back}"
                    yield name, bytes([reply]), head + (message if proc == 0 else b"")
    yield "err_vers", b"\1", u32(7, 1, 32, 4, 1, 1, 1)
    yield "err_chunk", b"\1", u32(7, 1, 32, 4, 2)
    yield "version2", b"\0", u32(7, 2, 32, 0, 0, 0, 0)
    yield "private", b"\2", b"junk" + u32(0xF6AB0E18) + bytes((1, 1, 3, 3))


# ---- the client transport; a word 0xffffff00 + 16 * n + f stands for field f of the n-th call ----

INLINE, READ_IN, WRITE_OUT, LIST, LONG = range(5)


def field(call, *which):
    return b"".join(u32(0xFFFFFF00 + 16 * call + f) for f in which)


def new_call(kind):
    return bytes((0, kind))


def message(words, invalidate=b""):
    return struct.pack(">BH", 2 if invalidate else 1, len(words)) + invalidate + words


def answer(call, kind, proc=0, credits=4, length=None):
    """As a server answers it, header and RPC message; length: of what was placed, if not all."""
    words = field(call, 0) + u32(1, credits, proc, 0)
    placed = field(call, 2) if length is None else u32(length)
    words += u32(1, 1) + field(call, 1) + placed + field(call, 3, 4) + u32(0) if kind == READ_IN else u32(0)
    if kind == LIST:
        words += u32(1, 1) + field(call, 5) + (field(call, 6) if proc else u32(0)) + field(call, 7, 8)
    else:
        words += u32(0)
    return words + (field(call, 0) + REPLY if proc == 0 else b"")


def client():
    for kind in range(5):
        yield f"answer{kind}", new_call(kind) + message(answer(0, kind))
        yield f"dropped{kind}", new_call(kind) + b"\5" + message(answer(0, kind))
        yield f"timeout{kind}", new_call(kind) + b"\4\x27\4\x27\4\x27" + message(answer(0, kind))
        yield f"abandoned{kind}", new_call(kind) + b"\3\0" + message(answer(0, kind))
        yield f"twice{kind}", new_call(kind) + 2 * message(answer(0, kind))
        yield f"err_chunk{kind}", new_call(kind) + message(field(0, 0) + u32(1, 4, 4, 2))
        yield f"err_vers{kind}", new_call(kind) + message(field(0, 0) + u32(1, 4, 4, 1, 1, 1))
    yield "long_reply", new_call(LIST) + message(answer(0, LIST, 1))
    yield "placed_less", new_call(READ_IN) + message(answer(0, READ_IN, length=100))
    yield "placed_more", new_call(READ_IN) + message(answer(0, READ_IN, length=8193))
    yield "invalidated", new_call(READ_IN) + message(answer(0, READ_IN), field(0, 1))
    yield "invalidated_read", new_call(WRITE_OUT) + message(answer(0, WRITE_OUT), field(0, 9))
    yield "invalidated_foreign", new_call(READ_IN) + new_call(WRITE_OUT) + message(answer(1, WRITE_OUT), field(0, 1))
    yield "credits", b"".join(new_call(i % 5) for i in range(8)) + message(answer(0, INLINE, credits=0)) + message(
        answer(1, READ_IN, credits=100)) + message(answer(2, WRITE_OUT, credits=2))
    yield "unknown", new_call(INLINE) + message(u32(99, 1, 4, 0, 0, 0, 0, 99) + REPLY)


# ---- the server side of it; a word 0xffffff00 + f stands for what the client has opened ----


def opened(first, length, more=0):
    return u32(0xFFFFFF00 + first, length, 0xFFFFFF00 + first + 1, 0xFFFFFF00 + first + 2 + more)


def responder():
    rpc = u32(7, 0, 2, 100003, 3, 6, 0, 0, 0, 0)
    head = u32(7, 1, 32, 0)
    read = u32(1, 40) + opened(0, 100) + u32(0)
    long = u32(7, 1, 32, 1, 1, 0) + opened(0, 200) + u32(0, 0, 0)
    write = u32(1, 2) + opened(3, 1000) + opened(3, 1000) + u32(0)
    yield "inline", (head + u32(0, 0, 0) + rpc,)
    yield "read", (head + read + u32(0, 0) + rpc,)
    yield "write", (head + u32(0) + write + u32(0) + rpc,)
    yield "reply", (head + u32(0, 0, 1, 1) + opened(6, 8192) + rpc,)
    yield "all", (head + read + write + u32(1, 2) + opened(6, 4096) + opened(6, 4096) + rpc,)
    yield "long", (long,)
    yield "too_long", (head + read + u32(1, 1) + opened(3, 8193) + u32(0, 0) + rpc,)
    yield "bad_key", (head + u32(1, 40, 1234, 100, 0, 0, 0, 0, 0) + rpc,)
    yield "version", (u32(7, 2, 32, 0, 0, 0, 0) + rpc,)
    yield "errors", (u32(7, 1, 32, 3), u32(7, 1, 32, 4, 2), u32(7, 1), b"x")
    yield "many", 6 * (head + u32(0, 0, 0) + rpc,)


# ---- replies ----

REPLY = u32(1, 0, 0, 0, 0)  # REPLY, MSG_ACCEPTED, AUTH_NONE, SUCCESS: what follows the XID
ATTR = u32(1, 0o644, 1, 1000, 100) + u64(5) + u64(4096) + u32(0, 0) + u64(1) + u64(42) + u32(1, 2, 3, 4, 5, 6)
POST = u32(1) + ATTR
WCC = u32(1) + u64(5) + u32(3, 4, 5, 6) + POST
FH = opaque(b"handle of 16 b..")
POST_FH = u32(1) + FH


def entries(plus):
    out = b""
    for i, name in enumerate((".", "..", "a", "name", "n" * 255, "bad/name")):
        out += u32(1) + u64(100 + i) + opaque(name) + u64(1 + i) + (POST + POST_FH if plus else b"")
    return out + u32(0, 1)


def acl(default=0):
    """USER_OBJ, USER 1000, GROUP_OBJ, MASK, OTHER, as NFSACL has them."""
    entries = ((1, 0, 6), (2, 1000, 4), (4, 0, 4), (16, 0, 4), (32, 0, 0))
    return u32(len(entries), len(entries)) + b"".join(u32(tag | default, owner, perm) for tag, owner, perm in entries)


def nfs3_results():
    """Procedure, bytes asked for, result."""
    made = POST_FH + POST + WCC
    yield from (
        (0, 0, b""), (1, 0, ATTR), (2, 0, WCC), (3, 0, FH + POST + POST), (4, 0x3F, POST + u32(0x3F)),
        (5, 0, POST + opaque("../target")), (6, 64, POST + u32(5, 1) + opaque("hello")), (7, 5, WCC + u32(5, 2) + u64(99)),
        (8, 0, made), (9, 0, made), (10, 0, made), (11, 0, made), (12, 0, WCC), (13, 0, WCC), (14, 0, WCC + WCC),
        (15, 0, POST + WCC), (16, 0, POST + u64(1) + entries(False)), (17, 0, POST + u64(1) + entries(True)),
        (18, 0, POST + 6 * u64(1 << 40) + u32(0)), (19, 0, POST + u32(*[65536] * 7) + u64(1 << 62) + u32(0, 1, 0x1B)),
        (20, 0, POST + u32(32000, 255, 1, 1, 0, 1)), (21, 0, WCC + u64(99)),
        (22, 15, POST + u32(15) + acl() + acl(0x1000)), (23, 0, POST),
    )  # fmt: skip


def nfs3_replies():
    xid = u32(7)
    for proc, asked, result in nfs3_results():
        what = struct.pack(">BBH", proc, 0, asked)
        yield f"ok{proc}", what, xid + REPLY + (u32(0) + result if proc else b"")
        yield f"noent{proc}", what, xid + REPLY + u32(2) + (WCC + WCC)
    yield "read_placed", struct.pack(">BBH", 6, 1, 64), xid + REPLY + u32(0) + POST + u32(64, 0, 64)
    yield "readlink_placed", struct.pack(">BBH", 5, 1, 9), xid + REPLY + u32(0) + POST + u32(9)
    yield "denied", struct.pack(">BBH", 1, 0, 0), xid + u32(1, 1, 1, 5)
    yield "mismatch", struct.pack(">BBH", 1, 0, 0), xid + u32(1, 0, 0, 0, 2, 3, 4)


def exchanges():
    """Which, and the results of its replies."""
    exports = u32(1) + opaque("/export") + u32(1) + opaque("group") + u32(0, 1) + opaque("/b") + u32(0, 0)
    yield "mnt", 0, [u32(0) + FH + u32(2, 1, 0)]
    yield "mnt_flavors", 0, [u32(0) + FH + u32(3, 390003, 390004, 390005)]
    for status in (1, 2, 13, 20, 22, 63, 10004, 10006):
        yield f"mnt_status{status}", 0, [u32(status), exports]
    yield "mnt_rpcbind", 1, [u32(635), u32(0) + FH + u32(1, 1)]
    yield "mnt_unregistered", 1, [u32(0), u32(0) + FH + u32(0)]
    yield "list", 2, [u32(635), exports]
    yield "rpcbind2", 3, [u32(4045), u32(1)]
    yield "rpcbind3", 4, [opaque("::1.15.205"), u32(1)]
    yield "monitor", 5, [u32(32765), u32(0, 5), u32(32765), u32(5)]


def exchange(which, results):
    replies = (REPLY + result for result in results)
    return bytes([which]) + b"".join(struct.pack(">H", len(r)) + r for r in replies)


# ---- streams of records ----


def record(message, pieces=1):
    size = -(-len(message) // pieces) or 1
    cut = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(u32((0x80000000 if i == len(cut) - 1 else 0) | len(c)) + c for i, c in enumerate(cut))


def nlm_call(proc, args, program=100021, version=4):
    credential = u32(1) + opaque(u32(0) + opaque("server") + u32(0, 0, 0))
    return u32(9, 0, 2, program, version, proc) + credential + u32(0, 0) + args


def streams():
    """Which, and the stream."""
    granted = opaque(b"cook") + u32(1) + opaque("host") + FH + opaque("77@host") + u32(77) + u64(0) + u64(100)
    test = u32(7) + REPLY + opaque(b"cook") + u32(1, 1, 77) + opaque("77@host") + u64(10) + u64(0)
    calls = {
        "null": nlm_call(0, b""), "granted": nlm_call(5, granted), "granted_msg": nlm_call(10, granted),
        "notify": nlm_call(16, opaque("server") + u32(3) + bytes(16)), "other_proc": nlm_call(3, b""),
        "other_program": nlm_call(0, b"", program=100003), "other_version": nlm_call(0, b"", version=3),
    }  # fmt: skip
    yield "call", 0, record(bytes((1, 2, 3, 4)) + REPLY + u32(635))
    yield "call_in_pieces", 0, record(bytes((1, 2, 3, 4)) + REPLY + u32(635), 3)
    yield "replies", 1, record(u32(7) + REPLY + opaque(b"cook") + u32(0)) + record(test)
    for name, call in calls.items():
        yield f"answer_{name}", 4, call
        yield f"datagram_{name}", 3, call
    yield "connection", 2, b"".join(record(call) for call in calls.values())


# ---- iWARP (RFC 5044, 5041, 5040); the target puts in CRCs, sequence numbers and the keys 1 to 6 ----

WRITABLE, READABLE, SINK, DEAD, LOCAL, OTHER = range(1, 7)
WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, SEND_SE, SEND_SE_INVALIDATE, TERMINATE = range(8)


def fpdu(ulpdu):
    frame = struct.pack(">H", len(ulpdu)) + ulpdu
    return frame + bytes(-len(frame) % 4 + 4)


def tagged(opcode, stag, offset, payload, last=True):
    return fpdu(bytes((0x81 | last << 6, 0x40 | opcode)) + u32(stag) + u64(offset) + payload)


def untagged(opcode, payload, offset=0, stag=0, last=True, msn=0):
    queue = {READ_REQUEST: 1, TERMINATE: 2}.get(opcode, 0)
    return fpdu(bytes((0x01 | last << 6, 0x40 | opcode)) + u32(stag, queue, msn, offset) + payload)


def read_request(source, offset, length):
    return untagged(READ_REQUEST, u32(99) + u64(0) + u32(length, source) + u64(offset))


def mpa(reply, flags=0x5002, ird=4, ord_=4, private=b"priv"):
    key = b"MPA ID Rep Frame" if reply else b"MPA ID Req Frame"
    return key + struct.pack(">HHHH", flags, 4 + len(private), ird, ord_) + private


def iwarp():
    """Action, and the stream behind set-up."""
    yield "write", 0, tagged(WRITE, WRITABLE, 0, b"w" * 300)
    yield "writes", 0, tagged(WRITE, WRITABLE, 0, b"a" * 100, False) + tagged(WRITE, OTHER, 0, b"b" * 50)
    yield "write_and_send", 0, tagged(WRITE, WRITABLE, 10, b"w") + untagged(SEND_INVALIDATE, b"reply", stag=WRITABLE)
    yield "write_dead", 0, tagged(WRITE, DEAD, 0, b"w")
    yield "write_local", 0, tagged(WRITE, LOCAL, 0, b"w")
    yield "write_behind", 0, tagged(WRITE, WRITABLE, 1, b"w" * 300)
    yield "write_nothing", 0, tagged(WRITE, 0, 0, b"")
    yield "write_invalidated", 1, 2 * tagged(WRITE, WRITABLE, 0, b"w" * 300)
    yield "write_rebound", 2, 2 * tagged(WRITE, WRITABLE, 0, b"w" * 300)
    yield "sends", 0, untagged(SEND, b"s" * 50, last=False, msn=1) + untagged(SEND, b"t" * 50, 50) + untagged(SEND_SE, b"") \
        + untagged(SEND_SE_INVALIDATE, b"u", stag=OTHER)
    yield "send_too_long", 0, untagged(SEND, b"s" * 101)
    yield "send_too_many", 0, 5 * untagged(SEND, b"s")
    yield "reads", 0, read_request(READABLE, 0, 1000) + read_request(READABLE, 100, 0) + read_request(READABLE, 5, 49000)
    yield "reads_invalidate", 0, read_request(READABLE, 0, 49152) + untagged(SEND_INVALIDATE, b"", stag=READABLE)
    yield "reads_withdrawn", 4, 2 * read_request(READABLE, 0, 49152)
    yield "reads_too_many", 0, 5 * read_request(READABLE, 0, 49152)
    yield "read_writable", 0, read_request(WRITABLE, 0, 10)
    yield "response", 3, tagged(READ_RESPONSE, SINK, 0, b"r" * 100, False) + tagged(READ_RESPONSE, SINK, 100, b"r" * 100)
    yield "response_too_long", 0, tagged(READ_RESPONSE, SINK, 0, b"r" * 201)
    yield "terminate", 0, untagged(TERMINATE, bytes((0x11, 0, 0, 0)))
    yield "terminate_long", 0, untagged(TERMINATE, u32(0x0100E000) + bytes(48))
    yield "disconnect", 5, 2 * untagged(SEND, b"s")


def softiwarp():
    for name, action, stream in iwarp():
        yield name, bytes((0, 0, action, 0)), stream
        yield name + "_slowly", bytes((0, 7, action, 5)), stream
        yield name + "_waits", bytes((0x10, 0, action, 0)), stream
        yield name + "_server", bytes((1, 0, action, 0)), stream
    stream = tagged(WRITE, WRITABLE, 0, b"w") + untagged(SEND, b"s")
    yield "no_crc", bytes((4 | 2, 0, 0, 0)), mpa(True, 0x1002) + stream
    yield "wrong_crc", bytes((8, 0, 0, 0)), stream
    yield "reply", bytes((2, 0, 0, 0)), mpa(True) + stream
    yield "reply_rejects", bytes((2, 0, 0, 0)), mpa(True, 0x7002, private=b"go away")
    yield "reply_markers", bytes((2, 0, 0, 0)), mpa(True, 0xD002)
    yield "reply_depth", bytes((2, 0, 0, 0)), mpa(True, ord_=5)
    yield "request", bytes((3, 0, 0, 0)), mpa(False, ird=0xC004, ord_=0xC004) + stream
    yield "request_old", bytes((3, 0, 0, 0)), mpa(False, 0x4001)
    yield "request_rejected", bytes((0x23, 0, 0, 0)), mpa(False)
    yield "http", bytes((2, 0, 0, 0)), b"HTTP/1.1 400 Bad Request\r\n\r\n"


# ---- calls to exportd; a word 0xffffff00 + k stands for a handle ----

ROOT, DIRECTORY, FILE, LINK, INNER, UNKNOWN = (u32(0xFFFFFF00 + k) for k in range(6))
APART, NO_SQUASH, READ_ONLY = 2, 16, 32


def call(proc, args, program=100003, uid=1000, xid=100):
    credential = u32(1) + opaque(u32(0) + opaque("box") + u32(uid, uid, 1, uid))
    return u32(xid + proc, 0, 2, program, 3, proc) + credential + u32(0, 0) + args


def nfs3_calls():
    a, new = opaque("file"), opaque("new")
    yield "null", (call(0, b""),)
    yield "getattr", (call(1, FILE), call(1, UNKNOWN, xid=200), call(1, opaque(b"x" * 64), xid=300))
    yield "setattr", (call(2, FILE + sattr(mode=0o600, size=3, mtime="now", atime=(1, 2)) + u32(1, 3, 4)),)
    yield "setattr_owner", (call(2, FILE + sattr(uid=0, gid=0) + u32(0)), call(2, FILE + sattr(size=1 << 62) + u32(0), xid=200))
    yield "lookup", (call(3, ROOT + a), call(3, DIRECTORY + opaque(".."), xid=200), call(3, ROOT + opaque(".."), xid=300))
    yield "access", (call(4, FILE + u32(0x3F)),)
    yield "readlink", (call(5, LINK),)
    yield "read", (call(6, FILE + u64(5) + u32(100)), call(6, LINK + u64(0) + u32(1), xid=200))
    yield "write", (call(7, FILE + u64(2) + u32(5, 2) + opaque("hello")), call(21, FILE + u64(0) + u32(0)))
    yield "create", (call(8, ROOT + new + u32(0) + sattr(mode=0o644)), call(8, ROOT + a + u32(1) + sattr(size=0), xid=200))
    yield "create_exclusive", 2 * (call(8, ROOT + new + u32(2) + bytes(8)),)
    yield "mkdir", (call(9, DIRECTORY + new + sattr(mode=0o755)),)
    yield "symlink", (call(10, ROOT + new + sattr() + opaque("/etc")), call(3, ROOT + new))
    for kind in (3, 4):
        yield f"mknod{kind}", (call(11, ROOT + new + u32(kind) + sattr(mode=0o600) + u32(1, 3)),)
    for kind in (6, 7):
        yield f"mknod{kind}", (call(11, ROOT + new + u32(kind) + sattr(mode=0o600)), call(6, ROOT + u64(0) + u32(1)))
    yield "remove", (call(12, ROOT + a), call(1, FILE), call(12, ROOT + opaque("dir"), xid=200))
    yield "rmdir", (call(13, ROOT + opaque("dir")), call(12, DIRECTORY + opaque("inner")), call(13, ROOT + opaque("dir"), xid=300))
    yield "rename", (call(14, ROOT + a + DIRECTORY + new), call(14, ROOT + opaque("dir") + DIRECTORY + new, xid=200))
    yield "link", (call(15, FILE + DIRECTORY + new), call(15, DIRECTORY + ROOT + new, xid=200))
    yield "readdir", (call(16, ROOT + u64(0) + u64(0) + u32(4096)), call(16, ROOT + u64(2) + u64(0) + u32(128), xid=200))
    yield "readdirplus", (call(17, ROOT + u64(0) + u64(0) + u32(512, 4096)), call(17, FILE + u64(0) + u64(0) + u32(1, 1), xid=200))
    for proc in (18, 19, 20):
        yield f"fs{proc}", (call(proc, ROOT),)
    acls = u32(15) + acl() + acl(0x1000)
    yield "getacl", (call(1, ROOT + u32(15), program=100227), call(1, FILE + u32(3), program=100227, xid=200))
    yield "setacl", (call(2, DIRECTORY + acls, program=100227), call(1, DIRECTORY + u32(15), program=100227, xid=200))
    for proc in range(6):
        path = opaque("/tmp") if proc in (1, 3) else b""
        yield f"mount{proc}", (call(proc, path, program=100005), call(2, b"", program=100005, xid=200))
    yield "auth_none", (u32(1, 0, 2, 100003, 3, 1, 0, 0, 0, 0) + FILE,)
    yield "auth_bad", (u32(1, 0, 2, 100003, 3, 1, 6, 0, 0, 0) + FILE, u32(2, 0, 3), u32(3, 0, 2, 100003, 4, 0, 0, 0, 0, 0))


def calls(how, messages):
    return bytes((how, 0)) + b"".join(struct.pack(">H", len(m)) + m for m in messages)


def apart(message, data):
    return struct.pack(">HHH", len(message), len(data), 0xFFFF) + message + data


def exportd():
    for name, messages in nfs3_calls():
        yield name, calls(0, messages)
        yield name + "_as_root", calls(NO_SQUASH, [m.replace(u32(1000), u32(0)) for m in messages])
        yield name + "_stream", bytes((1, 50)) + b"".join(record(m, 2) for m in messages)
        yield name + "_read_only", calls(READ_ONLY | 8 | 4, messages)
    yield "write_apart", bytes((APART, 0)) + apart(call(7, FILE + u64(2) + u32(5, 2, 5)), b"hello")
    yield "symlink_apart", bytes((APART, 0)) + apart(call(10, ROOT + opaque("new") + sattr() + u32(4)), b"/etc")


# ---- text ----

OPTIONS = (
    "ro,nosuid,nodev,hard,timeo=600,retrans=2,rsize=1048576,wsize=65536,nconnect=4",
    "vers=3,proto=rdma,port=20049,mountport=635,mountproto=tcp,sec=sys,soft,retry=0",
    "acregmin=3,acregmax=60,acdirmin=30,acdirmax=60,actimeo=5,noac,lookupcache=none,nocto,nordirplus",
    "lock,local_lock=flock,noresvport,sync,dirsync,noatime,relatime,strictatime,allow_other,default_permissions",
    "device=softiwarp,memreg=window,arena=64M,credits=32,inline=4096,poll=50,_netdev,x-systemd.automount,defaults",
)
SOURCES = ("server:/export", "[fe80::1%eth0]:/a/b/", "192.0.2.7:/", "server", ":/a")
MOUNTINFO = (
    "36 35 98:0 / /mnt rw,noatime master:1 - fuse.nfsrdma server:/export rw,user_id=0\n",
    "1 2 0:3 / /with\\040space\\134 rw shared:1 propagate_from:2 - ext4 /dev/sda1 rw\n",
)


def texts():
    for i, text in enumerate(OPTIONS):
        yield f"options{i}", 0, text
        for j, option in enumerate(text.split(",")):
            yield f"option{i}_{j}", 0, option
        yield f"command{i}", 2, f"server:/export\n/mnt\n-o\n{text}\n-f"
    for i, text in enumerate(SOURCES):
        yield f"source{i}", 1, text
    yield "help", 2, "--help"
    yield "version", 2, "-V"
    for i, text in enumerate(MOUNTINFO):
        yield f"mountinfo{i}", 3, text
    # linux/posix_acl_xattr.h: the version, then type, permissions and id of each entry.
    entries = ((1, 6, -1), (2, 4, 1000), (4, 4, -1), (16, 4, -1), (32, 0, -1))
    yield "acl", 4, struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)


def main():
    for name, what, message in headers():
        write("header", name, what + message)
    for name, what, message in nfs3_replies():
        write("nfs3_reply", name, what + message)
    for name, steps in client():
        for soft in (0, 1):
            write("client", f"{name}_{'soft' if soft else 'hard'}", bytes([soft]) + steps)
    for name, messages in responder():
        for how in range(4):
            write("responder", f"{name}{how}", bytes([how]) + b"".join(struct.pack(">H", len(m)) + m for m in messages))
    for name, which, results in exchanges():
        write("rpc_reply", name, exchange(which, results))
    for name, which, stream in streams():
        write("rpc_stream", name, bytes((which, 0)) + stream)
        write("rpc_stream", name + "_slowly", bytes((which, 1)) + stream)
    for name, what, stream in softiwarp():
        write("softiwarp", name, what + stream)
    for name, what in exportd():
        write("exportd", name, what)
    for name, which, text in texts():
        write("text", name, bytes([which]) + (text.encode() if isinstance(text, str) else text))


main()
