#!/usr/bin/python3
"""The tree keeps its layers and its width, and the checkers that say so can fail."""
import contextlib
import io
import pathlib
import re
import runpy
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import columns  # noqa: E402
import layering  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


class LayeringTest(unittest.TestCase):
    def test_tree_keeps_its_layers(self):
        self.assertEqual([], layering.check_tree(ROOT))

    def test_every_impurity_is_caught(self):
        bad = {
            'src/core/a.cc': ['#include <thread>', '#include <zmq.hpp>', '#include <grpcpp/grpcpp.h>', '#include <spdlog/spdlog.h>',
                              '#include <prometheus/counter.h>', '#include <sys/socket.h>', '#include <iostream>',
                              '#include "service/routing_service.h"', '#include "feed/feed_stats.h"', '#include "base/clock.h"',
                              '#include "adapters/http/ops.h"', '#include "kvrouter/v1/router.pb.h"',
                              'auto t = std::chrono::steady_clock::now();', 'auto e = std::getenv("X");',
                              'std::random_device d;'],
            'src/feed/a.cc': ['#include <mutex>', '#include <nats/nats.h>', '#include <boost/asio.hpp>', '#include "zmq.h"',
                              'x = clock.now ( );'],
            'include/kvrouter/a.h': ['#include <grpcpp/grpcpp.h>', '#include "base/mutex.h"'],
            'src/service/a.cc': ['#include "adapters/zmq/zmq_event_source.h"', '#include "core/index/block_index.h"'],
            'src/adapters/zmq/a.cc': ['#include "adapters/grpc/grpc_server.h"', '#include "daemon/options.h"'],
            'src/core/route_helper.cc': ['int x;'],
            'src/core/b.cc': ['// TODO: later'],
            'src/elsewhere/b.cc': ['int x;'],
        }
        for name, lines in bad.items():
            for line in lines:
                with self.subTest(file=name, line=line):
                    self.assertTrue(layering.check_file(pathlib.PurePath(name), line + '\n'))

    def test_what_is_allowed_passes(self):
        good = {
            'src/core/a.cc': '#include <chrono>\n#include <vector>\n#include "absl/container/flat_hash_map.h"\n'
                             '#include "base/mutex.h"\n// now() in a comment is fine\n#include <xxhash.h>\n',
            'src/feed/a.cc': '#include "feed/feed_stats.h"\n#include "kvrouter/block_hash.h"\n',
            'src/adapters/grpc/a.cc': '#include <grpcpp/grpcpp.h>\n#include "kvrouter/v1/router.pb.h"\n'
                                      '#include "service/feed_monitor.h"\n',
            'src/core/b.cc': '// TODO(issue-12): later\n',
        }
        for name, text in good.items():
            with self.subTest(file=name):
                self.assertEqual([], layering.check_file(pathlib.PurePath(name), text))


class ColumnsTest(unittest.TestCase):
    def test_tree_keeps_within_its_columns(self):
        self.assertEqual([], columns.check_tree(ROOT))

    def test_a_line_that_could_be_broken_and_is_too_long_is_caught(self):
        for line in ('// ' + 'word ' * 19 + 'abc', '  return ' + 'a + ' * 23 + ';',
                     '  f("' + 'x' * 99 + '", y);', '// see https://' + 'x' * 99, '// ' + '─' * 49 + ' ' + '─' * 48):
            with self.subTest(line=line):
                self.assertGreater(len(line), columns.MAX_COLUMNS)
                self.assertEqual([f'src/a.cc:2: {len(line)} columns, at most 100'], columns.check_text('src/a.cc', f'int x;\n{line}\n'))

    def test_lines_that_fit_or_cannot_be_broken_pass(self):
        for line in ('// ' + 'word ' * 19 + 'ab', '// ' + '─' * 97, '// https://' + 'x' * 99, '    "' + 'x' * 99 + '");',
                     '#include "' + 'folder/' * 20 + 'a file.h"', '#  include <' + 'x' * 99 + '>  // why'):
            with self.subTest(line=line):
                self.assertEqual([], columns.check_text('src/a.cc', line + '\n'))

    def test_headers_sources_and_contracts_of_every_folder_are_looked_at(self):
        with tempfile.TemporaryDirectory() as made:
            root = pathlib.Path(made)
            for name in ('include/kvrouter/a.h', 'proto/kvrouter/v1/a.proto', 'src/core/a.cc', 'tests/unit/core/a_test.cc', 'src/a.py'):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text('// ' + 'word ' * 20 + '\n')
            self.assertEqual(['include/kvrouter/a.h', 'proto/kvrouter/v1/a.proto', 'src/core/a.cc', 'tests/unit/core/a_test.cc'],
                             [line.split(':')[0] for line in columns.check_tree(root)])


