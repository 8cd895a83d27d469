"""deploy/kubernetes against itself, against what kvrouterd really serves, and against kubectl where there is one."""
import copy
import json
import os
import re
import shutil
import subprocess
import threading

import manifests
import pytest
import yaml
import zmq
from conftest import DEADLINE_S, ROOT, wait_for
from fake_kubernetes import NAMESPACE, FakeKubernetes
from manifests import Manifests

FOLDER = ROOT / 'deploy/kubernetes'
VARIANTS = ['base', 'sidecar']


@pytest.fixture(params=VARIANTS)
def variant(request):
    return Manifests(FOLDER / request.param)


def router_arguments(variant):
    """The container's arguments, with the mounted settings file as it is in the tree."""
    _, container = variant.router()
    path = manifests.argument_after(container, '--config')
    return [str(variant.settings_path()) if a == path else a for a in container['args']]


def effective_settings(variant, run):
    """Settings as the daemon in the pod understands them."""
    printed = run('--print-effective-config', *router_arguments(variant))
    assert printed.returncode == 0, printed.stderr
    return yaml.safe_load(printed.stdout)


@pytest.fixture
def effective(variant, run):
    return effective_settings(variant, run)


def test_every_variant_and_every_file_is_in_use():
    assert sorted(p.name for p in FOLDER.iterdir()) == VARIANTS
    for name in VARIANTS:
        variant = Manifests(FOLDER / name)
        used = {'kustomization.yaml', *variant.kustomization['resources'],
                *(name for files in variant.config_maps.values() for name in files)}
        assert {p.name for p in variant.folder.iterdir()} == used


def test_resources_fit_together(variant):
    assert manifests.problems(variant) == []


def first(variant, kind):
    return variant.of(kind)[0]


BREAKS = {
    'selector': lambda v: manifests.pod_labels(v.router()[0]).update({'app.kubernetes.io/name': 'other'}),
    'mount': lambda v: v.router()[1]['volumeMounts'][0].update(name='setings'),
    'config map': lambda v: manifests.pod(v.router()[0])['volumes'][0]['configMap'].update(name='other'),
    'probe port': lambda v: v.router()[1]['livenessProbe']['httpGet'].update(port='htp'),
    'probe port of a neighbour': lambda v: v.engines()[0][1]['readinessProbe']['httpGet'].update(port='grpc'),
    'same number twice': lambda v: v.router()[1]['ports'][0].update(containerPort=8093),
    'port name': lambda v: v.engines()[0][1]['ports'][1].update(name='kv-cache-event-socket'),
    'scrape port': lambda v: v.router()[0]['spec']['template']['metadata']['annotations'].update({'prometheus.io/port': '8094'}),
    'target port': lambda v: first(v, 'Service')['spec']['ports'][1].update(targetPort='gprc'),
    'target of another port': lambda v: first(v, 'Service')['spec']['ports'][1].update(targetPort='http'),
    'service selector': lambda v: first(v, 'Service')['spec']['selector'].update(x='y'),
    'policy selector': lambda v: first(v, 'NetworkPolicy')['spec']['podSelector']['matchLabels'].update(x='y'),
    'policy port': lambda v: first(v, 'NetworkPolicy')['spec']['ingress'][0]['ports'][0].update(port='web'),
    'policy peer': lambda v: first(v, 'NetworkPolicy')['spec']['ingress'][1]['from'][0]['podSelector']['matchLabels'].update(x='y'),
    'budget selector': lambda v: first(v, 'PodDisruptionBudget')['spec']['selector']['matchLabels'].update(x='y'),
    'role name': lambda v: first(v, 'RoleBinding')['roleRef'].update(name='other'),
    'account name': lambda v: first(v, 'RoleBinding')['subjects'][0].update(name='other'),
    'account of the pod': lambda v: manifests.pod(v.router()[0]).update(serviceAccountName='other'),
    'service name': lambda v: first(v, 'StatefulSet')['spec'].update(serviceName='engines'),
}


@pytest.mark.parametrize('what', BREAKS)
def test_the_check_sees_what_is_broken(what):
    base = Manifests(FOLDER / 'base')
    base.documents = copy.deepcopy(base.documents)
    BREAKS[what](base)
    assert manifests.problems(base)


