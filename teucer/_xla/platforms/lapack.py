"""jaxlib's kernels of LAPACK on the CPU, which take its functions out of SciPy when the first
program calls one."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence

from jaxlib import lapack, xla_client


def register() -> None:
    """Make the kernels known to XLA."""
    for platform, targets in lapack.registrations().items():
        for name, function, api_version in targets:
            xla_client.register_custom_call_target(name, function, platform, api_version)
            xla_client.register_custom_call_as_batch_partitionable(name)


def start_if_called(program: str | bytes) -> None:
    """Load LAPACK if a program, as text or compiled, calls it: by these kernels, or by kernels of a
    GPU that compute in part here."""
    called = (
        "lapack_" in program or "hybrid_" in program
        if isinstance(program, str)
        else b"lapack_" in program or b"hybrid_" in program
    )
    if called:
        _start()


_starting = threading.Lock()


@functools.cache
def _start() -> None:
    import scipy

    with _starting:
        # Two modules of scipy.linalg have the functions. By themselves they take 10 ms, by way of
        # their package 250.
        names = (
            []
            if "scipy.linalg" in sys.modules
            else ["scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"]
        )
        try:
            _load_alone(names, [os.path.join(folder, "linalg") for folder in scipy.__path__])
            lapack._lapack.initialize()
            if "teucer._xla.platforms.gpu" in sys.modules:
                sys.modules["teucer._xla.platforms.gpu"].start_lapack()
        finally:
            # whoever imports them later is given the same modules, then also as attributes of the
            # package
            for name in names:
                sys.modules.pop(name, None)


def _load_alone(names: Sequence[str], folders: list[str]) -> None:
    """Load modules without the package around them; modules that are not in the folders are left to
    `import`."""
    for name in names:
        spec = importlib.machinery.PathFinder.find_spec(name, folders)
        if spec is not None and spec.loader is not None:
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
