"""What a sample of an operation is: the rooms of lax list them, the operation table reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Sample"]


class Sample(NamedTuple):
    """An operation with inputs to test it on.

    function: its public name, as 'lax.cumsum'.
    args: (random generator, dtype name) -> (positional, keyword arguments).
    reference: the NumPy or SciPy function of the same meaning, or None.
    """

    name: str
    function: str
    args: Callable[[Any, Any], tuple[tuple[Any, ...], dict[str, Any]]]
    dtypes: tuple[str, ...]
    reference: Callable[..., Any] | None
    differentiable: bool
