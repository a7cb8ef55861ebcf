#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Cases for nfsrdma-exportd over TCP: cases.py CASE PORT DIR. The process is root; DIR is the exported directory, empty, mode
0777."""

import os
import stat
import struct
import sys
import threading
import time

from nfs3 import (ACCES, BAD_COOKIE, BADHANDLE, BADTYPE, Client, CREATE, DIR, EXIST, FIFO, FILE_SYNC,
                  FSINFO, FSSTAT, GETATTR, INVAL, ISDIR, LNK, MKNOD, MOUNT, NAMETOOLONG, NFS, NfsError,
                  NOENT, NOT_SYNC, NOTDIR, NOTEMPTY, NULL, OK, opaque, PATHCONF, PERM, REG, REMOVE,
                  ROFS, RpcError, sattr, SOCK, STALE, TOOSMALL, u32, u64, WRITE, XDEV, accepted)

PORT, TOP = int(sys.argv[2]), sys.argv[3]
ALICE, BOB = (12001, 12001, []), (12002, 12002, [])


def equal(got, want, what=""):
    assert got == want, f"{what} is {got!r}, expected {want!r}"


def refused(status, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except NfsError as e:
        allowed = status if isinstance(status, tuple) else (status,)
        assert e.status in allowed, f"status {e.status}, expected {status}"
        return e.reader
    raise AssertionError(f"succeeded, expected status {status}")


def rpc_refused(what, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except RpcError as e:
        equal(e.args[0], what, "the RPC's refusal")
        return
    raise AssertionError(f"succeeded, expected {what}")


def path(*names):
    return os.path.join(TOP, *names)


def put(name, data=b"", mode=0o644):
    with open(path(name), "wb") as f:
        f.write(data)
    os.chmod(path(name), mode)


def connect(cred=ALICE):
    client = Client(PORT, cred)
    return client, client.mount(TOP)


# --- RPC and MOUNT ----------------------------------------------------------------------------------------------------

def rpc_errors():
    c, root = connect()
    c.nfs(NULL).end()
    rpc_refused(("accepted", 1), c.call, 100099, 0)
    rpc_refused(("accepted", 2), c.call, NFS, 0, vers=4)
    rpc_refused(("accepted", 3), c.call, NFS, 22)
    rpc_refused(("accepted", 3), c.call, MOUNT, 6)
    rpc_refused(("accepted", 4), c.call, NFS, GETATTR, u32(65))
    c.cred = (1, 1, list(range(17)))
    rpc_refused(("denied", 1, 1), c.call, NFS, GETATTR, opaque(root))
    message = bytearray(c.message(NFS, 0, b""))
    message[11] = 3
    c.send(bytes(message))
    rpc_refused(("denied", 0, 2), accepted, c.receive())
    c.cred = None
    c.getattr(root)


def fragments_and_pipelining():
    c, root = connect()
    messages = [c.message(NFS, GETATTR, opaque(root), xid=i) for i in range(500, 600)]
    stream = b""
    for i, m in enumerate(messages):
        cut = i % len(m)
        stream += u32(cut) + m[:cut] if cut else b""
        stream += u32(0x80000000 | (len(m) - cut)) + m[cut:]
    threading.Thread(target=lambda: [c.sock.sendall(stream[i:i + 97]) for i in range(0, len(stream), 97)]).start()
    for xid in range(500, 600):
        equal(accepted(c.receive()).xid, xid)


def garbage_ends_the_connection_only():
    for garbage in (b"GET / HTTP/1.0\r\n\r\n", u32(0x80000004, 0), u32(0) * 4, u32(0xffffffff), u32(0x80000018) + u32(1) * 6):
        c = Client(PORT)
        c.sock.sendall(garbage)
        try:
            c.receive()
        except (EOFError, ConnectionError):
            pass
        else:
            raise AssertionError(f"{garbage} was answered")
    connect()


def mount_protocol():
    os.mkdir(path("sub"))
    os.mkdir(path("secret"), 0o700)
    os.mkdir(path("secret", "inner"))
    os.symlink("/etc", path("link"))
    c, root = connect()
    equal(c.mount(TOP + "/sub"), c.walk(root, "sub"))
    equal(c.mount(TOP + "/"), root)
    equal(c.mount(TOP + "//./sub/"), c.walk(root, "sub"))
    for bad in ("/etc", os.path.dirname(TOP), TOP + "x", TOP[:-1], "relative"):
        refused(ACCES, c.mount, bad)
    refused(NOENT, c.mount, TOP + "/none")
    refused(INVAL, c.mount, TOP + "/sub/../..")
    refused((NOTDIR, INVAL), c.mount, TOP + "/link")
    refused(ACCES, c.mount, TOP + "/secret/inner")
    r = c.call(MOUNT, 5)
    exports = []
    while r.u32():
        exports.append(r.opaque().decode())
        equal(r.u32(), 0)
    r.end()
    equal(exports, [TOP])

    def mounts():
        reply, found = c.call(MOUNT, 2), []
        while reply.u32():
            found.append((reply.opaque().decode(), reply.opaque().decode()))
        return found
    assert ("127.0.0.1", TOP + "/sub") in mounts()
    c.call(MOUNT, 3, opaque(TOP + "/sub")).end()
    assert ("127.0.0.1", TOP + "/sub") not in mounts() and ("127.0.0.1", TOP) in mounts()
    c.call(MOUNT, 4).end()
    equal(mounts(), [])


# --- attributes -------------------------------------------------------------------------------------------------------

def attributes():
    put("file", b"x" * 5000)
    os.symlink("target", path("link"))
    os.mkfifo(path("fifo"), 0o640)
    c, root = connect()
    for name, kind in (("file", REG), ("link", LNK), ("fifo", FIFO), (".", DIR)):
        st, a = os.lstat(path(name)), c.lookup(root, name)[1]
        equal(a["type"], kind)
        equal((a["mode"], a["nlink"], a["uid"], a["gid"], a["size"], a["fileid"], a["fsid"], a["used"]),
              (stat.S_IMODE(st.st_mode), st.st_nlink, st.st_uid, st.st_gid, st.st_size, st.st_ino, st.st_dev,
               st.st_blocks * 512), name)
        for which in ("mtime", "ctime"):
            equal(a[which][0] * 10**9 + a[which][1], getattr(st, f"st_{which}_ns"), which)


def setattr_():
    c, root = connect()
    fh = c.create(root, "f", mode=0o644)
    before, after = c.setattr(fh, mode=0o4711, size=12345, atime=(1, 2), mtime=(3, 4))
    equal(before[0], 0)
    equal((after["mode"], after["size"], after["atime"], after["mtime"]), (0o4711, 12345, (1, 2), (3, 4)))
    equal(os.stat(path("f")).st_mode & 0o7777, 0o4711)
    now = time.time()
    _, after = c.setattr(fh, mtime="now")
    assert abs(after["mtime"][0] - now) < 5
    equal(after["atime"], (1, 2))
    refused(NOT_SYNC, c.setattr, fh, guard=(1, 1), mode=0o600)
    c.setattr(fh, guard=c.getattr(fh)["ctime"], mode=0o600)
    equal(c.getattr(fh)["mode"], 0o600)
    refused(PERM, c.setattr, fh, uid=BOB[0])
    refused(INVAL, c.setattr, fh, mtime=(1, (1 << 30) - 1))
    refused(INVAL, c.setattr, fh, mtime=(1, 10**9))
    refused(ISDIR, c.setattr, c.mkdir(root, "d", mode=0o755), size=0)
    link = c.symlink(root, "l", "x")
    refused(INVAL, c.setattr, link, size=0)
    c.setattr(link, mtime=(7, 0))
    equal(c.getattr(link)["mtime"], (7, 0))
    other, _ = connect(BOB)
    refused((PERM, ACCES), other.setattr, fh, mode=0o666)
    refused(ACCES, other.setattr, fh, size=0)
    reader = refused(PERM, other.setattr, fh, uid=BOB[0])
    assert reader.wcc()[1]["mode"] == 0o600


def access():
    put("f", mode=0o640)
    os.chown(path("f"), ALICE[0], 13000)
    os.mkdir(path("d"), 0o750)
    os.chown(path("d"), ALICE[0], 13000)
    c, root = connect()
    f, d = c.walk(root, "f"), c.walk(root, "d")
    equal(c.access(f), 0x0d)
    equal(c.access(d), 0x1f)
    equal(c.access(d, 0x01), 0x01)
    group = Client(PORT, (12005, 1, [5, 13000]))
    equal(group.access(f), 0x01)
    equal(group.access(d), 0x03)
    nobody = Client(PORT, None)
    equal(nobody.access(f), 0)
    equal(nobody.access(root), 0x1f)


def fs_info():
    c, root = connect()
    r = c.nfs(FSINFO, opaque(root))
    r.post_op()
    sizes = [r.u32() for _ in range(7)]
    equal(sizes[0], 1 << 20)
    equal(sizes[3], 1 << 20)
    assert sizes[6] >= 65536
    r.u64(), r.time()
    equal(r.u32(), 0x1b)
    r.end()
    v = os.statvfs(TOP)
    r = c.nfs(FSSTAT, opaque(root))
    r.post_op()
    equal(r.u64(), v.f_blocks * v.f_frsize)
    r.u64(), r.u64()
    equal(r.u64(), v.f_files)
    r.u64(), r.u64(), r.u32()
    r.end()
    r = c.nfs(PATHCONF, opaque(root))
    r.post_op()
    assert r.u32() >= 8
    equal(r.u32(), 255)
    equal([r.u32() for _ in range(4)], [1, 1, 0, 1])
    r.end()


# --- data -------------------------------------------------------------------------------------------------------------

def data():
    c, root = connect()
    fh = c.create(root, "f", mode=0o644)
    blob = os.urandom(1 << 20)
    wcc, verf = c.write(fh, blob)
    equal((wcc[0][0], wcc[1]["size"]), (0, 1 << 20))
    equal(c.write(fh, b"end", offset=(1 << 20) + 5, stable=FILE_SYNC)[1], verf)
    equal(c.commit(fh), verf)
    equal(c.read(fh), (blob, False))
    equal(c.read(fh, offset=1 << 20), (bytes(5) + b"end", True))
    equal(c.read(fh, offset=3, count=7), (blob[3:10], False))
    equal(c.read(fh, offset=0, count=0xffffffff), (blob, False))
    equal(c.read(fh, offset=1 << 30), (b"", True))
    equal(c.read(fh, offset=(1 << 64) - 1), (b"", True))
    equal(c.read(fh, offset=0, count=0), (b"", False))
    with open(path("f"), "rb") as f:
        equal(f.read(), blob + bytes(5) + b"end")
    refused(27, c.write, fh, b"x", offset=(1 << 63) - 1)
    refused(ISDIR, c.read, root)
    refused(ISDIR, c.write, root, b"x")
    refused(INVAL, c.read, c.symlink(root, "l", "f"))
    # A WRITE of more than there is.
    rpc_refused(("accepted", 4), c.nfs, WRITE, opaque(fh) + u64(0) + u32(9, 0) + opaque(b"1234"))


def set_id_bits_go_with_a_write():
    put("f", b"abc")
    os.chown(path("f"), ALICE[0], ALICE[1])
    os.chmod(path("f"), 0o6777)
    c, root = connect(BOB)
    c.write(c.walk(root, "f"), b"x")
    equal(os.stat(path("f")).st_mode & 0o7777, 0o777)


def owner_may_always_read_and_write():
    c, root = connect()
    fh = c.create(root, "f", mode=0)
    c.write(fh, b"mine")
    equal(Client(PORT, ALICE).read(fh)[0], b"mine")
    other = Client(PORT, BOB)
    refused(ACCES, other.read, fh)
    refused(ACCES, other.write, fh, b"x")
    put("exec", b"#!", 0o711)
    equal(other.read(c.walk(root, "exec"))[0], b"#!")


def a_change_of_mode_counts_at_once():
    c, root = connect()
    fh = c.create(root, "f", mode=0o644)
    other = Client(PORT, BOB)
    other.read(fh)
    c.setattr(fh, mode=0o600)
    refused(ACCES, other.read, fh)


# --- names ------------------------------------------------------------------------------------------------------------

def create_and_remove():
    c, root = connect()
    fh = c.create(root, "f", mode=0o604)
    st = os.stat(path("f"))
    equal((st.st_mode & 0o7777, st.st_uid, st.st_gid), (0o604, ALICE[0], ALICE[1]))
    refused(EXIST, c.create, root, "f", how=1)
    c.write(fh, b"content")
    equal(c.create(root, "f", how=0, mode=0o777), fh)
    equal(c.getattr(fh)["size"], 7)
    equal(c.getattr(fh)["mode"], 0o604)
    c.create(root, "f", how=0, size=0)
    equal(c.getattr(fh)["size"], 0)
    d = c.mkdir(root, "d", mode=0o2755)
    equal(os.stat(path("d")).st_mode & 0o7777, 0o2755)
    refused(EXIST, c.mkdir, root, "d")
    refused(EXIST, c.create, root, "d", how=0)
    c.create(d, "in", mode=0o600)
    refused(NOTEMPTY, c.rmdir, root, "d")
    refused(ISDIR, c.remove, root, "d")
    refused(NOTDIR, c.rmdir, root, "f")
    refused(NOTDIR, c.create, fh, "x")
    refused(NOTDIR, c.lookup, fh, "x")
    before, after = c.remove(d, "in")
    assert before and after["mtime"] >= before[1]
    c.rmdir(root, "d")
    refused(STALE, c.getattr, d)
    refused((STALE, NOENT), c.create, d, "x")
    refused(NOENT, c.remove, root, "d")
    c.remove(root, "f")
    refused(STALE, c.getattr, fh)
    refused(STALE, c.read, fh)
    refused(STALE, c.write, fh, b"x")
    reader = refused(NOENT, c.remove, root, "f")
    assert reader.wcc()[1]["type"] == DIR


def exclusive_create():
    c, root = connect()
    verf = b"\xff\xee\xdd\xccabcd"
    fh = c.create(root, "f", verf=verf)
    equal(c.create(root, "f", verf=verf), fh, "the file of the repeated call")
    refused(EXIST, c.create, root, "f", verf=b"otherone")
    c.setattr(fh, mode=0o644, mtime="now", atime="now")
    refused(EXIST, c.create, root, "f", verf=verf)


def special_names():
    c, root = connect()
    d = c.mkdir(root, "d", mode=0o755)
    equal(c.lookup(d, "..")[0], root)
    equal(c.lookup(d, ".")[0], d)
    equal(c.lookup(root, "..")[0], root)
    equal(c.lookup(root, "..")[1]["fileid"], os.stat(TOP).st_ino)
    for name, status in (("", INVAL), ("a/b", INVAL), ("a\0b", INVAL), ("/", INVAL), ("n" * 256, NAMETOOLONG),
                         ("n" * 3000, NAMETOOLONG)):
        for function in (c.lookup, c.create, c.mkdir, c.remove, c.rmdir):
            refused(status, function, root, name)
        refused(status, c.rename, root, name, root, "x")
        refused(status, c.rename, root, "d", root, name)
        refused(status, c.symlink, root, name, "x")
        refused(status, c.link, c.create(root, "f", how=0), root, name)
    for name in (".", ".."):
        refused(EXIST, c.create, root, name)
        refused(EXIST, c.mkdir, root, name)
        refused(ISDIR, c.remove, root, name)
        refused((INVAL, EXIST), c.rmdir, d, name)
        refused(INVAL, c.rename, root, name, root, "x")
    long = "n" * 255
    equal(c.create(root, long, mode=0o600), c.lookup(root, long)[0])
    odd = b"\xff\xfe \n\x01"
    c.create(root, odd, mode=0o600)
    assert os.path.exists(os.path.join(TOP.encode(), odd))


def links():
    c, root = connect()
    text = "../" * 1364 + "ab/"
    equal(len(text), 4095)
    equal(c.readlink(c.symlink(root, "long", text)), text.encode())
    refused(NAMETOOLONG, c.symlink, root, "l", "x" * 4096)
    refused(INVAL, c.symlink, root, "l", "")
    refused(INVAL, c.symlink, root, "l", "a\0b")
    refused(EXIST, c.symlink, root, "long", "x")
    fh = c.create(root, "f", mode=0o600)
    refused(INVAL, c.readlink, fh)
    c.link(fh, root, "g")
    equal(c.lookup(root, "g")[0], fh)
    equal(c.getattr(fh)["nlink"], 2)
    refused(EXIST, c.link, fh, root, "g")
    refused(PERM, c.link, root, root, "h")
    link = c.symlink(root, "s", "f")
    c.link(link, root, "s2")
    equal(c.lookup(root, "s2")[0], link)
    c.remove(root, "f")
    c.write(fh, b"still there")
    equal(c.read(fh)[0], b"still there")


def special_files():
    c, root = connect()
    for name, kind in (("fifo", FIFO), ("sock", SOCK)):
        fh, attr, _ = c.made(c.nfs(MKNOD, opaque(root) + opaque(name) + u32(kind) + sattr(mode=0o612)))
        equal((attr["type"], attr["mode"], attr["uid"]), (kind, 0o612, ALICE[0]))
        refused(INVAL, c.read, fh)
        refused(INVAL, c.write, fh, b"x")
    refused(PERM, c.nfs, MKNOD, opaque(root) + opaque("null") + u32(4) + sattr(mode=0o666) + u32(1, 3))
    refused(BADTYPE, c.nfs, MKNOD, opaque(root) + opaque("x") + u32(REG))


def rename():
    c, root = connect()
    a, b = c.mkdir(root, "a", mode=0o755), c.mkdir(root, "b", mode=0o755)
    f, g = c.create(a, "f", mode=0o600), c.create(b, "g", mode=0o600)
    inner = c.mkdir(a, "inner", mode=0o755)
    deep = c.create(inner, "deep", mode=0o600)
    c.write(f, b"f")
    c.rename(a, "f", b, "g")
    refused(STALE, c.getattr, g)
    equal(c.read(f)[0], b"f")
    equal(c.lookup(b, "g")[0], f)
    refused(NOENT, c.lookup, a, "f")
    c.rename(root, "a", b, "moved")
    equal(c.lookup(b, "moved")[0], a)
    equal(c.lookup(a, "..")[0], b)
    equal(c.lookup(inner, "deep")[0], deep)
    c.getattr(deep)
    refused((INVAL,), c.rename, root, "b", inner, "x")
    refused(NOENT, c.rename, root, "none", root, "x")
    c.mkdir(root, "full", mode=0o755)
    c.create(c.walk(root, "full"), "x", mode=0o600)
    c.mkdir(root, "empty", mode=0o755)
    refused((NOTEMPTY, EXIST), c.rename, root, "empty", root, "full")
    refused((NOTDIR, ISDIR), c.rename, b, "g", root, "empty")


# --- listing ----------------------------------------------------------------------------------------------------------

def listing():
    os.mkdir(path("many"))
    names = [f"{'x' * (i % 40)}{i}" for i in range(2000)]
    for name in names:
        put(os.path.join("many", name))
    c, root = connect()
    d = c.walk(root, "many")
    for kwargs in ({}, {"count": 1024}, {"dircount": 100}, {"count": 1 << 20, "dircount": 1 << 20}):
        entries = c.list_all(d, **kwargs)
        equal(sorted(e[0] for e in entries), sorted(names + [".", ".."]))
        for name, fileid, _, attr, fh in entries:
            if name in (".", ".."):
                continue
            equal(attr["fileid"], fileid)
            equal(attr["type"], REG)
    for name, _, _, _, fh in entries[:50]:
        if fh and name != ".":
            equal(c.lookup(d, name)[0], fh)
    plain, cookie, eof = [], 0, False
    while not eof:
        more, eof = c.readdir(d, cookie, count=600)
        plain += more
        cookie = plain[-1][2]
    equal(sorted(e[0] for e in plain), sorted(names + [".", ".."]))
    refused(TOOSMALL, c.readdir, d, 0, 20)
    refused(TOOSMALL, c.readdir, d, 0, 120)
    refused(BAD_COOKIE, c.readdir, d, plain[5][2], 4096, verf=1)
    refused(NOTDIR, c.readdir, c.walk(d, names[0]))
    put("closed_list")
    os.mkdir(path("closed"), 0o711)
    refused(ACCES, c.readdir, c.walk(root, "closed"))


def listing_survives_removal_of_what_was_listed():
    os.mkdir(path("many"), 0o777)
    os.chmod(path("many"), 0o777)
    names = {f"file{i}" for i in range(1500)}
    for name in names:
        put(os.path.join("many", name))
    c, root = connect()
    d, seen, cookie, eof = c.walk(root, "many"), set(), 0, False
    while not eof:
        entries, eof = c.readdirplus(d, cookie, count=2048)
        cookie = entries[-1][2]
        for entry in entries:
            assert entry[0] not in seen, f"{entry[0]} listed twice"
            seen.add(entry[0])
            if entry[0] in names:
                c.remove(d, entry[0])
    equal(seen, names | {".", ".."})
    equal(os.listdir(path("many")), [])


def dotdot_of_the_root_is_the_root():
    c, root = connect()
    for listed in (c.readdir(root)[0], c.readdirplus(root)[0]):
        ids = {entry[0]: entry[1] for entry in listed}
        equal(ids[".."], os.stat(TOP).st_ino)
        equal(ids["."], os.stat(TOP).st_ino)


# --- what leads outside -----------------------------------------------------------------------------------------------

def mount_points():
    """silent is a FUSE mount whose daemon never answers: whoever looks at it hangs."""
    put("file")
    c, root = connect()
    entries = {e[0]: e for e in c.list_all(root)}
    equal((entries["silent"][3], entries["silent"][4]), (None, None))
    assert entries["file"][4]
    refused(XDEV, c.lookup, root, "silent")
    refused(ACCES, c.mount, TOP + "/silent")
    refused(ACCES, c.rmdir, root, "silent")
    refused(ISDIR, c.remove, root, "silent")
    refused((ACCES, XDEV, PERM), c.rename, root, "silent", root, "x")
    refused((ACCES, NOTDIR, XDEV, ISDIR), c.rename, root, "file", root, "silent")
    refused(EXIST, c.mkdir, root, "silent")
    refused((EXIST, XDEV), c.create, root, "silent", how=0)
    c.getattr(root)


def symbolic_links_are_not_followed():
    os.symlink("/", path("slash"))
    os.symlink("..", path("up"))
    c, root = connect()
    for name in ("slash", "up"):
        fh, attr = c.lookup(root, name)
        equal(attr["type"], LNK)
        refused(NOTDIR, c.lookup, fh, "etc")
        refused(NOTDIR, c.lookup, fh, "..")
        refused(NOTDIR, c.create, fh, "x")
        refused(NOTDIR, c.readdir, fh)


def a_directory_that_left_the_export_is_stale():
    os.mkdir(path("d"), 0o777)
    put("d/f", b"x")
    os.mkdir(path("d", "e"))
    c, root = connect()
    d = c.walk(root, "d")
    e = c.walk(d, "e")
    outside = os.path.join(os.path.dirname(TOP), "outside")
    os.rename(path("d"), outside)
    refused((STALE, NOENT), c.lookup, d, "..")
    deadline = time.monotonic() + 15  # a directory in use is looked at again after 5 s
    for fh in (d, e):
        while True:
            try:
                c.getattr(fh)
            except NfsError as error:
                equal(error.status, STALE)
                break
            assert time.monotonic() < deadline, "still served"
            time.sleep(0.1)
    os.rename(outside, path("back"))
    equal(c.lookup(root, "back")[0], d)


def forged_handles():
    put("f", b"x")
    c, root = connect()
    fh = c.walk(root, "f")
    for bit in range(0, len(fh) * 8):
        forged = bytearray(fh)
        forged[bit // 8] ^= 1 << bit % 8
        refused((STALE, BADHANDLE), c.getattr, bytes(forged))
    for forged in (b"", fh[:-1], fh + b"\0" if len(fh) < 64 else b"x", bytes(64), os.urandom(64), root[:8] + fh[8:]):
        refused((STALE, BADHANDLE), c.getattr, forged)
    equal(c.getattr(fh)["size"], 1)


# --- who asks ---------------------------------------------------------------------------------------------------------

def users_are_kept_apart():
    c, root = connect(ALICE)
    d = c.mkdir(root, "private", mode=0o700)
    fh = c.create(d, "f", mode=0o600)
    c.write(fh, b"secret")
    b = Client(PORT, BOB)
    for function, args in ((b.lookup, (d, "f")), (b.create, (d, "x")), (b.readdir, (d,)), (b.read, (fh,)),
                           (b.remove, (d, "f")), (b.write, (fh, b"x")), (b.rename, (d, "f", root, "f"))):
        refused(ACCES, function, *args)
    equal(b.readdirplus(root)[0][0][3] is not None, True)
    # The same threads serve both in turn.
    for _ in range(50):
        refused(ACCES, b.read, fh)
        equal(c.read(fh)[0], b"secret")
    b.cred = ALICE
    equal(b.read(fh)[0], b"secret")
    b.cred = BOB
    refused(ACCES, b.read, fh)


def sticky_and_groups():
    os.mkdir(path("sticky"))
    os.chmod(path("sticky"), 0o1777)
    os.mkdir(path("team"))
    os.chown(path("team"), 0, 13000)
    os.chmod(path("team"), 0o2770)
    c, root = connect(ALICE)
    b = Client(PORT, BOB)
    sticky = c.walk(root, "sticky")
    c.create(sticky, "f", mode=0o666)
    refused((PERM, ACCES), b.remove, sticky, "f")
    team = c.walk(root, "team")
    refused(ACCES, b.create, team, "x")
    b.cred = (12002, 12002, [1, 2, 13000])
    b.create(team, "x", mode=0o660)
    equal(os.stat(path("team/x")).st_gid, 13000)
    b.cred = BOB
    refused(ACCES, b.lookup, team, "x")


def root_is_squashed():
    c, root = connect((0, 0, [0]))
    c.create(root, "f", mode=0o600)
    st = os.stat(path("f"))
    equal((st.st_uid, st.st_gid), (65534, 65534))
    put("roots", b"x", 0o600)
    refused(ACCES, c.read, c.walk(root, "roots"))
    refused(PERM, c.setattr, c.walk(root, "roots"), mode=0o777)
    refused(PERM, c.nfs, MKNOD, opaque(root) + opaque("null") + u32(4) + sattr(mode=0o666) + u32(1, 3))


def root_is_root():
    """--no-root-squash"""
    c, root = connect((0, 0, [0]))
    fh = c.create(root, "f", mode=0o600, uid=ALICE[0], gid=77)
    st = os.stat(path("f"))
    equal((st.st_uid, st.st_gid, st.st_mode & 0o7777), (ALICE[0], 77, 0o600))
    c.setattr(fh, uid=BOB[0], gid=BOB[1])
    equal(os.stat(path("f")).st_uid, BOB[0])
    c.write(fh, b"x")
    fh, attr, _ = c.made(c.nfs(MKNOD, opaque(root) + opaque("null") + u32(4) + sattr(mode=0o666) + u32(1, 3)))
    equal(attr["rdev"], (1, 3))
    refused(INVAL, c.read, fh)


# --- once -------------------------------------------------------------------------------------------------------------

def duplicates_are_run_once():
    put("f")
    os.chmod(TOP, 0o777)
    c, root = connect()
    other = Client(PORT, ALICE)  # another port
    assert c.sock.getsockname()[1] != other.sock.getsockname()[1]
    message = c.message(NFS, REMOVE, opaque(root) + opaque("f"))
    c.send(message)
    first = c.receive()
    equal(accepted(first).u32(), OK)
    for client in (c, other, Client(PORT, ALICE)):
        client.send(message)
        equal(client.receive(), first, "the reply to the duplicate")
    put("f")
    # Another call with the same XID is not a duplicate.
    equal(c.nfs(REMOVE, opaque(root) + opaque("f"), xid=struct.unpack_from(">I", message)[0] + 1000000).wcc()[0] is None, False)
    message = c.message(NFS, CREATE, opaque(root) + opaque("new") + u32(1) + sattr(mode=0o600))
    replies = []
    for client in (c, other):
        client.send(message)
        replies.append(client.receive())
    equal(replies[0], replies[1])
    equal(accepted(replies[0]).u32(), OK)


def duplicates_at_the_same_time():
    c, root = connect()
    clients = [Client(PORT, ALICE) for _ in range(8)]
    for i in range(50):
        message = c.message(NFS, CREATE, opaque(root) + opaque(f"f{i}") + u32(1) + sattr(mode=0o600))
        for client in clients:
            client.send(message)
        replies = {client.receive() for client in clients}
        equal(len(replies), 1, "the number of different replies")
        equal(accepted(replies.pop()).u32(), OK)


# --- many -------------------------------------------------------------------------------------------------------------

def many_at_once():
    errors = []

    def work(n):
        try:
            c, root = connect((12100 + n, 12100 + n, []))
            d = c.mkdir(root, f"d{n}", mode=0o700)
            for i in range(60):
                blob = os.urandom(20000 + i)
                fh = c.create(d, f"f{i}", mode=0o600)
                c.write(fh, blob)
                equal(c.read(fh)[0], blob)
                c.rename(d, f"f{i}", d, "same")
                equal(c.getattr(fh)["size"], len(blob))
            equal(len(c.list_all(d)), 3)
        except Exception as e:  # pylint: disable=broad-except
            errors.append(f"{n}: {e!r}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(errors, [])


def held():
    """The files that the server holds descriptors of."""
    fds, found = f"/proc/{os.environ['EXPORTD_PID']}/fd", []
    for fd in os.listdir(fds):
        try:
            found.append(os.readlink(os.path.join(fds, fd)))
        except FileNotFoundError:
            pass
    return found


def held_below_top():
    return [f for f in held() if f.startswith(TOP + "/")]


def wait_until_not(what):
    deadline = time.monotonic() + 30
    while what():
        assert time.monotonic() < deadline, f"still held: {what()}"
        time.sleep(0.1)


def removed_files_are_let_go():
    def deleted():
        return [f for f in held() if f.endswith("(deleted)")]
    c, root = connect()
    for name in ("f", "g"):
        fh = c.create(root, name, mode=0o600)
        c.write(fh, b"x" * 100000)
    c.remove(root, "f")
    equal(deleted(), [], "what the server holds after REMOVE")
    c.create(root, "h", mode=0o600)
    c.rename(root, "h", root, "g")
    equal(deleted(), [], "what the server holds after RENAME")
    c.read(c.walk(root, "g"))
    os.unlink(path("g"))
    assert deleted()
    wait_until_not(deleted)


def read_only():
    put("f", b"x")
    c, root = connect()
    fh = c.walk(root, "f")
    equal(c.read(fh)[0], b"x")
    for function, args in ((c.write, (fh, b"y")), (c.create, (root, "x")), (c.remove, (root, "f")), (c.mkdir, (root, "x")),
                           (c.rename, (root, "f", root, "g")), (c.link, (fh, root, "g")), (c.commit, (fh,))):
        refused(ROFS, function, *args)
    refused(ROFS, c.setattr, fh, mode=0o777)
    equal(c.access(root), 0x03)


# --- across a restart: state is handed over in a file ------------------------------------------------------------------

def before_restart():
    os.mkdir(path("d"), 0o777)
    os.chmod(path("d"), 0o777)
    put("d/f", b"x")
    c, root = connect()
    d = c.walk(root, "d")
    fh = c.walk(d, "f")
    new = c.create(root, "new", mode=0o644)
    _, verf = c.write(new, b"data")
    _, verf2 = c.write(new, b"data")
    equal(verf, verf2)
    cookies = [e[2] for e in c.readdir(d)[0]]
    with open(sys.argv[4], "w", encoding="ascii") as f:
        print(root.hex(), d.hex(), fh.hex(), new.hex(), verf, *cookies, file=f)
    os.rename(path("d"), path("renamed"))
    os.rename(path("renamed/f"), path("renamed/g"))


def saved():
    with open(sys.argv[4], encoding="ascii") as f:
        words = f.read().split()
    return [bytes.fromhex(w) for w in words[:4]], int(words[4]), [int(w) for w in words[5:]]


def after_restart():
    (root, d, fh, new), verf, cookies = saved()
    c = Client(PORT, ALICE)
    equal(c.getattr(root)["fileid"], os.stat(TOP).st_ino)
    equal(c.lookup(root, "renamed")[0], d)
    equal(c.lookup(d, "g")[0], fh)
    equal(c.read(fh)[0], b"x")
    assert c.commit(new) != verf
    for cookie in cookies:
        c.readdir(d, cookie)


def after_restart_with_another_key():
    (root, d, fh, _), _, _ = saved()
    c = Client(PORT, ALICE)
    for handle in (root, d, fh):
        refused(STALE, c.getattr, handle)


# --- without kernel handles -------------------------------------------------------------------------------------------

def ordinary_user():
    """The server runs as Alice."""
    os.chown(TOP, ALICE[0], ALICE[1])
    c, root = connect(ALICE)
    b = Client(PORT, BOB)
    equal(b.mount(TOP), root)
    b.getattr(root)
    equal(b.access(root), 0)
    refused(ACCES, b.lookup, root, "x")
    refused(ACCES, b.create, root, "x")
    d = c.mkdir(root, "d", mode=0o755)
    inner = c.mkdir(d, "inner", mode=0o755)
    fh = c.create(inner, "f", mode=0o444)
    c.write(fh, b"readonly")
    equal(c.read(fh)[0], b"readonly")
    refused(ACCES, b.read, fh)
    refused(PERM, c.setattr, fh, uid=BOB[0])
    os.chmod(path("d/inner/f"), 0o000)
    wait_until_not(held_below_top)
    equal(c.read(fh)[0], b"readonly")
    equal(os.stat(path("d/inner/f")).st_mode & 0o7777, 0)


def table_of_paths():
    c, root = connect((os.stat(TOP).st_uid, ALICE[1], []))
    a = c.mkdir(root, "a", mode=0o755)
    b = c.mkdir(a, "b", mode=0o755)
    fh = c.create(b, "f", mode=0o644)
    c.write(fh, b"x")
    c.rename(root, "a", root, "moved")
    equal(c.lookup(root, "moved")[0], a)
    c.rename(b, "f", root, "g")
    wait_until_not(held_below_top)
    equal(c.getattr(b)["type"], DIR)
    equal(c.lookup(b, "..")[0], a)
    equal(c.lookup(a, "..")[0], root)
    equal(c.read(fh)[0], b"x")
    c.remove(root, "g")
    refused(STALE, c.getattr, fh)
    c.create(root, "g", mode=0o644)
    refused(STALE, c.getattr, fh)
    for i in range(300):
        c.create(b, f"f{i}", mode=0o600)
    entries = c.list_all(b)
    equal(len(entries), 302)
    with open(sys.argv[4], "w", encoding="ascii") as f:
        print(root.hex(), a.hex(), b.hex(), entries[-1][4].hex(), 0, file=f)


def table_after_restart():
    (root, a, _, _), _, _ = saved()
    c = Client(PORT, (os.stat(TOP).st_uid, ALICE[1], []))
    c.getattr(root)
    refused(STALE, c.getattr, a)
    equal(c.lookup(root, "moved")[0], a)
    c.getattr(a)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
