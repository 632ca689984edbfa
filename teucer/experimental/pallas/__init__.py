"""Kernels: functions of references to blocks of arrays, run over a grid (docs/guide/pallas.md)."""

from teucer._base import lazy

_SOURCES = {
    "teucer._pallas.call": "pallas_call pallas_call_p",
    "teucer._pallas.checked": "InterpretParams KernelError",
    "teucer._pallas.specs": (
        "ANY HOST BlockDim BlockSpec Blocked BoundedSlice Buffered CompilerParams CostEstimate "
        "Element GridSpec MemoryRef MemorySpace RevisitMode Squeezed no_block_spec squeezed"
    ),
    "teucer._pallas.cores": "core_map kernel",
    "teucer._pallas.cost": "estimate_cost",
    "teucer._pallas.debugging": (
        "debug_check debug_checks_enabled debug_print enable_debug_checks enable_poison_buffers"
    ),
    "teucer._pallas.semaphores": (
        "DeviceIdType semaphore semaphore_read semaphore_signal semaphore_wait"
    ),
    "teucer._pallas.kernel": (
        "dot ds dslice load loop num_programs program_id run_scoped store swap when with_scoped "
        "atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor"
    ),
    "teucer.numpy._index_keys": "Slice",
    "teucer._pallas.helpers": (
        "align_to broadcast_to cdiv empty empty_like empty_ref_like "
        "next_power_of_2 select_ref strides_from_shape"
    ),
    "teucer._pallas.tpu": "delay multiple_of reciprocal",
    "teucer.experimental.state": "run_state",
    "teucer.experimental.pallas.fuser": "fuser=.",
    "teucer.experimental.pallas.mosaic_gpu": "mosaic_gpu=.",
    "teucer.experimental.pallas.tpu": "tpu=.",
    "teucer.experimental.pallas.triton": "triton=.",
}

# Names for compiled kernels of TPUs and Hopper GPUs, and for JAX's own compiler.
__getattr__, __dir__, _names = lazy.lazy_module(__name__, _SOURCES)
__all__ = [*_names]  # noqa: PLE0604  # the names are strings, from the table
