"""Run a command, and say every two seconds that it goes on: its last line, and for how long.

    tools/aloud.py TITLE COMMAND...

What the command prints is shown in full if it fails. The Makefile runs long commands with it, so
that it is never silent.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

PAUSE = 2.0  # seconds
WIDTH = 100


def main(title: str, command: list[str]) -> int:
    """Run the command; returns its exit status."""
    print(title, flush=True)
    start = time.monotonic()
    lines: list[str] = []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    while True:
        try:
            status = process.wait(PAUSE)
            break
        except subprocess.TimeoutExpired:
            last = lines[-1] if lines else "started"
            print(f"  {time.monotonic() - start:4.0f} s  {last}"[:WIDTH], flush=True)
    reader.join()
    if status:
        print(*lines, sep="\n", file=sys.stderr)
    else:
        print(f"  {time.monotonic() - start:4.0f} s  done", flush=True)
    return status


def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout is not None
    lines.extend(line for line in map(str.strip, process.stdout) if line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
