"""deploy/Dockerfile, without a container engine: what it copies exists, what it builds configures, what it installs is what
the binaries load."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import ROOT
from manifests import Manifests

# Of every Debian image: the C and C++ runtimes, which each of the libraries needs anyway.
RUNTIMES = {'libc6', 'libgcc-s1', 'libstdc++6'}


def instructions():
    """Stages of the Dockerfile, each a list of (instruction, rest); the rest of the first is what FROM says."""
    text = re.sub(r'^\s*#.*\n', '', (ROOT / 'deploy/Dockerfile').read_text(), flags=re.M)
    stages = []
    for line in text.replace('\\\n', ' ').splitlines():
        if line.strip():
            word, rest = line.split(maxsplit=1)
            if word == 'FROM':
                stages.append([])
            stages[-1].append((word, ' '.join(rest.split())))
    return stages


BUILD, IMAGE = instructions()


def all_of(stage, word):
    return [rest for name, rest in stage if name == word]


def copies():
    """(stage copied from or None, [sources], destination)"""
    for rest in all_of(BUILD, 'COPY') + all_of(IMAGE, 'COPY'):
        words = shlex.split(rest)
        flag = words.pop(0) if words[0].startswith('--from=') else None
        yield flag and flag.removeprefix('--from='), words[:-1], words[-1]


def context_entries():
    """What .dockerignore lets through: it keeps everything out and names the exceptions."""
    lines = [line for line in (ROOT / '.dockerignore').read_text().splitlines() if line and not line.startswith('#')]
    assert lines[0] == '*'
    return [line[1:] for line in lines if line.startswith('!')]


@pytest.fixture
def context(tmp_path):
    """The build context as an engine would get it."""
    folder = tmp_path / 'context'
    for entry in context_entries():
        source, target = ROOT / entry, folder / entry
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns('__pycache__'))
        else:
            shutil.copy2(source, target)
    return folder


def test_both_stages_are_debian_12():
    assert all_of(BUILD, 'FROM') == ['debian:12 AS build']
    assert all_of(IMAGE, 'FROM') == ['debian:12-slim']
    assert 'deploy/setup' in all_of(BUILD, 'RUN')


def test_sources_in_the_context_build_what_is_copied(context):
    for stage, sources, _ in copies():
        if stage is None:
            assert all((context / source).exists() for source in sources), sources
    commands = [shlex.split(c) for run in all_of(BUILD, 'RUN') for c in run.split(' && ') if c.startswith(('cmake', 'ninja'))]
    assert [c[0] for c in commands] == ['cmake', 'ninja']
    configure, build = commands
    configured = subprocess.run(configure, cwd=context, capture_output=True, text=True, timeout=120)
    assert configured.returncode == 0, configured.stderr
    # -n: every source and rule must be there, nothing is compiled.
    planned = subprocess.run([*build, '-n'], cwd=context, capture_output=True, text=True, timeout=60)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    targets = {f'/src/build/bin/{name}' for name in build if name.startswith('kvrouter')}
    assert {source for stage, sources, _ in copies() if stage == 'build' for source in sources} == targets
    for target in targets:
        assert f'bin/{pathlib.PurePath(target).name}' in planned.stdout


def test_image_starts_the_daemon_without_a_shell_as_nobody_in_particular(run):
    assert all_of(IMAGE, 'ENTRYPOINT') == ['["/usr/local/bin/kvrouterd"]']
    assert not all_of(IMAGE, 'CMD') and not all_of(IMAGE, 'SHELL') and not all_of(IMAGE, 'HEALTHCHECK')
    binaries = [(s, d) for stage, s, d in copies() if stage == 'build']
    assert binaries[0][1] == '/usr/local/bin/' and '/src/build/bin/kvrouterd' in binaries[0][0]
    user, group = map(int, all_of(IMAGE, 'USER')[0].split(':'))
    for variant in ('base', 'sidecar'):
        workload, container = Manifests(ROOT / 'deploy/kubernetes' / variant).router()
        security = {**workload['spec']['template']['spec']['securityContext'], **container['securityContext']}
        assert (security['runAsUser'], security['runAsGroup']) == (user, group)
    assert user > 0 and IMAGE.index(('USER', f'{user}:{group}')) > max(i for i, (word, _) in enumerate(IMAGE) if word == 'RUN')
    settings = run('--print-effective-config').stdout
    ports = re.findall(r'^(?:http|grpc|dispatch)_listen: 127\.0\.0\.1:(\d+)', settings, re.M)
    assert all_of(IMAGE, 'EXPOSE') == [' '.join(sorted(ports))]


def packages_of(paths):
    """Path -> the package that it is from."""
    # dpkg knows a library by the one of the two paths it was packed with, and says no to the other one.
    asked = [variant for path in paths for variant in (path, path.removeprefix('/usr'))]
    found = subprocess.run(['dpkg', '-S', *asked], capture_output=True, text=True).stdout
    owners = {path: package.split(':')[0] for package, path in re.findall(r'^(\S+): (\S+)$', found, re.M)}
    return {path: owners.get(path) or owners[path.removeprefix('/usr')] for path in paths}


def loaded_libraries(binary):
    """Name -> real path of everything that the dynamic loader would map."""
    listed = subprocess.run(['ldd', binary], capture_output=True, text=True, check=True).stdout
    assert 'not found' not in listed
    return {name or os.path.basename(path): os.path.realpath(path)
            for name, path in re.findall(r'^\s*(?:(\S+) => )?(/\S+) \(', listed, re.M)}


def named_libraries(binary):
    dynamic = subprocess.run(['readelf', '-d', binary], capture_output=True, text=True, check=True).stdout
    return re.findall(r'\(NEEDED\).*\[(.*)\]', dynamic)


def with_dependencies(packages):
    """The packages and all that apt brings with them; of alternatives the first that is on this machine."""
    shown = subprocess.run(['dpkg-query', '-W', '-f', '${Package}\t${Pre-Depends}, ${Depends}\n'], capture_output=True, text=True,
                           check=True).stdout
    depends = dict(line.split('\t') for line in shown.splitlines())
    closure, todo = set(), list(packages)
    while todo:
        package = todo.pop()
        if package in closure:
            continue
        closure.add(package)
        for alternatives in depends[package].split(','):
            names = [re.split(r'[ :(]', name.strip())[0] for name in alternatives.split('|')]
            todo += [name for name in names if name in depends][:1]
    return closure


def test_image_has_every_library_that_the_binaries_load():
    if os.environ.get('KVR_SANITIZE'):
        pytest.skip('the image holds no sanitizer build, and clang names libraries that it does not use')
    binaries = [os.environ['KVROUTERD'], os.environ['KVROUTERCTL']]
    command, = all_of(IMAGE, 'RUN')
    install, = re.findall(r'apt-get install ([^&]*)', command)
    installed = {word for word in install.split() if not word.startswith('-')}

    loaded = {name: path for binary in binaries for name, path in loaded_libraries(binary).items()}
    packages = packages_of(sorted(set(loaded.values())))
    named = {packages[loaded[name]] for binary in binaries for name in named_libraries(binary)}
    assert installed == named - RUNTIMES, 'deploy/Dockerfile installs other packages than the binaries name'
    assert set(packages.values()) <= with_dependencies(installed)
