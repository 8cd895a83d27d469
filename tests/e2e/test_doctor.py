"""kvrouterctl doctor against a real daemon with simulated engines, well and in several kinds of trouble."""
import contextlib
import http.server
import json
import os
import socket
import subprocess
import threading

import pytest
import requests
from conftest import DEADLINE_S, live_events, wait_for
from kvrouter.v1 import workers_pb2


def doctor(daemon, *arguments, grpc=None, http=None):
    command = [os.environ['KVROUTERCTL'], '--grpc', grpc or daemon.grpc_address, '--http', http or daemon.http_address, 'doctor', *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def findings(daemon, *arguments):
    """{id: finding}; the exit code must be the worst one's."""
    ended = doctor(daemon, '--json', *arguments)
    report = json.loads(ended.stdout)
    severities = [finding['severity'] for finding in report['findings']]
    assert severities == sorted(severities, key=('critical', 'warning', 'note').index)
    assert ended.returncode == report['exit_code'] == (2 if 'critical' in severities else 1 if 'warning' in severities else 0)
    for finding in report['findings']:
        assert finding['what'] and finding['help'] and finding['evidence']
    return {finding['id']: finding for finding in report['findings']}


@pytest.fixture
def engines(tmp_path):
    """engines(count) -> process and the path of kvrouterd's workers file."""
    running = []

    def call(count):
        workers, addresses = tmp_path / 'workers.yaml', tmp_path / 'engines.json'
        process = subprocess.Popen([os.environ['KVROUTER_SIM'], 'engine', '--engines', str(count), '--block-size', '4', '--speedup', '1000',
                                    '--workers-file', str(workers), '--addresses-file', str(addresses)], stdout=subprocess.DEVNULL)
        running.append(process)
        wait_for('engines', lambda: addresses.exists() or process.poll() is not None)
        return process, workers.read_text(), json.loads(addresses.read_text())['engines']

    yield call
    for process in running:
        process.kill()
        process.wait()


@contextlib.contextmanager
def engine_page(metrics='', health=200):
    """The address of an engine's HTTP door that says just this."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = metrics.encode() if self.path == '/metrics' else b''
            self.send_response(200 if self.path == '/metrics' else health)
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}'
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def serve_one(engine, tokens):
    answer = requests.post(f'{engine["http"]}/v1/completions', json={'prompt': tokens, 'max_tokens': 1}, timeout=DEADLINE_S)
    assert answer.status_code == 200, answer.text


def test_a_healthy_fleet_has_no_findings(start, engines):
    _, config, addresses = engines(2)
    daemon = start(config=config)
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
    for engine in addresses:
        serve_one(engine, list(range(40)))
    wait_for('both indexed', lambda: all(count > 0 for count in daemon.metrics().all('kvrouter_worker_index_blocks')))
    wait_for('both live', lambda: sum(daemon.metrics().all('kvrouter_feed_state', state='live')) == 2)
    assert findings(daemon) == {}
    ended = doctor(daemon)
    assert ended.returncode == 0 and ended.stdout.startswith('nothing wrong\n') and '2 workers, 2 of them reached' in ended.stdout
    assert '0 of them reached' in doctor(daemon, '--skip-workers').stdout


def test_engines_that_are_gone(start, engines):
    process, config, _ = engines(2)
    daemon = start(config=config)
    wait_for('both live', lambda: sum(daemon.metrics().all('kvrouter_feed_state', state='live')) == 2)
    process.kill()
    process.wait()
    wait_for('noticed', lambda: sum(daemon.metrics().all('kvrouter_feed_state', state='connecting')) == 2)
    found = findings(daemon)
    assert set(found) == {'feed_not_connected', 'engine_unreachable'}, found
    assert found['feed_not_connected']['evidence'][0] == {'figure': 'feeds in state connecting', 'value': '2 of 2 ranks', 'limit': '0'}


def test_no_workers_and_no_daemon(start):
    daemon = start()
    assert set(findings(daemon)) == {'no_workers'}
    daemon.register(1)
    wait_for('the feed to be known', lambda: daemon.metrics().all('kvrouter_feed_state', worker_id='1', state='none') == [1])
    found = findings(daemon, '--skip-workers')
    assert set(found) == {'no_event_feed'}, found
    daemon.workers.Drain(workers_pb2.DrainRequest(worker_id=1), timeout=DEADLINE_S)
    assert 'no_schedulable_workers' in findings(daemon, '--skip-workers')
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))  # bound, not listening: refused
        closed = f'127.0.0.1:{nobody.getsockname()[1]}'
        ended = doctor(daemon, '--json', grpc=closed, http=closed)
    assert ended.returncode == 2
    assert [f['id'] for f in json.loads(ended.stdout)['findings']] == ['grpc_unreachable', 'http_unreachable']


def test_an_engine_of_another_block_size_without_caching_and_replay(start, new_engine):
    engine = new_engine()
    daemon = start()
    page = 'vllm:cache_config_info{block_size="8",enable_prefix_caching="False",num_gpu_blocks="None"} 1.0\n'
    with engine_page(page, health=503) as address:
        daemon.register(1, address=address, events=live_events(engine.endpoint))
        engine.wait_for_subscriber()
        engine.store([5], range(8), block_size=8)
        wait_for('skipped', lambda: daemon.metrics().one('kvrouter_feed_skipped_total', reason='block_size') > 0)
        found = findings(daemon)
    assert {'block_size_mismatch', 'prefix_caching_off', 'engine_unhealthy', 'skipped_block_size', 'replay_missing'} <= set(found)
    assert found['block_size_mismatch']['evidence'] == [{'figure': 'registered block_size', 'value': '4', 'limit': '8'}]
    assert 'block_size 8' in found['block_size_mismatch']['help']


def test_an_engine_that_serves_and_announces_nothing(start, new_engine):
    engine = new_engine()
    daemon = start()
    with engine_page('vllm:prefix_cache_queries_total{model_name="m",engine="0"} 5000\n') as address:
        daemon.register(1, address=address, events=live_events(engine.endpoint))
        engine.wait_for_subscriber()
        wait_for('live', lambda: daemon.metrics().all('kvrouter_feed_state', worker_id='1', state='live') == [1])
        assert set(findings(daemon)) == {'silent_publisher', 'replay_missing'}


def test_callers_that_never_free_and_orphans(start, new_engine):
    engine = new_engine()
    daemon = start('--router-active-request-expiry-secs', '1', '--expiry-check-period-ms', '10')
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    engine.store([5], range(4), parent=99)
    wait_for('orphan', lambda: daemon.metrics().one('kvrouter_orphan_blocks_total') == 1)
    daemon.route(range(4), 'never freed')
    wait_for('expired', lambda: daemon.metrics().one('kvrouter_bookings_expired_total') == 1)
    found = findings(daemon, '--skip-workers')
    assert {'bookings_expire', 'orphan_blocks'} <= set(found), found
    # In a window in which nothing happens, what happened before is no finding.
    assert not {'bookings_expire', 'orphan_blocks'} & set(findings(daemon, '--skip-workers', '--window', '0.1'))


def test_two_workers_of_one_engine(start, new_engine):
    engine = new_engine()
    daemon = start()
    for worker_id in (1, 2):
        daemon.register(worker_id, address='http://127.0.0.1:1', events=live_events(engine.endpoint))
    found = findings(daemon, '--skip-workers')
    assert {'duplicate_event_endpoint', 'duplicate_address'} <= set(found), found
