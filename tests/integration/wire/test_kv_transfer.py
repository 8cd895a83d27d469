"""KV that moves between engines: what a dispatcher sees of producers and consumers."""
import concurrent.futures
import time

import pytest
import requests

from conftest import wait_for

BATCHING = ('--service', 'batching')
ASK_PRODUCER = {'do_remote_decode': True, 'do_remote_prefill': False, 'remote_engine_id': None,
                'remote_block_ids': None, 'remote_host': None, 'remote_port': None}
PROMPT = list(range(500, 523))  # five blocks of four and three tokens


def produce(engine, index=0, prompt=PROMPT, **members):
    return engine.complete(prompt, index, max_tokens=1, kv_transfer_params=ASK_PRODUCER, **members)


def consume(engine, handshake, index=1, prompt=PROMPT, **members):
    return engine.complete(prompt, index, max_tokens=8, kv_transfer_params=handshake, **members)


def kv(engine, index, name):
    return engine.metrics(index)[f'kvrouter_sim_kv_{name}']


def test_producer_hands_over_and_consumer_computes_only_the_last_token(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both')
    handshake = produce(engine).json()['kv_transfer_params']
    assert handshake['do_remote_prefill'] is True and handshake['do_remote_decode'] is False
    assert len(handshake['remote_block_ids'][0]) == 6 and handshake['remote_num_tokens'] == len(PROMPT)
    assert f"http://{handshake['remote_host']}:{handshake['remote_port']}" == engine.engines[0]['http']
    assert kv(engine, 0, 'pinned_requests') == 1 and kv(engine, 0, 'pinned_blocks') == 6
    answer = consume(engine, handshake).json()
    assert answer['usage']['prompt_tokens_details']['cached_tokens'] == len(PROMPT)
    assert answer['kv_transfer_params'] is None
    assert answer['choices'][0]['text'] == engine.complete(PROMPT, max_tokens=8).json()['choices'][0]['text']
    wait_for('pins given back', lambda: kv(engine, 0, 'pinned_blocks') == 0)
    consumer = engine.metrics(1)
    assert consumer['kvrouter_sim_kv_pulled_blocks_total'] == 6
    assert consumer['kvrouter_sim_computed_prefill_tokens_total'] == 1
    assert consumer['vllm:external_prefix_cache_hits_total'] == len(PROMPT)
    assert kv(engine, 0, 'pins_fetched_total') == 1 and kv(engine, 0, 'pins_expired_total') == 0
    # The consumer has the prefix now.
    assert engine.complete(PROMPT, 1).json()['usage']['prompt_tokens_details']['cached_tokens'] == 20


def test_flat_block_ids_and_stream_of_the_consumer(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both', '--kv-block-ids', 'flat')
    handshake = produce(engine).json()['kv_transfer_params']
    assert len(handshake['remote_block_ids']) == 6 and isinstance(handshake['remote_block_ids'][0], int)
    lines = [line for line in consume(engine, handshake, stream=True).iter_lines() if line]
    assert lines[-1] == b'data: [DONE]'
    assert kv(engine, 1, 'pulled_blocks_total') == 6


def test_lease_ends_and_pull_then_fails_by_policy(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both', '--kv-lease-ms', '100')
    handshake = produce(engine).json()['kv_transfer_params']
    wait_for('lease ended', lambda: kv(engine, 0, 'pins_expired_total') == 1)
    assert kv(engine, 0, 'pinned_blocks') == 0 and engine.metrics()['vllm:kv_cache_usage_perc'] == 0
    refused = consume(engine, handshake)
    assert refused.status_code == 500 and 'KV load failure' in refused.json()['error']['message']
    assert kv(engine, 1, 'pull_failures_total') == 1


def test_recompute_policy_serves_all_the_same(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both', '--kv-load-failure-policy', 'recompute')
    handshake = produce(engine).json()['kv_transfer_params']
    answer = consume(engine, {**handshake, 'remote_engine_id': 'of a former life'}).json()
    assert answer['usage']['prompt_tokens_details']['cached_tokens'] == 0 and len(answer['choices'][0]['text']) == 8


def test_failure_after_an_early_head_is_an_event(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both', '--early-stream-head')
    handshake = produce(engine).json()['kv_transfer_params']
    response = consume(engine, {**handshake, 'remote_request_id': 'other'}, stream=True)
    assert response.status_code == 200
    lines = [line.decode() for line in response.iter_lines() if line]
    assert '"error"' in lines[0] and lines[1] == 'data: [DONE]'


def test_engines_of_different_versions_do_not_exchange(start_engine):
    source = start_engine(*BATCHING, '--kv-role', 'both')
    target = start_engine(*BATCHING, '--kv-role', 'both', '--kv-compatibility', '2')
    handshake = produce(source).json()['kv_transfer_params']
    refused = consume(target, handshake, index=0)
    assert refused.status_code == 500 and 'compatibility' in refused.json()['error']['message']


def test_source_that_is_gone_fails_the_pull(start_engine):
    source = start_engine(*BATCHING, '--kv-role', 'both')
    target = start_engine(*BATCHING, '--kv-role', 'both')
    handshake = produce(source).json()['kv_transfer_params']
    source.stop()
    assert consume(target, handshake, index=0).status_code == 500


@pytest.mark.parametrize('missing', ['remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port',
                                     'remote_block_ids'])
def test_incomplete_handshake_hangs_until_the_client_leaves(start_engine, missing):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both')
    handshake = {**produce(engine).json()['kv_transfer_params'], missing: None}
    body = {'prompt': PROMPT, 'max_tokens': 8, 'kv_transfer_params': handshake}
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.post(engine.engines[1]['http'] + '/v1/completions', json=body, timeout=0.5)
    wait_for('aborted', lambda: engine.metrics(1)['kvrouter_sim_requests_aborted_total'] == 1)
    assert kv(engine, 1, 'handshakes_incomplete_total') == 1
    assert engine.metrics(1)['vllm:num_requests_waiting'] == 0


def test_roles_decide_what_is_heeded(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--prefill-engines', '1')
    handshake = produce(engine, 0).json()['kv_transfer_params']
    assert handshake['remote_host']
    assert produce(engine, 1).json()['kv_transfer_params'] is None
    assert consume(engine, handshake, 1).json()['usage']['prompt_tokens_details']['cached_tokens'] >= 20
    plain = start_engine()
    assert produce(plain).json()['kv_transfer_params'] is None
    assert consume(plain, handshake, 0).status_code == 200


def test_stream_of_a_producer_carries_no_handshake_and_its_pin_is_for_nobody(start_engine):
    engine = start_engine(*BATCHING, '--kv-role', 'both', '--kv-lease-ms', '200')
    text = produce(engine, stream=True).text
    assert 'kv_transfer_params' not in text
    wait_for('lease ended', lambda: kv(engine, 0, 'pins_expired_total') == 1)


def test_client_that_leaves_a_consumer_frees_the_source(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both', '--speedup', '1',
                          '--kv-transfer-us-per-block', '1000000')
    handshake = produce(engine).json()['kv_transfer_params']
    body = {'prompt': PROMPT, 'max_tokens': 8, 'kv_transfer_params': handshake}
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.post(engine.engines[1]['http'] + '/v1/completions', json=body, timeout=0.5)
    wait_for('given back', lambda: kv(engine, 0, 'pins_fetched_total') == 1)
    assert engine.metrics(1)['kvrouter_sim_requests_aborted_total'] == 1


def test_transfer_takes_its_time_per_block(start_engine):
    engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both', '--speedup', '1',
                          '--kv-transfer-us-per-block', '100000')
    handshake = produce(engine).json()['kv_transfer_params']
    start = time.monotonic()
    consume(engine, handshake)
    assert time.monotonic() - start >= 0.6


def test_many_exchanges_leave_nothing_pinned(start_engine):
    engine = start_engine(*BATCHING, '--engines', '3', '--kv-role', 'both', '--blocks', '400')

    def exchange(i):
        prompt = list(range(1000 * i, 1000 * i + 50))
        handshake = produce(engine, i % 3, prompt).json()['kv_transfer_params']
        text = consume(engine, handshake, (i + 1) % 3, prompt).json()['choices'][0]['text']
        return text == engine.complete(prompt, (i + 2) % 3, max_tokens=8).json()['choices'][0]['text']

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(exchange, range(60)))
    for index in range(3):
        wait_for('nothing pinned', lambda: engine.metrics(index)['vllm:kv_cache_usage_perc'] == 0)
        assert kv(engine, index, 'pins_expired_total') == 0


def test_roles_need_the_model_that_has_blocks():
    import os
    import subprocess
    done = subprocess.run([os.environ['KVROUTER_SIM'], 'engine', '--kv-role', 'both'], capture_output=True, text=True,
                          timeout=20)
    assert done.returncode == 1 and '--service batching' in done.stderr
