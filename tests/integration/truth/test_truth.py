"""The daemon believes what its engines hold, whatever happens to sockets and processes.

Random engines (small caches, heavy eviction, lost messages) behind relays; connections are reset, stalled and refused,
engines and the router are killed with SIGKILL and frozen. At rest every prefix of every prompt must have the overlap that
the engine itself answers: all engines keep enough history for a replay to cover every loss. Half of the routers keep a snapshot.

KVR_TRUTH_PROCESS_SEEDS=first..last takes other seeds than the first ten. A failure names the seed and the faults.
"""
import concurrent.futures
import os
import random
import time
import urllib.error

import pytest

from processes import BLOCK, Engine, RouterProcess, wait_for

AT_ONCE = 5
ENGINES = 4
FAULTS = 12
REST_DEADLINE_S = 180  # ample for a machine ten times slower: 2 s replay time-out, 30 s to the first repair


def seeds():
    first, last = os.environ.get('KVR_TRUTH_PROCESS_SEEDS', '0..9').split('..')
    return range(int(first), int(last) + 1)


def random_prompts(dice):
    """Conversations that branch off each other; full blocks and some words more."""
    prompts = []
    for _ in range(40):
        head = dice.choice(prompts)[:BLOCK * dice.randint(0, 10)] if prompts and dice.random() < 0.8 else []
        head = head[:len(head) // BLOCK * BLOCK]
        tail = [dice.randrange(1, 100_000) for _ in range(BLOCK * dice.randint(1, 6))]
        prompts.append(head + tail)
    return prompts


class Fleet:
    def __init__(self, seed, directory):
        self.dice = random.Random(seed)
        self.prompts = random_prompts(self.dice)
        self.script = []
        self.engines = []
        self.router = None
        try:
            for number in range(ENGINES):
                self.engines.append(Engine(number + 1, self.dice, directory))
            self.router = RouterProcess(self.engines, self.dice.random() < 0.5, directory)
        except BaseException:
            self.close()
            raise

    def close(self):
        for engine in self.engines:
            engine.close()
        if self.router:
            self.router.close()

    def ask(self, engine):
        try:
            engine.complete(self.dice.choice(self.prompts), timeout_s=2)
        except (OSError, urllib.error.URLError):
            pass  # dead or frozen just now

    def disturb(self):
        engine = self.dice.choice(self.engines)
        relay, which = self.dice.choice([(engine.live, 'live'), (engine.replay, 'replay')])
        fault = self.dice.choice(['break', 'break', 'stall', 'refuse', 'kill', 'kill', 'freeze', 'kill router'])
        self.script.append(f'{fault} {which if fault in ("break", "stall", "refuse") else ""} of engine {engine.worker_id}')
        if fault == 'break':
            relay.break_all()
        elif fault == 'stall':
            relay.stall()
        elif fault == 'refuse':
            relay.refuse(True)
            relay.break_all()
        elif fault == 'kill':
            engine.kill()
            time.sleep(self.dice.choice([0, 0.2]))
            engine.start()
        elif fault == 'freeze':
            engine.freeze(True)
        else:
            self.router.kill()
            self.router.start()
        for _ in range(self.dice.randint(2, 8)):
            self.ask(self.dice.choice(self.engines))
        if self.dice.random() < 0.6:
            self.heal(engine)

    def heal(self, engine):
        engine.freeze(False)
        for relay in (engine.live, engine.replay):
            relay.refuse(False)
            relay.flow()

    def come_to_rest(self):
        for engine in self.engines:
            self.heal(engine)
        for engine in self.engines:
            wait_for(f'engine {engine.worker_id} answers', engine.is_up)
        # What was lost last shows only when something follows; two, as every third message may be lost.
        for _ in range(2):
            for engine in self.engines:
                wait_for('the engine answers a prompt', lambda e=engine: self.last_word(e))

    def last_word(self, engine):
        prompt = [self.dice.randrange(1, 100_000) for _ in range(2 * BLOCK)]
        self.prompts.append(prompt)
        try:
            return engine.complete(prompt)
        except (OSError, urllib.error.URLError):
            return None

    def differences(self):
        believed = self.router.believed(self.prompts)
        found = []
        for engine in self.engines:
            held = engine.held(self.prompts)
            known = believed.get(engine.worker_id, [None] * len(held))
            wrong = [f'{k} of {h}' for k, h in zip(known, held) if k != h]
            if wrong:
                found.append(f'engine {engine.worker_id}: {len(wrong)} of {len(held)} prompts, it believes {wrong[:9]} blocks')
        return found


def play(seed, directory):
    fleet = Fleet(seed, directory)
    try:
        for engine in fleet.engines:
            wait_for('engine', engine.is_up)
        for _ in range(FAULTS):
            fleet.disturb()
        fleet.come_to_rest()
        # Nothing moves any more: once they agree, they agree for good.
        end = time.monotonic() + REST_DEADLINE_S
        nudge = time.monotonic() + 10
        while differences := fleet.differences():
            assert time.monotonic() < end, '\n'.join([f'seed={seed}', *fleet.script, *differences])
            if time.monotonic() > nudge:  # the last message itself may have been one that is never sent
                nudge = time.monotonic() + 10
                for engine in fleet.engines:
                    fleet.last_word(engine)
            time.sleep(0.2)
    finally:
        fleet.close()


@pytest.fixture(scope='session')
def fleets(tmp_path_factory):
    """Several at once: they mostly wait, each for its own time-outs and repairs."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {seed: pool.submit(play, seed, tmp_path_factory.mktemp(f'fleet-{seed}')) for seed in seeds()}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize('seed', seeds())
def test_the_router_believes_what_the_engines_hold(seed, fleets):
    fleets[seed].result()
