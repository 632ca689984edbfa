"""scan and fori_loop: values against Python loops, and every transformation of them."""

import gc
import weakref

import numpy as np
import pytest
from optable.compare import assert_trees_close as assert_close
from optable.laws import SECOND, assert_derivatives, assert_jit, assert_vmap

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import dtypes


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


XS = np.linspace(0.3, 1.7, 5)
W = np.random.default_rng(1).standard_normal((3, 3)) / 2


def loop(f, init, xs, length=None, reverse=False):
    """What scan does, in Python."""
    n = length if xs is None else len(xs)
    carry, rows = init, [None] * n
    for i in reversed(range(n)) if reverse else range(n):
        carry, rows[i] = f(carry, None if xs is None else xs[i])
    return carry, np.stack([np.asarray(r) for r in rows]) if rows and rows[0] is not None else None


def step(c, x):
    return jnp.sin(c) * x + 0.5, c * x


@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 7, True, 0])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_a_loop(reverse, unroll):
    got = lax.scan(step, 0.7, XS, reverse=reverse, unroll=unroll)
    assert_close(got, loop(step, 0.7, XS, reverse=reverse))


@pytest.mark.parametrize("unroll", [1, 2, True])
@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_lengths(length, unroll):
    total, ys = lax.scan(
        lambda c, x: (c + x, c), 1.0, np.arange(length, dtype=float), unroll=unroll
    )
    assert total == 1 + sum(range(length))
    assert ys.shape == (length,)


def test_no_xs():
    assert_close(lax.scan(lambda c, _: (c * 2, c), 1, length=4), (16, np.array([1, 2, 4, 8])))


def test_trees():
    def f(c, x):
        return {"n": c["n"] + 1, "s": (c["s"][0] + x["a"],)}, [x["b"], None, (c["n"], {})]

    carry, ys = lax.scan(f, {"n": 0, "s": (0.0,)}, {"a": XS, "b": np.arange(10).reshape(5, 2)})
    assert_close(carry, {"n": 5, "s": (XS.sum(),)})
    assert_close(ys, [np.arange(10).reshape(5, 2), None, (np.arange(5), {})])


def test_hundred_leaves():
    init = {f"k{i}": float(i) for i in range(100)}
    out, _ = lax.scan(lambda c, _: ({k: v + 1 for k, v in c.items()}, None), init, length=3)
    assert all(out[f"k{i}"] == i + 3 for i in range(100))


def test_body_is_traced_once():
    calls = []

    def f(c, x):
        calls.append(1)
        return c + x, None

    for _ in range(3):
        lax.scan(f, np.float64(0), XS)
    assert len(calls) == 1


def test_eager_is_jit():
    assert_jit(lambda c: lax.scan(step, c, XS), 0.7)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "bfloat16", "float16", "complex64", "complex128"]
)
def test_dtypes(dtype):
    xs = lax.convert_element_type(np.arange(4) % 2, dtypes.dtype(dtype))
    carry, ys = lax.scan(
        lambda c, x: (lax.select(x != jnp.zeros((), x.dtype), x, c), c), jnp.zeros((), dtype), xs
    )
    assert carry.dtype == ys.dtype == xs.dtype
    np.testing.assert_array_equal(np.asarray(ys).astype(complex), [0, 0, 1, 1])


# --- Types of the carry ---


def test_weak_carry_takes_the_type_of_the_body():
    assert lax.scan(lambda c, x: (c + x, None), 0, np.float16([1, 2]))[0].dtype == np.float16
    a, b = lax.scan(lambda c, x: ((c[0] + 1, c[0] * x), None), (1, 1), np.float16([1, 2]))[0]
    assert not lax.fori_loop(0, 2, lambda i, c: c * 2.0, 1).weak_type
    assert a.dtype == np.int64
    assert a.weak_type
    assert b.dtype == np.float16
    assert lax.scan(lambda c, x: (c * 2, c), 1.0, XS)[0].weak_type


