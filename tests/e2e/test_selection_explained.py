"""Why a worker was chosen, over HTTP: what `x-route-explain` adds, and that gRPC's Explain says the same."""
import random

import pytest
from conftest import DEADLINE_S, live_events, router_pb2, wait_for
from google.protobuf import json_format
from test_selection_api import send

EXPLAIN = {'x-route-explain': '1'}
ENUM_PREFIXES = ('PLAN_', 'DECISION_REASON_', 'FILTER_REASON_', 'PHASE_', 'LEG_KIND_', 'LEG_FALLBACK_')


def plain(value):
    """A protobuf message as HTTP shows it: every field, 64-bit numbers as numbers, enumerations as lower-case words."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str):
        if value.isdigit():
            return int(value)
        for prefix in ENUM_PREFIXES:
            if value.startswith(prefix):
                return value[len(prefix):].lower()
    return value


OPTIONAL_MESSAGES = ('best_overlap_target', 'best_available_overlap_target', 'omitted', 'gate', 'migration', 'session')


def through_grpc(daemon, **what):
    answer = daemon.router.Explain(router_pb2.ExplainRequest(**what), timeout=DEADLINE_S)
    message = plain(json_format.MessageToDict(answer, including_default_value_fields=True, preserving_proto_field_name=True))
    for name in OPTIONAL_MESSAGES:
        message['decision'].setdefault(name, None)
    return message


def request_of(tokens, **fields):
    request = router_pb2.RouteRequest(**fields)
    request.token_ids.ids.extend(tokens)
    return request


@pytest.fixture
def fleet(start, new_engine):
    """Four workers with some cache and some load, of which one drains."""
    daemon = start('--random-seed', '7')
    engine = new_engine()
    daemon.register(1, events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    engine.store([1, 2, 3], range(12))
    for worker_id in (2, 3, 4):
        daemon.register(worker_id)
    wait_for('three blocks', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 3)
    assert send(daemon, 'PATCH', '/workers/4', {'draining': True})[0] == 200
    for i in range(3):
        daemon.route(range(100 * i, 100 * i + 9 + 4 * i), f'load-{i}')
    return daemon


def test_without_the_header_the_answers_are_upstreams(fleet):
    for headers in ({}, {'x-route-explain': '0'}):
        _, selection = send(fleet, 'POST', '/select', {'token_ids': [1, 2]}, headers=headers)
        assert set(selection) == {'model_name', 'routing_group', 'worker_id', 'dp_rank', 'endpoint', 'block_size', 'overlap',
                                  'effective_prefill_tokens'}
        _, booked = send(fleet, 'POST', '/select_and_reserve', {'token_ids': [1, 2]}, headers=headers)
        assert set(booked) == set(selection) | {'selection_id', 'sequence_hashes', 'isl_tokens', 'track_prefill_tokens'}
        _, reservation = send(fleet, 'POST', '/reservations', {'selection_id': f'r{len(headers)}', 'worker_id': 1, 'token_ids': [1]},
                              headers=headers)
        assert set(reservation) == {'selection_id', 'model_name', 'routing_group', 'worker_id', 'dp_rank', 'endpoint'}


def test_a_booking_is_explained_alike_by_both_doors(fleet):
    source = random.Random(11)
    for i in range(30):
        body = {'token_ids': list(range(source.randrange(1, 20))), 'selection_id': f's{i}'}
        if i % 3 == 1:
            body['router_config_override'] = {'router_temperature': 0.5}
        if i % 3 == 2:
            body['allowed_worker_ids'] = [1, 3, 4]
        status, answer = send(fleet, 'POST', '/select_and_reserve', body, headers=EXPLAIN)
        assert status == 200, answer
        told = answer['explanation']
        later = through_grpc(fleet, request_id=f's{i}')
        assert told['decision'] == later['decision'], i
        assert told['live'] is later['live'] is True
        assert told['age_seconds'] == 0 <= later['age_seconds']
        assert told['decision']['target'] == {'worker_id': answer['worker_id'], 'dp_rank': answer['dp_rank']}
        status, by_id = send(fleet, 'GET', f'/explain/s{i}')
        assert (status, by_id['decision'], by_id['live']) == (200, told['decision'], True)


def test_advice_is_explained_alike_by_both_doors(fleet):
    fleet.route(range(50, 77), 'more', pinned={'worker_id': 2})  # no two targets cost the same
    source = random.Random(12)
    explained = 0
    for i in range(20):
        tokens = list(range(source.randrange(1, 30)))
        _, answer = send(fleet, 'POST', '/select', {'token_ids': tokens}, headers=EXPLAIN)
        told = answer['explanation']
        asked = through_grpc(fleet, request=request_of(tokens))
        if told['decision']['tie_size'] > 1:
            continue  # drawn, by each call for itself
        explained += 1
        asked['decision']['request_id'] = ''  # generated there
        assert told == asked, i
        assert told['decision']['booked'] is told['live'] is False
        # The structure says something: the costs compared, and who was left out.
        costs = {c['target']['worker_id']: c['cost_blocks'] for c in told['decision']['candidates']}
        assert set(costs) == {1, 2, 3}
        assert costs[answer['worker_id']] == min(costs.values())
        assert told['decision']['filtered_targets'] == [
            {'target': {'worker_id': 4, 'dp_rank': 0}, 'reason': 'draining', 'device_overlap_blocks': 0}]
    assert explained >= 10


def test_both_forms_of_a_reservation_are_explained(fleet):
    send(fleet, 'POST', '/select', {'token_ids': list(range(12)), 'selection_id': 'later'})
    status, replay = send(fleet, 'POST', '/reservations', {'selection_id': 'later'}, headers=EXPLAIN)
    assert (status, replay['explanation']['decision']['reason']) == (201, 'pinned')
    assert replay['explanation']['decision'] == through_grpc(fleet, request_id='later')['decision']
    status, explicit = send(fleet, 'POST', '/reservations', {'selection_id': 'told', 'worker_id': 3, 'token_ids': [1, 2, 3]},
                            headers=EXPLAIN)
    assert (status, explicit['explanation']['decision']['target']['worker_id']) == (201, 3)
    assert explicit['explanation']['decision'] == through_grpc(fleet, request_id='told')['decision']


def test_answers_of_the_routes_are_counted_by_class(fleet):
    def answers(status):
        return fleet.metrics().one('kvrouter_http_selection_requests_total', method='POST', route='/select', status=status)

    before = [answers(status) for status in ('2xx', '4xx', '5xx')]
    send(fleet, 'POST', '/select', {'token_ids': [1]})
    send(fleet, 'POST', '/select', {'token_ids': [1], 'model_name': 'nowhere'})
    send(fleet, 'POST', '/select', {'token_ids': [1], 'allowed_worker_ids': [4]})
    assert [answers(status) for status in ('2xx', '4xx', '5xx')] == [n + 1 for n in before]
