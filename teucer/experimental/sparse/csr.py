"""CSR and CSC matrices: rows, or columns, one after another. BCSR arrays do more."""

from teucer._base import lazy

_SOURCES = {
    "teucer._sparse.csr": (
        "CSC CSR csr_fromdense csr_fromdense_p csr_matmat csr_matmat_p csr_matvec csr_matvec_p "
        "csr_todense csr_todense_p _csr_fromdense _csr_matmat _csr_matvec _csr_todense"
    ),
    "teucer._sparse.coo": "COOInfo",
    "teucer._sparse.util": "Shape",
}
__getattr__, _, _names = lazy.lazy_module(__name__, _SOURCES)
__all__ = [name for name in _names if not name.startswith("_")]  # the others are private in JAX too
__dir__ = lazy.listing(__name__, __all__)
