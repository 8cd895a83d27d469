"""The standalone indexer's HTTP API as a table: what is sent, what must come back.

Written from the upstream API's description, not from our code, in the form of selection_cases.py. A row runs on one daemon
that all rows share; it has instance 1 (model m, block size 4, rank 0) and worker 2 (model w, ranks 0 and 1, block size 8,
registered with an address at another door). Rows use ids of their own and say in `before` what they need besides.
"""
import itertools

from http_table import JSON
from selection_cases import DEEP, Row

OK = {'status': 'ok'}
PORTS = itertools.count(20000)  # nobody listens there


def instance(instance_id, **more):
    return {'instance_id': instance_id, 'endpoint': f'tcp://127.0.0.1:{next(PORTS)}', 'model_name': 'spare', 'block_size': 4, **more}


def without(body, *names):
    return {name: value for name, value in body.items() if name not in names}


def registered(instance_id, **more):
    return ('POST', '/register', instance(instance_id, **more))


def query(**more):
    return {'token_ids': list(range(10)), 'model_name': 'm', **more}


def by_hash(**more):
    return {'block_hashes': [1, -2], 'model_name': 'm', **more}


NO_SCORES = {'scores': {}, 'frequencies': [], 'instances': {}}
RECORD = {'instance_id': 1, 'source': 'zmq', 'status': str, 'model_name': 'm', 'routing_group': 'default', 'block_size': 4,
          'endpoints': {'0': str}, 'listeners': {'0': {'endpoint': str, 'status': str}}}

VALID = {'/register': lambda: instance(90), '/unregister': lambda: {'instance_id': 91, 'model_name': 'm'}, '/query': query,
         '/query_by_hash': by_hash, '/register_peer': lambda: {'url': 'http://p:1'}, '/deregister_peer': lambda: {'url': 'http://q:1'}}

# What every route that reads a body answers to one that is not what it takes: (name, body, status).
BAD_BODIES = [
    ('empty body', b'', 400),
    ('truncated', b'{"model_name":"m"', 400),
    ('nested deeply', DEEP, 400),
    ('invalid UTF-8', b'{"model_name":"\xff\xfe","url":"\xff"}', 400),
    ('text after the object', b'{} x', 400),
    ('array instead of an object', b'[]', 422),
    ('nothing in it', b'{}', 422),
]

ROWS = [Row(f'{route} {name}', 'POST', route, body, status) for route in VALID for name, body, status in BAD_BODIES]
for route, valid in VALID.items():
    ROWS += [
        Row(f'{route} no content type', 'POST', route, valid(), 415, content_type=None),
        Row(f'{route} text/plain', 'POST', route, valid(), 415, content_type='text/plain'),
        Row(f'{route} GET', 'GET', route, None, 405),
        Row(f'{route} DELETE', 'DELETE', route, None, 405),
    ]

# ---- /register ----
ROWS += [Row(f'/register without {name}', 'POST', '/register', without(instance(10), name), 422)
         for name in ('instance_id', 'endpoint', 'model_name', 'block_size')]
ROWS += [Row(f'/register bad endpoint {endpoint!r}', 'POST', '/register', instance(10, endpoint=endpoint), 400)
         for endpoint in ('', 'w:5557', 'http://w:5557', 'tcp://w', 'tcp://w:0', 'tcp://w:65536', 'tcp://*:5557', 'tcp://' + 'a' * 2000 + ':1')]
ROWS += [Row(f'/register bad replay endpoint {endpoint!r}', 'POST', '/register', instance(10, replay_endpoint=endpoint), 400)
         for endpoint in ('w:5558', 'tcp://w', 'tcp://*:5558')]
