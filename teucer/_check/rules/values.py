"""Rules on values: indices, division, domains of functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from teucer._check.graph import Value, is_constant, plain
from teucer._check.program import Found, Program
from teucer._check.ranges import Range


def indices(program: Program) -> Iterator[Found]:
    """T301: an index that no element has, whatever the arguments are."""
    for v in program.graph.of("dynamic_slice", "dynamic_update_slice"):
        if v.context.backward:
            continue
        x, n = v.operands[0], len(v.shape)
        starts = v.operands[1:] if v.op == "dynamic_slice" else v.operands[2:]
        for axis, (size, start) in enumerate(zip(x.shape, starts, strict=False)):
            if axis < n:
                yield from _outside(v, start.range, size, axis)
    for v in program.graph.of("gather", "scatter", "scatter_add", "scatter-add", "scatter_mul",
                              "scatter_min", "scatter_max", "scatter-update"):  # fmt: skip
        if v.context.backward:
            continue
        numbers = v.params["dimension_numbers"]
        gathers = hasattr(numbers, "start_index_map")
        axes: Sequence[int] = (
            numbers.start_index_map if gathers else numbers.scatter_dims_to_operand_dims
        )
        index = v.operands[1]
        for column, axis in enumerate(axes):
            yield from _outside(v, _column(index, column), v.operands[0].shape[axis], axis)


def _column(index: Value, column: int) -> Range:
    """The range of one component of the indices of a gather."""
    x = plain(index)
    if x.op == "constant" and index.shape in (x.shape, (*x.shape, 1)):
        array = np.asarray(x.constant)
        if array.size:
            part = array[..., column] if index.shape == x.shape and array.ndim else array
            return Range(int(part.max()), int(part.max()))
    if x.op == "concatenate" and all(part.shape[-1] == 1 for part in x.operands):
        return x.operands[column].range
    return index.range


def _outside(v: Value, index: Range, size: object, axis: int) -> Iterator[Found]:
    if not isinstance(size, int) or not (index.low >= size or index.high < 0):
        return
    text = f"{index.low}" if index.is_point else f"at least {index.low}"
    if index.high < 0:
        text = f"{index.high - size if index.is_point else index.high}"
    what = "read" if v.op in ("dynamic_slice", "gather") else "written"
    yield Found(
        "T301",
        f"index {text} is out of bounds for axis {axis}, which has {size} elements. "
        + (
            "Another element, or a fill value, is read"
            if what == "read"
            else "The update is dropped or moved"
        )
        + ", without an error.",
        v,
        "Use an index below the size. If nothing is meant to be there, say mode='drop' or 'fill' "
        "and silence this line.",
    )


def division(program: Program) -> Iterator[Found]:
    """T302: a divisor that is zero for all arguments."""
    for v in program.graph.of("div", "rem"):
        y = v.operands[1]
        if (
            v.context.backward
            or y.range[:2] != (0, 0)
            or _is_guarded(v)
            or math.prod(_sizes(v)) == 0
        ):
            continue
        numerator = plain(v.operands[0])
        if numerator.op == "constant" and is_constant(y):
            continue  # NaN or infinity, written so
        kind = "The result is inf or NaN." if v.is_float else "Integers give -1 or 0, silently."
        yield Found(
            "T302",
            f"the divisor is 0 for all arguments. {kind}",
            v,
            "Divide by something else, or choose with jnp.where before dividing.",
        )


def _sizes(v: Value) -> list[int]:
    return [n for n in v.shape if isinstance(n, int)]


def _is_guarded(v: Value) -> bool:
    """Whether the result is only used where a condition takes it."""
    return bool(v.uses) and all(
        use.op in ("select_n",) or (use.op in ("broadcast_in_dim", "reshape") and _is_guarded(use))
        for use in v.uses
    )


_DOMAINS = {
    "log": (0.0, "log", "of what may be negative or NaN"),
    "log1p": (-1.0, "log1p", "of what may be below -1"),
    "sqrt": (0.0, "sqrt", "of what may be negative"),
    "rsqrt": (0.0, "rsqrt", "of what may be negative"),
}


def domains(program: Program) -> Iterator[Found]:
    """T303, T304: log and sqrt of negative numbers, asin and acos beyond 1."""
    for v in program.graph.of(*_DOMAINS, "asin", "acos", "atanh"):
        if v.context.backward or not v.is_float:
            continue
        x = v.operands[0].range
        if v.op in _DOMAINS:
            low, high = _DOMAINS[v.op][0], math.inf
        else:
            low, high = -1.0, 1.0
        at_end = low if v.op in ("log", "rsqrt") and v.is_users and not x.is_point else -math.inf
        if x.high < low or x.high <= at_end or x.low > high:
            yield Found(
                "T303",
                f"{v.op} of a number in {_interval(x)}: NaN for all arguments.",
                v,
                f"{v.op} is defined from {low:g} on" + (f" to {high:g}." if high < 2 else ".")
                + " Look for a sign that is wrong.",
            )  # fmt: skip
            continue
        slack = 1e-5 * max(1.0, abs(low))
        below, above = x.low < low - slack, x.high > high + slack
        if x.attained and (below or above) and not _is_guarded(v) and v.is_users:
            yield Found(
                "T304",
                f"{v.op} of a number in {_interval(x)}: NaN where it is "
                + (f"below {low:g}." if below else f"above {high:g}."),
                v,
                "Clip the argument, or choose a valid one with jnp.where before the function.",
            )


def _interval(x: Range) -> str:
    return f"{x.low:g}" if x.is_point else f"[{x.low:g}, {x.high:g}]"


def comparisons_with_nan(program: Program) -> Iterator[Found]:
    """T305: x == nan, which holds for no x."""
    for v in program.graph.of("eq", "ne"):
        for x in v.operands:
            made = plain(x)
            if made.op == "constant" and v.is_users and _is_nan(made.constant):
                answer = "False" if v.op == "eq" else "True"
                yield Found(
                    "T305",
                    f"a comparison with NaN is always {answer}.",
                    v,
                    "Use jnp.isnan(x).",
                )


def _is_nan(x: object) -> bool:
    array = np.asarray(x)
    return array.dtype.kind == "f" and array.size > 0 and bool(np.isnan(array).all())
