"""jvp, vjp, grad, linearize, Jacobians; their arguments and their errors."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._transform import linearize
from teucer.dtypes import float0
from teucer.experimental import sparse


def f(x):
    return jnp.sin(x) * x


def df(x):
    return np.cos(x) * x + np.sin(x)


X = np.array([0.5, 1.0, 2.0], np.float32)


@pytest.mark.parametrize("wrap", [lambda g: g, jax.jit], ids=["eager", "jit"])
def test_all_modes_agree(wrap):
    np.testing.assert_allclose(wrap(jax.grad(lambda x: f(x).sum()))(X), df(X), rtol=1e-6)
    y, t = wrap(lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),)))(X)
    np.testing.assert_allclose(t, df(X), rtol=1e-6)
    y, pull = jax.vjp(wrap(f), X)
    np.testing.assert_allclose(pull(jnp.ones(3))[0], df(X), rtol=1e-6)
    y, push = jax.linearize(wrap(f), X)
    np.testing.assert_allclose(push(jnp.ones(3)), df(X), rtol=1e-6)
    np.testing.assert_allclose(wrap(jax.jacfwd(f))(X), np.diag(df(X)), rtol=1e-6)
    np.testing.assert_allclose(wrap(jax.jacrev(f))(X), np.diag(df(X)), rtol=1e-6)


def test_a_derivative_is_worked_out_once_for_types():
    """From some number of calls on, what linearization makes of an operation is looked up; results
    stay the same to the bit."""
    jax.clear_caches()
    g = jax.grad(lambda x, y: (f(x) * jnp.tanh(y * x)).sum())
    kept = []
    for x, y in ((X, X), (2 * X, X), (X[:2], X[:2])):
        assert len({np.asarray(g(x, y)).tobytes() for _ in range(linearize.RARE + 3)}) == 1
        kept.append(len(linearize._derivatives))
        assert all(d.known is not None for d in linearize._derivatives.values())
    assert kept[0] == kept[1] < kept[2]
    with jax.enable_x64(True):
        assert g(np.float64(X), 2.0).dtype == np.float64
    jax.clear_caches()
    assert not linearize._derivatives


def test_parameters_that_are_not_hashable():
    """A primitive of a library may have them while it is staged, and is linearized by its rule each
    time."""

    def reverse(x, axes):
        return lax.rev_p.call(x, dimensions=axes)[0]

    for _ in range(linearize.RARE + 2):
        jaxpr = jax.make_jaxpr(jax.grad(lambda x: (reverse(x, [0]) * x).sum()))(X)
    assert sum(eqn.primitive is lax.rev_p for eqn in jaxpr.eqns) == 2


def test_higher_orders():
    g = lambda x: jnp.sin(x) * jnp.exp(x)
    x, expected = 0.7, 0.7
    for k in range(1, 5):
        g = jax.grad(g) if k % 2 else jax.jacfwd(g)
    expected = -4 * np.exp(x) * np.sin(x)  # the fourth derivative
    np.testing.assert_allclose(g(x), expected, rtol=1e-5)


def test_hessian_of_quadratic():
    a = np.array([[2.0, 1.0], [1.0, 5.0]], np.float32)
    np.testing.assert_allclose(
        jax.hessian(lambda x: 0.5 * x @ a @ x)(np.ones(2, np.float32)), a, rtol=1e-6
    )


def test_python_control_flow_under_eager_grad():
    def g(x):
        return x**2 if x > 0 else -x

    assert jax.grad(g)(3.0) == 6.0
    assert jax.grad(g)(-3.0) == -1.0
    # A Python float of a value being differentiated would lose the derivative.
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.grad(lambda x: x * float(x))(3.0)


@pytest.mark.parametrize(
    "of",
    [jax.grad, jax.value_and_grad, jax.jacfwd, jax.jacrev, jax.hessian, sparse.grad, sparse.jacrev],
    ids=lambda of: f"{of.__module__}.{of.__name__}",
)
def test_ways_to_say_argnums(of):
    """An index is whatever has `__index__`; whatever else gives indices is a sequence of them."""
    f = lambda x, y: x * y * y
    for number in (1, np.uint8(1), np.array(1), True, -1):
        assert of(f, number)(2.0, 3.0) == of(lambda y: f(2.0, y))(3.0)
    both = jax.tree.map(float, of(f, (0, 1))(2.0, 3.0))
    for numbers in ([0, 1], range(2), np.array([0, 1]), {0: "x", 1: "y"}, (np.int64(-2), True)):
        found = of(f, numbers)(2.0, 3.0)
        assert jax.tree.map(float, found) == both
    one = of(f, range(1, 2))(2.0, 3.0)
    assert jax.tree.structure(one) == jax.tree.structure(of(f, (1,))(2.0, 3.0))
    assert jax.tree.leaves(one) == jax.tree.leaves(of(f, 1)(2.0, 3.0))


def test_argnums_of_two_passes():
    f = lambda x, y: x * y * y
    for argnums, expected in ((range(2), (9.0, 12.0)), (np.array(1), 12.0), ([1], (12.0,))):
        fwd, bwd = jax.fwd_and_bwd(f, argnums)
        assert bwd(fwd(2.0, 3.0)[1], 1.0) == expected


def test_argnums_and_trees():
    def loss(p, x, y=1.0):
        return (p["w"] * x).sum() + p["b"][0] * y

    p = {"w": jnp.ones(2), "b": [3.0]}
    g = jax.grad(loss)(p, jnp.arange(2.0))
    np.testing.assert_array_equal(g["w"], [0, 1])
    assert g["b"] == [1.0]
    gp, gx = jax.grad(loss, argnums=(0, 1))(p, jnp.arange(2.0), y=2.0)
    assert gp["b"] == [2.0]
    np.testing.assert_array_equal(gx, [1, 1])
    np.testing.assert_array_equal(jax.grad(loss, argnums=-1)(p, jnp.arange(2.0)), [1, 1])
    value, g = jax.value_and_grad(loss)(p, jnp.arange(2.0))
    assert value == 4.0


def test_a_linearized_function_is_a_pytree():
    y, push = jax.linearize(lambda d: jnp.sin(d["a"]) * d["b"], {"a": 1.0, "b": 2.0})
    t = {"a": 3.0, "b": 4.0}
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(push))
    assert jnp.allclose(jax.jit(lambda f, t: f(t))(push, t), push(t))
    scaled = jax.tree.map(lambda x: 2 * x, push)
    assert jnp.allclose(scaled(t), 2 * push(t))
    assert jnp.allclose(
        jax.vmap(lambda s: push({"a": s, "b": 0.0}))(jnp.arange(3.0)),
        jnp.cos(1.0) * 2.0 * jnp.arange(3.0),
    )
    with pytest.raises(TypeError, match="of another tree"):
        push(1.0)


def test_integer_functions_are_transposed():
    assert jax.linear_transpose(lambda x: jnp.stack([x, 3 * x]), 1)(jnp.array([1, 2])) == (7,)
    with pytest.raises(
        TypeError, match=r"and integer -> integer functions, but got \['int32'\] -> \['float32'\]"
    ):
        jax.linear_transpose(lambda x: x / 2, 1)


def test_has_aux():
    g = lambda x: (x**2, {"twice": 2 * x})
    assert jax.grad(g, has_aux=True)(3.0) == (6.0, {"twice": 6.0})
    assert jax.value_and_grad(g, has_aux=True)(3.0) == ((9.0, {"twice": 6.0}), 6.0)
    assert jax.jvp(g, (3.0,), (1.0,), has_aux=True) == (9.0, 6.0, {"twice": 6.0})
    y, pull, aux = jax.vjp(g, 3.0, has_aux=True)
    assert (y, pull(1.0), aux) == (9.0, (6.0,), {"twice": 6.0})
    y, push, aux = jax.linearize(g, 3.0, has_aux=True)
    assert (y, push(1.0), aux) == (9.0, 6.0, {"twice": 6.0})
    jac, aux = jax.jacrev(g, has_aux=True)(3.0)
    assert (jac, aux) == (6.0, {"twice": 6.0})
    assert jax.jit(jax.grad(g, has_aux=True))(3.0) == (6.0, {"twice": 6.0})
    with pytest.raises(
        TypeError,
        match="aux output to return a two-element tuple, but got an array of type float32",
    ):
        jax.grad(lambda x: x, has_aux=True)(1.0)


def test_integers():
    with pytest.raises(TypeError, match=r"grad requires real- or complex-valued inputs .*int32"):
        jax.grad(lambda x: x * 1.0)(3)
    g = jax.grad(lambda n, x: n * x, argnums=(0, 1), allow_int=True)(3, 2.0)
    assert g[0].dtype == float0
    assert g[1] == 3.0
    y, pull = jax.vjp(lambda n, x: n * x, 3, 2.0)
    assert pull(1.0)[0].dtype == float0
    y, t = jax.jvp(lambda n, x: n * x, (3, 2.0), (np.zeros((), float0), 1.0))
    assert (y, t) == (6.0, 3.0)


def test_complex_convention():
    z = 1.0 + 2.0j
    assert jax.grad(lambda z: (z * z).real)(z) == 2 * z  # no conjugation
    np.testing.assert_allclose(jax.grad(jnp.sin, holomorphic=True)(z), np.cos(z), rtol=1e-6)
    with pytest.raises(TypeError, match="holomorphic"):
        jax.grad(jnp.sin)(z)
    with pytest.raises(TypeError, match="holomorphic=True requires inputs with complex dtype"):
        jax.grad(jnp.sin, holomorphic=True)(1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: jax.grad(lambda x: x)(X),
            TypeError,
            r"Gradient only defined for scalar-output functions. Output had shape: \(3,\)",
        ),
        (lambda: jax.grad(lambda x: (x, x))(1.0), TypeError, "scalar-output"),
        (lambda: jax.grad(lambda x: x > 0)(1.0), TypeError, "real-valued outputs"),
        (lambda: jax.grad(3), TypeError, "callable"),
        (lambda: jax.grad(lambda x: x, argnums=2)(1.0), TypeError, "argnums=2"),
        (lambda: jax.grad(lambda x: x)("a"), TypeError, "not a valid JAX type"),
        (lambda: jax.jvp(f, (1.0,), (1.0, 2.0)), TypeError, "same tree structure"),
        (lambda: jax.jvp(f, (1.0,), (1,)), TypeError, "dtypes must be equal"),
        (
            lambda: jax.jvp(f, (1.0,), (np.ones(2, np.float32),)),
            ValueError,
            "different primal and tangent shapes",
        ),
        (lambda: jax.jvp(f, 1.0, 1.0), TypeError, "tuples or lists"),
        (lambda: jax.vjp(f, 1.0)[1]((1.0,)), ValueError, "tree structure"),
        (
            lambda: jax.vjp(f, X)[1](np.ones(2, np.float32)),
            ValueError,
            r"float32\[2\].*float32\[3\]",
        ),
        (
            lambda: jax.grad(lambda x: x, reduce_axes=("i",))(1.0),
            NotImplementedError,
            "reduce_axes",
        ),
        (lambda: jax.grad(lambda x: "a")(1.0), TypeError, "not a valid JAX type"),
        (lambda: jax.linearize(f, X)[1](1.0), ValueError, "tangent"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_state_is_restored_after_an_error():
    def bad(x):
        raise RuntimeError("boom")

    for transform in (jax.grad, jax.jit, jax.vmap, jax.jacfwd):
        with pytest.raises(RuntimeError, match="boom"):
            transform(bad)(jnp.ones(2))
    assert jax.grad(f)(1.0) == pytest.approx(df(1.0))
    assert jax.jit(f)(1.0) == pytest.approx(float(f(1.0)))


def test_linear_transpose():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    transpose = jax.linear_transpose(lambda x: a @ x, jax.ShapeDtypeStruct((3,), "float32"))
    np.testing.assert_allclose(transpose(np.ones(2, np.float32))[0], a.sum(0))
    with pytest.raises(TypeError, match="linear_transpose only supports"):
        jax.linear_transpose(lambda x: x * 1.5, 1)


def test_stop_gradient():
    assert jax.grad(lambda x: x * lax.stop_gradient(x))(3.0) == 3.0
    assert lax.stop_gradient({"a": 1})["a"] == 1


def test_vjp_function_is_a_pytree():
    _, pull = jax.vjp(f, X)
    np.testing.assert_allclose(jax.jit(lambda p, ct: p(ct))(pull, jnp.ones(3))[0], df(X), rtol=1e-6)


def test_fwd_and_bwd():
    fwd, bwd = jax.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    out, residuals = fwd(2.0, 3.0)
    assert out == 6.0
    assert bwd(residuals, 1.0) == (3.0, 2.0)


def test_closure_convert():
    def integrate(g, x):
        converted, consts = jax.closure_convert(g, x)
        return converted(x, *consts)

    assert jax.grad(lambda a: integrate(lambda x: a * x, 3.0))(2.0) == 3.0
    converted, values = jax.closure_convert(jax.vjp(lambda x, z: z * x, 2.0, 3.0)[1], 2.0)
    with pytest.raises(TypeError, match="inputs to the closure produced by closure_convert"):
        converted(2.0, values)  # which are passed one by one


def test_unused_and_repeated_arguments():
    assert jax.grad(lambda x, y: y)(1.0, 2.0) == 0.0
    assert jax.grad(lambda x: x + x + x)(1.0) == 3.0
    assert jax.jit(jax.grad(lambda x: 3.0))(1.0) == 0.0
    np.testing.assert_array_equal(jax.jacrev(lambda x: jnp.zeros(2))(X), np.zeros((2, 3)))


def test_tangents_of_integers_pass_through_jit():
    g = jax.jit(jax.grad(lambda n, x: n * x, argnums=(0, 1), allow_int=True))
    for _ in range(2):
        n_bar, x_bar = g(3, 2.0)
        assert n_bar.dtype == float0
        assert x_bar == 3.0
    push = jax.jit(lambda n, t: jax.jvp(lambda n: n * 2.0, (n,), (t,)))
    assert push(3, np.zeros((), float0)) == (6.0, 0.0)


def test_gradient_that_is_the_seed_is_an_array():
    for x in (1.0, np.float32(1.0), jnp.ones((), jnp.bfloat16)):
        for wrap in (lambda g: g, jax.jit):
            g = wrap(jax.grad(lambda x: x))(x)
            assert isinstance(g, jax.Array)
            assert g == 1.0
            assert g.dtype == jnp.asarray(x).dtype
    assert (
        str(jax.make_jaxpr(jax.grad(lambda x: x))(np.float32(1)))
        == "{ lambda ; a:f32[]. let  in (1.0:f32[],) }"
    )


@pytest.mark.parametrize("x", [1.0, np.float32(1), np.ones(2, np.float32)])
def test_the_tangent_of_an_array_is_an_array(x):
    for f in (lambda x: x + 1, lambda x: x - 1, lambda x: 2 * x):
        y, t = jax.jvp(f, (x,), (x,))
        assert isinstance(y, jax.Array) and isinstance(t, jax.Array)
        assert t.weak_type is y.weak_type
    assert jax.jvp(lambda x: x, (x,), (x,))[1] is x
    for as_array in (
        jnp.asarray,
        lambda x: lax.convert_element_type(x, jnp.float32),
        lambda x: jnp.array(x, copy=False),
    ):
        y, t = jax.jvp(as_array, (x,), (x,))
        assert isinstance(y, jax.Array) and isinstance(t, jax.Array)
        assert isinstance(jax.vjp(as_array, x)[0], jax.Array)


def test_tracers_say_what_they_hold():
    """A program that linearize records has no tangent yet, but its type."""
    seen = []

    def f(x):
        seen.append(repr(x))
        return x * x

    one, float32 = "primal=1.0", "typeof(tangent)=f32[]"
    jax.jvp(f, (1.0,), (2.0,))
    jax.grad(f)(1.0)
    jax.jvp(jax.grad(f), (1.0,), (1.0,))
    jax.vmap(jax.grad(f))(jnp.ones(2))
    assert seen == [
        f"JVPTracer({one}, tangent=2.0)",
        f"GradTracer({one}, {float32})",
        f"GradTracer(primal=JVPTracer({one}, tangent=1.0), {float32})",
        f"GradTracer(primal=VmapTracer(aval=float32[], batched=float32[2]), {float32})",
    ]
