"""Blocks on lower tiers through the real daemon: events of an engine over ZMQ, what they do to decisions, dumps and figures."""
import os
import random
import subprocess

import pytest
from conftest import DEADLINE_S, live_events, router_pb2, wait_for
from kvrouter.v1 import kv_events_pb2 as pb
from publisher import Publisher, stored
from test_doctor import doctor
from test_kv_events import grpc_dump, published
from test_selection_api import send
from test_selection_explained import EXPLAIN

BLOCK = 4
# Words of vLLM, SGLang and Dynamo's workers, and the tier that they mean.
MEDIA = {'GPU': 'device', 'CPU': 'host_pinned', 'cpu_pinned': 'host_pinned', 'DISK': 'disk', 'STORAGE': 'disk', 'EXTERNAL': 'external'}


def overlap_of(daemon, tokens):
    """(device, host, disk, external) by target, as gRPC has it."""
    request = router_pb2.RouteRequest()
    request.token_ids.ids.extend(tokens)
    answer = daemon.router.OverlapScores(router_pb2.OverlapScoresRequest(request=request), timeout=DEADLINE_S)
    return {(o.target.worker_id, o.target.dp_rank): (o.device_blocks, o.host_blocks, o.disk_blocks, o.external_blocks)
            for o in answer.overlaps}


def cost_of(candidate, weights, isl_tokens):
    """docs/routing.md#cost, from the terms of an explanation."""
    lower = weights['host_cache_hit_weight'] * candidate['host_overlap_blocks'] + \
        weights['disk_cache_hit_weight'] * candidate['disk_overlap_blocks']
    effective = candidate['device_overlap_blocks'] + lower
    assert candidate['effective_overlap_blocks'] == effective
    cached = round(effective * BLOCK)
    raw = (candidate['active_prefill_tokens'] + isl_tokens - min(cached, isl_tokens) + cached) / BLOCK
    credit = weights['overlap_score_credit'] * candidate['device_overlap_blocks'] + lower
    decode = candidate['active_decode_blocks'] + candidate['additional_decode_blocks']
    return weights['prefill_load_scale'] * max(0, raw - credit) + decode


@pytest.fixture
def fleet(start, new_engine):
    """Worker 1 has blocks on three tiers, worker 2 two on its device, worker 3 nothing."""
    daemon = start('--random-seed', '3', '--router-host-cache-hit-weight', '0.7', '--router-disk-cache-hit-weight', '0.3')
    engine = new_engine()
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    for worker_id in (2, 3):
        daemon.register(worker_id)
    second = Publisher(daemon, 2)
    second.publish(stored([1, 2], range(8)))
    second.wait_for_all()
    engine.store([1], range(4))
    engine.store([2, 3], range(4, 12), parent=1, medium='CPU')
    engine.store([4], range(12, 16), parent=3, medium='DISK')
    engine.store([9], range(16, 20), parent=4, medium='HOLOGRAM')
    wait_for('the unknown medium', lambda: sum(daemon.metrics().all('kvrouter_feed_skipped_total', reason='unknown_medium')) == 1)
    daemon.engine = engine
    return daemon


def test_an_engines_media_are_the_tiers_of_an_explanation(fleet):
    tokens = list(range(20))
    assert overlap_of(fleet, tokens) == {(1, 0): (1, 2, 1, 0), (2, 0): (2, 0, 0, 0)}
    status, answer = send(fleet, 'POST', '/select_and_reserve', {'token_ids': tokens, 'selection_id': 's'}, headers=EXPLAIN)
    assert (status, answer['worker_id']) == (200, 1), answer
    assert answer['overlap'] == {'longest_matched': 16, 'gpu': 4, 'dp': {'0': 4}, 'cpu': 12, 'disk': 16}
    decision = answer['explanation']['decision']
    by_worker = {c['target']['worker_id']: c for c in decision['candidates']}
    terms = ('device_overlap_blocks', 'host_overlap_blocks', 'disk_overlap_blocks')
    assert [by_worker[1][t] for t in terms] == [1, 2, 1]
    assert [by_worker[2][t] for t in terms] == [2, 0, 0]
    assert [by_worker[3][t] for t in terms] == [0, 0, 0]
    for candidate in by_worker.values():
        assert candidate['cost_blocks'] == pytest.approx(cost_of(candidate, decision['weights'], len(tokens)), abs=1e-9)
    effective = 1 + 0.7 * 2 + 0.3 * 1
    assert decision['effective_overlap_blocks'] == pytest.approx(effective)
    assert decision['overlap_blocks'] == round(effective)
    assert decision['best_overlap_target'] == {'worker_id': 1, 'dp_rank': 0}
    # The counters keep the fraction, and what is booked is what is left to compute.
    metrics = fleet.metrics()
    assert metrics.one('dynamo_component_router_kv_overlap_blocks_total') == pytest.approx(effective)
    assert answer['effective_prefill_tokens'] == len(tokens) - round(effective * BLOCK)
    printed = subprocess.run([os.environ['KVROUTERCTL'], '--grpc', fleet.grpc_address, 'explain', 's'], capture_output=True, text=True,
                             timeout=DEADLINE_S)
    assert printed.returncode == 0, printed.stderr
    assert '2.7' in printed.stdout


