"""What Dynamo's workers put on the event plane, and sockets to put it there."""
import socket
import struct
import threading

import msgpack
import zmq
from conftest import DEADLINE_S

# Content hashes of tokens 0..3 and 4..7 in blocks of 4: golden vectors of tests/data/hash_vectors.json.
TOKENS = list(range(8))
LOCALS = [9143094415614847814, 12124091508212882195]


def envelope(payload, topic='kv-events', publisher=81234567, sequence=0):
    return msgpack.packb({'publisher_id': publisher, 'sequence': sequence, 'published_at': 1756671000123, 'topic': topic,
                          'payload': msgpack.packb(payload)})


def stored(worker_id, event_id, parent=None, blocks=None):
    blocks = blocks or [{'block_hash': 900 + i, 'tokens_hash': h, 'mm_extra_info': None} for i, h in enumerate(LOCALS)]
    data = {'stored': {'parent_hash': parent, 'start_position': None, 'blocks': blocks}}
    return {'worker_id': worker_id, 'storage_tier': 'device', 'residency_domain': 'worker',
            'event': {'event_id': event_id, 'dp_rank': 0, 'data': data}}


def removed(worker_id, event_id, hashes):
    return {'worker_id': worker_id, 'event': {'event_id': event_id, 'dp_rank': 0, 'data': {'removed': {'block_hashes': hashes}}}}


class NatsClient:
    """Just enough of the protocol to publish."""

    def __init__(self, port, **credentials):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout=DEADLINE_S)
        self.file = self.socket.makefile('rb')
        assert self.file.readline().startswith(b'INFO ')
        fields = ','.join(['"verbose":false', *(f'"{k}":"{v}"' for k, v in credentials.items())])
        self.socket.sendall(f'CONNECT {{{fields}}}\r\n'.encode())
        self.flush()

    def flush(self):
        self.socket.sendall(b'PING\r\n')
        while (line := self.file.readline()) == b'PING\r\n':  # the server measures its way to us, too
            self.socket.sendall(b'PONG\r\n')
        assert line == b'PONG\r\n', line

    def publish(self, subject, data):
        self.socket.sendall(f'PUB {subject} {len(data)}\r\n'.encode() + data + b'\r\n')
        self.flush()

    def close(self):
        self.file.close()
        self.socket.close()


class ZmqPublisher:
    """A worker's own socket, as PUB on the wire; tells when the router has subscribed."""

    def __init__(self, context):
        self.socket = context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind('tcp://127.0.0.1:*')
        self.endpoint = self.socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b'\0').decode()

    def wait_for_subscriber(self):
        for _ in range(2):  # one subscription per topic
            assert self.socket.poll(DEADLINE_S * 1000), 'nobody subscribed'
            self.socket.recv()

    def publish(self, body, topic='kv-events', publisher=81234567, sequence=0):
        self.socket.send_multipart([topic.encode(), struct.pack('>Q', publisher), struct.pack('>Q', sequence),
                                    b'\x01' + struct.pack('>I', len(body)) + body])


class ReplaySocket:
    """An engine's replay socket, with a history that a test may add to at any time."""

    def __init__(self, context):
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind('tcp://127.0.0.1:*')
        self.endpoint = self.socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b'\0').decode()
        self.history = []
        self.requests = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def remember(self, *events):
        self.history.append(msgpack.packb([1000.25 + len(self.history), list(events), 0]))

    def _serve(self):
        while not self.stopping.is_set():
            if not self.socket.poll(50):
                continue
            client, _, first = self.socket.recv_multipart()
            self.requests += 1
            for sequence, payload in list(enumerate(self.history))[struct.unpack('>Q', first)[0]:]:
                self.socket.send_multipart([client, b'', b'', struct.pack('>Q', sequence), payload])
            self.socket.send_multipart([client, b'', b'', struct.pack('>q', -1), b''])
        self.socket.close()

    def close(self):
        self.stopping.set()
        self.thread.join(DEADLINE_S)
