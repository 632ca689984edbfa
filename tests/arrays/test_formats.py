"""Layouts in memory.

Where they are asked for arrays lie so, and nothing that is computed depends on how arrays lie.
"""

import itertools
import pickle

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._arrays import formats
from teucer._optimize.checker import check_jaxpr
from teucer._programs import run
from teucer.experimental import serialize_executable
from teucer.experimental.layout import Format, Layout, with_layout_constraint

DEVICE = jax.devices("cpu")[0]
HERE = jax.sharding.SingleDeviceSharding(DEVICE)
ROWS, COLUMNS = Format(Layout((0, 1)), HERE), Format(Layout((1, 0)), HERE)
AUTO = Format(Layout.AUTO)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def order(x):
    return x.format.layout.major_to_minor


def columns(x=X):
    return jax.device_put(x, COLUMNS)


DTYPES = [
    "float32",
    "float64",
    "bfloat16",
    "float16",
    "int8",
    "int32",
    "uint16",
    "bool",
    "complex64",
    "int4",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", [*itertools.permutations(range(3)), (1, 0), (0,), ()])
def test_device_put(dtype, axes):
    with jax.enable_x64(True):
        x = np.arange(int(np.prod(range(2, 2 + len(axes))))).reshape(range(2, 2 + len(axes))) % 7
        x = np.asarray(jnp.asarray(x, dtype))
        y = jax.device_put(x, Format(Layout(axes), HERE))
        assert order(y) == axes and y.committed and y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)
        for again in (np.random.default_rng(len(axes)).permutation(len(axes)), range(len(axes))):
            y = jax.device_put(y, Format(Layout(tuple(map(int, again))), HERE))
            assert order(y) == tuple(again)
            np.testing.assert_array_equal(y, x)


USES = {
    "eager": lambda x: (x * 2, jnp.sin(x), x + X, X - x, -x, x == x.T.T),
    "views": lambda x: (
        x[1],
        x[:, ::2],
        x.T,
        x.reshape(3, 2),
        x.at[0].set(7.0),
        jnp.stack([x, x]),
        x.ravel(),
        jnp.flip(x, 1),
    ),
    "reductions": lambda x: (x.sum(0), x.argmax(1), x.mean(), jnp.sort(x, 0), jnp.cumsum(x, 1)),
    "products": lambda x: (x @ x.T, x.T @ x, jnp.einsum("ij,ik->jk", x, x)),
    "jit": lambda x: jax.jit(lambda x, y: (x * y, x))(x, X),
    "jit of a tree": lambda x: jax.jit(lambda d: d["a"] + 1)({"a": x}),
    "closed over": lambda x: jax.jit(lambda y: x * y)(X),
    "grad": lambda x: jax.grad(lambda x: (jnp.sin(x) * X).sum())(x),
    "vmap": lambda x: jax.vmap(lambda r, c: r * c, (1, 0))(x, x.T),
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c), x[0], x),
    "cond": lambda x: lax.cond(x[0, 1] > 0, lambda x: x * 2, lambda x: x, x),
    "while": lambda x: lax.while_loop(lambda x: x[0, 1] < 9, lambda x: x + 1, x),
    "callback": lambda x: jax.pure_callback(
        lambda x: np.asarray(x) * 2, jax.ShapeDtypeStruct((2, 3), np.float32), x
    ),
    "host": lambda x: (
        np.asarray(x),
        x.tolist(),
        np.from_dlpack(x),
        pickle.loads(pickle.dumps(x)),
        x.copy(),
        float(x[1, 0]),
    ),
    "places": lambda x: (
        jax.device_put(x, jax.devices("cpu")[1]),
        jax.device_put(x, DEVICE),
        jnp.asarray(x),
        jnp.array(x),
    ),
    "ahead of time": lambda x: jax.jit(lambda x: x * 2).lower(X).compile()(x),
    "static": lambda x: jax.jit(lambda x, n: x * n, static_argnums=1)(x, 3),
    "dynamic": lambda x: jax.jit(lambda x: x * 2, dynamic_dims={"x": {0: 4}})(x),
    "export": lambda x: jax.export.export(jax.jit(lambda x: x * 2))(X).call(x),
    "constraint": lambda x: with_layout_constraint(x, Layout((0, 1))),
    "donated": lambda x: jax.jit(lambda x: x * 2, donate_argnums=0)(x),
}


