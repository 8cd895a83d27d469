"""A running kvrouterd, clients of its doors, and engines that publish events. Loopback only, port 0 everywhere."""
import http.client
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

import grpc
import msgpack
import pytest
import zmq

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE_S = 20


def make_stubs(directory):
    for name in ('common', 'kv_events', 'router', 'workers'):
        subprocess.run(['protoc', '-I', str(ROOT / 'proto'), f'--python_out={directory}', f'--grpc_python_out={directory}',
                        '--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin', f'kvrouter/v1/{name}.proto'], check=True)


STUBS = tempfile.TemporaryDirectory(prefix='kvrouter-stubs-')
make_stubs(STUBS.name)
sys.path.insert(0, STUBS.name)
from kvrouter.v1 import router_pb2, router_pb2_grpc, workers_pb2, workers_pb2_grpc  # noqa: E402


def wait_for(what, condition, deadline_s=DEADLINE_S):
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f'not seen within {deadline_s} s: {what}')


class Metrics:
    """One scrape: families by name, values by series."""

    def __init__(self, text):
        self.text = text
        self.families = dict(re.findall(r'^# TYPE (\S+) (\S+)$', text, re.M))
        self.helped = re.findall(r'^# HELP (\S+) \S', text, re.M)
        self.series = []
        for line in text.splitlines():
            if line.startswith('#'):
                continue
            name, labels, value = re.fullmatch(r'([a-z0-9_]+)(?:\{(.*)\})? (\S+)', line, re.I).groups()
            self.series.append((name, dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or '')), float(value)))

    def all(self, name, **labels):
        return [value for n, l, value in self.series if n == name and labels.items() <= l.items()]

    def one(self, name, **labels):
        values = self.all(name, **labels)
        assert len(values) == 1, f'{name} {labels}: {values}'
        return values[0]


class Daemon:
    def __init__(self, process, http_address, grpc_address, log, indexer_address=None, openai_address=None):
        self.process = process
        self.indexer_address = indexer_address
        self.openai_address = openai_address
        self.http_address = http_address
        self.grpc_address = grpc_address
        self.log = log
        self.channel = grpc.insecure_channel(grpc_address, options=[('grpc.enable_http_proxy', 0)])
        self.router = router_pb2_grpc.RouterStub(self.channel)
        self.workers = workers_pb2_grpc.WorkersStub(self.channel)

    def get(self, path):
        connection = http.client.HTTPConnection(self.http_address, timeout=DEADLINE_S)
        try:
            connection.request('GET', path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metrics(self):
        status, text = self.get('/metrics')
        assert status == 200
        return Metrics(text)

    def serving(self, service):
        """Standard health: 1 serving, 2 not serving. Written by hand: Debian has no Python package for it."""
        check = self.channel.unary_unary('/grpc.health.v1.Health/Check', request_serializer=bytes, response_deserializer=bytes)
        name = service.encode()
        answer = check(b'\x0a' + bytes([len(name)]) + name if name else b'', timeout=DEADLINE_S)
        return answer[1] if answer else 0

    def register(self, worker_id, **fields):
        spec = dict(worker_id=worker_id, address=f'http://127.0.0.1:{worker_id}', block_size_tokens=4)
        spec.update(fields)
        return self.workers.Register(workers_pb2.RegisterRequest(worker=workers_pb2.WorkerSpec(**spec)), timeout=DEADLINE_S)

    def remove(self, worker_id):
        self.workers.Remove(workers_pb2.RemoveRequest(worker_id=worker_id), timeout=DEADLINE_S)

    def route(self, tokens, request_id='', **fields):
        request = router_pb2.RouteRequest(request_id=request_id, **fields)
        request.token_ids.ids.extend(tokens)
        return self.router.Route(request, timeout=DEADLINE_S)

    def free(self, request_id):
        return self.router.Free(router_pb2.FreeRequest(request_id=request_id), timeout=DEADLINE_S).released

    def stop(self, deadline_s=5.0):
        """SIGTERM; the exit code, within the time the product promises."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(deadline_s)


def clean_environment(extra=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('DYN_', 'KVROUTER_'))}
    environment.update(extra or {})
    return environment


@pytest.fixture
def run(tmp_path):
    """run(*arguments, env={}) -> finished process with its output; for what ends by itself."""

    def call(*arguments, env=None):
        return subprocess.run([os.environ['KVROUTERD'], *arguments], env=clean_environment(env), capture_output=True, text=True,
                              timeout=DEADLINE_S)

    return call


@pytest.fixture
def start(tmp_path):
    """start(*arguments, config=None, env={}) -> Daemon on free ports."""
    running = []

    def call(*arguments, config=None, env=None):
        number = len(running)
        addresses = tmp_path / f'addresses-{number}'
        log = tmp_path / f'log-{number}'
        command = [os.environ['KVROUTERD'], '--http-listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0', '--dispatch-listen',
                   '127.0.0.1:0', '--addresses-file', str(addresses), *arguments]
        if config is not None:
            path = tmp_path / f'config-{number}.yaml'
            path.write_text(config)
            command += ['--config', str(path)]
        process = subprocess.Popen(command, env=clean_environment(env), stderr=log.open('w'))
        running.append(process)
        wait_for('addresses file', lambda: addresses.exists() or process.poll() is not None)
        assert process.poll() is None, f'kvrouterd exited with {process.returncode}: {log.read_text()}'
        bound = dict(line.split('=', 1) for line in addresses.read_text().splitlines())
        return Daemon(process, bound['http'], bound['grpc'], log, bound.get('indexer'), bound.get('openai'))

    yield call
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()


class Engine:
    """One rank's event socket in vLLM's wire format, with an empty history to replay."""

    def __init__(self, context):
        self.dp_rank = 0  # as its batches say
        self.live = context.socket(zmq.XPUB)  # as PUB on the wire; tells when a subscription has arrived
        self.live.setsockopt(zmq.LINGER, 0)
        self.live.bind('tcp://127.0.0.1:*')
        self.endpoint = self.live.getsockopt(zmq.LAST_ENDPOINT).rstrip(b'\0').decode()
        self.sequence = 0

    def wait_for_subscriber(self):
        assert self.live.poll(DEADLINE_S * 1000), 'nobody subscribed'
        assert self.live.recv()[:1] == b'\x01'

    def publish(self, *events):
        batch = msgpack.packb([time.time(), list(events), self.dp_rank])
        self.live.send_multipart([b'', struct.pack('>Q', self.sequence), batch])
        self.sequence += 1

    def store(self, hashes, tokens, block_size=4, parent=None, medium='GPU'):
        self.publish(['BlockStored', list(hashes), parent, list(tokens), block_size, None, medium])

    def drop(self, hashes, medium='GPU'):
        self.publish(['BlockRemoved', list(hashes), medium])


@pytest.fixture
def new_engine():
    context = zmq.Context()
    yield lambda: Engine(context)
    context.destroy(0)


def live_events(endpoint):
    """WorkerSpec.events of a worker with one rank."""
    return {0: workers_pb2.EventEndpoints(live=endpoint)}
