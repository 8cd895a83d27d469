"""KvEvents.Publish and Dump through the real daemon; grpcio on the other side."""
import json
import os
import random
import subprocess

import grpc
from conftest import DEADLINE_S, live_events, wait_for
from kvrouter.v1 import kv_events_pb2 as pb
from kvrouter.v1 import common_pb2, router_pb2, workers_pb2
from publisher import Publisher, removed, stored

BLOCK = 4


def feed_of(daemon, worker_id, rank=0):
    for worker in daemon.workers.List(workers_pb2.ListRequest(), timeout=DEADLINE_S).workers:
        if worker.spec.worker_id == worker_id:
            return worker.feeds[rank]
    raise AssertionError(f'no worker {worker_id}')


def overlaps(daemon, tokens):
    request = router_pb2.RouteRequest()
    request.token_ids.ids.extend(tokens)
    answer = daemon.router.OverlapScores(router_pb2.OverlapScoresRequest(request=request), timeout=DEADLINE_S)
    return [(o.target.worker_id, o.target.dp_rank, o.device_blocks) for o in answer.overlaps]


def reason_of(error):
    detail = dict(error.trailing_metadata())['kvrouter-error-bin']
    return common_pb2.ErrorReason.Name(router_pb2.ErrorDetail.FromString(detail).reason)


def test_a_worker_that_only_publishes_counts_like_any_other(start):
    daemon = start()
    daemon.register(1)
    assert feed_of(daemon, 1).state == 'none'
    publisher = Publisher(daemon, 1)
    publisher.publish(stored([11, 12], range(8)))
    publisher.wait_for_all()
    publisher.publish(stored([13], range(8, 12), parent=12))
    publisher.wait_for_all()
    assert daemon.route(range(12), 'r').overlap_blocks == 3
    wait_for('the feed shown as live', lambda: feed_of(daemon, 1).state == 'live')
    wait_for('two events counted', lambda: daemon.metrics().one('kvrouter_feed_events_applied_total') == 2)
    metrics = daemon.metrics()
    assert metrics.one('kvrouter_feed_state', worker_id='1', state='live') == 1
    assert metrics.one('kvrouter_feed_replays_total', outcome='completed') == 1
    assert daemon.get('/ready')[0] == 200
    # A change of the record that feeds do not depend on leaves the stream alone.
    daemon.workers.Update(workers_pb2.UpdateRequest(worker_id=1, address='http://elsewhere:1'), timeout=DEADLINE_S)
    publisher.publish(removed([13]))
    publisher.wait_for_all()
    assert overlaps(daemon, range(12)) == [(1, 0, 2)]
    publisher.close()
    wait_for('the feed shown as connecting', lambda: feed_of(daemon, 1).state == 'connecting')
    assert overlaps(daemon, range(12)) == [(1, 0, 2)]


def test_gaps_reconnects_and_restarts(start):
    daemon = start()
    daemon.register(1)
    publisher = Publisher(daemon, 1)
    publisher.publish(stored([1], range(4)))
    publisher.make(stored([2], range(4, 8), parent=1))  # lost on the way
    publisher.publish(stored([3], range(8, 12), parent=2))
    publisher.wait_for_all()
    assert overlaps(daemon, range(12)) == [(1, 0, 3)]
    publisher.call.cancel()
    publisher.wait_for_end()
    publisher.make(stored([4], range(12, 16), parent=3))
    again = Publisher(daemon, 1, history=publisher.history)
    again.wait_for_all()
    assert overlaps(daemon, range(16)) == [(1, 0, 4)]
    again.call.cancel()
    again.wait_for_end()
    other_life = Publisher(daemon, 1)
    other_life.publish(stored([9], range(100, 104)))
    other_life.wait_for_all()
    assert overlaps(daemon, range(16)) == []
    assert overlaps(daemon, range(100, 104)) == [(1, 0, 1)]
    wait_for('one restart', lambda: daemon.metrics().one('kvrouter_feed_restarts_total') == 1)
    assert daemon.metrics().one('kvrouter_feed_gaps_total') == 1


