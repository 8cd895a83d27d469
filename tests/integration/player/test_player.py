"""kvrouter-sim play: figures that can be worked out by hand, and runs in which something breaks."""
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

import pytest

BIN = pathlib.Path(os.environ['KVROUTER_BIN'])
DEADLINE_S = 30


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f'not seen within {DEADLINE_S} s: {what}')


class Fleet:
    """Engines and a router in front of them."""

    def __init__(self, directory, *engine_options):
        self.directory = directory
        self.processes = []
        self.engines = self.start('kvrouter-sim', 'engine', '--block-size', '4', *engine_options, '--workers-file',
                                  directory / 'workers.yaml', '--addresses-file', directory / 'engines.json')
        wait_for('engines', (directory / 'engines.json').exists)
        self.daemon = self.start('kvrouterd', '--config', directory / 'workers.yaml', '--http-listen', '127.0.0.1:0',
                                 '--grpc-listen', '127.0.0.1:0', '--addresses-file', directory / 'daemon.addresses')
        wait_for('router', (directory / 'daemon.addresses').exists)
        lines = (directory / 'daemon.addresses').read_text().split()
        self.addresses = dict(line.split('=', 1) for line in lines)
        wait_for('readiness', self.ready)

    def start(self, program, *arguments):
        log = open(self.directory / f'{program}.log', 'w')
        process = subprocess.Popen([BIN / program, *arguments], stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def get(self, path):
        return urllib.request.urlopen(f'http://{self.addresses["http"]}{path}', timeout=5).read().decode()

    def ready(self):
        try:
            return self.get('/ready') is not None
        except OSError:
            return False

    def play_command(self, rows, *options):
        trace = self.directory / 'trace.jsonl'
        trace.write_text(''.join(json.dumps(row) + '\n' for row in rows))
        return [BIN / 'kvrouter-sim', 'play', trace, '--block-size', '4', '--router', self.addresses['grpc'], '--router-http',
                self.addresses['http'], '--json', self.directory / 'row.json', *options]

    def play(self, rows, *options):
        done = subprocess.run(self.play_command(rows, *options), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads((self.directory / 'row.json').read_text())[0]

    def live_bookings(self):
        # A connect by gRPC can fail now and then on a busy machine ("No such file or directory"): ask again, not for ever.
        for attempts_left in (2, 1, 0):
            loads = subprocess.run([BIN / 'kvrouterctl', '--grpc', self.addresses['grpc'], '--json', 'loads'],
                                   capture_output=True, text=True, timeout=30, check=attempts_left == 0)
            if loads.returncode == 0:
                break
        return sum(int(t.get('active_requests', 0)) for p in json.loads(loads.stdout)['partitions'] for t in p['targets'])

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def fleet(tmp_path):
    fleets = []

    def start(*engine_options):
        fleets.append(Fleet(tmp_path, *engine_options))
        return fleets[-1]

    yield start
    for one in fleets:
        one.stop()


def row(at_ms, blocks, tail_tokens=0, output=1):
    return {'timestamp': at_ms, 'input_length': 4 * len(blocks) + tail_tokens, 'output_length': output, 'hash_ids': blocks}


# Far enough apart, in real time, for each request to be answered and its blocks to be seen before the next.
FOLLOWING = [row(0, [1, 2, 3], 2), row(2000, [1, 2, 3, 4], 2), row(4000, [1, 2, 9], 1), row(6000, [5], 0)]


def test_figures_of_four_requests_in_a_row(fleet):
    figures = fleet('--engines', '1', '--prefill-rate', '1000').play(FOLLOWING)
    # Overlap 0, 3, 2, 0 blocks of 4 tokens; prompts of 14, 18, 13, 4 tokens; 4, 5, 4, 1 blocks, partial tails included.
    assert figures['router_token_weighted'] == pytest.approx(20 / 49)
    assert figures['engine_token_weighted'] == pytest.approx(20 / 49)
    assert figures['router_block_weighted'] == pytest.approx(5 / 14)
    assert figures['full_block_hit'] == pytest.approx(5 / 11)
    assert figures['request_weighted'] == pytest.approx((0 + 3 / 5 + 2 / 4 + 0) / 4)
    assert figures['max_over_mean_prefill'] == 1
    assert figures['ttft_p99_s'] >= 0.014  # 14 tokens at 1,000 a second
    assert figures['details']['completed'] == 4 and figures['details']['failed'] == 0
    assert (figures['trace'], figures['policy'], figures['mode']) == ('trace', 'kv', 'live')


def test_pinned_policies_are_counted_by_the_router(fleet):
    two = fleet('--engines', '2', '--prefill-rate', '1000')
    figures = two.play(FOLLOWING, '--policy', 'round_robin')
    # Rows 0 and 2 go to the first engine, 1 and 3 to the second: only row 2 finds blocks, two of them.
    assert figures['router_token_weighted'] == pytest.approx(8 / 49)
    assert figures['engine_token_weighted'] == pytest.approx(8 / 49)
    assert figures['max_over_mean_prefill'] == pytest.approx(22 / 20.5)
    assert two.live_bookings() == 0


def test_speedup_is_in_the_times(fleet):
    figures = fleet('--engines', '1', '--prefill-rate', '10', '--speedup', '20').play([row(0, [1, 2], 2)], '--speedup', '20')
    assert 1.0 <= figures['ttft_p50_s'] < 10  # 10 tokens at 10 model tokens a second, in 0.05 real seconds
    assert figures['details']['wall_s'] < 1.0


def test_engine_that_dies_fails_its_requests_and_frees_their_bookings(fleet):
    one = fleet('--engines', '1', '--prefill-rate', '1000')
    rows = [row(50 * i, [i], 0, output=500) for i in range(20)]
    player = subprocess.Popen(one.play_command(rows), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for('bookings', lambda: one.live_bookings() > 5)
    one.engines.kill()
    _, errors = player.communicate(timeout=60)
    assert player.returncode == 1
    assert '127.0.0.1' in errors
    wait_for('no booking left', lambda: one.live_bookings() == 0)


def test_interrupt_ends_the_run(fleet):
    one = fleet('--engines', '1')
    player = subprocess.Popen(one.play_command([row(0, [1], 0, output=5000), row(60_000, [2])]), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    wait_for('booking', lambda: one.live_bookings() == 1)
    player.send_signal(signal.SIGINT)
    _, errors = player.communicate(timeout=10)
    assert player.returncode == 1 and 'stopped by a signal' in errors


def test_wrong_block_size_is_refused(fleet):
    one = fleet('--engines', '1')
    command = one.play_command([row(0, [1], 0)])
    command[command.index('--block-size') + 1] = '2'
    (one.directory / 'trace.jsonl').write_text(json.dumps({'timestamp': 0, 'input_length': 2, 'output_length': 1, 'hash_ids': [1]}))
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and 'blocks of 4 tokens' in done.stderr
