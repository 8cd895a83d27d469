"""Settings that change while the daemon runs, and the shadow policy."""
import os
import signal
import threading

from conftest import DEADLINE_S, router_pb2, wait_for

GENERATION = 'kvrouter_config_generation'
A = {'router_kv_overlap_score_credit': 0.5, 'router_prefill_load_scale': 2, 'router_decode_active_request_weight': 3}
B = {'router_kv_overlap_score_credit': 1.5, 'router_prefill_load_scale': 4, 'router_decode_active_request_weight': 5}


def text_of(settings):
    return ''.join(f'{key}: {value}\n' for key, value in settings.items())


def write_whole(path, text):
    temporary = path.with_suffix('.new')
    temporary.write_text(text)
    os.replace(temporary, path)


def weights(answer):
    w = answer.weights
    return {'router_kv_overlap_score_credit': w.overlap_score_credit, 'router_prefill_load_scale': w.prefill_load_scale,
            'router_decode_active_request_weight': w.decode_active_request_weight}


def reloads(daemon, result):
    return daemon.metrics().one('kvrouter_config_reloads_total', result=result)


def follow(start, path, settings, *arguments):
    path.write_text(text_of(settings))
    daemon = start('--config', str(path), '--config-poll-ms', '20', *arguments)
    daemon.register(1)
    daemon.register(2)
    return daemon


def test_sighup_takes_the_file_over_and_says_what_changed(start, tmp_path):
    path = tmp_path / 'kv.yaml'
    path.write_text(text_of(A))
    daemon = start('--config', str(path), '--config-poll-ms', '0')
    daemon.register(1)
    first = daemon.route([1, 2, 3], 'first')
    assert weights(first) == A
    assert daemon.metrics().one(GENERATION) == 1
    path.write_text(text_of(B))
    daemon.process.send_signal(signal.SIGHUP)
    wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == 2)
    assert weights(daemon.route([1, 2, 3], 'second')) == B
    wait_for('the log', lambda: 'event=config_reloaded settings_changed=3' in daemon.log.read_text())
    assert f'event=setting_changed key=router_prefill_load_scale from=2 to=4 source="file {path}:2"' in daemon.log.read_text()
    assert daemon.free('first') and daemon.free('second'), 'bookings stay'
    daemon.process.send_signal(signal.SIGHUP)
    wait_for('a reload without a change', lambda: reloads(daemon, 'unchanged') == 1)
    assert daemon.metrics().one(GENERATION) == 2
    assert daemon.stop() == 0


def test_a_changed_file_is_noticed_also_behind_links(start, tmp_path):
    """As Kubernetes changes a ConfigMap: kv.yaml -> ..data/kv.yaml, and ..data is swapped."""
    for name, settings in (('a', A), ('b', B)):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'kv.yaml').write_text(text_of(settings))
    (tmp_path / '..data').symlink_to('a')
    path = tmp_path / 'kv.yaml'
    path.symlink_to('..data/kv.yaml')
    daemon = start('--config', str(path), '--config-poll-ms', '20')
    daemon.register(1)
    assert weights(daemon.route([1], 'a')) == A
    (tmp_path / '..new').symlink_to('b')
    os.replace(tmp_path / '..new', tmp_path / '..data')
    wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == 2)
    assert weights(daemon.route([1], 'b')) == B


def test_a_broken_file_changes_nothing_and_says_why(start, tmp_path):
    path = tmp_path / 'kv.yaml'
    daemon = follow(start, path, A)
    broken = [('router_temperature: warm\n', ['router_temperature', 'warm', f'{path}:1']),
              ('router_temprature: 1\n', ['router_temprature', 'did you mean']),
              ('a: [\n', [f'{path}'])]
    for number, (text, names) in enumerate(broken, 1):
        write_whole(path, text)
        wait_for('the refusal', lambda: reloads(daemon, 'invalid') == number)
        assert daemon.metrics().one('kvrouter_config_reload_failed') == 1
        assert daemon.metrics().one(GENERATION) == 1
        assert weights(daemon.route([1], f'{number}')) == A
        wait_for('the log', lambda: daemon.log.read_text().count('event=config_kept result=invalid') == number)
        line = [line for line in daemon.log.read_text().splitlines() if 'event=config_kept' in line][-1]
        assert all(name in line for name in names), line
    path.unlink()
    wait_for('the refusal', lambda: reloads(daemon, 'invalid') == len(broken) + 1)
    write_whole(path, text_of(B))
    wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == 2)
    assert daemon.metrics().one('kvrouter_config_reload_failed') == 0
    assert weights(daemon.route([1], 'mended')) == B


