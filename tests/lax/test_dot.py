"""dot_general and the functions made of it."""

import ml_dtypes
import numpy as np
import pytest
from optable.laws import assert_derivatives, assert_vmap_is_loop
from optable.trees import normal

import teucer as jax
from teucer._base import config
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._derived.forward import jvp
from teucer._derived.vjp import vjp
from teucer.lax._dot import batch_matmul, dot, dot_general, dot_general_p
from teucer.lax._precision import DotAlgorithm, DotAlgorithmPreset, Precision, canonical_precision
from teucer.lax._ragged import RaggedDotDimensionNumbers, ragged_dot, ragged_dot_general, scaled_dot

rng = np.random.default_rng(0)
MATMUL = (((1,), (0,)), ((), ()))
MATMUL_OF_MANY = (((2,), (1,)), ((0,), (0,)))


@pytest.fixture(autouse=True)
def x64():
    with config.enable_x64(True):
        yield


MANY_SMALL = [
    (MATMUL_OF_MANY, (40, 4, 4), (40, 4, 4), "bij,bjk->bik"),
    (MATMUL_OF_MANY, (32, 4, 4), (32, 4, 4), "bij,bjk->bik"),
    ((((3,), (2,)), ((0, 1), (0, 1))), (5, 8, 4, 6), (5, 8, 6, 3), "abij,abjk->abik"),
    ((((0,), (1,)), ((1,), (2,))), (4, 40, 5), (6, 4, 40), "jbi,kjb->bik"),
    ((((1,), (2,)), ((0,), (0,))), (33, 7, 7), (33, 7, 7), "bji,bkj->bik"),
]


@pytest.mark.parametrize(("numbers", "lhs", "rhs", "formula"), MANY_SMALL)
def test_many_small_matrices_are_multiplied_in_one_loop(numbers, lhs, rhs, formula):
    x, y = (normal(rng, *s).astype(np.float32) for s in (lhs, rhs))
    product = jax.jit(lambda x, y: dot_general(x, y, numbers))
    np.testing.assert_allclose(product(x, y), np.einsum(formula, x, y), rtol=2e-5, atol=2e-5)
    assert "stablehlo.dot_general" not in product.lower(x, y).as_text()
    assert (
        "stablehlo.dot_general"
        in product.lower(x.astype(np.float64), y.astype(np.float64)).as_text()
    )


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ((31, 4, 4), (31, 4, 4)),
        ((40, 3, 4), (40, 4, 4)),
        ((40, 4, 8), (40, 8, 4)),
        ((4, 4), (4, 4)),
    ],
)
def test_few_or_other_matrices_are_left_to_the_compiler(lhs, rhs):
    x, y = (np.zeros(s, np.float32) for s in (lhs, rhs))
    numbers = MATMUL if len(lhs) == 2 else MATMUL_OF_MANY
    assert (
        "stablehlo.dot_general"
        in jax.jit(lambda x, y: dot_general(x, y, numbers)).lower(x, y).as_text()
    )


