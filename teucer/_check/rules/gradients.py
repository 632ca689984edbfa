"""Rules on gradients: what has none, and activations that are flat."""

from __future__ import annotations

from collections.abc import Iterator

from teucer._check.graph import Value, plain
from teucer._check.program import Found, Program

_FLAT = frozenset(
    {
        "round", "floor", "ceil", "sign", "stop_gradient", "argmax", "argmin", "eq", "ne", "lt",
        "le", "gt", "ge", "is_finite", "nextafter", "argsort",
    }
)  # fmt: skip


def without_gradient(program: Program) -> Iterator[Found]:
    """T701: a loss that depends on its arguments only by ways that have no gradient."""
    results = program.graph.results
    floats = [v for v in program.graph.arguments if v.is_float]
    if len(results) != 1 or results[0].shape != () or not results[0].is_float or not floats:
        return
    blocked: list[Value] = []
    if _reaches(results[0], blocked) or not blocked:
        return
    at = blocked[0]
    how = (
        "stop_gradient"
        if at.op == "stop_gradient"
        else f"{at.op}, whose derivative is 0"
        if at.is_float
        else f"{at.op}, which gives {at.aval.str_short(True)}"
    )
    yield Found(
        "T701",
        f"the gradient of the result is 0 for all arguments: they reach it only through {how}.",
        at,
        "Use a smooth function in its place, or a straight-through estimator: "
        "x + stop_gradient(round(x) - x).",
    )


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
        if v.op in _FLAT or (v.op == "convert_element_type" and not v.is_float):
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
            if _is_softmax_of_one(v):
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
