"""Options: one line each, read as `config.enable_x64.value`, set by `config.update` or by a context manager.

An option is a C++ cell: a value for the process, and over it one for each thread. The table below is the whole of it:
    name_without_jax = _o("jax_name", kind, default, flags, help)
`kind` is bool, int, float, str, object, an enumeration, the tuple of the allowed words, or a function that checks; NULL in the flags allows None.
JIT: part of the key of compiled functions. TRACE: part of the key of traced ones (`trace_context()`).
The environment variable is the name in capitals.
"""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ContextDecorator
from enum import EnumType, IntEnum, StrEnum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from teucer._base import logs
from teucer._base.idle_options import IDLE
from teucer._xla import config as cells
from teucer._xla.client import device_or_platform

JIT, TRACE, NULL = "jit", "trace", "null"
_TRUE = frozenset({"y", "yes", "t", "true", "on", "1"})
_FALSE = frozenset({"n", "no", "f", "false", "off", "0"})
_OPTIONS: dict[str, Option] = {}

trace_context = cells.trace_context
"""The values of every TRACE option in this thread: a hashable tuple for cache keys."""
trace_context_names = cells.trace_context_names
"""The names of those options, in that order."""


# Enumerations as in JAX.
ExplicitX64Mode = IntEnum("ExplicitX64Mode", "WARN ERROR ALLOW", module=__name__)
LegacyPrngKeyState = StrEnum("LegacyPrngKeyState", "ALLOW WARN ERROR", module=__name__)
NumpyDtypePromotion = StrEnum("NumpyDtypePromotion", "STANDARD STRICT", module=__name__)
RuntimeTracebackMode = StrEnum("RuntimeTracebackMode", "OFF ON FULL", module=__name__)


_kept: list[Option] = []


class Option(cells.Config):  # type: ignore[misc]  # jaxlib's classes are untyped
    """One option: `.value` reads it, calling it gives a context manager (and decorator) that sets it."""

    kind: Any
    nullable: bool
    default: Any
    help: str

    def __init__(
        self, name: str, kind: Any, default: Any, flags: tuple[str, ...], help: str
    ) -> None:
        self.kind, self.nullable, self.help = kind, NULL in flags, help
        super().__init__(
            name, default, include_in_jit_key=JIT in flags, include_in_trace_context=TRACE in flags
        )
        self.default = self._from_environment(name, default)
        self.set_global(self.default)
        # jaxlib goes on reading a cell that was freed, and crashes.
        _kept.append(self)

    def __call__(self, new_val: Any = cells.unset) -> Setting:
        if new_val is cells.unset:
            if self.kind is not bool:
                raise TypeError(
                    f"{self.name.removeprefix('jax_')}: the new value is missing.\n  allowed: {self._allowed()}"
                )
            new_val = True
        return Setting(self, self.check(new_val))

    def set_everywhere(self, value: Any) -> None:
        """Set the value for every thread that has not set its own."""
        self.set_global(self.check(value))

    def enter(self, value: Any) -> Any:
        """Set the value in this thread; returns what `leave` needs to undo it."""
        return self.swap_local(value)

    def leave(self, token: Any) -> None:
        """Undo `enter`."""
        self.set_local(token)

    def check(self, value: Any) -> Any:
        """`value` in the option's own type; ValueError or TypeError if it is not allowed."""
        kind = self.kind
        if (value is None and self.nullable) or kind is object:
            return value
        if isinstance(kind, FunctionType):
            return kind(value)
        if isinstance(kind, EnumType):
            return self._member(value)
        if isinstance(kind, tuple):
            if isinstance(value, str) and value in kind:
                return value
            raise ValueError(self._complaint(value))
        if kind is bool and (
            isinstance(value, np.bool_) or (isinstance(value, int) and value in (0, 1))
        ):
            return bool(value)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if kind is not bool and isinstance(value, kind) and not isinstance(value, bool):
            return value
        raise ValueError(self._complaint(value))

    def _member(self, value: Any) -> Any:
        """The member of an enumeration that is given, or named."""
        if isinstance(value, self.kind):
            return value
        if isinstance(value, str) and value.upper() in self.kind.__members__:
            return self.kind[value.upper()]
        what = (
            f"new enum value must be an instance of {self.kind}, got {value} of type {type(value)}."
        )
        if isinstance(value, str):
            what = f"{value!r} is not a valid {self.kind.__name__}"
        error = ValueError if isinstance(value, str) else TypeError
        raise error(f"{what}\n    option: {self.name}\n  allowed: {self._allowed()}")

    def parse(self, text: str) -> Any:
        """The value that `text` (an environment variable, a command-line flag) stands for."""
        kind = self.kind
        if self.nullable and text.lower() == "none":
            return None
        if kind is bool:
            if text.lower() in _TRUE | _FALSE:
                return text.lower() in _TRUE
            raise ValueError(self._complaint(text))
        if isinstance(kind, tuple | EnumType):
            return self.check(text)
        try:
            return text if kind in (str, object) else kind(text)
        except ValueError as err:
            raise ValueError(self._complaint(text)) from err

    def words(self) -> Sequence[str]:
        """The words that an option takes; none where it takes other values."""
        if isinstance(self.kind, EnumType):
            return [name.lower() for name in self.kind.__members__]
        return self.kind if isinstance(self.kind, tuple) else ()

    def _from_environment(self, name: str, default: Any) -> Any:
        text = os.environ.get(name.upper())
        if text is None:
            return default
        try:
            return self.parse(text)
        except ValueError as err:
            raise ValueError(
                f"environment variable {name.upper()}: invalid value {text!r}.\n  allowed: {self._allowed()}"
            ) from err

    def _complaint(self, value: Any) -> str:
        if isinstance(self.kind, tuple):
            return (
                f"new enum value must be {'None or ' * self.nullable}in {list(self.kind)}, got {value} of type {type(value)}.\n"
                f"    option: {self.name}"
            )
        return f"config: invalid value for an option.\n    {self.name}: {value!r}\n  allowed: {self._allowed()}"

    def _allowed(self) -> str:
        words = ", ".join(map(repr, self.words())) or self.kind.__name__
        if self.kind is bool:
            words = "True, False (in the environment also 1, 0, yes, no, on, off)"
        return words + (", None" if self.nullable else "")


