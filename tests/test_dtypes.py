"""Dtypes against golden data: families, canonical forms, promotion, weak types, names, limits."""

import json
import pathlib
import warnings

import ml_dtypes
import numpy as np
import pytest

import teucer.dtypes
from teucer._base import config, dtypes
from teucer._base.dtypes import TypePromotionError

GOLDEN = json.loads((pathlib.Path(__file__).parent / "data" / "dtypes_promotion.json").read_text())
ORDER = GOLDEN["order"]
PYTHON_TYPE = {"int*": int, "float*": float, "complex*": complex}
PYTHON_VALUE = {"int*": 1, "float*": 1.0, "complex*": 1j}
FLOAT32 = np.dtype("float32")


class Key(dtypes.ExtendedDType):
    """A dtype as typed random keys have."""

    type = dtypes.prng_key
    itemsize = 8

    def __init__(self, tag):
        self.name = f"key<{tag}>"

    def __eq__(self, other):
        return type(other) is Key and self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Typed:
    """A value with a type of its own, as arrays and tracers are."""

    def __init__(self, dtype, weak_type=False):
        self.dtype, self.weak_type, self.shape = dtype, weak_type, ()


def outcome(function, *args):
    try:
        return function(*args)
    except TypePromotionError:
        return "-"


def cells(table):
    return [
        (row, column, text)
        for row, line in table.items()
        for column, text in zip(ORDER, line.split(), strict=True)
    ]


def differences(table, function):
    found = [
        (row, column, text, outcome(function, row, column)) for row, column, text in cells(table)
    ]
    return [case for case in found if case[2] != case[3]]


@pytest.mark.parametrize("x64", [False, True])
def test_promote_types_all_pairs(x64):
    def promoted(row, column):
        return str(dtypes.promote_types(PYTHON_TYPE.get(row, row), PYTHON_TYPE.get(column, column)))

    with config.enable_x64(x64):
        assert differences(GOLDEN["promote_types"][f"x64_{'on' if x64 else 'off'}"], promoted) == []


@pytest.mark.parametrize("mode", ["standard", "strict"])
@pytest.mark.parametrize("x64", [False, True])
def test_result_type_all_pairs(x64, mode):
    def operand(name):
        return (
            PYTHON_VALUE[name] if name in PYTHON_VALUE else Typed(dtypes.canonicalize_dtype(name))
        )

    def combined(row, column):
        dtype, weak = dtypes.result_type(operand(row), operand(column), return_weak_type_flag=True)
        return str(dtype) + "*" * weak

    with config.enable_x64(x64), config.numpy_dtype_promotion(mode):
        assert (
            differences(GOLDEN["result_type"][f"x64_{'on' if x64 else 'off'}_{mode}"], combined)
            == []
        )


@pytest.mark.parametrize("entry", GOLDEN["dtypes"], ids=lambda entry: entry["name"])
def test_each_dtype(entry):
    name = entry["name"]
    dtype = dtypes.as_dtype(name)
    assert dtypes.as_dtype(dtype.type) == dtype
    assert dtypes.bit_width(name) == entry["bits"]
    assert dtypes.canonicalize_dtype(name) == dtypes.as_dtype(entry["canonical_x32"])
    assert dtypes.scalar_type_of(dtypes.canonicalize_dtype(name)).__name__ == entry["python_scalar"]
    with config.enable_x64(True):
        assert dtypes.canonicalize_dtype(name) == dtype
    families = [
        np.generic,
        np.number,
        np.integer,
        np.signedinteger,
        np.unsignedinteger,
        np.inexact,
        np.floating,
        np.complexfloating,
    ]
    assert [f.__name__ for f in families if dtypes.issubdtype(name, f)] == entry["abstract"]
    assert not dtypes.issubdtype(name, dtypes.extended)
    if entry["min"] is not None:
        assert (dtypes.iinfo(name).min, dtypes.iinfo(name).max) == (entry["min"], entry["max"])
    elif name != "bool":
        assert float(dtypes.finfo(name).max) > 0


def test_every_golden_dtype_is_known():
    assert {str(d) for d in dtypes.ALL} == {entry["name"] for entry in GOLDEN["dtypes"]}


