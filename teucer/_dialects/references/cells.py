"""References outside of any program: objects that hold an array, which each write replaces."""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import errors
from teucer._base.source import describe, here
from teucer._core.reference_types import HighRef, RefType
from teucer._core.trace import Tracer
from teucer._core.types import register_aval_of
from teucer._xla.pytree import register_argument

if TYPE_CHECKING:
    from teucer._core.typing import Value


class _RefMeta(type):
    """Traced references are instances too."""

    def __instancecheck__(cls, x: Value) -> bool:
        return type(x) in (cls, HighRef) or (isinstance(x, Tracer) and type(x.aval) is RefType)


@final
class Ref(metaclass=_RefMeta):
    """A reference to an array that changes: `ref[...]` reads it, `ref[...] = x` writes it. Made by
    `jax.new_ref`.

    The array is the reference's own: making a reference copies its first value, and reading copies
    too. So writes can be made in place.
    """

    __slots__ = ("_array", "_gone", "_made", "aval", "__weakref__")
    __hash__ = object.__hash__

    def __init__(self, aval: RefType, array: Value) -> None:
        self.aval, self._array = aval, array
        self._gone = ""
        self._made = here()

    def read(self) -> Any:
        """The array itself, which the next write may delete. Raises ValueError if the reference was
        frozen or freed."""
        if self._gone:
            raise ValueError(
                f"a reference of type {self.aval.str_short()} is used after it was {self._gone}.\n"
                f"    made at {self.origin()}\n  Read or write it before, or make another with "
                "jax.new_ref."
            )
        return self._array

    def write(self, array: Value) -> None:
        """Put another array in the place of the one there is."""
        self._array = array

    def end(self, how: str) -> Any:
        """Give the array away; nothing may use the reference any more."""
        array = self.read()
        self._array, self._gone = None, how
        return array

    def origin(self) -> str:
        """Where the reference was made."""
        return describe(self._made)

    shape = property(operator.attrgetter("aval.shape"), doc="Sizes of the axes.")
    dtype = property(operator.attrgetter("aval.dtype"), doc="Type of the elements.")
    ndim = property(operator.attrgetter("aval.ndim"), doc="Number of axes.")
    size = property(operator.attrgetter("aval.size"), doc="Number of elements.")
    weak_type = property(
        operator.attrgetter("aval.weak_type"), doc="Whether the dtype gives way in promotion."
    )
    sharding = property(
        lambda self: self.read().sharding, doc="How the array is laid over devices."
    )
    committed = property(
        lambda self: self.read().committed,
        doc="Whether the array was put on its devices explicitly.",
    )
    format = property(lambda self: self.read().format, doc="How the array lies in memory.")

    def unsafe_buffer_pointer(self) -> int:
        """The address of the array on its device; the next write may be elsewhere."""
        address: int = self.read().unsafe_buffer_pointer()
        return address

    def __len__(self) -> int:
        return errors.length(self.aval.shape)

    def __iter__(self) -> Any:
        raise TypeError(
            f"a reference of type {self.aval.str_short()} cannot be iterated over.\n"
            f"    made at {self.origin()}\n  Iterate over its array, ref[...]."
        )

    def __array__(self, *args: object, **kwargs: object) -> Any:
        raise TypeError(
            f"a reference of type {self.aval.str_short()} is given where an array is wanted.\n"
            f"    made at {self.origin()}\n  Read the array: ref[...]."
        )

    def __copy__(self) -> Ref:
        """Itself: another object would be a second name for the array, which the next write may
        delete."""
        return self

    def __reduce__(self) -> Any:
        # A copy by `copy.deepcopy` or pickle has an array of its own. numpy.array copies.
        return _restored, (self.aval, self.read().copy())

    def __repr__(self) -> str:
        if self._gone:
            return f"Ref({self.aval.inner.str_short()}, {self._gone})"
        text = repr(self._array)
        return "Ref" + text.removeprefix("Array")


def _restored(aval: RefType, array: Value) -> Ref:
    return Ref(aval, array)


class _Given(threading.local):
    """The references among the arguments that the C++ dispatcher takes apart, until their program
    has run."""

    def __init__(self) -> None:
        self.refs: list[Ref] = []


_given = _Given()


def _part(ref: Ref) -> tuple[tuple[Any, ...], Any]:
    """A reference as a program knows it, with its name in messages. A reference that is given
    twice, or that has ended, matches none."""
    refs = _given.refs
    if ref._gone or ref in refs:
        return (), object()
    refs.append(ref)
    return (ref._array,), ref.aval


def forget_given() -> None:
    """Drop the references that the dispatcher took apart. It has no program for them, and asks
    Python."""
    _given.refs.clear()


def write_given(n: int, changed: Sequence[int], arrays: Sequence[Value]) -> None:
    """Store arrays that a program has changed in their references, which are among the n arguments
    of its call."""
    refs = _given.refs[-n:]
    if len(refs) != n:
        raise RuntimeError(
            "the arguments of a jitted function were taken apart by a function that calls one "
            "itself.\n  Let the flatten function of a pytree node call no functions on references."
        )
    _given.refs.clear()
    for i, array in zip(changed, arrays, strict=True):
        refs[i]._array = array


register_argument(Ref, _part)
register_aval_of(Ref, operator.attrgetter("aval"))
