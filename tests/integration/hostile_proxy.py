# SPDX-License-Identifier: MIT
"""A server that turns against its client: an iWARP relay in front of a real server.

It passes both directions of every connection on, byte by byte, and reads along: from the transport headers of the calls
(RFC 8166) it learns each key that the client has ever given away, with its direction, offset and length. At a moment that
the test chooses it puts a frame of its own into the stream towards the client, as only the owner of the connection can, and
tells what came back: the Terminate message (RFC 5040 §4.8), and whether anything was sent out before it.
"""

import queue
import socket
import struct
import threading
import time

READABLE, WRITABLE = "readable", "writable"  # what the client let the server do
SEND_OPCODES = (3, 4, 5, 6)
READ_REQUEST, READ_RESPONSE, TERMINATE = 1, 2, 7


def make_table():
    table = []
    for i in range(256):
        crc = i
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = make_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def fpdu(ulpdu):
    frame = struct.pack("!H", len(ulpdu)) + ulpdu
    frame += bytes(-len(frame) % 4)
    return frame + struct.pack("<I", crc32c(frame))


class Key:
    def __init__(self, connection, xid, access, handle, length, offset):
        self.connection, self.xid, self.access = connection, xid, access
        self.handle, self.length, self.offset = handle, length, offset

    def __repr__(self):
        return f"{self.access} STag {self.handle:#x} +{self.length} at {self.offset:#x} of connection {self.connection.number}"


def keys_of_call(connection, message):
    """The chunks of an RPC-over-RDMA call."""
    word = lambda at: struct.unpack_from("!I", message, at)[0]
    segment = lambda at: struct.unpack_from("!IIQ", message, at)
    xid, keys, at = word(0), [], 16
    if len(message) < 28 or word(12) not in (0, 1):
        return xid, keys
    add = lambda access, seg: keys.append(Key(connection, xid, access, *seg))
    while word(at):
        add(READABLE, segment(at + 8))
        at += 24
    at += 4
    while word(at):
        for i in range(word(at + 4)):
            add(WRITABLE, segment(at + 8 + 16 * i))
        at += 8 + 16 * word(at + 4)
    at += 4
    if word(at):
        for i in range(word(at + 4)):
            add(WRITABLE, segment(at + 8 + 16 * i))
    return xid, keys


class Verdict:
    """What the client did about a frame: the Terminate's layer, type and code, and the data it sent first."""

    def __init__(self, terminate, read_response_bytes):
        self.terminate, self.read_response_bytes = terminate, read_response_bytes

    def __repr__(self):
        return f"Terminate {self.terminate}, {self.read_response_bytes} bytes of Read Response"


class Connection:
    def __init__(self, proxy, number, client, server):
        self.proxy, self.number, self.client, self.server = proxy, number, client, server
        self.keys = []
        self.reads_sent = 0  # RDMA Read Requests that went to the client: their message sequence number is next
        self.to_client = threading.Lock()  # frames are put in between frames
        self.attacked = False
        self.terminate = None
        self.read_response_bytes = 0
        self.over = threading.Event()
        self.message = b""  # of a Send that comes in several segments
        for pump in (self.pump_from_client, self.pump_from_server):
            threading.Thread(target=self.run, args=(pump,), daemon=True).start()

    def run(self, pump):
        try:
            pump()
        except (OSError, EOFError):
            pass
        self.over.set()
        for sock in (self.client, self.server):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def exactly(source, count):
        data = b""
        while len(data) < count:
            piece = source.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def set_up_frame(self, source, sink):
        head = self.exactly(source, 20)
        sink.sendall(head + self.exactly(source, struct.unpack("!H", head[18:20])[0]))

    def frame(self, source):
        head = self.exactly(source, 2)
        length = struct.unpack("!H", head)[0]
        rest = self.exactly(source, length + (-(2 + length) % 4) + 4)
        return head + rest, rest[:length]

    def pump_from_client(self):
        self.set_up_frame(self.client, self.server)
        while True:
            frame, ulpdu = self.frame(self.client)
            opcode = ulpdu[1] & 15
            if opcode == TERMINATE:
                control = struct.unpack_from("!I", ulpdu, 18)[0]
                self.terminate = (control >> 28, control >> 24 & 15, control >> 16 & 255)
                raise EOFError
            if self.attacked:
                if opcode == READ_RESPONSE:
                    self.read_response_bytes += len(ulpdu) - 14
                continue  # the server must not see what follows from our frame
            if opcode in SEND_OPCODES:
                self.message += ulpdu[18:]
                if ulpdu[0] & 0x40:
                    message, self.message = self.message, b""
                    xid, keys = keys_of_call(self, message)
                    self.keys += keys
                    self.proxy.on_call(self, keys)
            if not self.attacked:
                self.server.sendall(frame)

    def pump_from_server(self):
        with self.to_client:
            self.set_up_frame(self.server, self.client)
        while True:
            frame, ulpdu = self.frame(self.server)
            with self.to_client:
                if self.attacked:
                    continue
                if ulpdu[1] & 15 == READ_REQUEST:
                    self.reads_sent += 1
                self.client.sendall(frame)

    def attack(self, ulpdu):
        """Sends one frame to the client; the server is heard no more on this connection. Returns what came back."""
        with self.to_client:
            self.attacked = True
            self.client.sendall(fpdu(ulpdu))

    def verdict(self, limit_s=60):
        if not self.over.wait(limit_s):
            return Verdict(None, self.read_response_bytes)
        return Verdict(self.terminate, self.read_response_bytes)

    def write_frame(self, handle, offset, data):
        return struct.pack("!BBIQ", 0xC1, 0x40, handle, offset % 2**64) + data

    def read_frame(self, handle, offset, length):
        msn = self.reads_sent + 1
        return struct.pack("!BBIIII", 0x41, 0x41, 0, 1, msn, 0) + struct.pack(
            "!IQIIQ", 0x5EED, 0, length, handle, offset % 2**64
        )


class Proxy:
    def __init__(self, server_port):
        self.server_port = server_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        self.armed = None
        self.attacks = queue.Queue()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                client.close()
                continue
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.append(Connection(self, len(self.connections), client, server))

    def all_keys(self):
        return [key for connection in self.connections for key in connection.keys]

    def newest(self):
        """The connection that is alive; a client that was cut off has made it again when this returns."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.connections and not self.connections[-1].over.is_set():
                return self.connections[-1]
            time.sleep(0.01)
        raise TimeoutError("the client does not come back")

    def arm(self, choose, make):
        """When a call gives a key that choose(key) wants, make(connection, key) goes to the client instead of the call's answer,
        while the key is valid. Once."""
        self.armed = (choose, make)

    def on_call(self, connection, keys):
        for key in keys:
            armed = self.armed
            if armed and armed[0](key):
                self.armed = None
                connection.attack(armed[1](connection, key))
                self.attacks.put((connection, key))
                return
