"""Memories as types say them."""

from __future__ import annotations

import enum

# The memory of the host that devices can read.
HOST_KIND = "pinned_host"


class MemorySpace(enum.Enum):
    """Where an array is: in device memory, or in host memory that devices can read. Any: not known.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> x = jax.device_put(jnp.ones(2), jax.memory.Space.Host)
    >>> jax.typeof(x), x.sharding.memory_kind
    (ShapedArray(float32<host>[2]), 'pinned_host')
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    __hash__ = object.__hash__  # part of types' keys; Enum's is Python, and slow

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    @property
    def kind(self) -> str | None:
        """The name that devices have for this memory space; None for their own memory."""
        return HOST_KIND if self is MemorySpace.Host else None


def space_of(kind: str | None) -> MemorySpace:
    """The space of a memory by its kind. Other memories of the host count as the device's own:
    programs do not tell them apart."""
    return MemorySpace.Host if kind == HOST_KIND else MemorySpace.Device
