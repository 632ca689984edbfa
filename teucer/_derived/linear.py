"""Transposes of linear functions, split passes, closures as arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import dtypes, tracebacks
from teucer._core import array_ops
from teucer._core.calls import FlatFunction, as_indices, check_callable, is_index
from teucer._core.jaxpr import eval_jaxpr
from teucer._core.names import TRANSPOSE, within
from teucer._core.primitive import Undefined
from teucer._core.stage import stage_flat
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._derived.vjp import vjp
from teucer._transform.jit import jit
from teucer._transform.reverse import fix_other_arguments, positions_of, refuse_reduce_axes
from teucer._transform.transpose import backward_pass
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.jaxpr import Jaxpr
    from teucer._core.typing import Array, Avals, AxisName, Cotangent, Value, Values
    from teucer._xla.pytree import PyTreeDef


boundary = tracebacks.api_boundary


@boundary
def linear_transpose(
    fun: Callable[..., object], *primals: Value, reduce_axes: Sequence[AxisName] = ()
) -> Callable[..., Any]:
    """The transpose of a function that is linear: from cotangents of its results to cotangents of
    its arguments.

    primals: arrays or ShapeDtypeStructs that say the arguments' types; their values do not matter.
    Raises TypeError if arguments are integers and results are not, or the reverse.

    >>> import teucer as jax
    >>> transpose = jax.linear_transpose(lambda x: 3 * x, 1.)
    >>> transpose(2.)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "linear_transpose")
    refuse_reduce_axes(reduce_axes, "linear_transpose")
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    avals = [_as_aval(x) for x in flat]
    f = FlatFunction(fun, in_tree, "linear_transpose")
    jaxpr, consts = stage_flat(f, avals, f.info)
    out_avals, out_tree = jaxpr.out_avals, f.tree
    if not any(
        all(dtypes.issubdtype(a.dtype, kind) for a in [*avals, *out_avals])
        for kind in (np.inexact, np.integer)
    ):
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and "
            f"integer -> integer functions, but got {[a.dtype.name for a in avals]} -> "
            f"{[a.dtype.name for a in out_avals]}."
        )

    return pytrees.Partial(
        functools.partial(_transposed, jaxpr, tuple(avals), in_tree, out_tree), tuple(consts)
    )


@boundary
def _transposed(
    jaxpr: Jaxpr, avals: Avals, in_tree: PyTreeDef, out_tree: PyTreeDef, consts: Values, ct: Value
) -> Any:
    cts, tree = pytrees.tree_flatten(ct)
    if tree != out_tree:
        raise TypeError(
            f"cotangent tree does not match function output, expected {out_tree} but got {tree}"
        )
    for c, a in zip(cts, jaxpr.out_avals, strict=True):
        if typeof(c).shape != a.shape or typeof(c).dtype != a.dtype:
            raise TypeError(
                f"cotangent type does not match function output, expected {a.str_short()} but got "
                f"{typeof(c).str_short()}"
            )
    with within(TRANSPOSE):
        in_cts = backward_pass(jaxpr, consts, [Undefined(a) for a in avals], cts)
    return pytrees.tree_unflatten(in_tree, [array_ops.instantiate(c) for c in in_cts])


def _as_aval(x: Value) -> Any:
    if isinstance(x, ShapeDtypeStruct):
        return x.aval
    if not is_valid_type(x) and hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapedArray(tuple(x.shape), x.dtype)
    return typeof(x)


@boundary
def fwd_and_bwd(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> Any:
    """The forward and backward passes of a function as two functions, each of which can be jitted
    by itself.

    fwd(*args) gives (output, residuals), with has_aux (output, residuals, aux); bwd(residuals,
    cotangent) gives the cotangents of the arguments `argnums`.
    """
    check_callable(fun, "fwd_and_bwd")
    single = is_index(argnums)
    numbers = as_indices(argnums, "argnums", "fwd_and_bwd")

    def fwd(*args: object, **kwargs: object) -> Any:
        positions = positions_of(numbers, args, fun, "fwd_and_bwd")
        f = fix_other_arguments(fun, args, kwargs, positions)
        return vjp(f, *(args[i] for i in positions), has_aux=has_aux)

    def bwd(residuals: Callable[..., Any], ct: Cotangent) -> Any:
        cts = residuals(ct)
        return cts[0] if single else cts

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


def closure_convert(
    fun: Callable[..., object], *example_args: Value
) -> tuple[Callable[..., Any], list[Any]]:
    """A function whose closed-over traced arrays are arguments: (converted, values), called as
    converted(*args, *values).

    For custom differentiation rules of functions that take functions. Only arrays that are being
    differentiated are lifted.
    """
    flat, in_tree = pytrees.tree_flatten(example_args)
    f = FlatFunction(fun, in_tree, "closure_convert")
    jaxpr, consts = stage_flat(f, [_as_aval(x) for x in flat], f.info)
    out_tree = f.tree
    lifted = [_may_be_differentiated(c) for c in consts]
    hoisted = [c for c, lift in zip(consts, lifted, strict=True) if lift]
    fixed = [c for c, lift in zip(consts, lifted, strict=True) if not lift]

    def converted(*args: object) -> Any:
        n = len(args) - len(hoisted)
        flat_args, tree = pytrees.tree_flatten(args[:n])
        if tree != in_tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the structure of "
                f"the example arguments.\n    expected: {in_tree}\n    got: {tree}\n  Call it as "
                "converted(*args, *values): the lifted values follow the arguments, one by one."
            )
        values, rest = iter(args[n:]), iter(fixed)
        all_consts = [next(values) if lift else next(rest) for lift in lifted]
        return pytrees.tree_unflatten(out_tree, eval_jaxpr(jaxpr, all_consts, *flat_args))

    return converted, hoisted


def _may_be_differentiated(x: Value) -> bool:
    return isinstance(x, Tracer) and dtypes.issubdtype(typeof(x).dtype, np.inexact)


def saved_input_vjp(
    f: Callable[..., object],
    which: Sequence[bool],
    *primals: Value,
    allow_unused: bool = True,
    allow_opaque: bool = True,
) -> Any:
    """As `vjp`; the backward function takes the arguments marked in `which` again, instead of
    keeping them.

    Returns (output, vjp_fun) with vjp_fun(cotangent, *saved_arguments).
    """
    out, pullback = vjp(f, *primals)
    residuals, tree = pytrees.tree_flatten(pullback)
    saved = [x for x, keep in zip(primals, which, strict=True) if keep]
    leaves = pytrees.tree_leaves(saved)
    index = {id(x): i for i, x in enumerate(leaves)}
    kept = [None if id(r) in index else r for r in residuals]
    places = [index.get(id(r)) for r in residuals]

    def vjp_fun(ct: Array, *args: object) -> Any:
        given = pytrees.tree_leaves(list(args))
        filled = [given[p] if p is not None else r for r, p in zip(kept, places, strict=True)]
        return pytrees.tree_unflatten(tree, filled)(ct)

    return out, vjp_fun
