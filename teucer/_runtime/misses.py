"""Cache misses of `jit`, explained: what differs from earlier calls, argument by argument, and what keeps changing."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from teucer._base import config, memo, source
from teucer._base.functions import fun_name, where
from teucer._trees import pytrees

__all__ = ["explain_program", "note"]

_logger = logging.getLogger("teucer")
_CLOSEST_OF = 64  # earlier signatures that are compared
_SHOWN = 5  # values of what keeps changing
# How often functions were traced to be compiled, by file, line and name: closures made in a loop are one function here.
_traced: dict[tuple[str, str], _Count] = {}


class _Count:
    __slots__ = ("functions", "traces")

    def __init__(self) -> None:
        self.functions = self.traces = 0


class Signature(NamedTuple):
    """What a trace of a function is kept by. statics: ((positions and values), (names and values)), and their types."""

    tree: Any
    avals: tuple[Any, ...]
    statics: tuple[Any, tuple[type, ...]]
    donated: tuple[tuple[int, ...], tuple[str, ...]]
    context: tuple[Any, ...]
    axes: tuple[Any, ...]
    dynamic: Any


LeafNames = Callable[[Callable[..., Any], Any, Sequence[int]], Sequence[str]]


def note(fun: Callable[..., Any], signature: tuple[Any, ...], earlier: Collection[Any], leaf_names: LeafNames,
         compiled: bool) -> None:
    """A function is about to be traced for a new signature.

    earlier: those that it has been traced for. leaf_names: of a function, the tree of its dynamic arguments and the positions
    of static ones, what the user calls the leaves. compiled: the trace becomes a program, not a part of another one.
    """
    explained, limit = config.explain_cache_misses.value, config.warn_after_compiles.value
    if not explained and not (compiled and limit):
        return
    place = where(_users(fun))
    if source.is_internal(place.rpartition(":")[0]):
        return
    seen = _traced.get((place, fun_name(fun))) or memo.remember(_traced, (place, fun_name(fun)), _Count())
    if explained:
        _logger.warning("TRACING CACHE MISS at %s:\n%s", _call_site(),
                        _explanation(fun, place, Signature(*signature), [Signature(*key) for key in earlier], leaf_names, seen))
    seen.functions += not earlier
    if compiled:
        seen.traces += 1
        if seen.traces == limit:
            signatures = [Signature(*key) for key in (*earlier, signature)]
            _logger.warning("%s", _summary(fun, place, signatures, leaf_names, seen))


def _users(fun: Any) -> Any:
    """The function that the user wrote, of one that Teucer's transformations have wrapped."""
    try:
        return inspect.unwrap(fun, stop=lambda f: not source.is_internal(where(f).rpartition(":")[0]))
    except ValueError:  # a function that is its own wrapper
        return fun


def explain_program(jaxpr: Any, key: tuple[Any, ...]) -> None:
    """Log why a jaxpr that has programs gets another one. The keys of programs are what `program_for` keeps them by."""
    place = jaxpr.debug_info.where if jaxpr.debug_info is not None else ""
    earlier = [k for k in jaxpr.cache if isinstance(k, tuple) and k[0] == key[0]]
    if not earlier or not place or source.is_internal(place.rpartition(":")[0]):
        return
    names = ("donated arguments", "keep_unused", "placement", "compiler options", "outline", "teucer_optimize_jaxprs",
             "teucer_outline")
    closest = min(reversed(earlier), key=lambda k: sum(a != b for a, b in zip(k, key, strict=True)))
    lines = [f"{name}: was {old}, is {new}" for name, old, new in zip(names, closest[1:], key[1:], strict=True) if old != new]
    _logger.warning("COMPILATION CACHE MISS at %s:\n  for %s defined at %s, which was traced for these types before\n%s",
                    _call_site(), jaxpr.debug_info.name, place, _indented(lines))


def _call_site() -> str:
    record = source.user_frame()
    return "<unknown>" if record is None else source.describe(record)


