"""Arrays from one layout to another.

By devices, between meshes, donated, and to the mesh that a type names.
"""

import itertools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._arrays import transfer
from teucer._derived import exchange
from teucer.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding

P = jax.P
VALUE = np.arange(16 * 4 * 3, dtype=np.float32).reshape(16, 4, 3)


def mesh_of(devices, sizes, names=("x", "y"), kind=AxisType.Auto):
    return Mesh(np.array(devices).reshape(sizes), names, axis_types=(kind,) * len(names))


def layouts():
    """Over all devices in two orders, over four, over two, over six, and on one."""
    devices = jax.devices()
    over = [
        mesh_of(devices, (4, 2)),
        mesh_of(devices[::-1], (4, 2)),
        mesh_of(devices[:4], (2, 2)),
        mesh_of(devices[4:6], (2, 1)),
    ]
    found = [
        NamedSharding(m, spec)
        for m in over
        for spec in (P(), P("x"), P(None, "x"), P(None, "x", None), P("x", "y"))
    ]
    six = mesh_of(devices[2:], (2, 3), ("x", "z"))
    return [
        *found,
        NamedSharding(six, P("x", None, "z")),
        NamedSharding(six, P(None, None, "z")),
        SingleDeviceSharding(devices[3]),
        SingleDeviceSharding(devices[7]),
    ]


@pytest.fixture
def in_host_memory(monkeypatch):
    """Calls of the host for elements of arrays. The devices are taken for ones whose memory it
    cannot read."""

    class Elsewhere:
        in_host_memory = False

    calls = []
    read = transfer.to_numpy
    monkeypatch.setattr(transfer, "to_numpy", lambda x: calls.append(x) or read(x))
    monkeypatch.setattr(exchange, "target_of", lambda device: Elsewhere)
    return calls


def check_moved(old, new):
    x = jax.device_put(jax.device_put(VALUE, old), new)
    assert x.sharding == new and x.committed
    for shard in x.addressable_shards:
        assert shard.data.devices() == {shard.device}
        np.testing.assert_array_equal(np.asarray(shard.data), VALUE[shard.index])


@pytest.mark.parametrize("old, new", [(6, 21), (21, 4), (3, 22)])
def test_devices_send_parts(in_host_memory, old, new):
    check_moved(layouts()[old], layouts()[new])
    assert not in_host_memory


@pytest.mark.slow
def test_devices_send_parts_between_all_layouts(in_host_memory):
    for old, new in itertools.product(layouts(), repeat=2):
        check_moved(old, new)
        assert not in_host_memory, (old, new)


@pytest.mark.slow
def test_layouts_of_devices_whose_memory_the_host_reads():
    for old, new in itertools.product(layouts(), repeat=2):
        check_moved(old, new)


@pytest.mark.parametrize("shape", [(0, 4), (16,)])
@pytest.mark.parametrize("dtype", ["int4", "complex64"])
def test_moves_of_all_dtypes(in_host_memory, shape, dtype):
    devices = jax.devices()
    value = jnp.ones(shape, dtype)
    spec = P("x") if shape else P()
    x = jax.device_put(value, NamedSharding(mesh_of(devices[:4], (4,), ("x",)), spec))
    y = jax.device_put(x, NamedSharding(mesh_of(devices[4:6], (2,), ("x",)), spec))
    assert y.dtype == value.dtype and bool((jax.device_get(y) == jax.device_get(value)).all())


# --- Donation -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "old, new, used",
    [
        (P("x"), P("x"), True),
        (P("x"), P(None, "x"), True),
        (P("x"), P("x", "y"), False),
        (P("x", "y"), P(), False),
    ],
    ids=str,
)
def test_donated_shards(old, new, used):
    """A buffer is written over by a result whose shards are as large; others are left, with a
    warning, as in JAX."""
    mesh = mesh_of(jax.devices(), (4, 2))
    value = VALUE[:4, :, 0]
    x = jax.device_put(value, NamedSharding(mesh, old))
    double = jax.jit(lambda x: x * 2, donate_argnums=0, out_shardings=NamedSharding(mesh, new))
    if used:
        y = double(x)
    else:
        shape = x.sharding.shard_shape(value.shape)
        with pytest.warns(
            UserWarning, match=rf"donated buffers were not usable: float32\[{shape[0]},{shape[1]}\]"
        ):
            y = double(x)
    np.testing.assert_array_equal(np.asarray(y), 2 * value)
    assert x.is_deleted() == used


