"""The standalone indexer's HTTP API against the real daemon: the table of indexer_cases.py, and what needs more than one look."""
import concurrent.futures
import json
import random

import pytest
from conftest import wait_for
from http_table import JSON, misfit, send_to
from indexer_cases import ROWS, instance, query
from selection_cases import worker

TOKENS = list(range(14))


def send(daemon, method, path, body=None, content_type=JSON):
    return send_to(daemon.indexer_address, method, path, body, content_type)


def select(daemon, method, path, body=None):
    return send_to(daemon.http_address, method, path, body)


@pytest.fixture
def indexer(start):
    return start('--indexer-listen', '127.0.0.1:0')


def scores_of(daemon, tokens=TOKENS, model='m'):
    status, answer = send(daemon, 'POST', '/query', query(token_ids=tokens, model_name=model))
    assert status == 200, answer
    return answer


def test_every_row_of_the_indexer_table(indexer):
    assert len(ROWS) >= 120
    assert len({row.name for row in ROWS}) == len(ROWS), 'two rows of one name'
    assert send(indexer, 'POST', '/register', instance(1, model_name='m'))[0] == 201
    assert select(indexer, 'POST', '/workers', worker(2, model_name='w', block_size=8, data_parallel_size=2))[0] == 201
    wrong = []
    for row in ROWS:
        for method, path, body in row.before:
            send(indexer, method, path, body)
        status, answer = send(indexer, row.method, row.path, row.body, row.content_type)
        shape = row.shape if row.shape is not None or row.status < 400 else {'error': str}
        reason = f'status {status} instead of {row.status}' if status != row.status else misfit(shape, answer)
        if reason:
            wrong.append(f'{row.name}: {reason}; {str(answer)[:200]}')
    assert not wrong, f'{len(wrong)} of {len(ROWS)} rows:\n' + '\n'.join(wrong)
    assert indexer.process.poll() is None


def test_it_is_off_by_default(start):
    daemon = start()
    assert daemon.indexer_address is None
    assert daemon.get('/register')[0] == 404


def test_a_port_that_is_taken_ends_the_start(indexer, run):
    ended = run('--http-listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0', '--indexer-listen', indexer.indexer_address)
    assert ended.returncode == 1
    assert indexer.indexer_address in ended.stderr


def test_scores_are_told_in_tokens_by_rank(indexer, new_engine):
    engines = [new_engine(), new_engine()]
    for rank, engine in enumerate(engines):
        engine.dp_rank = rank
        assert send(indexer, 'POST', '/register', instance(7, endpoint=engine.endpoint, model_name='m', dp_rank=rank))[0] == 201
    # With the second rank the feed of the first begins anew: empty batches until each is heard, the second before the first.
    for engine in reversed(engines):
        before = indexer.metrics().one('kvrouter_feed_batches_applied_total')
        wait_for('heard', lambda: engine.publish() or indexer.metrics().one('kvrouter_feed_batches_applied_total') > before)
    engines[0].store([5, 6], TOKENS[:8])
    engines[1].store([9], TOKENS[:4])
    wait_for('three blocks', lambda: scores_of(indexer)['scores'].get('7') == {'0': 8, '1': 4})
    answer = scores_of(indexer)
    assert answer == {'scores': {'7': {'0': 8, '1': 4}}, 'frequencies': [],
                      'instances': {'7': {'longest_matched': 8, 'gpu': 8, 'dp': {'0': 8, '1': 4}, 'cpu': 8, 'disk': 8}}}
    # Host memory continues where the device ends.
    engines[0].publish(['BlockStored', [7], 6, TOKENS[8:12], 4, None, 'CPU'])
    wait_for('a block in host memory', lambda: scores_of(indexer)['instances']['7']['cpu'] == 12)
    assert scores_of(indexer) == {'scores': {'7': {'0': 8, '1': 4}}, 'frequencies': [],
                                  'instances': {'7': {'longest_matched': 12, 'gpu': 8, 'dp': {'0': 8, '1': 4}, 'cpu': 12, 'disk': 12}}}
    engines[0].publish(['BlockRemoved', [7], 'CPU'])
    wait_for('it has gone', lambda: scores_of(indexer) == answer)
    # What the dump calls the blocks finds the same, as signed numbers.
    _, dump = send(indexer, 'GET', '/dump')
    stored = [event['event']['data']['stored'] for event in dump['m:default']['events'] if event['event']['dp_rank'] == 0]
    hashes = [block['tokens_hash'] for s in stored for block in s['blocks']]
    signed = [h - 2**64 if h >= 2**63 else h for h in hashes]
    assert send(indexer, 'POST', '/query_by_hash', {'block_hashes': signed, 'model_name': 'm'}) == (200, answer)
    # Another salt or adapter names other blocks.
    for other in ({'cache_salt': 's'}, {'lora_name': 'a'}):
        assert send(indexer, 'POST', '/query', query(**other))[1]['scores'] == {}
    # Queries are advice: nothing is booked, nothing counts as a request.
    metrics = indexer.metrics()
    assert metrics.one('dynamo_component_router_requests_started_total') == 0
    assert metrics.one('kvrouter_isl_tokens_total') == 0
    # A rank that goes takes its blocks with it.
    assert send(indexer, 'POST', '/unregister', {'instance_id': 7, 'model_name': 'm', 'dp_rank': 0})[0] == 200
    wait_for('rank 0 gone', lambda: scores_of(indexer)['scores'].get('7') == {'1': 4})
    assert send(indexer, 'POST', '/unregister', {'instance_id': 7, 'model_name': 'm'})[0] == 200
    assert send(indexer, 'GET', '/workers') == (200, [])
    assert select(indexer, 'GET', '/workers') == (200, [])