BY_COLUMNS = [
    ((((1,), (1,)), ((0,), (0,))), (9, 16, 12), (9, 16, 10), "bki,bkj->bij"),
    ((((1,), (2,)), ((0,), (0,))), (9, 16, 12), (9, 10, 16), "bki,bjk->bij"),
    ((((2,), (2,)), ((0, 1), (0, 1))), (3, 2, 300, 300), (3, 2, 300, 300), "abki,abkj->abij"),
    ((((0,), (0,)), ((), ())), (3, 400), (3, 500), "ki,kj->ij"),
    ((((0,), (1,)), ((), ())), (100, 640), (10, 100), "ki,jk->ij"),
    ((((0, 1), (0, 1)), ((), ())), (2, 3, 40, 50), (2, 3, 70), "klia,klj->iaj"),
    ((((1,), (1,)), ((0,), (0,))), (1, 300, 10), (1, 300, 64), "bki,bkj->bij"),
]
ANY_WAY = [
    ((((0,), (0,)), ((), ())), (3, 40), (3, 50), "ki,kj->ij"),
    ((((0,), (1,)), ((), ())), (100, 64), (10, 100), "ki,jk->ij"),
    ((((1,), (1,)), ((0,), (0,))), (9, 64, 64), (9, 64, 64), "bki,bkj->bij"),
    ((((2,), (1,)), ((0,), (0,))), (9, 12, 16), (9, 16, 10), "bik,bkj->bij"),
    ((((0,), (0,)), ((), ())), (64, 40), (64, 50), "ki,kj->ij"),
    ((((0,), (0,)), ((), ())), (2000, 8), (2000, 20), "ki,kj->ij"),
    ((((0,), (0,)), ((), ())), (5, 1), (5, 50), "ki,kj->ij"),
    ((((1,), (1,)), ((0,), (0,))), (0, 16, 12), (0, 16, 10), "bki,bkj->bij"),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize(
    ("numbers", "lhs", "rhs", "formula", "turned"),
    [(*case, case in BY_COLUMNS) for case in BY_COLUMNS + ANY_WAY],
)
def test_left_operands_that_lie_by_columns_are_turned_where_that_pays(
    numbers, lhs, rhs, formula, turned, dtype
):
    x, y = (rng.integers(-4, 5, s).astype(dtype) for s in (lhs, rhs))
    product = jax.jit(
        lambda x, y: dot_general(x, y, numbers, preferred_element_type=np.dtype(dtype))
    )
    wide = np.result_type(x.dtype.type(0), np.float64) if dtype != "bfloat16" else np.float64
    want = np.einsum(formula, x.astype(wide), y.astype(wide), optimize=True)
    np.testing.assert_array_equal(
        product(x, y), want.astype(dtype)
    )  # sums of small integers are exact
    text = product.lower(x, y).as_text()
    assert ("optimization_barrier" in text) == (turned and dtype != "complex64")
    assert (
        "optimization_barrier"
        not in product.trace(x, y).lower(lowering_platforms=("cuda",)).as_text()
    )


@pytest.mark.parametrize(
    ("numbers", "lhs", "rhs"),
    [
        ((([1], [0]), ([], [])), (5, 3), (3,)),
        ((([2], [1]), ([0], [0])), (2, 5, 3), (2, 3)),
        ((([0], [0]), ([], [])), (3,), (3,)),
    ],
)
def test_a_matrix_times_rows_gives_rows(numbers, lhs, rhs):
    w, xs = normal(rng, *lhs), normal(rng, 4, *rhs)
    precision = Precision.HIGH, Precision.HIGHEST
    product = lambda w, x: dot_general(w, x, numbers, precision)
    rows = jax.vmap(jax.vmap(product, (None, 0)), (None, 1), 1)
    jaxpr = jax.make_jaxpr(jax.vmap(product, (None, 0), len(numbers[1][0])))(w, xs)
    assert [eqn.primitive for eqn in jaxpr.eqns] == [dot_general_p]  # and no transpose
    assert jaxpr.eqns[0].params["precision"] == precision[::-1]
    stack = np.stack([xs, 2 * xs], 1)
    want = np.stack([[product(w, x) for x in pair] for pair in stack])
    np.testing.assert_allclose(rows(w, stack), want, rtol=1e-5)
    assert_vmap_is_loop(product, w, normal(rng, *rhs))
    # Columns stay columns, whose products need no operand to be transposed.
    columns = jax.make_jaxpr(jax.vmap(product, (None, len(rhs)), len(lhs) - 1))
    assert [eqn.primitive for eqn in columns(w, np.moveaxis(xs, 0, -1)).eqns] == [dot_general_p]


@pytest.mark.parametrize(
    ("lhs", "rhs", "out"),
    [
        ("int8", "uint8", "int8"),
        ("int8", "uint32", "uint32"),
        ("int32", "float16", "float16"),
        ("bool", "int8", "int8"),
        ("float16", "bfloat16", "bfloat16"),
        ("float32", "complex64", "complex64"),
        ("bool", "bool", "bool"),
        ("float8_e4m3fn", "float8_e5m2", "float8_e5m2"),
    ],
)
def test_dot_general_mixed_dtypes(lhs, rhs, out):
    for a, b in ((lhs, rhs), (rhs, lhs)):
        result = dot_general(np.ones((2, 3), a), np.ones((3, 2), b), MATMUL)
        assert result.dtype == out
        assert np.asarray(result).astype(complex)[0, 0] == (1 if out == "bool" else 3)


def test_dot_general_preferred_element_type():
    x = np.full((1, 4), 100, np.int8)
    assert np.asarray(dot_general(x, x.T, MATMUL, preferred_element_type=np.int32)) == 40000
    y = np.ones((2, 2), ml_dtypes.bfloat16)
    assert dot_general(y, y, MATMUL, preferred_element_type=np.float32).dtype == np.float32
    with pytest.raises(TypeError, match=r"must not be narrower.*int16 for result type of int32"):
        dot_general(
            np.ones((2, 2), np.int32),
            np.ones((2, 2), np.int32),
            MATMUL,
            preferred_element_type=np.int16,
        )


def test_cotangents_have_the_dtype_of_the_operands():
    x, w = np.ones((2, 3), ml_dtypes.bfloat16), np.ones((3, 2), np.float32)
    out, pullback = vjp(lambda x, w: dot_general(x, w, MATMUL), x, w)
    ct_x, ct_w = pullback(out)
    assert (ct_x.dtype, ct_w.dtype) == (x.dtype, w.dtype)


def test_integer_operands_have_no_tangent():
    x, w = np.ones((2, 3)), np.ones((3, 2), np.int32)
    _, t = jvp(lambda x: dot_general(x, w, MATMUL), (x,), (x,))
    np.testing.assert_array_equal(t, np.full((2, 2), 3.0))


def test_dot_general_weak_type():
    assert typeof(dot_general(3.0, 4.0, (((), ()), ((), ())))).weak_type
    assert not typeof(dot_general(3.0, np.float64(4.0), (((), ()), ((), ())))).weak_type


def test_dot_general_of_nothing_is_zero():
    np.testing.assert_array_equal(
        dot_general(np.ones((2, 0)), np.ones((0, 3)), MATMUL), np.zeros((2, 3))
    )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (
            (((5,), (0,)), ((), ())),
            "lhs dimension numbers to be nonnegative and less than the number of axes",
        ),
        ((((-1,), (0,)), ((), ())), "lhs dimension numbers to be nonnegative"),
        ((((1,), (7,)), ((), ())), "rhs dimension numbers to be nonnegative"),
        (
            (((1, 1), (0, 0)), ((), ())),
            "lhs contracting dimensions to be distinct, got lhs_contracting \\(1, 1\\)",
        ),
        ((((), ()), ((0, 0), (0, 0))), "lhs batch dimensions to be distinct"),
        (
            (((1,), (0,)), ((1,), (1,))),
            "lhs batch dimensions to be disjoint from contracting dimensions",
        ),
        ((((1,), (0,)), ((0,), ())), "equal numbers of lhs_batch and rhs_batch dimensions"),
    ],
)
def test_dot_general_C1(numbers, message):
    with pytest.raises(TypeError, match=message):
        dot_general(np.ones((2, 3)), np.ones((3, 4)), numbers)


