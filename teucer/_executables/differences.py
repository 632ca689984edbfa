"""Differences between two signatures of a function, or two of its programs, in the user's terms: a
line each."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._base import config
from teucer._devices import meshes
from teucer._devices.meshes import BaseMesh, Mesh
from teucer._devices.placement import Placement
from teucer._devices.shardings import NamedSharding
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value


_WEAK_TYPES = "https://docs.jax.dev/en/latest/type_promotion.html#weak-types"
_CONTEXT = 20  # characters that two long values have in common, which are shown before they differ


class Signature(NamedTuple):
    """The key by which a trace of a function is kept. statics: ((positions and values), (names and
    values)), and their types."""

    tree: Any
    avals: tuple[Any, ...]
    statics: tuple[Any, tuple[type, ...]]
    donated: tuple[tuple[int, ...], tuple[str, ...]]
    context: tuple[Any, ...]
    axes: tuple[Any, ...]
    dynamic: Any


LeafNames = Callable[[Callable[..., Any], Any, Sequence[int]], Sequence[str]]


def differences(
    fun: Callable[..., object], old: Signature, new: Signature, leaf_names: LeafNames
) -> Iterator[str]:
    """The differences between two signatures of a function, a line each."""
    yield from _static_differences(fun, old, new)
    names = [leaves_of(fun, s, leaf_names) for s in (old, new)]
    if old.tree != new.tree:
        yield from (f"different input pytree: {x}" for x in tree_differences(fun, old, new))
    before = dict(zip(names[0], old.avals, strict=True))
    for name, aval in zip(names[1], new.avals, strict=True):
        if name in before and before[name] is not aval:
            yield f"different input types: at {name}, {_type_difference(before[name], aval)}"
    if old.donated != new.donated:
        yield f"donated arguments: were {_donated_text(fun, old)}, are {_donated_text(fun, new)}"
    for name, a, b in zip(config.trace_context_names(), old.context, new.context, strict=True):
        if a != b:
            yield f"tracing context: {option_text(name)}, {_now(a, b, name)}"
    if old.axes != new.axes:
        yield f"named axes: were {dict(old.axes[:-1])}, are {dict(new.axes[:-1])}"
    if old.dynamic != new.dynamic:
        yield (
            "sizes that depend on values: it is part of another program that allows them "
            "(dynamic_results)"
        )


def program_differences(
    old: Sequence[Any], new: Sequence[Any], arg_names: Sequence[str]
) -> Iterator[str]:
    """The differences between two programs of one trace, each given as (donated, keep_unused,
    placement, compiler options, three switches).

    arg_names: names of the last arguments of the program; earlier arguments are arrays that the
    function closes over.
    """
    hidden = len(new[0]) - len(arg_names)
    names = [
        *(f"closed-over array {i}" for i in range(hidden)),
        *(f"argument {name}" for name in arg_names),
    ]
    if old[0] != new[0]:
        were, are = [
            ", ".join(n.removeprefix("argument ") for n, d in zip(names, key[0], strict=True) if d)
            or "none"
            for key in (old, new)
        ]
        yield f"donated arguments: were {were}, are {are}"
    yield from _placement_differences(old[2], new[2], names)
    for what, a, b in zip(
        (
            "keep_unused",
            "compiler options",
            "outline",
            "option teucer_optimize_jaxprs",
            "option teucer_outline",
            "option teucer_rates",
            "option teucer_locations",
        ),
        (old[1], *old[3:]),
        (new[1], *new[3:]),
        strict=True,
    ):
        if a != b:
            yield f"{what}: was {a!r}, is {b!r}"


def _placement_differences(old: Placement, new: Placement, names: Sequence[str]) -> Iterator[str]:
    if old.mesh is None or new.mesh is None:
        if old != new:
            yield f"devices: was {_placement_text(old)}, is {_placement_text(new)}"
        if new.mesh is None:
            return
    elif old.mesh is not new.mesh:
        yield f"mesh of the program: {_change(old.mesh, new.mesh, _mesh_text)}"
    before = old.ins or (None,) * len(new.ins)
    for name, a, b in zip(names, before, new.ins, strict=False):
        if a != b:
            yield f"{name}: {_sharding_difference(a, b)}"
    for i, (a, b) in enumerate(
        zip(old.outs or (None,) * len(new.outs), new.outs or (None,) * len(old.outs), strict=False)
    ):
        if a != b:
            yield f"result {i}: {_sharding_difference(a, b)}"


def _placement_text(placement: Placement) -> str:
    if placement.mesh is not None:
        return f"laid over the mesh {_mesh_text(placement.mesh)}"
    return f"{'committed to' if placement.committed else 'not committed, on'} {placement.device!r}"


def _mesh_text(mesh: BaseMesh) -> str:
    axes = ", ".join(f"{name!r}: {size}" for name, size in mesh.shape_tuple)
    ids = [d.id for d in mesh.flat_devices] if isinstance(mesh, Mesh) else []
    return f"({axes})" + f" of devices {ids}" * (ids != list(range(len(ids))))


def _change(old: object, new: object, text: Callable[[Any], str]) -> str:
    """A change from one value to another as text; the full `repr` if the short texts agree."""
    before, now = text(old), text(new)
    return f"was {before}, is {now}" if before != now else f"was {old!r}, is {new!r}"


def _sharding_difference(old: object, new: object) -> str:
    same_mesh = (
        isinstance(old, NamedSharding) and isinstance(new, NamedSharding) and old.mesh is new.mesh
    )

    def text(sharding: object) -> str:
        if sharding is None:
            return "none"
        if not isinstance(sharding, NamedSharding):
            return repr(sharding)
        return (
            repr(sharding.spec)
            if same_mesh
            else f"{sharding.spec!r} over the mesh {_mesh_text(sharding.mesh)}"
        )

    return f"sharding {_change(old, new, text)}"


def _donated_text(fun: Callable[..., object], signature: Signature) -> str:
    positions, by_name = signature.donated
    names = _parameters(fun)
    return (
        ", ".join(
            dict.fromkeys(
                (*(names[i] if i < len(names) else f"args[{i}]" for i in positions), *by_name)
            )
        )
        or "none"
    )


def option_text(name: str) -> str:
    """The user's name for a part of the context of a trace."""
    return "the mesh in force (jax.set_mesh)" if name == meshes.CONTEXT else f"option {name}"


