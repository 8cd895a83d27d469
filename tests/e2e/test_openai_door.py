"""The OpenAI door: kvrouterd in front of simulated engines, asked with curl, with Python's standard library and with sockets."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading

import pytest
from conftest import DEADLINE_S, ROOT, router_pb2, wait_for

MODEL = 'my-model'
DOCS = pathlib.Path(ROOT, 'docs/dispatch.md')


@pytest.fixture
def engines(tmp_path):
    """engines(*arguments) -> (their addresses, a config for kvrouterd)"""
    running = []

    def start(*arguments):
        addresses, workers = tmp_path / f'engines-{len(running)}', tmp_path / f'workers-{len(running)}.yaml'
        command = [os.environ['KVROUTER_SIM'], 'engine', '--model', MODEL, '--block-size', '4', '--addresses-file', str(addresses),
                   '--workers-file', str(workers), *arguments]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        wait_for('engines', lambda: addresses.exists() or running[-1].poll() is not None)
        assert running[-1].poll() is None
        return [engine['http'] for engine in json.loads(addresses.read_text())['engines']], workers.read_text()

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def door(start, engines):
    """door(*arguments, engine=(...)) -> (daemon, engine addresses), ready to serve."""
    def call(*arguments, engine=('--engines', '2', '--speedup', '20')):
        addresses, config = engines(*engine)
        daemon = start('--dispatch', '--dispatch-listen', '127.0.0.1:0', *arguments, config=config)
        wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
        return daemon, addresses

    return call


def ask(address, path, body=None, headers=None):
    """(status, headers, body) of one request; `address` with or without http://."""
    connection = http.client.HTTPConnection(address.removeprefix('http://'), timeout=DEADLINE_S)
    try:
        connection.request('POST' if body is not None else 'GET', path, None if body is None else json.dumps(body), {'content-type': 'application/json', **(headers or {})})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def events(stream):
    """The data of SSE events."""
    return [event.removeprefix(b'data: ') for event in stream.split(b'\n\n') if event]


def aborted(addresses):
    total = 0
    for address in addresses:
        text = ask(address, '/metrics')[2].decode()
        total += sum(float(value) for value in re.findall(r'^kvrouter_sim_requests_aborted_total(?:\{.*\})? (\S+)$', text, re.M))
    return total


def no_load(daemon):
    metrics = daemon.metrics()
    return sum(metrics.all('kvrouter_bookings')) == 0 and metrics.one('kvrouter_dispatch_live_requests') == 0


def examples(language):
    return re.findall(rf'```{language}\n(.*?)```', DOCS.read_text(), re.S)


def test_every_example_of_the_page_runs(door, tmp_path):
    daemon, _ = door()

    def here(text):
        return text.replace('localhost:8080', daemon.openai_address).replace('localhost:8092', daemon.http_address)

    assert len(examples('sh')) >= 10 and len(examples('python')) == 1
    for example in examples('sh'):
        if shutil.which('curl') is None:
            pytest.skip('skipped, curl not found')
        done = subprocess.run(['sh', '-ec', here(example).replace('curl ', 'curl --fail ', 1)], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0 and done.stdout.strip(), f'{example}{done.stdout}{done.stderr}'
        if '-i' in example:
            assert 'x-kvrouter-worker: ' in done.stdout, done.stdout
        if '/route/' in example:
            assert json.loads(done.stdout)['tokenized'] is True
    client = tmp_path / 'client.py'
    client.write_text(here(examples('python')[0]))
    done = subprocess.run(['/usr/bin/python3', str(client)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip(), done.stdout + done.stderr


@pytest.mark.parametrize('path, body', [
    ('/v1/completions', {'prompt': 'Once upon a time there was a router', 'max_tokens': 12}),
    ('/v1/completions', {'prompt': list(range(40)), 'max_tokens': 12, 'unknown_field': [1, {'a': None}]}),
    ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'Tell me of block \u00e4\u20ac'}], 'max_tokens': 12})])
