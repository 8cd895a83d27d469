"""A prefill pool that comes and goes under load: no request fails."""
import os
import threading

import pytest

from conftest import wait_for, workers_pb2
from fault_cells import LEASE, check, prompts  # noqa: F401
from stage import Stage

PREFILL = [0, 1]
CLIENTS = 6


class Load:
    """Clients that ask one request after another until told to stop."""

    def __init__(self, stage, prompts):
        self.stage, self.prompts, self.lock = stage, prompts, threading.Lock()
        self.stopping, self.answers = threading.Event(), []
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        streams = False
        while not self.stopping.is_set():
            streams = not streams
            with self.lock:
                body = {'prompt': self.prompts.take(), 'stream': streams}
            answer = self.stage.serve(body)
            with self.lock:
                self.answers.append((answer, body))

    def served(self):
        with self.lock:
            return len(self.answers)

    def wait_for_more(self, count=3 * CLIENTS):
        goal = self.served() + count
        wait_for('more answers', lambda: self.served() >= goal, 60)

    def wait_for_two_legs(self):
        """The pool serves."""
        def held():
            return sum(self.stage.engines.metrics(index)['kvrouter_sim_kv_pins_fetched_total'] for index in PREFILL)

        before = held()
        wait_for('KV from prefill workers', lambda: held() >= before + CLIENTS, 60)

    def stop_and_check(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        check([(answer, self.stage.expected(body)) for answer, body in self.answers], all_served=True)


@pytest.fixture
def stage(tmp_path):
    roles = [('prefill', 'producer')] * 2 + [('decode', 'consumer')] * 2
    followed = tmp_path / 'workers.yaml'
    stage = Stage(tmp_path, roles, ('--prefill-engines', '2', *LEASE),
                  ('--workers-file', str(followed), '--workers-file-poll-ms=20', '--dispatch-handshake-lease-secs', '0.4', '--outlier-base-secs', '1', '--outlier-max-secs', '1'))
    try:
        yield stage.start_daemon('')
    finally:
        stage.stop()


def rewrite(stage, workers):
    """As tools do it: beside it, then renamed over it."""
    beside = stage.workers_file.with_suffix('.new')
    beside.write_text(stage.workers_yaml(workers))
    os.replace(beside, stage.workers_file)


def test_B42_prefill_pool_that_is_killed_fails_no_request(stage, prompts):
    load = Load(stage, prompts)
    load.wait_for_two_legs()
    for index in PREFILL:
        stage.engines.fault(index, kind='refuse')
    load.wait_for_more()
    for index in PREFILL:
        stage.engines.clear(index)
    load.wait_for_two_legs()
    load.stop_and_check()
    stage.assert_all_quiet()


def test_B42_prefill_pool_that_flaps_fails_no_request(stage, prompts):
    load = Load(stage, prompts)
    for round_number in range(6):
        index = PREFILL[round_number % 2]
        stage.engines.fault(index, kind='refuse')
        load.wait_for_more(CLIENTS)
        stage.engines.restart(index)
        stage.engines.clear(index)
        load.wait_for_more(CLIENTS)
    load.stop_and_check()
    stage.assert_all_quiet()


def test_B43_prefill_pool_emptied_by_a_file_fails_no_request(stage, prompts):
    load = Load(stage, prompts)
    load.wait_for_two_legs()
    for _ in range(2):
        rewrite(stage, [2, 3])
        wait_for('pool empty', lambda: prefill_workers(stage) == 0)
        load.wait_for_more()
        rewrite(stage, [0, 1, 2, 3])
        wait_for('pool back', lambda: prefill_workers(stage) == 2)
        load.wait_for_two_legs()
    load.stop_and_check()
    stage.assert_all_quiet()


def prefill_workers(stage):
    listed = stage.daemon.workers.List(workers_pb2.ListRequest(), timeout=20).workers
    return sum(1 for worker in listed if worker.spec.worker_id in PREFILL)
