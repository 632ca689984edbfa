"""Values that processes exchange, and places where they meet: for programs of several processes.

Every process must call each of these functions, in the same order. With one process they work on
its own values.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, tracebacks
from teucer._base.lazy import listing, refusing
from teucer._core.trace import Tracer
from teucer._derived import exchange
from teucer._derived.assembly import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from teucer._derived.moves import place
from teucer._devices import backends, processes
from teucer._devices.meshes import AxisType, Mesh
from teucer._devices.processes import ProcessFailure
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer._trees import pytrees

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.typing import AnyArray, Array
    from teucer._xla.pytree import PyTree

__all__ = [
    "ProcessFailureError", "assert_equal", "broadcast_one_to_all",
    "global_array_to_host_local_array", "host_local_array_to_global_array", "live_devices",
    "process_allgather", "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


class ProcessFailureError(ProcessFailure):
    """Some processes failed within `with live_devices(...)`.

    failed_devices: their devices.
    """

    def __init__(self, failed_devices: set[Any]) -> None:
        numbers = tuple(sorted({d.process_index for d in failed_devices}))
        super().__init__(
            f"processes failed: {numbers}, with devices {sorted(d.id for d in failed_devices)}.",
            numbers,
        )
        self.failed_devices = failed_devices


def _one_a_process() -> NamedSharding:
    """Arrays whose leading axis has one row for each process, on the process's first device."""
    by_process: dict[int, Any] = {}
    for d in backends.devices():
        by_process.setdefault(d.process_index, d)
    devices = np.array([by_process[i] for i in sorted(by_process)])
    return NamedSharding(
        Mesh(devices, ("processes",), axis_types=(AxisType.Auto,)), PartitionSpec("processes")
    )


def _everywhere(x: ArrayImpl) -> np.ndarray[Any, Any]:
    """The values of an array over several processes, in each of them. Options that the user has set
    for other programs do not matter."""
    with config.transfer_guard("allow"):
        return np.asarray(exchange.everywhere(x))


