"""Helpers of the factorizations: checks, batching, and calls of jaxlib's kernels, LAPACK's and
those for GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from teucer._base import dtypes, errors
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost
from teucer._core.primitive import Primitive
from teucer._core.types import ShapedArray
from teucer._devices.partition import leading
from teucer._dimensions.dimensions import is_constant
from teucer._lower import hlo

if TYPE_CHECKING:
    from enum import Enum

    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, Avals, Dims, Params, Size, Values
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "MatrixPrimitive", "batch_leading", "boolean", "built_in", "check_inexact", "check_rank",
    "check_same_batch", "check_same_dtype", "cubes", "flag", "has_gpu_kernel", "identity",
    "info_of", "lacks", "lapack", "magma", "nan_unless_ok", "of_products", "on_gpu", "real_dtype",
    "zeros",
]  # fmt: skip

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
# Routines that have another name for complex matrices.
_COMPLEX = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}
# Routines that are not LAPACK's, with their targets on CPU.
_OTHERS = {"tridiagonal_solve_perturbed": "tridiagonal_solve_perturbed_ffi"}


def cubes(factor: float) -> Cost:
    """The cost of a factorization of matrices of n rows, in operations for n cubed: G. H. Golub,
    C. F. Van Loan, Matrix Computations (2013), chapters 3 to 5, 8."""

    def operations(avals: Avals, out: ShapedArray, params: Params) -> float:
        shape = avals[0].shape
        return float(factor * math.prod(shape) * shape[-1])

    return Cost(reorders=True, operations=operations)


class MatrixPrimitive(Primitive):
    """A primitive on the trailing axes of its operands that takes any number of leading batch axes,
    equal for all.

    rank: how many axes of the first operand are not batch axes.
    """

    __slots__ = ()
    rank: ClassVar[int] = 2
    cost = Cost(reorders=True)

    def shard(self, *avals: ShapedArray, **params: object) -> Any:
        return leading(avals[0].ndim - self.rank, avals)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return batch_leading(self, axis, args, dims, params)

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Values, avals: Avals, outs: Avals, **params: object
    ) -> Any:
        batch = avals[0].ndim - self.rank
        if not is_constant([n for aval in (*avals, *outs) for n in aval.shape[batch:]]):
            sizes.refuse("matrices of unknown size")
        # Matrices behind the elements are zeros, which no kernel stumbles over.
        return self.call(
            *(sizes.mask(x, aval, 0) for x, aval in zip(args, avals, strict=True)), **params
        )


def batch_leading(
    primitive: Primitive, axis: Axis, args: Sequence[Array], dims: Dims, params: Mapping[str, Any]
) -> Any:
    """Batch a primitive that takes leading batch axes."""
    outs = primitive.call(
        *(array_ops.to_axis(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)), **params
    )
    return outs, (0,) * len(outs)


def check_inexact(name: str, *avals: ShapedArray, real: bool = False) -> None:
    """Raise TypeError unless all operands are of a floating or, unless `real`, complex dtype."""
    for i, aval in enumerate(avals):
        if not dtypes.issubdtype(aval.dtype, np.floating if real else np.inexact):
            raise TypeError(
                f"{name} does not accept dtype {aval.dtype.name} at position {i}. Accepted dtypes "
                f"at position {i} are subtypes of floating{'' if real else ', complexfloating'}.\n"
                f"    operand {i}: {aval.str_short(short_dtypes=True)}"
            )


def check_rank(name: str, *avals_and_ranks: tuple[Any, int]) -> None:
    """Raise TypeError for an operand of fewer axes than the matrix or vector it should be."""
    for i, (aval, rank) in enumerate(avals_and_ranks):
        if aval.ndim < rank:
            raise TypeError(
                f"Input {i} to {name} must have rank at least {rank}, but got shape={aval.shape}"
            )


def check_same_dtype(name: str, *avals: ShapedArray) -> None:
    """Raise TypeError unless the operands agree in dtype."""
    if any(aval.dtype != avals[0].dtype for aval in avals):
        raise TypeError(
            f"lax.{name} requires arguments to have the same dtypes, got "
            f"{', '.join(aval.dtype.name for aval in avals)}."
        )


def check_same_batch(name: str, *avals_and_ranks: tuple[Any, int]) -> None:
    """Raise unless the operands agree in the axes before their matrix or vector: TypeError in
    number, ValueError in size."""
    batches = [aval.shape[: aval.ndim - rank] for aval, rank in avals_and_ranks]
    if len({len(batch) for batch in batches}) > 1:
        raise TypeError(
            f"All inputs to {name} must have the same number of batch dimensions, but got "
            f"{[len(batch) for batch in batches]} batch dimensions for the inputs."
        )
    if len(set(batches)) > 1:
        shown = "\n".join(
            f"    input {i}: {aval.str_short(short_dtypes=True)}"
            for i, (aval, _) in enumerate(avals_and_ranks)
        )
        raise ValueError(f"{name}: inputs differ in their batch dimensions.\n{shown}")


def real_dtype(dtype: np.dtype[Any]) -> Any:
    """The dtype of the parts of a complex dtype; a real one itself."""
    return np.dtype(np.finfo(dtype).dtype) if dtype.kind == "c" else dtype


def flag(letter: str) -> str:
    """A one-letter option of LAPACK as an attribute."""
    return f"{ord(letter)} : ui8"


def info_of(batch: Sequence[Size]) -> ShapedArray:
    """The type of a routine's status: one an element of the batch."""
    return ShapedArray(tuple(batch), np.dtype(np.int32))


