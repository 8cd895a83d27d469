#!/usr/bin/python3
"""What dispatch costs beside a bare pass-through proxy on the same HTTP server and engine link.

Usage: dispatch_figures.py [BUILD_DIR] [--requests N] [--streams N] [--tls] [--router FILE | --without-router]

Engine, proxy, router and load are processes of their own on loopback. Each round measures all of them one after the other,
so that what else the machine does falls on all alike; the figures are medians over rounds.

  cpu_ms     user and system time of the process per request (token-id prompt, streamed answer)
  ttft       from the call to the first byte of the body, seen by the load; one request at a time
  stream_kb  resident memory per stream that has sent one event and waits, of a process just started
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLOCK_TICKS_PER_S = 100


class Process:
    """A child that tells its address first and ends with its standard input."""

    def __init__(self, command, tells_address=True):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.child.stdout.readline().strip() if tells_address else None

    def cpu_s(self):
        fields = pathlib.Path(f'/proc/{self.child.pid}/stat').read_text().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S

    def resident_kb(self):
        status = pathlib.Path(f'/proc/{self.child.pid}/status').read_text()
        return int(status.split('VmRSS:')[1].split()[0])

    def stop(self):
        self.child.stdin.close()
        self.child.terminate()
        self.child.wait(timeout=60)


class Router(Process):
    """kvrouterd with its OpenAI door in front of one worker."""

    def __init__(self, program, engine_url, tls, folder):
        workers, addresses = folder / 'workers.yaml', folder / 'addresses'
        workers.write_text(f'workers:\n  - worker_id: 1\n    address: "{engine_url}"\n    block_size: 64\n    model_name: m\n')
        addresses.unlink(missing_ok=True)
        command = [program, '--dispatch', '--dispatch-listen', '127.0.0.1:0', '--http-listen', '127.0.0.1:0',
                   '--grpc-listen', '127.0.0.1:0', '--workers-file', workers, '--addresses-file', addresses,
                   '--dispatch-max-connections', '20000', '--engine-max-connections', '20000', '--log-level', 'warn']
        if tls:
            command += ['--engine-tls-ca-cert-path', tls.ca, '--dispatch-tls-cert-path', tls.ca, '--dispatch-tls-key-path', tls.key]
        super().__init__([str(part) for part in command], tells_address=False)
        bound = {}
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and ('openai' not in bound):
            if addresses.exists():
                bound = dict(line.split('=', 1) for line in addresses.read_text().split())
            time.sleep(0.05)
        if 'openai' not in bound:
            raise SystemExit('kvrouterd did not start')
        self.address = bound['openai']
        time.sleep(1)  # its worker is known


class Certificates:
    def __init__(self, folder):
        self.ca, self.key = str(folder / 'ca.pem'), str(folder / 'ca.key')
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', self.key,
                        '-out', self.ca, '-subj', '/CN=bench', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2'],
                       check=True, stderr=subprocess.DEVNULL)


def run_load(bench, url, tls, **options):
    command = [bench, 'load', url] + (['--ca', tls.ca] if tls else [])
    for name, value in options.items():
        command += [f'--{name.replace("_", "-")}', str(value)]
    answer = json.loads(subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, timeout=600).stdout)
    if answer['failed']:
        raise SystemExit(f'{url}: {answer["failed"]} of {answer["requests"] + answer["failed"]} requests failed')
    return answer


def hold_streams(bench, process, url, tls, streams):
    before_kb = process.resident_kb()
    command = [str(bench), 'load', url, '--hold', '--requests', str(streams), '--prompt-tokens', '100'] + (['--ca', tls.ca] if tls else [])
    holder = Process(command)
    held = int(holder.address)
    time.sleep(1)
    grown_kb = process.resident_kb() - before_kb
    holder.stop()
    if held != streams:
        raise SystemExit(f'{url}: {held} of {streams} streams began')
    return grown_kb / streams


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', nargs='?', default=ROOT / 'build', type=pathlib.Path)
    parser.add_argument('--requests', type=int, default=1000)
    parser.add_argument('--streams', type=int, default=1000)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--prompt-tokens', type=int, default=14000)
    parser.add_argument('--tls', action='store_true', help='between all of them')
    parser.add_argument('--router', type=pathlib.Path, help='kvrouterd, unless that of BUILD_DIR')
    parser.add_argument('--without-router', action='store_true')
    arguments = parser.parse_args()
    bench = arguments.build / 'bench/dispatch_bench'
    with tempfile.TemporaryDirectory(prefix='kvr-bench-') as name:
        folder = pathlib.Path(name)
        tls = Certificates(folder) if arguments.tls else None
        server_tls = ['--certificate', tls.ca, '--key', tls.key] if tls else []
        client_tls = ['--ca', tls.ca] if tls else []
        scheme = 'https' if tls else 'http'
        engine = Process([str(bench), 'engine', *server_tls])
        engine_url = f'{scheme}://{engine.address}'
        ways = {'engine alone': (engine, engine_url, tls)}
        proxy = Process([str(bench), 'proxy', engine_url, *server_tls, *client_tls])
        ways['bare proxy'] = (proxy, f'{scheme}://{proxy.address}', tls)
        if not arguments.without_router:
            router = Router(arguments.router or arguments.build / 'bin/kvrouterd', engine_url, tls, folder)
            ways['kvrouterd'] = (router, f'{scheme}://{router.address}', tls)

        # First: heaps that a load has widened would hide what streams take.
        stream_kb = {way: hold_streams(bench, process, url, way_tls, arguments.streams) for way, (process, url, way_tls) in ways.items()}
        figures = {way: {'cpu_ms': [], 'cpu_alone_ms': [], 'ttft_p50_ms': [], 'ttft_p99_ms': []} for way in ways}
        for _ in range(arguments.rounds):
            for way, (process, url, way_tls) in ways.items():
                run_load(bench, url, way_tls, requests=50, prompt_tokens=arguments.prompt_tokens)
                before = process.cpu_s()
                alone = run_load(bench, url, way_tls, requests=arguments.requests, prompt_tokens=arguments.prompt_tokens)
                between = process.cpu_s()
                run_load(bench, url, way_tls, requests=arguments.requests, concurrency=16, prompt_tokens=arguments.prompt_tokens)
                figures[way]['cpu_alone_ms'].append((between - before) / arguments.requests * 1000)
                figures[way]['cpu_ms'].append((process.cpu_s() - between) / arguments.requests * 1000)
                figures[way]['ttft_p50_ms'].append(alone['ttft_p50_ms'])
                figures[way]['ttft_p99_ms'].append(alone['ttft_p99_ms'])
        print(f'{arguments.requests} requests a round, {arguments.rounds} rounds, {arguments.prompt_tokens} token ids{", TLS" if tls else ""}')
        print(f'{"":14}{"cpu_ms":>8}{"16 at once":>12}{"ttft p50":>10}{"p99":>8}{"stream_kb":>11}')
        for way in ways:
            medians = {key: statistics.median(values) for key, values in figures[way].items()}
            print(f'{way:14}{medians["cpu_alone_ms"]:8.3f}{medians["cpu_ms"]:12.3f}{medians["ttft_p50_ms"]:10.3f}'
                  f'{medians["ttft_p99_ms"]:8.3f}{stream_kb[way]:11.1f}')
        for process, _, _ in ways.values():
            process.stop()


if __name__ == '__main__':
    main()
