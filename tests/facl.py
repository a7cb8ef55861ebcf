#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""facl.py COMMAND FILE [ACL]: POSIX ACLs by system calls alone, for machines without getfacl(1) and setfacl(1).

    get, get-default         prints it, as u::rw-,u:64531:r--,g::r--,m::rw-,o::--- ; "none" where there is none
    set, set-default ACL     entries in the order that they are written in
    many ACL COUNT           the access ACL, with so many entries u:ID:r-- in it
    remove, remove-default
    list                     the names of the extended attributes
    tree                     of everything below a directory but links: name, mode and both ACLs

An error is its name on standard error, as EOPNOTSUPP, and exit status 1.
"""

import errno
import os
import struct
import sys

NAMES = {"access": "system.posix_acl_access", "default": "system.posix_acl_default"}
TAGS = {"u": (1, 2), "g": (4, 8), "m": (16, None), "o": (32, None)}  # of nobody in particular, of somebody
NOBODY = 0xFFFFFFFF


def entry(text):
    kind, who, perms = text.split(":")
    tag = TAGS[kind][1 if who else 0]
    perm = sum(bit for bit, letter in ((4, "r"), (2, "w"), (1, "x")) if letter in perms)
    return struct.pack("<HHI", tag, perm, int(who) if who else NOBODY)


def value(text):
    return struct.pack("<I", 2) + b"".join(entry(e) for e in text.split(","))


def text(value):
    out = []
    for tag, perm, who in struct.iter_unpack("<HHI", value[4:]):
        kind = next(k for k, tags in TAGS.items() if tag in tags)
        perms = "".join(letter if perm & bit else "-" for bit, letter in ((4, "r"), (2, "w"), (1, "x")))
        out.append(f"{kind}:{'' if who == NOBODY else who}:{perms}")
    return ",".join(out)


def get(file, name):
    try:
        return text(os.getxattr(file, name))
    except OSError as e:
        if e.errno == errno.ENODATA:
            return "none"
        raise


def tree(top):
    paths = [os.path.join(d, name) for d, dirs, files in os.walk(top) for name in dirs + files]
    for path in sorted(p for p in paths if not os.path.islink(p)):
        yield os.path.relpath(path, top), oct(os.stat(path).st_mode), *(get(path, name) for name in NAMES.values())


def main(command, file, *args):
    verb, _, which = command.partition("-")
    name = NAMES[which or "access"]
    if verb == "get":
        print(get(file, name))
    elif verb == "set":
        os.setxattr(file, name, value(args[0]))
    elif verb == "many":
        first, *rest = args[0].split(",")
        named = [f"u:{100000 + i}:r--" for i in range(int(args[1]))]
        os.setxattr(file, name, value(",".join([first, *named, *rest])))
    elif verb == "remove":
        os.removexattr(file, name)
    elif verb == "list":
        print(*os.listxattr(file))
    elif verb == "tree":
        for line in tree(file):
            print(*line)
    else:
        sys.exit(__doc__)


try:
    main(*sys.argv[1:])
except OSError as e:
    sys.exit("EOPNOTSUPP" if e.errno == errno.EOPNOTSUPP else errno.errorcode[e.errno])
