"""The Kubernetes manifests as data, and what is wrong with them. Knows the shapes that deploy/kubernetes uses, no more."""
import json
import pathlib
import re

import yaml

WORKLOADS = ('Deployment', 'StatefulSet')


class Manifests:
    """One variant: the documents of its resources, and the settings file that kustomize puts into a ConfigMap."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.kustomization = yaml.safe_load((self.folder / 'kustomization.yaml').read_text())
        self.documents = [document for name in self.kustomization['resources']
                          for document in yaml.safe_load_all((self.folder / name).read_text())]
        # ConfigMap name -> file name -> path
        self.config_maps = {g['name']: {name: self.folder / name for name in g['files']}
                            for g in self.kustomization['configMapGenerator']}
        self.tags = {image['name']: image['newTag'] for image in self.kustomization['images']}

    def of(self, *kinds):
        return [document for document in self.documents if document['kind'] in kinds]

    def router(self):
        """(its workload, its container)"""
        found = [(w, c) for w in self.of(*WORKLOADS) for c in containers(w) if c['image'] == 'kvrouter']
        assert len(found) == 1
        return found[0]

    def engines(self):
        """[(its workload, its container)]"""
        return [(w, c) for w in self.of(*WORKLOADS) for c in containers(w) if c['image'] == 'vllm/vllm-openai']

    def settings_path(self):
        """The file behind the path that the router's --config names, found through its mount."""
        workload, container = self.router()
        path = pathlib.PurePosixPath(argument_after(container, '--config'))
        mounts = {m['mountPath']: m['name'] for m in container['volumeMounts']}
        volumes = {v['name']: v for v in pod(workload)['volumes']}
        return self.config_maps[volumes[mounts[str(path.parent)]]['configMap']['name']][path.name]


def name_of(document):
    return f'{document["kind"]}/{document["metadata"]["name"]}'


def pod(workload):
    return workload['spec']['template']['spec']


def containers(workload):
    return pod(workload)['containers']


def pod_labels(workload):
    return workload['spec']['template']['metadata']['labels']


def pod_ports(workload):
    return {p['name']: p['containerPort'] for c in containers(workload) for p in c['ports']}


def own_ports(container):
    return {p['name']: p['containerPort'] for p in container['ports']}


def argument_after(container, flag):
    return container['args'][container['args'].index(flag) + 1]


def probes(container):
    return {kind: container[kind] for kind in ('startupProbe', 'livenessProbe', 'readinessProbe') if kind in container}


def selects(selector, workload):
    return selector.items() <= pod_labels(workload).items()


def pods_of(workload):
    """The pods that a StatefulSet's controller makes, as the API server shows them once they run."""
    template = workload['spec']['template']
    return [{'kind': 'Pod',
             'metadata': {'name': f'{workload["metadata"]["name"]}-{i}', 'uid': f'uid-{i}', 'labels': dict(template['metadata']['labels']),
                          'annotations': dict(template['metadata']['annotations'])},
             'spec': json.loads(json.dumps(template['spec'])),
             'status': {'phase': 'Running', 'podIP': f'127.1.0.{i}', 'conditions': [{'type': 'Ready', 'status': 'True'}]}}
            for i in range(workload['spec']['replicas'])]


def slice_of_service(service, pods):
    """The EndpointSlice that the control plane makes for a Service and these pods of it."""
    name = service['metadata']['name']
    assert all(service['spec']['selector'].items() <= p['metadata']['labels'].items() for p in pods)
    return {'kind': 'EndpointSlice',
            'metadata': {'name': f'{name}-x1y2z', 'uid': 'uid-slice',
                         'labels': {**service['metadata']['labels'], 'kubernetes.io/service-name': name,
                                    'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io'}},
            'endpoints': [{'addresses': [p['status']['podIP']], 'conditions': {'ready': True, 'serving': True, 'terminating': False},
                           'targetRef': {'kind': 'Pod', 'name': p['metadata']['name'], 'uid': p['metadata']['uid']}} for p in pods]}


def engine_ports(container):
    """What the flags of one vLLM container say: (http, events, replay, block size)."""
    flags = dict(a[2:].split('=', 1) for a in container['args'] if a.startswith('--') and '=' in a)
    events = json.loads(argument_after(container, '--kv-events-config'))
    assert events['enable_kv_cache_events'] is True and events['publisher'] == 'zmq'
    assert '--enable-prefix-caching' in container['args']

    def port_of(endpoint):  # only `*` is bound; to any host vLLM would connect
        return int(re.fullmatch(r'tcp://\*:(\d+)', endpoint).group(1))

    return int(flags['port']), port_of(events['endpoint']), port_of(events['replay_endpoint']), int(flags['block-size'])


