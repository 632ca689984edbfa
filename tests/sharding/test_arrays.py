"""Arrays over several devices.

Made, read, moved, computed with; the compiler partitions (Auto mesh axes).
"""

import re
import warnings

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._devices.chosen import GSPMDSharding, from_hlo
from teucer.sharding import AxisType, Mesh, NamedSharding

P = jax.P
VALUE = np.arange(32, dtype=np.float32).reshape(8, 4)
SPECS = [P(), P("x"), P("y"), P(None, "x"), P("x", "y"), P(("y", "x")), P(None, ("x",))]


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_put_and_read(mesh, spec):
    value = VALUE.copy()
    x = jax.device_put(value, NamedSharding(mesh, spec))
    value[:] = -1  # the array does not share memory with the caller's
    np.testing.assert_array_equal(np.asarray(x), VALUE)
    assert (
        x.sharding == NamedSharding(mesh, spec)
        and x.committed
        and x.devices() == set(jax.devices())
    )
    assert (
        x.is_fully_replicated == (spec == P())
        and repr(x) == repr(jnp.asarray(VALUE))
        and x.tolist() == VALUE.tolist()
    )
    seen = set()
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), VALUE[shard.index])
        assert (
            shard.data.devices() == {shard.device}
            and float(shard.data.sum()) == VALUE[shard.index].sum()
        )
        seen.add((str(shard.index), shard.replica_id))
    assert len(seen) == 8 and [s.device for s in x.global_shards] == jax.devices()


@pytest.mark.parametrize("new", SPECS, ids=str)
@pytest.mark.parametrize("old", SPECS, ids=str)
def test_move_between_shardings(mesh, old, new):
    x = jax.device_put(VALUE, NamedSharding(mesh, old))
    y = jax.device_put(x, NamedSharding(mesh, new))
    assert y.sharding == NamedSharding(mesh, new)
    np.testing.assert_array_equal(np.asarray(y), VALUE)


def test_move_between_devices_and_meshes(mesh):
    x = jax.device_put(jnp.asarray(VALUE), NamedSharding(mesh, P("x")))
    one = jax.device_put(x, jax.devices()[3])
    assert one.devices() == {jax.devices()[3]}
    back = jax.device_put(one, NamedSharding(Mesh(np.array(jax.devices()[::-1]), ("z",)), P("z")))
    assert back.addressable_shards[0].device == jax.devices()[7]
    for y in (one, back):
        np.testing.assert_array_equal(np.asarray(y), VALUE)


