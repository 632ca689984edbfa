"""Caches of the compilers themselves, in folders beside the entries of the cache on disk.

XLA's compilers for GPUs run code to find out which is fastest. They can keep the results in a
folder, for other programs and other processes. They name files by the tuned operation and the
device, but not by their own version, so each version has a folder.
"""

from __future__ import annotations

import os

from teucer._base import config
from teucer._core.provided import provided
from teucer._executables import disk_cache
from teucer._xla import client as xla


def options(client: xla.Client, chosen: set[str]) -> dict[str, object]:
    """Debug options for the compiler's own caches; none if the cache is off.

    They are no part of entries' keys: they do not change a program's results, and folders may move.
    chosen: options that are set already, which stay.
    """
    offered = provided.target(client.platform).own_caches
    wanted = _wanted(set(offered))
    folder = disk_cache.cache_dir() if wanted else None
    if folder is None:
        return {}
    flags, found = os.environ.get("XLA_FLAGS", ""), dict[str, object]()
    own = folder / f"{disk_cache.OWN}{_version(client)}"
    for name in sorted(wanted - chosen):
        if name not in flags:
            found.update(offered[name](own) if disk_cache.make_folder(own) else {})
    return found


def _wanted(offered: set[str]) -> set[str]:
    """Those of the caches that the user wants."""
    said = config.persistent_cache_enable_xla_caches.value or "none"
    return offered if said == "all" else offered & {name.strip() for name in said.split(",")}


def _version(client: xla.Client) -> str:
    """The version of a compiler, as part of a name."""
    import hashlib  # here because it is slow to load, as in `disk_cache`

    about = f"{xla.jaxlib_version}\0{client.platform_version}"
    return hashlib.sha256(about.encode()).hexdigest()[:16]
