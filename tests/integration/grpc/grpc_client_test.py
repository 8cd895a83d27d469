#!/usr/bin/python3
"""The gRPC doors as an independent client meets them: grpcio, with stubs made from the proto files at test time.

Usage: grpc_client_test.py TEST_SERVER KVROUTERCTL PROTO_DIR [unittest arguments]
"""
import http.server
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

TEST_SERVER, KVROUTERCTL, PROTO_DIR = sys.argv[1:4]
BIG_ID = 7587890043311737930  # not exact as a double


def make_stubs(directory):
    for name in ('common', 'kv_events', 'router', 'workers'):
        subprocess.run(['protoc', '-I', PROTO_DIR, f'--python_out={directory}', f'--grpc_python_out={directory}',
                        '--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin', f'kvrouter/v1/{name}.proto'], check=True)
    sys.path.insert(0, directory)


STUBS = tempfile.TemporaryDirectory(prefix='kvrouter-stubs-')
make_stubs(STUBS.name)
from kvrouter.v1 import common_pb2, router_pb2, router_pb2_grpc, workers_pb2, workers_pb2_grpc  # noqa: E402


def detail_of(error):
    """The ErrorDetail in the trailers of a failed call."""
    for key, value in error.trailing_metadata():
        if key == 'kvrouter-error-bin':
            return router_pb2.ErrorDetail.FromString(value)
    raise AssertionError(f'no kvrouter-error-bin in {error.trailing_metadata()}')


