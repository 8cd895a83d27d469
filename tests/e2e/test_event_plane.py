"""Dynamo workers feed the router unchanged: their messages, by Python's msgpack, over the real nats-server and ZMQ."""
import contextlib
import socket
import subprocess

import grpc
import pytest
import zmq
from conftest import DEADLINE_S, wait_for
from dynamo_worker import TOKENS, NatsClient, ReplaySocket, ZmqPublisher, envelope, removed, stored
from kvrouter.v1 import workers_pb2
from publisher import Publisher

SUBJECT = 'namespace.dynamo.component.backend.endpoint.generate.'


def free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


@pytest.fixture
def nats(tmp_path):
    """nats(port, extra_configuration) -> a running server."""
    running = []

    def call(port, extra=''):
        config = tmp_path / f'nats-{len(running)}.conf'
        config.write_text(f'listen: "127.0.0.1:{port}"\n{extra}\n')
        log = (tmp_path / f'nats-{len(running)}.log').open('w')
        process = subprocess.Popen(['/usr/sbin/nats-server', '-c', str(config)], stdout=log, stderr=log)
        running.append(process)

        def answers():
            with contextlib.suppress(OSError), contextlib.closing(socket.create_connection(('127.0.0.1', port), timeout=1)):
                return True

        wait_for('nats-server', answers)
        return process

    yield call
    for process in running:
        process.kill()
        process.wait()


def degraded_reasons(daemon, worker_id):
    return [labels['reason'] for name, labels, value in daemon.metrics().series
            if name == 'kvrouter_feed_degraded' and value == 1 and labels['worker_id'] == str(worker_id)]


def state_in(scrape, worker_id):
    states = [labels['state'] for name, labels, value in scrape.series
              if name == 'kvrouter_feed_state' and value == 1 and labels['worker_id'] == str(worker_id)]
    return states[0] if states else None


def feed_state(daemon, worker_id):
    return state_in(daemon.metrics(), worker_id)


def test_a_worker_that_reports_too_many_used_blocks_gets_no_requests(start, nats):
    port = free_port()
    nats(port)
    daemon = start('--event-plane', 'nats', '--active-decode-blocks-threshold', '0.9', env={'NATS_SERVER': f'nats://127.0.0.1:{port}'})
    daemon.register(4096, total_kv_blocks=300)
    client = NatsClient(port)

    def report(used_blocks):
        def known():  # told again and again: nobody may be listening yet
            client.publish(SUBJECT + 'kv_metrics', envelope(
                {'worker_id': 4096, 'dp_rank': 0, 'active_decode_blocks': used_blocks, 'active_prefill_tokens': None,
                 'kv_used_blocks': used_blocks}, 'kv_metrics'))
            return daemon.metrics().all('kvrouter_worker_reported_kv_used_blocks') == [used_blocks]

        wait_for('the load report', known)

    def outcome():
        try:
            daemon.route(TOKENS, advise_only=True)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    report(271)
    wait_for('overload', lambda: outcome() == grpc.StatusCode.RESOURCE_EXHAUSTED)
    report(270)
    wait_for('relief', lambda: outcome() == grpc.StatusCode.OK)


