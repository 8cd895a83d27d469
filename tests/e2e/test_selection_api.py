"""The HTTP selection API against the real daemon, by a plain HTTP client: the table of selection_cases.py, and what needs
more than one look."""
import http.client
import json

import pytest
from conftest import DEADLINE_S, live_events, wait_for
from http_table import JSON, misfit, send_to
from selection_cases import ROWS, TOKENS, prompt, worker


def send(daemon, method, path, body=None, content_type=JSON, headers=None):
    return send_to(daemon.http_address, method, path, body, content_type, headers)


@pytest.fixture
def daemon(start):
    running = start()
    assert send(running, 'POST', '/workers', worker(1, model_name='default'))[0] == 201
    assert send(running, 'POST', '/workers', worker(2, model_name='m2', block_size=8, data_parallel_size=2))[0] == 201
    wait_for('ready', lambda: running.get('/ready')[0] == 200)
    return running


def test_every_row_of_the_table(daemon):
    assert len(ROWS) >= 120
    assert len({row.name for row in ROWS}) == len(ROWS), 'two rows of one name'
    wrong = []
    for row in ROWS:
        for method, path, body in row.before:
            send(daemon, method, path, body)
        status, answer = send(daemon, row.method, row.path, row.body, row.content_type, row.headers)
        shape = row.shape if row.shape is not None else {'error': str}
        reason = f'status {status} instead of {row.status}' if status != row.status else misfit(shape, answer)
        if reason:
            wrong.append(f'{row.name}: {reason}; {str(answer)[:200]}')
    assert not wrong, f'{len(wrong)} of {len(ROWS)} rows:\n' + '\n'.join(wrong)
    assert daemon.process.poll() is None


def load_of(daemon, model='default'):
    status, partitions = send(daemon, 'GET', '/loads')
    assert status == 200
    (partition,) = [p for p in partitions if p['model_name'] == model]
    assert partition['pending_count'] == partition['pending_isl_tokens'] == 0
    return {(l['worker_id'], l['dp_rank']): (l['potential_prefill_tokens'], l['potential_decode_blocks'], l['active_requests'])
            for l in partition['loads']}


def test_loads_follow_a_reservation(daemon):
    assert load_of(daemon) == {(1, 0): (0, 0, 0)}
    send(daemon, 'POST', '/select', prompt(selection_id='a'))
    assert load_of(daemon) == {(1, 0): (0, 0, 0)}
    send(daemon, 'POST', '/reservations', {'selection_id': 'a'})
    assert load_of(daemon) == {(1, 0): (10, 2, 1)}
    send(daemon, 'POST', '/reservations/a/prefill_complete')
    assert load_of(daemon) == {(1, 0): (0, 2, 1)}
    send(daemon, 'DELETE', '/reservations/a')
    assert load_of(daemon) == {(1, 0): (0, 0, 0)}
    metrics = daemon.metrics()
    assert metrics.one('dynamo_component_router_requests_started_total') == 1
    assert metrics.one('kvrouter_isl_tokens_total') == 10  # once, when it booked
    assert metrics.one('kvrouter_bookings', model='default') == 0


def test_a_reservation_of_one_door_is_freed_through_the_other(daemon):
    send(daemon, 'POST', '/select_and_reserve', prompt(selection_id='http'))
    assert daemon.free('http')
    daemon.route(TOKENS, 'grpc')
    assert send(daemon, 'POST', '/select_and_reserve', prompt(selection_id='grpc'))[0] == 409
    send(daemon, 'DELETE', '/reservations/grpc')
    assert not daemon.free('grpc')


def test_every_refusal_is_counted_under_its_reason(daemon):
    def refused():
        metrics = daemon.metrics()
        return tuple(metrics.one('kvrouter_requests_refused_total', reason=reason)
                     for reason in ('invalid_request', 'unknown_request', 'duplicate_request'))
    assert refused() == (0, 0, 0)
    assert send(daemon, 'POST', '/select', b'{')[0] == 400
    assert send(daemon, 'POST', '/select_and_reserve', {'token_ids': 'none'})[0] == 422
    assert send(daemon, 'POST', '/select', prompt(), content_type='text/plain')[0] == 415
    assert send(daemon, 'POST', '/select', prompt(), headers={'x-route-explain': 'yes'})[0] == 400
    assert send(daemon, 'POST', '/reservations', {})[0] == 422
    assert refused() == (5, 0, 0)
    assert send(daemon, 'POST', '/reservations', {'selection_id': 'never'})[0] == 404
    assert refused() == (5, 1, 0)
    assert send(daemon, 'POST', '/select_and_reserve', prompt(selection_id='a'))[0] == 200
    assert send(daemon, 'POST', '/select_and_reserve', prompt(selection_id='a'))[0] == 409
    assert send(daemon, 'POST', '/reservations', prompt(selection_id='a', worker_id=1))[0] == 409
    assert refused() == (5, 1, 2)