def test_settings_pass_the_daemons_own_check(variant, run):
    checked = run('--check-config', *router_arguments(variant))
    assert (checked.returncode, checked.stderr) == (0, '')
    _, container = variant.router()
    known = run('--print-options-markdown').stdout
    for entry in container.get('env', []):  # the daemon ignores variables it does not know
        assert f'`{entry["name"]}`' in known
    settings = yaml.safe_load(variant.settings_path().read_text())
    for key in settings.keys() - {'workers'}:
        assert f'`{key}`' in known


def test_pod_opens_the_ports_that_the_daemon_listens_on(variant, effective):
    _, container = variant.router()
    ports = manifests.own_ports(container)
    assert (effective['http_listen'], effective['grpc_listen']) == (f'0.0.0.0:{ports["http"]}', f'0.0.0.0:{ports["grpc"]}')
    expected = {'http': 8092, 'grpc': 8093}
    if effective['dispatch']:
        assert effective['dispatch_listen'] == f'0.0.0.0:{ports["openai"]}'
        expected['openai'] = 8080
    assert ports == expected
    services = [p for s in variant.of('Service') for p in s['spec']['ports'] if p['name'] in ports and p['port'] in ports.values()]
    assert {p['name']: p.get('appProtocol') for p in services} == {
        name: 'kubernetes.io/h2c' if name == 'grpc' else 'http' for name in expected}


def test_listed_workers_are_the_engines_of_the_pod(run):
    variant = Manifests(FOLDER / 'sidecar')
    expected = []
    for workload, container in variant.engines():
        assert workload == variant.router()[0]
        http, live, replay, block_size = manifests.engine_ports(container)
        assert sorted(manifests.own_ports(container).values()) == sorted([http, live, replay])
        # Events over loopback, requests from outside through the Service.
        service, = [s['metadata']['name'] for s in variant.of('Service') if http in [p['port'] for p in s['spec']['ports']]]
        expected.append((f'http://{service}:{http}', block_size, f'tcp://127.0.0.1:{live}', f'tcp://127.0.0.1:{replay}'))
        assert container['resources']['limits']['nvidia.com/gpu'] >= 1
    workers = effective_settings(variant, run)['workers']
    assert [(w['address'], w['block_size'], w['kv_events_endpoints'][0], w['replay_endpoints'][0]) for w in workers] == expected
    assert len(expected) >= 2


@pytest.fixture
def cluster():
    server = FakeKubernetes()
    yield server
    server.stop()


def start_in_cluster(start, cluster, variant, *arguments):
    """The daemon with the settings that the manifests give it, beside an API server that shows what they start."""
    return start(f'--kubernetes-api-server={cluster.url}', *arguments, config=variant.settings_path().read_text(),
                 env={'POD_NAMESPACE': NAMESPACE})


def test_discovered_workers_are_the_engines_that_the_manifests_start(start, cluster):
    variant = Manifests(FOLDER / 'base')
    (workload, container), = variant.engines()
    http, live, replay, block_size = manifests.engine_ports(container)
    assert sorted(manifests.own_ports(container).values()) == sorted([http, live, replay])
    assert container['resources']['limits']['nvidia.com/gpu'] >= 1
    pods = manifests.pods_of(workload)
    service, = [s for s in variant.of('Service') if s['metadata']['name'] == workload['spec']['serviceName']]
    cluster.put(*pods, manifests.slice_of_service(service, pods))
    daemon = start_in_cluster(start, cluster, variant)
    workers = wait_for('workers', lambda: [w for w in [json.loads(daemon.get('/workers')[1])] if len(w) == len(pods)])[0]
    ips = [p['status']['podIP'] for p in pods]
    assert sorted((w['endpoint'], w['block_size'], w['kv_events_endpoints']['0'], w['replay_endpoints']['0']) for w in workers) == [
        (f'http://{ip}:{http}', block_size, f'tcp://{ip}:{live}', f'tcp://{ip}:{replay}') for ip in ips]
    assert len(pods) >= 2 and all(w['lifecycle'] == 'schedulable' for w in workers)


