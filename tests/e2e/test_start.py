"""Start, health, readiness, the first scrape."""
import json
import os
import resource
import shutil
import socket
import subprocess
import threading

import pytest
from conftest import live_events, wait_for

COUNTER_FAMILIES = [
    'dynamo_component_router_kv_overlap_blocks_total', 'dynamo_component_router_kv_isl_blocks_total',
    'dynamo_component_router_requests_started_total', 'dynamo_component_router_requests_total',
    'dynamo_component_kv_cache_events_applied', 'dynamo_component_kv_cache_event_warnings', 'kvrouter_overlap_tokens_total',
    'kvrouter_isl_tokens_total', 'kvrouter_expected_engine_hit_tokens_total', 'kvrouter_decisions_total',
    'kvrouter_advice_total', 'kvrouter_bookings_expired_total', 'kvrouter_duplicate_requests_total',
    'kvrouter_unknown_frees_total', 'kvrouter_requests_refused_total', 'kvrouter_registrations_refused_total',
    'kvrouter_feed_skipped_total', 'kvrouter_feed_gaps_total', 'kvrouter_feed_replays_total',
    'kvrouter_feed_restarts_total', 'kvrouter_feed_reconnects_total', 'kvrouter_feed_live_dropped_total',
    'kvrouter_http_timeouts_total', 'kvrouter_http_bad_requests_total', 'kvrouter_http_connections_refused_total',
]
FAMILIES_OF_WORKERS = [
    'dynamo_component_router_worker_registered', 'dynamo_frontend_worker_active_decode_blocks',
    'dynamo_frontend_worker_active_prefill_tokens', 'kvrouter_worker_index_blocks', 'kvrouter_feed_state',
    'kvrouter_index_blocks', 'kvrouter_index_holder_blocks', 'kvrouter_index_bytes', 'kvrouter_index_nodes',
    'kvrouter_bookings',
]


def test_every_family_is_there_at_zero_before_the_first_request(start):
    metrics = start().metrics()
    for name in COUNTER_FAMILIES:
        assert metrics.families.get(name) == 'counter', name
        values = metrics.all(name)
        assert values and not any(values), name
    assert metrics.families['dynamo_component_router_kv_hit_rate'] == 'histogram'
    assert metrics.one('dynamo_component_router_kv_hit_rate_count') == 0
    assert len(metrics.all('dynamo_component_router_kv_hit_rate_bucket')) == 22
    for name in FAMILIES_OF_WORKERS:
        assert name in metrics.families, name
        assert not metrics.all(name), name
    assert metrics.one('kvrouter_build_info') == 1
    assert metrics.one('process_resident_memory_bytes') > 1e6
    assert metrics.one('process_open_fds') > 3
    assert sorted(metrics.helped) == sorted(metrics.families), 'a help line for each family'


def test_promtool_likes_the_scrape(start):
    promtool = shutil.which('promtool')
    if promtool is None:
        pytest.skip('skipped, promtool not found')
    daemon = start()
    daemon.register(1)
    daemon.route(range(10), 'r')
    checked = subprocess.run([promtool, 'check', 'metrics'], input=daemon.metrics().text, capture_output=True, text=True)
    # Dynamo's own names break two of promtool's naming rules; what it cannot parse is another matter (exit code 1).
    assert checked.returncode in (0, 3), checked.stdout + checked.stderr
    for line in checked.stderr.splitlines():
        assert line.startswith('dynamo_'), line


def test_live_at_once_ready_with_a_worker(start):
    daemon = start()
    assert daemon.get('/live')[0] == 200
    assert daemon.serving('') == 1
    status, body = daemon.get('/ready')
    assert (status, json.loads(body)) == (503, {'ready': False, 'schedulable_workers': 0, 'workers': [],
                                                'error': 'no schedulable worker'})
    assert daemon.serving('kvrouter.v1.Router') == 2
    daemon.register(1)
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
    wait_for('health', lambda: daemon.serving('kvrouter.v1.Router') == 1)
    assert daemon.metrics().one('kvrouter_ready') == 1
    daemon.remove(1)
    assert daemon.get('/ready')[0] == 503
    assert daemon.get('/health')[0] == 200  # liveness, as upstream
    wait_for('health', lambda: daemon.serving('kvrouter.v1.Router') == 2)
    assert daemon.serving('') == 1


def test_ready_waits_for_the_feed_but_not_longer_than_its_bound(start):
    with socket.socket() as nobody:  # bound, never listening: connections are refused
        nobody.bind(('127.0.0.1', 0))
        endpoint = f'tcp://127.0.0.1:{nobody.getsockname()[1]}'
        daemon = start('--ready-bound-ms=1500')
        daemon.register(1, events=live_events(endpoint))
        status, body = daemon.get('/ready')
        assert (status, json.loads(body)['error']) == (503, 'initial recovery of the event feeds is running')
        wait_for('ready', lambda: daemon.get('/ready')[0] == 200, deadline_s=10)


