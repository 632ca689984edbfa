"""Laws of derivatives, in 64 bits.

Forward mode is the limit of differences, reverse mode its transpose; and both twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optable.compare import assert_close
from optable.laws import (
    SECOND,
    assert_compared,
    cotangent,
    derivatives,
    direction,
    tangent,
)
from optable.table import NO_RULE, Op, all_ops
from optable.trees import along, flat_call, moving

from teucer import lax
from teucer._base import config
from teucer._derived.forward import jvp
from teucer._derived.staging import eval_shape, make_jaxpr
from teucer._derived.vjp import vjp
from teucer._transform import linearize
from teucer._transform.jit import jit

CASES = [
    pytest.param(op, dtype, id=f"{op}-{dtype}", marks=op.marks(quick=dtype[0] != "c" or i % 3 == 0))
    for i, op in enumerate(all_ops().values())
    for dtype in op.gradient_dtypes
]


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
        laws = SECOND - set(op.exceptions)
        results = jit(
            lambda inputs: [
                derivatives(f, *v, laws if i < 1 else laws - {"second"})
                for i, (f, v) in enumerate(zip(functions, inputs, strict=True))
            ]
        )(inputs)
        for i, compared in enumerate(results):
            assert_compared(compared, op.gradient_rtol, f"{op} of {dtype}, call {i}")


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
