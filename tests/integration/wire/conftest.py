"""A running `kvrouter-sim engine` and clients of its wires."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import time

import msgpack
import pytest
import requests
import zmq

END = b'\xff' * 8
DEADLINE_S = 20


def wait_for(what, condition, deadline_s=DEADLINE_S):
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f'not seen within {deadline_s} s: {what}')


class Subscriber:
    """SUB socket that misses nothing: the engine knows of its subscription before the constructor returns."""

    def __init__(self, context, engine, index=0):
        known = engine.metrics(index)['kvrouter_sim_event_subscriptions']
        self.socket = context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.SUBSCRIBE, b'')
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.connect(engine.engines[index]['events'])
        wait_for('subscription', lambda: engine.metrics(index)['kvrouter_sim_event_subscriptions'] > known)

    def receive(self, timeout_s=DEADLINE_S):
        """[topic, seq, batch]"""
        assert self.socket.poll(int(timeout_s * 1000)), 'no event message'
        topic, sequence, payload = self.socket.recv_multipart()
        assert len(sequence) == 8
        return topic, struct.unpack('>Q', sequence)[0], msgpack.unpackb(payload, strict_map_key=True)

    def silent_for(self, seconds):
        return self.socket.poll(int(seconds * 1000)) == 0

    def close(self):
        self.socket.close(0)


def replay(context, endpoint, start, end_frames):
    """Frames of every data message after the delimiter; the end marker must be `end_frames`."""
    dealer = context.socket(zmq.DEALER)
    try:
        dealer.setsockopt(zmq.RCVHWM, 0)
        dealer.connect(endpoint)
        dealer.send_multipart([b'', struct.pack('>Q', start)])
        messages = []
        while True:
            assert dealer.poll(DEADLINE_S * 1000), 'no replay message'
            frames = dealer.recv_multipart()
            assert frames[0] == b''
            if frames[-2] == END:
                assert frames == end_frames
                return messages
            messages.append(frames[1:])
    finally:
        dealer.close(0)


class Engine:
    def __init__(self, process, addresses):
        self.process = process
        self.engines = addresses['engines']
        self.http, self.replay = self.engines[0]['http'], self.engines[0]['replay']
        self.admin = addresses.get('admin')  # with --faults

    def complete(self, prompt, engine=0, **members):
        body = {'model': 'sim', 'prompt': prompt, 'max_tokens': 1, **members}
        return requests.post(self.engines[engine]['http'] + '/v1/completions', json=body, timeout=DEADLINE_S,
                             stream=bool(members.get('stream')))

    def metrics(self, engine=0):
        text = requests.get(self.engines[engine]['http'] + '/metrics', timeout=DEADLINE_S).text
        values = {}
        for line in text.splitlines():
            if not line.startswith('#'):
                series, value = line.rsplit(' ', 1)
                values[series.split('{')[0]] = float(value)
        return values

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)


@pytest.fixture
def context():
    context = zmq.Context()
    yield context
    context.destroy(0)


@pytest.fixture
def start_engine(tmp_path):
    """start_engine(*arguments) -> Engine; small blocks and a fast model unless told otherwise."""
    running = []

    def start(*arguments):
        addresses_file = tmp_path / f'addresses-{len(running)}.json'
        command = [os.environ['KVROUTER_SIM'], 'engine', '--addresses-file', str(addresses_file), *arguments]
        for option, value in (('--block-size', '4'), ('--speedup', '100')):
            if option not in arguments:
                command += [option, value]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        running.append(process)
        wait_for('addresses file', lambda: addresses_file.exists() or process.poll() is not None)
        assert process.poll() is None, f'engine exited with {process.returncode}'
        return Engine(process, json.loads(addresses_file.read_text()))

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()
