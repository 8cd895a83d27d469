"""The HTTP selection API as a table: what is sent, what must come back.

Written from the upstream API's description, not from our code. A row runs on one daemon that all rows share; it has
worker 1 (model default, block size 4) and worker 2 (model m2, ranks 0 and 1, block size 8). Rows use ids of their own and
say in `before` what they need besides.

Row(name, method, path, body, status, shape): `body` is sent as JSON unless it is bytes or None; `shape` says what the
answer's JSON must hold: a dict of expected values, where a type stands for any value of it and ... for any value at all.
Error answers are {"error": text} without being told so.
"""
import dataclasses
import typing

from http_table import JSON

TOKENS = list(range(10))


@dataclasses.dataclass
class Row:
    name: str
    method: str
    path: str
    body: typing.Any
    status: int
    shape: typing.Any = None
    content_type: typing.Optional[str] = JSON
    before: tuple = ()
    headers: dict = dataclasses.field(default_factory=dict)


def prompt(**more):
    return {'token_ids': TOKENS, **more}


def hashes(**more):
    return {'block_hashes': [1, -2], 'sequence_hashes': [3, -4], 'isl_tokens': 10, **more}


def reserved(selection_id):
    """A step that books `selection_id`."""
    return ('POST', '/select_and_reserve', prompt(selection_id=selection_id))


def selected(selection_id, **more):
    return ('POST', '/select', prompt(selection_id=selection_id, **more))


def worker(worker_id, **more):
    return {'worker_id': worker_id, 'endpoint': f'http://w{worker_id}:8000', 'block_size': 4, 'model_name': 'spare', **more}


def registered(worker_id, **more):
    return ('POST', '/workers', worker(worker_id, **more))


def items(*hashes_of_items):
    """One block's entry of block_mm_infos."""
    return {'mm_objects': [{'mm_hash': item, 'offsets': [[0, 1]]} for item in hashes_of_items]}


EAGLE = registered(60, model_name='eagle', is_eagle=True)

OVERLAP = {'longest_matched': 0, 'gpu': 0, 'dp': dict, 'cpu': 0, 'disk': 0}
SELECTION = {'model_name': 'default', 'routing_group': 'default', 'worker_id': 1, 'dp_rank': 0, 'endpoint': 'http://w1:8000',
             'block_size': 4, 'overlap': OVERLAP, 'effective_prefill_tokens': 10}
BOOKED = {**SELECTION, 'sequence_hashes': list, 'isl_tokens': 10, 'track_prefill_tokens': True}
RESERVATION = {'model_name': 'default', 'routing_group': 'default', 'worker_id': 1, 'dp_rank': 0, 'endpoint': 'http://w1:8000'}
OK = {'status': 'ok'}
RECORD = {'model_name': 'spare', 'routing_group': 'default', 'block_size': 4, 'data_parallel_size': 1,
          'data_parallel_start_rank': 0, 'lifecycle': 'schedulable', 'not_schedulable_reasons': []}
DEEP = b'{"extra":' + b'[' * 5000 + b']' * 5000 + b',"token_ids":[1]}'

SELECT_ROUTES = ('/select', '/select_and_reserve')
PROMPT_ROUTES = (*SELECT_ROUTES, '/potential_loads', '/overlap_scores')

# What every route that reads a prompt answers to a body that is not what it takes: (name, body, status).
BAD_PROMPTS = [
    ('empty body', b'', 400),
    ('truncated', b'{"token_ids":[1,2', 400),
    ('truncated text', b'{"model_name":"a', 400),
    ('nested deeply', DEEP, 400),
    ('NaN', b'{"token_ids":[NaN]}', 400),
    ('invalid UTF-8', b'{"token_ids":[1],"model_name":"\xff\xfe"}', 400),
    ('trailing comma', b'{"token_ids":[1,2,]}', 400),
    ('text after the object', b'{"token_ids":[1]} x', 400),
    ('array instead of an object', b'[1,2]', 422),
    ('duplicate key', b'{"token_ids":[1],"token_ids":[2]}', 422),
    ('token as a text', b'{"token_ids":["1"]}', 422),
    ('negative token', b'{"token_ids":[-1]}', 422),
    ('token of 2^32', b'{"token_ids":[4294967296]}', 422),
    ('token of 2^64', b'{"token_ids":[18446744073709551616]}', 422),
    ('fractional token', b'{"token_ids":[1.5]}', 422),
    ('tokens as an object', b'{"token_ids":{}}', 422),
    ('model name as a number', b'{"token_ids":[1],"model_name":7}', 422),
    ('no prompt', b'{}', 400),
    ('both prompts', b'{"token_ids":[1],"block_hashes":[],"sequence_hashes":[],"isl_tokens":1}', 400),
    ('hashes of unequal length', b'{"block_hashes":[1],"sequence_hashes":[],"isl_tokens":4}', 400),
    ('isl_tokens 0', b'{"block_hashes":[],"sequence_hashes":[],"isl_tokens":0}', 400),
    ('hash of 2^63', b'{"block_hashes":[9223372036854775808],"sequence_hashes":[1],"isl_tokens":4}', 422),
]

