#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program on a pseudo-terminal, and what a person would see there: enough of a vt100/xterm for ncurses."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

# Where everything is slow, waiting takes longer.
TIME_FACTOR = int(os.environ.get("TIME_FACTOR", "1"))

CSI = re.compile(r"\x1b\[([?>]?)([0-9;]*)([@-~])")
OTHER = re.compile(r"\x1b[()][0-9A-B]|\x1b[=>78M]")


class Screen:
    """Cells, and a cursor."""

    def __init__(self, rows, columns):
        self.alternate = False
        self.left_alternate = False
        self.pending = ""
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.y = self.x = self.top = 0
        self.bottom = rows - 1

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def scroll(self):
        del self.cells[self.top]
        self.cells.insert(self.bottom, [" "] * self.columns)

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            if self.y == self.bottom:
                self.scroll()
            else:
                self.y = min(self.y + 1, self.rows - 1)
        elif c == "\b":
            self.x = max(self.x - 1, 0)
        elif c == "\t":
            self.x = min(self.x // 8 * 8 + 8, self.columns - 1)
        elif c >= " ":
            if self.x >= self.columns:
                self.x = 0
                self.put("\n")
            self.cells[self.y][self.x] = self.last = c
            self.x += 1

    def erase(self, y, first, end):
        for x in range(max(first, 0), min(end, self.columns)):
            self.cells[y][x] = " "

    def control(self, private, numbers, final):
        """One control sequence."""
        n = [int(i) if i else 0 for i in numbers.split(";")]
        first = max(n[0], 1)
        y, x = self.y, min(self.x, self.columns - 1)
        if private:
            if final in "hl" and 1049 in n:
                self.left_alternate = self.alternate and final == "l"
                self.alternate = final == "h"
        elif final in "Hf":
            y, x = first - 1, max(n[1] if len(n) > 1 else 1, 1) - 1
        elif final == "A":
            y -= first
        elif final in "Be":
            y += first
        elif final in "Ca":
            x += first
        elif final == "D":
            x -= first
        elif final in "G`":
            x = first - 1
        elif final == "d":
            y = first - 1
        elif final == "J":
            for row in range(self.rows):
                if n[0] == 2 or (n[0] == 0 and row > y) or (n[0] == 1 and row < y):
                    self.erase(row, 0, self.columns)
            if n[0] != 2:
                self.erase(y, 0 if n[0] == 1 else x, x + 1 if n[0] == 1 else self.columns)
        elif final == "K":
            self.erase(y, 0 if n[0] else x, x + 1 if n[0] == 1 else self.columns)
        elif final == "X":
            self.erase(y, x, x + first)
        elif final == "b":
            for _ in range(first):
                self.put(self.last)
            return
        elif final == "P":
            row = self.cells[y]
            self.cells[y] = (row[:x] + row[x + first :] + [" "] * first)[: self.columns]
        elif final == "@":
            row = self.cells[y]
            self.cells[y] = (row[:x] + [" "] * first + row[x:])[: self.columns]
        elif final in "LM":
            for _ in range(first):
                del self.cells[self.bottom if final == "L" else y]
                self.cells.insert(y if final == "L" else self.bottom, [" "] * self.columns)
        elif final == "r":
            self.top, self.bottom = first - 1, (n[1] if len(n) > 1 and n[1] else self.rows) - 1
            y = x = 0
        elif final not in "mhlnct":
            raise ValueError(f"an unknown control sequence: {private}{numbers}{final}")
        self.y, self.x = min(max(y, 0), self.rows - 1), min(max(x, 0), self.columns - 1)

    def feed(self, text):
        text = self.pending + text
        self.pending = ""
        i = 0
        while i < len(text):
            if text[i] != "\x1b":
                self.put(text[i])
                i += 1
                continue
            match = CSI.match(text, i)
            if match:
                self.control(*match.groups())
            else:
                match = OTHER.match(text, i)
            if match:
                i = match.end()
            elif len(text) - i < 32:
                self.pending = text[i:]
                return
            else:
                raise ValueError(f"not understood: {text[i:i + 32]!r}")


class Terminal:
    """A program that runs on a terminal of its own."""

    def __init__(self, argv, rows=40, columns=110, env=None):
        self.screen = Screen(rows, columns)
        self.bytes = b""
        self.master, slave = pty.openpty()
        self.slave = slave
        self.set_size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(slave, fd)
            os.closerange(3, 256)
            os.execve(argv[0], argv, {**os.environ, "TERM": "xterm", **(env or {})})
        self.status = None
        self.tail = b""

    def set_size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        """As a window manager would: the program gets SIGWINCH, and draws everything again."""
        self.screen.resize(rows, columns)
        self.set_size(rows, columns)
        os.kill(self.pid, signal.SIGWINCH)

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return
        data = os.read(self.master, 65536)
        self.bytes += data
        data = self.tail + data
        # A character may be cut.
        for keep in range(4):
            try:
                text = data[: len(data) - keep].decode("utf-8")
                self.tail = data[len(data) - keep :]
                break
            except UnicodeDecodeError:
                continue
        else:
            raise ValueError(f"not UTF-8: {data[:60]!r}")
        self.screen.feed(text)

    def wait_for(self, what, seconds=30):
        """Until what(screen) holds."""
        end = time.monotonic() + seconds * TIME_FACTOR
        while not what(self.screen):
            if time.monotonic() > end:
                raise TimeoutError(f"the screen does not come to be as it should:\n{self.screen.text()}")
            self.read(0.1)

    def type(self, keys):
        os.write(self.master, keys.encode())

    def wait_end(self, seconds=30):
        """Its wait status."""
        end = time.monotonic() + seconds * TIME_FACTOR
        while self.status is None:
            if time.monotonic() > end:
                raise TimeoutError("it does not end")
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        self.read(0.1)
        return self.status

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before