ROWS += [Row(f'/register {name} as {value!r}', 'POST', '/register', {**instance(10), name: value}, 422)
         for name, value in (('instance_id', '7'), ('instance_id', -1), ('instance_id', 1.5), ('endpoint', 5), ('model_name', []),
                             ('routing_group', 1), ('block_size', '16'), ('block_size', -1), ('block_size', 2**32), ('dp_rank', 'a'),
                             ('dp_rank', -1), ('dp_rank', 2**32), ('replay_endpoint', 5), ('tenant_id', 5), ('additional_salt', 5),
                             ('additionalsalt', 5))]
ROWS += [
    Row('/register', 'POST', '/register', instance(11), 201, OK),
    Row('/register every field', 'POST', '/register',
        instance(12, routing_group='g', dp_rank=0, replay_endpoint='tcp://127.0.0.1:19999', additional_salt=None, tenant_id='t'), 201, OK),
    Row('/register a salt, by either name', 'POST', '/register', instance(13, additional_salt='s', additionalsalt='s'), 201, OK),
    Row('/register nulls are as absent', 'POST', '/register', instance(14, dp_rank=None, replay_endpoint=None), 201, OK),
    Row('/register ipc', 'POST', '/register', instance(15, endpoint='ipc:///tmp/kvrouter-nobody'), 201, OK),
    Row('/register the largest id', 'POST', '/register', instance(2**64 - 1), 201, OK),
    Row('/register unknown fields are ignored', 'POST', '/register', instance(16, extra=[1]), 201, OK),
    Row('/register block size 0', 'POST', '/register', instance(17, block_size=0, model_name='zero'), 400),
    Row('/register block size of another instance', 'POST', '/register', instance(18, model_name='m', block_size=8), 409),
    Row('/register the same rank again', 'POST', '/register', instance(19), 409, before=(registered(19),)),
    Row('/register another rank', 'POST', '/register', instance(20, dp_rank=1), 201, OK, before=(registered(20),)),
    Row('/register a rank below', 'POST', '/register', instance(21, dp_rank=0), 201, OK, before=(registered(21, dp_rank=3),)),
    Row('/register a rank too far away', 'POST', '/register', instance(22, dp_rank=1024), 400, before=(registered(22),)),
    Row('/register a known instance for another model', 'POST', '/register', instance(23, model_name='other', dp_rank=1), 409,
        before=(registered(23),)),
    Row('/register a known instance for another group', 'POST', '/register', instance(24, routing_group='other', dp_rank=1), 409,
        before=(registered(24),)),
    Row('/register a known instance with another block size', 'POST', '/register', instance(25, block_size=8, dp_rank=1), 409,
        before=(registered(25),)),
    Row('/register a rank of a worker', 'POST', '/register', instance(2, model_name='w', block_size=8, dp_rank=0), 201, OK),
    Row('/register a rank that a worker has not', 'POST', '/register', instance(2, model_name='w', block_size=8, dp_rank=2), 409),
    Row('/register an empty model', 'POST', '/register', instance(26, model_name=''), 400),
]

# ---- /unregister ----
ROWS += [Row(f'/unregister without {name}', 'POST', '/unregister', without({'instance_id': 30, 'model_name': 'm'}, name), 422)
         for name in ('instance_id', 'model_name')]
