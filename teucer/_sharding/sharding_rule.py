"""Rules for Shardy.

Which axes of the operands and results of a call go together, by factors of their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, final

if TYPE_CHECKING:
    pass


BATCHING = "…"
"""Leading axes of any number, in a mapping. Digits behind it tell several such groups apart."""

Shapes: TypeAlias = Sequence[tuple[int, ...]]
# Factors of axes in a text of Shardy: i to z, then z_1, z_2, ...
_LETTERS = "ijklmnopqrstuvwxyz"
_KINDS = {
    "reduction": "reduction",
    "need_replication": "need replication",
    "permutation": "permutation",
}


def _check_name(name: str) -> None:
    if not name or not name[0].isalpha():
        raise ValueError(f"Factor names have to start with a letter, but got '{name[:1]}'")


@final
class CompoundFactor(tuple[str, ...]):
    """An axis whose size is the product of several factors, the slowest first.

    Raises ValueError for fewer than two factors, or for an object that is no factor's name.

    >>> CompoundFactor("i", "j")
    ('i', 'j')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        for name in factors:
            if not isinstance(name, str):
                raise ValueError(
                    f"Each element of CompoundFactor must be a str, but got {type(name)}"
                )
            if name == BATCHING:
                raise ValueError("Ellipsis can't be used in a compound factor")
            _check_name(name)
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        return super().__new__(cls, factors)


@final
class ArrayMapping(tuple["str | CompoundFactor", ...]):
    """The factor of each axis of an array. `BATCHING`, in the first place, stands for all axes
    before the others.

    Raises ValueError for an object that is no factor, and for BATCHING elsewhere.

    >>> ArrayMapping(BATCHING, "i", CompoundFactor("j", "k"))
    ('…', 'i', ('j', 'k'))
    """

    __slots__ = ()

    def __new__(cls, *mappings: str | CompoundFactor) -> ArrayMapping:
        for i, entry in enumerate(mappings):
            if isinstance(entry, CompoundFactor):
                continue
            if not isinstance(entry, str):
                raise ValueError(
                    "Each element of ArrayMapping must be a str or CompoundFactor, but got "
                    f"{type(entry)}"
                )
            if not _is_batching(entry):
                _check_name(entry)
            elif i:
                raise ValueError("Ellipsis can only be used at the beginning of a dimension")
        return super().__new__(cls, mappings)


def _is_batching(entry: str | CompoundFactor) -> bool:
    return (
        isinstance(entry, str)
        and entry[:1] == BATCHING
        and (len(entry) == 1 or entry[1:].isdigit())
    )


