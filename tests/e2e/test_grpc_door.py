"""Bad clients of the gRPC door: each gets a clear answer, nothing of theirs is left, and others are served meanwhile."""
import os
import queue
import socket
import time

import grpc
import pytest
from conftest import DEADLINE_S, router_pb2, router_pb2_grpc, wait_for
from http2_client import DATA, BadClient, frame

# Sanitizers and allocators keep memory of their own; what an attack may not do is grow with its size.
SLACK_MIB = 250
SANITIZED = bool(os.environ.get('KVR_SANITIZE'))
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def resident_mib(daemon):
    with open(f'/proc/{daemon.process.pid}/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20


def own_channel(daemon):
    """A connection nobody else uses."""
    return grpc.insecure_channel(daemon.grpc_address, options=[('grpc.enable_http_proxy', 0), ('grpc.use_local_subchannel_pool', 1),
                                                               ('grpc.max_send_message_length', -1)])


def raw_route(channel):
    return channel.unary_unary('/kvrouter.v1.Router/Route', request_serializer=bytes, response_deserializer=bytes)


def outcome(call, *arguments, timeout=DEADLINE_S, **fields):
    try:
        call(*arguments, timeout=timeout, **fields)
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()


def bookings(daemon):
    return sum(p.bookings for p in daemon.router.Loads(router_pb2.LoadsRequest(), timeout=DEADLINE_S).partitions)


def freed(daemon, request_ids):
    """Frees them all; whether nothing is left. A call that was given up may still be on its way, so this is asked again."""
    for request_id in request_ids:
        daemon.free(request_id)
    return bookings(daemon) == 0


def serves(daemon, request_id):
    """Somebody else's request, from beginning to end."""
    return daemon.route(range(20), request_id).booked and daemon.free(request_id)


@pytest.fixture
def daemon(start):
    started = start()
    started.register(1)
    return started


@pytest.mark.parametrize('what, message, code', [
    ('nothing', b'', INVALID),
    ('request_id as a number', b'\x08\x05', INVALID),  # a known number with another wire type is an unknown field
    ('unknown field beside a prompt', b'\x22\x06\x0a\x04abcd\xba\x3e\x01x', grpc.StatusCode.OK),
    ('no tokens', b'\x22\x00', grpc.StatusCode.OK),
    ('token ids of three bytes', b'\x22\x05\x0a\x03abc', grpc.StatusCode.UNIMPLEMENTED),
    ('text that is not UTF-8', b'\x0a\x02\xff\xfe\x22\x00', grpc.StatusCode.UNIMPLEMENTED),
    ('a length beyond the end', b'\x0a\x50abc', grpc.StatusCode.UNIMPLEMENTED),
    ('a number without end', b'\xff' * 50, grpc.StatusCode.UNIMPLEMENTED),
    ('groups without end', b'\x0b' * 5000, grpc.StatusCode.UNIMPLEMENTED),
])
def test_bytes_that_are_no_request(daemon, what, message, code):
    assert outcome(raw_route(daemon.channel), message) == code, what
    assert serves(daemon, 'after')


def test_no_tokens_are_a_prompt_of_nothing(daemon):
    answer = daemon.route([], 'empty')
    assert (answer.isl_tokens, answer.isl_blocks, answer.booked) == (0, 0, True)
    assert daemon.free('empty')
    assert daemon.metrics().one('dynamo_component_router_kv_hit_rate_count') == 0, 'nothing to hit'


def test_messages_over_the_limit_cost_no_more_than_the_bound(start):
    daemon = start('--grpc-max-message-bytes=1048576', f'--grpc-max-buffered-bytes={32 << 20}')
    daemon.register(1)
    before = resident_mib(daemon)
    for size in (1 << 20, 400 << 20):
        with own_channel(daemon) as channel:
            assert outcome(raw_route(channel), bytes(size + 1)) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert serves(daemon, 'other')
    if not SANITIZED:
        assert resident_mib(daemon) - before < SLACK_MIB


def test_a_compressed_message_is_refused_unopened(daemon):
    before = resident_mib(daemon)
    with own_channel(daemon) as channel:
        # Our own compressing is part of the time.
        assert outcome(raw_route(channel), bytes(300 << 20), compression=grpc.Compression.Gzip,
                       timeout=6 * DEADLINE_S) == grpc.StatusCode.UNIMPLEMENTED
    assert resident_mib(daemon) - before < SLACK_MIB
    assert serves(daemon, 'other')


def test_messages_that_never_end_are_bounded_together(start):
    bound_mib = 64
    daemon = start('--grpc-max-message-bytes=33554432', f'--grpc-max-buffered-bytes={bound_mib << 20}')
    daemon.register(1)
    before = resident_mib(daemon)
    bad = BadClient(daemon.grpc_address)
    size = 32 << 20
    streams = list(range(1, 81, 2))
    left = {}
    try:
        for stream in streams:
            bad.open(stream)
            left[stream] = size - 1  # the last byte never comes
        heads = {stream: b'\0' + size.to_bytes(4, 'big') for stream in streams}
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not bad.closed.is_set():
            for stream in streams:
                allowed = bad.take(stream, left[stream] + len(heads[stream]))
                if allowed:
                    head, heads[stream] = heads[stream][:allowed], heads[stream][allowed:]
                    left[stream] -= allowed - len(head)
                    bad.send(frame(DATA, 0, stream, head + bytes(allowed - len(head))))
    except OSError:
        pass  # cut off: as good
    assert sum(size - l for l in left.values()) > 0, 'the attack never began'
    if not SANITIZED:
        assert resident_mib(daemon) - before < bound_mib + SLACK_MIB
    bad.close()
    wait_for('others are served', lambda: outcome(daemon.router.Loads, router_pb2.LoadsRequest()) == grpc.StatusCode.OK)
    assert serves(daemon, 'other')
    assert bookings(daemon) == 0


def test_a_deadline_that_has_passed_leaves_at_most_what_can_be_freed(daemon):
    for i, timeout in enumerate((0, -1, 1e-9)):  # the daemon may learn of the call before it learns that nobody waits
        request = router_pb2.RouteRequest(request_id=f'late{i}')
        request.token_ids.ids.extend(range(20))
        try:
            daemon.router.Route(request, timeout=timeout)
            assert timeout >= 0  # gRPC counts in milliseconds, so an answer may just be in time
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for('no bookings', lambda: freed(daemon, [f'late{i}' for i in range(3)]))


def test_calls_cancelled_at_any_moment_leave_only_what_can_be_freed(daemon):
    requests = [router_pb2.RouteRequest(request_id=f'r{i}') for i in range(300)]
    for request in requests:
        request.token_ids.ids.extend(range(2000))
    calls = []
    for i, request in enumerate(requests):
        calls.append(daemon.router.Route.future(request, timeout=DEADLINE_S))
        if i % 3:
            calls[-1].cancel()
    for call in calls[::3]:
        assert call.result().booked
    wait_for('no bookings', lambda: freed(daemon, [request.request_id for request in requests]))
    assert serves(daemon, 'other')


def a_route(request_id, tokens=20):
    message = router_pb2.StreamRequest()
    message.route.request_id = request_id
    message.route.token_ids.ids.extend(range(tokens))
    return message


def test_a_thousand_streams_at_once(daemon):
    before = resident_mib(daemon)
    channel = own_channel(daemon)
    stub = router_pb2_grpc.RouterStub(channel)
    streams = []
    for i in range(1000):
        requests = queue.SimpleQueue()
        requests.put(a_route(f's{i}'))
        streams.append((requests, stub.RouteStream(iter(requests.get, None), timeout=6 * DEADLINE_S)))
    assert all(next(answers).route.booked for _, answers in streams)
    assert bookings(daemon) == 1000
    assert serves(daemon, 'other')
    for requests, _ in streams[:500]:  # half of them end well and keep their bookings
        requests.put(None)
    for _, answers in streams[:500]:
        assert list(answers) == []
    channel.close()  # the others break
    for requests, _ in streams[500:]:
        requests.put(None)
    wait_for('bookings of broken streams are back', lambda: bookings(daemon) == 500)
    for i in range(500):
        assert daemon.free(f's{i}')
    assert bookings(daemon) == 0
    if not SANITIZED:
        assert resident_mib(daemon) - before < SLACK_MIB


def test_a_stream_that_sends_and_never_reads_is_held_up(daemon):
    before = resident_mib(daemon)
    bad = BadClient(daemon.grpc_address)
    bad.open(1, b'/kvrouter.v1.Router/RouteStream')
    sent = 0
    idle_since = time.monotonic()
    number = 0
    pending = b''
    while time.monotonic() - idle_since < 2 and sent < 200 << 20:  # until nothing more is taken for two seconds
        if not pending:
            message = a_route(f'w{number}', 4000).SerializeToString()
            pending = b'\0' + len(message).to_bytes(4, 'big') + message
            number += 1
        allowed = bad.take(1, len(pending))
        if not allowed:
            time.sleep(0.01)
            continue
        bad.send(frame(DATA, 0, 1, pending[:allowed]))
        pending = pending[allowed:]
        sent += allowed
        idle_since = time.monotonic()
    assert number > 10
    assert sent < 200 << 20, 'it was read from for ever'
    assert serves(daemon, 'other')
    if not SANITIZED:
        assert resident_mib(daemon) - before < SLACK_MIB
    bad.close()
    wait_for('its bookings are back', lambda: bookings(daemon) == 0)


def test_a_stream_half_closed_at_once_ends_well(daemon):
    assert list(daemon.router.RouteStream(iter(()), timeout=DEADLINE_S)) == []


def test_what_is_not_grpc_at_all(daemon):
    host, port = daemon.grpc_address.rsplit(':', 1)
    for bytes_ in (b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', os.urandom(100_000), b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\xff' * 1000):
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
            try:
                connection.sendall(bytes_)
                while connection.recv(65536):
                    pass
            except ConnectionError:
                pass  # cut off: as good
    idle = [socket.create_connection((host, int(port)), timeout=DEADLINE_S) for _ in range(500)]
    assert serves(daemon, 'other')
    for connection in idle:
        connection.close()
    unknown = daemon.channel.unary_unary('/kvrouter.v1.Router/Frob', request_serializer=bytes, response_deserializer=bytes)
    assert outcome(unknown, b'') == grpc.StatusCode.UNIMPLEMENTED
