"""Arrays as pieces in a folder, and pieces in a folder as arrays of any sharding."""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._derived.moves import device_put
from teucer._devices import backends, shardings
from teucer._serialization import folders
from teucer._serialization.agreement import Save
from teucer.random import key_data, key_impl, wrap_key_data

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike
    from teucer._xla.pytree import PyTree


_THREADS = 8


class Parts(NamedTuple):
    """The parts of an array that this process writes.

    shape, dtype, key: of the whole array. parts: the start and the values of each.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    key: str | None
    parts: tuple[tuple[tuple[int, ...], np.ndarray[Any, Any]], ...]

    def stored(self, pieces: Sequence[folders.Piece] = ()) -> folders.Stored:
        """The array's entry in a manifest."""
        return folders.Stored(self.shape, self.dtype.name, tuple(pieces), self.key)


class Wanted(NamedTuple):
    """An array as it is to be loaded. shape, dtype: None for the stored ones."""

    sharding: Any
    shape: tuple[int, ...] | None
    dtype: Any


def is_array(x: ArrayLike) -> bool:
    """Whether a value can be saved: an array, of typed keys too, or one of NumPy."""
    return isinstance(x, ArrayImpl | np.ndarray | np.generic)


def parts_of(x: Any) -> Parts:
    """The parts of an array that this process is to write: the shards that no other process writes.

    The values of an array on the CPU are its own buffers, which stay as they are as long as they
    are held.
    Raises TypeError for an object that is no array, ValueError for a dtype without bytes.
    """
    if not is_array(x):
        raise TypeError(
            f"array_serialization: only arrays can be saved, got {x!r:.100} of type {type(x)}."
        )
    if not isinstance(x, ArrayImpl):
        value = np.asarray(x)
        _check(value.dtype)
        return Parts(
            value.shape,
            value.dtype,
            None,
            (((0,) * value.ndim, value.copy()),) if backends.process_index() == 0 else (),
        )
    key = None
    if isinstance(x.dtype, dtypes.ExtendedDType):
        keys: Any = x
        key, x = str(key_impl(keys)), key_data(keys)
    _check(x.dtype)
    own = [shard for shard in x.addressable_shards if shard.replica_id == 0]
    for shard in own:
        shard.data.copy_to_host_async()
    parts = tuple((start_of(shard.index), np.asarray(shard.data)) for shard in own)
    return Parts(x.shape, np.dtype(x.dtype), key, parts)


def _check(dtype: Any) -> None:
    if dtype.hasobject or dtype.itemsize == 0 or dtype.names:
        raise ValueError(f"array_serialization: arrays of dtype {dtype} cannot be saved.")


def nothing() -> None:
    """The default: nothing is done."""


def save(
    folder: Path,
    arrays: Sequence[Parts],
    seconds: float,
    *,
    tree: PyTree = None,
    prepare: Callable[[], None] = nothing,
    beside: Callable[[], None] = nothing,
    after: Callable[[], None] = nothing,
) -> Callable[[], None]:
    """Begin a save by all processes. Returns a function that does the rest, possibly in a thread.

    tree: goes into the manifest. prepare: called by the first process before anything is written;
    after: called by it when all is written. beside: called by each process to write more than its
    pieces.
    """
    together = Save(folder, seconds)

    def make_folder() -> None:
        prepare()
        folder.mkdir(parents=True, exist_ok=True)

    def run() -> None:
        token, failure, own = together.token(make_folder), None, folders.Manifest(())
        try:
            beside()
            own = _write(folder, token, arrays)
            if len(together.processes) > 1:
                folders.write_list(folder, together.process, token, own)
        except Exception as err:  # is told to the other processes, and raised by `finish`
            failure = err
        together.finish(failure, functools.partial(commit, token, own))

    def commit(token: str, own: folders.Manifest) -> None:
        rest = [folders.written_list(folder, i, token) for i in together.processes[1:]]
        whole = folders.total([own, *rest], tree)
        folders.write_manifest(folder, token, whole)
        after()
        folders.remove_unnamed(folder, whole)

    return run


def _write(folder: Path, token: str, arrays: Sequence[Parts]) -> folders.Manifest:
    with ThreadPoolExecutor(_THREADS) as pool:
        futures = []
        for number, array in enumerate(arrays):
            found = []
            for start, value in array.parts:
                for begin, shape in folders.cut(start, value.shape, array.dtype.itemsize):
                    index = tuple(
                        slice(b - s, b - s + n) for b, s, n in zip(begin, start, shape, strict=True)
                    )
                    found.append(
                        pool.submit(folders.write_piece, folder, token, number, begin, value[index])
                    )
            futures.append(found)
        return folders.Manifest(
            tuple(
                array.stored([f.result() for f in found])
                for array, found in zip(arrays, futures, strict=True)
            )
        )


