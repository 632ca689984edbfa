"""Arrays in the formats of the package tensorstore, and in Teucer's own without it."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import transfer
from teucer._base import dtypes
from teucer._base.lazy import listing
from teucer._core.types import ShapedArray
from teucer._derived.moves import device_put
from teucer._devices import backends, shardings
from teucer._serialization import agreement, folders
from teucer._serialization import arrays as _arrays
from teucer._serialization import specs as _specs
from teucer._serialization.specs import (
    get_tensorstore_spec,
    is_tensorstore_spec_leaf,
    merge_nested_ts_specs,
)

if TYPE_CHECKING:
    from teucer._core.typing import Array, Params, Value

__all__ = [
    "async_deserialize", "async_serialize", "combine_kvstores", "estimate_read_memory_footprint",
    "get_tensorstore_spec", "is_tensorstore_spec_leaf", "merge_nested_ts_specs",
    "run_deserialization", "run_serialization", "verify_tensorstore_spec",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

_CONCURRENCY = {
    "file_io_concurrency": {"limit": 128},
    "data_copy_concurrency": {"limit": 128},
    "cache_pool": {"total_bytes_limit": 10**10},
}


def installed() -> bool:
    """Whether the package tensorstore is."""
    return importlib.util.find_spec("tensorstore") is not None


def _tensorstore(what: str) -> ModuleType:
    if not installed():
        raise ImportError(
            f"array_serialization: {what} needs the package tensorstore, which is not installed.\n"
            "  Install it (pip install tensorstore), or save to a local path.",
            name="tensorstore",
        )
    return importlib.import_module("tensorstore")


@functools.cache
def _context() -> Any:
    return _tensorstore("TS_CONTEXT").Context(_CONCURRENCY)


def __getattr__(name: str) -> Any:
    """Names that are tensorstore's."""
    if name == "TS_CONTEXT":
        return _context()
    if name in ("Future", "Transaction"):
        return getattr(_tensorstore(name), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_own(spec: object) -> bool:
    """Whether a spec is of an array in Teucer's format: what lies there is, or must be.

    Raises ImportError for one that needs tensorstore, where that is not installed.
    """
    path = _specs.local_path(spec)
    if installed():
        return path is not None and folders.is_folder(path)
    if path is None:
        _tensorstore(f"the spec {spec}")
    return True


def folder_of(spec: object) -> Path:
    """The folder of an array in Teucer's format."""
    path = _specs.local_path(spec)
    assert path is not None
    return path


def stored_at(spec: object) -> folders.Stored:
    """The array in Teucer's format that a spec is of.

    Raises FileNotFoundError if there is none, ImportError if it is one of tensorstore's.
    """
    folder = folder_of(spec)
    try:
        return folders.read_manifest(folder).arrays[0]
    except FileNotFoundError as err:
        if (
            any((folder / name).exists() for name in (".zarray", "zarr.json"))
            or (folder.parent / "manifest.ocdbt").exists()
        ):
            _tensorstore(f"the array at {folder}, which is in a format of tensorstore,")
        raise FileNotFoundError(
            f"array_serialization: no array has been saved to {folder}."
        ) from err


async def async_serialize(
    arr_inp: object,
    tensorstore_spec: object,
    commit_future: list[Any] | None = None,
    context: object = None,
    chunk_layout: object = None,
    primary_host: int | None = None,
    replica_id: int = 0,
    transaction: object = None,
) -> Any:
    """Write an array to the place that a spec says; all processes of a program do it.

    arr_inp: T[shape], over any devices. commit_future: a list to which futures for the rest of the
    save are added; without one this waits until all is written. chunk_layout, context, transaction:
    tensorstore's. primary_host: the process that makes the array, by default each of them tries.
    replica_id: which of the copies of a shard is written.
    Raises ImportError for a spec that needs tensorstore, where that is not installed.
    """
    if not installed():
        is_own(tensorstore_spec)
        run = _arrays.save(
            folder_of(tensorstore_spec), [_arrays.parts_of(arr_inp)], agreement.patience()
        )
        await asyncio.get_running_loop().run_in_executor(None, run)
        return
    ts = _tensorstore("async_serialize")
    path = _specs.local_path(tensorstore_spec)
    if path is not None:
        (path / folders.MANIFEST).unlink(
            missing_ok=True
        )  # the stored format decides how it is read
    parts = _arrays.parts_of(arr_inp) if replica_id == 0 else _replica(arr_inp, replica_id)
    if parts.key is not None:
        raise TypeError(
            "array_serialization: typed keys have no format in tensorstore.\n  Save "
            "jax.random.key_data(keys), or use "
            "pytree_serialization."
        )
    spec = (
        tensorstore_spec
        if not isinstance(tensorstore_spec, dict)
        else _new(tensorstore_spec, arr_inp)
    )
    options = {"context": _context() if context is None else context, "transaction": transaction}
    if chunk_layout is not None:
        options["chunk_layout"] = chunk_layout
    makes = primary_host is None or backends.process_index() == primary_host
    store = await ts.open(
        ts.Spec(spec), open=True, create=makes, assume_metadata=not makes, **options
    )
    waiting = []
    for start, value in parts.parts:
        where = tuple(slice(s, s + n) for s, n in zip(start, value.shape, strict=True))
        writing = store[where].write(value, can_reference_source_data_indefinitely=True)
        if commit_future is not None:
            commit_future.append(writing.commit)
            waiting.append(writing.copy)
        else:
            waiting.append(writing.commit)
    await asyncio.gather(*waiting)


def _replica(x: Any, number: int) -> _arrays.Parts:
    """As `parts_of`, of other copies of the shards than the first."""
    own = [shard for shard in x.addressable_shards if shard.replica_id == number]
    parts = tuple(
        (tuple(i.start or 0 for i in shard.index), np.asarray(shard.data)) for shard in own
    )
    return _arrays.Parts(x.shape, np.dtype(x.dtype), None, parts)


def _new(spec: dict[str, Any], x: Any) -> dict[str, Any]:
    """The spec of an array that may not exist yet."""
    made = dict(spec)
    if not _specs.has_metadata(spec):
        made["metadata"] = _specs.metadata_of(spec.get("driver", "zarr"), x)
    made.setdefault("dtype", np.dtype(x.dtype).name)
    return made


async def async_deserialize(
    in_type: object,
    tensorstore_spec: object,
    global_shape: Sequence[int] | None = None,
    dtype: Any = None,
    byte_limiter: object = None,
    context: object = None,
    chunk_layout: object = None,
    assume_metadata: bool = False,
) -> Any:
    """The array at the place that a spec says.

    in_type: a sharding, a Format, or a ShapeDtypeStruct with one of them. global_shape: by default
    the stored shape; a larger one is filled with zeros. dtype: by default the stored one.
    byte_limiter: with `wait_for_bytes(n)` and `release_bytes(n)`, of how many bytes at once are
    read. context, chunk_layout, assume_metadata: tensorstore's.
    Raises TypeError without a sharding, FileNotFoundError (ValueError by tensorstore) if nothing is
    there.
    """
    target = _arrays.wanted(in_type, global_shape, dtype)
    if is_own(tensorstore_spec):
        source = (folder_of(tensorstore_spec), stored_at(tensorstore_spec))
        return _arrays.read([source], [target], 1)[0]
    ts = _tensorstore("async_deserialize")
    options = {"chunk_layout": chunk_layout} if chunk_layout is not None else {}
    store = await ts.open(
        tensorstore_spec,
        open=True,
        assume_metadata=assume_metadata,
        context=_context() if context is None else context,
        **options,
    )
    shape = tuple(store.shape) if target.shape is None else target.shape
    kind = np.dtype(
        dtypes.canonicalize_dtype(store.dtype.numpy_dtype if target.dtype is None else target.dtype)
    )
    sharding = getattr(target.sharding, "sharding", None) or target.sharding
    part = shardings.check_shape(sharding, shape)
    starts = {
        _arrays.start_of(index)
        for index in sharding.addressable_devices_indices_map(shape).values()
    }
    found = dict(
        zip(
            starts,
            await asyncio.gather(
                *[_read_part(store, start, part, kind, byte_limiter) for start in starts]
            ),
            strict=True,
        )
    )
    aval = shardings.sharded_aval(ShapedArray(shape, kind), sharding)
    made = transfer.from_parts(aval, sharding, lambda index: found[_arrays.start_of(index)])
    return made if target.sharding is sharding else device_put(made, target.sharding)


async def _read_part(
    store: Any, start: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype[Any], limiter: Any
) -> Any:
    """The elements of a part of a store's array; zeros where it has none."""
    where = tuple(
        slice(min(s, m), min(s + n, m)) for s, n, m in zip(start, shape, store.shape, strict=True)
    )
    view = store[where]
    size = estimate_read_memory_footprint(store, view.domain)
    if limiter is not None:
        await limiter.wait_for_bytes(size)
    try:
        value = await view.read()
    finally:
        if limiter is not None:
            await limiter.release_bytes(size)
    if value.shape == shape:
        return value.astype(dtype)
    whole = np.zeros(shape, dtype)
    whole[tuple(map(slice, value.shape))] = value.astype(dtype)
    return whole


def estimate_read_memory_footprint(t: Any, domain: Any) -> int:
    """The bytes read for a part of a tensorstore: all bytes of the chunks that it touches.

    t: a TensorStore. domain: the part, an IndexDomain.
    """
    chunks = t.chunk_layout.read_chunk.shape
    origin = t.chunk_layout.grid_origin
    count = 1
    for interval, chunk, zero in zip(domain, chunks, origin, strict=True):
        if not chunk:
            count *= interval.size
            continue
        zero = 0 if zero is None else zero
        first, last = (
            (interval.inclusive_min - zero) // chunk,
            (interval.exclusive_max - zero + chunk - 1) // chunk,
        )
        count *= max(0, last - first) * chunk
    return int(count) * int(t.dtype.numpy_dtype.itemsize)


def run_serialization(arrays: Sequence[Value], tensorstore_specs: Sequence[object]) -> None:
    """Write arrays to the places that specs say, and wait for it; all processes do it.

    >>> import tempfile, teucer as jax
    >>> spec = get_tensorstore_spec(tempfile.mkdtemp() + "/x", ocdbt=False)
    >>> x = jax.numpy.arange(4)
    >>> run_serialization([x], [spec])
    >>> run_deserialization([x.sharding], [spec])
    [Array([0, 1, 2, 3], dtype=int32)]
    """
    pairs = list(zip(arrays, tensorstore_specs, strict=True))

    async def write() -> None:
        await asyncio.gather(*[async_serialize(x, spec) for x, spec in pairs])

    run_async(write)


def run_deserialization(
    shardings: Sequence[Any],
    tensorstore_specs: Sequence[object],
    global_shapes: Sequence[Sequence[int]] | None = None,
    dtypes: Sequence[object] | None = None,
    concurrent_gb: int = 32,
) -> list[Any]:
    """The arrays at the places that specs say.

    shardings: one for each; the rest as of `async_deserialize`. concurrent_gb: gigabytes that are
    read at once, or one part if that is larger.
    """
    count = len(tensorstore_specs)
    shapes = [None] * count if global_shapes is None else list(global_shapes)
    kinds = [None] * count if dtypes is None else list(dtypes)
    limiter = Limiter(concurrent_gb * 2**30)

    async def read() -> list[Any]:
        return await asyncio.gather(
            *[
                async_deserialize(where, spec, shape, dtype, byte_limiter=limiter)
                for where, spec, shape, dtype in zip(
                    shardings, tensorstore_specs, shapes, kinds, strict=True
                )
            ]
        )

    specs = list(tensorstore_specs)
    if specs and all(map(is_own, specs)):
        targets = [_arrays.wanted(*asked) for asked in zip(shardings, shapes, kinds, strict=True)]
        return _arrays.read(
            [(folder_of(spec), stored_at(spec)) for spec in specs], targets, concurrent_gb
        )
    return run_async(read)


class Limiter:
    """Limits how many bytes are read at once: a caller that wants more waits.

    A part that is larger than the limit is read alone.
    """

    def __init__(self, most: float) -> None:
        self._most, self._used = most, 0.0
        self._changed = asyncio.Condition()

    async def wait_for_bytes(self, requested: float) -> None:
        """Wait until so many bytes may be read."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._used == 0 or self._used + requested <= self._most
            )
            self._used += requested

    async def release_bytes(self, requested: float) -> None:
        """Say that so many bytes are no more in use."""
        async with self._changed:
            self._used -= requested
            self._changed.notify_all()


_LimitInFlightBytes = Limiter  # as AXLearn names it


def run_async(work: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a coroutine, also within another event loop, such as a notebook's."""

    async def run() -> Any:
        return await work()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    from concurrent.futures import ThreadPoolExecutor  # for callers within an event loop

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run()).result()


