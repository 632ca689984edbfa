"""Helpers of the sparse formats: efficiency errors, maps over batch dimensions, counts, row
pointers.
"""

from teucer._base import lazy

_SOURCES = {
    "teucer._sparse.util": (
        "CuSparseEfficiencyWarning Shape SparseEfficiencyError SparseEfficiencyWarning SparseInfo "
        "broadcasting_vmap known nfold_vmap _coo_to_csr _count_stored_elements "
        "_count_stored_elements_per_batch _csr_to_coo"
    )
}
__getattr__, _, _names = lazy.lazy_module(__name__, _SOURCES)
__all__ = [name for name in _names if not name.startswith("_")]  # the others are private in JAX too
__dir__ = lazy.listing(__name__, __all__)
