"""Composable transformations of NumPy programs, compiled by XLA. The public names are JAX's."""

from __future__ import annotations

import importlib
import sys
from typing import Any

if "jax" in sys.modules:
    raise ImportError("teucer cannot be imported into a process that has imported jax: both give methods to jaxlib's array "
                      "type.\n  Remove one of the imports, or run them in separate processes.")

__version__ = "0.1.0"
__version_info__ = (0, 1, 0)

# The public names by the module that defines them, loaded on first use (PEP 562).
_NAMES: dict[str, tuple[str, ...]] = {
    "teucer._base.config": (
        "check_tracer_leaks", "checking_leaks", "config", "debug_infs", "debug_key_reuse", "debug_nans",
        "default_device", "default_matmul_precision", "default_prng_impl", "enable_checks", "enable_custom_prng",
        "enable_custom_vjp_by_custom_transpose", "enable_x64", "explain_cache_misses", "legacy_prng_key",
        "log_compiles", "no_execution", "no_tracing", "numpy_dtype_promotion", "numpy_rank_promotion",
        "softmax_custom_jvp", "threefry_partitionable", "transfer_guard", "transfer_guard_device_to_device",
        "transfer_guard_device_to_host", "transfer_guard_host_to_device"),
    "teucer._runtime.arrays": ("Array", "Shard"),
    "teucer._runtime.backends": (
        "default_backend", "device_count", "devices", "host_count", "host_id", "host_ids", "local_device_count",
        "local_devices", "process_count", "process_index", "process_indices"),
    "teucer._transform.stages": ("jit",),
    "teucer._transform.forward": ("jvp", "linearize"),
    "teucer._transform.jacobians": ("hessian", "jacfwd", "jacobian", "jacrev"),
    "teucer._transform.linear": ("closure_convert", "fwd_and_bwd", "linear_transpose", "saved_input_vjp"),
    "teucer._transform.reverse": ("grad", "value_and_grad", "vjp"),
    "teucer._transform.vmap": ("vmap",),
    "teucer._transform.custom_jvp": ("custom_jvp",),
    "teucer._transform.custom_vjp": ("custom_gradient", "custom_vjp"),
    "teucer._transform.moves": (
        "block_until_ready", "copy_to_host_async", "device_get", "device_put", "live_arrays"),
    "teucer._transform.remat": ("checkpoint", "remat"),
    "teucer.ad_checkpoint": ("checkpoint_policies",),
    "teucer._transform.shapes": ("ShapeDtypeStruct", "typeof"),
    "teucer._transform.staging": (
        "disable_jit", "ensure_compile_time_eval", "eval_shape", "make_jaxpr", "named_call", "named_scope"),
    "teucer.lax._callbacks": ("pure_callback",),
    "teucer._runtime.effects": ("effects_barrier",),
    "teucer._transform.caches": ("clear_backends", "clear_caches"),
    "teucer._xla.client": ("Device",),
}
_MODULES = frozenset({
    "ad_checkpoint", "api_util", "core", "custom_batching", "custom_derivatives", "custom_transpose", "debug",
    "distributed", "dlpack", "dtypes", "errors", "example_libraries", "experimental", "export", "extend", "ffi",
    "flatten_util", "image", "interpreters", "lax", "memory", "monitoring", "nn", "numpy", "ops", "profiler",
    "random", "ref", "scipy", "sharding", "stages", "test_util", "tree", "tree_util", "typing"})
_WHERE = {name: module for module, names in _NAMES.items() for name in names}
__all__ = ["__version__", *_WHERE, *sorted(_MODULES)]  # noqa: PLE0604  # the names are strings, from the table


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is not None:
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        try:
            return importlib.import_module(f"teucer.{name}")
        except ModuleNotFoundError as err:
            if err.name != f"teucer.{name}":
                raise
    raise AttributeError(f"module 'teucer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Gives arrays and tracers their operators. Last, since the rooms of numpy import this package.
importlib.import_module("teucer.numpy")
