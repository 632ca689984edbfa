"""Forward-mode differentiation as users call it: `jvp`, `linearize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core.calls import FlatFunction, check_callable
from teucer._core.names import JVP, within
from teucer._core.reference_types import RefType
from teucer._core.trace import typeof
from teucer._core.types import float0
from teucer._derived import linear_programs
from teucer._transform.jvp import jvp_flat
from teucer._transform.linearize import linearize_flat, without_dead
from teucer._transform.reverse import known_part
from teucer._trees import pytrees
from teucer._trees.loose_prefix import spread_bools, tree_of_bools

if TYPE_CHECKING:
    from teucer._core.typing import DType, Value


boundary = tracebacks.api_boundary


@boundary
def jvp(
    fun: Callable[..., object],
    primals: Sequence[Value],
    tangents: Sequence[Value],
    has_aux: bool = False,
) -> Any:
    """Results of a function and their tangents, for tangents of its arguments: forward-mode
    differentiation.

    primals: tuple or list of arguments. tangents: the same trees; arrays of the arguments' shapes
    and tangent dtypes.
    has_aux: `fun` returns (output, aux); then the result is (outputs, tangents, aux).
    Raises TypeError if trees, shapes or dtypes of primals and tangents differ.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.jvp(jnp.square, (3.,), (1.,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "jvp")
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; "
            f"found {type(primals).__name__} and {type(tangents).__name__}."
        )
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    flat_tangents, tangent_tree = pytrees.tree_flatten(tuple(tangents))
    if in_tree != tangent_tree or type(primals) is not type(tangents):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals "
            f"have tree structure {pytrees.tree_structure(primals)} whereas tangents have tree "
            f"structure {pytrees.tree_structure(tangents)}."
        )
    for x, t in zip(flat, flat_tangents, strict=True):
        _check_tangent(x, t)
    f = FlatFunction(fun, in_tree, "jvp", has_aux)
    given = [
        typeof(x).zero if not typeof(t).moves else array_ops.vary(t, typeof(x).vma)
        for x, t in zip(flat, flat_tangents, strict=True)
    ]
    with within(JVP):
        outs, out_tangents = jvp_flat(f, flat, given)
    results = (
        pytrees.tree_unflatten(f.tree, outs),
        pytrees.tree_unflatten(
            f.tree,
            [
                _as_result(array_ops.instantiate(t), y)
                for t, y in zip(out_tangents, outs, strict=True)
            ],
        ),
    )
    return (*results, known_part(f.aux)) if has_aux else results


def _as_result(t: Value, y: Value) -> Value:
    """The tangent of an array as an array. Addition of a number passes a tangent on as it was
    given, a NumPy array say."""
    given = isinstance(t, float | complex | np.ndarray | np.generic) and typeof(t).moves
    return (
        transfer.put(np.asarray(t, typeof(t).dtype), None, aval=typeof(t))
        if given and isinstance(y, ArrayImpl)
        else t
    )


def _check_tangent(x: Value, t: Value) -> None:
    aval, tangent = typeof(x), typeof(t)
    expected = aval.tangent_aval()
    if aval.is_high:
        if expected != tangent:
            raise TypeError(
                f"primal and tangent arguments to jax.jvp do not match; a value of type {aval} "
                f"has tangents of type {expected}, but got one of type {tangent}."
            )
        return
    if aval.unreduced and expected.moves:
        aval.partition.spec.to_tangent_spec()
    if expected.dtype != tangent.dtype:
        raise TypeError(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in "
            "case of int/bool primal dtype the tangent dtype must be float0. Got primal dtype "
            f"{aval.dtype.name} and so expected tangent dtype {_name(expected.dtype)}, but got "
            f"tangent dtype {_name(tangent.dtype)} instead."
        )
    if aval.shape != tangent.shape:
        raise ValueError(
            f"jvp called with different primal and tangent shapes; Got primal shape {aval.shape} "
            f"and tangent shape as {tangent.shape}"
        )


def _name(dtype: DType) -> str:
    return "float0" if dtype == float0 else str(dtype.name)


