"""Interpolation, as scipy.interpolate has it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike
from teucer.scipy._operands import matrices

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike

__all__ = ["RegularGridInterpolator"]
__dir__ = listing(__name__, __all__)

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Interpolation of values on a grid whose lines are at given places along each axis.

    points: n vectors of places, strictly increasing or decreasing. values: T[sizes of points, ...].
    method: "linear" or "nearest".
    fill_value: the result outside of the grid; None: values are extrapolated.
    Raises ValueError for another method, or if sizes do not fit; NotImplementedError for
    bounds_error: under `jit` places are not known.

    >>> of = RegularGridInterpolator((jnp.array([0., 1., 3.]),), jnp.array([0., 10., 20.]))
    >>> of(jnp.array([[0.5], [2.], [4.]]))
    Array([ 5., 15., nan], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[object],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = jnp.nan,
    ) -> None:
        self.method, self.bounds_error, self.fill_value = _checked(method), bounds_error, fill_value
        if bounds_error:
            raise NotImplementedError(
                "RegularGridInterpolator: `bounds_error` takes no effect under JIT\n"
                "  Leave it False."
            )
        check_arraylike("RegularGridInterpolator", values, *points)
        (self.values,) = matrices("RegularGridInterpolator", values)
        if len(points) > self.values.ndim:
            raise ValueError(
                f"there are {len(points)} point arrays, but values has {self.values.ndim} "
                "dimensions"
            )
        self.grid = tuple(jnp.asarray(p) for p in points)
        for i, line in enumerate(self.grid):
            if line.ndim != 1:
                raise ValueError(
                    f"the points in dimension {i} must be 1-dimensional, got shape {line.shape}"
                )
            if line.shape[0] != self.values.shape[i]:
                raise ValueError(
                    f"there are {line.shape[0]} points and {self.values.shape[i]} values in "
                    f"dimension {i}"
                )
        if fill_value is not None:
            check_arraylike("RegularGridInterpolator", fill_value)

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The interpolated values at the points `xi`.

        xi: real[..., n], or n arrays that broadcast  ->  T[..., *the axes of values after the
        grid's]
        method: the method for this call, by default the interpolator's.
        Raises ValueError for points of another dimension.
        """
        method = self.method if method is None else _checked(method)
        if isinstance(xi, tuple | list):
            xi = jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, xi)), axis=-1)
        check_arraylike("RegularGridInterpolator", xi)
        n = len(self.grid)
        xi = jnp.asarray(xi)
        xi = xi.reshape(*xi.shape, 1) if n == 1 and (xi.ndim == 0 or xi.ndim == 1) else xi
        if xi.shape[-1:] != (n,):
            raise ValueError(
                f"the requested sample points xi have dimension {xi.shape[-1] if xi.ndim else 0}, "
                f"but this RegularGridInterpolator has dimension {n}"
            )
        return _interpolate(self.grid, self.values, self.fill_value, xi, method)


def _checked(method: str) -> str:
    if method not in _METHODS:
        raise ValueError(f"method {method!r} is not defined\n  allowed: {', '.join(_METHODS)}")
    return method


@fast(static=("method",))
def _interpolate(
    grid: tuple[Any, ...], values: Any, fill_value: ArrayLike | None, xi: Array, method: str
) -> Any:
    values, *lines = matrices("RegularGridInterpolator", values, *grid)
    lines = [jnp.real(line) for line in lines]
    lower, shares = [], []
    for i, line in enumerate(lines):
        is_falling = line[-1] < line[0]
        line = jnp.where(is_falling, jnp.flip(line), line)
        values = jnp.where(is_falling, jnp.flip(values, i), values)
        x = xi[..., i].astype(line.dtype)
        at = jnp.clip(jnp.searchsorted(line, x, side="right") - 1, 0, max(line.shape[0] - 2, 0))
        width = line[jnp.minimum(at + 1, line.shape[0] - 1)] - line[at]
        lower.append(at)
        shares.append((x - line[at]) / jnp.where(width == 0, 1, width))
    if method == "nearest":
        result = values[tuple(at + (share > 0.5) for at, share in zip(lower, shares, strict=True))]
    else:
        result = _linear(values, lower, shares)
    extra = (1,) * (values.ndim - len(grid))
    ends = [jnp.stack([line[0], line[-1]]) for line in lines]
    outside: Any = False
    is_nan: Any = False
    for i, end in enumerate(ends):
        x = xi[..., i].astype(end.dtype)
        outside = outside | (x < end.min()) | (x > end.max())
        is_nan = is_nan | jnp.isnan(x)
    if fill_value is not None:
        result = jnp.where(
            outside.reshape(*outside.shape, *extra),
            jnp.asarray(fill_value).astype(result.dtype),
            result,
        )
    return jnp.where(is_nan.reshape(*is_nan.shape, *extra), jnp.nan, result)


def _linear(values: Any, lower: list[Any], shares: list[Any]) -> Any:
    """Sums over the corners of cells."""
    extra = (1,) * (values.ndim - len(lower))
    total: Any = 0
    for corner in itertools.product((0, 1), repeat=len(lower)):
        places = [
            jnp.minimum(at + step, n - 1)
            for at, step, n in zip(lower, corner, values.shape, strict=False)
        ]
        weight: Any = 1
        for share, step in zip(shares, corner, strict=True):
            weight = weight * (share if step else 1 - share)
        total = total + values[tuple(places)] * weight.reshape(*np.shape(weight), *extra)
    return total
