"""The rules of `sparsify` for operations on arrays.

Rule(spenv, *spvalues, **params) -> spvalues.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core.primitive import Primitive
from teucer._core.trace import EVAL, Tracer, typeof, using
from teucer._derived.linear_call import linear_call_p
from teucer._derived.rules_table import Rules
from teucer._sparse import bcoo, bcsr
from teucer._sparse.bcoo_arith import dense_at
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_shapes import full_batch
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.spenv import SparsifyEnv, SparsifyValue, array_of, spvalue_of
from teucer.lax._families import Elementwise
from teucer.lax._structure import add_any_p

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Params


Rule = Callable[..., Sequence[SparsifyValue]]
DENSE_RESULT = (
    "sparse rule for {} is not implemented because it would result in dense output. If this is "
    "your intent, use sparse.todense() to convert your arguments to dense matrices."
)


def on_arrays(f: Callable[..., object]) -> Rule:
    """A rule for sparse values, made of a function of arrays."""

    @functools.wraps(f)
    def rule(
        spenv: SparsifyEnv, *spvalues: SparsifyValue, **params: Any
    ) -> Sequence[SparsifyValue]:
        out = f(*(array_of(spenv, v) for v in spvalues), **params)
        return (spvalue_of(spenv, out),)

    return rule


def first_sparse(f: Callable[..., object]) -> Rule:
    """A rule of an operation whose first operand alone may be sparse."""

    @functools.wraps(f)
    def rule(
        spenv: SparsifyEnv, *spvalues: SparsifyValue, **params: Any
    ) -> Sequence[SparsifyValue]:
        if any(v.is_sparse() for v in spvalues[1:]):
            raise NotImplementedError(
                f"sparse rule for {f.__name__} is implemented where the first operand alone is "
                "sparse.\n  Pass todense() of the others."
            )
        return on_arrays(f)(spenv, *spvalues, **params)

    return rule


# --- element by element ---------------------------------------------------------------------------


def with_data(spenv: SparsifyEnv, spvalue: SparsifyValue, data: Array) -> SparsifyValue:
    """A sparse value with other elements at the same places."""
    return spvalue._replace(data_ref=spenv._push(data))


def once(spenv: SparsifyEnv, spvalue: SparsifyValue) -> SparsifyValue:
    """A sparse value that stores each place once."""
    if spvalue.unique_indices:
        return spvalue
    mat = array_of(spenv, spvalue)
    if mat.n_sparse == 0 and mat.nse == 1:
        return spvalue
    summed = (bcoo.bcoo_sum_duplicates if spvalue.is_bcoo() else bcsr.bcsr_sum_duplicates)(
        mat, nse=mat.nse
    )
    return spvalue_of(spenv, summed)


_ADDITIVE = {lax.neg_p, lax.real_p, lax.imag_p, lax.conj_p, lax.copy_p, lax.stop_gradient_p}


def elementwise(
    primitive: Primitive,
    spenv: SparsifyEnv,
    spvalues: Sequence[SparsifyValue],
    params: dict[str, Any],
) -> Sequence[SparsifyValue] | None:
    """An operation on the elements of one sparse value and scalars: it acts on the stored elements,
    if it maps 0 to 0.

    None if it is not such an operation. Raises NotImplementedError if the result would be dense.
    """
    if type(primitive) is not Elementwise and primitive not in (
        *_ADDITIVE,
        lax.convert_element_type_p,
        lax.reduce_precision_p,
    ):
        return None
    sparse = [v for v in spvalues if v.is_sparse()]
    scalars = [spenv.data(v) for v in spvalues if v.is_dense()]
    known = not any(isinstance(x, Tracer) or typeof(x).shape for x in scalars)
    if primitive is lax.integer_pow_p and params["y"] <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent {params['y']}: it would "
            "result in dense output. If this is your intent, use sparse.todense()."
        )
    if known and not _keeps_zero(primitive, spenv, spvalues, params):
        raise NotImplementedError(DENSE_RESULT.format(primitive))
    if len(sparse) != 1 or not known:
        return None
    (value,) = sparse
    if primitive not in _ADDITIVE and not _widens(primitive, spenv, value, params):
        value = once(spenv, value)
    operands = [spenv.data(value) if v.is_sparse() else spenv.data(v) for v in spvalues]
    (data,) = primitive.call(*operands, **params)
    return (with_data(spenv, value, data),)


def _widens(primitive: Primitive, spenv: SparsifyEnv, value: SparsifyValue, params: Params) -> bool:
    """Whether it is a conversion that commutes with addition."""
    if primitive is not lax.convert_element_type_p:
        return False
    old, new = typeof(spenv.data(value)).dtype, np.dtype(params["new_dtype"])
    if not dtypes.issubdtype(new, np.inexact) or dtypes.issubdtype(old, np.complexfloating):
        return bool(old == new)
    return not dtypes.issubdtype(old, np.floating) or bool(
        dtypes.finfo(new).nmant >= dtypes.finfo(old).nmant
    )


def _keeps_zero(
    primitive: Primitive, spenv: SparsifyEnv, spvalues: Sequence[SparsifyValue], params: Params
) -> bool:
    with using(EVAL):
        operands = [
            np.zeros((), typeof(spenv.data(v)).dtype) if v.is_sparse() else spenv.data(v)
            for v in spvalues
        ]
        (out,) = primitive.call(*operands, **params)
        return bool(np.asarray(out) == 0)


def _mul(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue) -> Sequence[SparsifyValue]:
    if x.is_sparse() and y.is_sparse():
        shared = x.indices_ref == y.indices_ref and x.indptr_ref == y.indptr_ref
        if shared and x.unique_indices and y.unique_indices:
            return (with_data(spenv, x, lax.mul(spenv.data(x), spenv.data(y))),)
        a, b = _as_bcoo(spenv, x), _as_bcoo(spenv, y)
        return (_like(spenv, x, bcoo.bcoo_multiply_sparse(a, b)),)
    if x.is_dense():
        x, y = y, x
    return (_times_dense(spenv, x, spenv.data(y)),)


def _times_dense(
    spenv: SparsifyEnv, x: SparsifyValue, y: Array, op: Callable[[Any, Any], Any] = lax.mul
) -> SparsifyValue:
    """op(sparse value, dense array), which is 0 where the first is."""
    y = jnp.asarray(y)
    if y.ndim == 0:
        data = spenv.data(x)
        return with_data(spenv, x, op(data, lax.convert_element_type(y, typeof(data).dtype)))
    mat = _as_bcoo(spenv, x)
    factor = dense_at(mat.indices, y, mat.shape, mat.n_dense, 1 if op is lax.div else 0)
    shape = np.broadcast_shapes(mat.data.shape, factor.shape)
    data = op(jnp.broadcast_to(mat.data, shape), jnp.broadcast_to(factor, shape))
    if x.is_bcsr() and typeof(spenv.data(x)).shape != data.shape:
        return spvalue_of(spenv, BCSR.from_bcoo(BCOO((data, mat.indices), shape=mat.shape)))
    return with_data(spenv, x, data)


def _div(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue) -> Sequence[SparsifyValue]:
    if y.is_sparse():
        raise NotImplementedError(
            "Division by a sparse array is not implemented because it would result in dense "
            "output. If this is your intent, use sparse.todense() to convert your arguments to a "
            "dense array."
        )
    return (_times_dense(spenv, x, spenv.data(y), lax.div),)


def _add(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue) -> Sequence[SparsifyValue]:
    if x.is_sparse() and y.is_sparse():
        if x.shape != y.shape:
            raise NotImplementedError(
                f"Addition between sparse matrices of different shapes, {x.shape} and {y.shape}.\n"
                "  Broadcast one of them first, by sparse.bcoo_broadcast_in_dim."
            )
        if x.indices_ref == y.indices_ref and x.indptr_ref == y.indptr_ref:
            return (with_data(spenv, x, lax.add(spenv.data(x), spenv.data(y))),)
        a, b = _as_bcoo(spenv, x), _as_bcoo(spenv, y)
        n_batch, n_dense = min(a.n_batch, b.n_batch), min(a.n_dense, b.n_dense)
        a, b = (bcoo.bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in (a, b))
        (ad, ai), (bd, bi) = (full_batch(m) for m in (a, b))
        kind = np.promote_types(ai.dtype, bi.dtype)
        data = lax.concatenate([ad, bd], n_batch)
        return (
            _like(
                spenv,
                x,
                BCOO(
                    (data, lax.concatenate([ai.astype(kind), bi.astype(kind)], n_batch)),
                    shape=x.shape,
                ),
            ),
        )
    if x.is_dense():
        x, y = y, x
    dense = spenv.data(y)
    if typeof(dense).shape != x.shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the "
            "output shape is larger than Y.shape. This is to prevent silent densification of a "
            "large sparse array. If this is your intent, you can explicitly cast the sparse array "
            "to a dense matrix."
        )
    return (spenv.dense(lax.add(_as_bcoo(spenv, x).todense(), dense)),)


def _sub(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue) -> Sequence[SparsifyValue]:
    negative = lax.neg(spenv.data(y))
    return _add(spenv, x, with_data(spenv, y, negative) if y.is_sparse() else spenv.dense(negative))


def _as_bcoo(spenv: SparsifyEnv, x: SparsifyValue) -> BCOO:
    mat: BCOO = array_of(spenv, x) if x.is_bcoo() else array_of(spenv, x).to_bcoo()
    return mat


def _like(spenv: SparsifyEnv, x: SparsifyValue, mat: BCOO) -> SparsifyValue:
    """An array as a value of the format of x, where that has its layout."""
    return spvalue_of(spenv, BCSR.from_bcoo(mat) if x.is_bcsr() and mat.n_sparse == 2 else mat)


# --- structure and contraction --------------------------------------------------------------------


def _dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, preferred_element_type: Any = None, **params: Any
) -> Any:
    given = {
        "dimension_numbers": dimension_numbers,
        "preferred_element_type": preferred_element_type,
    }
    if isinstance(lhs, BCSR) or isinstance(rhs, BCSR):
        return bcsr.bcsr_dot_general(lhs, rhs, **given)
    return bcoo.bcoo_dot_general(lhs, rhs, **given)


def _reduce_sum(mat: BCOO, *, axes: Sequence[int], out_sharding: Any = None) -> Any:
    out = bcoo.bcoo_reduce_sum(mat, axes=axes)
    return out.todense() if not out.shape else out


def _concatenate(*operands: Any, dimension: int) -> Any:
    mats = [x if isinstance(x, BCOO) else None for x in operands]
    n_batch = min(mat.n_batch for mat in mats if mat is not None)
    n_dense = min(mat.n_dense for mat in mats if mat is not None)
    same = [
        bcoo.bcoo_update_layout(mat, n_batch=n_batch, n_dense=n_dense)
        if mat is not None
        else bcoo.bcoo_fromdense(
            x,
            nse=math.prod(np.shape(x)[n_batch : len(np.shape(x)) - n_dense]),
            n_batch=n_batch,
            n_dense=n_dense,
        )
        for mat, x in zip(mats, operands, strict=True)
    ]
    kind = functools.reduce(np.promote_types, [mat.indices.dtype for mat in same])
    same = [
        BCOO(
            (mat.data, mat.indices.astype(kind)),
            shape=mat.shape,
            indices_sorted=mat.indices_sorted,
            unique_indices=mat.unique_indices,
        )
        for mat in same
    ]
    return bcoo.bcoo_concatenate(same, dimension=dimension)


def _stack(*operands: Any, axis: int) -> Any:
    shape = list(operands[0].shape)
    shape.insert(axis, 1)
    dims = [i + (i >= axis) for i in range(len(shape) - 1)]
    wide = [
        _broadcast_in_dim(x, shape=tuple(shape), broadcast_dimensions=dims)
        if isinstance(x, BCOO)
        else lax.expand_dims(x, [axis])
        for x in operands
    ]
    return _concatenate(*wide, dimension=axis)


def _unstack(spenv: SparsifyEnv, x: SparsifyValue, *, axis: int) -> Sequence[SparsifyValue]:
    parts = _split(spenv, x, sizes=(1,) * x.shape[axis], axis=axis)
    return [
        spvalue_of(spenv, bcoo.bcoo_squeeze(array_of(spenv, part), dimensions=(axis,)))
        for part in parts
    ]


def _reshape(mat: BCOO, *, new_sizes: Any, dimensions: Any = None, sharding: Any = None) -> Any:
    # New and old axes of size 1 alone: any kind of axis may have them.
    new = tuple(new_sizes)
    if dimensions is None and [n for n in new if n != 1] == [n for n in mat.shape if n != 1]:
        squeezed = bcoo.bcoo_squeeze(mat, dimensions=[i for i, n in enumerate(mat.shape) if n == 1])
        return bcoo.bcoo_broadcast_in_dim(
            squeezed, shape=new, broadcast_dimensions=[i for i, n in enumerate(new) if n != 1]
        )
    return bcoo.bcoo_reshape(mat, new_sizes=new, dimensions=dimensions, sharding=sharding)


def _broadcast_in_dim(
    mat: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any = None
) -> Any:
    broadcast = bcsr.bcsr_broadcast_in_dim if isinstance(mat, BCSR) else bcoo.bcoo_broadcast_in_dim
    return broadcast(mat, shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding)


def _dynamic_slice(mat: BCOO, *starts: Any, slice_sizes: Any) -> Any:
    return bcoo.bcoo_dynamic_slice(mat, starts, slice_sizes)


def _gather(
    mat: BCOO, indices: ArrayLike, *, dimension_numbers: Any, slice_sizes: Any, **params: Any
) -> Any:
    return bcoo.bcoo_gather(mat, indices, dimension_numbers, slice_sizes, **params)


def _split(
    spenv: SparsifyEnv, x: SparsifyValue, *, sizes: Sequence[int], axis: int
) -> Sequence[SparsifyValue]:
    mat, ends = array_of(spenv, x), np.cumsum(sizes)
    parts = []
    for size, end in zip(sizes, ends, strict=True):
        start, limit = [0] * mat.ndim, list(mat.shape)
        start[axis], limit[axis] = int(end - size), int(end)
        parts.append(
            spvalue_of(spenv, bcoo.bcoo_slice(mat, start_indices=start, limit_indices=limit))
        )
    return parts


def _rev(mat: BCOO, *, dimensions: Any) -> Any:
    return bcoo.bcoo_rev(mat, dimensions)


def _convolution(lhs: ArrayLike, rhs: ArrayLike, **params: Any) -> Any:
    return bcoo.bcoo_conv_general_dilated(lhs, rhs, **params)


_SPARSE_SYSTEMS = "what it solves is dense; sparse systems are solved by sparse.linalg.spsolve"
EXEMPT: dict[Primitive, str] = {
    lax.linear_solve_p: _SPARSE_SYSTEMS,
    linear_call_p: "its transpose is a function of dense arrays",
}

sparse_rules_bcoo: Rules[Callable[..., Any]] = Rules(
    "sparse",
    {
        lax.mul_p: _mul,
        lax.div_p: _div,
        lax.add_p: _add,
        add_any_p: _add,
        lax.sub_p: _sub,
        lax.dot_general_p: on_arrays(_dot_general),
        lax.reduce_sum_p: on_arrays(_reduce_sum),
        lax.transpose_p: on_arrays(bcoo.bcoo_transpose),
        lax.broadcast_in_dim_p: on_arrays(_broadcast_in_dim),
        lax.reshape_p: on_arrays(_reshape),
        lax.squeeze_p: on_arrays(bcoo.bcoo_squeeze),
        lax.rev_p: on_arrays(_rev),
        lax.concatenate_p: on_arrays(_concatenate),
        lax.slice_p: on_arrays(bcoo.bcoo_slice),
        lax.split_p: _split,
        lax.stack_p: on_arrays(_stack),
        lax.unstack_p: _unstack,
        lax.dynamic_slice_p: first_sparse(_dynamic_slice),
        lax.gather_p: first_sparse(_gather),
        lax.conv_general_dilated_p: on_arrays(_convolution),
    },
    opaque=EXEMPT,
)
# Other operations on BCSR arrays go by way of BCOO.
sparse_rules_bcsr: Rules[Callable[..., Any]] = Rules(
    "sparse",
    {
        lax.mul_p: _mul,
        lax.div_p: _div,
        lax.add_p: _add,
        add_any_p: _add,
        lax.sub_p: _sub,
        lax.dot_general_p: on_arrays(_dot_general),
        lax.broadcast_in_dim_p: on_arrays(_broadcast_in_dim),
    },
    opaque=EXEMPT,
)
