"""deploy/demo: what it shows, and that it cleans up behind itself."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

DEMO = ['deploy/demo', '--bin', os.environ['KVROUTER_BIN'], '--http-listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0']
COLUMNS = ['trace', 'policy', 'mode', 'router_token_weighted', 'engine_token_weighted', 'router_block_weighted',
           'full_block_hit', 'request_weighted', 'max_over_mean_prefill', 'ttft_p50_s', 'ttft_p99_s']


def run(tmp_path, *options, timeout):
    table = tmp_path / 'table.json'
    done = subprocess.run([*DEMO, '--json', str(table), *options], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, 'TMPDIR': str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(table.read_text())
    return done, {(r['trace'], r['policy'], r['mode']): r for r in rows}


def check(done, rows, live_tolerance):
    for row in rows.values():
        assert [name for name in COLUMNS if row[name] is None] == []
        assert 0 <= row['request_weighted'] <= 1 and row['max_over_mean_prefill'] >= 1
    kv, robin = rows['skewed_isl', 'kv', 'live'], rows['skewed_isl', 'round_robin', 'live']
    for row in (kv, robin):
        assert row['details']['failed'] == 0
        assert row['details']['completed'] == row['details']['requests']
    assert abs(kv['router_token_weighted'] - kv['engine_token_weighted']) <= live_tolerance
    assert kv['engine_token_weighted'] > robin['engine_token_weighted']
    for trace in ('skewed_isl', 'mooncake_conversation'):
        assert rows[trace, 'kv', 'virtual']['full_block_hit'] > 1.5 * rows[trace, 'round_robin', 'virtual']['full_block_hit']
    assert 'describe the same fleet' in done.stdout
    assert 'What to try next' in done.stdout
    return kv, robin


def processes_of(directory):
    """Programs that run with files in `directory`."""
    found = []
    for command_line in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        try:
            arguments = command_line.read_bytes().split(b'\0')
        except OSError:  # it ended meanwhile
            continue
        if os.environ['KVROUTER_BIN'].encode() in arguments[0] and any(str(directory).encode() in a for a in arguments):
            found.append(arguments)
    return found


def test_quick_demo_ends_with_the_whole_table(tmp_path):
    done, rows = run(tmp_path, '--quick', '400', '--speedup', '20', timeout=280)
    # A short run on a busy machine: blocks are seen late by more model time than at the default speed.
    check(done, rows, live_tolerance=0.05)
    assert processes_of(tmp_path) == []
    assert [p for p in os.listdir(tmp_path) if p.startswith('kvrouter-demo')] == []  # nothing left behind


def test_full_length_router_and_engines_agree(tmp_path):
    done, rows = run(tmp_path, timeout=300)  # the demo promises to be done in five minutes
    kv, robin = check(done, rows, live_tolerance=0.02)
    assert kv['engine_token_weighted'] >= 1.5 * robin['engine_token_weighted']


def test_taken_port_is_named(tmp_path):
    with socket.socket() as holder:
        holder.bind(('127.0.0.1', 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = subprocess.run([*DEMO, '--http-listen', f'127.0.0.1:{port}'], capture_output=True, text=True, timeout=60,
                              env={**os.environ, 'TMPDIR': str(tmp_path)})
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert processes_of(tmp_path) == []


def test_unknown_option_is_named(tmp_path):
    done = subprocess.run(['deploy/demo', '--fast'], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "'--fast'" in done.stderr


@pytest.mark.parametrize('stop', [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_no_process_and_no_file(tmp_path, stop):
    demo = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            env={**os.environ, 'TMPDIR': str(tmp_path)})
    for line in demo.stdout:
        if line.startswith('while it runs'):
            break
    time.sleep(0.5)
    os.killpg(demo.pid, stop) if stop == signal.SIGINT else demo.send_signal(stop)  # as a terminal does; as a supervisor does
    assert demo.wait(30) == 128 + stop
    assert processes_of(tmp_path) == []
    assert [p for p in os.listdir(tmp_path) if p.startswith('kvrouter-demo')] == []