def boolean(value: bool) -> str:
    """An option of a GPU kernel as an attribute."""
    return str(value).lower()


def magma(wanted: bool | None) -> str:
    """Whether a hybrid kernel should use MAGMA, rather than LAPACK on the host: its attribute's
    value."""
    return {None: "auto", True: "on", False: "off"}[wanted]


def on_gpu(ctx: Context) -> bool:
    """Whether the platform has kernels of its own, one for all dtypes."""
    return bool(ctx.target.kernels.routines)


def lacks(ctx: Context, op: str, algorithm: Enum | None) -> bool:
    """Whether the platform does not have an algorithm for a function that a user has chosen; None
    is any."""
    return algorithm is not None and algorithm.name in ctx.target.kernels.lacks.get(op, ())


def has_gpu_kernel(ctx: Context, routine: str) -> bool:
    """Whether the platform is a GPU with a kernel of the routine."""
    return routine in ctx.target.kernels.routines


def built_in(
    ctx: Context,
    routine: str,
    operands: Sequence[Value],
    avals: Sequence[ShapedArray],
    config: str | None = None,
) -> Any:
    """The results of the compiler's own factorization in place of a LAPACK routine; None if it has
    none. config: its options, a string of StableHLO."""
    target = ctx.target.kernels.built_in.get(routine)
    if target is None:
        return None
    return hlo.custom_call(ctx, target, operands, avals, api_version=2, config=config)


def of_products(ctx: Context) -> bool:
    """Whether the platform has no kernels, but a compiler that factorizes: missing factorizations
    are made of products."""
    return bool(ctx.target.kernels.built_in)


def lapack(
    ctx: Context,
    op: str,
    routine: str,
    n_batch: int,
    operands: Sequence[Value],
    avals: Sequence[ShapedArray],
    attributes: str = "",
    aliases: Sequence[tuple[int, int]] = (),
    *,
    gpu: str | None = None,
    row_major: bool = False,
) -> tuple[Any, ...]:
    """Call a LAPACK routine, or its counterpart on a GPU, on matrices in column-major order and
    vectors.

    op: the function that the user called. aliases: (result, operand) pairs: the routine overwrites
    that operand.
    gpu: attributes of the counterpart if they differ. row_major: matrices lie row by row.
    Raises NotImplementedError where a platform has no such kernels, UnsupportedDtypeError in half
    precision.
    """
    name = operands[0].dtype.name
    letter = _LETTERS.get(name)
    if letter is None and name != "int32":  # which pivots are
        raise errors.UnsupportedDtypeError(
            f"{op} does not accept dtype {name} at position 0. Accepted dtypes at position 0 are "
            f"subtypes of float32, complex128, complex64, float64.\n  Unsupported dtype {name}: "
            "LAPACK has none of it. Convert the matrix."
        )
    target = _target(ctx, op, routine, letter)

    def layout(aval: ShapedArray) -> list[int]:
        order = list(range(aval.ndim))[::-1]
        if aval.ndim == n_batch + 2 and not row_major:
            order[:2] = order[1::-1]
        return order

    operand_avals = [v.aval for v in operands]
    divisible = n_batch and not any(aval.symbolic for aval in operand_avals)
    return hlo.custom_call(
        ctx,
        target,
        operands,
        avals,
        config=f"{{{attributes if gpu is None or not on_gpu(ctx) else gpu}}}",
        operand_layouts=[layout(a) for a in operand_avals],
        result_layouts=[layout(a) for a in avals],
        aliases=aliases,
        attributes=_partitioning(n_batch, operand_avals, avals) if divisible else "",
    )


