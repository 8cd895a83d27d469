"""--discovery-backend=kubernetes against a fake API server, over real sockets."""
import json
import os
import subprocess
import time

import pytest
from conftest import DEADLINE_S, wait_for
from fake_kubernetes import NAMESPACE, PODS, SLICES, FakeKubernetes, endpoint, pod, slice_of
from kubernetes_fleet import IDS, addresses, cluster, discover, drains, fleet, is_current, listed, put_fleet, updates, wait_for_addresses  # noqa: F401
from prober import Prober

TOKENS = list(range(64))


def test_pods_named_by_a_slice_become_workers(cluster, discover):
    annotations = {'kvrouter.io/block-size': '16', 'kvrouter.io/role': 'decode', 'kvrouter.io/dp-size': '2', 'kvrouter.io/model': 'm',
                   'kvrouter.io/routing-group': 'g', 'kvrouter.io/events-port': '5557', 'kvrouter.io/replay-port': '5600'}
    full = pod('vllm-0', '127.0.0.2', annotations=annotations, ports=[{'name': 'http', 'containerPort': 9000}])
    put_fleet(cluster, [full, pod('vllm-1', '10.0.0.1')])
    cluster.put(pod('outside', '10.0.0.7'))  # no slice names it
    daemon = discover(cluster)
    wait_for('two workers', lambda: len(listed(daemon)) == 2)
    worker = listed(daemon)['http://127.0.0.2:9000']
    assert worker['worker_id'] == IDS['vllm-0'] and listed(daemon)['http://10.0.0.1:8000']['worker_id'] == IDS['vllm-1']
    assert (worker['block_size'], worker['data_parallel_size'], worker['role'], worker['model_name']) == (16, 2, 'decode', 'm')
    assert worker['kv_events_endpoints'] == {'0': 'tcp://127.0.0.2:5557', '1': 'tcp://127.0.0.2:5558'}
    assert worker['replay_endpoints'] == {'0': 'tcp://127.0.0.2:5600', '1': 'tcp://127.0.0.2:5601'}
    wait_for('current', lambda: is_current(daemon))


def test_what_changes_during_a_relist_is_not_missed(cluster, discover):
    put_fleet(cluster, fleet(2))
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    cluster.fault(PODS, 'list', 503)
    cluster.expire()
    put_fleet(cluster, [pod('vllm-5', '10.0.0.5')])
    cluster.delete(PODS, 'vllm-0')
    wait_for_addresses(daemon, '10.0.0.5')


def test_pod_in_two_slices_stays_until_the_last_one_lets_go(cluster, discover):
    pods = fleet(2)
    put_fleet(cluster, pods)
    put_fleet(cluster, pods, name='vllm-b')
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    cluster.put(slice_of('vllm-a'))
    version = cluster.put(slice_of('vllm-b', endpoint(pods[0], ready=False), endpoint(pods[1])))
    cluster.wait_written(version)
    wait_for('vllm-0 drains', lambda: drains(daemon, '10.0.0.0'))
    assert addresses(daemon) == ['10.0.0.0', '10.0.0.1']
    cluster.delete(SLICES, 'vllm-b')
    wait_for_addresses(daemon)


def test_not_ready_drains_and_ready_lets_in_again(cluster, discover):
    pods = fleet(2)
    put_fleet(cluster, pods)
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    life = listed(daemon)['http://10.0.0.0:8000']['incarnation']
    cluster.put(pod('vllm-0', '10.0.0.0', ready=False))
    wait_for('draining', lambda: drains(daemon, '10.0.0.0'))
    assert {daemon.route(TOKENS, advise_only=True).address for _ in range(20)} == {'http://10.0.0.1:8000'}
    cluster.put(pods[0])
    wait_for('back', lambda: not drains(daemon, '10.0.0.0'))
    assert listed(daemon)['http://10.0.0.0:8000']['incarnation'] == life, 'its cache was never lost'


def test_terminating_pod_drains_until_it_is_gone(cluster, discover):
    put_fleet(cluster, fleet(2))
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    daemon.route(TOKENS, 'booked')
    for i in range(2):
        cluster.put(pod(f'vllm-{i}', f'10.0.0.{i}', deleted=True))
    wait_for('both drain', lambda: all(w['lifecycle'] == 'draining' for w in listed(daemon).values()))
    assert daemon.free('booked'), 'bookings outlive a drain'
    cluster.delete(PODS, 'vllm-0')
    wait_for_addresses(daemon, '10.0.0.1')


