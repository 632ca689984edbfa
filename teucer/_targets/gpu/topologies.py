"""GPUs by name: the descriptions from which XLA compiles for a GPU that is not there.

A text in the form of XLA's protocol buffer GpuTargetConfigProto. The figures of the H100 are from
NVIDIA's H100 Tensor Core GPU Architecture (SXM5) and from the CUDA programming guide, table of
technical specifications by compute capability.
"""

from __future__ import annotations

from collections.abc import Mapping

_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 device_memory_size: 84978434048
  cuda_compute_capability { major: 9 minor: 0 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 13 minor: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
TARGETS = {"h100": _H100}


def checked(name: str, given: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """The plugin's options for the topology of a name: by default eight GPUs of one host.

    given: the user's options: `target_config`, a text as above, and `topology`,
    "SLICESxHOSTSxDEVICES". Raises ValueError for a name that is not known, without a text.
    """
    told: dict[str, object] = {"topology": "1x1x8", **given}
    if "target_config" not in told:
        if name.lower() not in TARGETS:
            raise ValueError(
                f"get_topology_desc: no GPU is known as {name!r}. Known are {', '.join(TARGETS)}; "
                "of others say target_config=, a text of XLA's GpuTargetConfigProto."
            )
        told["target_config"] = TARGETS[name.lower()]
    sizes = str(told["topology"]).split("x")
    if len(sizes) != 3 or not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError(
            "get_topology_desc: topology= of GPUs is 'SLICESxHOSTSxDEVICES', such as '1x2x8', got "
            f"{told['topology']!r}."
        )
    return name, told