def test_role_grants_what_discovery_asks_for_and_no_more(start, cluster):
    variant = Manifests(FOLDER / 'base')
    role, = variant.of('Role')
    assert {(group, resource): sorted(rule['verbs']) for rule in role['rules'] for group in rule['apiGroups']
            for resource in rule['resources']} == {('', 'pods'): ['get', 'list', 'watch'],
                                                   ('discovery.k8s.io', 'endpointslices'): ['get', 'list', 'watch']}
    start_in_cluster(start, cluster, variant)
    wait_for('both watches', lambda: len({path for path, query, _ in list(cluster.requests) if 'watch' in query}) == 2)
    assert {path.split(f'/namespaces/{NAMESPACE}/')[1] for path, _, _ in cluster.requests} == {'pods', 'endpointslices'}


def test_router_runs_alone_and_unprivileged(variant, effective):
    workload, container = variant.router()
    assert (workload['spec']['replicas'], workload['spec']['strategy']) == (1, {'type': 'Recreate'})
    pod = manifests.pod(workload)
    security = {**pod['securityContext'], **container['securityContext']}
    assert security.pop('capabilities') == {'drop': ['ALL']}
    assert security == {'runAsNonRoot': True, 'runAsUser': 65532, 'runAsGroup': 65532, 'allowPrivilegeEscalation': False,
                        'readOnlyRootFilesystem': True, 'seccompProfile': {'type': 'RuntimeDefault'}}
    assert effective['addresses_file'] in ('', None)  # nothing is written
    # The API server is asked where discovery is on, and nowhere else.
    asks = effective['discovery_backend'] == 'kubernetes'
    assert pod['automountServiceAccountToken'] is asks and ('serviceAccountName' in pod) is asks
    assert all(a['automountServiceAccountToken'] is False for a in variant.of('ServiceAccount'))
    assert pod['enableServiceLinks'] is False
    assert not {'command', 'lifecycle'} & container.keys(), 'the image is used as it is, and has no shell to offer'
    streams_s = effective['dispatch_shutdown_grace_ms'] / 1000 if effective['dispatch'] else 0
    assert pod['terminationGracePeriodSeconds'] >= 10 + streams_s > effective['shutdown_grace_ms'] / 1000 + 2.5 + streams_s
    assert container['resources']['requests'].keys() == {'cpu', 'memory'} and 'memory' in container['resources']['limits']


class EmptyReplay:
    """A replay socket of an engine that has published nothing: every request gets the end marker."""

    def __init__(self, context):
        self.socket = context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind('tcp://127.0.0.1:*')
        self.endpoint = self.socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b'\0').decode()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while not self.stopped.is_set():
            if self.socket.poll(50):
                client, *_ = self.socket.recv_multipart()
                self.socket.send_multipart([client, b'', b'\xff' * 8, b''])
        self.socket.close()

    def stop(self):
        self.stopped.set()
        self.thread.join()


@pytest.fixture
def new_replay():
    context = zmq.Context()
    running = []

    def call():
        running.append(EmptyReplay(context))
        return running[-1]

    yield call
    for replay in running:
        replay.stop()
    context.term()


def start_with_engines(variant, start, cluster, engines, replays):
    """The daemon as the manifests configure it, but with the sockets of `engines`; (daemon, worker ids)"""
    settings = yaml.safe_load(variant.settings_path().read_text())
    if 'workers' in settings:
        for worker, engine, replay in zip(settings['workers'], engines, replays):
            worker.update(kv_events_endpoint=engine.endpoint, replay_endpoint=replay.endpoint)
        return start('--ready-bound-ms=600000', config=yaml.safe_dump(settings)), [w['worker_id'] for w in settings['workers']]
    (workload, _), = variant.engines()
    pods = manifests.pods_of(workload)
    for pod, engine, replay in zip(pods, engines, replays):
        pod['status']['podIP'] = '127.0.0.1'
        pod['metadata']['annotations'].update({'kvrouter.io/events-port': engine.endpoint.rsplit(':', 1)[1],
                                               'kvrouter.io/replay-port': replay.endpoint.rsplit(':', 1)[1]})
    service, = [s for s in variant.of('Service') if s['metadata']['name'] == workload['spec']['serviceName']]
    cluster.put(*pods, manifests.slice_of_service(service, pods))
    daemon = start_in_cluster(start, cluster, variant, '--ready-bound-ms=600000')
    listed = wait_for('workers', lambda: [w for w in [json.loads(daemon.get('/workers')[1])] if len(w) == len(pods)])[0]
    return daemon, [w['worker_id'] for w in listed]


