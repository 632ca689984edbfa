"""Which PJRT plugins are installed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pkgutil
import sys


def plugin_libraries() -> dict[str, str]:
    """Names of the PJRT plugins that are installed, with the paths of their shared libraries.

    Found as the ecosystem ships them: by the namespace package `jax_plugins`, by the entry points
    of that group (without running them, since they import jax), and by the variable
    PJRT_NAMES_AND_LIBRARY_PATHS ("name:path,...").
    """
    found: dict[str, str] = {}
    for item in filter(None, os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "").split(",")):
        name, _, path = item.partition(":")
        found[name] = path
    modules = [
        f"jax_plugins.{m.name}" for m in pkgutil.iter_modules(_namespace_path("jax_plugins"))
    ]
    if any(map(_may_name_plugins, sys.path)):
        from importlib import metadata  # takes 20 ms, most of the start of the CPU's backend

        modules += [ep.value.partition(":")[0] for ep in metadata.entry_points(group="jax_plugins")]
    if importlib.util.find_spec("libtpu") is not None:
        modules.append("libtpu")
    for module in dict.fromkeys(modules):
        library = _library_of(module)
        if library is not None:
            found.setdefault(_plugin_name(module), library)
    return found


def _may_name_plugins(folder: str) -> bool:
    """Whether a distribution in a folder of modules names plugins in its entry points; True for
    archives."""
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return os.path.isfile(folder)
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            with (
                contextlib.suppress(OSError),
                open(os.path.join(folder, name, "entry_points.txt"), "rb") as file,
            ):
                if b"jax_plugins" in file.read():
                    return True
    return False


def _namespace_path(name: str) -> list[str]:
    spec = importlib.util.find_spec(name)
    return list(spec.submodule_search_locations or ()) if spec is not None else []


def _plugin_name(module: str) -> str:
    last = module.rpartition(".")[2]
    for known in ("cuda", "rocm", "tpu"):
        if known in last:
            return known
    return last


def _library_of(module: str) -> str | None:
    """The shared library of a plugin module, found without importing it."""
    for folder in _namespace_path(module):
        for name in ("xla_cuda_plugin.so", "xla_rocm_plugin.so", "libtpu.so", "pjrt_plugin.so"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
        libraries = sorted(f for f in os.listdir(folder) if f.endswith(".so") and "pjrt" in f)
        if libraries:
            return os.path.join(folder, libraries[0])
    return None
