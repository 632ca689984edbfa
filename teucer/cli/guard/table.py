"""All known answers by name."""

from __future__ import annotations

from teucer.cli.guard import costs, elementwise, loops, matrices, moving, products, reductions
from teucer.cli.guard.answer import Answer

__all__ = ["all_answers"]

_TABLES = (elementwise, reductions, products, moving, loops, matrices, costs)


def all_answers() -> list[Answer]:
    """The known answers of every table, in order. Their names are unique."""
    found = [answer for table in _TABLES for answer in table.ANSWERS]
    assert len({answer.name for answer in found}) == len(found), "two answers have one name"
    return found