def _rows(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The arrays of all processes, which are of one type, stacked. They travel as bytes, so that no
    dtype and no NaN is changed."""
    if backends.process_count() == 1:
        return x[None]
    content = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    with config.transfer_guard("allow"):
        rows = _everywhere(make_array_from_process_local_data(_one_a_process(), content[None]))
    return rows.view(x.dtype).reshape(len(rows), *x.shape)


def _texts(text: str) -> list[str]:
    """The texts of all processes."""
    own = text.encode()
    width = int(_rows(np.array(len(own))).max())
    rows = _rows(np.frombuffer(own.ljust(width, b"\0"), np.uint8))
    return [bytes(row).rstrip(b"\0").decode() for row in rows]


def _check_types(
    tree: Sequence[tuple[tuple[object, ...], np.ndarray[Any, Any]]],
    error: type[Exception],
    message: str,
) -> None:
    """Check that all processes have values of the same shapes and dtypes: others cannot be
    exchanged.

    tree: the values, with their places in the user's tree. error: raised in every process.
    """
    said = [
        f"in_tree{pytrees.keystr(path)}: {x.dtype}[{','.join(map(str, x.shape))}]"
        for path, x in tree
    ]
    digest = hashlib.blake2b("\n".join(said).encode(), digest_size=8).digest()
    if len(set(_rows(np.frombuffer(digest, np.uint64)).ravel())) == 1:
        return
    found = [text.splitlines() for text in _texts("\n".join(said))]
    leaves = next(
        leaves
        for leaves in itertools.zip_longest(*found, fillvalue="no value")
        if len(set(leaves)) > 1
    )
    lines = "".join(f"\n    process {i}: {leaf}" for i, leaf in enumerate(leaves))
    raise error(f"{message}{lines}")


def _with_paths(tree: PyTree) -> list[tuple[tuple[object, ...], np.ndarray[Any, Any]]]:
    return [(path, np.asarray(x)) for path, x in pytrees.tree_leaves_with_path(tree)]


@tracebacks.api_boundary
def process_allgather(in_tree: PyTree, tiled: bool = False) -> Any:
    """The values that each process has, in all processes.

    in_tree: a pytree of arrays or numbers, T[shape] in each process; or arrays that lie over
    several processes, for which `tiled` must be True.
    tiled: whether the values are joined along their first axis, rather than along a new one.
    Returns a tree of NumPy arrays: T[processes, *shape], or joined T[processes * shape[0], ...]; of
    arrays over several processes the whole.
    Raises ValueError for an array over several processes without `tiled`, and, in every process,
    where these give values of different shapes or dtypes.

    >>> process_allgather(np.arange(3))
    array([[0, 1, 2]])
    """

    def is_whole(x: object) -> TypeGuard[ArrayImpl]:
        return isinstance(x, ArrayImpl) and not x.is_fully_addressable

    def gather(x: AnyArray) -> np.ndarray[Any, Any]:
        if is_whole(x):
            return _everywhere(x)
        value = np.asarray(x)
        rows = _rows(value)
        return rows.reshape(-1, *value.shape[1:]) if tiled and value.ndim else rows

    leaves = pytrees.tree_leaves_with_path(in_tree)
    for path, x in leaves:
        if is_whole(x) and not tiled:
            raise ValueError(
                "Gathering global non-fully-addressable arrays only supports tiled=True: the array "
                f"is the whole already.\n    in_tree{pytrees.keystr(path)}: {x.aval.str_short()}"
            )
    own = [(path, np.asarray(x)) for path, x in leaves if not is_whole(x)]
    if own and backends.process_count() > 1:
        message = "process_allgather: the processes give values of different types."
        _check_types(own, ValueError, message)
    return pytrees.tree_map(gather, in_tree)


@tracebacks.api_boundary
def broadcast_one_to_all(in_tree: PyTree, is_source: bool | None = None) -> Any:
    """The values of one process, in all processes.

    in_tree: a pytree of arrays or numbers, of the same shapes and dtypes in every process.
    is_source: whether this process is the one; by default that is process 0.
    Returns a tree of NumPy arrays.
    Raises ValueError unless exactly one process is the source, and for different shapes and dtypes.

    >>> broadcast_one_to_all({"seed": 3})
    {'seed': array(3)}
    """
    if backends.process_count() == 1:
        return pytrees.tree_map(np.asarray, in_tree)
    source = backends.process_index() == 0 if is_source is None else bool(is_source)
    sources = np.flatnonzero(_rows(np.array(source)))
    if len(sources) != 1:
        raise ValueError(
            "broadcast_one_to_all: exactly one process is the source of the values.\n"
            f"    is_source is True in processes {sources.tolist()}."
        )
    message = "broadcast_one_to_all: the processes give values of different types."
    _check_types(_with_paths(in_tree), ValueError, message)
    return _of_process(sources[0], in_tree)


def _of_process(number: int, tree: PyTree) -> Any:
    """A process's tree of values."""
    return pytrees.tree_map(lambda x: _rows(np.asarray(x))[number, ...], tree)


@tracebacks.api_boundary
def assert_equal(in_tree: PyTree, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have the same tree of values.

    in_tree: a pytree of arrays or numbers, of the same shapes and dtypes in every process.

    >>> assert_equal(np.arange(3))
    """
    if backends.process_count() == 1:
        return
    message = f"{fail_message}. The processes' values differ in their types."
    _check_types(_with_paths(in_tree), AssertionError, message)
    expected = _of_process(0, in_tree)
    equal = all(
        np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
        for x, y in zip(
            map(np.asarray, pytrees.tree_leaves(in_tree)),
            pytrees.tree_leaves(expected),
            strict=True,
        )
    )
    differ = np.flatnonzero(~_rows(np.array(equal))).tolist()
    if differ:
        own = backends.process_index()
        first = _of_process(differ[0], in_tree)
        shown, got = (own, in_tree) if own in differ else (differ[0], first)
        raise AssertionError(
            f"{fail_message}. Expected: {expected}; got: {got}.\n"
            f"  Those are the values of process 0 and process {shown}. "
            f"Processes with others than process 0: {differ}."
        )


@tracebacks.api_boundary
def sync_global_devices(name: str) -> None:
    """Wait until all processes are here, and their devices have finished their work.

    Raises AssertionError if another process is at a place of another name.
    """
    if backends.process_count() > 1:
        assert_equal(
            np.uint32(zlib.crc32(name.encode())), f"sync_global_devices name mismatch ('{name}')"
        )


@tracebacks.api_boundary
def host_local_array_to_global_array(
    local_inputs: object, global_mesh: Mesh, pspecs: object
) -> Any:
    """Arrays over a mesh of all processes, from each process's values.

    local_inputs: a pytree of arrays, T[shape] in each process. global_mesh: each process has a
    block of it.
    pspecs: a PartitionSpec, or a tree prefix of them. An axis that lies over mesh axes is as many
    times longer in the result as the mesh is longer there than this process's part of it.
    Raises ValueError for None as a spec.

    >>> import teucer as jax
    >>> host_local_array_to_global_array(np.arange(2), jax.make_mesh((1,), ("x",)), jax.P("x"))
    Array([0, 1], dtype=int32)
    """

    def to_global(x: AnyArray, spec: PartitionSpec) -> Any:
        if isinstance(x, Tracer):
            raise TypeError(
                "host_local_array_to_global_array: a traced value has no parts on the host: "
                f"{x}.\n  Call it outside of jit."
            )
        if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
            return x
        return make_array_from_process_local_data(NamedSharding(global_mesh, spec), np.asarray(x))

    return _with_specs("host_local_array_to_global_array", to_global, local_inputs, pspecs)


@tracebacks.api_boundary
def global_array_to_host_local_array(
    global_inputs: object, global_mesh: Mesh, pspecs: object
) -> Any:
    """The parts of arrays that this process has, as arrays over its part of a mesh: the inverse of
    `host_local_array_to_global_array`.

    global_inputs: a pytree of arrays over global_mesh, T[shape]. pspecs: as there.
    Raises ValueError for None as a spec.
    """

    def to_local(x: Array, spec: PartitionSpec) -> Any:
        sharding = NamedSharding(global_mesh, spec)
        if isinstance(x, ArrayImpl) and x.is_fully_addressable:
            return x
        if not (isinstance(x, ArrayImpl) and x.sharding.is_equivalent_to(sharding, x.ndim)):
            x = place(x, sharding)
        local = NamedSharding(global_mesh.local_mesh, spec)
        part, cuts = sharding.shard_shape(x.shape), local._parts(x.ndim)
        shape = tuple(size * n for size, n in zip(part, cuts, strict=True))
        data = {s.device: s.data for s in x.addressable_shards}
        return make_array_from_single_device_arrays(
            shape, local, [data[d] for d in global_mesh.local_mesh.devices.flat], dtype=x.dtype
        )

    return _with_specs("global_array_to_host_local_array", to_local, global_inputs, pspecs)


def _with_specs(name: str, f: Callable[..., object], tree: PyTree, specs: object) -> Any:
    if specs is None:
        raise ValueError(
            "`None` is not a valid input to the pspecs argument. Please use "
            "jax.sharding.PartitionSpec() if you wanted to replicate your input."
        )
    leaves, treedef = pytrees.tree_flatten(tree)
    given = pytrees.flatten_axes(f"{name} pspecs", treedef, specs)
    return treedef.unflatten([f(x, spec) for x, spec in zip(leaves, given, strict=True)])


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether all processes are at the step at which they should save their state, since one will
    be preempted.

    step_id: the number of the step, the same in all processes, which call this at every step. When
    the cluster announces the preemption of one (SIGTERM), the processes agree on the next step that
    no process has begun. Without the option jax_enable_preemption_service there is no such step.
    Raises RuntimeError if the processes are not connected (jax.distributed.initialize).
    """
    if processes.state.client is None:
        if backends.process_count() == 1:
            return False
        raise RuntimeError(
            "reached_preemption_sync_point: the processes are not connected.\n  Call "
            "jax.distributed.initialize first."
        )
    manager = processes.state.preemption_sync_manager
    if manager is None:
        return False
    return bool(manager.reached_sync_point(step_id))


@contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """Those of the devices whose processes have not failed, as all of these processes agree, for a
    `with` block.

    devices: of several processes, and some of this one. It waits for each of them that has not
    failed. At the end of the block it waits again: if one has failed, or its block raised, then all
    of them raise.
    For programs that go on without failed processes: set the option jax_enable_recoverability.
    Raises RuntimeError if the processes are not connected, ValueError if no device is this
    process's, ProcessFailureError if a process failed in the block.
    """
    watching = processes.state.watch
    if watching is None:
        raise RuntimeError(
            "Distributed JAX not initialized.\n  Call jax.distributed.initialize first."
        )
    group = sorted({d.process_index for d in devices})
    if processes.state.process_id not in group:
        raise ValueError(
            "live_devices: no device is one of this process.\n"
            "  Give some of jax.local_devices(), too."
        )
    alive = watching.alive_of(group, "")
    try:
        yield [d for d in devices if d.process_index in alive]
    except BaseException as err:
        watching.alive_of(sorted(alive), type(err).__name__)
        raise
    left = watching.alive_of(sorted(alive), "")
    if left != alive:
        raise ProcessFailureError({d for d in devices if d.process_index in alive - left})