@pytest.mark.parametrize("name", USES)
def test_nothing_depends_on_how_arrays_lie(name):
    expected = jax.tree.leaves(USES[name](jnp.asarray(X)))
    for _ in range(3):  # the second call alike is C++'s
        for given in (columns(), jnp.asarray(X), columns()):
            found = jax.tree.leaves(USES[name](given))
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)


def test_pieces(monkeypatch):
    def network(x, ws):
        for w in ws:
            x = x + jnp.tanh(jnp.cos(x * 2) @ w) * jnp.sin(x) - jnp.exp(-x * x)
            x = x * jnp.log1p(x * x) + jnp.sqrt(x * x + 1)
        return x

    x = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
    ws = [np.eye(256, dtype=np.float32) / 100] * 60
    f = jax.jit(network, outline=True)
    expected = f(x, ws)
    f = jax.jit(network, outline=True)
    np.testing.assert_array_equal(f(jax.device_put(x, COLUMNS), ws), expected)
    assert f.lower(x, ws).compile().program.steps is not None
    laid = jax.jit(network, outline=True, in_shardings=(COLUMNS, None), out_shardings=COLUMNS)
    assert (
        laid.lower(x, ws).compile().program.steps is None
    )  # a piece would not know which arguments it has
    result = laid(jax.device_put(x, COLUMNS), ws)
    assert order(result) == (1, 0)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ins", [None, ROWS, COLUMNS, AUTO, Format(Layout.AUTO, HERE)])
@pytest.mark.parametrize("outs", [None, ROWS, COLUMNS, AUTO])
def test_jit_is_told(ins, outs):
    f = jax.jit(lambda x: jnp.sin(x) * 2, in_shardings=ins, out_shardings=outs)
    args = [X, jnp.asarray(X), *([columns()] if ins is COLUMNS else [])]
    for x in args * 2:
        y = f(x)
        np.testing.assert_array_equal(y, jnp.sin(X) * 2)
        if outs is not AUTO:
            assert order(y) == ((1, 0) if outs is COLUMNS else (0, 1))
    compiled = f.lower(X).compile()
    taken, given = compiled.input_formats[0][0], compiled.output_formats
    if isinstance(getattr(ins, "layout", None), Layout):
        assert taken.layout.major_to_minor == ins.layout.major_to_minor
    for x in args:
        y = compiled(x)
        assert order(y) == given.layout.major_to_minor
        np.testing.assert_array_equal(y, jnp.sin(X) * 2)
    assert compiled.out_info.format == given


def test_the_compiler_chooses():
    compiled = jax.jit(lambda x: x.T, in_shardings=AUTO, out_shardings=AUTO).lower(X).compile()
    assert compiled.output_formats.layout.major_to_minor == (1, 0)  # nothing is moved
    np.testing.assert_array_equal(compiled(jax.device_put(X, compiled.input_formats[0][0])), X.T)


PLACES = {
    "first": HERE,
    "another": jax.sharding.SingleDeviceSharding(jax.devices("cpu")[3]),
    "host": HERE.with_memory_kind("pinned_host"),
    "parts": jax.NamedSharding(jax.sharding.Mesh(jax.devices("cpu")[:2], ("x",)), jax.P("x")),
}


@pytest.mark.parametrize(
    ("place", "given"),
    [
        (place, given)
        for place in PLACES
        for given in ("numpy", "uncommitted", "there")
        if (place, given) != ("host", "uncommitted")  # in another memory, which is refused
    ],
)
def test_arrays_are_turned_where_the_program_is(place, given):
    """And not on the default device, nor in another memory. What was given stays as it was."""
    turned = Format(Layout((1, 0)), PLACES[place])
    f = jax.jit(lambda x, y: (x, y), in_shardings=(turned, None), out_shardings=turned)
    with jax.default_device(jax.devices("cpu")[5]):
        x = {
            "numpy": lambda: X,
            "uncommitted": lambda: jnp.asarray(X),
            "there": lambda: jax.device_put(X, turned),
        }[given]()
        for _ in range(2):
            for y in f(x, jax.device_put(X, PLACES[place])):
                assert y.sharding == PLACES[place] and order(y) == (1, 0)
                np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(x, X)
    if given == "uncommitted":
        assert not x.committed and x.devices() == {jax.devices("cpu")[5]} and order(x) == (0, 1)