def test_donated_arguments_find_results_of_their_layout():
    mesh = mesh_of(jax.devices(), (4, 2))
    rows, blocks = (NamedSharding(mesh, spec) for spec in (P("x"), P("x", "y")))
    value = VALUE[:, :, 0]
    x, y = jax.device_put(value, rows), jax.device_put(value + 1, blocks)
    f = jax.jit(lambda x, y: (x * 2, y * 2), donate_argnums=(0, 1), out_shardings=(blocks, rows))
    a, b = f(x, y)
    np.testing.assert_array_equal(np.asarray(a), 2 * value)
    np.testing.assert_array_equal(np.asarray(b), 2 * value + 2)
    assert x.is_deleted() and y.is_deleted()


@pytest.mark.parametrize("new, deleted", [(P("x"), True), (P("y"), True), (P(), False)], ids=str)
def test_donation_to_a_mesh_in_another_order(new, deleted):
    devices = jax.devices()[:4]
    value = VALUE[:, :, 0]
    x, y = (
        jax.device_put(value, NamedSharding(mesh_of(devices, (2, 2)), P("x"))) for _ in range(2)
    )
    other = NamedSharding(mesh_of(devices[::-1], (2, 2)), new)
    moved = jax.device_put(
        {"x": x, "y": y}, other, donate={"x": True, "y": False}, may_alias={"x": None, "y": False}
    )
    assert moved["x"].sharding == other and (x.is_deleted(), y.is_deleted()) == (deleted, False)
    np.testing.assert_array_equal(np.asarray(moved["x"]), value)


def test_donation_where_some_devices_keep_their_place():
    devices = jax.devices()[:4]
    value = VALUE[:, :, 0]
    x = jax.device_put(value, NamedSharding(mesh_of(devices, (4,), ("x",)), P()))
    moved = jax.device_put(
        x,
        NamedSharding(mesh_of([devices[i] for i in (0, 2, 1, 3)], (4,), ("x",)), P()),
        donate=True,
    )
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(moved), value)


def test_donation_says_a_prefix_of_the_tree():
    with pytest.raises(ValueError, match="device_put donate specification must be a tree prefix"):
        jax.device_put(jnp.ones(2), donate=[True, False])
    with pytest.raises(ValueError, match="may_alias and donate cannot be True"):
        jax.device_put([jnp.ones(2)], donate=[True], may_alias=True)


# --- Meshes that types name -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_reshard_to_another_mesh(kind, wrap):
    devices, value = jax.devices()[:4], VALUE[:, :, 0]
    x = jax.device_put(value, NamedSharding(mesh_of(devices, (4, 1), kind=kind), P("x")))
    wanted = NamedSharding(mesh_of(devices, (2, 2), ("a", "b"), AxisType.Explicit), P("b", "a"))
    y = wrap(lambda x: jax.sharding.reshard(x, wanted))(x)
    assert y.sharding == wanted and str(jax.typeof(y)) == "float32[16@b,4@a]"
    np.testing.assert_array_equal(np.asarray(y), value)


def test_reshard_to_other_devices_is_refused():
    x = jax.device_put(
        VALUE, NamedSharding(mesh_of(jax.devices(), (4, 2), kind=AxisType.Explicit), P("x"))
    )
    with pytest.raises(
        ValueError,
        match=r"(?s)incompatible devices.*reshard inside jit with device ids \[0, 1\].*test_moves",
    ):
        jax.sharding.reshard(
            x, NamedSharding(mesh_of(jax.devices()[:2], (2,), ("x",), AxisType.Explicit), P("x"))
        )


ORDERS = {
    "constraint": lambda x, s: jax.lax.with_sharding_constraint(x, s),
    "device_put": jax.device_put,
    "shard_map": lambda x, s: jax.shard_map(
        lambda x: x * 2, mesh=s.mesh, in_specs=s.spec, out_specs=s.spec
    )(x),
}


