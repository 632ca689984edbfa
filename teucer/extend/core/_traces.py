"""Which trace is current, for libraries that must know whether it is still the same, or bring one of their own."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, final

from teucer._base import errors
from teucer._core.axes import axis_key
from teucer._core.jaxpr import Var
from teucer._core.trace import Trace, Tracer, current_trace
from teucer._core.trace import using as set_current_trace
from teucer._transform.batch import BatchTrace

__all__ = ["OpaqueTraceState", "TraceTag", "concrete_or_error", "find_top_trace", "gensym", "get_opaque_trace_state",
           "nonempty_axis_env_DO_NOT_USE", "set_current_trace", "take_current_trace", "unsafe_am_i_under_a_jit_DO_NOT_USE",
           "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE"]


@final
class OpaqueTraceState:
    """Equal to another if both were taken under the same trace, while it ran."""

    __slots__ = ("_trace",)
    __hash__ = None  # type: ignore[assignment]  # a trace that has ended equals no other, itself included

    def __init__(self) -> None:
        self._trace = weakref.ref(current_trace())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace() is other._trace() is not None


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """What to compare later on to find out whether a transformation has begun or ended meanwhile.

    convention: accepted for programs written for JAX.

    >>> import teucer as jax
    >>> outside = get_opaque_trace_state()
    >>> jax.eval_shape(lambda x: print(get_opaque_trace_state() == outside), 1.)
    False
    >>> get_opaque_trace_state() == outside
    True
    """
    return OpaqueTraceState()


@final
class TraceTag:
    """What the traces of one transformation have in common, compared by identity."""

    __slots__ = ("__weakref__",)


@final
class take_current_trace:  # a context manager is called as a function
    """The current trace, as a context manager: `with take_current_trace() as parent`.

    >>> with take_current_trace() as parent:
    ...     parent
    EvalTrace
    """

    __slots__ = ()

    def __enter__(self) -> Trace:
        return current_trace()

    def __exit__(self, *exc: object) -> None:
        return


def find_top_trace(xs: Any) -> Trace:
    """The current trace; xs: accepted for programs written for JAX."""
    return current_trace()


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """force(val) of a value that is known, val itself if force is None.

    Raises ConcretizationTypeError, saying the context, for a traced value whose number is not known.

    >>> concrete_or_error(int, 3.7)
    3
    """
    if isinstance(val, Tracer):
        known = val.concrete()
        if known is None:
            raise errors.ConcretizationTypeError(val, context)
        val = known
    return val if force is None else force(val)


def gensym() -> Callable[[Any], Var]:
    """A maker of new variables: gensym()(aval)."""
    return Var


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """Names of the axes in force."""
    return [name for name, _ in axis_key() if name is not None]


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether axes with names are in force."""
    return bool(unsafe_get_axis_names_DO_NOT_USE())


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether the program is being recorded rather than run."""
    return current_trace().staging()


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether values are batches, at some level of transformation."""
    trace: Trace | None = current_trace()
    while trace is not None and not isinstance(trace, BatchTrace):
        trace = trace.parent
    return trace is not None
