"""Activation functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer._transform.library import library
from teucer.numpy._promotion import INEXACT, check_arraylike, promote_dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Tangents


tanh = jnp.tanh


def _array(name: str, x: ArrayLike) -> Array:
    """`x` as an array; TypeError if it is not an array or a number."""
    check_arraylike(name, x)
    return jnp.asarray(x)


def _inexact(x: Array) -> Array:
    """`x` as an array of inexact dtype."""
    return promote_dtypes("nn", INEXACT, x)[0]


def identity(x: ArrayLike) -> Array:
    """x itself, as an array.

    >>> identity(1.5)
    Array(1.5, dtype=float32, weak_type=True)
    """
    return _array("identity", x)


@custom_jvp
def _relu(x: Array) -> Any:
    return jnp.maximum(x, 0)


@_relu.defjvp
def _relu_jvp(primals: Sequence[Array], tangents: Tangents) -> Any:
    """The derivative at 0 is 0; for a maximum of two equal values it would be 1/2."""
    (x,), (t,) = primals, tangents
    return _relu(x), jnp.where(x > 0, t, jnp.zeros_like(t))


@library
def relu(x: ArrayLike) -> Array:
    """max(x, 0), with derivative 0 at 0.

    >>> relu(jnp.array([-1., 0., 2.]))
    Array([0., 0., 2.], dtype=float32)
    """
    return _relu(_array("relu", x))


@custom_jvp
def _relu6(x: Array) -> Any:
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


@_relu6.defjvp
def _relu6_jvp(primals: Sequence[Array], tangents: Tangents) -> Any:
    (x,), (t,) = primals, tangents
    return _relu6(x), jnp.where((x > 0) & (x < 6), t, jnp.zeros_like(t))


@library
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), with derivative 0 at 0 and 6.

    >>> relu6(jnp.array([-1., 3., 9.]))
    Array([0., 3., 6.], dtype=float32)
    """
    return _relu6(_array("relu6", x))


@library
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x^2 + b)) / 2, a smooth rectifier.

    >>> squareplus(0.)
    Array(1., dtype=float32, weak_type=True)

    Source: Barron, "Squareplus: a softplus-like algebraic rectifier", 2021.
    """
    x = _array("squareplus", x)
    y = x + jnp.sqrt(jnp.square(x) + b)
    return y / 2


@library
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow.

    >>> softplus(jnp.array([-1000., 1000.]))
    Array([   0., 1000.], dtype=float32)
    """
    return jnp.logaddexp(x, 0)


