"""map, associative_scan, platform_dependent, optimization_barrier, dce_sink, stage."""

import numpy as np
import pytest
from optable.compare import assert_trees_close as assert_close
from optable.laws import SECOND, assert_derivatives, assert_jit, assert_vmap

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.extend import core


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


XS = np.linspace(0.3, 1.7, 7)


# --- map ---


@pytest.mark.parametrize("batch_size", [None, 0, 1, 2, 3, 7, 20])
def test_map(batch_size):
    def f(t):
        return {"s": jnp.sin(t[0]), "p": t[0] * t[1]}

    got = lax.map(f, (XS, np.ones((7, 2))), batch_size=batch_size)
    assert_close(got, {"s": np.sin(XS), "p": XS[:, None] * np.ones((7, 2))})


@pytest.mark.parametrize("batch_size", [None, 3])
def test_map_transformed(batch_size):
    def f(xs):
        return lax.map(lambda x: x * jnp.sin(x), xs, batch_size=batch_size)

    assert_derivatives(f, XS, laws=SECOND)
    assert_vmap(f, np.stack([XS, XS + 1]))
    assert_jit(f, XS)


@pytest.mark.parametrize("batch_size", [None, 3])
def test_map_of_nothing(batch_size):
    assert lax.map(lambda x: x + 1, np.zeros((0, 2)), batch_size=batch_size).shape == (0, 2)


def test_map_traces_anew():
    k = 2.0
    f = lambda x: x * k
    assert_close(lax.map(f, XS), XS * 2)
    k = 3.0
    assert_close(lax.map(f, XS), XS * 3)


def test_map_errors():
    with pytest.raises(TypeError, match="lax.map: f argument should be a callable"):
        lax.map(3, XS)
    with pytest.raises(ValueError, match="no leading axis to scan over"):
        lax.map(lambda x: x, 3.0)
    with pytest.raises(ValueError, match="different leading axis sizes: 7, 6"):
        lax.map(lambda x: x, (XS, XS[1:]), batch_size=2)


# --- associative_scan ---


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_cumsum(n, reverse):
    xs = np.arange(1.0, n + 1)
    expected = np.cumsum(xs[::-1])[::-1] if reverse else np.cumsum(xs)
    assert_close(lax.associative_scan(lax.add, xs, reverse=reverse), expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_associative_scan_of_matrices_in_order(axis, reverse):
    # Affine maps compose in order: the function does not commute.
    a, b = np.random.default_rng(0).random((2, 3, 5)), np.random.default_rng(1).random((2, 3, 5))
    a, b = (np.moveaxis(v, 2, axis if axis >= 0 else 2) for v in (a, b))
    got = lax.associative_scan(
        lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), (a, b), reverse=reverse, axis=axis
    )
    rows_a, rows_b = (list(np.moveaxis(v, axis, 0)) for v in (a, b))
    out = []
    for p, q in (
        zip(rows_a[::-1], rows_b[::-1], strict=True)
        if reverse
        else zip(rows_a, rows_b, strict=True)
    ):
        out.append((p, q) if not out else (out[-1][0] * p, out[-1][1] * p + q))
    out = out[::-1] if reverse else out
    assert_close(got, tuple(np.stack([o[i] for o in out], axis) for i in range(2)))


def test_associative_scan_transformed():
    def f(xs):
        return lax.associative_scan(lambda a, b: a * b, xs)

    assert_derivatives(f, XS, laws=SECOND)
    assert_vmap(f, np.stack([XS, XS + 1]))
    assert_jit(f, XS)


def test_associative_scan_errors():
    with pytest.raises(TypeError, match="lax.associative_scan: fn argument should be callable"):
        lax.associative_scan(3, XS)
    with pytest.raises(
        ValueError, match=r"must have the same first dimension. \(saw: \[\(7,\), \(2,\)\]\)"
    ):
        lax.associative_scan(lax.add, (XS, np.zeros(2)))
    with pytest.raises(ValueError, match="axis 1 is out of bounds for array of dimension 1"):
        lax.associative_scan(lax.add, XS, axis=1)
    with pytest.raises(TypeError, match="fn must return a tree like its arguments"):
        lax.associative_scan(lambda a, b: (a, b), XS)


# --- platform_dependent ---


