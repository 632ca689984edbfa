"""Cache misses of `jit`, explained: what differs from earlier calls, argument by argument, and what keeps changing."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import logging
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from teucer._base import config, memo, source
from teucer._base.functions import UNKNOWN, definition, fun_name, where
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

__all__ = ["explain_program", "forget", "note", "one_of_several"]

_logger = logging.getLogger("teucer")
_CLOSEST_OF = 64  # earlier signatures that are compared, of a function or of all those made at one place
_SHOWN = 5  # values of what keeps changing
_LINES = 10  # of what keeps changing
_FORGOTTEN = "its traces were forgotten (clear_caches)"
_NOT_KEPT = "no trace of it was kept: tracing failed, or found sizes that depend on values"
# How often functions were traced to be compiled, by what defines them, what wraps that, and name: closures made in a loop, and
# gradients of one function, are one function here.
_traced: dict[tuple[Any, Any, str], _Count] = {}
# Functions of which a transformation of Teucer's keeps several for one of the user's, and what each is for.
_variants: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()


class _Count:
    """How often functions with one definition were traced, and what is remembered of them."""

    __slots__ = ("_alive", "arguments", "forgotten", "functions", "retraced", "traces", "variants", "warned")

    def __init__(self) -> None:
        self.functions = self.traces = 0
        self.forgotten = self.retraced = self.warned = False
        self.arguments: dict[tuple[Any, ...], None] = {}  # their types in the first traces
        self.variants: dict[str, None] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}

    def knows(self, fun: Any) -> bool:
        """Whether a function has been added."""
        found = self._alive.get(id(fun))
        return found is not None and found() is fun

    def add(self, fun: Any) -> bool:
        """Whether a function is new here; one that cannot be referred to weakly always is."""
        if self.knows(fun):
            return False
        alive, number = self._alive, id(fun)
        with contextlib.suppress(TypeError):
            alive[number] = weakref.ref(fun, lambda ref: alive.pop(number, None) if alive.get(number) is ref else None)
        if (variant := _variant(fun)) is None:
            self.functions += 1
        else:
            self.variants[variant] = None
        return True


def note(fun: Callable[..., Any], signature: tuple[Any, ...], earlier: Collection[Any], leaf_names: LeafNames,
         compiled: bool) -> None:
    """A function is about to be traced for a new signature.

    earlier: those that it has been traced for. leaf_names: of a function, the tree of its dynamic arguments and the positions
    of static ones, what the user calls the leaves. compiled: the trace becomes a program, not a part of another one.
    """
    explained, limit = config.explain_cache_misses.value, config.warn_after_compiles.value
    if not explained and not (compiled and limit):
        return
    users = _users(fun)
    place = where(users)
    if source.is_internal(place.rpartition(":")[0]):
        return
    key = (definition(users), getattr(fun, "__code__", None), fun_name(fun))
    seen = _traced.get(key) or memo.remember(_traced, key, _Count())
    others = seen.functions
    new = seen.add(fun)
    seen.retraced |= not new and not earlier and seen.forgotten
    if explained:
        known = [Signature(*key) for key in earlier]
        text = (_explanation(fun, place, Signature(*signature), known, leaf_names) if known else
                _explanation_of_the_first(fun, place, new, others, seen))
        _logger.warning("TRACING CACHE MISS at %s:\n%s", _call_site(), text)
    if compiled:
        seen.traces += 1
        if len(seen.arguments) < _CLOSEST_OF:
            seen.arguments[signature[1]] = None
        if limit and seen.traces >= limit and not seen.warned:
            seen.warned = True
            signatures = [Signature(*key) for key in (*earlier, signature)]
            _logger.warning("%s", _summary(fun, place, signatures, leaf_names, seen))


def forget(fun: Callable[..., Any] | None = None) -> None:
    """The traces of a function are forgotten; those of all functions, if it is None."""
    for seen in list(_traced.values()):
        seen.forgotten |= fun is None or seen.knows(fun)


def one_of_several(fun: types.FunctionType, what: str) -> None:
    """A transformation keeps several functions for one of the user's: this one is for `what`, and not made anew in each call."""
    _variants[fun] = what


def _variant(fun: Any) -> str | None:
    return _variants.get(fun) if isinstance(fun, types.FunctionType) else None


def _users(fun: Any) -> Any:
    """The function that the user wrote, of one that Teucer's transformations have wrapped."""
    if not hasattr(fun, "__wrapped__"):
        return fun
    try:
        return inspect.unwrap(fun, stop=lambda f: not source.is_internal(where(f).rpartition(":")[0]))
    except ValueError:  # a function that is its own wrapper
        return fun


def explain_program(jaxpr: Any, key: tuple[Any, ...]) -> None:
    """Log why a jaxpr that has programs gets another one. The keys of programs are what `program_for` keeps them by."""
    info = jaxpr.debug_info
    place = info.where if info is not None else ""
    earlier = [k for k in jaxpr.cache if isinstance(k, tuple) and k[0] == key[0]]
    if not earlier or not place or source.is_internal(place.rpartition(":")[0]):
        return
    found = [list(program_differences(k[1:], key[1:], info.arg_names)) for k in reversed(earlier)]
    _logger.warning("COMPILATION CACHE MISS at %s:\n  for %s defined at %s, which was traced for these types before\n%s",
                    _call_site(), info.name, place, _indented(min(found, key=len)))


