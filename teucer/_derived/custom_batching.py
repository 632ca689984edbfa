"""Functions with a batching rule of their own: `custom_vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import tracebacks
from teucer._core import array_ops, dialects, structure
from teucer._core.calls import check_callable, flatten_call, flatten_results, fun_name
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._derived.custom_calls import RULE_SETTERS, OutDims, batched, resolve_kwargs
from teucer._transform.batch import batch_flat, mapped_aval
from teucer._transform.jit_calls import hoist_consts, jaxpr_uses_axis, jit_p
from teucer._transform.jvp import jvp_flat, split_tangents
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.stage import StageTrace
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Avals, Dims, Params, Size, Tangents, Value
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._transform.partial import PartialTrace
    from teucer._trees.pytrees import PyTreeDef


@structure.calls("call")
@final
class CustomVmapCall(Primitive):
    """Calls `call` (a function of flat values, or a closed jaxpr once staged); batched by `rule`.

    rule(axis_size, in_batched, *args) -> (outs, out_batched), all flat.
    """

    __slots__ = ()
    name = "custom_vmap_call"
    multiple_results = True
    higher_order = True

    def types(self, *avals: ShapedArray, call: ClosedJaxpr, **params: object) -> Any:
        return tuple(call.out_avals)

    def effects(self, *avals: ShapedArray, call: ClosedJaxpr, **params: object) -> Any:
        return call.effects

    def evaluate(self, *args: Value, call: Callable[..., Any], **params: object) -> Any:
        return tuple(call(*args))

    def stage(self, trace: StageTrace, args: tuple[Value, ...], params: Params) -> Any:
        call, rule = params["call"], params["rule"]
        if isinstance(call, ClosedJaxpr):
            return trace.record(self, args, params)
        jaxpr, consts = stage_flat(call, [typeof(x) for x in args])
        k = len(consts)

        def rule_wider(size: Size, in_batched: Sequence[bool], *values: Value) -> Any:
            return rule(size, in_batched[k:], *values[k:])

        return trace.record(
            self,
            (*consts, *args),
            {**params, "call": hoist_consts(jaxpr), "rule": rule_wider if k else rule},
        )

    def lower(self, ctx: Context, *values: Written, call: ClosedJaxpr, **params: object) -> Any:
        return ctx.inline(call, *values)

    def inlined(self, operands: Sequence[Value], params: Params) -> Any:
        return params["call"], operands

    def jvp(
        self,
        primals: Sequence[Value],
        tangents: Tangents,
        *,
        call: Callable[..., Any],
        rule: Callable[..., Any],
        name: str,
    ) -> Any:
        moving = [type(t) is not Zero for t in tangents]
        n = len(primals)

        def call_jvp(*values: Value) -> list[Any]:
            outs, out_tangents = jvp_flat(call, *split_tangents(values, moving))
            return [*outs, *map(array_ops.instantiate, out_tangents)]

        def rule_jvp(size: Size, in_batched: Sequence[bool], *values: Value) -> Any:
            found: list[Sequence[bool]] = []
            dims = [0 if b else None for b in in_batched[:n]]
            tangent_batched = iter(in_batched[n:])
            full = [next(tangent_batched) if m else False for m in moving]
            ps, ts = split_tangents(values, moving)
            # A primal and its tangent must be batched alike: the rule is told of the primals only.
            alike = [b or t for b, t in zip(in_batched[:n], full, strict=True)]
            ps = tuple(
                array_ops.to_axis(p, d, size, 0) if a else p
                for p, d, a in zip(ps, dims, alike, strict=True)
            )
            ts = tuple(
                typeof(p).zero
                if type(t) is Zero
                else array_ops.to_axis(t, 0 if b else None, size, 0)
                if a
                else t
                for p, t, b, a in zip(ps, ts, full, alike, strict=True)
            )

            def apply(*xs: Value) -> list[Any]:
                outs, out_batched = rule(size, alike, *xs)
                found[:] = [out_batched]
                return list(outs)

            outs, out_tangents = jvp_flat(apply, ps, ts)
            return [*outs, *map(array_ops.instantiate, out_tangents)], [*found[0], *found[0]]

        given = [t for t, m in zip(tangents, moving, strict=True) if m]
        outs = self.call(*primals, *given, call=call_jvp, rule=rule_jvp, name=name)
        half = len(outs) // 2
        return outs[:half], outs[half:]

    def partial_eval(self, trace: PartialTrace, args: Sequence[Value], params: Params) -> Any:
        """The derivative is that of the function itself: a linear map has no use for the rule."""
        jaxpr, consts = stage_flat(params["call"], [typeof(x) for x in args])
        operands = (*consts, *args)
        return jit_p.partial_eval(
            trace,
            operands,
            {
                "jaxpr": hoist_consts(jaxpr),
                "name": params["name"],
                "donated_invars": (False,) * len(operands),
                "keep_unused": False,
                "inline": False,
                "options": (),
            },
        )

    def uses_axis(self, name: object, params: Params) -> bool:
        call = params["call"]
        return name is not None and (
            not isinstance(call, ClosedJaxpr) or jaxpr_uses_axis(call.jaxpr, name)
        )

    def batch(
        self,
        axis: Axis,
        args: Sequence[Value],
        dims: Dims,
        *,
        call: Callable[..., Any],
        rule: Callable[..., Any],
        **params: object,
    ) -> Any:
        if all(d is None for d in dims):
            return self._along_name(axis, args, call, rule, params)
        moved = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        outs, out_batched = rule(axis.size, [d is not None for d in dims], *moved)
        return tuple(outs), tuple(0 if b else None for b in out_batched)

    def _along_name(
        self,
        axis: Axis,
        args: Sequence[Value],
        call: Callable[..., Any],
        rule: Callable[..., Any],
        params: Params,
    ) -> Any:
        """The rule names batched arguments. Where only collectives in the function depend on
        the axis, it is mapped itself."""
        dims = (None,) * len(args)
        out_dims = OutDims(dims)

        def rule_along(size: Size, in_batched: Sequence[bool], *values: Value) -> Any:
            flags: list[bool] = []

            def flat(*xs: Value) -> Any:
                outs, flags[:] = rule(size, in_batched, *xs)
                return outs

            outs = out_dims.kept(*batch_flat(flat, axis, values, dims), axis)
            # Both batched: the new axis goes in front of the batch axis that the call has already.
            return [
                y if d is None or not b else array_ops.moveaxis(y, 1, 0)
                for y, d, b in zip(outs, out_dims.dims, flags, strict=True)
            ], flags

        outs = self.call(*args, call=batched(call, axis, dims, out_dims), rule=rule_along, **params)
        return outs, tuple(out_dims.dims)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Any,
        args: Sequence[Value],
        avals: Sequence[ShapedArray],
        outs: Avals,
        *,
        call: ClosedJaxpr,
        **params: object,
    ) -> Any:
        return sizes.evaluate(call, args)


custom_vmap_call_p = CustomVmapCall()


class custom_vmap:
    """A function with its own batching rule, given by `def_vmap`.

    The rule is rule(axis_size, in_batched, *args) -> (output, out_batched): in_batched and
    out_batched are trees of bools like the arguments and the output; batched arrays have the batch
    in front.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.custom_batching.custom_vmap
    ... def f(x):
    ...     return x + 1.
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, x):
    ...     return x + 2., in_batched[0]
    >>> jax.vmap(f)(jnp.zeros(2))
    Array([2., 2.], dtype=float32)
    """

    def __init__(self, fun: Callable[..., object]) -> None:
        check_callable(fun, "custom_vmap")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in RULE_SETTERS and "fun" in vars(self):
            return getattr(self.fun, name)
        raise AttributeError(f"'custom_vmap' object has no attribute {name!r}")

    def def_vmap(self, vmap_rule: Callable[..., object]) -> Callable[..., Any]:
        """Set the rule."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    @tracebacks.api_boundary
    def __call__(self, *args: Value, **kwargs: object) -> Any:
        name, vmap_rule = fun_name(self.fun), self.vmap_rule
        if vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap."
            )
        args = resolve_kwargs(self.fun, args, kwargs, "custom_vmap")
        call = flatten_call(args, {})
        leaves, call = (
            call.leaves,
            call.form(),
        )  # the equation keeps the rule, but not the arguments
        info = DebugInfo(self.fun, (), "custom_vmap")
        out_tree: list[PyTreeDef] = []

        def flat(*leaves: Value) -> list[Any]:
            outs, tree = flatten_results(call.apply(self.fun, leaves), "custom_vmap", info)
            out_tree[:] = [tree]
            return outs

        def rule(size: int, in_batched: Sequence[bool], *leaves: Value) -> Any:
            if not out_tree:  # the function has not run, so its results are not known
                dims = [0 if b else None for b in in_batched]
                stage_flat(
                    flat, [mapped_aval(typeof(x), d) for x, d in zip(leaves, dims, strict=True)]
                )
            tree_args, _ = pytrees.tree_unflatten(call.tree, leaves)
            tree_batched, _ = pytrees.tree_unflatten(call.tree, in_batched)
            result = vmap_rule(size, list(tree_batched), *tree_args)
            return _check_result(result, name, fun_name(vmap_rule), out_tree[0], size)

        outs = custom_vmap_call_p.call(*leaves, call=flat, rule=rule, name=name)
        return pytrees.tree_unflatten(out_tree[0], outs)


def _check_result(
    result: object, name: str, rule: str, out_tree: PyTreeDef, size: int
) -> tuple[list[Any], list[bool]]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"The batching rule of custom_vmap function {name} must return a pair (output, "
            f"out_batched), got {result!r:.200}."
        )
    outs, tree = pytrees.tree_flatten(result[0])
    batched, batched_tree = pytrees.tree_flatten(result[1])
    if batched_tree != tree:
        raise ValueError(
            "structure of output value and output batching specification returned by custom vmap "
            f"rule ({rule}) do not match.\n    function: {name}\n    output: {tree}\n    "
            f"batching: {batched_tree}\n  Return a bool for each array of the output, in a tree "
            "like the output."
        )
    if tree != out_tree:
        raise ValueError(
            f"structure of output returned by custom vmap rule ({rule}) does not match that of "
            f"original custom-vmapped function.\n    function: {name}, which returns {out_tree}\n"
            f"    rule: returns {tree}"
        )
    for y, b in zip(outs, batched, strict=True):
        if b and (not np.ndim(y) or np.shape(y)[0] != size):
            raise ValueError(
                f"custom_vmap rule of {name}: an output said to be batched has shape "
                f"{np.shape(y)}; its leading axis must have size {size}."
            )
    return outs, batched