ROWS = [Row(f'{route} {name}', 'POST', route, body, status) for route in PROMPT_ROUTES for name, body, status in BAD_PROMPTS]

for route in PROMPT_ROUTES:
    ROWS += [
        Row(f'{route} no content type', 'POST', route, prompt(), 415, content_type=None),
        Row(f'{route} text/plain', 'POST', route, prompt(), 415, content_type='text/plain'),
        Row(f'{route} charset is no matter', 'POST', route, prompt(), 200, {}, content_type='Application/JSON; charset=utf-8'),
        Row(f'{route} GET', 'GET', route, None, 405),
        Row(f'{route} PUT', 'PUT', route, prompt(), 405),
        Row(f'{route} unknown model', 'POST', route, prompt(model_name='nobody'), 404),
        Row(f'{route} unknown group', 'POST', route, prompt(routing_group='nobody'), 404),
        Row(f'{route} hashes', 'POST', route, hashes(), 200, {}),
        Row(f'{route} unknown fields are ignored', 'POST', route, prompt(extra={'a': [1, None, True, 'x', 1e3]}), 200, {}),
        Row(f'{route} unknown fields must be JSON', 'POST', route, b'{"token_ids":[1],"extra":tru}', 400),
        Row(f'{route} nulls are as absent', 'POST', route, prompt(lora_name=None, cache_salt=None, block_hashes=None), 200, {}),
        Row(f'{route} multimodal routing without content', 'POST', route,
            {'mm_routing_info': {'routing_token_ids': TOKENS, 'block_mm_infos': [None, None]}}, 200, {}),
        Row(f'{route} multimodal routing goes before token_ids', 'POST', route,
            prompt(mm_routing_info={'routing_token_ids': TOKENS, 'block_mm_infos': [items(7)]}), 200, {}),
        Row(f'{route} empty multimodal routing leaves token_ids', 'POST', route,
            prompt(mm_routing_info={'routing_token_ids': []}), 200, {}),
        Row(f'{route} empty multimodal routing alone', 'POST', route, {'mm_routing_info': {'routing_token_ids': []}}, 400),
        Row(f'{route} multimodal routing without tokens', 'POST', route, {'mm_routing_info': {'block_mm_infos': []}}, 422),
        Row(f'{route} multimodal routing beside hashes', 'POST', route,
            hashes(mm_routing_info={'routing_token_ids': TOKENS}), 400),
        Row(f'{route} block infos', 'POST', route, prompt(block_mm_infos=[None, items(7, 7), {'mm_objects': []}]), 200, {}),
        Row(f'{route} block infos of the largest hash', 'POST', route, prompt(block_mm_infos=[items(2**64 - 1)]), 200, {}),
        Row(f'{route} block infos without offsets', 'POST', route,
            prompt(block_mm_infos=[{'mm_objects': [{'mm_hash': 7}]}]), 200, {}),
        Row(f'{route} block infos behind the prompt', 'POST', route, prompt(block_mm_infos=[None] * 3 + [items(7)]), 400),
        Row(f'{route} empty block infos behind the prompt', 'POST', route, prompt(block_mm_infos=[None] * 9), 200, {}),
        Row(f'{route} block infos beside hashes', 'POST', route, hashes(block_mm_infos=[items(7)]), 200, {}),
        Row(f'{route} block infos without objects', 'POST', route, prompt(block_mm_infos=[{}]), 422),
        Row(f'{route} block infos as numbers', 'POST', route, prompt(block_mm_infos=[7]), 422),
        Row(f'{route} block infos as an object', 'POST', route, prompt(block_mm_infos={}), 422),
        Row(f'{route} item without hash', 'POST', route, prompt(block_mm_infos=[{'mm_objects': [{'offsets': []}]}]), 422),
        Row(f'{route} item of a negative hash', 'POST', route, prompt(block_mm_infos=[items(-1)]), 422),
        Row(f'{route} item of hash 2^64', 'POST', route, prompt(block_mm_infos=[items(2**64)]), 422),
        Row(f'{route} item with half an offset', 'POST', route,
            prompt(block_mm_infos=[{'mm_objects': [{'mm_hash': 7, 'offsets': [[1]]}]}]), 422),
        Row(f'{route} too many block infos', 'POST', route, prompt(block_mm_infos=[None] * (2**20 + 1)), 413),
        Row(f'{route} EAGLE where there is none', 'POST', route, prompt(is_eagle=True), 400),
        Row(f'{route} no EAGLE', 'POST', route, prompt(is_eagle=False), 200, {}),
        Row(f'{route} EAGLE as a text', 'POST', route, prompt(is_eagle='yes'), 422),
        Row(f'{route} EAGLE partition', 'POST', route, prompt(model_name='eagle'), 200, {}, before=(EAGLE,)),
        Row(f'{route} EAGLE partition, said so', 'POST', route, prompt(model_name='eagle', is_eagle=True), 200, {},
            before=(EAGLE,)),
        Row(f'{route} EAGLE partition, denied', 'POST', route, prompt(model_name='eagle', is_eagle=False), 400,
            before=(EAGLE,)),
        Row(f'{route} EAGLE hashes', 'POST', route, hashes(model_name='eagle', isl_tokens=9), 200, {}, before=(EAGLE,)),
        Row(f'{route} EAGLE hashes, one too many', 'POST', route, hashes(model_name='eagle', isl_tokens=8), 400,
            before=(EAGLE,)),
    ]