class Case(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([TEST_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop_server)
        self.address = self.server.stdout.readline().strip()
        self.assertTrue(self.address, 'the server did not start')
        self.channel = grpc.insecure_channel(self.address, options=[('grpc.max_send_message_length', -1),
                                                                    ('grpc.enable_http_proxy', 0)])
        self.addCleanup(self.channel.close)
        self.router = router_pb2_grpc.RouterStub(self.channel)
        self.workers = workers_pb2_grpc.WorkersStub(self.channel)

    def stop_server(self):
        self.server.stdin.close()
        try:
            self.assertEqual(0, self.server.wait(timeout=20))
        finally:
            if self.server.poll() is None:
                self.server.kill()
            self.server.stdout.close()

    def register(self, worker_id, **fields):
        spec = dict(worker_id=worker_id, address=f'http://10.0.0.1:{worker_id % 60000}', block_size_tokens=16)
        spec.update(fields)
        return self.workers.Register(workers_pb2.RegisterRequest(worker=workers_pb2.WorkerSpec(**spec)), timeout=10)

    def route(self, request_id='', tokens=range(64), **fields):
        request = router_pb2.RouteRequest(request_id=request_id, **fields)
        if 'hashes' not in fields:
            request.token_ids.ids.extend(tokens)
        return self.router.Route(request, timeout=30)

    def assert_fails(self, code, reason, text, call, *arguments, **fields):
        with self.assertRaises(grpc.RpcError) as raised:
            call(*arguments, **fields)
        error = raised.exception
        self.assertEqual(code, error.code(), error.details())
        self.assertEqual(reason, common_pb2.ErrorReason.Name(detail_of(error).reason))
        self.assertIn(text, error.details())
        return error

    def loads(self):
        return [t for p in self.router.Loads(router_pb2.LoadsRequest(), timeout=10).partitions for t in p.targets]


class RouterTest(Case):
    def test_life_of_a_request(self):
        self.register(BIG_ID)
        answer = self.route('r')
        self.assertEqual(BIG_ID, answer.target.worker_id)
        self.assertEqual(64, answer.isl_tokens)
        self.assertEqual(4, answer.isl_blocks)
        self.assertEqual(router_pb2.PLAN_LOCAL, answer.plan)
        self.assertEqual(64, self.loads()[0].active_prefill_tokens)
        self.router.PrefillComplete(router_pb2.PrefillCompleteRequest(request_id='r'), timeout=10)
        self.assertEqual(0, self.loads()[0].active_prefill_tokens)
        self.assertEqual(1, self.loads()[0].active_requests)
        self.router.OutputBlock(router_pb2.OutputBlockRequest(request_id='r', output_tokens=17, decay_fraction=0.5), timeout=10)
        self.router.KeepAlive(router_pb2.KeepAliveRequest(request_id='r'), timeout=10)
        self.assertTrue(self.router.Free(router_pb2.FreeRequest(request_id='r'), timeout=10).released)
        self.assertFalse(self.router.Free(router_pb2.FreeRequest(request_id='r'), timeout=10).released)
        self.assertEqual(0, self.loads()[0].active_requests)

    def test_duplicate_carries_the_original_decision(self):
        for worker_id in range(1, 9):
            self.register(worker_id)
        first = self.route('same')
        error = self.assert_fails(grpc.StatusCode.ALREADY_EXISTS, 'ERROR_REASON_DUPLICATE_REQUEST', '"same" has a live booking',
                                  self.route, 'same')
        del first.candidates[:]
        self.assertEqual(first, detail_of(error).original_decision)

    def test_explain_by_id_and_for_a_request_now(self):
        for worker_id in (1, 2, BIG_ID):
            self.register(worker_id)
        routed = self.route('r', excluded=[common_pb2.TargetSelector(worker_id=2)])
        past = self.router.Explain(router_pb2.ExplainRequest(request_id='r'), timeout=10)
        self.assertEqual(routed, past.decision)
        self.assertTrue(past.live)
        self.assertEqual([(2, router_pb2.FILTER_REASON_EXCLUDED)], [(f.target.worker_id, f.reason) for f in past.decision.filtered_targets])
        self.router.Free(router_pb2.FreeRequest(request_id='r'), timeout=10)
        self.assertFalse(self.router.Explain(router_pb2.ExplainRequest(request_id='r'), timeout=10).live)
        asked = router_pb2.RouteRequest(request_id='asked')
        asked.token_ids.ids.extend(range(64))
        advice = self.router.Explain(router_pb2.ExplainRequest(request=asked), timeout=10).decision
        self.assertFalse(advice.booked)
        self.assertEqual(3, len(advice.candidates))
        self.assert_fails(grpc.StatusCode.NOT_FOUND, 'ERROR_REASON_UNKNOWN_REQUEST', '"asked"', self.router.Explain,
                          router_pb2.ExplainRequest(request_id='asked'), timeout=10)
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST', 'request_id or request', self.router.Explain,
                          router_pb2.ExplainRequest(), timeout=10)

    def a_route_message(self, request_id, correlation_id=0):
        message = router_pb2.StreamRequest(correlation_id=correlation_id)
        message.route.request_id = request_id
        message.route.token_ids.ids.extend(range(64))
        return message

    def bookings(self):
        return sum(p.bookings for p in self.router.Loads(router_pb2.LoadsRequest(), timeout=10).partitions)

    def test_stream_answers_in_order_and_a_half_close_keeps_bookings(self):
        self.register(1)
        messages = [self.a_route_message(f'r{i}', i) for i in range(100)] + [
            router_pb2.StreamRequest(correlation_id=100, free=router_pb2.FreeRequest(request_id='r0')),
            router_pb2.StreamRequest(correlation_id=101, keep_alive=router_pb2.KeepAliveRequest(request_id='r0')),
            router_pb2.StreamRequest(correlation_id=102)]
        answers = list(self.router.RouteStream(iter(messages), timeout=30))
        self.assertEqual(list(range(103)), [a.correlation_id for a in answers])
        self.assertTrue(all(a.route.booked for a in answers[:100]))
        self.assertTrue(answers[100].free.released)
        self.assertEqual(common_pb2.ERROR_REASON_UNKNOWN_REQUEST, answers[101].error.detail.reason)
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT.value[0], answers[102].error.code)
        self.assertEqual(99, self.bookings())

    def test_a_broken_stream_gives_back_its_bookings(self):
        self.register(1)
        self.route('unary')
        for how in ('cancelled', 'connection lost'):
            with self.subTest(how):
                channel = grpc.insecure_channel(self.address, options=[('grpc.enable_http_proxy', 0), ('grpc.use_local_subchannel_pool', 1)])
                requests = queue.SimpleQueue()
                stream = router_pb2_grpc.RouterStub(channel).RouteStream(iter(requests.get, None), timeout=30)
                for i in range(5):
                    requests.put(self.a_route_message(f'r{i}'))
                    self.assertTrue(next(stream).route.booked)
                self.assertEqual(6, self.bookings())
                if how == 'cancelled':
                    stream.cancel()
                channel.close()
                deadline = time.monotonic() + 20
                while self.bookings() != 1 and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertEqual(1, self.bookings())
                requests.put(None)

    def test_overlap_scores_and_potential_loads_look_only(self):
        self.register(1)
        self.register(2)
        request = router_pb2.RouteRequest(pinned=common_pb2.TargetSelector(worker_id=1))
        request.token_ids.ids.extend(range(70))
        self.assertEqual([], list(self.router.OverlapScores(router_pb2.OverlapScoresRequest(request=request), timeout=10).overlaps))
        self.router.Route(request, timeout=10)
        loads = self.router.PotentialLoads(router_pb2.PotentialLoadsRequest(request=request), timeout=10).targets
        self.assertEqual([(1, 140, 4.0, 1), (2, 70, 4.0, 0)],
                         [(t.target.worker_id, t.potential_prefill_tokens, t.potential_decode_blocks, t.active_requests) for t in loads])
        self.assertEqual(1, self.bookings())
        for call, message in ((self.router.OverlapScores, router_pb2.OverlapScoresRequest()), (self.router.PotentialLoads, router_pb2.PotentialLoadsRequest())):
            self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST', 'prompt is not set', call, message, timeout=10)

    def test_hashes_and_tokens_are_measured_alike(self):
        self.register(1)
        answer = self.route('h', hashes=router_pb2.PromptHashes(local_block_hashes=[2**64 - 1, 5], isl_tokens=40))
        self.assertEqual((40, 3), (answer.isl_tokens, answer.isl_blocks))

    def test_million_and_a_half_tokens(self):
        self.register(1)
        answer = self.route('long', tokens=range(1_500_000))
        self.assertEqual(1_500_000, answer.isl_tokens)
        self.assertEqual(93_750, answer.isl_blocks)

    def test_every_error_names_its_reason(self):
        code, invalid = grpc.StatusCode, 'ERROR_REASON_INVALID_REQUEST'
        override = router_pb2.ConfigOverride
        self.assert_fails(code.NOT_FOUND, 'ERROR_REASON_UNKNOWN_PARTITION', 'default', self.route, 'r')
        self.register(1)
        self.register(2)
        for text, fields in [
            ('request_id is 257 bytes long, limit 256', dict(request_id='x' * 257)),
            ('model_name is 257 bytes', dict(model_name='m' * 257)),
            ('cache_salt is 1025 bytes long, limit 1024', dict(cache_salt='s' * 1025)),
            ('expected_output_tokens must be > 0', dict(expected_output_tokens=0)),
            ('router_temperature', dict(config_override=override(router_temperature=-1))),
            ('overlap_score_credit', dict(config_override=override(overlap_score_credit=float('nan')))),
            ('shared_cache_multiplier', dict(config_override=override(shared_cache_multiplier=1.5))),
            ('sequence_hashes has 1 entries', dict(hashes=router_pb2.PromptHashes(local_block_hashes=[1, 2], sequence_hashes=[1], isl_tokens=32))),
            ('isl_tokens', dict(hashes=router_pb2.PromptHashes(local_block_hashes=[1, 2], isl_tokens=31))),
        ]:
            with self.subTest(text):
                self.assert_fails(code.INVALID_ARGUMENT, invalid, text, self.route, **fields)
        with self.assertRaises(grpc.RpcError) as raised:
            self.router.Route(router_pb2.RouteRequest(request_id='r'), timeout=10)
        self.assertIn('prompt is not set', raised.exception.details())
        self.assert_fails(code.RESOURCE_EXHAUSTED, 'ERROR_REASON_TOO_LARGE', 'limit 16777216', self.route,
                          hashes=router_pb2.PromptHashes(isl_tokens=16777217))
        self.assert_fails(code.UNAVAILABLE, 'ERROR_REASON_NO_WORKERS', 'not allowed', self.route,
                          allowed_worker_ids=router_pb2.WorkerIdList())
        pin = common_pb2.TargetSelector
        self.assert_fails(code.UNAVAILABLE, 'ERROR_REASON_PINNED_UNAVAILABLE', '77', self.route, pinned=pin(worker_id=77))
        self.assert_fails(code.UNAVAILABLE, 'ERROR_REASON_PINNED_UNAVAILABLE', 'rank 9', self.route, pinned=pin(worker_id=1, dp_rank=9))
        self.assert_fails(code.INVALID_ARGUMENT, 'ERROR_REASON_PINNED_NOT_ALLOWED', 'allowed', self.route,
                          pinned=pin(worker_id=1), allowed_worker_ids=router_pb2.WorkerIdList(worker_ids=[2]))
        self.assert_fails(code.UNAVAILABLE, 'ERROR_REASON_NO_WORKERS', 'excluded', self.route,
                          excluded=[pin(worker_id=1), pin(worker_id=2, dp_rank=0)])
        for call, message in [(self.router.PrefillComplete, router_pb2.PrefillCompleteRequest),
                              (self.router.OutputBlock, router_pb2.OutputBlockRequest),
                              (self.router.KeepAlive, router_pb2.KeepAliveRequest)]:
            self.assert_fails(code.NOT_FOUND, 'ERROR_REASON_UNKNOWN_REQUEST', '"gone"', call, message(request_id='gone'), timeout=10)
            self.assert_fails(code.INVALID_ARGUMENT, invalid, 'request_id must not be empty', call, message(), timeout=10)
        self.assert_fails(code.INVALID_ARGUMENT, invalid, 'request_id must not be empty', self.router.Free,
                          router_pb2.FreeRequest(), timeout=10)
        self.assert_fails(code.INVALID_ARGUMENT, invalid, 'decay_fraction must be 0..1', self.router.OutputBlock,
                          router_pb2.OutputBlockRequest(request_id='r', decay_fraction=2), timeout=10)
        self.assertEqual([0, 0], [load.active_requests for load in self.loads()], 'no failed call left anything behind')


