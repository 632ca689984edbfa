"""Sample inputs of convolutions."""

from __future__ import annotations

from lax.samples_dot import made
from lax.sampling import Sample

__all__ = ["SAMPLES"]

DTYPES = ("float32", "complex64")
NHWC = ("NHWC", "HWIO", "NHWC")

SAMPLES = [
    Sample("conv_same", "lax.conv_general_dilated", made((2, 3, 5, 4), (4, 3, 3, 2), window_strides=(1, 1), padding="SAME"),
           (*DTYPES, "int32"), None, True),
    Sample("conv_strided_dilated", "lax.conv_general_dilated",
           made((2, 3, 5, 4), (2, 3, 3, 2), window_strides=(3, 2), padding=[(-2, 3), (1, -1)], lhs_dilation=(2, 1),
                 rhs_dilation=(1, 2)), DTYPES, None, True),
    Sample("conv_feature_groups", "lax.conv_general_dilated",
           made((2, 5, 4, 6), (3, 2, 3, 4), window_strides=(2, 1), padding="VALID", feature_group_count=2,
                 dimension_numbers=NHWC), DTYPES, None, True),
    Sample("conv_batch_groups", "lax.conv_general_dilated",
           made((4, 3, 5), (6, 3, 3), window_strides=(2,), padding="SAME_LOWER", batch_group_count=2), DTYPES, None, True),
    Sample("conv_without_space", "lax.conv_general_dilated", made((2, 3), (4, 3), window_strides=(), padding=[]), DTYPES,
           lambda x, w, window_strides, padding: x @ w.T, True),
    Sample("conv", "lax.conv", made((1, 2, 6), (3, 2, 3), window_strides=(1,), padding="SAME"), DTYPES, None, True),
    Sample("conv_transpose", "lax.conv_transpose", made((1, 4, 5, 2), (3, 2, 2, 3), strides=(2, 3), padding="SAME"), DTYPES,
           None, True),
    Sample("conv_patches", "lax.conv_general_dilated_patches",
           made((2, 3, 5, 4), filter_shape=(3, 2), window_strides=(1, 2), padding="SAME"), DTYPES, None, True),
    Sample("conv_local", "lax.conv_general_dilated_local",
           made((2, 3, 5), (4, 6, 4), window_strides=(1,), padding="VALID", filter_shape=(2,)), DTYPES, None, True),
]
