"""What would make a program fit, or faster: annotations, from what the compiled program does."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._derived.liveness import size_text

if TYPE_CHECKING:
    from teucer._plan.parts import Part
    from teucer._plan.plan import Plan

# What is less of the time, or of the memory, is not worth a word.
_SHARE = 0.05


class Argument(NamedTuple):
    """An argument of a program: its name, global shape and dtype, the mesh axes of each of its
    axes, bytes on a device, whether it is donated, and whether a result is of its type."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    spec: tuple[tuple[str, ...], ...]
    size: int
    donated: bool
    returned: bool


def arguments(
    traced: Any, names: Sequence[str], shardings: Sequence[Any] = ()
) -> tuple[Argument, ...]:
    """The arguments of a traced function, which lie by shardings."""
    avals = traced.jaxpr.in_avals
    results = [(aval.shape, aval.dtype) for aval in traced.jaxpr.out_avals]
    shardings = [*shardings, *[None] * (len(avals) - len(shardings))]
    donated = list(traced.staged.donated)[-len(avals) :] if avals else []
    found = []
    for name, aval, sharding, given in zip(names, avals, shardings, donated, strict=False):
        spec = _spec(sharding, len(aval.shape))
        mesh = {} if sharding is None else getattr(sharding.mesh, "shape", {})
        parts = math.prod(mesh.get(axis, 1) for axes in spec for axis in axes)
        returned = (aval.shape, aval.dtype) in results
        if returned:
            results.remove((aval.shape, aval.dtype))
        found.append(
            Argument(
                name, tuple(aval.shape), str(aval.dtype), spec,
                math.prod(aval.shape) * aval.dtype.itemsize // parts, bool(given), returned,
            )
        )  # fmt: skip
    return tuple(found)


def _spec(sharding: Any, ndim: int) -> tuple[tuple[str, ...], ...]:
    entries = [] if sharding is None else list(sharding.spec.partitions)
    said = [() if e is None else e if isinstance(e, tuple) else (e,) for e in entries]
    return (*said, *[()] * (ndim - len(said)))


class _Said(NamedTuple):
    """One advice, and how much it is worth: a share of the time or of the memory."""

    worth: float
    text: str


def advice(plan: Plan, given: Sequence[Argument]) -> tuple[str, ...]:
    """What to write, the best first."""
    said = [*_activations(plan, given), *_donation(plan, given), *_whole(plan, given)]
    said += _results(plan, given)
    said += [*_logits(plan), *_lines(plan)]
    return tuple(one.text for one in sorted(said, key=lambda s: -s.worth))


def _batches(plan: Plan, given: Sequence[Argument]) -> dict[tuple[str, ...], tuple[int, str]]:
    """By the mesh axes along which data lie: the size of the divided axis, and whose it is. Data
    are what the program does not hand back."""
    found: dict[tuple[str, ...], tuple[int, str]] = {}
    several = any(a.returned for a in given)
    for a in given:
        if (a.returned and several) or not a.spec or not a.spec[0]:
            continue
        if not several and a.dtype.startswith(("float", "bfloat")) and a is not given[0]:
            continue
        if math.prod(plan.mesh[name] for name in a.spec[0]) > 1:
            found.setdefault(a.spec[0], (a.shape[0], a.name))
    return found


def _activations(plan: Plan, given: Sequence[Argument]) -> list[_Said]:
    """Values of the whole batch that are summed or gathered along the axes of the batch: the
    compiler has divided a product otherwise than the data."""
    said = []
    for axes, (size, name) in _batches(plan, given).items():
        rows = [
            p
            for p in plan.parts
            if p.kind == "collective"
            and p.axes is not None
            and set(p.axes) & set(axes)
            and (p.again or not p.backward)
            and _holds(p.types, size)
        ]
        waited, whole = sum(p.waited for p in rows), sum(p.waited for p in plan.parts)
        if not rows or waited < _SHARE * whole:
            continue
        worst: Part = max(rows, key=lambda p: p.waited)
        large = [p for p in rows if p.line and p.waited > _SHARE * whole]
        first = min(large, key=_line_number, default=worst)
        axis = repr(axes[0]) if len(axes) == 1 else repr(axes)
        said.append(
            _Said(
                waited / whole,
                f"hold the activations where the data are: {name} lies along {axis}, and "
                f"{_lines_of(rows)} {_verb(rows)} values of the whole batch along it, such as "
                f"{worst.types} ({size_text(sum(p.sent for p in rows))} sent, "
                f"{1e3 * waited:.3g} of {1e3 * whole:.3g} ms). Write before {first.line}: "
                f"h = jax.lax.with_sharding_constraint(h, jax.P({axis})), for what that line "
                "works on.",
            )
        )
    return said


def _holds(types: str, size: int) -> bool:
    """Whether the arrays have an axis of a size, and others."""
    for dims in re.findall(r"\[([\d,]*)\]", types):
        sizes = [int(n) for n in dims.split(",") if n]
        if size in sizes and len(sizes) > 1 and math.prod(sizes) > 8 * size:
            return True
    return False


def _verb(rows: Sequence[Part]) -> str:
    kinds = {"sums" if p.what in ("all-reduce", "reduce-scatter") else "gathers" for p in rows}
    many = len({p.line for p in rows}) > 1
    words = [word.removesuffix("s") if many else word for word in sorted(kinds)]
    return " and ".join(words)


def _line_number(part: Part) -> tuple[str, int]:
    file, _, line = part.line.rpartition(":")
    return file, int(line or 0)


