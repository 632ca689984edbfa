"""Bad calls are refused with JAX's class of error, and say what is wrong; found by calling
everything with everything."""

from collections.abc import Callable

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import errors, lax, nn, random
from teucer.scipy import special

F, M = np.ones(3, np.float32), np.ones((2, 3), np.float32)
Z = np.array([1 + 2j, 3], np.complex64)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: jnp.ones(2, dtype=jnp.ones(2)),
            ValueError,
            "instead of dtype=arr use dtype=arr.dtype",
        ),
        (
            lambda: jnp.asarray(F, jnp.asarray(F)),
            ValueError,
            "instead of dtype=arr use dtype=arr.dtype",
        ),
        (lambda: jnp.from_dlpack(3), TypeError, "must have __dlpack__"),
        (lambda: jnp.sort(F, "a"), TypeError, "cannot be interpreted as an integer"),
        (lambda: jnp.round(F, "a"), TypeError, "cannot be interpreted as an integer"),
        (lambda: jnp.reshape(F, 1.5), TypeError, "Shapes must be 1D sequences of concrete values"),
        (lambda: nn.one_hot(1, "a"), TypeError, "num_classes must be an int"),
        (lambda: jax.linearize(jnp.sin, 1.0)[1](1.0, 2.0), TypeError, "another tree"),
        (lambda: jnp.trapezoid(F, 2), ValueError, "out of bounds for array of dimension 0"),
        (lambda: special.sici(Z), ValueError, "must be real-valued"),
        (lambda: special.entr(Z), ValueError, "does not support complex-valued inputs"),
        (lambda: special.spence(Z), TypeError, "complex64"),
        (lambda: jnp.full((2,), F), ValueError, "Incompatible shapes for broadcasting"),
        (lambda: jnp.full_like(F, np.ones(2)), ValueError, "Incompatible shapes for broadcasting"),
        (lambda: jnp.full_like(np.ones(2, int), 1j), TypeError, "complex fill_value"),
        (lambda: jnp.arange([1, 2]), TypeError, "arange requires ndarray, scalar"),
        (lambda: jnp.eye(3, k=1.5), ValueError, "k must be a scalar integer"),
        (lambda: jnp.linspace(0, 1, 3, axis=1), ValueError, "axis 1 is out of bounds"),
        (lambda: jnp.geomspace(1, 2, 3, axis=-2), ValueError, "axis -2 is out of bounds"),
        (lambda: jnp.reshape(np.ones((0, 3)), (0, -1)), TypeError, "does not evenly divide"),
        (lambda: jnp.repeat(F, 2.5), TypeError, "repeats must be integers"),
        (lambda: jnp.repeat(F, [1, 2, 3]), TypeError, "got <class 'list'> at position 1"),
        (lambda: jnp.delete(F, [1]), TypeError, "got <class 'list'> at position 1"),
        (
            lambda: jax.jit(lambda i: jnp.insert(F, i, 1.0))(F > 0),
            ValueError,
            "index array must be integer typed",
        ),
        (
            lambda: jnp.power(np.int32([2]), jnp.int32(-1)),
            TypeError,
            "Integers cannot be raised to negative powers",
        ),
        (lambda: jnp.linalg.cond(np.ones((0, 0))), ValueError, "input array must not be empty"),
        (lambda: jnp.linalg.norm(np.ones(0), -np.inf), ValueError, "min which has no identity"),
        (
            lambda: jnp.linalg.slogdet(np.eye(2) * 1j, method="qr"),
            NotImplementedError,
            "not implemented for complex inputs",
        ),
        (lambda: jnp.sum(F, where=2), ValueError, "where must be None or a boolean array"),
        (lambda: jnp.mean(F, where=F), ValueError, "where must be None or a boolean array"),
        (lambda: jnp.nanvar(F, where=F), ValueError, "where must be None or a boolean array"),
        (lambda: jnp.std(F, dtype=int), ValueError, "dtype argument to jnp.std must be inexact"),
        (
            lambda: jnp.nanvar(Z, dtype=np.float32),
            ValueError,
            "does not yet support real dtype parameters",
        ),
        (lambda: jnp.mean(F, dtype=bool), TypeError, "mean does not compute booleans"),
        (lambda: jnp.any(random.key(0)), TypeError, "any does not accept dtype key<fry>"),
        (
            lambda: jnp.count_nonzero(random.key(0)),
            TypeError,
            "count_nonzero does not accept dtype key<fry>",
        ),
        (lambda: jnp.exp(random.key(0)), TypeError, "exp does not accept dtype key<fry>"),
        (
            lambda: nn.logsumexp(random.key(0)),
            TypeError,
            "logsumexp does not accept dtype key<fry>",
        ),
        (lambda: nn.one_hot(1, -1), TypeError, "num_classes must be nonnegative"),
        (
            lambda: nn.dot_product_attention(
                *[np.ones((1, 2, 1, 4))] * 3, mask=np.ones((1, 1, 2, 2), int)
            ),
            ValueError,
            "mask dtype should be bool",
        ),
        (
            lambda: nn.dot_product_attention(*[np.ones((1, 2, 1, 4))] * 3, implementation="no"),
            ValueError,
            "Unsupported implementation",
        ),
        (
            lambda: random.gamma(random.key(0), random.key(1)),
            TypeError,
            "gamma requires numbers at position 0, got key<fry>",
        ),
        (
            lambda: random.beta(random.key(0), 1j, 2.0),
            ValueError,
            "cannot safely cast argument of type complex64",
        ),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_takes_arrays_in_place_of_dtypes_still_does():
    assert jnp.can_cast(jnp.asarray(F), "float64")
    assert jnp.issubdtype(jnp.asarray(F), np.floating)
    assert jnp.promote_types(jnp.asarray(F), "int8") == np.float32


