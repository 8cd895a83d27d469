#!/usr/bin/python3
"""An engine's event sockets, made with pyzmq and msgpack: an implementation of the wire that shares no code with ours.

Reads one JSON command per line on standard input and answers each with one JSON line. Ends when its input ends.
Binds loopback only. Replay requests are served between commands, as engines do it on their publishing thread.
"""
import json
import resource
import select
import struct
import sys
import time

import msgpack
import zmq

END = struct.pack('>q', -1)


class Engine:
    def __init__(self):
        self.context = zmq.Context()
        self.live = self.replay = None
        self.topic = b''
        self.topic_in_replies = True
        self.mute_replay = False      # take requests, answer nothing
        self.live_hwm = 100_000       # as engines; ROUTER keeps ZMQ's default of 1,000
        self.defer_replies = False    # take requests, answer when told
        self.send_patience_seconds = 0
        self.live_patience_seconds = 0  # instead of dropping at once when a subscriber's queue is full
        self.deferred = []
        self.drop_reply_tail = 0      # leave out that many of the last messages of a reply, and the end marker
        self.subscribed = 0
        self.new_life()

    def new_life(self, first_sequence=0):
        self.sequence = first_sequence
        self.history = []
        self.requests = []

    def bind(self, live='tcp://127.0.0.1:*', replay='tcp://127.0.0.1:*'):
        self.live = self.open(zmq.XPUB, live)  # as PUB on the wire; shows subscriptions to the test
        self.live.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.replay = self.open(zmq.ROUTER, replay) if replay else None
        return {'live': self.address(self.live), 'replay': self.address(self.replay)}

    def open(self, kind, address):
        socket = self.context.socket(kind)
        socket.linger = 0
        if kind == zmq.XPUB:
            socket.sndhwm = self.live_hwm
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.bind(address)
                return socket
            except zmq.ZMQError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @staticmethod
    def address(socket):
        return socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b'\0').decode() if socket else ''

    def restart(self, first_sequence=0):
        """The process dies and comes back on the same ports with an empty cache."""
        self.new_life(first_sequence)
        return self.rebind()

    def rebind(self):
        """The connections break, the process lives on."""
        live, replay = self.address(self.live), self.address(self.replay)
        self.live.close()
        if self.replay:
            self.replay.close()
        self.subscribed = 0
        return self.bind(live, replay)

    def send_raw(self, frames):
        self.live.send_multipart([bytes.fromhex(frame) for frame in frames])
        return {}

    def send_live(self, frames):
        if not self.live_patience_seconds:
            return self.live.send_multipart(frames)
        self.live.xpub_nodrop = 1
        end = time.monotonic() + self.live_patience_seconds
        while True:
            try:
                return self.live.send_multipart(frames, zmq.NOBLOCK)
            except zmq.Again:
                if time.monotonic() > end:  # nobody takes them: what follows is dropped at once
                    self.live.xpub_nodrop = self.live_patience_seconds = 0
                    return self.live.send_multipart(frames)
                time.sleep(0.001)

    def publish(self, events, rank=0, send=True, keep=True, form='array', times=1):
        """`send` false: lost on the way. `keep` false: not in the replay buffer."""
        for _ in range(times):
            payload = msgpack.packb([time.time(), [self.encode(event, form) for event in events], rank])
            if send:
                self.send_live([self.topic, struct.pack('>Q', self.sequence), payload])
            if keep:
                self.history.append((self.sequence, payload))
            self.sequence += 1
        return {'sequence': self.sequence - 1}

    @staticmethod
    def encode(event, form):
        """{"store": [hashes], "parent": hash, "tokens": [...], "block_size": n} or {"remove": [hashes]} or {"clear": true}"""
        if 'clear' in event:
            return ['AllBlocksCleared'] if form == 'array' else {'type': 'AllBlocksCleared'}
        medium = event.get('medium', 'GPU')
        if 'remove' in event:
            hashes = [Engine.hash(h) for h in event['remove']]
            if form == 'array':
                return ['BlockRemoved', hashes, medium]
            return {'type': 'BlockRemoved', 'block_hashes': hashes, 'medium': medium}
        hashes = [Engine.hash(h) for h in event['store']]
        parent = Engine.hash(event.get('parent'))
        if form == 'array':
            return ['BlockStored', hashes, parent, event['tokens'], event['block_size'], None, medium]
        return {'parent_block_hash': parent, 'lora_id': None, 'lora_name': None, 'medium': medium, 'a_new_key': [1, {'x': None}],
                'token_ids': event['tokens'], 'block_size': event['block_size'], 'block_hashes': hashes, 'type': 'BlockStored',
                'group_idx': 0, 'kv_cache_spec_kind': 'full_attention'}

    @staticmethod
    def hash(value):
        return bytes.fromhex(value) if isinstance(value, str) else value  # digests come as hex

    def fill(self, first, count, block_size=4, send=False):
        """`count` batches of one root block each; block i has hash first + i and tokens (first + i) * block_size and on."""
        for i in range(first, first + count):
            self.publish([{'store': [i], 'tokens': list(range(i * block_size, (i + 1) * block_size)), 'block_size': block_size}], send=send)
        return {'sequence': self.sequence - 1}

    def chain(self, first, count, per_batch=256, block_size=4):
        """One sequence of `count` blocks, `per_batch` a batch, not sent; block i as in fill."""
        for start in range(first, first + count, per_batch):
            blocks = list(range(start, min(start + per_batch, first + count)))
            event = {'store': blocks, 'tokens': list(range(blocks[0] * block_size, (blocks[-1] + 1) * block_size)), 'block_size': block_size}
            if start > first:
                event['parent'] = start - 1
            self.publish([event], send=False)
        return {'sequence': self.sequence - 1}

    def forget_before(self, sequence):
        """The replay buffer is bounded: these batches are out of it."""
        self.history = [batch for batch in self.history if batch[0] >= sequence]
        return {'kept': len(self.history)}

    def set(self, **options):
        for name, value in options.items():
            assert hasattr(self, name), name
            setattr(self, name, value.encode() if name == 'topic' else value)
        return {}

    def wait_subscribed(self, count=1):
        deadline = time.monotonic() + 20
        while self.subscribed < count and time.monotonic() < deadline:
            self.serve(0.02)
        return {'subscribed': self.subscribed}

    def status(self):
        return {'requests': self.requests, 'sequence': self.sequence, 'subscribed': self.subscribed}

    def serve(self, wait_seconds, also=()):
        """Whatever the sockets bring; true if `also` is readable."""
        sockets = [s for s in (self.live, self.replay) if s]
        poller = zmq.Poller()
        for socket in [*sockets, *also]:
            poller.register(socket, zmq.POLLIN)
        ready = dict(poller.poll(wait_seconds * 1000))
        if self.live in ready and self.live.recv()[:1] == b'\x01':
            self.subscribed += 1
        if self.replay is not None and self.replay in ready:
            self.answer(self.replay.recv_multipart())
        return any(ready.get(s.fileno()) for s in also)

    def answer(self, frames):
        if len(frames) != 3 or frames[1] != b'':
            self.requests.append(-1)
            return
        first = struct.unpack('>Q', frames[2])[0]
        self.requests.append(first)
        if self.mute_replay:
            return
        if self.defer_replies:
            self.deferred.append(frames)
            return
        self.reply(frames, first)

    def answer_deferred(self):
        """ROUTER drops what its queue of 1,000 has no room for. A connection that is only slow gets the time it needs,
        so that drops tell of a reader that takes no more."""
        self.replay.router_mandatory = 1
        self.send_patience_seconds = 5
        for frames in self.deferred:
            self.reply(frames, struct.unpack('>Q', frames[2])[0])
        self.send_patience_seconds = 0
        self.replay.router_mandatory = 0
        self.deferred = []
        return {}

    def send_reply(self, frames):
        end = time.monotonic() + self.send_patience_seconds
        while True:
            try:
                return self.replay.send_multipart(frames, zmq.NOBLOCK)
            except zmq.Again:
                if time.monotonic() > end:
                    self.send_patience_seconds = 0  # what follows is dropped at once
                    return None
                time.sleep(0.001)

    def reply(self, frames, first):
        prefix = [frames[0], b'']
        batches = [batch for batch in self.history if batch[0] >= first]
        if self.drop_reply_tail:
            batches = batches[:-self.drop_reply_tail]
        for sequence, payload in batches:
            topic = [self.topic] if self.topic_in_replies else []
            self.send_reply(prefix + topic + [struct.pack('>Q', sequence), payload])
        if not self.drop_reply_tail:
            self.send_reply(prefix + ([b''] if self.topic_in_replies else []) + [END, b''])


def main():
    # Descriptors for a thousand peers.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    engine = Engine()
    pending = b''
    while True:
        while b'\n' not in pending:
            if not engine.serve(0.05, also=(sys.stdin,)):
                continue
            chunk = sys.stdin.buffer.raw.read(65536)
            if not chunk:
                return
            pending += chunk
        line, pending = pending.split(b'\n', 1)
        command = json.loads(line)
        result = getattr(engine, command.pop('op'))(**command)
        print(json.dumps(result), flush=True)


if __name__ == '__main__':
    main()