def test_figures_by_tier(fleet):
    _, scores = send(fleet, 'POST', '/overlap_scores', {'token_ids': list(range(20))})
    first = next(w for w in scores['workers'] if w['worker_id'] == 1)
    assert {n: first[n] for n in ('device_blocks', 'host_pinned_blocks', 'disk_blocks', 'host_pinned_extension_blocks', 'disk_extension_blocks')} \
        == {'device_blocks': 1, 'host_pinned_blocks': 3, 'disk_blocks': 4, 'host_pinned_extension_blocks': 2, 'disk_extension_blocks': 1}
    assert first['router_credit_blocks'] == pytest.approx(2.7)
    metrics = fleet.metrics()
    assert metrics.one('kvrouter_worker_index_blocks', worker_id='1') == 1
    for tier, blocks in (('host_pinned', 2), ('disk', 1)):
        assert metrics.one('kvrouter_worker_lower_tier_blocks', worker_id='1', tier=tier) == blocks
        assert metrics.one('kvrouter_index_lower_tier_blocks', tier=tier) == blocks
    assert metrics.all('kvrouter_worker_lower_tier_blocks', tier='external') == []
    assert metrics.one('kvrouter_index_lower_tier_blocks', tier='external') == 0
    loads = fleet.router.Loads(router_pb2.LoadsRequest(), timeout=DEADLINE_S).partitions[0]
    assert (loads.lower_tier_blocks.host, loads.lower_tier_blocks.disk, loads.lower_tier_blocks.external) == (2, 1, 0)


def test_removals_name_their_tier_and_a_clearing_means_all(fleet):
    engine = fleet.engine
    engine.drop([1])
    engine.store([1], range(4), medium='CPU')
    wait_for('the walk begins on host', lambda: overlap_of(fleet, range(20)).get((1, 0)) == (0, 3, 1, 0))
    engine.drop([3], medium='CPU')
    wait_for('a hole on host', lambda: overlap_of(fleet, range(20)).get((1, 0)) == (0, 2, 0, 0))
    engine.store([3], range(8, 12), parent=2, medium='STORAGE')
    wait_for('disk goes on', lambda: overlap_of(fleet, range(20)).get((1, 0)) == (0, 2, 2, 0))
    engine.publish(['AllBlocksCleared'])
    wait_for('nothing left', lambda: (1, 0) not in overlap_of(fleet, range(20)))
    assert fleet.metrics().all('kvrouter_worker_lower_tier_blocks', worker_id='1') == []


def test_a_connector_that_names_blocks_only_is_understood(start, new_engine):
    daemon = start()
    engine = new_engine()
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    engine.store([1, 2, 3], range(12))
    engine.publish(['BlockStored', [2], None, [], 0, None, 'CPU'], ['BlockStored', [3], None, [], 0, None, 'CPU'],
                   ['BlockStored', [77], None, [], 0, None, 'CPU'])
    engine.drop([3, 2])
    wait_for('copies on host', lambda: overlap_of(daemon, range(12)) == {(1, 0): (1, 2, 0, 0)})
    assert daemon.metrics().one('kvrouter_worker_lower_tier_blocks', worker_id='1', tier='host_pinned') == 2


