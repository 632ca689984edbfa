"""Choice among arrays, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._core.typing import Array, ArrayLike
from teucer._devices import partition
from teucer._lower import hlo
from teucer.lax import _structure
from teucer.lax._costs import CHEAP_MOVE
from teucer.lax._families import operands

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Atom, Aval, Dims
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["select", "select_n", "select_n_p"]


@final
class SelectN(Primitive):
    """Elements of the cases: of case i where `which` is i.

    (C1) there is a case.  (C2) the cases have one shape and dtype.  (C3) which is a scalar or has
    the shape of the cases.  (C4) which is bool, of two cases at most, or an integer.
    """

    __slots__ = ()
    name = "select_n"
    linear_in = "cases"
    combines = partition.in_place
    cost = CHEAP_MOVE

    def types(self, which: Aval, *cases: ShapedArray) -> Any:
        if not cases:
            raise TypeError("select must have at least one case.")
        first = cases[0]
        if any(case is not first for case in cases):
            if any(case.shape != first.shape for case in cases):
                shapes = ", ".join(str(case.shape) for case in cases)
                raise TypeError(f"select cases must have the same shapes, got [{shapes}].")
            if any(case.dtype != first.dtype for case in cases):
                listed = ", ".join(case.dtype.name for case in cases)
                raise TypeError(
                    f"lax.select requires arguments to have the same dtypes, got {listed}. (Tip: "
                    "jnp.where is a similar function that does automatic type promotion on "
                    "inputs)."
                )
        if which.shape and which.shape != first.shape:
            raise TypeError(
                "select `which` must be scalar or have the same shape as cases, got `which` shape "
                f"{which.shape} but case shape {first.shape}."
            )
        if which.dtype == np.bool_:
            if len(cases) > 2:
                raise TypeError(
                    f"select with boolean `which` cannot have > 2 cases, got {len(cases)}."
                )
        elif not dtypes.issubdtype(which.dtype, np.integer):
            raise TypeError(
                f"select `which` must be boolean or integer type, got {which.dtype.name}."
            )
        weak = all(case.weak_type for case in cases)
        return (first if weak == first.weak_type else first.strengthen(),)

    def shard(self, which: ShapedArray, *cases: ShapedArray) -> Any:
        rule = partition.aligned(self, which, *cases)
        return rule._replace(alike="select cases must have the same shardings, and so must `which`")

    def lower(self, ctx: Context, which: Value, *cases: Value) -> Any:
        if len(cases) == 1:
            return cases
        if which.dtype == np.bool_:
            return (hlo.select(ctx, which, cases[1], cases[0]),)

        def among(first: int, last: int) -> Any:
            if last - first == 1:
                return cases[first]
            middle = (first + last) // 2
            below = hlo.compare(ctx, which, hlo.splat(ctx, middle, which.aval), "LT")
            return hlo.select(ctx, below, among(first, middle), among(middle, last))

        return (among(0, len(cases)),)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[object]) -> Any:
        outs = self.call(*primals)
        ts = tangents[1:]
        if all(type(t) is Zero for t in ts):
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(primals[0], *map(array_ops.instantiate, ts))

    def transpose(self, cts: Sequence[object], which: ArrayLike, *cases: object) -> Any:
        (ct,) = cts
        zero = _structure.zeros(typeof(ct))
        return None, *(
            self.call(which, *(ct if i == j else zero for j in range(len(cases))))[0]
            if type(case) is Undefined
            else None
            for i, case in enumerate(cases)
        )

    def batch(self, axis: Axis, args: Sequence[object], dims: Dims) -> Any:
        which, *cases = args
        at, *case_dims = dims
        first = next(
            (d for d in case_dims if d is not None),
            at if at is not None and typeof(which).ndim > 1 else 0,
        )
        cases = [
            array_ops.to_axis(case, d, axis.size, first)
            for case, d in zip(cases, case_dims, strict=True)
        ]
        shape = typeof(cases[0]).shape
        rank = typeof(which).ndim - (at is not None)
        if rank:
            which = array_ops.to_axis(which, at, axis.size, first)
        elif at is not None:
            which = _structure.broadcast_to(which, shape, (first,))
        return self.call(which, *cases), (first,)

    def simplify(self, known: Any, which: Atom, *cases: object) -> Any:
        chosen = known.constant(which)
        if chosen is not None:
            return cases[min(max(int(chosen.val), 0), len(cases) - 1)]
        return cases[0] if all(case is cases[0] for case in cases) else None

    padded = dialects.through


select_n_p = SelectN()


def select_n(which: ArrayLike, *cases: Any) -> Array:
    """Elements of several arrays: of cases[which].

    which: bool or integer, scalar or [shape]; cases: T[shape] each  ->  T[shape]
    An index out of bounds takes the first or last case.
    Raises TypeError if the cases differ in shape or dtype (C2), or `which` is neither a scalar nor
    of their shape (C3), or is of another dtype, or boolean with more than two cases (C4).

    >>> import numpy as np
    >>> from teucer import lax
    >>> lax.select_n(np.array([True, False]), np.array([1, 2]), np.array([10, 20]))
    Array([10,  2], dtype=int32)
    """
    return select_n_p.call(which, *operands(*cases))[0]


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elements of on_true where pred, of on_false elsewhere.

    pred: bool, scalar or [shape]; on_true, on_false: T[shape]  ->  T[shape]
    Raises TypeError if on_true and on_false differ in shape or dtype (C2).

    >>> import numpy as np
    >>> from teucer import lax
    >>> lax.select(np.array([True, False]), np.array([1, 2]), np.array([10, 20]))
    Array([ 1, 20], dtype=int32)
    """
    return select_n_p.call(pred, *operands(on_false, on_true))[0]


def where_else(pred: ArrayLike, on_true: object, on_false: object) -> Any:
    """`select` for rules, in which a scalar goes with any shape."""
    pred, *cases = partition.reduced_alike((pred, on_false, on_true))
    shape = max((typeof(x).shape for x in (pred, *cases)), key=len)
    cases = [
        _structure.broadcast_to(x, shape, ()) if typeof(x).shape != shape else x for x in cases
    ]
    return select_n_p.call(pred, *cases)[0]


for _function in (select_n, select):
    _function.__module__ = "teucer.lax"