async def combine_kvstores(
    combined_kvstore: object, kvstores: Sequence[object], context: object = None
) -> None:
    """Merge the ocdbt databases of several processes into one.

    One process does it, when all have written.

    combined_kvstore, kvstores: specs of kvstores.
    Raises ImportError where tensorstore is not installed.
    """
    ts = _tensorstore("combine_kvstores")
    context = _context() if context is None else context
    whole = await ts.KvStore.open(ts.KvStore.Spec(combined_kvstore), context=context)
    with ts.Transaction(atomic=True) as transaction:
        for spec in kvstores:
            part = await ts.KvStore.open(ts.KvStore.Spec(spec), context=context)
            await part.experimental_copy_range_to(whole.with_transaction(transaction))


def verify_tensorstore_spec(
    spec: Params, arr: Array, path: Any, ocdbt: bool, check_metadata: bool = True
) -> None:
    """Raise ValueError unless a spec is one for an array at a path.

    spec: a spec. arr: the array. path: the array's path; with ocdbt, the path of the folder above.
    check_metadata: whether the shape and dtype in the spec are compared.

    >>> import teucer as jax
    >>> x = jax.numpy.ones(3)
    >>> spec = get_tensorstore_spec("/tmp/x", ocdbt=False, arr=x)
    >>> verify_tensorstore_spec(spec, x, "/tmp/x", ocdbt=False)
    """
    if spec.get("driver") not in _specs.DRIVERS:
        raise ValueError(
            f"Only the drivers {', '.join(_specs.DRIVERS)} are supported, got "
            f"{spec.get('driver')!r} in {spec}."
        )
    kvstore = spec.get("kvstore", {})
    if (kvstore.get("driver") == "ocdbt") != ocdbt:
        raise ValueError(
            f"ocdbt is {ocdbt}, and the kvstore's driver is {kvstore.get('driver')!r} in {spec}."
        )
    inner = kvstore.get("base", {}) if ocdbt else kvstore
    if Path(str(inner.get("path", ""))) != Path(path):
        raise ValueError(f"Provided {path=} does not match the spec path: {kvstore}")
    if check_metadata:
        metadata = spec.get("metadata", {})
        if tuple(metadata.get("shape", ())) != tuple(arr.shape):
            raise ValueError(
                f"The spec has shape {metadata.get('shape')}, and the array {tuple(arr.shape)}: "
                f"{spec}"
            )
        said = metadata.get("data_type", spec.get("dtype"))
        if said is not None and said != np.dtype(arr.dtype).name:
            raise ValueError(
                f"The spec has dtype {said}, and the array {np.dtype(arr.dtype).name}: {spec}"
            )
