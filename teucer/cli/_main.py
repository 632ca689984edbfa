"""The parser of the `teucer` command and what each subcommand does.

Nothing of Teucer is imported before a command runs, so that help and mistakes are printed at once:
`_teucer_command` loads this file by its path.
"""

import argparse
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FORMS = ("stablehlo", "hlo", "hlo-text", "artifact", "exported")


class _Late:
    """A module of a command, which is loaded when the command runs."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, member: str) -> Any:
        if member.startswith(("__", "pytest_")):  # doctest asks all objects what they wrap
            raise AttributeError(member)
        return getattr(importlib.import_module(f"teucer.cli.{self.name}"), member)


_cache, _compat, _debug, _devices = map(_Late, ("_cache", "_compat", "_debug", "_devices"))
_doctor, _explain, _export, _ffi = map(_Late, ("_doctor", "_explain", "_export", "_ffi"))
_jaxpr, _launch, _pallas, _profile = map(_Late, ("_jaxpr", "_launch", "_pallas", "_profile"))
_run, _show, _tune, _team_cache = map(_Late, ("_run", "_show", "_tune", "_team_cache"))
_check, _demo, _completions, _plan = map(_Late, ("_check", "_demo", "_completions", "_plan"))
_wheel, _guard = _Late("_wheels"), _Late("guard")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the given arguments (None: the arguments of the process); returns the
    exit status.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    options = parsed(argv)
    if options.name is None:
        parser().print_help()
        return 0
    # Late, because it loads Teucer; this file may have been loaded without it.
    from teucer.cli._errors import CommandError, shown

    try:
        with shown():
            status = options.command(options)
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has seen enough; the rest of the output goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except CommandError as err:
        print(f"teucer {options.name}: {err}", file=sys.stderr)
        return 2
    except OSError as err:  # a full disk, a folder that is not there or may not be written
        place = err.filename
        if place is None:  # the output, of which no more can be written
            place = "the output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"teucer {options.name}: {place}: {err.strerror}.", file=sys.stderr)
        return 2


def parsed(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments as the parser reads them; mistakes end the process, with the usage of the
    command that they were made with."""
    whole = parser()
    options, extra = whole.parse_known_args(argv)
    if extra:
        commands = command_parsers(whole)
        at = commands.get(options.name, whole)
        at.error(f"unrecognized arguments: {' '.join(extra)}")
    return options


