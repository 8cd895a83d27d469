"""Soak: clients of every kind, engines that break, restart, come and go, settings that are read again, for minutes. At the
end nothing is left of anybody, and the router is as large as it was soon after its start.

KVR_SOAK_SECONDS: how long (30 minutes unless set); KVR_SOAK_SEED: what happens. Sanitized builds are not measured for memory."""
import collections
import os
import pathlib
import random
import signal
import statistics
import threading
import time

import pytest

from conftest import wait_for
from fault_cells import ANY_LEG, LEASE
from soak_load import Client, Tally
from stage import Stage

SECONDS = float(os.environ.get('KVR_SOAK_SECONDS', '1800'))
SEED = os.environ.get('KVR_SOAK_SEED', '1')
CLIENTS = 12
PREFILL, DECODE = [0, 1], [2, 3, 4]
FAULTS = ANY_LEG + ['wrong_handshake', 'no_handshake', 'slow_handshake']
PATHS = ['', '', '', '/tokenize', '/kv_pull']
SETTINGS = ('--dispatch-total-timeout-secs', '10', '--dispatch-head-timeout-secs', '1.5', '--dispatch-silence-timeout-secs', '1.5',
            '--dispatch-prefill-timeout-secs', '1.5', '--kv-source-timeout-ms', '1500', '--dispatch-handshake-lease-secs', '0.4',
            '--min-remote-prefill-tokens', '60', '--min-remote-prefill-measure', 'uncached', '--router-session-affinity-ttl-secs', '30',
            '--kv-migration', 'migrate', '--kv-migration-min-tokens', '40', '--workers-file-poll-ms', '50', '--config-poll-ms', '0',
            '--outlier-base-secs', '1', '--outlier-max-secs', '2',
            # What fills up as it should does so soon, so that growth later is a leak.
            '--decision-ring-entries', '200', '--tokenize-cache-bytes', '262144', '--max-sessions', '100')
# Memory: medians of the second and the last fifth of the samples. What a heap gains by mere luck of the order of things. On a
# loaded machine tables and each thread's heap take their size in the second minute only: shorter runs have the limit alone.
FLAT_FROM_S = 300
GROWTH_SHARE, GROWTH_KB = 0.05, 4 * 1024
RESIDENT_LIMIT_KB = 64 * 1024
GROWTH_DESCRIPTORS = 24  # connections that are kept or under way, by chance


class Samples:
    """Of one process, every half second."""

    def __init__(self, pid):
        self.proc = pathlib.Path(f'/proc/{pid}')
        self.rss_kb, self.descriptors, self.threads = [], [], []

    def take(self):
        status = (self.proc / 'status').read_text()
        self.rss_kb.append(int(status.split('VmRSS:')[1].split()[0]))
        self.threads.append(int(status.split('Threads:')[1].split()[0]))
        self.descriptors.append(len(os.listdir(self.proc / 'fd')))

    @staticmethod
    def fifths(values):
        """Medians of the second and the last."""
        fifth = len(values) // 5
        return statistics.median(values[fifth:2 * fifth]), statistics.median(values[-fifth:])


class Chaos:
    """Everything that happens to engines, workers file and settings: one thing after another, by chance."""

    def __init__(self, stage, rng):
        self.stage, self.rng, self.done = stage, rng, []
        self.broken = {}
        self.config = stage.directory / 'kvrouterd.yaml'

    def next(self):
        what = self.rng.choice([self.break_one, self.break_one, self.mend_one, self.mend_one, self.restart, self.change_workers, self.reload])
        what()
        self.done.append(what.__name__)

    def break_one(self):
        index = self.rng.choice(PREFILL + DECODE)
        if len(self.broken.keys() | {index}) > 2:
            return self.mend_one()
        rule = {'kind': self.rng.choice(FAULTS)}
        if rule['kind'] != 'refuse':
            rule['path'] = '/kv_pull' if rule['kind'] == 'slow_handshake' else self.rng.choice(PATHS)
            rule['delay_ms'] = 200
            if self.rng.random() < 0.7:
                rule['every'] = self.rng.randint(1, 4)
            if not rule['path']:
                del rule['path']
        self.stage.engines.fault(index, **rule)
        self.broken[index] = rule

    def mend_one(self):
        if self.broken:
            index = self.rng.choice(sorted(self.broken))
            self.stage.engines.clear(index)
            del self.broken[index]

    def mend_all(self):
        while self.broken:
            self.mend_one()

    def restart(self):
        self.stage.engines.restart(self.rng.choice(PREFILL + DECODE))

    def change_workers(self, indices=None):
        if indices is None:
            indices = self.rng.sample(PREFILL, self.rng.randint(0, 2)) + self.rng.sample(DECODE, self.rng.randint(2, 3))
        beside = self.stage.workers_file.with_suffix('.new')
        beside.write_text(self.stage.workers_yaml(indices))
        os.replace(beside, self.stage.workers_file)

    def reload(self):
        text = self.rng.choice([f'router_prefill_load_scale: {self.rng.uniform(0.5, 2):.3f}\n',
                                f'min_remote_prefill_tokens: {self.rng.choice([20, 60, 300])}\nkv_migration: {self.rng.choice(["migrate", "off"])}\n',
                                'router_temperature: 0.2\n', 'router_temperature: cold\n', ''])
        self.config.write_text(text)
        self.stage.daemon.process.send_signal(signal.SIGHUP)


