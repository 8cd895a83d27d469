"""--engine-poll-ms: what engines say of their load, beside the router's own estimate."""
import json
import os
import subprocess

import pytest
from conftest import wait_for
from test_introspection import configured, new_engine_http  # noqa: F401

POLL = ('--engine-poll-ms=200',)
FIGURES = ('engine_running_requests', 'engine_waiting_requests', 'engine_kv_used_blocks', 'engine_kv_total_blocks', 'drift_blocks', 'drift_requests')


def load_of(daemon, worker_id, dp_rank=0):
    """The figures that have a series, and whether the load is known (None: nothing is shown of the rank)."""
    metrics = daemon.metrics()
    labels = dict(worker_id=str(worker_id), dp_rank=str(dp_rank))
    known = metrics.all('kvrouter_worker_engine_load_known', **labels)
    shown = {name: metrics.all(f'kvrouter_worker_{name}', **labels) for name in FIGURES}
    return {'known': known[0] if known else None, **{name: values[0] for name, values in shown.items() if values}}


def say(engine, *lines):
    engine.metrics = lambda: '\n'.join(lines).encode()


def test_the_drift_between_bookings_and_engines_is_shown(start, new_engine_http):  # noqa: F811
    engine = new_engine_http()
    say(engine, 'vllm:num_requests_running{engine="0"} 3', 'vllm:num_requests_waiting{engine="0"} 2',
        'vllm:kv_cache_usage_perc{engine="0"} 0.1', 'vllm:cache_config_info{block_size="4",engine="0",num_gpu_blocks="200"} 1')
    daemon = start(*POLL, config=configured({'worker_id': 1, 'address': engine.url, 'block_size': 4}))
    daemon.route(range(40), 'r')  # ten blocks
    expected = {'known': 1, 'engine_running_requests': 3, 'engine_waiting_requests': 2, 'engine_kv_used_blocks': 20,
                'engine_kv_total_blocks': 200, 'drift_blocks': 10 - 20, 'drift_requests': 1 - 5}
    wait_for('polled', lambda: load_of(daemon, 1) == expected)
    assert daemon.metrics().one('kvrouter_engine_polls_total', outcome='ok') > 0

    say(engine, 'sglang:num_running_reqs 1', 'sglang:num_queue_reqs 0', 'sglang:num_used_tokens 40', 'sglang:max_total_num_tokens 400')
    wait_for('SGLang', lambda: load_of(daemon, 1) == {'known': 1, 'engine_running_requests': 1, 'engine_waiting_requests': 0,
                                                      'engine_kv_used_blocks': 10, 'engine_kv_total_blocks': 100, 'drift_blocks': 0,
                                                      'drift_requests': 0})
    say(engine, 'something_else 1')
    wait_for('too old', lambda: load_of(daemon, 1) == {'known': 0})
    assert daemon.metrics().one('kvrouter_engine_polls_total', outcome='unreadable') > 0
    daemon.remove(1)
    wait_for('no series outlives its worker', lambda: load_of(daemon, 1) == {'known': None})


def test_ranks_of_one_server_are_told_apart(start, new_engine_http):  # noqa: F811
    engine = new_engine_http()
    say(engine, *[f'vllm:num_requests_running{{engine="{rank}"}} {rank + 5}' for rank in (0, 1)])
    daemon = start(*POLL, config=configured({'worker_id': 1, 'address': engine.url, 'block_size': 4, 'dp_size': 2}))
    for rank in (0, 1):
        wait_for(f'rank {rank}', lambda r=rank: load_of(daemon, 1, r).get('engine_running_requests') == r + 5)


def test_engines_that_hang_hold_up_no_others_and_are_unknown(start, new_engine_http):  # noqa: F811
    engines = [new_engine_http() for _ in range(9)]
    for engine in engines:
        say(engine, 'vllm:num_requests_running 1')
    daemon = start(*POLL,
                   config=configured(*[{'worker_id': i, 'address': e.url, 'block_size': 4} for i, e in enumerate(engines)],
                                     {'worker_id': 9, 'address': 'http://127.0.0.1:1', 'block_size': 4}))
    wait_for('all known', lambda: all(load_of(daemon, i)['known'] == 1 for i in range(9)))
    for engine in engines[:8]:
        engine.hang = True
    wait_for('unknown', lambda: all(load_of(daemon, i)['known'] == 0 for i in range(8)))
    asked = engines[8].asked
    wait_for('the others go on', lambda: engines[8].asked > asked + 10)
    wait_for('and are known', lambda: load_of(daemon, 8)['known'] == 1)
    assert load_of(daemon, 9) == {'known': 0}
    assert daemon.route(range(40)).isl_blocks == 10
    assert daemon.stop() == 0


def test_a_simulated_engine_agrees_with_its_router(start, tmp_path):
    addresses = tmp_path / 'engine.addresses'
    engine = subprocess.Popen([os.environ['KVROUTER_SIM'], 'engine', '--block-size', '4', '--blocks', '500', '--speedup', '1', '--prefill-rate', '20',
                               '--addresses-file', str(addresses)], stdout=subprocess.DEVNULL)
    ask = 'import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"}), timeout=60)'
    client = None
    try:
        wait_for('engine', addresses.exists)
        told = json.loads(addresses.read_text())['engines'][0]
        daemon = start(*POLL, config=configured({'worker_id': 1, 'address': told['http'], 'block_size': 4}))
        wait_for('idle', lambda: load_of(daemon, 1) == {'known': 1, 'engine_running_requests': 0, 'engine_waiting_requests': 0,
                                                        'engine_kv_used_blocks': 0, 'engine_kv_total_blocks': 500, 'drift_blocks': 0,
                                                        'drift_requests': 0})
        tokens = list(range(4000))
        client = subprocess.Popen(['/usr/bin/python3', '-c', ask, told['http'] + '/v1/completions', json.dumps({'prompt': tokens})])
        wait_for('came past the router', lambda: load_of(daemon, 1).get('drift_requests') == -1)
        daemon.route(tokens, 'r')
        wait_for('booked as well', lambda: load_of(daemon, 1).get('drift_requests') == 0)
    finally:
        for process in filter(None, (client, engine)):
            process.kill()
            process.wait()


def test_nobody_is_polled_unless_told(start, new_engine_http):  # noqa: F811
    engine = new_engine_http()
    daemon = start('--introspect-workers', '--introspect-period-ms=50', config=configured({'worker_id': 1, 'address': engine.url, 'block_size': 4}))
    wait_for('asked what it is', lambda: engine.asked > 6)
    assert load_of(daemon, 1) == {'known': None}
    assert daemon.metrics().all('kvrouter_engine_polls_total') == [0, 0, 0]


@pytest.mark.parametrize('both', [False, True])
def test_what_an_engine_is_has_a_period_of_its_own(start, new_engine_http, both):  # noqa: F811
    engine = new_engine_http()
    engine.block_size = 8
    options = ('--introspect-workers', '--introspect-period-ms=100') if both else ()
    daemon = start(*POLL, *options, config=configured({'worker_id': 1, 'address': engine.url, 'block_size': 4}))
    wait_for('polled', lambda: load_of(daemon, 1)['known'] == 1)
    if both:
        wait_for('the sign', lambda: daemon.metrics().all('kvrouter_worker_sign', worker_id='1', reason='block_size') == [1])
    else:
        assert daemon.metrics().all('kvrouter_worker_sign', worker_id='1', reason='block_size') != [1]
