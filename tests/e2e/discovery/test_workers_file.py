"""--workers-file: a list of workers that is followed while the daemon runs."""
import json
import os
import threading

import pytest
from conftest import DEADLINE_S, wait_for

TOKENS = list(range(64))


def worker(number, **fields):
    return {'worker_id': number, 'address': f'http://10.0.0.{number}:8000', 'block_size': 4, **fields}


def write_whole(path, workers):
    """As tools do it: beside it, then renamed over it."""
    temporary = path.with_suffix('.new')
    temporary.write_text(json.dumps({'workers': workers}))
    os.replace(temporary, path)


@pytest.fixture
def follow(start, tmp_path):
    """follow(workers) -> (daemon, path)"""

    def call(workers, **more):
        path = tmp_path / 'workers.json'
        write_whole(path, workers)
        return start('--workers-file', str(path), '--workers-file-poll-ms=20', **more), path

    return call


def listed(daemon):
    return {w['worker_id']: w for w in json.loads(daemon.get('/workers')[1])}


def wait_for_workers(daemon, expected):
    wait_for(f'workers {expected}', lambda: sorted(listed(daemon)) == sorted(expected))


def updates(daemon, outcome):
    return daemon.metrics().one('kvrouter_discovery_updates_total', source='workers_file', outcome=outcome)


class Prober:
    """Asks for a worker without a pause; every answer must name one of those allowed at that time."""

    def __init__(self, daemon, prompt=TOKENS):
        self.daemon, self.prompt = daemon, prompt
        self.failures, self.answers = [], 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopped.is_set():
            try:
                self.daemon.route(self.prompt, advise_only=True)
                self.answers += 1
            except Exception as error:  # every kind counts
                self.failures.append(repr(error))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def test_replaced_file_is_followed_without_an_empty_moment(follow):
    daemon, path = follow([worker(1), worker(2)])
    wait_for_workers(daemon, [1, 2])
    with Prober(daemon) as prober:
        for generation in range(3, 9):
            write_whole(path, [worker(generation), worker(generation + 1)])
            wait_for_workers(daemon, [generation, generation + 1])
    assert prober.answers > 0 and prober.failures == []
    assert daemon.metrics().one('kvrouter_discovery_workers', source='workers_file', state='registered') == 2
    assert daemon.metrics().one('kvrouter_discovery_current', source='workers_file') == 1


def test_changed_address_is_in_the_next_answer(follow):
    daemon, path = follow([worker(1)])
    write_whole(path, [worker(1, address='http://10.1.1.1:8000', dp_size=2)])
    wait_for('new address', lambda: listed(daemon)[1]['endpoint'] == 'http://10.1.1.1:8000')
    assert daemon.route(TOKENS, advise_only=True).address == 'http://10.1.1.1:8000'


@pytest.mark.parametrize('text', ['', 'workers: [', '{"workers": [{"worker_id": 1}]}', '{"workers": [{"worker_id": 1, "adress": "x"}]}'])
def test_wrong_file_keeps_the_old_set(follow, text):
    daemon, path = follow([worker(1), worker(2)])
    before = updates(daemon, 'invalid')
    path.write_text(text)
    wait_for('counted as invalid', lambda: updates(daemon, 'invalid') > before)
    assert sorted(listed(daemon)) == [1, 2]
    assert daemon.metrics().one('kvrouter_discovery_current', source='workers_file') == 0
    wait_for('log line', lambda: 'event=workers_file_kept_old_set' in daemon.log.read_text())
    write_whole(path, [worker(3)])
    wait_for_workers(daemon, [3])
    assert daemon.metrics().one('kvrouter_discovery_current', source='workers_file') == 1


def test_vanished_file_keeps_the_old_set(follow):
    daemon, path = follow([worker(1)])
    os.remove(path)
    wait_for('counted as unreadable', lambda: updates(daemon, 'unreadable') == 1)
    assert sorted(listed(daemon)) == [1]
    write_whole(path, [worker(1)])
    wait_for('current again', lambda: daemon.metrics().one('kvrouter_discovery_current', source='workers_file') == 1)


def test_config_map_volume_is_followed_through_its_links(start, tmp_path):
    """The kubelet's layout: workers.yaml -> ..data/workers.yaml, ..data -> ..TIMESTAMP; it swaps ..data by rename."""
    volume = tmp_path / 'volume'

    def publish(name, workers):
        directory = volume / name
        directory.mkdir(parents=True)
        (directory / 'workers.yaml').write_text(json.dumps(workers))
        os.symlink(name, volume / '..data_tmp')
        os.replace(volume / '..data_tmp', volume / '..data')

    publish('..2026_1', [worker(1)])
    os.symlink('..data/workers.yaml', volume / 'workers.yaml')
    daemon = start('--workers-file', str(volume / 'workers.yaml'), '--workers-file-poll-ms=20')
    wait_for_workers(daemon, [1])
    publish('..2026_2', [worker(1), worker(2)])
    wait_for_workers(daemon, [1, 2])


def test_wrong_file_at_the_start_is_refused_with_one_line(run, tmp_path):
    path = tmp_path / 'workers.yaml'
    for arguments in (['--check-config'], []):
        finished = run('--workers-file', str(path), *arguments)
        assert finished.returncode == 1
        assert finished.stderr.strip().splitlines() == [f'kvrouterd: cannot read {path}: No such file or directory']


def test_sources_and_callers_keep_their_own_workers(follow):
    config = 'workers: [{worker_id: 1, address: "http://config:1", block_size: 4}]\n'
    daemon, path = follow([worker(1), worker(2)], config=config)
    daemon.register(5)
    assert listed(daemon)[1]['endpoint'] == 'http://config:1'
    assert daemon.metrics().one('kvrouter_discovery_workers', source='workers_file', state='conflict') == 1
    write_whole(path, [worker(5), worker(6)])
    wait_for_workers(daemon, [1, 5, 6])
    assert listed(daemon)[5]['endpoint'] == 'http://127.0.0.1:5', 'the caller was first'
    write_whole(path, [])
    wait_for_workers(daemon, [1, 5])
    assert daemon.metrics().one('kvrouter_discovery_conflicts_total', source='workers_file') == 2


def test_daemon_stops_in_time_while_it_follows(follow):
    daemon, _ = follow([worker(1)])
    assert daemon.stop(DEADLINE_S) == 0
