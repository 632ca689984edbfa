"""Names of `pallas.tpu`: memory spaces, semaphores, copies, pipelines, cores.

Kernels are compiled for TPUs by Mosaic. Interpreted, or on other platforms, cores and steps run in
order. Names that are not built raise an error that says what is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from teucer import lax
from teucer._experimental.unbuilt import unbuilt_names
from teucer._pallas import call, kernel
from teucer._pallas.checked import InterpretParams as _AnyInterpretParams
from teucer._pallas.einshape import einshape
from teucer._pallas.pipelines import emit_pipeline
from teucer._pallas.semaphores import (
    DeviceIdType,
    SemaphoreType,
    async_copy,
    async_remote_copy,
    get_barrier_semaphore,
    make_async_copy,
    make_async_remote_copy,
    only_on_devices,
    semaphore,
    semaphore_read,
    semaphore_signal,
    semaphore_wait,
    sync_copy,
)
from teucer._pallas.specs import CompilerParams as _AnyParams
from teucer._pallas.specs import MemoryRef, PrefetchScalarGridSpec, _Space
from teucer._pallas.specs import MemorySpace as _AnySpace
from teucer._pallas.targets import TARGETS
from teucer._pallas.tpu import (
    bitcast,
    pack_elementwise,
    prng_random_bits,
    prng_seed,
    reciprocal,
    roll,
    stochastic_round,
    unpack_elementwise,
)

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DTypeLike, Params

__all__ = [
    "ANY", "ARBITRARY", "CMEM", "CORE_PARALLEL", "HBM", "HOST", "PARALLEL", "SEMAPHORE", "SMEM",
    "SUBCORE_PARALLEL", "VMEM", "VMEM_SHARED", "CompilerParams", "DeviceIdType",
    "GridDimensionSemantics", "InterpretParams", "MemorySpace", "PrefetchScalarGridSpec",
    "SemaphoreType", "TensorCoreMesh", "async_copy", "async_remote_copy", "bitcast", "conv",
    "core_barrier", "create_tensorcore_mesh", "dma_semaphore", "einshape", "emit_pipeline",
    "force_tpu_interpret_mode", "get_barrier_semaphore", "get_tpu_info", "is_tpu_device", "load",
    "make_async_copy", "make_async_remote_copy", "pack_elementwise", "prng_random_bits",
    "prng_seed", "reciprocal", "reset_tpu_interpret_mode_state", "roll", "run_on_first_core",
    "semaphore", "semaphore_read", "semaphore_signal", "semaphore_wait", "set_tpu_interpret_mode",
    "store", "stochastic_round", "sync_copy", "touch", "trace_value", "unpack_elementwise",
    "with_memory_space_constraint",
]  # fmt: skip
__getattr__, __dir__ = unbuilt_names(
    __name__,
    """
    ACC BufferType BufferedRef BufferedRefBase ChipVersion CoreType LoweringException
    PipelineStep SideEffectType Tiling TpuInfo annotate emit_pipeline_with_allocations
    emit_pipeline_with_async_prefetch get_tpu_info_for_chip has_memory_space join_bits
    matmul_acc_lhs matmul_lhs_fifo matmul_pop matmul_pop_fifo matmul_push_rhs pack_fp6
    sample_block split_bits stateful_bernoulli stateful_bits stateful_normal stateful_uniform
    to_pallas_key unpack_fp6
    """,
    "it is not built yet.\n  Kernels use jnp and jax.random; blocks go through BlockSpec or "
    "emit_pipeline.",
    tuple(__all__),
)


class MemorySpace(_Space):
    """The memories of a TPU. Interpreted, all of them are the host's."""

    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    HBM = "hbm"
    SEMAPHORE = "semaphore_mem"

    def like(self, shape_dtype_like: Any) -> MemoryRef:
        """Memory of the shape and dtype of an array, or of a description of one."""
        return self(shape_dtype_like.shape, shape_dtype_like.dtype)


