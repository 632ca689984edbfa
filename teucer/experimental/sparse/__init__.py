"""Sparse arrays: functions, derivatives in the stored elements, and linear algebra.

A BCOO array stores for each of its elements the index of its place, a BCSR array the rows one after
another. Batch dimensions come first. All elements of a batch store the same number of elements;
stored elements may be dense blocks.
"""

from teucer._base import lazy

_SOURCES = {
    "teucer._sparse.base": "JAXSparse",
    "teucer.experimental.sparse.ad": "ad=. grad jacfwd jacobian jacrev value_and_grad",
    "teucer.experimental.sparse.api": "api=. empty eye todense todense_p",
    "teucer.experimental.sparse.bcoo": (
        "bcoo=. BCOO bcoo_broadcast_in_dim bcoo_concatenate bcoo_conv_general_dilated "
        "bcoo_dot_general bcoo_dot_general_p bcoo_dot_general_sampled bcoo_dot_general_sampled_p "
        "bcoo_dynamic_slice bcoo_extract bcoo_extract_p bcoo_fromdense bcoo_fromdense_p "
        "bcoo_gather bcoo_multiply_dense bcoo_multiply_sparse bcoo_reduce_sum bcoo_reshape "
        "bcoo_rev bcoo_slice bcoo_sort_indices bcoo_sort_indices_p bcoo_spdot_general_p "
        "bcoo_squeeze bcoo_sum_duplicates bcoo_sum_duplicates_p bcoo_todense bcoo_todense_p "
        "bcoo_transpose bcoo_transpose_p bcoo_update_layout"
    ),
    "teucer.experimental.sparse.bcsr": (
        "bcsr=. BCSR bcsr_broadcast_in_dim bcsr_concatenate bcsr_dot_general bcsr_dot_general_p "
        "bcsr_extract bcsr_extract_p bcsr_fromdense bcsr_fromdense_p bcsr_sum_duplicates "
        "bcsr_todense bcsr_todense_p"
    ),
    "teucer.experimental.sparse.coo": (
        "coo=. COO coo_fromdense coo_fromdense_p coo_matmat coo_matmat_p coo_matvec coo_matvec_p "
        "coo_todense coo_todense_p"
    ),
    "teucer.experimental.sparse.csr": (
        "csr=. CSC CSR csr_fromdense csr_fromdense_p csr_matmat csr_matmat_p csr_matvec "
        "csr_matvec_p csr_todense csr_todense_p"
    ),
    "teucer.experimental.sparse.linalg": "linalg=.",
    "teucer.experimental.sparse.random": "random=. random_bcoo",
    "teucer.experimental.sparse.transform": "transform=. SparseTracer sparsify",
    "teucer.experimental.sparse.util": (
        "util=. CuSparseEfficiencyWarning SparseEfficiencyError SparseEfficiencyWarning"
    ),
}
__getattr__, __dir__, __all__ = lazy.lazy_module(__name__, _SOURCES)