@boundary
def linearize(
    fun: Callable[..., object], *primals: Value, has_aux: bool = False, in_nzs: object = None
) -> Any:
    """The value of a function, and its derivative there as a linear function of tangents, ready to
    be called often.

    Returns (output, f_jvp), with has_aux (output, f_jvp, aux). f_jvp takes tangents of the trees
    and types of `primals`; it is a pytree, so that it can be passed to transformed functions.
    in_nzs: a tree of bools, a prefix of `primals` in which only the number of children must agree.
    Where it is False the argument's tangent counts as zero. Then `f_jvp.out_nzs` says which outputs
    depend on the others.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> y, f_jvp = jax.linearize(jnp.square, 3.)
    >>> f_jvp(1.)
    Array(6., dtype=float32, weak_type=True)
    """
    check_callable(fun, "linearize")
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    f = FlatFunction(fun, in_tree, "linearize", has_aux)
    moving = None if in_nzs is None else spread_bools(in_nzs, in_tree, "in_nzs", "jax.linearize")
    for i, x in enumerate(flat):
        if (
            type(typeof(x)) is RefType
            and typeof(x).inner.tangent_aval().moves
            and (moving is None or moving[i])
        ):
            raise ValueError(
                f"linearize with respect to a reference, {typeof(x).str_short()}, is not "
                "defined.\n  Use jax.vjp, or jax.jvp, which take references; or pass the array "
                "and make the reference within the function."
            )
    lin = without_dead(linearize_flat(f, flat, moving, f.info))
    f_jvp = LinearMap(
        Pushforward(
            lin.jaxpr,
            in_tree,
            f.tree,
            tuple(map(typeof, flat)),
            tuple(map(typeof, lin.outs)),
            tuple(lin.moving_outs),
        ),
        lin.residuals,
    )
    out = pytrees.tree_unflatten(f.tree, lin.outs)
    return (out, f_jvp, known_part(f.aux)) if has_aux else (out, f_jvp)


@dataclass(frozen=True, slots=True)
class Pushforward:
    """The derivative of a function as a function of residuals and tangents: a linear jaxpr over the
    residuals."""

    jaxpr: Any
    in_tree: Any
    out_tree: Any
    in_avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]
    moving_outs: tuple[bool, ...]

    @property
    def args(self) -> tuple[Any, ...]:
        """The parts of the derivative, the jaxpr first, as libraries read them."""
        return (
            self.jaxpr,
            self.in_tree,
            self.out_tree,
            self.in_avals,
            self.out_avals,
            self.moving_outs,
        )

    def __call__(self, residuals: Sequence[Value], *tangents: Value) -> Any:
        return _push(self, residuals, tangents)


@boundary
def _push(p: Pushforward, residuals: Sequence[Value], tangents: tuple[Value, ...]) -> Any:
    given, tree = pytrees.tree_flatten(tangents)
    if tree != p.in_tree:
        raise TypeError(
            "linearized function called with tangents of another tree than the primals.\n"
            f"    primals: {p.in_tree}\n    tangents: {tree}"
        )
    for a, t in zip(p.in_avals, given, strict=True):
        expected, got = a.tangent_aval(), typeof(t)
        if expected != got and (
            a.is_high or (expected.shape, expected.dtype) != (got.shape, got.dtype)
        ):
            raise ValueError(
                "linearized function called on tangent values inconsistent with the original "
                f"primal values: got tangent aval {typeof(t)} for primal aval {a}"
            )
    given = [array_ops.vary(t, a.vma) for a, t in zip(p.in_avals, given, strict=True)]
    outs = iter(linear_programs.push(p.jaxpr, residuals, *given))
    return pytrees.tree_unflatten(
        p.out_tree,
        [
            next(outs) if m else array_ops.instantiate(a.zero)
            for a, m in zip(p.out_avals, p.moving_outs, strict=True)
        ],
    )


class LinearMap(pytrees.Partial):
    """The derivative of a function at a point. A pytree, whose leaves are the residuals."""

    @property
    def out_nzs(self) -> Any:
        """Which results depend on the arguments that `in_nzs` says: bools in the tree of the
        results."""
        return tree_of_bools(self.func.out_tree, self.func.moving_outs)  # type: ignore[attr-defined]  # a Pushforward


pytrees.register_pytree_node(
    LinearMap,
    lambda node: ((node.args, node.keywords), node.func),
    lambda func, children: LinearMap(func, *children[0], **children[1]),
)
