"""Vector quantization."""

from __future__ import annotations

from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.scipy._operands import matrices

__all__ = ["vq"]
__dir__ = listing(__name__, __all__)


@fast(static=("check_finite",))
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The number of the nearest code for each observation, and its distance.

    obs: T[m, n], code_book: T[k, n]; T[m] and T[k] where n is 1  ->  int[m], T[m]
    check_finite has no effect.
    Raises ValueError for other shapes.

    >>> vq(jnp.array([[1., 1.], [4., 4.]]), jnp.array([[0., 0.], [4., 5.]]))
    (Array([0, 1], dtype=int32), Array([1.4142135, 1.       ], dtype=float32))
    """
    obs, code_book = matrices("vq", obs, code_book)
    if obs.ndim != code_book.ndim:
        raise ValueError(
            f"vq: Observation and code_book should have the same rank, got {obs.ndim} and "
            f"{code_book.ndim}."
        )
    if obs.ndim not in (1, 2):
        raise ValueError(f"vq: ndim different than 1 or 2 are not supported, got {obs.ndim}.")
    if obs.ndim == 1:
        obs, code_book = obs[:, None], code_book[:, None]
    if obs.shape[1] != code_book.shape[1]:
        raise ValueError(
            f"vq: observations and codes differ in length\n    obs: {obs.shape}\n"
            f"    code_book: {code_book.shape}"
        )
    distances = jnp.linalg.norm(obs[:, None] - code_book[None], axis=-1)
    code = jnp.argmin(distances, axis=-1)
    return code, jnp.min(distances, axis=-1)
