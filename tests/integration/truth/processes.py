"""The real programs: simulated engines behind relays, and a router that listens to them."""
import itertools
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from tcp_relay import Relay

BLOCK = 4
DEADLINE_S = 60


def wait_for(what, condition, deadline_s=DEADLINE_S):
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f'not seen within {deadline_s} s: {what}')
        time.sleep(0.05)


_candidates = itertools.count(20_000 + os.getpid() * 101 % 10_000)


def free_ports(count):
    """For engines, which keep them while they are dead. Below what systems hand out for port 0, so that nobody else gets
    one then."""
    ports = []
    while len(ports) < count:
        port = 20_000 + next(_candidates) % 12_000
        with socket.socket() as probe:
            try:
                probe.bind(('127.0.0.1', port))
                ports.append(port)
            except OSError:
                pass
    return ports


def post(address, path, body, timeout_s=20):
    request = urllib.request.Request(f'http://{address}{path}', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return json.loads(answer.read() or b'null')


class Engine:
    """One `kvrouter-sim engine` on ports that outlive it, and its relays."""

    def __init__(self, worker_id, dice, directory):
        self.worker_id = worker_id
        self.http_port, self.events_port, self.replay_port = free_ports(3)
        self.arguments = ['--service', dice.choice(['fifo', 'batching']), '--blocks', str(dice.randint(24, 80)),
                          '--event-form', dice.choice(['array', 'map']), '--replay-form', dice.choice(['old', 'new']),
                          '--lose-live-every', str(dice.choice([0, 0, 3, 7]))]
        self.log = directory / f'engine-{worker_id}'
        self.live = Relay(self.events_port)
        self.replay = Relay(self.replay_port)
        self.process = None
        self.start()

    def start(self):
        """Empty, and with hashes of another seed."""
        with self.log.open('a') as log:
            self.process = subprocess.Popen(
                [os.environ['KVROUTER_SIM'], 'engine', '--block-size', str(BLOCK), '--speedup', '50', '--http-port',
                 str(self.http_port), '--events-port', str(self.events_port), '--replay-port', str(self.replay_port),
                 *self.arguments], stdout=subprocess.DEVNULL, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def freeze(self, frozen):
        self.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def is_up(self):
        assert self.process.poll() is None, f'engine {self.worker_id} exited: {self.log.read_text()}'
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.http_port}/health', timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def complete(self, prompt, timeout_s=20):
        body = {'prompt': prompt, 'max_tokens': 2}
        return post(f'127.0.0.1:{self.http_port}', '/v1/completions', body, timeout_s)

    def held(self, prompts):
        """The engine's own answer: leading blocks of each prompt that it holds."""
        return post(f'127.0.0.1:{self.http_port}', '/cached_prefix', {'prompts': prompts})['blocks']

    def close(self):
        if self.process.poll() is None:
            self.freeze(False)
            self.kill()
        self.live.close()
        self.replay.close()


class RouterProcess:
    """One `kvrouterd` after the other, with the engines in its configuration. If it keeps a snapshot, one a second, its
    successor begins with that, however old it is by then."""

    def __init__(self, engines, keeps_snapshot, directory):
        self.directory = directory
        self.options = ['--snapshot-path', str(directory / 'snapshot'), '--snapshot-interval-secs', '1'] if keeps_snapshot else []
        self.config = directory / 'router.yaml'
        self.config.write_text('workers:\n' + ''.join(
            f'  - {{worker_id: {e.worker_id}, address: "http://127.0.0.1:{e.http_port}", block_size: {BLOCK}, '
            f'kv_events_endpoint: "tcp://127.0.0.1:{e.live.port}", replay_endpoint: "tcp://127.0.0.1:{e.replay.port}"}}\n'
            for e in engines))
        self.lives = 0
        self.process = None
        self.start()

    def start(self):
        self.lives += 1
        addresses = self.directory / f'addresses-{self.lives}'
        self.log = self.directory / f'router-{self.lives}'
        environment = {k: v for k, v in os.environ.items() if not k.startswith(('DYN_', 'KVROUTER_'))}
        self.process = subprocess.Popen(
            [os.environ['KVROUTERD'], '--http-listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0', '--addresses-file',
             str(addresses), '--config', str(self.config), '--replay-timeout-ms', '2000', *self.options],
            env=environment, stderr=self.log.open('w'))
        wait_for('the router listens', lambda: addresses.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        self.http = dict(line.split('=', 1) for line in addresses.read_text().splitlines())['http']

    def kill(self):
        self.process.kill()
        self.process.wait()

    def believed(self, prompts):
        """By worker: leading blocks of each prompt that the router believes it to hold."""
        by_worker = {}
        for prompt in prompts:
            for worker in post(self.http, '/overlap_scores', {'token_ids': prompt})['workers']:
                by_worker.setdefault(worker['worker_id'], []).append(worker['device_blocks'])
        return by_worker

    def close(self):
        if self.process.poll() is None:
            self.kill()
