"""The C++ dispatchers that jitted and library functions are, and their methods."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from teucer._core.calls import fun_name
from teucer._programs.run import shard_arg_fallback
from teucer._transform.jit_options import JitOptions
from teucer._xla.dispatcher import PjitFunction, dispatcher

# The members of jitted functions that library functions have (`_derived.library_stages`).
LIBRARY_MEMBERS = ("lower", "trace", "eval_shape", "clear_cache")


def dispatching(
    fun: Callable[..., object],
    options: JitOptions,
    cache_miss: Callable[..., object],
    *,
    key: object = None,
    plain: Callable[..., object] | None = None,
) -> Any:
    """A C++ dispatcher with the methods of a jitted function.

    key: dispatchers of one key and function share programs, if the function has weak references; by
    default it has its own.
    plain: called while `jax_disable_jit` is set, by default the function.
    """
    if not type(fun).__weakrefoffset__:
        key = None
    if plain is None:
        plain = fun if key is not None else _own(fun)
    wrapped = dispatcher(
        fun_name(fun),
        plain,
        cache_miss,
        static_argnums=options.static_argnums,
        static_argnames=options.static_argnames,
        key=key,
        shard_arg_fallback=shard_arg_fallback,
    )
    functools.update_wrapper(wrapped, fun, updated=())
    if isinstance(fun, functools.partial):
        wrapped.__name__ = wrapped.__qualname__ = fun_name(fun)
    own = getattr(fun, "__dict__", {}).items()
    vars(wrapped).update({name: value for name, value in own if name not in LIBRARY_MEMBERS})
    wrapped.__wrapped__, wrapped._jit = fun, (fun, options)
    return wrapped


def _own(fun: Callable[..., object]) -> Callable[..., object]:
    """A function that calls `fun`, for the dispatcher alone: it lives as long as that does."""

    def plain(*args: object, **kwargs: object) -> object:
        return fun(*args, **kwargs)

    plain.__wrapped__ = fun  # type: ignore[attr-defined]  # the signature that C++ says
    return plain


def method(f: Callable[..., object]) -> Callable[..., Any]:
    """Give jitted functions a method: a function of (jitted, function, options, *args). `stages`
    adds lower and trace."""

    @functools.wraps(f)
    def of_jitted(jitted: PjitFunction, *args: object, **kwargs: object) -> Any:
        return f(jitted, *jitted._jit, *args, **kwargs)

    setattr(PjitFunction, f.__name__, of_jitted)
    return f
