"""The law of dynamic dimensions.

A function compiled for many sizes gives what it gives compiled for each, or is refused.

For every operation of the table, in three ways: all axes of one size made dynamic; a batch of
dynamic size mapped over; and the same of its reverse-mode derivative.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from optable.compare import assert_ulp
from optable.primitives import primitives
from optable.table import Op, all_ops, precision_of
from optable.trees import along, flat_call, moving

import teucer
from teucer._base import dtypes
from teucer._base.errors import InconclusiveDimensionOperation
from teucer._core import dialects
from teucer._derived.staging import eval_shape
from teucer._derived.vjp import vjp
from teucer._transform.jit import jit
from teucer._transform.vmap import vmap

# How a program that cannot be done with a dynamic dimension is refused while it is traced.
REFUSALS = (NotImplementedError, InconclusiveDimensionOperation, TypeError, ValueError, IndexError)

# Primitives without a rule for padded arrays, and without an entry that says why: refused wherever
# a dynamic dimension comes up.
WITHOUT_RULE = {
    **dict.fromkeys(("debug_callback", "io_callback"), "a callback would see the buffer"),
    **dict.fromkeys(("buffer_callback", "ffi_call"), "code of others would see the buffer"),
    **dict.fromkeys(
        ("addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "swap"),
        "references have known sizes",
    ),
    **dict.fromkeys(
        ("all_gather_invariant", "psum_invariant", "pvary"), "within shard_map sizes are known"
    ),
    "rng_uniform": "its numbers depend on how many are drawn",
    **dict.fromkeys(("ragged_dot_general", "scaled_dot"), "not done yet"),
    **dict.fromkeys(("after_all", "create_token", "precv", "psend"), "a token has no size"),
    "composite": "a compiler that knows the operation knows nothing of padding",
    "linear_call": (
        "the user's function says what its transpose is, of arrays of the sizes that it was told"
    ),
    "custom_lin": "only linearization makes it, and removes it",
    "linear_program": "only eager derivatives make it; what is recorded are its equations",
    **dict.fromkeys(
        (
            "all_gather",
            "all_to_all",
            "axis_index",
            "pbroadcast",
            "pmax",
            "pmin",
            "ppermute",
            "psum",
            "reduce_scatter",
        ),
        "vmap over the axis has replaced it",
    ),
    **dict.fromkeys(
        (
            "all_gather_reduced",
            "preduced",
            "reduced_vary_cast",
            "unreduced_pmax",
            "unreduced_pmin",
            "unreduced_psum",
            "unreduced_reduce_scatter",
            "vary_unreduced_cast",
        ),
        "sizes that are divided over devices are known",
    ),
    "by_rows": "made of programs that have been padded",
    "hidden": "made of programs that have been padded",
    "joined_call": "made of programs that have been padded",
    "outlined_call": "made of programs that have been padded",
    "platform_index": "has no operands, and no sizes",
    **dict.fromkeys(
        ("reshard", "sharding_constraint"), "sizes that are divided over devices are known"
    ),
    "sized_call": "is the call of a padded program, and never within one",
}
# Sizes for which the static program is no measure, with the reason.
NO_IDENTITY = (
    1,
    "XLA leaves out an initial value that is no identity where one element is reduced",
)
NO_MEASURE = {"reduce": NO_IDENTITY, "reductions: reduce": NO_IDENTITY}


def resized(x: Any, axes: Sequence[int], size: int) -> Any:
    """x with axes of another size: its elements again and again, or only the first ones."""
    for axis in axes:
        x = np.take(x, np.arange(size) % max(x.shape[axis], 1), axis)
    return x


def outcome(
    f: Callable[..., Any], inputs: Sequence[Sequence[Any]], dims: Any, ulp: float, what: str
) -> str:
    """Compare one program for all inputs with one for each; "refused" if there is none, "" if no
    input has a result."""
    valid = []
    for xs in inputs:
        with contextlib.suppress(*REFUSALS):  # of this size there is no result
            eval_shape(f, *xs)
            valid.append(xs)
    if not valid:
        return ""
    traced = []

    def counted(*xs: Any) -> Any:
        traced.append(xs)
        return f(*xs)

    g = jit(counted, dynamic_dims=dims)
    try:
        found = [g(*xs) for xs in valid]
    except REFUSALS as err:
        return f"refused: {type(err).__name__}: {err}"
    assert len(traced) == 1, f"{what}: traced {len(traced)} times"
    expected = jit(lambda inputs: [f(*xs) for xs in inputs])(valid)
    for xs, ys, zs in zip(valid, found, expected, strict=True):
        for i, (y, z) in enumerate(zip(ys, zs, strict=True)):
            at = f"{what}, shapes {[np.shape(x) for x in xs]}, result {i}"
            assert np.shape(y) == np.shape(z), f"{at}: shape {np.shape(y)}, expected {np.shape(z)}"
            assert y.aval is z.aval, f"{at}: type {y.aval}, expected {z.aval}"
            if dtypes.is_extended(y.dtype):
                y, z = teucer.random.key_data(y), teucer.random.key_data(z)
            assert_ulp(y, z, ulp, at, each=False)
    return "equal"


def by_size(op: Op, dtype: str, calls: int | None) -> Iterator[str]:
    """All axes of one size dynamic, for each size that a call's operands have."""
    for i, call in enumerate(op.calls(dtype)[:calls]):
        leaves, f = flat_call(op, call)
        xs = [np.asarray(x) for x in leaves]
        for size in sorted({n for x in xs for n in x.shape if n > 1}):
            axes = [tuple(a for a, n in enumerate(x.shape) if n == size) for x in xs]
            for low in (1, size):
                bound = size + 2
                inputs = [
                    [resized(x, a, n) for x, a in zip(xs, axes, strict=True)]
                    for n in sorted({low, size, bound})
                    if n != NO_MEASURE.get(op.name, (0,))[0]
                ]
                dims = {j: dict.fromkeys(a, (low, bound)) for j, a in enumerate(axes) if a}
                found = outcome(
                    f,
                    inputs,
                    dims,
                    ulp_of(op, dtype),
                    f"{op} of {dtype}, call {i}, size {size} from {low} on",
                )
                yield found
                if not found.startswith("refused"):
                    break