ROWS += [
    # Golden vectors 11, 12 and 13 of tests/data/hash_vectors.json, as signed numbers.
    Row('EAGLE windows are hashed as upstream', 'POST', '/select_and_reserve',
        {'model_name': 'eagle2', 'token_ids': [0, 1, 2, 3, 4, 5]}, 200,
        {'sequence_hashes': [-6800501135897328119, -1867615734380480474], 'isl_tokens': 6},
        before=(registered(61, model_name='eagle2', block_size=2, is_eagle=True),)),
    Row('a block with an item is hashed as upstream', 'POST', '/select_and_reserve',
        {'model_name': 'pairs', 'token_ids': [0, 1], 'block_mm_infos': [items(42)]}, 200,
        {'sequence_hashes': [6100948656312251355]}, before=(registered(62, model_name='pairs', block_size=2),)),
    Row('a block with two items is hashed as upstream', 'POST', '/select_and_reserve',
        {'model_name': 'pairs', 'mm_routing_info': {'routing_token_ids': [0, 1], 'block_mm_infos': [items(42, 7)]}}, 200,
        {'sequence_hashes': [-4169891464017611133]}, before=(registered(62, model_name='pairs', block_size=2),)),
    Row('EAGLE overlap scores count windows', 'POST', '/overlap_scores', {'model_name': 'eagle', 'token_ids': list(range(8))},
        200, {'num_blocks': 1}, before=(EAGLE,)),
    Row('reservation of an EAGLE selection', 'POST', '/reservations', {'selection_id': 'eagle-1', 'model_name': 'eagle'}, 201,
        {'worker_id': 60}, before=(EAGLE, selected('eagle-1', model_name='eagle'))),
    Row('reservation of a prompt with items', 'POST', '/reservations',
        prompt(selection_id='items-1', worker_id=1, block_mm_infos=[items(7)]), 201, {'worker_id': 1}),
]

