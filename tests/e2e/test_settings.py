"""Settings as a user gives them: origins, refusals, the printed forms."""
import re
import socket

import pytest

BAD = [
    # arguments, environment, file, what the one line must name
    (['--router-temperature', 'warm'], {}, None, ['router_temperature', 'warm', 'flag --router-temperature', '>= 0']),
    (['--router-temperature', '-1'], {}, None, ['router_temperature', '-1', '>= 0']),
    (['--router-kv-overlap-score-credit', 'nan'], {}, None, ['router_kv_overlap_score_credit', 'nan']),
    (['--router-host-cache-hit-weight', '2'], {}, None, ['router_host_cache_hit_weight', '2', '0..1']),
    (['--router-event-threads', '0'], {}, None, ['router_event_threads', '0', '1..64']),
    (['--http-listen', 'localhost'], {}, None, ['http_listen', 'localhost', 'HOST:PORT']),
    (['--grpc-listen', '127.0.0.1:99999'], {}, None, ['grpc_listen', '99999', 'HOST:PORT']),
    (['--log-level', 'loud'], {}, None, ['log_level', 'loud', 'debug']),
    (['--decision-detail', 'some'], {}, None, ['decision_detail', 'some', 'winner']),
    (['--router-active-request-expiry-secs', '0'], {}, None, ['router_active_request_expiry_secs', '0']),
    (['--no-router-track-active-blocks', '--router-track-output-blocks'], {}, None, ['track_output_blocks']),
    (['--shutdown-grace-ms', '60000'], {}, None, ['shutdown_grace_ms', '60000']),
    ([], {'DYN_ROUTER_TEMPERATURE': ''}, None, ['router_temperature', 'environment DYN_ROUTER_TEMPERATURE']),
    ([], {'DYN_ROUTER_ASSUME_KV_REUSE': 'maybe'}, None, ['router_assume_kv_reuse', 'maybe', 'true or false']),
    ([], {'DYN_OVERLAP_SCORE_WEIGHT': '-2'}, None, ['router_prefill_load_scale', '-2', 'DYN_OVERLAP_SCORE_WEIGHT']),
    ([], {}, 'router_temperature: hot\n', ['router_temperature', 'hot', 'config.yaml:1']),
    ([], {}, 'router_temprature: 1\n', ["unknown key 'router_temprature'", "'router_temperature'", 'config.yaml:1']),
    ([], {}, 'workers:\n- {worker_id: 1, address: x}\n', ['worker 1', 'block_size']),
    ([], {}, 'workers:\n- {worker_id: 1, address: x, block_size: 16}\n- {worker_id: 2, address: x, block_size: 32}\n',
     ['worker 2', '16', '32']),
    ([], {}, 'workers:\n- {worker_id: 1, addres: x}\n', ["unknown key 'addres'", "'address'", 'config.yaml:2']),
    ([], {}, 'a: [\n', ['config.yaml:2']),
    (['--bogus'], {}, None, ['--bogus']),
    (['--http-listn=127.0.0.1:0'], {}, None, ['--http-listn', '--http-listen']),
    (['--config', '/nonexistent/file.yaml'], {}, None, ['/nonexistent/file.yaml']),
    (['--config', '/tmp'], {}, None, ['/tmp', 'not a regular file']),
    (['--config', '/dev/zero'], {}, None, ['/dev/zero', 'not a regular file']),
    ([], {}, 'workers: []\n---\nlog_level: info\n', ['config.yaml:3', 'second YAML document']),
    ([], {}, 'workers:\n- {worker_id: 1, address: x, block_size: 16, kv_events_endpoint: "tcp://*:5557"}\n',
     ['worker 1', 'events[0].live', 'tcp://*:5557', 'ipc://PATH']),
    (['--http-listen'], {}, None, ['--http-listen needs a value']),
    (['extra'], {}, None, ['extra']),
]


@pytest.mark.parametrize('check', [[], ['--check-config']], ids=['start', 'check'])
@pytest.mark.parametrize('arguments, environment, file, names', BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_settings_are_one_line_and_exit_1(run, tmp_path, check, arguments, environment, file, names):
    if file is not None:
        path = tmp_path / 'config.yaml'
        path.write_text(file)
        arguments = [*arguments, '--config', str(path)]
    refused = run(*check, *arguments, env=environment)
    assert refused.returncode == 1
    assert refused.stdout == ''
    assert len(refused.stderr.splitlines()) == 1, refused.stderr
    for name in names:
        assert name in refused.stderr, refused.stderr


def test_check_config_opens_no_port(run):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        good = run('--check-config', '--http-listen', f'127.0.0.1:{taken.getsockname()[1]}')
    assert (good.returncode, good.stderr) == (0, '')


def test_effective_config_shows_each_origin_and_loads_back(run, tmp_path):
    path = tmp_path / 'config.yaml'
    path.write_text('router_temperature: 0.1\nrouter_prefill_load_scale: 2\nrouter_kv_overlap_score_credit: 3\n'
                    'workers:\n- {worker_id: 9, address: "http://h:1", block_size: 16}\n')
    printed = run('--print-effective-config', '--config', str(path), '--router-temperature=0.3',
                  env={'DYN_ROUTER_TEMPERATURE': '0.2', 'DYN_ROUTER_PREFILL_LOAD_SCALE': '4'})
    assert printed.returncode == 0

    def line(key):
        return re.search(rf'^{key}: (\S+) +# (.*)$', printed.stdout, re.M).groups()

    assert line('router_temperature') == ('0.3', 'flag --router-temperature')
    assert line('router_prefill_load_scale') == ('4', 'environment DYN_ROUTER_PREFILL_LOAD_SCALE')
    assert line('router_kv_overlap_score_credit') == ('3', f'file {path}:3')
    assert line('http_listen') == ('127.0.0.1:8092', 'default')
    again = tmp_path / 'again.yaml'
    again.write_text(printed.stdout)
    reloaded = run('--print-effective-config', '--config', str(again))
    assert reloaded.returncode == 0, reloaded.stderr

    def without_origins(text):
        return re.sub(r' *#.*', '', text)

    assert without_origins(reloaded.stdout) == without_origins(printed.stdout)


def test_version_and_help_need_no_good_settings(run):
    version = run('--version', '--router-temperature=bad')
    assert version.returncode == 0 and re.fullmatch(r'kvrouterd \d+\.\d+\.\d+\n', version.stdout)
    help_text = run('--help')
    assert help_text.returncode == 0 and '--http-listen' in help_text.stdout and 'DYN_ROUTER_TEMPERATURE' in help_text.stdout
    assert run('--print-options-markdown').stdout.startswith('| Flag |')


def test_settings_reach_the_parts(start):
    daemon = start(env={'DYN_NAMESPACE': 'prod', 'KVROUTER_ROUTER_ID': '42'})
    metrics = daemon.metrics()
    assert metrics.one('dynamo_component_router_requests_total', dynamo_namespace='prod', dynamo_component='router',
                       dynamo_endpoint='generate', router_id='42') == 0
