"""Casts and collectives of values whose type says over which manual mesh axes they vary (`shard_map`)."""

from __future__ import annotations

from typing import Any

from teucer._core import array_ops
from teucer._core import axes as named
from teucer._core.trace import typeof
from teucer._trees import pytrees
from teucer.lax._collectives import checked, names_of, size_of

__all__ = ["pcast"]


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """x with a type that says otherwise how it is laid over manual mesh axes.

    x: a pytree of arrays. axis_name: a name of a manual axis, or several in a tuple. to: 'varying'; the value may then differ from
    device to device along the axes.
    Raises ValueError for another `to`, or where x varies over the axes already; NameError for a name that no axis has.
    """
    if to not in ("varying", "reduced", "unreduced"):
        raise ValueError(f"Got unexpected `to` value for `jax.lax.pcast`: {to!r}. Allowed `to` values are: 'varying', 'reduced', "
                         "'unreduced'.")
    if not isinstance(axis_name, str | tuple | frozenset):
        raise TypeError(f"pcast: axis_name must be a tuple or a str, got {type(axis_name)}: {axis_name!r}")
    names = tuple(axis_name) if isinstance(axis_name, frozenset) else names_of(axis_name)
    size_of(names)
    if to != "varying":
        raise NotImplementedError(f"pcast: to={to!r} is not implemented.\n  Sums that are still to be taken are said by psum.")

    def one(leaf: Any) -> Any:
        aval = typeof(checked("pcast", leaf))
        if aval.vma & set(names):
            raise ValueError(f"Unsupported pcast from=varying, to={to!r}\n    x: {aval.str_short(short_dtypes=True)}, "
                             f"axes: {names}")
        return array_ops.vary(leaf, named.manual_axes().intersection(names))

    return pytrees.tree_map(one, x)