def test_trees_of_formats():
    f = jax.jit(
        lambda d, y: (d["a"] * y, d["b"]),
        in_shardings=({"a": COLUMNS, "b": None}, None),
        out_shardings=(COLUMNS, None),
    )
    a, b = f({"a": X, "b": X}, X)
    assert (order(a), order(b)) == ((1, 0), (0, 1))
    np.testing.assert_array_equal(a, X * X)


def test_text_and_types_say_it():
    struct = jax.ShapeDtypeStruct((2, 3), np.float32, sharding=COLUMNS)
    assert (
        struct.format == COLUMNS
        and struct.sharding == HERE
        and struct.update(shape=(5, 2)).format == COLUMNS
    )
    assert struct != jax.ShapeDtypeStruct(
        (2, 3), np.float32, sharding=HERE
    ) and "format=Layout" in str(struct)
    assert jax.ShapeDtypeStruct((2,), np.float32).format == Format()
    lowered = jax.jit(lambda x: x * 2, out_shardings=AUTO).lower(struct)
    text = lowered.as_text()
    assert 'mhlo.layout_mode = "{0,1}"' in text and 'mhlo.layout_mode = "auto"' in text
    compiled = lowered.compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(compiled(columns()), X * 2)
    assert jax.jit(lambda x: x, out_shardings=COLUMNS).trace(X).out_info.format == COLUMNS
    assert "layout_mode" not in jax.jit(lambda x: x * 2, in_shardings=ROWS).lower(X).as_text()


def test_donation():
    f = jax.jit(lambda x: x * 2, in_shardings=COLUMNS, out_shardings=COLUMNS, donate_argnums=0)
    x = columns()
    y = f(x)
    assert x.is_deleted() and order(y) == (1, 0)
    np.testing.assert_array_equal(y, X * 2)
    assert "tf.aliasing_output" in f.lower(X).as_text()
    # A result that lies otherwise, or nobody knows how, cannot be written over it.
    for told in (
        {"in_shardings": COLUMNS},
        {"out_shardings": COLUMNS},
        {"in_shardings": AUTO, "out_shardings": AUTO},
    ):
        assert (
            "tf.aliasing_output"
            not in jax.jit(lambda x: x * 2, donate_argnums=0, **told).lower(X).as_text()
        )
    f = jax.jit(lambda x: x * 2, in_shardings=COLUMNS, donate_argnums=0)
    np.testing.assert_array_equal(f(columns()), X * 2)


def test_over_a_mesh():
    mesh = jax.make_mesh((2,), ("i",), devices=jax.devices("cpu")[:2])
    split = jax.NamedSharding(mesh, jax.P(None, "i"))
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    for axes in ((1, 0), (0, 1)):
        given = Format(Layout(axes), split)
        y = jax.device_put(x, given)
        assert (
            order(y) == axes
            and y.sharding == split
            and {order(s.data) for s in y.addressable_shards} == {axes}
        )
        for result in (
            y,
            y * 1,
            jax.jit(lambda x: x + 0)(y),
            jax.device_put(y, jax.NamedSharding(mesh, jax.P("i"))),
            y.T.T,
            jax.device_put(y, DEVICE),
        ):
            np.testing.assert_array_equal(result, x)
        f = jax.jit(lambda x: x * 2, in_shardings=given, out_shardings=given)
        for arg in (x, y):
            z = f(arg)
            assert order(z) == axes and z.sharding.is_equivalent_to(split, 2)
            np.testing.assert_array_equal(z, x * 2)


