"""The generated pages are what the daemon says of itself, and what it really shows."""
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.request

import pytest
import zmq
from conftest import ROOT, live_events, router_pb2, wait_for
from dynamo_worker import ZmqPublisher, envelope, stored

CONSTANT_LABELS = {'C': ['dynamo_namespace', 'dynamo_component', 'dynamo_endpoint'],
                   'R': ['dynamo_namespace', 'dynamo_component', 'dynamo_endpoint', 'router_id'], 'I': ['router_id']}


def catalogue():
    """Rows of docs/metrics.md: name -> (type, label names)."""
    rows = {}
    for line in pathlib.Path(ROOT, 'docs/metrics.md').read_text().splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if not re.fullmatch(r'`[a-z0-9_]+`', cells[0]):
            continue
        name, kind, labels, unit, weighting, meaning, moves, origin = cells
        assert all((kind, unit, weighting, meaning, moves, origin)), line
        assert name not in rows, line
        listed = [label for label in labels.split(', ') if label]
        if listed and listed[0] in CONSTANT_LABELS:
            listed[:1] = CONSTANT_LABELS[listed[0]]
        rows[name.strip('`')] = (kind, listed)
    return rows


def test_generated_pages_are_up_to_date():
    check = subprocess.run(['/usr/bin/python3', '-B', 'docs/generate', '--check', os.environ['KVROUTERD']], cwd=ROOT,
                           capture_output=True, text=True, timeout=60)
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_grpc_reference_leads_somewhere():
    page = pathlib.Path(ROOT, 'docs/api.md').read_text()
    anchors = re.findall(r'<a name="([a-z.]+)"></a>', page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'\]\(#([^)]*)\)', page)) <= set(anchors)
    described = set(re.findall(r'^\| `(\w+)` \|', page, re.M))
    for proto in pathlib.Path(ROOT, 'proto/kvrouter/v1').glob('*.proto'):
        for name in re.findall(r'^(?:service|message|enum) (\w+) \{', proto.read_text(), re.M):
            assert name.lower() in anchors, f'{proto.name}: {name}'
        for name in re.findall(r'^ +rpc (\w+)\(|^ +[\w.<>, ]+ (\w+) = \d+;', proto.read_text(), re.M):
            assert ''.join(name) in described, f'{proto.name}: {name}'


@pytest.fixture
def plane():
    context = zmq.Context()
    yield ZmqPublisher(context)
    context.destroy(0)


@pytest.fixture
def engine_metrics():
    """The address of an engine that says of its load and its cache what there is to say."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b'vllm:num_requests_running 1\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n'
            self.send_response(200)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.rfile.read(int(self.headers['Content-Length']))
            body = json.dumps({'choices': [{'index': 0, 'text': 'x', 'finish_reason': 'stop'}],
                               'usage': {'prompt_tokens': 5, 'completion_tokens': 1, 'total_tokens': 6,
                                         'prompt_tokens_details': {'cached_tokens': 4}}}).encode()
            self.send_response(200)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}'
    server.shutdown()


def test_scrape_and_catalogue_have_the_same_families(start, new_engine, plane, engine_metrics, tmp_path):
    engine = new_engine()
    daemon = start('--indexer-listen', '127.0.0.1:0', '--event-plane', 'zmq', '--event-plane-publishers', plane.endpoint,
                   '--snapshot-path', str(tmp_path / 'snapshot'), '--snapshot-interval-secs', '1', '--router-queue-threshold', '1000',
                   '--router-predicted-ttl-secs', '60', '--engine-poll-ms', '200', '--dispatch', '--dispatch-listen', '127.0.0.1:0')
    daemon.register(1, address=engine_metrics, events=live_events(engine.endpoint), total_kv_blocks=1000, max_num_batched_tokens=8192)
    plane.wait_for_subscriber()
    plane.publish(envelope({'worker_id': 1, 'dp_rank': 0, 'active_decode_blocks': 3, 'active_prefill_tokens': 2,
                            'kv_used_blocks': 1}, 'kv_metrics'), 'kv_metrics')
    wait_for('the load report', lambda: daemon.metrics().all('kvrouter_worker_report_age_seconds'))
    wait_for('feed', lambda: daemon.metrics().all('kvrouter_feed_state', worker_id='1'))
    daemon.register(2)
    plane.publish(envelope([stored(2, 5)]))  # heard too late
    wait_for('a degraded feed', lambda: daemon.metrics().all('kvrouter_feed_degraded', worker_id='2', reason='history_unknown'))
    engine.wait_for_subscriber()
    engine.store([1], range(4), medium='CPU')
    wait_for('a block on host', lambda: daemon.metrics().all('kvrouter_worker_lower_tier_blocks', worker_id='1'))
    wait_for('a snapshot', lambda: daemon.metrics().all('kvrouter_snapshot_age_seconds'))
    wait_for('its load', lambda: daemon.metrics().all('kvrouter_worker_drift_blocks', worker_id='1'))
    daemon.route([1, 2, 3, 4, 5], 'r')
    daemon.router.PrefillComplete(router_pb2.PrefillCompleteRequest(request_id='r'))
    daemon.router.OutputBlock(router_pb2.OutputBlockRequest(request_id='r', output_tokens=10))
    request = urllib.request.Request(f'http://{daemon.openai_address}/v1/completions', headers={'x-dynamo-worker-instance-id': '1'},
                                     data=json.dumps({'model': 'default', 'prompt': [1, 2, 3, 4, 5]}).encode())
    assert json.load(urllib.request.urlopen(request, timeout=20))['choices'][0]['text'] == 'x'
    wait_for('what was delivered', lambda: daemon.metrics().all('kvrouter_overlap_calibration_error_count', worker_id='1'))
    scrape = daemon.metrics()
    rows = catalogue()
    assert scrape.families == {name: kind for name, (kind, _) in rows.items()}
    shown = {}
    for name, labels, _ in scrape.series:
        family = name if name in rows else re.sub('_(bucket|sum|count)$', '', name)
        assert family in rows, name
        assert [label for label in labels if label != 'le'] == rows[family][1], name
        shown[family] = True
    assert set(shown) == set(rows), 'with a worker that reports, its feed and a request, every family has a series'
