"""Pairs of operations of the table in one program, with each pass and each switch on and off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from optable.table import Op, all_ops, precision_of
from optable.test_values import check, evaluated
from optable.trees import flat_call

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config
from teucer._executables.compile import NO_SWITCHES, Switches
from teucer._targets.cpu import joined as joined_module
from teucer._targets.cpu.constants import JoinedRates
from teucer._targets.cpu.target import CPU
from teucer._xla import client as xla

FREE = JoinedRates(kernel=0, loop=0, function=0)
# What the target tells the compiler: all, nothing, and each alone.
SWITCHES = {
    "no switches": NO_SWITCHES,
    "lean": Switches({}, xla.LEAN_CODE),
    "whole loops": Switches({}, xla.LOOPS_WHOLE),
    "loops apart": Switches({}, xla.LOOPS_APART),
    "Eigen": Switches(xla.EIGEN_CONVOLUTIONS, ()),
}
OPTIONS: dict[str, Any] = {
    "not outlined": lambda: config.outline("off"),
    "outlined": lambda: config.outline("force"),
    "not optimized": lambda: config.optimize_jaxprs(False),
}
MODES = (*SWITCHES, *OPTIONS, "joined")
QUICK = 40  # of so many pairs the quick suite tries one, in one mode


@contextlib.contextmanager
def mode_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if name in OPTIONS:
        with OPTIONS[name]():
            yield
        return
    with monkeypatch.context() as patch:
        if name == "joined":
            patch.setattr(joined_module, "JOINED_RATES", FREE)
        else:
            patch.setattr(CPU, "switches", lambda *_, **__: SWITCHES[name])
        yield


def pairs() -> list[Any]:
    """Each operation with another one that takes the same type, drawn by chance."""
    draw, found = np.random.default_rng(0), []
    by_dtype: dict[str, list[Op]] = {}
    for op in all_ops().values():
        by_dtype.setdefault(op.vmap_dtype, []).append(op)
    for dtype, ops in by_dtype.items():
        for op, i in zip(ops, draw.permutation(len(ops)), strict=True):
            quick = len(found) % QUICK == 0 and not (op.slow or ops[i].slow)
            marks = () if quick else pytest.mark.slow
            found.append(pytest.param(op, ops[i], dtype, id=f"{op}-{ops[i]}-{dtype}", marks=marks))
    return found


@pytest.mark.parametrize(("first", "second", "dtype"), pairs())
def test_pairs_of_operations(
    first: Op, second: Op, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operands lie between transpositions, for which XLA chooses orders of its own."""

    def both(fs: Any, is_on: Any, *operands: Any) -> Any:
        moved = [[jnp.where(is_on, x.T, jnp.zeros_like(x.T)) for x in xs] for xs in operands]
        return [jax.tree.map(jnp.transpose, f(*xs)) for f, xs in zip(fs, moved, strict=True)]

    with precision_of(dtype):
        calls = [flat_call(op, op.calls(dtype)[0]) for op in (first, second)]
        expected = [evaluated(op.name, dtype)[0] for op in (first, second)]
        operands = [[np.transpose(x) for x in leaves] for leaves, _ in calls]
        for mode in MODES:
            with mode_of(mode, monkeypatch):
                found = jax.jit(lambda *xs: both([f for _, f in calls], *xs))(True, *operands)
            for op, got, right in zip((first, second), found, expected, strict=True):
                check(op, dtype, 0, jax.tree.map(np.transpose, got), right, mode)
