#!/usr/bin/env python3
"""Writes a trace of conversations that each begin with a long document and come back with a question while others go on.

Answers are long enough that engines fill up with them unevenly: whoever holds a document often has more to decode than
another, so that the next question about it is cheaper there, but for the document. The same seed gives the same trace; its
form is that of tests/data/traces. Only the Python standard library.
"""
import argparse
import json
import random


def conversations(options):
    random_source = random.Random(options.seed)
    next_id = 1

    def fresh(count):
        nonlocal next_id
        next_id += count
        return list(range(next_id - count, next_id))

    begins_s = 0
    for _ in range(options.conversations):
        begins_s += random_source.expovariate(options.per_second)
        at_s, tokens, blocks = begins_s, random_source.randrange(10_000, 20_000), []
        for _ in range(options.turns):
            tokens += random_source.randrange(50, 400)
            blocks = blocks + fresh(tokens // options.block_size - len(blocks))
            tail = fresh(1) if tokens % options.block_size else []
            yield {'timestamp': int(at_s * 1000), 'input_length': tokens,
                   'output_length': random_source.randrange(*options.answer_tokens), 'hash_ids': blocks + tail}
            at_s += random_source.uniform(15, 40)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('trace', help='file to write')
    parser.add_argument('--block-size', type=int, default=256)
    parser.add_argument('--conversations', type=int, default=48)
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--per-second', type=float, default=0.5, help='conversations that begin')
    parser.add_argument('--answer-tokens', type=int, nargs=2, default=(120, 200), metavar=('FROM', 'TO'))
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    with open(options.trace, 'w', encoding='utf-8') as file:
        for row in sorted(conversations(options), key=lambda row: row['timestamp']):
            file.write(json.dumps(row) + '\n')


if __name__ == '__main__':
    main()
