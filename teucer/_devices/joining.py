"""How the processes of a program find each other, and how they part (docs/processes.md)."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any

from teucer._base import config
from teucer._devices import clusters, watch
from teucer._devices.processes import state
from teucer._xla.client import XlaRuntimeError, errors_only
from teucer._xla.processes import runtime


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int | None = None,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    mtls_cert_file: str | None = None,
    mtls_key_file: str | None = None,
    mtls_ca_file: str | None = None,
    mtls_peer_uri_prefix: str | None = None,
    verify_secure_credentials: bool | None = None,
) -> None:
    """Connect this process with the others that run the same program; call it before any array is
    made.

    coordinator_address: 'host:port' of process 0, where the coordination service listens.
    num_processes, process_id: how many processes there are, and which one this is, from 0 on.
    Those three are found by themselves under `teucer launch`, Slurm, Open MPI, MPICH, Kubernetes'
    indexed jobs, on TPU pods, and with the environment variables JAX_COORDINATOR_ADDRESS,
    JAX_NUM_PROCESSES and JAX_PROCESS_ID.
    local_device_ids: the GPUs that this process uses, by number; one of them where several
    processes share a machine and a launcher numbers them, else all.
    cluster_detection_method: 'slurm', 'ompi', 'mpich', 'k8s', 'tpu', 'environment', 'mpi4py';
    'deactivate' finds nothing by itself.
    initialization_timeout: seconds to wait for all processes. shutdown_timeout_seconds: those to
    wait at the end. heartbeat_timeout_seconds: those after which a silent process counts as dead
    (by default the option teucer_heartbeat_timeout, 30).
    coordinator_bind_address: where the service listens, by default on all interfaces.
    partition_index (once slice_index): the group of closely connected devices that this process
    belongs to.
    mtls_cert_file, mtls_key_file, mtls_ca_file, mtls_peer_uri_prefix, verify_secure_credentials:
    refused, since connections are not encrypted.

    Raises RuntimeError if it was called before, or too late; ValueError if an argument is missing;
    TimeoutError if the others do not come; NotImplementedError if the connections are to be
    encrypted.

    As the first thing that a program does:

    >>> initialize("localhost:12355", num_processes=1, process_id=0)  # doctest: +SKIP
    >>> is_initialized()
    False
    """
    _refuse_encryption(
        mtls_cert_file=mtls_cert_file,
        mtls_key_file=mtls_key_file,
        mtls_ca_file=mtls_ca_file,
        mtls_peer_uri_prefix=mtls_peer_uri_prefix,
        verify_secure_credentials=verify_secure_credentials or None,
    )
    if state.client is not None:
        raise RuntimeError("distributed.initialize should only be called once.")
    if config.EarlyOption.too_late():
        raise RuntimeError(
            "jax.distributed.initialize() must be called before any JAX calls that might "
            "initialise the XLA backend. This includes any computation, but also calls to "
            "jax.devices, jax.device_put, and others.\n  Call it right after the imports."
        )
    cluster = clusters.find(cluster_detection_method, os.environ) or clusters.Cluster("none")
    address = (
        coordinator_address
        or os.environ.get("JAX_COORDINATOR_ADDRESS")
        or cluster.coordinator_address
    )
    count = cluster.num_processes if num_processes is None else num_processes
    number = cluster.process_id if process_id is None else process_id
    address = _checked(address, count, number, cluster)
    _choose_devices(local_device_ids, cluster)
    heartbeat = (
        config.heartbeat_timeout.value
        if heartbeat_timeout_seconds is None
        else heartbeat_timeout_seconds
    )
    assert count is not None
    assert number is not None
    _connect(
        address,
        int(count),
        int(number),
        coordinator_bind_address,
        int(initialization_timeout),
        int(heartbeat),
        int(shutdown_timeout_seconds),
    )
    state.partition_index = state.slice_index = (
        slice_index if partition_index is None else partition_index
    )


def _refuse_encryption(**asked: object) -> None:
    given = ", ".join(name for name, value in asked.items() if value is not None)
    if given:
        raise NotImplementedError(
            f"jax.distributed.initialize: connections between processes are not encrypted, so "
            f"{given} would have no effect.\n  Connect through a private network or a tunnel, and "
            "leave these arguments out."
        )


def _checked(
    address: str | None, count: int | None, number: int | None, cluster: clusters.Cluster
) -> str:
    found = (
        ""
        if cluster.method == "none"
        else f"\n    the environment ({cluster.method}) says: {cluster}"
    )
    for name, value in (
        ("coordinator_address", address),
        ("num_processes", count),
        ("process_id", number),
    ):
        if value is None:
            raise ValueError(
                f"{name} should be defined: jax.distributed.initialize was not given it, and the "
                f"environment does not say it.{found}\n  Pass it, set the variables "
                "JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, or start the "
                "program by `teucer launch`."
            )
    assert address is not None
    assert count is not None
    assert number is not None
    if not 0 <= number < count:
        raise ValueError(
            f"jax.distributed.initialize: process_id is {number}, and there are {count} "
            f"processes.\n  Processes are numbered from 0 to {count - 1}.{found}"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(
            f"jax.distributed.initialize: coordinator_address is 'host:port', got {address!r}."
        )
    return address


def _choose_devices(given: int | Sequence[int] | None, cluster: clusters.Cluster) -> None:
    """Which GPUs this process sees."""
    if given is None:
        given = cluster.local_process_id
        if given is None or "CUDA_VISIBLE_DEVICES" in os.environ:
            return
    numbers = [given] if isinstance(given, int) else list(given)
    config.config.update("jax_cuda_visible_devices", ",".join(map(str, numbers)))


def _connect(
    address: str, count: int, number: int, bind: str | None, start: int, heartbeat: int, end: int
) -> None:
    # jaxlib ends a process whose connection fails, with a text that names no process. So it waits
    # longer than we do, in a thread of its own.
    patience = {
        "heartbeat_timeout": 10 * heartbeat,
        "start_timeout": start + 3600,
        "shutdown_timeout": end,
    }
    with errors_only():
        if number == 0:
            listening = bind or f"[::]:{address.rpartition(':')[2]}"
            try:
                state.service = runtime.Service(listening, count, **patience, linger=heartbeat + 10)
            except XlaRuntimeError as err:
                raise RuntimeError(
                    f"jax.distributed.initialize: process 0 cannot listen at {listening}: {err}\n"
                    "  Choose another port, or end what listens there."
                ) from err
        outcome: list[Any] = []
        thread = threading.Thread(
            target=_try_to_connect, args=(address, number, patience, outcome), daemon=True
        )
        thread.start()
        thread.join(start)
    if not outcome:
        message = _nobody_came(address, count, number, start)
        if state.service is not None:
            state.service.shutdown()
            state.service = None
        raise TimeoutError(message)
    if isinstance(outcome[0], BaseException):
        raise RuntimeError(
            f"jax.distributed.initialize: process {number} cannot connect with the coordinator at "
            f"{address}: {outcome[0]}"
        ) from outcome[0]
    try:
        _take_number(outcome[0], number)
        _agree_on_count(outcome[0], number, count, start)
    except RuntimeError:
        if state.service is not None:
            state.service.shutdown()
            state.service = None
        raise
    state.client, state.process_id, state.num_processes = outcome[0], number, count
    state.coordinator_address, state.shutdown_timeout = address, end
    state.watch = watch.Watch(
        state.client,
        number,
        count,
        address,
        heartbeat,
        lambda: runtime.connect(address, number, **patience),
    )
    state.watch.start()
    options = config.config
    kind = options.jax_cpu_collectives_implementation or "gloo"
    state.cpu_options = {
        "distributed_client": state.client,
        "node_id": number,
        "num_nodes": count,
        "collectives": runtime.cpu_collectives(kind, state.client),
        "get_local_topology_timeout_minutes": options.jax_cpu_get_local_topology_timeout_minutes,
        "get_global_topology_timeout_minutes": options.jax_cpu_get_global_topology_timeout_minutes,
    }
    if config.enable_preemption_service.value:
        state.preemption_sync_manager = runtime.preemption_manager(state.client)
    atexit.register(_at_exit)


def _try_to_connect(
    address: str, number: int, patience: dict[str, int], outcome: list[Any]
) -> None:
    try:
        outcome.append(runtime.connect(address, number, **patience))
    except XlaRuntimeError as err:
        outcome.append(err)


def _take_number(client: Any, number: int) -> None:
    """Claim a process number for this process.

    Raises RuntimeError if another process has the number, or had it. jaxlib has let this process in
    all the same, so the other is told to join again.
    """
    own = f"{socket.gethostname()}, pid {os.getpid()}"
    try:
        client.key_value_set(f"{watch.ROOT}/joined/{number}", own, allow_overwrite=False)
        return
    except XlaRuntimeError as err:
        if "ALREADY_EXISTS" not in str(err):
            raise
    owner = client.key_value_try_get(f"{watch.ROOT}/joined/{number}")
    client.key_value_set(f"{watch.ROOT}/rivals/{number}", own, allow_overwrite=True)
    raise RuntimeError(
        f"jax.distributed.initialize: the number {number} is taken.\n"
        f"    process {number}: {owner}\n    this process: {own}\n"
        "  Give each process a process_id of its own (JAX_PROCESS_ID), and another\n"
        "  program another coordinator_address. If that process has failed, start all of them "
        "anew."
    )


def _agree_on_count(client: Any, number: int, count: int, seconds: int) -> None:
    """Compare the number of processes with that of process 0. If they differ, barriers never open.

    Raises RuntimeError in a process that was told another number, and has all others end.
    """
    key = f"{watch.ROOT}/count"
    if number == 0:
        client.key_value_set(key, str(count), allow_overwrite=False)
        return
    expected = client.blocking_key_value_get(key, seconds * 1000)
    if expected == str(count):
        return
    told = f"process {number} was told of {count} processes, process 0 of {expected}"
    client.key_value_set(f"{watch.ROOT}/failed/{number}", told, allow_overwrite=True)
    raise RuntimeError(
        f"jax.distributed.initialize: {told}.\n  Give all the same num_processes "
        "(JAX_NUM_PROCESSES)."
    )


def _nobody_came(address: str, count: int, number: int, seconds: int) -> str:
    host, _, port = address.rpartition(":")
    what = (
        f"jax.distributed.initialize: process {number} has waited {seconds} s for {count} "
        "processes.\n    "
    )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except OSError as err:
        return (
            f"{what}Nobody listens at {address}, the coordinator's address: {err}.\n"
            "  Start process 0, and see that coordinator_address is the address of its machine."
        )
    return (
        f"{what}The coordinator listens at {address}, but not all processes have come.\n"
        f"  Start all of {count}, each with its own process_id from 0 to {count - 1}, or wait "
        "longer (initialization_timeout)."
    )


def is_initialized() -> bool:
    """Whether `initialize` has connected this process with others."""
    return state.client is not None


def shutdown() -> None:
    """Part from the other processes, when all of them have come here; nothing, if there are none.

    Raises RuntimeError if another process has failed or does not come in time.
    """
    if state.client is None:
        return
    atexit.unregister(_at_exit)
    assert state.watch is not None
    try:
        state.watch.meet("shutdown", state.shutdown_timeout)
    finally:
        _leave()


def _leave() -> None:
    watching, client, service = state.watch, state.client, state.service
    state.client = state.service = state.watch = state.preemption_sync_manager = None
    state.coordinator_address, state.process_id, state.num_processes, state.cpu_options = (
        None,
        0,
        1,
        {},
    )
    if watching is not None:
        watching.stop()
    with contextlib.suppress(XlaRuntimeError):  # the others may be gone
        client.shutdown()
    del watching  # with the clients that have come again, which still beat
    if service is not None:
        service.shutdown()


def _at_exit() -> None:
    """The end of a process that has not called `shutdown`, or of one that failed."""
    if state.client is None:
        return
    assert state.watch is not None
    failure = getattr(sys, "last_value", None)
    if failure is not None:  # the others end when they read of it
        # XLA may wait for a collective that will not come when the interpreter frees its
        # clients.
        faulthandler.dump_traceback_later(config.collective_timeout.value, exit=True)
        state.watch.tell_failure(failure)
        state.watch.stop()
        if state.service is not None:
            state.service.leave(10)
        return
    try:
        state.watch.meet("shutdown", state.shutdown_timeout)
    except RuntimeError as err:
        print(f"teucer: process {state.process_id} ends: {err}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(state.exit_status or 1)
    _leave()