def _explanation(fun: Any, place: str, signature: Signature, known: Sequence[Signature], leaf_names: LeafNames,
                 seen: _Count) -> str:
    if not known:
        text = f"  never seen function:\n    {fun_name(fun)} id={id(fun)} defined at {place}"
        if seen.functions:
            text += f"\n  but seen another function defined on the same line: {_made_anew(fun)}"
        return text
    found = [list(differences(fun, old, signature, leaf_names)) for old in known[:-_CLOSEST_OF - 1:-1]]
    return (f"  for {fun_name(fun)} defined at {place}\n  all previously seen cache keys differ. For the closest previous key:\n"
            + _indented(min(found, key=len)))


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
    elif getattr(fun, "__closure__", None):
        what = f"a closure over {', '.join(fun.__code__.co_freevars)} made anew is another function"
        remedy = "Define it once, and pass what it closes over as arguments."
    else:
        what = "a function that is defined anew is another function"
        remedy = "Define it once, outside of the loop."
    return f"{what}, so nothing that was traced or compiled can be used again. {remedy}"


def differences(fun: Any, old: Signature, new: Signature, leaf_names: LeafNames) -> Iterator[str]:
    """What differs between two signatures of a function, a line each."""
    yield from _static_differences(fun, old, new)
    names = [_names(fun, s, leaf_names) for s in (old, new)]
    if old.tree != new.tree:
        yield from _tree_differences(fun, old, new)
    before = dict(zip(names[0], old.avals, strict=True))
    for name, aval in zip(names[1], new.avals, strict=True):
        if name in before and before[name] is not aval:
            yield f"argument {name}: {_type_difference(before[name], aval)}"
    if old.donated != new.donated:
        yield f"donated arguments: were {old.donated}, are {new.donated}"
    for name, a, b in zip(config.trace_context_names(), old.context, new.context, strict=True):
        if a != b:
            yield f"option {name}: was {a!r}, is {b!r}"
    if old.axes != new.axes:
        yield f"named axes: were {dict(old.axes)}, are {dict(new.axes)}"
    if old.dynamic != new.dynamic:
        yield "sizes that depend on values: it is part of another program that allows them (dynamic_results)"


def _names(fun: Any, signature: Signature, leaf_names: LeafNames) -> Sequence[str]:
    return leaf_names(fun, signature.tree, [i for i, _ in signature.statics[0][0]])


def _static_values(fun: Any, signature: Signature) -> dict[str, Any]:
    """The static arguments by name."""
    by_position, by_name = signature.statics[0]
    names = _parameters(fun)
    return {**{names[i] if i < len(names) else f"args[{i}]": value for i, value in by_position}, **dict(by_name)}


def _parameters(fun: Any) -> list[str]:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _static_differences(fun: Any, old: Signature, new: Signature) -> Iterator[str]:
    before, now = _static_values(fun, old), _static_values(fun, new)
    for name in dict.fromkeys((*before, *now)):
        if name not in now or name not in before:
            given = "was not given, is" if name in now else "was given, is not: it was"
            yield f"static argument {name}: {given} {_short((now if name in now else before)[name])}"
            continue
        a, b = before[name], now[name]
        if type(a) is not type(b):
            yield f"static argument {name}: was {_short(a)} of type {type(a).__name__}, is {_short(b)} of type {type(b).__name__}"
        elif a != b and repr(a) == repr(b):
            yield (f"static argument {name}: {_short(b)} is not equal to the one before, although they print alike. Give "
                   f"{type(b).__name__} an __eq__ and a __hash__ that compare what matters.")
        elif a != b:
            yield f"static argument {name}: was {_short(a)}, is {_short(b)}"
    if before == now and old.statics[0] != new.statics[0]:
        yield "static arguments: given by position before and by name now, or the reverse"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _tree_differences(fun: Any, old: Signature, new: Signature) -> Iterator[str]:
    before, now = _given(fun, old), _given(fun, new)
    for name in dict.fromkeys((*before, *now)):
        if name not in now or name not in before:
            yield f"argument {name}: " + ("was not given, is now" if name in now else "was given, is not now")
        elif before[name][0] != now[name][0]:
            yield f"argument {name}: was given {before[name][0]}, is {now[name][0]}"
        else:
            for path, one, other, why in pytrees.equality_errors_pytreedef(before[name][1], now[name][1]):
                yield f"argument {name}{pytrees.keystr(path)}: pytree was {one}, is {other}: {why}"


