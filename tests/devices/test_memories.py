"""Memories: arrays in the host's memory, in types, within programs, and residuals that are moved
there."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.memory import Space
from teucer.sharding import AxisType, NamedSharding, SingleDeviceSharding

P = jax.P
HOST, DEVICE = Space.Host, Space.Device


@pytest.fixture
def x():
    return jnp.arange(8.0)


@pytest.fixture
def host():
    return SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")


def kind(x):
    return x.sharding.memory_kind


def test_spaces():
    assert repr(HOST) == "MemorySpace.Host" and [s.name for s in Space] == ["Device", "Host", "Any"]
    assert jax.memory.Space is Space


def test_default_memory_is_one_sharding():
    device, mesh = jax.devices()[0], jax.make_mesh((8,), ("x",))
    assert SingleDeviceSharding(device) == SingleDeviceSharding(device, memory_kind="device")
    assert NamedSharding(mesh, P("x")) == NamedSharding(mesh, P("x"), memory_kind="device")
    for make in (
        lambda: SingleDeviceSharding(device, memory_kind="hbm"),
        lambda: NamedSharding(mesh, P("x"), memory_kind="hbm"),
    ):
        with pytest.raises(
            ValueError, match="Could not find memory addressable by device cpu.*pinned_host"
        ):
            make()


def test_device_put(x, host):
    for there in (
        jax.device_put(x, host),
        jax.device_put(x, HOST),
        jax.device_put(np.arange(8.0, dtype=np.float32), HOST),
    ):
        assert (kind(there), str(jax.typeof(there)), there.committed) == (
            "pinned_host",
            "float32<host>[8]",
            True,
        )
        assert jax.typeof(there).memory_space is HOST
        np.testing.assert_array_equal(there, np.arange(8))
        back = jax.device_put(there, DEVICE)
        assert (kind(back), back.aval) == ("device", x.aval)
    unpinned = jax.device_put(x, host.with_memory_kind("unpinned_host"))
    assert kind(unpinned) == "unpinned_host" and jax.typeof(unpinned).memory_space is DEVICE
    assert kind(unpinned + 1) == "device" and kind(jax.device_put(unpinned, DEVICE)) == "device"


def test_over_a_mesh():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    there = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    y = jax.device_put(np.arange(8.0, dtype=np.float32), there.with_memory_kind("device"))
    for f in (lambda a: jax.device_put(a + 1, there), lambda a: jax.device_put(a + 1, HOST)):
        z = jax.jit(f)(y)
        assert z.sharding.is_equivalent_to(there, 1)
        assert [s.data.sharding.memory_kind for s in z.addressable_shards] == ["pinned_host"] * 8
    assert jax.jit(lambda a: a + 1, out_shardings=there)(y).sharding == there
    moved = jax.device_put(y, there)
    assert moved.sharding == there
    elsewhere = jax.device_put(moved, NamedSharding(mesh, P("y"), memory_kind="pinned_host"))
    assert kind(elsewhere) == "pinned_host" and elsewhere.sharding.spec == P("y")
    np.testing.assert_array_equal(elsewhere, np.arange(8))


def test_operations_are_where_their_operands_are(x):
    h = jax.device_put(x, HOST)
    for y in (
        h + 1,
        jnp.sin(h),
        jax.jit(lambda a: a)(h),
        jax.jit(lambda a: jnp.sum(a * 2))(h),
        h.reshape(2, 4).T,
        h[0],
    ):
        assert kind(y) == "pinned_host"
    assert str(jax.make_jaxpr(lambda a: a * 2.0 + a)(h)).count("f32<host>[8]") == 3
    for _ in range(3):  # C++ answers from the second call on
        assert kind(h + 1) == "pinned_host" and kind(x + 1) == "device"
    with pytest.raises(
        ValueError,
        match=r"(?s)memory_space of all inputs .* `add` must be the same.*f32<host>\[8\], f32\[8\]",
    ):
        h + x


def test_within_programs(x, host):
    h = jax.device_put(x, HOST)
    assert kind(jax.jit(lambda a: jax.device_put(a, DEVICE) + 1)(h)) == "device"
    for f in (lambda a: jax.device_put(a + 1, HOST), lambda a: jax.device_put(a + 1, host)):
        assert kind(jax.jit(f)(x)) == "pinned_host"
        assert jax.eval_shape(f, x).shape == (8,)
    text = jax.jit(lambda a: jax.device_put(a, DEVICE) + 1).lower(h).as_text()
    assert (
        '%arg0: tensor<8xf32> {mhlo.memory_kind = "pinned_host"}' in text
        and 'mhlo.memory_kind = "device"' in text
    )
    outs = jax.jit(
        lambda a: lax.scan(
            lambda c, v: (c + jax.device_put(v, DEVICE), jax.device_put(v, HOST)), 0.0, a
        )
    )(x)
    assert [*map(kind, outs)] == ["device", "pinned_host"] and outs[0] == 28
    assert kind(jax.vmap(lambda a: jax.device_put(a, HOST))(x)) == "pinned_host"
    traced = jax.jit(lambda a: jax.device_put(a, HOST)).trace(x)
    tpu = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "annotate_device_placement" in tpu and '_xla_buffer_placement = "pinned_host"' in tpu
    back = jax.jit(lambda a: jax.device_put(jax.device_put(a, HOST), DEVICE)).trace(x)
    tpu = back.lower(lowering_platforms=("tpu",)).as_text()
    assert tpu.count("annotate_device_placement") == 2
    assert '_xla_buffer_placement = "device"' in tpu


def test_what_jit_is_told(x, host):
    h = jax.device_put(x, host)
    assert kind(jax.jit(lambda a: a + 1, out_shardings=host)(x)) == "pinned_host"
    assert [*map(kind, jax.jit(lambda a: (a, a + 1), out_shardings=(host, None))(x))] == [
        "pinned_host",
        "device",
    ]
    assert kind(jax.jit(lambda a: jax.device_put(a, DEVICE), in_shardings=host)(h)) == "device"
    assert (
        kind(
            jax.jit(lambda a: a * 2, in_shardings=host, out_shardings=host)(
                np.arange(8.0, dtype=np.float32)
            )
        )
        == "pinned_host"
    )
    message = (
        "Memory kinds passed to jax.jit does not match memory kind on the respective arg. Got jit "
        "memory kind: {}, arg "
    )
    for given, arg in ((host, x), (SingleDeviceSharding(jax.devices()[0]), h)):
        with pytest.raises(ValueError, match=message.format(given.memory_kind)):
            jax.jit(lambda a: a + 1, in_shardings=given)(arg)
    struct = jax.ShapeDtypeStruct((8,), np.float32, sharding=host)
    compiled = jax.jit(lambda a: a + 1).lower(struct).compile()
    assert kind(compiled(h)) == "pinned_host"


def test_what_jit_is_told_of_a_program_that_names_a_mesh(x, host):
    """One of the device where the arguments are."""
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("x",))
    double = jax.shard_map(lambda x: x + x, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    f = jax.jit(lambda x: double(jax.device_put(x, DEVICE)), in_shardings=host, out_shardings=host)
    for given in (jax.device_put(x, host), np.asarray(x)):  # whether its type says it or not
        y = f(given)
        assert kind(y) == "pinned_host"
        np.testing.assert_array_equal(y, 2 * x)
        assert f.lower(given).as_text().count('mhlo.memory_kind = "pinned_host"') == 2


def test_donated(x, host):
    y = jax.device_put(x, host)
    z = jax.jit(lambda a: a * 2, donate_argnums=0)(y)
    assert y.is_deleted() and kind(z) == "pinned_host"
    y = jax.device_put(x, host)
    moved = jax.jit(lambda a: jax.device_put(a, DEVICE) * 2, donate_argnums=0)(y)
    assert kind(moved) == "device"
    np.testing.assert_array_equal(moved, 2 * np.arange(8))


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_come_back(x, jit):
    def f(a):
        return jnp.sum(jax.device_put(jax.device_put(jnp.sin(a), HOST), DEVICE) ** 2)

    g = jax.jit(jax.grad(f)) if jit else jax.grad(f)
    assert kind(g(x)) == "device"
    np.testing.assert_allclose(g(x), np.sin(2 * np.arange(8.0)), rtol=1e-5, atol=1e-6)
    in_host = jax.grad(lambda a: jnp.sum(jax.device_put(a, DEVICE) ** 2))(jax.device_put(x, HOST))
    assert kind(in_host) == "pinned_host"
    np.testing.assert_allclose(in_host, 2 * np.arange(8.0))


def test_residuals_are_offloaded(x):
    policies = jax.checkpoint_policies
    named = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["kept"],
        names_which_can_be_offloaded=["moved"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    def f(a):
        a = jax.ad_checkpoint.checkpoint_name(jnp.sin(a), "moved")
        a = jax.ad_checkpoint.checkpoint_name(jnp.sin(a), "kept")
        return jnp.sum(jnp.sin(a))

    g = jax.grad(jax.checkpoint(f, policy=named))
    text = str(jax.make_jaxpr(g)(x))
    assert text.count("f32<host>[8] = device_put") == 1 and text.count("f32[8] = device_put") == 1
    for gradient in (g, jax.jit(g)):
        np.testing.assert_allclose(gradient(x), jax.grad(f)(x), rtol=1e-6)
    _, back = jax.vjp(jax.checkpoint(f, policy=named), x)
    kinds = [kind(r) for r in jax.tree.leaves(back) if getattr(r, "shape", None) == (8,)]
    assert sorted(kinds) == [
        "device",
        "device",
        "pinned_host",
    ]  # x itself, what is kept, what is moved


def test_products_are_offloaded():
    w, x = jnp.ones((4, 4)), jnp.arange(4.0)

    def f(x):
        return jnp.sum(jnp.sin(jnp.sin(x @ w) @ w))

    policy = jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    g = jax.grad(jax.checkpoint(f, policy=policy))
    assert "f32<host>[4] = device_put" in str(jax.make_jaxpr(g)(x))
    np.testing.assert_allclose(jax.jit(g)(x), jax.grad(f)(x), rtol=1e-6)
    # Within a scan residuals are stacked in the host's memory.
    h = jax.grad(
        lambda x: lax.scan(
            jax.checkpoint(lambda c, _: (jnp.sin(c @ w), None), policy=policy), x, None, length=3
        )[0].sum()
    )
    plain = jax.grad(
        lambda x: lax.scan(lambda c, _: (jnp.sin(c @ w), None), x, None, length=3)[0].sum()
    )
    np.testing.assert_allclose(jax.jit(h)(x), plain(x), rtol=1e-5)
    assert "f32<host>[3,4]" in str(jax.make_jaxpr(h)(x))
