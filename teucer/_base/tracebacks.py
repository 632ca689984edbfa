"""Tracebacks without Teucer's own frames: what a user sees of an error is the user's code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from teucer._advice.guarding import boundaries, on_error
from teucer._base import config
from teucer._base.functions import fun_name
from teucer._base.source import is_internal

P = ParamSpec("P")
R = TypeVar("R")
# Beginnings of the names of files whose frames are left out beside Teucer's; libraries add their
# own (`teucer.compat`).
excluded: list[str] = []
NOTE = (
    "(For simplicity, Teucer's own frames are left out of this traceback; "
    "JAX_TRACEBACK_FILTERING=off shows them.)"
)


class UnfilteredStackTrace(Exception):
    """The cause of an exception whose traceback was shortened: it has the whole of it."""

    __module__ = "teucer.errors"


def api_boundary(
    fun: Callable[P, R], like: Callable[..., object] | None = None, doc: str | None = None
) -> Callable[P, R]:
    """`fun`, with Teucer's frames taken out of the tracebacks of its exceptions, as
    `jax_traceback_filtering` says.

    like: the function whose name and docstring the result has; by default `fun`. doc: another
    docstring.
    off: leave them. tracebackhide: mark them, for IPython and pytest. remove_frames: take them out;
    the cause of the exception is an `UnfilteredStackTrace` with all. quiet_remove_frames: take them
    out and say so in a note. auto: quiet_remove_frames.
    """

    def boundary(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return fun(*args, **kwargs)
        except Exception as err:
            treat(err, sys._getframe(1))
            raise

    boundaries.add(boundary.__code__)
    named: Callable[..., object] = fun if like is None else like
    try:
        functools.update_wrapper(boundary, named)
    except TypeError:  # the name of a callable of a user's class may be anything
        functools.update_wrapper(boundary, named, ("__doc__",))
    if isinstance(named, functools.partial):
        boundary.__name__ = boundary.__qualname__ = fun_name(named)
    boundary.__doc__ = boundary.__doc__ if doc is None else doc
    return boundary


def treat(err: Exception, frame: FrameType | None) -> None:
    """Hide frames of an error that leaves a boundary, unless one further out will.

    frame: the caller of the boundary.
    """
    while frame is not None:
        if frame.f_code in boundaries:
            return
        frame = frame.f_back
    hide_frames(err)


on_error.append(treat)


def boundary_of(
    user_fun: Callable[..., object], doc: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: `api_boundary` for a function made of a user's function, which it is called as.

    doc: its docstring; by default that of the user's function.
    """
    return lambda fun: api_boundary(fun, user_fun, doc)


def hide_frames(err: BaseException) -> None:
    """Treat the traceback of an exception, and those of its causes, as `jax_traceback_filtering`
    says."""
    mode = config.traceback_filtering.value
    if mode == "auto":  # IPython would show the innermost frame even if it is marked
        mode = "quiet_remove_frames"
    if mode == "off":
        return
    advise(err)
    changed = False
    whole = err.__traceback__
    for link in _chain(err):
        if mode == "tracebackhide":
            _mark(link.__traceback__)
        else:
            kept = without_own_frames(link.__traceback__)
            changed = changed or kept is not link.__traceback__
            link.__traceback__ = kept
    if changed and mode == "quiet_remove_frames" and NOTE not in getattr(err, "__notes__", ()):
        err.add_note(NOTE)
    if changed and mode == "remove_frames" and not isinstance(err.__cause__, UnfilteredStackTrace):
        unfiltered = UnfilteredStackTrace(
            f"{type(err).__name__}: {err}\n  The traceback below leaves Teucer's own frames out."
        )
        unfiltered.__cause__, unfiltered.__context__ = err.__cause__, err.__context__
        unfiltered.__suppress_context__ = err.__suppress_context__
        err.__cause__ = unfiltered.with_traceback(whole)


def advise(err: BaseException) -> None:
    """Note in an exception that Teucer raised what to do, and where the guide explains it; once."""
    from teucer._advice import remedies  # of errors alone

    notes = getattr(err, "__notes__", ())
    for note in () if any(map(remedies.is_note, notes)) else remedies.told(err):
        err.add_note(note)


def treat_uncaught(err: BaseException) -> None:
    """Hide the frames of an error that nobody catches, which may have passed no boundary."""
    if without_own_frames(err.__traceback__) is not None:  # else the error is one of ours alone
        hide_frames(err)


def is_excluded(file: str) -> bool:
    """Whether a library has its frames of the file left out."""
    return file.startswith(tuple(excluded))


def _chain(err: BaseException) -> list[BaseException]:
    """The exception, its cause or context, theirs, and so on."""
    found: list[BaseException] = []
    pending: list[BaseException | None] = [err]
    while pending:
        link = pending.pop()
        if link is not None and not any(link is seen for seen in found):
            found.append(link)
            pending += [link.__cause__, link.__context__]
    return found


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    entry = traceback
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        file = entry.tb_frame.f_code.co_filename
        if not is_internal(file) and not is_excluded(file):
            same = entry.tb_next is kept
            kept = (
                entry
                if same
                else TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
            )
    return kept


def _mark(traceback: TracebackType | None) -> None:
    while traceback is not None:
        if is_internal(traceback.tb_frame.f_code.co_filename):
            traceback.tb_frame.f_locals["__tracebackhide__"] = True
        traceback = traceback.tb_next
