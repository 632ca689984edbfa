"""Sums of exponentials, softmax, standardisation, one-hot encoding."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes, errors
from teucer._core.trace import Tracer
from teucer._core.typing import Array, ArrayLike, Axis
from teucer._derived.custom_jvp import custom_jvp
from teucer._dimensions.dimensions import as_size, is_symbolic
from teucer._transform.library import library
from teucer.lax._sharding import laid_out
from teucer.numpy._promotion import INEXACT, promote, promote_dtypes
from teucer.numpy._reductions import axis_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from teucer._core.typing import DTypeLike, Tangents
    from teucer._devices.specs import OutSharding


_F = TypeVar("_F", bound="Callable[..., Any]")


def _on_axes(run: _F) -> _F:
    """A function whose `axis` may be any sequence of axes. Compiled functions need hashable
    arguments."""

    @functools.wraps(run)
    def along(x: ArrayLike, axis: Axis = -1, *args: Any, **kwargs: object) -> Any:
        return run(x, axis if type(axis) is int else axis_key(axis), *args, **kwargs)

    return cast("_F", along)


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: Literal[False] = ...,
    where: ArrayLike | None = ...,
) -> Array: ...
@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: bool = ...,
    where: ArrayLike | None = ...,
) -> Any: ...
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """log(sum(b * exp(a))) along axes, without overflow.

    axis: an int, a tuple of ints, or None for all. b: weights, broadcast against a. where: which
    elements to include.
    return_sign: return (log of the absolute value, sign); without it a negative sum gives nan.
    All of a = -inf gives -inf; any +inf gives +inf; an empty axis gives -inf.

    >>> logsumexp(jnp.array([1000., 1000.]))
    Array(1000.6932, dtype=float32)

    Method: shift by max(a). Blanchard, Higham & Higham, IMA J. Numer. Anal. 41 (2021) 2311.
    """
    value, sign = _logsumexp(a, axis_key(axis), b, keepdims, where)
    if return_sign:
        return jnp.real(value), sign
    if b is None or dtypes.issubdtype(value.dtype, np.complexfloating):
        return value
    return jnp.where(sign < 0, jnp.nan, value)


@library(static=("axis", "keepdims"))
def _logsumexp(a: Any, axis: Any, b: Any, keepdims: bool, where: Any) -> Any:
    if b is not None:
        a, b = promote("logsumexp", INEXACT, a, b)
        a = jnp.where(b != 0, a, -jnp.inf)
    else:
        a = jnp.asarray(*promote_dtypes("logsumexp", INEXACT, a))
    if where is not None:
        # Left out before the exponential too: for a greater element it may overflow, and its
        # derivative would be nan.
        a = jnp.where(where, a, -jnp.inf)
    if not a.size and where is None:
        shape = jnp.sum(a, axis, keepdims=keepdims)
        return shape - jnp.inf, jnp.zeros_like(shape)
    largest = jnp.max(jnp.real(a), axis, keepdims=True, where=where, initial=-jnp.inf)
    shift = lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0))
    terms = jnp.exp(a - shift) if b is None else b * jnp.exp(a - shift)
    total = jnp.sum(terms, axis, keepdims=keepdims, where=where)
    sign = jnp.sign(total)
    shift = shift if keepdims else jnp.squeeze(shift, axis)
    magnitude = total if dtypes.issubdtype(total.dtype, np.complexfloating) else jnp.abs(total)
    return jnp.log(magnitude) + shift.astype(magnitude.dtype), sign


@library(static=("axis", "keepdims"))
def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """log(mean(exp(x))) along axes, without overflow.

    >>> logmeanexp(jnp.array([1000., 1000.]))
    Array(1000., dtype=float32)
    """
    total = logsumexp(x, axis, where=where, keepdims=keepdims)
    if where is None:
        count: Any = (
            np.size(x) if axis is None else np.prod([np.shape(x)[a] for a in np.atleast_1d(axis)])
        )
    else:
        count = jnp.sum(jnp.broadcast_to(where, np.shape(x)), axis, keepdims=keepdims)
    return total - jnp.log(jnp.asarray(count, total.dtype))


@_on_axes
@library(static=("axis",))
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)) along axes, without overflow.

    >>> log_softmax(jnp.array([0., 0.]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    (scores,) = promote_dtypes("log_softmax", INEXACT, x)
    largest = jnp.max(scores, axis, where=where, initial=-jnp.inf, keepdims=True)
    safe = scores if where is None else jnp.where(where, scores, -jnp.inf)
    shifted = safe - lax.stop_gradient(largest)
    result = shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    return result if where is None else jnp.where(where, result, -jnp.inf)


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _softmax(x: Array, where: ArrayLike | None, axis: Axis) -> Any:
    largest = jnp.max(x, axis, where=where, initial=-jnp.inf, keepdims=True)
    powers = jnp.exp(x - largest)
    result = powers / jnp.sum(powers, axis, where=where, keepdims=True)
    return result if where is None else jnp.where(where, result, 0)


@_softmax.defjvp
def _softmax_jvp(axis: int, primals: Sequence[Array], tangents: Tangents) -> Any:
    # y * (t - sum(y * t)): cheaper than the derivative of the quotient, and it keeps only y.
    (x, where), (t, _) = primals, tangents
    y = _softmax(x, where, axis)
    return y, y * (t - jnp.sum(y * t, axis, where=where, keepdims=True))


@_on_axes
@library(static=("axis",))
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along axes, without overflow.

    where: which elements to include; the others are 0.

    >>> softmax(jnp.array([0., 0.]))
    Array([0.5, 0.5], dtype=float32)
    """
    (x,) = promote_dtypes("softmax", INEXACT, x)
    return _softmax(x, where, axis)


