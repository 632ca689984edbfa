"""`teucer profile SCRIPT`: run a program, and say where its time goes, by source line."""

import os
from collections.abc import Sequence
from pathlib import Path

from teucer.cli import _run
from teucer.cli._errors import CommandError
from teucer.debug._profile import Recording


def profile(script: str, args: Sequence[str], output: Path) -> int:
    """Run the file as `teucer run` does; print the table, and write page and trace to the
    folder."""
    # Asked before anything is recorded, so that a name mistyped leaves the last profile.
    if not os.path.isfile(script):
        raise CommandError(f"there is no file {script}.")
    output.mkdir(parents=True, exist_ok=True)
    recording = Recording().start()
    try:
        status = _run.run(script, args, at_end=recording.wait)
    finally:
        found = recording.stop()
        print(found)
        (output / "profile.html").write_text(found.html, encoding="utf-8")
        recording.export(output)
        print(
            f"\n{output / 'profile.html'}: this table; {output / 'plugins'}: the trace, for "
            "https://ui.perfetto.dev"
        )
    return status
