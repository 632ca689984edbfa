"""Linear parts of eager derivatives as one program: `teucer._derived.linear_programs`."""

import threading

import numpy as np
import pytest
from sampling import some

import teucer as jax
import teucer.numpy as jnp
from teucer._derived import linear_programs
from teucer._executables.compilations import compilations

X = np.linspace(-1, 1, 12, dtype=np.float32)


@pytest.fixture(autouse=True)
def afresh():
    """No pass and no operation is compiled."""
    jax.clear_caches()
    yield
    jax.clear_caches()


def net(x):
    y = x.reshape(3, 4)
    for k in (1.0, 0.5, 0.25):
        y = jnp.tanh(y @ y.T @ y * k) + jnp.sin(y)
    return jnp.sum(jax.nn.softmax(y) ** 2)


def branching(x):
    """Control flow of Python on values, which only the forward part may have."""
    return jnp.sum(jnp.sin(x) * jnp.exp(x)) if x[0] < 0 else jnp.sum(x**3)


@jax.custom_vjp
def clipped(x):
    return jnp.sum(jnp.cos(x) * x)


def _clipped_bwd(x, ct):
    scale = 0.0 if float(ct) > 1e3 else 1.0  # looks at a value
    return (scale * ct * jnp.cos(x),)


clipped.defvjp(lambda x: (clipped(x), x), _clipped_bwd)

DERIVATIVES = {
    "grad": jax.grad,
    "hessian": jax.hessian,
    "jacrev": lambda f: jax.jacrev(lambda x: jnp.sin(x) * f(x)),
    "jacfwd": lambda f: jax.jacfwd(lambda x: jnp.sin(x) * f(x)),
    "jvp of grad": lambda f: lambda x: jax.jvp(jax.grad(f), (x,), (jnp.cos(x),)),
    "grad of grad": lambda f: jax.grad(lambda x: jnp.sum(jax.grad(f)(x) ** 2)),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](jnp.float32(2)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](jnp.cos(x)),
    "third": lambda f: jax.jacfwd(jax.hessian(f)),
}


def by_operation(monkeypatch):
    monkeypatch.setattr(linear_programs, "FEWEST", 10**9)


@pytest.mark.parametrize("fun", [net, branching], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", some(DERIVATIVES, 2))
def test_values_are_those_of_the_operations(name, fun, monkeypatch):
    derivative = DERIVATIVES[name](fun)
    first = derivative(jnp.asarray(X))
    again = derivative(jnp.asarray(X))
    passes = len(linear_programs._passes)
    with monkeypatch.context() as m:
        by_operation(m)
        expected = derivative(jnp.asarray(X))
    assert passes
    for a, b, c in zip(*map(jax.tree.leaves, (first, again, expected)), strict=True):
        assert type(a) is type(c) and a.aval == c.aval
        np.testing.assert_array_equal(a, b)
        # A fused product and sum rounds once, and terms of third derivatives cancel.
        np.testing.assert_allclose(a, c, rtol=2e-5, atol=2e-6 * max(1, np.abs(c).max()))


def test_vmap_of_a_gradient():
    xs = np.stack([X, X[::-1], X * 2])
    found = jax.vmap(jax.grad(net))(xs)
    assert linear_programs._passes
    np.testing.assert_allclose(found, jax.jit(jax.vmap(jax.grad(net)))(xs), rtol=1e-5, atol=1e-6)


def programs_of(f, *args):
    compilations.clear()
    jax.block_until_ready(f(*args))
    return len(compilations)


@pytest.mark.parametrize(("name", "most"), [("hessian", 0.5), ("grad", 0.8)])
def test_a_first_call_compiles_fewer_programs(name, most, monkeypatch):
    x = jnp.asarray(X)
    few = programs_of(DERIVATIVES[name](net), x)
    jax.clear_caches()
    by_operation(monkeypatch)
    assert few <= most * programs_of(DERIVATIVES[name](net), x)


def test_operations_that_are_compiled_are_run(monkeypatch):
    x = jnp.asarray(X)
    with monkeypatch.context() as m:
        by_operation(m)
        jax.grad(net)(x)
    assert programs_of(jax.grad(net), x) == 0


def test_numbers_that_change_compile_nothing():
    x = jnp.asarray(X)

    def gradient(t):
        return jax.grad(lambda x: jnp.sum(jnp.sin(x * t) * jnp.exp(x) * jnp.cosh(x) * t))(x)

    gradient(0.5)
    assert programs_of(lambda: [gradient(t) for t in (0.25, 0.75, 1.5)]) == 0
    np.testing.assert_array_equal(gradient(0.0), np.zeros(12))


def test_places_that_change_go_by_operation_in_the_end():
    x = jnp.arange(64.0)

    def gradient(i):
        return jax.grad(lambda x: jnp.sum(jnp.sin(x[i : i + 8]) * jnp.exp(x[i : i + 8] / 64)))(x)

    for i in range(4):
        gradient(i)
    whole = len([p for p in linear_programs._passes.values() if p is not None])
    gradient(9)
    assert len([p for p in linear_programs._passes.values() if p is not None]) == whole
    np.testing.assert_allclose(gradient(9), jax.jit(lambda: gradient(9))(), rtol=1e-6, atol=1e-6)


def test_rules_that_look_at_values_do():
    g = jax.grad(lambda x: clipped(jnp.sin(x) * jnp.exp(x)))
    y, pull = jax.vjp(lambda x: clipped(jnp.sin(x) * jnp.exp(x)), jnp.asarray(X))
    assert np.all(pull(jnp.float32(2e3))[0] == 0)
    np.testing.assert_allclose(g(jnp.asarray(X)), pull(jnp.float32(1))[0])


def test_values_on_several_devices_go_by_operation():
    a, b = jax.devices()[:2]

    def f(x):
        y = jax.device_put(jnp.sin(x) * jnp.exp(x), b)
        return jnp.sum(jnp.tanh(y) * jnp.cos(y))

    x = jax.device_put(jnp.asarray(X), a)
    found = jax.grad(f)(x)
    assert found.devices() == {a}
    np.testing.assert_allclose(found, jax.jit(jax.grad(f))(X), rtol=1e-6)


def test_sharded_values_keep_their_shardings():
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(X, jax.NamedSharding(mesh, jax.P("i")))
    found = jax.grad(net)(x)
    np.testing.assert_allclose(found, jax.grad(net)(jnp.asarray(X)), rtol=1e-5, atol=1e-6)
    assert found.sharding.device_set == x.sharding.device_set


def test_a_nan_is_named_by_its_operation():
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="mul|div|log"):
        jax.grad(lambda x: jnp.sum(jnp.log(x * 0) * jnp.sin(x) * jnp.exp(x)))(jnp.ones(3))