def problems(manifests):
    """Every broken reference, as text; empty when the resources fit together."""
    return [*(p for w in manifests.of(*WORKLOADS) for p in workload_problems(manifests, w)),
            *(p for s in manifests.of('Service') for p in service_problems(manifests, s)),
            *(p for n in manifests.of('NetworkPolicy') for p in policy_problems(manifests, n)),
            *(p for b in manifests.of('RoleBinding') for p in binding_problems(manifests, b)),
            *(f'{name_of(b)}: selects no pod' for b in manifests.of('PodDisruptionBudget')
              if not any(selects(b['spec']['selector']['matchLabels'], w) for w in manifests.of(*WORKLOADS)))]


def workload_problems(manifests, workload):
    who = name_of(workload)
    if not selects(workload['spec']['selector']['matchLabels'], workload):
        yield f'{who}: its selector does not match its own pods'
    account = pod(workload).get('serviceAccountName')
    if account is not None and account not in [a['metadata']['name'] for a in manifests.of('ServiceAccount')]:
        yield f'{who}: no ServiceAccount {account}'
    volumes = {v['name']: v for v in pod(workload)['volumes']}
    mounted = {m['name'] for c in containers(workload) for m in c['volumeMounts']}
    for name in sorted(mounted ^ volumes.keys()):
        yield f'{who}: volume {name} is mounted but not declared, or declared but not mounted'
    for volume in volumes.values():
        if 'configMap' in volume and volume['configMap']['name'] not in manifests.config_maps:
            yield f'{who}: no ConfigMap {volume["configMap"]["name"]}'
    ports = [p for c in containers(workload) for p in c['ports']]
    if len({p['name'] for p in ports}) < len(ports) or len({p['containerPort'] for p in ports}) < len(ports):
        yield f'{who}: two ports of the pod have one name or one number'
    for port in ports:
        if not re.fullmatch(r'(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*', port['name']) or len(port['name']) > 15:
            yield f'{who}: {port["name"]} is no port name'
    for container in containers(workload):
        for kind, probe in probes(container).items():
            if probe['httpGet']['port'] not in own_ports(container):
                yield f'{who}: {kind} of {container["name"]} asks port {probe["httpGet"]["port"]}, which it does not have'
    annotations = workload['spec']['template']['metadata']['annotations']
    if int(annotations['prometheus.io/port']) not in pod_ports(workload).values():
        yield f'{who}: nothing to scrape at port {annotations["prometheus.io/port"]}'
    if workload['kind'] == 'StatefulSet':
        headless = [s for s in manifests.of('Service') if s['spec'].get('clusterIP') == 'None' and
                    s['metadata']['name'] == workload['spec']['serviceName'] and selects(s['spec']['selector'], workload)]
        if not headless:
            yield f'{who}: no headless Service {workload["spec"]["serviceName"]} names its pods'


def service_problems(manifests, service):
    who = name_of(service)
    chosen = [w for w in manifests.of(*WORKLOADS) if selects(service['spec']['selector'], w)]
    if len(chosen) != 1:
        yield f'{who}: selects the pods of {len(chosen)} workloads'
        return
    for port in service['spec']['ports']:
        # Equal numbers: the workers' addresses are written with them.
        if pod_ports(chosen[0]).get(port['targetPort']) != port['port']:
            yield f'{who}: port {port["port"]} does not lead to port {port["targetPort"]} of {name_of(chosen[0])}'


def binding_problems(manifests, binding):
    who = name_of(binding)
    if binding['roleRef']['name'] not in [r['metadata']['name'] for r in manifests.of(binding['roleRef']['kind'])]:
        yield f'{who}: no {binding["roleRef"]["kind"]} {binding["roleRef"]["name"]}'
    for subject in binding['subjects']:
        if subject['name'] not in [a['metadata']['name'] for a in manifests.of(subject['kind'])]:
            yield f'{who}: no {subject["kind"]} {subject["name"]}'


def policy_problems(manifests, policy):
    who = name_of(policy)
    chosen = [w for w in manifests.of(*WORKLOADS) if selects(policy['spec']['podSelector']['matchLabels'], w)]
    if not chosen:
        yield f'{who}: selects no pod'
    for rule in policy['spec']['ingress']:
        for port in rule['ports']:
            if not all(port['port'] in pod_ports(w) for w in chosen):
                yield f'{who}: no port {port["port"]}'
        for peer in rule.get('from', []):
            if not any(selects(peer['podSelector']['matchLabels'], w) for w in manifests.of(*WORKLOADS)):
                yield f'{who}: nobody matches {peer["podSelector"]["matchLabels"]}'
