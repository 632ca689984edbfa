"""The law of comparisons: they tell subnormal numbers from zero and from each other, as NumPy's do,
eager and jitted, of numbers and of arrays of all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optable.table import all_ops, precision_of
from optable.trees import widened

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._base import config, dtypes
from teucer._trees.pytrees import tree_leaves, tree_map
from teucer.extend.core import Primitive
from teucer.interpreters import mlir

FLUSHED = ("float32", "bfloat16", "float64")
DTYPES = (*FLUSHED, "float16")
# fmt: off
BINARY = (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "fmax", "fmin",
    "isclose", "array_equal", "logical_and", "logical_or", "logical_xor", "heaviside", "nextafter",
    "copysign",
)
UNARY = (
    "sign", "logical_not", "isfinite", "isnan", "isposinf", "isneginf", "signbit", "abs",
    "negative", "count_nonzero", "any", "all", "argmax", "argmin", "trunc", "rint",
)
SEQUENCES = ("sort", "argsort", "nonzero", "flatnonzero", "argwhere", "unique")
# fmt: on
WRITTEN: dict[str, Callable[[Any], Any]] = {
    "x > 0": lambda x: x > 0,
    "x >= 0": lambda x: x >= 0,
    "x < 0": lambda x: x < 0,
    "x <= 0": lambda x: x <= 0,
    "x == 0": lambda x: x == 0,
    "x != 0": lambda x: x != 0,
    "0 < x": lambda x: 0 < x,  # noqa: SIM300
    "0 >= x": lambda x: 0 >= x,  # noqa: SIM300
    "x < 1": lambda x: x < 1,
    "x > a subnormal": lambda x: x > x.dtype.type(smallest(x.dtype)),
    "x > zeros": lambda x: x > 0 * np.ones(x.shape, x.dtype),
    "a normal": lambda x: abs(x) >= x.dtype.type(float(dtypes.finfo(x.dtype).tiny)),
    "bool": lambda x: x.astype(bool),
}


def smallest(dtype: Any) -> float:
    return float(dtypes.finfo(np.dtype(dtype)).smallest_subnormal)


def numbers(dtype: str) -> np.ndarray:
    """Zeros, subnormal numbers, and what stands beside them, of both signs."""
    info = dtypes.finfo(np.dtype(dtype))
    least, tiny = smallest(dtype), float(info.tiny)
    sizes = [0, least, 2 * least, tiny / 2, tiny - least, tiny, 1, float(info.max), np.inf]
    return np.array([*sizes, *np.negative(sizes), np.nan], np.float64).astype(dtype)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(numbers(dtype), numbers(dtype))
    return x.ravel(), y.ravel()


def assert_same(got: Any, expected: Any, what: object) -> None:
    """Equal, the sign of zero apart."""
    got, expected = tree_leaves(got), tree_leaves(expected)
    for y, z in zip(got, expected, strict=True):
        y, z = np.asarray(y), np.asarray(z)
        if y.dtype.kind not in "c":
            y, z = y.astype(np.float64), z.astype(np.float64)
        np.testing.assert_array_equal(y, z, err_msg=str(what))


def assert_law(f: Any, reference: Any, *xs: Any) -> None:
    """f, eager and jitted, is the reference."""
    with np.errstate(all="ignore"):
        expected = reference(*xs)
        assert_same(f(*map(jnp.asarray, xs)), expected, "eager")
        assert_same(jax.jit(f)(*xs), expected, "jitted")


@pytest.mark.parametrize("dtype", FLUSHED)
@pytest.mark.parametrize("name", BINARY)
def test_of_two(name: str, dtype: str) -> None:
    with config.enable_x64(True):
        assert_law(getattr(jnp, name), getattr(np, name), *pairs(dtype))


def unary() -> dict[str, tuple[Any, Any]]:
    return {name: (getattr(jnp, name), getattr(np, name)) for name in UNARY} | {
        name: (f, f) for name, f in WRITTEN.items()
    }


def samples(name: str, dtype: str) -> np.ndarray:
    x = numbers(dtype)
    if name in ("any", "all", "count_nonzero"):
        return x[1:3]
    return x[:5] * np.array([1, 1, -1, 1, -1], x.dtype) if name.startswith("arg") else x


@pytest.mark.parametrize("dtype", FLUSHED)
@pytest.mark.parametrize("name", unary())
def test_of_one(name: str, dtype: str) -> None:
    with config.enable_x64(True):
        assert_law(*unary()[name], samples(name, dtype))


@pytest.mark.parametrize("dtype", FLUSHED)
@pytest.mark.parametrize("name", SEQUENCES)
def test_of_sequences(name: str, dtype: str) -> None:
    if (name, dtype) == ("unique", "bfloat16"):
        pytest.skip("it pads, where XLA widens numbers of this type")
    x = numbers(dtype)[[3, 0, 10, 2, 9, 1, 4, 12, 11]]
    options = {"kind": "stable"} if name == "argsort" else {}
    with config.enable_x64(True):
        found = getattr(jnp, name)(jnp.asarray(x))
    assert_same(found, getattr(np, name)(x.astype(np.float64), **options), dtype)


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "greater_equal", "maximum"])
def test_of_complex_numbers(name: str) -> None:
    real, imaginary = (v[:30] for v in pairs("float32"))
    x = (real[:, None] + 1j * imaginary[None]).ravel()[:200].astype(np.complex64)
    x = x[np.isfinite(x)]
    assert_law(getattr(jnp, name), getattr(np, name), x, x[::-1].copy())


def test_argmax_takes_the_first_nan_and_either_zero() -> None:
    for x in ([1, np.nan, 3, -np.nan], [-0.0, 0.0], [0.0, -0.0], [-np.inf], [np.inf, np.nan]):
        for f, reference in ((jnp.argmax, np.argmax), (jnp.argmin, np.argmin)):
            for dtype in FLUSHED:
                v = np.array(x, dtype)
                assert_law(f, lambda v, r=reference: r(v.astype(np.float64)), v)


def test_nextafter_keeps_the_sign_of_zero() -> None:
    least = smallest("float32")
    for x in (least, -least):
        assert np.signbit(jnp.nextafter(np.float32(x), np.float32(0))) == (x < 0)
    assert jnp.nextafter(np.float32(-0.0), np.float32(0)) == 0
    assert jnp.nextafter(np.float32(-0.0), np.float32(1)) == least


SMALL = np.array([1e-40, -1e-40, 0], np.float32)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: jax.vmap(lambda v: lax.cond(v > 0, lambda: 1, lambda: 0))(x),
    "while_loop": lambda x: jax.vmap(
        lambda v: lax.while_loop(
            lambda c: (c[0] > 0) & (c[1] < 1), lambda c: (c[0], c[1] + 1), (v, 0)
        )[1]
    )(x),
    "scan": lambda x: lax.scan(lambda n, v: (n, v > 0), 0, x)[1],
    "map": lambda x: lax.map(lambda v: v > 0, x),
    "select": lambda x: jnp.where(x, x > 0, False),
    "custom_vjp": lambda x: jax.custom_gradient(lambda v: (v > 0, lambda t: v))(x),
    "remat": lambda x: jax.checkpoint(lambda v: v > 0)(x),
    "outlined": lambda x: jax.jit(lambda v: v > 0, outline=True)(x),
    "not outlined": lambda x: jax.jit(lambda v: v > 0, outline=False)(x),
    "shard_map": lambda x: jax.shard_map(
        lambda v: v > 0,
        mesh=jax.make_mesh((3,), ("i",), (jax.sharding.AxisType.Auto,)),
        in_specs=jax.P("i"),
        out_specs=jax.P("i"),
    )(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_within_programs(name: str) -> None:
    f = PROGRAMS[name]
    for g in (f, jax.jit(f)):
        np.testing.assert_array_equal(g(SMALL), [True, False, False])


def test_what_is_lowered_has_plain_comparisons() -> None:
    for f in (lambda x: x > 0, lambda x: x > x[::-1]):
        text = jax.jit(f).lower(SMALL).as_text()
        assert "stablehlo.compare" in text and "FLOAT" in text
        assert "bitcast" not in text


def is_compiled_by_bits(f: Any, *xs: Any) -> bool:
    return "bitcast-convert" in jax.jit(f).lower(*xs).compile().as_text()


def test_comparisons_that_are_right_stay() -> None:
    x = np.ones(8, np.float32)
    assert is_compiled_by_bits(lambda x: x > 0, x)
    for f in (lambda x: x > 1, lambda x: x != x, lambda x: 2 * x > 0, lambda x: x + x < x * x):
        assert not is_compiled_by_bits(f, x)
    assert not is_compiled_by_bits(lambda x: x > 0, x.astype(np.float16))
    assert not is_compiled_by_bits(lambda x: x > 0, x.astype(np.int32))


@pytest.mark.parametrize("name", ["max", "sign", "eq", "add"])
def test_primitives_of_libraries_are_their_own(name: str) -> None:
    """One that has the name of an operation of lax is lowered by its own rule."""
    p = Primitive(name)
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 7, multiple_results=False))
    x = np.arange(4, dtype=np.float32)
    assert jax.jit(p.bind)(x).tolist() == (x + 7).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*BINARY, *unary()])
def test_of_all_sizes(name: str, dtype: str) -> None:
    with config.enable_x64(True):
        if name in BINARY:
            f, reference = getattr(jnp, name), getattr(np, name)
            xs = pairs(dtype)
        else:
            f, reference = unary()[name]
            xs = (samples(name, dtype),)
        for size in (1, 3, 17, 256, 5000, 70000):
            assert_law(f, reference, *(np.resize(x, size) for x in xs))
            if size < 5000:
                assert_law(f, reference, *(np.resize(x, (size, 7)) for x in xs))
        if name != "array_equal":
            numbers = list(zip(*(x.tolist() for x in xs), strict=True))[:: 5 if len(xs) > 1 else 1]
            for operands in numbers:
                assert_law(f, reference, *(np.asarray(v, dtype) for v in operands))


ROWS = [
    (name, dtype)
    for name, op in all_ops().items()
    for dtype in FLUSHED
    if op.reference is not None and dtype in op.dtypes
]
NORMS = dict.fromkeys(("float32", "float64"), "pivots by norms, which are sums of squares")
WIDENED = {"bfloat16": "XLA widens the operand"}
NOT_DECIDED: dict[str, dict[str, str]] = {
    **dict.fromkeys(("geqp3", "qr_pivoted"), NORMS),
    **dict.fromkeys(("top_k", "approx_max_k", "approx_min_k"), WIDENED),
}


def scaled(x: Any) -> Any:
    """Floats scaled to be subnormal."""
    x = np.asarray(x)
    if x.dtype.name not in DTYPES:
        return x
    return (x.astype(np.float64) * float(dtypes.finfo(x.dtype).tiny) / 8).astype(x.dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), ROWS)
def test_rows_decide_as_their_references(name: str, dtype: str) -> None:
    """Of every row of the operation table whose results are booleans or integers."""
    op = all_ops()[name]
    with precision_of(dtype), np.errstate(all="ignore"):
        for call in op.calls(dtype)[:4]:
            args = tree_map(scaled, call.args)
            outs = tree_leaves(jax.eval_shape(lambda args, c=call: op(*args, **c.kwargs), args))
            kept = [i for i, y in enumerate(outs) if y.dtype.kind in "biu"]
            if not kept:
                return
            if dtype in NOT_DECIDED.get(name, ()):
                pytest.skip(NOT_DECIDED[name][dtype])
            found = tree_leaves(op(*args, **call.kwargs))
            expected = op.reference(*(widened(a, op.widen) for a in args), **call.kwargs)
            expected = expected if isinstance(expected, tuple | list) else [expected]
            for i in kept:
                np.testing.assert_array_equal(found[i], expected[i], err_msg=f"{name} {dtype}")


def test_guards_hold_for_what_is_a_zero_to_arithmetic() -> None:
    guarded = {
        "x log x": lambda x: jnp.where(x == 0, 0, x * jnp.log(x)),
        "1 / x": lambda x: jnp.where(x == 0, 0, 1 / x),
        "1 / safe": lambda x: 1 / jnp.where(x == 0, 1, x),
        "cond": lambda x: lax.cond(x[0] > 0, lambda x: jnp.log(x[0]), lambda x: 0 * x[0], x),
    }
    for name, f in guarded.items():
        assert np.isfinite(jax.jit(f)(SMALL)).all(), name
