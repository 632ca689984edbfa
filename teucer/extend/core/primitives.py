"""The primitives of lax, by name."""

from __future__ import annotations

from typing import Any

from teucer import lax
from teucer.lax import linalg

__all__ = [*(name for name in dir(lax) if name.endswith("_p")), *(name for name in dir(linalg) if name.endswith("_p"))]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    for module in (lax, linalg):
        if name.endswith("_p") and name in vars(module):
            return vars(module)[name]
    raise AttributeError(f"module 'teucer.extend.core.primitives' has no attribute {name!r}")