def test_probes_and_scrape_answer_on_the_real_daemon(variant, start, cluster, new_engine, new_replay):
    workload, container = variant.router()
    probes = {kind: probe['httpGet'] for kind, probe in manifests.probes(container).items()}
    assert {kind: (p['path'], p['port']) for kind, p in probes.items()} == {
        'livenessProbe': ('/live', 'http'),
        'readinessProbe': ('/live' if len(manifests.containers(workload)) > 1 else '/ready', 'http')}

    engines, replays = [new_engine(), new_engine()], [new_replay(), new_replay()]
    daemon, worker_ids = start_with_engines(variant, start, cluster, engines, replays)
    for engine in engines:
        engine.wait_for_subscriber()
    for probe in probes.values():
        wait_for(probe['path'], lambda path=probe['path']: daemon.get(path)[0] == 200)
    annotations = workload['spec']['template']['metadata']['annotations']
    assert annotations['prometheus.io/scrape'] == 'true'
    assert annotations['prometheus.io/port'] == str(manifests.own_ports(container)['http'])
    status, text = daemon.get(annotations['prometheus.io/path'])
    assert status == 200 and len(worker_ids) == len(engines)
    for worker_id in worker_ids:
        assert re.search(rf'^dynamo_component_router_worker_registered\{{.*router_worker_id="{worker_id}".*\}} 1$', text, re.M)
    # As the doc's first look does it from inside the pod.
    listed = subprocess.run([os.environ['KVROUTERCTL'], '--grpc', daemon.grpc_address, 'workers'], capture_output=True, text=True,
                            timeout=DEADLINE_S)
    assert listed.returncode == 0, listed.stderr
    for worker in json.loads(daemon.get('/workers')[1]):
        assert worker['endpoint'] in listed.stdout
    assert daemon.stop() == 0


def test_readiness_can_say_no_while_the_process_lives(start):
    daemon = start(config='workers: []\n')
    assert (daemon.get('/live')[0], daemon.get('/ready')[0]) == (200, 503)


def test_images_carry_the_version_of_the_binary(variant, run):
    version = run('--version').stdout.split()[1]
    assert variant.tags['kvrouter'] == version
    assert variant.tags['vllm/vllm-openai'] not in ('', 'latest')
    for path in (ROOT / 'deploy/Dockerfile', ROOT / 'docs/kubernetes.md'):
        named = re.findall(r'kvrouter:(\d+\.\d+\.\d+)', path.read_text())
        assert named and set(named) == {version}, path


def test_kubectl_builds_the_same_resources(variant):
    kubectl = shutil.which('kubectl')
    if kubectl is None:
        pytest.skip('skipped, kubectl not found')
    built = subprocess.run([kubectl, 'kustomize', str(variant.folder)], capture_output=True, text=True, timeout=60)
    assert (built.returncode, built.stderr) == (0, '')
    resources = {manifests.name_of(d): d for d in yaml.safe_load_all(built.stdout)}

    expected = {manifests.name_of(d): d for d in copy.deepcopy(variant.documents)}
    for (plain, files), in [variant.config_maps.items()]:
        generated, = [name for name in resources if re.fullmatch(rf'ConfigMap/{plain}-[0-9a-z]+', name)]
        assert resources.pop(generated)['data'] == {name: path.read_text() for name, path in files.items()}
    images = {i['name']: f'{i.get("newName", i["name"])}:{i["newTag"]}' for i in variant.kustomization['images']}
    for workload in (d for d in expected.values() if d['kind'] in manifests.WORKLOADS):
        for container in manifests.containers(workload):
            container['image'] = images[container['image']]
        for volume in manifests.pod(workload)['volumes']:
            if 'configMap' in volume:
                volume['configMap']['name'] = generated.split('/')[1]
    assert resources == expected