class GuardOption(Option):
    """An option that C++ keeps in guards of its own: setting it sets them too."""

    guards: tuple[str, ...] = ()

    def set_everywhere(self, value: Any) -> None:
        super().set_everywhere(value)
        for guard in self.guards:
            cells.set_guard(guard, value, local=False)

    def enter(self, value: Any) -> Any:
        token = (
            self.swap_local(value),
            [(guard, cells.get_guard(guard, local=True)) for guard in self.guards],
        )
        for guard in self.guards:
            cells.set_guard(guard, value, local=True)
        return token

    def leave(self, token: Any) -> None:
        value, levels = token
        self.set_local(value)
        for guard, level in levels:
            cells.set_guard(guard, level, local=True)


class EffectOption(Option):
    """An option of the process: setting it, for a while or for good, does something at once."""

    effect: Callable[[Any], None]

    def set_everywhere(self, value: Any) -> None:
        super().set_everywhere(value)
        self.effect(self.value)

    def enter(self, value: Any) -> Any:
        token = self.swap_local(value)
        self.effect(value)
        return token

    def leave(self, token: Any) -> None:
        self.set_local(token)
        self.effect(self.value)


class EarlyOption(Option):
    """An option that is read when the backends are made; changing it later is an error."""

    too_late: Callable[[], bool] = staticmethod(
        lambda: False
    )  # the runtime, which makes the backends, says when

    def set_everywhere(self, value: Any) -> None:
        if self.too_late() and self.check(value) != self.value:
            what = f"{self.name} config should be updated before backends are initialized, i.e. before any operation"
            raise RuntimeError(
                f"{what} on arrays.\n  Set it right after the import, or in the environment."
            )
        super().set_everywhere(value)


class IdleOption(Option):
    """An option of JAX that has no effect here; setting it to another value than JAX's default says so."""

    def __init__(self, name: str, why: str, default: Any) -> None:
        self.why, kind = why, type(default)  # type: str, Any
        kind, flags = (object, (NULL,)) if default is None else (kind, ())
        if isinstance(default, tuple):
            kind, default = default, default[0]
        super().__init__(name, kind, default, flags, f"no effect: {why}")
        self.usual = default

    def _warn(self, value: Any) -> None:
        if value != self.usual:
            warnings.warn(
                f"config: JAX's option {self.name!r} has no effect in Teucer: {self.why}.",
                UserWarning,
                stacklevel=4,
            )

    def set_everywhere(self, value: Any) -> None:
        super().set_everywhere(value)
        self._warn(self.value)

    def enter(self, value: Any) -> Any:
        self._warn(value)
        return super().enter(value)