def test_what_needs_a_restart_is_named_and_nothing_else_is_taken_over(start, tmp_path):
    path = tmp_path / 'kv.yaml'
    daemon = follow(start, path, A)
    refused = [(text_of(B) + 'max_bookings: 7\nhttp_threads: 3\n', ['max_bookings', 'http_threads']),
               (text_of({**B, 'router_kv_overlap_score_credit': 0}), ['router_kv_overlap_score_credit to or from 0']),
               (text_of(B) + 'workers:\n- {worker_id: 9, address: x, block_size: 4}\n', ['workers'])]
    for number, (text, names) in enumerate(refused, 1):
        write_whole(path, text)
        wait_for('the refusal', lambda: reloads(daemon, 'refused') == number)
        wait_for('the log', lambda: daemon.log.read_text().count('event=config_kept result=refused') == number)
        line = [line for line in daemon.log.read_text().splitlines() if 'event=config_kept' in line][-1]
        assert 'nothing was taken over' in line and all(name in line for name in names), line
        assert weights(daemon.route([1], f'{number}')) == A
    assert daemon.metrics().one(GENERATION) == 1


def test_a_stronger_origin_stays_stronger(start, tmp_path):
    path = tmp_path / 'kv.yaml'
    daemon = follow(start, path, A, '--router-prefill-load-scale', '7')
    write_whole(path, text_of(B))
    wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == 2)
    assert weights(daemon.route([1], 'r')) == {**B, 'router_prefill_load_scale': 7}


def test_reload_under_load_fails_nothing_and_applies_nothing_by_halves(start, tmp_path):
    path = tmp_path / 'kv.yaml'
    daemon = follow(start, path, A)
    stop = threading.Event()
    seen, errors = [], []

    def caller(number):
        count = 0
        while not stop.is_set():
            try:
                answer = daemon.route([1, 2, 3, 4, number], f'{number}-{count}')
                seen.append(weights(answer))
                assert daemon.free(answer.request_id), 'its booking stayed'
            except Exception as error:  # noqa: BLE001: any failure is one
                errors.append(error)
                return
            count += 1

    callers = [threading.Thread(target=caller, args=[i]) for i in range(3)]
    for thread in callers:
        thread.start()
    try:
        for generation in range(2, 12):
            write_whole(path, text_of(B if generation % 2 == 0 else A))
            wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == generation or errors, DEADLINE_S)
            before = len(seen)
            wait_for('decisions by it', lambda: len(seen) > before + 10 or errors)
    finally:
        stop.set()
        for thread in callers:
            thread.join()
    assert not errors
    assert all(used in (A, B) for used in seen)
    assert A in seen and B in seen
    assert daemon.metrics().one('kvrouter_bookings') == 0


POLICIES = '''default_policy_family: chat
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
- {{name: chat-any, policy_family: chat, cache_bucket: any, prefill_busy_threshold: {busy}}}
{more}'''
BATCH = '- {name: batch, prefill_busy_threshold: 50}\n'


def waiting(daemon, **labels):
    return sum(daemon.metrics().all('dynamo_frontend_router_queue_pending_requests', **labels))


def route_later(daemon, request_id, policy_class=''):
    request = router_pb2.RouteRequest(request_id=request_id, policy_class=policy_class)
    request.token_ids.ids.extend(range(1000, 1100))
    return daemon.router.Route.future(request, timeout=DEADLINE_S)


