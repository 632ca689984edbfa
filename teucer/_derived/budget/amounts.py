"""Amounts of memory as users say them."""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

_UNITS = {"": 1} | {
    name: base**power
    for power, letter in enumerate("kmgtp", 1)
    for name, base in (
        (letter, 1024), (f"{letter}ib", 1024), (f"{letter}b", 1000),
    )
} | {"b": 1}  # fmt: skip
_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*|%)\s*")


class Amount(NamedTuple):
    """Bytes, or a share of what would be kept."""

    size: int | None
    share: float | None


def amount(budget: object, function: str) -> Amount:
    """A user's budget: bytes as an int or as text such as "2 GiB", or a share from 0 to 1 as a
    float or as text such as "50%".

    Raises TypeError for other types, ValueError for text and numbers that say no amount.

    >>> amount("1.5 MiB", "checkpoint"), amount(0.25, "checkpoint")
    (Amount(size=1572864, share=None), Amount(size=None, share=0.25))
    """
    if isinstance(budget, str):
        found = _TEXT.fullmatch(budget)
        if found is not None and found[2] == "%":
            return _share(float(found[1]) / 100, budget, function)
        if found is None or found[2].lower() not in _UNITS:
            raise ValueError(
                f"{function}: the budget {budget!r} is no amount of memory.\n  Write a number and "
                'a unit, such as "2 GiB", "500 MB", or "50%" of what would be kept.'
            )
        return _size(int(float(found[1]) * _UNITS[found[2].lower()]), budget, function)
    if isinstance(budget, float):
        return _share(budget, budget, function)
    try:
        if isinstance(budget, bool):
            raise TypeError
        return _size(operator.index(budget), budget, function)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{function}: the budget {budget!r} is of type {type(budget).__name__}.\n  Give bytes "
            'as an int or as text such as "2 GiB", or a share from 0 to 1 as a float.'
        ) from None


def _share(share: float, budget: object, function: str) -> Amount:
    if not 0 <= share <= 1:
        raise ValueError(
            f"{function}: the budget {budget!r} is a share of what would be kept, and not from 0 "
            'to 1.\n  Give bytes as an int or as text such as "2 GiB".'
        )
    return Amount(None, share)


def _size(size: int, budget: object, function: str) -> Amount:
    if size <= 0:
        raise ValueError(f"{function}: the budget {budget!r} is not more than 0 bytes.")
    return Amount(size, None)