def test_dot_general_C2():
    with pytest.raises(
        TypeError,
        match=(
            r"(?s)contracting dimensions to have the same shape, got \(3,\) and "
            r"\(4,\).*f64\[2,3\]"
        ),
    ):
        dot_general(np.ones((2, 3)), np.ones((4, 3)), MATMUL)
    with pytest.raises(
        TypeError, match=r"batch dimensions to have the same shape, got \(2,\) and \(4,\)"
    ):
        dot_general(np.ones((2, 3)), np.ones((4, 3)), (((1,), (1,)), ((0,), (0,))))


# Precision


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        (None, None),
        ("high", (Precision.HIGH,) * 2),
        ("tensorfloat32", (Precision.HIGH,) * 2),
        ("float32", (Precision.HIGHEST,) * 2),
        (("default", Precision.HIGHEST), (Precision.DEFAULT, Precision.HIGHEST)),
        ("BF16_BF16_F32", DotAlgorithmPreset.BF16_BF16_F32),
        (DotAlgorithmPreset.DEFAULT, DotAlgorithmPreset.DEFAULT),
    ],
)
def test_canonical_precision(given, canonical):
    assert canonical_precision(given) == canonical


@pytest.mark.parametrize("wrong", ["foo", 3, ("high",), (None, "high")])
def test_wrong_precision(wrong):
    with pytest.raises(ValueError, match="Precision argument must be one of"):
        canonical_precision(wrong)


def test_precision_option_is_read_by_the_function():
    x = np.ones((2, 2), np.float32)
    with config.default_matmul_precision("highest"):
        jaxpr, _ = stage_flat(lambda x: (dot(x, x),), [typeof(x)])
    assert jaxpr.eqns[0].params["precision"] == (Precision.HIGHEST,) * 2
    assert jaxpr.eqns[0].primitive is dot_general_p