def _given(fun: Any, signature: Signature) -> dict[str, tuple[str, Any]]:
    """How each dynamic argument is given, and its tree."""
    positional, named = pytrees.treedef_children(signature.tree)
    trees, names = pytrees.treedef_children(positional), _parameters(fun)
    static = {i for i, _ in signature.statics[0][0]}
    positions = [i for i in range(len(trees) + len(static)) if i not in static]
    found = {names[i] if i < len(names) else f"args[{i}]": ("by position", tree)
             for i, tree in zip(positions, trees, strict=True)}
    _, keys = named.node_data() or (dict, ())
    return {**found, **{name: ("by name", tree) for name, tree in zip(keys, pytrees.treedef_children(named), strict=True)}}


def _type_text(aval: Any) -> str:
    return ("~" if getattr(aval, "weak_type", False) else "") + str(aval.str_short(short_dtypes=True))


def _type_difference(old: Any, new: Any) -> str:
    parts = ("shape", "dtype", "weak_type", "sharding", "vma")
    changed = [part for part in parts if getattr(old, part, None) != getattr(new, part, None)]
    if changed in (["sharding"], ["vma"]):
        return f"{changed[0]} was {getattr(old, changed[0])}, is {getattr(new, changed[0])}"
    if changed == ["weak_type"]:
        python = " (of a Python scalar)"
        return (f"weak type was {_type_text(old)}{python * old.weak_type}, is {_type_text(new)}{python * new.weak_type}")
    what = changed[0] if len(changed) == 1 else "type"
    return f"{what} was {_type_text(old)}, is {_type_text(new)}"


def _summary(fun: Any, place: str, signatures: Sequence[Signature], leaf_names: LeafNames, seen: _Count) -> str:
    """What keeps changing in the calls of a function, and what to do."""
    head = f"{fun_name(fun)} defined at {place} has been compiled {seen.traces} times, last at {_call_site()}. What keeps changing:"
    if 2 * seen.functions > seen.traces:
        lines = [f"the function: {seen.functions} of them were made on this line, and {_made_anew(fun)}"]
    else:
        lines = list(_changes(fun, signatures, leaf_names)) or ["the traces were forgotten (clear_caches)"]
    return (f"{head}\n{_indented(lines)}\n  TEUCER_WARN_AFTER_COMPILES=0 turns this warning off; jax_explain_cache_misses explains "
            "each.")


def _changes(fun: Any, signatures: Sequence[Signature], leaf_names: LeafNames) -> Iterator[str]:
    values: dict[tuple[str, str], dict[Any, str]] = {}
    for s in signatures:
        for name, value in _static_values(fun, s).items():
            values.setdefault((f"static argument {name}", "Pass it as an array if the program needs only its value."), {})[
                value] = _short(value)
        for name, aval in zip(_names(fun, s, leaf_names), s.avals, strict=True):
            by_shape = values.setdefault((f"argument {name}", "Pad to a few shapes, or convert to one dtype, before the call."), {})
            by_shape[aval] = _type_text(aval)
        values.setdefault(("the pytree of the arguments", "Give the arguments one structure."), {})[s.tree] = str(s.tree)
        for name, option in zip(config.trace_context_names(), s.context, strict=True):
            values.setdefault((f"option {name}", "Set it once."), {})[option] = repr(option)
        values.setdefault(("the named axes", "Call the function under one of them."), {})[s.axes] = str(dict(s.axes))
    for (what, remedy), found in values.items():
        if len(found) > 1:
            shown = ", ".join([*list(found.values())[:_SHOWN], *["..."] * (len(found) > _SHOWN)])
            yield f"{what}: {len(found)} values: {shown}. {remedy}"
