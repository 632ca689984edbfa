"""A program whose jitted functions are checked as they are first called, and do not run.

A call gives zeros of the types of its results, so that the program goes on to its next function.
`jit` does not know of this: while a program is watched, the function that serves dispatch misses of
C++ is replaced.
"""

from __future__ import annotations

import collections
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from teucer import numpy as jnp
from teucer import random
from teucer._base import dtypes, source
from teucer._check.check import finding_of, report_of_program, with_static_indices
from teucer._check.findings import Line, Report, report_of
from teucer._check.lines import line_of, line_of_error, line_of_function
from teucer._check.program import Found, Program, Settings
from teucer._check.rules.tracing import of_error
from teucer._core.calls import flatten_call, fun_name
from teucer._core.dialects import HIGH, REFERENCES
from teucer._core.trace import EVAL, current_trace
from teucer._transform import jit as jits
from teucer._transform.jit_options import JitOptions
from teucer._trees import pytrees

_IDLE = 20.0  # seconds without a new function, after which a program is taken for a long loop
_MANY = 4  # programs of one function that differ in one thing


class Stopped(BaseException):
    """The program is stopped: all of its functions were probably seen. No `except Exception` of the
    program catches it."""


class _Signature(NamedTuple):
    """The key of one program of a function."""

    tree: Any
    shapes: tuple[Any, ...]
    dtypes: tuple[Any, ...]
    weak: tuple[bool, ...]
    statics: Any


class _Function(NamedTuple):
    """The record of one function: its programs, and the objects that stood for it."""

    signatures: list[_Signature]
    objects: dict[int, object]  # kept, so that their numbers are not given out again
    told: set[str]


