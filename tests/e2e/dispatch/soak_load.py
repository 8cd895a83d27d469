"""Clients of a soak: of every kind the door must bear, one request after another, and what became of each request."""
import collections
import json
import random
import socket
import threading
import time

from stage import MAX_TOKENS, ask, text_of

COMPLETIONS, CHATS = '/v1/completions', '/v1/chat/completions'
# The door's own total time-out and what a loaded machine adds; whoever waits longer was forgotten.
PATIENCE_S = 60
SLOW_TOKENS = 64
MAX_KEPT_WRONG = 20


class Tally:
    """How requests ended, by kind of client. Thread-safe."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ends = collections.Counter()  # (kind, 'right' | 'error' | 'left' | 'wrong')
        self.errors = collections.Counter()
        self.wrong = []

    def count(self, kind, end, detail=None):
        with self.lock:
            self.ends[kind, end] += 1
            if end == 'error':
                self.errors[detail] += 1
            elif end == 'wrong' and len(self.wrong) < MAX_KEPT_WRONG:
                self.wrong.append(f'{kind}: {detail}')

    def total(self, *ends):
        with self.lock:
            return sum(count for (_, end), count in self.ends.items() if end in ends)


def encoded(path, body, headers=()):
    data = json.dumps({'model': 'sim', 'max_tokens': MAX_TOKENS, **body}).encode()
    lines = [f'POST {path} HTTP/1.1', 'host: soak', 'content-type: application/json', f'content-length: {len(data)}', 'connection: close']
    return '\r\n'.join([*lines, *headers, '', '']).encode() + data


class Conversations:
    """Chats that grow turn by turn, each of its own session, and begin anew when they are long."""

    def __init__(self, rng, number):
        self.rng, self.number, self.turns, self.messages = rng, number, 0, []

    def next(self):
        if len(self.messages) >= 8:
            self.messages = []
        self.turns += 1
        self.messages.append({'role': 'user', 'content': f'client {self.number} says {self.turns} ' + 'words ' * self.rng.randint(1, 30)})
        return list(self.messages)

    def answered(self, text):
        self.messages.append({'role': 'assistant', 'content': text})


class Client:
    def __init__(self, stage, tally, number, seed, stopping):
        self.stage, self.tally, self.number, self.stopping = stage, tally, number, stopping
        self.rng = random.Random(f'{seed}/{number}')
        self.conversation = Conversations(self.rng, number)
        self.kinds = [self.ids, self.text, self.chat, self.chat, self.prefix, self.leaver, self.slow_reader, self.half_request, self.nonsense]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            kind = self.rng.choice(self.kinds)
            try:
                kind()
            except Exception as error:  # whatever a client sees that is neither answer nor error
                self.tally.count(kind.__name__, 'wrong', f'{type(error).__name__}: {error}')
            time.sleep(self.rng.uniform(0, 0.1))

    def finish(self, kind, answer, expected):
        if answer.is_right(expected):
            self.tally.count(kind, 'right')
        elif answer.is_clear_error(expected):
            self.tally.count(kind, 'error', f'{answer.status} {answer.errors[0].get("code")}')
        else:
            self.tally.count(kind, 'wrong', f'{answer}, expected {expected!r}')

    def serve(self, kind, body, path=COMPLETIONS, headers=None):
        body = {'stream': self.rng.random() < 0.5, **body}
        answer = ask(self.stage.door, path, {'model': 'sim', 'max_tokens': MAX_TOKENS, **body}, headers, PATIENCE_S)
        self.finish(kind, answer, self.stage.expected(body, path))
        return answer

    def token_ids(self):
        return [self.rng.randrange(1000, 2_000_000) for _ in range(self.rng.choice([3, 17, 64, 200]))]

    def ids(self):
        self.serve('ids', {'prompt': self.token_ids()})

    def prefix(self):
        """One of a few prefixes that all clients share, and an end of its own: hits, remote prefill, migration."""
        shared = self.rng.randrange(12)
        self.serve('prefix', {'prompt': list(range(shared * 1000, shared * 1000 + 160)) + self.token_ids()[:17]})

    def text(self):
        self.serve('text', {'prompt': f'text {self.rng.randrange(400)} ' + 'of many words ' * 10})

    def chat(self):
        messages = self.conversation.next()
        answer = self.serve('chat', {'messages': messages}, CHATS, {'x-dynamo-session-id': f'soak-{self.number}'})
        self.conversation.answered(answer.text or 'nothing')

    def connect(self):
        host, port = self.stage.door.rsplit(':', 1)
        return socket.create_connection((host, int(port)), timeout=PATIENCE_S)

    def leaver(self):
        """Asks and goes: before anything came, or in the middle of the answer."""
        with self.connect() as connection:
            connection.sendall(encoded(COMPLETIONS, {'prompt': self.token_ids(), 'stream': self.rng.random() < 0.7, 'max_tokens': 500}))
            if self.rng.random() < 0.5:
                connection.recv(200)
            else:
                time.sleep(self.rng.uniform(0, 0.05))
        self.tally.count('leaver', 'left')

    def slow_reader(self):
        body = {'prompt': self.token_ids(), 'stream': True, 'max_tokens': SLOW_TOKENS}
        raw = b''
        with self.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(encoded(COMPLETIONS, body))
            while piece := connection.recv(512):
                raw += piece
                time.sleep(0.02)
        head, _, rest = raw.partition(b'\r\n\r\n')
        expected = self.stage.expected(body)
        events = [line[len('data: '):] for line in rest.decode().splitlines() if line.startswith('data: ')]
        parsed = [json.loads(event) for event in events if event != '[DONE]']
        text = ''.join(text_of(choice) for event in parsed for choice in event.get('choices', []))
        errors = [event['error'] for event in parsed if 'error' in event]
        status = int(head.split()[1])
        if status != 200:
            code = json.loads(rest)['error'].get('code')
            self.tally.count('slow_reader', 'error' if status in (429, 500, 502, 503, 504) else 'wrong', f'{status} {code}')
        elif len(errors) == 1 and expected.startswith(text):
            self.tally.count('slow_reader', 'error', f'200 {errors[0].get("code")}')
        else:
            right = not errors and text == expected and events[-1:] == ['[DONE]']
            self.tally.count('slow_reader', 'right' if right else 'wrong', raw[-300:])

    def half_request(self):
        """Stops in the middle of its head or its body, and goes."""
        request = encoded(COMPLETIONS, {'prompt': self.token_ids()})
        with self.connect() as connection:
            connection.sendall(request[:self.rng.randrange(1, len(request) - 1)])
        self.tally.count('half_request', 'left')

    def nonsense(self):
        """What the client did wrong is said to it, whatever the engines do."""
        body, status = self.rng.choice([({'model': 'nobody', 'prompt': [1]}, 404), ([1, 2], 400), ({'model': 'sim'}, None)])
        answer = ask(self.stage.door, COMPLETIONS, body, timeout=PATIENCE_S)
        clear = len(answer.errors) == 1 and (answer.status == status if status else answer.status >= 400)
        self.tally.count('nonsense', 'right' if clear else 'wrong', str(answer))