@pytest.fixture
def stage(tmp_path):
    roles = [('prefill', 'producer')] * 2 + [('decode', 'both')] * 3
    stage = Stage(tmp_path, roles, ('--kv-role', 'both', '--blocks', '1500', *LEASE),
                  (*SETTINGS, '--workers-file', str(tmp_path / 'workers.yaml')))
    try:
        yield stage.start_daemon('')
    finally:
        stage.stop()


def soak(stage, seconds, samples):
    """Everything at once: how requests ended, and what was done to them."""
    tally, stopping = Tally(), threading.Event()
    chaos = Chaos(stage, random.Random(f'{SEED}/chaos'))
    clients = [Client(stage, tally, number, SEED, stopping) for number in range(CLIENTS)]
    start = last_word = time.monotonic()
    next_chaos = start
    try:
        while time.monotonic() < start + seconds:
            samples.take()
            if time.monotonic() >= next_chaos:
                chaos.next()
                next_chaos = time.monotonic() + chaos.rng.uniform(0.3, 1.2)
            if time.monotonic() > last_word + 60:
                last_word = time.monotonic()
                print(f'{last_word - start:.0f} s: {tally.total("right")} right, {tally.total("error")} errors, {tally.total("wrong")} wrong,'
                      f' {samples.rss_kb[-1]} kB, {samples.descriptors[-1]} descriptors, {samples.threads[-1]} threads', flush=True)
            assert stage.daemon.process.poll() is None, 'kvrouterd has ended'
            time.sleep(0.5)
    finally:
        stopping.set()
        chaos.mend_all()
        chaos.change_workers(PREFILL + DECODE)
        for client in clients:
            client.thread.join()
    return tally, chaos


def assert_flat(samples):
    before_kb, after_kb = samples.fifths(samples.rss_kb)
    before, after = samples.fifths(samples.descriptors)
    print(f'resident {before_kb:.0f} -> {after_kb:.0f} kB, descriptors {before:.0f} -> {after:.0f}, threads {max(samples.threads)}')
    if not os.environ.get('KVR_SANITIZE'):
        assert max(samples.rss_kb) <= RESIDENT_LIMIT_KB
        assert SECONDS < FLAT_FROM_S or after_kb <= before_kb * (1 + GROWTH_SHARE) + GROWTH_KB
    assert after <= before + GROWTH_DESCRIPTORS
    fifth = len(samples.threads) // 5
    assert max(samples.threads[-fifth:]) <= max(samples.threads[:3 * fifth]), 'threads are made with the router'


def by_label(metrics, name, label):
    sums = collections.Counter()
    for series, labels, value in metrics.series:
        if series == name:
            sums[labels[label]] += value
    return dict(sums)


def test_nothing_is_left_of_anybody(stage):
    samples = Samples(stage.daemon.process.pid)
    tally, chaos = soak(stage, SECONDS, samples)
    print(f'{SECONDS:.0f} s, seed {SEED}: {sorted(tally.ends.items())}\nerrors {sorted(tally.errors.items())}\n'
          f'{len(chaos.done)} disturbances')
    assert not tally.wrong, '\n'.join(map(str, tally.wrong))
    stage.assert_all_quiet()
    wait_for('no live request', lambda: stage.daemon.metrics().one('kvrouter_dispatch_live_requests') == 0)
    metrics = stage.daemon.metrics()
    legs = by_label(metrics, 'kvrouter_dispatch_legs_total', 'kind')
    fallbacks = by_label(metrics, 'kvrouter_dispatch_fallbacks_total', 'reason')
    print(f'legs {legs}\nfallbacks {fallbacks}')
    # It was a soak: most requests were served, every kind of leg was sent, settings changed and were refused.
    assert tally.total('right') >= 3 * tally.total('error') and tally.total('right') >= SECONDS
    if SECONDS >= FLAT_FROM_S:
        assert all(value > 0 for value in legs.values()), legs
        assert all(metrics.one('kvrouter_config_reloads_total', result=result) > 0 for result in ('applied', 'invalid'))
    assert_flat(samples)
    assert stage.daemon.stop(30) == 0
