"""PJRT clients, and programs compiled by them."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxlib import _jax, utils, xla_client
from jaxlib.version import __version__ as jaxlib_version

__all__ = [
    "ALONE", "DIVIDES_CALLS", "EIGEN_CONVOLUTIONS", "INSPECTED", "KEEPS_BARRIERS", "LEAN_CODE",
    "LOOPS_APART", "LOOPS_WHOLE", "NO_LOOPS_WHOLE", "OF_THIS_PROCESS", "PARTITIONED", "Client",
    "CompileOptions", "CompilerEffortLevel", "Device", "DeviceList", "Effort", "LoadedExecutable",
    "PLATFORMS", "REFUSES_DONATED_TWICE", "XlaRuntimeError", "compile_options", "compile_text",
    "cost_analysis", "cpu_client", "deserialize", "device_or_platform", "errors_only",
    "is_compile_only", "jaxlib_extension_version", "jaxlib_version", "little_effort", "load_plugin",
    "platform_of", "plugin_client", "loaded_plugins", "plugin_listeners", "raised_while_compiling",
    "raw_options",
]  # fmt: skip

Client = _jax.Client
CompileOptions = _jax.CompileOptions
Device = _jax.Device
# The platforms that programs are lowered for.
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
DeviceList = _jax.DeviceList
LoadedExecutable = _jax.LoadedExecutable
XlaRuntimeError = _jax.JaxRuntimeError

# XLA logs each client that it makes; errors still show.
_LOG_LEVEL = int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1"))
utils.absl_set_min_log_level(_LOG_LEVEL)


@contextlib.contextmanager
def errors_only() -> Iterator[None]:
    """XLA logs errors only, for a while: no warnings."""
    utils.absl_set_min_log_level(2)
    try:
        yield
    finally:
        utils.absl_set_min_log_level(_LOG_LEVEL)


def is_compile_only(client: Any) -> bool:
    """Whether a client has a compiler, and no devices."""
    return isinstance(client, _jax.CompileOnlyPyClient)


def cpu_client(num_devices: int | None, *, asynchronous: bool, **processes: Any) -> Any:
    """A client for this machine's CPU, seen as `num_devices` devices; processes: how it finds the
    others."""
    return xla_client.make_cpu_client(
        asynchronous=asynchronous, num_devices=num_devices, **processes
    )


def device_or_platform(value: Any) -> Any:
    """A device, or the name of a platform, whether or not it is there; ValueError for anything
    else."""
    from teucer._xla.platforms.plugins import (
        plugin_libraries,
    )  # `import teucer` would take longer with it

    if isinstance(value, Device) or (
        isinstance(value, str) and (value in ("gpu", *PLATFORMS) or value in plugin_libraries())
    ):
        return value
    raise ValueError(
        "jax.default_device must be passed either a Device object (e.g. `jax.devices('cpu')[0]`) "
        f"or a platform name string like 'cpu' or 'gpu', got: {value!r}"
    )


def platform_of(device: Any) -> str:
    """The platform that programs for a device are written for: 'cpu', 'cuda', 'rocm', 'tpu'.
    Devices call both GPUs 'gpu'."""
    name: str = device.platform
    if name != "gpu":
        return name
    word: str = device.client.platform_version.partition(" ")[0]
    # Of GPUs that are not there it is the name of a product.
    return {"NVIDIA": "cuda", "AMD": "rocm"}.get(word, word)


def load_plugin(name: str, library: str) -> None:
    """Load the PJRT plugin in the shared library at `library`."""
    if not xla_client.pjrt_plugin_loaded(name):
        os.environ.setdefault(
            "TF_CPP_MIN_LOG_LEVEL", "1"
        )  # the plugin has a log of its own, which reads this when it is loaded
        plugin = xla_client.load_pjrt_plugin_dynamically(name, library)
        loaded_plugins.append(plugin)
        for listener in plugin_listeners:
            listener(plugin)
        if name in ("cuda", "rocm"):
            from teucer._xla.platforms import gpu

            gpu.register(name, plugin)
    if not xla_client.pjrt_plugin_initialized(name):
        xla_client.initialize_pjrt_plugin(name)


def plugin_client(name: str, library: str, options: Mapping[str, Any]) -> Any:
    """A client of the PJRT plugin in the shared library at `library`."""
    load_plugin(name, library)
    if name == "cuda":
        options = {**xla_client.generate_pjrt_gpu_plugin_options(), **options}
    return xla_client.make_c_api_client(name, options)


class CompilerEffortLevel(enum.Enum):
    """How hard the compiler tries: the values of its options `optimization_level` and
    `memory_fitting_level`.

    More effort costs compile time. https://openxla.org/xla/effort_levels describes the levels.

    >>> import teucer as jax
    >>> jax.jit(lambda x: x + 1,
    ...     compiler_options={"optimization_level": CompilerEffortLevel.O1})(1.)
    Array(2., dtype=float32, weak_type=True)
    """

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39


class Effort(NamedTuple):
    """How hard the compiler tries: levels "O0" to "O3" or "UNKNOWN", and numbers from -1 to 1."""

    optimization_level: str = "UNKNOWN"
    memory_fitting_level: str = "O2"
    exec_time_optimization_effort: float = 0.0
    memory_fitting_effort: float = 0.0


_LEVELS = {level.name: level.value for level in CompilerEffortLevel}  # XLA's numbers


def little_effort(platform: str) -> dict[str, Any]:
    """Debug options with which small programs compile in half the time, on CPU, and run slower."""
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    if platform == "cpu" and jaxlib_version.startswith("0.10."):  # later ones have no such option
        options["xla_cpu_use_fusion_emitters"] = False
    return options


jaxlib_extension_version: int = (
    xla_client._version
)  # the count of changes to what jaxlib offers Python
# Whether XLA's CPU client refuses one array that is donated twice to several devices: jaxlib 0.10.2
# dies of it, 0.12.0.1 does not.
REFUSES_DONATED_TWICE = tuple(map(int, jaxlib_version.split(".")[:2])) >= (0, 12)
# Whether XLA's CPU compiler leaves constants alone until code is emitted, where a barrier is before
# them: not in jaxlib 0.10.2.
KEEPS_BARRIERS = tuple(map(int, jaxlib_version.split(".")[:2])) >= (0, 11)
# Switches of the CPU backend. With them programs compile a quarter sooner; programs of plain loops
# run as fast as without.
LEAN_CODE = ("xla_cpu_disable_tiled_emitter", "xla_cpu_disable_loop_unrolling")
# XLA's CPU compiler makes one kernel of a loop whose step accesses fewer bytes than this switch
# says. By default those are small loops in jaxlib 0.10 and 0.11, nearly all from 0.12 on. Below,
# the settings for one kernel for each loop, and for several.
_LOOP_BYTES = "xla_cpu_small_while_loop_byte_threshold"
_KEEPS_LOOPS_WHOLE = tuple(map(int, jaxlib_version.split(".")[:2])) >= (0, 12)
LOOPS_WHOLE = () if _KEEPS_LOOPS_WHOLE else (f"{_LOOP_BYTES}={1 << 22}",)
LOOPS_APART = (f"{_LOOP_BYTES}={1 << 10}",) if _KEEPS_LOOPS_WHOLE else ()
NO_LOOPS_WHOLE = (f"{_LOOP_BYTES}=0",)
# Whether it divides library calls in such a kernel among threads, which a kernel cannot start
# (jaxlib 0.10); and its error then.
DIVIDES_CALLS = tuple(map(int, jaxlib_version.split(".")[:2])) < (0, 11)
_DIVIDED = ("Failed to materialize symbols", "Invalid LLVM IR before optimizations")
# Debug options with which Eigen computes convolutions over two axes: XLA's default list for YNNPACK
# without convolutions.
_BY_YNNPACK = "xla_cpu_experimental_ynn_fusion_type"
EIGEN_CONVOLUTIONS = {_BY_YNNPACK: "LIBRARY_FUSION_TYPE_DOT,LIBRARY_FUSION_TYPE_REDUCE"}
# Switches with which YNNPACK computes no reductions, and fuses no products or convolutions.
ALONE = {
    _BY_YNNPACK: "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
}
# Where XLA's protocol buffers have the switches of a backend:
# CompileOptionsProto.executable_build_options.debug_options .xla_backend_extra_options, a map,
# whose entries have a key and a value.
_EXTRA_OPTIONS, _KEY, _VALUE = (500, 3, 3), 1, 2


def compile_options(
    device_ids: Sequence[int],
    *,
    num_replicas: int = 1,
    use_shardy: bool = False,
    overrides: Mapping[str, Any] | None = None,
    effort: Effort = Effort(),
    switches: Sequence[str] = (),
) -> Any:
    """Options for a program on the given devices; `overrides` are XLA debug options by name, or
    fields of `Effort`, `switches` the backend's own: "name", or "name=value".

    Raises the runtime's error if an option is not known; a switch that is not known does nothing.
    """
    options = CompileOptions()
    if switches:  # no attribute leads to them
        options = CompileOptions.ParseFromString(
            options.SerializeAsString() + _extra_options(tuple(switches))
        )
    options.num_replicas = num_replicas
    options.num_partitions = len(device_ids) // num_replicas
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = options.num_replicas, options.num_partitions
    build.use_spmd_partitioning = len(device_ids) > num_replicas
    build.use_shardy_partitioner = use_shardy
    assignment = _jax.DeviceAssignment.create(np.asarray(device_ids).reshape(num_replicas, -1))
    options.device_assignment = assignment
    build.device_assignment = assignment
    debug = dict(overrides or {})
    for name, value in zip(effort._fields, effort, strict=True):
        _set_effort(build, name, debug.pop(name, value))
    if debug:
        options.env_option_overrides = list(debug.items())
    return options


def raw_options(
    num_replicas: int,
    num_partitions: int,
    device_ids: Any,
    *,
    overrides: Mapping[str, Any],
    profile: bytes | None,
    log: bool,
) -> Any:
    """Options for a program that a user hands to a client.

    device_ids: int[replicas, partitions], or None for the client's choice.
    """
    options = CompileOptions()
    build = options.executable_build_options
    for record in (options, build):
        record.num_replicas, record.num_partitions = num_replicas, num_partitions
        if device_ids is not None:
            record.device_assignment = _jax.DeviceAssignment.create(device_ids)
    if profile is not None:
        build.fdo_profile = profile
    build.debug_options.xla_detailed_logging = log
    if overrides:
        options.env_option_overrides = list(overrides.items())
    return options


def _set_effort(build: Any, name: str, value: Any) -> None:
    """Set a field of `Effort`: a level by its name or XLA's number, or a number."""
    is_level = name.endswith("_level")
    if isinstance(value, enum.Enum):
        value = value.value
    try:
        number = (
            _LEVELS[value] if is_level and value in _LEVELS else (int if is_level else float)(value)
        )
    except (TypeError, ValueError) as err:
        wanted = f"one of {', '.join(_LEVELS)}, or XLA's number of it" if is_level else "a number"
        raise ValueError(f"compile: {name} is {wanted}, got {value!r}.") from err
    if is_level or number:
        if not hasattr(build, name):
            raise ValueError(
                f"compile: jaxlib {jaxlib_version} has no option {name}. Use "
                "jax_optimization_level."
            )
        setattr(build, name, number)


