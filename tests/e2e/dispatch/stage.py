"""A fleet of simulated engines that can be broken, a kvrouterd that dispatches to them, and an engine apart from both
that knows the right answers."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.parse

from conftest import Daemon, clean_environment, wait_for

# For whatever a loaded machine may delay; a request must have ended long before.
PATIENCE_S = 30
BLOCK_TOKENS = 4
MAX_TOKENS = 12


class Answer:
    """What a client got: status, text, whether an error came and whether the end of the stream did."""

    def __init__(self, status, headers, text='', errors=(), done=False, whole=True, raw=b''):
        self.status, self.headers, self.text, self.errors = status, headers, text, list(errors)
        self.done, self.whole, self.raw = done, whole, raw

    def __repr__(self):
        return f'{self.status} text={self.text!r} errors={self.errors} done={self.done} whole={self.whole}'

    def is_right(self, expected):
        return self.status == 200 and not self.errors and self.done and self.whole and self.text == expected

    def is_clear_error(self, expected):
        """One error in OpenAI's words: as the answer, or as the event behind a beginning of the right answer."""
        if len(self.errors) != 1 or not self.errors[0].get('message'):
            return False
        if self.status != 200:
            return self.status in (429, 500, 502, 503, 504)
        return expected.startswith(self.text)


def text_of(choice):
    return choice['text'] if 'text' in choice else choice.get('delta', choice.get('message')).get('content', '')


def read_stream(response):
    raw, whole = b'', True
    try:
        while True:
            piece = response.read1(65536)
            if not piece:
                break
            raw += piece
    except http.client.IncompleteRead:
        whole = False
    lines = [line[len('data: '):] for line in raw.decode().splitlines() if line.startswith('data: ')]
    done = bool(lines) and lines[-1] == '[DONE]'
    events = [json.loads(line) for line in lines if line != '[DONE]']
    errors = [event['error'] for event in events if 'error' in event]
    text = ''.join(text_of(choice) for event in events for choice in event.get('choices', []))
    return Answer(200, dict(response.headers), text, errors, done, whole, raw)


def ask(address, path, body, headers=None, timeout=PATIENCE_S):
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request('POST', path, json.dumps(body), {'content-type': 'application/json', **(headers or {})})
        response = connection.getresponse()
        kind = response.headers.get('content-type', '')
        if response.status == 200 and kind.startswith('text/event-stream'):
            return read_stream(response)
        try:
            raw = response.read()
        except http.client.IncompleteRead:
            return Answer(response.status, dict(response.headers), whole=False)
        body = json.loads(raw)
        if response.status != 200:
            return Answer(response.status, dict(response.headers), errors=[body['error']] if 'error' in body else [], raw=raw)
        return Answer(200, dict(response.headers), text_of(body['choices'][0]), done=True, raw=raw)
    finally:
        connection.close()


