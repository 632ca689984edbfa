"""`teucer run SCRIPT` and `teucer run -m MODULE`.

Run a program as `python` would; in it, `import jax` gives Teucer.
"""

import argparse
import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType

from teucer._base import source, tracebacks
from teucer._devices import processes
from teucer.cli._errors import CommandError


def from_options(options: argparse.Namespace) -> int:
    """Run the module or the file that the command names."""
    if options.module:
        return run_module(options.module[0], options.module[1:])
    if options.script is None:
        raise CommandError("name a Python file, or a module after -m.")
    return run(options.script, options.args)


def run_module(name: str, args: Sequence[str]) -> int:
    """Run a module, such as pytest, as `python -m` would."""
    as_jax()
    sys.argv = [name, *args]
    sys.path.insert(0, os.getcwd())
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise CommandError(f"there is no module {name}.")
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def run(script: str, args: Sequence[str], at_end: Callable[[], None] = lambda: None) -> int:
    """Run the file as __main__; returns 1, after printing the traceback, if it ends with an
    exception.

    at_end: called when the program has ended, while its variables still hold their values.
    """
    path = os.path.abspath(script)
    if not os.path.isfile(path):
        raise CommandError(f"there is no file {script}.")
    as_jax()
    sys.argv = [script, *args]
    sys.path.insert(0, os.path.dirname(path))
    try:
        variables = runpy.run_path(path, run_name="__main__")
        at_end()
        del variables
    except SystemExit as err:
        processes.state.exit_status = err.code if isinstance(err.code, int) else bool(err.code)
        raise
    except Exception as err:
        at_end()
        err.__traceback__ = _from_file(err.__traceback__, path)
        tracebacks.treat_uncaught(err)
        sys.last_value = err  # as the interpreter does, for what runs at the end of the process
        traceback.print_exception(type(err), err, err.__traceback__)
        return 1
    return 0


def as_jax() -> None:
    """Let `import jax` give Teucer from now on. The command is no place of the program."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    if os.path.basename(frame.f_code.co_filename).partition(".")[0] == "teucer":
        source.known_files[frame.f_code.co_filename] = True
    importlib.import_module("teucer.compat")


def _from_file(frames: TracebackType | None, path: str) -> TracebackType | None:
    """The traceback from the first frame in the file on; None, for a syntax error in the file, if
    there is none."""
    while frames is not None and frames.tb_frame.f_code.co_filename != path:
        frames = frames.tb_next
    return frames
