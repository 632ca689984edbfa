"""Accelerators by name: what each device computes, holds and sends, from public documents."""

from __future__ import annotations

from typing import NamedTuple

_CLOUD = "https://docs.cloud.google.com/tpu/docs/"
_BOOK = "https://jax-ml.github.io/scaling-book/tpus"


class Chip(NamedTuple):
    """What one device of a kind does; a second is the unit of time, a byte of size.

    kind: what devices call themselves. devices: of a chip. peak: operations of products of
    bfloat16 a second, narrow: of 8-bit integers, and vector: of elements outside of products.
    clock: cycles a second. memory: bytes that programs are granted. bandwidth: of that memory.
    link: bytes that go one way over one link of the network, and hop: how long the way over one
    takes. across: bytes between slices or machines. host: bytes to and from the host's memory.
    torus: how long an axis of the network has to be to close to a ring; 0 where devices are
    wired all to all. source: of all this.
    """

    name: str
    kind: str
    devices: int
    peak: float
    narrow: float
    vector: float
    clock: float
    memory: float
    bandwidth: float
    link: float
    hop: float
    across: float
    host: float
    torus: int
    source: str


_GIB = 2.0**30


def _tpu(
    name: str,
    kind: str,
    devices: int,
    peak: float,
    narrow: float,
    clock: float,
    memory: float,
    bandwidth: float,
    link: float,
    across: float,
    torus: int,
    page: str,
) -> Chip:
    """Figures of a chip; memory: of one device, as libtpu grants it."""
    cores = 1 if name in ("v5e", "v6e") else 2
    return Chip(
        name,
        kind,
        devices,
        peak / devices,
        narrow / devices,
        # Four operations a cycle on each of 8 x 128 lanes.
        4 * 1024 * clock * cores / devices,
        clock,
        memory * _GIB,
        bandwidth / devices,
        link,
        1e-6,
        across / devices,
        (3.2e10 if name in ("v6e", "tpu7x") else 1.6e10) / devices,
        torus,
        f"{_CLOUD}{page}, {_BOOK}",
    )


# The clock is the peak over what the matrix units of a chip do in a cycle.
CHIPS = (
    _tpu("v3", "TPU v3", 2, 123e12, 123e12, 0.94e9, 15.48, 900e9, 100e9, 6.25e9, 32, "v3"),
    _tpu("v4", "TPU v4", 1, 275e12, 275e12, 1.05e9, 30.75, 1228e9, 45e9, 6.25e9, 4, "v4"),
    _tpu("v5e", "TPU v5 lite", 1, 197e12, 394e12, 1.5e9, 15.75, 819e9, 45e9, 3.125e9, 16, "v5e"),
    _tpu("v5p", "TPU v5", 1, 459e12, 918e12, 1.75e9, 95.73, 2765e9, 90e9, 6.25e9, 4, "v5p"),
    _tpu("v6e", "TPU v6 lite", 1, 918e12, 1836e12, 1.75e9, 31.24, 1638e9, 90e9, 6.25e9, 16, "v6e"),
    _tpu("tpu7x", "TPU7x", 2, 2307e12, 4614e12, 2.2e9, 94.74, 7380e9, 90e9, 12.5e9, 4, "tpu7x"),
    Chip(
        "h100",
        "NVIDIA H100 80GB HBM3",
        1,
        989e12,
        1979e12,
        66.9e12,
        1.98e9,
        80e9,
        3352e9,
        450e9,
        1e-6,
        50e9,
        64e9,
        0,
        "https://resources.nvidia.com/en-us-tensor-core (H100 SXM5, dense), "
        "https://jax-ml.github.io/scaling-book/gpus",
    ),
)
BY_NAME = {chip.name: chip for chip in CHIPS}
BY_KIND = {chip.kind: chip for chip in CHIPS}


def chip_of(device: object) -> Chip:
    """What is known of a device of a topology.

    Raises ValueError for a kind that is not in the table.
    """
    kind = getattr(device, "device_kind", str(device))
    if kind in BY_KIND:
        return BY_KIND[kind]
    raise ValueError(
        f"plan: nothing is known of devices of kind {kind!r}. Known are "
        f"{', '.join(chip.name for chip in CHIPS)}."
    )