def test_a_dump_keeps_the_tiers(start, new_engine):
    seed = int(os.environ.get('KVR_SEED', '41'))
    source = random.Random(seed)
    original = start()
    engine = new_engine()
    original.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    # Chains whose blocks lie anywhere; on the device from the start on only, as engines have it.
    prompts, held = [], {tier: 0 for tier in MEDIA.values()}
    for chain in range(60):
        tokens = [source.randrange(50_000) for _ in range(10 * BLOCK)]
        names = [source.getrandbits(64) for _ in range(10)]
        on_device = source.randrange(6)
        for i in range(10):
            medium = 'GPU' if i < on_device else source.choice([m for m in MEDIA if m != 'GPU'])
            engine.store([names[i]], tokens[i * BLOCK:(i + 1) * BLOCK], BLOCK, names[i - 1] if i else None, medium)
            held[MEDIA[medium]] += 1
        prompts.append(tokens)
    wait_for('every block', lambda: sum(original.metrics().all('kvrouter_worker_lower_tier_blocks')) +
             original.metrics().one('kvrouter_worker_index_blocks') == 600)
    dumped, counts = grpc_dump(original)
    assert counts.blocks + counts.omitted_blocks == 600, f'seed {seed}'
    by_medium = {}
    for event in dumped[1, 0]:
        by_medium[event.stored.medium] = by_medium.get(event.stored.medium, 0) + len(event.stored.engine_hashes)
    assert by_medium == {'GPU': held['device'], 'CPU': held['host_pinned'], 'DISK': held['disk'], 'EXTERNAL': held['external']}, f'seed {seed}'
    status, told = send(original, 'GET', '/dump')
    assert status == 200
    over_http = []
    for event in told['default:default']['events']:
        said = event['event']['data']['stored']
        over_http.append(stored([b['block_hash'] for b in said['blocks']], parent=said['parent_hash'], block_size=BLOCK,
                                local_hashes=[b['tokens_hash'] for b in said['blocks']],
                                medium={'device': 'GPU', 'host_pinned': 'CPU', 'disk': 'DISK', 'external': 'EXTERNAL'}[event['storage_tier']]))
    for name, events in (('gRPC', dumped[1, 0]), ('HTTP', over_http)):
        copy = start()
        copy.register(1)
        published(copy, 1, 0, events)
        for i, tokens in enumerate(prompts):
            assert overlap_of(copy, tokens) == overlap_of(original, tokens), f'seed {seed}, prompt {i}, the copy by {name}'
    walked = [overlap_of(original, tokens).get((1, 0), (0, 0, 0, 0)) for tokens in prompts]
    assert all(sum(blocks[tier] for blocks in walked) > 5 for tier in range(4)), f'seed {seed}: too little to compare'


def test_a_rank_that_never_drops_blocks_is_forgotten_and_not_in_doubt(start, new_engine):
    daemon = start('--max-device-blocks', '4', '--expiry-check-period-ms', '100')
    engine = new_engine()
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    engine.store([1, 2, 3, 4], range(16))
    wait_for('the first four', lambda: overlap_of(daemon, range(24)).get((1, 0)) == (4, 0, 0, 0))
    degraded = daemon.metrics().all('kvrouter_feed_degraded', worker_id='1')
    engine.store([5], range(16, 20), parent=4)
    engine.store([6], range(20, 24), parent=5)
    wait_for('what follows is forgotten, too', lambda: daemon.metrics().one(
        'dynamo_component_kv_cache_events_applied', event_type='stored', status='parent_forgotten') == 1)
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_index_device_forgotten_blocks_total') == 5
    wait_for('a line', lambda: 'event=blocks_forgotten blocks=5 ' in daemon.log.read_text())
    assert metrics.one('dynamo_component_kv_cache_events_applied', event_type='stored', status='parent_block_not_found') == 0
    assert metrics.all('kvrouter_feed_degraded', worker_id='1') == degraded
    engine.store([1, 2], range(8))
    wait_for('it fills again', lambda: overlap_of(daemon, range(24)).get((1, 0)) == (2, 0, 0, 0))


def test_an_index_over_its_bound_forgets_the_largest_rank_and_the_doctor_says_so(start, new_engine):
    daemon = start('--max-index-blocks', '6', '--expiry-check-period-ms', '100')
    small, large = new_engine(), new_engine()
    for number, engine in enumerate([small, large], start=1):
        daemon.register(number, events=live_events(engine.endpoint))
        engine.wait_for_subscriber()
    small.store([1, 2], range(8))
    large.store([1, 2, 3, 4], range(16))
    wait_for('both', lambda: overlap_of(daemon, range(16)) == {(1, 0): (2, 0, 0, 0), (2, 0): (4, 0, 0, 0)})
    assert daemon.metrics().one('kvrouter_index_whole_forgotten_blocks_total') == 0
    small.store([3], range(8, 12), parent=2)
    wait_for('the large one to go', lambda: overlap_of(daemon, range(16)) == {(1, 0): (3, 0, 0, 0)})
    wait_for('it is counted', lambda: daemon.metrics().one('kvrouter_index_whole_forgotten_blocks_total') == 4)
    wait_for('a line', lambda: 'event=blocks_forgotten blocks=4 ' in daemon.log.read_text())
    assert 'index_full' in doctor(daemon, '--skip-workers').stdout
    large.store([1, 2], range(8))
    wait_for('it fills again', lambda: overlap_of(daemon, range(16)).get((2, 0)) == (2, 0, 0, 0))
