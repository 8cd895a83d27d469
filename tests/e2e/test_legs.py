"""Sessions, the gate, two-leg requests and migration, seen from outside the real daemon."""
import grpc
import pytest
from conftest import DEADLINE_S, live_events, router_pb2, wait_for, workers_pb2
from kvrouter.v1 import common_pb2
from test_selection_api import send

PREFILL = workers_pb2.WORKER_ROLE_PREFILL
DECODE = workers_pb2.WORKER_ROLE_DECODE


@pytest.fixture
def disaggregated(start):
    """Prefill workers 1 and 2, decode workers 11 and 12; prompts of 40 tokens and more are computed remotely."""
    daemon = start('--min-remote-prefill-tokens', '40')
    for worker_id in (1, 2):
        daemon.register(worker_id, role=PREFILL)
    for worker_id in (11, 12):
        daemon.register(worker_id, role=DECODE)
    return daemon


def test_B42_a_named_session_stays_on_its_worker_on_both_doors(start):
    daemon = start('--router-session-affinity-ttl-secs', '60')
    for worker_id in range(1, 6):
        daemon.register(worker_id)
    first = daemon.route(range(16), 'a', session_id=' s ')
    assert first.session.outcome == 'initialised' and first.session.source == 'caller'
    for i in range(10):
        again = daemon.route(range(16), f'b{i}', session_id='s')
        assert again.target == first.target
        assert again.reason == router_pb2.DECISION_REASON_SESSION
    ways = [({}, {'session_id': 's'}), ({}, {'session_context': {'session_id': 's'}}), ({'x-dynamo-session-id': 's'}, {}),
            ({'x-dynamo-session-id': 's'}, {'session_id': 'another'}), ({'x-claude-code-session-id': 's'}, {}),
            ({'x-claude-code-session-id': 'z', 'x-claude-code-agent-id': 's'}, {}), ({'thread-id': 's'}, {}), ({'x-session-id': 's'}, {})]
    for headers, fields in ways:
        status, answer = send(daemon, 'POST', '/select_and_reserve', {'token_ids': list(range(16)), **fields}, headers=headers)
        assert status == 200 and answer['worker_id'] == first.target.worker_id, (headers, fields)
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_sessions', worker_type='decode') == 1
    assert metrics.one('kvrouter_session_requests_total', outcome='bound') == 10 + len(ways)
    assert metrics.one('kvrouter_session_requests_total', outcome='initialised') == 1


def test_a_session_id_over_256_bytes_is_the_callers_error(start):
    daemon = start()
    daemon.register(1)
    with pytest.raises(grpc.RpcError) as error:
        daemon.route(range(8), session_id='x' * 257)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert send(daemon, 'POST', '/select', {'token_ids': [1]}, headers={'x-session-id': 'x' * 257})[0] == 400
    daemon.route(range(8), session_id='x' * 256)


def test_turns_without_a_name_are_one_session(start):
    daemon = start('--router-session-affinity-ttl-secs', '60', '--session-from-prefix-tokens', '24')
    for worker_id in range(1, 9):
        daemon.register(worker_id)
    places = {}
    for turn in range(1, 9):
        for conversation in range(12):
            tokens = [1000 * conversation + t for t in range(7 * turn)]
            answer = daemon.route(tokens, f'{conversation}-{turn}')
            assert answer.session.derived_name.startswith('prefix-')
            assert places.setdefault(conversation, answer.target.worker_id) == answer.target.worker_id
            daemon.free(f'{conversation}-{turn}')
    assert daemon.metrics().one('kvrouter_sessions', worker_type='decode') == 12