ROWS += [
    Row('/unregister', 'POST', '/unregister', {'instance_id': 31, 'model_name': 'spare'}, 200, OK, before=(registered(31),)),
    Row('/unregister in its group', 'POST', '/unregister', {'instance_id': 32, 'model_name': 'spare', 'routing_group': 'g32'}, 200, OK,
        before=(registered(32, routing_group='g32'),)),
    Row('/unregister a rank', 'POST', '/unregister',
        {'instance_id': 33, 'model_name': 'spare', 'routing_group': 'default', 'dp_rank': 1}, 200, OK,
        before=(registered(33), registered(33, dp_rank=1))),
    Row('/unregister a rank that is gone', 'POST', '/unregister',
        {'instance_id': 34, 'model_name': 'spare', 'routing_group': 'default', 'dp_rank': 1}, 404, before=(registered(34),)),
    Row('/unregister twice', 'POST', '/unregister', {'instance_id': 35, 'model_name': 'spare'}, 404,
        before=(registered(35), ('POST', '/unregister', {'instance_id': 35, 'model_name': 'spare'}))),
    Row('/unregister unknown', 'POST', '/unregister', {'instance_id': 36, 'model_name': 'spare'}, 404),
    Row('/unregister of another model', 'POST', '/unregister', {'instance_id': 37, 'model_name': 'other'}, 404, before=(registered(37),)),
    Row('/unregister of another group', 'POST', '/unregister', {'instance_id': 38, 'model_name': 'spare', 'routing_group': 'other'}, 404,
        before=(registered(38),)),
    Row('/unregister tenant_id is ignored', 'POST', '/unregister', {'instance_id': 39, 'model_name': 'spare', 'tenant_id': 'x'}, 200, OK,
        before=(registered(39),)),
    Row('/register after /unregister', 'POST', '/register', instance(40), 201, OK,
        before=(registered(40), ('POST', '/unregister', {'instance_id': 40, 'model_name': 'spare'}))),
]

# ---- /workers ----
ROWS += [
    Row('/workers of a model', 'GET', '/workers?model_name=m', None, 200, [RECORD]),
    Row('/workers of a model and group', 'GET', '/workers?model_name=m&routing_group=default', None, 200, [RECORD]),
    Row('/workers of an unknown model', 'GET', '/workers?model_name=nobody', None, 200, []),
    Row('/workers of an unknown group', 'GET', '/workers?model_name=m&routing_group=nobody', None, 200, []),
    Row('/workers tenant_id is ignored', 'GET', '/workers?model_name=m&tenant_id=x', None, 200, [RECORD]),
    Row('/workers all', 'GET', '/workers', None, 200, list),
    Row('/workers of a group of one', 'GET', '/workers?routing_group=g50', None, 200,
        [{'instance_id': 50, 'status': 'pending', 'endpoints': {'0': str, '1': str}, 'listeners': {'0': dict, '1': dict}}],
        before=(registered(50, routing_group='g50'), registered(50, routing_group='g50', dp_rank=1))),
    Row('/workers POST', 'POST', '/workers', {}, 405),
]

# ---- /query, /query_by_hash ----
ROWS += [Row(f'{route} without {name}', 'POST', route, without(body(), name), 422)
         for route, body, names in (('/query', query, ('token_ids', 'model_name')), ('/query_by_hash', by_hash, ('block_hashes', 'model_name')))
         for name in names]
for route, body in (('/query', query), ('/query_by_hash', by_hash)):
    ROWS += [
        Row(f'{route} nobody holds anything', 'POST', route, body(), 200, NO_SCORES),
        Row(f'{route} in the default group', 'POST', route, body(routing_group='default'), 200, NO_SCORES),
        Row(f'{route} unknown model', 'POST', route, body(model_name='nobody'), 404),
        Row(f'{route} unknown group', 'POST', route, body(routing_group='nobody'), 404),
        Row(f'{route} tenant_id is ignored', 'POST', route, body(tenant_id='t'), 200, NO_SCORES),
        Row(f'{route} unknown fields are ignored', 'POST', route, body(extra={'a': [None]}), 200, NO_SCORES),
        Row(f'{route} unknown fields must be JSON', 'POST', route, b'{"model_name":"m","extra":tru}', 400),
        Row(f'{route} null salt', 'POST', route, body(cache_salt=None), 200, NO_SCORES),
        Row(f'{route} salt as a number', 'POST', route, body(cache_salt=5), 422),
        Row(f'{route} group as a number', 'POST', route, body(routing_group=5), 422),
        Row(f'{route} field sent twice', 'POST', route, b'{"model_name":"m","model_name":"m"}', 422),
    ]
