"""The methods of arrays, given to the C++ array type and to tracers."""

from __future__ import annotations

import importlib
from typing import Any

from teucer._core.trace import Tracer
from teucer._runtime.arrays import ArrayImpl
from teucer._xla import arrays as xla
from teucer.numpy import _indexing, _operators

# Methods that are the function of the same name, by the module that defines it; loaded on first use.
_FUNCTIONS = {
    "_reductions": ("sum", "mean", "max"),
    "_manipulation": ("ravel", "squeeze", "swapaxes"), "_stacking": ("repeat",), "_index_tricks": ("diagonal",),
    "_taking": ("take",), "_nonzero": ("nonzero",), "_select": ("choose",),
    "_sorting": ("argpartition", "argsort", "partition", "searchsorted", "sort"),
}


def _method(name: str, module: str) -> Any:
    found: list[Any] = []

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not found:
            found.append(getattr(importlib.import_module(f"teucer.numpy.{module}"), name))
        return found[0](self, *args, **kwargs)
    method.__name__ = name
    return method


def attach() -> None:
    """Give arrays and tracers their operators and methods."""
    methods = {name: _method(name, module) for module, names in _FUNCTIONS.items() for name in names}
    xla.attach(ArrayImpl, _operators.array_operators() | methods | _indexing.ATTACH)
    xla.attach(Tracer, _operators.tracer_operators() | methods | _indexing.ATTACH)