class Engines:
    """One process of simulated engines."""

    def __init__(self, directory, name, *arguments):
        addresses_file = directory / f'{name}.addresses'
        self.log = directory / f'{name}.log'
        self.process = subprocess.Popen(
            [os.environ['KVROUTER_SIM'], 'engine', '--service', 'batching', '--block-size', str(BLOCK_TOKENS),
             '--addresses-file', str(addresses_file), *arguments], stdout=subprocess.DEVNULL, stderr=self.log.open('w'))
        wait_for('engines', lambda: addresses_file.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        addresses = json.loads(addresses_file.read_text())
        self.list, self.admin = addresses['engines'], addresses.get('admin')

    def host(self, index):
        return urllib.parse.urlsplit(self.list[index]['http']).netloc

    def metrics(self, index):
        connection = http.client.HTTPConnection(self.host(index), timeout=PATIENCE_S)
        try:
            connection.request('GET', '/metrics')
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return {m.group(1): float(m.group(2)) for m in re.finditer(r'^([\w:]+)\{.*\} (\S+)$', text, re.M)}

    def _admin(self, method, path, body=None):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.admin).netloc, timeout=PATIENCE_S)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
        finally:
            connection.close()

    def fault(self, index, **rule):
        self._admin('POST', f'/engines/{index}/faults', rule)

    def clear(self, index):
        self._admin('DELETE', f'/engines/{index}/faults')

    def taken(self, index):
        """Requests that faults have hit."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.admin).netloc, timeout=PATIENCE_S)
        try:
            connection.request('GET', f'/engines/{index}/faults')
            return json.loads(connection.getresponse().read())['taken']
        finally:
            connection.close()

    def restart(self, index):
        self._admin('POST', f'/engines/{index}/restart')

    def idle(self, index):
        """Nothing runs, waits or is held for others."""
        metrics = self.metrics(index)
        names = ('vllm:num_requests_running', 'vllm:num_requests_waiting', 'vllm:kv_cache_usage_perc',
                 'kvrouter_sim_kv_pinned_requests')
        return all(metrics[name] == 0 for name in names)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Stage:
    """`roles`: of each engine, as (role, kv_role); engine i is worker i."""

    def __init__(self, directory: pathlib.Path, roles, engine_arguments=(), settings=()):
        self.directory, self.roles = directory, roles
        self.engines = Engines(directory, 'engines', '--engines', str(len(roles)), '--faults', '--inter-token-us', '4000',
                               *engine_arguments)
        self.oracle = Engines(directory, 'oracle', '--speedup', '1000')
        self.workers_file = directory / 'workers.yaml'
        self.workers_file.write_text(self.workers_yaml(range(len(roles))))
        self.daemon = None
        self.settings = settings

    def workers_yaml(self, indices):
        text = 'workers:\n' if list(indices) else 'workers: []\n'
        for index in indices:
            engine, (role, kv_role) = self.engines.list[index], self.roles[index]
            text += (f'  - worker_id: {index}\n    address: "{engine["http"]}"\n    block_size: {BLOCK_TOKENS}\n'
                     f'    model_name: sim\n    role: {role}\n    kv_role: {kv_role}\n    total_kv_blocks: 20000\n'
                     f'    kv_events_endpoint: "{engine["events"]}"\n    replay_endpoint: "{engine["replay"]}"\n')
        return text

    def start_daemon(self, config):
        addresses, log = self.directory / 'daemon.addresses', self.directory / 'daemon.log'
        path = self.directory / 'kvrouterd.yaml'
        path.write_text(config)
        process = subprocess.Popen(
            [os.environ['KVROUTERD'], '--http-listen', '127.0.0.1:0', '--grpc-listen', '127.0.0.1:0', '--dispatch',
             '--dispatch-listen', '127.0.0.1:0', '--addresses-file', str(addresses), '--config', str(path), *self.settings],
            env=clean_environment(), stderr=log.open('w'))
        wait_for('kvrouterd', lambda: addresses.exists() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        bound = dict(line.split('=', 1) for line in addresses.read_text().splitlines())
        self.daemon, self.door = Daemon(process, bound['http'], bound['grpc'], log), bound['openai']
        wait_for('ready', lambda: self.daemon.get('/ready')[0] == 200)
        return self

    def serve(self, body, path='/v1/completions', **headers):
        return ask(self.door, path, {'model': 'sim', 'max_tokens': MAX_TOKENS, **body},
                   {name.replace('_', '-'): str(value) for name, value in headers.items()})

    def expected(self, body, path='/v1/completions'):
        return ask(self.oracle.host(0), path, {'model': 'sim', 'max_tokens': MAX_TOKENS, **body, 'stream': False}).text

    def serve_all(self, bodies, path='/v1/completions', **headers):
        """All at the same time: (answer, right text) of each."""
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            answers = list(pool.map(lambda body: self.serve(body, path, **headers), bodies))
        return [(answer, self.expected(body, path)) for answer, body in zip(answers, bodies)]

    def loads(self):
        metrics = self.daemon.metrics()
        names = ('kvrouter_worker_active_requests', 'dynamo_frontend_worker_active_decode_blocks',
                 'dynamo_frontend_worker_active_prefill_tokens')
        return [sum(metrics.all(name)) for name in names]

    def assert_all_quiet(self):
        wait_for('loads back to 0', lambda: self.loads() == [0, 0, 0])
        for index in range(len(self.roles)):
            wait_for(f'engine {index} idle', lambda: self.engines.idle(index))

    def stop(self):
        if self.daemon is not None:
            self.daemon.channel.close()
            self.daemon.process.send_signal(signal.SIGTERM)
            try:
                self.daemon.process.wait(15)
            except subprocess.TimeoutExpired:
                self.daemon.process.kill()
                self.daemon.process.wait()
        self.engines.stop()
        self.oracle.stop()


class Prompts:
    """Prompts that nobody has seen."""

    def __init__(self):
        self.next = 1000

    def take(self, tokens=42):
        self.next += tokens
        return list(range(self.next - tokens, self.next))