def test_two_legs_are_one_request(disaggregated):
    daemon = disaggregated
    first = daemon.route(range(64), 'r')
    assert first.plan == router_pb2.PLAN_REMOTE_PREFILL and first.phase == router_pb2.PHASE_PREFILL
    assert first.target.worker_id in (1, 2)
    assert [leg.kind for leg in first.legs] == [router_pb2.LEG_KIND_PREFILL, router_pb2.LEG_KIND_DECODE]
    assert first.legs[0].target == first.target and first.legs[0].address == first.address
    assert first.legs[0].max_tokens == 1 and not first.legs[1].HasField('target')
    assert first.legs[0].fallback == router_pb2.LEG_FALLBACK_SERVE_LOCALLY
    assert first.lease_ms == 300_000
    second = daemon.route(range(64), 'r', phase=router_pb2.PHASE_DECODE)
    assert second.target.worker_id in (11, 12) and second.phase == router_pb2.PHASE_DECODE
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_isl_tokens_total') == 64, 'the prompt counts once'
    assert metrics.one('kvrouter_plans_total', plan='remote_prefill') == 1
    assert metrics.one('kvrouter_second_legs_total') == 1
    assert metrics.one('dynamo_component_router_requests_started_total') == 1
    assert daemon.free('r') and not daemon.free('r')
    for load in daemon.router.Loads(router_pb2.LoadsRequest(), timeout=DEADLINE_S).partitions[0].targets:
        assert (load.active_requests, load.active_prefill_tokens, load.active_decode_blocks) == (0, 0, 0)


def test_two_legs_over_http(disaggregated):
    daemon = disaggregated
    body = {'token_ids': list(range(64)), 'selection_id': 'h'}
    status, first = send(daemon, 'POST', '/select_and_reserve', body)
    assert status == 200 and first['plan'] == 'remote_prefill' and first['worker_id'] in (1, 2)
    assert [leg['kind'] for leg in first['legs']] == ['prefill', 'decode'] and first['legs'][1]['target'] is None
    status, second = send(daemon, 'POST', '/select_and_reserve', {**body, 'phase': 'decode'})
    assert status == 200 and second['worker_id'] in (11, 12)
    assert send(daemon, 'POST', '/select_and_reserve', {**body, 'phase': 'decode'})[0] == 409
    assert send(daemon, 'POST', '/select', {**body, 'phase': 'sideways'})[0] == 400
    fixed = send(daemon, 'POST', '/select_and_reserve', {**body, 'selection_id': 'f', 'fixed_plan': True})[1]
    assert fixed['legs'][1]['target']['worker_id'] in (11, 12)
    for selection_id in ('h', 'f'):
        assert send(daemon, 'DELETE', f'/reservations/{selection_id}')[0] == 200
    assert daemon.metrics().one('kvrouter_bookings') == 0


def test_B43_the_gate_keeps_short_prompts_off_the_prefill_workers_and_survives_their_absence(disaggregated):
    daemon = disaggregated
    for i in range(20):
        answer = daemon.route(range(39), f's{i}')
        assert answer.plan == router_pb2.PLAN_LOCAL and answer.target.worker_id in (11, 12)
        assert answer.gate.rule == 'short_prompt' and not answer.gate.remote
        assert answer.filtered.other_role == 2
    assert daemon.route(range(40), 'at').plan == router_pb2.PLAN_REMOTE_PREFILL
    local = daemon.route(range(64), 'here', prefill_here=True)
    assert local.plan == router_pb2.PLAN_LOCAL
    for worker_id in (1, 2):
        daemon.remove(worker_id)
    assert daemon.route(range(64), 'gone').gate.rule == 'no_prefill_pool'
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_gate_decisions_total', rule='short_prompt') == 20
    assert metrics.one('kvrouter_gate_decisions_total', rule='default') == 1
    assert metrics.one('kvrouter_gate_decisions_total', rule='no_prefill_pool') == 1


