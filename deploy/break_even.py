#!/usr/bin/env python3
"""Measures between two simulated engines from which prompt length on fetching KV beats computing it.

For each length: the time to the first token of a prompt that nobody has (recompute), and of one that the other engine holds
and hands over (a producer step there, then the transfer). Only the Python standard library.
"""
import argparse
import http.client
import json
import statistics
import time
import urllib.parse

ASK_PRODUCER = {'do_remote_decode': True, 'do_remote_prefill': False, 'remote_engine_id': None, 'remote_block_ids': None,
                'remote_host': None, 'remote_port': None}


def post(address, prompt, **members):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=60)
    try:
        connection.request('POST', '/v1/completions', json.dumps({'prompt': prompt, 'max_tokens': 1, **members}),
                           {'content-type': 'application/json'})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f'{address} answered {answer.status}: {body}')
        return body
    finally:
        connection.close()


REPEATS = 3  # of each length; the median counts


def timed(call, prompt):
    start = time.monotonic()
    call(prompt)
    return time.monotonic() - start


def assumed(options):
    if options.prices:
        tokens_per_s, transfer_us = options.prices
        compute_us = options.block_size * 1_000_000 / tokens_per_s
        if transfer_us >= compute_us:
            return f'never (a block is computed in {compute_us:.0f} us, and {transfer_us} us under way)'
    return f'{options.assumed} tokens (kv_migration_min_tokens)'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('addresses', help="file that kvrouter-sim engine wrote, of two engines with --kv-role both")
    parser.add_argument('--speedup', type=float, default=1, help='of the engines; times are shown in their seconds')
    parser.add_argument('--block-size', type=int, default=256)
    parser.add_argument('--assumed', type=int, required=True, help='the floor the router is configured with, in tokens')
    parser.add_argument('--prices', type=int, nargs=2, metavar=('TOKENS_PER_S', 'US_PER_BLOCK'),
                        help='what the router is told of engines and transfers')
    options = parser.parse_args()
    with open(options.addresses, encoding='utf-8') as file:
        source, target = [engine['http'] for engine in json.load(file)['engines']][:2]

    def migrate(prompt):
        handshake = post(source, prompt, kv_transfer_params=ASK_PRODUCER)['kv_transfer_params']
        post(target, prompt, kv_transfer_params=handshake)

    next_token, measured = 1, None
    print(f'{"prompt tokens":>14} {"recompute s":>12} {"migrate s":>12}')
    for blocks in (1, 2, 4, 8, 16, 32, 64):
        tokens = blocks * options.block_size
        recomputed, moves = [], []
        for _ in range(REPEATS):
            fresh = list(range(next_token, next_token + tokens))
            held = list(range(next_token + tokens, next_token + 2 * tokens))
            next_token += 2 * tokens
            post(source, held)
            recomputed.append(timed(lambda prompt: post(target, prompt), fresh))
            moves.append(timed(migrate, held))
        recompute, moved = (statistics.median(times) * options.speedup for times in (recomputed, moves))
        if moved < recompute and measured is None:
            measured = tokens
        if moved >= recompute:
            measured = None
        print(f'{tokens:>14} {recompute:>12.3f} {moved:>12.3f}')
    found = f'{measured} tokens' if measured else 'none of these lengths'
    print(f'break-even of migration: assumed {assumed(options)}, measured from {found}')


if __name__ == '__main__':
    main()
