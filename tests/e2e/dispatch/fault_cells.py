"""What is common to the fault matrix of each kind of plan."""
import pytest

from stage import Prompts, Stage

# A leg that stalls costs this long; short, because many cells wait for it, but long beside what a loaded machine delays.
LEG_SECONDS = '1.5'
TIMEOUTS = ('--dispatch-total-timeout-secs', '5', '--dispatch-head-timeout-secs', LEG_SECONDS, '--dispatch-silence-timeout-secs',
            LEG_SECONDS, '--dispatch-prefill-timeout-secs', LEG_SECONDS, '--kv-source-timeout-ms', '1500',
            '--dispatch-handshake-lease-secs', '0.4',
            # The broken engine is asked in every cell, whatever it did in the cells before.
            '--outlier-max-ejected-share', '0')
LEASE = ('--kv-lease-ms', '500')
REQUESTS = 4  # of a cell, at the same time: each of two engines gets some

ANY_LEG = ['refuse', 'stall_before_head', 'stall_mid_stream', 'cut_before_head', 'cut_mid_stream', 'http_500', 'http_429']
PRODUCER = ANY_LEG + ['wrong_handshake', 'no_handshake', 'restart']


def cells(kinds, extents):
    return [pytest.param(kind, extent, stream, id=f'{kind}-{extent}-{"stream" if stream else "whole"}')
            for kind in kinds for extent in extents for stream in (False, True)]


def must_be_served(kind, extent, stream):
    """Whether a leg that delivers the answer can fail in this way without its client seeing anything: another engine is
    well, and nothing of the answer was sent."""
    if extent == 'all' or kind == 'http_429':
        return False  # what an engine refuses for load is its answer
    if kind == 'stall_before_head':
        return stream  # an answer that does not stream may take as long as the whole request may
    return not (stream and kind in ('stall_mid_stream', 'cut_mid_stream'))


def serve_broken(stage, broken, fault, make_bodies, **headers):
    """Answers of a time when these engines are broken, until one of them was asked at least."""

    def hits():
        return sum(stage.engines.taken(index) for index in broken)

    answers, before = [], hits()
    for index in broken:
        stage.engines.fault(index, **fault)
    try:
        for _ in range(20):
            answers += stage.serve_all(make_bodies(), **headers)
            if fault['kind'] == 'refuse' or hits() > before:  # a closed port counts nobody
                return answers
    finally:
        for index in broken:
            stage.engines.clear(index)
    raise AssertionError('nobody asked a broken engine')


def fresh(prompts, stream):
    """Bodies of one cell."""
    return lambda: [{'prompt': prompts.take(), 'stream': stream} for _ in range(REQUESTS)]


def check(answers, all_served):
    for answer, expected in answers:
        right = answer.is_right(expected)
        assert right or (not all_served and answer.is_clear_error(expected)), f'{answer}, expected {expected!r}'


@pytest.fixture(scope='module')
def prompts():
    return Prompts()


def staged(request_factory, roles, engine_arguments=(), settings=(), config=None):
    """A module's stage, quiet at its end."""
    stage = Stage(request_factory.mktemp('stage'), roles, engine_arguments, (*TIMEOUTS, *settings))
    try:
        yield stage.start_daemon(config if config is not None else stage.workers_file.read_text())
    finally:
        stage.stop()
