"""What a subscriber of vLLM's KV events must see."""
import msgpack
import pytest
import requests
import zmq

from conftest import END, Subscriber, replay, wait_for

FIELDS = ['type', 'block_hashes', 'parent_block_hash', 'token_ids', 'block_size', 'lora_id', 'medium', 'lora_name',
          'extra_keys', 'group_idx', 'kv_cache_spec_kind']


def as_map(event):
    """Either form as a dict; a positional event names its fields by place."""
    if isinstance(event, dict):
        return event
    names = FIELDS if event[0] == 'BlockStored' else ['type', 'block_hashes', 'medium', 'group_idx']
    return dict(zip(names, event))


@pytest.mark.parametrize('form', ['array', 'map'])
def test_stored_blocks_carry_tokens_parent_and_place(start_engine, context, form):
    engine = start_engine('--event-form', form, '--topic', 'kv@a@sim')
    subscriber = Subscriber(context, engine)

    assert engine.complete(list(range(10))).status_code == 200
    topic, sequence, batch = subscriber.receive()
    assert (topic, sequence) == (b'kv@a@sim', 0)
    wall_time, events, rank = batch
    assert isinstance(wall_time, float) and wall_time > 1.6e9
    assert rank == 0
    assert len(events) == 1
    assert isinstance(events[0], list if form == 'array' else dict)
    first = as_map(events[0])
    assert first['type'] == 'BlockStored'
    assert first['token_ids'] == list(range(8))  # the partial tail is no block
    assert first['parent_block_hash'] is None
    assert first['block_size'] == 4
    assert first['medium'] == 'GPU'
    assert first['lora_id'] is None and first['lora_name'] is None
    assert first['group_idx'] == 0
    assert first['kv_cache_spec_kind'] == 'full_attention'
    assert len(set(first['block_hashes'])) == 2
    assert all(0 <= h < 2**64 for h in first['block_hashes'])

    assert engine.complete(list(range(8)) + [70, 71, 72, 73]).status_code == 200
    _, sequence, batch = subscriber.receive()
    assert sequence == 1
    second = as_map(batch[1][0])
    assert second['token_ids'] == [70, 71, 72, 73]
    assert second['parent_block_hash'] == first['block_hashes'][1]
    subscriber.close()