@pytest.mark.parametrize("preset", list(DotAlgorithmPreset), ids=lambda p: p.name)
def test_presets_run_or_say_that_they_do_not(preset):
    x = normal(rng, 4, 8, dtype=np.float32)
    # What is supported, and how exact it is: half a unit in the last place of the operands, summed
    # over eight products.
    errors = {
        "DEFAULT": 1e-5,
        "F16_F16_F16": 2e-2,
        "BF16_BF16_F32": 6e-2,
        "BF16_BF16_F32_X3": 1e-3,
        "BF16_BF16_F32_X6": 1e-5,
        "F32_F32_F32": 1e-5,
        "F64_F64_F64": 2e-6,
    }
    if preset.name in errors:
        out = dot_general(x, x.T, MATMUL, precision=preset)
        assert out.dtype == np.float32
        np.testing.assert_allclose(
            out, x.astype(np.float64) @ x.T, rtol=0, atol=errors[preset.name]
        )
    else:
        with pytest.raises(
            ValueError,
            match=f"The precision '{preset.name}' is not supported by dot_general on CPU",
        ):
            dot_general(x, x.T, MATMUL, precision=preset)


def test_what_presets_support():
    assert DotAlgorithmPreset.BF16_BF16_F32.supported_lhs_types == (ml_dtypes.bfloat16, np.float32)
    assert DotAlgorithmPreset.ANY_F8_ANY_F8_F32.supported_rhs_types is None
    assert DotAlgorithmPreset.F32_F32_F32.accumulation_type is np.float32
    assert DotAlgorithmPreset.DEFAULT.accumulation_type is None
    bf16 = np.dtype(ml_dtypes.bfloat16)
    assert DotAlgorithmPreset.BF16_BF16_F32.supported_output_types(bf16, bf16) == (
        np.float32,
        ml_dtypes.bfloat16,
    )
    assert DotAlgorithmPreset.BF16_BF16_F32.supported_output_types(bf16, np.float32) == (
        np.float32,
    )
    assert DotAlgorithmPreset.ANY_F8_ANY_F8_ANY.supported_output_types(bf16, bf16) is None


def test_dot_algorithm():
    x = normal(rng, 4, 8, dtype=np.float32)
    algorithm = DotAlgorithm(np.float32, np.float32, np.float32)
    np.testing.assert_allclose(dot_general(x, x.T, MATMUL, precision=algorithm), x @ x.T, rtol=1e-5)


# dot, batch_matmul


def test_dot_and_batch_matmul():
    x, y, v = normal(rng, 2, 3), normal(rng, 3, 4), normal(rng, 3)
    for a, b in ((x, y), (x, v), (v, y), (v, v)):
        np.testing.assert_allclose(dot(a, b), a @ b, rtol=1e-12)
    a, b = normal(rng, 5, 2, 3), normal(rng, 5, 3, 4)
    np.testing.assert_allclose(batch_matmul(a, b), a @ b, rtol=1e-12)


def test_dot_errors():
    with pytest.raises(
        ValueError,
        match=r"dimension_numbers must be specified.*lhs_shape=\(2, 3\) rhs_shape=\(4, 3\)",
    ):
        dot(np.ones((2, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="must have same ndim, got 3, 2"):
        batch_matmul(np.ones((2, 2, 3)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="must be at least 2D, got 1, 1"):
        batch_matmul(np.ones(3), np.ones(3))


# ragged_dot, scaled_dot

SIZES = np.int32([2, 0, 3])
CONTRACTED = RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1], [])


def test_ragged_dot_with_contracted_groups():
    x, y = normal(rng, 4, 7), normal(rng, 7, 5)
    expected = np.stack([x[:, :2] @ y[:2], np.zeros((4, 5)), x[:, 2:5] @ y[2:5]])
    np.testing.assert_allclose(ragged_dot_general(x, y, SIZES, CONTRACTED), expected, rtol=1e-12)
    assert_derivatives(lambda x, y: ragged_dot_general(x, y, SIZES, CONTRACTED), x, y)


def test_ragged_dot_with_a_batch_of_sizes():
    numbers = RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (1,))), [1], [0])
    x, w, sizes = normal(rng, 2, 7, 4), normal(rng, 3, 2, 4, 5), np.int32([[2, 0, 3], [1, 1, 1]])
    each = [ragged_dot(x[i], w[:, i], sizes[i]) for i in range(2)]
    np.testing.assert_allclose(ragged_dot_general(x, w, sizes, numbers), np.stack(each), rtol=1e-12)


