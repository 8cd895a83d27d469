#!/usr/bin/python3
"""Writes plane_messages.json: messages of Dynamo's event plane encoded by Python's msgpack, and what they say.

All values are invented; the shapes are those of Dynamo's RouterEvent (serde, named maps). Run it again after a change of
the cases; tests/lint holds the file to it.
"""
import json
import sys

import msgpack

TOP = 2**64 - 1


def stored(parent, blocks, **extra):
    data = [{'block_hash': b, 'tokens_hash': t, 'mm_extra_info': m} for b, t, m in blocks]
    return {'stored': {'parent_hash': parent, 'start_position': None, 'blocks': data, **extra}}


def event(event_id, data, dp_rank=0, worker_id=4096, **fields):
    return {'worker_id': worker_id, **fields, 'event': {'event_id': event_id, 'dp_rank': dp_rank, 'data': data}}


def said(event_id, dp_rank=0, worker_id=4096, tier=0, ignored='', **content):
    return {'worker_id': worker_id, 'dp_rank': dp_rank, 'event_id': event_id, 'tier': tier, 'ignored': ignored, **content}


IMAGE = {'mm_objects': [{'mm_hash': 5, 'offsets': [[0, 3]]}]}
CASES = [
    ('one store with a parent', [event(17, stored(640, [(901, 77001, None)]), storage_tier='device', residency_domain='worker')],
     [said(17, parent=640, blocks=[[901, 77001]])]),
    ('a root of several blocks, extreme hashes', [event(0, stored(None, [(0, TOP, None), (TOP, 0, None), (1 << 63, 1, None)]))],
     [said(0, parent=None, blocks=[[0, TOP], [TOP, 0], [1 << 63, 1]])]),
    ('parent 0 is a parent', [event(1, stored(0, [(2, 3, None)]))], [said(1, parent=0, blocks=[[2, 3]])]),
    ('removals', [event(18, {'removed': {'block_hashes': [901, TOP]}}, storage_tier='device')], [said(18, hashes=[901, TOP])]),
    ('left out by the publisher', [event(18, {'removed': {'block_hashes': []}})], [said(18, hashes=[])]),
    ('cleared', [event(19, 'cleared', storage_tier='device')], [said(19)]),
    ('several ranks and workers in one message',
     [event(1, 'cleared', dp_rank=3), event(2, stored(None, [(1, 2, None)]), worker_id=2**53 - 1)],
     [said(1, dp_rank=3), said(2, worker_id=2**53 - 1, parent=None, blocks=[[1, 2]])]),
    ('host memory', [event(5, {'removed': {'block_hashes': [1]}}, storage_tier='host_pinned', residency_domain='worker')],
     [said(5, tier=1, hashes=[1])]),
    ('a block on disk', [event(5, stored(640, [(901, 77001, None)]), storage_tier='disk')],
     [said(5, tier=2, parent=640, blocks=[[901, 77001]])]),
    ('a cache of its own', [event(6, stored(None, [(1, 2, None)]), residency_domain='cache_owner', state_source={'id': 9})],
     [said(6, ignored='cache_owner', parent=None, blocks=[[1, 2]])]),
    ('null domain', [event(7, {'removed': {'block_hashes': [1]}}, residency_domain=None)],
     [said(7, ignored='unsupported_residency_domain', hashes=[1])]),
    ('images', [event(8, stored(3, [(4, 5, IMAGE)]))], [said(8, parent=3, blocks=[[4, 5]])]),
    ('fields of a later version', [event(9, stored(3, [(4, 5, None)], later={'a': [1]}), later=2.5)],
     [said(9, parent=3, blocks=[[4, 5]])]),
    ('128 events', [event(i, {'removed': {'block_hashes': [i]}}) for i in range(128)], [said(i, hashes=[i]) for i in range(128)]),
]


def main():
    out = []
    for sequence, (name, events, expected) in enumerate(CASES):
        envelope = {'publisher_id': 81234567, 'sequence': sequence, 'published_at': 1756671000123, 'topic': 'kv-events',
                    'payload': msgpack.packb(events)}
        out.append({'name': name, 'publisher_id': 81234567, 'sequence': sequence, 'hex': msgpack.packb(envelope).hex(),
                    'events': expected})
    text = json.dumps(out, separators=(',', ':')).replace('},{"name"', '},\n{"name"') + '\n'
    sys.stdout.write(text)


if __name__ == '__main__':
    main()
