"""Convolutions."""

import numpy as np
import pytest
from optable.entries_contractions import correlated
from optable.trees import normal

import teucer as jax
from teucer._base import config
from teucer.lax._convolution.forms import (
    conv_general_dilated_local,
    conv_general_dilated_patches,
    conv_transpose,
)
from teucer.lax._convolution.primitive import conv, conv_general_dilated, conv_with_general_padding
from teucer.lax._convolution.shapes import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_permutations,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose_shape_tuple,
)

rng = np.random.default_rng(0)
NHWC = ("NHWC", "HWIO", "NHWC")


@pytest.fixture(autouse=True)
def x64():
    with config.enable_x64(True):
        yield


def test_conv_and_conv_with_general_padding():
    x, w = normal(rng, 1, 2, 6), normal(rng, 3, 2, 3)
    np.testing.assert_allclose(
        conv(x, w, (1,), "SAME"), correlated(x, w, window_strides=(1,), padding="SAME")
    )
    out = conv_with_general_padding(x, w, (2,), [(1, 1)], (2,), (3,))
    expected = correlated(
        x, w, window_strides=(2,), padding=[(1, 1)], lhs_dilation=(2,), rhs_dilation=(3,)
    )
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "lhs", "rhs", "native", "loops"),
    [
        ({}, (2, 3, 5, 4), (4, 3, 3, 2), 1, 0),
        ({"feature_group_count": 3}, (2, 3, 5, 4), (3, 1, 3, 2), 0, 0),  # terms
        ({"feature_group_count": 16}, (1, 640, 5, 4), (16, 40, 3, 2), 1, 1),  # group by group
        (
            {"batch_group_count": 2, "padding": "VALID"},
            (4, 3, 5, 4),
            (6, 3, 4, 4),
            0,
            1,
        ),  # a product of matrices each place
        ({"batch_group_count": 2}, (4, 3, 5, 4), (6, 3, 3, 2), 1, 0),
        (
            {"window_strides": (1, 1, 1)},
            (2, 3, 5, 4, 4),
            (4, 3, 2, 3, 3),
            2,
            0,
        ),  # plane by plane of the kernel
        (
            {"window_strides": (1, 1, 1), "padding": "VALID"},
            (2, 3, 5, 4, 4),
            (4, 3, 5, 3, 3),
            1,
            0,
        ),  # of the result
    ],
)
def test_convolutions_are_written_as_what_is_fast(options, lhs, rhs, native, loops):
    f = jax.jit(
        lambda x, w: conv_general_dilated(
            x, w, **{"window_strides": (1, 1), "padding": "SAME"} | options
        )
    )
    text = f.lower(np.ones(lhs), np.ones(rhs)).as_text()
    assert (text.count("stablehlo.convolution"), text.count("stablehlo.while")) == (native, loops)


@pytest.mark.parametrize(
    ("dtype", "padded"),
    [("float32", True), ("bfloat16", True), ("complex64", True), ("int32", False)],
)
def test_the_image_is_padded_where_xla_would_make_it_the_kernel(dtype, padded):
    f = jax.jit(lambda x, w: conv(x, w, (1, 1), "SAME"))
    text = f.lower(np.ones((2, 3, 2, 2), dtype), np.ones((4, 3, 3, 3), dtype)).as_text()
    assert ("stablehlo.optimization_barrier" in text) == padded
    spread = jax.jit(lambda x, w: conv_general_dilated(x, w, (1, 1), [(2, 2), (2, 2)]))
    for text in (
        f.lower(np.ones((2, 3, 3, 3), dtype), np.ones((4, 3, 3, 3), dtype)).as_text(),
        spread.lower(np.ones((2, 3, 1, 1), dtype), np.ones((4, 3, 3, 3), dtype)).as_text(),
    ):
        assert "stablehlo.optimization_barrier" not in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_added_in_float32(dtype):
    """Terms of 2048 and ones, of which none would count in a sum of float16."""
    x, w = np.ones((1, 1, 101), dtype), np.ones((1, 1, 101), dtype)
    x[..., 0] = 2048
    images = conv_general_dilated(
        np.concatenate([x, x], 1), np.concatenate([w, w], 0), (1,), "VALID", feature_group_count=2
    )
    kernels = conv_general_dilated(
        np.concatenate([x, x], 0), np.concatenate([w, w], 0), (1,), "VALID", batch_group_count=2
    )
    assert (
        np.unique(np.asarray(images, np.float32)).tolist()
        == np.unique(np.asarray(kernels, np.float32)).tolist()
    )
    np.testing.assert_allclose(np.asarray(images, np.float32), 2148, rtol=4e-3)


