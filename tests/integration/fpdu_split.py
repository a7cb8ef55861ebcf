#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fpdu_split.py PORT IN OUT

Puts the TCP streams of a capture (pcap, Ethernet, IPv4) in order, cuts their segments at the borders of MPA frames, and
prints how many MPA frames there are in each direction, and how many bytes TCP had to send again: "to_server N from_server N
repeated N". The byte streams stay what they are. Tshark 4.0 needs it: of the Sends that share one TCP segment it hands only
the first to RPC-over-RDMA. A byte that is missing in the end is an error.
"""

import struct
import sys

MPA_KEYS = (b"MPA ID Req Frame", b"MPA ID Rep Frame")


class Stream:
    """One direction of one connection."""

    def __init__(self, first_seq):
        self.seq = first_seq  # of the next byte that we have not seen
        self.early = {}  # sequence number -> what came before its turn, as add() was given it
        self.border = 0  # how many bytes until the next frame begins
        self.head = b""  # what we have of the head of the frame that begins here
        self.started = False
        self.frames = 0

    def borders(self, payload):
        """Offsets in payload at which frames begin, but for 0."""
        at, found = 0, []
        while at < len(payload):
            if self.border:
                step = min(self.border, len(payload) - at)
                self.border -= step
                at += step
                continue
            if not self.head and at:
                found.append(at)
            need = 2 if self.started else 20
            take = payload[at : at + need - len(self.head)]
            self.head += take
            at += len(take)
            if len(self.head) < need:
                break
            if self.started:
                length = struct.unpack("!H", self.head)[0]
                self.border = (2 + length + 3 & ~3) + 4 - 2
                self.frames += 1
            else:
                if self.head[:16] not in MPA_KEYS:
                    sys.exit("the stream does not begin with an MPA request or reply")
                self.border = struct.unpack("!H", self.head[18:20])[0]
                self.started = True
            self.head = b""
        return found


def distance(a, b):
    """From sequence number a to b, negative if b comes first."""
    return (b - a + (1 << 31) & 0xFFFFFFFF) - (1 << 31)


class Splitter:
    def __init__(self, port, sink):
        self.port, self.sink, self.streams = port, sink, {}
        self.frames = {True: 0, False: 0}
        self.repeated = 0
        self.waiting = []  # segments that acknowledge what the capture has only later

    def take(self, when, head, tcp, seq, payload):
        """The next segment of the capture. Two processors record the two directions, so an answer may stand before its question:
        a segment waits until what it acknowledges is there, and with it what follows in its own direction."""
        self.waiting.append((when, head, tcp, seq, payload))
        again = True
        while again:
            again, blocked, rest = False, set(), []
            for segment in self.waiting:
                key = struct.unpack_from("!HH", segment[1], segment[2])
                if key in blocked or not self.may_follow(key, segment[1], segment[2]):
                    blocked.add(key)
                    rest.append(segment)
                else:
                    self.add(*segment)
                    again = True
            self.waiting = rest
            again = again and bool(rest)

    def may_follow(self, key, head, tcp):
        other = self.streams.get(key[::-1])
        if not head[tcp + 13] & 16:
            return True  # a SYN acknowledges nothing
        # A FIN counts as one byte.
        return other is not None and distance(other.seq, struct.unpack_from("!I", head, tcp + 8)[0]) <= 1

    def write(self, when, head, tcp, seq, payload, last):
        out = bytearray(head + payload)
        struct.pack_into("!H", out, 14 + 2, min(len(out) - 14, 0xFFFF))
        struct.pack_into("!H", out, 14 + 10, 0)
        struct.pack_into("!I", out, tcp + 4, seq & 0xFFFFFFFF)
        if not last:
            out[tcp + 13] &= ~9  # FIN and PSH belong to the last piece
        self.sink.write(struct.pack("<IIII", *when, len(out), len(out)) + out)

    def add(self, when, head, tcp, seq, payload):
        """One segment; head is all before its payload."""
        key = struct.unpack_from("!HH", head, tcp)
        if head[tcp + 13] & 2:
            self.streams[key] = Stream(seq + 1 & 0xFFFFFFFF)
        if not payload:
            self.write(when, head, tcp, seq, payload, True)
            return
        stream = self.streams[key]
        ahead = distance(stream.seq, seq)
        if ahead > 0:
            stream.early[seq] = (when, head, tcp, seq, payload)
            return
        self.repeated += min(-ahead, len(payload))
        payload = payload[-ahead:]
        if payload:
            self.cut(stream, when, head, tcp, payload, key[1] == self.port)
        for early in [e for e in stream.early if distance(stream.seq, e) <= 0]:
            if early in stream.early:
                self.add(*stream.early.pop(early))

    def cut(self, stream, when, head, tcp, payload, to_server):
        before = stream.frames
        edges = [0] + stream.borders(payload) + [len(payload)]
        self.frames[to_server] += stream.frames - before
        for i in range(len(edges) - 1):
            piece = payload[edges[i] : edges[i + 1]]
            self.write(when, head, tcp, stream.seq + edges[i], piece, i == len(edges) - 2)
        stream.seq = stream.seq + len(payload) & 0xFFFFFFFF

    def finish(self):
        if self.waiting:
            sys.exit("gap: a segment acknowledges bytes that are missing")
        for stream in self.streams.values():
            if stream.early:
                sys.exit("gap: the bytes before sequence number %d are missing" % min(stream.early))
            if stream.border or stream.head:
                sys.exit("the last frame of a stream is not whole")


def main():
    with open(sys.argv[2], "rb") as source, open(sys.argv[3], "wb") as sink:
        header = source.read(24)
        magic, *_, link = struct.unpack("<IHHiIII", header)
        if magic not in (0xA1B2C3D4, 0xA1B23C4D) or link != 1:
            sys.exit("not a little-endian pcap file of Ethernet frames")
        sink.write(header)
        splitter = Splitter(int(sys.argv[1]), sink)
        while record := source.read(16):
            sec, frac, captured, length = struct.unpack("<IIII", record)
            if captured != length:
                sys.exit("a frame was not captured whole")
            frame = source.read(captured)
            tcp = 14 + 4 * (frame[14] & 15)
            data = tcp + 4 * (frame[tcp + 12] >> 4)
            # The length field is 0 when a segment outgrows it.
            total = struct.unpack_from("!H", frame, 14 + 2)[0] or len(frame) - 14
            seq = struct.unpack_from("!I", frame, tcp + 4)[0]
            splitter.take((sec, frac), frame[:data], tcp, seq, frame[data : 14 + total])
        splitter.finish()
    print("to_server %d from_server %d repeated %d" % (splitter.frames[True], splitter.frames[False], splitter.repeated))


main()
