"""`debug.breakpoint`.

A prompt in a program that runs, with the values of the local variables of the user's functions.
"""

from __future__ import annotations

import cmd
import inspect
import pprint
import sys
import threading
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer._base.source import is_internal
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray
from teucer._trees import pytrees
from teucer.lax._callbacks import debug_callback, pure_callback

if TYPE_CHECKING:
    from teucer._core.typing import Array


# One prompt at a time: several threads of the runtime may come to one.
_prompting = threading.Lock()
_CONTEXT = 8


@final
class _CannotFlatten:
    """Stands for a value whose parts cannot be found, such as a dict whose keys have no order."""

    def __repr__(self) -> str:
        return "<cant_flatten>"


class Frame(NamedTuple):
    """A call of a function of the user: where it stands, and its local and global variables."""

    file: str
    line: int
    function: str
    source: tuple[str, ...]
    first_line: int
    variables: dict[str, Any]
    globals: dict[str, Any]

    def context(self) -> str:
        """The lines of the function around the one where it stands."""
        here = self.line - self.first_line
        first = max(here - _CONTEXT, 0)
        shown = self.source[first : here + _CONTEXT + 1]
        lines = [
            ("->  " if first + i == here else "    ") + text.rstrip("\n")
            for i, text in enumerate(shown)
        ]
        return "\n".join([f"> {self.file}({self.line})", *lines])


def frame_of(frame: FrameType, line: int | None = None) -> Frame:
    """The description of a Python frame, at its current line or another."""
    line = frame.f_lineno if line is None else line
    try:
        source, first = inspect.getsourcelines(frame.f_code)
    except OSError:  # of what was typed
        source, first = [], line
    return Frame(frame.f_code.co_filename, line, frame.f_code.co_name, tuple(source), max(first, 1),
                 dict(frame.f_locals), frame.f_globals)  # fmt: skip


def frames_from(
    start: FrameType | None, filtered: bool = True, most: int | None = None
) -> list[Frame]:
    """The calls that are being made, the innermost first. filtered: without calls of the library.
    most: how many."""
    found: list[Frame] = []
    frame = start
    while frame is not None and (most is None or len(found) < most):
        if not (filtered and is_internal(frame.f_code.co_filename)):
            found.append(frame_of(frame))
        frame = frame.f_back
    return found


class Lifted(NamedTuple):
    """Frames whose traced values come when the program runs: places tells which leaves of a
    variable they are."""

    frames: list[Frame]
    trees: list[dict[str, tuple[Any, list[Any], list[int | None]]]]

    def filled(self, values: Sequence[Array]) -> list[Frame]:
        """The frames with the values."""
        frames = []
        for frame, trees in zip(self.frames, self.trees, strict=True):
            variables = dict(frame.variables)
            for name, (tree, leaves, places) in trees.items():
                known = [
                    x if place is None else values[place]
                    for x, place in zip(leaves, places, strict=True)
                ]
                variables[name] = pytrees.tree_unflatten(tree, known)
            frames.append(frame._replace(variables=variables))
        return frames


def lift(frames: list[Frame]) -> tuple[Lifted, list[Any]]:
    """The traced values of the variables of frames, each once. Values of traces that are over are
    left out of it."""
    operands: list[Any] = []
    places: dict[int, int] = {}
    trees: list[dict[str, Any]] = []
    for frame in frames:
        found = {}
        for name, value in frame.variables.items():
            try:
                leaves, tree = pytrees.tree_flatten(value)
            except Exception:  # whatever the user's class, or its keys, raise
                frame.variables[name] = _CannotFlatten()
                continue
            where: list[int | None] = []
            for x in leaves:
                if not isinstance(x, Tracer) or not x._trace.alive:
                    where.append(None)
                    continue
                if id(x) not in places:
                    places[id(x)] = len(operands)
                    operands.append(x)
                where.append(places[id(x)])
            if any(place is not None for place in where):
                found[name] = tree, leaves, where
        trees.append(found)
    return Lifted(frames, trees), operands


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: object = None,
    **kwargs: object,
) -> Any:
    """Stop a program where it stands, also one that is compiled, and let the user look at values.

    At the prompt: `p EXPRESSION` and `pp` print, on the local and global variables of the frame;
    `u` and `d` go to the function that called and back; `l` lists its lines, `bt` the calls; `c`
    goes on, `q` ends the program.
    Under vmap it stops for each element, under differentiation once, with the values.

    backend: 'cli', the prompt of a terminal. filter_frames: leave out the frames of the library.
    num_frames: how many calls can be looked at. ordered: stops keep the order of the program.
    token: a pytree of arrays, returned as it is; the program stops once it is computed, and only if
    what is returned is used. kwargs: stdin and stdout, files of the prompt.
    Raises ValueError for a backend that is not there.

    >>> import io
    >>> import teucer as jax
    >>> @jax.jit
    ... def f(x):
    ...     y = x + 1
    ...     jax.debug.breakpoint(stdin=io.StringIO("p y * 2\\nc\\n"), stdout=None)
    ...     return y
    >>> y = f(1.); jax.effects_barrier()
    Entering jdb:
    (jdb) Array(4., dtype=float32)
    (jdb)
    """
    if backend not in (None, "cli"):
        raise ValueError(
            f"debug.breakpoint: there is no backend {backend!r}.\n"
            "  Known is 'cli', the prompt of a terminal."
        )
    lifted, operands = lift(frames_from(sys._getframe(1), filter_frames, num_frames))

    def stop(*values: Array) -> None:
        with _prompting:
            Prompt(lifted.filled(values), kwargs.get("stdin"), kwargs.get("stdout")).run()

    if token is None:
        debug_callback(stop, *operands, ordered=ordered)
        return None
    leaves, tree = pytrees.tree_flatten(token)
    n = len(operands)

    def stop_and_pass(*values: Array) -> list[Any]:
        stop(*values[:n])
        return list(map(np.asarray, values[n:]))

    avals = [ShapedArray(np.shape(x), x.dtype) for x in leaves]
    outs = pure_callback(stop_and_pass, avals, *operands, *leaves, vmap_method="sequential")
    return pytrees.tree_unflatten(tree, outs)