def _target(ctx: Context, op: str, routine: str, letter: str | None) -> str:
    """The name of the kernel of a routine, for the dtype of the letter.

    Raises NotImplementedError if the platform has none.
    """
    is_complex = letter in ("c", "z")
    if has_gpu_kernel(ctx, routine):
        routines: Mapping[str, str] = ctx.target.kernels.routines
        return routines[
            f"{routine} complex" if is_complex and f"{routine} complex" in routines else routine
        ]
    target = (
        _OTHERS.get(routine)
        or f"lapack_{letter}{_COMPLEX.get(routine, routine) if is_complex else routine}_ffi"
    )
    if not ctx.target.kernels.lapack:
        raise NotImplementedError(
            f"{op}: there is no kernel for platform '{ctx.platform}'; on CPU it is computed by "
            f"LAPACK ({target}).\n  Move the matrix to a CPU device: device_put(x, "
            "devices('cpu')[0])."
        )
    return target


def _partitioning(n_batch: int, operands: Sequence[Any], results: Sequence[Any]) -> str:
    """Attributes that let the partitioner divide a call along its batch axes: matrices of a batch
    stay on their devices.

    To Shardy the axes of each array are factors; batch axes are shared factors.
    """
    sizes: list[Any] = list(operands[0].shape[:n_batch])

    def factors(aval: ShapedArray) -> str:
        if aval.ndim < n_batch:
            return "[]"  # stands for a result that is not computed
        first = len(sizes)
        sizes.extend(aval.shape[n_batch:])
        return f"[{', '.join(_factor(i) for i in (*range(n_batch), *range(first, len(sizes))))}]"

    left, right = (", ".join([factors(aval) for aval in avals]) for avals in (operands, results))
    listed = ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(sizes))
    return (
        f'mhlo.frontend_attributes = {{num_batch_dims = "{n_batch}"}}, '
        f"sdy.sharding_rule = #sdy.op_sharding_rule<({left})->({right}) {{{listed}}}, custom>"
    )


def _factor(i: int) -> str:
    """The i-th factor's name: i, j, ..., z, z_1, z_2, ..."""
    return chr(ord("i") + i) if i < 18 else f"z_{i - 17}"


def nan_unless_ok(
    ctx: Context, info: Any, *results: Any, at_least: bool = False
) -> tuple[Any, ...]:
    """Results, or NaN for the matrices on which the routine failed: info != 0, or info < 0 with
    `at_least`."""
    ok = hlo.compare(ctx, info, hlo.splat(ctx, 0, info.aval), "GE" if at_least else "EQ")
    out = []
    for x in results:
        nan = ctx.constant(complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan, x.dtype)
        good = hlo.broadcast_in_dim(ctx, ok, x.shape, range(len(info.shape)))
        out.append(hlo.select(ctx, good, x, hlo.broadcast_in_dim(ctx, nan, x.shape, ())))
    return tuple(out)


def identity(ctx: Context, aval: ShapedArray) -> Any:
    """The identity matrix, repeated along batch axes."""
    numbers = aval.update(dtype=np.dtype(np.int32))
    row, column = (hlo.iota(ctx, numbers, aval.ndim - i) for i in (2, 1))
    return hlo.convert(ctx, hlo.compare(ctx, row, column, "EQ"), aval.dtype)


def zeros(ctx: Context, aval: ShapedArray) -> Any:
    """An array of zeros."""
    return hlo.broadcast_in_dim(ctx, ctx.constant(0, aval.dtype), aval.shape, ())