for route, shape in zip(SELECT_ROUTES, (SELECTION, BOOKED)):
    def select(name, status, shape=None, before=(), **fields):
        return Row(f'{route} {name}', 'POST', route, prompt(**fields), status, shape, before=before)

    ROWS += [
        select('tokens', 200, shape),
        select('other partition', 200, {'worker_id': 2, 'block_size': 8}, model_name='m2'),
        select('pinned', 200, {'worker_id': 1, 'dp_rank': 0}, pinned_worker={'worker_id': 1, 'dp_rank': 0}),
        select('pinned rank', 200, {'worker_id': 2, 'dp_rank': 1}, model_name='m2',
               pinned_worker={'worker_id': 2, 'dp_rank': 1}),
        select('pinned without worker_id', 422, pinned_worker={'dp_rank': 0}),
        select('pinned negative', 422, pinned_worker={'worker_id': -1}),
        select('pinned to nobody', 503, pinned_worker={'worker_id': 99}),
        select('pinned outside the allowed', 400, pinned_worker={'worker_id': 1}, allowed_worker_ids=[3]),
        select('allowed', 200, {'worker_id': 1}, allowed_worker_ids=[1, 99]),
        select('allowed nobody', 503, allowed_worker_ids=[]),
        select('allowed as texts', 422, allowed_worker_ids=['1']),
        select('override', 200, shape, router_config_override={'overlap_score_credit': 0.5, 'router_temperature': 0.1,
                                                               'assume_kv_reuse': True, 'prefill_load_scale': 2}),
        select('override out of range', 400, router_config_override={'router_temperature': -1}),
        select('shared multiplier out of range', 400, router_config_override={'shared_cache_multiplier': 1.5}),
        select('override of another type', 422, router_config_override={'router_temperature': 'hot'}),
        select('deprecated weight', 200, shape, router_config_override={'overlap_score_weight': 0}),
        select('deprecated weight out of range', 400, router_config_override={'overlap_score_weight': -1}),
        select('expected output', 200, shape, expected_output_tokens=100),
        select('expected output 0', 400, expected_output_tokens=0),
        select('priority fields', 200, shape, priority_jump=1.5, strict_priority=3, session_id='s'),
        select('priority of another type', 422, priority_jump='high'),
        select('strict priority negative', 422, strict_priority=-1),
        select('session of another type', 422, session_id=5),
        select('taints', 200, shape, routing_constraints={'required_taints': [], 'preferred_taints': {'a': 0.5}}),
        select('taints of another type', 422, routing_constraints={'required_taints': 'a'}),
        select('taint weights of another type', 422, routing_constraints={'preferred_taints': {'a': 'b'}}),
        Row(f'{route} policy class', 'POST', route, prompt(), 200, shape, headers={'x-dynamo-meta-policy-class': 'bulk'}),
        select('salt and adapter', 200, shape, cache_salt='s', lora_name='l'),
        select('id too long', 400, selection_id='x' * 300) if route == '/select_and_reserve'
        else select('id comes back', 200, {**shape, 'selection_id': 'mine'}, selection_id='mine'),
    ]

