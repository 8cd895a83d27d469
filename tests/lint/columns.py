#!/usr/bin/python3
"""Keeps C++ and proto lines within 100 columns. Usage: columns.py [ROOT]; prints each violation, exit 1 if there is any.

clang-format holds code to that width, but leaves comments alone (ReflowComments), and literals, and what stands between
"clang-format off" and "on". Columns are characters, not bytes: comments have drawings. Python, shell, CMake and Markdown
are not held to any width: one line in ten of them is longer.
"""
import pathlib
import sys

MAX_COLUMNS = 100
SUFFIXES = ('.h', '.cc', '.proto')
FOLDERS = ('include', 'proto', 'src', 'tests')


def may_be_long(line):
    """A line that breaking would not help: an #include, or one piece without white space (a URL, a literal)."""
    text = line.lstrip()
    if text.startswith('#') and text[1:].lstrip().startswith('include'):
        return True
    return len(text.removeprefix('//').split()) == 1


def check_text(relative, text):
    return [f'{relative}:{number}: {len(line)} columns, at most {MAX_COLUMNS}'
            for number, line in enumerate(text.split('\n'), 1) if len(line) > MAX_COLUMNS and not may_be_long(line)]


def check_tree(root):
    found = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            if path.suffix in SUFFIXES and path.is_file():
                found += check_text(path.relative_to(root), path.read_text(encoding='utf-8'))
    return found


def main():
    found = check_tree(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve())
    print('\n'.join([*found, f'{len(found)} violations']))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
