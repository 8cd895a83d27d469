"""--introspect-workers: what engines say of themselves over HTTP, against what is declared of them."""
import http.server
import json
import os
import subprocess
import threading
import time

import pytest
from conftest import DEADLINE_S, wait_for, workers_pb2
from fake_kubernetes import endpoint, pod, slice_of
from kubernetes_fleet import cluster, discover  # noqa: F401

SIGNS = ['unreachable', 'block_size', 'model_name', 'prefix_caching_off', 'silent_publisher', 'replay_missing']
INTROSPECT = ('--introspect-workers', '--introspect-period-ms=50')


class EngineHttp:
    """The three pages of a vLLM server that are asked for."""

    def __init__(self):
        self.block_size, self.blocks, self.prefix_caching, self.model = 4, 1000, True, 'm'
        self.queries, self.hits, self.requests = 0, 0, 0
        self.health, self.hang, self.garbage, self.drip_s = 200, False, False, 0
        self.asked = 0
        self.closed = threading.Event()
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                engine.asked += 1
                if engine.hang:
                    engine.closed.wait()
                    self.close_connection = True
                    return
                status, body = {'/health': (engine.health, b''), '/v1/models': (200, engine.models()),
                                '/metrics': (200, engine.metrics())}.get(self.path, (404, b''))
                if engine.garbage:
                    body = b'\xff{"data": [' + b'vllm:cache_config_info{block_size="' * 100
                self.send_response(status)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                try:
                    for i in range(0, len(body), 1 if engine.drip_s else len(body)):
                        self.wfile.write(body[i:i + 1] if engine.drip_s else body)
                        if engine.closed.wait(engine.drip_s):
                            return
                except OSError:  # it was not waited for
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Server(('127.0.0.1', 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f'http://127.0.0.1:{self.port}'
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.02})
        self.thread.start()

    def models(self):
        return json.dumps({'object': 'list', 'data': [{'id': self.model, 'parent': None}, {'id': 'adapter', 'parent': self.model}]}).encode()

    def metrics(self):
        return (f'# TYPE vllm:cache_config_info gauge\n'
                f'vllm:cache_config_info{{block_size="{self.block_size}",enable_prefix_caching="{self.prefix_caching}",'
                f'num_gpu_blocks="{self.blocks}",engine="0"}} 1.0\n'
                f'vllm:num_requests_running{{engine="0"}} 0.0\n'
                f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {self.requests}\n'
                f'vllm:prefix_cache_queries_total{{engine="0"}} {self.queries}\nvllm:prefix_cache_hits_total{{engine="0"}} {self.hits}\n').encode()

    def stop(self):
        self.closed.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def new_engine_http():
    running = []

    def call():
        running.append(EngineHttp())
        return running[-1]

    yield call
    for engine in running:
        engine.stop()


def configured(*workers):
    return json.dumps({'workers': list(workers)})


def signs(daemon, worker_id):
    shown = {reason: daemon.metrics().all('kvrouter_worker_sign', worker_id=str(worker_id), reason=reason) for reason in SIGNS}
    assert all(len(v) <= 1 for v in shown.values())
    return sorted(reason for reason, v in shown.items() if v == [1])


def listed(daemon):
    return {w['worker_id']: w for w in json.loads(daemon.get('/workers')[1])}


def incomplete(daemon, source='config'):
    return daemon.metrics().one('kvrouter_discovery_workers', source=source, state='incomplete')


def test_what_is_not_declared_is_learned_and_followed(start, new_engine_http):
    engine = new_engine_http()
    engine.block_size = 64
    daemon = start(*INTROSPECT, config=configured({'worker_id': 1, 'address': engine.url, 'model_name': ''}))
    wait_for('learned', lambda: listed(daemon).get(1, {}).get('block_size') == 64)
    assert (listed(daemon)[1]['model_name'], listed(daemon)[1]['total_kv_blocks']) == ('m', 1000)
    answer = daemon.route(range(128), model_name='m', advise_only=True)
    assert (answer.block_size_tokens, answer.isl_blocks) == (64, 2)
    engine.block_size, engine.blocks = 32, 2000
    wait_for('new block size', lambda: listed(daemon)[1]['block_size'] == 32)
    wait_for('new capacity', lambda: listed(daemon)[1]['total_kv_blocks'] == 2000)
    assert daemon.route(range(128), model_name='m', advise_only=True).block_size_tokens == 32
    assert signs(daemon, 1) == []


