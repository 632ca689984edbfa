"""Batched COO arrays: the class, and the functions and primitives on them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from teucer._base.lazy import listing
from teucer.experimental.sparse._bcoo_arith import (
    _bcoo_multiply_dense,
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
)
from teucer.experimental.sparse._bcoo_array import BCOO
from teucer.experimental.sparse._bcoo_conv import bcoo_conv_general_dilated
from teucer.experimental.sparse._bcoo_dense import (
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
from teucer.experimental.sparse._bcoo_dot import (
    _bcoo_dot_general,
    _bcoo_rdot_general,
    bcoo_dot_general_p,
    bcoo_dot_general_sampled,
    bcoo_dot_general_sampled_p,
)
from teucer.experimental.sparse._bcoo_layout import bcoo_update_layout
from teucer.experimental.sparse._bcoo_order import (
    _bcoo_sum_duplicates,
    bcoo_eliminate_zeros,
    bcoo_sort_indices,
    bcoo_sort_indices_p,
    bcoo_sum_duplicates,
    bcoo_sum_duplicates_p,
    bcoo_transpose,
    bcoo_transpose_p,
)
from teucer.experimental.sparse._bcoo_shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_reshape,
    bcoo_rev,
    bcoo_squeeze,
)
from teucer.experimental.sparse._bcoo_slices import bcoo_dynamic_slice, bcoo_gather, bcoo_slice
from teucer.experimental.sparse._bcoo_spdot import bcoo_spdot_general_p
from teucer.experimental.sparse._layout import BCOOProperties


class Buffer(Protocol):
    """What a buffer of a sparse array is: an array, or what stands for one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""

    @property
    def dtype(self) -> Any:
        """Type of the elements."""


# What the library cuSPARSE has products of.
CUSPARSE_DATA_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
CUSPARSE_INDEX_DTYPES = [np.int32]

__all__ = [
    "CUSPARSE_DATA_DTYPES",
    "CUSPARSE_INDEX_DTYPES",
    "Buffer",
    "BCOO",
    "BCOOProperties",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_conv_general_dilated",
    "bcoo_dot_general",
    "bcoo_dot_general_p",
    "bcoo_dot_general_sampled",
    "bcoo_dot_general_sampled_p",
    "bcoo_dynamic_slice",
    "bcoo_eliminate_zeros",
    "bcoo_extract",
    "bcoo_extract_p",
    "bcoo_fromdense",
    "bcoo_fromdense_p",
    "bcoo_gather",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_sort_indices_p",
    "bcoo_spdot_general_p",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_sum_duplicates_p",
    "bcoo_todense",
    "bcoo_todense_p",
    "bcoo_transpose",
    "bcoo_transpose_p",
    "bcoo_update_layout",
]
__dir__ = listing(__name__, __all__)
