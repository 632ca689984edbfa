"""Cache misses of `jit`.

What was traced how often, so that it can be explained (`explanations`).
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import types
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from teucer._base import config, memo, source
from teucer._base.functions import definition, fun_name, where

if TYPE_CHECKING:
    from teucer._executables.differences import LeafNames


_logger = logging.getLogger("teucer")
_KEPT = 64  # types of arguments that are remembered of functions made at one place
# Counts of traces for compilation, by the code that defines a function, its wrappers, and its name.
# So closures made in a loop, and gradients of one function, count as one function.
_traced: dict[tuple[Any, Any, str], Count] = {}
# The functions of which a transformation keeps several variants, and the purpose of each variant.
_variants: weakref.WeakKeyDictionary[Callable[..., object], str] = weakref.WeakKeyDictionary()


class Count:
    """The record of functions with one definition, and how often they were traced."""

    __slots__ = (
        "_alive",
        "arguments",
        "forgotten",
        "functions",
        "retraced",
        "traces",
        "variants",
        "warned",
    )

    def __init__(self) -> None:
        self.functions = self.traces = 0
        self.forgotten = self.retraced = self.warned = False
        self.arguments: dict[tuple[Any, ...], None] = {}  # their types in the first traces
        self.variants: dict[str, None] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}

    def knows(self, fun: Callable[..., object]) -> bool:
        """Whether a function has been added."""
        found = self._alive.get(id(fun))
        return found is not None and found() is fun

    def add(self, fun: Callable[..., object]) -> bool:
        """Whether a function is new here; one that cannot be referred to weakly always is."""
        if self.knows(fun):
            return False
        alive, number = self._alive, id(fun)
        with contextlib.suppress(TypeError):
            alive[number] = weakref.ref(
                fun, lambda ref: alive.pop(number, None) if alive.get(number) is ref else None
            )
        if (variant := _variant(fun)) is None:
            self.functions += 1
        else:
            self.variants[variant] = None
        return True


def note(
    fun: Callable[..., object],
    signature: tuple[Any, ...],
    earlier: Collection[Any],
    leaf_names: LeafNames,
    compiled: bool,
) -> None:
    """A function is about to be traced for a new signature.

    earlier: signatures that it has been traced for. leaf_names: gives the leaves' names, from a
    function, the tree of its dynamic arguments and the positions of static ones. compiled: the
    trace becomes a program, not a part of another one.
    """
    explained, limit = config.explain_cache_misses.value, config.warn_after_compiles.value
    if not explained and not (compiled and limit):
        return
    users = _users(fun)
    place = where(users)
    if source.is_internal(place.rpartition(":")[0]):
        return
    key = (definition(users), getattr(fun, "__code__", None), fun_name(fun))
    seen = _traced.get(key) or memo.remember(_traced, key, Count(), memo.RECENT)
    others = seen.functions
    new = seen.add(fun)
    seen.retraced |= not new and not earlier and seen.forgotten
    if explained:
        from teucer._executables import explanations  # for explanations, also below

        text = (
            explanations.of_another(fun, place, signature, earlier, leaf_names)
            if earlier
            else explanations.of_the_first(
                fun, place, seen, new=new, others=others, variant=_variant(fun)
            )
        )
        _logger.warning("TRACING CACHE MISS at %s:\n%s", explanations.call_site(), text)
    if compiled:
        seen.traces += 1
        if len(seen.arguments) < _KEPT:
            seen.arguments[signature[1]] = None
        if limit and seen.traces >= limit and not seen.warned:
            seen.warned = True
            from teucer._executables import explanations

            _logger.warning(
                "%s", explanations.summary(fun, place, (*earlier, signature), leaf_names, seen)
            )


def forget(fun: Callable[..., object] | None = None) -> None:
    """Note that the traces of a function are forgotten; None: of all functions."""
    for seen in list(_traced.values()):
        seen.forgotten |= fun is None or seen.knows(fun)


def one_of_several(fun: Callable[..., object], what: str) -> None:
    """Note that a transformation keeps several functions for one of the user's: this one is for
    `what`, and not made anew in each call."""
    _variants[fun] = what


def _variant(fun: Callable[..., object]) -> str | None:
    return _variants.get(fun) if isinstance(fun, types.FunctionType) else None


def _users(fun: Callable[..., object]) -> Any:
    """The function that the user wrote, of one that Teucer's transformations have wrapped."""
    if not hasattr(fun, "__wrapped__"):
        return fun
    try:
        return inspect.unwrap(
            fun, stop=lambda f: not source.is_internal(where(f).rpartition(":")[0])
        )
    except ValueError:  # a function that is its own wrapper
        return fun
