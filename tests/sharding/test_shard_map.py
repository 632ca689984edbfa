"""shard_map: each device runs the function on its parts.

The oracle is vmap, or the same function on the whole arrays.
"""

import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax

AUTO = (jax.sharding.AxisType.Auto,) * 2
MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=AUTO)
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"))
X = np.linspace(-1.0, 1.0, 64, dtype=np.float32).reshape(8, 8)
W = np.linspace(0.5, 1.5, 64, dtype=np.float32).reshape(8, 8)


def close(x, y):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), x, y)


def matmul(x, w):
    """A layer whose contracted axis is divided over "x" and whose rows are over "y"."""
    return jax.shard_map(
        lambda x, w: lax.psum(x @ w, "x"),
        mesh=MESH,
        in_specs=(P("y", "x"), P("x")),
        out_specs=P("y"),
    )(x, w)


def test_values_eager_and_compiled():
    close(matmul(X, W), X @ W)
    close(jax.jit(matmul)(X, W), X @ W)
    assert jax.jit(matmul)(X, W).sharding.is_equivalent_to(jax.NamedSharding(MESH, P("y")), 2)


def loss(f):
    return lambda x, w: jnp.sum(jnp.sin(f(x, w)))


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_derivatives_are_those_of_the_whole(compiled, check_vma):
    def layer(x, w):
        def part(x, w, v):
            return jnp.tanh(lax.psum(x @ (w * v), "x"))

        v = jnp.sum(w)
        return jax.shard_map(
            part,
            mesh=MESH,
            in_specs=(P("y", "x"), P("x"), P()),
            out_specs=P("y"),
            check_vma=check_vma,
        )(x, w, v)

    def whole(x, w):
        return jnp.tanh(x @ (w * jnp.sum(w)))

    jit = jax.jit if compiled else lambda f: f
    close(jit(jax.grad(loss(layer), (0, 1)))(X, W), jax.grad(loss(whole), (0, 1))(X, W))
    close(jit(lambda *a: jax.jvp(layer, a, a)[1])(X, W), jax.jvp(whole, (X, W), (X, W))[1])
    second = [
        lambda x, w, f=f: jax.grad(lambda w: jnp.sum(jax.grad(loss(f), 1)(x, w) ** 2))(w)
        for f in (layer, whole)
    ]
    close(jit(second[0])(X, W), second[1](X, W))


def test_closed_over_values_have_derivatives():
    def f(c):
        return jax.shard_map(lambda x: x * c, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(X)

    close(jax.jit(f)(2.0), 2 * X)
    close(jax.grad(lambda c: f(c).sum())(2.0), X.sum())


@pytest.mark.parametrize(
    "inner", ["scan", "while", "cond", "remat", "jit", "vmap", "custom_vjp", "custom_jvp", "map"]
)
@pytest.mark.parametrize("compiled", [True, False])
def test_control_flow_and_rules_inside(inner, compiled):
    @jax.custom_vjp
    def twice(x):
        return 2 * x

    twice.defvjp(lambda x: (2 * x, None), lambda _, ct: (3 * ct,))

    @jax.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda p, t: (cube(*p), 4 * p[0] ** 2 * t[0]))
    bodies = {
        "scan": lambda x: lax.scan(lambda c, a: (c * jnp.cos(a), c + a), x[0], x)[1],
        "while": lambda x: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x)
        )[1],
        "cond": lambda x: lax.cond(lax.axis_index("x") % 2 == 0, jnp.sin, jnp.cos, x),
        "remat": jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))),
        "jit": jax.jit(lambda x: jnp.sin(x) * 2),
        "vmap": jax.vmap(lambda r: r / lax.psum(r @ r, "x")),
        "custom_vjp": twice,
        "custom_jvp": cube,
        "map": lambda x: lax.map(jnp.sin, x),
    }

    def f(x):
        return jax.shard_map(
            bodies[inner], mesh=MESH, in_specs=P("x", None), out_specs=P("x", None)
        )(x)

    def rows(x):  # the same, of vmap
        return jax.vmap(bodies[inner], axis_name="x")(x.reshape(4, 2, 8)).reshape(8, 8)

    jit = jax.jit if compiled else lambda f: f
    close(jit(f)(X), rows(X))
    if inner == "while":
        close(jit(lambda x: jax.jvp(f, (x,), (x,))[1])(X), jax.jvp(rows, (X,), (X,))[1])
    else:
        close(
            jit(jax.grad(lambda x: jnp.sum(f(x) ** 2)))(X),
            jax.grad(lambda x: jnp.sum(rows(x) ** 2))(X),
        )


