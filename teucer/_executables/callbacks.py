"""Python functions that programs call: their owners, and their failures."""

from __future__ import annotations

import collections
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from teucer._base import config, errors
from teucer._base.source import is_internal
from teucer._devices import absent
from teucer._xla.runtime_errors import reword

_MOST = 64
# The runtime quotes the traceback of a function, with all calls around it.
_OWN_LINES = re.compile(r'  File "([^"]+)", line \d+, in [^\n]*\n')
_lock = threading.Lock()


class Failure(NamedTuple):
    """An exception that a function raised, and where the program calls it."""

    error: BaseException
    where: str

    @property
    def text(self) -> str:
        """The text of this failure in an error of the runtime."""
        return f"{type(self.error).__name__}: {self.error}"


# Failures that no caller has seen, and texts of failures that one has.
_new: collections.deque[Failure] = collections.deque(maxlen=_MOST)
_told: collections.deque[str] = collections.deque(maxlen=_MOST)


@final
class Trampoline:
    """A callable for the runtime, which never frees it. So it holds the function weakly: the owner
    of the function keeps it alive, and the function may refer to the owner."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = weakref.ref(function)

    def __call__(self, *args: Any) -> Any:
        function = self.function()
        if function is None:
            raise RuntimeError("the program that calls this function is gone.")
        return function(*args)


def owned(callback: Any) -> Any:
    """What the runtime is given of a callback that a program owns."""
    if by_transfers([callback]):
        return callback._replace(function=Trampoline(callback.function))
    return Trampoline(callback)


def by_transfers(callbacks: Sequence[Any]) -> bool:
    """Whether there are callbacks to which a program sends, and from which it receives
    (`transfers.ByTransfers`)."""
    return bool(callbacks) and isinstance(callbacks[0], tuple)


def note_failure(error: BaseException, where: str) -> None:
    """Remember an exception of a function, until the runtime reports it by an error of its own."""
    with _lock:
        _new.append(Failure(error, where))


# Failures of callbacks in programs over several devices. Such a program goes on after a failure.
# Otherwise the other devices would wait in their next collective, until XLA ends the process.
_put_off: collections.deque[Failure] = collections.deque()
PUT_OFF = "INTERNAL: CpuCallback error calling callback: "


def put_off(error: BaseException, where: str) -> None:
    """Remember an exception of a function, until the program that called it has run."""
    with _lock:
        _put_off.append(Failure(error, where))


def raise_put_off() -> None:
    """Raise the exception of a function of the program that has just run, as the runtime does."""
    with _lock:
        if not _put_off:
            return
        first = _put_off[0]
        _put_off.clear()
    if not isinstance(first.error, Exception):
        raise first.error
    err = errors.JaxRuntimeError(f"{PUT_OFF}{first.text}")
    err.add_note(f"In {first.where}.")
    raise err from first.error


def explained(err: BaseException) -> BaseException:
    """An error of the runtime, caused by the exception of the function that failed; or that
    exception, if it ends the process."""
    if not isinstance(err, errors.JaxRuntimeError) or err.__cause__ is not None:
        return err
    absent.explain(err)
    said = str(err)
    with _lock:
        for failure in reversed(_new):
            if failure.text in said:
                _new.remove(failure)
                _told.append(failure.text)
                if not isinstance(failure.error, Exception):
                    return failure.error
                err.__cause__ = failure.error
                if config.traceback_filtering.value != "off":
                    reword(
                        err,
                        _OWN_LINES.sub(
                            lambda found: "" if is_internal(found[1]) else found[0], said
                        ),
                    )
                err.add_note(f"In {failure.where}.")
                break
    return err


def was_told(err: BaseException) -> bool:
    """Whether all failures that an error of the runtime reports have reached a caller already."""
    said = str(err)
    with _lock:
        known = any(text in said for text in _told)
        return known and not any(failure.text in said for failure in _new)
