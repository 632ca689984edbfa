"""References to arrays that change in place.

`new_ref`, `ref[...] = x`, and functions on them (docs/references.md).
"""

from teucer._core.references.types import RefType as AbstractRef
from teucer._dialects.references.cells import Ref
from teucer.numpy._references import At as RefIndexer
from teucer.numpy._references import View as TransformedRef
from teucer.numpy._references import addupdate, empty_ref, free_ref, freeze, get, new_ref, set, swap

__all__ = [
    "AbstractRef",
    "Ref",
    "RefIndexer",
    "TransformedRef",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]
