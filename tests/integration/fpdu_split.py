#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fpdu_split.py PORT IN OUT

Cuts the TCP segments of a capture (pcap, Ethernet, IPv4) at the borders of MPA frames, and prints how many MPA frames
there are in each direction: "to_server N from_server N". The byte streams stay what they are. Tshark 4.0 needs it: of the
Sends that share one TCP segment it hands only the first to RPC-over-RDMA. A segment that is missing is an error.
"""

import struct
import sys

MPA_KEYS = (b"MPA ID Req Frame", b"MPA ID Rep Frame")


class Stream:
    """One direction of one connection."""

    def __init__(self, first_seq):
        self.seq = first_seq  # of the next byte that we have not seen
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


def main():
    port, streams = int(sys.argv[1]), {}
    counts = {True: 0, False: 0}
    with open(sys.argv[2], "rb") as source, open(sys.argv[3], "wb") as sink:
        header = source.read(24)
        magic, *_, link = struct.unpack("<IHHiIII", header)
        if magic not in (0xA1B2C3D4, 0xA1B23C4D) or link != 1:
            sys.exit("not a little-endian pcap file of Ethernet frames")
        sink.write(header)
        while record := source.read(16):
            sec, frac, captured, length = struct.unpack("<IIII", record)
            if captured != length:
                sys.exit("a frame was not captured whole")
            frame = source.read(captured)
            ip = 14
            tcp = ip + 4 * (frame[ip] & 15)
            data = tcp + 4 * (frame[tcp + 12] >> 4)
            # The length field is 0 when a segment outgrows it.
            total = struct.unpack_from("!H", frame, ip + 2)[0] or len(frame) - ip
            payload = frame[data : ip + total]
            sport, dport, seq = struct.unpack_from("!HHI", frame, tcp)
            flags = frame[tcp + 13]
            key = (sport, dport)
            if flags & 2:
                streams[key] = Stream(seq + 1 & 0xFFFFFFFF)
            cuts = []
            if payload:
                stream = streams[key]
                ahead = seq - stream.seq & 0xFFFFFFFF
                if 0 < ahead < 1 << 31:
                    sys.exit("gap: %d bytes before sequence number %d are missing" % (ahead, seq))
                if ahead == 0:
                    before = stream.frames
                    cuts = stream.borders(payload)
                    counts[dport == port] += stream.frames - before
                    stream.seq = seq + len(payload) & 0xFFFFFFFF
            edges = [0] + cuts + [len(payload)]
            for i in range(len(edges) - 1):
                piece = payload[edges[i] : edges[i + 1]]
                out = bytearray(frame[:data] + piece)
                struct.pack_into("!H", out, ip + 2, min(len(out) - ip, 0xFFFF))
                struct.pack_into("!H", out, ip + 10, 0)
                struct.pack_into("!I", out, tcp + 4, seq + edges[i] & 0xFFFFFFFF)
                if i < len(edges) - 2:
                    out[tcp + 13] &= ~9  # FIN and PSH belong to the last piece
                sink.write(struct.pack("<IIII", sec, frac, len(out), len(out)) + out)
    for stream in streams.values():
        if stream.border or stream.head:
            sys.exit("the last frame of a stream is not whole")
    print("to_server %d from_server %d" % (counts[True], counts[False]))


main()