ROWS += [
    # booking
    Row('generated id', 'POST', '/select_and_reserve', prompt(), 200, {**BOOKED, 'selection_id': str}),
    Row('given id', 'POST', '/select_and_reserve', prompt(selection_id='g1'), 200, {**BOOKED, 'selection_id': 'g1'}),
    Row('duplicate id', 'POST', '/select_and_reserve', prompt(selection_id='g2'), 409, before=(reserved('g2'),)),
    Row('id is free again', 'POST', '/select_and_reserve', prompt(selection_id='g3'), 200, {'selection_id': 'g3'},
        before=(reserved('g3'), ('DELETE', '/reservations/g3', None))),
    Row('hashes come back signed', 'POST', '/select_and_reserve', hashes(selection_id='g4'), 200, {'sequence_hashes': [3, -4]}),
    Row('untracked prefill', 'POST', '/select_and_reserve', prompt(router_config_override={'track_prefill_tokens': False}), 200,
        {'track_prefill_tokens': False}),
    # replay form
    Row('replay', 'POST', '/reservations', {'selection_id': 'r1'}, 201, {**RESERVATION, 'selection_id': 'r1'},
        before=(selected('r1'),)),
    Row('replay names its partition', 'POST', '/reservations', {'selection_id': 'r2', 'model_name': 'm2'}, 201,
        {'worker_id': 2}, before=(selected('r2', model_name='m2'),)),
    Row('replay in another partition', 'POST', '/reservations', {'selection_id': 'r3', 'model_name': 'm2'}, 404,
        before=(selected('r3'),)),
    Row('replay of nothing', 'POST', '/reservations', {'selection_id': 'r4'}, 404),
    Row('replay twice', 'POST', '/reservations', {'selection_id': 'r5'}, 409,
        before=(selected('r5'), ('POST', '/reservations', {'selection_id': 'r5'}))),
    Row('replay is single use', 'POST', '/reservations', {'selection_id': 'r6'}, 404,
        before=(selected('r6'), ('POST', '/reservations', {'selection_id': 'r6'}), ('DELETE', '/reservations/r6', None))),
    Row('replay after a failed booking', 'POST', '/reservations', {'selection_id': 'r7'}, 201, {'selection_id': 'r7'},
        before=(selected('r7'), reserved('r7'), ('POST', '/reservations', {'selection_id': 'r7'}),
                ('DELETE', '/reservations/r7', None))),
    Row('replay without id', 'POST', '/reservations', {}, 422),
    # explicit form
    Row('explicit', 'POST', '/reservations', prompt(selection_id='e1', worker_id=1), 201, {**RESERVATION, 'selection_id': 'e1'}),
    Row('explicit hashes', 'POST', '/reservations', hashes(selection_id='e2', worker_id=1), 201, RESERVATION),
    Row('explicit rank', 'POST', '/reservations', prompt(selection_id='e3', worker_id=2, dp_rank=1, model_name='m2'), 201,
        {'worker_id': 2, 'dp_rank': 1}),
    Row('explicit rank out of range', 'POST', '/reservations', prompt(selection_id='e4', worker_id=1, dp_rank=7), 409),
    Row('explicit unknown worker', 'POST', '/reservations', prompt(selection_id='e5', worker_id=99), 404),
    Row('explicit unknown model', 'POST', '/reservations', prompt(selection_id='e6', worker_id=1, model_name='nobody'), 404),
    Row('explicit duplicate', 'POST', '/reservations', prompt(selection_id='e7', worker_id=1), 409, before=(reserved('e7'),)),
    Row('explicit prefill', 'POST', '/reservations', prompt(selection_id='e8', worker_id=1, effective_prefill_tokens=2), 201, {}),
    Row('more prefill than prompt', 'POST', '/reservations',
        prompt(selection_id='e9', worker_id=1, effective_prefill_tokens=11), 400),
    Row('negative prefill', 'POST', '/reservations', prompt(selection_id='e10', worker_id=1, effective_prefill_tokens=-1), 422),
    Row('tracking of another type', 'POST', '/reservations', prompt(selection_id='e11', worker_id=1, track_prefill_tokens=1), 422),
    Row('untracked', 'POST', '/reservations', prompt(selection_id='e12', worker_id=1, track_prefill_tokens=False), 201, {}),
    Row('worker without prompt', 'POST', '/reservations', {'selection_id': 'e13', 'worker_id': 1}, 400),
    Row('prompt without worker', 'POST', '/reservations', prompt(selection_id='e14'), 400),
    Row('worker of 2^64', 'POST', '/reservations',
        b'{"selection_id":"e15","worker_id":18446744073709551616,"token_ids":[1]}', 422),
    Row('reservation no content type', 'POST', '/reservations', {'selection_id': 'e16'}, 415, content_type=None),
    Row('reservation truncated', 'POST', '/reservations', b'{"selection_id":"e17"', 400),
    Row('reservations GET', 'GET', '/reservations', None, 405),
    # headers
    Row('policy class', 'POST', '/select', prompt(), 200, SELECTION, headers={'x-dynamo-meta-policy-class': 'gold.interactive-1_a'}),
    Row('policy class of a booking', 'POST', '/select_and_reserve', prompt(), 200, BOOKED,
        headers={'X-Dynamo-Meta-Policy-Class': 'gold'}),
    Row('policy class no word', 'POST', '/select', prompt(), 400, headers={'x-dynamo-meta-policy-class': 'gold class'}),
    Row('policy class not ASCII', 'POST', '/select_and_reserve', prompt(), 400,
        headers={'x-dynamo-meta-policy-class': 'g\u00f6ld'.encode()}),
    Row('policy class too long', 'POST', '/reservations', {'selection_id': 'h1'}, 400,
        headers={'x-dynamo-meta-policy-class': 'g' * 129}),
    Row('policy class as long as may be', 'POST', '/select', prompt(), 200, headers={'x-dynamo-meta-policy-class': 'g' * 128},
        shape=SELECTION),
    Row('explained', 'POST', '/select', prompt(), 200,
        {**SELECTION, 'explanation': {'decision': {'reason': str, 'candidates': list}, 'live': False}},
        headers={'x-route-explain': '1'}),
    Row('explained yes', 'POST', '/select', prompt(), 400, headers={'x-route-explain': 'yes'}),
    Row('explain of nobody', 'GET', '/explain/nobody', None, 404),
    Row('explain of a booking', 'GET', '/explain/h2', None, 200, {'decision': {'request_id': 'h2', 'booked': True}, 'live': True},
        before=(reserved('h2'),)),
    Row('explain POST', 'POST', '/explain/h2', {}, 405),
    # life
    Row('prefill complete', 'POST', '/reservations/l1/prefill_complete', None, 200, OK, content_type=None, before=(reserved('l1'),)),
    Row('prefill complete again', 'POST', '/reservations/l2/prefill_complete', None, 200, OK, content_type=None,
        before=(reserved('l2'), ('POST', '/reservations/l2/prefill_complete', None))),
    Row('prefill complete of nobody', 'POST', '/reservations/nobody/prefill_complete', None, 404, content_type=None),
    Row('prefill complete GET', 'GET', '/reservations/l1/prefill_complete', None, 405),
    Row('output block', 'POST', '/reservations/l3/output_block', {'decay_fraction': 0.5}, 200, OK, before=(reserved('l3'),)),
    Row('output block without body', 'POST', '/reservations/l4/output_block', None, 200, OK, content_type=None,
        before=(reserved('l4'),)),
    Row('output block empty object', 'POST', '/reservations/l5/output_block', {}, 200, OK, before=(reserved('l5'),)),
    Row('output block of nobody', 'POST', '/reservations/nobody/output_block', {}, 404),
    Row('decay above 1', 'POST', '/reservations/l6/output_block', {'decay_fraction': 1.1}, 400, before=(reserved('l6'),)),
    Row('decay below 0', 'POST', '/reservations/l7/output_block', {'decay_fraction': -0.1}, 400, before=(reserved('l7'),)),
    Row('decay as a text', 'POST', '/reservations/l8/output_block', {'decay_fraction': '1'}, 422, before=(reserved('l8'),)),
    Row('decay NaN', 'POST', '/reservations/l9/output_block', b'{"decay_fraction":NaN}', 400, before=(reserved('l9'),)),
    Row('output block as text/plain', 'POST', '/reservations/l10/output_block', {}, 415, content_type='text/plain'),
    Row('delete', 'DELETE', '/reservations/l11', None, 200, OK, before=(reserved('l11'),)),
    Row('delete of nobody', 'DELETE', '/reservations/nobody', None, 200, OK),
    Row('delete in another partition', 'DELETE', '/reservations/l12', None, 200, OK,
        before=(('POST', '/select_and_reserve', prompt(selection_id='l12', model_name='m2')),)),
    Row('id with escapes', 'DELETE', '/reservations/a%2Fb%20c', None, 200, OK, before=(reserved('a/b c'),)),
    Row('escapes name the id', 'POST', '/reservations/x%2Fy/prefill_complete', None, 200, OK, before=(reserved('x/y'),)),
    Row('reservation GET', 'GET', '/reservations/l1', None, 405),
    Row('unknown verb of a reservation', 'POST', '/reservations/l1/explode', None, 404),
    Row('empty id', 'POST', '/reservations//prefill_complete', None, 404),
    # workers
    Row('register', 'POST', '/workers', worker(10), 201, {**RECORD, 'worker_id': 10, 'endpoint': 'http://w10:8000'}),
    Row('register again', 'POST', '/workers', worker(11), 201, {**RECORD, 'worker_id': 11}, before=(registered(11),)),
    Row('register incomplete', 'POST', '/workers', {'worker_id': 12}, 201,
        {'worker_id': 12, 'lifecycle': 'incomplete', 'not_schedulable_reasons': list, 'model_name': 'default'}),
    Row('register without id', 'POST', '/workers', {'endpoint': 'http://w'}, 422),
    Row('register id as a text', 'POST', '/workers', {'worker_id': '7'}, 422),
    Row('register id negative', 'POST', '/workers', {'worker_id': -7}, 422),
    Row('register id 2^64', 'POST', '/workers', b'{"worker_id":18446744073709551616}', 422),
    Row('register id 2^64-1', 'POST', '/workers', worker(2**64 - 1), 201, {'worker_id': 2**64 - 1}),
    Row('register twice a key', 'POST', '/workers', b'{"worker_id":13,"worker_id":14}', 422),
    Row('register truncated', 'POST', '/workers', b'{"worker_id":13', 400),
    Row('register nested deeply', 'POST', '/workers', b'{"worker_id":13,"x":' + b'[' * 5000 + b']' * 5000 + b'}', 400),
    Row('register invalid UTF-8', 'POST', '/workers', b'{"worker_id":13,"endpoint":"\xff"}', 400),
    Row('register no content type', 'POST', '/workers', worker(15), 415, content_type=None),
    Row('register array', 'POST', '/workers', b'[]', 422),
    Row('register too much', 'POST', '/workers', b'{"worker_id":15,"endpoint":"' + b'x' * (2 << 20) + b'"}', 413),
    Row('register other block size', 'POST', '/workers', worker(16, block_size=8), 409, before=(registered(17),)),
    Row('register block size too large', 'POST', '/workers', worker(16, block_size=1 << 20), 400),
    Row('register dp size 0', 'POST', '/workers', worker(16, data_parallel_size=0), 400),
    Row('register ranks and feeds', 'POST', '/workers',
        worker(18, data_parallel_size=2, kv_events_endpoints={'0': 'tcp://127.0.0.1:1', '1': 'tcp://127.0.0.1:2'}), 201,
        {'data_parallel_size': 2, 'kv_events_endpoints': {'0': 'tcp://127.0.0.1:1', '1': 'tcp://127.0.0.1:2'}}),
    Row('register one feed', 'POST', '/workers', worker(19, kv_events_endpoint='tcp://127.0.0.1:1',
                                                        replay_endpoint='tcp://127.0.0.1:2'), 201,
        {'kv_events_endpoints': {'0': 'tcp://127.0.0.1:1'}}),
    Row('register one feed for two ranks', 'POST', '/workers', worker(20, data_parallel_size=2,
                                                                      kv_events_endpoint='tcp://127.0.0.1:1'), 400),
    Row('register feed outside the ranks', 'POST', '/workers', worker(20, kv_events_endpoints={'3': 'tcp://127.0.0.1:1'}), 400),
    Row('register feed of another type', 'POST', '/workers', worker(20, kv_events_endpoints=['tcp://127.0.0.1:1']), 422),
    Row('register traits', 'POST', '/workers', worker(21, taints=['a'], topology_domains={'zone': 'z'}, stable_routing_id='s',
                                                      kv_transfer_domain='zone', kv_transfer_enforcement='preferred',
                                                      kv_transfer_preferred_weight=0.5, lora_adapters=['sql']), 201,
        {'taints': ['a'], 'topology_domains': {'zone': 'z'}, 'stable_routing_id': 's', 'kv_transfer_domain': 'zone',
         'kv_transfer_enforcement': 'preferred', 'kv_transfer_preferred_weight': 0.5, 'lora_adapters': ['sql']}),
    Row('register a transfer domain without a label', 'POST', '/workers',
        worker(22, topology_domains={'zone': 'z'}, kv_transfer_domain='rack', kv_transfer_enforcement='required'), 400),
    Row('register another enforcement', 'POST', '/workers',
        worker(22, topology_domains={'zone': 'z'}, kv_transfer_domain='zone', kv_transfer_enforcement='perhaps'), 400),
    Row('register adapters of another type', 'POST', '/workers', worker(22, lora_adapters='sql'), 422),
    Row('register topology of another type', 'POST', '/workers', worker(22, topology_domains=['z']), 422),
    Row('register taints of another type', 'POST', '/workers', worker(22, taints='a'), 422),
    Row('register EAGLE', 'POST', '/workers', worker(63, model_name='eagle3', is_eagle=True), 201, {'is_eagle': True}),
    Row('register EAGLE as a text', 'POST', '/workers', worker(64, is_eagle='yes'), 422),
    Row('register beside an EAGLE worker', 'POST', '/workers', worker(64, model_name='eagle'), 409, before=(EAGLE,)),
    Row('register without EAGLE', 'POST', '/workers', worker(65, model_name='plain', is_eagle=False), 201,
        {'is_eagle': False, 'image_token_id': None}),
    Row('register an image token', 'POST', '/workers', worker(66, model_name='images', image_token_id=151655), 201,
        {'image_token_id': 151655}),
    Row('register another image token', 'POST', '/workers', worker(67, model_name='images', image_token_id=7), 409,
        before=(registered(66, model_name='images', image_token_id=151655),)),
    Row('register an image token of 2^32', 'POST', '/workers', worker(67, image_token_id=2**32), 422),
    Row('patch EAGLE of the only worker', 'PATCH', '/workers/68', {'is_eagle': True, 'image_token_id': 9}, 200,
        {'is_eagle': True, 'image_token_id': 9}, before=(registered(68, model_name='eagle4'),)),
    Row('patch EAGLE of one of two', 'PATCH', '/workers/69', {'is_eagle': True}, 409,
        before=(registered(69, model_name='two'), registered(70, model_name='two'))),
    Row('register role', 'POST', '/workers', worker(23, role='decode'), 201, {'role': 'decode'}),
    Row('register unknown role', 'POST', '/workers', worker(24, role='chef'), 400),
    Row('list', 'GET', '/workers?model_name=m2', None, 200, [{'worker_id': 2, 'data_parallel_size': 2}]),
    Row('list of a group', 'GET', '/workers?routing_group=nobody', None, 200, []),
    Row('patch', 'PATCH', '/workers/30', {'max_num_batched_tokens': 8192, 'total_kv_blocks': 5}, 200,
        {'worker_id': 30, 'max_num_batched_tokens': 8192, 'total_kv_blocks': 5}, before=(registered(30),)),
    Row('patch completes', 'PATCH', '/workers/31', {'endpoint': 'http://w31', 'block_size': 4}, 200,
        {'worker_id': 31, 'lifecycle': 'schedulable'}, before=(('POST', '/workers', {'worker_id': 31, 'model_name': 'spare'}),)),
    Row('patch drains', 'PATCH', '/workers/32', {'draining': True}, 200, {'lifecycle': 'draining'}, before=(registered(32),)),
    Row('patch of nobody', 'PATCH', '/workers/99', {}, 404),
    Row('patch no number', 'PATCH', '/workers/seven', {}, 400),
    Row('patch of another type', 'PATCH', '/workers/33', {'block_size': 'big'}, 422, before=(registered(33),)),
    Row('patch of the model', 'PATCH', '/workers/34', {'model_name': 'm2'}, 400, before=(registered(34),)),
    Row('patch to a foreign block size', 'PATCH', '/workers/35', {'block_size': 16}, 409, before=(registered(35),)),
    Row('remove', 'DELETE', '/workers/36', None, 200, {'worker_id': 36}, before=(registered(36),)),
    Row('remove twice', 'DELETE', '/workers/37', None, 404, before=(registered(37), ('DELETE', '/workers/37', None))),
    Row('remove incomplete', 'DELETE', '/workers/38', None, 200, {'worker_id': 38}, before=(('POST', '/workers', {'worker_id': 38}),)),
    Row('removed is gone', 'GET', '/workers?model_name=gone', None, 200, [],
        before=(registered(39, model_name='gone'), ('DELETE', '/workers/39', None))),
    Row('select on incomplete', 'POST', '/select', prompt(model_name='unfinished'), 404,
        before=(('POST', '/workers', {'worker_id': 40, 'model_name': 'unfinished'}),)),
    Row('select on draining', 'POST', '/select', prompt(model_name='drained'), 503,
        before=(registered(41, model_name='drained'), ('PATCH', '/workers/41', {'draining': True}))),
    Row('workers PUT', 'PUT', '/workers', worker(42), 405),
    Row('worker GET', 'GET', '/workers/1', None, 405),
    # figures
    Row('health', 'GET', '/health', None, 200, {}),
    Row('ready', 'GET', '/ready', None, 200, {'ready': True, 'schedulable_workers': int, 'workers': list}),
    Row('ready POST', 'POST', '/ready', {}, 405),
    Row('loads POST', 'POST', '/loads', {}, 405),
    Row('dump POST', 'POST', '/dump', {}, 405),
    Row('dump', 'GET', '/dump', None, 200, {'default:default': {'block_size': 4, 'events': []}}),
    Row('overlap scores', 'POST', '/overlap_scores', prompt(model_name='m2'), 200, {
        'block_size': 8, 'num_blocks': 1, 'shared_cache': {'enabled': False, 'total_hit_blocks': 0, 'ranges': [], 'error': None},
        'workers': [{'worker_id': 2, 'dp_rank': rank, 'device_blocks': 0, 'host_pinned_blocks': 0, 'disk_blocks': 0,
                     'host_pinned_extension_blocks': 0, 'disk_extension_blocks': 0, 'shared_beyond_device_blocks': 0,
                     'router_credit_blocks': 0} for rank in (0, 1)]}),
    Row('potential loads', 'POST', '/potential_loads', prompt(model_name='idle'), 200,
        {'model_name': 'idle', 'routing_group': 'default', 'pending_count': 0, 'pending_isl_tokens': 0,
         'loads': [{'worker_id': 50, 'dp_rank': 0, 'potential_prefill_tokens': 10, 'potential_decode_blocks': 2,
                    'active_requests': 0}]},
        before=(registered(50, model_name='idle'),)),
    Row('unknown route', 'GET', '/nowhere', None, 404, {'error': 'route not found'}),
    Row('unknown route POST', 'POST', '/selects', prompt(), 404, {'error': 'route not found'}),
    Row('wrong method', 'DELETE', '/select', None, 405, {'error': 'method not allowed'}),
    Row('select HEAD', 'HEAD', '/select', None, 405, ...),
]
