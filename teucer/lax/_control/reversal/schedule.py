"""Which states of a loop its backward pass keeps, and how the pass moves between them.

Binomial checkpointing: A. Griewank, A. Walther, Algorithm 799: revolve, ACM Transactions on
Mathematical Software 26 (2000) 19. The number of steps is known, since the loop has run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._trees import pytrees
from teucer.lax import _arithmetic, _dynamic, _reductions, _selection, _structure
from teucer.lax._control.bodies import settle_carry, stage_anew
from teucer.lax._control.cond import cond
from teucer.lax._control.reversal.counted import ONE, ZERO

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike

# Kept states take at most BYTES, but there are at least FEWEST and at most MOST. With MOST states,
# each of 2.8 million steps is computed again at most 3 times.
BYTES, FEWEST, MOST = 64 << 20, 8, 256
# If states take LARGE bytes, a short loop (FEW steps) gets only the slots it needs. To allocate
# more would take longer than the loop runs.
LARGE, FEW = 8 << 20, 16
_LONGEST = np.iinfo(np.int32).max


def slots_for(avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """How many states of these types are kept: one number for all loops, or two, for short and for
    long ones."""
    buffers = [a.physical for a in avals]
    if not all(isinstance(n, int) for a in buffers for n in a.shape):
        return (FEWEST,)
    size = sum(math.prod(a.shape) * a.dtype.itemsize for a in buffers)
    slots = min(max(BYTES // max(size, 1), FEWEST), MOST)
    return (FEW, slots) if slots > FEW and slots * size > LARGE else (slots,)


@functools.cache
def reach(slots: int) -> np.ndarray:
    """reach[s, r]: how many steps can be reversed with s states kept, the first among them, if each
    is computed again at most r times: the binomial coefficient of s + r over r."""
    rounds = next(r for r in range(_LONGEST) if math.comb(slots + r, r) >= _LONGEST)
    table = np.array(
        [[min(math.comb(s + r, r), _LONGEST) for r in range(rounds + 1)] for s in range(slots + 1)],
        np.int32,
    )
    table.flags.writeable = False
    return table


def next_kept(table: ArrayLike, steps: ArrayLike, free: ArrayLike) -> Array:
    """The number of steps to the next state that is kept. `steps`, at least 2, are to be reversed,
    with `free` slots beside the slot of the first state. Without a free slot: all steps but one."""
    ready = _dynamic.dynamic_index_in_dim(table, _arithmetic.add(free, ONE), 0, False)
    fewer = _dynamic.dynamic_index_in_dim(table, free, 0, False)
    short = _structure.convert_element_type(_arithmetic.lt(ready, steps), np.dtype(np.int32))
    rounds = _reductions.reduce_sum(short, (0,))
    # The next kept state divides the steps. Those behind it take `rounds` rounds, those before it
    # one less. Of the possible states this is the one that computes the fewest steps again.
    least = _dynamic.dynamic_index_in_dim(
        ready, _arithmetic.max(_arithmetic.sub(rounds, np.int32(2)), ZERO), 0, False
    )
    most = _arithmetic.sub(steps, _dynamic.dynamic_index_in_dim(fewer, rounds, 0, False))
    return _arithmetic.max(least, most)


def backwards(
    loop: Primitive,
    steps: Array,
    forward: Callable[..., Sequence[Array]],
    back: Callable[..., Sequence[Array]],
    state: Sequence[Array],
    cts: Sequence[Array],
    slots: Sequence[int],
) -> list[Any]:
    """`back(*state, *cts)` at each state of a loop, from the last to the first.

    steps: how many states there are. state: the first. forward(*state) is the next. slots: how many
    are kept; of two numbers the first for loops of few steps.
    """
    if len(slots) == 1 or not state:
        return _backwards(loop, steps, forward, back, state, cts, slots[0])
    few, many = [
        functools.partial(_backwards, loop, steps, forward, back, state, cts, n) for n in slots
    ]
    found: list[Any] = cond(_arithmetic.le(steps, np.int32(slots[0] + 1)), few, many)
    return found


def unless_lost(steps: Array, cts: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Steps and cotangents. If the counter of steps has overflowed: no steps, and NaN."""
    lost = _arithmetic.eq(steps, np.int32(_LONGEST))

    def or_nan(ct: Array) -> Array:
        aval = typeof(ct)
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            return ct
        nan, every = array_ops.convert(np.float32(np.nan), aval), (aval.shape, ())
        return _selection.select_n(
            _structure.broadcast_to(lost, *every), ct, _structure.broadcast_to(nan, *every)
        )

    return _selection.select_n(lost, steps, ZERO), [or_nan(ct) for ct in cts]