def test_answers_are_the_engines_byte_for_byte(door, path, body):
    daemon, addresses = door(engine=('--engines', '1', '--speedup', '20'))
    for streaming in (False, True):
        request = {'model': MODEL, **body, 'stream': streaming}
        if streaming:
            request['stream_options'] = {'include_usage': True}
        ask(addresses[0], path, request)  # what is cached is said in the usage: the same for both
        headers = {'x-request-id': f'same-{streaming}'}
        direct = ask(addresses[0], path, request, headers)
        through = ask(daemon.openai_address, path, request, headers)
        assert through[0] == direct[0] == 200

        def timeless(answer):  # the one thing that two runs of an engine do not have in common
            return re.sub(rb'"created":\d+', b'"created":0', answer[2])

        assert timeless(through) == timeless(direct)
        assert through[1]['Content-Type'] == direct[1]['Content-Type']
        if streaming:
            assert events(through[2])[-1] == b'[DONE]'
    wait_for('no load', lambda: no_load(daemon))


def test_the_engines_own_refusal_comes_through(door):
    daemon, addresses = door(engine=('--engines', '1', '--max-model-len', '16'))
    request = {'model': MODEL, 'prompt': list(range(64)), 'max_tokens': 4}
    direct, through = ask(addresses[0], '/v1/completions', request), ask(daemon.openai_address, '/v1/completions', request)
    assert direct[0] == 400
    assert (through[0], through[2]) == (direct[0], direct[2])
    wait_for('no load', lambda: no_load(daemon))


def test_the_same_prompt_goes_where_it_is_cached_and_what_was_predicted_is_delivered(door):
    daemon, _ = door()
    request = {'model': MODEL, 'prompt': 'A prompt of some length that fills several blocks of four tokens each. ' * 4, 'max_tokens': 4}
    explain = {'x-route-explain': '1'}
    first = ask(daemon.openai_address, '/v1/completions', request, explain)
    worker = first[1]['x-kvrouter-worker'].split('/')[0]
    wait_for('its blocks', lambda: sum(daemon.metrics().all('kvrouter_worker_index_blocks', worker_id=worker)) > 0)
    second = ask(daemon.openai_address, '/v1/completions', request, explain)
    assert second[1]['x-kvrouter-worker'] == first[1]['x-kvrouter-worker']
    expected = int(second[1]['x-kvrouter-overlap-tokens'])
    assert expected > 0
    usage = json.loads(second[2])['usage']
    assert usage['prompt_tokens'] == int(second[1]['x-kvrouter-prompt-tokens'])
    delivered = usage['prompt_tokens_details']['cached_tokens']
    wait_for('both counted', lambda: daemon.metrics().one('kvrouter_delivered_prompt_tokens_total') == 2 * usage['prompt_tokens'])
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_delivered_overlap_tokens_total') == delivered > 0
    assert metrics.one('kvrouter_delivered_predicted_tokens_total') == delivered
    assert metrics.one('dynamo_frontend_cached_tokens_count', model=MODEL) == 2
    assert metrics.one('kvrouter_tokenize_texts_total', outcome='engine') == 1
    assert metrics.one('kvrouter_tokenize_texts_total', outcome='cached') == 1
    assert metrics.one('kvrouter_dispatch_requests_total', endpoint='/v1/completions', outcome='success') == 2
    status, page = daemon.get('/')
    assert status == 200 and f'OpenAI door on {daemon.openai_address}' in page and '2 ended' in page


def test_ready_says_where_the_door_is_and_whether_it_can_dispatch(door, start):
    daemon, _ = door()
    assert json.loads(daemon.get('/ready')[1])['openai_door'] == {
        'address': daemon.openai_address, 'tls': False, 'engines': 2, 'can_dispatch': True}
    assert '(plain text), 2 engines to send to' in daemon.get('/')[1]
    alone = start('--dispatch')
    state = json.loads(alone.get('/ready')[1])['openai_door']
    assert not state['can_dispatch'] and state['error'] == 'no worker is registered'
    alone.register(1, address='tcp://127.0.0.1:1')
    wait_for('ready', lambda: alone.get('/ready')[0] == 200)
    state = json.loads(alone.get('/ready')[1])['openai_door']
    assert state['engines'] == 0 and 'http:// or https://' in state['error']
    assert 'cannot dispatch' in alone.get('/')[1]
    assert 'openai_door' not in json.loads(start().get('/ready')[1])


