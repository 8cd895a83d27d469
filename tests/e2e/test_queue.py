"""Requests that wait, seen from outside: how they go, and that callers who leave are gone within a second, wherever their
request is."""
import http.client
import json
import socket
import threading
import time

import grpc
import pytest
from conftest import DEADLINE_S, router_pb2, wait_for

PENDING = 'dynamo_frontend_router_queue_pending_requests'
LEAVE_S = 1.0


def one_busy_worker(start, *arguments, **kwargs):
    """A daemon with one worker, which has more to compute than the queue's threshold. Requests of 100 tokens wait."""
    daemon = start('--router-queue-threshold=0.5', *arguments, **kwargs)
    daemon.register(1, max_num_batched_tokens=100)
    daemon.route(range(100), 'filler')
    return daemon


def pending(daemon):
    return sum(daemon.metrics().all(PENDING))


def bookings(daemon):
    return sum(daemon.metrics().all('kvrouter_bookings'))


def route_message(request_id, **fields):
    request = router_pb2.RouteRequest(request_id=request_id, **fields)
    request.token_ids.ids.extend(range(1000, 1100))
    return request


def route_later(daemon, request_id, timeout=DEADLINE_S, **fields):
    return daemon.router.Route.future(route_message(request_id, **fields), timeout=timeout)


def post(daemon, path, body, headers=None, timeout=DEADLINE_S):
    connection = http.client.HTTPConnection(daemon.http_address, timeout=timeout)
    connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json', **(headers or {})})
    return connection


def answered(connection):
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def body_of(request_id, **fields):
    return {'selection_id': request_id, 'token_ids': list(range(1000, 1100)), **fields}


def gone(daemon, left_at):
    """How long it took until nobody waited, as far as this machine lets us see."""
    wait_for('nobody waits', lambda: pending(daemon) == 0, deadline_s=10 * LEAVE_S)
    return time.monotonic() - left_at


def gone_within_a_second(leave):
    """`leave()` lets one caller leave, and says how long it took. The middle one of three must take a second at most; on a
    machine too busy to look in time, that of three others."""
    measured = []
    for _ in range(3):
        measured.append(sorted(leave() for _ in range(3)))
        if measured[-1][1] <= LEAVE_S:
            return
    raise AssertionError(f'seconds until nobody waited: {measured}')


def test_waiting_requests_go_in_their_order(start):
    daemon = one_busy_worker(start)
    plain = route_later(daemon, 'plain')
    wait_for('plain waits', lambda: pending(daemon) == 1)
    urgent = route_later(daemon, 'urgent', strict_priority=1)
    wait_for('both wait', lambda: pending(daemon) == 2)
    daemon.free('filler')
    assert urgent.result().target.worker_id == 1
    assert urgent.result().waited_seconds > 0
    assert not plain.done()
    daemon.router.PrefillComplete(router_pb2.PrefillCompleteRequest(request_id='urgent'), timeout=DEADLINE_S)
    assert plain.result().booked
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_queue_requests_total', event='parked') == 2
    assert metrics.one('kvrouter_queue_requests_total', event='released') == 2


def test_http_selections_wait_too_and_their_headers_count(start):
    daemon = one_busy_worker(start)
    plain = post(daemon, '/select_and_reserve', body_of('plain'))
    wait_for('plain waits', lambda: pending(daemon) == 1)
    urgent = post(daemon, '/select_and_reserve', body_of('urgent'), {'x-dynamo-request-strict-priority': '1'})
    wait_for('both wait', lambda: pending(daemon) == 2)
    looking = post(daemon, '/select', body_of('', advisory=True))
    assert answered(looking)[0] == 200, 'who only looks does not wait'
    loads = json.loads(daemon.get('/loads')[1])
    assert (loads[0]['pending_count'], loads[0]['pending_isl_tokens']) == (2, 200)
    daemon.free('filler')
    status, selection = answered(urgent)
    assert (status, selection['worker_id'], len(selection['sequence_hashes'])) == (200, 1, 25)
    daemon.free('urgent')
    assert answered(plain)[0] == 200


