"""Loops of several lengths that go back together, as many steps as the longest takes.

The others wait where they began to go back: their cotangents change in their own steps alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._core import array_ops
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer.lax import _arithmetic, _selection, _structure
from teucer.lax._control.bodies import split_list
from teucer.lax._control.reversal.counted import ONE

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Arrays


class Masks(NamedTuple):
    """Masks in the bodies of loops that go back together.

    lengths: the type of the lengths, an array or a number that differs from device to device.
    counter: the type of a counter. states, cts: states and cotangents that belong to one of the
    loops; the others are common. joint: whether loops take part in the steps of others, by
    collectives. Then they do so with the last state of all, as they did in the loop. Otherwise they
    stay at the last state at which the body has been evaluated, so that no derivative is asked for
    where it has not.
    """

    lengths: ShapedArray
    counter: ShapedArray
    states: tuple[bool, ...]
    cts: tuple[bool, ...]
    joint: bool

    def forward(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """(consts, state) -> state as (lengths, consts, i, state) -> (i + 1, state)."""
        n = len(closed.jaxpr.invars) - len(self.states)

        def step(*args: Array) -> list[Any]:
            (lengths, *consts), (i, *state) = args[: 1 + n], args[1 + n :]
            after = _arithmetic.add(i, ONE)
            going = self._below(i if self.joint else after, lengths)
            outs = closed(*consts, *state)
            return [after, *self._selected(going, outs, state, self.states)]

        avals = [self.lengths, *closed.in_avals[:n], self.counter, *closed.in_avals[n:]]
        return closed.kept(("masked forward", self), lambda: stage_jaxpr(step, avals))

    def back(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """(consts, state, cts) -> cts as (lengths, consts, i, state, cts) -> cts."""
        k, m = len(self.states), len(self.cts)
        n = len(closed.jaxpr.invars) - k - m

        def step(*args: Array) -> list[Any]:
            (lengths, *consts), (i, *rest) = args[: 1 + n], args[1 + n :]
            state, cts = split_list(rest, k)
            going = self._below(i, lengths)
            if not self.joint and all(self.cts):
                return self._selected(going, closed(*consts, *state, *cts), cts, self.cts)
            # Waiting loops give zeros to other loops and to common values.
            zeros = [array_ops.zeros(a) for a in closed.out_avals]
            given = self._selected(going, cts, zeros, self.cts)
            outs = closed(*consts, *state, *given)
            if not self.joint:
                return self._selected(going, outs, cts, self.cts)
            waiting = self._selected(going, zeros, cts, self.cts)
            return [array_ops.add_cotangents(y, w) for y, w in zip(outs, waiting, strict=True)]

        avals = [self.lengths, *closed.in_avals[:n], self.counter, *closed.in_avals[n:]]
        return closed.kept(("masked back", self), lambda: stage_jaxpr(step, avals))

    def _below(self, i: Array, lengths: Array) -> Array:
        return _arithmetic.lt(_structure.broadcast_to(i, self.lengths.shape, ()), lengths)

    def _selected(self, going: Array, new: Arrays, old: Arrays, own: Sequence[bool]) -> list[Any]:
        axes = range(self.lengths.ndim)
        return [
            _selection.select_n(_structure.broadcast_to(going, typeof(y).shape, axes), x, y)
            if mine
            else y
            for y, x, mine in zip(new, old, own, strict=True)
        ]