@_on_axes
@library(static=("axis", "epsilon", "algorithm"))
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) along axes; mean and variance are computed unless
    given.

    algorithm: how the variance is computed: 'fast' as mean(x^2) - mean(x)^2, 'stable' as mean((x -
    mean)^2). Raises ValueError for another algorithm.

    >>> standardize(jnp.array([-1., 1.]), epsilon=0.)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}.")
    x = jnp.asarray(*promote_dtypes("standardize", INEXACT, x))
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "fast":
            square = jnp.mean(jnp.square(x), axis, keepdims=True, where=where)
            variance = jnp.maximum(square - jnp.square(mean), 0)
        else:
            variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
    return (x - mean) * lax.rsqrt(jnp.asarray(variance + epsilon, x.dtype))


def one_hot(
    x: ArrayLike,
    num_classes: int,
    *,
    dtype: DTypeLike | None = None,
    axis: int = -1,
    out_sharding: OutSharding = None,
) -> Array:
    """Arrays of zeros with a one at the index x, along a new axis of size num_classes.

    An index out of range gives zeros. dtype: by default the default float dtype. out_sharding: how
    the result lies over Explicit mesh axes.
    Raises ValueError if num_classes is not concrete or the axis is out of range.

    >>> one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    if isinstance(num_classes, Tracer) and num_classes.concrete() is None:
        raise errors.ConcretizationTypeError(
            num_classes, "The error arose in jax.nn.one_hot argument `num_classes`."
        )
    try:
        n = as_size(num_classes)
    except TypeError:
        raise TypeError(f"one_hot: num_classes must be an int, got {num_classes!r}.") from None
    if not is_symbolic(n) and n < 0:
        raise TypeError(f"one_hot: num_classes must be nonnegative, got {n}.")
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if out_sharding is None:
        return _one_hot(x, n, kind, axis)
    return laid_out("one_hot", out_sharding, lambda x: _one_hot(x, n, kind, axis), x)


@library(static=("n", "dtype", "axis"))
def _one_hot(x: ArrayLike, n: int, dtype: Any, axis: int) -> Any:
    x = jnp.asarray(x)
    dtype = dtypes.check_user_dtype_supported(float if dtype is None else dtype, "one_hot")
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise ValueError(
            f"one_hot: axis {axis} is out of bounds for array of dimension {x.ndim + 1}"
        )
    axis = axis % (x.ndim + 1)
    classes = jnp.arange(n, dtype=x.dtype)
    shape = [1] * (x.ndim + 1)
    shape[axis] = n
    return (jnp.expand_dims(x, axis) == jnp.reshape(classes, shape)).astype(dtype)