def test_carry_that_becomes_strong():
    """The body sees it weak, as at the first step, so that it does not widen what it meets
    there."""
    half = np.float16(2)
    (c, d), ys = lax.scan(
        lambda c, _: ((c[0] + np.float64(1), c[0] * half), (c[0], c[0] * half)),
        (0.0, half),
        None,
        length=2,
    )
    assert (c.dtype, c.weak_type, d.dtype) == (np.float64, False, np.float16)
    assert ys[0].weak_type
    assert ys[1].dtype == np.float16
    c, d = lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + np.float64(1), c[0] * half), (0.0, half)
    )
    assert (c.dtype, c.weak_type, d.dtype) == (np.float64, False, np.float16)


def test_strong_carry_takes_the_type_of_the_body():
    carry, _ = lax.scan(lambda c, x: (1.0, None), np.float64(2), XS)
    assert carry.dtype == np.float64
    assert carry.weak_type


@pytest.mark.parametrize(
    ("f", "init", "match"),
    [
        (
            lambda c, x: ((c, c), x),
            1.0,
            r"(?s)same pytree structure.*\n\nThe input carry c is a pytree leaf but .* is a .*tuple"
            r".*function: <lambda> at .*test_control_scan.py:\d+",
        ),
        (
            lambda c, x: ({"a": c["a"], "b": jnp.zeros(2)}, x),
            {"a": 0, "b": 1.0},
            r"(?s)scan body function carry input and carry output must have equal "
            r"types.*component c\['b'\] has type float64\[\] but the corresponding output carry "
            r"component has type float64\[2\], so the shapes do not match",
        ),
        (
            lambda c, x: (c + lax.convert_element_type(x, complex), x),
            np.float32(1),
            r"carry c has type float32\[\].*complex128\[\], so the dtypes do not",
        ),
        (
            lambda c, x: c,
            1.0,
            r"scan body output must be a pair, got float64\[\]\.",
        ),
        (lambda c, x: (c, x, x), 1.0, r"scan body output must be a pair"),
        (lambda c, x: [c, x], 1.0, r"scan body output must be a pair"),
        (
            lambda c, x: (c, "abc"),
            1.0,
            r"traced for scan returned a value of type <class 'str'> at output component \[1\]",
        ),
        (
            lambda c, x: (c, x),
            "abc",
            r"Argument 'abc' of type <class 'str'> is not a valid JAX type",
        ),
        (3, 1.0, r"lax.scan: f argument should be a callable"),
    ],
)
def test_bad_bodies(f, init, match):
    with pytest.raises(TypeError, match=match):
        lax.scan(f, init, XS)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        (
            {"xs": XS, "length": 4},
            r"`length` argument of 4 which disagrees with leading axis sizes \[5\]",
        ),
        (
            {"xs": (XS, {"k": np.zeros(4)})},
            r"(?s)different leading axis sizes: 5, 4.*xs\[1\]\['k'\]: f64\[4\]",
        ),
        ({"xs": None}, "no values to scan over and `length` not provided"),
        ({"xs": 3.0}, "no leading axis to scan over: xs: f64"),
        ({"xs": XS, "unroll": -1}, "`unroll` must be a `bool` or a non-negative `int`"),
    ],
)
def test_bad_lengths(kwargs, match):
    with pytest.raises(ValueError, match=match):
        lax.scan(lambda c, x: (c, None), 1.0, **kwargs)


def test_traced_length():
    with pytest.raises(
        jax.errors.ConcretizationTypeError, match="`length` argument to `scan` expects a concrete"
    ):
        jax.jit(lambda n: lax.scan(lambda c, x: (c, None), 1.0, None, length=n))(3)


# --- Derivatives ---


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients(reverse):
    assert_derivatives(lambda c, xs: lax.scan(step, c, xs, reverse=reverse), 0.7, XS, laws=SECOND)


