"""Jacobians and Hessians."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes, tracebacks
from teucer._core import array_ops
from teucer._core.calls import FlatFunction, as_indices, check_callable, fun_name, is_index
from teucer._core.jaxpr import eval_jaxpr
from teucer._core.names import VMAP, within
from teucer._core.primitive import Axis
from teucer._core.provided import provided
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, float0, is_valid_type
from teucer._derived import linear_programs
from teucer._transform import reverse
from teucer._transform.batch import batch_flat
from teucer._transform.linearize import linearize_flat
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.jaxpr import Jaxpr
    from teucer._core.typing import Array, Value, Values


boundary = tracebacks.api_boundary


def jacfwd(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    sparse: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function by forward mode, a column at a time: best for few inputs and many
    outputs.

    Arguments as for `grad`; the output may be any tree of arrays. An entry has the output's axes,
    then the input's.
    sparse: whether entries are BCOO arrays (`jax.experimental.sparse`), whose places are found from
    the program.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.jacfwd(lambda x: x ** 2)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun, "jacfwd")
    if sparse:
        return _sparse(fun, argnums, has_aux, holomorphic, "jacfwd")
    return _jacobian(fun, argnums, has_aux, holomorphic, "jacfwd")


def jacrev(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    sparse: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function by reverse mode, a row at a time: best for many inputs and few
    outputs.

    Arguments as for `grad`; the output may be any tree of arrays. An entry has the output's axes,
    then the input's.
    sparse: whether entries are BCOO arrays (`jax.experimental.sparse`), whose places are found from
    the program.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.jacrev(lambda x: x ** 2)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun, "jacrev")
    if sparse:
        return _sparse(fun, argnums, has_aux, holomorphic or allow_int, "jacrev")
    return _jacobian(fun, argnums, has_aux, holomorphic, "jacrev", allow_int)


jacobian = jacrev


def _jacobian(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    op: str,
    allow_int: bool = False,
) -> Callable[..., Any]:
    single = is_index(argnums)
    numbers = as_indices(argnums, "argnums", op)
    columns = _columns if op == "jacfwd" else _rows

    @tracebacks.boundary_of(
        fun,
        f"Jacobian of {fun_name(fun)} with respect to positional argument(s) {argnums}. Takes its "
        "arguments and returns the derivatives of its results by these arguments.",
    )
    def jacobian_fun(*args: object, **kwargs: object) -> Any:
        positions = reverse.positions_of(numbers, args, fun, op)
        f_partial = reverse.fix_other_arguments(fun, args, kwargs, positions)
        chosen = args[positions[0]] if single else tuple(args[i] for i in positions)
        flat, in_tree = pytrees.tree_flatten(chosen)
        for x in flat:
            _check_jacobian_input(x, holomorphic, allow_int, op)

        @functools.wraps(fun)
        def on_leaves(*leaves: Value) -> Any:
            tree = pytrees.tree_unflatten(in_tree, leaves)
            return f_partial(tree) if single else f_partial(*tree)

        f = FlatFunction(on_leaves, pytrees.tree_structure(tuple(flat)), op, has_aux)
        blocks = columns(f, flat, holomorphic, op)
        out = pytrees.tree_unflatten(
            f.tree, [pytrees.tree_unflatten(in_tree, row) for row in blocks]
        )
        return (out, reverse.known_part(f.aux)) if has_aux else out

    return jacobian_fun


def _check_jacobian_input(x: Value, holomorphic: bool, allow_int: bool, op: str) -> None:
    if op != "jacfwd" or holomorphic or not is_valid_type(x):
        reverse.check_grad_input(x, holomorphic, allow_int, op)
    elif not dtypes.issubdtype(typeof(x).dtype, np.floating):
        raise TypeError(
            "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of "
            f"np.floating), but got {typeof(x).dtype.name}. For holomorphic differentiation, pass "
            "holomorphic=True. For differentiation of non-holomorphic functions involving "
            "complex inputs or integer inputs, use jax.jvp directly."
        )


def _check_jacobian_output(aval: ShapedArray, holomorphic: bool, op: str) -> None:
    if holomorphic and not dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise TypeError(
            f"{op} with holomorphic=True requires outputs with complex dtype, but got "
            f"{aval.dtype.name}."
        )
    if op == "jacrev" and not holomorphic and not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(
            "jacrev requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {aval.dtype.name}. For holomorphic differentiation, pass "
            "holomorphic=True. For differentiation of non-holomorphic functions involving "
            "complex outputs, or integer outputs, use jax.vjp directly."
        )


def _columns(
    f: FlatFunction, flat: Sequence[object], holomorphic: bool, op: str
) -> list[list[Any]]:
    lin = linearize_flat(f, flat, debug_info=f.info)
    avals = [typeof(x) for x in flat]
    out_avals = [typeof(y) for y in lin.outs]
    for a in out_avals:
        _check_jacobian_output(a, holomorphic, op)
    rows: list[list[Any]] = [[] for _ in out_avals]
    for k, aval in enumerate(avals):

        def column(
            jaxpr: Jaxpr, residuals: Sequence[Value], k: int = k
        ) -> tuple[list[Any], list[int | None]]:
            def push(t: Value) -> list[Any]:
                tangents = [
                    t if i == k else array_ops.zeros(a.tangent_aval()) for i, a in enumerate(avals)
                ]
                return eval_jaxpr(jaxpr, residuals, *tangents)

            return _on_basis(push, avals[k])

        with within(VMAP):
            how = "column", k, tuple(avals)
            outs, dims = linear_programs.in_one(lin.jaxpr, how, column, lin.residuals)
        moved = iter(
            [
                array_ops.to_axis(y, d, aval.size, np.ndim(y) - (d is not None))
                for y, d in zip(outs, dims, strict=True)
            ]
        )
        for row, a, moving in zip(rows, out_avals, lin.moving_outs, strict=True):
            block = (
                next(moved)
                if moving
                else array_ops.zeros(ShapedArray((*a.shape, aval.size), a.tangent_aval().dtype))
            )
            row.append(_as_weak_as(a, array_ops.reshape(block, (*a.shape, *aval.shape))))
    return rows


def _rows(f: FlatFunction, flat: Sequence[object], holomorphic: bool, op: str) -> list[list[Any]]:
    pullback = reverse.Pullback(f, flat)
    static = pullback.static()
    rows = []
    for k, aval in enumerate(pullback.out_avals):
        _check_jacobian_output(aval, holomorphic, op)

        def row(
            jaxpr: Jaxpr, residuals: Sequence[Value], k: int = k, aval: Any = aval
        ) -> tuple[list[Any], list[int | None]]:
            on_residuals = reverse.Pullback.of(static._replace(jaxpr=jaxpr), list(residuals))

            def pull(ct: Array) -> list[Any]:
                cts = [ct if i == k else a.zero_cotangent for i, a in enumerate(static.out_avals)]
                return [array_ops.instantiate(c) for c in on_residuals.pull_flat(cts)]

            return _on_basis(pull, aval)

        with within(VMAP):
            how = "row", k, static.out_avals, static.moving_outs
            outs, dims = linear_programs.in_one(pullback.jaxpr, how, row, pullback.residuals)
        rows.append(
            [
                _as_weak_as(
                    typeof(x),
                    array_ops.reshape(
                        array_ops.to_axis(y, d, aval.size, 0), (*aval.shape, *typeof(x).shape)
                    ),
                )
                for y, d, x in zip(outs, dims, flat, strict=True)
            ]
        )
    return rows


def _as_weak_as(aval: ShapedArray, block: object) -> Any:
    """A block of a Jacobian with the weak type of the value that is differentiated (jacfwd), or of
    the argument (jacrev)."""
    return array_ops.convert(block, typeof(block).update(weak_type=aval.weak_type))


def _on_basis(f: Callable[[Any], Values], aval: ShapedArray) -> tuple[list[Any], list[int | None]]:
    """The results of a linear function for the standard basis of tangents, and their batch axes."""
    lies_over_mesh = aval.partition is not None or aval.vma
    if aval.symbolic or aval.tangent_aval().dtype == float0 or aval.size < 2 or lies_over_mesh:
        return batch_flat(f, Axis(aval.size), [_basis(aval)], [0])
    return provided.on_basis(f, aval)


def _basis(aval: ShapedArray) -> Any:
    """The standard basis of the tangents of a type, along a leading axis."""
    tangent = aval.tangent_aval()
    if tangent.dtype == float0:
        return np.zeros((aval.size, *aval.shape), float0)
    if aval.symbolic:
        return array_ops.reshape(
            array_ops.identity(aval.size, tangent.dtype), (aval.size, *aval.shape)
        )
    return array_ops.convert(
        np.eye(aval.size).reshape(aval.size, *aval.shape).astype(tangent.dtype),
        ShapedArray((aval.size, *aval.shape), tangent.dtype),
    )


def hessian(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    sparse: bool = False,
) -> Callable[..., Any]:
    """The Hessian of a function, as `jacfwd` of `jacrev`; sparse as for these.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.hessian(lambda x: jnp.sum(x ** 3))(jnp.array([1., 2.]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    if sparse:
        return _sparse(fun, argnums, has_aux, holomorphic, "hessian")
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


def _sparse(
    fun: Callable[..., object], argnums: object, has_aux: bool, others: bool, op: str
) -> Callable[..., Any]:
    if others:
        raise NotImplementedError(
            f"{op}: sparse=True goes with neither holomorphic=True nor allow_int=True."
        )
    # A library far above, which few programs load.
    above = importlib.import_module("teucer._sparse.jacobians")
    made: Callable[..., Any] = (
        above.sparse_hessian(fun, argnums, has_aux)
        if op == "hessian"
        else above.sparse_jacobian(fun, argnums, has_aux, op == "jacfwd")
    )
    return made
