"""The end: SIGTERM, idle and under load; and starts that must fail."""
import http.client
import os
import socket
import threading
import time

import grpc
import pytest
from conftest import live_events, wait_for


def test_sigterm_when_idle_exits_0_and_takes_the_addresses_along(start, tmp_path):
    daemon = start()
    assert (tmp_path / 'addresses-0').exists()
    assert daemon.stop(3.0) == 0
    assert not (tmp_path / 'addresses-0').exists()
    assert 'event=stopped' in daemon.log.read_text()


def test_sigint_is_as_good(start):
    daemon = start()
    daemon.process.send_signal(2)
    assert daemon.process.wait(5.0) == 0


def test_sigterm_under_load_exits_0_within_5_s(start, new_engine):
    engine = new_engine()
    daemon = start()
    daemon.register(1, events=live_events(engine.endpoint))
    daemon.register(2)
    engine.wait_for_subscriber()
    over = threading.Event()
    answered, refused, surprises = [0] * 4, [], []

    def route(number):
        turn = 0
        while not over.is_set():
            turn += 1
            try:
                daemon.route(range(2000), f'{number}-{turn}')
                answered[number] += 1
            except grpc.RpcError as error:
                # A call either finishes or is told that the server goes away.
                (refused if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED) else surprises).append(error)
                return

    def scrape():
        connection = http.client.HTTPConnection(daemon.http_address, timeout=10)
        while not over.is_set():
            try:
                connection.request('GET', '/metrics')
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                return

    def publish():
        block = 0
        while not over.is_set():
            block += 1
            engine.store([block], [block] * 4)
            time.sleep(0.001)

    slow = socket.create_connection(daemon.http_address.rsplit(':', 1))
    slow.sendall(b'GET /metrics HTTP/1.1\r\n')  # a request that never ends
    threads = [threading.Thread(target=route, args=(n,)) for n in range(4)]
    threads += [threading.Thread(target=scrape), threading.Thread(target=publish)]
    for thread in threads:
        thread.start()
    try:
        wait_for('load', lambda: sum(answered) > 200)
        begin = time.monotonic()
        assert daemon.stop(5.0) == 0
        assert time.monotonic() - begin < 5.0
        wait_for('every client told', lambda: not any(t.is_alive() for t in threads[:5]))
    finally:
        over.set()
        for thread in threads:
            thread.join()
        slow.close()
    assert not surprises, surprises
    assert len(refused) == 4


@pytest.mark.parametrize('door', ['http', 'grpc'])
def test_port_of_another_daemon_is_one_clear_line(start, run, door):
    daemon = start()
    taken = daemon.http_address if door == 'http' else daemon.grpc_address
    listen = {'http': '127.0.0.1:0', 'grpc': '127.0.0.1:0', door: taken}
    failed = run('--http-listen', listen['http'], '--grpc-listen', listen['grpc'])
    assert failed.returncode == 1
    assert failed.stdout == ''
    lines = failed.stderr.splitlines()
    assert len(lines) == 1, failed.stderr
    assert lines[0].startswith('kvrouterd: ') and taken in lines[0], lines[0]
    assert daemon.get('/live')[0] == 200, 'the first one is unharmed'
    assert daemon.serving('') == 1


@pytest.mark.parametrize('door', ['http', 'grpc'])
def test_port_of_a_stranger_is_one_clear_line(run, door):
    with socket.create_server(('127.0.0.1', 0)) as stranger:
        taken = f'127.0.0.1:{stranger.getsockname()[1]}'
        listen = {'http': '127.0.0.1:0', 'grpc': '127.0.0.1:0', door: taken}
        failed = run('--http-listen', listen['http'], '--grpc-listen', listen['grpc'])
        assert failed.returncode == 1
        assert len(failed.stderr.splitlines()) == 1 and taken in failed.stderr, failed.stderr


def test_port_is_free_again_at_once(start):
    first = start()
    first.route  # channel is open
    first.get('/live')
    addresses = first.http_address, first.grpc_address
    assert first.stop() == 0
    again = start('--http-listen', addresses[0], '--grpc-listen', addresses[1])
    assert (again.http_address, again.grpc_address) == addresses


def test_addresses_file_that_cannot_be_written_is_an_error(run, tmp_path):
    path = os.path.join(tmp_path, 'missing', 'addresses')
    failed = run('--http-listen=127.0.0.1:0', '--grpc-listen=127.0.0.1:0', '--addresses-file', path)
    assert failed.returncode == 1
    assert len(failed.stderr.splitlines()) == 1 and path in failed.stderr