def test_the_branch_of_another_platform_need_not_be_differentiable():
    """Where values are known, only the branch of their platform runs."""
    other = core.Primitive("other_platform")
    other.def_abstract_eval(lambda x: x)

    def f(x):
        return lax.platform_dependent(x, cpu=jnp.sin, tpu=other.bind)

    x = np.float32(0.3)
    for g in (f, lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=other.bind)):
        np.testing.assert_allclose(jax.grad(g)(x), np.cos(x), rtol=1e-6)
        np.testing.assert_allclose(jax.jvp(g, (x,), (x,))[1], x * np.cos(x), rtol=1e-6)


def test_platform_dependent():
    def f(x):
        return lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)

    def g(x):
        return lax.platform_dependent(x, tpu=jnp.sin, default=jnp.exp)

    for h, expected in ((f, np.sin), (g, np.exp)):
        assert_close(h(0.5), expected(0.5))
        assert_close(jax.jit(h)(0.5), expected(0.5))
        assert_derivatives(jax.jit(h), 0.5, laws=SECOND)
        assert_vmap(jax.jit(h), XS)


def test_platform_dependent_without_a_branch():
    with pytest.raises(NotImplementedError, match="no branch for platform cpu and no default"):
        lax.platform_dependent(1.0, cuda=jnp.sin)
    with pytest.raises(NotImplementedError, match="no branch for platform cpu and no default"):
        jax.jit(lambda x: lax.platform_dependent(x, cuda=jnp.sin, tpu=jnp.cos))(1.0)
    with pytest.raises(ValueError, match="give a function"):
        lax.platform_dependent(1.0)


def test_platform_dependent_types():
    with pytest.raises(
        TypeError, match=r"the function for cpu has type float64\[\] .* default has type int64\[\]"
    ):
        jax.jit(
            lambda x: lax.platform_dependent(
                x, cpu=jnp.sin, default=lambda x: lax.convert_element_type(x, int)
            )
        )(1.0)


# --- optimization_barrier ---


def test_optimization_barrier():
    tree = {"a": 1.0, "b": (np.arange(3), True)}
    assert_close(lax.optimization_barrier(tree), tree)
    assert lax.optimization_barrier(()) == ()

    def f(x, y):
        return lax.optimization_barrier((x * y, jnp.sin(x)))

    assert_derivatives(f, 0.4, 0.6, laws=SECOND)
    assert_vmap(f, XS, XS + 1)
    assert_vmap(f, XS, 2.0, in_axes=(0, None))


def test_optimization_barrier_of_keys_and_integers():
    key, n = lax.optimization_barrier((jax.random.key(0), 3))
    np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(jax.random.key(0)))
    assert jax.grad(lambda x: lax.optimization_barrier((x, 2))[0] * 3)(1.0) == 3.0
    assert n == 3


def test_optimization_barrier_error():
    with pytest.raises(
        TypeError, match="type <class 'str'> and was passed to optimization_barrier at position 1"
    ):
        lax.optimization_barrier((1.0, "abc"))


def test_associative_scan_is_strong():
    assert not lax.associative_scan(jnp.add, jnp.full(4, 0.5)).weak_type


# --- dce_sink, stage ---


@pytest.mark.parametrize("kept", [False, True])
def test_dce_sink_keeps_what_nothing_uses(kept):
    def f(x):
        lax.dce_sink({"a": jnp.sin(x)}, prevent_mlir_dce=kept)
        return 2 * x

    text = jax.jit(f).lower(1.0).as_text()
    assert "stablehlo.sine" in text
    assert ("@dce_sink" in text) is ("has_side_effect = true" in text) is kept
    assert f(3.0) == jax.jit(f)(3.0) == 6
    assert jax.vmap(jax.grad(jax.remat(f)))(jnp.ones(2)).tolist() == [2, 2]


def test_dce_sink_leaves_the_choice_to_the_compiler():
    assert "@dce_sink" not in jax.jit(lambda x: lax.dce_sink(jnp.sin(x))).lower(1.0).as_text()


def test_stage():
    seen = []

    @jax.jit
    def f(x):
        seen.extend(map(lax.stage, (2.0, np.arange(3), jax.random.key(0), x)))
        return seen[0] + seen[1]

    assert f(1.0).tolist() == [2, 3, 4]
    assert all(isinstance(x, jax.core.Tracer) for x in seen)
    assert lax.stage(2.0).weak_type
    assert lax.stage(x := jnp.ones(2)) is x
    with pytest.raises(TypeError, match="as a JAX value"):
        lax.stage([1])
    with pytest.raises(TypeError, match="references are not staged"):
        lax.stage(jax.new_ref(1.0))