def test_results_that_were_wrong():
    np.testing.assert_allclose(special.erfcx(Z), [0.1402396 - 0.22221344j, 0.17900115], rtol=1e-5)
    np.testing.assert_allclose(special.expn(F, 2), np.full(3, 0.04890051), rtol=1e-5)
    x = np.array([[0.0, 1, 3], [0, 2, 4]], np.float32)
    np.testing.assert_allclose(jnp.trapezoid(F, x), np.trapezoid(F, x))
    assert jnp.setdiff1d(np.arange(3), F).dtype == np.int32
    assert jnp.setdiff1d(np.arange(3), F, size=4, fill_value=9.5).tolist() == [0, 2, 9, 9]
    assert jnp.setdiff1d(np.arange(3), F, size=4).dtype == np.int32


def test_weak_types_of_predicates_and_powers():
    assert (
        (jnp.asarray(1) == 1.0).weak_type
        and jnp.isnan(1.0).weak_type
        and jnp.logical_not(3).weak_type
    )
    assert not (jnp.float32(1) == 1.0).weak_type
    for y in (
        jnp.isinf(1.0),
        jnp.isinf(1j),
        jnp.isposinf(1.0),
        jnp.isneginf(1.0),
        jnp.signbit(3),
        jnp.rint(3),
        jnp.angle(2.0),
    ):
        assert not y.weak_type
    assert (
        jnp.rint(2.5).weak_type
        and jnp.iscomplex(2.0).weak_type
        and jnp.isreal(3).weak_type
        and jnp.angle(1j).weak_type
    )
    assert jnp.rint(np.int8(3)).dtype == np.float32 and not jnp.iscomplex(jnp.float32(1)).weak_type
    assert (2 ** jnp.asarray(3)).weak_type and not (2 ** jnp.array([3])).weak_type


def test_powers_with_known_exponents_keep_the_dtype_of_the_base():
    x = jnp.array([2, 3], "int8")
    assert (
        (x ** jnp.int32(2)).dtype == np.int8
        and (x ** np.array(2)).dtype == np.int8
        and (x ** jnp.array([2])).dtype == np.int32
    )
    assert (
        jnp.power(2.5, jnp.array([True])).weak_type
        and not jnp.power(2, jnp.array([True])).weak_type
    )
    assert (
        jax.jit(jnp.power)(2.5, 3).weak_type and not jax.jit(jnp.power)(2.5, np.int8(3)).weak_type
    )


def test_keys_may_be_filled():
    zeros = jnp.zeros_like(random.split(random.key(3)))
    assert zeros.shape == (2,) and random.key_data(zeros).tolist() == [[0, 0], [0, 0]]


def test_rounded_to_an_integer():
    assert round(jnp.int8(3)).dtype == np.int32 and round(jnp.float32(2.6)) == 3


def test_operands_by_keyword():
    assert (
        jnp.fmax(x1=1, x2=2) == 2
        and jnp.fmin(x1=1, x2=2) == 1
        and jnp.gcd(x1=4, x2=6) == 2
        and jnp.lcm(x1=4, x2=6) == 12
    )
    assert (
        jnp.trunc(x=1.5) == 1
        and jnp.i0(x=0.0) == pytest.approx(1)
        and jnp.iinfo(int_type="int8").max == 127
    )
    with pytest.raises(TypeError, match="x1"):
        jnp.equal(x1=1, x2=1)