def test_gradients_of_closed_over_matrix():
    def f(w, h, xs):
        return lax.scan(lambda h, x: ((n := jnp.tanh(lax.dot(w, h) + x)), n), h, xs)

    assert_derivatives(
        f, W, np.ones(3) / 3, np.random.default_rng(2).standard_normal((4, 3)), laws=SECOND
    )


@pytest.mark.parametrize("unroll", [2, True])
def test_gradients_unrolled(unroll):
    assert_derivatives(lambda c, xs: lax.scan(step, c, xs, unroll=unroll)[0], 0.7, XS)


def test_gradient_is_that_of_the_unrolled_loop():
    def unrolled(c, xs):
        for x in lax.unstack(xs):
            c, _ = step(c, x)
        return c

    got = jax.grad(lambda c, xs: lax.scan(step, c, xs)[0], (0, 1))(0.7, XS)
    assert_close(got, jax.grad(unrolled, (0, 1))(0.7, jnp.asarray(XS)))


def test_integer_and_boolean_carries_under_grad():
    def f(x):
        def body(c, y):
            n, flag, v = c
            return (n + 1, ~flag, lax.select(flag, v * y, v + n)), (n, v)

        (n, _flag, v), (_ns, vs) = lax.scan(body, (0, True, x), XS)
        return v + lax.reduce_sum(vs, (0,)) + n

    assert_derivatives(f, 1.3, laws=SECOND)


def test_carry_starts_to_move_inside():
    # The tangents of b and c are zero at first, and are not after one and two steps.
    assert_derivatives(
        lambda a: lax.scan(
            lambda s, x: ((s[0] * x, s[0] + s[1], s[1] * s[2]), s[2]), (a, 1.0, 2.0), XS
        ),
        0.4,
        laws=SECOND,
    )


def test_sum_from_zero():
    assert_derivatives(
        lambda xs: lax.scan(lambda c, x: (c + x * x, None), 0.0, xs)[0], XS, laws=SECOND
    )


def test_length_zero_gradient():
    assert jax.grad(lambda c: lax.scan(lambda c, x: (c * x, None), c, np.zeros(0))[0])(3.0) == 1.0


def test_hessian():
    def f(c):
        return lax.scan(step, c, XS)[0]

    assert_close(
        jax.hessian(f)(0.7), (jax.grad(f)(0.7 + 1e-6) - jax.grad(f)(0.7 - 1e-6)) / 2e-6, 1e-6
    )


def test_invariant_residuals_are_not_stacked():
    jaxpr = str(
        jax.make_jaxpr(
            jax.grad(lambda k: lax.scan(lambda c, x: (c * jnp.sin(k) + x, None), 1.0, XS)[0])
        )(0.3)
    )
    assert jaxpr.count("cos") == 1
    assert "f64[5] = cos" not in jaxpr
    text = str(
        jax.make_jaxpr(
            lambda w: jax.vjp(
                lambda h: lax.scan(lambda h, x: (lax.dot(w, h), None), h, XS)[0], np.ones(3)
            )
        )(W)
    )
    assert "f64[5,3,3]" not in text


def test_carry_passed_on_is_not_looped():
    jaxpr = jax.make_jaxpr(
        lambda w: lax.scan(lambda c, x: ((c[0], lax.dot(c[1], c[0])), x), (w, np.ones(3)), XS)
    )(W)
    (eqn,) = jaxpr.eqns
    assert eqn.params["num_carry"] == 1
    assert eqn.params["num_consts"] == 1
    assert len(eqn.outvars) == 1


def test_linear_transpose_with_a_counter():
    def f(x):
        return lax.fori_loop(0, 4, lambda i, c: c * 2.0 + x * i, x)

    (got,) = jax.linear_transpose(f, 1.0)(1.0)
    np.testing.assert_allclose(got, f(1.0))


def test_cotangent_of_ys_only():
    assert_derivatives(lambda c: lax.scan(step, c, XS)[1], 0.7, laws=SECOND)


