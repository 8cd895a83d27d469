"""Blocks that only another router knows: taken over from its /dump, ours or Dynamo's form, and called what they are."""
import http.server
import json
import socket
import threading
import time

import pytest
from test_snapshot import Engine, overlap, state_of, wait_for_state
from conftest import wait_for


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.close()


def config_of(engine, replay=False):
    return (f'workers:\n  - worker_id: 1\n    address: "http://127.0.0.1:1"\n    block_size: 4\n'
            f'    kv_events_endpoint: {engine.addresses["live"]}\n'
            + (f'    replay_endpoint: {engine.addresses["replay"]}\n' if replay else ''))


class StubPeer:
    """A router that says of itself what a test wants."""

    def __init__(self, body, delay_s=0.0):
        outer = self
        self.asked = 0
        self.release = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                if delay_s:
                    outer.release.wait(delay_s)
                data = body.encode()
                self.send_response(200)
                self.send_header('Content-Length', str(len(data)))
                self.end_headers()
                try:
                    self.wfile.write(data)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.address = f'127.0.0.1:{self.server.server_address[1]}'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def stub_peer():
    peers = []

    def make(body, **more):
        peers.append(StubPeer(body, **more))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


def event(blocks, parent=None, worker=1, **fields):
    inner = {'event_id': 0, 'data': {'stored': {'parent_hash': parent, 'start_position': None,
                                                'blocks': [{'block_hash': h, 'tokens_hash': t, 'mm_extra_info': None} for h, t in blocks]}},
             'dp_rank': 0}
    return {'worker_id': worker, 'storage_tier': 'device', 'residency_domain': 'worker', 'event': inner, **fields}


def known_blocks(daemon):
    """(engine hash, content hash) pairs of worker 1, in order, from a router's own dump."""
    tree = json.loads(daemon.get('/dump')[1])['default:default']
    return [(b['block_hash'], b['tokens_hash']) for e in tree['events'] for b in e['event']['data']['stored']['blocks']]


def warm_router(start, engine):
    """One that has heard the engine from its first event on."""
    daemon = start(config=config_of(engine, replay=True))
    engine('chain', first=100, count=600)
    engine('publish', events=[])  # a gap, which the replay fills
    wait_for('600 blocks', lambda: overlap(daemon, 600) == 600)
    return daemon


def test_a_rank_without_replay_learns_its_blocks_from_a_peer(start, engine):
    warm = warm_router(start, engine)
    cold = start('--indexer-peers', f'http://{warm.http_address}', config=config_of(engine))
    wait_for('600 blocks', lambda: overlap(cold, 600) == 600)
    wait_for_state(cold, 'degraded')
    wait_for('said', lambda: 'not proved by the engine' in cold.log.read_text())
    metrics = cold.metrics()
    assert metrics.one('kvrouter_peer_dumps_total', result='ok') >= 1
    assert metrics.one('kvrouter_peer_ranks_total', outcome='taken') == 1
    assert metrics.one('kvrouter_peer_blocks_total') == 600
    # What the engine says from now on counts.
    engine('publish', events=[{'remove': [400]}])
    wait_for('a hole', lambda: overlap(cold, 600) == 300)
    assert cold.get('/ready')[0] == 200


def test_what_the_engine_forgot_is_filled_from_a_peer(start, engine):
    warm = warm_router(start, engine)
    engine('forget_before', sequence=engine('status')['sequence'] - 1)
    cold = start('--indexer-peers', warm.http_address, config=config_of(engine, replay=True))
    wait_for('600 blocks', lambda: overlap(cold, 600) == 600)
    assert state_of(cold) == {'degraded'}


def test_a_rank_whose_engine_tells_all_is_not_asked_about(start, engine, stub_peer):
    peer = stub_peer('{}')
    engine('chain', first=100, count=50)
    daemon = start('--indexer-peers', peer.address, config=config_of(engine, replay=True))
    wait_for_state(daemon, 'live')
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
    assert overlap(daemon, 50) == 50
    assert peer.asked == 0


def test_a_worker_that_begins_after_the_peers_picture_does_not_keep_it(start, engine):
    warm = warm_router(start, engine)
    cold = start('--indexer-peers', warm.http_address, config=config_of(engine))
    wait_for('600 blocks', lambda: overlap(cold, 600) == 600)
    engine('new_life')  # the publisher counts from 0 again on the same sockets
    engine('publish', events=[{'store': [1], 'tokens': [1, 2, 3, 4], 'block_size': 4}])
    wait_for('one block', lambda: cold.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 1)
    assert overlap(cold, 600) == 0


@pytest.mark.parametrize('form', ['object', 'lines'])
def test_both_forms_of_dynamos_dump_are_read(start, engine, stub_peer, form):
    warm = warm_router(start, engine)
    blocks = known_blocks(warm)
    assert len(blocks) == 600
    events = [event(blocks[:256]), event(blocks[256:], parent=blocks[255][0]),
              event([(7, 7)], worker=2), event([(8, 8)], residency_domain='cache_owner'), event([(9, 9)], storage_tier='tape')]
    if form == 'object':
        body = json.dumps({'other:default': {'error': 'tree failed'}, 'default:default': {'block_size': 4, 'events': events}})
    else:
        body = ''.join(json.dumps({'key': 'default:default', 'block_size': 4, 'event': e}) + '\n' for e in events)
    peer = stub_peer(body)
    cold = start('--indexer-peers', peer.address, config=config_of(engine))
    wait_for('600 blocks', lambda: overlap(cold, 600) == 600)
    assert cold.metrics().one('kvrouter_peer_blocks_total') == 600


@pytest.mark.parametrize('body, result', [('no json at all', 'malformed'), ('{"default:default": {"block_size": 4, "events": [{', 'malformed'),
                                          ('{"default:default":{"block_size":16,"events":[]}}', 'ok')])
def test_a_peer_that_is_of_no_use_delays_nothing(start, engine, stub_peer, body, result):
    peer = stub_peer(body)
    daemon = start('--indexer-peers', peer.address, config=config_of(engine))
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
    assert daemon.metrics().one('kvrouter_peer_dumps_total', result=result) == 1
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 0


def test_a_slow_peer_is_given_up_and_the_next_one_asked(start, engine, stub_peer):
    warm = warm_router(start, engine)
    slow = stub_peer('{}', delay_s=60)
    dead = socket.create_server(('127.0.0.1', 0))
    dead_address = '127.0.0.1:%d' % dead.getsockname()[1]
    dead.close()
    cold = start('--indexer-peers', f'{dead_address},{warm.http_address},{slow.address}', config=config_of(engine))
    wait_for('600 blocks', lambda: overlap(cold, 600) == 600)
    bounded = start('--indexer-peers', slow.address, '--peer-timeout-ms=300', config=config_of(engine))
    wait_for('ready', lambda: bounded.get('/ready')[0] == 200)
    assert bounded.metrics().one('kvrouter_peer_ranks_total', outcome='unanswered') == 1
    stuck = start('--indexer-peers', slow.address, '--peer-timeout-ms=60000', '--ready-bound-ms=100', config=config_of(engine))
    wait_for('asked', lambda: slow.asked >= 2)
    wait_for('ready by its bound', lambda: stuck.get('/ready')[0] == 200)
    begin = time.monotonic()
    assert stuck.stop() == 0
    assert time.monotonic() - begin < 5.0


def test_a_peer_that_is_no_address_is_refused_at_start(run):
    failed = run('--indexer-peers', 'https://elsewhere', '--check-config')
    assert failed.returncode == 1
    assert len(failed.stderr.splitlines()) == 1 and 'indexer_peers' in failed.stderr
