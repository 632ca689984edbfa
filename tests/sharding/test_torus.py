"""Meshes of TPUs: grids are those of JAX 0.10.2, and neighbours in them are neighbours in the
torus."""

import hashlib
import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from teucer.experimental.mesh_utils import create_device_mesh, create_hybrid_device_mesh

GRIDS = json.loads((Path(__file__).parent.parent / "data" / "tpu_meshes.json").read_text())["grids"]


@dataclass(frozen=True)
class Tpu:
    """What a mesh asks of a TPU."""

    id: int
    device_kind: str
    coords: tuple[int, int, int]
    core_on_chip: int
    slice_index: int = 0
    platform: str = "tpu"


def tpus(box, kind, cores=1, slice_index=0):
    x, y, z = box
    places = itertools.product(range(z), range(y), range(x), range(cores))
    return [Tpu(i, kind, (a, b, c), core, slice_index) for i, (c, b, a, core) in enumerate(places)]


def numbers(grid):
    return np.vectorize(lambda d: d.id)(grid).tolist()


@pytest.mark.parametrize("name", GRIDS)
def test_grids_are_those_of_jax(name):
    box, *kind, how = name.split(" ")
    *sizes, cores = map(int, box.split("x"))
    devices = tpus(sizes, " ".join(kind), cores)
    for text, expected in GRIDS[name].items():
        shape = tuple(map(int, text.split(",")))
        try:
            grid = create_device_mesh(
                shape,
                devices,
                contiguous_submeshes=how == "contiguous",
                allow_split_physical_axes=how == "split",
            )
            found = hashlib.md5(str(numbers(grid)).encode()).hexdigest()[:12]
        except (ValueError, NotImplementedError) as err:
            found = type(err).__name__
        assert found == expected, shape


@pytest.mark.parametrize("box", [(2, 2, 1), (4, 4, 4), (4, 8, 8), (2, 2, 4)])
def test_last_axis_has_neighbours(box):
    """Along the last axis of the grid, chips of whole physical axes follow each other."""
    grid = create_device_mesh((math.prod(box) // box[0], box[0]), tpus(box, "TPU v4"))
    for row in grid:
        steps = {
            sum(abs(a - b) for a, b in zip(p.coords, q.coords, strict=True))
            for p, q in itertools.pairwise(row)
        }
        assert steps == {1}


def test_order_of_devices_does_not_matter():
    devices = tpus((4, 4, 4), "TPU v4")
    shuffled = [devices[i] for i in np.random.default_rng(0).permutation(64)]
    assert numbers(create_device_mesh((8, 8), shuffled, allow_split_physical_axes=True)) == numbers(
        create_device_mesh((8, 8), devices, allow_split_physical_axes=True)
    )


def test_part_of_a_torus_is_a_box():
    inner = [d for d in tpus((4, 4, 4), "TPU v4") if min(d.coords) >= 2]
    assert numbers(create_device_mesh((8,), inner)) == [42, 58, 46, 62, 43, 59, 47, 63]
    with pytest.raises(ValueError, match="5 devices do not fill their box in the torus"):
        create_device_mesh((5,), tpus((4, 4, 4), "TPU v4")[:5])


def test_granules_are_toruses():
    devices = [d for i in range(2) for d in tpus((2, 2, 1), "TPU v4", slice_index=i)]
    grid = create_hybrid_device_mesh((2, 2), (1, 2), devices)
    assert [[d.slice_index for d in row] for row in grid] == [[0, 0, 1, 1]] * 2
    assert numbers(grid) == [[0, 1, 0, 1], [2, 3, 2, 3]]


def test_sizes_that_no_axes_make_up_say_what_is_left():
    with pytest.raises(
        NotImplementedError,
        match=r"logical_axis_index 1 of size 8 with remaining assignable mesh \[4, 4, 4\].*"
        "allow_split_physical_axes to True",
    ):
        create_device_mesh((8, 8), tpus((4, 4, 4), "TPU v4"))
