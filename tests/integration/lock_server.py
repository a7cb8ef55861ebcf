#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# lock_server.py CONTROL LOG: what a client's locks need beside NFS, on loopback of a network namespace of its own: rpcbind
# (port 111 and /run/rpcbind.sock), a status monitor, and a lock manager (NLM version 4 over TCP) that can be told to
# misbehave. Every call that comes, and what it was answered, is a line of LOG. Commands come by the FIFO CONTROL, a line
# each behind a number, and "done NUMBER" in LOG says that it is done:
#
#	rival hold START END | rival drop	another client has that range, exclusively; grants go out when it drops it
#	grant msg|call|udp|none			how grants are called back: GRANTED_MSG, GRANTED, that by UDP, not at all
#	late					the next LOCK that has to wait is answered after its grant was
#	slow | go				reclaims are answered only when it says go
#	cross					the next CANCEL meets a grant that is just going out
#	restart | grace on | grace off		loses all locks and connections; takes reclaims only, takes none
#	restart late START END			loses all, and its grace period is over, and another client has that range
#	notify STATE | forge STATE		the status monitor's word of a restart; the same with a cookie that is not ours
#	answer WHAT				the next answer of the lock manager: silent, cut, long, fragment, xid, status, close, noise
#	service PORT				somebody is registered as this machine's lock manager
#	locks					lists in LOG what is held

import queue
import random
import socket
import struct
import sys
import threading

NLM, NSM, PMAP = 100021, 100024, 100000
END = (1 << 63) - 1
GRANTED, DENIED, BLOCKED, GRACE = 0, 1, 3, 4
PROCS = {0: "NULL", 1: "TEST", 2: "LOCK", 3: "CANCEL", 4: "UNLOCK", 15: "GRANTED_RES"}

lock = threading.RLock()
log_file = open(sys.argv[2], "a", buffering=1)
registered, held, waiters, conns = {}, [], [], set()
grant_kind, grace, late, slow, cross, misanswer = "msg", False, False, False, False, None
kept = []
monitored = None
xids = iter(range(1000, 1 << 30))
granting = queue.Queue()