def test_an_instance_is_never_picked_until_a_door_gives_it_an_address(indexer, new_engine):
    engine = new_engine()
    body = instance(7, endpoint=engine.endpoint, model_name='m')
    assert send(indexer, 'POST', '/register', body)[0] == 201
    engine.wait_for_subscriber()
    engine.store([5, 6], TOKENS[:8])
    wait_for('blocks', lambda: scores_of(indexer)['scores'] == {'7': {'0': 8}})
    prompt = {'token_ids': TOKENS, 'model_name': 'm'}
    assert select(indexer, 'POST', '/select', prompt)[0] == 503
    assert indexer.get('/ready')[0] == 503
    (record,) = select(indexer, 'GET', '/workers')[1]
    assert (record['lifecycle'], record['endpoint']) == ('incomplete', None)
    # Patched, it keeps its blocks and serves.
    assert select(indexer, 'PATCH', '/workers/7', {'total_kv_blocks': 100})[0] == 200
    assert select(indexer, 'PATCH', '/workers/7', {'draining': False})[0] == 400
    status, record = select(indexer, 'PATCH', '/workers/7', {'endpoint': 'http://w7:8000'})
    assert (status, record['lifecycle']) == (200, 'schedulable'), record
    status, selection = select(indexer, 'POST', '/select', prompt)
    assert (status, selection['endpoint'], selection['overlap']['gpu']) == (200, 'http://w7:8000', 8)
    # It serves, so unregistering takes the socket and leaves the worker.
    assert send(indexer, 'POST', '/unregister', {'instance_id': 7, 'model_name': 'm'})[0] == 200
    assert send(indexer, 'GET', '/workers') == (200, [])
    assert select(indexer, 'POST', '/select', prompt)[0] == 200


def test_workers_of_other_doors_are_instances(indexer, new_engine):
    engine = new_engine()
    assert select(indexer, 'POST', '/workers', worker(3, model_name='m', kv_events_endpoint=engine.endpoint))[0] == 201
    engine.wait_for_subscriber()
    engine.store([5], TOKENS[:4])
    wait_for('a block', lambda: scores_of(indexer)['scores'] == {'3': {'0': 4}})
    (record,) = send(indexer, 'GET', '/workers?model_name=m')[1]
    assert record == {'instance_id': 3, 'source': 'zmq', 'status': 'active', 'model_name': 'm', 'routing_group': 'default', 'block_size': 4,
                      'endpoints': {'0': engine.endpoint}, 'listeners': {'0': {'endpoint': engine.endpoint, 'status': 'active'}}}
    assert send(indexer, 'POST', '/register', instance(3, model_name='m'))[0] == 409


def test_ranks_registered_at_once_are_all_there(indexer):
    with concurrent.futures.ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda rank: send(indexer, 'POST', '/register', instance(7, dp_rank=rank)), range(32)))
    assert [status for status, _ in answers] == [201] * 32
    (record,) = send(indexer, 'GET', '/workers')[1]
    assert sorted(map(int, record['endpoints'])) == list(range(32))


def test_peers_are_a_list(indexer):
    assert send(indexer, 'GET', '/peers') == (200, [])
    for url in ('http://b:8090', 'http://a:8090', 'http://b:8090'):
        assert send(indexer, 'POST', '/register_peer', {'url': url})[0] == 201
    assert sorted(send(indexer, 'GET', '/peers')[1]) == ['http://a:8090', 'http://b:8090']
    assert send(indexer, 'POST', '/deregister_peer', {'url': 'http://a:8090'})[0] == 200
    assert send(indexer, 'GET', '/peers') == (200, ['http://b:8090'])


def test_health_is_empty_and_metrics_are_the_daemons(indexer):
    assert send(indexer, 'GET', '/health') == (200, None)
    assert send(indexer, 'POST', '/query', query(model_name='nobody'))[0] == 404
    scrape = indexer.metrics()
    assert scrape.one('kvrouter_http_indexer_requests_total', method='POST', route='/query', status='4xx') == 1
    assert scrape.one('kvrouter_http_indexer_requests_total', method='GET', route='/health', status='2xx') == 1
    assert scrape.one('kvrouter_requests_refused_total', reason='unknown_partition') == 1
    assert send(indexer, 'POST', '/register', b'{')[0] == 400
    assert indexer.metrics().one('kvrouter_registrations_refused_total', reason='invalid_request') == 1


def test_both_dumps_are_the_same(indexer, new_engine):
    seed = 4
    source = random.Random(seed)
    engine = new_engine()
    assert send(indexer, 'POST', '/register', instance(7, endpoint=engine.endpoint, model_name='m'))[0] == 201
    engine.wait_for_subscriber()
    for i in range(20):
        engine.store([100 + i], [source.randrange(1000) for _ in range(4)])
    wait_for('blocks', lambda: indexer.metrics().one('kvrouter_worker_index_blocks', worker_id='7') == 20)
    theirs, ours = send(indexer, 'GET', '/dump')[1], select(indexer, 'GET', '/dump')[1]
    key = json.dumps
    for dump in (theirs, ours):
        for event in dump['m:default']['events']:
            event['event'].pop('event_id')
        dump['m:default']['events'].sort(key=key)
    assert theirs == ours and len(theirs['m:default']['events']) >= 1, seed
