"""Fault matrix: plans of one leg. Two engines that serve whole requests; one of them, or both, misbehave."""
import re

import pytest

from fault_cells import ANY_LEG, cells, check, fresh, must_be_served, prompts, serve_broken, staged  # noqa: F401
from stage import MAX_TOKENS, ask


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    yield from staged(tmp_path_factory, [('aggregated', 'none')] * 2)


@pytest.mark.parametrize('kind,extent,stream', cells(ANY_LEG, ['one', 'all']))
def test_request_ends_in_its_answer_or_one_error(stage, prompts, kind, extent, stream):
    answers = serve_broken(stage, [0] if extent == 'one' else [0, 1], {'kind': kind}, fresh(prompts, stream))
    check(answers, must_be_served(kind, extent, stream))
    stage.assert_all_quiet()
    check(stage.serve_all(fresh(prompts, stream)()), all_served=True)


def test_plan_is_local_and_the_stream_is_the_engines_own(stage, prompts):
    body = {'prompt': prompts.take(), 'stream': True, 'stream_options': {'include_usage': True}}
    answer = stage.serve(body, x_request_id='same-bytes', x_route_explain=1)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers['x-kvrouter-plan'] == 'local'
    worker = int(headers['x-kvrouter-worker'].split('/')[0])
    direct = ask(stage.engines.host(worker), '/v1/completions', {'model': 'sim', 'max_tokens': MAX_TOKENS, **body},
                 {'x-request-id': 'same-bytes'})

    def what_must_be_equal(raw):
        # The engine's clock has gone on, and it has the prompt cached the second time.
        return re.sub(rb'"(created|cached_tokens)":\d+', rb'"\1":0', raw)

    assert what_must_be_equal(answer.raw) == what_must_be_equal(direct.raw)
