"""From every place to every other: values, where they lie, and what is shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.sharding import NamedSharding, SingleDeviceSharding
from teucer.sharding import PartitionSpec as P

VALUE = np.arange(32, dtype=np.float32).reshape(4, 8)


def mesh(order: int) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:4])[::order].reshape(2, 2), ("x", "y"))


# In the mesh's order, and in the reverse one, which cuts alike and lies elsewhere.
PLACES: dict[str, Any] = {
    "first device": lambda: SingleDeviceSharding(jax.devices()[0]),
    "another device": lambda: SingleDeviceSharding(jax.devices()[5]),
    "host": lambda: SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host"),
    "rows": lambda: NamedSharding(mesh(1), P("x")),
    "rows, turned round": lambda: NamedSharding(mesh(-1), P("x")),
    "parts": lambda: NamedSharding(mesh(1), P("y", "x")),
    "copies": lambda: NamedSharding(mesh(1), P()),
}
SOURCES: dict[str, Any] = {
    "numpy": lambda: VALUE.copy(),
    "uncommitted": lambda: jnp.asarray(VALUE),
    **{
        name: (lambda place=place: jax.device_put(VALUE, place())) for name, place in PLACES.items()
    },
}


def buffers(x: jax.Array) -> set[int]:
    return {shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards}


@pytest.mark.parametrize("may_alias", [None, False])
@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("source", SOURCES)
def test_every_place_to_every_place(source: str, target: str, may_alias: bool | None) -> None:
    x, place = SOURCES[source](), PLACES[target]()
    y = jax.device_put(x, place, may_alias=may_alias)
    assert y.sharding == place
    assert y.committed
    np.testing.assert_array_equal(y, VALUE)
    for shard in y.addressable_shards:
        assert shard.device in place.device_set
        np.testing.assert_array_equal(shard.data, VALUE[shard.index])
    assert len(y.addressable_shards) == len(place.device_set)
    np.testing.assert_array_equal(x, VALUE)
    if source in PLACES:
        assert x.sharding == PLACES[source]()  # it stays where it was
    if isinstance(x, np.ndarray):
        x[:] = -1
        np.testing.assert_array_equal(y, VALUE)
    elif may_alias is False:
        assert buffers(x).isdisjoint(buffers(y))
    elif source == target:
        assert y is x


@pytest.mark.parametrize("source", SOURCES)
def test_no_place_leaves_arrays_where_they_are(source: str) -> None:
    x = SOURCES[source]()
    y = jax.device_put(x)
    assert y.committed == (source in PLACES)
    assert y.sharding == (
        x.sharding if source in PLACES else SingleDeviceSharding(jax.devices()[0])
    )
    np.testing.assert_array_equal(y, VALUE)


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("source", [name for name in SOURCES if name != "numpy"])
def test_what_is_put_elsewhere_keeps_its_values(source: str, target: str) -> None:
    """A program that is given the source may reuse its memory."""
    x = SOURCES[source]()
    y = jax.device_put(x, PLACES[target]())
    if y is not x:
        jax.jit(lambda x: x * 0 - 1, donate_argnums=0)(x).block_until_ready()
        if source == "uncommitted" and y.is_deleted():  # the same array, committed
            assert target == "first device"
        else:
            np.testing.assert_array_equal(y, VALUE)


@pytest.mark.parametrize("target", PLACES)
def test_scalars_have_the_type_that_they_had(target: str) -> None:
    """A Python number stays weak wherever it is put, on one device or several."""
    place = PLACES[target]()
    if not place.is_fully_replicated:
        place = NamedSharding(place.mesh, P())
    for x in (True, 3, 2.5, 1j, np.float16(1), jnp.float32(2)):
        y = jax.device_put(x, place)
        assert (y.dtype, y.weak_type) == (jnp.asarray(x).dtype, jnp.asarray(x).weak_type), x
        assert y.sharding == place
        assert y == x


def test_the_default_device_has_what_has_no_place() -> None:
    with jax.default_device(jax.devices()[3]):
        for make in (jnp.asarray, jax.device_put):
            y = make(VALUE)
            assert y.devices() == {jax.devices()[3]}
            assert not y.committed