@pytest.mark.parametrize('streaming', [False, True])
def test_client_that_leaves_is_gone_at_the_engine_and_in_the_loads(door, streaming):
    daemon, addresses = door(engine=('--engines', '2', '--speedup', '1'))
    body = json.dumps({'model': MODEL, 'prompt': list(range(32)), 'max_tokens': 100_000, 'stream': streaming}).encode()
    host, port = daemon.openai_address.rsplit(':', 1)
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
        client.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
        if streaming:
            assert b'data: ' in iter_until(client, b'data: ')
        wait_for('it runs', lambda: sum(daemon.metrics().all('kvrouter_worker_active_requests')) == 1)
    wait_for('the engine aborted it', lambda: aborted(addresses) == 1)
    wait_for('no load', lambda: no_load(daemon))
    assert daemon.metrics().one('kvrouter_dispatch_requests_total', endpoint='/v1/completions', outcome='client_gone') == 1


def iter_until(client, mark):
    received = b''
    while mark not in received:
        piece = client.recv(4096)
        assert piece, received
        received += piece
    return received


def test_text_is_routed_for_gateways_without_a_tokenizer(start, engines):
    _, config = engines('--engines', '2')
    daemon = start('--route-text', config=config)
    assert daemon.openai_address is None
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
    body = {'model': MODEL, 'messages': [{'role': 'user', 'content': 'Hello there, which worker is it?'}]}
    # First, so that the engine is asked for its sake: no header says that the body is JSON.
    response = daemon.router.RouteText(router_pb2.RouteTextRequest(path='/v1/chat/completions', body=json.dumps(body).encode(),
                                                                   request_id='over-grpc'), timeout=DEADLINE_S)
    assert response.tokenized and response.decision.isl_tokens == len(response.token_ids)
    status, _, answer = ask(daemon.http_address, '/route/v1/chat/completions', body, {'x-request-id': 'over-http'})
    answer = json.loads(answer)
    assert status == 200 and answer['tokenized'] and answer['decision']['booked']
    assert answer['decision']['request_id'] == 'over-http' and answer['token_ids'] == list(response.token_ids)
    assert sum(daemon.metrics().all('kvrouter_bookings')) == 2
    assert daemon.free('over-http') and daemon.free('over-grpc')
    assert no_load(daemon)


def test_without_dispatch_there_is_no_door_and_text_is_not_routed(start):
    daemon = start()
    assert daemon.openai_address is None
    status, _, answer = ask(daemon.http_address, '/route/v1/completions', {})
    assert status == 501 and b'needs dispatch or route-text' in answer


