"""jaxlib's distributed runtime.

The coordination service, its clients, and collectives between CPUs.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from jaxlib import _jax

from teucer._xla.client import XlaRuntimeError

Client = _jax.DistributedRuntimeClient


class Service:
    """The coordination service, in a process of its own (`service.py`)."""

    def __init__(
        self,
        address: str,
        num_processes: int,
        *,
        heartbeat_timeout: int,
        start_timeout: int,
        shutdown_timeout: int,
        linger: int,
    ) -> None:
        """Start it; it ends `linger` seconds after this process, if this one does not end it.

        Raises XlaRuntimeError if it cannot listen at the address.
        """
        numbers = map(
            str, (num_processes, heartbeat_timeout, start_timeout, shutdown_timeout, linger)
        )
        script = str(Path(__file__).with_name("service.py"))
        self._process = subprocess.Popen(
            [sys.executable, "-I", script, address, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if said.strip() != "serving":
            self._process.kill()
            self._process.wait()
            raise XlaRuntimeError(
                said.removeprefix("refused: ").strip() or "the coordination service did not start"
            )

    def leave(self, seconds: int) -> None:
        """Have it end after some seconds, whether or not this process is still there."""
        with contextlib.suppress(OSError):  # it may have ended
            assert self._process.stdin is not None
            self._process.stdin.write(f"{seconds}\n")
            self._process.stdin.close()

    def shutdown(self) -> None:
        """End it."""
        self.leave(0)
        self._process.wait()


def connect(
    address: str,
    process_id: int,
    *,
    heartbeat_timeout: int,
    start_timeout: int,
    shutdown_timeout: int,
) -> Any:
    """Connect to the coordination service at `address`; waits for it up to `start_timeout`
    seconds."""
    client = _jax.get_distributed_runtime_client(
        address,
        process_id,
        init_timeout=start_timeout,
        heartbeat_timeout=heartbeat_timeout,
        shutdown_timeout=shutdown_timeout,
        shutdown_on_destruction=False,
        use_compression=True,
    )
    client.connect()
    return client


def cpu_collectives(kind: str, client: Any) -> Any:
    """The transport of collectives between the CPUs of several processes: 'gloo' or 'mpi'.

    Raises ValueError for another kind.
    """
    if kind == "gloo":
        return _jax.make_gloo_tcp_collectives(distributed_client=client)
    if kind == "mpi":
        collectives = _jax.make_mpi_collectives()
        collectives.Init()
        return collectives
    raise ValueError(
        f"jax_cpu_collectives_implementation: {kind!r} does not connect processes.\n"
        "  Use 'gloo', or 'mpi' where MPITRAMPOLINE_LIB names a wrapped MPI."
    )


def preemption_manager(client: Any) -> Any:
    """The service that tells all processes when one is about to be preempted (SIGTERM)."""
    manager = _jax.create_preemption_sync_manager()
    manager.initialize(client)
    return manager