def test_a_full_queue_is_told_with_its_limit(start, tmp_path):
    policies = tmp_path / 'policies.yaml'
    policies.write_text('''
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: chat-any, policy_family: chat, cache_bucket: any, prefill_busy_threshold: 50, request_queue_limit_per_worker: 1}
  - {name: batch, prefill_busy_threshold: 50}
''')
    daemon = start('--router-policy-config', str(policies))
    daemon.register(1)
    daemon.route(range(100), 'filler')
    first = route_later(daemon, 'first')
    wait_for('first waits', lambda: pending(daemon) == 1)
    status, error = answered(post(daemon, '/select', body_of('second')))
    assert status == 503
    assert error['details'] == {'policy_class': 'chat-any', 'limit_kind': 'requests', 'current': 1, 'limit': 1}
    with pytest.raises(grpc.RpcError) as refused:
        daemon.route(range(100), 'third')
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    detail = router_pb2.ErrorDetail.FromString(dict(refused.value.trailing_metadata())['kvrouter-error-bin'])
    assert (detail.queue_limit.policy_class, detail.queue_limit.limit) == ('chat-any', 1)
    batch = post(daemon, '/select', body_of('batch'), {'x-dynamo-meta-policy-class': 'batch'})
    wait_for('the other class has room', lambda: pending(daemon) == 2)
    assert daemon.metrics().one('dynamo_frontend_router_queue_backpressure_total', policy_class='chat-any',
                                reason='request_limit') == 2
    daemon.free('filler')
    first.result()
    daemon.free('first')
    assert answered(batch)[0] == 200


def test_grpc_caller_that_leaves_while_it_waits(start):
    daemon = one_busy_worker(start)
    for fields in ({}, {'advise_only': True}):
        def leave():
            call = route_later(daemon, 'leaves', **fields)
            wait_for('it waits', lambda: pending(daemon) == 1)
            left_at = time.monotonic()
            call.cancel()
            return gone(daemon, left_at)

        gone_within_a_second(leave)
    daemon.free('filler')
    assert bookings(daemon) == 0
    assert daemon.route(range(10), 'leaves').booked, 'the id is free again'


def test_grpc_deadline_ends_the_wait(start):
    daemon = one_busy_worker(start)

    def leave():
        with pytest.raises(grpc.RpcError) as late:
            route_later(daemon, 'late', timeout=0.3).result()
        assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        return gone(daemon, time.monotonic())

    gone_within_a_second(leave)
    daemon.free('filler')
    assert bookings(daemon) == 0


def test_grpc_stream_that_breaks_while_requests_wait(start):
    daemon = one_busy_worker(start)

    def leave():
        sent = threading.Event()

        def messages():
            for i in range(3):
                yield router_pb2.StreamRequest(correlation_id=i, route=route_message(f's{i}', advise_only=i == 2))
            sent.wait(DEADLINE_S)

        stream = daemon.router.RouteStream(messages())
        wait_for('three wait', lambda: pending(daemon) == 3)
        left_at = time.monotonic()
        stream.cancel()
        sent.set()
        return gone(daemon, left_at)

    gone_within_a_second(leave)
    daemon.free('filler')
    assert bookings(daemon) == 0


def test_http_client_that_leaves_while_it_waits(start):
    daemon = one_busy_worker(start)
    for path in ('/select_and_reserve', '/select'):
        def leave():
            connection = post(daemon, path, body_of('leaves'))
            wait_for('it waits', lambda: pending(daemon) == 1)
            left_at = time.monotonic()
            connection.close()
            return gone(daemon, left_at)

        gone_within_a_second(leave)
    daemon.free('filler')
    assert bookings(daemon) == 0


def test_callers_that_leave_as_they_are_admitted_keep_no_booking(start):
    """Many leave while one Free lets them go one after the other: each is parked, being admitted, or answered and unread
    when it does. Those whose answer nobody read give their bookings back, the others are freed by their callers."""
    daemon = one_busy_worker(start)
    calls = [route_later(daemon, f'g{i}') for i in range(20)]
    connections = [post(daemon, '/select_and_reserve', body_of(f'h{i}')) for i in range(20)]
    wait_for('all wait', lambda: pending(daemon) == 40)
    released = threading.Thread(target=daemon.free, args=('filler',))
    released.start()
    for call, connection in zip(calls, connections):
        call.cancel()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\x01\0\0\0\0\0\0\0')  # a reset, unread or not
        connection.close()
    released.join()
    for i in range(20):  # whose answer arrived before the cancel
        if not calls[i].cancelled():
            daemon.free(f'g{i}')
    gone(daemon, time.monotonic())
    wait_for('no booking is left', lambda: bookings(daemon) <= 1)
    # At most the one whose answer was on the wire when its caller left: to the daemon it was delivered.
    for i in range(20):
        daemon.free(f'h{i}')
        daemon.free(f'g{i}')
    assert bookings(daemon) == 0


