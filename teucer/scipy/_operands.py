"""Operands of functions as arrays of one dtype of floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer.numpy._promotion import INEXACT, check_arraylike, promote, promote_dtypes

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Value


def inexact(name: str, *xs: Value) -> list[Array]:
    """Operands in one inexact dtype and one shape; numbers become arrays, since Python's division
    by zero raises."""
    return [jnp.asarray(x) for x in promote(name, INEXACT, *xs)]


def strong(name: str, *xs: Value) -> list[Array]:
    """As `inexact`, strongly typed."""
    return [x.astype(x.dtype) for x in inexact(name, *xs)]


def floating(name: str, x: ArrayLike) -> Array:
    """An operand of real floats, strongly typed. Raises TypeError for any other dtype: integers are
    not converted, as in JAX."""
    check_arraylike(name, x)
    y = jnp.asarray(x)
    if not jnp.issubdtype(y.dtype, np.floating):
        raise TypeError(
            f"{name}: x.dtype={y.dtype} is not supported, see docstring for supported types."
        )
    return y.astype(y.dtype)


def real(name: str, *xs: Value, error: type[Exception] = TypeError) -> list[Array]:
    """As `inexact`, of real numbers only: raises `error` for complex ones."""
    values = inexact(name, *xs)
    for x in values:
        if jnp.iscomplexobj(x):
            raise error(
                f"{name} does not support complex-valued inputs: must be real-valued. Got dtype "
                f"{x.dtype}."
            )
    return values


def as_complex(x: Array) -> Array:
    """The same numbers as complex ones of the same precision."""
    return x if jnp.iscomplexobj(x) else lax.complex(x, jnp.zeros_like(x))


def matrices(name: str, *xs: Value) -> list[Array]:
    """Operands in one inexact dtype; their shapes stay."""
    return [jnp.asarray(x) for x in promote_dtypes(name, INEXACT, *xs)]


def of_one_rank(*xs: Array) -> list[Array]:
    """Operands with as many axes each: missing axes, of size 1, are added in front."""
    rank = max(x.ndim for x in xs)
    return [jnp.reshape(x, ((1,) * (rank - x.ndim) + x.shape)) for x in xs]


def identity(x: Array, columns: int | None = None) -> Array:
    """The identity with the rows of the matrices x, and as many columns, in as many axes."""
    rows = x.shape[-2]
    eye = jnp.eye(rows, columns, dtype=x.dtype)
    return jnp.reshape(eye, (*(1,) * (x.ndim - 2), *eye.shape))


def along_last(v: ArrayLike, x: Array) -> Array:
    """A vector as the last of as many axes as x has."""
    return jnp.reshape(v, (*(1,) * (x.ndim - 1), -1))


def product(x: ArrayLike, y: ArrayLike) -> Array:
    """x @ y in full precision, which GPUs and TPUs do not give by default."""
    return jnp.matmul(x, y, precision="highest")
