"""What callers are told while the fleet shrinks and the API server forgets its versions: probed at 1 kHz."""
from conftest import wait_for
from fake_kubernetes import PODS, SLICES, endpoint, pod, slice_of
from kubernetes_fleet import addresses, cluster, discover, drains, fleet, listed, put_fleet, updates, wait_for_addresses  # noqa: F401
from prober import Prober

BOUND_S = 0.1
COUNT = 16


class Shrinking:
    """A fleet that loses pod after pod, in each way a pod can stop being a place for new requests."""

    def __init__(self, cluster):
        self.cluster, self.pods = cluster, fleet(COUNT)
        self.named = {p['metadata']['name']: endpoint(p) for p in self.pods}
        self.put_slice()

    def put_slice(self):
        return self.cluster.put(slice_of('vllm-a', *self.named.values()))

    def leave_the_slice(self, i):
        del self.named[f'vllm-{i}']
        return self.put_slice()

    def be_deleted(self, i):
        return self.cluster.delete(PODS, f'vllm-{i}')

    def be_ended(self, i):
        return self.cluster.put(pod(f'vllm-{i}', f'10.0.0.{i}', deleted=True))

    def terminate_in_the_slice(self, i):
        self.named[f'vllm-{i}'] = endpoint(self.pods[i], ready=False, terminating=True)
        return self.put_slice()

    def be_unready(self, i):
        return self.cluster.put(pod(f'vllm-{i}', f'10.0.0.{i}', ready=False))

    WAYS = (leave_the_slice, be_deleted, be_ended, terminate_in_the_slice, be_unready)


def takes_requests(daemon, i):
    worker = listed(daemon).get(f'http://10.0.0.{i}:8000')
    return worker is not None and worker['lifecycle'] == 'schedulable'


def late_answers(prober, removed):
    """Asked at least the bound after the API server had written the removal. Where this machine stood still meanwhile, the bound is longer by that."""
    late = []
    for written, address in removed:
        bound_s = BOUND_S + 5 * prober.longest_stall_s(written - BOUND_S, written + 2 * BOUND_S)
        late += [(round(asked - written, 3), round(bound_s, 3), address) for asked, answer in prober.answers
                 if answer == address and asked - written >= bound_s]
    return late


def test_no_reply_to_a_request_sent_100_ms_after_a_removal_was_written_names_the_worker(cluster, discover):
    cluster.put(*fleet(COUNT))
    shrinking = Shrinking(cluster)
    daemon = discover(cluster)
    wait_for_addresses(daemon, *(f'10.0.0.{i}' for i in range(COUNT)))
    removed = []
    with Prober(daemon, rate_hz=1000) as prober:
        for i in range(COUNT - 1):
            prober.wait_for_answers(50)
            if i % 4 == 3:
                cluster.expire()  # the removal comes with the list, or with the watch after it
            version = Shrinking.WAYS[i % len(Shrinking.WAYS)](shrinking, i)
            removed.append((cluster.wait_written(version), f'http://10.0.0.{i}:8000'))
            wait_for('no place for requests', lambda i=i: not takes_requests(daemon, i))
        prober.wait_for_answers(200)
    assert len(removed) == COUNT - 1
    assert prober.failures() == []
    assert late_answers(prober, removed) == []
    named = {answer for _, answer in prober.answers}
    assert named == {f'http://10.0.0.{i}:8000' for i in range(COUNT)}, 'each was named while it was there'
    assert len(prober.answers) >= 20 * prober.duration_s, 'that is no probing'


def test_no_request_fails_because_of_a_relist(cluster, discover):
    """410 on both watches, again and again; each list comes late, in pages, and at times not at all at first."""
    put_fleet(cluster, fleet(4))
    cluster.page_objects = 2
    daemon = discover(cluster, '--kubernetes-request-timeout-ms=20000')
    everybody = [f'10.0.0.{i}' for i in range(4)]
    wait_for_addresses(daemon, *everybody)
    seen = []
    with Prober(daemon, rate_hz=1000) as prober:
        for round_number in range(6):
            before = cluster.seen(PODS, 'list'), cluster.seen(SLICES, 'list')
            if round_number % 3 == 1:
                cluster.fault(PODS, 'list', 410)  # gone again, in the middle of the list
            if round_number % 3 == 2:
                cluster.fault(SLICES, 'list', 'truncate')
            cluster.chunk_bytes, cluster.chunk_pause_s = 64, 0.001
            cluster.expire()
            wait_for('both lists again', lambda: cluster.seen(PODS, 'list') >= before[0] + 2 and cluster.seen(SLICES, 'list') > before[1])
            seen.append(addresses(daemon))  # the lists are still coming
            prober.wait_for_answers(50)
            # Else the rest of a list, or its second attempt, would be of a version that the next round no longer makes old.
            wait_for('both watches again', lambda: cluster.is_watched(PODS) and cluster.is_watched(SLICES))
    assert prober.failures() == []
    assert seen == [everybody] * 6
    assert {answer for _, answer in prober.answers} == {f'http://{a}:8000' for a in everybody}
    assert updates(daemon, 'expired') >= 12