def test_those_who_wait_are_told_when_the_daemon_stops(start):
    daemon = one_busy_worker(start)
    call = route_later(daemon, 'waits')
    connection = post(daemon, '/select_and_reserve', body_of('waits too'))
    wait_for('both wait', lambda: pending(daemon) == 2)
    assert daemon.stop() == 0
    with pytest.raises(grpc.RpcError) as stopped:
        call.result()
    assert stopped.value.code() == grpc.StatusCode.UNAVAILABLE
    assert answered(connection)[0] == 503


def test_workers_that_leave_or_come_wake_those_who_wait(start):
    daemon = one_busy_worker(start)
    call = route_later(daemon, 'waits')
    wait_for('it waits', lambda: pending(daemon) == 1)
    daemon.register(2, max_num_batched_tokens=100)
    assert call.result().target.worker_id == 2
    stranded = route_later(daemon, 'stranded')
    wait_for('it waits', lambda: pending(daemon) == 1)
    daemon.remove(1)
    daemon.remove(2)
    with pytest.raises(grpc.RpcError) as nobody:
        stranded.result()
    assert nobody.value.code() == grpc.StatusCode.UNAVAILABLE


def test_overload_taints_and_adapters_through_both_doors(start):
    daemon = start('--active-prefill-tokens-threshold=50')
    daemon.register(1, taints=['gold'], lora_adapters={'names': ['sql']})
    daemon.register(2, lora_adapters={'names': []})
    answer = daemon.route(range(10), 'a', required_taints=['gold'])
    assert (answer.target.worker_id, answer.filtered.taints) == (1, 1)
    answer = daemon.route(range(10), 'b', lora_name='sql')
    assert (answer.target.worker_id, answer.filtered.no_lora_replica) == (1, 1)
    status, selection = answered(post(daemon, '/select', {'token_ids': [1, 2], 'routing_constraints': {
        'required_taints': ['gold'], 'preferred_taints': {'gold': 0.5}}}))
    assert (status, selection['worker_id']) == (200, 1)
    assert answered(post(daemon, '/select', {'token_ids': [1], 'routing_constraints': {'required_taints': ['no']}}))[0] == 503
    for i in range(2):
        daemon.route(range(100 * i, 100 * i + 100), f'fill{i}')
    assert daemon.metrics().all('kvrouter_worker_overloaded') == [1, 1]
    assert answered(post(daemon, '/select', {'token_ids': [1]}))[0] == 429
    assert answered(post(daemon, '/select', {'token_ids': [1], 'pinned_worker': {'worker_id': 1}}))[0] == 429
    with pytest.raises(grpc.RpcError) as overloaded:
        daemon.route(range(10), 'c')
    assert overloaded.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    health = {w['worker_id']: w['health'] for w in json.loads(daemon.get('/workers')[1])}
    assert [h[0]['overloaded'] for h in health.values()] == [True, True]


def test_a_worker_whose_requests_fail_fast_is_left_out_and_shown(start):
    daemon = start('--outlier-consecutive-failures=2', '--outlier-fast-failure-ms=60000', '--outlier-base-secs=300')
    for worker_id in (1, 2, 3):
        daemon.register(worker_id)
    failed = 0
    for i in range(60):
        answer = daemon.route(range(100 * i, 100 * i + 20), f'r{i}')
        bad = answer.target.worker_id == 1
        failed += bad
        outcome = router_pb2.LEG_OUTCOME_FAILED if bad else router_pb2.LEG_OUTCOME_SUCCEEDED
        if i % 2 == 0:
            daemon.router.Free(router_pb2.FreeRequest(request_id=f'r{i}', outcome=outcome), timeout=DEADLINE_S)
        else:
            connection = http.client.HTTPConnection(daemon.http_address, timeout=DEADLINE_S)
            connection.request('DELETE', f'/reservations/r{i}?outcome={"failed" if bad else "succeeded"}')
            assert connection.getresponse().status == 200
    assert failed == 2, 'after that it gets nothing for five minutes'
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_worker_ejected', worker_id='1') == 1
    assert metrics.one('kvrouter_ejections_total') == 1
    assert metrics.one('kvrouter_legs_total', outcome='failed') == 2
    worker = json.loads(daemon.get('/workers')[1])[0]
    assert 0 < worker['health'][0]['ejected_seconds'] <= 300
    assert worker['health'][0]['ejections'] == 1
