"""Rules on gradients: values without a gradient, and flat activations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from teucer._base import source
from teucer._check.graph import Value, plain
from teucer._check.program import Found, Program
from teucer._core.calls import fun_name

_FLAT = frozenset(
    {
        "round", "floor", "ceil", "sign", "stop_gradient", "argmax", "argmin", "eq", "ne", "lt",
        "le", "gt", "ge", "is_finite", "nextafter", "argsort",
    }
)  # fmt: skip


_METRIC = re.compile(r"acc|metric|correct|error_rate|eval|score|predict|classif|count|hit")
_LOSS = re.compile(r"loss|cost|objective|energy|nll|elbo|likelihood|log_?prob|logp|penalty")


def zero_gradients(program: Program) -> Iterator[Found]:
    """T701: a derivative that is zero for all arguments."""
    values = program.graph.values
    if not any(v.is_differentiated for v in values) or any(v.context.backward for v in values):
        return
    zeros = [v for v in values if v.op == "broadcast_in_dim" and _is_zero_derivative(v)]
    results = program.graph.results
    if not zeros and not any(
        v.op == "constant" and v.is_float and v.range[:2] == (0, 0) for v in results
    ):
        return
    yield _without(program, zeros[0] if zeros else program.line, "T701", "the gradient is 0")


def _is_zero_derivative(v: Value) -> bool:
    """Whether this equation makes the zeros of a derivative that depends on nothing."""
    if v.eqn is None or v.eqn.place is None or v.range[:2] != (0, 0):
        return False
    codes = v.eqn.place.raw_frames()[0]
    return any(c.co_name == "instantiate" and source.is_internal(c.co_filename) for c in codes[:12])


def _without(program: Program, at: Any, number: str, what: str) -> Found:
    flat = next(
        (v for v in program.graph.values if _is_flat(v) and v.is_users and _depends(v)), None
    )
    how = ""
    if flat is not None:
        way = "stop_gradient" if flat.op == "stop_gradient" else f"{flat.op}, which has none"
        how = f" They reach the result only through {way}, at {flat.line}."
    return Found(
        number,
        f"{what} for all arguments.{how}",
        at,
        "Use a smooth function in its place, or a straight-through estimator: "
        "x + stop_gradient(round(x) - x).",
    )


def _is_flat(v: Value) -> bool:
    return v.op in _FLAT or (v.op == "convert_element_type" and not v.is_float)


def without_gradient(program: Program) -> Iterator[Found]:
    """T703: a loss that depends on its arguments only through operations without a gradient."""
    name = fun_name(program.fun).lower()
    if _METRIC.search(name) or (program.settings.called and not _LOSS.search(name)):
        return
    results = program.graph.results
    floats = [v for v in program.graph.arguments if v.is_float]
    if len(results) != 1 or results[0].shape != () or not results[0].is_float or not floats:
        return
    if any(v.is_differentiated for v in program.graph.values):
        return
    blocked: list[Value] = []
    if not _reaches(results[0], blocked) and blocked:
        yield _without(program, blocked[0], "T703", "the gradient of the result would be 0")


def _reaches(result: Value, blocked: list[Value]) -> bool:
    """Whether an argument that is a float reaches a result by operations with derivatives."""
    seen, queue = {id(result)}, [result]
    while queue:
        v = queue.pop()
        if v.op == "argument":
            if v.is_float:
                return True
            continue
        if v.op == "constant":
            continue
        if _is_flat(v):
            if _depends(v):
                blocked.append(v)
            continue
        operands = v.operands[1:] if v.op == "select_n" else v.operands
        if v.op == "select_n" and _depends(v.operands[0]):
            blocked.append(v.operands[0])
        if v.op == "carry" and v.next is not None:
            operands = (*operands, v.next)
        for x in operands:
            if id(x) not in seen:
                seen.add(id(x))
                queue.append(x)
    return False


def _depends(v: Value) -> bool:
    """Whether a value depends on an argument that is a float."""
    seen, queue = {id(v)}, [v]
    while queue:
        x = queue.pop()
        if x.op == "argument" and x.is_float:
            return True
        for y in x.operands:
            if id(y) not in seen:
                seen.add(id(y))
                queue.append(y)
    return False


def saturated(program: Program) -> Iterator[Found]:
    """T702: an activation whose arguments are all where it is flat; softmax over one element."""
    for v in program.graph.of("tanh", "logistic", "erf", "max", "div"):
        if v.context.backward or not v.is_float:
            continue
        x = v.operands[0]
        if v.op == "div":
            if v.is_users and _is_softmax_of_one(v):
                yield Found(
                    "T702",
                    "softmax over an axis of one element is 1 for all arguments, and its gradient "
                    "is 0.",
                    v,
                    "For one output use jax.nn.sigmoid, or give the axis of the classes.",
                )
            continue
        if v.op == "max":
            if "_relu" in v.context.calls and x.range.high <= 0 and not x.range.is_point:
                yield Found(
                    "T702",
                    "relu of what is never positive is 0 for all arguments, and so is its "
                    "gradient.",
                    v,
                    "Look for a sign that is wrong, or two activations one after the other.",
                )
            continue
        limit = 16.0 if v.op != "erf" else 5.0
        if not x.range.is_point and (x.range.low >= limit or x.range.high <= -limit):
            yield Found(
                "T702",
                f"{v.op} of numbers in [{x.range.low:g}, {x.range.high:g}] is flat: its gradient "
                "rounds to 0.",
                v,
                "Scale the argument down.",
            )


def _is_softmax_of_one(v: Value) -> bool:
    if "_softmax" not in v.context.calls:
        return False
    total = plain(v.operands[1])
    if total.op != "reduce_sum":
        return False
    x = total.operands[0]
    sizes = [x.shape[a] for a in total.params["axes"]]
    return bool(sizes) and all(n == 1 for n in sizes)