class Watch:
    """Checks the functions that run in a `with` block."""

    def __init__(self, settings: Settings, seconds: float) -> None:
        self._settings, self._seconds, self._end = settings, seconds, 0.0
        self._reports: list[Report] = []
        self._notes: list[str] = []
        self._functions: dict[Any, _Function] = collections.defaultdict(
            lambda: _Function([], {}, set())
        )
        self._errors: list[tuple[BaseException, Found]] = []
        self._last = 0.0  # when a new function came
        self._before: Callable[..., Any] = jits.call_jitted
        self._handler: Any = None

    def __enter__(self) -> Watch:
        self._last = time.monotonic()
        self._end = self._last + self._seconds
        self._before = jits.call_jitted
        jits.call_jitted = self._call
        if threading.current_thread() is threading.main_thread():
            # A loop that calls no jitted function ends, too.
            self._handler = signal.signal(signal.SIGALRM, lambda *_: self._stop())
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        jits.call_jitted = self._before
        if self._handler is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._handler)

    def report(self, err: BaseException | None = None) -> Report:
        """The findings of all functions together. err: the exception that ended the program."""
        if err is not None:
            self._ended_by(err)
        return report_of(
            [f for r in self._reports for f in r.findings],
            [name for r in self._reports for name in r.checked],
            sum(r.silenced for r in self._reports),
            [*self._notes, *(note for r in self._reports for note in r.notes)],
        )

    def _ended_by(self, err: BaseException) -> None:
        found = next((f for e, f in self._errors if e is err), None)
        if found is None:  # static arguments are hashed before a function is traced
            of = of_error(err, line_of_error(err)) if isinstance(err, Exception) else None
            found = of if of is not None and of.number == "T104" else None
        text = str(err).partition("\n")[0]
        if found is not None:
            self._tell(found)
        elif isinstance(err, RuntimeError) and "deleted" in text:
            self._tell(
                Found(
                    "T508",
                    "an array is used after it was donated to a jitted function, which deleted it.",
                    line_of_error(err),
                    "Use what the function returned in its place, or do not donate the argument.",
                )
            )
        else:
            self._notes.append(
                f"the program ended by {type(err).__name__}: {text} (results were all zeros; "
                "functions that it would have called later are not checked)"
            )

    def _stop(self) -> None:
        self._notes.append(
            f"the program was stopped: {self._seconds:g} s are over, or no new function came for "
            f"{_IDLE:g} s; functions that it would have called later are not checked"
        )
        raise Stopped

    def _tell(self, found: Found) -> None:
        finding = finding_of(found)
        self._reports.append(report_of([finding] if finding is not None else [], (),
                                       int(finding is None)))  # fmt: skip

    def _call(
        self,
        fun: Callable[..., object],
        options: JitOptions,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> tuple[Any, Any]:
        before: Callable[..., tuple[Any, Any]] = self._before
        if current_trace() is not EVAL:
            return before(fun, options, args, kwargs)
        now = time.monotonic()
        if now > self._end or (self._functions and now > self._last + _IDLE):
            self._stop()
        jitted = jits.make_jit(fun, options)
        try:
            traced, outside = with_static_indices(lambda: jitted.trace(*args, **kwargs))
        except Exception as err:
            found = of_error(err, line_of_error(err) or line_of_function(fun))
            if found is not None:
                self._errors.append((err, found))
            raise
        if traced.staged.dialects & {HIGH, REFERENCES}:
            return before(fun, options, args, kwargs)
        if self._is_new(fun, options, args, kwargs, traced):
            program = Program(fun, traced, args, kwargs, self._settings._replace(called=True))
            self._reports.append(report_of_program(program, fun_name(fun), outside))
            self._last = time.monotonic()
        self._delete_donated(traced, args, kwargs, options)
        outs = [_zeros(aval) for aval in traced.staged.jaxpr.out_avals]
        return pytrees.tree_unflatten(traced.out_tree, outs), None

    def _is_new(
        self,
        fun: Callable[..., object],
        options: JitOptions,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        traced: Any,
    ) -> bool:
        """Whether this program is new; notes the causes of compiling a function again."""
        call = flatten_call(args, kwargs, options.static_argnums, options.static_argnames)
        avals = traced.staged.jaxpr.in_avals[len(traced.staged.consts) :]
        signature = _Signature(
            call.tree,
            tuple(getattr(a, "shape", ()) for a in avals),
            tuple(str(getattr(a, "dtype", "")) for a in avals),
            tuple(bool(getattr(a, "weak_type", False)) for a in avals),
            call.statics,
        )
        seen = self._functions[_code_of(fun)]
        same = signature in seen.signatures
        if same and id(fun) not in seen.objects and len(seen.objects) + 1 >= _MANY:
            self._once(seen, "T504", _made_anew(fun, len(seen.objects) + 1))
        seen.objects[id(fun)] = fun
        if same:
            return False
        place = line_of(source.here())
        for before in seen.signatures:
            if before._replace(weak=signature.weak) == signature:
                names = traced.arg_names
                i = next(i for i, w in enumerate(signature.weak) if w != before.weak[i])
                self._once(seen, "T107", _weak(fun, names[i], signature.weak[i], place))
        alike = [s for s in seen.signatures if s._replace(shapes=signature.shapes) == signature]
        if len(alike) + 1 >= _MANY:
            self._once(seen, "T108", _sizes(fun, len(alike) + 1, place))
        alike = [s for s in seen.signatures if s._replace(statics=signature.statics) == signature]
        if len(alike) + 1 >= _MANY and _are_numbers(signature.statics):
            self._once(seen, "T105", _statics(fun, len(alike) + 1, place))
        seen.signatures.append(signature)
        return True

    def _once(self, seen: _Function, number: str, found: Found) -> None:
        if number not in seen.told:
            seen.told.add(number)
            self._tell(found)

    def _delete_donated(
        self,
        traced: Any,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        options: JitOptions,
    ) -> None:
        """Delete donated arguments, as the call would have."""
        donated = traced.staged.donated[len(traced.staged.consts) :]
        if any(donated):
            call = flatten_call(args, kwargs, options.static_argnums, options.static_argnames)
            for x, given in zip(call.leaves, donated, strict=True):
                if given and hasattr(x, "delete"):
                    x.delete()


def _code_of(fun: Any) -> Any:
    while hasattr(fun, "__wrapped__"):
        fun = fun.__wrapped__
    fun = getattr(fun, "func", fun)
    return getattr(fun, "__code__", fun if fun.__hash__ else id(fun))


def _are_numbers(statics: Any) -> bool:
    values = [value for group in statics for _, value in group]
    return any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _made_anew(fun: Callable[..., object], n: int) -> Found:
    return Found(
        "T504",
        f"{fun_name(fun)} is jitted anew again and again, {n} times so far: each new function "
        "object is traced and compiled.",
        line_of_function(fun),
        "Define and jit the function once, outside the loop, and pass what changes as arguments.",
    )


def _weak(fun: Callable[..., object], name: str, weak: bool, place: Line | None) -> Found:
    now, before = ("a Python number", "an array") if weak else ("an array", "a Python number")
    return Found(
        "T107",
        f"{fun_name(fun)} is compiled again only since {name} is {now} here, and was {before} in "
        "an earlier call (a weak type and a strong one).",
        place,
        "Pass one kind in all calls: jnp.asarray(value, dtype).",
    )


def _sizes(fun: Callable[..., object], n: int, place: Line | None) -> Found:
    return Found(
        "T108",
        f"{fun_name(fun)} was compiled for {n} different shapes so far.",
        place,
        "Pad to few sizes, drop the last partial batch, or compile once for many sizes: "
        "jit(f, dynamic_dims=...).",
    )


def _statics(fun: Callable[..., object], n: int, place: Line | None) -> Found:
    return Found(
        "T105",
        f"{fun_name(fun)} was compiled for {n} values of a static argument so far.",
        place,
        "If no shape depends on it, let it be an ordinary argument.",
    )


def _zeros(aval: Any) -> Any:
    """An array of a type."""
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return jnp.broadcast_to(random.key(0, impl=str(random.key_impl(aval))), aval.shape)
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return jnp.asarray(np.zeros(aval.shape, aval.dtype))