def test_dynamo_workers_over_nats_are_known_and_a_broker_that_comes_late_or_goes_stops_nothing(start, nats):
    port = free_port()
    daemon = start('--event-plane', 'nats', '--nats-reconnect-max-ms', '100', '--ready-bound-ms', '100',
                   env={'NATS_SERVER': f'nats://127.0.0.1:{port}', 'NATS_AUTH_USERNAME': 'u', 'NATS_AUTH_PASSWORD': 'p'})
    daemon.register(4096)
    wait_for('ready without a broker', lambda: daemon.get('/ready')[0] == 200)
    wait_for('the broker missed', lambda: feed_state(daemon, 4096) == 'connecting')
    assert daemon.route(TOKENS, request_id='by-load').target.worker_id == 4096

    server = nats(port, 'authorization { user: u, password: p }')
    client = NatsClient(port, user='u', **{'pass': 'p'})

    def told():
        client.publish(SUBJECT + 'kv-events', envelope([stored(4096, 0)]))
        return feed_state(daemon, 4096) == 'live'

    wait_for('the first event', told)  # told again and again: it counts once
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='4096') == 2
    assert daemon.route(TOKENS, request_id='by-overlap').overlap_blocks == 2
    client.publish(SUBJECT + 'kv_metrics', envelope({'worker_id': 4096, 'dp_rank': 0, 'active_decode_blocks': 310,
                                                     'active_prefill_tokens': None, 'kv_used_blocks': 298}, 'kv_metrics'))
    wait_for('the load report', lambda: daemon.metrics().all('kvrouter_worker_reported_kv_used_blocks') == [298])
    assert daemon.metrics().all('kvrouter_worker_reported_active_prefill_tokens') == []
    assert daemon.metrics().one('kvrouter_worker_report_age_seconds') < DEADLINE_S

    server.kill()
    server.wait()
    client.close()
    wait_for('the loss', lambda: feed_state(daemon, 4096) == 'connecting')
    feeds = daemon.workers.List(workers_pb2.ListRequest(), timeout=DEADLINE_S).workers[0].feeds
    assert f'127.0.0.1:{port}' in feeds[0].detail
    assert 'p@' not in feeds[0].detail
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='4096') == 2  # nothing is known to be lost
    nats(port, 'authorization { user: u, password: p }')
    wait_for('doubt', lambda: degraded_reasons(daemon, 4096) == ['in_doubt'])
    client = NatsClient(port, user='u', **{'pass': 'p'})
    client.publish(SUBJECT + 'kv-events', envelope([removed(4096, 1, [901])], sequence=1))
    wait_for('the doubt settled', lambda: feed_state(daemon, 4096) == 'live')
    assert degraded_reasons(daemon, 4096) == []
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='4096') == 1
    client.publish(SUBJECT + 'kv-events', envelope([stored(4096, 5, blocks=[{'block_hash': 1, 'tokens_hash': 2}])], sequence=9))
    wait_for('the gap', lambda: degraded_reasons(daemon, 4096) == ['events_lost'])
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='4096') == 1
    assert daemon.metrics().one('kvrouter_feed_gaps_total') == 1
    client.close()
    assert daemon.stop() == 0


def test_dynamo_workers_over_zmq_are_known(start):
    context = zmq.Context()
    publisher = ZmqPublisher(context)
    daemon = start(config=f'event_plane: zmq\nevent_plane_publishers: "{publisher.endpoint}"\n'
                          'workers:\n  - {worker_id: 7, address: "http://w:1", block_size: 4}\n')
    publisher.wait_for_subscriber()
    publisher.publish(envelope([stored(7, 0)]))
    wait_for('live', lambda: feed_state(daemon, 7) == 'live')
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='7') == 2
    assert daemon.stop() == 0
    context.destroy(0)


def index_blocks(daemon, worker_id):
    return daemon.metrics().one('kvrouter_worker_index_blocks', worker_id=str(worker_id))