def test_policy_classes_follow_their_file_and_who_waits_stays(start, tmp_path):
    path = tmp_path / 'policies.yaml'
    path.write_text(POLICIES.format(busy=50, more=BATCH))
    config = tmp_path / 'kv.yaml'
    daemon = follow(start, config, {'router_policy_config': str(path)})
    for worker in (1, 2):
        daemon.route(range(100 * worker, 100 * worker + 100), f'filler-{worker}')
    batch = route_later(daemon, 'batch', 'batch')
    wait_for('it waits', lambda: waiting(daemon, policy_class='batch') == 1)

    write_whole(path, 'policy_classes: [')
    wait_for('the refusal', lambda: reloads(daemon, 'invalid') == 1)
    wait_for('the log', lambda: 'event=config_kept result=invalid' in daemon.log.read_text())
    assert 'policies.yaml' in [line for line in daemon.log.read_text().splitlines() if 'event=config_kept' in line][-1]
    assert waiting(daemon, policy_class='batch') == 1 and daemon.metrics().one(GENERATION) == 1

    write_whole(path, POLICIES.format(busy=50, more=''))
    wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == 2)
    wait_for('the log', lambda: 'event=setting_changed key=router_policy_config:*/batch' in daemon.log.read_text())
    assert waiting(daemon, policy_class='chat-any') == 1, 'its class is gone: it waits where it would come now'
    assert not batch.done()

    write_whole(path, POLICIES.format(busy=100000, more=''))
    assert batch.result().booked
    assert batch.result().config_generation == 1, 'decided by the weights it came under'
    assert waiting(daemon) == 0
    assert all(daemon.free(name) for name in ('batch', 'filler-1', 'filler-2')), 'bookings stay'


def test_queue_reload_under_load_fails_nothing(start, tmp_path):
    path = tmp_path / 'policies.yaml'
    versions = [POLICIES.format(busy=50, more=BATCH), POLICIES.format(busy=1000, more=''),
                POLICIES.format(busy=150, more=BATCH)]
    path.write_text(versions[0])
    daemon = follow(start, tmp_path / 'kv.yaml', {'router_policy_config': str(path)})
    stop = threading.Event()
    done, errors = [], []

    def caller(number):
        while not stop.is_set():
            try:
                answer = route_later(daemon, f'{number}-{len(done)}', 'batch' if number % 2 else '').result()
                assert daemon.free(answer.request_id)
                done.append(answer.request_id)
            except Exception as error:  # noqa: BLE001: any failure is one
                errors.append(error)
                return

    callers = [threading.Thread(target=caller, args=[i]) for i in range(6)]
    for thread in callers:
        thread.start()
    try:
        for generation in range(2, 12):
            write_whole(path, versions[(generation - 1) % 3])
            wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == generation or errors, DEADLINE_S)
            before = len(done)
            wait_for('requests go on', lambda: len(done) > before + 10 or errors)
    finally:
        stop.set()
        for thread in callers:
            thread.join()
    assert not errors
    assert (daemon.metrics().one('kvrouter_bookings'), waiting(daemon)) == (0, 0)


def test_a_shadow_policy_is_compared_and_never_acted_on(start, tmp_path):
    path = tmp_path / 'kv.yaml'
    daemon = follow(start, path, {})

    def shadow(name, **labels):
        return daemon.metrics().one(f'kvrouter_shadow_{name}_total', **labels)

    daemon.route([1, 2, 3, 4], 'without')
    assert shadow('decisions', choice='same') == shadow('decisions', choice='other') == 0
    # It pays for a prompt's length only; in force is: not at all for length, only for live requests.
    write_whole(path, 'router_decode_active_request_weight: 10\n'
                      'shadow_policy: router_decode_active_request_weight=0,router_prefill_load_scale=0\n')
    wait_for('the reload', lambda: daemon.metrics().one(GENERATION) == 2)
    targets = [daemon.route(range(100 * i, 100 * i + 40), f'r{i}').target.worker_id for i in range(10)]
    assert targets.count(1) >= 4 and targets.count(2) >= 4, 'those in force balance by requests'
    assert shadow('decisions', choice='same') + shadow('decisions', choice='other') == 10
    write_whole(path, 'shadow_policy: no_such=1\n')
    wait_for('the refusal', lambda: reloads(daemon, 'invalid') == 1)
    wait_for('the log', lambda: 'no_such' in daemon.log.read_text())