def test_the_number_of_a_diagonal_may_be_traced():
    assert jax.jit(lambda k: jnp.eye(3, k=k))(1).tolist() == np.eye(3, k=1).tolist()


def test_linspace_of_numbers_while_tracing():
    assert jax.grad(lambda a: a * jnp.linspace(0.0, 2.0, 5).sum())(3.0) == 5


W = np.full(
    17, 1 + 1j, np.complex64
)  # of a size of its own: warnings come as a program is traced, not as it is run again


@pytest.mark.parametrize(
    "ask",
    [
        lambda: jnp.array(jnp.asarray(W), "float32"),
        lambda: jnp.asarray(jnp.asarray(W), int),
        lambda: jnp.full(3, W[0], float),
        lambda: jnp.full_like(W, W[0], dtype=float),
        lambda: lax.full((3,), W[0], np.float32),
        lambda: jnp.sum(W, dtype="float32"),
        lambda: jnp.cumprod(W, dtype="float32"),
        lambda: jnp.mean(W, dtype="float32"),
        lambda: jnp.trace(W[None], dtype="float32"),
        lambda: jnp.concatenate([W, W], dtype="float32"),
        lambda: jnp.stack([W, W], dtype="float32"),
        lambda: jnp.pad(jnp.ones(3), 1, constant_values=1j),
        lambda: jnp.insert(jnp.ones(3), 1, 1j),
    ],
)
def test_a_dropped_imaginary_part_warns(ask: Callable[[], object]) -> None:
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary"):
        ask()


@pytest.mark.parametrize(
    "write",
    [
        lambda x, v: x.at[0].set(v),
        lambda x, v: x.at[0].add(v),
        lambda x, v: jnp.put(x, 0, v, inplace=False),
        lambda x, v: jnp.place(x, x > 0, v, inplace=False),
        lambda x, v: jnp.fill_diagonal(x[:, None], v, inplace=False),
        lambda x, v: jnp.put_along_axis(x, jnp.array([0]), v, 0, inplace=False),
    ],
)
def test_written_values_that_do_not_fit_warn(write: Callable[..., object]) -> None:
    with (
        pytest.warns(FutureWarning, match="cannot safely cast"),
        pytest.warns(np.exceptions.ComplexWarning),
    ):
        write(jnp.ones(3), 1j)
    with pytest.warns(FutureWarning, match="cannot safely cast"):
        write(jnp.ones(3, int), 1.5)


def test_astype_from_complex_to_real_is_deprecated() -> None:
    for ask in (lambda x: x.astype("float32"), lambda x: jnp.astype(x, int)):
        with pytest.warns(DeprecationWarning, match="imaginary"):
            ask(jnp.asarray(W))
    assert jnp.asarray(W).astype(bool).all()


TRACED = [
    (lambda x: x.tolist(), errors.ConcretizationTypeError, r"The tolist\(\) method was called on"),
    (
        lambda x: x.tobytes(),
        errors.ConcretizationTypeError,
        r"The tobytes\(\) method was called on",
    ),
    (
        lambda x: jnp.split(F, [1, x[0].astype(int)]),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete value is expected",
    ),
    (
        lambda x: jnp.split(F, x[0]),
        errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete value is expected",
    ),
    (
        lambda x: jnp.zeros((2, x[0])),
        TypeError,
        r"1D sequences of concrete values of integer type, got .*\.\nIf using `jit`, try using",
    ),
]


@pytest.mark.parametrize(("f", "error", "message"), TRACED)
def test_what_needs_known_values_says_so(f, error, message):
    with pytest.raises(error, match=message):
        jax.jit(f)(F)


def test_lists_of_traced_values_are_looked_into():
    seen = []
    for value in ([1.0, 2.0], [1.0, 2j], (1, [3, 4j])):
        jax.jit(lambda x: seen.append((jnp.iscomplexobj(x), jnp.isrealobj(x))))(value)
    assert seen == [(False, True), (True, False), (True, False)]
    cut = jax.jvp(lambda i: jnp.split(F, [1, i.astype(int)])[1], (2.0,), (1.0,))[0]
    assert cut.tolist() == [F[1]]


def test_axes_of_tensordot_are_numbers():
    for axes in (("bad", "axes"), ([0], "axes"), ([0], 1.5)):
        with pytest.raises(TypeError, match="tensordot requires both axes lists to be either ints"):
            jnp.tensordot(F, F, axes)
