"""Cache misses of `jit`, explained: differences from earlier calls, argument by argument, and parts
that keep changing.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import types
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from teucer._base import config, source
from teucer._base.functions import UNKNOWN, fun_name
from teucer._executables.differences import (
    LeafNames,
    Signature,
    context_text,
    cut,
    differences,
    leaves_of,
    option_text,
    program_differences,
    shorts,
    static_values,
    tree_differences,
    type_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._executables.misses import Count


_logger = logging.getLogger("teucer")
_CLOSEST_OF = 64  # earlier signatures that are compared
_SHOWN = 5  # values of a part that keeps changing
_LINES = 10  # of parts that keep changing
_FORGOTTEN = "its traces were forgotten (clear_caches)"
_NOT_KEPT = "no trace of it was kept: tracing failed, or found sizes that depend on values"


def program(jaxpr: Any, earlier: Collection[Any], key: tuple[Any, ...]) -> None:
    """Log why a jaxpr that has programs gets another one. Keys are the keys of `program_for`."""
    info = jaxpr.debug_info
    place = info.where if info is not None else ""
    if not earlier or not place or source.is_internal(place.rpartition(":")[0]):
        return
    found = [list(program_differences(k, key, info.arg_names)) for k in reversed([*earlier])]
    _logger.warning(
        (
            "COMPILATION CACHE MISS at %s:\n  for %s defined at %s, which was traced for these "
            "types before\n%s"
        ),
        call_site(),
        info.name,
        place,
        _indented(min(found, key=len)),
    )


def call_site() -> str:
    """The line of the user's program that calls."""
    return source.describe(source.here())


def of_another(
    fun: Callable[..., object],
    place: str,
    signature: tuple[Any, ...],
    earlier: Collection[Any],
    leaf_names: LeafNames,
) -> str:
    """Why a function that has traces is traced again: the differences from the nearest of the
    signatures."""
    new, known = Signature(*signature), [Signature(*key) for key in earlier]
    found = [list(differences(fun, old, new, leaf_names)) for old in known[: -_CLOSEST_OF - 1 : -1]]
    return (
        f"  for {fun_name(fun)} defined at {place}\n  all previously seen cache keys differ. For "
        "the closest previous key:\n"
    ) + _indented(min(found, key=len))


def of_the_first(
    fun: Callable[..., object],
    place: str,
    seen: Count,
    *,
    new: bool,
    others: int,
    variant: str | None,
) -> str:
    """Why a function is traced for the first time.

    new: whether it is itself new. others: functions made before at the same place. variant: the
    purpose for which a transformation made it.
    """
    if not new:
        why = _FORGOTTEN if seen.forgotten else _NOT_KEPT
        return f"  for {fun_name(fun)} defined at {place}\n    {why}"
    text = f"  never seen function:\n    {fun_name(fun)} id={id(fun)} defined at {place}"
    if variant is not None:
        return f"{text}\n    for {variant}, a function of its own"
    if others:
        what = (
            "function defined on the same line"
            if hasattr(fun, "__code__") or place != UNKNOWN
            else "object of the same type"
        )
        text += f"\n  but seen another {what}: {_made_anew(fun)}"
    return text


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _made_anew(fun: Callable[..., object]) -> str:
    if isinstance(fun, functools.partial):
        what = "a functools.partial made anew is another function"
        remedy = "Make it once, or jit the function itself and pass it the arguments."
    elif not getattr(type(fun), "__weakrefoffset__", 1):
        what = f"{type(fun)} cannot be referred to weakly, so its objects are new to each call"
        remedy = "Give the class a __weakref__ slot, or jit a function that calls the object."
    elif hasattr(fun, "__wrapped__"):
        what = (
            "a function that is transformed (grad, vmap, ...) or wrapped anew is another function"
        )
        remedy = "Transform it once, outside of the loop."
    elif inspect.ismethod(fun):
        what = "a bound method taken anew is another function"
        remedy = "Jit the method once, where the object is made."
    elif not hasattr(fun, "__code__"):
        what = f"an object of {type(fun).__name__} that is made anew is another function"
        remedy = "Make it once, outside of the loop."
    elif fun.__closure__:
        what = f"a closure over {', '.join(fun.__code__.co_freevars)} made anew is another function"
        remedy = "Define it once, and pass what it closes over as arguments."
    else:
        what = "a function that is defined anew is another function"
        remedy = "Define it once, outside of the loop."
    return f"{what}, so nothing that was traced or compiled can be used again. {remedy}"


