"""Routers that end and start again, with engines that live on or do not: what is restored is what the engines prove."""
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import ROOT, wait_for

RESTORED = 'kvrouter_snapshot_restored_feeds_total'
NO_WORKERS = 'log_level: info\n'


class Engine:
    """tests/integration/zmq/fake_engine.py as a process of its own."""

    def __init__(self):
        script = ROOT / 'tests/integration/zmq/fake_engine.py'
        self.process = subprocess.Popen(['/usr/bin/python3', '-B', str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addresses = self('bind')

    def __call__(self, op, **arguments):
        self.process.stdin.write(json.dumps({'op': op, **arguments}) + '\n')
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.close()


class Fleet:
    """One worker whose engine is `engine`, and routers that follow each other on one snapshot."""

    def __init__(self, start, engine, folder):
        self.start_daemon = start
        self.engine = engine
        self.snapshot = folder / 'kv.snapshot'

    def worker(self, **fields):
        worker = {'worker_id': 1, 'address': '"http://127.0.0.1:1"', 'block_size': 4, 'kv_events_endpoint': self.engine.addresses['live'],
                  'replay_endpoint': self.engine.addresses['replay'], **fields}
        return 'workers:\n  - ' + '\n    '.join(f'{k}: {v}' for k, v in worker.items() if v is not None) + '\n'

    def start(self, *arguments, config=None):
        return self.start_daemon('--snapshot-path', str(self.snapshot), '--replay-timeout-ms=20000', *arguments,
                                 config=self.worker() if config is None else config)


@pytest.fixture
def fleet(start, engine, tmp_path):
    return Fleet(start, engine, tmp_path)


def state_of(daemon):
    return {labels['state'] for name, labels, value in daemon.metrics().series if name == 'kvrouter_feed_state' and value == 1}


def wait_for_state(daemon, state):
    wait_for(f'feed {state}', lambda: state_of(daemon) == {state})


def overlap(daemon, blocks, first=100):
    """Of the sequence that `chain` makes of blocks `first` and on."""
    return daemon.route(range(first * 4, (first + blocks) * 4), advise_only=True).overlap_blocks


def kill(daemon):
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()


def outcomes(daemon):
    return {labels['outcome']: value for name, labels, value in daemon.metrics().series if name == RESTORED and value > 0}


def wait_for_outcome(daemon, outcome):
    wait_for(outcome, lambda: outcomes(daemon) == {outcome: 1})


def test_sigterm_and_start_again(fleet, engine):
    engine('chain', first=100, count=1000)
    first = fleet.start('--snapshot-interval-secs=0')
    wait_for('1000 blocks', lambda: overlap(first, 1000) == 1000)
    wait_for_state(first, 'live')
    assert first.stop() == 0
    assert fleet.snapshot.exists() and not fleet.snapshot.with_suffix('.snapshot.tmp').exists()

    # The engine has forgotten all but the last batch: what the next router knows, it knows from the snapshot.
    engine('forget_before', sequence=engine('status')['sequence'] - 1)
    second = fleet.start()
    wait_for_outcome(second, 'proved')
    wait_for_state(second, 'live')
    assert overlap(second, 1000) == 1000
    metrics = second.metrics()
    assert metrics.one('kvrouter_snapshot_restored_blocks_total', outcome='proved') == 1000
    assert metrics.one('kvrouter_snapshot_loads_total', result='ok') == 1
    assert metrics.one('kvrouter_snapshot_bytes') / 1000 < 18
    assert metrics.one('kvrouter_feed_restarts_total') == 0
    # And it goes on: children of restored blocks and their removal mean what they meant.
    engine('publish', events=[{'store': [1100], 'parent': 1099, 'tokens': list(range(4400, 4404)), 'block_size': 4}])
    wait_for('a child', lambda: overlap(second, 1001) == 1001)
    engine('publish', events=[{'remove': [600]}])
    wait_for('a hole', lambda: overlap(second, 1001) == 500)


def test_kill_9_after_a_snapshot_and_events_after_it(fleet, engine):
    engine('chain', first=100, count=500)
    first = fleet.start('--snapshot-interval-secs=1')
    wait_for('500 blocks saved', lambda: first.metrics().all('kvrouter_snapshot_blocks') == [500])
    engine('publish', events=[{'remove': [400]}])  # whether it is in a snapshot yet does not matter
    wait_for('a hole', lambda: overlap(first, 500) == 300)
    kill(first)
    engine('publish', events=[{'remove': [200]}], send=False)
    engine('publish', events=[{'store': [7000], 'tokens': list(range(28000, 28004)), 'block_size': 4}], send=False)

    second = fleet.start()
    wait_for_outcome(second, 'proved')
    wait_for_state(second, 'live')
    assert overlap(second, 500) == 100
    assert overlap(second, 1, first=7000) == 1
    engine('publish', events=[{'store': [200], 'parent': 199, 'tokens': list(range(800, 804)), 'block_size': 4}])
    wait_for('a hole closed', lambda: overlap(second, 500) == 300)
    engine('publish', events=[{'store': [400], 'parent': 399, 'tokens': list(range(1600, 1604)), 'block_size': 4}])
    wait_for('the other one, too', lambda: overlap(second, 500) == 500)


def test_kill_9_in_the_middle_of_a_write(fleet, engine):
    blocks = 60_000
    engine('chain', first=100, count=blocks)
    partial = fleet.snapshot.with_suffix('.snapshot.tmp')
    for _ in range(40):
        daemon = fleet.start('--snapshot-interval-secs=1')
        wait_for('a whole one', lambda: daemon.metrics().all('kvrouter_snapshot_blocks') == [blocks])
        end = time.monotonic() + 30
        while not partial.exists() and time.monotonic() < end:
            pass
        kill(daemon)
        if partial.exists():
            break
    assert partial.exists(), 'never caught in the middle of a write'
    whole = fleet.snapshot.read_bytes()
    engine('forget_before', sequence=engine('status')['sequence'] - 1)
    after = fleet.start('--snapshot-interval-secs=0')
    wait_for_outcome(after, 'proved')
    wait_for_state(after, 'live')
    assert overlap(after, blocks) == blocks
    assert fleet.snapshot.read_bytes() == whole
    assert after.stop() == 0
    assert not partial.exists()


@pytest.mark.parametrize('damage', ['flipped', 'cut', 'foreign', 'empty'])
def test_a_damaged_file_is_refused_with_one_line_and_the_start_is_cold(fleet, engine, damage):
    engine('chain', first=100, count=300)
    first = fleet.start()
    wait_for_state(first, 'live')
    first.stop()
    whole = fleet.snapshot.read_bytes()
    middle = len(whole) // 2
    fleet.snapshot.write_bytes({'flipped': whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:], 'cut': whole[:middle],
                                'foreign': b'PK\x03\x04' + bytes(range(256)) * 8, 'empty': b''}[damage])
    second = fleet.start()
    wait_for_state(second, 'live')
    wait_for('said', lambda: 'event=snapshot_' in second.log.read_text())
    lines = [line for line in second.log.read_text().splitlines() if 'event=snapshot_' in line]
    assert len(lines) == 1 and 'event=snapshot_refused' in lines[0] and str(fleet.snapshot) in lines[0], lines
    assert second.metrics().one('kvrouter_snapshot_loads_total', result='refused') == 1
    assert overlap(second, 300) == 300, 'by replay'
    assert outcomes(second) == {}
    second.stop()
    third = fleet.start()
    wait_for_outcome(third, 'proved')


def test_an_engine_that_restarted_meanwhile_is_not_believed_to_hold_its_old_blocks(fleet, engine):
    engine('chain', first=100, count=300)
    first = fleet.start()
    wait_for_state(first, 'live')
    first.stop()
    engine('restart')
    engine('fill', first=9000, count=10)
    second = fleet.start()
    wait_for_outcome(second, 'engine_restarted')
    wait_for_state(second, 'live')
    assert overlap(second, 300) == 0
    assert overlap(second, 1, first=9009) == 1
    assert second.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 10
    wait_for('said', lambda: 'event=snapshot_dropped outcome=engine_restarted' in second.log.read_text())


def test_an_engine_that_is_away_proves_nothing_and_keeps_its_place_in_the_next_snapshot(fleet, engine):
    engine('chain', first=100, count=300)
    first = fleet.start()
    wait_for_state(first, 'live')
    first.stop()
    os.kill(engine.process.pid, signal.SIGSTOP)  # its kernel accepts connections, it says nothing
    try:
        second = fleet.start('--ready-bound-ms=200')
        wait_for('ready all the same', lambda: second.get('/ready')[0] == 200)
        assert overlap(second, 300) == 0
        assert second.stop() == 0
    finally:
        os.kill(engine.process.pid, signal.SIGCONT)
    third = fleet.start()
    wait_for_outcome(third, 'proved')
    wait_for('300 blocks', lambda: overlap(third, 300) == 300)


def test_a_worker_that_does_not_come_back_is_given_up(fleet, engine):
    engine('chain', first=100, count=300)
    first = fleet.start()
    wait_for_state(first, 'live')
    first.stop()
    second = fleet.start('--snapshot-worker-wait-secs=1', config=NO_WORKERS)
    assert second.metrics().one('kvrouter_snapshot_waiting_feeds') == 1
    wait_for_outcome(second, 'worker_absent')
    metrics = second.metrics()
    assert metrics.one('kvrouter_snapshot_waiting_feeds') == 0
    assert metrics.one('kvrouter_snapshot_waiting_bytes') == 0


def test_a_worker_that_callers_register_is_restored_when_it_comes(fleet, engine):
    engine('chain', first=100, count=300)
    first = fleet.start()
    wait_for_state(first, 'live')
    first.stop()
    between = fleet.start(config=NO_WORKERS)  # ends before anybody registered: nothing of it is lost
    assert between.metrics().one('kvrouter_snapshot_waiting_feeds') == 1
    between.stop()
    engine('forget_before', sequence=engine('status')['sequence'] - 1)
    from kvrouter.v1 import workers_pb2
    last = fleet.start(config=NO_WORKERS)
    last.register(1, events={0: workers_pb2.EventEndpoints(live=engine.addresses['live'], replay=engine.addresses['replay'])})
    wait_for_outcome(last, 'proved')
    wait_for('300 blocks', lambda: overlap(last, 300) == 300)


@pytest.mark.parametrize('change, outcome', [({'block_size': 8}, 'other_blocks'), ({'replay_endpoint': None}, 'no_replay'),
                                             ({'is_eagle': 'true'}, 'other_blocks')])
def test_what_cannot_be_proved_is_dropped_and_counted(fleet, engine, change, outcome):
    engine('chain', first=100, count=300)
    first = fleet.start()
    wait_for_state(first, 'live')
    first.stop()
    second = fleet.start(config=fleet.worker(**change))
    wait_for_outcome(second, outcome)
    assert second.metrics().one('kvrouter_snapshot_restored_blocks_total', outcome=outcome) == 300


def test_a_rank_without_replay_is_not_saved(fleet, engine):
    daemon = fleet.start(config=fleet.worker(replay_endpoint=None))
    engine('wait_subscribed')
    engine('fill', first=100, count=5, send=True)
    wait_for('5 blocks', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 5)
    assert daemon.stop() == 0
    again = fleet.start()
    metrics = again.metrics()
    assert metrics.one('kvrouter_snapshot_loads_total', result='ok') == 1
    assert metrics.one('kvrouter_snapshot_feeds') == 0


def test_a_snapshot_that_cannot_be_written_stops_nothing(start, engine, tmp_path):
    daemon = start('--snapshot-path', str(tmp_path / 'missing' / 'kv.snapshot'), '--snapshot-interval-secs=1')
    wait_for('counted', lambda: daemon.metrics().one('kvrouter_snapshot_writes_total', result='io_error') >= 1)
    wait_for('said', lambda: 'event=snapshot_not_written' in daemon.log.read_text())
    daemon.register(1)
    assert daemon.route(range(10)).overlap_blocks == 0
    assert daemon.stop() == 0
