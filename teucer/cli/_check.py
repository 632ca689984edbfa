"""`teucer check FILE:FUNCTION --args TYPES` and `teucer check PROGRAM`.

What is wrong with a function, or with the jitted functions of a program, before they run.
"""

import argparse
import os
import re
import sys

from teucer import export as _export
from teucer._check.check import report_on
from teucer._check.findings import Report
from teucer._check.intercept import Stopped, Watch
from teucer._check.program import Settings
from teucer.cli import _run
from teucer.cli._arguments import read_call
from teucer.cli._errors import CommandError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?$", re.IGNORECASE)


def check(options: argparse.Namespace) -> int:
    """Print the report of a function or of a program; 1 if there are errors, 2 if it cannot be
    checked. With --strict warnings are errors."""
    settings = Settings(None if options.memory is None else _bytes(options.memory), options.compile)
    is_file = os.path.isfile(options.target)
    if not is_file and ":" not in options.target:
        raise CommandError(f"there is no file {options.target}.")
    if is_file:
        report = _program(options, settings)
    else:
        report = _function(options, settings)
    if not options.hints:
        report = report.with_one_hint_a_file()
    _write(report, options)
    if not (report.checked or report.findings or report.silenced):
        return 2
    return int(bool(report.of("error") or (options.strict and report.of("warning"))))


def _function(options: argparse.Namespace, settings: Settings) -> Report:
    scope = _export.SymbolicScope(options.constraints)
    call = read_call(options.target, options.args, scope=scope, mesh=options.mesh)
    return report_on(*call, settings)


def _program(options: argparse.Namespace, settings: Settings) -> Report:
    watch = Watch(settings, options.seconds)
    # The program's output is kept out of the report.
    stdout, sys.stdout = sys.stdout, sys.stderr
    failed = 0
    try:
        with watch:
            failed = _run.run(options.target, options.program_args)
    except (Stopped, SystemExit):
        pass
    finally:
        sys.stdout = stdout
    return watch.report(sys.last_value if failed else None)


def _write(report: Report, options: argparse.Namespace) -> None:
    text = {"text": report.__str__, "json": report.json, "sarif": report.sarif}[options.form]()
    if options.output is None:
        print(text)
        return
    try:
        options.output.write_text(text + "\n", encoding="utf-8")
    except OSError as err:
        raise CommandError(f"{options.output} cannot be written: {err.strerror}.") from err


def _bytes(text: str) -> float:
    """A size such as '16GiB'.

    >>> _bytes("1.5 KiB"), _bytes("2GB")
    (1536.0, 2000000000.0)
    """
    found = _SIZE.match(text.strip())
    if found is None:
        raise CommandError(f"cannot read the size '{text}'. Write it as '16GiB'.")
    power = " KMGT".index(found[2].upper() or " ")
    return float(found[1]) * float((1024 if found[3] else 1000) ** power)