def test_what_the_event_plane_lost_comes_from_the_engines_replay(start, nats):
    port = free_port()
    context = zmq.Context()
    engine = ReplaySocket(context)
    engine.remember(['BlockStored', [900, 901], None, TOKENS, 4, None, 'GPU'])
    nats(port)
    client = NatsClient(port)
    daemon = start('--event-plane', 'nats', '--nats-server', f'nats://127.0.0.1:{port}', '--event-plane-doubt-ms', '100')
    daemon.register(4096, events={0: workers_pb2.EventEndpoints(replay=engine.endpoint)})
    # The engine was warm before the router was there, and has said nothing since.
    wait_for('what was said before', lambda: feed_state(daemon, 4096) == 'live' and index_blocks(daemon, 4096) == 2)
    assert daemon.route(TOKENS, request_id='warm').overlap_blocks == 2
    client.publish(SUBJECT + 'kv-events', envelope([removed(4096, 17, [])]))
    engine.remember(['BlockRemoved', [901], 'GPU'])  # 18 is lost
    engine.remember(['BlockStored', [7], None, [9, 9, 9, 9], 4, None, 'GPU'])
    client.publish(SUBJECT + 'kv-events', envelope([stored(4096, 19, blocks=[{'block_hash': 7, 'tokens_hash': 5}])], sequence=2))

    def repaired():  # in one scrape: it was live before the gap, too
        scrape = daemon.metrics()
        return scrape.one('kvrouter_feed_gaps_total') == 1 and state_in(scrape, 4096) == 'live'

    wait_for('repair', repaired)
    assert daemon.route(TOKENS, request_id='repaired').overlap_blocks == 1
    assert engine.requests == 2
    client.close()
    assert daemon.stop() == 0
    engine.close()
    context.destroy(0)


def test_ready_waits_for_what_the_engines_of_the_event_plane_can_tell(start, nats):
    port = free_port()
    nats(port)
    context = zmq.Context()
    engine = ReplaySocket(context)
    engine.remember(['BlockStored', [900, 901], None, TOKENS, 4, None, 'GPU'])
    daemon = start('--event-plane', 'nats', '--nats-server', f'nats://127.0.0.1:{port}', '--ready-bound-ms', '3600000')
    daemon.register(4096, events={0: workers_pb2.EventEndpoints(replay=engine.endpoint)})
    assert daemon.get('/ready')[0] == 503
    wait_for('ready', lambda: daemon.get('/ready')[0] == 200)
    assert index_blocks(daemon, 4096) == 2  # it has never said a word on the plane
    assert daemon.stop() == 0
    engine.close()
    context.destroy(0)


def test_what_the_event_plane_lost_comes_from_a_peer_where_the_engine_cannot_tell(start, nats):
    ports = [free_port(), free_port()]
    servers = [nats(port) for port in ports]
    clients = [NatsClient(port) for port in ports]

    def router(port, *more):
        daemon = start('--event-plane', 'nats', '--nats-server', f'nats://127.0.0.1:{port}', '--nats-reconnect-max-ms', '100', *more)
        daemon.register(4096)
        return daemon

    def publish(event, to):
        for client in to:
            client.publish(SUBJECT + 'kv-events', envelope([event], sequence=event['event']['event_id']))

    def told(who, client):
        publish(stored(4096, 0), [client])
        return feed_state(who, 4096) == 'live'

    peer = router(ports[0])
    wait_for('the first event', lambda: told(peer, clients[0]))
    daemon = router(ports[1], '--indexer-peers', peer.http_address)
    wait_for('what was said before', lambda: index_blocks(daemon, 4096) == 2 and feed_state(daemon, 4096) == 'degraded')
    wait_for('its first event', lambda: told(daemon, clients[1]))  # now all is known at first hand
    servers[1].kill()
    servers[1].wait()
    clients[1].close()
    wait_for('the loss', lambda: feed_state(daemon, 4096) == 'connecting')
    publish(removed(4096, 1, [901]), clients[:1])  # ours never hears of these two
    publish(stored(4096, 2, blocks=[{'block_hash': 7, 'tokens_hash': 5}, {'block_hash': 8, 'tokens_hash': 6}]), clients[:1])
    nats(ports[1])
    wait_for('doubt', lambda: feed_state(daemon, 4096) == 'degraded')
    assert index_blocks(daemon, 4096) == 2  # a doubt is not exchanged for what a peer says
    clients[1] = NatsClient(ports[1])
    publish(stored(4096, 3, blocks=[{'block_hash': 9, 'tokens_hash': 77}]), clients)
    wait_for('the loss shows', lambda: daemon.metrics().one('kvrouter_feed_gaps_total') == 1)
    wait_for('repair', lambda: index_blocks(daemon, 4096) == 4)
    assert index_blocks(peer, 4096) == 4
    assert daemon.route(TOKENS, request_id='repaired').overlap_blocks == 1

    def detail():
        return daemon.workers.List(workers_pb2.ListRequest(), timeout=DEADLINE_S).workers[0].feeds[0].detail

    wait_for('whose word it is', lambda: peer.http_address in detail() and 'not proved' in detail())
    wait_for('no proof', lambda: degraded_reasons(daemon, 4096) == ['unproved'])
    assert daemon.metrics().one('kvrouter_peer_ranks_total', outcome='taken') == 2
    assert daemon.metrics().one('kvrouter_peer_blocks_total') >= 2 + 3
    publish(removed(4096, 4, [7]), clients)
    for who in (peer, daemon):
        wait_for('the next event', lambda who=who: index_blocks(who, 4096) == 3)
    assert feed_state(daemon, 4096) == 'degraded'
    for client in clients:
        client.close()
    assert daemon.stop() == 0
    assert peer.stop() == 0