VMEM, VMEM_SHARED, SMEM = MemorySpace.VMEM, MemorySpace.VMEM_SHARED, MemorySpace.SMEM
CMEM, HBM, SEMAPHORE = MemorySpace.CMEM, MemorySpace.HBM, MemorySpace.SEMAPHORE
ANY, HOST = _AnySpace.ANY, _AnySpace.HOST
dma_semaphore = SemaphoreType.DMA


class GridDimensionSemantics(enum.Enum):
    """Whether steps along an axis of a grid may run at the same time, and on which cores.
    Interpreted, all run in order."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL, ARBITRARY = GridDimensionSemantics.PARALLEL, GridDimensionSemantics.ARBITRARY
CORE_PARALLEL, SUBCORE_PARALLEL = (
    GridDimensionSemantics.CORE_PARALLEL,
    GridDimensionSemantics.SUBCORE_PARALLEL,
)


class InterpretParams(_AnyInterpretParams):
    """How a kernel for TPUs is interpreted: as `pl.InterpretParams` says.

    out_of_bounds_reads: 'raise', or 'uninitialized': such reads give unspecified values.
    uninitialized_memory: with 'zero', reads of memory that was never written are no faults.
    The others say how JAX's interpreter goes on.
    """

    def __init__(
        self,
        *,
        detect_races: bool = False,
        on_race: str = "raise",
        out_of_bounds_reads: str = "raise",
        skip_floating_point_ops: bool = False,
        uninitialized_memory: str = "nan",
        num_cores_or_threads: int = 1,
        vector_clock_size: int | None = None,
        logging_mode: object = None,
        dma_execution_mode: str = "on_wait",
        random_seed: int | None = None,
        grid_point_recorder: Callable[..., object] | None = None,
        allow_hbm_allocation_in_run_scoped: bool = False,
        buffer_bounds: str = "logical",
        detect_uninitialized_reads: bool | None = None,
        detect_out_of_bounds: bool | None = None,
    ) -> None:
        if skip_floating_point_ops:
            raise NotImplementedError(
                "InterpretParams: results are computed whole; skip_floating_point_ops would give "
                "others."
            )
        if num_cores_or_threads < 1:
            raise ValueError(
                f"Number of cores or threads must be at least 1, but got {num_cores_or_threads}."
            )
        inside = out_of_bounds_reads == "raise"
        reads = uninitialized_memory == "nan"
        super().__init__(
            detect_races,
            reads if detect_uninitialized_reads is None else detect_uninitialized_reads,
            inside if detect_out_of_bounds is None else detect_out_of_bounds,
            on_race,
            uninitialized_memory,
            grid_point_recorder,
            dma_execution_mode,
            random_seed,
            num_cores_or_threads,
        )


@dataclasses.dataclass(frozen=True)
class CompilerParams(_AnyParams):
    """Options of the compiler of TPU kernels.

    dimension_semantics: for each axis of the grid a GridDimensionSemantics, or its name.
    vmem_limit_bytes: the most VMEM that the kernel may take. collective_id: which semaphore devices
    share, for kernels that speak to other devices. flags: of libtpu, by name. The others as their
    names say.
    """

    dimension_semantics: Sequence[Any] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: Any = False
    flags: dict[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int = 1
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False
    opt_level: int | None = None

    __hash__ = object.__hash__  # flags are a dict

    def replace(self, **changes: Any) -> CompilerParams:
        """The options with some of them changed."""
        return dataclasses.replace(self, **changes)


# --- Interpretation -------------------------------------------------------------------------------


@contextlib.contextmanager
def force_tpu_interpret_mode(params: Params | None = None) -> Iterator[None]:
    """Interpret all kernels that are called meanwhile. params: an InterpretParams, to check them
    step by step."""
    with call.interpreting(True if params is None else params):
        yield


def set_tpu_interpret_mode(params: Params | None = None) -> None:
    """Interpret all kernels from now on, in this thread."""
    call.always_interpret(True if params is None else params)


def reset_tpu_interpret_mode_state() -> None:
    """Interpret kernels only where they say so."""
    call.always_interpret(None)


# --- Cores ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TensorCoreMesh:
    """The cores of a TPU, along one axis. Interpreted, they run one after the other."""

    axis_name: str
    num_cores: int

    @property
    def shape(self) -> dict[str, int]:
        """The size of the axis."""
        return {self.axis_name: self.num_cores}


def create_tensorcore_mesh(
    axis_name: str, devices: Sequence[object] | None = None, num_cores: int | None = None
) -> TensorCoreMesh:
    """A mesh of cores for `pl.core_map` and `pl.kernel`. num_cores: by default 1."""
    return TensorCoreMesh(axis_name, 1 if num_cores is None else int(num_cores))


def run_on_first_core(core_axis_name: str) -> Callable[[Callable[[], Any]], None]:
    """A decorator that runs a function on the first core of an axis, now."""
    return kernel.when(lax.axis_index(core_axis_name) == 0)


def core_barrier(sem: object, *, core_axis_name: str) -> None:
    """Let cores wait for one another, in a kernel on cores. sem: a semaphore that each has."""
    cores = lax.axis_size(core_axis_name)
    if cores > 1 and not kernel.in_kernel():
        only_on_devices("core_barrier of several cores", "Call it in pl.kernel or pl.core_map.")
    for core in range(cores):
        if cores > 1 and core != int(lax.axis_index(core_axis_name)):
            semaphore_signal(sem, core_index=core)
    if cores > 1:
        semaphore_wait(sem, cores - 1)


# --- Functions ------------------------------------------------------------------------------------


def load(ref: object, *, mask: ArrayLike | None = None) -> Any:
    """The elements of a reference, or of a part of it, `ref.at[...]`; 0 where the mask is false."""
    return kernel.load(ref, ..., mask=mask)


def store(ref: object, val: Any, *, mask: ArrayLike | None = None) -> None:
    """Let the elements of a reference, or of a part of it, be `val` where the mask is true."""
    kernel.store(ref, ..., val, mask=mask)


def touch(ref: object) -> None:
    """Let compilers believe that a reference is read and written; nothing here."""


def trace_value(label: str, value: ArrayLike) -> None:
    """Write a number to the profile of a TPU; nothing here."""


def with_memory_space_constraint(x: ArrayLike, memory_space: object) -> Any:
    """x, to be kept in a memory of the TPU; here all are the host's."""
    return x


