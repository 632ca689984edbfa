"""`linear_call`: a linear function with a transpose of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core.calls import FlatFunction, check_callable
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive, Undefined
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jit_calls import hoist_consts, jaxpr_uses_axis
from teucer._trees import pytrees

if TYPE_CHECKING:
    from collections.abc import Sequence

    class LinearCallParams(TypedDict):
        callee: ClosedJaxpr
        num_callee_consts: int
        num_transpose_consts: int
        num_res: int
        transposed: ClosedJaxpr

    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Cotangent, Dims, Params, Tangents, Value
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._trees.pytrees import PyTreeDef


@final
class LinearCall(Primitive):
    """callee(*consts, *residuals, *xs), linear in xs, with the transpose
    transposed(*transposed_consts, *residuals, *cts).

    Operands: callee's constants, those of its transpose, residuals, xs. The transpose is the same
    call the other way round.
    """

    __slots__ = ()
    name = "linear_call"
    multiple_results = True
    higher_order = True
    mergeable = False

    def types(self, *avals: ShapedArray, callee: ClosedJaxpr, **params: object) -> Any:
        return tuple(callee.out_avals)

    def effects(self, *avals: ShapedArray, **params: Unpack[LinearCallParams]) -> Any:
        return params["callee"].effects

    def evaluate(self, *args: Value, **params: Unpack[LinearCallParams]) -> Any:
        num_callee_consts = params["num_callee_consts"]
        return tuple(
            params["callee"](
                *args[:num_callee_consts],
                *args[num_callee_consts + params["num_transpose_consts"] :],
            )
        )

    def lower(self, ctx: Context, *values: Written, **params: Unpack[LinearCallParams]) -> Any:
        num_callee_consts = params["num_callee_consts"]
        return ctx.inline(
            params["callee"],
            *values[:num_callee_consts],
            *values[num_callee_consts + params["num_transpose_consts"] :],
        )

    def jvp(
        self,
        primals: Sequence[Value],
        tangents: Tangents,
        *,
        num_callee_consts: int,
        num_transpose_consts: int,
        num_res: int,
        **params: object,
    ) -> Any:
        params.update(
            num_callee_consts=num_callee_consts,
            num_transpose_consts=num_transpose_consts,
            num_res=num_res,
        )
        n = num_callee_consts + num_transpose_consts + num_res
        if any(type(t) is not Zero for t in tangents[:n]):
            raise TypeError(
                "linear_call is differentiated with respect to its residuals, or to values that "
                "its functions close over.\n  It has a derivative in its linear arguments only: "
                "jax.custom_vjp says others."
            )
        outs = self.call(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return outs, tuple(typeof(y).zero for y in outs)
        return outs, self.call(*primals[:n], *map(array_ops.instantiate, tangents[n:]), **params)

    def transpose(
        self, cts: Sequence[Cotangent], *args: Value, **params: Unpack[LinearCallParams]
    ) -> Any:
        num_callee_consts, num_transpose_consts, num_res = (
            params["num_callee_consts"],
            params["num_transpose_consts"],
            params["num_res"],
        )
        n = num_callee_consts + num_transpose_consts
        consts, transpose_consts = args[:num_callee_consts], args[num_callee_consts:n]
        outs = self.call(
            *transpose_consts,
            *consts,
            *args[n : n + num_res],
            *map(array_ops.instantiate, cts),
            callee=params["transposed"],
            transposed=params["callee"],
            num_callee_consts=num_transpose_consts,
            num_transpose_consts=num_callee_consts,
            num_res=num_res,
        )
        linear = [type(x) is Undefined for x in args[n + num_res :]]
        return *[None] * (n + num_res), *[
            ct if wanted else None for ct, wanted in zip(outs, linear, strict=True)
        ]

    def batch(
        self, axis: Axis, args: Sequence[Value], dims: Dims, **params: Unpack[LinearCallParams]
    ) -> Any:
        callee, num_callee_consts, num_transpose_consts, num_res = (
            params["callee"],
            params["num_callee_consts"],
            params["num_transpose_consts"],
            params["num_res"],
        )
        n = num_callee_consts + num_transpose_consts
        mapped = [d is not None for d in dims]
        fixed = n + num_res
        consts, transpose_consts, residuals = (
            mapped[:num_callee_consts],
            mapped[num_callee_consts:n],
            mapped[n:fixed],
        )
        # All linear values are mapped, so that the two functions stay transposes of each other.
        xs, ys = [True] * (len(args) - fixed), [True] * len(callee.out_avals)
        first, _ = batch_jaxpr(callee, axis, [*consts, *residuals, *xs], ys)
        second, _ = batch_jaxpr(
            params["transposed"], axis, [*transpose_consts, *residuals, *ys], xs
        )
        operands = [
            x if d is None and i < fixed else array_ops.to_axis(x, d, axis.size, 0)
            for i, (x, d) in enumerate(zip(args, dims, strict=True))
        ]
        outs = self.call(
            *first.consts,
            *operands[:num_callee_consts],
            *second.consts,
            *operands[num_callee_consts:],
            callee=hoist_consts(first.jaxpr),
            transposed=hoist_consts(second.jaxpr),
            num_callee_consts=num_callee_consts + len(first.consts),
            num_transpose_consts=num_transpose_consts + len(second.consts),
            num_res=num_res,
        )
        return outs, (0,) * len(outs)

    def uses_axis(self, name: object, params: Params) -> bool:
        return name is not None and any(
            jaxpr_uses_axis(params[p].jaxpr, name) for p in ("callee", "transposed")
        )


linear_call_p = LinearCall()


@tracebacks.api_boundary
def linear_call(
    fun: Callable[..., object],
    fun_transpose: Callable[..., object],
    residual_args: object,
    linear_args: object,
) -> Any:
    """fun(residual_args, linear_args), linear in linear_args, whose transpose is what
    `fun_transpose` says.

    fun: a function of two trees of arrays. fun_transpose(residual_args, cotangents of fun's
    results) gives a tree like linear_args, and is taken at its word. Reverse mode and
    `linear_transpose` call it; the transpose of that is fun again. Raises TypeError if
    fun_transpose returns another tree or other types than those of linear_args, or for a derivative
    with respect to residual_args.

    >>> import teucer as jax
    >>> from teucer.custom_derivatives import linear_call
    >>> third = lambda x: linear_call(lambda n, x: x / n, lambda n, ct: ct / n, 3., x)
    >>> jax.linear_transpose(third, 1.)(6.)
    (Array(2., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "linear_call")
    check_callable(fun_transpose, "linear_call")
    residuals, res_tree = pytrees.tree_flatten(residual_args)
    xs, tree = pytrees.tree_flatten(linear_args)
    res_avals, avals = [typeof(x) for x in residuals], [typeof(x) for x in xs]
    f = FlatFunction(fun, _pair(res_tree, tree), "linear_call")
    jaxpr, consts = stage_flat(f, [*res_avals, *avals], f.info)
    out_tree = f.tree
    cts = [aval.cotangent_aval() for aval in jaxpr.out_avals]
    f = FlatFunction(fun_transpose, _pair(res_tree, out_tree), "linear_call")
    transposed, transpose_consts = stage_flat(f, [*res_avals, *cts], f.info)
    if f.tree != tree:
        raise TypeError(
            "transpose output pytree structure must match that of linear inputs, got output "
            f"structure {f.tree} and input structure {tree}."
        )
    wanted = [aval.cotangent_aval() for aval in avals]
    if any(
        a.shape != b.shape or a.dtype != b.dtype
        for a, b in zip(transposed.out_avals, wanted, strict=True)
    ):
        raise TypeError(
            "linear_call: the transpose's results must have the types of the linear arguments.\n"
            f"    results: {', '.join(a.str_short(True) for a in transposed.out_avals)}\n"
            f"    linear_args: {', '.join(a.str_short(True) for a in avals)}"
        )
    outs = linear_call_p.call(
        *consts,
        *transpose_consts,
        *residuals,
        *xs,
        callee=hoist_consts(jaxpr),
        transposed=hoist_consts(transposed),
        num_callee_consts=len(consts),
        num_transpose_consts=len(transpose_consts),
        num_res=len(residuals),
    )
    return pytrees.tree_unflatten(out_tree, outs)


def _pair(first: PyTreeDef, second: PyTreeDef) -> Any:
    """The tree of a pair of trees."""
    return pytrees.treedef_tuple([first, second])
