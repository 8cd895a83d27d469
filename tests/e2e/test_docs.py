"""The generated tables of docs/operations.md are what the daemon says of itself."""
import os
import subprocess


def test_operations_page_is_up_to_date():
    check = subprocess.run(['/usr/bin/python3', '-B', 'docs/generate', '--check', os.environ['KVROUTERD']],
                           capture_output=True, text=True, timeout=60)
    assert check.returncode == 0, check.stdout + check.stderr