def test_linearize():
    _y, push = jax.linearize(lambda c: lax.scan(step, c, XS)[0], 0.7)
    assert_close(push(2.0), 2 * jax.grad(lambda c: lax.scan(step, c, XS)[0])(0.7))


# --- vmap ---


@pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (0, 0), (None, 1)])
def test_vmap(in_axes):
    c = 0.7 if in_axes[0] is None else np.linspace(0, 1, 3)
    xs = (
        XS
        if in_axes[1] is None
        else np.moveaxis(np.random.default_rng(0).random((3, 5)), 0, in_axes[1])
    )
    assert_vmap(lambda c, xs: lax.scan(step, c, xs), c, xs, in_axes=in_axes)


def test_vmap_batches_the_carry_that_needs_it():
    assert_vmap(
        lambda k: lax.scan(lambda c, x: ((c[1], c[1] * k, c[2] + 1), c[0]), (1.0, 2.0, 0), XS)[0],
        np.arange(3.0),
    )


def test_grad_of_vmap_of_scan():
    def f(c):
        return lax.reduce_sum(jax.vmap(lambda c: lax.scan(step, c, XS)[0])(c), (0,))

    assert_derivatives(f, np.linspace(0.1, 1, 3), laws=SECOND)


def test_vmap_of_grad_of_scan():
    assert_vmap(jax.grad(lambda c: lax.scan(step, c, XS)[0]), np.linspace(0.1, 1, 3))


def test_named_axis_inside():
    got = jax.vmap(lambda c: lax.scan(lambda c, x: (c + x, c), c, XS)[0], axis_name="i")(
        np.arange(3.0)
    )
    assert_close(got, np.arange(3.0) + XS.sum())


# --- Nestings and closures ---


def test_scan_of_cond():
    def f(c):
        return lax.scan(lambda c, x: (lax.cond(x > 1, lambda c: c * x, jnp.sin, c), c), c, XS)

    assert_derivatives(f, 0.8, laws=SECOND)
    assert_vmap(f, np.linspace(0.1, 1, 3))


def test_scan_of_scan():
    def f(c, xs):
        return lax.scan(
            lambda c, x: lax.scan(lambda c, y: (jnp.sin(c * y) + x, c * x), c, xs), c, xs
        )

    assert_derivatives(f, 0.8, XS[:3], laws=SECOND)
    assert_jit(f, 0.8, XS)