def test_pod_that_says_no_block_size_joins_when_its_engine_tells(cluster, discover, new_engine_http):
    engine = new_engine_http()
    engine.block_size, engine.health = 8, 503  # still loading its model
    plain = pod('vllm-0', '127.0.0.1', ports=[{'name': 'http', 'containerPort': engine.port}])
    del plain['metadata']['annotations']['kvrouter.io/block-size']
    cluster.put(plain, slice_of('vllm-a', endpoint(plain)))
    daemon = discover(cluster, *INTROSPECT)
    wait_for('waiting', lambda: incomplete(daemon, 'kubernetes') == 1)
    assert listed(daemon) == {}
    engine.health = 200
    wait_for('joined', lambda: [w['block_size'] for w in listed(daemon).values()] == [8])
    assert incomplete(daemon, 'kubernetes') == 0


def test_worker_waits_for_its_block_size_while_others_route(start, new_engine_http):
    mute, well = new_engine_http(), new_engine_http()
    mute.hang = True
    daemon = start(*INTROSPECT, '--introspect-timeout-ms=200',
                   config=configured({'worker_id': 1, 'address': mute.url}, {'worker_id': 2, 'address': well.url}))
    wait_for('the other worker', lambda: list(listed(daemon)) == [2])
    assert incomplete(daemon) == 1
    assert daemon.route(range(8), advise_only=True).target.worker_id == 2


def test_each_mismatch_has_a_sign(start, new_engine_http, new_engine):
    engine, publisher = new_engine_http(), new_engine()
    worker = {'worker_id': 1, 'address': engine.url, 'block_size': 4, 'model_name': 'm', 'kv_events_endpoint': publisher.endpoint}
    daemon = start(*INTROSPECT, config=configured(worker))
    wait_for('asked', lambda: engine.asked >= 6)
    wait_for('no replay', lambda: signs(daemon, 1) == ['replay_missing'])
    engine.block_size, engine.prefix_caching, engine.model = 16, False, 'other'
    expected = ['block_size', 'model_name', 'prefix_caching_off', 'replay_missing']
    wait_for('three signs', lambda: signs(daemon, 1) == expected)
    assert sorted(listed(daemon)[1]['signs']) == expected
    over_grpc = daemon.workers.List(workers_pb2.ListRequest(), timeout=DEADLINE_S).workers[0]
    assert sorted(over_grpc.signs) == expected
    assert listed(daemon)[1]['block_size'] == 4, 'what is declared stays'
    wait_for('log line', lambda: 'event=worker_sign worker_id=1 reason=block_size' in daemon.log.read_text())
    engine.block_size, engine.prefix_caching, engine.model, engine.health = 4, True, 'm', 503
    wait_for('unreachable', lambda: signs(daemon, 1) == ['replay_missing', 'unreachable'])
    engine.health = 200
    wait_for('well again', lambda: signs(daemon, 1) == ['replay_missing'])
    wait_for('log line', lambda: 'event=worker_sign_gone worker_id=1 reason=unreachable' in daemon.log.read_text())
    daemon.workers.Remove(workers_pb2.RemoveRequest(worker_id=1), timeout=DEADLINE_S)
    assert daemon.metrics().all('kvrouter_worker_sign', worker_id='1') == []


def test_worker_of_a_caller_has_signs_too(start, new_engine_http):
    engine = new_engine_http()
    daemon = start(*INTROSPECT)
    daemon.register(5, address=engine.url, block_size_tokens=16)
    wait_for('sign', lambda: signs(daemon, 5) == ['block_size'])
    assert listed(daemon)[5]['block_size'] == 16


