#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs.py extract FILE… DIR: the blocks of commands and examples (``` … ```) of Markdown files, for tests/docs.sh.
docs.py paths ROOT FILE…: what is named in `…` as a file of the tree must be there.

Before each block stands a comment, which readers do not see, that says what becomes of it:

    <!-- run: WHERE -->             a script for bash: in the "build" before there is a machine, on the "machine", or in the
    <!-- run: machine as USER -->   "guest" of tests/vm
    <!-- file: WHERE PATH -->       goes to the end of that file there
    <!-- run: not, REASON -->       neither
    <!-- picture -->                neither: no command and no example

Each becomes DIR/NNN.sh, with its line of the comment in NNN.mark and its place in NNN.where. A block without one is an error.
"""

import os
import re
import sys

MARK = re.compile(r"<!-- (run: (build|machine|guest)( as \w+)?|run: not, .+|file: (machine|guest) /\S+|picture) -->$")
PATH = re.compile(r"`((?:contrib|debian|docs|fmrpool|rpcrdma|src|tests)/[\w./@-]+\.(?:[chd8]|md|py|sh|yaml))`")


def blocks(name):
    mark = where = text = None
    for number, line in enumerate(open(name), 1):
        line = line.rstrip("\n")
        if text is not None:
            if line.startswith("```"):
                yield where, mark, text
                mark = text = None
            else:
                text.append(line)
        elif line.startswith("```"):
            where, text = f"{name}:{number}", []
        elif line.startswith("<!--"):
            mark = line
        elif line:
            mark = None
    if text is not None:
        sys.exit(f"{where}: a block that does not end")


def extract(names, directory):
    bad = count = 0
    for name in names:
        for where, mark, text in blocks(name):
            found = MARK.match(mark or "")
            if not found:
                print(f"{where}: {'what is ' + mark + '?' if mark else 'nothing says whether this can be run'}")
                bad += 1
                continue
            count += 1
            for ending, content in ("sh", "\n".join(text)), ("mark", found[1]), ("where", where):
                with open(f"{directory}/{count:03}.{ending}", "w") as f:
                    f.write(content + "\n")
    return bad == 0 and count > 0


def paths(root, names):
    good = True
    for name in names:
        for number, line in enumerate(open(name), 1):
            for path in PATH.findall(line):
                if "NAME" not in path and not os.path.exists(os.path.join(root, path)):
                    print(f"{name}:{number}: there is no {path}")
                    good = False
    return good


if sys.argv[1] == "extract":
    sys.exit(not extract(sys.argv[2:-1], sys.argv[-1]))
sys.exit(not paths(sys.argv[2], sys.argv[3:]))
