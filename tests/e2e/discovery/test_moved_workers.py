"""Failures of the field in which a pod moves, changes in place, or leaves: B54 and B16, through the API server."""
import json
import os

from conftest import wait_for
from fake_kubernetes import PODS, pod
from kubernetes_fleet import IDS, cluster, discover, listed, put_fleet, wait_for_addresses  # noqa: F401
from prober import TOKENS, Prober


def advice(daemon):
    return daemon.route(TOKENS, advise_only=True)


def only(daemon):
    workers = listed(daemon)
    return next(iter(workers.values())) if len(workers) == 1 else {}


def ranks_named(daemon, count=60):
    return {advice(daemon).target.dp_rank for _ in range(count)}


def moved(ip, dp_size=1, block_size=4, **annotations):
    more = {f'kvrouter.io/{name.replace("_", "-")}': str(value) for name, value in annotations.items()}
    return pod('vllm-0', ip, annotations={'kvrouter.io/dp-size': str(dp_size), 'kvrouter.io/block-size': str(block_size), **more})


def test_b54_pod_changed_in_place_is_in_the_next_reply(cluster, discover):
    """Same key (name and uid): first another address, then other ranks, another capacity, another block size."""
    put_fleet(cluster, [moved('10.0.0.1')])
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.1')
    life = only(daemon)['incarnation']
    with Prober(daemon, rate_hz=200, threads=1) as prober:
        cluster.put(moved('10.0.0.2'))
        wait_for('new address', lambda: listed(daemon).keys() == {'http://10.0.0.2:8000'})
        since = len(prober.answers) + 1  # one question may be on its way
        assert advice(daemon).address == 'http://10.0.0.2:8000'
        prober.wait_for_answers(20)
    assert prober.failures() == []
    assert {a for _, a in prober.answers[since:]} == {'http://10.0.0.2:8000'}, 'the old address does not come back'

    cluster.put(moved('10.0.0.2', dp_size=3))
    wait_for('three ranks', lambda: only(daemon).get('data_parallel_size') == 3)
    assert ranks_named(daemon) == {0, 1, 2}
    cluster.put(moved('10.0.0.2', dp_size=2, dp_start_rank=4))
    wait_for('other ranks', lambda: only(daemon).get('data_parallel_start_rank') == 4)
    assert ranks_named(daemon) == {4, 5}

    cluster.put(moved('10.0.0.2', total_kv_blocks=1000, max_num_batched_tokens=4096))
    wait_for('capacity', lambda: only(daemon).get('total_kv_blocks') == 1000)
    assert only(daemon)['max_num_batched_tokens'] == 4096

    cluster.put(moved('10.0.0.2', block_size=32))
    wait_for('block size', lambda: only(daemon).get('block_size') == 32)
    answer = advice(daemon)
    assert (answer.block_size_tokens, answer.isl_blocks) == (32, 2)
    assert only(daemon)['incarnation'] == life, 'one process all the time'


def test_b54_block_size_that_the_partition_does_not_allow_keeps_the_record_in_force(cluster, discover):
    put_fleet(cluster, [moved('10.0.0.1'), pod('vllm-1', '10.0.0.9')])
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.1', '10.0.0.9')
    cluster.put(moved('10.0.0.2', block_size=32))
    wait_for('refused', lambda: daemon.metrics().one('kvrouter_discovery_workers', source='kubernetes', state='refused') == 1)
    assert listed(daemon)['http://10.0.0.1:8000']['block_size'] == 4
    cluster.delete(PODS, 'vllm-1')  # alone in its partition it may
    wait_for('block size', lambda: only(daemon).get('block_size') == 32)
    assert advice(daemon).address == 'http://10.0.0.2:8000'


def test_b54_removal_and_addition_in_one_batch_equal_an_update(cluster, discover):
    put_fleet(cluster, [moved('10.0.0.1'), pod('vllm-1', '10.0.0.9')])
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.1', '10.0.0.9')
    worker = listed(daemon)['http://10.0.0.1:8000']
    with Prober(daemon, rate_hz=200, threads=1) as prober:
        with cluster.batch():  # one write to the watch
            cluster.delete(PODS, 'vllm-0')
            cluster.put(moved('10.0.0.2', dp_size=2))
        wait_for_addresses(daemon, '10.0.0.2', '10.0.0.9')
    assert prober.failures() == []
    after = listed(daemon)['http://10.0.0.2:8000']
    assert {k: after[k] for k in ('worker_id', 'incarnation')} == {k: worker[k] for k in ('worker_id', 'incarnation')}
    assert after['data_parallel_size'] == 2