def test_pod_replaced_under_its_name_is_another_life_at_another_address(cluster, discover):
    pods = fleet(2)
    put_fleet(cluster, pods)
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    life = listed(daemon)['http://10.0.0.0:8000']['incarnation']
    cluster.delete(PODS, 'vllm-0')
    successor = pod('vllm-0', '10.0.0.9', uid='another')
    cluster.put(successor)  # the slice still names the uid of before
    time.sleep(0.1)
    assert addresses(daemon) == ['10.0.0.1']
    put_fleet(cluster, [successor, pods[1]])
    wait_for_addresses(daemon, '10.0.0.9', '10.0.0.1')
    worker = listed(daemon)['http://10.0.0.9:8000']
    assert worker['worker_id'] == IDS['vllm-0'] and worker['incarnation'] > life


def test_pod_replaced_under_its_address_is_another_worker(cluster, discover):
    put_fleet(cluster, [pod('vllm-0', '10.0.0.5')])
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.5')
    cluster.put(pod('vllm-0', '10.0.0.5', phase='Failed'))  # a finished pod still shows the address that another has by now
    put_fleet(cluster, [pod('vllm-1', '10.0.0.5')])
    wait_for('the other worker', lambda: [w['worker_id'] for w in json.loads(daemon.get('/workers')[1])] == [IDS['vllm-1']])


def test_container_restart_is_a_new_life(cluster, discover):
    put_fleet(cluster, fleet(1))
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0')
    life = listed(daemon)['http://10.0.0.0:8000']['incarnation']
    cluster.put(pod('vllm-0', '10.0.0.0', restarts=1))
    wait_for('new life', lambda: listed(daemon)['http://10.0.0.0:8000']['incarnation'] > life)


@pytest.mark.parametrize('fault, outcome', [(500, 'status'), (403, 'status'), (429, 'status'), ('garbage', 'malformed'), ('no items', 'malformed'),
                                            ('truncate', 'connection'), ('reset', 'connection'), ('stall', 'timeout'), ('hang', 'timeout')])
def test_lists_that_fail_are_asked_for_again(cluster, discover, fault, outcome):
    put_fleet(cluster, fleet(2))
    cluster.fault(PODS, 'list', fault)
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    wait_for('current', lambda: is_current(daemon))
    assert updates(daemon, outcome) >= 1
    wait_for('log line', lambda: 'event=kubernetes_kept_old_set' in daemon.log.read_text())


@pytest.mark.parametrize('fault, outcome', [(500, 'status'), (410, 'expired'), ('garbage', 'malformed'), ('cut within an event', None),
                                            ('end at once', None), ('reset', 'connection'), ('hang', 'timeout')])
def test_watches_that_fail_keep_the_set_and_miss_nothing(cluster, discover, fault, outcome):
    put_fleet(cluster, fleet(2))
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    before = cluster.seen(SLICES, 'watch')
    cluster.fault(SLICES, 'watch', fault, times=3)
    with Prober(daemon) as prober:
        wait_for('first watch', lambda: cluster.seen(SLICES, 'watch') >= max(before, 1))
        cluster.drop_watches()
        wait_for('three more watches', lambda: cluster.seen(SLICES, 'watch') >= before + 3)
        assert addresses(daemon) == ['10.0.0.0', '10.0.0.1']
        put_fleet(cluster, [pod('vllm-4', '10.0.0.4')])
        wait_for_addresses(daemon, '10.0.0.4')
    assert prober.failures() == []
    wait_for('current', lambda: is_current(daemon))
    if outcome:
        assert updates(daemon, outcome) >= 1


def test_answers_may_be_cut_anywhere(cluster, discover):
    cluster.chunk_bytes = 7
    put_fleet(cluster, [pod('vllm-0', '10.0.0.0', annotations={'other.io/text': 'br{ace "quo\\te ünïcode ]'})])
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0')
    put_fleet(cluster, fleet(3))
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1', '10.0.0.2')
    assert updates(daemon, 'malformed') == 0