def test_the_router_that_restarts_asks_for_everything(start):
    first = start()
    first.register(1)
    publisher = Publisher(first, 1)
    for i in range(20):
        publisher.publish(stored([i + 1], range(4 * i, 4 * i + 4), parent=i or None))
    publisher.wait_for_all()
    assert first.stop() == 0
    error = publisher.wait_for_end()
    assert error.code() == grpc.StatusCode.UNAVAILABLE and reason_of(error) == 'ERROR_REASON_SHUTTING_DOWN'
    second = start()
    second.register(1)
    Publisher(second, 1, history=publisher.history).wait_for_all()
    assert overlaps(second, range(80)) == [(1, 0, 20)]


def test_who_may_not_publish_is_told(start, new_engine):
    daemon = start()
    worker = daemon.register(1)
    daemon.register(2, events=live_events(new_engine().endpoint))
    cases = [(dict(worker_id=9), grpc.StatusCode.NOT_FOUND, 'ERROR_REASON_UNKNOWN_WORKER'),
             (dict(worker_id=1, dp_rank=1), grpc.StatusCode.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST'),
             (dict(worker_id=1, incarnation=worker.spec.incarnation + 1), grpc.StatusCode.FAILED_PRECONDITION, 'ERROR_REASON_INCARNATION_CONFLICT'),
             (dict(worker_id=2), grpc.StatusCode.FAILED_PRECONDITION, 'ERROR_REASON_FEED_CONFLICT')]
    for fields, code, reason in cases:
        error = Publisher(daemon, **fields).wait_for_end()
        assert (error.code(), reason_of(error)) == (code, reason), fields
    assert daemon.metrics().one('kvrouter_publish_refused_total', reason='feed_conflict') == 1

    older = Publisher(daemon, 1)
    older.wait('live', lambda a: a.state == 'live')
    newer = Publisher(daemon, 1)
    error = older.wait_for_end()
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.ABORTED, 'ERROR_REASON_FEED_CONFLICT')
    newer.wait('live', lambda a: a.state == 'live')
    daemon.remove(1)
    error = newer.wait_for_end()
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, 'ERROR_REASON_UNKNOWN_WORKER')


# ---- Dump, and what becomes of it ----


class Cache:
    """What one rank's engine holds of a tree of blocks, and the events that say so. Its names are its own."""

    def __init__(self, source, tree):
        self.source = source
        self.tree = tree
        self.names = [source.getrandbits(64) for _ in tree]
        self.held = set()

    def store(self, leaf):
        """The missing blocks of the path to `leaf`, as runs of (parent, names, tokens)."""
        path = []
        node = leaf
        while node is not None:
            path.append(node)
            node = self.tree[node][0]
        path.reverse()
        run, events = [], []
        for node in path + [None]:
            if node is not None and node not in self.held:
                run.append(node)
                continue
            if run:
                parent = self.tree[run[0]][0]
                tokens = [t for n in run for t in self.tree[n][1]]
                events.append((None if parent is None else self.names[parent], [self.names[n] for n in run], tokens))
                self.held.update(run)
                run = []
        return events

    def evict(self, count):
        gone = self.source.sample(sorted(self.held), min(count, len(self.held)))
        self.held.difference_update(gone)
        return [self.names[n] for n in gone]


def a_tree(source, blocks):
    """(parent, tokens) of each block: prompts that share prefixes of all lengths."""
    tree = []
    for _ in range(blocks):
        parent = source.randrange(len(tree)) if tree and source.random() < 0.35 else len(tree) - 1 if tree and source.random() < 0.93 else None
        tree.append((parent, [source.randrange(50_000) for _ in range(BLOCK)]))
    return tree


def prompt_of(tree, node):
    tokens = []
    while node is not None:
        tokens = tree[node][1] + tokens
        node = tree[node][0]
    return tokens


def published(daemon, worker_id, rank, events):
    """`events` of one target as a stream of batches; returns when all are applied."""
    publisher = Publisher(daemon, worker_id, rank, can_replay=False, counting=pb.STORE_COUNTING_SET)
    for begin in range(0, len(events), 50):
        publisher.publish(*events[begin:begin + 50])
    if events:
        answer = publisher.wait_for_all()
        assert (answer.state, answer.skipped) == ('live', 0)
    publisher.close()


