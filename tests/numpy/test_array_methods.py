"""The methods and protocols of arrays and tracers."""

import copy

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

X = np.array([[3.0, -1.5, 2.0], [0.5, 4.0, -2.5]], "float32")
CALLS = {
    "sum": (),
    "mean": (),
    "max": (0,),
    "min": (1,),
    "prod": (),
    "std": (),
    "var": (),
    "all": (),
    "any": (),
    "argmax": (1,),
    "argmin": (),
    "ptp": (),
    "cumsum": (1,),
    "cumprod": (),
    "clip": (0, 1),
    "round": (),
    "trace": (),
    "conj": (),
    "copy": (),
    "dot": (X.T,),
    "astype": ("int32",),
    "squeeze": (),
    "ravel": (),
    "flatten": (),
    "reshape": (3, 2),
    "transpose": (),
    "swapaxes": (0, 1),
    "repeat": (2,),
    "diagonal": (),
    "nonzero": (),
    "take": ([0, 2],),
    "argsort": (),
    "sort": (),
}


@pytest.mark.parametrize("name", CALLS)
def test_method_is_numpys(name):
    args = CALLS[name]
    want = getattr(np, name)(X) if name in ("sort", "ptp") else getattr(X, name)(*args)
    args = tuple(np.asarray(a) if isinstance(a, list) else a for a in args)
    got = getattr(jnp.asarray(X), name)(*args)
    for g, w in zip(
        got if isinstance(want, tuple) else (got,),
        want if isinstance(want, tuple) else (want,),
        strict=True,
    ):
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-5)
    # The places of nonzero elements are not known while tracing; `trace` of a tracer is the trace
    # that it belongs to.
    if name not in ("nonzero", "trace"):
        np.testing.assert_allclose(jax.jit(lambda v: getattr(v, name)(*args))(X), want, rtol=1e-5)


def test_views_of_bits():
    x = jnp.array([1.0, 2.0])
    assert (
        x.view("int32").tolist() == np.float32([1, 2]).view("int32").tolist()
        and x.view("uint8").tolist() == np.float32([1, 2]).view("uint8").tolist()
    )
    assert jnp.array([1, 2], "uint8").view("uint16").tolist() == [513] and jnp.ones(
        2, "complex64"
    ).view("float32").tolist() == [
        1,
        0,
        1,
        0,
    ]
    assert (
        x.view("complex64").tolist() == [1 + 2j]
        and jnp.arange(3).byteswap().tolist() == np.arange(3, dtype="int32").byteswap().tolist()
    )
    with pytest.raises(ValueError, match="When changing to a larger dtype"):
        jnp.ones(3, "uint8").view("int16")


def test_protocols():
    x = jnp.arange(3)
    assert (
        2 in x
        and 5 not in x
        and list(reversed(x)) == [2, 1, 0]
        and x.real is not None
        and x.imag.tolist() == [0, 0, 0]
    )
    assert (
        x.__array_namespace__() is jnp
        and round(jnp.float32(1.26)).dtype == np.int32
        and float(round(jnp.float32(1.26), 1)) == pytest.approx(1.3)
    )
    assert (
        hex(jnp.array(17)) == "0x11"
        and copy.copy(x).tolist() == copy.deepcopy(x).tolist() == [0, 1, 2]
        and x.itemsize == 4
        and x.nbytes == 12
    )
    with pytest.raises(ValueError, match="api_version='2020' is not available"):
        x.__array_namespace__(api_version="2020")
    with pytest.raises(NotImplementedError, match=r"arr\.flatten\(\)"):
        _ = x.flat
    with pytest.raises(TypeError, match=r"x\.at\[idx\]\.set\(y\)"):
        x[0] = 1


@pytest.mark.parametrize(
    "f, error",
    [
        (lambda v: v.item(), jax.errors.ConcretizationTypeError),
        (lambda v: v.tolist(), jax.errors.ConcretizationTypeError),
        (lambda v: np.asarray(v), jax.errors.TracerArrayConversionError),
        (lambda v: bool(v[0]), jax.errors.TracerBoolConversionError),
        (lambda v: float(v[0]), jax.errors.ConcretizationTypeError),
        (lambda v: hash(v), TypeError),
        (lambda v: v.devices(), jax.errors.ConcretizationTypeError),
    ],
)
def test_traced_values_have_no_numbers(f, error):
    with pytest.raises(error):
        jax.jit(f)(X[0])


def test_attributes_of_tracers():
    def f(v):
        assert (v.shape, v.ndim, v.size, v.itemsize, v.nbytes, v.T.shape, v.mT.shape) == (
            (2, 3),
            2,
            6,
            4,
            24,
            (3, 2),
            (3, 2),
        )
        return v.real + v.imag

    np.testing.assert_array_equal(jax.jit(f)(X), X)
    a, b = jax.jit(lambda v: tuple(v))(X)
    np.testing.assert_array_equal(np.stack([a, b]), X)


def test_a_copy_is_an_array_of_its_own_and_costs_a_program_nothing():
    x = jnp.arange(3.0)
    copies = [jnp.copy(x), jnp.array(x), x.copy(), jax.jit(jnp.copy)(x), jax.jit(jnp.array)(x)]
    places = {y.unsafe_buffer_pointer() for y in (x, *copies)}
    assert len(places) == 1 + len(copies)
    both = jax.jit(lambda x: (jnp.copy(x), jnp.copy(x), x), donate_argnums=0)(x)
    assert len({y.unsafe_buffer_pointer() for y in both}) == 3
    assert all(y.tolist() == [0, 1, 2] for y in (*copies, *both))
    # Compilers see through it, as through no copy.
    assert "barrier" not in jax.jit(lambda x: 2 * jnp.copy(x)).lower(copies[0]).as_text()
