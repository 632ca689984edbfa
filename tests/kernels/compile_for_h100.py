"""Compiles programs for an H100 by XLA's CUDA plugin, on a machine without a GPU: python compile_for_h100.py PLUGIN < programs.

programs: JSON, {name: StableHLO}. Prints JSON, {name: how many bytes of machine code} or {name: error}. It runs in a process of
its own, with the jaxlib of the plugin.
"""

import json
import sys

from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import stablehlo

# A GpuTargetConfigProto: the numbers of NVIDIA's data sheet and of cudaGetDeviceProperties.
H100 = """
gpu_device_info { threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: 3352320000000
  l2_cache_size: 52428800 clock_rate_ghz: 1.98 device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 } registers_per_core_limit: 65536 registers_per_block_limit: 65536 }
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 13 minor: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def main(plugin):
    xla_client.load_pjrt_plugin_dynamically("cuda", plugin)
    xla_client.initialize_pjrt_plugin("cuda")
    topology = _jax.get_default_c_api_topology(
        "cuda", "h100", {"target_config": H100, "topology": "1x1x8"}
    )
    device = topology._make_compile_only_devices()[0]
    context, registry = ir.Context(), ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    stablehlo.register_dialect(context)
    context.load_all_available_dialects()
    found = {}
    for name, text in json.load(sys.stdin).items():
        with context:
            try:
                made = device.client.compile(
                    ir.Module.parse(text), _jax.DeviceList((device,)), xla_client.CompileOptions()
                )
                data = made.serialize()
                found[name] = len(data) if b"\x7fELF" in data else "no machine code"
            except Exception as err:  # all of them are told
                found[name] = f"{type(err).__name__}: {err}"
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