def log(*words):
    print(*words, file=log_file)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def u32(self):
        return struct.unpack(">I", self.take(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.take(8))[0]

    def opaque(self):
        n = self.u32()
        value = self.take(n)
        self.take(-n % 4)
        return value


def u32(*values):
    return struct.pack(">%dI" % len(values), *values)


def opaque(value):
    return u32(len(value)) + value + bytes(-len(value) % 4)


def record(msg):
    return u32(1 << 31 | len(msg)) + msg


def read_record(conn):
    head = conn.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return None
    return conn.recv(struct.unpack(">I", head)[0] & 0x7fffffff, socket.MSG_WAITALL)


def call(prog, vers, proc, body):
    return u32(next(xids), 0, 2, prog, vers, proc, 0, 0, 0, 0) + body


# --- rpcbind and the status monitor ---------------------------------------------------------------------------------------


def rpcbind_set(proc, r):
    prog, vers, netid, addr = r.u32(), r.u32(), r.opaque().decode(), r.opaque().decode()
    if proc == 1:
        if (prog, netid) in registered:
            return u32(0)
        high, low = addr.split(".")[-2:]
        registered[prog, netid] = int(high) * 256 + int(low)
        log("SET", prog, vers, netid)
        return u32(1)
    log("UNSET", prog, vers, netid)
    return u32(int(registered.pop((prog, netid), None) is not None))


# The client asks on 127.0.0.1 for its own lock manager and for the status monitor, and on 127.0.0.2 for the server's.
def rpcbind(conn, vers, proc, r):
    if vers != 2:
        return rpcbind_set(proc, r)
    prog, vers, prot = r.u32(), r.u32(), r.u32()
    if prog == NSM or conn.getsockname()[0] == "127.0.0.2":
        return u32(ports.get(prog, 0))
    return u32(registered.get((prog, "tcp" if prot == 6 else "udp"), 0))


def statd(vers, proc, r):
    global monitored
    name, me = r.opaque().decode(), r.opaque().decode()
    where = (r.u32(), r.u32(), r.u32())
    if proc == 2:
        monitored = where + (r.take(16),)
        log("MON", name, *where)
        return u32(0, 7)
    log("UNMON", name)
    return u32(7)


# --- the lock manager -----------------------------------------------------------------------------------------------------


def overlap(a, b):
    return a["start"] <= b["end"] and b["start"] <= a["end"]


def conflict(want):
    for have in held:
        others = have["fh"] in (want["fh"], None) and have["svid"] != want["svid"]
        if others and overlap(have, want) and (have["ex"] or want["ex"]):
            return have
    return None


def clear(which):
    for have in [h for h in held if h["fh"] == which["fh"] and h["svid"] == which["svid"] and overlap(h, which)]:
        held.remove(have)
        if have["start"] < which["start"]:
            held.append(dict(have, end=which["start"] - 1))
        if have["end"] > which["end"]:
            held.append(dict(have, start=which["end"] + 1))


def take(want):
    clear(want)
    held.append(dict(want))


def grant_waiters():
    for waiter in list(waiters):
        if not conflict(waiter):
            waiters.remove(waiter)
            take(waiter)
            granting.put((waiter, grant_kind, None))


def send_grant(waiter, kind):
    length = 0 if waiter["end"] == END else waiter["end"] - waiter["start"] + 1
    body = opaque(b"grant") + u32(int(waiter["ex"])) + opaque(b"server") + opaque(waiter["fh"]) + opaque(b"oh") + u32(
        waiter["svid"]) + struct.pack(">QQ", waiter["start"], length)
    if kind == "none":
        return
    msg = call(NLM, 4, 10 if kind == "msg" else 5, body)
    if kind == "udp":
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(20)
        s.bind(("127.0.0.2", 0))
        s.sendto(msg, ("127.0.0.1", registered[NLM, "udp"]))
        reply = s.recv(4096)
    else:
        s = socket.create_connection(("127.0.0.1", registered[NLM, "tcp"]), 20, ("127.0.0.2", 0))
        s.sendall(record(msg))
        reply = read_record(s)
    s.close()
    r = Reader(reply[24:])
    log("grant", kind, "answered", *([r.u32() for _ in [r.opaque()]] if kind != "msg" else []))


# In a thread of its own: the client may answer only when it has its reply.
def granter():
    while True:
        waiter, kind, then = granting.get()
        try:
            send_grant(waiter, kind)
        except OSError as e:
            log("grant failed:", e)
        if then:
            then()


def get_lock(r, ex):
    r.opaque()
    fh, _, svid, start, length = r.opaque(), r.opaque(), r.u32(), r.u64(), r.u64()
    return {"fh": fh, "svid": svid, "start": start, "end": start + length - 1 if length else END, "ex": ex}


def on_lock(cookie, r, reply):
    global late
    block, ex = r.u32(), bool(r.u32())
    want = get_lock(r, ex)
    reclaim = r.u32()
    shown = ("ex" if ex else "sh", want["start"], want["end"], "reclaim" if reclaim else "new", "wait" if block else "try")
    if bool(reclaim) != grace:
        status = GRACE
    elif not conflict(want):
        take(want)
        status = GRANTED
    elif not block:
        status = DENIED
    else:
        status = BLOCKED
        if want not in waiters:
            waiters.append(want)
    log("LOCK", *shown, status)
    result = opaque(cookie) + u32(status)
    if reclaim and slow:
        kept.append(lambda: reply(result))
    elif status == BLOCKED and late:
        late = False
        waiters.remove(want)
        take(want)
        granting.put((want, "call", lambda: reply(result)))
    else:
        reply(result)


def on_cancel(cookie, r, reply):
    global cross
    r.u32()
    want = get_lock(r, bool(r.u32()))
    known = want in waiters
    if known:
        waiters.remove(want)
    if cross:
        cross = False
        take(want)
        granting.put((want, "call", lambda: reply(opaque(cookie) + u32(DENIED))))
        log("CANCEL crossed by a grant")
        return
    log("CANCEL", "of a wait" if known else "of nothing")
    reply(opaque(cookie) + u32(GRANTED if known else DENIED))


def on_nlm(proc, r, reply):
    if proc == 0:
        return reply(b"")
    if proc == 15:
        cookie, status = r.opaque(), r.u32()
        log("GRANTED_RES", cookie.decode(), status)
        return reply(b"")
    cookie = r.opaque()
    if proc == 2:
        on_lock(cookie, r, reply)
    elif proc == 3:
        on_cancel(cookie, r, reply)
    elif proc == 4:
        which = get_lock(r, False)
        clear(which)
        log("UNLOCK", which["start"], which["end"])
        reply(opaque(cookie) + u32(GRANTED))
        grant_waiters()
    elif proc == 1:
        have = conflict(get_lock(r, bool(r.u32())))
        log("TEST", "taken" if have else "free")
        reply(opaque(cookie) + (u32(DENIED, 1, have["svid"]) + opaque(b"oh") + struct.pack(
            ">QQ", have["start"], have["end"] - have["start"] + 1) if have else u32(GRANTED)))
    return None


def bend(how, xid, msg):
    """What is sent in place of a reply; None: nothing, and the connection ends."""
    head = u32(xid, 1, 0, 0, 0, 0)
    return {
        "silent": b"",
        "cut": record(msg[:-4]),
        "long": u32(1 << 31 | 0x7fffffff) + bytes(64),
        "fragment": u32(len(msg)) + msg,
        "xid": record(u32(xid ^ 0x5555) + msg[4:]),
        "status": record(head + opaque(bytes(4)) + u32(4711)),
        "close": None,
        "noise": record(random.Random(3).randbytes(300)),
    }[how]


def serve_record(conn, kind, msg):
    global misanswer
    r = Reader(msg)
    xid, _, _, prog, vers, proc = (r.u32() for _ in range(6))
    for _ in range(2):
        r.u32()
        r.opaque()

    def reply(result):
        global misanswer
        answer = u32(xid, 1, 0, 0, 0, 0) + result
        data = record(answer)
        if kind == "nlm" and proc in (1, 2, 3, 4) and misanswer:
            data = bend(misanswer, xid, answer)
            log("answered", PROCS[proc], misanswer)
            misanswer = None
        if data is None:
            conn.shutdown(socket.SHUT_RDWR)
        else:
            conn.sendall(data)

    if kind == "nlm":
        on_nlm(proc, r, reply)
    elif prog == PMAP:
        reply(rpcbind(conn, vers, proc, r))
    else:
        reply(statd(vers, proc, r))


def serve(conn, kind):
    try:
        while (msg := read_record(conn)):
            with lock:
                serve_record(conn, kind, msg)
    except OSError:
        pass
    conns.discard(conn)
    conn.close()


def listen(sock, kind):
    while True:
        conn, _ = sock.accept()
        conns.add(conn)
        threading.Thread(target=serve, args=(conn, kind), daemon=True).start()


def server(addr, kind, family=socket.AF_INET):
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(addr)
    sock.listen()
    threading.Thread(target=listen, args=(sock, kind), daemon=True).start()
    return sock


def notify(priv, state):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.sendto(call(monitored[0], monitored[1], monitored[2], opaque(b"127.0.0.2") + u32(state) + priv),
             ("127.0.0.1", registered[NLM, "udp"]))
    s.recv(4096)


def command(words):
    global grant_kind, grace, late, slow, cross, misanswer
    match words:
        case ["rival", "hold", start, end]:
            held.append({"fh": None, "svid": 1, "start": int(start), "end": int(end), "ex": True})
        case ["rival", "drop"]:
            held[:] = [have for have in held if have["svid"] != 1]
            grant_waiters()
        case ["grant", grant_kind]:
            pass
        case ["late"]:
            late = True
        case ["slow"]:
            slow = True
        case ["go"]:
            slow = False
            while kept:
                kept.pop(0)()
        case ["cross"]:
            cross = True
        case ["restart"]:
            held.clear()
            waiters.clear()
            grace = True
            for conn in nlm_conns():
                conn.shutdown(socket.SHUT_RDWR)
        case ["restart", "late", start, end]:
            held[:] = [{"fh": None, "svid": 1, "start": int(start), "end": int(end), "ex": True}]
            waiters.clear()
            for conn in nlm_conns():
                conn.shutdown(socket.SHUT_RDWR)
        case ["grace", on]:
            grace = on == "on"
        case ["notify", state]:
            notify(monitored[3], int(state))
        case ["forge", state]:
            notify(bytes(16), int(state))
        case ["answer", misanswer]:
            pass
        case ["service", port]:
            registered[NLM, "tcp"] = int(port) or ports[NLM]
            registered[NLM, "udp"] = int(port) or ports[NLM]
        case ["locks"]:
            log("held:", *sorted("%d-%s%s" % (h["start"], "end" if h["end"] == END else h["end"], "w" if h["ex"] else "r")
                                 for h in held))



def nlm_conns():
    return [conn for conn in conns if conn.family == socket.AF_INET and conn.getsockname()[1] == ports[NLM]]


nlm = server(("127.0.0.2", 0), "nlm")
ports = {NLM: nlm.getsockname()[1]}
other = server(("127.0.0.1", ports[NLM]), "nlm")
nsm = server(("127.0.0.1", 0), "nsm")
ports[NSM] = nsm.getsockname()[1]
listeners = [nlm, other, nsm, server(("0.0.0.0", 111), "pmap"), server("/run/rpcbind.sock", "pmap", socket.AF_UNIX)]
threading.Thread(target=granter, daemon=True).start()
log("ready")
while True:
    with open(sys.argv[1]) as control:
        for line in control:
            number, *words = line.split()
            with lock:
                command(words)
            log("done", number)
