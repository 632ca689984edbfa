"""Laws of derivatives, in 64 bits.

Forward mode is the limit of differences, reverse mode its transpose; and both twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optable.compare import assert_close
from optable.table import NO_RULE, Op, all_ops
from optable.trees import along, flat_call, moving

from teucer import lax
from teucer._base import config
from teucer._transform import linearize
from teucer._transform.forward import jvp
from teucer._transform.jit import jit
from teucer._transform.staging import eval_shape, make_jaxpr
from teucer._transform.vjp import vjp

STEP = 2.0**-13

CASES = [
    pytest.param(op, dtype, id=f"{op}-{dtype}", marks=op.marks())
    for op in all_ops().values()
    for dtype in op.gradient_dtypes
]
Function = Callable[..., list[Any]]


def direction(rng: np.random.Generator, like: Any) -> Any:
    """A random array of a type, its elements within [-1, 1]."""
    shape, dtype = np.shape(like), np.dtype(like.dtype)
    x = rng.uniform(-1, 1, shape)
    return np.asarray(x + 1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else x).astype(dtype)


def difference(f: Function, xs: Any, ts: Any) -> list[Any]:
    """The derivative of f at xs along ts, from four values: the error is of the fourth power of the
    step."""

    def at(h: float) -> list[Any]:
        return f(
            *(lax.add(x, lax.mul(t, np.asarray(h, t.dtype))) for x, t in zip(xs, ts, strict=True))
        )

    return [
        lax.div(
            lax.sub(lax.mul(lax.sub(b, c), np.asarray(8.0, b.dtype)), lax.sub(a, d)),
            np.asarray(12 * STEP, b.dtype),
        )
        for d, b, c, a in zip(at(-2 * STEP), at(STEP), at(-STEP), at(2 * STEP), strict=True)
    ]


def pairing(xs: Any, ys: Any) -> Any:
    """The real part of sum(x * y) over all arrays: what the transpose of a real-linear function
    keeps."""
    total: Any = 0.0
    for x, y in zip(xs, ys, strict=True):
        z = lax.mul(x, y)
        z = lax.real(z) if np.dtype(z.dtype).kind == "c" else z
        total = lax.add(total, lax.reduce_sum(z, tuple(range(z.ndim))))
    return total


def tangent(f: Function, xs: Any, ts: Any) -> list[Any]:
    return jvp(f, tuple(xs), tuple(ts))[1]


def cotangent(f: Function, xs: Any, cts: Any) -> list[Any]:
    return list(vjp(f, *xs)[1](list(cts)))


def derivatives(
    f: Function, xs: Any, ts: Any, us: Any, cts: Any, laws: frozenset[str]
) -> dict[str, Any]:
    """What each law compares: (found, expected)."""

    def pushed(*v: Any) -> list[Any]:
        return tangent(f, v, ts)

    def pulled(*v: Any) -> list[Any]:
        return cotangent(f, v, cts)

    by_differences = difference(f, xs, ts)
    compared: dict[str, Any] = {}
    if "forward" in laws:
        compared["forward mode against differences"] = pushed(*xs), by_differences
    if "reverse" in laws:
        compared["reverse mode against differences"] = (
            pairing(pulled(*xs), ts),
            pairing(cts, by_differences),
        )
    if {"forward", "second"} <= laws:
        compared["forward over forward against differences"] = (
            tangent(pushed, xs, us),
            difference(pushed, xs, us),
        )
    if {"reverse", "second"} <= laws:
        twice = difference(pulled, xs, us)
        compared["reverse over reverse against differences"] = (
            pairing(cotangent(pulled, xs, ts), us),
            pairing(ts, twice),
        )
        if "forward" in laws:
            compared["forward over reverse against differences"] = tangent(pulled, xs, us), twice
    return compared


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_derivatives(op: Op, dtype: str) -> None:
    """jvp is the limit of differences, vjp its transpose: <vjp ct, t> = <ct, jvp t>; and both of
    the derivatives themselves."""
    rng = np.random.default_rng(7)
    with config.enable_x64(True):
        functions, inputs = [], []
        for call in op.calls(dtype)[: op.gradient_calls]:
            leaves, f = flat_call(op, call)
            moves = moving(op, call)
            g = along(f, leaves, moves)
            xs = [np.asarray(x) for x, m in zip(leaves, moves, strict=True) if m]
            ys = eval_shape(g, *xs)
            if not xs or not ys or not sum(x.size for x in xs):
                continue
            functions.append(g)
            inputs.append((xs, *([direction(rng, v) for v in like] for like in (xs, xs, ys))))
        assert functions, (
            f"{op} of {dtype}: no call has an operand to differentiate; say gradients=()"
        )
        laws = frozenset({"forward", "reverse", "second"} - set(op.exceptions))
        results = jit(
            lambda inputs: [
                derivatives(f, *v, laws if i < 1 else laws - {"second"})
                for i, (f, v) in enumerate(zip(functions, inputs, strict=True))
            ]
        )(inputs)
        for i, compared in enumerate(results):
            for law, (found, expected) in compared.items():
                pairs = (
                    zip(found, expected, strict=True)
                    if isinstance(found, list | tuple)
                    else [(found, expected)]
                )
                for y, z in pairs:
                    assert_close(y, z, op.gradient_rtol, f"{op} of {dtype}, call {i}, {law}")


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_derivatives_along_each_operand(op: Op, dtype: str) -> None:
    """An operand that does not move is one whose tangent is zero: alone, each has its part of the
    tangents and of the cotangents."""
    with config.enable_x64(True):
        call = op.calls(dtype)[0]
        leaves, f = flat_call(op, call)
        moves = moving(op, call)
        g = along(f, leaves, moves)
        xs = [np.asarray(x) for x, m in zip(leaves, moves, strict=True) if m]
        if len(xs) < 2:
            return
        rng = np.random.default_rng(8)
        ts, cts = ([direction(rng, v) for v in like] for like in (xs, eval_shape(g, *xs)))

        def each(xs: Any, ts: Any, cts: Any) -> list[tuple[Any, Any]]:
            backward = "reverse" not in op.exceptions
            together = cotangent(g, xs, cts) if backward else []
            pairs: list[tuple[Any, Any]] = []
            for i, x in enumerate(xs):

                def alone(x: Any, i: int = i) -> list[Any]:
                    return g(*xs[:i], x, *xs[i + 1 :])

                if "forward" not in op.exceptions:
                    still = [t if j == i else lax.full_like(t, 0) for j, t in enumerate(ts)]
                    pairs += zip(tangent(alone, [x], [ts[i]]), tangent(g, xs, still), strict=True)
                if backward:
                    pairs += zip(cotangent(alone, [x], cts), together[i : i + 1], strict=True)
            return pairs

        for found, expected in jit(each)(xs, ts, cts):
            assert_close(found, expected, op.gradient_rtol, f"{op} of {dtype}")


@pytest.mark.parametrize(
    ("op", "dtype"), [case for case in CASES if "reverse" not in case.values[0].exceptions]
)
def test_linearization_once_and_often(op: Op, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivative that was worked out for types records what the jvp rule does, operation by
    operation."""
    with config.enable_x64(True):
        call = op.calls(dtype)[0]
        leaves, f = flat_call(op, call)
        moves = moving(op, call)
        xs = [np.asarray(x) for x, m in zip(leaves, moves, strict=True) if m]
        f = along(f, leaves, moves)

        def programs(rare: int) -> list[str]:
            monkeypatch.setattr(linearize, "RARE", rare)
            linearize.forget()
            y, pull = vjp(f, *xs)
            return [
                str(make_jaxpr(g)(*given))
                for g, given in (
                    (lambda *xs: vjp(f, *xs)[0], xs),
                    (pull, [y]),
                    (lambda *xs: cotangent(f, xs, f(*xs)), xs),
                )
            ]

        assert programs(0) == programs(1000)


@pytest.mark.parametrize(
    "op", [op for op in all_ops().values() if op.exceptions.get("gradient") == NO_RULE], ids=str
)
def test_missing_derivative_is_an_error(op: Op) -> None:
    """An operation that has no derivative says so, and gives no zeros."""
    dtype = next(d for d in ("float32", "float64", "complex64") if d in op.dtypes)
    leaves, f = flat_call(op, op.calls(dtype)[0])
    with pytest.raises(NotImplementedError, match="(?i)(differentiation rule for|derivatives of)"):
        jvp(f, tuple(leaves), tuple(leaves))