ROWS += [Row(f'/query {name}', 'POST', '/query', query(token_ids=tokens), 422)
         for name, tokens in (('token as a text', ['1']), ('negative token', [-1]), ('token of 2^32', [2**32]), ('fractional token', [1.5]),
                              ('tokens as an object', {}), ('tokens as a text', 'abc'))]
ROWS += [Row(f'/query_by_hash {name}', 'POST', '/query_by_hash', by_hash(block_hashes=hashes), 422)
         for name, hashes in (('hash as a text', ['1']), ('hash of 2^63', [2**63]), ('fractional hash', [1.5]), ('hashes as an object', {}))]
ROWS += [
    Row('/query no tokens', 'POST', '/query', query(token_ids=[]), 200, NO_SCORES),
    Row('/query less than a block', 'POST', '/query', query(token_ids=[1]), 200, NO_SCORES),
    Row('/query with adapter and salt', 'POST', '/query', query(lora_name='a', cache_salt='s'), 200, NO_SCORES),
    Row('/query adapter as a number', 'POST', '/query', query(lora_name=5), 422),
    Row('/query_by_hash no hashes', 'POST', '/query_by_hash', by_hash(block_hashes=[]), 200, NO_SCORES),
    Row('/query_by_hash the ends of the range', 'POST', '/query_by_hash', by_hash(block_hashes=[-2**63, 2**63 - 1]), 200, NO_SCORES),
    Row('/query_by_hash refuses a salt', 'POST', '/query_by_hash', by_hash(cache_salt='s'), 400),
    Row('/query_by_hash refuses an empty salt', 'POST', '/query_by_hash', by_hash(cache_salt=''), 400),
]

# ---- peers, and the rest ----
ROWS += [
    Row('/register_peer', 'POST', '/register_peer', {'url': 'http://p1:8090'}, 201, OK),
    Row('/register_peer twice', 'POST', '/register_peer', {'url': 'http://p2:8090'}, 201, OK,
        before=(('POST', '/register_peer', {'url': 'http://p2:8090'}),)),
    Row('/register_peer url as a number', 'POST', '/register_peer', {'url': 5}, 422),
    Row('/register_peer empty url', 'POST', '/register_peer', {'url': ''}, 400),
    Row('/register_peer long url', 'POST', '/register_peer', {'url': 'h' * 1025}, 400),
    Row('/deregister_peer', 'POST', '/deregister_peer', {'url': 'http://p3:8090'}, 200, OK,
        before=(('POST', '/register_peer', {'url': 'http://p3:8090'}),)),
    Row('/deregister_peer unknown', 'POST', '/deregister_peer', {'url': 'http://nobody:8090'}, 404, {'error': 'peer not found'}),
    Row('/peers', 'GET', '/peers', None, 200, list),
    Row('/peers POST', 'POST', '/peers', {}, 405),
    Row('/health', 'GET', '/health', None, 200, None),
    Row('/health POST', 'POST', '/health', {}, 405),
    Row('/dump', 'GET', '/dump', None, 200, {'m:default': {'block_size': 4, 'events': []}, 'w:default': {'block_size': 8, 'events': []}}),
    Row('/dump POST', 'POST', '/dump', {}, 405),
    Row('/reopen_logs', 'POST', '/reopen_logs', None, 200, OK),
    Row('/reopen_logs GET', 'GET', '/reopen_logs', None, 405),
    Row('/metrics POST', 'POST', '/metrics', {}, 405),
    Row('no /score', 'POST', '/score', {}, 404, {'error': 'route not found'}),
    Row('no test routes', 'POST', '/test/pause_listener', {'instance_id': 1}, 404, {'error': 'route not found'}),
    Row('no test routes to resume', 'POST', '/test/resume_listener', {'instance_id': 1}, 404, {'error': 'route not found'}),
    Row('the selection API is elsewhere', 'POST', '/select', query(), 404, {'error': 'route not found'}),
    Row('POST without a body', 'POST', '/register', None, 415, content_type=JSON),
]
