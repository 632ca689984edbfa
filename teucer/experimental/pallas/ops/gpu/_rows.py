"""Layer norm and RMS norm, which differ in whether a row's mean is taken away.

Rows are longer than registers hold, so a program reads its row in parts. The mean and the mean of
squares are computed one after the other, which is as accurate as Welford's method.
Ba, Kiros & Hinton, "Layer Normalization" (2016); Zhang & Sennrich, "Root Mean Square Layer
Normalization" (2019).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import ShapeDtypeStruct, jit, lax, vjp
from teucer import numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

_MOST_COLUMNS, _ROWS, _COLUMNS = 4096, 32, 64


class Options(NamedTuple):
    """How the kernels are made; centred: the mean is taken away."""

    centred: bool
    num_warps: int | None
    num_stages: int | None
    eps: float
    backward_pass_impl: str
    interpret: bool

    @property
    def name(self) -> str:
        return "layer_norm" if self.centred else "rms_norm"

    def call(
        self, kernel: Callable[..., None], out: object, block: int, **options: Any
    ) -> Callable[..., Any]:
        """pallas_call with these options, for blocks of so many elements."""
        warps = self.num_warps or min(max(block // 256, 1), 8)
        return pl.pallas_call(
            kernel,
            out,
            compiler_params=plgpu.CompilerParams(
                num_warps=warps, num_stages=3 if self.num_stages is None else self.num_stages
            ),
            interpret=self.interpret,
            **options,
        )


def checked(x: Array, weight: Array, bias: Array, name: str) -> None:
    """Raises ValueError for weights that do not fit x."""
    if not x.ndim or weight.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError(
            f"{name}: weight and bias must have the size of the last axis of x.\n"
            f"    x: {x.dtype}{list(x.shape)}\n    weight: {weight.dtype}{list(weight.shape)}\n"
            f"    bias: {bias.dtype}{list(bias.shape)}"
        )


@functools.partial(jit, static_argnames=("centred", "eps"))
def reference(x: Array, weight: Array, bias: Array, centred: bool, eps: float) -> Array:
    """The norm by its definition, in jnp."""
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    if centred:
        wide = wide - wide.mean(-1, keepdims=True)
    inverse = lax.rsqrt((wide * wide).mean(-1, keepdims=True) + eps)
    return (wide * inverse * weight + bias).astype(jnp.result_type(x, weight, bias))


@functools.partial(jit, static_argnums=3)
def forward(x: Array, weight: Array, bias: Array, options: Options) -> tuple[Any, ...]:
    """(the norm, means if centred, inverses of the deviations), the latter of each row."""
    checked(x, weight, bias, options.name)
    flat = x.reshape(-1, x.shape[-1])
    rows, n = flat.shape
    wide = np.promote_types(x.dtype, np.float32)
    numbers = 2 if options.centred else 1
    if not x.size:
        return (x, *[jnp.zeros(x.shape[:-1], wide)] * numbers)
    block = min(pl.next_power_of_2(n), _MOST_COLUMNS)
    row, number = pl.BlockSpec((None, n), lambda i: (i, 0)), pl.BlockSpec((None,), lambda i: (i,))
    kernel = functools.partial(
        forward_kernel, centred=options.centred, eps=options.eps, block_size=block
    )
    out, *statistics = options.call(
        kernel,
        [
            ShapeDtypeStruct(flat.shape, x.dtype),
            *[ShapeDtypeStruct((rows,), wide)] * numbers,
        ],
        block,
        grid=(rows,),
        in_specs=[row, pl.BlockSpec(), pl.BlockSpec()],
        out_specs=[row, *[number] * numbers],
        name=f"{options.name}_forward",
    )(flat, weight, bias)
    return (out.reshape(x.shape), *(s.reshape(x.shape[:-1]) for s in statistics))


@functools.partial(jit, static_argnums=6)
def backward(
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array | None,
    inverse: Array,
    ct: Array,
    options: Options,
) -> tuple[Any, Any, Any]:
    """The cotangents of x, weight and bias."""
    if options.backward_pass_impl == "xla":
        _, pull = vjp(
            lambda *args: reference(*args, options.centred, options.eps).astype(ct.dtype),
            x,
            weight,
            bias,
        )
        return pull(ct)
    if options.backward_pass_impl != "triton":
        raise ValueError(
            f"{options.name}: backward_pass_impl must be 'triton' or 'xla', got "
            f"{options.backward_pass_impl!r}."
        )
    if not x.size:
        return x, jnp.zeros_like(weight), jnp.zeros_like(bias)
    flat, flat_ct = x.reshape(-1, x.shape[-1]), ct.reshape(-1, x.shape[-1])
    rows, n = flat.shape
    numbers = [s.reshape(rows) for s in (mean, inverse) if s is not None]
    block = min(pl.next_power_of_2(n), _MOST_COLUMNS)
    row, number = pl.BlockSpec((None, n), lambda i: (i, 0)), pl.BlockSpec((None,), lambda i: (i,))
    dx = options.call(
        functools.partial(dx_kernel, centred=options.centred, block_size=block),
        ShapeDtypeStruct(flat.shape, x.dtype),
        block,
        grid=(rows,),
        in_specs=[row, pl.BlockSpec(), row, *[number] * len(numbers)],
        out_specs=row,
        name=f"{options.name}_backward_dx",
    )(flat, weight, flat_ct, *numbers)
    block_m = min(pl.next_power_of_2(rows), _ROWS)
    block_n = min(pl.next_power_of_2(n), _COLUMNS)
    columns = pl.BlockSpec((block_n,), lambda j: (j,))
    dw, db = options.call(
        functools.partial(dw_db_kernel, centred=options.centred, block_m=block_m, block_n=block_n),
        [ShapeDtypeStruct(weight.shape, weight.dtype), ShapeDtypeStruct(bias.shape, bias.dtype)],
        block_m * block_n,
        grid=(pl.cdiv(n, block_n),),
        in_specs=[pl.BlockSpec()] * (2 + len(numbers)),
        out_specs=[columns, columns],
        name=f"{options.name}_backward_dw_db",
    )(flat, flat_ct, *numbers)
    return dx.reshape(x.shape), dw, db


# --- Kernels --------------------------------------------------------------------------------------


def _over_parts(n: int, block: int, f: Callable[[Any, Any, Any], Any], begin: Any) -> Any:
    """f(columns, which of them are there, state) -> state, over parts of n columns."""

    def part(i: Array, state: Any) -> Any:
        columns = i * block + jnp.arange(block)
        return f(columns, columns < n, state)

    return (
        part(jnp.int32(0), begin)
        if n <= block
        else lax.fori_loop(0, pl.cdiv(n, block), part, begin)
    )


def _read(ref: BlockRef, at: Array | tuple[Array, Array], mask: Array, wide: Any) -> Any:
    return plgpu.load(ref.at[at], mask=mask, other=0).astype(wide)


def forward_kernel(
    x_ref: BlockRef, weight_ref: BlockRef, bias_ref: BlockRef, o_ref: BlockRef,
    *statistics: BlockRef, centred: bool, eps: float, block_size: int,
) -> None:  # fmt: skip
    """A row: its mean, the mean of squares, the results."""
    (n,) = x_ref.shape
    wide = np.promote_types(x_ref.dtype, np.float32)
    zeros = jnp.zeros(block_size, wide)
    mean: Any = 0
    if centred:
        total = _over_parts(
            n, block_size, lambda at, mask, s: s + _read(x_ref, at, mask, wide), zeros
        )
        mean = total.sum() / n

    def square(at: Array, mask: Array, state: Any) -> Any:
        x = jnp.where(mask, _read(x_ref, at, mask, wide) - mean, 0)
        return state + x * x

    inverse = lax.rsqrt(_over_parts(n, block_size, square, zeros).sum() / n + eps)
    for ref, value in zip(statistics, [mean, inverse] if centred else [inverse], strict=False):
        ref[...] = value

    def write(at: Array, mask: Array, state: None) -> None:
        x = (_read(x_ref, at, mask, wide) - mean) * inverse
        x = x * _read(weight_ref, at, mask, wide) + _read(bias_ref, at, mask, wide)
        plgpu.store(o_ref.at[at], x.astype(o_ref.dtype), mask=mask)
        return state

    _over_parts(n, block_size, write, None)


def dx_kernel(
    x_ref: BlockRef,
    weight_ref: BlockRef,
    ct_ref: BlockRef,
    *refs: BlockRef,
    centred: bool,
    block_size: int,
) -> None:
    """A row of the cotangent of x."""
    *mean_ref, inverse_ref, dx_ref = refs
    (n,) = x_ref.shape
    wide = np.promote_types(x_ref.dtype, np.float32)
    mean, inverse = mean_ref[0][...] if mean_ref else 0, inverse_ref[...]

    def parts(at: Array, mask: Array) -> tuple[Any, Any]:
        normal = jnp.where(mask, (_read(x_ref, at, mask, wide) - mean) * inverse, 0)
        return normal, _read(weight_ref, at, mask, wide) * _read(ct_ref, at, mask, wide)

    def add(at: Array, mask: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        normal, scaled = parts(at, mask)
        return state[0] + normal * scaled, state[1] + scaled

    zeros = jnp.zeros(block_size, wide)
    along, total = _over_parts(n, block_size, add, (zeros, zeros))
    along, shift = along.sum() / n, total.sum() / n if centred else 0

    def write(at: Array, mask: Array, state: None) -> None:
        normal, scaled = parts(at, mask)
        dx = (scaled - normal * along - shift) * inverse
        plgpu.store(dx_ref.at[at], dx.astype(dx_ref.dtype), mask=mask)
        return state

    _over_parts(n, block_size, write, None)


def dw_db_kernel(
    x_ref: BlockRef, ct_ref: BlockRef, *refs: BlockRef, centred: bool, block_m: int, block_n: int
) -> None:
    """Some columns of the cotangents of weight and bias: sums over all rows."""
    *numbers, dw_ref, db_ref = refs
    rows, n = x_ref.shape
    wide = np.promote_types(x_ref.dtype, np.float32)
    columns = pl.program_id(0) * block_n + jnp.arange(block_n)[None, :]

    def add(at: Array, mask: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        both = mask[:, None] & (columns < n)
        x, ct = (_read(ref, (at[:, None], columns), both, wide) for ref in (x_ref, ct_ref))
        if centred:
            x = x - _read(numbers[0], at, mask, wide)[:, None]
        normal = x * _read(numbers[-1], at, mask, wide)[:, None]
        return state[0] + (ct * normal).sum(0), state[1] + ct.sum(0)

    zeros = jnp.zeros(block_n, wide)
    dw, db = _over_parts(rows, block_m, add, (zeros, zeros))
    dw_ref[...], db_ref[...] = dw.astype(dw_ref.dtype), db.astype(db_ref.dtype)
