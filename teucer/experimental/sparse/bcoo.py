"""Batched COO arrays: the class, and the functions and primitives on them."""

from teucer._base import lazy

_SOURCES = {
    "teucer._sparse.bcoo": "CUSPARSE_DATA_DTYPES CUSPARSE_INDEX_DTYPES Buffer",
    "teucer._sparse.bcoo_arith": (
        "bcoo_dot_general bcoo_multiply_dense bcoo_multiply_sparse bcoo_reduce_sum "
        "_bcoo_multiply_dense"
    ),
    "teucer._sparse.bcoo_array": "BCOO",
    "teucer._sparse.bcoo_conv": "bcoo_conv_general_dilated",
    "teucer._sparse.bcoo_dense": (
        "bcoo_extract bcoo_extract_p bcoo_fromdense bcoo_fromdense_p bcoo_todense bcoo_todense_p "
        "_bcoo_extract _bcoo_fromdense _bcoo_todense"
    ),
    "teucer._sparse.bcoo_dot": (
        "bcoo_dot_general_p bcoo_dot_general_sampled bcoo_dot_general_sampled_p _bcoo_dot_general "
        "_bcoo_rdot_general"
    ),
    "teucer._sparse.bcoo_layout": "bcoo_update_layout",
    "teucer._sparse.bcoo_order": (
        "bcoo_eliminate_zeros bcoo_sort_indices bcoo_sort_indices_p bcoo_sum_duplicates "
        "bcoo_sum_duplicates_p bcoo_transpose bcoo_transpose_p _bcoo_sum_duplicates"
    ),
    "teucer._sparse.bcoo_shapes": (
        "bcoo_broadcast_in_dim bcoo_concatenate bcoo_reshape bcoo_rev bcoo_squeeze"
    ),
    "teucer._sparse.bcoo_slices": "bcoo_dynamic_slice bcoo_gather bcoo_slice",
    "teucer._sparse.bcoo_spdot": "bcoo_spdot_general_p",
    "teucer._sparse.layout": "BCOOProperties",
    "teucer._sparse.util": "SparseInfo nfold_vmap",
}
__getattr__, _, _names = lazy.lazy_module(__name__, _SOURCES)
__all__ = [name for name in _names if not name.startswith("_")]  # the others are private in JAX too
__dir__ = lazy.listing(__name__, __all__)
