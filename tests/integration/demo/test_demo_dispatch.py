"""deploy/demo --dispatch and --disagg: what they show works, and nothing is left behind."""
import json
import os
import re
import shlex
import subprocess

from test_demo import DEMO, processes_of

ANY_DOOR = ['--dispatch-listen', '127.0.0.1:0']


def environment(tmp_path):
    return {**os.environ, 'TMPDIR': str(tmp_path)}


def test_dispatch_demo_answers_the_commands_it_prints(tmp_path):
    demo = subprocess.Popen([*DEMO, *ANY_DOOR, '--dispatch', '--for', '120'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env=environment(tmp_path))
    try:
        lines = []
        for line in demo.stdout:
            lines.append(line.strip())
            if line.startswith('What the router knows'):
                break
        commands = [line for line in lines if line.startswith('curl ')]
        assert len(commands) == 4, lines
        answers = [subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60).stdout
                   for command in (*commands, commands[-1])]
        assert json.loads(answers[0])['data'][0]['id'] == 'demo'
        assert len(json.loads(answers[1])['choices'][0]['text']) == 24
        assert answers[2].rstrip().endswith('data: [DONE]')
        first, again = (re.search(r'x-kvrouter-worker: (\S+)', answer, re.I).group(1) for answer in answers[3:])
        assert first == again
        assert re.search(r'x-kvrouter-plan: local', answers[3], re.I)
    finally:
        demo.terminate()
        assert demo.wait(30) == 143
    assert processes_of(tmp_path) == []
    assert [p for p in os.listdir(tmp_path) if p.startswith('kvrouter-demo')] == []


def test_full_length_gate_and_affinity_shorten_the_wait_for_the_first_token(tmp_path):
    table = tmp_path / 'table.json'
    done = subprocess.run([*DEMO, *ANY_DOOR, '--disagg', '--json', str(table)], capture_output=True, text=True, timeout=500,
                          env=environment(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row['policy']: row for row in json.loads(table.read_text())}
    assert rows['gate']['ttft_p50_s'] <= rows['always_remote']['ttft_p50_s']
    computed = {name: row['details']['computed_per_prompt_token'] for name, row in rows.items()}
    assert computed['affinity'] < computed['always_remote']


def test_disagg_demo_says_what_went_where_and_from_where_on_migration_pays(tmp_path):
    table = tmp_path / 'table.json'
    done = subprocess.run([*DEMO, *ANY_DOOR, '--disagg', '--quick', '150', '--speedup', '20', '--json', str(table)],
                          capture_output=True, text=True, timeout=280, env=environment(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row['policy']: row for row in json.loads(table.read_text())}
    assert list(rows) == ['always_remote', 'gate', 'affinity', 'migration']
    for row in rows.values():
        assert row['details']['failed'] == 0 and row['details']['completed'] == row['details']['requests'] == 150
    assert re.search(r'^ *150  remote_prefill: remote default$', done.stdout, re.M)
    assert 'local: local short_prompt' in done.stdout
    assert done.stdout.count('of every prompt token') == 4
    assert re.search(r'break-even of migration: assumed \d+ tokens .*, measured from (\d+ tokens|none of these lengths)', done.stdout)
    assert processes_of(tmp_path) == []