def by_batch(
    op: Op, dtype: str, calls: int | None, derivative: bool = False, low: int = 1
) -> Iterator[str]:
    """The operation mapped over a batch of dynamic size."""
    copies = [op.calls(dtype, seed)[:calls] for seed in range(3)]
    for i, samples in enumerate(zip(*copies, strict=True)):
        rows = [flat_call(op, call)[0] for call in samples]
        f = flat_call(op, samples[0])[1]
        if derivative:
            moves = moving(op, samples[0])
            if not any(moves):
                continue
            g = along(f, rows[0], moves)
            rows = [[x for x, m in zip(row, moves, strict=True) if m] for row in rows]
            f = functools.partial(_pulled_back, g)
        if not rows[0]:
            continue
        stacked = [np.stack([np.asarray(row[j]) for row in rows]) for j in range(len(rows[0]))]
        inputs = [[x[:n] for x in stacked] for n in sorted({low, 2, 3})]
        dims = dict.fromkeys(range(len(stacked)), (low, 5))
        inputs.append([resized(x, (0,), 5) for x in stacked])
        what = f"{'derivative of ' if derivative else ''}{op} of {dtype}, call {i}"
        yield outcome(vmap(f), inputs, dims, 4 * ulp_of(op, dtype), what)


def _pulled_back(g: Callable[..., Any], *xs: Any) -> list[Any]:
    """The cotangents of g's operands for its results as cotangents."""
    return list(vjp(g, *xs)[1](g(*xs)))


def ulp_of(op: Op, dtype: str) -> float:
    # Sums of masked buffers are made in another order, and may be less than their terms.
    return max(op.ulp_of.get(dtype, op.ulp), 16 if op.elementwise else 128)


def is_quick(op: Op) -> bool:
    """Whether the quick suite tests it: one rule serves all elementwise operations, those that move
    elements have one each."""
    if op.elementwise:
        return op.name in ("add", "sin", "eq", "clamp")
    return not op.slow or op.name.startswith(("gather:", "slicing:"))


OPS = [
    pytest.param(op, id=str(op), marks=() if is_quick(op) else pytest.mark.slow)
    for op in all_ops().values()
]
THOROUGH = [pytest.param(op, id=str(op), marks=pytest.mark.slow) for op in all_ops().values()]


def test_every_primitive_has_a_rule_or_a_reason() -> None:
    without = {str(p.name) for _, p in primitives() if dialects.padded.of(p) is None}
    said = {op.name for op in all_ops().values() if "dynamic" in op.exceptions}
    assert without - said == set(WITHOUT_RULE)


@pytest.mark.parametrize("op", OPS)
def test_dynamic_batch(op: Op) -> None:
    with precision_of(op.vmap_dtype):
        found = list(by_batch(op, op.vmap_dtype, 1))
    refused = [f for f in found if f.startswith("refused")]
    assert bool(refused) == ("dynamic" in op.exceptions), refused


@pytest.mark.slow
@pytest.mark.parametrize("op", THOROUGH)
def test_dynamic_batch_that_may_be_empty(op: Op) -> None:
    """As above with size 0 in the range, for every call: what depends on a size not being 0 is
    refused."""
    with precision_of(op.vmap_dtype):
        list(by_batch(op, op.vmap_dtype, None, low=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, id=str(op))
        for op in all_ops().values()
        if op.gradient_dtypes and "reverse" not in op.exceptions
    ],
)
def test_derivative_of_dynamic_batch(op: Op) -> None:
    with precision_of(op.gradient_dtypes[0]):
        found = list(by_batch(op, op.gradient_dtypes[0], op.gradient_calls, derivative=True))
    refused = [f for f in found if f.startswith("refused")]
    assert bool(refused) == ("dynamic" in op.exceptions), refused


@pytest.mark.slow
@pytest.mark.parametrize("op", THOROUGH)
def test_dynamic_sizes(op: Op) -> None:
    """Equal, or refused: most of a table's calls name sizes that do not fit others."""
    with precision_of(op.vmap_dtype):
        list(by_size(op, op.vmap_dtype, None))
