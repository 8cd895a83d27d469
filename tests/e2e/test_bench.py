"""kvrouterctl bench against the real daemon: its figures are the daemon's, and nothing of it is left behind."""
import json
import os
import signal
import subprocess

import pytest
from conftest import DEADLINE_S, clean_environment, wait_for


def command(daemon, *arguments):
    return [os.environ['KVROUTERCTL'], '--grpc', daemon.grpc_address, '--http', daemon.http_address, 'bench', *arguments]


def bench(daemon, *arguments):
    return subprocess.run(command(daemon, *arguments), env=clean_environment(), capture_output=True, text=True, timeout=3 * DEADLINE_S)


def nothing_is_left(daemon):
    metrics = daemon.metrics()
    return metrics.one('kvrouter_bookings') == 0 and not any(metrics.all('dynamo_frontend_worker_active_prefill_tokens'))


@pytest.fixture
def daemon(start):
    started = start()
    for worker_id in (1, 2, 3):
        started.register(worker_id)
    return started


@pytest.mark.parametrize('call', ['route', 'stream'])
@pytest.mark.parametrize('form', ['tokens', 'hashes'])
def test_counts_agree_with_the_daemons(daemon, call, form):
    ended = bench(daemon, '--call', call, f'--{form}', '130', '--requests', '200', '--concurrency', '4', '--json')
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    metrics = daemon.metrics()
    assert figures['answered'] == figures['booked'] == figures['freed'] == 200
    assert figures['failed'] == figures['not_freed'] == 0
    assert sum(metrics.all('kvrouter_decisions_total')) == 200
    assert metrics.one('dynamo_component_router_requests_started_total') == 200
    assert metrics.one('dynamo_component_router_requests_total') == 200
    assert metrics.one('kvrouter_isl_tokens_total') == 200 * 130
    assert metrics.one('dynamo_component_router_kv_isl_blocks_total') == figures['isl_blocks'] == 200 * 33
    assert metrics.one('kvrouter_unknown_frees_total') == 0
    assert nothing_is_left(daemon)
    latency = figures['latency_ms']
    assert 0 < latency['p50'] <= latency['p90'] <= latency['p99'] <= latency['p99.9'] <= latency['max']


def test_advice_books_nothing(daemon):
    ended = bench(daemon, '--advise', '--requests', '50')
    assert ended.returncode == 0, ended.stderr
    assert '50 answered' in ended.stdout and 'nothing was booked' in ended.stdout
    metrics = daemon.metrics()
    assert sum(metrics.all('kvrouter_decisions_total')) == 0
    assert metrics.one('kvrouter_advice_total') == 50


def test_an_open_loop_sends_what_its_rate_says(daemon):
    ended = bench(daemon, '--rate', '100', '--seconds', '1', '--concurrency', '32', '--json')
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert figures['answered'] == 100, 'all that were due, late or not'
    assert figures['loop'] == 'open' and figures['late_ms']['max'] <= figures['latency_ms']['max']
    assert nothing_is_left(daemon)


@pytest.mark.parametrize('call', ['route', 'stream'])
def test_a_signal_ends_it_with_figures_and_without_bookings(daemon, call):
    process = subprocess.Popen(command(daemon, '--call', call, '--seconds', '300'), env=clean_environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    wait_for('load', lambda: sum(daemon.metrics().all('kvrouter_decisions_total')) > 20)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert 'stopped by a signal' in err
    assert 'answered after' in out
    assert nothing_is_left(daemon)


def test_without_workers_it_says_so_in_one_line(start):
    ended = bench(start(), '--requests', '5')
    assert ended.returncode == 1 and ended.stdout == ''
    assert ended.stderr.count('\n') == 1
    assert 'has no worker of model default in routing group default' in ended.stderr


def test_a_limit_of_the_daemon_shows_as_its_reason(start):
    daemon = start('--max-prompt-tokens=100')
    daemon.register(1)
    for call in ('route', 'stream'):
        ended = bench(daemon, '--call', call, '--requests', '10', '--tokens', '101')
        assert ended.returncode == 1
        assert '10 of 10 requests failed, most often with RESOURCE_EXHAUSTED (TOO_LARGE)' in ended.stderr
        assert 'RESOURCE_EXHAUSTED  TOO_LARGE' in ended.stdout
    assert nothing_is_left(daemon)


@pytest.mark.parametrize('call', ['route', 'stream'])
def test_a_daemon_that_dies_ends_it(daemon, call):
    process = subprocess.Popen(command(daemon, '--call', call, '--seconds', '300', '--concurrency', '2'), env=clean_environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for('load', lambda: sum(daemon.metrics().all('kvrouter_decisions_total')) > 20)
    daemon.process.kill()
    _, err = process.communicate(timeout=3 * DEADLINE_S)
    assert process.returncode == 1
    assert 'the daemon cannot be reached any more' in err


def test_bad_options_are_one_line(daemon):
    for arguments, text in ((['--concurrency', '0'], '--concurrency must be 1..256'), (['--tokens', '5', '--hashes', '5'], 'not both'),
                            (['--call', 'frob'], '--call'), (['--shared', '1.5'], '--shared must be 0..1')):
        ended = bench(daemon, *arguments)
        assert ended.returncode == 1 and ended.stderr.count('\n') == 1
        assert text in ended.stderr