def test_conv_preferred_element_type():
    x, w = np.full((1, 1, 4), 100, np.int8), np.full((1, 1, 2), 100, np.int8)
    assert np.asarray(conv(x, w, (1,), "VALID", preferred_element_type=np.int32)).tolist() == [
        [[20000] * 3]
    ]
    with pytest.raises(TypeError, match="must not be narrower than the original type"):
        conv(
            np.ones((1, 1, 4)), np.ones((1, 1, 2)), (1,), "VALID", preferred_element_type=np.float32
        )
    with pytest.raises(TypeError, match="Input type is incompatible with `preferred_element_type`"):
        conv(np.ones((1, 1, 4)), np.ones((1, 1, 2)), (1,), "VALID", preferred_element_type=np.int32)


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ((0, 3, 4), (2, 3, 2)),
        ((1, 3, 0), (2, 3, 2)),
        ((1, 0, 4), (2, 0, 2)),
        ((1, 3, 1), (2, 3, 2)),
    ],
)
def test_conv_of_nothing(lhs, rhs):
    out = conv(np.ones(lhs), np.ones(rhs), (1,), "VALID")
    assert out.shape == (lhs[0], 2, max(lhs[2] - 1, 0))
    np.testing.assert_array_equal(out, 0)


X, W = np.ones((2, 3, 8, 8)), np.ones((4, 3, 3, 3))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"rhs": np.ones((4, 3, 3))},
            TypeError,
            "requires lhs and rhs ndim to be equal, got 4 and 3",
        ),
        (
            {
                "rhs": np.ones((4, 3, 3)),
                "dimension_numbers": ConvDimensionNumbers(*[(0, 1, 2, 3)] * 3),
            },
            ValueError,
            (
                r"lhs and rhs must have the same number of dimensions, but got \(2, 3, 8, 8\) and "
                r"\(4, 3, 3\)"
            ),
        ),
        (
            {"window_strides": (1,)},
            ValueError,
            "window and window_strides must have the same number of dimensions, but got 2 and 1",
        ),
        (
            {"padding": [(1, 1)]},
            TypeError,
            "Wrong number of explicit pads for convolution: expected 2, got 1",
        ),
        (
            {"padding": 1},
            ValueError,
            "should be a string or a sequence of \\(low, high\\) pairs, got 1",
        ),
        (
            {"padding": "FOO"},
            RuntimeError,
            "Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got FOO",
        ),
        (
            {"lhs_dilation": (2, 2)},
            ValueError,
            "String padding is not implemented for transposed convolution",
        ),
        ({"padding": [(-5, -5), (0, 0)]}, ValueError, "Negative padding is larger than the size"),
    ],
)
def test_conv_C1(options, error, message):
    arguments = {"lhs": X, "rhs": W, "window_strides": (1, 1), "padding": "SAME"} | options
    with pytest.raises(error, match=message):
        conv_general_dilated(**arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lhs_dilation": (0, 1)}, TypeError, "All dilations must be positive, got \\(0, 1\\)"),
        ({"rhs_dilation": (1, -1)}, TypeError, "All dilations must be positive"),
        ({"window_strides": (0, 1)}, ValueError, "window_strides must be positive"),
    ],
)
def test_conv_C2(options, error, message):
    arguments = {"window_strides": (1, 1), "padding": [(0, 0), (0, 0)]} | options
    with pytest.raises(error, match=message):
        conv_general_dilated(X, W, **arguments)


