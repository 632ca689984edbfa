"""Which trace is current, for libraries that must know whether it is still the same, or bring one
of their own."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import errors
from teucer._core.axes import axes_in_force
from teucer._core.jaxpr import Var
from teucer._core.trace import Trace, Tracer, current_trace, using
from teucer._derived.custom_jvp import custom_jvp_call_p
from teucer._derived.custom_vjp import custom_vjp_call_p
from teucer._jax import linear_util as lu
from teucer._transform.batch import BatchTrace
from teucer.lax._control.groups import by_group
from teucer.lax._control.scan import scan_p

if TYPE_CHECKING:
    from teucer._core.typing import Params, Value


@final
class OpaqueTraceState:
    """Equal to another if both were taken under the same trace, while it ran."""

    __slots__ = ("_trace",)
    __hash__ = None  # type: ignore[assignment]  # a trace that has ended equals no other, itself included

    def __init__(self) -> None:
        self._trace = weakref.ref(current_trace())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace() is other._trace() is not None


def get_opaque_trace_state(convention: object = None) -> OpaqueTraceState:
    """The current trace, to be compared later: it differs if a transformation has begun or ended
    meanwhile.

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
    """A tag that the traces of one transformation share, compared by identity."""

    __slots__ = ("__weakref__",)


class _AnyTrace(type):
    """Every trace is an instance of `jax.core.Trace`; subclasses of libraries are classes as
    any."""

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, Trace)
            if cls is LibraryTrace
            else type.__instancecheck__(cls, instance)
        )


class LibraryTrace(Trace, metaclass=_AnyTrace):
    """A library's own interpretation of primitives, in force in `with set_current_trace(trace)`.

    A subclass says `process_primitive(primitive, tracers, params)`, which returns one result, or a
    list where `primitive.multiple_results`; its tracers are a subclass of `jax.core.Tracer` that
    says `aval`. Functions with rules of users come to `process_custom_jvp_call` and
    `process_custom_vjp_call`.
    """

    __slots__ = ()

    def __init__(self, parent: Trace | None = None) -> None:
        super().__init__(parent)

    def process(self, primitive: Any, args: tuple[object, ...], params: Params) -> tuple[Any, ...]:
        if primitive is custom_jvp_call_p:
            fun, jvp = (lu.wrap_init(params[name]) for name in ("call_jaxpr", "jvp"))
            return tuple(
                self.process_custom_jvp_call(
                    _CustomJVP(params["name"]),
                    fun,
                    jvp,
                    list(args),
                    symbolic_zeros=params["symbolic_zeros"],
                )
            )
        if primitive is custom_vjp_call_p:
            fun, fwd, bwd = (
                lu.wrap_init(params[name]) for name in ("call_jaxpr", "fwd_jaxpr_thunk", "bwd")
            )
            return tuple(
                self.process_custom_vjp_call(
                    primitive,
                    fun,
                    fwd,
                    bwd,
                    list(args),
                    out_trees=None,
                    symbolic_zeros=params["symbolic_zeros"],
                )
            )
        if primitive is scan_p:
            params = by_group(params)
        outs = self.process_primitive(primitive, list(args), params)
        return tuple(outs) if primitive.multiple_results else (outs,)

    def process_primitive(
        self, primitive: object, tracers: Sequence[object], params: Params
    ) -> Any:
        """Interpret one call of a primitive."""
        raise NotImplementedError(f"{type(self).__name__} must define process_primitive.")

    def process_custom_jvp_call(
        self,
        primitive: object,
        fun: object,
        jvp: object,
        tracers: Sequence[object],
        *,
        symbolic_zeros: bool,
    ) -> Sequence[Any]:
        """Interpret a call of a custom_jvp function: fun.call_wrapped(*tracers), whose rule is jvp;
        here without the rule."""
        raise NotImplementedError(
            f"{type(self).__name__} must define process_custom_jvp_call to interpret custom_jvp "
            "functions."
        )

    def process_custom_vjp_call(
        self,
        primitive: object,
        fun: object,
        fwd: object,
        bwd: object,
        tracers: Sequence[object],
        *,
        out_trees: object,
        symbolic_zeros: bool,
    ) -> Sequence[Any]:
        """Interpret a call of a custom_vjp function: fun.call_wrapped(*tracers), whose rules are
        fwd and bwd."""
        raise NotImplementedError(
            f"{type(self).__name__} must define process_custom_vjp_call to interpret custom_vjp "
            "functions."
        )

    def full_raise(self, x: Value) -> Any:
        """A value as this trace sees it."""
        return x

    def is_valid(self) -> bool:
        """Whether values of the trace still mean something."""
        return self.alive

    def invalidate(self) -> None:
        """Let values of the trace mean nothing from now on."""
        self.alive = False


@final
class _CustomJVP:
    """`custom_jvp_call_p` as traces of libraries call it, with functions in the place of jaxprs."""

    multiple_results = True

    def __init__(self, name: str) -> None:
        self.name = name

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], *rest: Any) -> Sequence[Any]:
        """Call it in another trace; rest: (types, params) or (params,), with the functions as
        params["subfuns"] or first."""
        params = dict(rest[-1])
        (fun, jvp), args = (
            (params.pop("subfuns"), args) if "subfuns" in params else (args[:2], args[2:])
        )
        with using(trace):
            return custom_jvp_call_p.call(
                *args,
                call_jaxpr=fun.call_wrapped,
                jvp=jvp.call_wrapped,
                name=self.name,
                num_consts=0,
                **params,
            )


def set_current_trace(trace: Trace, check_leaks: bool = False) -> using:
    """A context manager: `trace` is in force. A library's trace that does not say its parent stands
    on the current one. check_leaks: accepted for programs written for JAX."""
    if issubclass(type(trace), LibraryTrace) and trace.parent is None:
        trace.parent = current_trace()
    return using(trace)


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


def find_top_trace(xs: Sequence[Value]) -> Trace:
    """The current trace; xs: accepted for programs written for JAX."""
    return current_trace()


def concrete_or_error(
    force: Callable[[Value], object] | None, val: Value, context: str = ""
) -> Any:
    """force(val) of a value that is known, val itself if force is None.

    Raises ConcretizationTypeError, saying the context, for a traced value whose number is not
    known.

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
    return [name for name in axes_in_force() if name is not None]


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
