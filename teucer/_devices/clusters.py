"""Clusters, found by their environment variables: the coordinator, the number of processes, and
this process's own.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

# Below the ephemeral ports of Linux; jobs that share a node get ports of their own by their number.
_FIRST_PORT, _PORTS = 61440, 4096


class Cluster(NamedTuple):
    """A cluster's description of this process; None for fields that the cluster lacks."""

    method: str
    coordinator_address: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    local_process_id: int | None = None
    """The number of this process among those of its machine, which share the machine's GPUs."""

    def completed(self, other: Cluster) -> Cluster:
        """Completed by another cluster, if this one does not know the number of processes or this
        process's own."""
        if self.num_processes is not None and self.process_id is not None:
            return self
        said = {name: its for name, its in other._asdict().items() if getattr(self, name) is None}
        return self._replace(method=f"{self.method}, {other.method}", **said)


Environment = Mapping[str, str]


def _number(env: Environment, *names: str) -> int | None:
    for name in names:
        text = env.get(name)
        if text is not None:
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"{name} must be a whole number, and is {text!r}.") from None
    return None


def _port_of(job: str) -> int:
    digits = re.sub(r"\D", "", job)
    return _FIRST_PORT + int(digits or 0) % _PORTS


def _teucer(env: Environment) -> Cluster | None:
    if "JAX_NUM_PROCESSES" not in env and "JAX_PROCESS_ID" not in env:
        return None
    return Cluster(
        "environment",
        None,
        _number(env, "JAX_NUM_PROCESSES"),
        _number(env, "JAX_PROCESS_ID"),
        _number(env, "JAX_LOCAL_PROCESS_ID"),
    )


