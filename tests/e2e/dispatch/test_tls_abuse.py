"""Clients of the OpenAI door that misuse TLS: others are served meanwhile, and everything they do is bounded and counted."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from conftest import DEADLINE_S, wait_for
from test_openai_door import MODEL, aborted, certificate, door, engines  # noqa: F401

READ_TIMEOUT_S = 1.0
MAX_CONNECTIONS = 120


class TlsDoor:
    """A door with a certificate, and a client that goes on asking it for as long as the test runs, each time anew."""

    def __init__(self, daemon, addresses, certificate_file):
        self.daemon, self.engines = daemon, addresses
        host, port = daemon.openai_address.rsplit(':', 1)
        self.address = (host, int(port))
        self.trust = ssl.create_default_context(cafile=str(certificate_file))
        self.served, self.failures = 0, []
        self.start()

    def start(self):
        self._stop = threading.Event()
        self._other = threading.Thread(target=self._ask_on)
        self._other.start()

    def _ask_on(self):
        while not self._stop.is_set():
            try:
                connection = http.client.HTTPSConnection(*self.address, timeout=DEADLINE_S, context=self.trust)
                connection.request('POST', '/v1/completions', json.dumps({'model': MODEL, 'prompt': [1, 2, 3], 'max_tokens': 2}),
                                   {'content-type': 'application/json'})
                status = connection.getresponse().status
                connection.close()
                if status == 200:
                    self.served += 1
                else:
                    self.failures.append(status)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(error)
            self._stop.wait(0.05)

    def stop(self):
        self._stop.set()
        self._other.join()

    def plain(self):
        return socket.create_connection(self.address, timeout=DEADLINE_S)

    def tls(self):
        return self.trust.wrap_socket(self.plain(), server_hostname=self.address[0])

    def failed_handshakes(self):
        return self.daemon.metrics().one('kvrouter_http_tls_handshakes_failed_total')

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.daemon.process.pid}/fd'))

    def resident_kib(self):
        return int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{self.daemon.process.pid}/status').read_text()).group(1))

    def live(self):
        return self.daemon.metrics().one('kvrouter_dispatch_live_requests')

    def others_are_served(self, more=3):
        before = self.served
        wait_for('others are served', lambda: self.served >= before + more)
        assert not self.failures, self.failures


@pytest.fixture
def tls_door(door, certificate):
    daemon, addresses = door('--dispatch-tls-cert-path', str(certificate[0]), '--dispatch-tls-key-path', str(certificate[1]),
                             '--dispatch-read-timeout-ms', str(int(READ_TIMEOUT_S * 1000)), '--dispatch-idle-timeout-ms', '3000',
                             '--dispatch-max-connections', str(MAX_CONNECTIONS), engine=('--engines', '1', '--speedup', '1'))
    made = TlsDoor(daemon, addresses, certificate[0])
    try:
        made.others_are_served(1)
        yield made
        made.others_are_served()
    finally:
        made.stop()
    assert not made.failures, made.failures


def client_hello(trust):
    outgoing = ssl.MemoryBIO()
    session = trust.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname='127.0.0.1')
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def is_closed(connection):
    """By the other side. What it said before, an alert or a part of the handshake, is read."""
    connection.settimeout(DEADLINE_S)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_handshakes_that_never_end_are_ended(tls_door):
    hello = client_hello(tls_door.trust)
    before, descriptors = tls_door.failed_handshakes(), tls_door.descriptors()
    parts = [b'', hello[:1], hello[:5], hello[: len(hello) // 2], hello]  # the last one never answers the server's part
    clients = []
    for part in parts * 8:
        clients.append(tls_door.plain())
        clients[-1].sendall(part)
    tls_door.others_are_served()
    assert all(is_closed(client) for client in clients)
    wait_for('all counted', lambda: tls_door.failed_handshakes() == before + len(clients))
    for client in clients:
        client.close()
    wait_for('descriptors are back', lambda: tls_door.descriptors() <= descriptors + 2)


def test_a_handshake_byte_by_byte_has_the_time_of_a_request(tls_door):
    hello, before = client_hello(tls_door.trust), tls_door.failed_handshakes()
    client = tls_door.plain()
    with pytest.raises(OSError):
        for byte in hello * 10:
            client.sendall(bytes([byte]))
            time.sleep(0.05)  # 200 bytes of hello: ten times as long as it may take
    client.close()
    wait_for('it was counted', lambda: tls_door.failed_handshakes() == before + 1)


def test_a_request_byte_by_byte_within_records_is_answered_408(tls_door):
    client = tls_door.tls()
    head, answer = b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nX-Slow: ' + b'x' * 500, b''
    client.settimeout(0.05)
    for byte in head:
        try:
            client.sendall(bytes([byte]))
            answer = client.recv(4096)
            break
        except TimeoutError:
            continue
        except OSError:
            break
    assert answer.startswith(b'HTTP/1.1 408'), answer
    client.close()


def test_garbage_and_damaged_records_end_their_connection(tls_door):
    hello, before = client_hello(tls_door.trust), tls_door.failed_handshakes()
    damaged = [b'GET / HTTP/1.1\r\n\r\n', os.urandom(2000), hello[:9] + b'\xff' * (len(hello) - 9), b'\x16\x03\x01\xff\xff' + b'x' * 70_000,
               b'\x80\x2e\x01\x00\x02' + b'x' * 44, hello[:5] + hello]
    for number, text in enumerate(damaged):
        client = tls_door.plain()
        with contextlib.suppress(OSError):
            client.sendall(text)
        assert is_closed(client), number
        client.close()
    wait_for('all counted', lambda: tls_door.failed_handshakes() == before + len(damaged))
    # After the handshake: a record that nobody encrypted.
    client = tls_door.tls()
    raw = socket.socket(fileno=client.detach())
    raw.sendall(b'\x17\x03\x03\x00\x20' + os.urandom(32))
    assert is_closed(raw)
    raw.close()


@pytest.mark.parametrize('version,letter', [('-tls1_2', 'R'), ('-tls1_3', 'K')])
def test_renegotiation_and_key_updates_without_end_hold_nobody_up(tls_door, version, letter):
    """R asks for a renegotiation, K for new keys: as fast as the client can."""
    host, port = tls_door.address
    clients = [subprocess.Popen(['openssl', 's_client', version, '-connect', f'{host}:{port}'], stdin=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(4)]

    def nag(process):
        with contextlib.suppress(OSError, ValueError):
            while True:
                process.stdin.write(f'{letter}\n'.encode())
                process.stdin.flush()
                time.sleep(0.001)

    threads = [threading.Thread(target=nag, args=(process,)) for process in clients]
    for thread in threads:
        thread.start()
    try:
        tls_door.others_are_served(20)
        # They ask for nothing, whatever the keys, and have the time of a request for it.
        wait_for('they are sent away', lambda: all(process.poll() is not None for process in clients))
    finally:
        for process in clients:
            process.kill()
            process.wait()
        for thread in threads:
            thread.join()
    wait_for('no connection is left', lambda: tls_door.live() <= 1)


def post(body, length=None):
    text = json.dumps(body).encode()
    return b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % (length or len(text)) + text


@pytest.mark.parametrize('leave', ['fin', 'reset', 'half'])
def test_a_client_that_leaves_a_stream_without_a_word_is_gone(tls_door, leave):
    """No close_notify: the connection ends, or its sending half does."""
    before = aborted(tls_door.engines)
    client = tls_door.tls()
    client.sendall(post({'model': MODEL, 'prompt': list(range(32)), 'max_tokens': 100_000, 'stream': True}))
    received = b''
    while b'data: ' not in received:
        received += client.recv(4096)
    if leave == 'reset':
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    if leave == 'half':
        client.shutdown(socket.SHUT_WR)
    else:
        client.close()
    wait_for('the engine aborted it', lambda: aborted(tls_door.engines) == before + 1)
    gone = ('kvrouter_dispatch_requests_total', {'endpoint': '/v1/completions', 'outcome': 'client_gone'})
    wait_for('it was counted', lambda: tls_door.daemon.metrics().one(gone[0], **gone[1]) == 1)
    client.close()


def test_half_a_body_and_no_close_notify_is_no_request(tls_door):
    started = tls_door.daemon.metrics()
    client = tls_door.tls()
    client.sendall(post({'model': MODEL, 'prompt': 'half'}, length=5000))
    client.close()
    tls_door.others_are_served()
    name = ('kvrouter_dispatch_requests_total', {'endpoint': '/v1/completions', 'outcome': 'client_gone'})
    assert tls_door.daemon.metrics().one(name[0], **name[1]) == started.one(name[0], **name[1])
    wait_for('its memory is back', lambda: tls_door.daemon.metrics().one('kvrouter_http_buffered_bytes') < 5000)


def test_a_crowd_in_its_handshake_locks_nobody_out(tls_door):
    """More silent connections than the door holds at all."""
    evicted = 'kvrouter_http_connections_evicted_total'
    before = sum(tls_door.daemon.metrics().all(evicted))
    tls_door.stop()  # whoever shakes hands while the others storm in may have to make room for them
    crowd = []
    for _ in range(3 * MAX_CONNECTIONS):
        with contextlib.suppress(OSError):
            crowd.append(tls_door.plain())
    wait_for('some made room', lambda: sum(tls_door.daemon.metrics().all(evicted)) >= before + MAX_CONNECTIONS)
    tls_door.start()
    tls_door.others_are_served(20)
    for client in crowd:
        client.close()


def test_thousands_of_handshakes_leave_nothing_behind(tls_door):
    def shake_hands(count):
        for number in range(count):
            with contextlib.suppress(OSError):
                client = tls_door.tls()
                if number % 2 == 0:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                client.close()

    def burst(threads, count):
        running = [threading.Thread(target=shake_hands, args=(count,)) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    burst(4, 100)  # what the first ones take is kept for all
    descriptors, resident_kib = tls_door.descriptors(), tls_door.resident_kib()
    burst(4, 500)
    wait_for('descriptors are back', lambda: tls_door.descriptors() <= descriptors + 4)
    if os.environ.get('KVR_SANITIZE', '') == '':
        assert tls_door.resident_kib() - resident_kib < 8 * 1024  # 4 KiB each would be seen