def test_promotion_laws():
    """Commutative, idempotent, and an upper bound: combining again changes nothing."""
    for a in dtypes.ALL:
        assert dtypes.promote_types(a, a) == dtypes.canonicalize_dtype(a) or a in dtypes.NARROWED
        for b in dtypes.ALL:
            joined = outcome(dtypes.promote_types, a, b)
            assert joined == outcome(dtypes.promote_types, b, a)
            if isinstance(joined, np.dtype) and joined not in dtypes.NARROWED.values():
                assert dtypes.promote_types(a, joined) == joined


def test_promotion_of_three_is_not_pairwise():
    """The least upper bound of all operands at once: the order in which they stand is of no
    account."""
    assert dtypes.result_type("int8", "uint8", "bfloat16") == dtypes.bfloat16
    assert dtypes.result_type("bfloat16", "float16", "int8") == np.dtype("float32")


@pytest.mark.parametrize(
    ("args", "dtype", "weak"),
    [
        ((1, 2.0), "float32", True),
        ((True, 1), "int32", True),
        ((True,), "bool", False),
        ((float,), "float32", True),
        ((bool,), "bool", False),
        ((int, "int8"), "int8", False),
        ((1, "int8"), "int8", False),
        ((np.zeros(3),), "float32", False),
        ((np.float64(1), "float16"), "float32", False),
        ((np.int64(1), 1.0), "float32", True),
        ((None,), "float32", False),
        ((Typed(np.dtype("int8"), True),), "int32", True),
        ((Typed(np.dtype("bool"), True),), "bool", False),
        ((Typed(FLOAT32), 2**40), "float32", False),
    ],
)
def test_result_type_of_values(args, dtype, weak):
    assert dtypes.result_type(*args, return_weak_type_flag=True) == (np.dtype(dtype), weak)


def test_result_type_C1():
    with pytest.raises(ValueError, match=r"result_type: at least one array or dtype is required"):
        dtypes.result_type()


@pytest.mark.parametrize(
    ("a", "b", "remedy"),
    [
        ("float8_e4m3fn", "float8_e5m2", "8-bit floats do not support implicit promotion.*float32"),
        ("int4", "int8", "2-bit and 4-bit integers do not support implicit promotion.*int32"),
        ("int4", "float8_e5m2", "8-bit floats do not support implicit promotion.*float32"),
    ],
)
def test_result_type_C2(a, b, remedy):
    with pytest.raises(
        TypePromotionError,
        match=(
            rf"(?s)Input dtypes \({a}, {b}\) have no available implicit dtype promotion "
            rf"path.*{remedy}"
        ),
    ):
        dtypes.promote_types(a, b)


def test_strict_promotion_says_so():
    with config.numpy_dtype_promotion("strict"):
        assert dtypes.result_type("float32", 1) == np.dtype("float32")
        with pytest.raises(
            TypePromotionError, match=r"(?s)int32, Python float.*jax_numpy_dtype_promotion=strict"
        ):
            dtypes.result_type("int32", 1.0)
        with pytest.raises(
            TypePromotionError, match=r"(?s)int32, float32.*jax_numpy_dtype_promotion=strict"
        ):
            dtypes.result_type("int32", "float32")


def test_extended_dtypes():
    fry, rbg = Key("fry"), Key("rbg")
    assert dtypes.result_type(Typed(fry), Typed(Key("fry"))) == fry
    for other in (Typed(rbg), 1.0, Typed(FLOAT32)):
        with pytest.raises(
            TypePromotionError, match="key<fry> is not a valid dtype for type promotion"
        ):
            dtypes.result_type(Typed(fry), other)
    with pytest.raises(ValueError, match=r"(?s)extended dtype is not allowed here.*key<fry>"):
        dtypes.canonicalize_dtype(fry)
    with pytest.raises(ValueError, match=r"(?s)extended dtype is not allowed here.*prng_key"):
        dtypes.canonicalize_dtype(dtypes.prng_key)
    assert dtypes.canonicalize_dtype(fry, allow_extended_dtype=True) is fry
    assert dtypes.issubdtype(fry, dtypes.prng_key)
    assert dtypes.issubdtype(fry, dtypes.extended)
    assert dtypes.issubdtype(fry, np.generic)
    assert not dtypes.issubdtype(fry, np.number)
    assert dtypes.issubdtype(fry, Key("fry"))
    assert not dtypes.issubdtype(fry, rbg)
    assert not dtypes.issubdtype("float32", fry)
    assert dtypes.issubdtype(dtypes.prng_key, dtypes.extended)
    assert not dtypes.issubdtype(dtypes.extended, dtypes.prng_key)
    assert dtypes.short_name(fry) == repr(fry) == "key<fry>"
    assert dtypes.bit_width(fry) == 64
    assert dtypes.check_user_dtype_supported(fry, "zeros") is fry
    assert dtypes.dtype(Typed(fry)) is fry