@pytest.mark.parametrize(
    ("lhs", "rhs", "groups", "message"),
    [
        ((2, 3), (4, 5), {}, "but 3 // 1 != 5"),
        (
            (2, 9),
            (4, 3),
            {"feature_group_count": 3},
            "multiple of feature_group_count, but 4 is not a multiple of 3",
        ),
        ((2, 3), (4, 3), {"feature_group_count": 0}, "must be a positive integer, got 0"),
        ((2, 3), (4, 3), {"feature_group_count": 2}, "2 does not divide 3"),
        ((2, 3), (4, 3), {"batch_group_count": 3}, "3 does not divide 2"),
        (
            (3, 3),
            (4, 3),
            {"batch_group_count": 3},
            "multiple of batch_group_count, but 4 is not a multiple of 3",
        ),
        (
            (4, 6),
            (4, 3),
            {"batch_group_count": 2, "feature_group_count": 2},
            "At most one of batch_group_count and feature_",
        ),
    ],
)
def test_conv_C3(lhs, rhs, groups, message):
    with pytest.raises(ValueError, match=message):
        conv_general_dilated(np.ones(lhs), np.ones(rhs), (), [], **groups)


def test_conv_C4():
    with pytest.raises(
        TypeError, match="requires arguments to have the same dtypes, got float64, float32"
    ):
        conv_general_dilated(X, W.astype(np.float32), (1, 1), "SAME")


# Dimension numbers and shapes


def test_dimension_numbers():
    expected = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 2, 1))
    assert conv_dimension_numbers((2, 8, 8, 3), (3, 3, 3, 4), ("NXYC", "XYIO", "NYXC")) == expected
    assert conv_dimension_numbers((2, 8, 8, 3), (3, 3, 3, 4), expected) is expected
    assert conv_dimension_numbers((2, 8, 3), (3, 3, 4), None) == ((0, 1, 2),) * 3
    assert conv_general_permutations(NHWC) == ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ("NHWC", "must be tuple/list or None"),
        (("NHWC", "HWIO"), "must be length 3, got 2"),
        ((None, None, None), "elements must be strings"),
        (("NHW", "HWIO", "NHWC"), "must have len equal to the ndim"),
        (
            ("NHWX", "HWIO", "NHWC"),
            "must contain the characters 'N' and 'C' exactly once, got NHWX",
        ),
        (
            ("NHWC", "HWOX", "NHWC"),
            "must contain the characters 'O' and 'I' exactly once, got HWOX",
        ),
        (("NHHC", "HWIO", "NHWC"), "cannot have duplicate characters, got NHHC"),
        (("NHWC", "XYIO", "NHWC"), "same set of spatial characters"),
    ],
)
def test_wrong_dimension_numbers(numbers, message):
    with pytest.raises(TypeError, match=message):
        conv_dimension_numbers((2, 8, 8, 3), (3, 3, 3, 4), numbers)


def test_shape_tuples():
    assert conv_shape_tuple((2, 3, 8, 8), (4, 3, 3, 3), (1, 2), [(1, 1), (0, 0)]) == (2, 4, 8, 3)
    assert conv_shape_tuple((4, 3, 8, 8), (4, 3, 3, 3), (1, 2), "SAME", 2) == (2, 4, 8, 4)
    assert conv_general_shape_tuple((2, 8, 8, 3), (3, 3, 3, 4), (1, 2), "SAME", NHWC) == (
        2,
        8,
        4,
        4,
    )
    assert conv_transpose_shape_tuple((2, 8, 8, 3), (3, 3, 3, 4), (1, 2), "SAME", NHWC) == (
        2,
        8,
        16,
        4,
    )
    assert conv_transpose_shape_tuple((2, 8, 8, 3), (3, 3, 3, 4), (1, 2), "VALID", NHWC) == (
        2,
        10,
        17,
        4,
    )
    with pytest.raises(TypeError, match="expected 2, got 1"):
        conv_shape_tuple((4, 3, 8, 8), (4, 3, 3, 3), (1, 1), ((0, 0),))