def test_scan_in_while():
    def f(c):
        return lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, lax.scan(step, s[1], XS)[0]), (0, c)
        )[1]

    _out, moved = jax.jvp(f, (0.7,), (1.0,))
    assert_close(moved, (f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, 1e-6)
    assert_vmap(f, np.linspace(0.1, 1, 3))


def test_closure_over_every_kind_of_tracer():
    def f(a, b):
        return jax.jit(lambda k: lax.scan(lambda c, x: (c * a + b * k, c), a, XS)[0])(b)

    assert_derivatives(f, 0.6, 0.4, laws=SECOND)
    assert_vmap(f, np.linspace(0.1, 1, 3), np.linspace(1, 2, 3))


def test_closure_is_not_kept():
    seen = []

    def f(k):
        def body(c, x):
            return c * k, None

        seen.append(float(np.asarray(jax.jit(lambda: lax.scan(body, 1.0, XS)[0])())))

    f(2.0), f(3.0)
    assert seen == [32.0, 243.0]


def test_typed_keys():
    keys, ys = lax.scan(lambda k, x: (jax.random.fold_in(k, 1), k), jax.random.key(0), XS, unroll=2)
    k = jax.random.key(0)
    for i in range(5):
        np.testing.assert_array_equal(
            jax.random.key_data(lax.index_in_dim(ys, i, keepdims=False)), jax.random.key_data(k)
        )
        k = jax.random.fold_in(k, 1)
    np.testing.assert_array_equal(jax.random.key_data(keys), jax.random.key_data(k))


def test_keys_under_grad_and_vmap():
    def f(x, key):
        def body(c, k):
            return c * lax.convert_element_type(
                lax.reduce_max(jax.random.key_data(k) % 7, (0,)), float
            ), k

        return lax.scan(body, x, jax.random.split(key, 3))[0]

    key = jax.random.key(3)
    assert_close(jax.grad(f)(2.0, key), f(1.0, key))
    keys = jax.random.split(key, 2)
    assert_close(
        jax.vmap(f, (None, 0))(2.0, keys),
        np.stack([f(2.0, lax.index_in_dim(keys, i, keepdims=False)) for i in range(2)]),
    )


def test_disable_jit():
    with jax.disable_jit():
        assert_close(
            lax.scan(lambda c, x: (c + float(x), {"y": c}), 0.0, XS, reverse=True),
            (XS.sum(), {"y": np.cumsum(np.r_[0, XS[:0:-1]])[::-1]}),
        )
        with pytest.raises(ValueError, match="zero-length scan is not supported in disable_jit"):
            lax.scan(lambda c, x: (c, x), 0.0, np.zeros(0))


# --- fori_loop ---


def test_fori_loop_values():
    assert lax.fori_loop(0, 5, lambda i, c: c + i, 0) == 10
    assert lax.fori_loop(3, 0, lambda i, c: c + i, 1) == 1
    assert lax.fori_loop(-2, 2, lambda i, c: c * 10 + i, 0.0, unroll=3) == -2099
    assert jax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0))(5) == 10
    assert lax.fori_loop(0.0, 3.0, lambda i, c: c + i, 0.0) == 3.0


def test_fori_loop_with_static_bounds_is_a_scan():
    assert_derivatives(lambda x: lax.fori_loop(0, 4, lambda i, c: c * x + i, x), 1.1, laws=SECOND)
    jaxpr = jax.make_jaxpr(lambda x: lax.fori_loop(0, 4, lambda i, c: c * x, x))(1.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["scan"]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "lower, upper", [(0, 3), (np.int8(0), 3), (0, np.int8(3)), (np.int16(0), np.int16(3))]
)
def test_fori_loop_counter(lower, upper, traced):
    # A counter with known bounds is weak: it does not widen a carry.
    out = lax.fori_loop(lower, upper, lambda i, c: c + i, np.int8(1))
    assert out.dtype == np.int8 and out == 4
    if traced:
        loop = jax.jit(lambda lower, upper: lax.fori_loop(lower, upper, lambda i, c: i, lower))
        strong = [np.dtype(type(x)) for x in (lower, upper) if not isinstance(x, int)]
        assert loop(lower, upper).dtype == (strong[0] if strong else np.int64)


def test_fori_loop_bounds_that_do_not_fit():
    with jax.enable_x64(False), pytest.raises(OverflowError):
        lax.fori_loop(0, 2**40, lambda i, c: c, 0)


def test_fori_loop_batched_bound():
    assert_vmap(lambda n: lax.fori_loop(0, n, lambda i, c: c * 2.0 + i, 1.0), np.arange(5))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: lax.fori_loop(np.int32(0), np.int8(3), lambda i, c: c, 1.0),
            "lower and upper .* must have equal types, got int32 and int8",
        ),
        (lambda: lax.fori_loop(0, 3, lambda i, c: (c, c), 1.0), r"carry c is a pytree leaf"),
        (
            lambda: lax.fori_loop(0, 3, lambda i, c: jnp.zeros(3), 1.0),
            r"carry c has type float64\[\] .* float64\[3\]",
        ),
        (
            lambda: lax.fori_loop(0, 3, 3, 1.0),
            "lax.fori_loop: body_fun argument should be callable",
        ),
        (
            lambda: lax.fori_loop(np.zeros(1, int), 3, lambda i, c: c, 1.0),
            "lower and upper must be scalars",
        ),
    ],
)
def test_fori_loop_errors(call, match):
    with pytest.raises(TypeError, match=match):
        call()


