"""What is behind the elements of a buffer is arbitrary.

In these tests it is NaN, or the greatest integer.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from teucer._base import dtypes
from teucer._dynamic import dynamic


def garbage(shape: Any, dtype: Any) -> Any:
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    value = np.nan if dtypes.issubdtype(dtype, np.inexact) else ml_dtypes.iinfo(dtype).max
    return np.full(shape, value, dtype)


@pytest.fixture(autouse=True)
def garbage_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic, "_blank", garbage)
