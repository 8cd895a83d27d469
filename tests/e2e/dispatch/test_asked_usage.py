"""With dispatch-ask-usage engines are asked for the usage of streams on the router's account: it is counted, and clients see
the bytes that they would have seen without it."""
import re

import pytest

from conftest import wait_for
from fault_cells import LEASE, REQUESTS, check, fresh, prompts, serve_broken, staged  # noqa: F401
from stage import BLOCK_TOKENS, MAX_TOKENS, ask
from test_faults_migration import SOURCE, TARGET, TO_TARGET, held_by_the_source


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    yield from staged(tmp_path_factory, [('aggregated', 'both')] * 2, ('--kv-role', 'both', *LEASE),
                      ('--kv-migration', 'migrate', '--kv-migration-min-tokens', '16', '--dispatch-ask-usage'))


def delivered(stage):
    return stage.daemon.metrics().one('kvrouter_delivered_prompt_tokens_total')


def timeless(raw):
    return re.sub(rb'"created":\d+', b'"created":0', raw)


BODIES = [('/v1/completions', {'max_tokens': MAX_TOKENS}), ('/v1/completions', {'max_tokens': 1}),
          ('/v1/completions', {'n': 2, 'max_tokens': MAX_TOKENS}),
          ('/v1/completions', {'stream_options': {'include_usage': False}, 'max_tokens': MAX_TOKENS}),
          ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'a few words'}], 'max_tokens': MAX_TOKENS})]


@pytest.mark.parametrize('path,body', BODIES)
def test_a_stream_is_the_engines_own_to_one_who_did_not_ask(stage, prompts, path, body):
    body = {'model': 'sim', 'stream': True, **body}
    if 'messages' not in body:
        body['prompt'] = prompts.take()
    before = delivered(stage)
    answer = stage.serve(body, path, x_request_id='same-bytes', x_worker_instance_id=TARGET)
    direct = ask(stage.engines.host(TARGET), path, body, {'x-request-id': 'same-bytes'})
    assert b'usage' not in direct.raw and direct.done
    assert timeless(answer.raw) == timeless(direct.raw)
    if 'n' not in body and 'stream_options' not in body:
        wait_for('it was counted', lambda: delivered(stage) > before)
    else:
        stage.assert_all_quiet()
        assert delivered(stage) == before
    stage.assert_all_quiet()


def test_who_asks_gets_it_once(stage, prompts):
    answer = stage.serve({'prompt': prompts.take(), 'stream': True, 'stream_options': {'include_usage': True}})
    assert answer.raw.count(b'"usage":') == 1 and answer.done


def test_blocks_that_moved_count_as_delivered(stage, prompts):
    [prompt] = held_by_the_source(stage, prompts, 1)
    metrics = stage.daemon.metrics()
    body = {'prompt': prompt, 'stream': True}
    answer = stage.serve(body, **TO_TARGET, x_route_explain=1)
    assert answer.is_right(stage.expected(body)) and b'usage' not in answer.raw
    assert {name.lower(): value for name, value in answer.headers.items()}['x-kvrouter-plan'] == 'migrate'
    name = 'kvrouter_delivered_overlap_tokens_total'
    wait_for('it was counted', lambda: stage.daemon.metrics().one(name) - metrics.one(name) >= len(prompt) - BLOCK_TOKENS)
    stage.assert_all_quiet()


@pytest.mark.parametrize('kind', ['stall_mid_stream', 'cut_mid_stream', 'cut_before_head', 'http_500'])
def test_a_stream_that_fails_shows_nothing_of_it(stage, prompts, kind):
    answers = serve_broken(stage, [SOURCE], {'kind': kind}, fresh(prompts, True))
    check(answers, all_served=not kind.endswith('mid_stream'))
    assert not [answer for answer, _ in answers if b'usage' in answer.raw]
    stage.assert_all_quiet()


@pytest.mark.parametrize('kind', ['cut_mid_stream', 'wrong_handshake', 'restart', 'http_500'])
def test_a_migration_that_fails_shows_nothing_of_it(stage, prompts, kind):
    held = held_by_the_source(stage, prompts, REQUESTS)
    answers = serve_broken(stage, [SOURCE], {'kind': kind}, lambda: [{'prompt': prompt, 'stream': True} for prompt in held],
                           **TO_TARGET)
    check(answers, all_served=True)
    assert not [answer for answer, _ in answers if b'usage' in answer.raw]
    stage.assert_all_quiet()


def test_an_engines_refusal_is_of_the_clients_own_body(stage, prompts):
    body = {'model': 'sim', 'prompt': prompts.take(), 'stream': True, 'max_tokens': -1}
    before = stage.daemon.metrics()
    answer = stage.serve(body, x_worker_instance_id=SOURCE)
    direct = ask(stage.engines.host(SOURCE), '/v1/completions', body)
    assert direct.status == 400 and (answer.status, answer.raw) == (direct.status, direct.raw)
    name = {'name': 'kvrouter_dispatch_fallbacks_total', 'reason': 'usage_refused'}
    assert stage.daemon.metrics().one(**name) == before.one(**name) + 1
    stage.assert_all_quiet()
