"""A folder of arrays on disk: pieces with checksums, and a manifest (docs/checkpoints.md)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from teucer._core.typing import Params


MANIFEST = "manifest.json"
LARGEST = 256 << 20  # bytes of a piece
_FORMAT = 1
_UNFINISHED = ".new-"
_OURS = re.compile(r"manifest\.json|.*\.piece|list-\d+-[0-9a-f]+\.json|\.new-.*")


class Piece(NamedTuple):
    """A part of an array: its file, where it starts, its shape, the SHA-256 of its bytes."""

    file: str
    start: tuple[int, ...]
    shape: tuple[int, ...]
    sha256: str


class Stored(NamedTuple):
    """An array.

    For typed keys, `key` is the implementation; shape and dtype describe the keys' data.
    """

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[Piece, ...]
    key: str | None = None


class Manifest(NamedTuple):
    """The content of a folder, as its JSON file says: arrays, and the tree whose leaves they
    are."""

    arrays: tuple[Stored, ...]
    tree: Any = None


def cut(
    start: Sequence[int], shape: Sequence[int], itemsize: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Start and shape of the pieces of a shard, none larger than the limit."""
    shape, start = tuple(shape), tuple(start)
    count = int(np.prod(shape, dtype=np.int64))
    axis = next((i for i, n in enumerate(shape) if n > 1), None)
    if axis is None or count * itemsize <= LARGEST:
        if count:
            yield start, shape
        return
    row = count // shape[axis] * itemsize
    step = max(1, LARGEST // row)
    for first in range(0, shape[axis], step):
        part = min(step, shape[axis] - first)
        yield from cut(
            (*start[:axis], start[axis] + first, *start[axis + 1 :]),
            (*shape[:axis], part, *shape[axis + 1 :]),
            itemsize,
        )


def write_piece(
    folder: Path, token: str, number: int, start: tuple[int, ...], value: np.ndarray[Any, Any]
) -> Piece:
    """Write a part of array `number` to a file of its own.

    It is no part of the checkpoint until a manifest names it.
    """
    name = f"{number}.{'.'.join(map(str, start))}-{token}.piece"
    data = _as_bytes(value)
    _write(folder / name, data)
    return Piece(name, start, value.shape, hashlib.sha256(data).hexdigest())


def read_piece(folder: Path, piece: Piece, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The elements of a piece.

    Raises ValueError if the file is missing, or its bytes have changed.
    """
    path = folder / piece.file
    try:
        data = path.read_bytes()
    except FileNotFoundError as err:
        raise _damaged(folder, f"{path.name}, which its manifest names, is missing") from err
    if hashlib.sha256(data).hexdigest() != piece.sha256:
        raise _damaged(folder, f"the checksum of {path.name} is not that of what was written")
    return (
        np.frombuffer(data, np.uint8)
        .view(_little(dtype))
        .reshape(piece.shape)
        .astype(dtype, copy=False)
    )


def write_list(folder: Path, process: int, token: str, manifest: Manifest) -> None:
    """Write the list of pieces that one of several processes has written."""
    _write(folder / f"list-{process}-{token}.json", _text_of(manifest))


def written_list(folder: Path, process: int, token: str) -> Manifest:
    """The list that `write_list` wrote in another process.

    Raises RuntimeError if this process does not see it.
    """
    path = folder / f"list-{process}-{token}.json"
    try:
        return _manifest_of(path, path.read_bytes())
    except FileNotFoundError as err:
        raise RuntimeError(
            f"process {process} has written to {folder}, and process 0 does not see its files "
            "there.\n"
            "  The folder must be one that all processes share."
        ) from err


def write_manifest(folder: Path, token: str, manifest: Manifest) -> None:
    """Make the pieces of a manifest the content of the folder, at once.

    Raises RuntimeError if a file that it names is not there.
    """
    names = {piece.file for stored in manifest.arrays for piece in stored.pieces}
    missing = sorted(names - set(os.listdir(folder)))
    if missing:
        raise RuntimeError(
            f"saving to {folder}: {missing[0]} has been removed before the save was complete.\n  "
            "Two programs must "
            "not save to one folder at the same time."
        )
    unfinished = folder / f"{_UNFINISHED}{token}"
    _write(unfinished, _text_of(manifest))
    os.replace(unfinished, folder / MANIFEST)
    _sync_folder(folder)


def read_manifest(folder: Path) -> Manifest:
    """The content of a folder. Raises FileNotFoundError if it has no manifest, ValueError if the
    manifest is damaged or of a later version.
    """
    return _manifest_of(folder / MANIFEST, (folder / MANIFEST).read_bytes())


def is_folder(folder: Path) -> bool:
    """Whether arrays have been saved to a folder in this format."""
    return (folder / MANIFEST).is_file()


def others(folder: Path) -> list[str]:
    """The files of a folder that no save has written; none if there is no folder."""
    return sorted(
        name
        for name in (os.listdir(folder) if folder.is_dir() else ())
        if not _OURS.fullmatch(name)
    )


def remove_unnamed(folder: Path, manifest: Manifest) -> None:
    """Remove the files of earlier saves, which the manifest does not name."""
    kept = {piece.file for stored in manifest.arrays for piece in stored.pieces} | {MANIFEST}
    for name in os.listdir(folder):
        if name not in kept and _OURS.fullmatch(name):
            (folder / name).unlink(missing_ok=True)


def _damaged(folder: Path, what: str) -> ValueError:
    return ValueError(
        f"The checkpoint {folder} is damaged: {what}.\n  Save it again, or load another one."
    )


def _text_of(manifest: Manifest) -> bytes:
    arrays = [
        {**stored._asdict(), "pieces": [piece._asdict() for piece in stored.pieces]}
        for stored in manifest.arrays
    ]
    content = {
        "format": "teucer arrays",
        "version": _FORMAT,
        "tree": manifest.tree,
        "arrays": arrays,
    }
    return json.dumps({**content, "sha256": _digest(content)}, indent=1).encode()


def _manifest_of(path: Path, data: bytes) -> Manifest:
    try:
        content = json.loads(data)
        said = content.pop("sha256")
        damaged = said != _digest(content)
    except (ValueError, KeyError, TypeError, AttributeError):
        damaged = True
    if damaged:
        raise _damaged(path.parent, f"{path.name} is not what was written")
    if content["version"] > _FORMAT:
        raise ValueError(
            f"{path} has version {content['version']} of the format, and this version of Teucer "
            f"reads {_FORMAT}.\n"
            "  Use a later version of Teucer."
        )
    return Manifest(tuple(map(_stored_of, content["arrays"])), content["tree"])


def _stored_of(text: Params) -> Stored:
    pieces = tuple(
        Piece(p["file"], tuple(p["start"]), tuple(p["shape"]), p["sha256"]) for p in text["pieces"]
    )
    return Stored(tuple(text["shape"]), text["dtype"], pieces, text["key"])


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    # Those of ml_dtypes have no byte order of their own.
    return dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype


def _as_bytes(value: np.ndarray[Any, Any]) -> memoryview:
    flat = np.ascontiguousarray(value.astype(_little(value.dtype), copy=False)).reshape(-1)
    return memoryview(flat.view(np.uint8))


def _write(path: Path, data: bytes | memoryview) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def total(manifests: Iterable[Manifest], tree: Any) -> Manifest:
    """One manifest from several processes' manifests of the same arrays."""
    parts = list(manifests)
    arrays = [
        stored[0]._replace(pieces=tuple(piece for part in stored for piece in part.pieces))
        for stored in zip(*[m.arrays for m in parts], strict=True)
    ]
    return Manifest(tuple(arrays), tree)