def test_migration_is_planned_and_dry_mode_only_counts(start, new_engine):
    for mode in ('dry', 'migrate'):
        daemon = start('--kv-migration', mode, '--kv-migration-min-tokens', '8', '--kv-source-timeout-ms', '1234')
        engine = new_engine()
        both = dict(kv_role=workers_pb2.KV_ROLE_BOTH, engine_version='v1')
        daemon.register(1, events=live_events(engine.endpoint), **both)
        status, worker = send(daemon, 'POST', '/workers', {'worker_id': 2, 'endpoint': 'http://h:1', 'block_size': 4,
                                                           'kv_role': 'both', 'engine_version': 'v1'})
        assert status in (200, 201), worker
        daemon.register(3)
        engine.wait_for_subscriber()
        engine.store([1, 2, 3], range(12))
        wait_for('three blocks', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 3)

        def on(worker_id):
            return daemon.route(range(12), f'r{worker_id}', pinned=common_pb2.TargetSelector(worker_id=worker_id))

        planned = on(2)
        assert planned.migration.outcome == 'planned' and planned.migration.source.worker_id == 1
        assert planned.migration.migrate == (mode == 'migrate')
        assert on(3).migration.outcome == 'target_cannot_consume'
        assert on(1).migration.outcome == 'source_is_target'
        metrics = daemon.metrics()
        for outcome in ('planned', 'target_cannot_consume', 'source_is_target'):
            assert metrics.one('kvrouter_migration_decisions_total', outcome=outcome) == 1
        if mode == 'dry':
            assert planned.plan == router_pb2.PLAN_LOCAL and [leg.kind for leg in planned.legs] == [router_pb2.LEG_KIND_SERVE]
            continue
        assert planned.plan == router_pb2.PLAN_MIGRATE
        source, serve = planned.legs
        assert (source.kind, source.request_id, source.kv_migration_source, source.timeout_ms) == (
            router_pb2.LEG_KIND_KV_SOURCE, 'r2-kvmig', True, 1234)
        assert source.target.worker_id == 1 and serve.target.worker_id == 2
        wait_for('the spill in the log', lambda: 'KVMIGRATE_SPILL' in daemon.log.read_text())
        report_the_legs(daemon)


def report_the_legs(daemon):
    """Of request r2, whose plan pulls from worker 1 to worker 2."""
    def report(**body):
        return send(daemon, 'POST', '/reservations/r2/legs', body)[0]

    def log_has(text):
        wait_for(text, lambda: text in daemon.log.read_text())

    assert report(outcome='failed', leg='prefill') == report(leg='serve') == 400
    with pytest.raises(grpc.RpcError) as refused:
        daemon.router.ReportLeg(router_pb2.ReportLegRequest(request_id='r2', outcome=router_pb2.LEG_OUTCOME_FAILED,
                                                            leg=router_pb2.LEG_KIND_PREFILL), timeout=DEADLINE_S)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as refused:
        daemon.router.ReportLeg(router_pb2.ReportLegRequest(request_id='none', outcome=router_pb2.LEG_OUTCOME_FAILED), timeout=DEADLINE_S)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    daemon.router.ReportLeg(router_pb2.ReportLegRequest(request_id='r2', outcome=router_pb2.LEG_OUTCOME_SUCCEEDED,
                                                        target=common_pb2.Target(worker_id=1)), timeout=DEADLINE_S)
    log_has('KVMIGRATE: handshake obtained request_id=r2 source=1/0')
    assert 'decoding on target' not in daemon.log.read_text()
    daemon.router.PrefillComplete(router_pb2.PrefillCompleteRequest(request_id='r2'), timeout=DEADLINE_S)
    log_has('KVMIGRATE: decoding on target request_id=r2 target=2/0')
    for _ in range(5):
        assert report(outcome='failed', leg='kv_source', after_ms=3) == 200
    log_has('KVMIGRATE: producer dispatch failed request_id=r2 source=1/0')
    wait_for('it is out', lambda: daemon.metrics().one('kvrouter_worker_ejected', worker_id='1') == 1)
    assert daemon.metrics().one('kvrouter_worker_ejected', worker_id='2') == 0
    assert send(daemon, 'POST', '/reservations/none/legs', {'outcome': 'failed'})[0] == 404
    assert report(outcome='so so') == report(outcome='failed', leg='decode') == report(outcome='failed', dp_rank=1) == 400
    assert report(outcome='failed', leg=7) == 422
    assert send(daemon, 'DELETE', '/reservations/r2?outcome=failed&after_ms=x', None)[0] == 400
    assert daemon.metrics().one('kvrouter_legs_total', outcome='failed') == 5