def test_slow_answers_are_waited_for_within_the_time_limit(cluster, discover):
    put_fleet(cluster, fleet(1))
    cluster.chunk_bytes, cluster.chunk_pause_s = 64, 0.005
    daemon = discover(cluster, '--kubernetes-request-timeout-ms=20000')
    wait_for_addresses(daemon, '10.0.0.0')
    assert updates(daemon, 'timeout') == 0


def test_long_lists_come_in_pages(cluster, discover):
    cluster.page_objects = 2
    put_fleet(cluster, fleet(7))
    daemon = discover(cluster)
    wait_for_addresses(daemon, *(f'10.0.0.{i}' for i in range(7)))
    assert cluster.seen(PODS, 'list') == 4


def test_watch_is_resumed_from_the_last_bookmark(cluster, discover):
    cluster.bookmark_every_s = 0.05
    put_fleet(cluster, fleet(1))
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0')
    for _ in range(5):  # versions that the watch of pods does not see
        latest = cluster.put(slice_of('other'))
    lists = cluster.seen(PODS, 'list')
    time.sleep(0.2)
    cluster.drop_watches()

    def resumed():
        with cluster.lock:
            return [q for p, q, _ in cluster.requests if p == PODS and 'watch' in q and int(q['resourceVersion']) >= latest]

    wait_for('a watch from the bookmark', resumed)
    assert cluster.seen(PODS, 'list') == lists
    assert all(q['allowWatchBookmarks'] for q in resumed())


def test_api_server_away_leaves_the_set_in_force(cluster, discover):
    put_fleet(cluster, fleet(2))
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    wait_for('current', lambda: is_current(daemon))
    cluster.fault(PODS, 'watch', 'reset', times=1000)
    cluster.drop_watches()
    wait_for('not current', lambda: not is_current(daemon))
    assert addresses(daemon) == ['10.0.0.0', '10.0.0.1']
    assert daemon.get('/ready')[0] == 200
    with cluster.lock:
        cluster.faults[PODS, 'watch'].clear()
    wait_for('current again', lambda: is_current(daemon))


def test_pods_alone_decide_where_no_slices_are_wanted(cluster, discover):
    cluster.put(pod('vllm-0', '10.0.0.0'), pod('vllm-1', '10.0.0.1', ready=False))
    daemon = discover(cluster, '--kubernetes-slice-selector=')
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    assert drains(daemon, '10.0.0.1')
    assert cluster.seen(SLICES, 'list') == 0


def test_annotation_that_becomes_wrong_keeps_the_last_good_record(cluster, discover):
    put_fleet(cluster, fleet(1))
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.0')
    wrong = pod('vllm-1', '10.0.0.1', annotations={'kvrouter.io/block-size': 'sixteen'})
    put_fleet(cluster, [pod('vllm-0', '10.0.0.0', annotations={'kvrouter.io/role': 'decoder'}), wrong])
    wait_for('counted', lambda: updates(daemon, 'invalid') == 2)
    assert addresses(daemon) == ['10.0.0.0']
    wait_for('log line', lambda: "kvrouter.io/role: bad value 'decoder'" in daemon.log.read_text())
    assert "pod=vllm-1 detail=\"kvrouter.io/block-size: bad value 'sixteen'" in daemon.log.read_text()


def test_block_size_of_the_setting_serves_pods_that_say_none(cluster, discover):
    plain = pod('vllm-0', '10.0.0.0')
    del plain['metadata']['annotations']['kvrouter.io/block-size']
    put_fleet(cluster, [plain])
    daemon = discover(cluster, '--kv-cache-block-size=32')
    wait_for_addresses(daemon, '10.0.0.0')
    assert listed(daemon)['http://10.0.0.0:8000']['block_size'] == 32


def openssl(*arguments, cwd):
    subprocess.run(['openssl', *arguments], cwd=cwd, check=True, capture_output=True)


def make_certificate(directory, name, host):
    openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', f'/CN={name}', '-addext', f'subjectAltName={host}',
            '-keyout', f'{name}.key', '-out', f'{name}.crt', cwd=directory)
    return str(directory / f'{name}.crt'), str(directory / f'{name}.key')


