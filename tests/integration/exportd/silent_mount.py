#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""silent_mount.py DIR: mounts a FUSE file system at DIR that never answers, says "mounted", and unmounts on SIGTERM."""

import ctypes
import os
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)
MNT_FORCE, MNT_DETACH = 1, 2
target = sys.argv[1].encode()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
fd = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"silent", target, b"fuse.silent", 0, options):
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
print("mounted", flush=True)
signal.sigwait({signal.SIGTERM})
libc.umount2(target, MNT_FORCE | MNT_DETACH)
