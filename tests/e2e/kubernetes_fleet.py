"""kvrouterd beside a fake API server: fixtures to import, and what both show of the fleet."""
import json

import pytest
from conftest import wait_for
from fake_kubernetes import NAMESPACE, FakeKubernetes, endpoint, pod, slice_of

IDS = {'vllm-0': 1943803597606491, 'vllm-1': 6550146066618770}  # SipHash-1-3 of CPython with a zero key, 53 bits


@pytest.fixture
def cluster():
    server = FakeKubernetes()
    yield server
    server.stop()


@pytest.fixture
def discover(start):
    def call(server, *arguments, **more):
        return start('--discovery-backend=kubernetes', f'--kubernetes-api-server={server.url}', f'--kubernetes-namespace={NAMESPACE}',
                     '--kubernetes-request-timeout-ms=1000', '--kubernetes-backoff-max-ms=200', *arguments, **more)

    return call


def listed(daemon):
    return {w['endpoint']: w for w in json.loads(daemon.get('/workers')[1])}


def addresses(daemon):
    return sorted(w.removeprefix('http://').removesuffix(':8000') for w in listed(daemon))


def drains(daemon, address):
    return listed(daemon)[f'http://{address}:8000']['lifecycle'] == 'draining'


def wait_for_addresses(daemon, *expected):
    wait_for(f'workers {expected}', lambda: addresses(daemon) == sorted(expected))


def updates(daemon, outcome):
    return daemon.metrics().one('kvrouter_discovery_updates_total', source='kubernetes', outcome=outcome)


def is_current(daemon):
    return daemon.metrics().one('kvrouter_discovery_current', source='kubernetes') == 1


def fleet(count):
    return [pod(f'vllm-{i}', f'10.0.0.{i}') for i in range(count)]


def put_fleet(server, pods, name='vllm-a'):
    server.put(*pods, slice_of(name, *(endpoint(p) for p in pods)))
