"""Engines that are told to misbehave: what a client sees, and that all is well again afterwards."""
import pytest
import requests

from conftest import wait_for
from test_kv_transfer import BATCHING, PROMPT, consume, produce

TIMEOUT_S = 20


class Broken:
    """Two engines that exchange KV, and the address to break them at."""

    def __init__(self, start_engine, *arguments):
        self.engine = start_engine(*BATCHING, '--engines', '2', '--kv-role', 'both', '--faults', *arguments)
        self.admin = self.engine.admin

    def fault(self, index=0, **rule):
        answer = requests.post(f'{self.admin}/engines/{index}/faults', json=rule, timeout=TIMEOUT_S)
        assert answer.status_code == 200, answer.text

    def clear(self, index=0):
        assert requests.delete(f'{self.admin}/engines/{index}/faults', timeout=TIMEOUT_S).status_code == 200

    def taken(self, index=0):
        return requests.get(f'{self.admin}/engines/{index}/faults', timeout=TIMEOUT_S).json()['taken']

    def post(self, timeout=TIMEOUT_S, **members):
        body = {'prompt': PROMPT, 'max_tokens': 8, **members}
        return requests.post(self.engine.http + '/v1/completions', json=body, timeout=timeout,
                             stream=bool(members.get('stream')))


@pytest.fixture
def broken(start_engine):
    return lambda *arguments: Broken(start_engine, *arguments)


def idle(fleet, index=0):
    metrics = fleet.engine.metrics(index)
    return (metrics['vllm:num_requests_running'], metrics['vllm:num_requests_waiting'],
            metrics['vllm:kv_cache_usage_perc']) == (0, 0, 0)


@pytest.mark.parametrize('stream', [False, True])
@pytest.mark.parametrize('kind,status', [('http_500', 500), ('http_429', 429)])
def test_refusals(broken, kind, status, stream):
    fleet = broken()
    fleet.fault(kind=kind, next=1)
    refused = fleet.post(stream=stream)
    assert refused.status_code == status and refused.json()['error']['code'] == status
    assert fleet.post(stream=stream).status_code == 200
    assert fleet.taken() == 1


@pytest.mark.parametrize('stream', [False, True])
def test_cut_before_head_gives_no_answer_at_all(broken, stream):
    fleet = broken()
    fleet.fault(kind='cut_before_head', next=1)
    with pytest.raises(requests.exceptions.ConnectionError):
        fleet.post(stream=stream)
    assert fleet.post().status_code == 200


@pytest.mark.parametrize('stream', [False, True])
def test_cut_mid_stream_gives_a_beginning(broken, stream):
    fleet = broken()
    fleet.fault(kind='cut_mid_stream', next=1, pieces=2)
    got = b''
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        for piece in fleet.post(stream=stream).iter_content(None):
            got += piece
    assert not stream or (got.count(b'data: ') == 2 and b'[DONE]' not in got)
    wait_for('engine idle', lambda: idle(fleet))
    assert fleet.post().status_code == 200


@pytest.mark.parametrize('stream', [False, True])
@pytest.mark.parametrize('kind', ['stall_before_head', 'stall_mid_stream'])
def test_stalls_last_until_the_client_leaves(broken, kind, stream):
    fleet = broken()
    fleet.fault(kind=kind, next=1)
    with pytest.raises(requests.exceptions.RequestException) as failure:
        response = fleet.post(timeout=0.5, stream=stream)
        assert kind == 'stall_mid_stream'
        b''.join(response.iter_content(None))
    assert 'timed out' in str(failure.value).lower()
    wait_for('engine idle', lambda: idle(fleet))
    assert fleet.post().status_code == 200


def test_rule_for_one_leg_spares_the_others(broken):
    fleet = broken()
    fleet.fault(kind='http_500', leg='producer')
    assert fleet.post().status_code == 200
    assert produce(fleet.engine).status_code == 500
    fleet.clear()
    assert produce(fleet.engine).status_code == 200


def test_rule_for_tokenisation(broken):
    fleet = broken()
    fleet.fault(kind='http_500', path='/tokenize', next=1)
    ask = lambda: requests.post(fleet.engine.http + '/tokenize', json={'prompt': 'a'}, timeout=TIMEOUT_S)
    assert (fleet.post().status_code, ask().status_code, ask().status_code) == (200, 500, 200)


def test_no_handshake_and_wrong_handshake(broken):
    fleet = broken('--kv-lease-ms', '300')
    fleet.fault(kind='no_handshake', next=1)
    assert produce(fleet.engine).json()['kv_transfer_params'] is None
    fleet.fault(kind='wrong_handshake', next=1)
    handshake = produce(fleet.engine).json()['kv_transfer_params']
    assert consume(fleet.engine, handshake).status_code == 500
    wait_for('pins expired', lambda: idle(fleet))
    assert fleet.engine.metrics()['kvrouter_sim_kv_pins_expired_total'] == 2


def test_slow_handshake_exceeds_the_consumers_patience(broken):
    fleet = broken('--kv-handshake-timeout-ms', '100')
    handshake = produce(fleet.engine).json()['kv_transfer_params']
    fleet.fault(kind='slow_handshake', delay_ms=5000, next=1)
    assert consume(fleet.engine, handshake).status_code == 500


def test_restart_loses_what_was_held_and_what_ran(broken):
    fleet = broken()
    before = fleet.engine.complete(PROMPT).json()
    fleet.fault(kind='restart', next=1)
    handshake = produce(fleet.engine).json()['kv_transfer_params']
    wait_for('restarted', lambda: idle(fleet))
    refused = consume(fleet.engine, handshake)
    assert refused.status_code == 500 and 'engine_id' in refused.json()['error']['message']
    answer = fleet.engine.complete(PROMPT).json()
    assert answer['usage']['prompt_tokens_details']['cached_tokens'] == 0
    assert answer['choices'][0]['text'] == before['choices'][0]['text']


def test_restart_now_cuts_live_requests(broken):
    fleet = broken('--speedup', '1')
    streaming = fleet.post(stream=True, max_tokens=100000)
    pieces = streaming.iter_content(None)
    assert next(pieces)
    assert requests.post(f'{fleet.admin}/engines/0/restart', timeout=TIMEOUT_S).status_code == 200
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        for _ in pieces:
            pass
    assert idle(fleet)


def test_events_start_anew_after_a_restart(broken, context):
    from conftest import Subscriber
    fleet = broken()
    subscriber = Subscriber(context, fleet.engine)
    fleet.engine.complete(PROMPT)
    first = subscriber.receive()
    requests.post(f'{fleet.admin}/engines/0/restart', timeout=TIMEOUT_S)
    fleet.engine.complete(PROMPT)
    again = subscriber.receive()
    assert first[1] == again[1] == 0
    subscriber.close()


def test_refusing_engine_has_no_listener_until_cleared(broken):
    fleet = broken()
    fleet.fault(kind='refuse')
    with pytest.raises(requests.exceptions.ConnectionError):
        fleet.post()
    fleet.clear()
    assert fleet.post().status_code == 200


def test_bad_rules_and_engines_are_named(broken):
    fleet = broken()
    refused = requests.post(f'{fleet.admin}/engines/0/faults', json={'kind': 'explode'}, timeout=TIMEOUT_S)
    assert refused.status_code == 400 and 'explode' in refused.text
    assert requests.delete(f'{fleet.admin}/engines/2/faults', timeout=TIMEOUT_S).status_code == 404