def test_control_flow_and_rules_outside():
    f = jax.shard_map(
        lambda c, x: (c + lax.psum(x, "x"), c * x),
        mesh=MESH,
        in_specs=(P(), P("x")),
        out_specs=(P(), P("x")),
    )

    def g(c, x):
        parts = x.reshape(4, 2)
        return c + parts.sum(0), (c * parts).reshape(8)

    run, ref = (lambda c, x, h=h: lax.scan(jax.checkpoint(h), c, x) for h in (f, g))
    c = np.ones(2, np.float32)
    close(jax.jit(run)(c, X), ref(c, X))
    grads = [
        jax.grad(lambda c, x, h=h: jnp.sum(h(c, x)[1] ** 2) + jnp.sum(h(c, x)[0]), (0, 1))
        for h in (run, ref)
    ]
    close(jax.jit(grads[0])(c, X), grads[1](c, X))
    close(lax.cond(True, lambda: f(c, X[0]), lambda: f(c, X[1])), g(c, X[0]))


def test_vmap_outside():
    f = jax.shard_map(lambda x: lax.psum(x, "x"), mesh=MESH, in_specs=P("x"), out_specs=P())
    close(jax.vmap(f)(X), X.reshape(8, 4, 2).sum(1))
    close(jax.vmap(f, in_axes=1, out_axes=1)(X), X.reshape(4, 2, 8).sum(0))
    jaxpr = jax.make_jaxpr(jax.vmap(f, spmd_axis_name="y"))(X)
    assert "in_specs=(P('y', 'x'),)" in str(jaxpr) and "f32[4,2]{V:(x,y)}" in str(jaxpr)
    close(jax.jit(jax.vmap(f, spmd_axis_name="y"))(X), X.reshape(8, 4, 2).sum(1))
    summed = jax.vmap(
        jax.shard_map(lambda x: lax.psum(x, ("x", "i")), mesh=MESH, in_specs=P("x"), out_specs=P()),
        axis_name="i",
    )
    close(summed(X), np.broadcast_to(X.reshape(8, 4, 2).sum((0, 1)), (8, 2)))


@pytest.mark.parametrize("mesh", [MESH, EXPLICIT], ids=["auto", "explicit"])
def test_partly_by_hand(mesh):
    def part(x):
        return lax.psum(jnp.sin(x), "x") * (1 + lax.axis_index("x") * 0)

    f = jax.jit(
        lambda x: jax.shard_map(
            lambda x: lax.psum(jnp.sin(x), "x"),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P(),
            axis_names={"x"},
        )(x)
    )
    x = jax.device_put(X, jax.NamedSharding(mesh, P("x", "y")))
    close(f(x), np.sin(X).reshape(4, 2, 8).sum(0))
    close(jax.grad(lambda x: f(x).sum())(x), np.cos(X))
    g = jax.jit(
        jax.shard_map(
            lambda x: x + lax.axis_index("x"),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names={"x"},
        )
    )
    close(g(x), X + np.repeat(np.arange(4), 2)[:, None])


