"""The C++ call dispatcher.

Flattens arguments, matches the signature, runs the executable; a miss calls Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxlib import _jax

from teucer._advice import guarding
from teucer._xla import pytree

PjitFunction = _jax.PjitFunction
set_tracer_class = _jax.set_tracer_class
# Programs of dispatchers with a key, by function and key.
_shared = _jax.PjitFunctionCache(4096)
# Wraps the function that each dispatcher calls on a miss, if there are several processes.
around: Callable[..., Callable[..., Any]] | None = None


class FastPath(NamedTuple):
    """The record with which the dispatcher answers the next call of this signature without Python.
    C++ reads the names."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]


def dispatcher(
    name: str,
    fun: Callable[..., Any],
    cache_miss: Callable[..., Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    key: Any = None,
    shard_arg_fallback: Callable[..., Any],
) -> Any:
    """A callable whose cached calls stay in C++. `cache_miss` returns (results, FastPath or None).

    key: dispatchers of one function and key share programs; only for functions that can be referred
    to weakly, since C++ does not check it. Without one, the programs go with the dispatcher, if
    `fun` does: C++ keeps something of each dispatcher as long as its function lives.
    """

    def made(miss: Callable[..., Any], role: str | None = "") -> Any:
        return _jax.pjit(
            name,
            fun,
            miss,
            list(static_argnums),
            list(static_argnames),
            object() if key is None or role is None else (key, role),
            pytree.call_registry,
            shard_arg_fallback,
            None if key is None or role is None else _shared,
        )

    inner: list[Callable[..., Any]] = []

    def miss(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        # Frames cost depth in deeply nested jits, so this one is the boundary of errors.
        try:
            if around is None:
                outs, fast = cache_miss(*args, **kwargs)
                # The call itself may have set `around`: its program is one of several processes.
                return outs, fast if around is None else None
            if not inner:
                inner.append(around(made, cache_miss))
            return inner[0](*args, **kwargs)
        except Exception as err:
            for treat in guarding.on_error:
                treat(err, sys._getframe(1))
            raise

    guarding.boundaries.add(miss.__code__)
    return made(miss)


def forget_calls() -> None:
    """Have all dispatchers forget their executables."""
    _jax.PjitFunctionCache.clear_all()  # of dispatchers that are there
    _shared.clear()  # of those that are made again
