"""A Kubernetes API server as far as list and watch of pods and EndpointSlices go, with faults to order.

Written from the API's documentation: resourceVersion, limit and continue, watch events, bookmarks, 410 as HTTP status and
as an ERROR event. Chunks of an answer end wherever `chunk_bytes` says, also within JSON.
"""
import collections
import contextlib
import copy
import http.server
import json
import socketserver
import ssl
import threading
import time
import urllib.parse

NAMESPACE = 'engines'
PODS = f'/api/v1/namespaces/{NAMESPACE}/pods'
SLICES = f'/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices'
WORKER = {'kvrouter.io/worker': 'true'}


def pod(name, ip, uid=None, ready=True, annotations=None, labels=None, restarts=0, phase='Running', ports=None, deleted=False):
    metadata = {'name': name, 'namespace': NAMESPACE, 'uid': uid or f'uid-of-{name}', 'labels': {**WORKER, **(labels or {})},
                'annotations': {'kvrouter.io/block-size': '4', 'kvrouter.io/events-port': 'none', **(annotations or {})}}
    if deleted:
        metadata['deletionTimestamp'] = '2026-01-01T00:00:00Z'
    container = {'name': 'vllm', 'ports': ports or [{'name': 'http', 'containerPort': 8000}]}
    return {'kind': 'Pod', 'metadata': metadata, 'spec': {'containers': [container]},
            'status': {'phase': phase, 'podIP': ip, 'conditions': [{'type': 'Ready', 'status': 'True' if ready else 'False'}],
                       'containerStatuses': [{'name': 'vllm', 'restartCount': restarts}]}}


def endpoint(of, ready=True, terminating=False):
    return {'addresses': [of['status']['podIP']], 'conditions': {'ready': ready, 'serving': ready, 'terminating': terminating},
            'targetRef': {'kind': 'Pod', 'name': of['metadata']['name'], 'uid': of['metadata']['uid']}}


def slice_of(name, *endpoints):
    return {'kind': 'EndpointSlice', 'metadata': {'name': name, 'namespace': NAMESPACE, 'uid': f'uid-of-{name}', 'labels': dict(WORKER)},
            'addressType': 'IPv4', 'endpoints': list(endpoints), 'ports': []}


class Hangup(Exception):
    """Ends a connection without a word."""


