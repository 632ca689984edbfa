"""Rules on random keys."""

from __future__ import annotations

import collections
import os
import re
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from teucer._base.errors import KeyReuseError
from teucer._check.findings import Line
from teucer._check.graph import Value
from teucer._check.program import Found, Program
from teucer._core.jaxpr import Eqn
from teucer.random._reuse import use_of

_PLACE = re.compile(r"at (\S+?):(\d+):(\d+) \(")


_REMEDY = (
    "Split it first, `key, sub = jax.random.split(key)`, and use each key once. In a loop, fold "
    "the step in: jax.random.fold_in(key, i)."
)
_SAME = "a random key is used twice: the numbers drawn are the same ones, or depend on each other."
# These give a key, or its bits, without drawing from it.
_HARMLESS = frozenset(
    {
        "random_fold_in", "random_unwrap", "random_wrap", "random_clone", "slice", "squeeze",
        "reshape", "dynamic_slice", "broadcast_in_dim", "gather", "element", "carry", "carried",
        "stacked", "phi", "concatenate", "select_n", "unstack", "stack", "transpose", "part",
        "whole",
        "expand_dims", "copy", "device_put", "sharding_constraint", "eq", "ne",
    }
)  # fmt: skip
_PARTS = frozenset({"slice", "squeeze", "reshape", "dynamic_slice", "unstack", "gather"})


def used_twice(program: Program) -> Iterator[Found]:
    """T201: a typed key from which numbers are drawn twice, by the analysis of keys."""
    try:
        use_of(program.jaxpr.jaxpr)
    except KeyReuseError as err:
        text = str(err)
        place = _PLACE.search(text.partition("\n")[0])
        before = re.search(r"used before at (\S+:\d+)", text)
        first = f" It was used at {before[1]}." if before else ""
        yield Found(
            "T201",
            f"{_SAME}{first}",
            Line(os.path.abspath(place[1]), int(place[2]), int(place[3]))
            if place
            else program.line,
            _REMEDY,
        )


def same_bits(program: Program) -> Iterator[Found]:
    """T201: raw keys, and keys of one seed, from which numbers are drawn twice."""
    draws: dict[Hashable, list[Value]] = collections.defaultdict(list)
    for v in program.graph.of("random_wrap", "random_seed"):
        names = _identity(v)
        for use in v.uses:
            if use.op in _HARMLESS or use.index or use.context.backward:
                continue
            around = use.context.loops[len(names.loops) :]
            if around and len(use.context.loops) > len(names.loops) and v.op == "random_wrap":
                yield Found(
                    "T201",
                    "all steps of a loop draw from one key: the same numbers in each.",
                    use,
                    _REMEDY,
                )
            elif not use.context.branch:
                draws[names.name].append(use)
    for uses in draws.values():
        places = {id(use.eqn): use for use in uses}
        if len(places) > 1:
            first, second, *_ = places.values()
            yield Found("T201", f"{_SAME} It was used at {first.line}.", second, _REMEDY)


class _Identity(NamedTuple):
    """Which bits a key has: a name that equal ones share, and the loops in which they change."""

    name: Hashable
    loops: tuple[Eqn, ...]


def _identity(v: Value) -> _Identity:
    if v.op in ("random_wrap", "random_unwrap"):
        return _identity(v.operands[0])
    if v.op == "constant" and not v.shape:
        return _Identity(("constant", v.range[:2]), ())
    if v.op == "random_seed" and v.operands[0].op == "constant":
        return _Identity(("seed", v.operands[0].range[:2]), ())
    if v.op in _PARTS:
        parts = [_identity(x) for x in v.operands]
        name = (v.op, v.index, str(v.params), *(part.name for part in parts))
        return _Identity(name, max((part.loops for part in parts), key=len))
    return _Identity(id(v), v.context.loops)
