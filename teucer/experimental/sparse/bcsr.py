"""Batched CSR arrays: the class, and the functions and primitives on them."""

from teucer._base import lazy

_SOURCES = {
    "teucer._sparse.bcsr": (
        "bcsr_broadcast_in_dim bcsr_concatenate bcsr_dot_general bcsr_dot_general_p "
        "bcsr_eliminate_zeros bcsr_extract bcsr_extract_p bcsr_fromdense bcsr_fromdense_p "
        "bcsr_sum_duplicates bcsr_todense bcsr_todense_p _bcsr_dot_general _bcsr_fromdense "
        "_bcsr_todense"
    ),
    "teucer._sparse.bcsr_array": "BCSR",
    "teucer._sparse.layout": "BCSRProperties",
    "teucer._sparse.util": "SparseInfo nfold_vmap",
}
__getattr__, _, _names = lazy.lazy_module(__name__, _SOURCES)
__all__ = [name for name in _names if not name.startswith("_")]  # the others are private in JAX too
__dir__ = lazy.listing(__name__, __all__)
