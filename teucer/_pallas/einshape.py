"""Axes split, moved and merged as an equation says."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer._base import errors

if TYPE_CHECKING:
    from teucer._core.typing import Array


_GROUP = re.compile(r"\(([A-Za-z]+)\)|([A-Za-z])")


def einshape(equation: str, x: Array, assert_is_tile_preserving: bool = False, **sizes: int) -> Any:
    """An array with its axes split, moved and merged.

    equation: 'ab(cd)->cabd': a letter for each axis; letters in parentheses are one axis of the
    array. sizes: of the parts of axes that are split, all but one of each.
    assert_is_tile_preserving: for compilers of kernels for TPUs; nothing here. Raises ValueError
    for an equation that does not fit the array.

    >>> einshape("a(bc)->abc", jnp.zeros((10, 20)), b=4).shape
    (10, 4, 5)
    >>> einshape("abc->(ba)c", jnp.zeros((10, 4, 5))).shape
    (40, 5)
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    before, after = _groups(equation, left), _groups(equation, right)
    names, moved = "".join(before), "".join(after)
    if not arrow or sorted(names) != sorted(moved) or len(set(names)) != len(names):
        raise errors.value_error(
            "einshape",
            "each letter must stand once on both sides",
            "Write it as 'ab(cd)->cabd'.",
            equation=equation,
        )
    if len(before) != x.ndim:
        raise errors.value_error(
            "einshape",
            f"the left side has {len(before)} axes, the array {x.ndim}",
            equation=equation,
            x=x,
        )
    known = dict(sizes)
    for group, n in zip(before, x.shape, strict=True):
        open_ = [name for name in group if name not in known]
        rest = math.prod(known[name] for name in group if name in known)
        if len(open_) > 1:
            raise errors.value_error(
                "einshape",
                f"Ambiguous split of an axis of {n} into ({group})",
                "Give the sizes of all but one of its parts.",
                equation=equation,
                sizes=sizes,
            )
        if n % rest or (not open_ and rest != n):
            raise errors.value_error(
                "einshape",
                f"Cannot split size {n} into ({group}), whose known parts make {rest}",
                equation=equation,
                sizes=sizes,
            )
        if open_:
            known[open_[0]] = n // rest
    parts = jnp.reshape(x, [known[name] for name in names])
    turned = jnp.transpose(parts, [names.index(name) for name in moved])
    return jnp.reshape(turned, [math.prod(known[name] for name in group) for group in after])


def _groups(equation: str, side: str) -> list[str]:
    """The letters of each axis."""
    found = [a or b for a, b in _GROUP.findall(side)]
    if _GROUP.sub("", side):
        raise errors.value_error(
            "einshape",
            "an axis is a letter, or letters in parentheses",
            "Write it as 'ab(cd)->cabd'.",
            equation=equation,
        )
    return found