def test_float0():
    assert dtypes.dtype(np.zeros(2, dtypes.float0)) == dtypes.float0
    assert (
        dtypes.result_type(np.zeros(2, dtypes.float0), np.zeros(2, dtypes.float0)) == dtypes.float0
    )
    with pytest.raises(TypePromotionError, match="float0 is not a valid dtype"):
        dtypes.result_type(np.zeros(2, dtypes.float0), 1.0)
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert dtypes.bit_width(dtypes.float0) == 0
    assert dtypes.issubdtype(dtypes.float0, np.void)
    assert dtypes.canonicalize_dtype(dtypes.float0) == dtypes.float0


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (1, "int32", True), (1.0, "float32", True), (1j, "complex64", True), (True, "bool", False),
        (np.float32(1), "float32", False), (np.zeros(3), "float32", False), (np.int64(3), "int32",
        False),
        (Typed(np.dtype("int8"), True), "int8", True), (Typed(np.dtype("float64")), "float64",
        False),
        (int, "int32", True), (bool, "bool", False), ("float16", "float16", False), (np.float32,
        "float32", False),
        (ml_dtypes.bfloat16, "bfloat16", False),
    ],
)  # fmt: skip
def test_dtype_of_values(value, dtype, weak):
    assert dtypes.dtype(value) == dtypes.as_dtype(dtype)
    assert dtypes.result_type(value, return_weak_type_flag=True)[1] is weak


@pytest.mark.parametrize(
    "value", [[1], (1,), {}, object(), "foo", "S1", object, np.datetime64(1, "s"), np.array(["a"])]
)
def test_dtype_refuses(value):
    with pytest.raises(TypeError):
        dtypes.dtype(value)
    with pytest.raises(TypeError):
        dtypes.result_type(value)


def test_dtype_of_none():
    with pytest.raises(ValueError, match="None has no dtype"):
        dtypes.dtype(None)


WIDE = [
    ("int64", "int32"),
    ("uint64", "uint32"),
    ("float64", "float32"),
    ("complex128", "complex64"),
]


@pytest.mark.parametrize(("wide", "narrow"), WIDE)
def test_64_bit_dtypes_asked_for(wide, narrow):
    text = (
        f"Explicitly requested dtype {wide} requested in zeros is not available.*truncated to "
        f"dtype {narrow}"
    )
    with pytest.warns(UserWarning, match=text) as record:
        assert dtypes.check_user_dtype_supported(wide, "zeros") == np.dtype(narrow)
    assert record[0].filename == __file__
    with (
        config.explicit_x64_dtypes("error"),
        pytest.raises(ValueError, match=f"(?s){wide} requested in zeros.*jax_enable_x64"),
    ):
        dtypes.check_user_dtype_supported(wide, "zeros")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with config.explicit_x64_dtypes("allow"):
            assert dtypes.check_user_dtype_supported(np.dtype(wide), "zeros") == np.dtype(wide)
        with config.enable_x64(True):
            assert dtypes.check_user_dtype_supported(getattr(np, wide), "zeros") == np.dtype(wide)
        python = dtypes.scalar_type_of(narrow)
        assert dtypes.check_user_dtype_supported(python, "zeros") == dtypes.canonicalize_dtype(
            python
        )
        assert dtypes.result_type(np.zeros(1, wide)) == np.dtype(narrow)