class Setting(ContextDecorator):
    """`with option(value):` or `@option(value)`; may be entered again while entered."""

    __slots__ = ("_option", "_tokens", "_value")

    def __init__(self, option: Option, value: Any) -> None:
        self._option, self._value, self._tokens = option, value, []  # type: Option, Any, list[Any]

    def _recreate_cm(
        self,
    ) -> Setting:  # A fresh one for each call: decorated functions run in several threads.
        return Setting(self._option, self._value)

    def __enter__(self) -> None:
        self._tokens.append(self._option.enter(self._value))

    def __exit__(self, *exc: object) -> None:
        self._option.leave(self._tokens.pop())


def _option(name: str, kind: Any, default: Any, *flags: str, help: str) -> Option:
    return _enlist(Option(name, kind, default, flags, help))


def _guard(name: str, kind: Any, *guards: str, help: str) -> Option:
    option = GuardOption(name, kind, None, (NULL,), help)
    option.guards = guards
    return _enlist(option)


def _effect(
    name: str, kind: Any, default: Any, *flags: str, effect: Callable[[Any], None], help: str
) -> Option:
    option = EffectOption(name, kind, default, flags, help)
    option.effect = effect
    return _enlist(option)


def _early(name: str, kind: Any, default: Any, *flags: str, help: str) -> Option:
    return _enlist(EarlyOption(name, kind, default, flags, help))


def _enlist(option: Option) -> Option:
    _OPTIONS[option.name] = option
    if option.name.upper() in os.environ:
        option.set_everywhere(option.default)
    return option


def of_this_thread() -> list[tuple[Option, Any]]:
    """The options that this thread has values of its own for, with these: for `adopt` in another thread."""
    return [
        (option, option.get_local())
        for option in _OPTIONS.values()
        if option.get_local() is not cells.unset
    ]


def adopt(values: list[tuple[Option, Any]]) -> None:
    """Set options in this thread as `of_this_thread` found them in another."""
    for option, value in values:
        option.set_local(value)


_MATMUL = (
    "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "ANY_F8_ANY_F8_F32",
    "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
    "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3",
    "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32",
    "F64_F64_F64",
)  # fmt: skip
_PRNGS = ("threefry2x32", "threefry4x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32")
_TRANSFERS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_LEVELS = ("UNKNOWN", "O0", "O1", "O2", "O3")
_LOGGING = ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_FILTERING = ("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto")
_RAISE = ("ignore", "raise")
_o = _option

# fmt: off

# Numbers and their types
enable_x64 = _o("jax_enable_x64", bool, False, JIT, TRACE, help="64-bit types; without it they become 32-bit ones")
explicit_x64_dtypes = _o("jax_explicit_x64_dtypes", ExplicitX64Mode, ExplicitX64Mode.WARN, JIT, TRACE, help="warn, error or allow: what happens when a 64-bit dtype is asked for by name and enable_x64 is off")
numpy_dtype_promotion = _o("jax_numpy_dtype_promotion", NumpyDtypePromotion, NumpyDtypePromotion.STANDARD, JIT, TRACE, help="strict: dtypes never combine implicitly, Python scalars excepted")
numpy_rank_promotion = _o("jax_numpy_rank_promotion", ("allow", "warn", "raise"), "allow", JIT, TRACE, help="what happens when broadcasting adds axes")
default_matmul_precision = _o("jax_default_matmul_precision", _MATMUL, None, JIT, TRACE, NULL, help="precision of matmul and convolution where the call names none")
allow_f16_reductions = _o("jax_allow_f16_reductions", bool, True, JIT, TRACE, help="lax.reduce_sum takes float16 and bfloat16; jnp.sum converts them in any case")
softmax_custom_jvp = _o("jax_softmax_custom_jvp", bool, False, JIT, TRACE, help="differentiate softmax by its own rule; no effect: softmax has one derivative here")
check_static_indices = _o("jax_check_static_indices", bool, False, JIT, TRACE, help="constant indices out of bounds are errors")

