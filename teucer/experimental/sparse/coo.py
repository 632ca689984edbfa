"""COO matrices: rows, columns and values of stored elements. BCOO arrays do more."""

from teucer._base import lazy

_SOURCES = {
    "teucer._sparse.coo": (
        "COO COOInfo Dtype coo_fromdense coo_fromdense_p coo_matmat coo_matmat_p coo_matvec "
        "coo_matvec_p coo_todense coo_todense_p _coo_fromdense _coo_matmat _coo_matvec "
        "_coo_todense"
    ),
    "teucer._sparse.util": "Shape",
}
__getattr__, _, _names = lazy.lazy_module(__name__, _SOURCES)
__all__ = [name for name in _names if not name.startswith("_")]  # the others are private in JAX too
__dir__ = lazy.listing(__name__, __all__)
