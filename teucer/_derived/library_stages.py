"""Library functions as programs: `jnp.sin.lower(x)`, as of jitted functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from teucer._transform.dispatching import LIBRARY_MEMBERS
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value


# Parameters whose numbers are a part of the program, though they have no default.
_STATIC = frozenset(
    {
        "axis", "axis1", "axis2", "axes", "bins", "d", "deg", "destination", "k", "kth", "length",
        "n", "num", "num_classes", "offset", "repeats", "shape", "size", "source",
        "total_repeat_length", "M", "N",
    }
)  # fmt: skip


def with_stages(function: Callable[..., object]) -> Any:
    """Give a function of the library the members of jitted functions; anything else stays as it is.

    Arrays, and numbers that are operands, are arguments of the program; all else is a part of it.
    """
    if isinstance(function, FunctionType) and not hasattr(function, "lower"):
        for name in LIBRARY_MEMBERS:
            setattr(function, name, functools.partial(_member, name, function))
    return function


def _member(name: str, function: Callable[..., object], *args: object, **kwargs: object) -> Any:
    if name == "clear_cache":
        _jitted.cache_clear()
        return None
    try:
        signature = inspect.signature(function)
        signature.bind(*args, **kwargs)
    except TypeError:
        function(*args, **kwargs)  # raises the error of a wrong call
        raise
    parameters = list(signature.parameters.values())
    nums = tuple(
        i
        for i, value in enumerate(args)
        if not _is_operand(parameters[min(i, len(parameters) - 1)], value)
    )
    named = {p.name: p for p in parameters}
    names = tuple(
        n for n, value in kwargs.items() if not _is_operand(named.get(n, parameters[-1]), value)
    )
    return getattr(_jitted(function, nums, names), name)(*args, **kwargs)


@functools.lru_cache(maxsize=256)
def _jitted(function: Callable[..., object], nums: tuple[int, ...], names: tuple[str, ...]) -> Any:
    from teucer._derived.stages import jit  # needed by few programs; it has these members

    return jit(function, static_argnums=nums, static_argnames=names)


def _is_operand(parameter: inspect.Parameter, value: Value) -> bool:
    leaves = pytrees.tree_leaves(value)
    if any(hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type) for x in leaves):
        return True
    operand = parameter.default in (inspect.Parameter.empty, None) and parameter.name not in _STATIC
    return operand and bool(leaves) and all(isinstance(x, int | float | complex) for x in leaves)