class FakeKubernetes:
    def __init__(self, tls=None, tokens=None):
        self.lock = threading.Condition()
        self.version = 1000
        self.objects = {PODS: {}, SLICES: {}}
        self.history = []  # (version, path, type, object)
        self.oldest = 1000  # versions before are gone
        self.written = {}  # version -> when its event, or the end of a list that has it, had been written
        self.faults = {(path, verb): collections.deque() for path in self.objects for verb in ('list', 'watch')}
        self.requests = []  # (path, query, headers)
        self.chunk_bytes, self.chunk_pause_s, self.bookmark_every_s = 65536, 0.0, None
        self.tokens = tokens
        self.watches = 0
        self.closed = False
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                try:
                    server.answer(self)
                except (Hangup, OSError):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):  # broken connections are the point
                pass

        self.server = Server(('127.0.0.1', 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f'{"https" if tls else "http"}://127.0.0.1:{self.port}'
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.02})
        self.thread.start()

    def stop(self):
        with self.lock:
            self.closed = True
            self.lock.notify_all()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    # ---- The cluster ----

    @contextlib.contextmanager
    def batch(self):
        """What is written within leaves in one piece."""
        with self.lock:
            yield

    def put(self, *objects):
        """Creates or replaces; returns the last version."""
        for thing in objects:
            path = PODS if thing['kind'] == 'Pod' else SLICES
            with self.lock:
                thing = copy.deepcopy(thing)
                name = thing['metadata']['name']
                kind = 'MODIFIED' if name in self.objects[path] else 'ADDED'
                self.record(path, kind, thing)
                self.objects[path][name] = thing
        return self.version

    def delete(self, path, name):
        with self.lock:
            thing = self.objects[path].pop(name)
            return self.record(path, 'DELETED', thing)

    def record(self, path, kind, thing):
        self.version += 1
        thing['metadata']['resourceVersion'] = str(self.version)
        self.history.append((self.version, path, kind, copy.deepcopy(thing)))
        self.lock.notify_all()
        return self.version

    def expire(self):
        """Forgets all versions: watches end with 410, and cannot be resumed."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.lock.notify_all()

    def fault(self, path, verb, what, times=1):
        with self.lock:
            self.faults[path, verb].extend([what] * times)
            self.lock.notify_all()

    def drop_watches(self):
        """All watches are cut; the versions stay."""
        with self.lock:
            self.watches += 1
            self.lock.notify_all()

    def seen(self, path, verb):
        with self.lock:
            return sum(p == path and ('watch' in q) == (verb == 'watch') for p, q, _ in self.requests)

    def is_watched(self, path):
        """Somebody has a list of a version that is not gone, and has asked for what comes after it."""
        with self.lock:
            return any(p == path and 'watch' in q and int(q['resourceVersion']) >= self.oldest for p, q, _ in self.requests)

    # ---- The wire ----

    def answer(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        verb = 'watch' if 'watch' in query else 'list'
        with self.lock:
            self.requests.append((url.path, query, dict(handler.headers)))
            fault = None
            if url.path in self.objects and self.faults[url.path, verb]:
                fault = self.faults[url.path, verb].popleft()
        if self.tokens is not None and handler.headers.get('Authorization') not in [f'Bearer {t}' for t in self.tokens]:
            return self.status(handler, 401)
        if url.path not in self.objects:
            return self.status(handler, 404)
        if fault == 'hang':
            self.wait_until_closed()
            raise Hangup
        if fault == 'reset':
            raise Hangup
        if isinstance(fault, int):
            return self.status(handler, fault)
        return self.watch(handler, url.path, query, fault) if verb == 'watch' else self.list(handler, url.path, query, fault)

    def wait_until_closed(self):
        with self.lock:
            self.lock.wait_for(lambda: self.closed)

    def status(self, handler, code):
        body = json.dumps({'kind': 'Status', 'status': 'Failure', 'code': code, 'message': f'status {code}'}).encode()
        handler.send_response(code)
        handler.send_header('Content-Length', str(len(body)))
        if code == 429:
            handler.send_header('Retry-After', '1')
        handler.end_headers()
        handler.wfile.write(body)

    def begin(self, handler):
        handler.send_response(200)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Transfer-Encoding', 'chunked')
        handler.end_headers()

    def send(self, handler, data):
        for at in range(0, len(data), self.chunk_bytes):
            piece = data[at:at + self.chunk_bytes]
            handler.wfile.write(b'%x\r\n%s\r\n' % (len(piece), piece))
            handler.wfile.flush()
            if self.chunk_pause_s:
                time.sleep(self.chunk_pause_s)

    def end(self, handler):
        handler.wfile.write(b'0\r\n\r\n')

    @staticmethod
    def selected(thing, query):
        selector = query.get('labelSelector', '')
        return all(thing['metadata']['labels'].get(k) == v for k, v in (part.split('=') for part in selector.split(',') if part))

    def list(self, handler, path, query, fault):
        with self.lock:
            items = [copy.deepcopy(t) for _, t in sorted(self.objects[path].items()) if self.selected(t, query)]
            version = self.version
        begin = int(query.get('continue', '0'))
        limit = min(int(query['limit']), self.page_objects) if hasattr(self, 'page_objects') else int(query['limit'])
        page = {'kind': 'List', 'metadata': {'resourceVersion': str(version)}, 'items': items[begin:begin + limit]}
        if begin + limit < len(items):
            page['metadata']['continue'] = str(begin + limit)
        body = json.dumps(page).encode()
        self.begin(handler)
        if fault == 'garbage':
            body = b'<html>this is a proxy</html>'
        if fault == 'no items':
            body = b'{"kind": "Status"}'
        if fault == 'truncate':
            self.send(handler, body[:len(body) // 2])
            raise Hangup
        if fault == 'stall':
            self.send(handler, body[:len(body) // 2])
            self.wait_until_closed()
            raise Hangup
        self.send(handler, body)
        self.end(handler)
        if 'continue' not in page['metadata']:
            with self.lock:  # whoever has read this list knows of all that was before it
                for number, at, _, _ in self.history:
                    if at == path and number <= version:
                        self.written.setdefault(number, time.monotonic())
                self.lock.notify_all()

    def watch(self, handler, path, query, fault):
        version = int(query['resourceVersion'])
        with self.lock:
            if version < self.oldest:
                gone = True
            else:
                gone, generation = False, self.watches
        if gone:
            return self.status(handler, 410)
        self.begin(handler)
        if fault == 'garbage':
            self.send(handler, b'not json at all\n')
            return self.end(handler)
        if fault == 'cut within an event':
            self.send(handler, b'{"type": "MODIFIED", "object": {"metadata": {"na')
            raise Hangup
        if fault == 'end at once':
            return self.end(handler)
        deadline = time.monotonic() + float(query['timeoutSeconds'])
        next_bookmark = time.monotonic() + self.bookmark_every_s if self.bookmark_every_s else None
        while True:
            with self.lock:
                def news():
                    return [e for e in self.history if e[0] > version and e[1] == path]

                wake = min(deadline, next_bookmark or deadline) - time.monotonic()
                self.lock.wait_for(lambda: self.closed or generation != self.watches or version < self.oldest or news(), max(0, wake))
                if self.closed or generation != self.watches:
                    raise Hangup
                expired, events, current = version < self.oldest, news(), self.version
            if expired:
                self.send(handler, json.dumps({'type': 'ERROR', 'object': {'kind': 'Status', 'code': 410, 'message': 'too old'}}).encode() + b'\n')
                return self.end(handler)
            if events:
                version = events[-1][0]
                told = [e for e in events if self.selected(e[3], query)]
                self.send(handler, b''.join(json.dumps({'type': kind, 'object': thing}).encode() + b'\n' for _, _, kind, thing in told))
                with self.lock:
                    for number, _, _, _ in told:
                        self.written.setdefault(number, time.monotonic())
                    self.lock.notify_all()
            if next_bookmark and time.monotonic() >= next_bookmark and query.get('allowWatchBookmarks'):
                next_bookmark = time.monotonic() + self.bookmark_every_s
                version = max(version, current)
                bookmark = {'type': 'BOOKMARK', 'object': {'kind': 'Pod', 'metadata': {'resourceVersion': str(version)}}}
                self.send(handler, json.dumps(bookmark).encode() + b'\n')
            if time.monotonic() >= deadline:
                return self.end(handler)

    def wait_written(self, version, deadline_s=20):
        """When this version had been written, to a watch or as part of a list."""
        with self.lock:
            assert self.lock.wait_for(lambda: version in self.written, deadline_s), f'version {version} was not read'
            return self.written[version]
