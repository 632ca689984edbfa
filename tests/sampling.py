"""Samples of long lists of cases: the quick suite takes some of them, `make test-all` takes all."""

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], step: int) -> list[Any]:
    """The cases of a parameter. All but every so-many-th are slow."""
    return [case if i % step == 0 else _slow(case) for i, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
