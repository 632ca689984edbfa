"""Rows that elements of a named axis send to each other in numbers that only values say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer.lax._arithmetic import add, clamp, ge, lt, sub
from teucer.lax._collectives.index_groups import group_size, groups_of
from teucer.lax._collectives.movement import all_gather
from teucer.lax._collectives.reductions import axis_index, checked
from teucer.lax._collectives.varying import names_of
from teucer.lax._dynamic import dynamic_index_in_dim, index_take
from teucer.lax._elementwise import bitwise_and
from teucer.lax._selection import select
from teucer.lax._shapes import iota
from teucer.lax._slicing import index_in_dim
from teucer.lax._structure import broadcast_to, convert_element_type, reshape

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, AxisName, Groups

__all__ = ["ragged_all_to_all"]


def ragged_all_to_all(
    operand: ArrayLike,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: object,
    *,
    axis_name: AxisName,
    axis_index_groups: Groups = None,
) -> Array:
    """Each element of a named axis sends rows of its operand to the others, in numbers that differ.

    operand: T[n, ...], the rows to send. output: T[m, ...], into which received rows are written;
    other rows stay as they are.
    input_offsets, send_sizes: int[size], for each element the first of the rows that go to it, and
    how many they are.
    output_offsets: int[size], for each element where in its output they go. recv_sizes: int[size],
    how many rows each sends here.
    Every element gathers the operands of all: no backend at hand sends as many rows as there are.
    Raises ValueError for shapes that do not fit, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> rows, sizes = jnp.array([[1., 2., 2.], [3., 3., 4.]]), jnp.array([[1, 2], [2, 1]])
    >>> offsets = jnp.array([[0, 1], [0, 2]]), jnp.array([[0, 0], [1, 2]])
    >>> f = lambda x, o, s, t, r: jax.lax.ragged_all_to_all(x, jnp.zeros(3), o, s, t, r,
    ...     axis_name="i")
    >>> jax.vmap(f, axis_name="i")(rows, offsets[0], sizes, offsets[1], sizes.T)
    Array([[1., 3., 3.],
           [2., 2., 4.]], dtype=float32)
    """
    names = names_of(axis_name)
    groups = groups_of(names, axis_index_groups)
    n = group_size(names, groups)
    x, y = (typeof(checked("ragged_all_to_all", v)) for v in (operand, output))
    if x.dtype != y.dtype or x.shape[1:] != y.shape[1:] or not x.ndim or not y.ndim:
        raise ValueError(
            "ragged_all_to_all: operand and output must agree but in the number of rows.\n"
            f"    operand: {x.str_short(short_dtypes=True)}\n"
            f"    output: {y.str_short(short_dtypes=True)}"
        )
    named = {
        "input_offsets": input_offsets,
        "send_sizes": send_sizes,
        "output_offsets": output_offsets,
        "recv_sizes": recv_sizes,
    }
    for name, v in named.items():
        aval = typeof(v)
        if (
            aval.ndim != 1
            or not aval.shape[0]
            or aval.shape[0] % n
            or not dtypes.issubdtype(aval.dtype, np.integer)
        ):
            raise ValueError(
                f"ragged_all_to_all: {name} must be integers, as many for each of the {n} "
                f"elements of {axis_name!r}, got {aval.str_short(short_dtypes=True)}."
            )
    parts = typeof(send_sizes).shape[0] // n
    everyone = all_gather(operand, axis_name, axis_index_groups=groups)
    me = axis_index(axis_name)
    if groups is not None:
        places = np.argsort([i for group in groups for i in group]).astype(np.int32)
        me = dynamic_index_in_dim(places % np.int32(n), me, 0, keepdims=False)

    def towards_me(v: Array) -> Any:
        """int32[sender, part]: the numbers of all senders about the rows that they send here."""
        table = reshape(
            all_gather(
                convert_element_type(v, np.dtype(np.int32)), axis_name, axis_index_groups=groups
            ),
            (n, n, parts),
        )
        return dynamic_index_in_dim(table, me, 1, keepdims=False)

    starts, counts, places = map(towards_me, (input_offsets, send_sizes, output_offsets))
    rows = iota(np.int32, y.shape[0])
    for sender in range(n):
        sent = index_in_dim(everyone, sender, 0, keepdims=False)
        for part in range(parts):
            start, count, place = (
                broadcast_to(
                    index_in_dim(
                        index_in_dim(v, sender, 0, keepdims=False), part, 0, keepdims=False
                    ),
                    rows.shape,
                    (),
                )
                for v in (starts, counts, places)
            )
            source = clamp(
                np.int32(0), add(sub(rows, place), start), np.int32(max(x.shape[0] - 1, 0))
            )
            here = bitwise_and(ge(rows, place), lt(sub(rows, place), count))
            received = index_take(sent, (source,), (0,))
            output = select(broadcast_to(here, y.shape, (0,)), received, output)
    return output