def test_keys_are_arrays_too(mesh):
    keys = jax.random.split(jax.random.key(0), 8)
    spread = jax.device_put(keys, NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(jax.random.key_data(spread), jax.random.key_data(keys))
    draw = jax.vmap(jax.random.normal)
    np.testing.assert_allclose(draw(spread), draw(keys))


def test_arrays_from_callbacks_and_parts(mesh):
    sharding = NamedSharding(mesh, P("x", "y"))
    asked = []

    def part(index):
        asked.append(index)
        return VALUE[index]

    x = jax.make_array_from_callback((8, 4), sharding, part)
    assert len(asked) == 8
    parts = [s.data for s in x.addressable_shards]
    y = jax.make_array_from_single_device_arrays((8, 4), sharding, parts[::-1])  # in any order
    z = jax.make_array_from_process_local_data(sharding, {"a": VALUE}, (8, 4))["a"]
    for found in (x, y, z):
        assert found.sharding == sharding
        np.testing.assert_array_equal(np.asarray(found), VALUE)
    asked.clear()
    jax.make_array_from_callback((8, 4), NamedSharding(mesh, P("x")), part, dtype=VALUE.dtype)
    assert len(asked) == 4  # copies of a part are asked for once
    with pytest.raises(ValueError, match=r"Expected shard shape \(2, 2\).*array shape \(8, 4\)"):
        jax.make_array_from_callback((8, 4), sharding, lambda index: VALUE)
    with pytest.raises(ValueError, match="Expected 8 per-device arrays"):
        jax.make_array_from_single_device_arrays((8, 4), sharding, parts[:4])
    with pytest.raises(ValueError, match=r"Expected shard shape \(4, 2\)"):
        jax.make_array_from_single_device_arrays((16, 4), sharding, parts)
    with pytest.raises(TypeError, match="Unsupported type for elements"):
        jax.make_array_from_single_device_arrays((8, 4), sharding, [VALUE])


@pytest.mark.parametrize(
    "f, spec",
    [
        (lambda x: jnp.sin(x) * 2 + 1, P("x")),
        (lambda x: x.T, P(None, "x")),
        (lambda x: x.sum(1), P("x")),
        (lambda x: x.sum(0), P()),
        (lambda x: x @ np.ones((4, 3), np.float32), P("x")),
        (lambda x: x.reshape(-1), P("x")),
        (lambda x: jnp.sort(x, 0), None),
        (lambda x: x[1], None),
        (lambda x: x.at[0].set(0), None),
        (lambda x: jnp.linalg.svd(x.T @ x)[1], None),
        (lambda x: jnp.cumsum(x, 0), None),
        (lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(4), x)[1], None),
        (jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2)), P("x")),
        (jax.vmap(lambda r: r / r.sum()), None),
    ],
    ids=range(14),
)
def test_computation_follows_data(mesh, f, spec):
    """Eagerly and under jit: the values are those on one device, the sharding is the one that JAX
    0.10.2 shows."""
    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    expected = np.asarray(f(jnp.asarray(VALUE)))
    for y in (f(x), jax.jit(f)(x)):
        np.testing.assert_allclose(np.asarray(y), expected, rtol=2e-5, atol=1e-5)
        assert y.devices() == set(jax.devices()) and y.committed
        assert spec is None or y.sharding.spec == spec


def test_uncommitted_arguments_join_committed_ones_are_refused(mesh):
    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(np.asarray(x + jnp.asarray(VALUE)), 2 * VALUE)
    y = jax.device_put(VALUE, jax.devices()[0])
    ids = (
        r"with shape float32\[8,4\] and with device ids \[0, 1, 2, 3, 4, 5, 6, 7\] on platform CPU"
    )
    for call, names in (
        (lambda: x + y, ("x1 of add", "x2 of add")),
        (lambda: lax.add(x, y), ("0 of add", "1 of add")),
        (
            lambda: jax.jit(lambda tree, y: tree["a"] + y)({"a": x}, y),
            (r"tree\['a'\] of <lambda>", "y of <lambda>"),
        ),
    ):
        with pytest.raises(
            ValueError,
            match=(
                rf"incompatible devices.* Got argument {names[0]} {ids} and argument {names[1]} "
                r"with shape float32\[8,4\] and with device ids \[0\] on platform CPU"
            ),
        ):
            call()
    with pytest.raises(
        ValueError,
        match=r"Got argument x of <lambda> .* and explicit output sharding with device ids \[0\]",
    ):
        jax.jit(lambda x: x, out_shardings=y.sharding)(x)


def test_text_says_the_meshes_and_shardings(mesh):
    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    text = (
        jax.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P(None, "y"))))
        .lower(x)
        .as_text()
    )
    assert "attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}" in text
    assert 'sdy.mesh @mesh = <["x"=4, "y"=2]>' in text
    assert '%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}' in text
    assert re.search(
        r'sdy.sharding_constraint %\d+ <@mesh, \[\{\}, \{"y"\}\]> : tensor<8x4xf32>', text
    )


def test_the_cached_call_stays_in_cpp(mesh):
    calls = []

    @jax.jit
    def f(x):
        calls.append(1)
        return x + 1

    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    for _ in range(
        2
        # loading a program may let others go, and with them what the dispatcher knew of the first
        # call
    ):
        f(x)
    with jax.log_compiles(True), warnings.catch_warnings():
        before = f._cache_size()
        for _ in range(3):
            x = f(x)
        assert (
            f._cache_size() <= before + 1 and len(calls) == 1
        )  # P('x') and P('x', None) are two signatures