class WorkersTest(Case):
    def listed(self, **filters):
        return self.workers.List(workers_pb2.ListRequest(**filters), timeout=10).workers

    def test_register_update_drain_remove(self):
        first = self.register(BIG_ID, events={0: workers_pb2.EventEndpoints(live='tcp://127.0.0.1:9')})
        self.assertEqual(BIG_ID, first.spec.worker_id)
        self.assertGreater(first.spec.incarnation, 0)
        self.assertEqual(first, self.register(BIG_ID, events={0: workers_pb2.EventEndpoints(live='tcp://127.0.0.1:9')}))
        moved = self.workers.Update(workers_pb2.UpdateRequest(worker_id=BIG_ID, address='http://moved:1', dp_size=2), timeout=10)
        self.assertEqual(('http://moved:1', 2, first.spec.incarnation), (moved.spec.address, moved.spec.dp_size, moved.spec.incarnation))
        self.assertEqual('http://moved:1', self.route('r').address)
        self.assertEqual(['connecting', 'none'], [feed.state for feed in self.listed()[0].feeds])

        self.assertTrue(self.workers.Drain(workers_pb2.DrainRequest(worker_id=BIG_ID), timeout=10).draining)
        self.assert_fails(grpc.StatusCode.UNAVAILABLE, 'ERROR_REASON_NO_WORKERS', 'draining', self.route, 'late')
        self.assertEqual(1, self.loads()[0].active_requests + self.loads()[1].active_requests, 'running requests keep their booking')
        self.assertTrue(self.router.Free(router_pb2.FreeRequest(request_id='r'), timeout=10).released)

        self.workers.Remove(workers_pb2.RemoveRequest(worker_id=BIG_ID), timeout=10)
        self.assertEqual([], list(self.listed()))
        self.assert_fails(grpc.StatusCode.NOT_FOUND, 'ERROR_REASON_UNKNOWN_WORKER', str(BIG_ID), self.workers.Remove,
                          workers_pb2.RemoveRequest(worker_id=BIG_ID), timeout=10)
        self.assertGreater(self.register(BIG_ID).spec.incarnation, first.spec.incarnation)

    def test_watch_tells_the_set_and_its_changes(self):
        self.register(BIG_ID)
        watch = self.workers.Watch(workers_pb2.WatchRequest(), timeout=30)
        first = next(watch)
        self.assertTrue(first.snapshot)
        self.assertEqual([BIG_ID], [w.spec.worker_id for w in first.workers])
        self.workers.Drain(workers_pb2.DrainRequest(worker_id=BIG_ID), timeout=10)
        self.assertEqual([True], [w.draining for w in next(watch).workers])
        self.workers.Remove(workers_pb2.RemoveRequest(worker_id=BIG_ID), timeout=10)
        self.assertEqual([BIG_ID], list(next(watch).removed_worker_ids))
        watch.cancel()

    def test_eagle_engines_complete_no_block_with_the_last_token(self):
        self.register(1, is_eagle=True, image_token_id=9)
        self.assertTrue(self.listed()[0].spec.is_eagle)
        self.assertEqual(9, self.listed()[0].spec.image_token_id)
        for said in ({}, {'is_eagle': True}):
            answer = self.route(tokens=range(64), advise_only=True, **said)
            self.assertEqual(64, answer.isl_tokens)
            self.assertEqual(4, answer.isl_blocks)
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST', 'is_eagle', self.route, is_eagle=False)
        three = router_pb2.PromptHashes(local_block_hashes=[1, 2, 3], isl_tokens=64)
        self.assertEqual(4, self.route(hashes=three, advise_only=True).isl_blocks)
        three.isl_tokens = 65
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST', '4 full blocks', self.route, hashes=three)
        self.workers.Update(workers_pb2.UpdateRequest(worker_id=1, is_eagle=False), timeout=10)
        self.assertFalse(self.listed()[0].spec.is_eagle)

    def test_conflicts_and_bad_records(self):
        code = grpc.StatusCode
        self.register(1, incarnation=5)
        self.register(2)
        self.assert_fails(code.FAILED_PRECONDITION, 'ERROR_REASON_INCARNATION_CONFLICT', 'incarnation 5', self.register, 1, incarnation=4)
        self.assert_fails(code.FAILED_PRECONDITION, 'ERROR_REASON_BLOCK_SIZE_CONFLICT', '', self.register, 3, block_size_tokens=32)
        self.assert_fails(code.FAILED_PRECONDITION, 'ERROR_REASON_BLOCK_NAMING_CONFLICT', 'is_eagle', self.register, 3, is_eagle=True)
        self.assert_fails(code.FAILED_PRECONDITION, 'ERROR_REASON_BLOCK_NAMING_CONFLICT', '', self.register, 3, image_token_id=0)
        self.assert_fails(code.FAILED_PRECONDITION, 'ERROR_REASON_BLOCK_NAMING_CONFLICT', '',
                          self.workers.Update, workers_pb2.UpdateRequest(worker_id=2, is_eagle=True), timeout=10)
        self.assert_fails(code.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST', 'address must not be empty', self.register, 3, address='')
        self.assert_fails(code.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST', 'dp_size must be 1..1024, got 4000', self.register, 3, dp_size=4000)
        self.assert_fails(code.INVALID_ARGUMENT, 'ERROR_REASON_INVALID_REQUEST', 'role', self.register, 3, role=9)
        self.assert_fails(code.NOT_FOUND, 'ERROR_REASON_UNKNOWN_WORKER', '3', self.workers.Drain, workers_pb2.DrainRequest(worker_id=3), timeout=10)
        self.assert_fails(code.NOT_FOUND, 'ERROR_REASON_UNKNOWN_WORKER', '3', self.workers.Update, workers_pb2.UpdateRequest(worker_id=3), timeout=10)
        self.assertEqual([1, 2], [worker.spec.worker_id for worker in self.listed()])

    def test_partitions_are_apart(self):
        self.register(1)
        self.register(2, model_name='m', block_size_tokens=32)
        self.register(3, model_name='m', routing_group='g', block_size_tokens=64)
        self.assertEqual([2, 3], [w.spec.worker_id for w in self.listed(model_name='m')])
        self.assertEqual([3], [w.spec.worker_id for w in self.listed(model_name='m', routing_group='g')])
        self.assertEqual(3, self.route('r', model_name='m', routing_group='g').target.worker_id)
        self.assertEqual(2, self.route('s', model_name='m').target.worker_id)


class StandardServicesTest(Case):
    def call(self, method, request):
        """A unary call with bytes in and out, for services whose Python stubs Debian does not carry."""
        return self.channel.unary_unary(method)(request, timeout=10)

    def test_health(self):
        check = '/grpc.health.v1.Health/Check'
        name = b'kvrouter.v1.Router'
        self.assertEqual(b'\x08\x01', self.call(check, b''))
        self.assertEqual(b'\x08\x01', self.call(check, b'\x0a' + bytes([len(name)]) + name))
        with self.assertRaises(grpc.RpcError) as raised:
            self.call(check, b'\x0a\x01x')
        self.assertEqual(grpc.StatusCode.NOT_FOUND, raised.exception.code())

    def test_reflection_lists_the_services(self):
        # ServerReflectionRequest{list_services: "*"}: field 7.
        answers = self.channel.stream_stream('/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo')(iter([b'\x3a\x01*']), timeout=10)
        answer = next(iter(answers))
        for name in (b'kvrouter.v1.Router', b'kvrouter.v1.Workers', b'grpc.health.v1.Health'):
            self.assertIn(name, answer)


class CtlTest(Case):
    def ctl(self, *arguments, code=0, environment=None):
        done = subprocess.run([KVROUTERCTL, *arguments], capture_output=True, text=True, timeout=30,
                              env={**os.environ, 'KVROUTER_GRPC': self.address, **(environment or {})})
        self.assertEqual(code, done.returncode, done.stderr)
        if code:
            self.assertEqual('', done.stdout)
            self.assertTrue(done.stderr.startswith('kvrouterctl: '), done.stderr)
            self.assertEqual(1, done.stderr.count('\n'), 'one line: ' + done.stderr)
            return done.stderr
        self.assertEqual('', done.stderr)
        return done.stdout

    def test_an_empty_fleet(self):
        self.assertEqual('no workers\n', self.ctl('workers'))
        self.assertEqual('no workers\n', self.ctl('loads'))
        self.assertIn('NOT_FOUND (ERROR_REASON_UNKNOWN_PARTITION)', self.ctl('route', '--tokens', '1-20', code=1))

    def test_route_and_free(self):
        self.register(BIG_ID)
        self.register(2)
        advice = json.loads(self.ctl('--json', 'route', '--tokens', '0-4095', '--advise'))
        self.assertEqual((False, 256, 4096), (advice['booked'], advice['isl_blocks'], advice['isl_tokens']))
        self.assertEqual({2, BIG_ID}, {c['target']['worker_id'] for c in advice['candidates']})
        text = self.ctl('route', '--tokens', '0-4095', '--request-id', 'r', '--pin', f'{BIG_ID}/0', '--expected-output-tokens', '10')
        self.assertIn(f'worker {BIG_ID} rank 0', text)
        self.assertIn('reason pinned, booked as r', text)
        error = self.ctl('route', '--tokens', '1', '--request-id', 'r', code=1)
        self.assertIn('ALREADY_EXISTS (ERROR_REASON_DUPLICATE_REQUEST)', error)
        self.assertIn(f'it is on worker {BIG_ID} rank 0', error)
        loads = json.loads(self.ctl('loads', '--json'))['partitions'][0]
        self.assertEqual(1, loads['bookings'])
        self.assertEqual([0, 4096], sorted(t['active_prefill_tokens'] for t in loads['targets']))
        self.assertIn('default / default: block size 16, 1 bookings', self.ctl('loads'))
        self.assertEqual('released\n', self.ctl('free', 'r'))
        self.assertIn('no live booking under request id "r"', self.ctl('free', 'r', code=1))

    def test_explain(self):
        self.register(BIG_ID)
        self.ctl('route', '--tokens', '0-63', '--request-id', 'r')
        text = self.ctl('explain', 'r')
        self.assertIn(f'Request r went to worker {BIG_ID} rank 0', text)
        self.assertIn('it was the only candidate', text)
        self.assertIn('its booking is live', text)
        self.assertIn('Nobody was filtered out.', text)
        self.assertEqual(BIG_ID, json.loads(self.ctl('explain', 'r', '--json'))['decision']['target']['worker_id'])
        self.assertIn('no recent decision is kept under request_id "x"', self.ctl('explain', 'x', code=1))

    def test_register_drain_remove_and_overlap(self):
        self.assertIn(f'registered worker {BIG_ID}, incarnation ',
                      self.ctl('register', str(BIG_ID), '--address', 'http://h:1', '--block-size', '16', '--dp-size', '2', '--events', 'tcp://h:5557',
                               '--events', 'tcp://h:5558', '--replay', 'tcp://h:6557'))
        spec = self.workers.List(workers_pb2.ListRequest(), timeout=10).workers[0].spec
        self.assertEqual((BIG_ID, 'http://h:1', 16, 2), (spec.worker_id, spec.address, spec.block_size_tokens, spec.dp_size))
        self.assertEqual({0: ('tcp://h:5557', 'tcp://h:6557'), 1: ('tcp://h:5558', '')}, {r: (e.live, e.replay) for r, e in spec.events.items()})
        self.assertEqual('no worker holds any of it\n', self.ctl('overlap', '--tokens', '0-63'))
        self.assertEqual([], json.loads(self.ctl('overlap', '--tokens', '0-63', '--json'))['overlaps'])
        self.assertTrue(json.loads(self.ctl('drain', str(BIG_ID), '--json'))['workers'][0]['draining'])
        self.assertEqual(f'removed worker {BIG_ID}\n', self.ctl('remove', str(BIG_ID)))
        self.assertIn('ERROR_REASON_UNKNOWN_WORKER', self.ctl('remove', str(BIG_ID), code=1))
        self.assertIn('a replay needs its live endpoint', self.ctl('register', '1', '--address', 'a', '--block-size', '16', '--replay', 'tcp://h:1', code=1))

    def test_dump_of_an_empty_fleet(self):
        self.assertIn('NOT_FOUND (ERROR_REASON_UNKNOWN_PARTITION)', self.ctl('dump', code=1))
        self.register(1)
        done = subprocess.run([KVROUTERCTL, '--grpc', self.address, 'dump'], capture_output=True, text=True, timeout=30)
        self.assertEqual((0, '', '0 events, 0 blocks\n'), (done.returncode, done.stdout, done.stderr))
        self.assertIn('cannot reach the daemon', self.ctl('--grpc', '127.0.0.1:1', 'dump', code=1))

    def test_tokens_from_a_file(self):
        self.register(1)
        path = pathlib.Path(STUBS.name) / 'tokens.txt'
        path.write_text('[1, 2, 3]\n4-32\n')
        self.assertEqual(32, json.loads(self.ctl('route', '--json', '--tokens', f'@{path}', '--advise'))['isl_tokens'])

    def test_workers(self):
        self.register(BIG_ID, role=workers_pb2.WORKER_ROLE_PREFILL, dp_size=2)
        text = self.ctl('workers')
        self.assertEqual(3, text.count('\n'), text)
        self.assertIn(str(BIG_ID), text)
        worker = json.loads(self.ctl('workers', '--json'))['workers'][0]
        self.assertEqual((BIG_ID, 'prefill', 2), (worker['worker_id'], worker['role'], len(worker['feeds'])))

    def test_metrics(self):
        scrape = (b'kvrouter_overlap_tokens_total 90\nkvrouter_isl_tokens_total 100\n'
                  b'dynamo_frontend_worker_active_decode_blocks{worker_id="%d",dp_rank="0"} 3\n' % BIG_ID)
        answers = {'/metrics': (200, scrape)}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.server.delay_s:
                    self.server.released.wait(self.server.delay_s)
                    return  # the client has long left
                status, body = answers[self.path]
                self.send_response(status)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.delay_s, server.released = 0, threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(server.released.set)
        where = {'KVROUTER_HTTP': f'127.0.0.1:{server.server_port}'}
        text = self.ctl('metrics', environment=where)
        self.assertRegex(text, r'token-weighted +0\.9000 +90 +100')
        self.assertIn('differ by design', text)
        self.assertEqual(0.9, json.loads(self.ctl('metrics', '--json', environment=where))['hit_rates']['token_weighted'])
        self.assertEqual(BIG_ID, json.loads(self.ctl('metrics', '--json', environment=where))['targets'][0]['worker_id'])
        series = self.ctl('metrics', 'kvrouter_isl', environment=where)
        self.assertEqual(2, series.count('\n'), series)
        answers['/metrics'] = (503, b'')
        self.assertIn('answered 503', self.ctl('metrics', code=1, environment=where))
        server.delay_s = 20
        self.assertIn(where['KVROUTER_HTTP'], self.ctl('metrics', '--timeout', '0.3', code=1, environment=where))

    def test_errors_are_one_line(self):
        self.assertIn('cannot reach the daemon at 127.0.0.1:1', self.ctl('--grpc', '127.0.0.1:1', 'workers', code=1))
        self.assertIn('127.0.0.1:1', self.ctl('--http', '127.0.0.1:1', 'metrics', code=1))
        self.assertIn('--tokens', self.ctl('route', code=1))
        for tokens in ('', '1,,2'):
            self.assertIn('--tokens', self.ctl('route', '--tokens', tokens, code=1))
        self.assertIn('--timeout', self.ctl('--timeout', 'nan', 'workers', code=1))
        self.assertIn('frob', self.ctl('frob', code=1))
        self.assertIn('--help', self.ctl(code=1))
        self.assertIn('workers', self.ctl('--help'))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
