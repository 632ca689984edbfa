"""Kernels that the plugins of GPUs bring along: linear algebra, and calls of Python."""

from __future__ import annotations

import functools
from typing import Any

from jaxlib import gpu_linalg, gpu_solver, gpu_sparse, plugin_support, xla_client


def register(platform: str, plugin: Any) -> None:
    """Make the kernels for a platform, 'cuda' or 'rocm', known to XLA; `plugin` is its PJRT plugin,
    loaded.

    Without the Python package of the plugin there are none: programs that need one are refused by
    XLA, by its name.
    """
    extension = plugin_support.import_from_plugin(platform, f"{platform}_plugin_extension")
    if extension is None:
        return
    name = platform.upper()
    xla_client.register_custom_call_handler(
        name, functools.partial(extension.register_custom_call_target, plugin)
    )
    xla_client.register_custom_type_handler(
        name, functools.partial(extension.register_custom_type, plugin)
    )
    for type_name, type_id in extension.ffi_types().items():
        xla_client.register_custom_type(type_name, type_id, name)
    for target, handler in extension.ffi_handlers().items():
        xla_client.register_custom_call_target(target, handler, name, 1)
    for kernels in (gpu_solver, gpu_linalg, gpu_sparse):
        for target, handler, version in kernels.registrations().get(name, ()):
            xla_client.register_custom_call_target(target, handler, name, version)
        for target in kernels.batch_partitionable_targets():
            xla_client.register_custom_call_as_batch_partitionable(target)


def start_lapack() -> None:
    """Let the kernels that compute in part on the CPU find SciPy's LAPACK."""
    gpu_solver.initialize_hybrid_kernels()
