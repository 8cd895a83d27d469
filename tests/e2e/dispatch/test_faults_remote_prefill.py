"""Fault matrix: prefill on one of two engines, decode on one of two others; either leg misbehaves."""
import pytest

from fault_cells import (ANY_LEG, LEASE, PRODUCER, cells, check, fresh, must_be_served, prompts, serve_broken,  # noqa: F401
                         staged)

PREFILL, DECODE = [0, 1], [2, 3]


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    roles = [('prefill', 'producer')] * 2 + [('decode', 'consumer')] * 2
    yield from staged(tmp_path_factory, roles, ('--prefill-engines', '2', *LEASE))


def break_and_ask(stage, prompts, engines, fault, stream):
    return serve_broken(stage, engines, fault, fresh(prompts, stream))


@pytest.mark.parametrize('kind,extent,stream', cells(PRODUCER, ['all']))
def test_prefill_leg_never_fails_a_request(stage, prompts, kind, extent, stream):
    # A prefill worker that has no room says so to the client.
    answers = break_and_ask(stage, prompts, PREFILL, {'kind': kind}, stream)
    check(answers, all_served=kind != 'http_429')
    if kind == 'http_429':
        assert {answer.status for answer, _ in answers} == {429}
    stage.assert_all_quiet()


@pytest.mark.parametrize('kind,extent,stream', cells(ANY_LEG, ['one', 'all']))
def test_decode_leg(stage, prompts, kind, extent, stream):
    answers = break_and_ask(stage, prompts, DECODE[:1] if extent == 'one' else DECODE, {'kind': kind}, stream)
    check(answers, must_be_served(kind, extent, stream))
    stage.assert_all_quiet()


@pytest.mark.parametrize('stream', [False, True])
@pytest.mark.parametrize('kind', ['http_500', 'cut_before_head', 'restart'])
def test_pull_that_fails_is_served_without(stage, prompts, kind, stream):
    answers = break_and_ask(stage, prompts, PREFILL, {'kind': kind, 'path': '/kv_pull'}, stream)
    check(answers, all_served=True)
    stage.assert_all_quiet()


@pytest.mark.parametrize('stream', [False, True])
def test_pull_that_is_slow_delays_but_serves(stage, prompts, stream):
    answers = break_and_ask(stage, prompts, PREFILL, {'kind': 'slow_handshake', 'delay_ms': 300}, stream)
    check(answers, all_served=True)
    stage.assert_all_quiet()


def test_plan_is_remote_and_nothing_is_computed_twice(stage, prompts):
    prompt = prompts.take()
    before = [stage.engines.metrics(index)['kvrouter_sim_computed_prefill_tokens_total'] for index in PREFILL + DECODE]
    answer = stage.serve({'prompt': prompt}, x_route_explain=1)
    assert answer.is_right(stage.expected({'prompt': prompt}))
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers['x-kvrouter-plan'] == 'remote_prefill'
    after = [stage.engines.metrics(index)['kvrouter_sim_computed_prefill_tokens_total'] for index in PREFILL + DECODE]
    computed = [b - a for a, b in zip(before, after)]
    assert sum(computed[:2]) == len(prompt) and sum(computed[2:]) == 1
    stage.assert_all_quiet()


@pytest.mark.parametrize('stream', [False, True])
def test_chat_by_two_legs_gives_the_same_answer(stage, stream):
    body = {'messages': [{'role': 'user', 'content': f'tell me {stream} things'}], 'stream': stream}
    path = '/v1/chat/completions'
    check(stage.serve_all([body], path), all_served=True)
    stage.assert_all_quiet()
