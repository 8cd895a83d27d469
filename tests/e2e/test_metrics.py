"""What moves which figure: advice moves none of requests, and every door moves the same ones."""
import json
import re
import socket

import grpc
from conftest import DEADLINE_S, live_events, router_pb2, wait_for

TOKENS = list(range(40))
TIMED = re.compile('overhead_.*_ms|_to_first_token_seconds|inter_token_latency_seconds')


class Http:
    """One connection, requests sent in batches ahead of their answers."""

    def __init__(self, daemon):
        host, port = daemon.http_address.rsplit(':', 1)
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        self.answers = self.socket.makefile('rb')

    def answer(self):
        status = int(self.answers.readline().split()[1])
        length = 0
        while (line := self.answers.readline()) != b'\r\n':
            name, value = line.split(b':', 1)
            if name.lower() == b'content-length':
                length = int(value)
        text = self.answers.read(length)
        return status, json.loads(text) if text else None

    def batch(self, requests):
        """[(method, path, body or None)] -> [(status, JSON)]"""
        raw = b''
        for method, path, body in requests:
            text = b'' if body is None else json.dumps(body).encode()
            raw += f'{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n'.encode()
            raw += text
        self.socket.sendall(raw)
        return [self.answer() for _ in requests]

    def send(self, method, path, body=None):
        return self.batch([(method, path, body)])[0]


def values(metrics):
    return {(name, tuple(sorted(labels.items()))): value for name, labels, value in metrics.series}


def request(tokens=TOKENS, **fields):
    message = router_pb2.RouteRequest(**fields)
    message.token_ids.ids.extend(tokens)
    return message


def advice_over_grpc(daemon, streamed, unary, explained, looks):
    """Advice of every kind; how many decisions that were."""
    calls = (router_pb2.StreamRequest(correlation_id=i, route=request(TOKENS[:i % 41], advise_only=True)) for i in range(streamed))
    answers = list(daemon.router.RouteStream(calls, timeout=10 * DEADLINE_S))
    assert len(answers) == streamed and not any(a.route.booked or a.HasField('error') for a in answers)
    for i in range(unary):
        assert not daemon.router.Route(request(request_id=f'advice-{i}', advise_only=True), timeout=DEADLINE_S).booked
    for _ in range(explained):
        assert not daemon.router.Explain(router_pb2.ExplainRequest(request=request()), timeout=DEADLINE_S).decision.booked
    for _ in range(looks):
        daemon.router.OverlapScores(router_pb2.OverlapScoresRequest(request=request()), timeout=DEADLINE_S)
        daemon.router.PotentialLoads(router_pb2.PotentialLoadsRequest(request=request()), timeout=DEADLINE_S)
    return streamed + unary + explained