# Random numbers
default_prng_impl = _o("jax_default_prng_impl", _PRNGS, "threefry2x32", JIT, TRACE, help="generator of keys made without `impl`")
threefry_partitionable = _o("jax_threefry_partitionable", bool, True, JIT, TRACE, help="threefry whose bits do not depend on sharding")
random_seed_offset = _o("jax_random_seed_offset", int, 0, JIT, TRACE, help="added to every seed")
legacy_prng_key = _o("jax_legacy_prng_key", LegacyPrngKeyState, LegacyPrngKeyState.ALLOW, help="what happens when a raw uint32 key is used")
enable_custom_prng = _o("jax_enable_custom_prng", bool, False, JIT, TRACE, help="PRNGKey gives typed keys")
debug_key_reuse = _o("jax_debug_key_reuse", bool, False, JIT, TRACE, help="using a key twice is an error")
high_dynamic_range_gumbel = _o("jax_high_dynamic_range_gumbel", bool, False, JIT, TRACE, help="gumbel samples with a longer tail, at twice the bits")

# Tracing and compiling
disable_jit = _o("jax_disable_jit", bool, False, TRACE, help="jit and control flow run as Python, operation by operation")
locations = _o("teucer_locations", bool, False, JIT, help="programs say to the compiler from which lines operations come, so that profiles have them; they are then programs of their own in the caches")
no_execution = _o("jax_no_execution", bool, False, JIT, TRACE, help="running a program is an error")
no_tracing = _o("jax_no_tracing", bool, False, help="tracing a function anew is an error")
log_compiles = _o("jax_log_compiles", bool, False, help="log every compilation")
explain_cache_misses = _o("jax_explain_cache_misses", bool, False, help="log why a call was traced anew")
warn_after_compiles = _o("teucer_warn_after_compiles", int, 64, help="warn, once, when a function has been compiled so often, and say what keeps changing; 0: never")
warn_slow_compile = _o("teucer_warn_slow_compile", float, 5.0, help="say once what XLA is compiling that has taken so many seconds; 0: never")
log_checkpoint_residuals = _o("jax_log_checkpoint_residuals", bool, False, help="log what a checkpoint saves")
check_tracer_leaks = _o("jax_check_tracer_leaks", bool, False, TRACE, help="tracers alive after their trace are errors")
use_simplified_jaxpr_constants = _o("jax_use_simplified_jaxpr_constants", bool, False, help="arrays that a function closes over stand in its jaxpr; no effect: they are constants of the jaxpr")
use_direct_linearize = _o("jax_use_direct_linearize", bool, True, help="linearize without a jvp first; no effect: there is one linearize")
remat3 = _o("jax_remat3", bool, False, help="JAX's newer checkpoint; no effect: there is one")
scan3 = _o("jax_scan3", bool, False, help="JAX's newer scan; no effect: there is one")
custom_vjp3 = _o("jax_custom_vjp3", bool, False, help="JAX's newer custom_vjp; no effect: there is one")
custom_jvp3 = _o("jax_custom_jvp3", bool, False, help="JAX's newer custom_jvp; no effect: there is one")
refs_to_pins = _o("jax_refs_to_pins", bool, False, help="how JAX lowers references in loops; no effect: there is one way")
disable_bwd_checks = _o("jax_disable_bwd_checks", bool, False, TRACE, help="cotangents that the backward rule of a custom_vjp gives may have other shapes than its arguments")
mutable_array_checks = _o("jax_mutable_array_checks", bool, True, TRACE, help="refuse references that alias")
embedded_constants_max_bytes = _o("jax_embedded_constants_max_bytes", int, 32, JIT, TRACE, help="larger constants become arguments of the program; no effect: arrays that a function closes over are always arguments")
captured_constants_warn_bytes = _o("jax_captured_constants_warn_bytes", int, 2_000_000_000, help="warn when a program captures more constant bytes; -1: never")
captured_constants_report_frames = _o("jax_captured_constants_report_frames", int, 0, help="unless 0, say where the constants are used")
optimization_level = _o("jax_optimization_level", _LEVELS, "UNKNOWN", JIT, TRACE, help="effort of the compiler")
memory_fitting_level = _o("jax_memory_fitting_level", _LEVELS, "O2", JIT, TRACE, help="effort to fit a program into memory")
exec_time_optimization_effort = _o("jax_exec_time_optimization_effort", float, 0.0, JIT, TRACE, help="effort for speed, -1 to 1; jaxlib 0.10 only")
memory_fitting_effort = _o("jax_memory_fitting_effort", float, 0.0, JIT, TRACE, help="effort for memory, -1 to 1; jaxlib 0.10 only")
disable_most_optimizations = _o("jax_disable_most_optimizations", bool, False, JIT, TRACE, help="compile faster, run slower")
use_shardy_partitioner = _o("jax_use_shardy_partitioner", bool, True, JIT, TRACE, help="partition programs with Shardy")
while_reverse = _o("jax_while_reverse", ("checkpoint", "refuse"), "checkpoint", JIT, TRACE, help="reverse mode through while_loop: keep some states and compute the others again, or refuse it as JAX does")
gradient_memory = _o("teucer_gradient_memory", int, None, JIT, TRACE, NULL, help="bytes that each gradient may need beside its arguments and results, as `checkpoint(budget=)` (docs/guide/memory_budget.md)")
dynamic_results = _o("teucer_dynamic_results", bool, False, JIT, TRACE, help="under jit, results may have sizes that depend on values")
optimize_jaxprs = _o("teucer_optimize_jaxprs", bool, True, JIT, help="simplify programs, bit for bit, before they are lowered")
outline = _o("teucer_outline", ("auto", "off", "force"), "auto", JIT, help="emit repeated work once, as a function that stays a call; auto: on CPU, where it pays")

