"""Jacobians and Hessians as sparse arrays.

Which elements are not zero is found from the program, and columns that share no row are computed
together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import numpy as jnp
from teucer._base import dtypes, tracebacks
from teucer._core.calls import as_indices, is_index
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._derived.forward import jvp
from teucer._derived.stages import jit
from teucer._derived.vjp import vjp
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.colouring import colouring
from teucer._sparse.sparsity import sparsity
from teucer._transform.reverse import grad
from teucer._transform.vmap import vmap
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Avals, Value


class Plan(NamedTuple):
    """How a Jacobian is computed. pattern: bool[m, n], in the format CSR; colours: of its columns,
    or rows; evaluations: how many products with the Jacobian it takes; run: leaves -> the elements
    of the pattern, and the values of the function's aux."""

    pattern: Any
    colours: Any
    evaluations: int
    run: Callable[..., Any]


def sparse_jacobian(
    fun: Callable[..., object], argnums: Any, has_aux: bool, forward: bool
) -> Callable[..., Any]:
    """The Jacobian of fun as BCOO arrays, in the tree of outputs, then arguments.

    forward: whether columns are computed, by jvp, or rows, by vjp.
    """
    single = is_index(argnums)
    plans: dict[Any, tuple[Plan, Any, Any]] = {}

    @tracebacks.boundary_of(fun)
    def jacobian_fun(*args: Any) -> Any:
        positions = [i % len(args) for i in as_indices(argnums, "argnums", "jacobian")]
        chosen, in_tree = pytrees.tree_flatten([args[i] for i in positions])
        others = [x for i, x in enumerate(args) if i not in positions]
        rest, rest_tree = pytrees.tree_flatten(others)
        for x in chosen:
            if not dtypes.issubdtype(typeof(x).dtype, np.floating):
                raise TypeError(
                    "sparse Jacobian: arguments must be real floating numbers, got "
                    f"{typeof(x).dtype}."
                )

        def flat(leaves: Sequence[Value], rest: Sequence[object]) -> Any:
            given = iter(pytrees.tree_unflatten(in_tree, leaves))
            fixed = iter(pytrees.tree_unflatten(rest_tree, rest))
            return fun(*(next(given) if i in positions else next(fixed) for i in range(len(args))))

        key = (in_tree, rest_tree, tuple(typeof(x) for x in (*chosen, *rest)))
        if key not in plans:
            plans[key] = _plan(flat, chosen, rest, has_aux, forward)
        plan, out_tree, out_avals = plans[key]
        data, aux = plan.run(chosen, rest)
        blocks = _blocks(plan.pattern, data, out_avals, [typeof(x) for x in chosen])
        trees = [pytrees.tree_unflatten(in_tree, row) for row in blocks]
        out = pytrees.tree_unflatten(
            out_tree, [tree[0] if single else tuple(tree) for tree in trees]
        )
        return (out, aux) if has_aux else out

    jacobian_fun.plans = plans  # type: ignore[attr-defined]
    return jacobian_fun


def _plan(
    flat: Callable[..., Any],
    chosen: Sequence[Any],
    rest: Sequence[Any],
    has_aux: bool,
    forward: bool,
) -> Any:
    trees: list[Any] = []
    count = len(chosen)

    def outputs(leaves: Sequence[Any], rest: Sequence[Any]) -> tuple[list[Any], Any]:
        out = flat(leaves, rest)
        out, aux = out if has_aux else (out, None)
        found, tree = pytrees.tree_flatten(out)
        trees[:] = [tree]
        return [jnp.asarray(y) for y in found], aux

    closed = stage_jaxpr(
        lambda *xs: outputs(xs[:count], xs[count:])[0], [typeof(x) for x in (*chosen, *rest)]
    )
    sizes = [math.prod(typeof(x).shape) for x in chosen]
    pattern = sparsity(closed)[:, : sum(sizes)]
    grid = typeof(chosen[0]).shape if count == 1 else ()
    avals = closed.out_avals
    if forward:
        colours = colouring(pattern, grid)
    else:
        colours = colouring(pattern.T.tocsr(), avals[0].shape if len(avals) == 1 else ())
    coo = pattern.tocoo()
    row, col = coo.row.astype(np.int32), coo.col.astype(np.int32)
    evaluations = int(colours.max(initial=-1)) + 1
    at = colours[col if forward else row]

    run = _program(outputs, avals, evaluations, forward)
    operands = [jnp.asarray(x) for x in (colours, at, row if forward else col)]
    return (
        Plan(
            pattern,
            colours,
            evaluations,
            lambda leaves, rest: run(list(leaves), list(rest), *operands),
        ),
        trees[0],
        avals,
    )


