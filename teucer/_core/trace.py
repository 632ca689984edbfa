"""Traces and tracers, and which trace is current.

`primitive.call(*args, **params)` hands the call to the current trace of the thread. A trace knows
its parent and its own tracers; a value that is not one of its tracers is a constant to it. Rules
run with the parent as the current trace.
"""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import config, errors, source
from teucer._core.provided import provided
from teucer._core.types import aval_of, aval_rules, register_aval_of
from teucer._xla.arrays import Array, ArrayImpl

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value

__all__ = [
    "EVAL",
    "EvalTrace",
    "Trace",
    "Tracer",
    "check_alive",
    "check_leaks",
    "current_trace",
    "end",
    "has_stand_in",
    "leak_message",
    "plain_classes",
    "stood_in",
    "typeof",
    "using",
]

typeof = aval_of


class Trace:
    """One interpretation of primitives: evaluation, staging, differentiation, batching."""

    __slots__ = ("alive", "parent", "__weakref__")
    # state(x): the state of a value that changes (`_core.high_types`), None where the trace knows
    # nothing of it.
    state: Any = None

    def __init__(self, parent: Trace | None) -> None:
        self.parent = parent
        self.alive = True

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


# Classes whose objects stand for themselves as operands. Others are asked each time: users' classes
# come and go.
plain_classes: set[type] = {
    ArrayImpl,
    np.ndarray,
    bool,
    int,
    float,
    complex,
    str,
    tuple,
    list,
    dict,
    slice,
    type(None),
}


def has_stand_in(x: object) -> bool:
    """Whether x is an object of a user's class with `__jax_array__`, for which an array stands."""
    kind = type(x)
    if hasattr(kind, "__jax_array__") and not any(base in aval_rules for base in kind.__mro__):
        return True
    if kind.__module__.startswith(("teucer.", "numpy")):  # classes that live as long as the process
        plain_classes.add(kind)
    return False


def stood_in(
    args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in which arrays stand for objects of users' classes with `__jax_array__`."""

    def itself_or_array(x: Any) -> Any:
        return x.__jax_array__() if has_stand_in(x) else x

    return tuple(map(itself_or_array, args)), {
        name: itself_or_array(x) for name, x in kwargs.items()
    }


class Tracer(Array):  # type: ignore[misc]  # jaxlib's classes are untyped
    """A value whose number is not known, or is known together with a tangent or a batch.

    The libraries attach the methods and operators of arrays (`teucer.numpy`).
    """

    __slots__ = ("_trace", "__weakref__")
    # NumPy's operators give way to ours.
    __array_priority__ = 1000

    _trace: Trace

    def __init__(self, trace: Trace, aval: Aval | None = None) -> None:
        self._trace = trace

    def __init_subclass__(cls) -> None:
        register_aval_of(cls, operator.attrgetter("aval"))
        if cls.__module__.startswith("teucer."):
            plain_classes.add(cls)

    @property
    def aval(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.aval")

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
        """What the type says of manual mesh axes."""
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
        """The value as transformations beneath see it; libraries that bring tracers of their own
        may say otherwise."""
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
        return len(self.aval)

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


def check_alive(x: Value) -> None:
    """Raise UnexpectedTracerError if `x` is a tracer whose trace has ended."""
    if isinstance(x, Tracer) and not x._trace.alive:
        raise errors.UnexpectedTracerError(leak_message(x))


def leak_message(x: Tracer) -> str:
    """What to say of a tracer found outside the function that made it."""
    made = x.origin()
    on_line = "as" if made.startswith("argument ") else "on line"
    where = f"\n    it was created {on_line} {made}" if made else ""
    used = f"\n    and is used at {source.describe(source.here())}"
    return (
        "Encountered an unexpected tracer. A function transformed by JAX had a side effect, "
        f"allowing for a reference to an intermediate value with type {x.aval.str_short()} "
        f"wrapped in a {type(x).__name__} to escape the scope of the transformation.\n"
        f"    leaked from {x._trace}{where}{used}\n  A function that is transformed must return "
        "what it computes and not save it to global state, an attribute, a closure or a list.\n"
        "  To find where the value escapes, run with jax.checking_leaks()."
    )


def end(trace: Trace) -> None:
    """End `trace`: its tracers mean nothing from now on."""
    trace.alive = False


def check_leaks(trace: Trace) -> None:
    """With the option jax_check_tracer_leaks, raise if a tracer of an ended trace is still referred
    to.

    The caller must have let go of its own references to tracers.
    """
    if not config.check_tracer_leaks.value:
        return
    gc.collect()
    leaked = [x for x in gc.get_objects() if isinstance(x, Tracer) and x._trace is trace]
    if leaked:
        listed = "".join(
            [
                f"\n    {x.aval.str_short(short_dtypes=True)}, made at "
                f"{x.origin() or 'an unknown place'}; kept by {_keepers(x, leaked)}"
                for x in leaked[:5]
            ]
        )
        raise Exception(
            f"Leaked trace {trace}. Leaked tracer(s): {len(leaked)}{listed}\n"
            "  Return what the function computes; do not keep it in a global, an attribute, a "
            "closure or a list."
        )


def _keepers(x: Tracer, leaked: list[Tracer]) -> str:
    kinds = {
        type(r).__name__
        for r in gc.get_referrers(x)
        if r is not leaked and not isinstance(r, FrameType)
    }
    return ", ".join(sorted(kinds)) or "a C++ object"