def command_parsers(whole: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, in order."""
    (found,) = (a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    return found.choices


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="teucer", description="Composable transformations of NumPy programs, run through XLA."
    )
    whole.add_argument(
        "--version",
        action=_PrintVersion,
        nargs=0,
        help="print the versions of teucer, jaxlib and Python",
    )
    commands = whole.add_subparsers(dest="name", metavar="COMMAND")

    demo = commands.add_parser(
        "demo", help="train two small networks, as a check of the installation"
    )
    demo.add_argument(
        "--steps",
        type=_positive,
        default=None,
        help="steps of each training (default: all that it takes)",
    )
    demo.add_argument(
        "--output",
        type=Path,
        default=Path("teucer-demo.png"),
        help="where the picture goes (default: %(default)s)",
    )
    demo.set_defaults(
        command=lambda options: _demo.demo(steps=options.steps, picture=options.output)
    )

    _add_programs(commands)

    devices = commands.add_parser("devices", help="list the devices")
    devices.set_defaults(command=lambda _: _devices.devices())

    jaxpr = commands.add_parser("jaxpr", help="print the jaxpr of a function of a file")
    jaxpr.add_argument("function", metavar="FILE:FUNCTION")
    _add_types(jaxpr)
    jaxpr.add_argument(
        "--passes", action="store_true", help="also what each pass makes of it before it is lowered"
    )
    jaxpr.set_defaults(
        command=lambda options: _jaxpr.jaxpr(
            options.function, options.args, mesh=options.mesh, passes=options.passes
        )
    )

    _add_looking(commands)
    _add_check(commands)
    _add_plan(commands)
    export = commands.add_parser("export", help="write a function of a file as StableHLO or HLO")
    export.add_argument("function", metavar="FILE:FUNCTION")
    _add_types(export, "; sizes may be names: 'f32[batch,4]'")
    export.add_argument(
        "-o", "--output", type=Path, default=None, help="where it goes (default: text is printed)"
    )
    export.add_argument(
        "--form",
        choices=_FORMS,
        default="stablehlo",
        help="what is written (default: %(default)s)",
    )
    export.add_argument(
        "--platforms", nargs="+", default=None, metavar="PLATFORM", help="cpu, cuda, rocm, tpu"
    )
    export.add_argument(
        "--constraints",
        nargs="+",
        default=(),
        metavar="TEXT",
        help="what is known of sizes: 'a >= 8'",
    )
    export.set_defaults(
        command=lambda options: _export.export(
            options.function,
            options.args,
            options.output,
            options.form,
            options.platforms,
            options.constraints,
            options.mesh,
        )
    )

    _ffi_parser(commands)
    kernels = commands.add_parser(
        "pallas", help="kernels: --targets lists what they are compiled to, and what each lacks"
    )
    kernels.add_argument("--targets", action="store_true", required=True, help="list the targets")
    kernels.set_defaults(command=lambda options: _pallas.targets())
    _add_cache(commands)
    guard = commands.add_parser(
        "guard", help="run known answers against the installed jaxlib: values, times, memory"
    )
    guard.add_argument(
        "pattern", nargs="?", default="", help="a regular expression of the answers' names"
    )
    guard.add_argument("-o", "--output", type=Path, default=None, help="a file of JSON with all")
    guard.set_defaults(command=lambda options: _guard.guard(options.pattern, options.output))
    tune = commands.add_parser(
        "tune", help="measure what compiling and running takes here, for later processes"
    )
    tune.add_argument("--dry-run", action="store_true", help="print what is found, write nothing")
    tune.add_argument("--reset", action="store_true", help="remove what was written before")
    tune.set_defaults(
        command=lambda options: _tune.tune(dry_run=options.dry_run, reset=options.reset)
    )
    doctor = commands.add_parser("doctor", help="say whether all that Teucer needs is there")
    doctor.set_defaults(command=lambda options: _doctor.doctor())
    completions = commands.add_parser(
        "completions", help="print what a shell needs to complete this command"
    )
    completions.add_argument("shell", choices=("bash", "zsh", "fish"))
    completions.set_defaults(
        command=lambda options: _completions.completions(options.shell, parser())
    )
    return whole


def _add_types(command: argparse.ArgumentParser, more: str = "") -> None:
    """The options that say what a function is called with (`_arguments`)."""
    command.add_argument(
        "--args",
        default="",
        metavar="TYPES",
        help="types of the arguments, trees of them, values, and what the file defines: "
        f'\'f32[3,4], {{"w": int32[]}}, load("x.npy"), n=2\'{more}',
    )
    command.add_argument(
        "--mesh",
        default=None,
        metavar="AXES",
        help="what shardings of types lie over: --mesh x=4,y=2 --args 'f32[8,4]@P(\"x\")'",
    )


def _add_looking(commands: argparse._SubParsersAction) -> None:
    show = commands.add_parser(
        "show", help="look at a function of a file: by line, with bytes and operations"
    )
    show.add_argument("function", metavar="FILE:FUNCTION")
    _add_types(show)
    show.add_argument(
        "-o", "--output", type=Path, default=None, help="an HTML page (default: text is printed)"
    )
    show.set_defaults(
        command=lambda options: _show.show(
            options.function, options.args, options.output, options.mesh
        )
    )

    errors = commands.add_parser("errors", help="explain errors: what a section of the guide says")
    errors.add_argument("section", nargs="?", help="as the last line of a message names it")
    errors.set_defaults(command=lambda options: _explain.errors(options.section))

    debug = commands.add_parser(
        "debug", help="run a program line by line, also within functions that are compiled"
    )
    debug.add_argument("script", help="a Python file")
    debug.add_argument("args", nargs=argparse.REMAINDER, help="the program's own arguments")
    debug.set_defaults(command=lambda options: _debug.debug(options.script, options.args))

    profile = commands.add_parser(
        "profile", help="run a program, and say where its time goes, by source line"
    )
    profile.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("profile"),
        help="folder of page and trace (default: profile)",
    )
    profile.add_argument("script", help="a Python file")
    profile.add_argument("args", nargs=argparse.REMAINDER, help="the program's own arguments")
    profile.set_defaults(
        command=lambda options: _profile.profile(options.script, options.args, options.output)
    )


def _add_check(commands: argparse._SubParsersAction) -> None:
    check = commands.add_parser(
        "check", help="find faults of a function, or of the jitted functions of a program, unrun"
    )
    check.add_argument("target", metavar="FILE:FUNCTION or PROGRAM")
    check.add_argument("program_args", nargs="*", metavar="ARG", help="the program's arguments")
    _add_types(check, "; sizes may be names: 'f32[batch,4]'")
    check.add_argument(
        "--constraints", nargs="+", default=(), metavar="TEXT", help="of sizes: 'batch >= 8'"
    )
    check.add_argument("--memory", default=None, metavar="SIZE", help="of a device, as '16GiB'")
    check.add_argument("--compile", action="store_true", help="ask the compiler, too (T604)")
    form = check.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", default="text")
    form.add_argument("--sarif", dest="form", action="store_const", const="sarif")
    check.add_argument("-o", "--output", type=Path, default=None, help="where the report goes")
    check.add_argument("--hints", action="store_true", help="all hints, not one a file")
    check.add_argument(
        "--strict", action="store_true", help="let warnings fail, too (exit status 1)"
    )
    check.add_argument(
        "--seconds", type=_positive, default=120, help="how long a program may take (default: 120)"
    )
    check.set_defaults(command=lambda options: _check.check(options))  # noqa: PLW0108  # loaded late


def _add_plan(commands: argparse._SubParsersAction) -> None:
    plan = commands.add_parser(
        "plan", help="say what a function takes on TPUs or GPUs that need not be there: does it "
        "fit, how long does it take, and why",
    )  # fmt: skip
    plan.add_argument(
        "function", metavar="FILE:FUNCTION", help="or FILE:MAKE(mesh), which gives the function"
    )
    plan.add_argument(
        "--args",
        default="",
        metavar="TYPES",
        help="types of the arguments with the mesh axes that they lie along, "
        "'f32[4096@data,512@model]'; or NAME(), a function of the file that gives them",
    )
    plan.add_argument(
        "--on", required=True, metavar="TOPOLOGY", help="'v5e-256', 'v5p:4x4x4', '2xv5e-256'"
    )
    plan.add_argument("--mesh", default="", metavar="AXES", help="'data=32,model=8'")
    plan.add_argument("--tokens", type=_positive, default=None, help="how many a call works on")
    plan.add_argument("--price", type=float, default=None, help="of a chip for an hour")
    plan.add_argument(
        "--search",
        type=_positive,
        nargs="?",
        const=3,
        default=None,
        metavar="N",
        help="try meshes and partitions, and compile the best N (default: 3)",
    )
    plan.add_argument(
        "--data",
        nargs="+",
        default=(),
        metavar="NAME",
        help="for --search: the arguments that are data, and no parameters",
    )
    form = plan.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="all of it as JSON")
    form.add_argument("--html", action="store_true", help="as a page")
    plan.add_argument("-o", "--output", type=Path, default=None, help="where it goes")
    plan.set_defaults(command=lambda options: _plan.plan(options))  # noqa: PLW0108  # loaded late


def _add_cache(commands: argparse._SubParsersAction) -> None:
    cache = commands.add_parser("cache", help="where the compilation cache is and how large")
    cache.add_argument("--clear", action="store_true", help="remove all of its entries")
    cache.set_defaults(command=lambda options: _cache.cache(clear=options.clear))
    actions = cache.add_subparsers(dest="action", metavar="ACTION", title="the cache of a team")
    push = actions.add_parser("push", help="upload the local entries that it lacks")
    push.set_defaults(command=lambda options: _team_cache.push())
    pull = actions.add_parser("pull", help="fetch its entries that the local folder lacks")
    pull.set_defaults(command=lambda options: _team_cache.pull())
    stats = actions.add_parser("stats", help="what both hold, and what was done with them")
    stats.set_defaults(command=lambda options: _team_cache.stats())
    warm = actions.add_parser("warm", help="run a program, and upload what it needed")
    warm.add_argument(
        "program", nargs=argparse.REMAINDER, help="a Python file, or -m and a module; its arguments"
    )
    warm.set_defaults(command=lambda options: _team_cache.warm(options.program))


def _ffi_parser(commands: argparse._SubParsersAction) -> None:
    ffi = commands.add_parser(
        "ffi", help="foreign functions: new NAME writes a project of one in C++"
    )
    actions = ffi.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="write the project: source, Python side, Makefile, test")
    new.add_argument("function", metavar="NAME")
    new.add_argument(
        "-o", "--output", type=Path, default=None, help="its folder (default: one of that name)"
    )
    new.set_defaults(command=lambda options: _ffi.new(options.function, options.output))


def _add_programs(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="run a program, in which `import jax` gives Teucer")
    run.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, help="a module, and its arguments"
    )
    run.add_argument("script", nargs="?", help="a Python file")
    run.add_argument("args", nargs=argparse.REMAINDER, help="the program's own arguments")
    run.set_defaults(command=lambda options: _run.from_options(options))  # noqa: PLW0108  # loaded late

    compat = commands.add_parser("compat", help="Teucer under the name jax, for environments")
    parts = compat.add_subparsers(dest="what", required=True, metavar="COMMAND")
    wheel = parts.add_parser(
        "wheel", help="build a wheel named jax, whose installation makes `import jax` give Teucer"
    )
    wheel.add_argument(
        "--output", type=Path, default=Path(), help="the folder where it goes (default: this one)"
    )
    wheel.set_defaults(command=lambda options: _wheel.build_wheel(options.output))
    check = parts.add_parser(
        "check",
        help="say whether `import jax` gives Teucer here; of packages, what they use of JAX. "
        "Fails where it does not, or where a name is missing",
    )
    check.add_argument(
        "packages",
        nargs="*",
        metavar="PACKAGE",
        help="an installed package, a folder or a file, which is read and not imported",
    )
    check.set_defaults(command=lambda options: _compat.check_alias(options.packages))

    launch = commands.add_parser(
        "launch", help="run a program in several processes on this machine"
    )
    launch.add_argument("-n", "--processes", type=_positive, required=True, help="how many")
    launch.add_argument(
        "--devices", type=_positive, default=None, help="CPU devices in each process"
    )
    launch.add_argument(
        "--port", type=_positive, default=None, help="of the coordinator (default: a free one)"
    )
    launch.add_argument(
        "program", nargs=argparse.REMAINDER, help="a Python file, or what else `teucer run` takes"
    )
    launch.set_defaults(
        command=lambda options: _launch.launch(
            options.processes, options.devices, options.port, options.program
        )
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number that is at least 1")
    return int(text)


class _PrintVersion(argparse.Action):
    def __call__(self, parser, *args):
        versions = {name: importlib.metadata.version(name) for name in ("teucer", "jaxlib")}
        print(
            f"teucer {versions['teucer']} (jaxlib {versions['jaxlib']}, "
            f"Python {sys.version.split()[0]})"
        )
        parser.exit()