def test_slow_and_large_requests_are_refused_in_openais_shape(door):
    daemon, _ = door('--dispatch-read-timeout-ms', '300', '--dispatch-max-body-bytes', '1000', '--dispatch-max-header-bytes', '2000')
    host, port = daemon.openai_address.rsplit(':', 1)
    cases = ((b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nX-Slow: ', 408, 'request_timeout'),
             (b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nContent-Length: 500\r\n\r\n{', 408, 'request_timeout'),
             (b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nContent-Length: 1001\r\n\r\n', 413, 'body_too_large'),
             (b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nX: ' + b'x' * 4000 + b'\r\n\r\n', 431, 'headers_too_large'),
             (b'\x16\x03\x01\r\n\r\n', 400, 'malformed_request'))
    clients = []
    for sent, _, _ in cases:
        clients.append(socket.create_connection((host, int(port)), timeout=DEADLINE_S))
        clients[-1].sendall(sent)
    status, _, _ = ask(daemon.openai_address, '/v1/completions', {'model': MODEL, 'prompt': 'others are served', 'max_tokens': 2})
    assert status == 200
    for client, (_, status, code) in zip(clients, cases):
        answer = http.client.HTTPResponse(client)
        answer.begin()
        error = json.loads(answer.read())['error']
        assert (answer.status, error['code']) == (status, code)
        client.close()


def test_a_stream_may_end_within_the_grace_and_new_requests_are_refused(door):
    daemon, _ = door('--dispatch-shutdown-grace-ms', '20000', engine=('--engines', '1', '--speedup', '1'))
    streams = []

    def read():
        streams.append(ask(daemon.openai_address, '/v1/completions',
                           {'model': MODEL, 'prompt': list(range(8)), 'max_tokens': 60, 'stream': True}))

    client = threading.Thread(target=read)
    client.start()
    wait_for('it runs', lambda: sum(daemon.metrics().all('kvrouter_worker_active_requests')) == 1)
    daemon.process.send_signal(signal.SIGTERM)
    wait_for('the door takes nobody', lambda: refused(daemon.openai_address))
    client.join(DEADLINE_S)
    assert daemon.process.wait(DEADLINE_S) == 0
    status, _, body = streams[0]
    assert status == 200 and events(body)[-1] == b'[DONE]'


def test_time_outs_and_tokenising_reload_and_running_streams_keep_theirs(door, tmp_path):
    daemon, _ = door('--config-poll-ms', '0', engine=('--engines', '1', '--service', 'batching', '--inter-token-us', '4000'))
    [path] = tmp_path.glob('config-*.yaml')
    config = path.read_text()
    host, port = daemon.openai_address.rsplit(':', 1)

    def reload(settings):
        before = daemon.metrics().all('kvrouter_config_reloads_total')
        path.write_text(config + settings)
        daemon.process.send_signal(signal.SIGHUP)
        wait_for('the reload', lambda: daemon.metrics().all('kvrouter_config_reloads_total') != before)

    body = json.dumps({'model': MODEL, 'prompt': list(range(8)), 'max_tokens': 100_000, 'stream': True}).encode()
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as running:
        running.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
        iter_until(running, b'data: ')
        reload('dispatch_total_timeout_secs: 0.3\ntokenize: false\ndispatch_explain_headers: false\n')
        status, headers, answer = ask(daemon.openai_address, '/v1/completions', {'model': MODEL, 'prompt': 'some text', 'max_tokens': 100_000},
                                      {'x-route-explain': '1'})
        assert status == 504 and 'x-kvrouter-worker' not in headers, answer
        assert daemon.metrics().one('kvrouter_tokenize_texts_total', outcome='disabled') == 1
        reload('dispatch_max_live_requests: 3\n')
        wait_for('the log', lambda: 'dispatch_max_live_requests' in daemon.log.read_text())
        assert daemon.metrics().one('kvrouter_config_reloads_total', result='refused') == 1
        received = b''
        while received.count(b'data: ') < 20:
            received += running.recv(4096)
        assert b'"error"' not in received
    wait_for('no load', lambda: no_load(daemon))


def refused(address):
    host, port = address.rsplit(':', 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        return False
    except OSError:
        return True


def test_a_stream_beyond_the_grace_ends_with_an_error_event(door):
    daemon, addresses = door('--dispatch-shutdown-grace-ms', '300', engine=('--engines', '1', '--speedup', '1'))
    streams = []

    def read():
        streams.append(ask(daemon.openai_address, '/v1/completions',
                           {'model': MODEL, 'prompt': list(range(8)), 'max_tokens': 100_000, 'stream': True}))

    client = threading.Thread(target=read)
    client.start()
    wait_for('it runs', lambda: sum(daemon.metrics().all('kvrouter_worker_active_requests')) == 1)
    assert daemon.stop(10) == 0
    client.join(DEADLINE_S)
    assert b'"code":"shutting_down"' in streams[0][2]
    wait_for('the engine aborted it', lambda: aborted(addresses) == 1)


@pytest.mark.skipif(os.environ.get('KVR_SANITIZE', '') != '', reason='sanitizers have memory of their own')
def test_an_idle_stream_takes_little_memory(door):
    """Streams that have begun and wait for their next token, 32 KiB each at most, engine side and bookings included."""
    daemon, _ = door(engine=('--engines', '2', '--speedup', '0.05', '--inter-token-us', '2000000', '--prefill-rate', '1e9'))
    host, port = daemon.openai_address.rsplit(':', 1)

    def resident_kib():
        return int(re.search(r'VmRSS:\s+(\d+)', pathlib.Path(f'/proc/{daemon.process.pid}/status').read_text()).group(1))

    def begin(streams, count):
        for number in range(count):
            body = json.dumps({'model': MODEL, 'prompt': [len(streams) * 64 + n for n in range(64)], 'max_tokens': 1000, 'stream': True}).encode()
            streams.append(socket.create_connection((host, int(port)), timeout=DEADLINE_S))
            streams[-1].sendall(b'POST /v1/completions HTTP/1.1\r\nHost: door\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
        for stream in streams[-count:]:
            iter_until(stream, b'data: ')

    streams = []
    begin(streams, 50)  # what the first ones take is kept for all
    before = resident_kib()
    begin(streams, 300)
    assert daemon.metrics().one('kvrouter_dispatch_live_requests') == 350
    stream_kib = (resident_kib() - before) / 300
    print(f'{stream_kib:.1f} KiB a stream')
    assert stream_kib <= 32
    for stream in streams:
        stream.close()
    wait_for('no load', lambda: no_load(daemon))


@pytest.fixture
def certificate(tmp_path):
    """(certificate, key) of 127.0.0.1, signed by itself"""
    if shutil.which('openssl') is None:
        pytest.skip('skipped, openssl not found')
    files = tmp_path / 'door.pem', tmp_path / 'door.key'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=door', '-addext',
                    'subjectAltName=IP:127.0.0.1', '-out', str(files[0]), '-keyout', str(files[1])], check=True, capture_output=True)
    return files


def test_door_speaks_tls_and_nothing_else_when_it_has_a_certificate(door, certificate):
    daemon, _ = door('--dispatch-tls-cert-path', str(certificate[0]), '--dispatch-tls-key-path', str(certificate[1]))
    host, port = daemon.openai_address.rsplit(':', 1)
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    connection = http.client.HTTPSConnection(host, int(port), timeout=DEADLINE_S, context=trust)
    connection.request('POST', '/v1/completions', json.dumps({'model': MODEL, 'prompt': 'over TLS', 'max_tokens': 4, 'stream': True}),
                       {'content-type': 'application/json'})
    answer = connection.getresponse()
    assert answer.status == 200 and events(answer.read())[-1] == b'[DONE]'
    connection.close()
    with pytest.raises(ssl.SSLError):  # somebody else's word
        http.client.HTTPSConnection(host, int(port), timeout=DEADLINE_S, context=ssl.create_default_context()).request('GET', '/v1/models')
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(daemon.openai_address, '/v1/models')
    wait_for('both counted', lambda: daemon.metrics().one('kvrouter_http_tls_handshakes_failed_total') >= 2)


def test_a_certificate_that_becomes_unusable_is_named_and_the_old_one_serves_on(door, certificate):
    daemon, _ = door('--dispatch-tls-cert-path', str(certificate[0]), '--dispatch-tls-key-path', str(certificate[1]))
    host, port = daemon.openai_address.rsplit(':', 1)
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    certificate[0].write_text('no certificate')

    def kept():
        connection = http.client.HTTPSConnection(host, int(port), timeout=DEADLINE_S, context=trust)
        connection.request('GET', '/v1/models')
        assert connection.getresponse().status == 200
        connection.close()
        return 'event=tls_certificate_kept' in daemon.log.read_text()

    wait_for('the line', kept)
    line = [line for line in daemon.log.read_text().splitlines() if 'event=tls_certificate_kept' in line][0]
    assert str(certificate[0]) in line
    assert daemon.metrics().one('kvrouter_http_tls_reloads_total', result='failed') == 1


def test_a_certificate_that_cannot_be_used_ends_the_start_with_one_line(run, certificate):
    doors = ('--dispatch', '--dispatch-listen', '127.0.0.1:0', '--http-listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0')
    cases = [(('--dispatch-tls-cert-path', certificate[1], '--dispatch-tls-key-path', certificate[1]), 'dispatch_tls_cert_path: '),
             (('--dispatch-tls-cert-path', certificate[0], '--dispatch-tls-key-path', certificate[0]), 'dispatch_tls_key_path: '),
             (('--dispatch-tls-cert-path', certificate[0]), 'needs dispatch_tls_key_path'),
             (('--engine-tls-ca-cert-path', certificate[1]), 'engine_tls_ca_cert_path: '),
             (('--dispatch-tls-client-ca-cert-path', certificate[0]), 'needs dispatch_tls_cert_path')]
    for arguments, said in cases:
        done = run(*doors, *map(str, arguments))
        line = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1 and said in line and str(certificate[0].parent) in line, (arguments, done.stderr)
