#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""supervise.py SCRATCH SECONDS COMMAND…

Runs a command and leaves nothing of it behind: no process, however it was started, and no mount below the directory
SCRATCH, which is removed. Exit status: the command's, or 124 when it was not done within its time.

Every descendant is found, daemons too, because this process is their subreaper (prctl(2)). What others do that look for a
process by its arguments or its environment waits for ever here: /proc shows them only under a lock that a process holds
while it waits for a file system that does not answer. /proc/PID/stat needs no lock.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36
MNT_DETACH = 2


class Interrupted(Exception):
    pass


class OutOfTime(Exception):
    pass


def on_alarm(*_):
    raise OutOfTime


def on_signal(*_):
    raise Interrupted


def run(limit_s, command):
    """The command's exit status. Orphans that end meanwhile are collected."""
    child = os.posix_spawnp(command[0], command, os.environ, setpgroup=0)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == child:
                return os.waitstatus_to_exitcode(status)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def descendants():
    """pid -> state of all that come from here; zombies are collected first."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    parent, state = {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as f:
                # The name may hold anything, the last bracket ends it.
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        state[int(name)], parent[int(name)] = fields[0], int(fields[1])
    found = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, ppid in parent.items() if ppid in found and pid not in found}
        found |= more
        grown = bool(more)
    return {pid: state[pid] for pid in found - {os.getpid()} if state[pid] not in "ZX"}


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return "?"


def mounts_below(scratch):
    """(mount point, minor number), the last mounted first."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            fields = line.split()
            if fields[4].startswith(scratch + "/"):
                found.append((fields[4], fields[2].partition(":")[2]))
    return found[::-1]


def unmount(where, minor):
    """No command that might look at what is mounted: umount2(2) does not."""
    path = os.fsencode(where)
    if LIBC.umount2(path, 0) == 0:
        return
    try:
        with open("/sys/fs/fuse/connections/%s/abort" % minor, "w", encoding="utf-8") as f:
            f.write("1")
    except OSError:
        pass
    if LIBC.umount2(path, MNT_DETACH) != 0:
        with open(os.devnull, "w", encoding="utf-8") as null:
            subprocess.Popen(["fusermount3", "-uz", where], stdout=null, stderr=null)


def end_processes():
    for sig, patience_s in ((signal.SIGTERM, 3), (signal.SIGKILL, 15)):
        left = descendants()
        for pid in left:
            print("swept away: process %d (%s)" % (pid, name_of(pid)), flush=True)
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + patience_s
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = descendants()
        if not left:
            return
    for pid, state in descendants().items():
        print("process %d (%s) survives SIGKILL in state %s" % (pid, name_of(pid), state), flush=True)


def sweep(scratch):
    for where, minor in mounts_below(scratch):
        print("swept away: mount %s" % where, flush=True)
        unmount(where, minor)
    end_processes()
    for where, minor in mounts_below(scratch):
        unmount(where, minor)
    if mounts_below(scratch):
        print("still mounted:", mounts_below(scratch), flush=True)
        return
    shutil.rmtree(scratch, ignore_errors=True)


def main():
    scratch, limit_s, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    if LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("prctl: %s" % os.strerror(ctypes.get_errno()))
    signal.signal(signal.SIGALRM, on_alarm)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, on_signal)
    status = 1
    try:
        status = run(limit_s, command)
    except OutOfTime:
        status = 124
    except Interrupted:
        status = 130
    finally:
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sig, signal.SIG_IGN)
        keep = os.environ.get("KEEP_LOGS_IN")
        if status not in (0, 77) and keep:
            keep_logs(scratch, keep)
        sweep(scratch)
    sys.exit(status if status >= 0 else 128 - status)


def keep_logs(scratch, into):
    """What programs said of a run that failed, into one file."""
    with open(into, "a", encoding="utf-8", errors="surrogateescape") as out:
        for name in sorted(os.listdir(scratch)):
            if not name.endswith(".log") and not name.startswith("sanitizer"):
                continue
            with open(os.path.join(scratch, name), encoding="utf-8", errors="surrogateescape") as f:
                out.write("--- %s\n%s\n" % (name, f.read()[-20000:]))


main()