@pytest.mark.parametrize("name", ORDERS)
def test_a_program_has_one_order_of_devices(name):
    """Whether an argument, a result or another constraint says the order that it has."""
    here, there = (
        NamedSharding(mesh_of(jax.devices()[::step], (4, 2)), P("x")) for step in (1, -1)
    )
    value, moved = VALUE[:, :, 0], ORDERS[name]
    two = jax.jit(lambda x: moved(moved(x, here), there))
    with pytest.raises(
        ValueError,
        match=r"(?s)ble devices.*ids \[0, 1.* inside jit with.*ids \[7, 6.* at .*test_moves",
    ):
        two(value)
    one = jax.jit(lambda x: moved(x * 2, there))
    with pytest.raises(ValueError, match=r"(?s)incompatible devices.*ids \[0, 1.*ids \[7, 6"):
        one(jax.device_put(value, here))
    with pytest.raises(ValueError, match=r"(?s)incompatible devices.*ids \[0, 1.*ids \[7, 6"):
        jax.jit(lambda x: moved(x, there), out_shardings=here)(value)


# --- Derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there",
    [
        lambda: jax.devices()[5],
        lambda: NamedSharding(mesh_of(jax.devices()[4:6], (2,), ("x",)), P("x")),
        lambda: SingleDeviceSharding(jax.devices()[6]),
    ],
    ids=range(3),
)
def test_cotangents_go_back_to_the_devices_of_the_value(there):
    """Each half of a function runs on devices of its own, forwards and backwards."""
    value = np.arange(1, 5, dtype=np.float32)
    x = jax.device_put(value, NamedSharding(mesh_of(jax.devices()[:2], (2,), ("x",)), P("x")))

    def f(x):
        return jnp.cos(jax.device_put(jnp.sin(x), there()))

    slope = -np.sin(np.sin(value)) * np.cos(value)
    g = jax.grad(lambda x: f(x).sum())(x)
    assert g.sharding.is_equivalent_to(x.sharding, 1)
    np.testing.assert_allclose(np.asarray(g), slope, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(jax.jacrev(f)(x)), np.diag(slope), rtol=1e-5)
    assert (
        jax.jvp(f, (x,), (x,))[1].devices()
        == jax.jit(jnp.sin)(jax.device_put(x, there())).devices()
    )


def test_what_changes_places_is_no_transfer():
    """Devices exchange arrays and keys among themselves under any guard; what goes to others is
    refused."""
    devices = jax.devices()
    old = NamedSharding(mesh_of(devices[:4], (2, 2)), P("x", "y"))
    back, others = (mesh_of(d, (2, 2)) for d in (devices[:4][::-1], devices[4:]))
    value, keys = (
        jax.device_put(VALUE, old),
        jax.device_put(jax.random.split(jax.random.key(0), (4, 4)), old),
    )
    for spec in (P("x", "y"), P("y")):
        with jax.transfer_guard("disallow_explicit"):
            moved, moved_keys = jax.device_put((value, keys), NamedSharding(back, spec))
            with pytest.raises(Exception, match="Disallowed device-to-device transfer"):
                jax.device_put(value, NamedSharding(others, spec))
        np.testing.assert_array_equal(moved, VALUE)
        np.testing.assert_array_equal(jax.random.key_data(moved_keys), jax.random.key_data(keys))


@pytest.mark.parametrize("spec", [P("x"), P(None, "y", unreduced={"x"}), P("y", unreduced={"x"})])
def test_sums_are_sent_to_other_devices(spec):
    old, new = (
        mesh_of(d, (2, 2), kind=AxisType.Explicit) for d in (jax.devices()[:4], jax.devices()[4:])
    )
    parts = jax.device_put(VALUE, NamedSharding(old, P(None, "y", unreduced={"x"})))
    with jax.transfer_guard_host_to_device("disallow_explicit"):
        sent = jax.device_put(parts, NamedSharding(new, spec))
    assert sent.sharding == NamedSharding(new, spec)
    np.testing.assert_array_equal(jax.device_put(sent, NamedSharding(new, P())), VALUE)
