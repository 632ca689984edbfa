"""References to arrays that change in place.

`new_ref`, `ref[...] = x`, and functions on them (docs/references.md).
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._core.reference_types": "AbstractRef=RefType",
        "teucer._dialects.references.cells": "Ref",
        "teucer.numpy._references": (
            "RefIndexer=At TransformedRef=View addupdate empty_ref free_ref freeze get new_ref set "
            "swap"
        ),
    },
)