class Prompt(cmd.Cmd):
    """The prompt at a breakpoint."""

    prompt = "(jdb) "

    def __init__(self, frames: list[Frame], stdin: Any, stdout: Any) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames, self.at = frames, 0

    def run(self) -> None:
        """Ask until the user lets the program go on."""
        self.cmdloop("Entering jdb:")

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=self.stdout)

    def emptyline(self) -> bool:
        return False

    def evaluated(self, text: str) -> Any:
        """The value of an expression in the frame; errors are written, and re-raised."""
        frame = self.frames[self.at]
        try:
            return eval(text, dict(frame.globals), dict(frame.variables))
        except Exception as err:
            self.say("*** " + traceback.format_exception_only(type(err), err)[-1].rstrip())
            raise

    def _print(self, text: str, form: Any) -> None:
        try:
            self.say(form(self.evaluated(text)))
        except Exception:  # evaluated has said it, and the prompt stays
            return

    def do_p(self, text: str) -> None:
        """p EXPRESSION: print its value."""
        self._print(text, repr)

    def do_pp(self, text: str) -> None:
        """pp EXPRESSION: print its value over several lines."""
        self._print(text, pprint.pformat)

    def do_help(self, arg: str) -> None:
        """help: what each command does; help COMMAND: what that one does."""
        told: dict[str, list[str]] = {}
        for name in sorted(dir(type(self))):
            text = (getattr(type(self), name).__doc__ or "") if name.startswith("do_") else ""
            if text and arg in ("", name.removeprefix("do_")):
                told.setdefault(" ".join(text.split()), []).append(name.removeprefix("do_"))
        if not told:
            self.say(f"*** There is no command {arg}; `help` lists all. Expressions are evaluated.")
        for text, names in told.items():
            others = [
                n for n in names if not text.startswith(f"{n}:") and not text.startswith(f"{n} ")
            ]
            self.say(text + (f" Also {', '.join(others)}." if others and not arg else ""))

    do_h = do_help

    def default(self, line: str) -> None:
        """Whatever is no command is an expression."""
        if line == "EOF":
            self.do_q("")
        self.do_p(line)

    def do_l(self, _: str) -> None:
        """l: list the lines around the place."""
        self.say(self.frames[self.at].context() + "\n")

    do_list = do_l

    def do_u(self, _: str) -> None:
        """u: go to the function that called this one."""
        if self.at + 1 >= len(self.frames):
            self.say("At topmost frame.")
            return
        self.at += 1
        self.do_l("")

    do_up = do_u

    def do_d(self, _: str) -> None:
        """d: go to the function that this one called."""
        if self.at == 0:
            self.say("At bottommost frame.")
            return
        self.at -= 1
        self.do_l("")

    do_down = do_d

    def do_bt(self, _: str) -> None:
        """bt: the calls, the innermost last."""
        self.say("Traceback:")
        for i, frame in reversed(list(enumerate(self.frames))):
            self.say(
                f'{"> " if i == self.at else "  "}File "{frame.file}", line {frame.line}, in '
                f"{frame.function}"
            )

    do_w = do_where = do_bt

    def do_a(self, _: str) -> None:
        """a: the local variables."""
        for name, value in self.frames[self.at].variables.items():
            self.say(f"{name} = {value!r:.1000}")

    do_locals = do_a

    def do_c(self, _: str) -> bool:
        """c: let the program go on."""
        return True

    do_continue = do_cont = do_c

    def do_s(self, _: str) -> bool | None:
        """s, n: go on to the next line, in programs that run under `teucer debug`."""
        self.say("*** The program does not stop at its lines. Run it with: teucer debug PROGRAM")
        return None

    do_n = do_step = do_next = do_s

    def do_q(self, _: str) -> None:
        """q: end the program."""
        sys.exit(0)

    do_quit = do_exit = do_EOF = do_q
