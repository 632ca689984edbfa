"""Layouts that the compiler chose: what it says is what a PartitionSpec says, where one can."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer._devices.chosen import GSPMDSharding, from_hlo
from teucer._devices.environment import print_environment_info
from teucer._xla.arrays import HloSharding
from teucer.sharding import NamedSharding
from teucer.sharding import PartitionSpec as P

SHAPE = (8, 16, 8)
SIZES = [(2, 2, 2), (4, 1, 2), (8,), (1, 8)]


def mesh(sizes: tuple[int, ...]) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:8]).reshape(sizes), tuple("abc"[: len(sizes)]))


def specs(names: tuple[str, ...]) -> set[Any]:
    """Every way to divide three axes of an array among mesh axes, in every order."""
    found = set()
    for n in range(len(names) + 1):
        for order in itertools.permutations(names, n):
            for where in itertools.product(range(3), repeat=n):
                found.add(
                    P(
                        *(
                            tuple(a for a, d in zip(order, where, strict=True) if d == i)
                            for i in range(3)
                        )
                    )
                )
    return found


def places(sharding: Any) -> dict[Any, Any]:
    return {d.id: index for d, index in sharding.devices_indices_map(SHAPE).items()}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_spec_comes_back(sizes: tuple[int, ...]) -> None:
    over = mesh(sizes)
    for spec in specs(over.axis_names):
        given = NamedSharding(over, spec)
        said = given._to_xla_hlo_sharding(3)
        found = from_hlo(said, over, 3, over.devices.flat)
        assert type(found) is NamedSharding, spec
        assert found.mesh is over
        assert found.is_equivalent_to(given, 3), (spec, found.spec)
        assert places(found) == places(given)
        # Nothing is said of axes that are whole, nor by mesh axes of size one.
        assert not found.spec or found.spec[-1] is not None
        assert all(over.shape[name] > 1 for name in found.spec.names())
        # The compiler's own words mean the same.
        own = GSPMDSharding(tuple(over.devices.flat), said)
        assert places(own) == places(given)
        assert own.is_fully_replicated == given.is_fully_replicated
        assert own.shard_shape(SHAPE) == given.shard_shape(SHAPE)
        if not own.is_fully_replicated:
            assert places(own.named(3)) == places(given)
            assert len(own.named(3).spec) == 3


def test_a_layout_that_no_spec_over_the_mesh_says() -> None:
    """Of devices in another order than any of the mesh's."""
    over = mesh((8,))
    halves = NamedSharding(mesh((2, 2, 2)), P(("a", "c", "b")))._to_xla_hlo_sharding(1)
    found = from_hlo(halves, over, 1, tuple(over.devices.flat))
    assert type(found) is GSPMDSharding
    shards = found.devices_indices_map((8,))
    assert [shards[d][0].start or 0 for d in over.devices.flat] == [0, 2, 1, 3, 4, 6, 5, 7]
    copy = GSPMDSharding(tuple(over.devices.flat), halves)
    assert (found, hash(found)) == (copy, hash(copy))
    assert found != GSPMDSharding(tuple(over.devices.flat)[::-1], halves)
    assert found != found.with_memory_kind("pinned_host")
    assert found.with_memory_kind("pinned_host").memory_kind == "pinned_host"


def test_sums_and_copies() -> None:
    kinds = (jax.sharding.AxisType.Explicit,) * 3
    over = jax.sharding.Mesh(mesh((2, 2, 2)).devices, ("a", "b", "c"), axis_types=kinds)
    summed = from_hlo(HloSharding.unreduced(), over, 2, over.devices.flat)
    assert summed == NamedSharding(over, P(unreduced={"a", "b", "c"}))
    for said in (None, NamedSharding(over, P())._to_xla_hlo_sharding(2)):
        assert from_hlo(said, over, 2, over.devices.flat) == NamedSharding(over, P())


def test_what_a_report_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = print_environment_info(return_string=True)
    assert capsys.readouterr().out == ""
    assert text is not None
    assert f"teucer: {jax.__version__}" in text
    assert print_environment_info() is None
    assert capsys.readouterr().out == text + "\n"
