"""`teucer doctor`: whether all that Teucer needs is there, with a remedy for what is not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import teucer as jax
from teucer._base import config
from teucer._executables import disk_cache

_NEEDED = ("jaxlib", "numpy", "ml_dtypes", "scipy", "opt_einsum")
# What a plugin of a platform is called by its distributors.
_PLUGINS = {
    "cuda": ("jax-cuda13-plugin", "jax-cuda12-plugin"),
    "rocm": ("jax-rocm7-plugin", "jax-rocm60-plugin"),
    "tpu": ("libtpu",),
}
_OLDEST_JAXLIB, _TRIED = (0, 10, 2), (0, 12)
_SIZE = 512  # of the product that is compiled


class Finding(NamedTuple):
    """What was asked, what was found, and what to do about it; no remedy where all is well."""

    subject: str
    found: str
    remedy: str = ""


def doctor() -> int:
    """Print a line for each thing that is looked at; 1 if something has to be done."""
    bad = 0
    for ask in _QUESTIONS:
        try:
            findings = list(ask())
        except Exception as err:
            first = str(err).partition("\n")[0]
            findings = [Finding(_SUBJECTS[ask], f"{type(err).__name__}: {first}", _SAY)]
        for subject, found, remedy in findings:
            bad += bool(remedy)
            print(f"{'!!' if remedy else 'ok'}  {subject:<10} {found}", flush=True)
            if remedy:
                print(f"    {'':<10} {remedy}", flush=True)
    print("All is well." if not bad else f"{bad} thing{'s' * (bad > 1)} to do.")
    return int(bool(bad))


_SAY = "The message says what to do; `teucer errors devices` explains what devices need."


def _versions() -> Iterator[Finding]:
    python = platform.python_version()
    yield Finding(
        "system",
        f"Python {python}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "" if sys.version_info >= (3, 11) else "Install Python 3.11 or later.",
    )
    yield Finding("teucer", importlib.metadata.version("teucer"))
    for name in _NEEDED:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "not installed", f"pip install {name}")
            continue
        remedy = ""
        if name == "jaxlib":
            numbers = _numbers(version)
            if numbers < _OLDEST_JAXLIB:
                remedy = "It is too old: pip install -U jaxlib."
            elif numbers[:2] > _TRIED:
                remedy = "It is newer than what was tried: run `teucer guard`."
        yield Finding(name, version, remedy)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


def _other_jax() -> Iterator[Finding]:
    try:
        distribution = importlib.metadata.distribution("jax")
    except importlib.metadata.PackageNotFoundError:
        return
    own = any(file.name == "teucer_as_jax.py" for file in distribution.files or ())
    said = "Teucer's wheel" if own else "JAX itself, which cannot share a process with Teucer"
    yield Finding("jax", f"{distribution.version}, {said}")


def _plugins() -> Iterator[Finding]:
    found = [
        f"{name} {importlib.metadata.version(name)} ({kind})"
        for kind, names in _PLUGINS.items()
        for name in names
        if _is_installed(name)
    ]
    gpu = os.path.exists("/dev/nvidia0") or os.path.exists("/proc/driver/nvidia/version")
    remedy = ""
    if gpu and not any(map(_is_installed, _PLUGINS["cuda"])):
        remedy = 'There is an NVIDIA GPU: pip install "teucer[cuda13]".'
    yield Finding("plugins", ", ".join(found) or "none: the CPU needs none", remedy)
    jaxlib = _numbers(importlib.metadata.version("jaxlib"))
    for name in _PLUGINS["cuda"] + _PLUGINS["rocm"]:
        if _is_installed(name) and _numbers(importlib.metadata.version(name)) != jaxlib:
            version = ".".join(map(str, jaxlib))
            yield Finding(
                name,
                f"{importlib.metadata.version(name)}, but jaxlib is {version}",
                f'Install the same release: pip install "{name}[with-cuda]=={version}".',
            )


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _devices() -> Iterator[Finding]:
    start = time.perf_counter()
    found = jax.devices()
    took = time.perf_counter() - start
    kinds = {f"{d.platform} ({d.device_kind})" for d in found}
    yield Finding("devices", f"{len(found)} of {', '.join(sorted(kinds))}, found in {took:.1f} s")


def _cache() -> Iterator[Finding]:
    if not config.enable_compilation_cache.value:
        yield Finding("cache", "switched off: every process compiles again")
        return
    folder = disk_cache.cache_dir()
    if folder is None:
        yield Finding("cache", "there is no home folder for it", "Set TEUCER_CACHE_DIR.")
        return
    above = folder
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    writable = os.access(above, os.W_OK)
    remedy = "" if writable else "Nothing can be written there: set TEUCER_CACHE_DIR."
    yield Finding("cache", str(folder), remedy)


def _product() -> Iterator[Finding]:
    x = np.random.default_rng(0).normal(size=(_SIZE, _SIZE)).astype("float32")
    product = jax.jit(lambda x: x @ x)
    start = time.perf_counter()
    out = np.asarray(product(x))
    compiled = time.perf_counter() - start
    error = np.abs(out - x @ x).max()
    on_device = jax.device_put(x)
    start = time.perf_counter()
    for _ in range(10):
        jax.block_until_ready(product(on_device))
    each = (time.perf_counter() - start) / 10
    yield Finding(
        "product",
        f"{_SIZE} x {_SIZE} compiled and run in {compiled:.2f} s, then {each * 1e3:.2f} ms each "
        f"({2 * _SIZE**3 / each / 1e9:.0f} Gflop/s), error {error:.0e}",
        "" if error < 1e-2 else "The result is wrong: run `teucer guard`, and report what it says.",
    )
    start = time.perf_counter()
    gradient = jax.grad(lambda x: (x**2).sum())(jax.numpy.arange(3.0))
    took = time.perf_counter() - start
    right = gradient.tolist() == [0.0, 2.0, 4.0]
    yield Finding(
        "gradient",
        f"of a sum of squares in {took:.2f} s",
        "" if right else f"It is wrong, {gradient.tolist()}: run `teucer guard`.",
    )


_SUBJECTS: dict[Callable[[], Iterator[Finding]], str] = {
    _versions: "versions",
    _other_jax: "jax",
    _plugins: "plugins",
    _devices: "devices",
    _cache: "cache",
    _product: "product",
}
_QUESTIONS = tuple(_SUBJECTS)
