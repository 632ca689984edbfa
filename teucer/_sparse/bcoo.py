"""Batched COO arrays: the class, and the functions and primitives on them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from teucer._sparse.bcoo_arith import (
    _bcoo_multiply_dense,
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
)
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_conv import bcoo_conv_general_dilated
from teucer._sparse.bcoo_dense import (
    _bcoo_extract,
    _bcoo_fromdense,
    _bcoo_todense,
    bcoo_extract,
    bcoo_extract_p,
    bcoo_fromdense,
    bcoo_fromdense_p,
    bcoo_todense,
    bcoo_todense_p,
)
from teucer._sparse.bcoo_dot import (
    _bcoo_dot_general,
    _bcoo_rdot_general,
    bcoo_dot_general_p,
    bcoo_dot_general_sampled,
    bcoo_dot_general_sampled_p,
)
from teucer._sparse.bcoo_layout import bcoo_update_layout
from teucer._sparse.bcoo_order import (
    _bcoo_sum_duplicates,
    bcoo_eliminate_zeros,
    bcoo_sort_indices,
    bcoo_sort_indices_p,
    bcoo_sum_duplicates,
    bcoo_sum_duplicates_p,
    bcoo_transpose,
    bcoo_transpose_p,
)
from teucer._sparse.bcoo_shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_reshape,
    bcoo_rev,
    bcoo_squeeze,
)
from teucer._sparse.bcoo_slices import bcoo_dynamic_slice, bcoo_gather, bcoo_slice
from teucer._sparse.bcoo_spdot import bcoo_spdot_general_p
from teucer._sparse.layout import BCOOProperties


class Buffer(Protocol):
    """The type of a buffer of a sparse array: an array, or a stand-in for one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""

    @property
    def dtype(self) -> Any:
        """Type of the elements."""


# The dtypes for which cuSPARSE has products.
CUSPARSE_DATA_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
CUSPARSE_INDEX_DTYPES = [np.int32]