def test_jit_in_and_out_shardings(mesh):
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    f = jax.jit(
        lambda d, z: {"s": d["a"] + z, "t": z},
        in_shardings=({"a": rows}, None),
        out_shardings={"s": columns, "t": None},
    )
    for _ in range(2):
        y = f({"a": VALUE}, VALUE)
        assert y["s"].sharding == columns
        np.testing.assert_array_equal(np.asarray(y["s"]), 2 * VALUE)
    g = jax.jit(lambda x, y: (x, y), in_shardings=(rows, (columns, rows)), out_shardings=columns)
    assert [a.sharding for a in jax.tree.leaves(g(VALUE, (VALUE, VALUE)))] == [columns] * 3
    compiled = g.lower(VALUE, (VALUE, VALUE)).compile()
    assert compiled.input_shardings == (
        (rows, (columns, rows)),
        {},
    ) and compiled.output_shardings == (columns, (columns, columns))
    np.testing.assert_array_equal(np.asarray(compiled(VALUE, (VALUE, VALUE))[0]), VALUE)
    h = jax.jit(lambda x: g(x, (x, x))[0] * 2)  # jit in jit: a constraint
    assert "sdy.sharding_constraint" in h.lower(VALUE).as_text()
    np.testing.assert_array_equal(np.asarray(h(VALUE)), 2 * VALUE)
    with jax.set_mesh(mesh):
        k = jax.jit(lambda x: x * 2, in_shardings=P("x"), out_shardings=P())
        assert k(VALUE).sharding.is_fully_replicated


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda m, s: jax.jit(lambda x: x, in_shardings=(s, s))(VALUE),
            ValueError,
            "pjit in_shardings",
        ),
        (
            lambda m, s: jax.jit(lambda x: (x, x), out_shardings=(s, s, s))(VALUE),
            ValueError,
            "pjit out_shardings",
        ),
        (
            lambda m, s: jax.jit(lambda x: x, in_shardings=P("x"))(VALUE),
            RuntimeError,
            "requires a non-empty mesh",
        ),
        (
            lambda m, s: jax.jit(lambda x: x, in_shardings="x")(VALUE),
            TypeError,
            "expected to be PartitionSpec",
        ),
        (
            lambda m, s: jax.jit(lambda x: x, in_shardings=s)(np.ones(7)),
            ValueError,
            "partitioned 4 times",
        ),
        (
            lambda m, s: jax.jit(lambda x: x, out_shardings=s)(np.ones(7)),
            ValueError,
            "partitioned 4 times",
        ),
        (
            lambda m, s: jax.jit(lambda x: x, in_shardings=s)(
                jax.device_put(VALUE, NamedSharding(m, P("y")))
            ),
            ValueError,
            (
                r"(?s)does not match the sharding on the respective "
                r"arg.*P\('x',\).*P\('y',\).*float32\[8,4\]"
            ),
        ),
        (
            lambda m, s: jax.jit(lambda x: x, in_shardings=s)(x=VALUE),
            ValueError,
            "does not support kwargs",
        ),
        (
            lambda m, s: jax.jit(lambda x: lax.with_sharding_constraint(x, P("x")))(VALUE),
            RuntimeError,
            "requires a non-empty mesh",
        ),
        (
            lambda m, s: lax.with_sharding_constraint(np.ones(7), s),
            ValueError,
            "partitioned 4 times",
        ),
        (lambda m, s: lax.with_sharding_constraint(np.ones(()), s), ValueError, "rank at least 1"),
        (
            lambda m, s: lax.with_sharding_constraint(VALUE, "x"),
            TypeError,
            "NamedShardings, SingleDeviceShardings",
        ),
        (
            lambda m, s: jax.jit(lambda x: x, in_shardings=NamedSharding(m.abstract_mesh, P("x")))(
                VALUE
            ),
            ValueError,
            "has no devices",
        ),
    ],
    ids=range(13),
)
def test_misuse(mesh, call, error, message):
    with pytest.raises(error, match=message):
        call(mesh, NamedSharding(mesh, P("x")))


