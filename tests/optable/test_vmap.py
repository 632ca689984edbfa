"""The law of vmap: it is the loop, over every axis of every operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optable.compare import assert_ulp
from optable.laws import axes_of
from optable.table import Op, all_ops, precision_of
from optable.trees import flat_call

from teucer import lax
from teucer._transform.jit import jit
from teucer._transform.vmap import vmap

SIZE = 2


def check(op: Op, dtype: str, thorough: bool) -> None:
    with precision_of(dtype):
        copies = [
            op.calls(dtype, seed)[: None if thorough else op.vmap_calls] for seed in range(SIZE)
        ]
        plans, loops, inputs = [], [], []
        for calls in zip(*copies, strict=True):
            leaves = [flat_call(op, call)[0] for call in calls]
            f = flat_call(op, calls[0])[1]
            if not leaves[0]:
                continue
            shapes = [np.shape(x) for x in leaves[0]]
            choices = list(axes_of(shapes, thorough))
            plans.append((f, choices))
            loops.append({tuple(a is not None for a in c) for c in choices})
            inputs.append(leaves)
        if not inputs:
            return
        mapped, looped = jit(lambda xs: _both(plans, loops, xs))(inputs)
        ulp = max(op.ulp_of.get(dtype, op.ulp), 8)  # batched operations may sum in another order
        for i, ((_, choices), found, by_loop) in enumerate(zip(plans, mapped, looped, strict=True)):
            for choice, ys in zip(choices, found, strict=True):
                expected = by_loop[_key(tuple(a is not None for a in choice))]
                for j, (y, z) in enumerate(zip(ys, expected, strict=True)):
                    assert_ulp(
                        y,
                        z,
                        ulp,
                        f"{op} of {dtype}, call {i}, in_axes={choice}, result {j}",
                        each=False,
                    )


def _key(batched: tuple[bool, ...]) -> str:
    return "".join("01"[b] for b in batched)


def _both(plans: Any, loops: Any, inputs: Any) -> Any:
    """The operation mapped for every choice of axes; and looped for every set of mapped
    operands."""
    mapped, looped = [], []
    for (f, choices), sets, leaves in zip(plans, loops, inputs, strict=True):

        def stacked(i: int, axis: int, leaves: Any = leaves) -> Any:
            return lax.concatenate([lax.expand_dims(xs[i], (axis,)) for xs in leaves], axis)

        mapped.append(
            [
                vmap(f, in_axes=c)(
                    *(leaves[0][i] if a is None else stacked(i, a) for i, a in enumerate(c))
                )
                for c in choices
            ]
        )
        by_set = {}
        for batched in sorted(sets):
            rows = [
                f(*(leaves[k][i] if b else leaves[0][i] for i, b in enumerate(batched)))
                for k in range(SIZE)
            ]
            by_set[_key(batched)] = [
                lax.concatenate([lax.expand_dims(y, (0,)) for y in ys], 0)
                for ys in zip(*rows, strict=True)
            ]
        looped.append(by_set)
    return mapped, looped


OPS = [op for op in all_ops().values() if "vmap" not in op.exceptions]


@pytest.mark.parametrize("op", [pytest.param(op, id=str(op), marks=op.marks()) for op in OPS])
def test_vmap_is_loop(op: Op) -> None:
    """vmap over any axis of any operand gives the stacked results of the loop."""
    check(op, op.vmap_dtype, thorough=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "dtype"), [pytest.param(op, d, id=f"{op}-{d}") for op in OPS for d in op.quick_dtypes]
)
def test_vmap_is_loop_for_all_axes(op: Op, dtype: str) -> None:
    """As above, for every combination of axes."""
    check(op, dtype, thorough=True)