# Shardings
check_vma = _o("check_vma", bool, False, JIT, TRACE, help="check over which mesh axes values vary")
auto_pcast = _o("jax_auto_pcast", bool, True, JIT, TRACE, help="mark values as varying where an operation needs it")
remove_size_one_mesh_axis_from_type = _o("jax_remove_size_one_mesh_axis_from_type", bool, False, JIT, TRACE, help="leave mesh axes of size 1 out of types")
disable_vmap_shmap_error = _o("jax_disable_vmap_shmap_error", bool, False, help="allow vmap of shard_map over a mapped mesh axis")
disallow_mesh_context_manager = _o("jax_disallow_mesh_context_manager", bool, False, help="`with mesh:` is an error")

# Caches on disk
enable_compilation_cache = _o("jax_enable_compilation_cache", bool, True, help="keep compiled programs on disk")
compilation_cache_dir = _o("jax_compilation_cache_dir", str, None, NULL, help="folder of the cache, or address of a team's; teucer_cache_dir goes first")
compilation_cache_max_size = _o("jax_compilation_cache_max_size", int, -1, help="bytes; -1: teucer_cache_max_bytes")
compilation_cache_include_metadata_in_key = _o("jax_compilation_cache_include_metadata_in_key", bool, False, help="programs that differ in source locations only are two; no effect: the text of a program has no source locations")
compilation_cache_check_contents = _o("jax_compilation_cache_check_contents", bool, False, help="compare entries with programs compiled anew; no effect: entries carry checksums")
persistent_cache_min_compile_time_secs = _o("jax_persistent_cache_min_compile_time_secs", float, 1.0, help="keep programs that took longer, seconds; at the default all are kept")
persistent_cache_min_entry_size_bytes = _o("jax_persistent_cache_min_entry_size_bytes", int, 0, help="keep programs that are larger")
persistent_cache_enable_xla_caches = _o("jax_persistent_cache_enable_xla_caches", str, "xla_gpu_per_fusion_autotune_cache_dir", NULL, help="XLA's own caches kept beside: all, none or a list")
raise_persistent_cache_errors = _o("jax_raise_persistent_cache_errors", bool, False, help="errors of the cache are raised; else they are warned of where an option names the folder")
rates = _o("teucer_rates", str, None, JIT, NULL, help="file of rates that `teucer tune` wrote for this machine; None: in the user's cache folder; committed: the ones that Teucer comes with")
cache_dir = _o("teucer_cache_dir", str, None, NULL, help="folder of the compilation cache, or address of a team's (s3://...) behind the user's folder; None: the user's cache folder")
cache_remote = _o("teucer_cache_remote", str, None, NULL, help="address of the cache of a team, behind the folder: s3://, gs://, https:// or what fsspec takes")
cache_unsigned = _o("teucer_cache_unsigned", bool, False, help="run entries of the cache of a team that nobody has signed: machine code of whoever can write there")
cache_patience = _o("teucer_cache_patience", float, 10.0, help="seconds that a process waits in vain for the cache of a team, all in all")
preload = _o("teucer_preload", bool, True, help="while a function is traced, load from disk what its program was in an earlier process")
keep_memory = _early("teucer_keep_memory", bool, True, help="memory that arrays on the host free (of up to 32 MB each) stays with the process, to be used again without page faults (Linux with glibc)")
max_memory_maps = _o("teucer_max_memory_maps", int, -1, help="memory maps of the process at which executables are evicted (they are loaded again when used); -1: three quarters of what the system allows")
cache_wait = _o("teucer_cache_wait", int, 300, help="seconds that a process waits for another that compiles the same program; 0: it compiles at once")
cache_max_bytes = _o("teucer_cache_max_bytes", int, 4 << 30, help="size at which the least recently used entries go")