def test_keys():
    keys = jax.random.split(jax.random.key(0), (2, 3))
    laid = jax.device_put(keys, COLUMNS)
    assert order(laid) == (1, 0, 2)
    for found in (
        laid,
        jax.jit(lambda k: k)(laid),
        jax.jit(lambda k: k, in_shardings=COLUMNS, out_shardings=COLUMNS)(laid),
    ):
        np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(keys))
    np.testing.assert_array_equal(jax.random.bits(laid[1, 2]), jax.random.bits(keys[1, 2]))
    assert jax.jit(lambda k: k).lower(keys).compile().out_info.shape == (2, 3)


def test_serialized():
    compiled = jax.jit(lambda x: x * 2 + 1, in_shardings=COLUMNS).lower(X).compile()
    loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    for x in (X, columns(), jnp.asarray(X)):
        np.testing.assert_array_equal(loaded(x), X * 2 + 1)


def test_within_another_trace_they_say_nothing():
    f = jax.jit(lambda x: x * 2, in_shardings=COLUMNS, out_shardings=COLUMNS)
    np.testing.assert_array_equal(jax.jit(lambda x: f(x) + 1)(X), X * 2 + 1)
    np.testing.assert_array_equal(jax.grad(lambda x: f(x).sum())(X), np.full_like(X, 2))
    np.testing.assert_array_equal(jax.jit(lambda x: jax.device_put(x, COLUMNS) + 1)(X), X + 1)


def test_constraint():
    lay = lambda x: with_layout_constraint(x, Layout((1, 0)))
    assert order(lay(X)) == (1, 0)
    text = jax.jit(lambda x: lay(x * 2) + 1).lower(X).as_text()
    assert "@LayoutConstraint" in text and "dense<[0, 1]> : tensor<2xindex>" in text
    np.testing.assert_array_equal(jax.jit(lambda x: lay(x * 2) + 1)(X), X * 2 + 1)
    np.testing.assert_array_equal(jax.grad(lambda x: (lay(x) ** 2).sum())(X), X * 2)
    np.testing.assert_array_equal(jax.jvp(lay, (X,), (X,))[1], X)
    batch = np.stack([X, X + 1], 2)
    for at in (2, 1):
        batched = jax.vmap(lay, at, at)
        np.testing.assert_array_equal(batched(np.moveaxis(batch, 2, at)), np.moveaxis(batch, 2, at))
    jaxpr = jax.make_jaxpr(jax.vmap(lay, 1))(np.ones((2, 5, 3)))
    (eqn,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "layout_constraint"]
    # The layout (1, 0) of the others, and the new axis before them, wherever it is.
    assert eqn.params["layout"].major_to_minor == (1, 2, 0)
    check_jaxpr(jaxpr.jaxpr)
    a, b = with_layout_constraint((X, X), (Layout((1, 0)), Layout((0, 1))))
    assert (order(a), order(b)) == ((1, 0), (0, 1))


