"""Rules of a `HiPrim` that follow from others that it states.

A class of primitives says, in its body, `lin, linearized = linearize_from_jvp`, or `vjp_fwd,
vjp_bwd_retval = vjp_from_jvp`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._core import array_ops
from teucer._core.primitive import Axis
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._derived.linear import linear_transpose
from teucer._hijax.prim import HiPrim
from teucer._transform.batch import batch_flat, mapped_aval, unmapped_aval
from teucer._trees import pytrees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Dims, Tangents, Value


Rule = Callable[..., Any]


class _Linearize(NamedTuple):
    lin: Rule
    linearized: Rule


class _Vjp(NamedTuple):
    vjp_fwd: Rule
    vjp_bwd_retval: Rule


@pytrees.register_static
@dataclasses.dataclass(frozen=True)
class _Moving:
    """Which arguments are differentiated, as a part of residuals."""

    leaves: tuple[bool, ...]


def _lin(self: HiPrim, nzs_in: object, *primals: Value) -> Any:
    return self(*primals), primals


def _linearized(self: HiPrim, residuals: Sequence[Value], *tangents: Value) -> Any:
    return self.jvp(residuals, tangents)[1]


def _fwd_of_jvp(self: HiPrim, nzs_in: object, *args: object) -> Any:
    return self(*args), (args, _Moving(tuple(pytrees.tree_leaves(nzs_in))))


def _bwd_of_jvp(self: HiPrim, res: Any, outgrad: Any) -> Any:
    primals, moving = res
    return _transposed(self, moving, lambda *tangents: self.jvp(primals, tangents)[1], outgrad)


def _fwd_of_lin(self: HiPrim, nzs_in: object, *args: object) -> Any:
    outs, residuals = self.lin(nzs_in, *args)
    return outs, (residuals, _Moving(tuple(pytrees.tree_leaves(nzs_in))))


def _bwd_of_lin(self: HiPrim, res: Any, outgrad: Any) -> Any:
    residuals, moving = res
    return _transposed(
        self, moving, lambda *tangents: self.linearized(residuals, *tangents), outgrad
    )


def _transposed(self: HiPrim, moving: _Moving, linear: Rule, outgrad: object) -> Any:
    """The cotangents of the arguments that move, zeros of the others."""
    avals = self.in_avals_flat

    def on_moving(*tangents: Value) -> Any:
        rest = iter(tangents)
        leaves = [next(rest) if m else a.zero for m, a in zip(moving.leaves, avals, strict=True)]
        return pytrees.tree_map(
            array_ops.instantiate,
            linear(*self.arguments(leaves)),
            is_leaf=lambda x: isinstance(x, Zero),
        )

    types = [a.tangent_aval() for m, a in zip(moving.leaves, avals, strict=True) if m]
    found = iter(linear_transpose(on_moving, *types)(outgrad))
    return self.arguments(
        [
            next(found) if m else Zero(a.cotangent_aval())
            for m, a in zip(moving.leaves, avals, strict=True)
        ]
    )


# `lin` and `linearized` of a primitive that states `jvp`.
linearize_from_jvp = _Linearize(_lin, _linearized)
# `vjp_fwd` and `vjp_bwd_retval` of a primitive that states `jvp`, or `lin` and `linearized`.
vjp_from_jvp = _Vjp(_fwd_of_jvp, _bwd_of_jvp)
vjp_from_lin = _Vjp(_fwd_of_lin, _bwd_of_lin)


def jvp_from_lin(self: HiPrim, primals: Sequence[Array], tangents: Tangents) -> Any:
    """The rule `jvp` of a primitive that states `lin` and `linearized`."""
    leaves = self.in_tree.flatten_up_to(tuple(tangents))
    outs, residuals = self.lin(self.arguments([type(t) is not Zero for t in leaves]), *primals)
    return outs, self.linearized(residuals, *tangents)


def bdims_at_front(axis_data: Axis, args: Sequence[Value], dims: Dims) -> Any:
    """Arguments of the rule `batch` with the mapped axis in front; those that are not mapped are
    repeated.

    args: a tree of arrays; dims: for each along which axis it is mapped, or None.
    """
    leaves, tree = pytrees.tree_flatten(args)
    axes = pytrees.flatten_axes("dims", tree, dims)
    return pytrees.tree_unflatten(
        tree,
        [
            array_ops.broadcast(x, axis_data.size, 0) if d is None else array_ops.moveaxis(x, d, 0)
            for x, d in zip(leaves, axes, strict=True)
        ],
    )


def unmap_avals(axis_data: Axis, avals: Sequence[ShapedArray], dims: Dims) -> Any:
    """The types of batches, from the types of their elements. avals: a tree of types; dims: for
    each the mapped axis, or None."""
    leaves, tree = pytrees.tree_flatten(avals)
    axes = pytrees.flatten_axes("dims", tree, dims)
    return pytrees.tree_unflatten(
        tree,
        [
            unmapped_aval(a, d, axis_data.size, axis_data.explicit)
            for a, d in zip(leaves, axes, strict=True)
        ],
    )


def vmap_rule(
    axis_data: Axis, f: Rule, in_axes: object, out_axes: object, *, sum_match: bool = False
) -> Rule:
    """A function of batches, for the rule `batch`: f on each element.

    axis_data: the first argument of the rule. in_axes, out_axes: tree prefixes of the mapped axes,
    None for values that are not mapped.
    Arguments and results may be symbolic zeros. sum_match: results that are mapped, though out_axes
    says None, are summed over the batch, as cotangents of unmapped arguments must be; else they
    raise ValueError.
    """

    def mapped(*args: Any) -> Any:
        leaves, tree = pytrees.tree_flatten(args, is_leaf=_is_zero)
        dims = pytrees.flatten_axes(
            "in_axes", tree, tuple(in_axes) if isinstance(in_axes, list) else in_axes
        )
        zeros = {
            i: Zero(mapped_aval(x.aval, d))
            for i, (x, d) in enumerate(zip(leaves, dims, strict=True))
            if _is_zero(x)
        }
        found: list[Any] = []

        def flat(*given: Value) -> list[Any]:
            rest = iter(given)
            outs = f(
                *pytrees.tree_unflatten(
                    tree, [zeros[i] if i in zeros else next(rest) for i in range(len(leaves))]
                )
            )
            outs_flat, out_tree = pytrees.tree_flatten(outs, is_leaf=_is_zero)
            found[:] = [outs_flat, out_tree]
            return [y for y in outs_flat if not _is_zero(y)]

        arrays = [i for i in range(len(leaves)) if i not in zeros]
        results, own = batch_flat(
            flat, axis_data, [leaves[i] for i in arrays], [dims[i] for i in arrays]
        )
        wanted = pytrees.flatten_axes("out_axes", found[1], out_axes)
        pairs = iter(zip(results, own, strict=True))
        return pytrees.tree_unflatten(
            found[1],
            [
                Zero(unmapped_aval(y.aval, d, axis_data.size))
                if _is_zero(y)
                else _matched(*next(pairs), d, axis_data, sum_match)
                for y, d in zip(found[0], wanted, strict=True)
            ],
        )

    return mapped


def _is_zero(x: Array) -> bool:
    return isinstance(x, Zero)


def _matched(y: Array, own: int | None, wanted: int | None, axis: Axis, sum_match: bool) -> Any:
    """A result that is mapped along `own`, mapped along `wanted`."""
    if own is None:
        return y if wanted is None else array_ops.broadcast(y, axis.size, wanted)
    if wanted is not None:
        return array_ops.moveaxis(y, own, wanted % typeof(y).ndim)
    if not sum_match:
        raise ValueError(
            f"vmap_rule: a result of type {typeof(y).str_short()} is mapped along axis {own}, and "
            "out_axes says None.\n  Give its axis, or sum_match=True for cotangents."
        )
    return array_ops.sum_axis(y, own)
