"""Specs of tensorstore as plain dicts: where an array lies, and in which format.

They are defined at https://google.github.io/tensorstore/spec.html.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Params


_CLOUD = {"gs": "gcs", "s3": "s3"}
_REMOTE_DRIVERS = ("gcs", "s3", "gfile", "http")
DRIVERS = ("zarr", "zarr3")
_INCOMPLETE = {
    True: "Using OCDBT requires the bucket name, the directory name and the array name, "
    "your path is: {}",
    False: "The ckpt_path should contain the bucket name and the file path inside the bucket. "
    "Got: {}",
}


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    ocdbt: bool = True,
    process_idx: int | None = None,
    arr: ArrayLike | None = None,
    driver: str = "zarr3",
) -> dict[str, Any]:
    """The spec of an array at a path: a local one, or `gs://bucket/name` or `s3://bucket/name`.

    ocdbt: whether the array is an entry of a database in the folder above (which needs
    tensorstore). process_idx: the process, if each has a database of its own. arr: the array, for
    the metadata of a new one. driver: 'zarr3' or 'zarr'.
    Raises ValueError for a local path that is not absolute (with ocdbt), a path in the cloud
    without bucket or name, and a driver of another kind.

    >>> get_tensorstore_spec("/tmp/state/w", ocdbt=False)
    {'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': '/tmp/state/w'}}
    """
    path = os.fspath(ckpt_path)
    cloud = re.match(r"(gs|s3)://(.*)", path)
    whole = os.path.normpath(path if cloud is None else cloud[2])
    above, name = os.path.split(whole)
    if ocdbt and cloud is None and not os.path.isabs(whole):
        raise ValueError(f"Checkpoint path should be absolute. Got {above}")
    own = [] if process_idx is None else [f"process_{process_idx}"]
    folder = os.path.join(above, *own)
    place = folder if ocdbt else os.path.join(folder, name)
    kvstore = {"driver": "file", "path": place}
    if cloud is not None:
        bucket, _, key = place.partition("/")
        if not bucket or not key:
            raise ValueError(_INCOMPLETE[ocdbt].format(path))
        kvstore = {"driver": _CLOUD[cloud[1]], "bucket": bucket, "path": key}
    entry = {"driver": "ocdbt", "base": kvstore, "path": name} if ocdbt else kvstore
    spec: dict[str, Any] = {"driver": driver, "kvstore": entry}
    if arr is not None:
        spec["metadata"] = metadata_of(driver, arr)
    return spec


def metadata_of(driver: str, arr: Any) -> dict[str, Any]:
    """A spec's metadata for a new array: its shape, and chunks that are the shards.

    Raises ValueError for a driver that is not known.
    """
    shape = tuple(arr.shape)
    sharding = getattr(arr, "sharding", None)
    part = shape if sharding is None else sharding.shard_shape(shape)
    chunks = [max(1, n) for n in part]
    if driver == "zarr":
        return {"compressor": {"id": "zstd"}, "shape": shape, "chunks": chunks}
    if driver == "zarr3":
        return {
            "codecs": [],
            "shape": shape,
            "data_type": np.dtype(arr.dtype).name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        }
    raise ValueError(f"Unsupported driver: {driver}\n  The drivers are {', '.join(DRIVERS)}.")


def has_metadata(spec: object) -> bool:
    """Whether a spec says the metadata of an array, at any depth."""
    return isinstance(spec, dict) and ("metadata" in spec or any(map(has_metadata, spec.values())))


def is_remote_storage(tspec: object) -> bool:
    """Whether a spec, or the text of one, is of a store that is not on this machine's file system.

    >>> is_remote_storage({"driver": "zarr", "kvstore": {"driver": "file", "path": "/tmp/x"}})
    False
    """
    if isinstance(tspec, str):
        return re.match(rf"({'|'.join([*_CLOUD, *_REMOTE_DRIVERS])}s?)://", tspec) is not None
    if not isinstance(tspec, dict):
        return False
    return tspec.get("driver") in _REMOTE_DRIVERS or any(
        is_remote_storage(tspec[key]) for key in ("base", "kvstore") if key in tspec
    )


def local_path(tspec: object) -> Path | None:
    """The path of the array that a spec is of, on this machine's file system, if it is there."""
    kvstore = tspec.get("kvstore") if isinstance(tspec, dict) else None
    parts: list[str] = []
    while isinstance(kvstore, dict):
        if isinstance(kvstore.get("path"), str):
            parts.append(kvstore["path"])
        if kvstore.get("driver") == "file":
            return Path(*reversed(parts)).absolute()
        kvstore = kvstore.get("base") if kvstore.get("driver") == "ocdbt" else None
    return None


def is_tensorstore_spec_leaf(leaf: object) -> bool:
    """Whether a node of a tree of specs is one: None, or a dict with a driver or a kvstore."""
    return leaf is None or (isinstance(leaf, dict) and ("driver" in leaf or "kvstore" in leaf))


def merge_nested_ts_specs(dict1: Params, dict2: Params | None) -> dict[str, Any]:
    """The first spec, updated by the second; their kvstores are merged.

    >>> merge_nested_ts_specs({"driver": "zarr3", "kvstore": {"path": "a"}}, {"driver": "zarr"})
    {'driver': 'zarr', 'kvstore': {'path': 'a'}}
    """
    if dict2 is None:
        return dict1
    kvstore = {**dict1.get("kvstore", {}), **dict2.get("kvstore", {})}
    return {**dict1, **dict2, "kvstore": kvstore}


def named(paths: Sequence[str | os.PathLike[str]]) -> list[dict[str, Any]]:
    """The specs of arrays that are named by paths."""
    return [get_tensorstore_spec(path, ocdbt=False, driver="zarr") for path in paths]