# Finding mistakes
debug_nans = _o("jax_debug_nans", bool, False, JIT, help="a nan in a result is an error")
debug_infs = _o("jax_debug_infs", bool, False, JIT, help="an infinity in a result is an error")
enable_checks = _o("jax_enable_checks", bool, False, help="check every jaxpr that is built")
error_checking_behavior_nan = _o("jax_error_checking_behavior_nan", _RAISE, "ignore", JIT, TRACE, help="jnp functions record nans for raise_if_error")
error_checking_behavior_divide = _o("jax_error_checking_behavior_divide", _RAISE, "ignore", JIT, TRACE, help="jnp functions record divisions by zero")
error_checking_behavior_oob = _o("jax_error_checking_behavior_oob", _RAISE, "ignore", JIT, TRACE, help="jnp functions record indices out of bounds")
traceback_filtering = _o("jax_traceback_filtering", _FILTERING, "auto", help="what becomes of Teucer's own frames in tracebacks")
tracer_error_num_traceback_frames = _o("jax_tracer_error_num_traceback_frames", int, 5, help="frames shown of the line that made a tracer; no effect: errors name the line that made a tracer")
thread_guard = _effect("jax_thread_guard", bool, False, effect=cells.set_thread_guard, help="several processes: arrays belong to one thread")
array_garbage_collection_guard = _guard("jax_array_garbage_collection_guard", ("allow", "log", "fatal"), "garbage_collect_array", help="what happens when an array waits for the garbage collector")
transfer_guard = _guard("jax_transfer_guard", _TRANSFERS, "host_to_device", "device_to_device", "device_to_host", help="what happens when data move, in every direction")
transfer_guard_host_to_device = _guard("jax_transfer_guard_host_to_device", _TRANSFERS, "host_to_device", help="what happens when data move to a device")
transfer_guard_device_to_device = _guard("jax_transfer_guard_device_to_device", _TRANSFERS, "device_to_device", help="what happens when data move between devices")
transfer_guard_device_to_host = _guard("jax_transfer_guard_device_to_host", _TRANSFERS, "device_to_host", help="what happens when data move to the host")

# Devices and processes
default_device = _o("jax_default_device", device_or_platform, None, JIT, TRACE, NULL, help="device of uncommitted data: a Device or a platform's name")
platforms = _o("jax_platforms", str, None, NULL, help="platforms to start, first choice first: 'cuda,cpu'")
platform_name = _o("jax_platform_name", str, "", NULL, help="the platform of `devices()`; older form of jax_platforms")
num_cpu_devices = _early("jax_num_cpu_devices", int, -1, help="CPU devices; -1: one, or as XLA_FLAGS says")
cpu_enable_async_dispatch = _o("jax_cpu_enable_async_dispatch", bool, True, help="CPU programs run while Python goes on")
cpu_collectives_implementation = _o("jax_cpu_collectives_implementation", ("gloo", "mpi", "megascale"), "gloo", NULL, help="collectives between CPU processes")
cpu_get_local_topology_timeout_minutes = _o("jax_cpu_get_local_topology_timeout_minutes", int, 2, help="minutes")
cpu_get_global_topology_timeout_minutes = _o("jax_cpu_get_global_topology_timeout_minutes", int, 5, help="minutes")
cuda_visible_devices = _o("jax_cuda_visible_devices", str, "all", NULL, help="GPUs to use: all, or their numbers")
sort_devices_by_process_index = _o("jax_sort_devices_by_process_index", bool, True, help="`devices()` lists processes in order")
pjrt_client_create_options = _o("jax_pjrt_client_create_options", object, None, NULL, help="options of the plugin: 'name:value;name:value' or a dict")
heartbeat_timeout = _o("teucer_heartbeat_timeout", int, 30, help="several processes: seconds after which one that gives no sign counts as dead")
collective_timeout = _o("teucer_collective_timeout", int, 300, help="several processes: seconds that one waits in a program for another to come to it")
check_programs = _o("teucer_check_programs", bool, True, help="several processes: compare the programs of all before they run")
check_values = _o("teucer_check_values", bool, True, help="several processes: compare host values of which arrays over all are made")
enable_recoverability = _o("jax_enable_recoverability", bool, False, help="several processes: those that are left go on when one has failed; else they end, too")
enable_preemption_service = _o("jax_enable_preemption_service", bool, True, help="several processes: agree on a step to save the state at when one will be preempted (SIGTERM)")
distributed_debug = _o("jax_distributed_debug", bool, False, help="log the set-up of several processes")

