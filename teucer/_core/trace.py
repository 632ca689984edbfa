"""Traces and tracers, and which trace is current.

`primitive.call(*args, **params)` hands the call to the current trace of the thread. A trace knows
its parent and its own tracers; a value that is not one of its tracers is a constant to it. Rules
run with the parent as the current trace.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import config, errors
from teucer._core.provided import provided
from teucer._core.stand_ins import plain_classes
from teucer._core.types import aval_of, register_aval_of
from teucer._xla.arrays import Array

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value


typeof = aval_of


class Trace:
    """One interpretation of primitives: evaluation, staging, differentiation, batching."""

    __slots__ = ("alive", "parent", "placed", "__weakref__")
    # state(x): the state of a value that changes (`_core.high`), None where the trace knows
    # nothing of it.
    state: Any = None

    def __init__(self, parent: Trace | None) -> None:
        self.parent = parent
        self.alive = True
        # A list that all traces of a program share. It is not empty once the type of a value says
        # where the value lies. Evaluation has a list of its own, which stays empty: programs of
        # primitives care for these types.
        self.placed: list[bool] = [] if parent is None or parent.parent is None else parent.placed

    @property
    def main(self) -> Trace:
        """The trace itself, under the name by which libraries compare traces."""
        return self

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        """Interpret one call of a primitive; the results are a tuple."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def lift(self, x: Value, aval: Aval) -> Any:
        """A host constant of type `aval` as a traced value, if below this trace a program is being
        recorded; else `x`."""
        return x if self.parent is None else self.parent.lift(x, aval)

    def staging(self) -> bool:
        """Whether values below this trace are unknown while the Python program runs."""
        return self.parent is not None and self.parent.staging()

    def __repr__(self) -> str:
        return f"{type(self).__name__}"


@final
class EvalTrace(Trace):
    """The base: a primitive is run at once on concrete values."""

    __slots__ = ()

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        result: tuple[Any, ...] = (
            provided.runner(primitive, params)(*args)
            if primitive.standalone
            else primitive.evaluate(*args, **params)
        )
        return result


EVAL = EvalTrace(None)


class _Current(threading.local):
    trace: Trace = EVAL


_current = _Current()
_tracing = config.tracing


def current_trace() -> Trace:
    """The current trace of this thread."""
    return _current.trace


@final
class using:
    """Make `trace` current in a `with` block. A class, since @contextmanager costs three times as
    much a call."""

    __slots__ = ("trace", "saved")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def __enter__(self) -> None:
        saved = self.saved = _current.trace
        trace = _current.trace = self.trace
        # The C++ dispatcher must not answer from its cache while anything but evaluation is
        # current.
        if (trace is EVAL) is not (saved is EVAL):
            _tracing.set_local(trace is not EVAL)

    def __exit__(self, *exc: object) -> None:
        saved = _current.trace = self.saved
        if (saved is EVAL) is not (self.trace is EVAL):
            _tracing.set_local(saved is not EVAL)


class Tracer(Array):  # type: ignore[misc]  # jaxlib's classes are untyped
    """A value whose number is not known, or is known together with a tangent or a batch.

    The libraries attach the methods and operators of arrays (`teucer.numpy`).
    """

    __slots__ = ("_aval", "_trace", "__weakref__")
    # NumPy's operators give way to ours.
    __array_priority__ = 1000

    _trace: Trace

    _aval: Any

    def __init__(self, trace: Trace, aval: Aval | None = None) -> None:
        self._trace = trace
        if aval is not None:
            self._aval = aval

    def __init_subclass__(cls) -> None:
        register_aval_of(cls, operator.attrgetter("aval"))
        if cls.__module__.startswith("teucer."):
            plain_classes.add(cls)

    @property
    def aval(self) -> Any:
        """The type; tracers of libraries have the one that they were given."""
        try:
            return object.__getattribute__(self, "_aval")  # `__getattr__` asks for the type
        except AttributeError:
            raise NotImplementedError(f"{type(self).__name__}.aval") from None

    if not TYPE_CHECKING:  # tracers of libraries assign it; ours that compute it are read-only

        @aval.setter
        def aval(self, aval: Aval) -> None:
            self._aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        shape: tuple[int, ...] = self.aval.shape
        return shape

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        size: int = self.aval.size
        return size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way in promotion, as that of Python scalars."""
        weak: bool = self.aval.weak_type
        return weak

    @property
    def mat(self) -> Any:
        """The kinds of variation over manual mesh axes that the type states."""
        return self.aval.mat

    @property
    def sharding(self) -> Any:
        """A traced value has none; its type says how it lies over Explicit mesh axes. Raises
        AttributeError, as in JAX."""
        raise AttributeError(
            "The 'sharding' attribute is not available on traced array with shape "
            f"{self.aval.str_short()}. To query sharding information on tracers, use "
            "`jax.typeof(x)`."
        )

    def full_lower(self) -> Any:
        """The simplest value that stands for this one: the tracer itself. Libraries override it in
        tracers of their own."""
        return self

    def as_array(self) -> Any:
        """The value with arrays in the place of the NumPy arrays and numbers beneath, as
        `jnp.asarray` gives it."""
        return self

    def concrete(self) -> Any:
        """The concrete value that Python control flow may look at, or None if there is none."""
        return None

    def origin(self) -> str:
        """Where the value was made, for error messages; '' if not known."""
        return ""

    def reason(self) -> str:
        """Why the value is not known, for error messages; '' if there is nothing to say."""
        return ""

    def __hash__(self) -> int:
        raise TypeError(
            f"unhashable type: {type(self).__name__!r}\n  Traced values are not hashable; their "
            "numbers are not known."
        )

    def __len__(self) -> int:
        return errors.length(self.aval.shape)

    def __bool__(self) -> bool:
        if self.ndim and type(self.size) is int and self.size != 1:
            raise ValueError(
                f"The truth value of {errors.ambiguous(self.size)}\n    x: {self.aval}"
            )
        return bool(self._known(errors.TracerBoolConversionError))

    def __int__(self) -> int:
        self._must_be_scalar()
        return int(self._known(errors.ConcretizationTypeError, "int()"))

    # Never a Python number that goes on into the computation: its derivative would be lost without
    # a word.
    def __float__(self) -> float:
        self._must_be_scalar()
        raise errors.ConcretizationTypeError(self, "float()")

    def __complex__(self) -> complex:
        self._must_be_scalar()
        raise errors.ConcretizationTypeError(self, "complex()")

    def _must_be_scalar(self) -> None:
        if self.ndim:
            raise TypeError(
                "Only scalar arrays can be converted to Python scalars; got "
                f"arr.ndim={self.ndim}\n    x: {self.aval}"
            )

    def __index__(self) -> int:
        if self.ndim or not np.issubdtype(self.dtype, np.integer):
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index.\n"
                f"    x: {self.aval}"
            )
        return operator.index(self._known(errors.TracerIntegerConversionError))

    def __array__(self, *args: Value, **kwargs: object) -> Any:
        raise errors.TracerArrayConversionError(self)

    def _known(self, error: Callable[..., Exception], *context: str) -> Any:
        """The concrete value, or an error that says why there is none."""
        value = self.concrete()
        if value is None:
            raise error(self, *context)
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"

    def __format__(self, spec: str) -> str:
        return (
            repr(self)
            if not spec
            else format(self._known(errors.ConcretizationTypeError, "format()"), spec)
        )

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Tracer:
        return self


def end(trace: Trace) -> None:
    """End `trace`: its tracers mean nothing from now on."""
    trace.alive = False