class PackagesTest(unittest.TestCase):
    def test_each_package_is_listed_once(self):
        lines = (ROOT / 'deploy/packages').read_text().splitlines()
        names = [name for name in (line.split('#')[0].strip() for line in lines) if name]
        self.assertGreater(len(names), 10)
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_packages_are_installed_by_one_script_only(self):
        for path in [*ROOT.glob('deploy/*'), ROOT / 'tests/run', ROOT / '.ci/run']:
            if path.is_file() and path.name not in ('setup', 'Dockerfile'):
                self.assertIsNone(re.search(r'^[^#\n]*apt(-get)? .*install', path.read_text(errors='replace'), re.M), path)


class DataTest(unittest.TestCase):
    def test_golden_messages_are_what_their_script_writes(self):
        for name in ('plane_messages', 'engine_events'):
            script = ROOT / f'tests/data/make_{name}.py'
            with contextlib.redirect_stdout(io.StringIO()) as made:
                runpy.run_path(str(script), run_name='__main__')
            self.assertEqual((ROOT / f'tests/data/{name}.json').read_text(), made.getvalue(), name)


class DocsTest(unittest.TestCase):
    def test_both_commands_are_in_the_first_screen_of_the_readme(self):
        first_screen = '\n'.join((ROOT / 'README.md').read_text().splitlines()[:40])
        self.assertIn('deploy/demo', first_screen)
        self.assertIn('tests/run', first_screen)

    def test_links_between_documents_lead_somewhere(self):
        for document in [ROOT / 'README.md', *ROOT.glob('docs/*.md')]:
            for target in re.findall(r'\]\(([^)#\s]+)(?:#[^)]*)?\)', document.read_text()):
                if '://' not in target:
                    with self.subTest(document=document.name, target=target):
                        self.assertTrue((document.parent / target).exists())

    def test_every_row_of_the_failure_table_names_a_test_that_exists(self):
        section = (ROOT / 'docs/operations.md').read_text().split('\n## When something breaks\n', 1)[1].split('\n## ', 1)[0]
        rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in section.splitlines() if line.startswith('|')]
        self.assertEqual(['What breaks', 'What you see', 'What the daemon does', 'What may be lost', 'Test'], rows[0])
        self.assertGreater(len(rows), 25)
        known = tests_in({path: path.read_text() for path in (ROOT / 'tests').rglob('*') if path.suffix in ('.cc', '.py')})
        for row in rows[2:]:
            with self.subTest(what=row[0]):
                self.assertEqual(5, len(row), 'a row has five cells')
                names = re.findall(r'`([^`]+)`', row[4])
                self.assertTrue(names, 'no test is named')
                for name in names:
                    self.assertTrue(name in known, name)  # not the whole list

    def test_a_test_that_does_not_exist_is_noticed(self):
        sources = {ROOT / 'tests/a/x_test.cc': 'TEST_F(Some, Thing) {', ROOT / 'tests/b/test_y.py': 'def test_thing(start):'}
        known = tests_in(sources)
        for name in ('Some.Thing', 'test_y.py::test_thing'):
            self.assertIn(name, known)
        for name in ('Some.Thin', 'Thing', 'test_y.py::test_thin', 'test_z.py::test_thing', 'test_thing', ''):
            self.assertNotIn(name, known)


def tests_in(sources):
    """`Suite.Name` of C++, `file.py::test_name` of Python."""
    known = set()
    for path, text in sources.items():
        if path.suffix == '.cc':
            known |= {f'{suite}.{test}' for suite, test in re.findall(r'^TEST(?:_F|_P)?\((\w+), *\n? *(\w+)\)', text, re.M)}
        else:
            known |= {f'{path.name}::{function}' for function in re.findall(r'^(?: {4})?def (test_\w+)\(', text, re.M)}
    return known


if __name__ == '__main__':
    unittest.main()