def test_64_bit_operands_with_x64_off():
    """Where 64-bit arrays exist although x64 is off, results of theirs stay wide; others stay
    narrow."""
    with config.explicit_x64_dtypes("allow"):
        assert dtypes.result_type("int32", "uint32") == np.dtype("int32")
        assert dtypes.result_type("int64", "uint32") == np.dtype("int64")
        assert dtypes.result_type("float64", "complex64") == np.dtype("complex128")
        assert dtypes.result_type("uint64", "int64", return_weak_type_flag=True) == (
            np.dtype("float32"),
            True,
        )
        assert dtypes.result_type("int64", 1.0, return_weak_type_flag=True) == (
            np.dtype("float32"),
            True,
        )
        assert dtypes.result_type("float64", 1j) == np.dtype("complex128")


def test_user_dtype_refused():
    for spec in ("S1", object, "datetime64[s]"):
        with pytest.raises(
            TypeError,
            match="JAX only supports number, bool, and string dtypes, got dtype .* in zeros",
        ):
            dtypes.check_user_dtype_supported(spec, "zeros")
    with pytest.raises(ValueError, match="zeros: dtype must be specified"):
        dtypes.check_user_dtype_supported(None, "zeros")
    for spec in (3, "foo"):
        with pytest.raises(TypeError):
            dtypes.check_user_dtype_supported(spec, "zeros")
    with pytest.raises(TypeError, match="floating is a family of dtypes"):
        dtypes.as_dtype(np.floating)


@pytest.mark.parametrize(
    ("name", "numeric", "inexact", "complex_", "floating"),
    [
        ("bool", "int32", "float32", "complex64", "float32"),
        ("int4", "int4", "float32", "complex64", "float32"),
        ("uint8", "uint8", "float32", "complex64", "float32"),
        ("int64", "int64", "float64", "complex128", "float64"),
        ("uint64", "uint64", "float64", "complex128", "float64"),
        ("bfloat16", "bfloat16", "bfloat16", "complex64", "bfloat16"),
        ("float8_e5m2", "float8_e5m2", "float8_e5m2", "complex64", "float8_e5m2"),
        ("float64", "float64", "float64", "complex128", "float64"),
        ("complex64", "complex64", "complex64", "complex64", "float32"),
        ("complex128", "complex128", "complex128", "complex128", "float64"),
    ],
)
def test_conversions_between_families(name, numeric, inexact, complex_, floating):
    functions = (
        dtypes.to_numeric_dtype,
        dtypes.to_inexact_dtype,
        dtypes.to_complex_dtype,
        dtypes.to_floating_dtype,
    )
    assert [str(f(name)) for f in functions] == [numeric, inexact, complex_, floating]


def test_conversions_of_other_dtypes():
    assert dtypes.to_inexact_dtype(dtypes.float0) == dtypes.float0
    with pytest.raises(TypeError, match=r"(?s)no complex dtype.*key<fry>"):
        dtypes.to_complex_dtype(Key("fry"))
    with pytest.raises(TypeError, match="no Python scalar type"):
        dtypes.scalar_type_of(np.zeros(1, dtypes.float0))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("bool", "bool"), ("int1", "i1"), ("int4", "i4"), ("int64", "i64"), ("uint8", "u8"),
        ("bfloat16", "bf16"),
        ("float32", "f32"), ("complex64", "c64"), ("float8_e4m3fn", "f8_e4m3fn"), ("float4_e2m1fn",
        "f4_e2m1fn"),
    ],
)  # fmt: skip
def test_short_name(name, short):
    assert dtypes.short_name(dtypes.as_dtype(name)) == short


def test_public_face():
    names = {n for n in dir(teucer.dtypes) if not n.startswith(("_", "@"))}
    assert names == {
        "TypePromotionError",
        "bfloat16",
        "canonicalize_dtype",
        "extended",
        "finfo",
        "float0",
        "iinfo",
        "issubdtype",
        "itemsize_bits",
        "prng_key",
        "result_type",
        "scalar_type_of",
    }
    assert teucer.dtypes.bfloat16 is ml_dtypes.bfloat16


def test_bits_of_no_dtype():
    with pytest.raises(ValueError, match="dtype cannot be None"):
        dtypes.bit_width(None)
