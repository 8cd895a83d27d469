"""The decision log of the real daemon, and kvrouterctl replay of it."""
import json
import os
import pathlib
import random
import re
import shlex
import signal
import struct
import subprocess
import threading

import pytest
from conftest import DEADLINE_S, ROOT, live_events, router_pb2, wait_for

WRITTEN = 'kvrouter_decision_log_records_total'


def ctl(*arguments):
    return subprocess.run([os.environ['KVROUTERCTL'], *arguments], capture_output=True, text=True, timeout=DEADLINE_S)


def replay(log, *settings):
    """The JSON of a replay that succeeds."""
    done = ctl('--json', 'replay', str(log), *(word for setting in settings for word in ('--set', setting)))
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def fleet(daemon, new_engine, workers=4):
    """Workers that hold different parts of a few families of prompts; their engines, to be kept."""
    engines = []
    for number in range(1, workers + 1):
        engine = new_engine()
        engines.append(engine)
        daemon.register(number, events=live_events(engine.endpoint))
        engine.wait_for_subscriber()
        for family in range(3):
            blocks = (5 * number + 7 * family) % 16
            engine.store(range(100 * family, 100 * family + blocks), range(1000 * family, 1000 * family + 4 * blocks))
    wait_for('blocks', lambda: daemon.metrics().one('kvrouter_index_holder_blocks') == 90)
    return engines


def ask(daemon, seed, count):
    """Requests of every kind: shared beginnings, overrides, pins, advice; some end. Returns how many were decided."""
    draw = random.Random(seed)
    live = []
    for number in range(count):
        family = 1000 * draw.randrange(3)
        request = router_pb2.RouteRequest(request_id=f'{seed}-{number}', advise_only=draw.random() < 0.2)
        request.token_ids.ids.extend(range(family, family + draw.randrange(1, 80)))
        if draw.random() < 0.2:
            request.config_override.router_temperature = draw.choice([0, 0.7])
        if draw.random() < 0.2:
            request.config_override.overlap_score_credit = draw.choice([0, 0.5, 2])
        if draw.random() < 0.1:
            request.pinned.worker_id = draw.randrange(1, 5)
        daemon.router.Route(request, timeout=DEADLINE_S)
        if not request.advise_only:
            live.append(request.request_id)
        if len(live) > 30:
            daemon.free(live.pop(draw.randrange(len(live))))
    return count


@pytest.mark.parametrize('temperature', ['0', '0.4'])
def test_a_recorded_run_is_reproduced_and_another_policy_is_not(start, new_engine, tmp_path, temperature):
    log = tmp_path / 'decisions.log'
    daemon = start('--decision-log-path', str(log), '--router-temperature', temperature, '--decision-detail', 'winner')
    engines = fleet(daemon, new_engine)  # noqa: F841: their sockets live as long
    asked = ask(daemon, 1, 400)
    wait_for('the log', lambda: daemon.metrics().one(WRITTEN) == asked)
    assert daemon.metrics().one('kvrouter_decision_log_bytes_total') == log.stat().st_size - 24
    unchanged = replay(log)  # while the daemon runs
    assert (unchanged['decisions'], unchanged['replayed'], unchanged['moved']) == (asked, asked, 0)
    assert unchanged['recorded_overlap_blocks'] == unchanged['overlap_blocks'] > 0
    assert unchanged['recorded_cost_blocks'] == unchanged['cost_blocks']
    assert unchanged['recorded_prefill_max_over_mean'] == unchanged['prefill_max_over_mean'] >= 1
    other = replay(log, 'router_kv_overlap_score_credit=0', 'router-temperature=0')
    assert other['moved'] > 0
    assert other['overlap_blocks'] < other['recorded_overlap_blocks']
    assert daemon.stop() == 0
    assert replay(log) == unchanged


def test_the_next_process_goes_on_in_the_same_file(start, new_engine, tmp_path):
    log = tmp_path / 'decisions.log'
    for process in range(2):
        daemon = start('--decision-log-path', str(log))
        daemon.register(1)
        daemon.register(2)
        ask_some = [daemon.route([1, 2, 3], f'{process}-{i}') for i in range(10)]
        assert len(ask_some) == 10
        assert daemon.stop() == 0
    assert replay(log)['decisions'] == 20