@functools.cache
def _extra_options(switches: tuple[str, ...]) -> bytes:
    entries = []
    for switch in switches:
        name, _, value = switch.partition("=")
        entries.append(
            _field((_KEY,), name.encode()) + _field((_VALUE,), (value or "true").encode())
        )
    return b"".join([_field(_EXTRA_OPTIONS, entry) for entry in entries])


def _field(path: Sequence[int], content: bytes) -> bytes:
    """A field of a protocol buffer, inside of messages inside of others; numbers are written seven
    bits a byte, lowest first."""
    for number in path:
        for n in (len(content), number << 3 | 2):
            digits = [n >> shift & 127 for shift in range(0, max(n.bit_length(), 1), 7)]
            content = bytes([d | 128 for d in digits[:-1]] + digits[-1:]) + content
    return content


def compile_text(
    client: Any, text: str, devices: Any, options: Any, callbacks: Sequence[Any] = ()
) -> Any:
    """Compile a StableHLO module and load it on its devices; one with symbolic dimensions is
    refined to static shapes first.

    callbacks: the Python functions that the module's host callbacks refer to by index.
    """
    from teucer._xla.platforms.lapack import (
        start_if_called,
    )  # here and below: `import teucer` would take longer with it
    from teucer._xla.platforms.sparse import register_if_called

    start_if_called(text)
    register_if_called(text)
    try:
        return _compiled(client, text, devices, options, callbacks)
    except XlaRuntimeError as err:
        if raised_while_compiling:
            raise err from raised_while_compiling.pop()
        if not any(message in str(err) for message in _DIVIDED):
            raise
    apart = CompileOptions.ParseFromString(
        options.SerializeAsString() + _extra_options((f"{_LOOP_BYTES}=0",))
    )  # of the entries of a map that have one key, the last one counts
    return _compiled(client, text, devices, apart, callbacks)


