"""Products of matrices in groups of rows (ragged_dot), and of matrices in blocks with scales (scaled_dot)."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from teucer._base import dtypes
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._transform import arith
from teucer.lax._arithmetic import bitwise_and, le, lt, mul, sub
from teucer.lax._cumulative import cumsum
from teucer.lax._dot import dot_general, dot_general_p, element_type_of, output_dtype, remaining
from teucer.lax._precision import canonical_precision
from teucer.lax._selection import select
from teucer.lax._shapes import broadcasted_iota
from teucer.lax._structure import broadcast_to, convert_element_type, expand, full, reshape, transpose, zeros

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general", "ragged_dot_general_p", "scaled_dot", "scaled_dot_p"]


class _RaggedFields(NamedTuple):
    dot_dimension_numbers: Any
    lhs_ragged_dimensions: tuple[int, ...]
    rhs_group_dimensions: tuple[int, ...]


class RaggedDotDimensionNumbers(_RaggedFields):
    """The axes of `ragged_dot_general`: those of `dot_general`, the axis of lhs that is divided into groups, and that of rhs that
    numbers them."""

    __slots__ = ()

    def __new__(cls, dot_dimension_numbers: Any, lhs_ragged_dimensions: Any, rhs_group_dimensions: Any) -> RaggedDotDimensionNumbers:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dot_dimension_numbers
        numbers = ((tuple(lhs_contract), tuple(rhs_contract)), (tuple(lhs_batch), tuple(rhs_batch)))
        return super().__new__(cls, numbers, tuple(lhs_ragged_dimensions), tuple(rhs_group_dimensions))


def _is_outer(numbers: RaggedDotDimensionNumbers) -> bool:
    """Whether the ragged axis of lhs is neither contracted nor a batch axis."""
    ((lhs_contract, _), (lhs_batch, _)), (ragged,), _ = numbers
    return ragged not in lhs_contract and ragged not in lhs_batch


@final
class RaggedDotGeneral(Primitive):
    """dot_general in groups along one axis of lhs, whose sizes are data.

    Where that axis is an outer one (of the result), each group is multiplied by its own matrix of rhs, and what is in no group gives
    zero. Where it is contracted, each group gives a result of its own, along a new first axis. A batch axis is taken group by group,
    which changes nothing but that what is in no group gives zero.
    (C1) one ragged axis; a group axis of rhs if it is an outer one, none otherwise.  (C2) as many group sizes as groups in rhs; they
    are integers.  (C3) the conditions of dot_general.
    """

    __slots__ = ()
    name = "ragged_dot_general"

    def types(self, lhs: Any, rhs: Any, group_sizes: Any, *, ragged_dot_dimension_numbers: Any, precision: Any,
              preferred_element_type: Any, group_offset: Any = None, out_sharding: Any = None) -> Any:
        numbers = ragged_dot_dimension_numbers
        _check_ragged(rhs, group_sizes, numbers)
        axes, groups = numbers.dot_dimension_numbers, numbers.rhs_group_dimensions
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = axes
        # Without its group axis rhs is an operand of dot_general.
        kept = remaining(rhs.ndim, groups)
        single = rhs.update(shape=tuple(rhs.shape[d] for d in kept))
        inner = ((lhs_contract, tuple(kept.index(d) for d in rhs_contract)), (lhs_batch, tuple(kept.index(d) for d in rhs_batch)))
        (out,) = dot_general_p.types(lhs, single, dimension_numbers=inner, precision=precision,
                                     preferred_element_type=preferred_element_type)
        shape = out.shape
        if numbers.lhs_ragged_dimensions[0] in lhs_contract:
            shape = (group_sizes.shape[-1], *shape)
        return (ShapedArray(shape, output_dtype("ragged_dot_general", lhs.dtype, rhs.dtype, preferred_element_type),
                            vma=lhs.vma | rhs.vma),)

    def lower(self, ctx: Any, lhs: Any, rhs: Any, group_sizes: Any, **params: Any) -> Any:
        return ctx.trace(lambda *xs: (_as_dots(*xs, **params),), lhs, rhs, group_sizes)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        lhs, rhs, sizes = primals
        outs = self.bind(lhs, rhs, sizes, **params)
        tangent: Any = typeof(outs[0]).zero
        if type(tangents[0]) is not Zero:
            (tangent,) = self.bind(tangents[0], rhs, sizes, **params)
        if type(tangents[1]) is not Zero:
            tangent = arith.add_cotangents(tangent, self.bind(lhs, tangents[1], sizes, **params)[0])
        return outs, (tangent,)

    def transpose(self, cts: Any, lhs: Any, rhs: Any, group_sizes: Any, *, precision: Any, preferred_element_type: Any,
                  ragged_dot_dimension_numbers: Any, **params: Any) -> Any:
        # The lowering is made of linear operations, of which each knows its transpose.
        (ct,) = cts
        linear = lhs if type(lhs) is Undefined else rhs

        def product(x: Any) -> Any:
            pair = (x, rhs) if type(lhs) is Undefined else (lhs, x)
            return _as_dots(*pair, group_sizes, ragged_dot_dimension_numbers=ragged_dot_dimension_numbers, precision=precision,
                            preferred_element_type=preferred_element_type)

        back = _transposed(product, linear.aval, ct)
        return (back, None, None) if type(lhs) is Undefined else (None, back, None)

    def batch(self, axis: Any, args: Any, dims: Any, *, ragged_dot_dimension_numbers: Any, precision: Any,
              preferred_element_type: Any, **params: Any) -> Any:
        # The group sizes differ along the batch: the batched operations that the product is made of serve.
        from teucer._transform.batch import batch_flat
        raise NotImplementedError(batch_flat)


ragged_dot_general_p = RaggedDotGeneral()
