"""Primitives of libraries that are calls of a jaxpr.

They are differentiated and batched as calls, and lowered as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._core import dialects, structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import current_trace
from teucer._optimize.dce import dce_closed, narrowed
from teucer._transform.jit_calls import ProgramCall, hoisted
from teucer._transform.transpose import transpose_jaxpr

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Arrays, Avals, Dims, Params, Value, Values


TransposeRule = Callable[..., Any]


@structure.calls("call_jaxpr")
class CallPrimitive(ProgramCall):
    """A call of `call_jaxpr`, a jaxpr; other parameters are the library's own and travel along.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> marked = create_call_primitive("marked")
    >>> sine = jax.make_jaxpr(jnp.sin)(0.)
    >>> jax.make_jaxpr(lambda x: marked.bind(x, call_jaxpr=sine, note="here"))(1.)
    { lambda ; a:f32[]. let
        b:f32[] = marked[
          call_jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }
          note=here
        ] a
      in (b,) }
    >>> float(jax.grad(lambda x: marked.bind(x, call_jaxpr=sine)[0])(0.))
    1.0
    """

    __slots__ = ()
    multiple_results = True
    # Whether it is lowered in place, or as a function of the module.
    in_place = True
    transpose_rule: TransposeRule | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def call(
        self,
        *args: Any,
        call_jaxpr: ClosedJaxpr | None = None,
        jaxpr: ClosedJaxpr | None = None,
        **params: object,
    ) -> tuple[Any, ...]:
        closed, consts = hoisted(_closed(call_jaxpr if jaxpr is None else jaxpr))
        return current_trace().process(self, (*consts, *args), {"call_jaxpr": closed, **params})

    def for_operands(self, params: Params, sources: Sequence[int | None]) -> dict[str, Any]:
        return {
            name: value for name, value in params.items() if name not in ("jaxpr", "call_jaxpr")
        }

    def types(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(call_jaxpr.out_avals)

    def effects(self, *avals: ShapedArray, call_jaxpr: ClosedJaxpr, **params: object) -> Any:
        return super().effects(*avals, jaxpr=call_jaxpr, **params)

    def evaluate(self, *args: Any, call_jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(call_jaxpr(*args))

    def lower(self, ctx: Any, *values: Any, call_jaxpr: ClosedJaxpr, **params: object) -> Any:
        if self.in_place or call_jaxpr.effects:
            return ctx.inline(call_jaxpr, *values)
        return ctx.call(self.name, call_jaxpr, *values)

    def inlined(self, operands: Sequence[Value], params: Params) -> Any:
        return (params["call_jaxpr"], operands) if self.in_place else None

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        closed, taken = dce_closed(eqn.params["call_jaxpr"], used)
        return narrowed(eqn, used, taken, call_jaxpr=closed)

    @dialects.on_values.rule
    def on_values(
        self, operands: Sequence[Value], groups: Any, *, call_jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        return super().on_values(operands, groups, jaxpr=call_jaxpr, **params)

    @dialects.on_low.rule
    def on_low(
        self, operands: Values, avals: Avals, *, call_jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        return super().on_low(operands, avals, jaxpr=call_jaxpr, **params)

    def jvp(
        self, primals: Sequence[Value], tangents: Any, *, call_jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        return super().jvp(primals, tangents, jaxpr=call_jaxpr, **params)

    def transpose(self, cts: Any, *args: Any, call_jaxpr: ClosedJaxpr, **params: object) -> Any:
        if self.transpose_rule is not None:
            return tuple(
                self.transpose_rule(self, list(cts), *args, call_jaxpr=call_jaxpr, **params)
            )
        return super().transpose(cts, *args, jaxpr=call_jaxpr, **params)

    def batch(
        self, axis: Any, args: Arrays, dims: Dims, *, call_jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        return super().batch(axis, args, dims, jaxpr=call_jaxpr, **params)

    def partial_eval(self, trace: Any, args: Sequence[Value], params: Params) -> Any:
        renaming: Any = _Renaming(trace)  # takes the place of the trace
        return super().partial_eval(renaming, args, {**params, "jaxpr": params["call_jaxpr"]})

    def uses_axis(self, name: object, params: Params) -> bool:
        return super().uses_axis(name, {"jaxpr": params["call_jaxpr"]})

    def on_buffers(
        self,
        sizes: Sequence[int],
        args: Sequence[Value],
        avals: Sequence[ShapedArray],
        outs: Sequence[Value],
        *,
        call_jaxpr: ClosedJaxpr,
        **params: object,
    ) -> Any:
        return super().on_buffers(sizes, args, avals, outs, jaxpr=call_jaxpr, **params)

    padded = dialects.padded.rule(on_buffers)


class _Renaming:
    """A trace of partial evaluation to which a jaxpr is a parameter `call_jaxpr`."""

    def __init__(self, trace: Any) -> None:
        self.trace, self.is_unknown = trace, trace.is_unknown

    def evaluate_known(self, primitive: Any, args: Any, params: Any) -> Any:
        return self.trace.evaluate_known(primitive, args, _renamed(params))

    def record(self, primitive: Any, args: Any, params: Any) -> Any:
        return self.trace.record(primitive, args, _renamed(params))


def _renamed(params: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in params.items() if name not in ("jaxpr", "call_jaxpr")}
    return {"call_jaxpr": params["jaxpr"], **rest}


def _closed(jaxpr: Any) -> ClosedJaxpr:
    if isinstance(jaxpr, Jaxpr):
        return ClosedJaxpr(jaxpr)
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr
    raise TypeError(
        f"call_jaxpr is a jaxpr, got {type(jaxpr)}.\n  jax.make_jaxpr(f)(*args) is the one of a "
        "function."
    )


def create_call_primitive(name: str, inline_jax_late: bool = True) -> CallPrimitive:
    """A primitive that is a call: `p.bind(*args, call_jaxpr=jaxpr, **params)` gives the list of
    results.

    It stands in jaxprs, with its parameters, for interpreters to find; derivatives and batches of
    it are calls of it.
    inline_jax_late: whether it is written in place when it is lowered; else it is a function of the
    module.
    """
    made = CallPrimitive(name)
    made.in_place = inline_jax_late
    return made


def register_call_primitive_rules(
    prim: CallPrimitive,
    name: str | None = None,
    transpose_rule: TransposeRule | None = None,
    inline_jax_late: bool = True,
) -> None:
    """Say how a call primitive is named, transposed, and lowered.

    transpose_rule: (primitive, cotangents, *operands, call_jaxpr=..., **params) -> cotangents; see
    `eval_jaxpr_transpose`. Raises TypeError for a primitive that is no call.
    """
    if not isinstance(prim, CallPrimitive):
        raise TypeError(
            f"register_call_primitive_rules: {prim} is no call primitive.\n"
            "  Make it with create_call_primitive."
        )
    prim.in_place = inline_jax_late
    if name is not None:
        prim.name = name
    if transpose_rule is not None:
        prim.transpose_rule = transpose_rule


def eval_jaxpr_transpose(
    prim: Primitive, ct: Sequence[object], *args: object, call_jaxpr: ClosedJaxpr, **params: object
) -> list[Any]:
    """Cotangents of the operands of a call that come as UndefinedPrimals, evaluated in place; None
    for the others."""
    linear = [isinstance(x, Undefined) for x in args]
    moving = [type(c).__name__ != "Zero" for c in ct]
    transposed, nonzero = transpose_jaxpr(_closed(call_jaxpr), linear, moving)
    outs = iter(
        transposed(
            *(x for x, lin in zip(args, linear, strict=True) if not lin),
            *(c for c, m in zip(ct, moving, strict=True) if m),
        )
    )
    found = iter([next(outs) if nz else None for nz in nonzero])
    return [next(found) if lin else None for lin in linear]


def call_impl(f: Callable[..., object], *args: object, **params: object) -> Any:
    """The results of `f`, a WrappedFun or a function of flat values."""
    return f.call_wrapped(*args) if hasattr(f, "call_wrapped") else f(*args)
