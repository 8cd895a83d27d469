"""Where the router knows cached blocks from, with the real daemon: its own decisions, predictions beside events, nothing."""
import socket

import grpc
import pytest
from conftest import live_events, wait_for
from publisher import Publisher, stored
from test_selection_api import send
from test_selection_explained import EXPLAIN

TOKENS = list(range(40))  # ten blocks of four


def book_and_free(daemon, request_id, **fields):
    decision = daemon.route(TOKENS, request_id, **fields)
    assert daemon.free(request_id)
    return decision


@pytest.fixture
def listener():
    """A port that counts who connects."""
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        server.listen()
        server.setblocking(False)
        yield server


def test_without_events_decisions_say_what_is_cached(start, listener):
    daemon = start('--router-ttl-secs', '8.5', env={'DYN_USE_KV_EVENTS': 'false', 'DYN_ROUTER_MIN_INITIAL_WORKERS': '2'})
    daemon.register(1, events=live_events(f'tcp://127.0.0.1:{listener.getsockname()[1]}'))
    status, body = daemon.get('/ready')
    assert status == 503 and '1 of 2 initial workers' in body
    daemon.register(2)
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)

    first = book_and_free(daemon, 'a')
    assert first.overlap_blocks == 0
    again = book_and_free(daemon, 'b')
    assert (again.target.worker_id, again.overlap_blocks) == (first.target.worker_id, 10)
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_overlap_source', source='routing') == 1
    assert metrics.one('kvrouter_routed_blocks') == 10
    assert metrics.one('kvrouter_routed_block_changes_total', change='stored') == 10
    assert metrics.one('kvrouter_routed_block_changes_total', change='refreshed') == 10
    wait_for('the time is over', lambda: daemon.metrics().one('kvrouter_routed_blocks') == 0)
    assert daemon.metrics().one('kvrouter_routed_block_changes_total', change='expired') == 10
    assert daemon.route(TOKENS, 'c').overlap_blocks == 0

    # Event endpoints are accepted, shown as ignored, and left alone; what is published is refused.
    signs = {w['worker_id']: w['signs'] for w in send(daemon, 'GET', '/workers')[1]}
    assert signs == {1: ['events_ignored'], 2: []}
    assert daemon.metrics().one('kvrouter_worker_sign', worker_id='1', reason='events_ignored') == 1
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert Publisher(daemon, 2).wait_for_end().code() == grpc.StatusCode.FAILED_PRECONDITION
    assert daemon.stop() == 0
    assert 'overlap_source=routing' in daemon.log.read_text()


def test_predictions_bridge_the_time_until_events_come(start):
    daemon = start('--router-predicted-ttl-secs', '300')
    daemon.register(1)
    daemon.register(2)
    first = book_and_free(daemon, 'a')
    again = book_and_free(daemon, 'b')
    assert (again.target.worker_id, again.overlap_blocks) == (first.target.worker_id, 10)
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_overlap_source', source='events') == 1
    assert (metrics.one('kvrouter_routed_blocks'), metrics.one('kvrouter_index_holder_blocks')) == (10, 0)
    daemon.remove(first.target.worker_id)
    assert daemon.metrics().one('kvrouter_routed_blocks') == 0


def test_load_aware_asks_nobody_for_blocks(start, listener):
    daemon = start('--load-aware')
    daemon.register(1, events=live_events(f'tcp://127.0.0.1:{listener.getsockname()[1]}'))
    daemon.register(2)
    assert {book_and_free(daemon, f'r{i}').overlap_blocks for i in range(4)} == {0}
    busy = daemon.route(TOKENS, 'x').target.worker_id
    assert daemon.route(TOKENS, 'y').target.worker_id != busy
    assert daemon.metrics().one('kvrouter_overlap_source', source='none') == 1
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_what_one_external_tier_holds_is_credited_to_all(start):
    daemon = start('--shared-cache-type', 'external', '--shared-cache-multiplier', '0.5')
    daemon.register(1)
    daemon.register(2)
    publisher = Publisher(daemon, 1)
    publisher.publish(stored([1, 2, 3], range(12), medium='EXTERNAL'))
    publisher.wait_for_all()
    assert wait_for('the tier', lambda: daemon.metrics().one('kvrouter_index_lower_tier_blocks', tier='external')) == 3
    status, answer = send(daemon, 'POST', '/select', {'token_ids': TOKENS}, headers=EXPLAIN)
    assert status == 200
    candidates = answer['explanation']['decision']['candidates']
    assert {c['target']['worker_id']: c['shared_overlap_blocks'] for c in candidates} == {1: 3, 2: 3}
    assert {c['target']['worker_id']: c['credit_blocks'] for c in candidates} == {1: 0.25 * 3 + 0.5 * 3, 2: 0.5 * 3}