def test_fori_loop_unroll_needs_static_bounds():
    with pytest.raises(
        ValueError,
        match="Can only use `unroll` in `fori_loop` if the loop bounds are statically known",
    ):
        jax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 1.0, unroll=2))(5)


def test_memory_of_bodies():
    """A function's trace is kept as long as the function, and no longer."""

    def use():
        def body(c, x):
            return c * 2, x

        lax.scan(body, 1.0, XS)
        jax.grad(lambda c: lax.scan(body, c, XS)[0])(1.0)
        return weakref.ref(body)

    kept = use()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (jax.jit, lambda k: k),
        (lambda h: lambda x: lax.cond(True, h, jnp.sin, x), lambda k: k),
        (
            lambda h: lambda x: lax.scan(lambda c, y: (h(c) * y, None), x, XS)[0],
            lambda k: k**5 * XS.prod(),
        ),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_constants_that_rules_bring_in(wrap, expected, traced):
    def derivative(k):
        @jax.custom_jvp
        def h(x):
            return x * 1.0

        h.defjvp(lambda primals, tangents: (h(*primals), tangents[0] * k))
        return jax.grad(lambda x: lax.reduce_sum(wrap(h)(x), (0,)))(np.ones(3))

    k = np.array([1.0, 2.0, 3.0])
    assert_close((jax.jit(derivative) if traced else derivative)(k), expected(k))


def truncated(bounds):
    """The sum of the counter, and two to the number of steps, of bounds that are known."""
    i = np.arange(*map(int, bounds))
    return i.sum(), 2.0 ** len(i)


BOUNDS = [(0, 1), (0, 0), (1, 0), (0.5, 3.2), (-0.9, 2), (2.9, 3.1)]


@pytest.mark.parametrize("dtype", [bool, "int8", "uint16", "int32", "float16", "bfloat16", "f4"])
@pytest.mark.parametrize("way", ["numpy", "array", "under grad", "under vmap"])
def test_known_bounds_of_any_real_type(dtype, way):
    dtype = np.dtype(dtype)
    for given in BOUNDS:
        bounds = [np.asarray(abs(x) if dtype.kind in "ub" else x).astype(dtype) for x in given]
        if way == "array":
            bounds = [jnp.asarray(x) for x in bounds]

        def loop(x, bounds=bounds):
            if way == "under grad" and dtype.kind != "b":
                bounds = [b + jnp.asarray(x * 0, dtype) for b in bounds]
            return lax.fori_loop(*bounds, lambda i, c: (c[0] + i, 2 * c[1]), (0, x))

        expected = truncated(bounds)
        assert loop(1.0) == expected
        if way == "under vmap":
            x = jnp.array([1.0, 3.0])
            totals, lasts = jax.vmap(loop)(x)
            assert (lasts == expected[1] * x).all() and (totals == expected[0]).all()
        assert jax.grad(lambda x: loop(x)[1])(1.0) == expected[1]


def test_bounds_that_are_no_numbers_of_steps():
    for high, error in [(np.nan, ValueError), (np.inf, OverflowError)]:
        with pytest.raises(error, match="cannot convert float"):
            lax.fori_loop(0.0, high, lambda i, c: c, 0)
    with pytest.raises(TypeError, match="lt does not accept dtype complex"):
        lax.fori_loop(0j, 2 + 0j, lambda i, c: c, 0)


@pytest.mark.parametrize("unroll", [3, True])
def test_traced_unroll(unroll):
    loops = [
        lambda n, x: lax.scan(lambda c, z: (c, z), x, (), 10, unroll=n),
        lambda n, x: lax.fori_loop(0, 10, lambda i, c: c, x, unroll=n),
    ]
    for loop in loops:
        with pytest.raises(jax.errors.ConcretizationTypeError, match="expects a concrete `int`"):
            jax.jit(loop)(unroll, 1.0)