# Output
pprint_use_color = _o("jax_pprint_use_color", bool, True, help="colours in printed jaxprs, on a terminal; no effect: printed jaxprs have no colours")
logging_level = _effect("jax_logging_level", _LOGGING, "NOTSET", NULL, effect=logs.set_level, help="level of the logger `teucer`; unless NOTSET, it writes to stderr")
debug_log_modules = _effect("jax_debug_log_modules", str, "", effect=logs.set_debug_modules, help="modules whose debug log goes to stderr, with commas")
dump_ir_to = _o("jax_dump_ir_to", str, "", NULL, help="folder for the text of each program compiled")
dump_ir_modes = _o("jax_dump_ir_modes", str, "stablehlo", help="what to dump: stablehlo, jaxpr, eqn_count_pprof (equations by line, for pprof)")
include_debug_info_in_dumps = _o("jax_include_debug_info_in_dumps", bool, True, help="source locations in dumped text")
include_full_tracebacks_in_locations = _o("jax_include_full_tracebacks_in_locations", bool, True, help="whether source locations say from where the line was called")
traceback_in_locations_limit = _o("jax_traceback_in_locations_limit", int, 100, help="how many calls a source location says; -1: all")
hlo_source_file_canonicalization_regex = _o("jax_hlo_source_file_canonicalization_regex", str, None, NULL, TRACE, help="what matches is removed from file names in source locations")
source_url_schema = _o("jax_source_url_schema", str, None, NULL, help="form of links to source lines; no effect: nothing writes links")
send_traceback_to_runtime = _o("jax_send_traceback_to_runtime", RuntimeTracebackMode, RuntimeTracebackMode.OFF, help="tracebacks for the profiler")
serialization_version = _o("jax_serialization_version", int, 0, help="format of serialized executables; 0: the newest")
export_calling_convention_version = _o("jax_export_calling_convention_version", int, 10, help="calling convention of export")
export_ignore_forward_compatibility = _o("jax_export_ignore_forward_compatibility", bool, False, help="export may use what older readers lack")
pallas_poison_buffers = _o("jax_pallas_poison_buffers", bool, False, JIT, TRACE, help="memory of pl.run_scoped begins with NaN")
pallas_enable_debug_checks = _o("jax_pallas_enable_debug_checks", bool, False, JIT, TRACE, help="run pl.debug_check")
pallas_use_mosaic_gpu = _o("jax_pallas_use_mosaic_gpu", bool, True, JIT, TRACE, help="GPU kernels through Mosaic")
pallas_verbose_errors = _o("jax_pallas_verbose_errors", bool, False, help="whole kernels in error messages")
# fmt: on

# The options of JAX that Teucer does not have, and why: asking for one gives the reason.
for _why, _names in IDLE.items():
    for _name, _default in _names.items():
        globals()[_name.removeprefix("jax_")] = _enlist(IdleOption(_name, _why, _default))
jax2tf_associative_scan_reductions = _OPTIONS["jax2tf_associative_scan_reductions"]

