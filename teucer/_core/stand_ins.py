"""Objects of users' classes for which an array stands: `__jax_array__`."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._core.types import aval_rules
from teucer._xla.arrays import ArrayImpl

# Classes whose objects stand for themselves as operands. Others are asked each time: users' classes
# come and go.
plain_classes: set[type] = {
    ArrayImpl,
    np.ndarray,
    bool,
    int,
    float,
    complex,
    str,
    tuple,
    list,
    dict,
    slice,
    type(None),
}


def has_stand_in(x: object) -> bool:
    """Whether x is an object of a user's class with `__jax_array__`, for which an array stands.

    An object that has a type of its own stands for itself, unless that is a high type.
    """
    kind = type(x)
    if hasattr(kind, "__jax_array__"):
        rule = next((aval_rules[base] for base in kind.__mro__ if base in aval_rules), None)
        if rule is None or rule(x).is_high:
            return True
    if kind.__module__.startswith(
        ("teucer.", "jax.", "numpy")
    ):  # classes that live as long as the process
        plain_classes.add(kind)
    return False


def stood_in(
    args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in which arrays stand for objects of users' classes with `__jax_array__`."""

    def itself_or_array(x: Any) -> Any:
        return x.__jax_array__() if has_stand_in(x) else x

    return tuple(map(itself_or_array, args)), {
        name: itself_or_array(x) for name, x in kwargs.items()
    }
