"""Saving and loading trees of arrays: a folder for each, which a save replaces as a whole."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import config
from teucer._base.lazy import listing
from teucer._export.serialization import read_tree, tree_text
from teucer._serialization import agreement, arrays, folders
from teucer._serialization import specs as _specs
from teucer._trees import pytrees
from teucer.experimental.array_serialization import tensorstore_impl
from teucer.experimental.array_serialization.pytree_serialization_utils import PyTreeFuture
from teucer.random import key_dtype

if TYPE_CHECKING:
    from teucer._core.typing import Params

__all__ = ["load", "load_pytreedef", "nonblocking_load", "nonblocking_save", "save"]
__dir__ = listing(__name__, __all__)

_BY_TENSORSTORE = "array_store"
_JAX = "pytreedef.json"


@functools.cache
def _saving() -> ThreadPoolExecutor:
    """One thread: saves end in the order in which they began.

    The interpreter waits for it at its end.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="teucer save")


@functools.cache
def _loading() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="teucer load")


def save(
    data: object,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    ts_specs: object = None,
) -> None:
    """Save a tree of arrays to a folder, in the place of the tree that was saved there before.

    data: a pytree of arrays (of NumPy and of typed keys, too) and None. directory: in a program of
    several processes one that all share; all of them call this. overwrite: whether the folder may
    hold a tree already. ts_specs: a tree prefix of specs of tensorstore, for arrays that are to be
    in one of its formats.
    Raises ValueError for other leaves, for classes of nodes that are not registered, and if there
    is a tree that must not be overwritten; RuntimeError if the folder holds other files, or another
    process has failed.

    >>> import tempfile, teucer as jax
    >>> folder = tempfile.mkdtemp()
    >>> x = jax.numpy.arange(3)
    >>> save({"x": x, "y": None}, folder)
    >>> load(folder, x.sharding)
    {'x': Array([0, 1, 2], dtype=int32), 'y': None}
    """
    _save(data, directory, overwrite, ts_specs)()


def nonblocking_save(
    data: object,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    ts_specs: object = None,
) -> PyTreeFuture[None]:
    """As `save`, in a thread. Returns an object: its `result()` waits, and raises an exception of
    the save."""
    saving = PyTreeFuture(_saving().submit(_save(data, directory, overwrite, ts_specs)))
    saving.pytree = pytrees.tree_map(lambda x: ShapeDtypeStruct(x.shape, x.dtype), data)
    return saving


def load(
    directory: str | os.PathLike[str],
    shardings: Any,
    *,
    mask: object = None,
    ts_specs: object = None,
) -> Any:
    """The tree that was saved to a folder.

    shardings: a tree prefix of shardings, Formats, or ShapeDtypeStructs with one of them, whose
    dtype the array then gets. mask: a tree prefix of booleans; a leaf with False is not read, and
    is None in the result. ts_specs: as of `save`, by default those of the save.
    Raises FileNotFoundError if no tree was saved there, ValueError for a file that is damaged, for
    trees that do not fit, and for classes of nodes that are not registered; TypeError where there
    is no sharding.
    """
    return _load(directory, shardings, mask, ts_specs)()


def nonblocking_load(
    directory: str | os.PathLike[str],
    shardings: object,
    *,
    mask: object = None,
    ts_specs: object = None,
) -> PyTreeFuture[Any]:
    """As `load`, in a thread. Returns an object: its `result()` is the tree."""
    options, work = config.of_this_thread(), _load(directory, shardings, mask, ts_specs)

    def run() -> Any:
        config.adopt(options)
        return work()

    loading = PyTreeFuture(_loading().submit(run))
    loading.pytree = load_pytreedef(directory)
    return loading


def load_pytreedef(directory: str | os.PathLike[str]) -> Any:
    """The tree that was saved to a folder, with ShapeDtypeStructs in the places of its arrays."""
    manifest = _manifest(Path(directory).absolute())
    return pytrees.tree_unflatten(
        read_tree(manifest.tree["structure"]),
        [
            ShapeDtypeStruct(x.shape, x.dtype) if x.key is None else _keys_struct(x)
            for x in manifest.arrays
        ],
    )


def _keys_struct(stored: folders.Stored) -> ShapeDtypeStruct:
    dtype = key_dtype(stored.key)
    return ShapeDtypeStruct(stored.shape[: len(stored.shape) - len(dtype._impl.key_shape)], dtype)