def test_trees_integers_and_zeros():
    def f(p):
        return jnp.sum(jnp.sin(p["a"]) * jnp.exp(p["a"])) * p["n"] + 0 * jnp.sum(p["b"])

    tree = {"a": jnp.asarray(X), "n": jnp.int32(3), "b": jnp.ones(2)}
    found = jax.grad(f, allow_int=True)(tree)
    assert found["n"].dtype == jax.dtypes.float0 and np.all(np.asarray(found["b"]) == 0)
    np.testing.assert_allclose(found["a"], 3 * np.exp(X) * (np.sin(X) + np.cos(X)), rtol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.complex64])
def test_dtypes(dtype):
    x = jnp.asarray(X, dtype)
    f = lambda x: jnp.sum(jnp.sin(x) * jnp.exp(x) * jnp.cos(x)).real.astype(jnp.float32)
    found = jax.grad(f)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(
        np.asarray(found, np.complex64),
        np.asarray(jax.jit(jax.grad(f))(x), np.complex64),
        rtol=0.05,
        atol=0.02,
    )


def test_threads_share_passes():
    x, found = jnp.asarray(X), [None] * 6
    start = threading.Barrier(6)

    def work(i):
        start.wait()
        found[i] = np.asarray(jax.hessian(net)(x))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for y in found[1:]:
        np.testing.assert_allclose(y, found[0], rtol=1e-4, atol=1e-5)


def test_recorded_programs_have_the_equations_alone():
    assert "linear_program" not in str(jax.make_jaxpr(jax.hessian(net))(X))
    assert "linear_program" not in str(jax.linearize(jax.grad(net), jnp.asarray(X))[1])


def test_types_of_arguments_part_passes():
    """A cotangent has the size of its argument, which no other value of the pass need say."""
    for n in (1, 2, 3):
        x = jnp.arange(float(n))
        found = jax.grad(lambda x: jnp.sum(x[(0,)] * np.float32(3) * np.float32(2)))(x)
        np.testing.assert_array_equal(found, [6.0, *[0.0] * (n - 1)])
        _, f_jvp = jax.linearize(lambda x: jnp.zeros(2).at[0].set(x[0] * 2 * 3 * 4), x)
        np.testing.assert_array_equal(f_jvp(jnp.ones(n)), [24.0, 0.0])


def test_numbers_that_are_nan():
    f = jax.grad(jax.grad(lambda x: jax.lax.rsqrt(x) * x))
    for _ in range(2):
        assert np.isnan(f(np.nan)) and np.isnan(f(-1.0))


def test_passes_are_few():
    for n in range(3, 9):
        jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.exp(x) * jnp.cos(x)))(jnp.ones(n))
    assert 0 < len(linear_programs._passes) <= 6
    jax.clear_caches()
    assert not linear_programs._passes
