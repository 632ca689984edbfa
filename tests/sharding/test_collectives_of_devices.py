"""Collectives between devices are those between the elements of a vmap, values and derivatives."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax

MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
SIZES = {"x": 4, "y": 2}

COLLECTIVES = {
    "psum": lax.psum,
    "pmean": lax.pmean,
    "pmax": lax.pmax,
    "pmin": lax.pmin,
    "all_gather": lax.all_gather,
    "all_gather tiled": lambda x, a: lax.all_gather(x, a, axis=1, tiled=True),
    "all_gather last": lambda x, a: lax.all_gather(x, a, axis=-1),
    "psum_scatter": lambda x, a: lax.psum_scatter(jnp.repeat(x, 8, 0)[: size_of(a)], a),
    "psum_scatter tiled": lambda x, a: lax.psum_scatter(x, a, scatter_dimension=1, tiled=True),
    "all_to_all": lambda x, a: lax.all_to_all(x, a, 1, 0, tiled=True),
    "all_to_all new axis": lambda x, a: lax.all_to_all(x[:, : size_of(a)], a, 1, 0),
    "pbroadcast": lambda x, a: lax.pbroadcast(x, a, 1),
    "ppermute": lambda x, a: lax.ppermute(x, a, [(0, 1), (1, 0)]),
    "pshuffle": lambda x, a: lax.pshuffle(x, a, list(range(size_of(a)))[::-1]),
    "axis_index": lambda x, a: x + lax.axis_index(a).astype(x.dtype),
    "pswapaxes": lambda x, a: lax.pswapaxes(x[:, : size_of(a)], a, 1),
}
NO_DERIVATIVE = {"pmax", "pmin"}


def size_of(axes):
    return int(np.prod([SIZES[a] for a in ((axes,) if isinstance(axes, str) else axes)]))


def of_devices(f, axes, check_vma=True, mesh=MESH, **options):
    """f(x, axes) on the parts of x, whose first axes are those named."""
    names = (axes,) if isinstance(axes, str) else axes

    def part(x):
        return f(x.reshape(x.shape[len(names) :]), axes)[(None,) * len(names)]

    return jax.shard_map(
        part, mesh=mesh, in_specs=P(*names), out_specs=P(*names), check_vma=check_vma, **options
    )


def of_elements(f, axes):
    names = (axes,) if isinstance(axes, str) else axes
    mapped = lambda x: f(x, axes)
    for name in reversed(names):
        mapped = jax.vmap(mapped, axis_name=name)
    return mapped


def draw(axes, dtype="float32"):
    names = (axes,) if isinstance(axes, str) else axes
    shape = (*(SIZES[a] for a in names), 3, 8)
    x = np.random.RandomState(0).randint(-9, 9, shape)
    return (x + 1j * x[::-1]).astype(dtype) if "complex" in dtype else x.astype(dtype)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("axes", ["x", "y", ("x", "y"), ("y", "x")], ids=str)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_values(name, axes, compiled):
    if not compiled and axes not in ("x", ("x", "y")):
        pytest.skip("said by the other two")
    f, x = COLLECTIVES[name], draw(axes)
    run = of_devices(f, axes)
    np.testing.assert_allclose(
        (jax.jit(run) if compiled else run)(x), of_elements(f, axes)(x), rtol=1e-6
    )


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("axes", ["x", ("x", "y")], ids=str)
@pytest.mark.parametrize("name", sorted(set(COLLECTIVES) - NO_DERIVATIVE))
def test_derivatives(name, axes, check_vma):
    f, x = COLLECTIVES[name], draw(axes)
    both = [of_devices(f, axes, check_vma), of_elements(f, axes)]
    weights = np.random.RandomState(1).standard_normal(both[1](x).shape).astype(np.float32)
    grads = [jax.jit(jax.grad(lambda x, g=g: jnp.sum(g(jnp.sin(x)) * weights)))(x) for g in both]
    np.testing.assert_allclose(*grads, rtol=1e-5, atol=1e-5)
    tangents = [jax.jit(lambda x, g=g: jax.jvp(g, (x,), (jnp.cos(x),))[1])(x) for g in both]
    np.testing.assert_allclose(*tangents, rtol=1e-5, atol=1e-5)


DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float8_e4m3fn",
    "float8_e5m2",
    "int4",
    "uint4",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["psum", "pmax", "pmin", "all_gather", "all_to_all", "ppermute", "pbroadcast"]
)
def test_dtypes(name, dtype):
    f, x = (
        COLLECTIVES[name],
        jnp.asarray(draw("x", dtype) if "complex" in dtype else draw("x") % 3, dtype),
    )
    got, expected = jax.jit(of_devices(f, "x"))(x), of_elements(f, "x")(x)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(
        np.asarray(got).astype(np.complex64), np.asarray(expected).astype(np.complex64)
    )


GROUPS = {"equal": [[0, 2], [1, 3]], "unequal": [[0, 2, 3], [1]]}


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("groups", GROUPS.values(), ids=list(GROUPS))
@pytest.mark.parametrize("name, reduce", [("psum", np.sum), ("pmax", np.max), ("pmin", np.min)])
def test_groups(name, reduce, groups, check_vma):
    x = draw("x")
    expected = np.empty_like(x)
    for group in groups:
        expected[group] = reduce(x[group], 0)
    f = of_devices(
        lambda x, a: COLLECTIVES[name].__call__(x, a, axis_index_groups=groups), "x", check_vma
    )
    np.testing.assert_array_equal(jax.jit(f)(x), expected)


@pytest.mark.parametrize("name", ["all_gather", "psum_scatter", "all_to_all"])
def test_groups_that_exchange(name):
    groups, x = [[0, 2], [1, 3]], draw("x")
    f = {
        "all_gather": lambda x, a: lax.all_gather(x, a, axis_index_groups=groups),
        "psum_scatter": lambda x, a: lax.psum_scatter(
            x, a, scatter_dimension=1, axis_index_groups=groups, tiled=True
        ),
        "all_to_all": lambda x, a: lax.all_to_all(x, a, 1, 0, axis_index_groups=groups, tiled=True),
    }[name]
    got = jax.jit(of_devices(f, "x"))(x)
    for group in groups:

        def alone(x, a=None):
            return {
                "all_gather": lambda x: lax.all_gather(x, "x"),
                "psum_scatter": lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
                "all_to_all": lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True),
            }[name](x)

        np.testing.assert_array_equal(
            np.asarray(got)[group], jax.vmap(alone, axis_name="x")(x[group])
        )


def test_over_an_axis_of_vmap_and_one_of_the_mesh():
    x = draw(("x", "y"))
    f = lambda x: lax.psum(x, ("x", "v")) + lax.axis_index("v")
    mapped = jax.shard_map(
        lambda x: jax.vmap(f, axis_name="v")(x[0])[None],
        mesh=MESH,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    expected = jax.vmap(jax.vmap(f, axis_name="v"), axis_name="x")(x)
    np.testing.assert_array_equal(mapped(x), expected)


def test_invariant_gather():
    f = lambda x, a: lax.all_gather(x, a, to="invarying")
    run = jax.shard_map(lambda x: f(x[0], "x"), mesh=MESH, in_specs=P("x"), out_specs=P())
    x = draw("x")
    np.testing.assert_array_equal(jax.jit(run)(x), x)
    weights = np.arange(96, dtype=np.float32).reshape(x.shape)
    np.testing.assert_array_equal(jax.grad(lambda x: jnp.sum(run(x) * weights))(x), weights)


@pytest.mark.parametrize("parts", [1, 2])
def test_ragged_exchange(parts):
    """Rows of different numbers, against NumPy."""
    n, r = 4, np.random.RandomState(parts)
    sizes = r.randint(0, 3, (n, n * parts))
    starts = np.stack([np.concatenate([[0], np.cumsum(row)[:-1]]) for row in sizes])
    rows = r.standard_normal((n, 2 * n * parts, 3)).astype(np.float32)
    received = sizes.reshape(n, n, parts).transpose(1, 0, 2).reshape(n, -1)
    places = (
        np.stack([np.concatenate([[0], np.cumsum(row)[:-1]]) for row in received])
        .reshape(n, n, parts)
        .transpose(1, 0, 2)
    )
    places = places.reshape(n, -1)
    expected = np.full((n, 2 * n * parts, 3), -1.0, np.float32)
    for i in range(n):
        for j in range(n):
            for k in range(parts):
                c = j * parts + k
                expected[j, places[i, c] : places[i, c] + sizes[i, c]] = rows[
                    i, starts[i, c] : starts[i, c] + sizes[i, c]
                ]

    def exchange(x, *numbers):
        return lax.ragged_all_to_all(x, jnp.full_like(x, -1.0), *numbers, axis_name="x")

    args = rows, starts, sizes, places, received
    run = jax.shard_map(
        lambda *a: exchange(*(v[0] for v in a))[None], mesh=MESH, in_specs=P("x"), out_specs=P("x")
    )
    np.testing.assert_array_equal(jax.jit(run)(*args), expected)
    np.testing.assert_array_equal(jax.vmap(exchange, axis_name="x")(*args), expected)
    functions = run, jax.vmap(exchange, axis_name="x")
    both = [
        jax.jit(jax.grad(lambda x, f=f: jnp.sum(jnp.sin(f(x, *args[1:])))))(rows) for f in functions
    ]
    np.testing.assert_allclose(*both, rtol=1e-6)


def test_ragged_exchange_of_groups():
    """Each group exchanges by itself; elements have the order in which the group lists them."""
    groups, r = [[2, 0], [1, 3]], np.random.RandomState(0)
    sizes = r.randint(0, 3, (4, 2))
    starts = np.stack([[0, row[0]] for row in sizes])
    received, places = np.zeros_like(sizes), np.zeros_like(sizes)
    for group in groups:
        received[group] = sizes[group].T
        places[group] = np.stack([[0, 0], sizes[group[0]]])
    args = r.standard_normal((4, 4, 3)).astype(np.float32), starts, sizes, places, received

    def exchange(x, *numbers, groups=None):
        return lax.ragged_all_to_all(
            x, jnp.full_like(x, -1.0), *numbers, axis_name="x", axis_index_groups=groups
        )

    expected = np.zeros((4, 4, 3), np.float32)
    for group in groups:
        expected[group] = jax.vmap(exchange, axis_name="x")(*(a[group] for a in args))
    run = jax.shard_map(
        lambda *a: exchange(*(v[0] for v in a), groups=groups)[None],
        mesh=MESH,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    np.testing.assert_array_equal(jax.jit(run)(*args), expected)
    np.testing.assert_array_equal(
        jax.vmap(lambda *a: exchange(*a, groups=groups), axis_name="x")(*args), expected
    )


def test_means_of_groups_of_several_sizes():
    x, groups = draw("x"), [[0, 2, 3], [1]]
    expected = np.stack([x[[0, 2, 3]].mean(0) if i != 1 else x[1] for i in range(4)])
    f = lambda x, a: lax.pmean(x, a, axis_index_groups=groups)
    np.testing.assert_allclose(jax.jit(of_devices(f, "x"))(x), expected, rtol=1e-6)
    np.testing.assert_allclose(of_elements(f, "x")(x), expected, rtol=1e-6)
    sizes = of_elements(lambda x, a: lax.psum(2, a, axis_index_groups=groups), "x")(x)
    np.testing.assert_array_equal(sizes, [6, 2, 6, 6])


@pytest.mark.parametrize("dtype", ["bool", "int4", "bfloat16", "complex64"])
def test_extremes_of_groups_over_several_axes(dtype):
    """Where the axes of vmap and of the mesh mix, groups are rows of one collective of all."""
    names, groups = ("x", "v"), [[0, 5, 6], [1, 2], [7, 4, 3]]
    x = jnp.asarray(np.arange(8).reshape(4, 2) * 3 % 8, dtype)
    mapped = jax.shard_map(
        lambda x: jax.vmap(lambda v: lax.pmax(v, names, axis_index_groups=groups), axis_name="v")(
            x[0]
        )[None],
        mesh=MESH,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    flat = np.asarray(x).astype(np.complex64).reshape(-1)
    expected = flat.copy()
    for group in groups:
        expected[group] = flat[group].max()
    np.testing.assert_array_equal(np.asarray(mapped(x)).astype(np.complex64).reshape(-1), expected)


def test_futures():
    """A collective that is begun in one function and waited for in another, with its derivative."""
    x = draw("x")

    def f(x, a):
        begun = jax.jit(
            lambda x: lax.psum_scatter_start({"x": x}, a, scatter_dimension=1, tiled=True)
        )(x)
        return jnp.sin(x[:, :2]) + begun["x"].done()

    plain = lambda x, a: jnp.sin(x[:, :2]) + lax.psum_scatter(x, a, scatter_dimension=1, tiled=True)
    grads = [
        jax.jit(jax.grad(lambda x, g=g: jnp.sum(of_devices(g, "x")(x) ** 2)))(x) for g in (f, plain)
    ]
    np.testing.assert_array_equal(*grads)
    np.testing.assert_array_equal(of_elements(f, "x")(x), of_elements(plain, "x")(x))


def test_ragged_exchange_errors():
    x, n = np.ones((4, 3, 2), np.float32), np.ones((4, 4), np.int32)
    f = lambda x, y, n: lax.ragged_all_to_all(x, y, n, n, n, n, axis_name="x")
    for args, text in [
        ((x, x[..., 0], n), "agree but in the number"),
        ((x, x, n[:, :3]), "as many for each of the 4 elements"),
    ]:
        with pytest.raises(ValueError, match=text):
            jax.vmap(f, axis_name="x")(*args)