def _backwards(
    loop: Primitive,
    steps: Array,
    forward: Callable[..., Sequence[Array]],
    back: Callable[..., Sequence[Array]],
    state: Sequence[Array],
    cts: Sequence[Array],
    slots: int,
) -> list[Any]:
    """As `backwards`, with `slots` states kept."""
    if not state:

        def unkept(pos: Array, *cts: Array) -> list[Any]:
            return [_arithmetic.sub(pos, ONE), *back(*cts)]

        return looped(loop, _positive, unkept, [steps, *cts])[1:]
    table, n = reach(slots), len(state)

    def ahead(k: Array, *state: Array) -> list[Any]:
        return [_arithmetic.sub(k, ONE), *forward(*state)]

    def one(pos: Array, kept: Array, at: Array, *rest: Array) -> list[Any]:
        """Go from the last state that is kept to the one before `pos`, keep some on the way, and
        reverse a step."""
        last, below = _arithmetic.sub(pos, ONE), _arithmetic.sub(kept, ONE)
        state = [_row(x, below) for x in rest[:n]]

        def before(t: Array, *carry: Array) -> Array:
            return _arithmetic.lt(t, last)

        def keep(t: Array, kept: Array, at: Array, *rest: Array) -> list[Any]:
            free = _arithmetic.sub(np.int32(slots), kept)
            h = next_kept(table, _arithmetic.sub(pos, t), free)
            state = looped(loop, _positive, ahead, [h, *rest[:n]])[1:]
            t = _arithmetic.add(t, h)
            # If no slot is free, the state goes to the row behind the slots, which is never read.
            rows = [_put(s, x, kept) for s, x in zip(rest[n:], state, strict=True)]
            kept_now = _arithmetic.min(_arithmetic.add(kept, ONE), np.int32(slots))
            return [t, kept_now, _put(at, t, kept), *state, *rows]

        _, kept, at, *found = looped(
            loop, before, keep, [_row(at, below), kept, at, *state, *rest[:n]]
        )
        cts = back(*found[:n], *rest[n:])
        top = _row(at, _arithmetic.sub(kept, ONE))
        is_done = _structure.convert_element_type(_arithmetic.eq(top, last), np.dtype(np.int32))
        return [last, _arithmetic.sub(kept, is_done), at, *found[n:], *cts]

    rows = [array_ops.broadcast(x, slots + 1, 0) for x in state]
    at = np.zeros(slots + 1, np.int32)
    return looped(loop, _positive, one, [steps, ONE, at, *rows, *cts])[3 + n :]


def _positive(pos: Array, *carry: Array) -> Array:
    return _arithmetic.gt(pos, ZERO)


def _row(rows: ArrayLike, i: ArrayLike) -> Array:
    return _dynamic.dynamic_index_in_dim(rows, i, 0, False, allow_negative_indices=False)


def _put(rows: ArrayLike, x: ArrayLike, i: ArrayLike) -> Array:
    return _dynamic.dynamic_update_index_in_dim(rows, x, i, 0, allow_negative_indices=False)


def looped(
    loop: Primitive,
    goes_on: Callable[..., Array],
    step: Callable[..., Sequence[Array]],
    carry: Sequence[ArrayLike],
) -> list[Any]:
    """The last carry of a while loop of functions of flat values."""
    tree = pytrees.tree_structure((0,) * len(carry))
    body, carry = settle_carry(
        lambda avals: stage_anew(step, "while_loop", tree, avals, step),
        carry,
        [typeof(x) for x in carry],
        lambda body: None,
        step,
    )
    avals = body.jaxpr.in_avals[len(body.consts) :]
    cond = stage_anew(goes_on, "while_cond", tree, avals, goes_on)
    return list(
        loop.call(
            *cond.consts,
            *body.consts,
            *carry,
            cond_jaxpr=cond.jaxpr,
            body_jaxpr=body.jaxpr,
            cond_nconsts=len(cond.consts),
            body_nconsts=len(body.consts),
        )
    )