def test_a_replay_endpoint_alone_is_refused_without_an_event_plane(start):
    daemon = start()
    with pytest.raises(grpc.RpcError) as refused:
        daemon.register(1, events={0: workers_pb2.EventEndpoints(replay='tcp://127.0.0.1:1')})
    assert 'only an event plane' in refused.value.details()


def test_a_rank_that_is_published_over_grpc_is_not_fed_twice(start, nats):
    port = free_port()
    nats(port)
    client = NatsClient(port)
    daemon = start('--event-plane', 'nats', '--nats-server', f'nats://127.0.0.1:{port}')
    daemon.register(4096)

    def known():
        client.publish(SUBJECT + 'kv-events', envelope([stored(4096, 0)]))
        return index_blocks(daemon, 4096) == 2

    wait_for('the plane', known)
    publisher = Publisher(daemon, 4096)
    publisher.wait('live', lambda a: a.state == 'live')
    assert index_blocks(daemon, 4096) == 0
    client.publish(SUBJECT + 'kv-events', envelope([stored(4096, 1, blocks=[{'block_hash': 1, 'tokens_hash': 2}])], sequence=1))
    wait_for('the plane passed over', lambda: daemon.metrics().one('kvrouter_feed_skipped_total', reason='other_source') >= 1)
    assert index_blocks(daemon, 4096) == 0
    publisher.close()
    client.close()
    assert daemon.stop() == 0


@pytest.mark.parametrize('arguments, said', [
    (['--event-plane', 'zmq'], 'zmq_broker_url'),
    (['--event-plane', 'kafka'], 'none, nats or zmq'),
    (['--event-plane', 'zmq', '--zmq-broker-url', 'tcp://a:1'], 'xpub='),
    (['--event-plane', 'zmq', '--zmq-broker-url', 'xsub=tcp://a:1,xpub=a'], "'a'"),
    (['--event-plane', 'nats', '--nats-auth-nkey', 'hush-hush'], 'nats_auth_nkey'),
    (['--event-plane', 'nats', '--nats-tls-ca-cert-path', '/nowhere'], 'nats_tls_ca_cert_path'),
    (['--event-plane', 'nats', '--event-plane-endpoint', 'generate'], 'event_plane_component'),
])
def test_settings_that_cannot_work_are_refused(run, arguments, said):
    ended = run('--check-config', *arguments)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert 'hush-hush' not in ended.stderr


def test_secrets_are_not_printed(run):
    ended = run('--print-effective-config', '--nats-auth-password', 'hush-hush', '--nats-auth-username', 'u')
    assert ended.returncode == 0
    assert 'hush-hush' not in ended.stdout
    assert 'nats_auth_password: "***"' in ended.stdout
