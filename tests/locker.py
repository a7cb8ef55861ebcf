#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# locker.py FILE HOW [WORD…]: one process that locks. HOW is fcntl, flock or ofd; words: sh or ex (ex), try or wait (try),
# START LENGTH (0 0: the whole file). Says one word on standard output, "held", "denied", "interrupted" or the name of an
# errno, then holds what it got until its standard input ends or says "unlock"; "unlocked" then, and the end.
#
# locker.py FILE test [START LENGTH]: what F_GETLK says: "free", or "sh" or "ex", start, length, pid.

import errno
import fcntl
import os
import signal
import struct
import sys

LAYOUT = "hhqqi4x"  # struct flock, 64 bits
OFD_SETLK, OFD_SETLKW = 37, 38


def say(*words):
    print(*words, flush=True)


def interrupted(*_):
    raise InterruptedError


def main():
    path, how, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    numbers = [int(word) for word in words if word.isdigit()]
    start, length = numbers or (0, 0)
    kind = fcntl.LOCK_SH if "sh" in words else fcntl.LOCK_EX
    wait = "wait" in words
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    typ = fcntl.F_RDLCK if kind == fcntl.LOCK_SH else fcntl.F_WRLCK
    if how == "test":
        try:
            found = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(LAYOUT, fcntl.F_WRLCK, 0, start, length, 0))
        except OSError as e:
            say(errno.errorcode[e.errno])
            return
        typ, _, start, length, pid = struct.unpack(LAYOUT, found)
        say(*(["free"] if typ == fcntl.F_UNLCK else ["ex" if typ == fcntl.F_WRLCK else "sh", start, length, pid]))
        return
    signal.signal(signal.SIGUSR1, interrupted)
    try:
        if how == "flock":
            fcntl.flock(fd, kind | (0 if wait else fcntl.LOCK_NB))
        elif how == "ofd":
            fcntl.fcntl(fd, OFD_SETLKW if wait else OFD_SETLK, struct.pack(LAYOUT, typ, 0, start, length, 0))
        else:
            fcntl.lockf(fd, kind | (0 if wait else fcntl.LOCK_NB), length, start)
    except InterruptedError:
        say("interrupted")
        return
    except OSError as e:
        say("denied" if e.errno in (errno.EAGAIN, errno.EACCES) else errno.errorcode[e.errno])
        return
    say("held")
    if sys.stdin.readline() == "unlock\n":
        if how == "flock":
            fcntl.flock(fd, fcntl.LOCK_UN)
        else:
            fcntl.lockf(fd, fcntl.LOCK_UN, length, start)
        say("unlocked")
        sys.stdin.readline()


main()