checking_leaks = check_tracer_leaks
tracing: Any = cells.Config(
    "teucer_tracing", False, include_in_jit_key=True, include_in_trace_context=False
)
"""True while a trace other than evaluation is current: keeps the C++ dispatcher from answering tracers' calls."""
post_hook: Any = cells.Config(
    "teucer_post_hook", None, include_in_jit_key=False, include_in_trace_context=False
)
"""A function that the C++ dispatcher calls after each call, or None."""
cells.register_dispatcher_cells(enable_x64, disable_jit, post_hook)


def context_cell(name: str, value: Any, *flags: str) -> Any:
    """A thread-local value that is no option but belongs to cache keys, such as the current mesh."""
    return cells.Config(
        name, value, include_in_jit_key=JIT in flags, include_in_trace_context=TRACE in flags
    )


_user_contexts = itertools.count()


def make_user_context(default_value: Any = None) -> Option:
    """A value of the user's own that belongs to the keys of traced and compiled functions.

    Call it for a `with` block (or decorator) in which the value is another, a hashable object. A function of `jit` is traced once
    for each value. `.value` reads it.

    >>> mode = make_user_context("plain")
    >>> with mode("fancy"):
    ...     mode.value
    'fancy'
    >>> mode.value
    'plain'
    """
    name = f"user_context_{next(_user_contexts)}"
    return Option(name, object, default_value, (JIT, TRACE, NULL), "a value of the user's own")


checked: Any = context_cell("teucer_checked", False, TRACE)
"""True while `checkify` traces a program: what it is to find must not be hidden by what is done while tracing."""


class Config:
    """The options as one object, under JAX's names.

    `config.jax_enable_x64` reads an option as this thread sees it; `config.update` sets it for the process. An unknown name raises
    AttributeError, a value that is not allowed ValueError (C1).

    >>> config.update("jax_log_compiles", True)
    >>> config.jax_log_compiles
    True
    >>> config.update("jax_log_compiles", False)
    """

    def update(self, name: str, val: Any) -> None:
        """Set an option for the process; threads inside a context manager for it keep theirs."""
        _lookup(name).set_everywhere(val)

    def read(self, name: str) -> Any:
        """The value of an option, as this thread sees it."""
        return _lookup(name).value

    @property
    def values(self) -> dict[str, Any]:
        """Every option and its value, as this thread sees it."""
        return {name: option.value for name, option in _OPTIONS.items()}

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are on in this thread."""
        return bool(enable_x64.value)

    def parse_flags_with_absl(self) -> None:
        """Set options from the arguments `--jax_name=value` (for a bool also `--jax_name`, `--nojax_name`); absl is not needed."""
        for argument in sys.argv[1:]:
            if argument == "--":
                return
            name, equals, text = argument.removeprefix("--").partition("=")
            if not argument.startswith("--"):
                continue
            if name in _OPTIONS and (equals or _OPTIONS[name].kind is bool):
                _OPTIONS[name].set_everywhere(_OPTIONS[name].parse(text if equals else "true"))
            elif (
                name.removeprefix("no") in _OPTIONS
                and not equals
                and _OPTIONS[name.removeprefix("no")].kind is bool
            ):
                _OPTIONS[name.removeprefix("no")].set_everywhere(False)

    config_with_absl = parse_flags_with_absl

    def complete_absl_config(self, absl_flags: ModuleType) -> None:
        """Set options that the program defined as flags of absl to the values of these flags.

        absl_flags: the module `absl.flags`, after it has read the command line.
        """
        values = absl_flags.FLAGS.flag_values_dict()
        for name in _OPTIONS.keys() & values.keys():
            _OPTIONS[name].set_everywhere(values[name])

    def __getattr__(self, name: str) -> Any:
        return _lookup(name).value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"config: options are set by update.\n  Write config.update({name!r}, {value!r})."
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_OPTIONS})


config = Config()


def options() -> Iterator[Option]:
    """Every option, in the order of the table."""
    return iter(_OPTIONS.values())


def _lookup(name: str) -> Option:
    if name in _OPTIONS:
        return _OPTIONS[name]
    import difflib  # 2 ms to load, for mistyped names

    close = difflib.get_close_matches(
        name, [*_OPTIONS, *(n.removeprefix("jax_") for n in _OPTIONS)], n=1
    )
    full = next((n for n in _OPTIONS if close and n in (close[0], f"jax_{close[0]}")), None)
    hint = f"\n  Did you mean {full!r}?" if full else ""
    raise AttributeError(f"config: Unrecognized config option: {name}.{hint}", name=name, obj=None)
