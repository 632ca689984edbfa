"""Logs: named arrays that a backward rule gives beside cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._xla.pytree import PyTree

# Integers travel as floats, since only floats are cotangents: each 16 bits as a float32, exactly.
_BITS = 16


class Logged(list[Any]):
    """Cotangents of the arguments of a rule that logs, and its logs by name."""

    def __init__(self, cts: Sequence[object], logs: dict[object, object]) -> None:
        super().__init__(cts)
        self.logs = logs


@dataclass
class CondSum:
    """The logs of a `cond`'s branches under one name: `index` says which of them ran, and
    `branches` has the logs of each: zeros for branches that did not run, None for branches that log
    nothing under the name.

    If several branches log nothing under the name, the index may name the first of them.
    """

    index: Any
    branches: list[Any]


pytrees.register_pytree_node(
    CondSum, lambda c: ((c.index, c.branches), None), lambda _, parts: CondSum(*parts)
)


class Leaf(NamedTuple):
    """An array of a log: its type `aval`, and the place where its parts begin among all parts."""

    place: int
    aval: ShapedArray


class Ran(NamedTuple):
    """Which branch ran: for each the place of a part that is 1 if it did, None where there is none;
    and how many axes that part has of its own."""

    places: tuple[tuple[int, int] | None, ...]


def pair_of(result: object, said: tuple[str, str]) -> tuple[Any, dict[Any, Any]]:
    """The cotangents and the logs that a rule returns. said: the messages for a result that is no
    pair, and for a second element that is no dict."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(f"{said[0]} {result!r:.200}.\n  Return (cotangents, None) to log nothing.")
    cts, logs = result
    if logs is not None and not isinstance(logs, dict):
        raise TypeError(
            f"{said[1]} must be None or a dict of backward-pass log entries, but got "
            f"{type(logs).__name__}."
        )
    return cts, {} if logs is None else logs


def check_leaves(logs: dict[object, object], name: str) -> None:
    """Raises TypeError for an object that is no array of numbers."""
    for path, x in pytrees.tree_flatten_with_path(logs)[0]:
        aval = typeof(x) if is_valid_type(x) else None
        if type(aval) is not ShapedArray or dtypes.is_extended(aval.dtype):
            raise TypeError(
                f"the backward rule of {name} logs {x!r:.100} at {pytrees.keystr(path)}.\n"
                "  Logs are arrays of numbers: of keys log jax.random.key_data(key)."
            )


def _chunks(aval: ShapedArray) -> int:
    return max(1, int(aval.dtype.itemsize) * 8 // _BITS)


def _is_float(aval: ShapedArray) -> bool:
    return dtypes.issubdtype(aval.dtype, np.inexact)


def parts_of(aval: ShapedArray) -> list[Any]:
    """The types of the inputs whose cotangents an array of a log is."""
    if _is_float(aval):
        return [aval.cotangent_aval()]
    return [aval.update(dtype=np.dtype(np.float32), weak_type=False).cotangent_aval()] * _chunks(
        aval
    )


def encoded(x: Any) -> list[Any]:
    """An array of a log as such cotangents."""
    aval: Any = typeof(x)
    if _is_float(aval):
        return [x]
    to = aval.update(dtype=np.dtype(np.float32), weak_type=False)
    n = _chunks(aval)
    x = np.asarray(x, aval.dtype) if isinstance(x, bool | int) else x
    pieces = [x] if n == 1 else [(x >> _BITS * i) & (1 << _BITS) - 1 for i in range(n)]
    return [array_ops.convert(piece, to) for piece in pieces]


def decoded(template: PyTree, parts: Sequence[Any]) -> Any:
    """The logs, of the form of `template`, whose arrays have these parts."""

    def value(leaf: Leaf | Ran) -> Any:
        if isinstance(leaf, Ran):
            return _index(leaf, parts)
        own = parts[leaf.place : leaf.place + len(parts_of(leaf.aval))]
        if _is_float(leaf.aval):
            return own[0]
        to = typeof(own[0]).update(dtype=leaf.aval.dtype, weak_type=leaf.aval.weak_type)
        pieces = [array_ops.convert(p, to) for p in own]
        total = pieces[0]
        for i, piece in enumerate(pieces[1:], 1):
            total = total | piece << _BITS * i
        return total

    return pytrees.tree_map(value, template, is_leaf=lambda x: isinstance(x, Leaf | Ran))


def _index(ran: Ran, parts: Sequence[Any]) -> Any:
    """The number of the branch that ran, from the logged `parts`."""
    default = next((b for b, place in enumerate(ran.places) if place is None), 0)
    total: Any = default
    for b, place in enumerate(ran.places):
        if place is not None:
            flag = parts[place[0]]
            flag = flag.max(axis=tuple(range(flag.ndim - place[1], flag.ndim)))
            total = total + (b - default) * flag
    return total.astype(np.int32)


def marked(rule: Callable[..., object], of: Callable[..., object]) -> Callable[..., Any]:
    """A backward rule that logs if another one does."""
    rule.logs = logs_of(of)  # type: ignore[attr-defined]
    return rule


def logs_of(rule: Callable[..., object]) -> str | None:
    """The name of the function whose backward rule logs; None for other rules."""
    return getattr(rule, "logs", None)