def test_constraint_transforms(mesh):
    s = NamedSharding(mesh, P(None, "y"))

    def f(x):
        return lax.with_sharding_constraint(jnp.sin(x), s)

    assert f(VALUE).sharding == s and jax.jit(f)(VALUE).sharding == s
    np.testing.assert_allclose(
        jax.grad(lambda x: f(x).sum())(VALUE), np.cos(VALUE), rtol=1e-5, atol=1e-6
    )
    batch = np.stack([VALUE] * 4)
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(batch), np.sin(batch), rtol=1e-5, atol=1e-6)
    with jax.set_mesh(mesh):
        row = lambda r: lax.with_sharding_constraint(r, P("y"))
        assert jax.vmap(row, spmd_axis_name="x")(VALUE).sharding.spec == P("x", "y")
        assert "UNCONSTRAINED" in str(jax.make_jaxpr(jax.vmap(row))(VALUE))
        assert '[{?}, {"y"}]' in jax.jit(jax.vmap(row)).lower(VALUE).as_text()


def test_donation(mesh):
    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(y), VALUE + 1)


def test_programs_run_over_the_mesh_in_force(mesh):
    with jax.set_mesh(mesh):
        assert jnp.arange(8).sharding == NamedSharding(mesh, P()) and jnp.arange(8).committed
        assert jax.device_put(VALUE, P("x")).sharding == NamedSharding(mesh, P("x"))
        f = jax.jit(lambda x: x * 2)
        assert f(VALUE).devices() == set(jax.devices())
    assert jnp.arange(8).sharding.num_devices == 1 and f(VALUE).devices() == {jax.devices()[0]}


def test_structs_say_where_arguments_will_be(mesh):
    s = NamedSharding(mesh, P("x"))
    compiled = (
        jax.jit(lambda x: x * 2)
        .lower(jax.ShapeDtypeStruct((8, 4), np.float32, sharding=s))
        .compile()
    )
    assert compiled.input_shardings == ((s,), {})
    np.testing.assert_array_equal(np.asarray(compiled(jax.device_put(VALUE, s))), 2 * VALUE)


