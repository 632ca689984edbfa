"""Initial values of parameters.

Each maker returns init(key, shape, dtype=None, out_sharding=None).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from teucer import numpy as jnp
from teucer import random
from teucer._base import dtypes
from teucer._base.lazy import listing
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer.lax._sharding import laid_out

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.specs import OutSharding

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

Initializer = Callable[..., Any]


def _dtype(chosen: object, default: object) -> Any:
    dtype = default if chosen is None else chosen
    return dtypes.check_user_dtype_supported(float if dtype is None else dtype, "initializer")


def _initializer(init: Callable[..., object]) -> Initializer:
    """An initializer whose result can be laid out by a sharding over Explicit mesh axes."""

    @functools.wraps(init)
    def placed(
        key: Value,
        shape: Sequence[int],
        dtype: DTypeLike | None = None,
        out_sharding: OutSharding = None,
    ) -> Any:
        if out_sharding is None:
            return init(key, shape, dtype)
        return laid_out("an initializer", out_sharding, lambda key: init(key, shape, dtype), key)

    return placed


def zeros(
    key: object,
    shape: Sequence[int],
    dtype: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros.

    >>> zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return jnp.zeros(shape, _dtype(dtype, None), out_sharding=out_sharding)


def ones(
    key: object,
    shape: Sequence[int],
    dtype: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Ones.

    >>> ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return jnp.ones(shape, _dtype(dtype, None), out_sharding=out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer of one value.

    >>> constant(3.)(None, (2,))
    Array([3., 3.], dtype=float32)
    """
    default = dtype

    @_initializer
    def init(key: Value, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        return jnp.full(shape, value, _dtype(dtype, default))

    return init


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Uniform values in [0, scale)."""
    default = dtype

    @_initializer
    def init(key: Array, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        dtype = _dtype(dtype, default)
        return random.uniform(key, shape, dtype) * jnp.array(scale, dtype)

    return init


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Normal values of the given standard deviation."""
    default = dtype

    @_initializer
    def init(key: Array, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        dtype = _dtype(dtype, default)
        return random.normal(key, shape, dtype) * jnp.array(stddev, dtype)

    return init


def truncated_normal(
    stddev: ArrayLike = 1e-2,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """Normal values of the given standard deviation, cut at lower and upper standard deviations."""
    default = dtype

    @_initializer
    def init(key: Array, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        dtype = _dtype(dtype, default)
        return random.truncated_normal(key, lower, upper, shape, dtype) * jnp.array(stddev, dtype)

    return init


def _fans(
    shape: Sequence[int], in_axis: object, out_axis: object, batch_axis: object
) -> tuple[Any, Any]:
    """Number of inputs and outputs of a unit, whose axes stand among the axes of the receptive
    field; of symbolic sizes arrays."""
    if len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor. "
            "Must be at least 2D."
        )

    def product(axes: Any) -> Any:
        return math.prod([shape[a] for a in (axes if isinstance(axes, Iterable) else (axes,))])

    inputs, outputs, batch = product(in_axis), product(out_axis), product(batch_axis)
    field = math.prod(shape) / inputs / outputs / batch
    return inputs * field, outputs * field


def variance_scaling(
    scale: ArrayLike,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"] | str,
    distribution: Literal["truncated_normal", "normal", "uniform"] | str,
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Values whose variance is scale / fan, with fan the number of inputs, outputs, or their mean.

    in_axis, out_axis, batch_axis: the axes of inputs, outputs and batches; the others are the
    receptive field. Raises ValueError for an unknown mode or distribution, or a shape of fewer than
    two axes.

    >>> import teucer as jax
    >>> variance_scaling(1., "fan_in", "normal")(jax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    default = dtype
    fan_of = {
        "fan_in": lambda i, o: i,
        "fan_out": lambda i, o: o,
        "fan_avg": lambda i, o: (i + o) / 2,
        "fan_geo_avg": lambda i, o: (i * o) ** 0.5,
    }
    if mode not in fan_of:
        raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")

    @_initializer
    def init(key: Array, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        dtype = _dtype(dtype, default)
        variance = jnp.array(
            scale / fan_of[mode](*_fans(shape, in_axis, out_axis, batch_axis)), dtype
        )
        if distribution == "normal":
            return random.normal(key, shape, dtype) * jnp.sqrt(variance)
        if distribution == "uniform" and dtypes.issubdtype(dtype, np.floating):
            return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)
        if distribution == "uniform":
            # The variance of the unit disk is 1/2.
            return _complex_uniform(key, shape, dtype) * jnp.sqrt(2 * variance)
        if dtypes.issubdtype(dtype, np.floating):
            # 0.8796... is the standard deviation of a normal distribution cut at -2 and 2.
            stddev = jnp.sqrt(variance) / jnp.array(0.87962566103423978, dtype)
            return random.truncated_normal(key, -2, 2, shape, dtype) * stddev
        # 0.9531... is the corresponding constant of the complex distribution, cut at radius 2.
        stddev = jnp.sqrt(variance) / jnp.array(0.95311164380491208, dtype)
        return _complex_truncated_normal(key, 2, shape, dtype) * stddev

    return init


def _complex_uniform(key: Array, shape: Sequence[int], dtype: DTypeLike) -> Any:
    """Uniform values in the complex unit disk."""
    key_radius, key_angle = random.split(key)
    real = np.empty(0, dtype).real.dtype
    radius = jnp.sqrt(random.uniform(key_radius, shape, real)).astype(dtype)
    angle = 2 * np.pi * random.uniform(key_angle, shape, real).astype(dtype)
    return radius * jnp.exp(1j * angle)


def _complex_truncated_normal(
    key: Array, upper: Any, shape: Sequence[int], dtype: DTypeLike
) -> Any:
    """Standard complex normal values of magnitude up to `upper`."""
    key_radius, key_angle = random.split(key)
    real = np.empty(0, dtype).real.dtype
    u = (1 - jnp.exp(jnp.array(-(upper**2), real))) * random.uniform(key_radius, shape, real)
    radius = jnp.sqrt(-jnp.log(1 - u)).astype(dtype)
    angle = 2 * np.pi * random.uniform(key_angle, shape, real).astype(dtype)
    return radius * jnp.exp(1j * angle)


def _scaled(
    name: str, scale: float, mode: str, distribution: str, source: str
) -> Callable[..., Initializer]:
    def make(
        in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"variance_scaling({scale}, {mode!r}, {distribution!r}).\n\nSource: {source}"
    return make


_GLOROT = (
    'Glorot & Bengio, "Understanding the difficulty of training deep feedforward neural '
    'networks", 2010.'
)
_LECUN = 'LeCun et al., "Efficient backprop", 1998.'
_HE = 'He et al., "Delving deep into rectifiers", 2015.'
glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", _GLOROT)
glorot_normal = xavier_normal = _scaled(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", _GLOROT
)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", _LECUN)
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", _LECUN)
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", _HE)
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", _HE)


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Matrices with orthonormal rows or columns, times scale; other axes than column_axis are rows.

    Raises ValueError for shapes of fewer than two axes.

    >>> import teucer as jax
    >>> q = orthogonal()(jax.random.key(0), (3, 3))
    >>> bool(jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-5))
    True
    """
    default = dtype

    @_initializer
    def init(key: Array, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        dtype = _dtype(dtype, default)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        rows = int(np.prod(shape)) // shape[column_axis]
        columns = shape[column_axis]
        tall = (rows, columns) if rows >= columns else (columns, rows)
        q, r = jnp.linalg.qr(random.normal(key, tall, dtype))
        diagonal = jnp.diag(r)
        q = q * jnp.expand_dims(
            diagonal / jnp.abs(diagonal).astype(dtype), 0
        )  # which makes q uniform: Mezzadri, 2006
        q = q if rows >= columns else q.T
        moved = (*np.delete(shape, column_axis), columns)
        return jnp.array(scale, dtype) * jnp.moveaxis(
            jnp.reshape(q, tuple(map(int, moved))), -1, column_axis
        )

    return init


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Convolution kernels that are zero but for an orthogonal matrix at their centre.

    shape: 3 to 5 axes, spatial ones first, then inputs and outputs. Raises ValueError for other
    shapes, or more inputs than outputs.

    Source: Xiao et al., "Dynamical isometry and a mean field theory of CNNs", 2018.
    """
    default = dtype

    @_initializer
    def init(key: Array, shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        dtype = _dtype(dtype, default)
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:], dtype)
        centre = tuple((k - 1) // 2 for k in shape[:-2])
        return jnp.zeros(shape, dtype).at[centre].set(matrix)

    return init
