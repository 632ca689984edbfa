"""Resampling of arrays along axes: each new element is a weighted mean of the old ones near it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer._dimensions.dimensions import is_constant, max_dim
from teucer.lax import Precision
from teucer.lax._structure import canonical_axis, canonical_shape
from teucer.numpy._library import fast
from teucer.numpy._promotion import INEXACT, check_arraylike, promote_dtypes

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike
    from teucer.lax._precision import PrecisionLike


class ResizeMethod(enum.Enum):
    """How new elements follow from old ones.

    NEAREST: the nearest one. LINEAR: linear interpolation. CUBIC: Keys' cubic interpolation.
    CUBIC_PYTORCH: the same when antialiased, else with PyTorch's constant, and the array continued
    by its edges. LANCZOS3, LANCZOS5: windowed sinc.
    AREA: means over the areas that new elements cover.
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name.

        Raises ValueError for an unknown name.

        >>> ResizeMethod.from_string("bilinear")
        <ResizeMethod.LINEAR: 1>
        """
        for method, names in _STRINGS.items():
            if s in names:
                return method
        raise ValueError(
            f'Unknown resize method "{s}"\n  Known: '
            f"{sorted(name for names in _STRINGS.values() for name in names)}."
        )


_STRINGS = {
    ResizeMethod.NEAREST: ("nearest",),
    ResizeMethod.LINEAR: ("linear", "bilinear", "trilinear", "triangle"),
    ResizeMethod.LANCZOS3: ("lanczos3",),
    ResizeMethod.LANCZOS5: ("lanczos5",),
    ResizeMethod.CUBIC: ("cubic", "bicubic", "tricubic"),
    ResizeMethod.CUBIC_PYTORCH: ("cubic-pytorch", "bicubic-pytorch"),
    ResizeMethod.AREA: ("area",),
}


def _triangle(x: ArrayLike) -> Any:
    return jnp.maximum(0, 1 - x)


def _keys(a: float) -> Callable[[Any], Any]:
    """Keys, "Cubic convolution interpolation for digital image processing", IEEE Trans. ASSP 29
    (1981) 1153."""

    def kernel(x: Array) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x >= 2, 0, jnp.where(x >= 1, far, near))

    return kernel


def _lanczos(radius: float) -> Callable[[Any], Any]:
    return lambda x: jnp.where(x > radius, 0, jnp.sinc(x) * jnp.sinc(x / radius))


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _keys(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _keys(-0.5),
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}


def _weights(
    old: int,
    new: int,
    scale: ArrayLike,
    translation: object,
    method: ResizeMethod,
    antialias: bool,
    dtype: DTypeLike,
) -> Any:
    """The matrix dtype[old, new] of weights with which old elements enter new ones."""
    inverse = jnp.asarray(1 / scale, dtype)
    shift = jnp.asarray(translation, dtype) * inverse
    places, starts = jnp.arange(old, dtype=dtype)[:, None], jnp.arange(new, dtype=dtype)[None, :]
    # Where the middle of a new element lies among the middles of old ones.
    centres = (starts + 0.5) * inverse - shift - 0.5
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _continued(places, centres, old)
    if method is ResizeMethod.AREA:
        low, high = starts * inverse - shift, (starts + 1) * inverse - shift
        weights = jnp.maximum(0, jnp.minimum(places + 1, high) - jnp.maximum(places, low))
    else:
        # When an image shrinks, the kernel widens by the same factor.
        width = jnp.maximum(inverse, 1) if antialias else 1
        weights = _KERNELS[method](jnp.abs(centres - places) / width)
    weights = jnp.where((centres >= -0.5) & (centres <= old - 0.5), weights, 0)
    total = jnp.sum(weights, axis=0, keepdims=True)
    is_inside = jnp.abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return jnp.where(is_inside, weights / jnp.where(is_inside, total, 1), 0)


def _continued(places: Any, centres: Any, old: int) -> Any:
    """The weights of cubic interpolation of an array continued by its edges."""
    kernel, below, total = _keys(-0.75), jnp.floor(centres), 0
    for neighbour in (below - 1, below, below + 1, below + 2):
        total = total + jnp.where(
            places == jnp.clip(neighbour, 0, old - 1), kernel(jnp.abs(centres - neighbour)), 0
        )
    return total


def _apply(x: Array, axis: int, weights: Array, precision: PrecisionLike) -> Any:
    """x with an axis mapped by a matrix."""
    return jnp.moveaxis(
        jnp.tensordot(x, weights.astype(x.dtype), ((axis,), (0,)), precision=precision), -1, axis
    )


def _method(method: Any) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Array:
    """An array resampled to another shape of as many axes.

    method: a `ResizeMethod` or its name: 'nearest', 'linear', 'cubic', 'lanczos3', 'lanczos5',
    'cubic-pytorch', 'area'.
    antialias: when elements become fewer, take means over as many more. Integers become floats but
    for 'nearest'. Raises ValueError if the shape has another number of axes or the method is
    unknown.

    >>> resize(jnp.array([0., 4.]), (4,), "linear")
    Array([0., 1., 3., 4.], dtype=float32)
    """
    check_arraylike("resize", image)
    target = canonical_shape(shape)
    if len(target) != np.ndim(image):
        raise ValueError(
            f"shape must have length equal to the number of dimensions of x;  {target} vs "
            f"{np.shape(image)}"
        )
    return _resize(image, target, _method(method), bool(antialias), precision)


@fast(static=("shape", "method", "antialias", "precision"))
def _resize(
    image: Any,
    shape: tuple[int, ...],
    method: ResizeMethod,
    antialias: bool,
    precision: PrecisionLike,
) -> Any:
    axes = [
        i for i, (old, new) in enumerate(zip(np.shape(image), shape, strict=True)) if old != new
    ]
    if method is ResizeMethod.NEAREST:
        x = jnp.asarray(image)
        for i in axes:
            old, new = x.shape[i], shape[i]
            module: Any = np if is_constant((old, new)) else jnp
            middles = (module.arange(new, dtype=float) + 0.5) * (old / max_dim(new, 1))
            x = jnp.take(x, module.floor(middles).astype(np.int32), axis=i)
        return x
    x = jnp.asarray(*promote_dtypes("resize", INEXACT, image))
    for i in axes:
        scale = shape[i] / x.shape[i] if shape[i] else 1.0
        x = _apply(
            x,
            i,
            _weights(x.shape[i], shape[i], scale, 0.0, method, antialias, _real(x.dtype)),
            precision,
        )
    return x


def _real(dtype: DTypeLike) -> Any:
    """The dtype of weights: at least float32."""
    return np.dtype(np.float64) if dtype in (np.float64, np.complex128) else np.dtype(np.float32)


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """An array whose element at place p along the axes spatial_dims goes to p * scale +
    translation.

    scale, translation: floats[number of spatial_dims]. New elements from outside the old array are
    0.
    shape: the result's. method, antialias: as for `resize`, but for 'nearest'.
    Raises ValueError if the arguments do not fit.

    >>> scale_and_translate(jnp.array([1., 2.]), (3,), (0,), jnp.array([1.]), jnp.array([1.]),
    ...     "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    check_arraylike("scale_and_translate", image, scale, translation)
    target, ndim = canonical_shape(shape), np.ndim(image)
    if len(target) != ndim:
        raise ValueError(
            f"shape must have length equal to the number of dimensions of x;  {target} vs "
            f"{np.shape(image)}"
        )
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise ValueError(
            "Nearest neighbor resampling is not currently supported for scale_and_translate."
        )
    axes = tuple(canonical_axis(a, ndim) for a in spatial_dims)
    for name, x in (("scale", scale), ("translation", translation)):
        if np.shape(x) != (len(axes),):
            raise ValueError(
                f"scale_and_translate: {name} must have one element for each of spatial_dims "
                f"{axes}.\n    {name}: {typeof(x).str_short(True)}"
            )
    rest = [i for i in range(ndim) if i not in axes and target[i] != np.shape(image)[i]]
    if rest:
        raise ValueError(
            f"scale_and_translate: axes that are not in spatial_dims keep their size; {target} vs "
            f"{np.shape(image)}, axes {rest}."
        )
    return _scale_and_translate(
        image, scale, translation, target, axes, chosen, bool(antialias), precision
    )


@fast(static=("shape", "axes", "method", "antialias", "precision"))
def _scale_and_translate(
    image: object,
    scale: Array,
    translation: object,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    method: ResizeMethod,
    antialias: bool,
    precision: PrecisionLike,
) -> Any:
    x = jnp.asarray(*promote_dtypes("scale_and_translate", INEXACT, image))
    scale, translation = jnp.asarray(scale), jnp.asarray(translation)
    for k, i in enumerate(axes):
        weights = _weights(
            x.shape[i], shape[i], scale[k], translation[k], method, antialias, _real(x.dtype)
        )
        x = _apply(x, i, weights, precision)
    return x
