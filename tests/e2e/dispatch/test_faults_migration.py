"""Fault matrix: the prompt's blocks are on one engine, the request is served by another, which fetches them."""
import pytest

from conftest import wait_for
from fault_cells import LEASE, PRODUCER, REQUESTS, cells, check, prompts, serve_broken, staged  # noqa: F401
from stage import BLOCK_TOKENS

SOURCE, TARGET = 0, 1
TO_SOURCE, TO_TARGET = {'x_worker_instance_id': SOURCE}, {'x_worker_instance_id': TARGET}


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    yield from staged(tmp_path_factory, [('aggregated', 'both')] * 2, ('--kv-role', 'both', *LEASE),
                      ('--kv-migration', 'migrate', '--kv-migration-min-tokens', '16'))


def held_by_the_source(stage, prompts, count=REQUESTS):
    """Prompts whose blocks the source holds, and the router knows it."""
    held = [prompts.take() for _ in range(count)]
    check(stage.serve_all([{'prompt': prompt} for prompt in held], **TO_SOURCE), all_served=True)
    blocks = len(held[0]) // BLOCK_TOKENS
    for prompt in held:
        wait_for('blocks known', lambda: stage.daemon.route(prompt, model_name='sim', advise_only=True).best_overlap_blocks >= blocks)
    return held


@pytest.mark.parametrize('kind,extent,stream', cells(PRODUCER, ['source']))
def test_source_leg_never_fails_a_request(stage, prompts, kind, extent, stream):
    held = held_by_the_source(stage, prompts)
    bodies = [{'prompt': prompt, 'stream': stream} for prompt in held]
    answers = serve_broken(stage, [SOURCE], {'kind': kind}, lambda: bodies, **TO_TARGET)
    check(answers, all_served=True)
    stage.assert_all_quiet()


def test_blocks_move_and_only_the_rest_is_computed(stage, prompts):
    [prompt] = held_by_the_source(stage, prompts, 1)
    before = stage.engines.metrics(TARGET)
    answer = stage.serve({'prompt': prompt}, **TO_TARGET, x_route_explain=1)
    assert answer.is_right(stage.expected({'prompt': prompt}))
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers['x-kvrouter-plan'] == 'migrate'
    after = stage.engines.metrics(TARGET)
    grown = {name: after[name] - before[name] for name in after}
    assert grown['kvrouter_sim_computed_prefill_tokens_total'] == 1
    assert grown['kvrouter_sim_kv_pulled_blocks_total'] == -(-len(prompt) // BLOCK_TOKENS)
    stage.assert_all_quiet()
