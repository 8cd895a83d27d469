"""As much of HTTP/2 as it takes to be a bad gRPC client: one connection, calls whose messages never end. Standard library only."""
import socket
import struct
import threading

DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
ACK = 1
END_HEADERS = 4


def frame(kind, flags, stream, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload


def header(name, value):
    """A literal that enters no table."""
    return b'\x00' + bytes([len(name)]) + name + bytes([len(value)]) + value


def call_headers(path):
    return b''.join(header(n, v) for n, v in ((b':method', b'POST'), (b':scheme', b'http'), (b':path', path), (b':authority', b'x'),
                                              (b'te', b'trailers'), (b'content-type', b'application/grpc')))


class BadClient:
    """Opens calls and feeds them as fast as flow control lets it; never ends a message."""

    def __init__(self, address):
        host, port = address.rsplit(':', 1)
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.lock = threading.Lock()
        self.windows = {0: 65535}
        self.initial_window = 65535
        self.closed = threading.Event()
        self.send(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(SETTINGS, 0, 0))
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, data):
        self.socket.sendall(data)

    def open(self, stream, path=b'/kvrouter.v1.Router/Route'):
        with self.lock:
            self.windows[stream] = self.initial_window
        self.send(frame(HEADERS, END_HEADERS, stream, call_headers(path)))

    def take(self, stream, wanted):
        """Bytes that may be sent now."""
        with self.lock:
            allowed = max(0, min(wanted, 16384, self.windows[0], self.windows.get(stream, 0)))
            self.windows[0] -= allowed
            self.windows[stream] = self.windows.get(stream, 0) - allowed
            return allowed

    def read(self):
        stream = self.socket.makefile('rb')
        try:
            while True:
                head = stream.read(9)
                if len(head) < 9:
                    break
                length, kind, flags, number = int.from_bytes(head[:3], 'big'), head[3], head[4], int.from_bytes(head[5:], 'big')
                payload = stream.read(length)
                if kind == SETTINGS and not flags & ACK:
                    for i in range(0, length, 6):
                        name, value = struct.unpack('>HI', payload[i:i + 6])
                        if name == 4:
                            with self.lock:
                                for known in self.windows:
                                    if known:
                                        self.windows[known] += value - self.initial_window
                                self.initial_window = value
                    self.send(frame(SETTINGS, ACK, 0))
                elif kind == PING and not flags & ACK:
                    self.send(frame(PING, ACK, 0, payload))
                elif kind == WINDOW_UPDATE:
                    with self.lock:
                        self.windows[number] = self.windows.get(number, self.initial_window) + int.from_bytes(payload, 'big')
        except OSError:
            pass
        self.closed.set()

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)  # the reading thread holds the descriptor, too
        except OSError:
            pass  # the server was first
        self.socket.close()