def _call_site() -> str:
    record = source.user_frame()
    return "<unknown>" if record is None else source.describe(record)


def _explanation(fun: Any, place: str, signature: Signature, known: Sequence[Signature], leaf_names: LeafNames) -> str:
    found = [list(differences(fun, old, signature, leaf_names)) for old in known[:-_CLOSEST_OF - 1:-1]]
    return (f"  for {fun_name(fun)} defined at {place}\n  all previously seen cache keys differ. For the closest previous key:\n"
            + _indented(min(found, key=len)))


def _explanation_of_the_first(fun: Any, place: str, new: bool, others: int, seen: _Count) -> str:
    """Why a function of which no trace is there is traced. others: those that were made before where it was."""
    if not new:
        why = _FORGOTTEN if seen.forgotten else _NOT_KEPT
        return f"  for {fun_name(fun)} defined at {place}\n    {why}"
    text = f"  never seen function:\n    {fun_name(fun)} id={id(fun)} defined at {place}"
    if (variant := _variant(fun)) is not None:
        return f"{text}\n    for {variant}, a function of its own"
    if others:
        what = "function defined on the same line" if hasattr(fun, "__code__") or place != UNKNOWN else "object of the same type"
        text += f"\n  but seen another {what}: {_made_anew(fun)}"
    return text


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _made_anew(fun: Any) -> str:
    if isinstance(fun, functools.partial):
        what = "a functools.partial made anew is another function"
        remedy = "Make it once, or jit the function itself and pass it the arguments."
    elif not getattr(type(fun), "__weakrefoffset__", 1):
        what = f"{type(fun)} cannot be referred to weakly, so its objects are new to each call"
        remedy = "Give the class a __weakref__ slot, or jit a function that calls the object."
    elif hasattr(fun, "__wrapped__"):
        what = "a function that is transformed (grad, vmap, ...) or wrapped anew is another function"
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


def _summary(fun: Any, place: str, signatures: Sequence[Signature], leaf_names: LeafNames, seen: _Count) -> str:
    """What keeps changing in the calls of a function, and what to do."""
    head = f"{fun_name(fun)} defined at {place} has been compiled {seen.traces} times, last at {_call_site()}. What keeps changing:"
    lines = []
    if seen.functions > 1:
        here = " on this line" * (isinstance(fun, types.FunctionType) and not hasattr(fun, "__wrapped__"))
        lines.append(f"the function: {seen.functions} of them were made{here}, and {_made_anew(fun)}")
    if len(seen.variants) > 1:
        lines.append(f"what it is made for: {_listed(list(seen.variants))}.")
    if seen.retraced:
        lines.append(_FORGOTTEN)
    lines += _changes(fun, signatures, leaf_names, list(seen.arguments))
    more = [f"and {len(lines) - _LINES} more"] * (len(lines) > _LINES)
    return (f"{head}\n{_indented([*(lines or [_NOT_KEPT])[:_LINES], *more])}\n  TEUCER_WARN_AFTER_COMPILES=0 turns this warning "
            "off; jax_explain_cache_misses explains each.")


def _changes(fun: Any, signatures: Sequence[Signature], leaf_names: LeafNames, arguments: Sequence[tuple[Any, ...]],
             ) -> Iterator[str]:
    """What changes in signatures of a function, and in the types of arguments that others made at its place were traced for.

    What there are many of, the types, comes last.
    """
    statics = [item for s in signatures for item in static_values(fun, s).items()]
    for name, values in _by_name(statics):
        if len(values) > 1:
            yield (f"static argument {name}: {len(values)} values: {_listed(shorts(values))}. Pass it as an array if the program "
                   "needs only its value.")
    trees = {s.tree: s for s in signatures}
    if len(trees) > 1:
        last = [s for s in signatures if s.tree != signatures[-1].tree][-1]
        what = [cut(line, 160) for line in tree_differences(fun, last, signatures[-1])]
        yield (f"the pytree of the arguments: {len(trees)} structures; of the last two, {_listed(what, '; ')}. Give the arguments "
               "one structure.")
    contexts = [item for s in signatures for item in zip(config.trace_context_names(), s.context, strict=True)]
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
            yield (f"argument {name}: {len(avals)} values: {_listed(list(map(type_text, avals)))}. Pad to a few shapes, or convert "
                   "to one dtype, before the call.")


def _by_name(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The different values of each name, in order."""
    found: dict[str, dict[Any, None]] = {}
    for name, value in pairs:
        found.setdefault(name, {})[value] = None
    return [(name, list(values)) for name, values in found.items()]


def _listed(texts: Sequence[str], comma: str = ", ") -> str:
    return comma.join([*texts[:_SHOWN], *["..."] * (len(texts) > _SHOWN)])