def _compiled(client: Any, text: str, devices: Any, options: Any, callbacks: Sequence[Any]) -> Any:
    if callbacks:
        from teucer._xla import mlir  # 0.15 s to load, for programs with callbacks only
        from teucer._xla.platforms import transfers

        given = transfers.for_runtime(client, callbacks)
        return client.compile_and_load(mlir.parse(text), devices, options, given)
    if "jax.uses_shape_polymorphism" in text.partition("\n")[0]:
        return client.compile_and_load(
            _jax.mlir.refine_polymorphic_shapes(text.encode()), devices, options
        )
    return client.compile_and_load(text, devices, options)


# Targets of custom calls that run Python while a program is compiled: to divide a call, or to learn
# a sharding. `InspectSharding` is XLA's.
PARTITIONED, INSPECTED = "PartitionedByPython", "InspectSharding"
# Exceptions of such functions: the compiler turns them into errors of its own.
raised_while_compiling: list[BaseException] = []
# The plugins that are loaded, and functions that are called for each later one.
loaded_plugins: list[Any] = []
plugin_listeners: list[Callable[[Any], None]] = []


# Texts in modules that name such Python functions. These modules mean nothing to another process.
OF_THIS_PROCESS = f'call_target_name = "{PARTITIONED}"', f'call_target_name = "{INSPECTED}"'


def cost_analysis(client: Any, computation: Any) -> Any:
    """XLA's estimates for a computation in HLO: floating-point operations, bytes accessed, ..."""
    return _jax.hlo_module_cost_analysis(client, computation.get_hlo_module())


def deserialize(
    client: Any, data: bytes, devices: Any, options: Any, callbacks: Sequence[Any] = ()
) -> Any:
    """Load an executable from what `LoadedExecutable.serialize` wrote; callbacks: as of
    `compile_text`, all that it has."""
    from teucer._xla.platforms.lapack import start_if_called
    from teucer._xla.platforms.sparse import register_if_called

    start_if_called(data)
    register_if_called(data)
    return client.deserialize_executable(
        data, devices, options, *([list(callbacks)] if callbacks else [])
    )
