#!/usr/bin/python3
"""Prints engine_events.json: batches as engines encode them (python3-msgpack), beside what they say.

Every event is drawn once as plain facts and then put on the wire in the dialect of one engine: vLLM's arrays of three
ages and its maps, SGLang's arrays and maps with single tokens or pairs, TensorRT-LLM's maps. Run it to renew the file;
the seed keeps it the same, and tests/lint holds the file to it.
"""
import json
import random

import msgpack

RANDOM = random.Random(20260601)
BATCHES = 120


def digest(item):
    """The identifier whose hash is `item`."""
    return f'{item:016x}' + 'ab' * 24


def fact(kind):
    count = RANDOM.choice((1, 1, 2, 3))
    block_size = RANDOM.choice((1, 4, 16))
    hashes = [RANDOM.choice((RANDOM.getrandbits(64), RANDOM.getrandbits(7), 2**63)) for _ in range(count)]
    if kind == 'removed':
        return {'kind': kind, 'hashes': hashes, 'medium': RANDOM.choice(('GPU', 'CPU', ''))}
    positions = count * block_size
    return {'kind': kind, 'hashes': hashes, 'parent': RANDOM.choice((None, 0, RANDOM.getrandbits(64))),
            'tokens': [RANDOM.choice((RANDOM.getrandbits(32), RANDOM.getrandbits(16), RANDOM.getrandbits(6)))
                       for _ in range(positions)],
            'block_size': block_size, 'medium': RANDOM.choice(('GPU', 'GPU', 'CPU', 'STORAGE', '')), 'pairs': False,
            'lora_name': '', 'cache_salt': '', 'items': [[] for _ in range(count)], 'group': None, 'spec_kind': ''}


def some_items(event):
    for block in event['items']:
        block += [RANDOM.choice((5, RANDOM.getrandbits(64))) for _ in range(RANDOM.choice((0, 0, 1, 3)))]


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def nil(text):
    return text or None


def extra_keys(event, offsets):
    entries = []
    for i, block in enumerate(event['items']):
        entry = [event['lora_name']] if event['lora_name'] else []
        entry += [(digest(item), RANDOM.randint(-9, 9)) if offsets else digest(item) for item in block]
        if event['cache_salt'] and i == 0:
            entry.append(event['cache_salt'])
        entries.append(entry or None)
    return entries


def vllm_array(event):
    wire = [as_hash(event, h) for h in event['hashes']]
    if event['kind'] == 'removed':
        return ['BlockRemoved', wire, nil(event['medium'])]
    age = RANDOM.choice((5, 7, 9, 11))
    if age >= 7:
        event['lora_name'] = RANDOM.choice(('', 'ada')) if age >= 9 else ''
    else:
        event['medium'] = ''
    if age >= 9:
        some_items(event)
        if event['parent'] is None:
            event['cache_salt'] = RANDOM.choice(('', 'tenant'))
    if age == 11:
        event['group'] = RANDOM.choice((None, 0, 1))
        event['spec_kind'] = RANDOM.choice(('', 'full_attention'))
    fields = ['BlockStored', wire, event['parent'], event['tokens'], event['block_size'], None, nil(event['medium']),
              nil(event['lora_name']), extra_keys(event, offsets=age == 11), event['group'], nil(event['spec_kind'])]
    return fields[:age]


def as_hash(event, value):
    """An integer, or the digest that ends in it."""
    return value if RANDOM.random() < 0.7 else RANDOM.randbytes(24) + value.to_bytes(8, 'big')


def vllm_map(event):
    wire = {'type': 'BlockRemoved' if event['kind'] == 'removed' else 'BlockStored',
            'block_hashes': [as_hash(event, h) for h in event['hashes']], 'medium': nil(event['medium'])}
    if event['kind'] == 'removed':
        return wire
    event['lora_name'] = RANDOM.choice(('', 'ada'))
    some_items(event)
    event['group'] = RANDOM.choice((None, 0, 7))
    event['spec_kind'] = RANDOM.choice(('', 'full_attention', 'mamba'))
    if event['parent'] is None:
        event['cache_salt'] = RANDOM.choice(('', 'tenant'))
    wire.update(parent_block_hash=event['parent'], token_ids=event['tokens'], block_size=event['block_size'], lora_id=None,
                lora_name=nil(event['lora_name']), extra_keys=extra_keys(event, offsets=True), session_id='s')
    if event['group'] is not None:
        wire['group_idx'] = event['group']
    if event['spec_kind']:
        wire['kv_cache_spec_kind'] = event['spec_kind']
    return shuffled(wire)