@final
class SdyShardingRule:
    """Which axes of operands and results go together, for Shardy: axes of one factor are divided
    alike.

    operand_mappings, result_mappings: an ArrayMapping, or a tuple of factors, for each array.
    reduction_factors: factors that are summed over. need_replication_factors: factors that must not
    be divided. permutation_factors: those along which devices would exchange elements.
    factor_sizes: of factors that only stand in compound ones.
    Raises ValueError where these do not fit together.

    >>> SdyShardingRule((("i", "j"), ("j", "k")), (("i", "k"),), reduction_factors=("j",))
    SdyShardingRule((('i', 'j'), ('j', 'k')), (('i', 'k'),), {} reduction_factors=('j',))
    """

    def __init__(
        self,
        operand_mappings: tuple[Any, ...],
        result_mappings: tuple[Any, ...],
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings = tuple(map(_as_mapping, operand_mappings))
        self.result_mappings = tuple(map(_as_mapping, result_mappings))
        self.reduction_factors, self.need_replication_factors = (
            reduction_factors,
            need_replication_factors,
        )
        self.permutation_factors, self.factor_sizes = permutation_factors, factor_sizes
        self._check()

    def _special(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(kind, getattr(self, f"{kind}_factors")) for kind in _KINDS]

    def _check(self) -> None:
        entries = [
            e
            for mapping in (*self.operand_mappings, *self.result_mappings)
            for e in mapping
            if not _is_batching(e)
        ]
        whole = {e for e in entries if isinstance(e, str)}
        compound = {name for e in entries if isinstance(e, CompoundFactor) for name in e}
        for name in self.factor_sizes:
            if name not in whole | compound:
                raise ValueError(f"Factor {name} is not used in the rule, but size is provided")
            if name in whole:
                raise ValueError(
                    f"Factor {name} represents a whole dimension; do not specify its size"
                )
        for name in sorted(compound - whole):
            if name not in self.factor_sizes:
                raise ValueError(
                    f"Factor {name} is only used in compound factors; must specify its size"
                )
        seen: set[str] = set()
        for kind, factors in self._special():
            if not isinstance(factors, tuple) or not all(isinstance(f, str) for f in factors):
                raise ValueError(f"{kind}_factors must be a tuple of factors")
            if len(set(factors)) < len(factors):
                raise ValueError(f"{kind}_factors contains duplicated factors")
            for name in factors:
                if name not in whole | compound:
                    raise ValueError(f"Factor {name} in {kind}_factors is not used in the rule")
                if name in seen:
                    raise ValueError(
                        f"Factor {name} can only be in one of the reduction, need replication, or "
                        "permutation factor sets."
                    )
            seen.update(factors)

    def text(self, operands: Shapes, results: Shapes) -> str:
        """The rule as an attribute of Shardy, for operands and results of the given shapes.

        Raises ValueError if it does not fit them.
        """
        _check_number("operands", self.operand_mappings, operands)
        _check_number("results", self.result_mappings, results)
        factors = _Factors(self.factor_sizes)
        arrays = [
            (kind, i, mapping, shape)
            for kind, mappings, shapes in (
                ("operand", self.operand_mappings, operands),
                ("result", self.result_mappings, results),
            )
            for i, (mapping, shape) in enumerate(zip(mappings, shapes, strict=True))
        ]
        spread = [_spread(kind, i, mapping, shape) for kind, i, mapping, shape in arrays]
        for (_, _, _, shape), entries in zip(arrays, spread, strict=True):
            factors.learn(entries, shape)
        for (kind, i, _, shape), entries in zip(arrays, spread, strict=True):
            factors.check(f"{i}th {kind}", entries, shape)
        listed = [factors.listed(entries) for entries in spread]
        n = len(operands)
        sizes = ", ".join(
            f"{symbol}={factors.sizes[name]}" for name, symbol in factors.symbols.items()
        )
        special = [
            f"{kind}={{{', '.join(map(factors.symbol, names))}}}"
            for kind, names in self._special()
            if names
        ]
        about = " ".join([*([f"{{{sizes}}}"] if sizes else []), *special])
        return (
            f"#sdy.op_sharding_rule<({', '.join(listed[:n])})->({', '.join(listed[n:])})"
            f"{about and ' '}{about}, custom>"
        )

    def __repr__(self) -> str:
        special = "".join(f" {kind}_factors={names}" for kind, names in self._special() if names)
        return (
            f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, "
            f"{self.factor_sizes}{special})"
        )


def _as_mapping(mapping: Any) -> ArrayMapping:
    return mapping if isinstance(mapping, ArrayMapping) else ArrayMapping(*mapping)


def _check_number(what: str, mappings: Sequence[object], shapes: Shapes) -> None:
    if len(mappings) != len(shapes):
        raise ValueError(
            f"Sharding rule has {len(mappings)} {what}, but the operation has {len(shapes)} {what}"
        )


def _spread(
    kind: str, number: int, mapping: ArrayMapping, shape: tuple[int, ...]
) -> list[tuple[str, ...]]:
    """The factors of each axis. Factors of axes that an ellipsis stands for are named after it."""
    named = mapping
    batching: list[tuple[str, ...]] = []
    if mapping and _is_batching(mapping[0]):
        named = ArrayMapping(*mapping[1:])
        group = mapping[0][1:] or "0"
        batching = [(f"{BATCHING}{group}_{i}",) for i in range(len(shape) - len(named))]
    if len(batching) + len(named) != len(shape):
        raise ValueError(
            f"Sharding rule {number}th {kind} has rank {len(batching) + len(named)}, but the "
            f"operation {number}th {kind} has rank {len(shape)}"
        )
    return [*batching, *[tuple(e) if isinstance(e, CompoundFactor) else (e,) for e in named]]


class _Factors:
    """The sizes of factors, and their names in the text, in the order in which they are met."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.symbols: dict[str, str] = {}

    def learn(self, entries: Sequence[tuple[str, ...]], shape: tuple[int, ...]) -> None:
        for names, size in zip(entries, shape, strict=True):
            if len(names) > 1:
                continue
            (name,) = names
            known = self.sizes.get(name, size)
            if name[0] == BATCHING and known != size:
                raise ValueError(
                    f"Batching dimension {name[1:]} corresponds to two sizes: {known} and {size}"
                )
            self.sizes[name] = min(known, size)

    def check(self, what: str, entries: Sequence[tuple[str, ...]], shape: tuple[int, ...]) -> None:
        for names, size in zip(entries, shape, strict=True):
            product = math.prod(self.sizes[name] for name in names)
            if len(names) > 1 and product != size:
                raise ValueError(
                    f"{what} actual size {size} doesn't match the size {product} derived from the "
                    f"compound factors {names}"
                )

    def symbol(self, name: str) -> str:
        n = len(self.symbols)
        fresh = _LETTERS[n] if n < len(_LETTERS) else f"z_{n - len(_LETTERS) + 1}"
        return self.symbols.setdefault(name, fresh)

    def listed(self, entries: Sequence[tuple[str, ...]]) -> str:
        return f"[{', '.join(''.join(map(self.symbol, names)) for names in entries)}]"


def parse_rule(
    rule: object,
    *,
    reduction_factors: Sequence[str] = (),
    need_replication_factors: Sequence[str] = (),
    permutation_factors: Sequence[str] = (),
    **factor_sizes: int,
) -> SdyShardingRule:
    """A rule written as operands, `->`, and results: `'... i j, ... j k -> ... i k'`.

    Arrays are separated by commas, their axes by spaces; an axis of several factors stands in
    brackets. Raises TypeError unless given a string, ValueError for a string that is no rule.

    >>> parse_rule("... i, i j -> ... j", reduction_factors=("i",))
    SdyShardingRule((('…0', 'i'), ('i', 'j')), (('…0', 'j'),), {} reduction_factors=('i',))
    """
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    if not all(isinstance(size, int) for size in factor_sizes.values()):
        raise TypeError(f"factor_sizes must be a dict of str to int, but got {factor_sizes}")
    sides = rule.split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: '{rule}'")
    operands, results = map(_parse_arrays, sides)
    return SdyShardingRule(
        operands,
        results,
        reduction_factors=reduction_factors,
        need_replication_factors=need_replication_factors,
        permutation_factors=permutation_factors,
        **factor_sizes,
    )


def _parse_arrays(side: str) -> tuple[ArrayMapping, ...]:
    """The mappings of one side of a rule."""
    arrays: list[list[str | CompoundFactor]] = [[]]
    inner: list[str] | None = None  # the factors since a bracket was opened
    i = 0
    while i < len(side):
        c = side[i]
        token = _token(side, i)
        if token:
            i += len(token)
            name = f"{BATCHING}{token[3:] or '0'}" if token[0] == "." else token
            if token[0] == "." and (inner is not None or arrays[-1]):
                raise ValueError("Ellipsis can only be used at the beginning of a dimension")
            (arrays[-1] if inner is None else inner).append(name)
            continue
        i += 1
        if c == "(":
            if inner is not None:
                raise ValueError(
                    "Compound factors should be one level, nested brackets are not allowed"
                )
            inner = []
        elif c == ")":
            if inner is None:
                raise ValueError("Brackets are not balanced")
            if len(inner) < 2:
                raise ValueError("Brackets should contain at least two factors")
            arrays[-1].append(CompoundFactor(*inner))
            inner = None
        elif c == "," and inner is None:
            arrays.append([])
        elif c not in " ,":
            raise ValueError(f"Unknown character '{c}'")
    if inner is not None:
        raise ValueError(f"Brackets are not balanced in rule: '{side}'")
    return tuple(ArrayMapping(*entries) for entries in arrays)


def _token(side: str, start: int) -> str:
    """The name of a factor, or the ellipsis, that begins at a place of a rule; '' if none does."""
    end = start
    if side[start] == ".":
        if side[start : start + 3] != "...":
            raise ValueError("Character '.' must be used inside ellipsis '...'")
        end += 3
        while end < len(side) and side[end].isdigit():
            end += 1
    else:
        while end < len(side) and (
            (side[end].isascii() and side[end].isalnum()) or side[end] == "_"
        ):
            end += 1
    return side[start:end]
