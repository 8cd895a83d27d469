#!/usr/bin/python3
"""Keeps the layers of the tree apart. Usage: layering.py [ROOT]; prints each violation, exit 1 if there is any.

  daemon, ctl, sim -> adapters -> dispatch -> service -> feed, core -> include, base
  ctl, sim -> client -> base

Core and feed are pure: no sockets, clocks, threads, logging, environment. What they may include is a short list, so a new
dependency is a decision and not an accident.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')

# Standard headers that bring clocks, threads, files or the console into a pure layer. <chrono> is allowed for durations;
# calls of now() are not. Locks come through base/mutex.h.
IMPURE_STD = {
    'thread', 'mutex', 'shared_mutex', 'condition_variable', 'future', 'semaphore', 'latch', 'barrier', 'stop_token',
    'iostream', 'fstream', 'ostream', 'istream', 'sstream', 'iomanip', 'filesystem', 'ctime', 'cstdio', 'csignal',
}
PURE_LIBRARIES = ('absl/status/', 'absl/container/', 'absl/base/', 'absl/hash/', 'absl/strings/cord.h', 'fmt/')
STANDARD = re.compile(r'^[a-z0-9_]+$')
SRC_FOLDERS = {'base', 'core', 'feed', 'service', 'dispatch', 'adapters', 'daemon', 'client', 'ctl', 'sim', 'kvrouter'}

# Folder of src/ -> project folders it may include ("kvrouter" is include/kvrouter and the generated kvrouter/v1).
MAY_INCLUDE = {
    'include': {'kvrouter'},
    'base': {'base', 'kvrouter'},
    'core': {'base', 'core', 'kvrouter'},
    'feed': {'base', 'feed', 'kvrouter'},
    'service': {'base', 'feed', 'service', 'kvrouter'},
    # Sends the legs of a plan; engines and clients are interfaces to it.
    'dispatch': {'base', 'dispatch', 'service', 'kvrouter'},
    'adapters/zmq': {'adapters/zmq', 'base', 'feed', 'service', 'kvrouter'},
    'adapters/nats': {'adapters/nats', 'base', 'feed', 'service', 'kvrouter'},
    'adapters/grpc': {'adapters/grpc', 'base', 'dispatch', 'feed', 'service', 'kvrouter'},
    # TLS sessions over sockets, for those who speak HTTP.
    'adapters/tls': {'adapters/tls', 'base', 'kvrouter'},
    'adapters/http': {'adapters/http', 'adapters/tls', 'base', 'feed', 'service', 'kvrouter'},
    'adapters/engine_http': {'adapters/engine_http', 'adapters/tls', 'base', 'dispatch', 'kvrouter'},
    # A door on the HTTP server, which it shares with the selection API.
    'adapters/openai': {'adapters/openai', 'adapters/http', 'base', 'dispatch', 'service', 'kvrouter'},
    'adapters/discovery': {'adapters/discovery', 'base', 'feed', 'service', 'kvrouter'},
    # A peer is another daemon, met by its wires alone.
    'adapters/peer': {'adapters/peer', 'base', 'client', 'feed', 'service', 'kvrouter'},
    'adapters/snapshot': {'adapters/snapshot', 'base', 'feed', 'service', 'kvrouter'},
    'adapters/decision_log': {'adapters/decision_log', 'base', 'kvrouter'},
    'adapters/metrics': {'adapters/metrics', 'base', 'dispatch', 'feed', 'service', 'kvrouter'},
    'daemon': {'daemon', 'adapters', 'base', 'dispatch', 'feed', 'service', 'kvrouter'},
    # How programs of ours talk to a running daemon: by its wires alone, nothing of the daemon's own code.
    'client': {'client', 'base', 'kvrouter'},
    'ctl': {'ctl', 'base', 'client', 'kvrouter'},
    # Engines answer HTTP through our own server.
    'sim': {'sim', 'adapters/http', 'base', 'client', 'kvrouter'},
}
PURE = ('include', 'core', 'feed')

FORBIDDEN_CALLS = [
    (re.compile(r'\bnow\s*\(\s*\)'), 'calls a clock'),
    (re.compile(r'\b(?:secure_)?getenv\s*\('), 'reads the environment'),
    (re.compile(r'\bstd::random_device\b'), 'uses a random device'),
    (re.compile(r'\bstd::(?:jthread|thread|this_thread|async)\b'), 'uses a thread'),
    (re.compile(r'\b(?:printf|fprintf|puts|perror)\s*\('), 'prints'),
    (re.compile(r'\bstd::c(?:out|err|log)\b'), 'prints'),
]
BAD_NAME = re.compile(r'(^|_)(util|utils|manager|helper|helpers|common|misc)(_|$)')


def layer_of(relative):
    parts = relative.parts
    if parts[0] == 'include':
        return 'include'
    return '/'.join(parts[1:3]) if parts[1] == 'adapters' else parts[1]


def include_problem(layer, bracket, included):
    parts = included.split('/')
    if bracket == '"' and parts[0] in SRC_FOLDERS and len(parts) > 1:
        folder = '/'.join(parts[:2]) if parts[0] == 'adapters' else parts[0]
        if folder not in MAY_INCLUDE[layer] and parts[0] not in MAY_INCLUDE[layer]:
            return f'may not include "{included}"'
        if layer in PURE and (included == 'base/clock.h' or included.startswith('kvrouter/v1/')):
            return f'is pure and may not include "{included}"'
        return None
    if layer not in PURE:
        return None
    allowed = (STANDARD.match(included) and included not in IMPURE_STD) or included == 'xxhash.h' or included.startswith(PURE_LIBRARIES)
    return None if allowed else f'is pure and may not include {included}'


def check_file(relative, text):
    layer = layer_of(relative)
    if layer not in MAY_INCLUDE:
        return [f'{relative}: folder "{layer}" has no rule in tests/lint/layering.py']
    found = []
    if BAD_NAME.search(relative.stem):
        found.append(f'{relative}: the name says nothing about what it is')
    without_comments = COMMENT.sub('', text)
    for bracket, included in INCLUDE.findall(without_comments):
        problem = include_problem(layer, bracket, included)
        if problem:
            found.append(f'{relative}: {layer} {problem}')
    if layer in PURE:
        code = STRING.sub('""', without_comments)
        found += [f'{relative}: {layer} is pure and {what}' for pattern, what in FORBIDDEN_CALLS if pattern.search(code)]
    if re.search(r'TODO(?!\(issue-\d+\))', text):
        found.append(f'{relative}: TODO without an issue')
    return found


def check_tree(root):
    found = []
    for folder in ('include', 'src'):
        for path in sorted((root / folder).rglob('*')):
            if path.suffix in ('.h', '.cc'):
                found += check_file(path.relative_to(root), path.read_text(encoding='utf-8'))
    return found


def main():
    found = check_tree(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve())
    print('\n'.join([*found, f'{len(found)} violations']))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