# Functions made of convolutions


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 3), (4, 1)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv_transpose_with_transposed_kernel_is_the_gradient(strides, padding):
    # <conv(x, w), y> = <x, conv_transpose(y, w)> where conv takes the shape that conv_transpose
    # gives.
    y, w = normal(rng, 1, 4, 5, 2), normal(rng, 3, 2, 3, 2)
    x_ct = conv_transpose(y, w, strides, padding, transpose_kernel=True)
    assert x_ct.shape == conv_transpose_shape_tuple(y.shape, (3, 2, 2, 3), strides, padding, NHWC)
    x = normal(rng, *x_ct.shape)
    out = np.asarray(conv_general_dilated(x, w, strides, padding, dimension_numbers=NHWC))
    if out.shape == y.shape:
        np.testing.assert_allclose(np.sum(out * y), np.sum(x * np.asarray(x_ct)), rtol=1e-9)
    else:
        assert padding == "VALID"
        assert any(s > k for s, k in zip(strides, (3, 2), strict=True))


def test_conv_transpose_padding():
    y, w = normal(rng, 1, 4, 1), normal(rng, 3, 1, 1)
    pads = [(1, 2)]
    direct = conv_general_dilated(y, w, (1,), pads, (2,), None, ("NHC", "HIO", "NHC"))
    np.testing.assert_array_equal(conv_transpose(y, w, (2,), pads), direct)
    consistent = conv_general_dilated(
        y, w, (1,), [(2 - 1, 2 - 2)], (2,), None, ("NHC", "HIO", "NHC")
    )
    np.testing.assert_array_equal(
        conv_transpose(y, w, (2,), pads, use_consistent_padding=True), consistent
    )
    assert conv_transpose(y, w, (2,), "SAME", rhs_dilation=(2,)).shape == (1, 8, 1)
    with pytest.raises(ValueError, match="Padding mode must be `SAME` or `VALID`"):
        conv_transpose(y, w, (2,), "FULL")
    with pytest.raises(ValueError, match="no dimension numbers are the default for 4 spatial axes"):
        conv_transpose(np.ones((1,) * 6), np.ones((1,) * 6), (1,) * 4, "SAME")


@pytest.mark.parametrize("numbers", [None, ("NHWC", "HWIO", "NWCH"), ("HNCW", "OHWI", "CNHW")])
def test_patches_and_local_convolution(numbers):
    x = normal(rng, 2, 3, 5, 4)
    kernel = normal(rng, 4, 3, 3, 2)
    specs = conv_dimension_numbers(x.shape, kernel.shape, numbers)
    inverse = [tuple(np.argsort(spec)) for spec in specs]
    x, w = x.transpose(inverse[0]), kernel.transpose(inverse[1])
    expected = conv_general_dilated(x, w, (1, 2), "SAME", dimension_numbers=numbers)
    patches = np.asarray(
        conv_general_dilated_patches(x, (3, 2), (1, 2), "SAME", dimension_numbers=numbers)
    )
    out = np.einsum("nfhw,of->nohw", patches.transpose(specs.out_spec), kernel.reshape(4, -1))
    np.testing.assert_allclose(out.transpose(inverse[2]), expected, rtol=1e-9, atol=1e-9)
    spatial = np.asarray(expected).transpose(specs.out_spec).shape[2:]
    local = np.broadcast_to(kernel.reshape(4, -1, 1, 1), (4, 18, *spatial))
    # One kernel everywhere is an ordinary convolution; its axes are named as those of the result's
    # kernel.
    got = conv_general_dilated_local(
        x, local.transpose(inverse[1]), (1, 2), "SAME", (3, 2), dimension_numbers=numbers
    )
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
