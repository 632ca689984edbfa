"""Elementwise functions that rows of lax make.

The operands are promoted to dtypes that the operation accepts.
"""

from __future__ import annotations

import importlib

import numpy as np

from teucer.lax._families import ELEMENTWISE, Elementwise
from teucer.numpy import _ufuncs
from teucer.numpy._library import LibraryBinary, LibraryUnary
from teucer.numpy._promotion import ANY, INEXACT, NUMERIC

# By module of lax: the names that its rows give with `numpy=`, and that no module here defines.
# Made by tools/stubs.py.
_SOURCES = {
    "teucer.lax._arithmetic": "nextafter square",
    "teucer.lax._elementwise": (
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh exp exp2 expm1 log log1p sin sinh "
        "sqrt tan tanh"
    ),
}
_WHERE = {name: module for module, names in _SOURCES.items() for name in names.split()}


def __getattr__(name: str) -> LibraryUnary | LibraryBinary:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    operation = getattr(importlib.import_module(_WHERE[name]), name)
    row = next(row for row in ELEMENTWISE.values() if row.public == name)
    make = _ufuncs.unary if row.arity == 1 else _ufuncs.binary
    made = globals()[name] = make(
        name, _kind(row), operation, operation.__doc__.partition("\n\n")[0]
    )
    return made


def _kind(row: Elementwise) -> str:
    """The dtypes to which the operands of a row are promoted: those that it accepts."""
    return (
        ANY
        if np.dtype(bool) in row.accepts
        else NUMERIC
        if np.dtype(np.int32) in row.accepts
        else INEXACT
    )