def test_b54_worker_of_the_followed_file_changed_in_place_is_in_the_next_reply(start, tmp_path):
    path = tmp_path / 'workers.json'

    def write(**fields):
        new = tmp_path / 'new'
        new.write_text(json.dumps([{'worker_id': 7, 'address': 'http://10.0.0.1:8000', 'block_size': 4, **fields}]))
        os.replace(new, path)

    write()
    daemon = start('--workers-file', str(path), '--workers-file-poll-ms=20')
    write(address='http://10.0.0.2:8000', dp_size=2)
    wait_for('new address', lambda: only(daemon)['endpoint'] == 'http://10.0.0.2:8000')
    assert advice(daemon).address == 'http://10.0.0.2:8000' and ranks_named(daemon) == {0, 1}
    write(address='http://10.0.0.2:8000', block_size=32)
    wait_for('new block size', lambda: only(daemon)['block_size'] == 32)
    assert advice(daemon).block_size_tokens == 32 and ranks_named(daemon) == {0}


def about(daemon, worker_id):
    """Series of one worker."""
    return [s for s in daemon.metrics().series if str(worker_id) in (s[1].get('worker_id'), s[1].get('router_worker_id'))]


def test_b16_pod_that_left_stays_away_while_its_events_are_in_the_pipe(cluster, discover, new_engine):
    """It holds 100 blocks, and tells of 50 more while it is being removed; under the same name it comes back with none."""
    engine, gone = new_engine(), IDS['vllm-0']
    port = engine.endpoint.rsplit(':', 1)[1]
    other = pod('vllm-1', '10.0.0.9')
    leaving = pod('vllm-0', '127.0.0.1', annotations={'kvrouter.io/events-port': port})
    put_fleet(cluster, [other])
    daemon = discover(cluster)
    wait_for_addresses(daemon, '10.0.0.9')
    empty_bytes = daemon.metrics().one('kvrouter_index_bytes')
    put_fleet(cluster, [leaving, other])
    engine.wait_for_subscriber()
    prompt = list(range(400))
    engine.store(range(1, 101), prompt)
    wait_for('100 blocks', lambda: daemon.metrics().all('kvrouter_worker_index_blocks', worker_id=str(gone)) == [100])
    full_bytes = daemon.metrics().one('kvrouter_index_bytes')
    assert daemon.route(prompt, advise_only=True).target.worker_id == gone

    with Prober(daemon, rate_hz=200, threads=1, tokens=prompt) as prober:
        for i in range(50):
            engine.store([1000 + i], range(10000 + 4 * i, 10004 + 4 * i))
            if i == 10:
                put_fleet(cluster, [other])  # its slice lets go; later the pod itself is gone
            if i == 30:
                cluster.delete(PODS, 'vllm-0')
        wait_for_addresses(daemon, '10.0.0.9')
        left = len(prober.answers) + 1
        prober.wait_for_answers(40)
    assert prober.failures() == []
    assert {a for _, a in prober.answers[left:]} == {'http://10.0.0.9:8000'}
    answer = daemon.route(prompt, advise_only=True)
    assert {c.target.worker_id for c in answer.candidates} <= {IDS['vllm-1']} and answer.best_overlap_blocks == 0
    assert about(daemon, gone) == []
    kept_bytes = daemon.metrics().one('kvrouter_index_bytes') - empty_bytes  # a free place for the next worker, at most
    assert kept_bytes < 0.05 * (full_bytes - empty_bytes)
    assert daemon.metrics().one('kvrouter_index_holder_blocks') == 0

    back = pod('vllm-0', '127.0.0.1', uid='another', annotations={'kvrouter.io/events-port': port})
    put_fleet(cluster, [back, other])
    wait_for_addresses(daemon, '127.0.0.1', '10.0.0.9')
    assert daemon.metrics().one('kvrouter_worker_index_blocks', worker_id=str(gone)) == 0
    assert daemon.route(prompt, advise_only=True).best_overlap_blocks == 0