def _save(
    data: object, directory: str | os.PathLike[str], overwrite: bool, ts_specs: object
) -> Callable[[], None]:
    """Begin a save. Returns a function that does the rest."""
    folder = Path(directory).absolute()
    leaves, structure = pytrees.tree_flatten(data)
    if not all(map(arrays.is_array, leaves)):
        wrong = next(x for x in leaves if not arrays.is_array(x))
        raise ValueError(
            "For serialization, all leaves must be either None or jax.Array-like objects.\n    a "
            "leaf is "
            f"{wrong!r:.100} of type {type(wrong)}.\n  Make it an array: jax.numpy.asarray(x)."
        )
    specs = _specs_of(structure, ts_specs)
    tree = {"structure": tree_text(structure), "specs": specs}

    def prepare() -> None:
        strange = [name for name in folders.others(folder) if name != _BY_TENSORSTORE]
        if strange:
            raise RuntimeError(
                "Refusing to work on a directory that is not a previous checkpoint. Unrecognized "
                f"paths: {strange}. "
                f"Remove them manually if you're sure you want to use {folder} as the checkpoint "
                "directory."
            )
        if not overwrite and folders.is_folder(folder):
            raise ValueError(
                f"Files already exist at path: `{folder}`, but you specified `overwrite=False`"
            )

    parts = [arrays.parts_of(x) for x in leaves]
    own = [
        p if spec is None else p._replace(parts=()) for p, spec in zip(parts, specs, strict=True)
    ]
    given = [
        (x, _placed(folder, i, spec))
        for i, (x, spec) in enumerate(zip(leaves, specs, strict=True))
        if spec is not None
    ]

    def clear() -> None:
        if not given:
            shutil.rmtree(folder / _BY_TENSORSTORE, ignore_errors=True)

    return arrays.save(
        folder,
        own,
        agreement.patience(),
        tree=tree,
        prepare=prepare,
        beside=functools.partial(_write_by_tensorstore, given),
        after=clear,
    )


def _write_by_tensorstore(pairs: Sequence[tuple[Any, Any]]) -> None:
    if not pairs:
        return

    async def write() -> None:
        await asyncio.gather(*[tensorstore_impl.async_serialize(x, spec) for x, spec in pairs])

    tensorstore_impl.run_async(write)


def _load(
    directory: str | os.PathLike[str], shardings: object, mask: Any, ts_specs: object
) -> Callable[[], Any]:
    """Check the arguments of a load. Returns a function that reads."""
    folder = Path(directory).absolute()
    manifest = _manifest(folder)
    structure = read_tree(manifest.tree["structure"])
    places = pytrees.flatten_axes("load shardings", structure, shardings)
    chosen = pytrees.flatten_axes("load mask", structure, True if mask is None else mask)
    said = _specs_of(structure, ts_specs) if ts_specs is not None else manifest.tree["specs"]
    numbers = [i for i, use in enumerate(chosen) if use]
    targets = {i: arrays.wanted(places[i]) for i in numbers}

    def run() -> Any:
        own = [i for i in numbers if said[i] is None]
        found = dict(
            zip(
                own,
                arrays.read(
                    [(folder, manifest.arrays[i]) for i in own], [targets[i] for i in own], 32
                ),
                strict=True,
            )
        )
        others = [i for i in numbers if said[i] is not None]
        found.update(
            zip(
                others,
                tensorstore_impl.run_deserialization(
                    [targets[i].sharding for i in others],
                    [_placed(folder, i, said[i]) for i in others],
                    None,
                    [targets[i].dtype for i in others],
                ),
                strict=True,
            )
        )
        return pytrees.tree_unflatten(structure, [found.get(i) for i in range(len(chosen))])

    return run


def _manifest(folder: Path) -> folders.Manifest:
    try:
        manifest = folders.read_manifest(folder)
    except FileNotFoundError as err:
        if (folder / _JAX).exists():
            raise ValueError(
                f"{folder} was saved by JAX's pytree_serialization, which Teucer does not read.\n "
                " Load it with JAX, and "
                "save its arrays by serialization.run_serialization."
            ) from err
        raise FileNotFoundError(
            f"Checkpoint directory {folder} does not exist, or no tree has been saved to it."
        ) from err
    if manifest.tree is None:
        raise ValueError(
            f"{folder} has an array that was saved by itself, and no tree.\n  Load it by "
            "serialization.run_deserialization."
        )
    return manifest


def _specs_of(structure: Any, prefix: object) -> list[Any]:
    """The spec of each leaf of a structure, or None, of a tree prefix of them."""
    full = pytrees.tree_unflatten(structure, range(structure.num_leaves))
    return pytrees.broadcast_prefix(prefix, full, _specs.is_tensorstore_spec_leaf)


def _placed(folder: Path, number: int, spec: Params) -> dict[str, Any]:
    """The spec of an array within the folder of a tree."""
    return _specs.merge_nested_ts_specs(
        _specs.get_tensorstore_spec(folder / _BY_TENSORSTORE / str(number), ocdbt=False), spec
    )