def test_kill_9_loses_the_queue_at_most(start, tmp_path):
    log = tmp_path / 'decisions.log'
    daemon = start('--decision-log-path', str(log))
    daemon.register(1)
    daemon.register(2)
    answered = []

    def caller(number):
        try:
            for i in range(100_000):
                daemon.route([1, 2, 3, 4], f'{number}-{i}')
                answered.append(i)
        except Exception:  # the daemon is gone
            pass

    callers = [threading.Thread(target=caller, args=[i]) for i in range(3)]
    for thread in callers:
        thread.start()
    wait_for('decisions', lambda: len(answered) > 200)
    seen = daemon.metrics().one(WRITTEN)
    daemon.process.send_signal(signal.SIGKILL)
    for thread in callers:
        thread.join()
    before = replay(log)
    assert before['decisions'] >= seen > 0
    assert before['moved'] == 0
    # As if it had died within a write.
    log.write_bytes(log.read_bytes()[:-5])
    cut = ctl('replay', str(log))
    assert cut.returncode == 0
    assert 'ends within a record' in cut.stderr
    again = start('--decision-log-path', str(log))
    again.register(1)
    again.route([1, 2, 3, 4], 'after')
    assert again.stop() == 0
    assert replay(log)['decisions'] == before['decisions'], 'one cut off, one added'


def test_files_are_put_aside_and_the_oldest_goes(start, tmp_path):
    log = tmp_path / 'decisions.log'
    daemon = start('--decision-log-path', str(log), '--decision-log-file-bytes', '4096', '--decision-log-files', '3')
    daemon.register(1)
    daemon.register(2)
    for i in range(400):
        daemon.route([1, 2, 3, 4], f'request-{i}')
    wait_for('the log', lambda: daemon.metrics().one(WRITTEN) == 400)
    assert daemon.metrics().one('kvrouter_decision_log_rotations_total') > 3
    names = sorted(path.name for path in tmp_path.glob('decisions.log*'))
    assert names == ['decisions.log', 'decisions.log.1', 'decisions.log.2']
    assert all((tmp_path / name).stat().st_size <= 4096 for name in names)
    assert 0 < replay(log)['decisions'] < 400
    assert b'request-399' in log.read_bytes()


def test_tokens_are_never_written_and_hashes_only_on_request(start, tmp_path):
    sizes = {}
    for hashes in ('--no-decision-log-hashes', '--decision-log-hashes'):
        log = tmp_path / hashes
        daemon = start('--decision-log-path', str(log), hashes)
        daemon.register(1)
        tokens = [0x01020304 + 77 * i for i in range(64)]
        daemon.route(tokens, 'r')
        assert daemon.stop() == 0
        written = log.read_bytes()
        for width in ('<I', '>I', '<Q'):
            assert not any(struct.pack(width, token) in written for token in tokens)
        sizes[hashes] = len(written)
    assert sizes['--decision-log-hashes'] - sizes['--no-decision-log-hashes'] == 8 * 64 // 4


def test_a_file_that_is_no_log_is_left_alone(run, tmp_path):
    path = tmp_path / 'notes.txt'
    path.write_text('precious')
    refused = run('--decision-log-path', str(path), '--http-listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0')
    assert refused.returncode == 1
    assert 'no decision log' in refused.stderr and str(path) in refused.stderr
    assert path.read_text() == 'precious'


def test_the_example_of_the_documentation_runs(start, new_engine, tmp_path):
    page = pathlib.Path(ROOT, 'docs/operations.md').read_text()
    block = re.search(r'```\n\$ (kvrouterctl replay [^\n]*)\n(.*?)```', page, re.S)
    words = shlex.split(block[1])
    log = tmp_path / 'decisions.log'
    daemon = start('--decision-log-path', str(log))
    engines = fleet(daemon, new_engine)  # noqa: F841: their sockets live as long
    asked = ask(daemon, 2, 100)
    wait_for('the log', lambda: daemon.metrics().one(WRITTEN) == asked)
    done = ctl(*[str(log) if word.startswith('/') else word for word in words[1:]])
    assert done.returncode == 0, done.stderr
    titles = [line[:17].strip() for line in block[2].splitlines() if 'recorded' in line or line.startswith(('decisions', 'would', 'not by'))]
    assert len(titles) == 6
    assert titles == [line[:17].strip() for line in done.stdout.splitlines()[-6:]]
    assert done.stdout.splitlines()[0].split() == block[2].splitlines()[0].split()
