"""Runs programs in processes of their own: importing `teucer.compat` changes the process."""

import os
import subprocess
import sys
import textwrap

COMPAT = "import teucer.compat\n"


def python(source, *args, before=COMPAT, env=None, check=True):
    """What a program prints, run by `python -c` (or `python *args` if `source` is None); its errors
    if not `check`."""
    command = [sys.executable, *(args or ("-c", before + textwrap.dedent(source)))]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **(env or {})},
    )
    assert not check or result.returncode == 0, result.stderr
    return result.stdout if check else result.stderr
