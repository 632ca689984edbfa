"""Saving and loading arrays over devices and processes, also while the program goes on."""

from __future__ import annotations

import abc
import asyncio
import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._base.lazy import listing
from teucer._serialization import arrays as _arrays
from teucer._serialization import specs as _specs
from teucer._serialization.agreement import BarrierTimeoutError, Save
from teucer._serialization.specs import is_remote_storage
from teucer.experimental.array_serialization import tensorstore_impl
from teucer.experimental.array_serialization.tensorstore_impl import (
    _LimitInFlightBytes,  # noqa: F401  # for AXLearn
    async_deserialize,
    async_serialize,
    run_deserialization,
    run_serialization,
)

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = [
    "AsyncManager", "BarrierTimeoutError", "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase", "async_deserialize", "async_serialize",
    "get_tensorstore_spec", "is_remote_storage", "run_deserialization", "run_serialization",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

get_tensorstore_spec = functools.partial(_specs.get_tensorstore_spec, ocdbt=False, driver="zarr")


def __getattr__(name: str) -> Any:
    """TS_CONTEXT is tensorstore's."""
    if name == "TS_CONTEXT":
        return tensorstore_impl.TS_CONTEXT
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class AsyncManager:
    """One piece of work at a time in a thread, whose error is raised in the program.

    timeout_secs: how long a process waits for another at the end of a save.
    """

    def __init__(self, timeout_secs: int = 300) -> None:
        self._timeout_secs = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def check_for_errors(self) -> None:
        """Raise the error of the work in the thread, if it has ended with one; once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_until_finished(self) -> None:
        """Wait until the work in the thread has ended; raises its error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as err:  # `check_for_errors` raises it
                self._error = err

        # No daemon: the interpreter waits for it, so that a save that was begun is finished.
        self._thread = threading.Thread(target=run, name="teucer save", daemon=False)
        self._thread.start()


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """The interface of a manager of checkpoints: `GlobalAsyncCheckpointManager` is one."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise the error of the last save, if it has ended with one."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait for the last save."""

    @abc.abstractmethod
    def serialize(
        self,
        arrays: Sequence[Value],
        tensorstore_specs: Sequence[object],
        *,
        on_commit_callback: Callable[[], None],
    ) -> None:
        """Begin to save arrays to the places that specs say."""

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[object],
        tensorstore_specs: Sequence[object],
        global_shapes: Sequence[Sequence[int]] | None = None,
        dtypes: Sequence[object] | None = None,
    ) -> Any:
        """The arrays at the places that specs say."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Saves arrays in a thread while the program goes on.

    All processes call its methods, in the same order.

    timeout_secs: how long a process waits for another at the end of a save.

    >>> import tempfile, teucer as jax
    >>> manager, path = GlobalAsyncCheckpointManager(), tempfile.mkdtemp() + "/x"
    >>> x = jax.numpy.arange(4)
    >>> manager.serialize_with_paths([x], [path])
    >>> manager.wait_until_finished()
    >>> manager.deserialize_with_paths([x.sharding], [path])
    [Array([0, 1, 2, 3], dtype=int32)]
    """

    def serialize(
        self,
        arrays: Sequence[Value],
        tensorstore_specs: Sequence[object],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: object = None,
    ) -> None:
        """Begin to save arrays, when the save before has ended.

        tensorstore_specs: a spec for each array, as of `get_tensorstore_spec`. on_commit_callback:
        is called in the first process when all processes have written everything, before
        `wait_until_finished` returns. transaction: tensorstore's. Raises the error of the save
        before; ValueError for another number of specs; ImportError for a spec that needs
        tensorstore, where that is not installed.
        """
        arrays, specs = list(arrays), list(tensorstore_specs)
        if len(arrays) != len(specs):
            raise ValueError(
                f"serialize: there are {len(arrays)} arrays and {len(specs)} specs; each array "
                "has one."
            )
        self.wait_until_finished()
        if tensorstore_impl.installed():
            work = self._by_tensorstore(arrays, specs, transaction)
        else:
            for spec in specs:
                tensorstore_impl.is_own(spec)
            saves = [
                _arrays.save(
                    tensorstore_impl.folder_of(spec), [_arrays.parts_of(x)], self._timeout_secs
                )
                for x, spec in zip(arrays, specs, strict=True)
            ]
            work = functools.partial(_one_after_another, saves)
        self._start(self._committed(work, specs, on_commit_callback or _arrays.nothing))

    def serialize_with_paths(
        self,
        arrays: Sequence[Value],
        paths: Sequence[str | os.PathLike[str]],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: object = None,
    ) -> None:
        """As `serialize`, with a path for each array."""
        self.serialize(
            arrays,
            _specs.named(paths),
            on_commit_callback=on_commit_callback,
            transaction=transaction,
        )

    def deserialize(
        self,
        shardings: Sequence[object],
        tensorstore_specs: Sequence[object],
        global_shapes: Sequence[Sequence[int]] | None = None,
        dtypes: Sequence[object] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Any]:
        """As `run_deserialization`, when the last save has ended."""
        self.wait_until_finished()
        return run_deserialization(
            shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb
        )

    def deserialize_with_paths(
        self,
        shardings: Sequence[object],
        paths: Sequence[str | os.PathLike[str]],
        global_shapes: Sequence[Sequence[int]] | None = None,
        dtypes: Sequence[object] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Any]:
        """As `deserialize`, with a path for each array."""
        return self.deserialize(
            shardings, _specs.named(paths), global_shapes, dtypes, concurrent_gb
        )

    def _by_tensorstore(
        self, arrays: Sequence[Value], specs: Sequence[object], transaction: object
    ) -> Callable[[], None]:
        futures: list[Any] = []

        async def begin() -> None:
            await asyncio.gather(
                *[
                    async_serialize(x, spec, futures, transaction=transaction)
                    for x, spec in zip(arrays, specs, strict=True)
                ]
            )

        tensorstore_impl.run_async(begin)

        def finish() -> None:
            for future in futures:
                future.result()

        return finish

    def _committed(
        self, work: Callable[[], None], specs: Sequence[object], commit: Callable[[], None]
    ) -> Callable[[], None]:
        """The work; when it has succeeded in all processes, `commit` in the first of them."""
        together = Save(
            tensorstore_impl.folder_of(specs[0])
            if specs and _specs.local_path(specs[0])
            else str(specs[:1]),
            self._timeout_secs,
        )

        def run() -> None:
            failure = None
            try:
                work()
            except Exception as err:  # is told to the other processes, and raised by `finish`
                failure = err
            together.finish(failure, commit)

        return run


def _one_after_another(saves: Sequence[Callable[[], None]]) -> None:
    for save in saves:
        save()