def test_a_layout_no_spec_says_can_be_computed_with(mesh):
    """What the compiler chooses for reshape(2, 4, 4) of 8 rows over 4 x 2 devices may need a mesh
    of its own."""
    x = jax.device_put(
        np.arange(24.0, dtype=np.float32).reshape(8, 3), NamedSharding(mesh, P(("x", "y")))
    )
    y = x.reshape(4, 2, 3)
    np.testing.assert_array_equal(np.asarray(y + y), 2 * np.arange(24.0).reshape(4, 2, 3))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_callbacks_run_once(kind, capsys):
    """The host is called once for the whole array, however many devices there are."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    seen = []

    def host(v):
        seen.append(np.shape(v))
        return np.sin(v)

    struct = jax.ShapeDtypeStruct((8, 4), np.float32)
    io = jax.experimental.io_callback
    calls = [
        lambda x: jax.pure_callback(host, struct, x),
        lambda x: io(host, struct, x),
        lambda x: io(host, struct, x, ordered=True),
    ]
    for call in calls:
        y = jax.jit(lambda x: call(x) + x)(x)
        np.testing.assert_allclose(np.asarray(y), np.sin(VALUE) + VALUE, rtol=1e-6)
    assert seen == [(8, 4)] * 3

    @jax.jit
    def show(x):
        jax.debug.print("sum {s}", s=x.sum())
        return x

    show(x)
    jax.effects_barrier()
    assert capsys.readouterr().out == f"sum {VALUE.sum()}\n"


@pytest.mark.parametrize("f", [jnp.max, jnp.min, lambda z: jnp.max(z, 0)])
def test_complex_extremes_along_axes_that_devices_share(mesh, f):
    z = np.random.default_rng(0).integers(-3, 4, (8, 4)) + 1j * np.random.default_rng(1).integers(
        -3, 4, (8, 4)
    )
    z = z.astype(np.complex64)
    np.testing.assert_array_equal(
        jax.jit(f)(jax.device_put(z, NamedSharding(mesh, P("x", "y")))), f(z)
    )


def test_convolutions_over_space_and_features():
    """XLA's partitioner sums wrongly where both are divided; so space is not."""
    mesh = jax.make_mesh((2, 3), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    rng = np.random.default_rng(0)
    a, b = (
        rng.normal(size=(4, 8, 8, 2)).astype(np.float32),
        rng.normal(size=(3, 3, 2, 3)).astype(np.float32),
    )
    f = jax.jit(
        lambda a, b: lax.conv_general_dilated(
            a, b, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    )
    for rows, features in (
        (P(None, "x"), P(None, None, None, "y")),
        (P(None, None, "x"), P(None, None, None, "y")),
    ):
        y = f(
            jax.device_put(a, NamedSharding(mesh, rows)),
            jax.device_put(b, NamedSharding(mesh, features)),
        )
        np.testing.assert_allclose(np.asarray(y), np.asarray(f(a, b)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape, spec, picture",
    [
        (
            (8, 4),
            P("x", "y"),
            "┌───────┬───────┐\n│ CPU 0 │ CPU 1 │\n├───────┼───────┤\n│ CPU 2 │ CPU 3 │\n"
            "├───────┼───────┤\n│ CPU 4 │ CPU 5 │\n├───────┼───────┤\n│ CPU 6 │ CPU 7 │\n"
            "└───────┴───────┘\n",
        ),
        (
            (8,),
            P("y"),
            "┌───────────┬───────────┐\n│CPU 0,2,4,6│CPU 1,3,5,7│\n└───────────┴───────────┘\n",
        ),
        (
            (8,),
            P("x"),
            (
                "┌───────┬───────┬───────┬───────┐\n│CPU 0,1│CPU 2,3│CPU 4,5│CPU 6,7│\n"
                "└───────┴───────┴───────┴───────┘\n"
            ),
        ),
    ],
    ids=["grid", "copies", "row"],
)
def test_pictures(mesh, shape, spec, picture, capsys):
    """As JAX draws them where the output is no terminal."""
    x = jax.device_put(np.ones(shape, np.float32), NamedSharding(mesh, spec))
    jax.debug.visualize_array_sharding(x)
    assert capsys.readouterr().out == picture
    seen = []
    jax.debug.inspect_array_sharding({"a": x}, callback=seen.append)
    assert seen == [x.sharding]
    with pytest.raises(ValueError, match="one or two axes"):
        jax.debug.visualize_sharding((2, 2, 2), x.sharding)
    jax.jit(lambda x: jax.debug.visualize_array_sharding(x + 1))(x)
    assert capsys.readouterr().out == picture


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_what_the_compiler_chose_is_said_by_a_spec(mesh, spec):
    x = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, spec))
    y = jax.jit(lambda x: x * 2)(x)
    assert type(y.sharding) is NamedSharding and y.sharding.is_equivalent_to(x.sharding, 2)


def test_a_chosen_layout_moves_like_any_other(mesh):
    """GSPMDSharding: of tiles that no spec over the mesh says."""
    square = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))
    other = NamedSharding(square, P(("b", "a"), "c"))
    chosen = from_hlo(other._to_xla_hlo_sharding(2), mesh, 2, mesh.device_list)
    assert (
        isinstance(chosen, GSPMDSharding)
        and chosen.is_equivalent_to(other, 2)
        and chosen == GSPMDSharding(mesh.device_list, other._to_xla_hlo_sharding(2))
    )
    x = jax.device_put(VALUE, other)
    y = jax.device_put(VALUE, chosen)
    assert [s.index for s in x.addressable_shards] == [s.index for s in y.addressable_shards]
    np.testing.assert_array_equal(np.asarray(y + 1), VALUE + 1)
    np.testing.assert_array_equal(np.asarray(jax.device_put(y, NamedSharding(mesh, P("x")))), VALUE)


def test_only_shardy_partitions(mesh):
    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    jax.config.update("jax_use_shardy_partitioner", False)
    try:
        with pytest.raises(NotImplementedError, match="partitioned by Shardy"):
            jax.jit(lambda x: x - 3)(x)
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)