def summary(
    fun: Callable[..., object],
    place: str,
    keys: Sequence[tuple[Any, ...]],
    leaf_names: LeafNames,
    seen: Count,
) -> str:
    """A message: the parts of a function's calls that keep changing, and a remedy. keys: the keys
    of its traces."""
    signatures = [Signature(*key) for key in keys]
    head = (
        f"{fun_name(fun)} defined at {place} has been compiled {seen.traces} times, last at "
        f"{call_site()}. What keeps changing:"
    )
    lines = []
    if seen.functions > 1:
        here = " on this line" * (
            isinstance(fun, types.FunctionType) and not hasattr(fun, "__wrapped__")
        )
        lines.append(
            f"the function: {seen.functions} of them were made{here}, and {_made_anew(fun)}"
        )
    if len(seen.variants) > 1:
        lines.append(f"what it is made for: {_listed(list(seen.variants))}.")
    if seen.retraced:
        lines.append(_FORGOTTEN)
    lines += _changes(fun, signatures, leaf_names, list(seen.arguments))
    more = [f"and {len(lines) - _LINES} more"] * (len(lines) > _LINES)
    return (
        f"{head}\n{_indented([*(lines or [_NOT_KEPT])[:_LINES], *more])}\n"
        "  TEUCER_WARN_AFTER_COMPILES=0 turns this warning off; jax_explain_cache_misses "
        "explains each."
    )


def _changes(
    fun: Callable[..., object],
    signatures: Sequence[Signature],
    leaf_names: LeafNames,
    arguments: Sequence[tuple[object, ...]],
) -> Iterator[str]:
    """The changes in signatures of a function, and in types of arguments of other functions made at
    its place. The argument whose types changed most comes last.
    """
    statics = [item for s in signatures for item in static_values(fun, s).items()]
    for name, values in _by_name(statics):
        if len(values) > 1:
            yield (
                f"static argument {name}: {len(values)} values: {_listed(shorts(values))}. Pass "
                "it as an array if the program needs only its value."
            )
    trees = {s.tree: s for s in signatures}
    if len(trees) > 1:
        last = [s for s in signatures if s.tree != signatures[-1].tree][-1]
        what = [cut(line, 160) for line in tree_differences(fun, last, signatures[-1])]
        yield (
            f"the pytree of the arguments: {len(trees)} structures; of the last two, "
            f"{_listed(what, '; ')}. Give the arguments one structure."
        )
    contexts = [
        item
        for s in signatures
        for item in zip(config.trace_context_names(), s.context, strict=True)
    ]
    for name, options in _by_name(contexts):
        if len(options) > 1:
            shown = _listed([cut(context_text(name, option)) for option in options])
            yield f"{option_text(name)}: {len(options)} values: {shown}. Set it once."
    axes = dict.fromkeys(s.axes for s in signatures)
    if len(axes) > 1:
        named = _listed([str(dict(a[:-1])) for a in axes])
        yield f"the named axes: {len(axes)} values: {named}. Call the function under one of them."
    names = leaves_of(fun, signatures[-1], leaf_names)
    called = [zip(leaves_of(fun, s, leaf_names), s.avals, strict=True) for s in signatures]
    called += [zip(names, avals, strict=True) for avals in arguments if len(avals) == len(names)]
    for name, avals in _by_name(itertools.chain.from_iterable(called)):
        if len(avals) > 1:
            yield (
                f"argument {name}: {len(avals)} values: {_listed(list(map(type_text, avals)))}. "
                "Pad to a few shapes, or convert to one dtype, before the call."
            )


def _by_name(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The different values of each name, in order."""
    found: dict[str, dict[Any, None]] = {}
    for name, value in pairs:
        found.setdefault(name, {})[value] = None
    return [(name, list(values)) for name, values in found.items()]


def _listed(texts: Sequence[str], comma: str = ", ") -> str:
    return comma.join([*texts[:_SHOWN], *["..."] * (len(texts) > _SHOWN)])