REFUSED = {
    "rank": (
        lambda: jax.device_put(X, Format(Layout((2, 1, 0)), HERE)),
        ValueError,
        r"rank of the value should match.*\(2, 3\)",
    ),
    "rank of jit": (
        lambda: jax.jit(lambda x: x, in_shardings=Format(Layout((0,)), HERE))(X),
        ValueError,
        "One of jit arguments",
    ),
    "rank of a result": (
        lambda: jax.jit(lambda x: x, out_shardings=Format(Layout((0,)), HERE))(X),
        ValueError,
        "jit outputs",
    ),
    "rank of a constraint": (
        lambda: with_layout_constraint(X, Layout((0,))),
        ValueError,
        "with_layout_constraint arguments",
    ),
    "auto": (
        lambda: jax.device_put(X, Format(Layout.AUTO, HERE)),
        ValueError,
        "should be concrete",
    ),
    "what is no layout": (
        lambda: Format((0, 1), HERE),
        TypeError,
        r"layout argument.*\(0, 1\) of type",
    ),
    "what is no sharding": (
        lambda: Format(None, DEVICE),
        TypeError,
        "sharding argument.*Got .*of type",
    ),
    "auto of a struct": (
        lambda: jax.ShapeDtypeStruct((2, 3), np.float32, sharding=AUTO),
        TypeError,
        "cannot be used in place",
    ),
    "another layout": (
        lambda: jax.jit(lambda x: x, in_shardings=COLUMNS)(jax.device_put(X, DEVICE)),
        ValueError,
        "does not match",
    ),
    "auto of an array": (
        lambda: jax.jit(lambda x: x, in_shardings=AUTO)(columns()),
        ValueError,
        "ShapeDtypeStruct",
    ),
    "no layout": (
        lambda: with_layout_constraint(X, COLUMNS),
        ValueError,
        "must be of type `Layout`",
    ),
    "local data": (
        lambda: jax.make_array_from_process_local_data(AUTO, X),
        TypeError,
        "cannot be used in place",
    ),
    "sharding constraint": (
        lambda: lax.with_sharding_constraint(X, COLUMNS.layout),
        TypeError,
        "with_sharding_constraint",
    ),
    "no sharding": (
        lambda: lax.with_sharding_constraint(X, Format()),
        ValueError,
        "got sharding None",
    ),
    "callback": (
        lambda: jax.make_array_from_callback((2, 3), AUTO, lambda i: X[i]),
        TypeError,
        "cannot be used in place",
    ),
    "callback without sharding": (
        lambda: jax.make_array_from_callback((2, 3), Format(), lambda i: X[i]),
        TypeError,
        "no sharding",
    ),
    "rank of parts": (
        lambda: jax.make_array_from_callback((2, 3), Format(Layout((0,)), HERE), lambda i: X[i]),
        ValueError,
        "rank",
    ),
}


@pytest.mark.parametrize("where", [COLUMNS, ROWS])
def test_arrays_of_parts(where):
    made = [
        jax.make_array_from_callback((2, 3), where, lambda i: X[i]),
        jax.make_array_from_process_local_data(where, X),
        jax.make_array_from_process_local_data({"a": where}, {"a": X})["a"],
        lax.with_sharding_constraint(X, where),
    ]
    for y in made:
        assert y.format.layout.major_to_minor == where.layout.major_to_minor and y.sharding == HERE
        np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize("where", [COLUMNS, Format(Layout.AUTO, HERE), Format(None, HERE)])
def test_constraints_by_format(where):
    f = lambda x: (lax.with_sharding_constraint(jnp.sin(x), where) * x).sum()
    np.testing.assert_allclose(
        jax.jit(jax.grad(f))(X), np.cos(X) * X + np.sin(X), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        jax.vmap(lambda r: lax.with_sharding_constraint(r.reshape(1, 3), where))(X)[:, 0], X
    )
    assert ("LayoutConstraint" in jax.jit(f).lower(X).as_text()) == (where is COLUMNS)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        f()


def test_programs_of_chance():
    """Arrays in any order through functions that take and give any order."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(1, 5))
        shape = tuple(map(int, rng.integers(1, 5, n)))
        x = rng.standard_normal(shape).astype(np.float32)
        orders = [tuple(map(int, rng.permutation(n))) for _ in range(4)]
        given, ins, outs, inner = (Format(Layout(o), HERE) for o in orders)
        f = jax.jit(
            lambda x, inner=inner: (with_layout_constraint(x * 2, inner.layout), x.sum(0)),
            in_shardings=ins if rng.integers(2) else None,
            out_shardings=(outs, None),
        )
        for x_ in (x, jax.device_put(x, ins), x):
            y, total = f(x_)
            assert order(y) == orders[2] or min(shape) == 1
            np.testing.assert_array_equal(y, x * 2)
            np.testing.assert_allclose(total, x.sum(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(jnp.cos(jax.device_put(x, given)), jnp.cos(x))


def test_arrays_that_lie_by_rows_are_not_copied(monkeypatch):
    monkeypatch.setattr(run, "in_order", None)
    x = jnp.asarray(X)
    assert formats.order_of(x) is None and formats.order_of(jnp.ones(())) is None
    f = jax.jit(lambda x: x * 3)
    f(x), f(X), x[1], x @ x.T
