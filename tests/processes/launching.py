"""Starts a program in several processes of this machine, by `teucer launch`."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def launch(mode, n=2, devices=1, program="programs.py", *more, limit=150, **env):
    """What `teucer launch` prints and its status; it ends by itself, or the test fails."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-m", "teucer", "launch", "-n", str(n), "--devices", str(devices)]
    return subprocess.run(
        [*command, str(HERE / program), mode, *more],
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
        env={**environment, **env},
    )
