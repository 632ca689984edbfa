"""The memory of arrays, for NumPy and others: no words of keys, and values only after a wait
that Ctrl-C ends.

C++ gives memory by the buffer protocol, and waits there without looking for signals. Python lets
classes replace that from version 3.12 on. In 3.11 ctypes writes the slot of the class, and an error
shows as a SystemError from `memoryview`; NumPy sees none, and asks `__array__`.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from teucer._core.types import KeyCarrier
from teucer._xla import arrays as xla
from teucer._xla.arrays import ArrayImpl
from teucer._xla.client import XlaRuntimeError


class _Ended(threading.local):
    """The exception that ended a thread's last wait for an array that NumPy asked for. NumPy drops
    exceptions there, and asks for `__array__` next."""

    array: Any = None
    error: BaseException | None = None


_ended = _Ended()


def wait(x: ArrayImpl) -> None:
    """Wait until an array that is not deleted is computed; signal handlers run meanwhile, and may
    raise."""
    if not xla.is_ready(x):
        xla.block_until_ready([x])


def was_ended(x: ArrayImpl) -> bool:
    """Whether an exception broke off the last wait for the array's memory and is still to be
    raised."""
    return _ended.array is x


def raise_ended(x: ArrayImpl) -> None:
    """Raise the exception that broke off the wait for this array, once, when NumPy asks again."""
    array, error = _ended.array, _ended.error
    if array is not None:
        _ended.array = _ended.error = None
        if array is x and error is not None:
            raise error


def _refused(x: Any) -> Exception | None:
    """Wait for an array whose memory is asked for. Returns the error for an array of keys."""
    if type(x._carried) is KeyCarrier:
        return BufferError(
            "the words of keys are no numbers; jax.random.key_data(x) gives them.\n"
            f"    x: {x.aval.str_short()}"
        )
    if not x.is_deleted():
        try:
            wait(x)
        except XlaRuntimeError:
            pass  # of a computation that failed, C++ says so
        except BaseException as err:
            _ended.array, _ended.error = x, err
            raise
    return None


def replace_buffers() -> None:
    """Make arrays give their memory to NumPy by way of this module."""
    if sys.version_info >= (3, 12):
        given: Any = ArrayImpl.__buffer__
        is_deleted, is_ready = ArrayImpl.is_deleted, xla.is_ready

        def __buffer__(x: Any, flags: int) -> memoryview:
            # As `_refused`, but without a call if there is nothing to refuse.
            if type(x._carried) is KeyCarrier or is_deleted(x) or not is_ready(x):
                refused = _refused(x)
                if refused is not None:
                    raise refused
            return given(x, flags)  # type: ignore[no-any-return]

        ArrayImpl.__buffer__ = __buffer__
    elif sys.implementation.name == "cpython" and sys.maxsize > 2**32:
        _write_slot()


def _write_slot() -> None:
    import ctypes

    # A type in CPython 3.11 has a table of slots. The first of these fields is the slot of buffers.
    as_buffer = 160
    table = ctypes.c_void_p.from_address(id(ArrayImpl) + as_buffer).value
    assert table is not None
    slot = ctypes.c_void_p.from_address(table)
    assert slot.value is not None
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    given = kind(slot.value)

    def get_buffer(x: Any, view: int, flags: int) -> int:
        try:
            return given(x, view, flags) if _refused(x) is None else -1
        except BaseException:  # C sees none; of a wait, `_Ended` knows
            return -1

    _kept.append(kind(get_buffer))
    slot.value = ctypes.cast(_kept[0], ctypes.c_void_p).value


_kept: list[Any] = []  # what C calls
