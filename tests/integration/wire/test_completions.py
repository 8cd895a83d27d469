"""What an OpenAI client and a Prometheus scraper must see."""
import json
import os
import socket
import subprocess
import time

import pytest
import requests

from conftest import wait_for

JSON = {'Content-Type': 'application/json'}


def stream_lines(response):
    return [line.decode() for line in response.iter_lines() if line]


def test_answer_counts_prompt_output_and_cached_tokens(start_engine):
    engine = start_engine()
    first = engine.complete(list(range(10)), max_tokens=3).json()
    assert first['object'] == 'text_completion'
    assert first['model'] == 'sim'
    assert first['choices'][0]['finish_reason'] == 'length'
    assert len(first['choices'][0]['text']) == 3
    assert first['usage'] == {'prompt_tokens': 10, 'total_tokens': 13, 'completion_tokens': 3,
                              'prompt_tokens_details': {'cached_tokens': 0}}
    second = engine.complete(list(range(10))).json()
    assert second['usage']['prompt_tokens_details']['cached_tokens'] == 8


def test_wholly_cached_prompt_recomputes_its_last_block(start_engine):
    engine = start_engine()
    engine.complete([1] * 8)
    usage = engine.complete([1] * 8).json()['usage']
    assert usage['prompt_tokens_details']['cached_tokens'] == 4
    assert engine.metrics()['vllm:prefix_cache_hits_total'] == 4


def test_text_prompts_share_prefixes_by_bytes(start_engine):
    engine = start_engine()
    assert engine.complete('hello wörld').json()['usage']['prompt_tokens'] == 12
    assert engine.complete('hello there').json()['usage']['prompt_tokens_details']['cached_tokens'] == 4


@pytest.mark.parametrize('service', ['fifo', 'batching'])
def test_stream_ends_with_reason_usage_and_done(start_engine, service):
    engine = start_engine('--service', service)
    response = engine.complete([1] * 6, stream=True, max_tokens=5, stream_options={'include_usage': True})
    assert response.headers['content-type'].startswith('text/event-stream')
    lines = stream_lines(response)
    assert lines[-1] == 'data: [DONE]'
    chunks = [json.loads(line[len('data: '):]) for line in lines[:-1]]
    usage = chunks.pop()
    assert usage['choices'] == [] and usage['usage']['completion_tokens'] == 5
    whole = engine.complete([1] * 6, max_tokens=5).json()['choices'][0]['text']
    assert ''.join(c['choices'][0]['text'] for c in chunks) == whole and len(whole) == 5
    assert [c['choices'][0]['finish_reason'] for c in chunks] == [None] * (len(chunks) - 1) + ['length']
    assert len({c['id'] for c in chunks}) == 1
    assert len(chunks) >= 2  # the first token comes by itself


def test_first_token_waits_for_prefill_and_speedup_shortens_it(start_engine):
    def ttft(engine):
        start = time.monotonic()
        next(engine.complete(list(range(800)), stream=True).iter_content(1))
        return time.monotonic() - start

    # 800 tokens at 1,000 tokens a second.
    assert ttft(start_engine('--prefill-rate', '1000', '--speedup', '1')) >= 0.8
    assert ttft(start_engine('--prefill-rate', '1000', '--speedup', '100')) < 0.7


def test_metrics_count_tokens_with_vllm_names_and_labels(start_engine):
    engine = start_engine('--model', 'sim')
    text = requests.get(engine.http + '/metrics', timeout=5).text
    for name in ('vllm:num_requests_running', 'vllm:num_requests_waiting', 'vllm:kv_cache_usage_perc',
                 'vllm:prefix_cache_queries_total', 'vllm:prefix_cache_hits_total'):
        assert f'{name}{{model_name="sim",engine="0"}} 0\n' in text, name
    assert 'vllm:cache_config_info{block_size="4",enable_prefix_caching="True",num_gpu_blocks="' in text
    engine.complete(list(range(10)))
    engine.complete(list(range(10)))
    metrics = engine.metrics()
    assert metrics['vllm:prefix_cache_queries_total'] == 20
    assert metrics['vllm:prefix_cache_hits_total'] == 8