def test_large_tokens_and_prompts_survive_the_wire(start_engine, context):
    engine = start_engine('--block-size', '256')
    subscriber = Subscriber(context, engine)
    prompt = [(i * 2654435761) % 2**32 for i in range(100_000)]
    assert engine.complete(prompt).status_code == 200
    stored = as_map(subscriber.receive()[2][1][0])
    assert stored['token_ids'] == prompt[:len(prompt) // 256 * 256]
    assert len(stored['block_hashes']) == len(prompt) // 256
    subscriber.close()


@pytest.mark.parametrize('form', ['array', 'map'])
def test_eviction_removes_the_oldest_chain_tail_first(start_engine, context, form):
    engine = start_engine('--event-form', form, '--blocks', '4')
    subscriber = Subscriber(context, engine)
    engine.complete([1] * 4 + [2] * 4 + [3] * 4)
    old = as_map(subscriber.receive()[2][1][0])['block_hashes']
    engine.complete([9] * 4 + [8] * 4 + [7] * 4)
    events = [as_map(e) for e in subscriber.receive()[2][1]]
    removed = [e for e in events if e['type'] == 'BlockRemoved']
    assert [e['block_hashes'] for e in removed] == [[old[2]], [old[1]]]  # one hash an event
    assert all(e['medium'] == 'GPU' and e['group_idx'] == 0 for e in removed)
    subscriber.close()


@pytest.mark.parametrize('form', ['array', 'map'])
def test_reset_clears_and_says_so(start_engine, context, form):
    engine = start_engine('--event-form', form)
    subscriber = Subscriber(context, engine)
    engine.complete([5] * 8)
    subscriber.receive()
    assert requests.post(engine.http + '/reset_prefix_cache', timeout=5).status_code == 200
    _, sequence, batch = subscriber.receive()
    assert sequence == 1
    assert batch[1] == ([['AllBlocksCleared']] if form == 'array' else [{'type': 'AllBlocksCleared'}])
    engine.complete([5] * 8)
    assert engine.metrics()['vllm:prefix_cache_hits_total'] == 0
    subscriber.close()


def test_reset_with_blocks_in_use_answers_200_and_says_nothing(start_engine, context):
    engine = start_engine('--service', 'batching', '--speedup', '1', '--inter-token-us', '20000')
    subscriber = Subscriber(context, engine)
    streaming = engine.complete([5] * 8, stream=True, max_tokens=1000)
    next(streaming.iter_content(1))
    subscriber.receive()
    assert requests.post(engine.http + '/reset_prefix_cache', timeout=5).status_code == 200
    assert subscriber.silent_for(0.3)
    streaming.close()
    subscriber.close()


@pytest.mark.parametrize('form,with_topic', [('old', False), ('new', True)])
def test_replay_repeats_batches_from_a_sequence(start_engine, context, form, with_topic):
    engine = start_engine('--replay-form', form, '--topic', 'kv')
    for i in range(5):
        engine.complete([i] * 4)
    end = [b'', b'', END, b''] if with_topic else [b'', END, b'']
    messages = []

    def five_batches():
        messages[:] = replay(context, engine.replay, 0, end)
        return len(messages) == 5

    wait_for('five batches', five_batches)
    assert [len(frames) for frames in messages] == [3 if with_topic else 2] * 5
    if with_topic:
        assert {frames[0] for frames in messages} == {b'kv'}
    assert [int.from_bytes(frames[-2], 'big') for frames in messages] == [0, 1, 2, 3, 4]
    assert [as_map(msgpack.unpackb(f[-1])[1][0])['token_ids'] for f in messages] == [[i] * 4 for i in range(5)]

    assert [int.from_bytes(f[-2], 'big') for f in replay(context, engine.replay, 3, end)] == [3, 4]
    assert replay(context, engine.replay, 5, end) == []


def test_replay_starts_above_what_the_buffer_forgot(start_engine, context):
    engine = start_engine('--buffer-batches', '2')
    subscriber = Subscriber(context, engine)
    for i in range(4):
        engine.complete([i] * 4)
        subscriber.receive()
    messages = replay(context, engine.replay, 0, [b'', b'', END, b''])
    assert [int.from_bytes(f[-2], 'big') for f in messages] == [2, 3]
    subscriber.close()


def test_incomplete_replay_request_gets_no_answer(start_engine, context):
    engine = start_engine()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(engine.replay)
    dealer.send_multipart([b'\0' * 8])  # no delimiter
    assert dealer.poll(300) == 0
    assert replay(context, engine.replay, 0, [b'', b'', END, b'']) == []  # and the socket still serves


def test_lost_live_batches_are_a_gap_that_replay_fills(start_engine, context):
    engine = start_engine('--lose-live-every', '3')
    subscriber = Subscriber(context, engine)
    for i in range(6):
        engine.complete([i] * 4)
    assert [subscriber.receive()[1] for _ in range(4)] == [0, 1, 3, 4]
    messages = replay(context, engine.replay, 0, [b'', b'', END, b''])
    assert [int.from_bytes(f[-2], 'big') for f in messages] == [0, 1, 2, 3, 4, 5]
    subscriber.close()


def test_equal_prompts_have_other_hashes_on_every_engine_unless_seeded(start_engine, context):
    def hashes(engine):
        found = []
        for i in range(len(engine.engines)):
            subscriber = Subscriber(context, engine, i)
            engine.complete([1, 2, 3, 4], engine=i)
            found += as_map(subscriber.receive()[2][1][0])['block_hashes']
            subscriber.close()
        return found

    assert len(set(hashes(start_engine('--engines', '3')))) == 3
    seeded = hashes(start_engine('--engines', '2', '--hash-seed', '7'))
    assert seeded[0] == seeded[1]
    assert hashes(start_engine('--hash-seed', '7')) == seeded[:1]


def test_subscriptions_are_counted_while_they_last(start_engine, context):
    engine = start_engine()
    first, second = Subscriber(context, engine), Subscriber(context, engine)
    assert engine.metrics()['kvrouter_sim_event_subscriptions'] == 2
    first.close()
    second.close()
    wait_for('no subscription', lambda: engine.metrics()['kvrouter_sim_event_subscriptions'] == 0)


def test_prefix_hits_store_nothing(start_engine, context):
    engine = start_engine()
    subscriber = Subscriber(context, engine)
    engine.complete([1] * 8)
    subscriber.receive()
    engine.complete([1] * 8)
    assert subscriber.silent_for(0.3)
    subscriber.close()
