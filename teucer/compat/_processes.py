"""Private names of JAX about several processes: their clusters, and the parts of arrays that each
holds.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from teucer._devices import clusters

if TYPE_CHECKING:
    from teucer._devices.shardings import Sharding


Index = tuple[slice, ...]
Shape = tuple[int, ...]


class ClusterEnv:
    """A kind of cluster, asked by class methods; libraries derive theirs from it."""

    _cluster_types: ClassVar[list[type[ClusterEnv]]] = []
    name: ClassVar[str] = ""
    opt_in_only_method: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        ClusterEnv._cluster_types.append(cls)

    @classmethod
    def is_env_present(cls) -> bool:
        """Whether the environment says that this process runs on such a cluster."""
        return cls._found() is not None

    @classmethod
    def get_coordinator_address(cls, timeout_secs: int | None = None) -> str | None:
        """Where the process that coordinates listens, as host:port."""
        return cls._cluster().coordinator_address

    @classmethod
    def get_process_count(cls) -> int | None:
        """How many processes there are."""
        return cls._cluster().num_processes

    @classmethod
    def get_process_id(cls) -> int | None:
        """Which of them this one is."""
        return cls._cluster().process_id

    @classmethod
    def get_local_process_id(cls) -> int | None:
        """The number of this process among those of its machine."""
        return cls._cluster().local_process_id

    @classmethod
    def _found(cls) -> clusters.Cluster | None:
        return clusters.METHODS[cls.name](os.environ)

    @classmethod
    def _cluster(cls) -> clusters.Cluster:
        found = cls._found()
        if found is None:
            raise RuntimeError(
                f"This process does not run on a cluster of the kind {cls.name!r}; its "
                "environment says nothing of one."
            )
        return found


class SlurmCluster(ClusterEnv):
    """The cluster of a Slurm job."""

    name = "slurm"


class OmpiCluster(ClusterEnv):
    """Processes that Open MPI started."""

    name = "ompi"


class K8sCluster(ClusterEnv):
    """Pods of a Kubernetes job."""

    name = "k8s"


class GceTpuCluster(ClusterEnv):
    """The hosts of a TPU pod."""

    name = "tpu"


class NonUniformShardingError(ValueError):
    """Processes hold parts of an axis that overlap in part, or differ in size."""


def get_process_index_and_count(tensor_sharding: Sharding, dim: int, ndims: int) -> tuple[int, int]:
    """Which part along an axis this process holds, and how many different parts there are.

    Raises NonUniformShardingError where the parts of two processes overlap without being the same,
    or differ in size.
    """
    # A size that every number of parts divides, since each is a product of sizes of mesh axes.
    size = len(tensor_sharding.device_set)
    held: dict[Hashable, set[tuple[int, int]]] = {}
    for device, index in tensor_sharding.devices_indices_map((size,) * ndims).items():
        held.setdefault(device.process_index, set()).add(index[dim].indices(size)[:2])
    parts = sorted({tuple(sorted(part)) for part in held.values()})
    pieces = [piece for part in parts for piece in part]
    if len({len(part) for part in parts}) > 1 or len(set(pieces)) != len(pieces):
        raise NonUniformShardingError(
            f"The parts that processes hold of axis {dim} overlap or differ in size: "
            f"sharding {tensor_sharding}."
        )
    here = next(iter(tensor_sharding.addressable_devices)).process_index
    return parts.index(tuple(sorted(held[here]))), len(parts)


def local_to_global_shape(sharding: Sharding, local_shape: Shape) -> tuple[int | None, ...]:
    """The shape of the array of which each process holds a part of `local_shape`; None for sizes
    that this does not tell."""

    def size(dim: int) -> int | None:
        try:
            return (
                local_shape[dim] * get_process_index_and_count(sharding, dim, len(local_shape))[1]
            )
        except NonUniformShardingError:
            return None

    return tuple(map(size, range(len(local_shape))))