def context_text(name: str, value: Any) -> str:
    """The value of such a part."""
    if name != meshes.CONTEXT:
        return str(value)
    found = None if value is None else value.abstract or value.mesh or value.named
    return "none" if found is None else _mesh_text(found)


def leaves_of(
    fun: Callable[..., object], signature: Signature, leaf_names: LeafNames
) -> Sequence[str]:
    return leaf_names(fun, signature.tree, [i for i, _ in signature.statics[0][0]])


def static_values(fun: Callable[..., object], signature: Signature) -> dict[str, Any]:
    """The static arguments by name."""
    by_position, by_name = signature.statics[0]
    names = _parameters(fun)
    return {
        **{names[i] if i < len(names) else f"args[{i}]": value for i, value in by_position},
        **dict(by_name),
    }


def _parameters(fun: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _static_differences(
    fun: Callable[..., object], old: Signature, new: Signature
) -> Iterator[str]:
    before, now = static_values(fun, old), static_values(fun, new)
    for name in dict.fromkeys((*before, *now)):
        if name not in now or name not in before:
            given = "was not given, is" if name in now else "was given, is not: it was"
            yield (
                f"static argument {name}: {given} {_short((now if name in now else before)[name])}"
            )
            continue
        a, b = before[name], now[name]
        if type(a) is not type(b):
            yield (
                f"static argument {name}: was {_short(a)} of type {type(a).__name__}, is "
                f"{_short(b)} of type {type(b).__name__}"
            )
        elif a != b and repr(a) == repr(b):
            yield (
                f"static argument {name}: {_short(b)} is not equal to the one before, although "
                f"they print alike. Give {type(b).__name__} an __eq__ and a __hash__ that compare "
                "what matters."
            )
        elif a != b:
            yield from [
                f"static argument {name}{path}: was {one}, is {other}"
                for path, one, other in _parts(a, b)
            ]
    if before == now and old.statics[0] != new.statics[0]:
        yield "static arguments: given by position before and by name now, or the reverse"


def _parts(old: Any, new: Any) -> list[tuple[str, str, str]]:
    """Where two unequal values differ: '' and their texts, or, where these are cut and agree, the
    parts that differ."""
    before, now = _short(old), _short(new)
    if before == now and type(old) is type(new):
        parts = _children(old)
        others = dict(_children(new))
        if parts and [path for path, _ in parts] == list(others):
            found = [
                (path + inner, *texts)
                for path, value in parts
                if value is not others[path] and value != others[path]
                for inner, *texts in _parts(value, others[path])
            ]
            if found:
                return [(path, one, other) for path, one, other in found]
    one, other = shorts([old, new])
    return [("", one, other)]


def _children(value: Value) -> list[tuple[str, Any]]:
    """The fields or elements of a value, under what comes behind its name."""
    if dataclasses.is_dataclass(value):
        return [
            (f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)
        ]
    if isinstance(value, dict):
        return [(f"[{key!r}]", x) for key, x in value.items()]
    if isinstance(value, tuple | list):
        return [(f"[{i}]", x) for i, x in enumerate(value)]
    return []


def shorts(values: Sequence[Value]) -> list[str]:
    """Values as text, shortened; from the first difference on, if the common beginning is long."""
    texts = [_short(value) for value in values]
    if len(set(texts)) == len(texts):
        return texts
    whole = [repr(value) for value in values]
    same = itertools.takewhile(lambda chars: len(set(chars)) == 1, zip(*whole, strict=False))
    start = max(len(list(same)) - _CONTEXT, 0)
    return [cut(("..." if start else "") + text[start:]) for text in whole]


def _short(value: object) -> str:
    return cut(repr(value))


def cut(text: str, most: int = 60) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def tree_differences(fun: Callable[..., object], old: Signature, new: Signature) -> Iterator[str]:
    before, now = _given(fun, old), _given(fun, new)
    for name in dict.fromkeys((*before, *now)):
        if name not in now or name not in before:
            yield f"argument {name}: " + (
                "was not given, is now" if name in now else "was given, is not now"
            )
        elif before[name][0] != now[name][0]:
            yield f"argument {name}: was given {before[name][0]}, is {now[name][0]}"
        else:
            for path, one, other, why in pytrees.equality_errors_pytreedef(
                before[name][1], now[name][1]
            ):
                yield f"argument {name}{pytrees.keystr(path)}: pytree was {one}, is {other}: {why}"


def _given(fun: Callable[..., object], signature: Signature) -> dict[str, tuple[str, Any]]:
    """How each dynamic argument is given, and its tree."""
    positional, named = pytrees.treedef_children(signature.tree)
    trees, names = pytrees.treedef_children(positional), _parameters(fun)
    static = {i for i, _ in signature.statics[0][0]}
    positions = [i for i in range(len(trees) + len(static)) if i not in static]
    found = {
        names[i] if i < len(names) else f"args[{i}]": ("by position", tree)
        for i, tree in zip(positions, trees, strict=True)
    }
    _, keys = named.node_data() or (dict, ())
    return {
        **found,
        **{
            name: ("by name", tree)
            for name, tree in zip(keys, pytrees.treedef_children(named), strict=True)
        },
    }


def type_text(aval: Any) -> str:
    return ("~" if getattr(aval, "weak_type", False) else "") + str(
        aval.str_short(short_dtypes=True)
    )


def _type_difference(old: Any, new: Any) -> str:
    weak = getattr(old, "weak_type", False), getattr(new, "weak_type", False)
    texts = [aval.str_short(short_dtypes=True) for aval in (old, new)]
    if weak[0] != weak[1]:
        texts = [f"{text}{{weak_type={w}}}" for text, w in zip(texts, weak, strict=True)]
    text = f"now {texts[1]} and before {texts[0]}"
    if texts[0] == texts[1]:  # of one partition over two meshes
        return f"{text}: {_sharding_difference(old.partition, new.partition)}"
    return f"{text}. See {_WEAK_TYPES}" if weak[0] != weak[1] else text


def _now(old: Any, new: Any, name: str) -> str:
    """Two values of an option that differ."""
    before, now = context_text(name, old), context_text(name, new)
    return f"now {now} and before {before}" if before != now else f"now {new!r} and before {old!r}"