def wanted(where: Any, shape: Any = None, dtype: Any = None) -> Wanted:
    """The array to be loaded, from the arguments of a loading function.

    where: a sharding, a Format, or a ShapeDtypeStruct with one.

    Raises TypeError if no sharding is said.
    """
    sharding = getattr(where, "sharding", None) if hasattr(where, "shape") else where
    if hasattr(where, "shape") and dtype is None:
        dtype = where.dtype
    if getattr(sharding, "sharding", sharding) is None:
        raise TypeError(
            "sharding passed to deserialization should be specified, concrete and an instance of "
            f"`jax.sharding.Sharding`. Got {where}"
        )
    return Wanted(sharding, None if shape is None else tuple(shape), dtype)


def read(
    sources: Sequence[tuple[Path, folders.Stored]], targets: Sequence[Wanted], concurrent_gb: float
) -> list[Any]:
    """Arrays from folders.

    concurrent_gb: of how many gigabytes at once they are read, if one array is not larger.
    """
    limit, used = concurrent_gb * 2**30, 0.0
    loading: collections.deque[tuple[float, Callable[[], Any]]] = collections.deque()
    made = []
    with ThreadPoolExecutor(_THREADS) as pool:
        for (folder, stored), target in zip(sources, targets, strict=True):
            plan = _Plan(folder, stored, target)
            while loading and used + plan.size > limit:
                size, finish = loading.popleft()
                made.append(finish())
                used -= size
            used += plan.size
            loading.append((plan.size, plan.start(pool)))
        made += [finish() for _, finish in loading]
    return made


class _Plan:
    """How one array is loaded: a buffer for each part, and the pieces that go into them."""

    def __init__(self, folder: Path, stored: folders.Stored, target: Wanted) -> None:
        self._folder, self._stored = folder, stored
        self._wrap: Callable[[Any], Any] = lambda x: x
        shape, place, asked = stored.shape, target.sharding, target.dtype
        if target.shape is not None:
            shape = target.shape
        if stored.key is not None:
            self._wrap = functools.partial(wrap_key_data, impl=stored.key)
            if target.shape is not None:
                shape = (*target.shape, *stored.shape[len(target.shape) :])
            asked = None
        self._from = np.dtype(stored.dtype)
        self._dtype = dtypes.canonicalize_dtype(self._from if asked is None else asked)
        self._shape, self._place = shape, place
        self._sharding = getattr(place, "sharding", None) or place
        self._part = shardings.check_shape(self._sharding, shape)
        self._starts = {
            start_of(index)
            for index in self._sharding.addressable_devices_indices_map(shape).values()
        }
        self.size = float(len(self._starts) * math.prod(self._part) * self._dtype.itemsize)

    def start(self, pool: ThreadPoolExecutor) -> Callable[[], Any]:
        """Begin to read. Returns a function that waits, and gives the array."""
        buffers = {start: np.zeros(self._part, self._dtype) for start in self._starts}
        reading: list[Future[None]] = []
        for piece in self._stored.pieces:
            met = {
                start: buffer
                for start, buffer in buffers.items()
                if _overlap(piece, start, self._part) is not None
            }
            if met:
                reading.append(pool.submit(self._fill, piece, met))

        def finish() -> Any:
            for future in reading:
                future.result()
            aval = shardings.sharded_aval(ShapedArray(self._shape, self._dtype), self._sharding)
            made = transfer.from_parts(aval, self._sharding, lambda index: buffers[start_of(index)])
            return self._wrap(
                made if self._place is self._sharding else device_put(made, self._place)
            )

        return finish

    def _fill(
        self, piece: folders.Piece, buffers: dict[tuple[int, ...], np.ndarray[Any, Any]]
    ) -> None:
        value = folders.read_piece(self._folder, piece, self._from)
        for start, buffer in buffers.items():
            meeting = _overlap(piece, start, self._part)
            assert meeting is not None
            inner, outer = meeting
            buffer[outer] = value[inner].astype(self._dtype)


def _overlap(
    piece: folders.Piece, start: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Any, Any] | None:
    """Where a piece and a part of an array meet: indices within each; None if they do not."""
    inner, outer = [], []
    for a, n, b, m in zip(piece.start, piece.shape, start, shape, strict=True):
        low, high = max(a, b), min(a + n, b + m)
        if low >= high:
            return None
        inner.append(slice(low - a, high - a))
        outer.append(slice(low - b, high - b))
    return tuple(inner), tuple(outer)


def start_of(index: tuple[slice, ...]) -> tuple[int, ...]:
    """Where a part of an array starts, from its index."""
    return tuple(i.start or 0 for i in index)