def grpc_dump(daemon):
    """Stored events by target, and the counts."""
    by_target, counts = {}, None
    for message in daemon.router.Dump(router_pb2.DumpRequest(), timeout=DEADLINE_S):
        assert counts is None
        for event in message.events:
            by_target.setdefault((event.target.worker_id, event.target.dp_rank), []).append(pb.KvEvent(stored=event.stored))
        counts = message.counts if message.HasField('counts') else None
    return by_target, counts


def http_dump(daemon):
    status, text = daemon.get('/dump')
    assert status == 200
    partition = json.loads(text)['default:default']
    by_target = {}
    for event in partition['events']:
        assert event['storage_tier'] == 'device'
        said = event['event']['data']['stored']
        by_target.setdefault((event['worker_id'], event['event']['dp_rank']), []).append(
            stored([b['block_hash'] for b in said['blocks']], parent=said['parent_hash'], block_size=partition['block_size'],
                   local_hashes=[b['tokens_hash'] for b in said['blocks']]))
    return by_target


def test_a_dump_fed_to_fresh_daemons_gives_the_same_overlap(start, new_engine):
    seed = int(os.environ.get('KVR_SEED', '31'))
    source = random.Random(seed)
    tree = a_tree(source, 900)
    engine = new_engine()
    original = start()
    original.register(1, events=live_events(engine.endpoint))
    original.register(2, dp_size=2)
    engine.wait_for_subscriber()
    caches = {target: Cache(source, tree) for target in ((1, 0), (2, 0), (2, 1))}
    publishers = {(2, rank): Publisher(original, 2, rank) for rank in (0, 1)}
    for _ in range(200):
        target = source.choice(sorted(caches))
        cache = caches[target]
        events = cache.store(source.randrange(len(tree)))
        gone = cache.evict(source.randrange(6)) if source.random() < 0.2 else []
        if target == (1, 0):
            for parent, names, tokens in events:
                engine.store(names, tokens, BLOCK, parent)
            if gone:
                engine.drop(gone)
        else:
            batch = [stored(names, tokens, parent) for parent, names, tokens in events] + ([removed(gone)] if gone else [])
            publishers[target].publish(*batch)
    for publisher in publishers.values():
        publisher.wait_for_all()
    for worker_id, rank in caches:
        wait_for(f'blocks of {worker_id}/{rank}', lambda: original.metrics().one(
            'kvrouter_worker_index_blocks', worker_id=str(worker_id), dp_rank=str(rank)) == len(caches[worker_id, rank].held))

    dumped, counts = grpc_dump(original)
    held = sum(len(cache.held) for cache in caches.values())
    assert counts.blocks + counts.omitted_blocks == held, f'seed {seed}'
    assert counts.omitted_blocks > 0 and counts.blocks > 200, f'seed {seed}: too little to compare'
    assert counts.events == sum(len(events) for events in dumped.values())

    printed = subprocess.run([os.environ['KVROUTERCTL'], '--grpc', original.grpc_address, 'dump'], capture_output=True, text=True, timeout=DEADLINE_S)
    assert printed.returncode == 0, printed.stderr
    records = [json.loads(line) for line in printed.stdout.splitlines()]
    assert len(records) == counts.events
    assert [r['event']['event']['event_id'] for r in records] == list(range(len(records)))
    assert {(r['key'], r['block_size']) for r in records} == {('default:default', BLOCK)}
    assert printed.stderr == f'{counts.events} events, {counts.blocks} blocks; {counts.omitted_blocks} blocks behind a hole left out\n'

    copies = []
    for by_target in (dumped, http_dump(original)):
        copy = start()
        copy.register(1)
        copy.register(2, dp_size=2)
        for (worker_id, rank), events in by_target.items():
            published(copy, worker_id, rank, events)
        copies.append(copy)
    compared = 0
    for i in range(1000):
        prompt = prompt_of(tree, source.randrange(len(tree)))
        prefix = prompt[:source.randint(1, len(prompt))] + [source.randrange(50_000) for _ in range(source.randrange(9))]
        expected = overlaps(original, prefix)
        compared += len(expected)
        for name, copy in zip(('gRPC', 'HTTP'), copies):
            assert overlaps(copy, prefix) == expected, f'seed {seed}, prefix {i}, the copy by {name}'
    assert compared > 500, f'seed {seed}: {compared} overlaps are too few to mean anything'