def test_ragged_dot_with_sizes_for_each_outer_row():
    """Sizes may differ along outer axes before the ragged one, beside batch axes."""
    numbers = RaggedDotDimensionNumbers((((3,), (2,)), ((0,), (1,))), [2], [0])
    x, w, sizes = (
        normal(rng, 2, 3, 7, 4),
        normal(rng, 3, 2, 4, 5),
        np.int32(rng.integers(0, 3, (2, 3, 3))),
    )
    each = [[ragged_dot(x[i, j], w[:, i], sizes[i, j]) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(ragged_dot_general(x, w, sizes, numbers), np.stack(each), rtol=1e-12)
    assert_derivatives(lambda x, w: ragged_dot_general(x, w, sizes, numbers), x, w)


def test_ragged_dot_with_sizes_for_each_contracted_row():
    numbers = RaggedDotDimensionNumbers((((1, 2), (0, 1)), ((), ())), [2], [])
    x, y, sizes = normal(rng, 2, 3, 7), normal(rng, 3, 7, 5), np.int32([[7, 0], [2, 4], [0, 3]])
    each = [ragged_dot_general(x[:, i], y[i], sizes[i], CONTRACTED) for i in range(3)]
    np.testing.assert_allclose(
        ragged_dot_general(x, y, sizes, numbers), np.sum(each, 0), rtol=1e-12
    )


def test_ragged_dot_with_a_ragged_batch():
    numbers = RaggedDotDimensionNumbers((((3,), (2,)), ((0, 1), (0, 1))), [1], [])
    x, y = normal(rng, 2, 4, 3, 5), normal(rng, 2, 4, 5, 2)
    np.testing.assert_allclose(
        ragged_dot_general(x, y, np.int32([[1, 3], [2, 2]]), numbers), x @ y, rtol=1e-12
    )
    with pytest.raises(
        TypeError, match=r"expected group_sizes to have shape \(2, 3\), got \(4, 3\)"
    ):
        ragged_dot_general(x, y, np.ones((4, 3), np.int32), numbers)


@pytest.mark.parametrize(
    ("sizes", "numbers", "message"),
    [
        (np.float32([7, 0, 0]), None, "group_sizes.dtype is subtype of np.integer"),
        (np.int32([7]), None, "expected rhs group dimension size to be 1, got 3"),
        (np.int32(3), None, "expected rank of group_sizes to be >=1"),
        (SIZES, ([0, 1], [0]), "exactly one lhs ragged dimension"),
        (SIZES, ([0], []), "exactly one rhs group dimension"),
        (SIZES, ([0], [1]), "distinct from contracting and batch"),
        (SIZES, ([1], [0]), "zero group dimensions"),
    ],
)
def test_ragged_dot_C1_C2(sizes, numbers, message):
    ragged, groups = numbers or ([0], [0])
    with pytest.raises(TypeError, match=message):
        ragged_dot_general(
            np.ones((7, 4)),
            np.ones((3, 4, 5)),
            sizes,
            RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), ragged, groups),
        )


def test_scaled_dot():
    x, y = (normal(rng, *s).astype(ml_dtypes.float8_e4m3fn) for s in ((4, 64), (64, 5)))
    xs, ys = (
        (2.0 ** rng.integers(-2, 3, s)).astype(ml_dtypes.float8_e8m0fnu) for s in ((4, 2), (2, 5))
    )
    out = scaled_dot(x, y, lhs_scale=xs, rhs_scale=ys, preferred_element_type=np.float32)
    wide = [np.asarray(v, np.float32) for v in (x, y, xs, ys)]
    expected = (wide[0] * np.repeat(wide[2], 32, 1)) @ (wide[1] * np.repeat(wide[3], 32, 0))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)
    assert scaled_dot(x, y).dtype == ml_dtypes.bfloat16
    with pytest.raises(
        TypeError,
        match="LHS contracting dim 1 of size 64 must be divisible by its scale's dim size 3",
    ):
        scaled_dot(x, y, lhs_scale=np.ones((4, 3)))
    with pytest.raises(TypeError, match="RHS dim 1 of size 5 does not match scale dim size 2"):
        scaled_dot(x, y, rhs_scale=np.ones((2, 2)))


def test_product_of_complex_numbers_is_complex():
    with pytest.raises(
        TypeError, match="of complex operands must be complex, got float32 for complex64"
    ):
        dot(np.ones(2, np.complex64), np.ones(2, np.complex64), preferred_element_type=np.float32)


@pytest.mark.parametrize(
    "numbers",
    [
        ((1, 1), (0, 0)),
        (((1,), 1), (0, [0])),
        ((np.array([1]), np.int32(1)), (np.array(0), (0,))),
    ],
)
def test_axes_of_dot_general_may_be_ints(numbers):
    x, y = np.ones((5, 3, 2), np.float32), np.ones((5, 3, 4), np.float32)
    assert jax.lax.dot_general(x, y, numbers).tolist() == np.full((5, 2, 4), 3.0).tolist()