def test_every_refused_registration_is_counted_under_its_reason(daemon):
    def refused():
        metrics = daemon.metrics()
        return tuple(metrics.one('kvrouter_registrations_refused_total', reason=reason)
                     for reason in ('invalid_request', 'unknown_worker', 'block_size_conflict'))
    assert refused() == (0, 0, 0)
    assert send(daemon, 'POST', '/workers', b'{')[0] == 400
    assert send(daemon, 'POST', '/workers', {'worker_id': 'seven'})[0] == 422
    assert send(daemon, 'PATCH', '/workers/seven', {'draining': True})[0] == 400
    assert refused() == (3, 0, 0)
    assert send(daemon, 'PATCH', '/workers/7', {'draining': True})[0] == 404
    assert send(daemon, 'POST', '/workers', worker(8, model_name='default', block_size=8))[0] == 409
    assert refused() == (3, 1, 1)


def test_errors_are_json_whatever_they_quote(daemon):
    for path in ('/reservations/%FF/prefill_complete', '/explain/%FF'):
        status, answer = send(daemon, 'POST' if 'prefill' in path else 'GET', path)  # reads strict UTF-8
        assert status == 404 and '\ufffd' in answer['error']


def test_overlap_is_told_in_tokens_and_dump_holds_the_blocks(start, new_engine):
    engine = new_engine()
    daemon = start()
    body = worker(1, model_name='default', kv_events_endpoint=engine.endpoint)
    assert send(daemon, 'POST', '/workers', body)[0] == 201
    engine.wait_for_subscriber()
    engine.store([5, 6], TOKENS[:8])
    wait_for('two blocks', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 2)
    _, selection = send(daemon, 'POST', '/select', prompt())
    assert selection['overlap'] == {'longest_matched': 8, 'gpu': 8, 'dp': {'0': 8}, 'cpu': 8, 'disk': 8}
    assert selection['effective_prefill_tokens'] == 2
    _, scores = send(daemon, 'POST', '/overlap_scores', prompt())
    assert [(w['device_blocks'], w['router_credit_blocks']) for w in scores['workers']] == [(2, 2)]
    assert scores['num_blocks'] == 2
    _, dump = send(daemon, 'GET', '/dump')
    stored = [event['event']['data']['stored'] for event in dump['default:default']['events']]
    assert sum(len(s['blocks']) for s in stored) == 2
    assert stored[0]['parent_hash'] is None
    # A precomputed prompt finds what the tokens find.
    _, booked = send(daemon, 'POST', '/select_and_reserve', prompt())
    hashes = [block['tokens_hash'] for s in stored for block in s['blocks']]
    signed = [h - 2**64 if h >= 2**63 else h for h in hashes]
    _, again = send(daemon, 'POST', '/select',
                    {'block_hashes': signed, 'sequence_hashes': booked['sequence_hashes'], 'isl_tokens': 10})
    assert again['overlap']['gpu'] == 8


def test_large_prompts_and_the_limit(daemon):
    status, _ = send(daemon, 'POST', '/select', {'token_ids': list(range(1_000_000))})
    assert status == 200
    connection = http.client.HTTPConnection(daemon.http_address, timeout=DEADLINE_S)
    connection.putrequest('POST', '/select')
    connection.putheader('Content-Type', JSON)
    connection.putheader('Content-Length', str((64 << 20) + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert 'error' in json.loads(answer.read())
    connection.close()


def test_history_through_grpc_and_http_gives_the_same(start):
    """One seeded history, two daemons of one seed, one driven through each door."""
    import random
    seed = 20
    source = random.Random(seed)
    through_http, through_grpc = start(), start()
    for daemon in (through_http, through_grpc):
        for worker_id in range(1, 5):
            daemon.register(worker_id)
    live = []
    for step in range(300):
        action = source.choice(('route', 'route', 'free', 'prefill'))
        if action == 'route' or not live:
            tokens = [source.randrange(3)] * source.randrange(1, 40)
            request_id = f'r{step}'
            # Ties are drawn at random by each daemon alike, as long as both draw alike.
            answer = through_grpc.route(tokens, request_id)
            status, selection = send(through_http, 'POST', '/select_and_reserve', {'token_ids': tokens, 'selection_id': request_id})
            assert status == 200, (seed, step, selection)
            assert (selection['worker_id'], selection['dp_rank']) == (answer.target.worker_id, answer.target.dp_rank), (seed, step)
            live.append(request_id)
        elif action == 'free':
            request_id = live.pop(source.randrange(len(live)))
            through_grpc.free(request_id)
            send(through_http, 'DELETE', f'/reservations/{request_id}')
        else:
            request_id = source.choice(live)
            import kvrouter.v1.router_pb2 as router_pb2
            through_grpc.router.PrefillComplete(router_pb2.PrefillCompleteRequest(request_id=request_id), timeout=DEADLINE_S)
            send(through_http, 'POST', f'/reservations/{request_id}/prefill_complete')
    assert load_of(through_http) == load_of(through_grpc)
    assert comparable_series(through_http) == comparable_series(through_grpc), seed


def comparable_series(daemon):
    """All figures but those of the doors themselves, of the process, and of time."""
    apart = ('kvrouter_http_', 'kvrouter_selections_', 'process_', 'kvrouter_build_info', 'dynamo_router_overhead_',
             'dynamo_component_router_time_to_first_token_', 'dynamo_component_router_inter_token_latency_',
             'dynamo_frontend_worker_last_time_to_first_token_', 'dynamo_frontend_worker_last_inter_token_latency_',
             'kvrouter_index_bytes')  # hash tables with random seeds
    return [series for series in daemon.metrics().series if not series[0].startswith(apart)]
