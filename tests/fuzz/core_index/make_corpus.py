#!/usr/bin/python3
"""Writes the seed programs of fuzz_block_index (its file explains the bytes). Usage: make_corpus.py DIRECTORY"""
import pathlib
import random
import sys


def stored(r):
    n = r.randrange(8)
    parent = [r.choice([0, 0, 1, 2, 5, 200])]
    if parent == [1]:
        parent.append(r.randrange(256))
    blocks = [b for _ in range(n) for b in (r.randrange(3), r.choice([0, 0, 0, 230, 250, r.randrange(256)]))]
    return [0, r.randrange(r.targets), *parent, n, *blocks]


def removed(r):
    n = r.randrange(5)
    return [4, r.randrange(r.targets), n, *(r.randrange(128) * 2 + (r.random() < 0.1) for _ in range(n))]


def query(r):
    n = r.randrange(12)
    return [7, n, *(r.randrange(3) for _ in range(n))]


def dropped(r):
    return [6, r.randrange(r.targets), r.randrange(2)]


def program(seed):
    r = random.Random(seed)
    r.targets = 16 if seed >= 20 else 4  # from 20 on: on all tiers
    ops = [stored] * r.randint(2, 5) + [removed] * r.randint(0, 4) + [query] * 2 + [dropped] * (seed % 3 == 0)
    steps = [b for _ in range(20 + 6 * (seed % 20)) for b in r.choice(ops)(r)]
    return bytes([seed % 6 + (8 if seed >= 20 else 0), *steps])


directory = pathlib.Path(sys.argv[1])
directory.mkdir(parents=True, exist_ok=True)
for number in range(30):
    (directory / f'seed-{number:02}').write_bytes(program(number))