def _lines_of(rows: Sequence[Part]) -> str:
    lines = list(dict.fromkeys(p.line for p in sorted(rows, key=lambda p: -p.waited) if p.line))
    if not lines:
        return "the program"
    if len(lines) < 3:
        return " and ".join(lines)
    others = len(lines) - 2
    return f"{lines[0]}, {lines[1]} and {others} other line{'s' * (others > 1)}"


def _donation(plan: Plan, given: Sequence[Argument]) -> list[_Said]:
    """Arguments of the types of results that are not donated."""
    kept = [a for a in given if a.returned and not a.donated]
    size = sum(a.size for a in kept)
    if size < _SHARE * plan.memory.capacity:
        return []
    tops = list(dict.fromkeys(re.split(r"[\[.]", a.name)[0] for a in kept))
    shown = ", ".join(repr(top) for top in tops)
    return [
        _Said(
            size / max(plan.memory.peak, plan.memory.capacity, 1),
            f"donate what the step hands back: jax.jit(step, donate_argnames=({shown},)) takes "
            f"{size_text(size)} a device off, where results lie in the place of arguments.",
        )
    ]


def _results(plan: Plan, given: Sequence[Argument]) -> list[_Said]:
    """Results that the compiler lays out otherwise than the arguments of their types."""
    back = sum(a.size for a in given if a.returned)
    more = plan.memory.results - sum(a.size for a in given)
    if not back or more < _SHARE * plan.memory.capacity:
        return []
    return [
        _Said(
            more / plan.memory.capacity,
            f"lay results out as arguments: what the step hands back takes "
            f"{size_text(plan.memory.results)} a device, where the arguments take "
            f"{size_text(back)}. jax.lax.with_sharding_constraint(grads, specs of the parameters),"
            " or out_shardings of jax.jit, lets the compiler scatter the sums of gradients, too.",
        )
    ]


def _whole(plan: Plan, given: Sequence[Argument]) -> list[_Said]:
    """Large arguments that are whole along an axis of the mesh, where memory is short."""
    if plan.memory.fits and plan.memory.peak < 0.8 * plan.memory.capacity:
        return []
    said = []
    for axis, n in plan.mesh.items():
        if n < 2:
            continue
        rows = [
            a
            for a in given
            if a.returned
            and not any(axis in axes for axes in a.spec)
            and any(size % n == 0 for size in a.shape)
        ]
        size = sum(a.size for a in rows)
        if size < _SHARE * plan.memory.capacity:
            continue
        largest = max(rows, key=lambda a: a.size)
        saved = size * (n - 1) / n
        said.append(
            _Said(
                saved / plan.memory.capacity,
                f"divide parameters over {axis!r}: {len(rows)} arguments are whole along it, "
                f"{size_text(size)} a device. {largest.name} as {_divided(largest, axis, n)}, and "
                f"the others alike, take {size_text(saved)} off; each use then gathers them.",
            )
        )
    return said


def _divided(argument: Argument, axis: str, n: int) -> str:
    """The spec of an argument with its longest free axis divided."""
    free = [i for i, axes in enumerate(argument.spec) if not axes and argument.shape[i] % n == 0]
    if not free:
        free = [i for i, size in enumerate(argument.shape) if size % n == 0]
    best = max(free, key=lambda i: argument.shape[i])
    entries = [(*axes, axis) if i == best else axes for i, axes in enumerate(argument.spec)]
    shown = ["None" if not e else repr(e[0]) if len(e) == 1 else repr(e) for e in entries]
    return f"P({', '.join(shown)})"


def _logits(plan: Plan) -> list[_Said]:
    """What else is large at the worst moment, where memory is short."""
    memory = plan.memory
    if memory.fits and memory.peak < 0.8 * memory.capacity:
        return []
    if not any(p.backward for p in plan.parts):
        return []
    rows = [h for h in memory.held if not h.what.startswith("argument ")]
    size = sum(h.bytes for h in rows)
    if not rows or size < _SHARE * memory.capacity:
        return []
    at = " and ".join(dict.fromkeys(f"{h.type} of {h.line or h.what}" for h in rows[:2]))
    return [
        _Said(
            rows[0].bytes / memory.capacity,
            f"keep less for the backward pass: at the worst moment {size_text(size)} are values in "
            f"between, most of it {at}. jax.checkpoint around a layer computes them again; half "
            "the batch a device takes half of them.",
        )
    ]


def _lines(plan: Plan) -> list[_Said]:
    """The collectives that nothing is done beside."""
    if not plan.seconds or plan.limit != "collectives":
        return []
    rows = [p for p in plan.parts if p.kind == "collective"]
    by_axis: dict[tuple[str, ...], float] = {}
    for p in rows:
        if p.axes:
            by_axis[p.axes] = by_axis.get(p.axes, 0.0) + p.waited
    if not by_axis:
        return []
    axes = max(by_axis, key=lambda a: by_axis[a])
    n = math.prod(plan.mesh[axis] for axis in axes)
    share = by_axis[axes] / plan.seconds
    if n < 2 or share < _SHARE:
        return []
    along = " and ".join(map(repr, axes))
    return [
        _Said(
            share / 2,
            f"{100 * share:.0f} % of the time goes to collectives along {along} ({n} devices). A "
            "larger batch a device makes them a smaller share of the work; a mesh with fewer "
            f"devices along {along} makes them shorter.",
        )
    ]
