"""This process as one of a program's processes, and the error that names the process at fault
(docs/processes.md).

Small, since every program loads it; `joining` is loaded when there are several processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teucer._devices.watch import Watch


class ProcessFailure(RuntimeError):
    """Another process of the program has failed, stopped, or does something else.

    processes: the numbers of the processes at fault.
    """

    __module__ = "teucer.distributed"

    def __init__(self, message: str, processes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.processes = processes


class DifferentValues(AssertionError):
    """Processes gave different values where all must give the same."""

    __module__ = "teucer.distributed"


class State:
    """This process among the others. Libraries read these fields by JAX's names."""

    process_id: int = 0
    num_processes: int = 1
    service: Any = None
    client: Any = None
    coordinator_address: str | None = None
    preemption_sync_manager: Any = None
    partition_index: int | None = None
    slice_index: int | None = None
    watch: Watch | None = None
    shutdown_timeout: int = 300
    exit_status: int = 0  # that the program has chosen, as far as one knows

    def __init__(self) -> None:
        self.cpu_options: dict[
            str, Any
        ] = {}  # passed to the CPU's client: how to reach the other processes


state = State()


def explained(err: Exception) -> Exception:
    """In the place of an error of a program over several processes: which of them is at fault; the
    error if none is."""
    return err if state.watch is None else state.watch.explained(err)