def shuffled(wire):
    keys = list(wire)
    RANDOM.shuffle(keys)
    return {key: wire[key] for key in keys}


def pairs(event):
    """SGLang with EAGLE: n positions as n pairs, which hold n + 1 tokens."""
    if RANDOM.random() < 0.5:
        return event['tokens']
    event['pairs'] = True
    event['tokens'] = event['tokens'] + [RANDOM.getrandbits(17)]
    return list(zip(event['tokens'], event['tokens'][1:]))


def sglang_array(event):
    wire = [signed(h) for h in event['hashes']]
    if event['kind'] == 'removed':
        return ['BlockRemoved', wire, nil(event['medium'])]
    parent = None if event['parent'] is None else signed(event['parent'])
    fields = ['BlockStored', wire, parent, pairs(event), event['block_size'], None, nil(event['medium'])]
    if RANDOM.random() < 0.5:
        event['cache_salt'] = 'tenant'
        fields.append({'cache_salt': 'tenant', 'more': [1]})
    return fields


def sglang_map(event):
    wire = {'type': 'BlockRemoved' if event['kind'] == 'removed' else 'BlockStored',
            'block_hashes': [signed(h) for h in event['hashes']], 'medium': nil(event['medium'])}
    if event['kind'] == 'removed':
        return wire
    wire.update(parent_block_hash=None if event['parent'] is None else signed(event['parent']), token_ids=pairs(event),
                block_size=event['block_size'], lora_id=None)
    if RANDOM.random() < 0.5:
        event['cache_salt'] = wire['cache_salt'] = 't'
    return shuffled(wire)


def tensorrt_map(event):
    wire = {'type': 'BlockRemoved' if event['kind'] == 'removed' else 'BlockStored', 'block_hashes': event['hashes'],
            'medium': 'GPU'}
    event['medium'] = 'GPU'
    if event['kind'] == 'removed':
        return wire
    some_items(event)
    wire.update(parent_block_hash=event['parent'], token_ids=event['tokens'], block_size=event['block_size'], lora_id=None,
                lora_name=None, mm_keys=[[{'type': 'mm_key', 'hash': digest(item), 'start_offset': 3} for item in block]
                                         for block in event['items']])
    return wire


def dynamo_map(event):
    """The map form with Dynamo's own block_mm_infos."""
    wire = vllm_map(event)
    if event['kind'] == 'stored':
        wire['extra_keys'] = None
        event['cache_salt'] = ''
        wire['block_mm_infos'] = [{'mm_objects': [{'mm_hash': item, 'offsets': [(0, 3)]} for item in block]} if block else None
                                  for block in event['items']]
    return wire


def batch(number):
    dialect = (vllm_array, vllm_map, sglang_array, sglang_map, tensorrt_map, dynamo_map)[number % 6]
    facts = [fact(RANDOM.choice(('stored', 'stored', 'removed'))) for _ in range(RANDOM.randint(1, 3))]
    events = [dialect(event) for event in facts]
    if RANDOM.random() < 0.3:
        facts.append({'kind': 'cleared'})
        events.append(['AllBlocksCleared'] if 'array' in dialect.__name__ else {'type': 'AllBlocksCleared'})
    rank = RANDOM.choice((None, 0, 3))
    return {'dialect': dialect.__name__, 'rank': rank, 'events': facts,
            'payload': msgpack.packb([1.5 + number, events, rank], use_bin_type=True).hex()}


def main():
    head = {'origin': 'Made by make_engine_events.py with python3-msgpack, an encoder that is not ours.'}
    lines = [json.dumps(batch(number)) for number in range(BATCHES)]
    print(json.dumps(head)[:-1] + ', "batches": [\n' + ',\n'.join(lines) + '\n]}')


if __name__ == '__main__':
    main()