def test_gauges_show_running_and_waiting_requests(start_engine):
    engine = start_engine('--speedup', '1', '--prefill-rate', '100', '--blocks', '100')
    ask = 'import requests, sys; requests.post(sys.argv[1], json={"prompt": [int(sys.argv[2])] * 400}, timeout=30)'
    # Processes, because a client that is killed leaves as abruptly as clients do.
    slow = [subprocess.Popen(['/usr/bin/python3', '-c', ask, engine.http + '/v1/completions', str(i)]) for i in range(3)]
    try:
        metrics = {}

        def one_runs_and_two_wait():
            metrics.update(engine.metrics())
            return (metrics['vllm:num_requests_running'], metrics['vllm:num_requests_waiting']) == (1, 2)

        wait_for('one running, two waiting', one_runs_and_two_wait)
        assert metrics['vllm:kv_cache_usage_perc'] > 0
    finally:
        for process in slow:
            process.kill()
            process.wait()
    # Clients that left free their places.
    wait_for('all aborted', lambda: engine.metrics()['kvrouter_sim_requests_aborted_total'] == 3)
    metrics = engine.metrics()
    assert (metrics['vllm:num_requests_running'], metrics['vllm:num_requests_waiting']) == (0, 0)
    assert metrics['vllm:kv_cache_usage_perc'] == 0


@pytest.mark.parametrize('body,code', [
    ('', 400), ('[]', 400), ('{}', 400), ('{"prompt": []}', 400), ('{"prompt": ""}', 400), ('{"prompt": [1, -2]}', 400),
    ('{"prompt": [1, 4294967296]}', 400), ('{"prompt": [1.5]}', 400), ('{"prompt": 7}', 400), ('{"prompt": [[1, 2]]}', 400),
    ('{"prompt": [1], "max_tokens": 0}', 400), ('{"prompt": [1], "max_tokens": "x"}', 400),
    ('{"prompt": [1], "stream": 1}', 400), ('{"prompt": [1], "cache_salt": "a"}', 400), ('{"prompt": [1', 400),
    ('{"prompt": [1], "model": "other"}', 404), ('{"prompt": [1], "unknown": {"a": [1]}, "stream": null}', 200),
])
def test_bad_requests_are_told_what_is_wrong(start_engine, body, code):
    engine = start_engine()
    response = requests.post(engine.http + '/v1/completions', data=body, headers=JSON, timeout=5)
    assert response.status_code == code
    if code != 200:
        assert response.json()['error']['code'] == code and response.json()['error']['message']
    assert engine.complete([1]).status_code == 200


@pytest.mark.parametrize('path', ['/v1/completions', '/v1/chat/completions', '/v1/embeddings', '/tokenize', '/detokenize'])
def test_as_vllm_it_takes_nothing_for_json_that_is_not_called_so(start_engine, path):
    engine = start_engine()
    body = json.dumps({'prompt': 'a', 'messages': [{'role': 'user', 'content': 'a'}], 'input': 'a', 'tokens': [1]})
    for kind in ('application/x-www-form-urlencoded', 'text/plain', None):
        answer = requests.post(engine.http + path, data=body, headers={'Content-Type': kind}, timeout=5)
        assert answer.status_code == 400 and 'application/json' in answer.json()['error']['message'], kind
    assert requests.post(engine.http + path, data=body, headers={'Content-Type': 'Application/JSON; charset=utf-8'},
                         timeout=5).status_code == 200


def test_live_requests_are_bounded(start_engine):
    engine = start_engine('--max-live-requests', '1', '--speedup', '1')
    streaming = engine.complete([1], stream=True, max_tokens=1000)
    next(streaming.iter_content(1))
    assert engine.complete([1]).status_code == 503
    assert engine.metrics()['kvrouter_sim_requests_refused_total'] == 1
    streaming.close()


def test_health_and_models(start_engine):
    engine = start_engine('--model', 'meta/llama')
    assert requests.get(engine.http + '/health', timeout=5).status_code == 200
    models = requests.get(engine.http + '/v1/models', timeout=5).json()
    assert [m['id'] for m in models['data']] == ['meta/llama']


def test_sigterm_ends_quickly_with_requests_running(start_engine):
    engine = start_engine('--engines', '4', '--speedup', '1')
    streaming = engine.complete([1], stream=True, max_tokens=100000)
    next(streaming.iter_content(1))
    start = time.monotonic()
    assert engine.stop() == 0
    assert time.monotonic() - start < 2
    streaming.close()


@pytest.mark.parametrize('option', ['--http-port', '--events-port', '--replay-port'])
def test_taken_port_is_named_and_exits_1(option):
    with socket.socket() as holder:
        holder.bind(('127.0.0.1', 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = subprocess.run([os.environ['KVROUTER_SIM'], 'engine', option, str(port)], capture_output=True, text=True,
                              timeout=20)
    assert done.returncode == 1
    assert f'127.0.0.1:{port}' in done.stderr and len(done.stderr.splitlines()) == 1