@pytest.fixture
def tls_cluster(tmp_path):
    certificate, key = make_certificate(tmp_path, 'api', 'IP:127.0.0.1')
    server = FakeKubernetes(tls=(certificate, key), tokens=['first'])
    yield server, certificate
    server.stop()


def test_tls_with_the_clusters_ca_and_a_token_that_rotates(tls_cluster, discover, tmp_path):
    server, certificate = tls_cluster
    token = tmp_path / 'token'
    token.write_text('first\n')
    put_fleet(server, fleet(1))
    daemon = discover(server, f'--kubernetes-ca-file={certificate}', f'--kubernetes-token-file={token}')
    wait_for_addresses(daemon, '10.0.0.0')
    server.tokens = ['second']  # the kubelet has not written it yet
    server.drop_watches()
    wait_for('401 counted', lambda: updates(daemon, 'status') >= 1)
    token.write_text('second\n')
    put_fleet(server, fleet(2))
    wait_for_addresses(daemon, '10.0.0.0', '10.0.0.1')
    for secret in ('first', 'second'):
        assert f'Bearer {secret}' not in daemon.log.read_text()


@pytest.mark.parametrize('host', ['IP:127.0.0.1', 'DNS:elsewhere'])
def test_tls_server_that_cannot_prove_itself_gets_no_token(start, discover, tmp_path, host):
    """Signed by nobody we trust, or for another name."""
    certificate, key = make_certificate(tmp_path, 'api', host)
    other, _ = make_certificate(tmp_path, 'other', 'IP:127.0.0.1')
    (tmp_path / 'token').write_text('secret')
    server = FakeKubernetes(tls=(certificate, key))
    try:
        put_fleet(server, fleet(1))
        trusted = other if host.startswith('IP') else certificate
        daemon = discover(server, f'--kubernetes-ca-file={trusted}', f'--kubernetes-token-file={tmp_path / "token"}')
        wait_for('counted', lambda: updates(daemon, 'connection') >= 2)
        wait_for('log line', lambda: 'TLS handshake' in daemon.log.read_text())
        assert server.requests == [] and addresses(daemon) == []
    finally:
        server.stop()


def test_plain_http_never_carries_the_token(cluster, discover, tmp_path):
    (tmp_path / 'token').write_text('secret')
    put_fleet(cluster, fleet(1))
    daemon = discover(cluster, f'--kubernetes-token-file={tmp_path / "token"}')
    wait_for_addresses(daemon, '10.0.0.0')
    assert not any('Authorization' in headers for _, _, headers in cluster.requests)


def test_server_of_the_cluster_is_found_through_the_environment(cluster, start):
    put_fleet(cluster, fleet(1))
    daemon = start('--discovery-backend=kubernetes', env={'KUBERNETES_SERVICE_HOST': '127.0.0.1', 'KUBERNETES_SERVICE_PORT': str(cluster.port),
                                                          'POD_NAMESPACE': NAMESPACE})
    wait_for('TLS against a plain server fails', lambda: updates(daemon, 'connection') >= 1)


@pytest.mark.parametrize('arguments, line', [
    (['--discovery-backend=etcd'], "discovery_backend: bad value 'etcd' from flag --discovery-backend: want none, mem or kubernetes"),
    (['--discovery-backend=kubernetes'], 'discovery_backend is kubernetes, but kubernetes_api_server is empty and the process runs in no '
                                         'cluster (KUBERNETES_SERVICE_HOST is not set)'),
    (['--kubernetes-api-server=10.0.0.1'], "kubernetes_api_server: bad value '10.0.0.1' from flag --kubernetes-api-server: "
                                           'want http://HOST[:PORT] or https://HOST[:PORT], or empty'),
])
def test_settings_that_cannot_work_are_refused(run, arguments, line):
    finished = run(*arguments)
    assert (finished.returncode, finished.stderr) == (1, f'kvrouterd: {line}\n')


def test_daemon_stops_in_time_while_the_api_server_hangs(cluster, discover):
    cluster.fault(PODS, 'list', 'hang', times=10)
    daemon = discover(cluster, '--kubernetes-request-timeout-ms=60000')
    wait_for('asked', lambda: cluster.seen(PODS, 'list') >= 1)
    sanitized = bool(os.environ.get('KVR_SANITIZE'))
    assert daemon.stop(DEADLINE_S if sanitized else 5.0) == 0
