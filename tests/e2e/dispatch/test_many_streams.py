"""A thousand streams at the same time, all of them to their end."""
import asyncio
import json
import os
import resource

import pytest

from conftest import wait_for
from stage import MAX_TOKENS, Stage, text_of

STREAMS = 1000
WARM = 50  # what the first ones take is kept for all
IDLE_STREAM_LIMIT_KIB = 32


@pytest.fixture
def stage(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4 * STREAMS:
        pytest.skip(f'skipped, {hard} open files at most')
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * STREAMS), hard))
    # A token every 2.5 s: the last stream has begun long before the first one ends, on a slow machine, too.
    stage = Stage(tmp_path, [('aggregated', 'none')] * 2,
                  ('--speedup', '0.0016', '--prefill-rate', '1e9', '--token-budget', '1000000', '--max-running', '2000'))
    try:
        yield stage.start_daemon(stage.workers_file.read_text())
    finally:
        stage.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Streams:
    def __init__(self, stage):
        self.stage, self.begun, self.texts = stage, 0, {}

    def body(self, number):
        return {'prompt': [number * 64 + n for n in range(64)]}

    async def read(self, number):
        host, port = self.stage.door.rsplit(':', 1)
        data = json.dumps({'model': 'sim', 'max_tokens': MAX_TOKENS, 'stream': True, **self.body(number)}).encode()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b'POST /v1/completions HTTP/1.1\r\nhost: many\r\ncontent-type: application/json\r\n'
                     b'content-length: %d\r\n\r\n' % len(data) + data)
        text, seen = '', False
        async for line in reader:
            if line.startswith(b'data: [DONE]'):
                self.texts[number] = text
                break
            if line.startswith(b'data: '):
                text += ''.join(text_of(choice) for choice in json.loads(line[6:])['choices'])
                if not seen:
                    seen, self.begun = True, self.begun + 1
        writer.close()

    async def run(self, measure):
        reading = [asyncio.create_task(self.read(number)) for number in range(WARM)]
        await self.until_begun(WARM)
        before_kb = measure()
        reading += [asyncio.create_task(self.read(number)) for number in range(WARM, STREAMS)]
        await self.until_begun(STREAMS)
        live = await asyncio.to_thread(lambda: self.stage.daemon.metrics().one('kvrouter_dispatch_live_requests'))
        after_kb = measure()
        await asyncio.gather(*reading)
        return live, (after_kb - before_kb) / (STREAMS - WARM)

    async def until_begun(self, count):
        while self.begun < count:
            await asyncio.sleep(0.05)


def test_a_thousand_streams_end_with_their_answers(stage):
    def resident_kb():
        with open(f'/proc/{stage.daemon.process.pid}/status') as status:
            return int(status.read().split('VmRSS:')[1].split()[0])

    streams = Streams(stage)
    live, stream_kib = asyncio.run(asyncio.wait_for(streams.run(resident_kb), 200))
    print(f'{live:.0f} live, {stream_kib:.1f} KiB a stream')
    assert live == STREAMS
    wrong = [number for number in range(STREAMS) if streams.texts.get(number) != stage.expected(streams.body(number))]
    assert not wrong
    wait_for('loads back to 0', lambda: stage.loads() == [0, 0, 0])
    assert os.environ.get('KVR_SANITIZE') or stream_kib <= IDLE_STREAM_LIMIT_KIB