@library
def sparse_plus(x: ArrayLike) -> Array:
    """0 for x <= -1, (x + 1)^2 / 4 up to 1, x above: a rectifier with a quadratic knee.

    >>> sparse_plus(jnp.array([-2., 0., 2.]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _array("sparse_plus", x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@custom_jvp
def _soft_sign(x: Array) -> Any:
    return x / (jnp.abs(x) + 1)


@_soft_sign.defjvp
def _soft_sign_jvp(primals: Sequence[Array], tangents: Tangents) -> Any:
    # The terms of a quotient's derivative cancel where x is large.
    (x,), (t,) = primals, tangents
    return _soft_sign(x), t * jnp.square(1 / (jnp.abs(x) + 1))


@library
def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + |x|).

    >>> soft_sign(1.)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return _soft_sign(_array("soft_sign", x))


@library
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> sigmoid(0.)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(_array("sigmoid", x))


@library
def sparse_sigmoid(x: ArrayLike) -> Array:
    """The derivative of `sparse_plus`: (x + 1) / 2, cut at 0 and 1.

    >>> sparse_sigmoid(jnp.array([-2., 0., 2.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * jnp.clip(_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


@library
def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x), also called swish.

    >>> silu(0.)
    Array(0., dtype=float32, weak_type=True)
    """
    x = _array("silu", x)
    return x * lax.logistic(x)


swish = silu


@library
def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x)).

    >>> mish(0.)
    Array(0., dtype=float32, weak_type=True)

    Source: Misra, "Mish: a self regularized non-monotonic activation function", 2019.
    """
    x = _array("mish", x)
    return x * jnp.tanh(softplus(x))


@library
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without overflow.

    >>> log_sigmoid(-1000.)
    Array(-1000., dtype=float32, weak_type=True)
    """
    return -softplus(-_array("log_sigmoid", x))


@custom_jvp
def _log1mexp(minus: Any) -> Any:
    return jnp.where(minus > -math.log(2), jnp.log(-jnp.expm1(minus)), jnp.log1p(-jnp.exp(minus)))


@_log1mexp.defjvp
def _log1mexp_jvp(primals: Any, tangents: Any) -> Any:
    (minus,), (t,) = primals, tangents
    return _log1mexp(minus), -t / jnp.expm1(-minus)


@library
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, accurate near 0 and far from it.

    >>> log1mexp(1000.)
    Array(-0., dtype=float32, weak_type=True)

    Method: log(-expm1(-x)) for x < log 2, log1p(-exp(-x)) above. Maechler, 2012.
    """
    return _log1mexp(_inexact(-_array("log1mexp", x)))


@library
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha * (exp(x) - 1) below.

    >>> elu(jnp.array([0., 1.]))
    Array([0., 1.], dtype=float32)
    """
    x = _array("elu", x)
    safe = jnp.where(x > 0, 0.0, x)
    return jnp.where(x > 0, x, alpha * jnp.expm1(safe))


@library
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x from 0 up, negative_slope * x below.

    >>> leaky_relu(jnp.array([-1., 1.]))
    Array([-0.01,  1.  ], dtype=float32)
    """
    x = _array("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


@library
def hard_tanh(x: ArrayLike) -> Array:
    """x cut at -1 and 1.

    >>> hard_tanh(jnp.array([-2., 0.5]))
    Array([-1. ,  0.5], dtype=float32)
    """
    x = _array("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@library
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha * (exp(x / alpha) - 1) below.

    >>> celu(jnp.array([0., 1.]))
    Array([0., 1.], dtype=float32)
    """
    x = _array("celu", x)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@library
def selu(x: ArrayLike) -> Array:
    """scale * elu(x, alpha), with the constants that keep mean 0 and variance 1.

    >>> selu(1.)
    Array(1.050701, dtype=float32, weak_type=True)

    Source: Klambauer et al., "Self-normalizing neural networks", 2017.
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@library(static=("approximate",))
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x * Phi(x), with the normal distribution function Phi, or its approximation by a tanh.

    >>> gelu(jnp.array([0., 100.]))
    Array([  0., 100.], dtype=float32)

    Source: Hendrycks & Gimpel, "Gaussian error linear units", 2016.
    """
    x = _inexact(_array("gelu", x))
    if approximate:
        inner = np.asarray(math.sqrt(2 / math.pi), x.dtype) * (x + 0.044715 * (x**3))
        return x * (0.5 * (1.0 + jnp.tanh(inner)))
    return 0.5 * x * lax.erfc(-x * np.asarray(math.sqrt(0.5), x.dtype))


@library(static=("axis",))
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of x along an axis times the sigmoid of the second.

    Raises ValueError if the axis has an odd size.

    >>> glu(jnp.array([2., 0.]))
    Array([1.], dtype=float32)
    """
    x = _array("glu", x)
    size = x.shape[axis]
    if size % 2:
        raise ValueError(
            f"glu: axis size must be divisible by 2.\n    x: {typeof(x).str_short(True)}, axis "
            f"{axis} has size {size}"
        )
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


@library
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6.

    >>> hard_sigmoid(0.)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return relu6(_array("hard_sigmoid", x) + 3.0) / 6.0


@library
def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x), also called hard swish.

    >>> hard_silu(3.)
    Array(3., dtype=float32, weak_type=True)
    """
    x = _array("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu
