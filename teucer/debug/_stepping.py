"""`teucer debug`.

A program stops at its lines, also within functions that are compiled, with the values of their
variables.

While Python runs a function that is traced, every line of the program adds a call to the program,
with the traced values of the local variables. The compiled program comes to these calls in its
order, as often as it comes to the line; where the user does not wait for that line they do nothing.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, final

from teucer._base.source import is_internal, is_library
from teucer._core import axes
from teucer._core.trace import EVAL, current_trace
from teucer._executables.effects import effects_barrier
from teucer.lax._breakpoints import Frame, Prompt, frame_of, frames_from, lift
from teucer.lax._callbacks import debug_callback

_PROMPTING = threading.Lock()


@final
class Stepper:
    """Stops at lines of a program: at every line, at lines of the current function, or at
    breakpoints."""

    def __init__(self) -> None:
        self.depth: float = float("inf")  # stop where no more functions than these have been called
        self.breakpoints: set[tuple[str, int]] = set()
        self.busy = False

    def begin(self) -> None:
        """From now on every line of the program may be stopped at."""
        self.before = sys.gettrace()
        sys.settrace(self._called)

    def end(self) -> None:
        """Run on without stopping."""
        sys.settrace(self.before)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line if _is_of_program(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and not self.busy:
            self.busy = True
            try:
                self._come_to(frame)
            finally:
                self.busy = False
        return self._line

    def _come_to(self, frame: FrameType) -> None:
        frames = [f for f in frames_from(frame) if _is_of_program(f.file)]
        depth = len(frames)
        if current_trace() is EVAL:
            effects_barrier()  # programs run behind
            self.stop(frames, depth)
            return
        lifted, operands = lift(frames)
        debug_callback(
            lambda *values: self.stop(lifted.filled(values), depth),
            *operands,
            ordered=not axes.manual_axes(),
        )

    def stop(self, frames: list[Frame], depth: int) -> None:
        """Ask, if the user waits for this line."""
        at = frames[0]
        if depth <= self.depth or (at.file, at.line) in self.breakpoints:
            with _PROMPTING:
                StepPrompt(frames, self, depth).run()

    def examine(self, traceback: TracebackType | None) -> None:
        """Ask where an exception was raised."""
        frames = []
        while traceback is not None:
            if _is_of_program(traceback.tb_frame.f_code.co_filename):
                frames.append(frame_of(traceback.tb_frame, traceback.tb_lineno))
            traceback = traceback.tb_next
        if frames:
            StepPrompt(frames[::-1], self, 0).run()


def _is_of_program(file: str) -> bool:
    return not is_internal(file) and not is_library(file) and not file.startswith("<")


@final
class StepPrompt(Prompt):
    """The prompt at a line."""

    def __init__(self, frames: list[Frame], stepper: Stepper, depth: int) -> None:
        super().__init__(frames, None, None)
        self.stepper, self.depth = stepper, depth

    def run(self) -> None:
        """Ask until the user lets the program go on."""
        at = self.frames[0]
        self.cmdloop(
            f"> {at.file}({at.line}){at.function}()\n-> "
            f"{linecache.getline(at.file, at.line).strip()}"
        )

    def do_s(self, _: str) -> bool:
        """s: go on to the next line, also in a function that is called."""
        self.stepper.depth = float("inf")
        return True

    do_step = do_s

    def do_n(self, _: str) -> bool:
        """n: go on to the next line of this function."""
        self.stepper.depth = self.depth
        return True

    do_next = do_n

    def do_r(self, _: str) -> bool:
        """r: go on until this function has returned."""
        self.stepper.depth = self.depth - 1
        return True

    do_return = do_r

    def do_c(self, _: str) -> bool:
        """c: go on to the next breakpoint."""
        self.stepper.depth = 0
        return True

    do_continue = do_cont = do_c

    def do_b(self, text: str) -> None:
        """b LINE, b FILE:LINE: stop there; b alone lists where."""
        if not text:
            for file, line in sorted(self.stepper.breakpoints):
                self.say(f"{file}:{line}")
            return
        place = self._place(text)
        if place is not None:
            self.stepper.breakpoints.add(place)
            self.say(f"Breakpoint at {place[0]}:{place[1]}")

    do_break = do_b

    def do_cl(self, text: str) -> None:
        """cl LINE, cl FILE:LINE: do not stop there any more; cl alone: nowhere."""
        place = self._place(text) if text else None
        self.stepper.breakpoints -= (
            {place} if place is not None else self.stepper.breakpoints if not text else set()
        )

    do_clear = do_cl

    def _place(self, text: str) -> tuple[str, int] | None:
        file, _, line = text.rpartition(":")
        if not line.strip().isdecimal():
            self.say(f"*** {text} is no line. Say a number, or FILE:NUMBER.")
            return None
        return os.path.abspath(file) if file else self.frames[self.at].file, int(line)
