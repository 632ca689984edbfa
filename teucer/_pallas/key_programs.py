"""Random keys in kernels: they are their words, and what is done with them is programs of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from teucer import lax
from teucer._base import config
from teucer._core.jaxpr import Eqn
from teucer.lax import _random_keys as keys
from teucer.lax._random import PARITY, ROTATIONS, threefry2x32_p

# Primitives that hand words on.
SAME = (keys.random_wrap_p, keys.random_unwrap_p, keys.random_clone_p)


def _of_keys(f: Callable[..., object]) -> Any:
    """A program for arrays of keys, made of f(generator, equation, words of one key, ...)."""

    def program(eqn: Eqn, words: object, *rest: Any) -> Any:
        aval = eqn.invars[0].aval
        one = keys.over_keys(lambda k, *more: f(aval.dtype._impl, eqn, k, *more), aval.ndim)
        with config.threefry_partitionable(eqn.params.get("partitionable", True)):
            return [one(words, *rest)]

    return program


def _seeded(eqn: Eqn, seeds: Any) -> Any:
    one = keys.over_keys(eqn.params["impl"].seed, len(seeds.shape))
    return [one(seeds)]


def _threefry(eqn: Eqn, k0: Any, k1: Any, x0: Any, x1: Any) -> Any:
    shape = eqn.outvars[0].aval.shape
    k0, k1, x0, x1 = (
        lax.broadcast(x, shape)
        if not x.shape
        else lax.broadcast_in_dim(x, shape, range(len(shape)))
        for x in (k0, k1, x0, x1)
    )

    def number(n: int) -> Any:
        return lax.full(shape, n, np.uint32)

    schedule = (k0, k1, lax.bitwise_xor(lax.bitwise_xor(k0, k1), number(PARITY)))
    x0, x1 = lax.add(x0, k0), lax.add(x1, k1)
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = lax.add(x0, x1)
            rotated = lax.bitwise_or(
                lax.shift_left(x1, number(r)), lax.shift_right_logical(x1, number(32 - r))
            )
            x1 = lax.bitwise_xor(rotated, x0)
        x0 = lax.add(x0, schedule[(i + 1) % 3])
        x1 = lax.add(lax.add(x1, schedule[(i + 2) % 3]), number(i + 1))
    return [x0, x1]


# (equation, *arrays) -> results.
PROGRAMS: dict[Any, Callable[..., Any]] = {
    keys.random_bits_p: _of_keys(
        lambda g, e, k: g.random_bits(k, e.params["bit_width"], e.params["shape"])
    ),
    keys.random_split_p: _of_keys(lambda g, e, k: g.split(k, e.params["shape"])),
    keys.random_fold_in_p: _of_keys(lambda g, e, k, message: g.fold_in(k, message)),
    keys.random_seed_p: _seeded,
    threefry2x32_p: _threefry,
}