def _program(
    outputs: Callable[..., Any], out_avals: Sequence[ShapedArray], evaluations: int, forward: bool
) -> Callable[..., Any]:
    """A function that computes the elements of a Jacobian, and the aux, from colours and the places
    of the elements."""

    @jit
    def run(chosen: Sequence[Any], rest: Sequence[Any], colours: Any, at: Any, other: Any) -> Any:
        seeds = colours[None] == jnp.arange(evaluations, dtype=colours.dtype)[:, None]
        if forward:

            def product(seed: Any) -> Any:
                tangents = _split(seed, [typeof(x) for x in chosen])
                _, moved, _ = jvp(lambda *xs: outputs(xs, rest), chosen, tangents, has_aux=True)
                return _joined(moved)
        else:
            _, pull, _ = vjp(lambda *xs: outputs(xs, rest), *chosen, has_aux=True)

            def product(seed: Any) -> Any:
                return _joined(pull(_split(seed, out_avals)))

        found = vmap(product)(seeds)
        return found[at, other], outputs(chosen, rest)[1]

    return run


def _split(flat: Any, avals: Sequence[Any]) -> list[Any]:
    ends = np.cumsum([math.prod(a.shape) for a in avals])
    return [
        flat[end - math.prod(a.shape) : end].reshape(a.shape).astype(a.tangent_aval().dtype)
        for a, end in zip(avals, ends, strict=True)
    ]


def _joined(leaves: Sequence[Any]) -> Any:
    return jnp.concatenate([x.reshape(-1) for x in leaves])


def _blocks(pattern: Any, data: Array, out_avals: Avals, in_avals: Avals) -> list[list[BCOO]]:
    """The Jacobian of each result by each argument, of the elements of the whole in the order of
    the pattern."""
    coo = pattern.tocoo()
    blocks, row_start = [], 0
    for out in out_avals:
        row, col_start = [], 0
        m = math.prod(out.shape)
        for arg in in_avals:
            n = math.prod(arg.shape)
            alone = len(out_avals) == len(in_avals) == 1
            own = (
                slice(None)
                if alone
                else np.flatnonzero(
                    (coo.row >= row_start)
                    & (coo.row < row_start + m)
                    & (coo.col >= col_start)
                    & (coo.col < col_start + n)
                )
            )
            places = (
                *np.unravel_index(coo.row[own] - row_start, out.shape or (1,))[: len(out.shape)],
                *np.unravel_index(coo.col[own] - col_start, arg.shape or (1,))[: len(arg.shape)],
            )
            count = len(coo.row[own])
            indices = (
                np.stack(places, 1).astype(np.int32) if places else np.zeros((count, 0), np.int32)
            )
            row.append(
                BCOO(
                    (data if alone else data[own], indices),
                    shape=(*out.shape, *arg.shape),
                    indices_sorted=True,
                    unique_indices=True,
                )
            )
            col_start += n
        blocks.append(row)
        row_start += m
    return blocks


def sparse_hessian(fun: Callable[..., Any], argnums: Any, has_aux: bool) -> Callable[..., Any]:
    """The Hessian of fun as BCOO arrays: columns of the Jacobian of its gradient."""
    return sparse_jacobian(grad(fun, argnums, has_aux=has_aux), argnums, has_aux, True)
