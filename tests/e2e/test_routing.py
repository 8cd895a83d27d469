"""From events to decisions to figures, through the real doors."""
import grpc
import pytest
from conftest import live_events, wait_for

HIT_COUNT = 'dynamo_component_router_kv_hit_rate_count'
HIT_SUM = 'dynamo_component_router_kv_hit_rate_sum'
OVERLAP = 'dynamo_component_router_kv_overlap_blocks_total'
ISL = 'dynamo_component_router_kv_isl_blocks_total'


def test_b48_two_requests_of_very_different_length(start, new_engine):
    engine = new_engine()
    daemon = start()
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    prompt = list(range(1000, 1400))  # 100 blocks of 4
    engine.store(range(1, 100), prompt[:99 * 4])
    wait_for('99 blocks in the index', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 99)

    assert daemon.route([1, 2, 3, 4], 'short').overlap_blocks == 0
    answer = daemon.route(prompt, 'long')
    assert (answer.overlap_blocks, answer.isl_blocks) == (99, 100)
    daemon.route(prompt, 'advice', advise_only=True)

    metrics = daemon.metrics()
    assert metrics.one(HIT_COUNT) == 2
    assert metrics.one(HIT_SUM) == pytest.approx(0.99, abs=1e-12)
    assert metrics.one(OVERLAP) == 99
    assert metrics.one(ISL) == 101
    assert metrics.one('kvrouter_overlap_tokens_total') == 396
    assert metrics.one('kvrouter_isl_tokens_total') == 404
    assert metrics.one('kvrouter_advice_total') == 1
    assert sum(metrics.all('kvrouter_decisions_total')) == 2
    assert metrics.one('dynamo_component_kv_cache_events_applied', event_type='stored', status='ok') == 1


def test_counters_follow_the_life_of_requests(start):
    daemon = start()
    daemon.register(1)
    daemon.route(range(10), 'a')
    with pytest.raises(grpc.RpcError) as twice:
        daemon.route(range(10), 'a')
    assert twice.value.code() == grpc.StatusCode.ALREADY_EXISTS
    metrics = daemon.metrics()
    assert metrics.one('dynamo_component_router_requests_started_total') == 1
    assert metrics.one('dynamo_frontend_worker_active_prefill_tokens', worker_id='1', dp_rank='0') == 10
    assert metrics.one('kvrouter_bookings', model='default', routing_group='default') == 1
    assert metrics.one('kvrouter_duplicate_requests_total') == 1
    assert daemon.free('a')
    assert not daemon.free('a')
    metrics = daemon.metrics()
    assert metrics.one('dynamo_component_router_requests_total') == 1
    assert metrics.one('dynamo_frontend_worker_active_prefill_tokens', worker_id='1', dp_rank='0') == 0
    assert metrics.one('kvrouter_bookings') == 0
    assert metrics.one('kvrouter_unknown_frees_total') == 1


def test_forgotten_bookings_expire_and_are_counted(start):
    daemon = start('--router-active-request-expiry-secs=1', '--expiry-check-period-ms=50')
    daemon.register(1)
    daemon.route(range(10), 'forgotten')
    wait_for('expiry', lambda: daemon.metrics().one('kvrouter_bookings_expired_total') == 1)
    metrics = daemon.metrics()
    assert metrics.one('dynamo_component_router_requests_total') == 1
    assert metrics.one('kvrouter_bookings') == 0


def test_b16_series_of_a_removed_worker_vanish(start, new_engine):
    engine, other = new_engine(), new_engine()
    daemon = start()
    daemon.register(1, events=live_events(engine.endpoint))
    daemon.register(2, events=live_events(other.endpoint))
    engine.wait_for_subscriber()
    engine.store([1], [1, 2, 3, 4])
    wait_for('block', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 1)
    assert daemon.metrics().all('kvrouter_feed_state', worker_id='1')
    daemon.remove(1)
    engine.store([2], [5, 6, 7, 8], parent=1)  # still in the pipe

    def mentions(worker):
        return [s for s in daemon.metrics().series if worker in (s[1].get('worker_id'), s[1].get('router_worker_id'))]

    assert not mentions('1')
    assert mentions('2')
    assert daemon.metrics().one('kvrouter_index_blocks') == 0
    daemon.register(1, events=live_events(engine.endpoint))
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 0


def test_bad_events_are_counted_and_the_stream_goes_on(start, new_engine):
    engine = new_engine()
    daemon = start()
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    engine.publish(['BlockStored', 'not a list'])
    engine.live.send_multipart([b'', b'short', b''])
    engine.store([1], [1, 2, 3, 4])
    wait_for('the good event', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 1)
    for reason in ('bad_event', 'bad_framing'):  # a feed reports its counters now and then
        wait_for(reason, lambda: daemon.metrics().one('kvrouter_feed_skipped_total', reason=reason) == 1)
