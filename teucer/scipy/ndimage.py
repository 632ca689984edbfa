"""Images of any number of axes, as scipy.ndimage has them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import ArrayLike
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["map_coordinates"]
__dir__ = listing(__name__, __all__)

# Index, and size of the axis -> an index within the axis.
_INSIDE: dict[str, Callable[[Any, Any], Any]] = {
    "constant": lambda i, n: jnp.clip(i, 0, n - 1),
    "nearest": lambda i, n: jnp.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": lambda i, n: _folded(i, max(2 * n - 2, 1)),
    "reflect": lambda i, n: _folded(2 * i + 1, 4 * n) // 2,
}


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """The elements of an array at places between them.

    input: T[...], of n axes. coordinates: n arrays or lists, of shapes that broadcast, of places
    along each axis  ->  T[common shape]
    order: 0, the nearest element, or 1, linear interpolation.
    mode: the elements beyond the ends: "constant" (cval), "nearest" (the element at the end),
    "wrap", "mirror" (about the centre of the element at the end), or "reflect" (about its edge).
    Results for integers are rounded.
    Raises ValueError if there are not n coordinates, NotImplementedError for another order or mode.

    >>> map_coordinates(jnp.array([1., 3., 7.]), [jnp.array([0.5, 1.25])], order=1)
    Array([2., 4.], dtype=float32)
    """
    if order not in (0, 1):
        raise NotImplementedError(
            f"map_coordinates: order must be 0 or 1, got {order}: requires order<=1.\n"
            "  Interpolate splines by scipy.ndimage, outside of jit."
        )
    if mode not in _INSIDE:
        raise NotImplementedError(
            f"map_coordinates does not yet support mode {mode}. Currently supported modes are "
            f"{', '.join(_INSIDE)}."
        )
    if np.ndim(input) != len(coordinates):
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but {len(coordinates)} != "
            f"{np.ndim(input)}"
        )
    check_arraylike("map_coordinates", input, cval)
    return _map_coordinates(input, tuple(map(jnp.asarray, coordinates)), order, mode, cval)


@fast(static=("order", "mode"))
def _map_coordinates(
    x: ArrayLike, coordinates: tuple[object, ...], order: int, mode: str, cval: object
) -> Any:
    x = jnp.asarray(x)
    cval = jnp.asarray(cval, x.dtype)
    nodes = [_nodes(jnp.asarray(c), order) for c in coordinates]
    total: Any = 0
    for corner in itertools.product(*nodes):
        places = [_INSIDE[mode](i, n) for (i, _), n in zip(corner, x.shape, strict=True)]
        value = x[tuple(places)]
        if mode == "constant":
            within = [(i >= 0) & (i < n) for (i, _), n in zip(corner, x.shape, strict=True)]
            for condition in within:
                value = jnp.where(condition, value, cval)
        for _, weight in corner:
            value = value if weight is None else value * weight
        total = total + value
    if jnp.issubdtype(x.dtype, np.integer) and not jnp.issubdtype(total.dtype, np.integer):
        total = lax.round(total, lax.RoundingMethod.AWAY_FROM_ZERO)
    return total.astype(x.dtype)


def _nodes(place: Any, order: int) -> list[tuple[Any, Any]]:
    """Indices of the elements that count, and their weights."""
    is_integer = jnp.issubdtype(place.dtype, np.integer)
    if order == 0 or is_integer:
        return [
            (
                place
                if is_integer
                else lax.round(place, lax.RoundingMethod.AWAY_FROM_ZERO).astype(np.int32),
                None,
            )
        ]
    lower = jnp.floor(place)
    share = place - lower
    index = lower.astype(np.int32)
    return [(index, 1 - share), (index + 1, share)]


def _folded(i: Array, period: object) -> Any:
    """The distance from the nearest multiple of a period: 0, 1, 2, ..., and back."""
    i = i % period
    return jnp.minimum(i, period - i)
