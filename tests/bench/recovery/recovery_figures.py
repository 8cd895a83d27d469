#!/usr/bin/python3
"""How fast a router is whole again: by the engines' replay, from its snapshot, from a peer; and what writing the snapshot costs.

  tests/bench/recovery/recovery_figures.py [--workers 64] [--blocks 20000] [--build build]

Real kvrouterd processes on loopback; the engines are one Python process that answers replays from prepared messages, so the
replay figure is as much its own as ours. Prints one line per figure.
"""
import argparse
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import msgpack
import zmq

END = struct.pack('>q', -1)
BLOCK_SIZE = 16
BLOCKS_PER_BATCH = 256


class Engines(threading.Thread):
    """A live and a replay socket per worker; the history is messages ready to be sent."""

    def __init__(self, workers, blocks):
        super().__init__(daemon=True)
        context = zmq.Context()
        self.poller = zmq.Poller()
        self.history, self.endpoints, self.keep = {}, [], {}
        for worker in range(workers):
            live, replay = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
            for socket in (live, replay):
                socket.setsockopt(zmq.LINGER, 0)
                socket.setsockopt(zmq.SNDHWM, 0)
                socket.bind('tcp://127.0.0.1:*')
            self.poller.register(replay, zmq.POLLIN)
            self.endpoints.append([s.getsockopt(zmq.LAST_ENDPOINT).rstrip(b'\0').decode() for s in (live, replay)])
            self.history[replay] = self.make_history(worker, blocks)
            self.keep[replay] = live

    @staticmethod
    def make_history(worker, blocks):
        """Sequences of 256 blocks, half of them the same on all workers; hashes seeded per worker."""
        names, messages = random.Random(worker), []
        for first in range(0, blocks, BLOCKS_PER_BATCH):
            count = min(BLOCKS_PER_BATCH, blocks - first)
            shared = (first // BLOCKS_PER_BATCH) % 2 == 0
            tokens = random.Random(first if shared else first + (worker + 1) * 10_000_000)
            event = ['BlockStored', [names.getrandbits(64) for _ in range(count)], None,
                     [tokens.randrange(128_000) for _ in range(count * BLOCK_SIZE)], BLOCK_SIZE, None, 'GPU']
            messages.append(msgpack.packb([1_700_000_000.0 + first, [event], 0]))
        return messages

    def run(self):
        while True:
            for socket, _ in self.poller.poll():
                frames = socket.recv_multipart()
                first = struct.unpack('>Q', frames[2])[0]
                for sequence, payload in enumerate(self.history[socket]):
                    if sequence >= first:
                        socket.send_multipart([frames[0], b'', b'', struct.pack('>Q', sequence), payload])
                socket.send_multipart([frames[0], b'', b'', END, b''])


class Router:
    def __init__(self, binary, folder, name, config, *arguments):
        addresses = folder / f'{name}.addresses'
        addresses.unlink(missing_ok=True)
        path = folder / f'{name}.yaml'
        path.write_text(config)
        self.log = folder / f'{name}.log'
        self.began = time.monotonic()
        self.process = subprocess.Popen([binary, '--http-listen=127.0.0.1:0', '--grpc-listen=127.0.0.1:0', '--addresses-file', str(addresses),
                                         '--config', str(path), '--ready-bound-ms=600000', '--replay-timeout-ms=60000', *arguments],
                                        stderr=self.log.open('w'))
        while not addresses.exists():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.002)
        bound = dict(line.split('=', 1) for line in addresses.read_text().splitlines())
        self.http, self.grpc = bound['http'], bound['grpc']

    def get(self, path):
        try:
            with urllib.request.urlopen(f'http://{self.http}{path}', timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ''

    def metric(self, name, labels=''):
        found = re.findall(rf'^{name}(?:\{{[^}}]*{labels}[^}}]*\}})? (\S+)$', self.get('/metrics')[1], re.M)
        return sum(float(value) for value in found)

    def wait(self, condition):
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.01)
        return time.monotonic() - self.began

    def times(self, blocks):
        """Seconds from the start to full overlap, and to /ready."""
        ready = self.wait(lambda: self.get('/ready')[0] == 200)
        return self.wait(lambda: self.metric('kvrouter_index_holder_blocks') >= blocks), ready

    def stop(self):
        began = time.monotonic()
        self.process.terminate()
        self.process.wait()
        return time.monotonic() - began


def config_of(endpoints, replay=True):
    lines = ['workers:']
    for worker, (live, replay_endpoint) in enumerate(endpoints):
        lines += [f'  - worker_id: {worker}', f'    address: "http://127.0.0.1:{worker + 1}"', f'    block_size: {BLOCK_SIZE}',
                  f'    kv_events_endpoint: "{live}"'] + ([f'    replay_endpoint: "{replay_endpoint}"'] if replay else [])
    return '\n'.join(lines) + '\n'


def latencies(ctl, router, seconds):
    done = subprocess.run([ctl, '--grpc', router.grpc, '--json', 'bench', '--rate', '200', '--concurrency', '16', '--seconds', str(seconds), '--advise'],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--workers', type=int, default=64)
    parser.add_argument('--blocks', type=int, default=20_000)
    parser.add_argument('--build', default='build')
    options = parser.parse_args()
    binary, ctl = (str(pathlib.Path(options.build, 'bin', name)) for name in ('kvrouterd', 'kvrouterctl'))
    total = options.workers * options.blocks
    engines = Engines(options.workers, options.blocks)
    engines.start()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        snapshot = folder / 'kv.snapshot'
        with_snapshot = ('--snapshot-path', str(snapshot))
        print(f'workers={options.workers} blocks_per_worker={options.blocks} load={os.getloadavg()[0]:.1f}', flush=True)

        warm = Router(binary, folder, 'replay', config_of(engines.endpoints), *with_snapshot, '--snapshot-interval-secs=1')
        whole, ready = warm.times(total)
        print(f'by replay:    ready {ready:.2f} s, full overlap {whole:.2f} s', flush=True)

        warm.wait(lambda: warm.metric('kvrouter_snapshot_blocks') >= total)
        size = warm.metric('kvrouter_snapshot_bytes')
        print(f'snapshot:     {size / 1e6:.1f} MB, {size / total:.2f} bytes per block', flush=True)
        writing = latencies(ctl, warm, 10)
        took = warm.metric('kvrouter_snapshot_write_seconds')
        writes = warm.metric('kvrouter_snapshot_writes_total', 'result="ok"')
        print(f'written:      {took:.2f} s the last one, {writes:.0f} in {time.monotonic() - warm.began:.0f} s', flush=True)
        print(f'while written: {json.dumps(writing)}', flush=True)
        print(f'stopped in    {warm.stop():.2f} s, the last snapshot included', flush=True)

        again = Router(binary, folder, 'snapshot', config_of(engines.endpoints), *with_snapshot, '--snapshot-interval-secs=0')
        whole, ready = again.times(total)
        proved = again.metric('kvrouter_snapshot_restored_blocks_total', 'outcome="proved"')
        print(f'from snapshot: ready {ready:.2f} s, full overlap {whole:.2f} s, {proved:.0f} blocks proved', flush=True)
        print(f'not written:  {json.dumps(latencies(ctl, again, 10))}', flush=True)

        peer = Router(binary, folder, 'peer', config_of(engines.endpoints, replay=False), '--indexer-peers', again.http, '--peer-timeout-ms=60000')
        whole, ready = peer.times(total)
        print(f'from a peer:  ready {ready:.2f} s, full overlap {whole:.2f} s', flush=True)
        peer.stop()
        again.stop()


if __name__ == '__main__':
    main()