def is_tpu_device() -> bool:
    """Whether the default device is a TPU."""
    import teucer as jax

    (target,) = (t for t in TARGETS if t.name == "mosaic_tpu")
    return jax.default_backend() in target.platforms


# --- Only on TPUs ---------------------------------------------------------------------------------


def get_tpu_info() -> Any:
    """Numbers of the TPU; only where there is one."""
    raise NotImplementedError(
        "get_tpu_info: numbers of a TPU are there only where there is one.\n"
        "  Ask pl or the arrays for sizes."
    )


def conv(
    lhs: Array,
    rhs: Array,
    acc: Array | None = None,
    *,
    dimension_numbers: Any,
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] | None = None,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    window_reversal: Sequence[bool] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """A convolution in a kernel: `lax.conv_general_dilated`, to which `acc` is added.

    window_strides, padding: by default 1, and none. window_reversal: along which axes the kernel
    is turned around.

    >>> import teucer.numpy as jnp
    >>> x, k = jnp.arange(4.0).reshape(1, 4, 1), jnp.ones((2, 1, 1))
    >>> conv(x, k, dimension_numbers=("NWC", "WIO", "NWC"))[0, :, 0]
    Array([1., 3., 5.], dtype=float32)
    """
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    axes = numbers.rhs_spec[2:]
    if window_reversal is not None:
        turned = [axis for axis, t in zip(axes, window_reversal, strict=True) if t]
        rhs = lax.rev(rhs, turned)
    out = lax.conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(axes) if window_strides is None else window_strides,
        ((0, 0),) * len(axes) if padding is None else padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
    )
    return out if acc is None else acc + out