def test_programs_that_speak_of_a_mesh_are_not_run_in_pieces(mesh):
    ws = [
        jnp.linspace(-1, i, 160 * 160).reshape(160, 160) / 160 for i in range(12)
    ]  # too large to be stacked for a loop

    def layer(x, w):
        return x + jnp.tanh(jnp.cos(x * 2) @ w) * jnp.sin(x) - jnp.exp(-x * x)

    def f(x, ws):
        for w in ws[:6]:
            x = layer(x, w)
        x = lax.with_sharding_constraint(x, NamedSharding(mesh, P("x")))
        for w in ws[6:]:
            x = layer(x, w)
        return x

    x = jnp.linspace(0, 1, 160 * 160).reshape(160, 160)
    found = jax.jit(f, outline=True)(x, ws)
    assert len(found.devices()) == 8
    np.testing.assert_allclose(found, jax.jit(f, outline=False)(x, ws), rtol=1e-4, atol=1e-5)


def test_jaxlib_finds_the_values_by_the_name_that_it_asks_for(mesh):
    x = jax.device_put(VALUE, NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(x._value, VALUE)


def test_the_mesh_in_force_gives_an_abstract_sharding_its_devices(mesh):
    abstract, concrete = NamedSharding(mesh.abstract_mesh, P("x")), NamedSharding(mesh, P("x"))
    with jax.set_mesh(mesh):
        assert jax.device_put(VALUE, abstract).sharding == concrete
        assert jax.jit(lambda x: x, out_shardings=abstract)(VALUE).sharding == concrete
        assert jax.jit(lambda x: x, in_shardings=abstract)(VALUE).sharding == concrete
    other = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    with jax.set_mesh(other), pytest.raises(ValueError, match="names no devices"):
        jax.device_put(VALUE, abstract)


@pytest.mark.parametrize(
    "of",
    [lambda mesh: NamedSharding(mesh, P("x")), lambda mesh: jax.devices()[0]],
    ids=["mesh", "device"],
)
def test_devices_in_order(mesh, of):
    where = jax.device_put(VALUE, of(mesh)).sharding
    assert (
        where._device_assignment
        == where._addressable_device_assignment
        == tuple(jax.devices()[: where.num_devices])
    )


def test_shardings_of_jit_that_do_not_fit(mesh):
    long = NamedSharding(mesh, P(None, None))
    with pytest.raises(
        ValueError,
        match="only valid for values of rank at least 2, but was applied to a value of rank 1",
    ):
        jax.jit(lambda x: x, in_shardings=long)(jnp.arange(2))
    empty = NamedSharding(Mesh(np.empty((), object), ()), P())
    with pytest.raises(ValueError, match="out_shardings got an empty NamedSharding"):
        jax.jit(lambda x: x, out_shardings=empty)(jnp.arange(2))


def test_broadcast_like_lies_like():
    explicit = jax.make_mesh((4, 2), ("x", "y"))
    like = jax.device_put(VALUE, NamedSharding(explicit, P("x", "y")))
    assert lax.broadcast_like(np.arange(4, dtype=np.float32), like).sharding == like.sharding


@pytest.mark.parametrize("committed", [False, True])
def test_results_on_the_one_device_of_a_mesh(committed):
    """Keras says shardings over a mesh for some results, and a device for others."""
    one = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])
    spread, alone = NamedSharding(one, P("x")), jax.sharding.SingleDeviceSharding(jax.devices()[0])
    x = jax.device_put(VALUE, alone if committed else spread)
    for outs in ((spread, alone), (alone, alone)):
        found = jax.jit(lambda x: (x, x + 1), out_shardings=outs)(x)
        assert tuple(y.sharding for y in found) == outs
        np.testing.assert_array_equal(found[1], VALUE + 1)
    given = jax.jit(
        lambda x, y: (x, y),
        in_shardings=(spread, alone),
        out_shardings=(spread, alone),
        donate_argnums=1,
    )
    assert given(jax.device_put(VALUE, spread), jax.device_put(VALUE, alone))[1].sharding == alone