def test_nested():
    def outer(x):
        return jax.shard_map(
            lambda x: lax.psum(x, "y") * lax.axis_index("x"),
            in_specs=P(None, "y"),
            out_specs=P(),
            axis_names={"y"},
        )(x)

    f = jax.shard_map(outer, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    expected = X.reshape(8, 2, 4).sum(1) * np.repeat(np.arange(4), 2)[:, None]
    with jax.set_mesh(MESH):
        close(jax.jit(f)(X), expected)
        close(f(X), expected)
    close(
        jax.jit(jax.grad(lambda x: jnp.sum(f(x))))(X),
        np.repeat(np.repeat(np.arange(4.0), 2)[:, None], 8, 1),
    )


def test_python_sees_what_does_not_vary():
    def part(x):
        return x if lax.psum(x.sum(), ("x", "y")) > -1e9 else -x

    close(jax.shard_map(part, mesh=MESH, in_specs=P("x", "y"), out_specs=P("x", "y"))(X), X)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.shard_map(
            lambda x: x if x.sum() > 0 else -x, mesh=MESH, in_specs=P("x"), out_specs=P("x")
        )(X)


def test_values_are_printed_by_device(capsys):
    jax.shard_map(lambda x: print(x) or x, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(
        np.arange(8)
    )
    assert "On cpu:3 at mesh coordinates (x, y,) = (1, 1):\n[2 3]\n" in capsys.readouterr().out


def test_debug_callbacks_are_called_on_each_device():
    seen = []
    f = jax.shard_map(
        lambda x: jax.debug.callback(lambda i: seen.append(int(i)), lax.axis_index("x")) or x,
        mesh=MESH,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    jax.jit(f)(X)
    jax.effects_barrier()
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_specs_are_trees_and_prefixes():
    f = jax.shard_map(
        lambda t, n: ({"a": t["a"] + 1, "b": t["b"]}, n),
        mesh=MESH,
        in_specs=(P("x"), None),
        out_specs=(P("x"), None),
    )
    out, none = f({"a": X, "b": np.arange(4)}, None)
    assert none is None
    close(out, {"a": X + 1, "b": np.arange(4)})
    with jax.set_mesh(EXPLICIT):
        x = jax.device_put(X, P("x"))
        assert jax.typeof(
            jax.jit(jax.shard_map(lambda x: x, out_specs=P("x")))(x)
        ).sharding.spec == P("x", None)
        close(
            jax.smap(lambda x: x.sum(0, keepdims=True), in_axes=0, out_axes=0, axis_name="x")(x),
            X.reshape(4, 2, 8).sum(1),
        )


def test_types_show_over_which_axes_values_vary():
    def part(x):
        assert str(jax.typeof(x)) == "float32[2,8]{V:x}"
        assert str(jax.typeof(x + lax.axis_index("y"))) == "float32[2,8]{V:(x,y)}"
        assert jax.typeof(lax.psum(x, "x")).str_short(short_dtypes=True) == "f32[2,8]"
        assert str(jax.typeof(lax.pcast(jnp.zeros(2), "y", to="varying"))) == "float32[2]{V:y}"
        return x

    jax.jit(jax.shard_map(part, mesh=MESH, in_specs=P("x"), out_specs=P("x")))(X)
    jax.shard_map(part, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(X)


IDENTITY = {"mesh": MESH, "in_specs": P("x"), "out_specs": P("x")}


@pytest.mark.parametrize(
    "change, f, args, text",
    [
        (
            {},
            lambda x: x,
            [np.ones(6)],
            r"args\[0\]|x of shape.*maps array axis 0 \(of size 6\) to mesh axis 'x' \(of size 4\)",
        ),
        (
            {"in_specs": P("x", "y")},
            lambda x: x,
            [np.ones(8)],
            r"in_specs is P\('x', 'y'\) which has length 2.*has rank 1",
        ),
        (
            {},
            lambda x: x.sum(),
            [np.ones(8)],
            r"out_specs is P\('x',?\) which has length 1.*rank 0.*x\[None\]",
        ),
        (
            {"out_specs": P()},
            lambda x: x,
            [np.ones(8)],
            r"statically inferred.*f32\[2\]\{V:x\}.*mesh axes \{\} and not \{x\}.*check_vma=False",
        ),
        (
            {"in_specs": P("z")},
            lambda x: x,
            [np.ones(8)],
            r"in_specs.*names the axes \['z'\], which the mesh does not have",
        ),
        (
            {"axis_names": {"y"}},
            lambda x: x,
            [np.ones(8)],
            r"in_specs refers to 'x' in P\('x',?\), which is not one of the manual",
        ),
        ({"axis_names": {"z"}}, lambda x: x, [np.ones(8)], r"to be a subset of mesh.axis_names"),
        ({"mesh": None}, lambda x: x, [np.ones(8)], "The context mesh cannot be empty"),
        (
            {},
            lambda x: lax.psum(x, ("x", "y")),
            [np.ones(8)],
            r"psum can only accept.*'varying', 'invarying'",
        ),
        (
            {},
            lambda x: lax.pcast(x, "x", to="varying"),
            [np.ones(8)],
            "Unsupported pcast from=varying, to='varying'",
        ),
        ({"in_specs": (P("x"), P("x"))}, lambda x: x, [np.ones(8)], "shard_map in_specs"),
    ],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_errors(change, f, args, text, compiled):
    mapped = jax.shard_map(f, **{**IDENTITY, **change})
    with pytest.raises(ValueError, match=rf"(?s){text}"):
        (jax.jit(mapped) if compiled else mapped)(*(a.astype(np.float32) for a in args))


def test_errors_of_kinds():
    with pytest.raises(TypeError, match="in_specs is 'x' of type str"):
        jax.shard_map(lambda x: x, mesh=MESH, in_specs="x", out_specs=P())
    with pytest.raises(TypeError, match="requires a `jax.sharding.Mesh`"):
        jax.shard_map(lambda x: x, mesh=3, in_specs=P(), out_specs=P())(X)
    with pytest.raises(
        TypeError,
        match=r"(?s)carry c has type float32\[\] .*float32\[\]\{V:x\}.*pcast\(\.\.\., \('x',\)",
    ):
        jax.jit(
            jax.shard_map(
                lambda x: lax.scan(lambda c, a: (c + a, a), jnp.zeros(()), x)[1], **IDENTITY
            )
        )(np.ones(8, np.float32))


def test_types_are_derived_in_a_process_that_has_seen_none():
    code = (
        "import teucer as jax, numpy as np\nf = jax.shard_map(lambda x: jax.lax.pcast(x, 'x', "
        "to='varying'), mesh=jax.make_mesh((1,), ('x',)), in_specs=jax.P(),\n"
        "                  out_specs=jax.P('x'))\nassert 'f32[2]{V:x} = pvary' in "
        "str(jax.make_jaxpr(f)(np.ones(2, np.float32)))\n"
        "jax.jit(jax.grad(lambda x: f(x).sum()))(np.ones(2, np.float32))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "spec, names, inner",
    [(P("x"), {"x"}, "float32[2,8@y]{V:x}"), (P(None, "y"), {"y"}, "float32[8@x,4]{V:y}")],
)
def test_explicit_types_of_the_axes_that_are_left(spec, names, inner):
    with jax.set_mesh(EXPLICIT):

        def part(x):
            assert str(jax.typeof(x)) == inner
            return jnp.sin(x) * 2

        x = jax.device_put(X, P("x", "y"))
        f = jax.shard_map(part, out_specs=spec, axis_names=names)
        close(f(x), np.sin(X) * 2)
        close(jax.jit(f)(x), np.sin(X) * 2)
        close(jax.jit(jax.grad(lambda x: jnp.sum(f(x))))(x), np.cos(X) * 2)


LOOPS = {
    "gamma": lambda x: jax.random.gamma(
        jax.random.fold_in(jax.random.key(0), lax.axis_index("x")), jnp.abs(x) + 1
    ),
    "poisson": lambda x: (
        jax.random.poisson(
            jax.random.fold_in(jax.random.key(0), lax.axis_index("x")), jnp.abs(x) + 1
        )
        * 1.0
    ),
    "choice": lambda x: x[
        :,
        jax.random.choice(
            jax.random.fold_in(jax.random.key(0), lax.axis_index("x")), 8, (8,), replace=False
        ),
    ],
    "polyval": lambda x: jnp.polyval(jnp.arange(3.0), x),
    "sort": lambda x: jnp.sort(x, -1),
    "gcd": lambda x: jnp.gcd((x * 100).astype(int), 12) * 1.0,
    "searchsorted": lambda x: jnp.searchsorted(jnp.arange(4.0) / 4, x) * 1.0,
    "expi": lambda x: jax.scipy.special.expi(jnp.abs(x) + 1),
    "cumsum": lambda x: jnp.cumsum(x, -1),
    "qr": lambda x: jnp.linalg.qr(x.T @ x + jnp.eye(8))[1][:2],
    "eigh": lambda x: jnp.linalg.eigh(x.T @ x)[0][:2, None] + x,
    "expm": lambda x: jax.scipy.linalg.expm(x.T @ x)[:2],
    "solve": lambda x: jnp.linalg.solve(x.T @ x + jnp.eye(8), x.T).T,
    "lgamma": lambda x: lax.lgamma(x + 2),
    "map": lambda x: lax.map(jnp.sum, x)[:, None] + x,
}


@pytest.mark.parametrize("name", LOOPS)
def test_library_functions_with_loops(name):
    f = jax.shard_map(LOOPS[name], mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(
        jax.jit(f)(X),
        jax.vmap(LOOPS[name], axis_name="x")(X.reshape(4, 2, 8)).reshape(8, 8),
        rtol=2e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize(
    "f", [lambda x, w: x * w, lambda x, w: jnp.where(x > 0, x, w), lambda x, w: jnp.hypot(x, w)]
)
def test_devices_sum_cotangents_before_they_are_repeated(f):
    """A small operand that all devices have is cast to vary before it is broadcast, as in JAX."""
    step = jax.shard_map(
        jax.grad(lambda w, x: f(x, w).sum()), mesh=MESH, in_specs=(P(), P("x")), out_specs=P()
    )
    [call] = jax.make_jaxpr(step)(jnp.ones(3), jnp.ones((8, 3))).eqns
    sums = [e for e in call.params["jaxpr"].eqns if e.primitive.name == "psum_invariant"]
    assert sums and all(e.invars[0].aval.shape == (3,) for e in sums)


@pytest.mark.parametrize(
    "like",
    [
        jnp.zeros_like,
        lambda x: lax.full_like(x, 0),
        lambda x: jnp.full_like(x, 0, dtype=x.dtype),
        lambda x: jnp.zeros_like(jax.eval_shape(lambda x: 2 * x, x)),
    ],
    ids=range(4),
)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_what_is_made_like_a_value_varies_as_it_does(like, wrap):
    """So that it may begin a loop: a carry must vary at the start as at the end."""
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    value = np.arange(8, dtype=np.float32).reshape(8, 1)

    def part(x):
        start = like(x[0])
        assert jax.typeof(start).vma == frozenset({"x"})
        return lax.scan(lambda c, row: (c + row, None), start, x)[0][None]

    summed = wrap(jax.shard_map(part, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x")))
    np.testing.assert_array_equal(
        np.asarray(summed(value)), value.reshape(4, 2).sum(1, keepdims=True)
    )


def test_axes_that_an_explicit_mesh_has_not_are_refused_by_name():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    for specs in ({"in_specs": P("y"), "out_specs": P()}, {"in_specs": P(), "out_specs": P("y")}):
        with pytest.raises(ValueError, match=r"names the axes \['y'\], which the mesh does not"):
            jax.shard_map(lambda x: x, mesh=mesh, **specs)(np.ones(8))
