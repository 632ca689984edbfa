"""Orders of operations that the compiler must keep, although no value says them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from teucer._base.lazy import listing
from teucer._core.typing import ArrayLike
from teucer.lax._conversion import stop_gradient
from teucer.lax._foreign.calls import ffi_call

__all__ = ["control_dep", "schedule"]
__dir__ = listing(__name__, __all__)


def control_dep(src: ArrayLike, dst: ArrayLike) -> None:
    """Have a compiled program compute one value before another.

    src: computed first. dst: computed after src, which must not depend on dst.
    Values and derivatives stay as they are; eagerly it has no effect. Where src depends on dst the
    program does not compile.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.jit
    ... def f(x):
    ...     first, then = jnp.sin(x), jnp.cos(x)
    ...     control_dep(first, then)
    ...     return first + then
    >>> f(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    call = ffi_call("control_dep", (), has_side_effect=True, vmap_method="broadcast_all")
    call(stop_gradient(src), stop_gradient(dst))


def schedule(ops: Sequence[ArrayLike]) -> None:
    """Have a compiled program compute values in the order of a list: `control_dep` of neighbours.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.jit
    ... def f(x):
    ...     a, b, c = jnp.sin(x), jnp.cos(x), jnp.exp(x)
    ...     schedule([c, b, a])
    ...     return a + b + c
    >>> f(0.0)
    Array(2., dtype=float32, weak_type=True)
    """
    for src, dst in pairwise(ops):
        control_dep(src, dst)
