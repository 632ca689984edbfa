"""Options of JAX that have no effect here: by the reason, their names and JAX's defaults.

They can be read and set, as programs and libraries do; setting one to another value warns.
"""

from __future__ import annotations

from typing import Any

# Values have the type of the default; None stands for options of text or of ints. A tuple has the
# allowed words, the default first.
IDLE: dict[str, dict[str, Any]] = {
    "it belongs to a converter or a kernel library that Teucer does not have": {
        "jax2tf_associative_scan_reductions": False,
        "jax2tf_default_native_serialization": True,
        "jax_bcoo_cusparse_lowering": False,
        "jax_mosaic_allow_hlo": False,
        "jax_mosaic_unzip_debug_locations": True,
        "jax_pallas_auto_assign_collective_ids": ("no", "yes", "override"),
        "jax_pallas_auto_assign_collective_ids_limit": 25,
    },
    "it chooses a kernel library, and `eig` and pivoted `qr` have an argument for that": {
        "jax_use_magma": ("auto", "off", "on")
    },
    "it chooses between two implementations inside JAX, and Teucer has one": {
        "eager_constant_folding": False,
        "jax_accurate_erf_inv": False,
        "jax_ragged_dot_use_gpu_pallas_triton_lowering": False,
        "jax_ragged_dot_use_ragged_dot_instruction": True,
        "jax_raise_on_ppermute_sort_diff": True,
        "jax_remat_barrier_no_cotangents": False,
        "jax_remove_custom_partitioning_ptr_from_cache_key": False,
        "jax_threefry_gpu_kernel_lowering": False,
        "jax_use_cpp_shard_args": False,
        "jax_use_emit_pipeline_primitive": False,
        "jax_use_hlo_logistic_lowering": None,
        "jax_use_rgv3": True,
    },
    "it tunes or profiles JAX's own compilation pipeline": {
        "jax_compilation_cache_expect_pgle": False,
        "jax_compiler_detailed_logging_min_ops": 10,
        "jax_compiler_enable_remat_pass": True,
        "jax_enable_pgle": False,
        "jax_export_deserialize_expired_versions": False,
        "jax_pgle_aggregation_percentile": 90,
        "jax_pgle_profiling_runs": 3,
        "jax_share_binary_between_hosts": False,
        "jax_share_binary_between_hosts_timeout_ms": 1200000,
        "jax_xla_profile_version": 0,
    },
    "it serves JAX's own tests and tools": {
        "jax_check_proxy_envs": True,
        "jax_debug_leaked_clients_on_clear_backends": False,
        "jax_experimental_unsafe_xla_runtime_errors": False,
        "jax_mock_gpu_topology": "",
        "mock_num_gpu_processes": 0,
    },
    "it belongs to a transport or a scheduler of particular clusters": {
        "jax_backend_target": "",
        "jax_cross_host_transfer_socket_address": "",
        "jax_cross_host_transfer_timeout_seconds": None,
        "jax_cross_host_transfer_transfer_size": None,
        "jax_cross_host_transport_addresses": "",
        "jax_distributed_verify_secure_credentials": False,
        "jax_force_dcn_cross_host_transfers": False,
        "jax_mtls_ca_file": None,
        "jax_mtls_cert_file": None,
        "jax_mtls_key_file": None,
        "jax_mtls_peer_uri_prefix": None,
        "jax_xla_backend": "",
    },
    "it belongs to a platform that Teucer does not support": {
        "jax_oneapi_visible_devices": "all",
        "jax_rocm_visible_devices": "all",
    },
}