def test_ten_thousand_advisory_calls_book_nothing(start, new_engine):
    engine = new_engine()
    daemon = start()
    daemon.register(1, events=live_events(engine.endpoint))
    daemon.register(2)
    engine.wait_for_subscriber()
    engine.store(range(1, 6), TOKENS[:20])
    wait_for('blocks', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='1') == 5)
    wait_for('the feed to have reported them', lambda: daemon.metrics().one('kvrouter_feed_batches_applied_total') == 1)
    wait_for('the feed to be live', lambda: daemon.metrics().all('kvrouter_feed_state', worker_id='1', state='live') == [1])
    wait_for('the other one to be known', lambda: daemon.metrics().all('kvrouter_feed_state', worker_id='2', state='none') == [1])
    wait_for('ready', lambda: daemon.metrics().one('kvrouter_ready') == 1)
    daemon.route(TOKENS, 'live')  # so that no load is 0
    http = Http(daemon)
    before = values(daemon.metrics())

    decisions = advice_over_grpc(daemon, streamed=5000, unary=200, explained=200, looks=150)
    for path, times in (('/select', 2500), ('/overlap_scores', 900), ('/potential_loads', 900)):
        for _ in range(times // 50):
            answers = http.batch([('POST', path, {'token_ids': TOKENS})] * 50)
            assert {status for status, _ in answers} == {200}, answers
    decisions += 2500

    after = values(daemon.metrics())
    assert set(after) == set(before)
    moved = {series for series in after if after[series] != before[series]}
    allowed = re.compile('process_.*|kvrouter_http_(requests|selection_requests|connections_accepted)_total|kvrouter_http_(connections|buffered_bytes)|'
                         'kvrouter_advice_total|'
                         'dynamo_router_overhead_(block_hashing|seq_hashing|indexer_find_matches|scheduling|total)_ms_(bucket|sum|count)')
    assert not {name for name, _ in moved if not allowed.fullmatch(name)}
    grown = {name: after[name, labels] - before[name, labels] for name, labels in moved if not labels or name.endswith('_ms_count')}
    assert grown['kvrouter_advice_total'] == decisions
    assert grown['dynamo_router_overhead_total_ms_count'] == decisions
    assert grown['dynamo_router_overhead_scheduling_ms_count'] == decisions


def test_a_selection_that_is_booked_later_counts_once(start):
    daemon = start()
    daemon.register(1)
    http = Http(daemon)
    families = ('dynamo_component_router_kv_hit_rate_count', 'dynamo_component_router_requests_started_total',
                'dynamo_component_router_input_sequence_tokens_count', 'kvrouter_decisions_total', 'kvrouter_isl_tokens_total')

    def counted():
        metrics = daemon.metrics()
        return [sum(metrics.all(family)) for family in families]

    assert http.send('POST', '/select', {'token_ids': TOKENS, 'selection_id': 's'})[0] == 200
    assert counted() == [0, 0, 0, 0, 0]
    assert http.send('POST', '/reservations', {'selection_id': 's'})[0] == 201
    assert counted() == [1, 1, 1, 1, 40]
    assert http.send('POST', '/reservations', {'selection_id': 's'})[0] == 409
    assert counted() == [1, 1, 1, 1, 40]
    explicit = {'token_ids': TOKENS, 'selection_id': 'e', 'worker_id': 1, 'effective_prefill_tokens': 40}
    assert http.send('POST', '/reservations', explicit)[0] == 201
    assert counted() == [2, 2, 2, 2, 80]


def families_of(text):
    """The page as (name, type, lines of its series), with every rule of the format that a line alone can break checked."""
    families = []
    helped = None
    for line in text.splitlines():
        if line.startswith('# HELP '):
            helped = line.split(' ', 3)[2]
            assert len(line.split(' ', 3)[3]) > 10, line
        elif line.startswith('# TYPE '):
            name, kind = line.split(' ')[2:]
            assert name == helped, f'{line}: HELP and TYPE stand together'
            assert kind in ('counter', 'gauge', 'histogram'), line
            families.append((name, kind, []))
        else:
            matched = re.fullmatch(r'([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)', line)
            assert matched, f'no sample: {line}'
            families[-1][2].append((matched[1], matched[2] or '', float(matched[3])))
    assert text.endswith('\n')
    return families


def test_the_page_is_well_formed(start):
    daemon = start()
    daemon.register(1)
    daemon.register(2, model_name='quo"te\\and\nline')
    for i in range(5):
        daemon.route(range(40 * i), f'r{i}')
    families = families_of(daemon.metrics().text)
    names = [name for name, _, _ in families]
    assert len(names) == len(set(names))
    assert r'model="quo\"te\\and\nline"' in daemon.metrics().text
    for name, kind, samples in families:
        keys = [(sample, labels) for sample, labels, _ in samples]
        assert len(keys) == len(set(keys)), f'{name}: a series shows up twice'
        if kind != 'histogram':
            assert {sample for sample, _ in keys} <= {name}, name
            assert kind == 'gauge' or all(value >= 0 for _, _, value in samples), name
            continue
        by_labels = {}
        for sample, labels, value in samples:
            own = re.sub(r',?le="[^"]*"', '', labels)
            by_labels.setdefault(own, []).append((sample.removeprefix(name), labels, value))
        for own, lines in by_labels.items():
            assert [part for part, _, _ in lines if part != '_bucket'] == ['_count', '_sum'], f'{name}{own}'
            count = next(value for part, _, value in lines if part == '_count')
            buckets = [(float(re.search('le="([^"]*)"', labels)[1]), value) for part, labels, value in lines if part == '_bucket']
            assert buckets == sorted(buckets) and len({bound for bound, _ in buckets}) == len(buckets), f'{name}{own}'
            assert [value for _, value in buckets] == sorted(value for _, value in buckets), f'{name}{own}: not cumulative'
            assert buckets[-1] == (float('inf'), count), f'{name}{own}'


class UnaryDoor:
    def __init__(self, daemon):
        self.router = daemon.router

    def code(self, call, message):
        try:
            call(message, timeout=DEADLINE_S)
            return 'OK'
        except grpc.RpcError as error:
            return error.code().name

    def book(self, request_id, **fields):
        return self.code(self.router.Route, request(request_id=request_id, **fields))

    def advise(self):
        return self.code(self.router.Route, request(advise_only=True))

    def prefilled(self, request_id):
        return self.code(self.router.PrefillComplete, router_pb2.PrefillCompleteRequest(request_id=request_id))

    def output_block(self, request_id):
        return self.code(self.router.OutputBlock, router_pb2.OutputBlockRequest(request_id=request_id))

    def free(self, request_id):
        return self.code(self.router.Free, router_pb2.FreeRequest(request_id=request_id))

    def close(self):
        pass


class StreamDoor(UnaryDoor):
    """The same calls as messages of one stream, one at a time."""

    FIELDS = {'Route': 'route', 'PrefillComplete': 'prefill_complete', 'OutputBlock': 'output_block', 'Free': 'free'}

    def __init__(self, daemon):
        super().__init__(daemon)

    def code(self, call, message):
        # A stream per call, half-closed: its bookings stay.
        name = self.FIELDS[call._method.decode().rsplit('/', 1)[1]]
        answer, = self.router.RouteStream(iter([router_pb2.StreamRequest(**{name: message})]), timeout=DEADLINE_S)
        return grpc.StatusCode[self.name_of(answer.error.code)].name if answer.HasField('error') else 'OK'

    @staticmethod
    def name_of(code):
        return next(status.name for status in grpc.StatusCode if status.value[0] == code)


class HttpDoor:
    CODES = {200: 'OK', 201: 'OK', 404: 'NOT_FOUND', 409: 'ALREADY_EXISTS'}

    def __init__(self, daemon):
        self.http = Http(daemon)

    def code(self, method, path, body=None):
        return self.CODES[self.http.send(method, path, body)[0]]

    def book(self, request_id, **fields):
        return self.code('POST', '/select_and_reserve', {'token_ids': TOKENS, 'selection_id': request_id, **fields})

    def advise(self):
        return self.code('POST', '/select', {'token_ids': TOKENS})

    def prefilled(self, request_id):
        return self.code('POST', f'/reservations/{request_id}/prefill_complete')

    def output_block(self, request_id):
        return self.code('POST', f'/reservations/{request_id}/output_block', {})

    def free(self, request_id):
        return self.code('DELETE', f'/reservations/{request_id}')


def history(door):
    """One of everything, by one door; what the caller saw."""
    seen = [door.book('a'), door.advise(), door.book('a'), door.book('b', model_name='nobody')]
    seen += [door.prefilled('a'), door.output_block('a'), door.output_block('a'), door.output_block('a'), door.free('a')]
    seen += [door.book('c'), door.prefilled('c'), door.prefilled('c'), door.book('d'), door.prefilled('nobody')]
    return seen


def test_every_door_moves_the_same_families(start):
    seen, figures = [], []
    for kind in (UnaryDoor, StreamDoor, HttpDoor):
        daemon = start('--router-track-output-blocks')
        daemon.register(1)
        seen.append(history(kind(daemon)))
        moved = {}
        for (name, labels), value in values(daemon.metrics()).items():
            if name.startswith(('process_', 'kvrouter_http_')):
                continue
            if TIMED.search(name) and not name.endswith('_count'):
                continue  # how long it took is not the door's affair
            moved[name, labels] = value
        figures.append(moved)
    assert seen[0] == ['OK', 'OK', 'ALREADY_EXISTS', 'NOT_FOUND'] + ['OK'] * 9 + ['NOT_FOUND']
    assert seen[1] == seen[0] and seen[2] == seen[0]
    for other in figures[1:]:
        assert other == figures[0]
    counts = {name: value for (name, labels), value in figures[0].items() if name.startswith('dynamo_component_router_')}
    assert counts['dynamo_component_router_requests_started_total'] == 3
    assert counts['dynamo_component_router_requests_total'] == 1
    assert counts['dynamo_component_router_input_sequence_tokens_sum'] == 120
    assert counts['dynamo_component_router_time_to_first_token_seconds_count'] == 2
    assert counts['dynamo_component_router_inter_token_latency_seconds_count'] == 2, 'the first of 3 blocks has one token'
    assert counts['dynamo_component_router_output_sequence_tokens_sum'] == 9