def _slurm(env: Environment) -> Cluster | None:
    if "SLURM_JOB_ID" not in env or "SLURM_PROCID" not in env:
        return None
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    host = first_node(nodes) or "localhost"
    return Cluster(
        "slurm",
        f"{host}:{_port_of(env['SLURM_JOB_ID'])}",
        _number(env, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        _number(env, "SLURM_PROCID"),
        _number(env, "SLURM_LOCALID"),
    )


def first_node(nodes: str) -> str:
    """The first host of Slurm's short form of a list of hosts.

    >>> first_node("node[03-05,11],login1")
    'node03'
    >>> first_node("a1,a2")
    'a1'
    """
    found = re.match(r"([^,\[]*)(?:\[([^\],-]*)[^\]]*\])?([^,\[]*)", nodes.strip())
    return "".join(part or "" for part in found.groups()) if found else ""


def _open_mpi(env: Environment) -> Cluster | None:
    if "OMPI_COMM_WORLD_RANK" not in env:
        return None
    # "1234.0;tcp://10.0.0.1,192.168.0.1:51234" by Open MPI 4; "prterun-host-1234@0.0;tcp4://..." by
    # 5.
    uri = (
        env.get("OMPI_MCA_orte_hnp_uri")
        or env.get("PMIX_SERVER_URI2")
        or env.get("PMIX_SERVER_URI4", "")
    )
    found = re.search(r"tcp4?://([^,:;]+)", uri)
    job = env.get("OMPI_MCA_ess_base_jobid") or env.get("PMIX_NAMESPACE", uri.partition(".")[0])
    address = f"{found.group(1)}:{_port_of(job)}" if found else None
    size = _number(env, "OMPI_COMM_WORLD_SIZE")
    local_size = _number(env, "OMPI_COMM_WORLD_LOCAL_SIZE")
    if size == local_size:
        address = f"127.0.0.1:{_port_of(job)}"
    return Cluster(
        "ompi",
        address,
        size,
        _number(env, "OMPI_COMM_WORLD_RANK"),
        _number(env, "OMPI_COMM_WORLD_LOCAL_RANK"),
    )


def _mpich(env: Environment) -> Cluster | None:
    if "PMI_RANK" not in env or "PMI_SIZE" not in env:
        return None
    size = _number(env, "PMI_SIZE")
    one_machine = size == _number(env, "MPI_LOCALNRANKS")
    # Hydra tells no address; where all processes share a machine, none is needed but a port of the
    # job's own.
    job = env.get("PMI_JOBID") or env.get("PALS_APID") or str(os.getppid())
    return Cluster(
        "mpich",
        f"127.0.0.1:{_port_of(job)}" if one_machine else None,
        size,
        _number(env, "PMI_RANK"),
        _number(env, "MPI_LOCALRANKID"),
    )


def _kubernetes(env: Environment) -> Cluster | None:
    """An indexed Job with a headless service: its pods are called job-0.service, job-1.service,
    ..."""
    if "KUBERNETES_SERVICE_HOST" not in env or "JOB_COMPLETION_INDEX" not in env:
        return None
    index, name = _number(env, "JOB_COMPLETION_INDEX"), env.get("HOSTNAME") or socket.gethostname()
    job, _, own = name.partition(".")[0].rpartition("-")
    domain = socket.getfqdn(name).partition(".")[2]
    address = f"{job}-0.{domain}:{_port_of(job)}" if own == str(index) and domain else None
    return Cluster("k8s", address, None, index)


def _tpu_pod(env: Environment) -> Cluster | None:
    if "TPU_WORKER_ID" not in env or "TPU_WORKER_HOSTNAMES" not in env:
        return None
    hosts = [h for h in env["TPU_WORKER_HOSTNAMES"].split(",") if h]
    worker, slices = _number(env, "TPU_WORKER_ID"), _number(env, "MEGASCALE_NUM_SLICES") or 1
    slice_id = _number(env, "MEGASCALE_SLICE_ID") or 0
    if worker is None or (len(hosts) == 1 and slices == 1):
        return None
    host = env.get("MEGASCALE_COORDINATOR_ADDRESS", hosts[0]).partition(":")[0]
    return Cluster(
        "tpu", f"{host}:{_FIRST_PORT}", len(hosts) * slices, worker + slice_id * len(hosts)
    )


def _mpi4py(env: Environment) -> Cluster | None:
    if "mpi4py" not in sys.modules and env.get("JAX_CLUSTER") != "mpi4py":
        return None
    from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]  # the user's, only where asked for

    world = MPI.COMM_WORLD
    machine = world.Split_type(MPI.COMM_TYPE_SHARED)
    host = world.bcast(
        socket.gethostbyname(socket.gethostname()) if world.Get_rank() == 0 else None
    )
    job = world.bcast(str(os.getpid()))
    return Cluster(
        "mpi4py", f"{host}:{_port_of(job)}", world.Get_size(), world.Get_rank(), machine.Get_rank()
    )


# In the order in which they are asked. mpi4py is asked by name only.
METHODS: dict[str, Callable[[Environment], Cluster | None]] = {
    "environment": _teucer,
    "slurm": _slurm,
    "ompi": _open_mpi,
    "mpich": _mpich,
    "k8s": _kubernetes,
    "tpu": _tpu_pod,
}


def find(method: str | None, env: Environment) -> Cluster | None:
    """The cluster that the environment names; None if it names none.

    method: one of METHODS or 'mpi4py', to look for that alone; 'deactivate', to look for none.
    Raises ValueError for another method, RuntimeError if the method that is named finds nothing.
    """
    if method == "deactivate":
        return None
    if method is None:
        found = [cluster for look in METHODS.values() if (cluster := look(env)) is not None]
        return functools.reduce(Cluster.completed, found) if found else None
    if method == "mpi4py":
        return _mpi4py({**env, "JAX_CLUSTER": "mpi4py"})
    if method not in METHODS:
        raise ValueError(
            f"jax.distributed.initialize: cluster_detection_method {method!r} is not known.\n"
            f"  It is one of {', '.join(map(repr, METHODS))}, 'mpi4py', 'deactivate', or None to "
            "try all."
        )
    cluster = METHODS[method](env)
    if cluster is None:
        raise RuntimeError(
            f"jax.distributed.initialize: the environment is not one of {method!r}.\n"
            "  Leave cluster_detection_method out, or start the program by the cluster's launcher."
        )
    return cluster
