"""Composable transformations of NumPy programs, compiled by XLA. The public names are JAX's."""

from __future__ import annotations

import importlib
import sys

from teucer._base import lazy
from teucer._base.collection import rarely_collected
from teucer._base.without_jax import exclude_jax

exclude_jax()

__version__ = "0.1.0"
__version_info__ = (0, 1, 0)

# The public names by the module that defines them, and the public modules; loaded on first use.
_MODULES = (
    "ad ad_checkpoint api_util core custom_batching custom_derivatives debug distributed dlpack "
    "dtypes errors example_libraries experimental export extend ffi flatten_util image "
    "interpreters lax memory monitoring nn numpy ops profiler random scipy sharding stages "
    "test_util tree tree_util typing"
)
_SOURCES = {
    **{f"teucer.{name}": f"{name}=." for name in _MODULES.split()},
    "teucer._base.config": (
        "allow_f16_reductions array_garbage_collection_guard auto_pcast check_tracer_leaks "
        "checking_leaks config debug_infs debug_key_reuse debug_nans default_device "
        "default_matmul_precision default_prng_impl enable_checks enable_custom_prng enable_x64 "
        "explain_cache_misses jax2tf_associative_scan_reductions legacy_prng_key log_compiles "
        "make_user_context no_execution no_tracing numpy_dtype_promotion numpy_rank_promotion "
        "remove_size_one_mesh_axis_from_type softmax_custom_jvp thread_guard "
        "threefry_partitionable transfer_guard transfer_guard_device_to_device "
        "transfer_guard_device_to_host transfer_guard_host_to_device"
    ),
    "teucer._transform.jit_calls": "Inline",
    "teucer._arrays.arrays": "Array Shard",
    "teucer.numpy._index_keys": "ds",
    "teucer._devices.meshes": "get_abstract_mesh get_mesh make_mesh set_mesh use_abstract_mesh",
    "teucer._devices.shardings": "NamedSharding",
    "teucer._devices.specs": "P=PartitionSpec",
    "teucer._derived.assembly": (
        "make_array_from_callback make_array_from_process_local_data "
        "make_array_from_single_device_arrays"
    ),
    "teucer.lax._sharding": "reshard",
    "teucer._sharding.pmap": "pmap",
    "teucer._sharding.shard_map": "shard_map smap",
    "teucer._devices.backends": (
        "default_backend device_count devices host_count host_id host_ids local_device_count "
        "local_devices process_count process_index process_indices"
    ),
    "teucer._derived.stages": "jit",
    "teucer._derived.forward": "jvp linearize",
    "teucer._derived.jacobians": "hessian jacfwd jacobian jacrev",
    "teucer._derived.linear": "closure_convert fwd_and_bwd linear_transpose saved_input_vjp",
    "teucer._transform.reverse": "grad value_and_grad",
    "teucer._derived.vjp": "vjp",
    "teucer._transform.vmap": "vmap",
    "teucer._derived.custom_jvp": "custom_jvp",
    "teucer._derived.custom_vjp": "custom_gradient custom_vjp",
    "teucer._derived.moves": (
        "block_until_ready copy_to_host_async device_get device_put live_arrays"
    ),
    "teucer._derived.checkpoint": "checkpoint remat",
    "teucer.ad_checkpoint": "checkpoint_policies",
    "teucer._arrays.structs": "ShapeDtypeStruct typeof",
    "teucer._derived.staging": (
        "disable_jit ensure_compile_time_eval eval_shape make_jaxpr named_call named_scope"
    ),
    "teucer.lax._callbacks": "pure_callback",
    "teucer._progress.loops": "progress",
    "teucer.ref": "ref=. Ref empty_ref free_ref freeze new_ref",
    "teucer._devices.environment": "print_environment_info",
    "teucer._core.types": "float0",
    "teucer._executables.effects": "effects_barrier",
    "teucer._derived.caches": "clear_backends clear_caches",
    "teucer._xla.client": "CompilerEffortLevel Device",
}

__getattr__, __dir__, _names = lazy.lazy_module(__name__, _SOURCES)
__all__ = ["__version__", *_names]  # noqa: PLE0604  # the names are strings, from the table

# Gives arrays and tracers their operators. Last, since the modules of numpy import this package.
with rarely_collected:
    importlib.import_module("teucer.numpy")
importlib.import_module("teucer._advice.uncaught").watch(
    importlib.import_module("teucer._base.tracebacks").treat_uncaught
)