@pytest.fixture
def mute_listeners():
    """Endpoints of peers that accept and then say nothing, half a greeting, or a byte a second."""
    listeners, stopped = [], threading.Event()

    def serve(listener, first, then):
        held = []
        while not stopped.is_set():
            try:
                held.append(listener.accept()[0])
                held[-1].sendall(first)
                for byte in then:
                    if stopped.wait(1):
                        break
                    held[-1].sendall(bytes([byte]))
            except OSError:
                pass

    greeting = b'\xff' + bytes(8) + b'\x7f\x03\x00NULL' + bytes(48)
    for first, then in ((b'', b''), (greeting[:32], b''), (b'', greeting)):
        listener = socket.create_server(('127.0.0.1', 0))
        listener.settimeout(0.2)
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, first, then), daemon=True).start()
    yield [f'tcp://127.0.0.1:{listener.getsockname()[1]}' for listener in listeners]
    stopped.set()
    for listener in listeners:
        listener.close()


def test_mute_workers_hold_up_neither_the_others_nor_ready_for_ever(start, new_engine, mute_listeners):
    engine = new_engine()
    daemon = start('--ready-bound-ms=5000')
    for worker_id, endpoint in enumerate(mute_listeners, 1):
        daemon.register(worker_id, events=live_events(endpoint))
    daemon.register(10, events=live_events(engine.endpoint))
    assert daemon.get('/ready')[0] == 503
    assert daemon.serving('kvrouter.v1.Router') == 2
    engine.wait_for_subscriber()
    engine.store([1], range(4))
    wait_for('the good one', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='10') == 1)
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200, deadline_s=30)
    wait_for('health', lambda: daemon.serving('kvrouter.v1.Router') == 1)
    feeds = {worker['worker_id']: worker['feeds'] for worker in json.loads(daemon.get('/workers')[1])}
    assert feeds.pop(10) == [{'dp_rank': 0, 'state': 'live', 'detail': ''}]
    assert len(feeds) == 3
    for worker_id, feed in feeds.items():
        assert feed == [{'dp_rank': 0, 'state': 'connecting', 'detail': ''}], worker_id
        assert daemon.metrics().one('kvrouter_feed_state', worker_id=str(worker_id), state='connecting') == 1


def test_ready_comes_with_the_feed(start, new_engine):
    engine = new_engine()
    daemon = start('--ready-bound-ms=600000')
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)


def test_workers_of_the_file_are_there(start):
    daemon = start(config='''
workers:
  - {worker_id: 1, address: "http://127.0.0.1:1", block_size: 4, dp_size: 2}
  - {worker_id: 2, address: "http://127.0.0.1:2", block_size: 4, role: prefill}
''')
    metrics = daemon.metrics()
    registered = 'dynamo_component_router_worker_registered'
    assert metrics.one(registered, router_worker_id='1', dp_rank='1', worker_type='decode') == 1
    assert metrics.one(registered, router_worker_id='2', worker_type='prefill') == 1
    assert len(metrics.all(registered)) == 3
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
    assert 'event=worker_joined worker_id=1' in wait_for('log line', lambda: daemon.log.read_text())


def test_unknown_paths_and_methods(start):
    daemon = start()
    assert daemon.get('/nowhere') == (404, '{"error":"route not found"}')


def test_variables_of_other_processes_are_named_once_and_ignored(start):
    daemon = start(env={'DYN_SOMETHING_ELSE': '1', 'KVROUTER_SERVICE_HOST': '10.0.0.1'})
    assert daemon.log.read_text().count('event=variable_ignored name=DYN_SOMETHING_ELSE') == 1
    assert 'KVROUTER_SERVICE_HOST' not in daemon.log.read_text()


def test_weights_that_nothing_reads_yet_are_named_once(start):
    daemon = start(env={'DYN_ROUTER_HOST_CACHE_HIT_WEIGHT': '0.5', 'DYN_SHARED_CACHE_MULTIPLIER': '0.5'})
    line = 'event=setting_without_effect names=shared_cache_multiplier '
    assert daemon.log.read_text().count(line) == 1
    assert daemon.log.read_text().count('setting_without_effect') == 1


def test_a_fleet_that_the_limits_do_not_allow_is_refused_in_one_line(tmp_path):
    config = tmp_path / 'fleet.yaml'
    config.write_text('workers:\n  - {worker_id: 1, address: "http://127.0.0.1:1", block_size: 4, dp_size: 100,\n'
                      '     kv_events_endpoint: "tcp://127.0.0.1:20000"}\n')
    refused = subprocess.run(['sh', '-c', 'ulimit -n 600; exec "$0" --config "$1" --http-listen 127.0.0.1:0 --grpc-listen 127.0.0.1:0',
                              os.environ['KVROUTERD'], str(config)], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert refused.stderr == ('kvrouterd: workers: 100 ranks with events need 720 open files, the limit is 600 (ulimit -Hn); '
                              'raise it\n')


def test_the_limit_of_open_files_is_raised(start):
    daemon = start()
    assert daemon.metrics().one('process_max_fds') == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