def test_silent_publisher_is_seen_after_its_grace(start, new_engine_http, new_engine):
    engine, publisher = new_engine_http(), new_engine()
    worker = {'worker_id': 1, 'address': engine.url, 'block_size': 4, 'kv_events_endpoint': publisher.endpoint,
              'replay_endpoint': publisher.endpoint}
    daemon = start(*INTROSPECT, config=configured(worker))
    wait_for('asked', lambda: engine.asked >= 6)
    begin = time.monotonic()
    engine.requests, engine.queries = 1, 1000
    wait_for('silent', lambda: 'silent_publisher' in signs(daemon, 1), deadline_s=DEADLINE_S + 20)
    assert time.monotonic() - begin >= 10
    publisher.wait_for_subscriber()

    def speaks():
        publisher.store([publisher.sequence + 1], [1, 2, 3, 4])
        return 'silent_publisher' not in signs(daemon, 1)

    wait_for('not silent', speaks)


def test_engines_that_let_us_wait_hold_up_neither_routing_nor_the_other_engines(start, new_engine_http):
    """8 engines that never answer and 8 that drip, a second or two each time: in turn with them the well one would be asked every 6 s."""
    mute, dripping, well = new_engine_http(), new_engine_http(), new_engine_http()
    mute.hang, dripping.drip_s = True, 0.2
    workers = [{'worker_id': i, 'address': (mute if i % 2 else dripping).url, 'block_size': 4} for i in range(16)]
    daemon = start(*INTROSPECT, config=configured(*workers, {'worker_id': 99, 'address': well.url, 'block_size': 4}))
    assert daemon.route(range(8), advise_only=True).candidate_count == 17
    wait_for('each let us wait once', lambda: mute.asked >= 8 and dripping.asked >= 16, deadline_s=120)
    before = well.asked
    wait_for('asked ten times', lambda: well.asked >= before + 30, deadline_s=40)
    assert signs(daemon, 99) == [] and signs(daemon, 1) == ['unreachable']
    assert daemon.stop(DEADLINE_S) == 0


def test_broken_pages_say_nothing(start, new_engine_http):
    engine = new_engine_http()
    engine.garbage = True
    daemon = start(*INTROSPECT, config=configured({'worker_id': 1, 'address': engine.url, 'block_size': 4},
                                                  {'worker_id': 2, 'address': 'opaque to us', 'block_size': 4}))
    wait_for('asked', lambda: engine.asked >= 6)
    assert signs(daemon, 1) == [] and signs(daemon, 2) == []
    assert listed(daemon)[1]['block_size'] == 4 and listed(daemon)[1]['total_kv_blocks'] is None


def test_simulated_engine_is_learned_and_has_no_sign(start, tmp_path):
    addresses = tmp_path / 'engine.addresses'
    engine = subprocess.Popen([os.environ['KVROUTER_SIM'], 'engine', '--block-size', '8', '--blocks', '500', '--model', 'sim',
                               '--addresses-file', str(addresses)], stdout=subprocess.DEVNULL)
    try:
        wait_for('engine', addresses.exists)
        told = json.loads(addresses.read_text())['engines'][0]
        worker = {'worker_id': 1, 'address': told['http'], 'model_name': '', 'kv_events_endpoint': told['events'], 'replay_endpoint': told['replay']}
        daemon = start(*INTROSPECT, config=configured(worker))
        wait_for('learned', lambda: 1 in listed(daemon))
        assert [listed(daemon)[1][k] for k in ('block_size', 'model_name', 'total_kv_blocks', 'signs')] == [8, 'sim', 500, []]
    finally:
        engine.kill()
        engine.wait()


def test_nothing_is_asked_unless_told(start, new_engine_http):
    engine = new_engine_http()
    daemon = start(config=configured({'worker_id': 1, 'address': engine.url, 'block_size': 4}))
    time.sleep(0.3)
    assert engine.asked == 0 and signs(daemon, 1) == []


def test_worker_without_a_block_size_is_refused_unless_engines_are_asked(run, tmp_path):
    path = tmp_path / 'config.yaml'
    path.write_text(configured({'worker_id': 1, 'address': 'http://127.0.0.1:1'}))
    refused = run('--check-config', '--config', str(path))
    assert refused.returncode == 1 and 'block_size' in refused.stderr
    assert run('--check-config', '--introspect-workers', '--config', str(path)).returncode == 0
