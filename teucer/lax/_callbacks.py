"""Python functions called while a program runs: `pure_callback`, `io_callback`, and debug callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl, to_numpy
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import dtypes, errors, tracebacks
from teucer._core import array_ops
from teucer._core.calls import check_callable, fun_name
from teucer._core.effects import Effect
from teucer._core.partition import Labels
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._lower import hlo
from teucer._lower.context import Value
from teucer._trees import pytrees

__all__ = ["debug_callback", "debug_callback_p", "io_callback", "io_callback_p", "pure_callback", "pure_callback_p"]

_VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)

# XLA's names for a call of Python, by platform.
_TARGETS = {"cpu": "xla_ffi_python_cpu_callback", "cuda": "xla_ffi_python_gpu_callback", "rocm": "xla_ffi_python_gpu_callback"}
# Where the block being written keeps what the last ordered call in it gave.
_ORDER_AVAL = ShapedArray((), np.dtype(bool))


def _on_host(x: Any) -> Any:
    """A value as a NumPy array; typed keys as their words."""
    aval = typeof(x)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return np.asarray(x._key_data())
    return to_numpy(x) if isinstance(x, ArrayImpl) else np.asarray(x, aval.dtype)


class _Callback(Primitive):
    """Calls `callback`, a function of flat host arrays that returns a sequence of arrays of the types result_avals."""

    __slots__ = ()
    kind: str | None = None

    def types(self, *avals: Any, result_avals: Any, **params: Any) -> Any:
        return result_avals

    def effects(self, *avals: Any, ordered: bool = False, **params: Any) -> frozenset[Effect]:
        return frozenset() if self.kind is None else frozenset({Effect(self.kind, ordered)})

    def evaluate(self, *args: Any, callback: Any, result_avals: Any, **params: Any) -> Any:
        try:
            outs = _checked(callback(*map(_on_host, args)), result_avals, callback)
        except Exception as err:
            if self is debug_callback_p:
                raise
            # As in a compiled program.
            raise errors.JaxRuntimeError(f"INTERNAL: CpuCallback error calling callback: {type(err).__name__}: {err}") from err
        return tuple(transfer.put(y, None) for y in outs)

    def shard(self, *avals: Any, **params: Any) -> Any:
        return Labels([tuple((i, axis) for axis in range(a.ndim)) for i, a in enumerate(avals)], [()])

    def lower(self, ctx: Any, *values: Any, callback: Any, result_avals: Any, ordered: bool = False, **params: Any) -> Any:
        if ctx.platform not in _TARGETS:
            raise NotImplementedError(f"{self.name}: Python callbacks are implemented on CPU and GPU, not on {ctx.platform}.\n"
                                      "  Run the function that calls Python on a CPU device: device_put its arguments there.")

        def call(*args: Any) -> tuple[Any, ...]:
            return tuple(_checked(callback(*map(_on_host, args)), result_avals, callback))

        if not ordered:
            return self._call(ctx, values, result_avals, call)
        # Within a block one call waits for the one before it, since it takes a value that that one gives.
        previous = ctx.order or ctx.constant(False)
        outs = self._call(ctx, (previous, *values), (_ORDER_AVAL, *result_avals), lambda token, *args: (token, *call(*args)))
        ctx.order = outs[0]
        return outs[1:]

    def _call(self, ctx: Any, values: Sequence[Any], avals: Sequence[ShapedArray], call: Callable[..., Any]) -> Any:
        index = len(ctx.module.host_callbacks)
        ctx.module.host_callbacks.append(call)
        layouts = [_row_major(v.aval) for v in values], [_row_major(a) for a in avals]
        outs = hlo.custom_call(ctx, _TARGETS[ctx.platform], values, avals, config=f"{{index = {index} : ui64}}",
                               operand_layouts=layouts[0], result_layouts=layouts[1], has_side_effect=self.kind is not None,
                               attributes=ctx.module.on_first_device(len(avals)))
        return tuple(map(ctx.whole, outs))

    def lower_extended(self, ctx: Any, *values: Any, **params: Any) -> Any:
        words = (Value(v.name, v.aval.physical) if isinstance(v.dtype, dtypes.ExtendedDType) else v for v in values)
        return self.lower(ctx, *words, **params)


def _row_major(aval: Any) -> tuple[int, ...]:
    return tuple(range(aval.ndim - 1, -1, -1))


def _checked(outs: Any, avals: Sequence[ShapedArray], callback: Any) -> list[Any]:
    """What a callback returned, as arrays of the types that it promised."""
    outs = list(outs) if outs is not None else []
    if len(outs) != len(avals):
        raise RuntimeError(f"Mismatched number of outputs from callback: expected {len(avals)}, got {len(outs)}.")
    arrays = []
    for y, aval in zip(outs, avals, strict=True):
        y = np.asarray(y)
        if y.shape != aval.shape:
            raise RuntimeError(f"Incorrect output shape for return value of callback {fun_name(callback)}: Expected: {aval.shape}, "
                               f"Actual: {y.shape}")
        if dtypes.canonicalize_dtype(y.dtype) != aval.dtype:
            raise RuntimeError(f"Incorrect output dtype for return value of callback {fun_name(callback)}: Expected: {aval.dtype}, "
                               f"Actual: {y.dtype}")
        arrays.append(np.asarray(y, aval.dtype))
    return arrays


@final
class PureCallback(_Callback):
    """A callback without side effects: it may be called any number of times, or not at all."""

    __slots__ = ()
    name = "pure_callback"
    multiple_results = True

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        if all(type(t) is Zero for t in tangents):
            outs = self.call(*primals, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        raise ValueError("Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking "
                         "gradients.")

    def batch(self, axis: Any, args: Any, dims: Any, *, callback: Any, result_avals: Any, vmap_method: str | None,
              **params: Any) -> Any:
        if vmap_method is None:
            allowed = ", ".join(repr(m) for m in _VMAP_METHODS if m)
            raise NotImplementedError(f"vmap is only supported for the pure_callback primitive when vmap_method is one of "
                                      f"{allowed}. Got vmap_method=None.")
        batched = tuple(ShapedArray((axis.size, *a.shape), a.dtype) for a in result_avals)
        moved = [x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]
        if vmap_method in ("expand_dims", "broadcast_all", "legacy_vectorized"):
            size = axis.size if vmap_method == "broadcast_all" else 1
            filled = [array_ops.broadcast(x, size, 0) if d is None and vmap_method != "legacy_vectorized" else x
                      for x, d in zip(moved, dims, strict=True)]
            outs = self.call(*filled, callback=callback, result_avals=batched, vmap_method=vmap_method, **params)
        else:
            one_by_one = _sequentially(callback, [d is not None for d in dims], axis.size)
            outs = self.call(*moved, callback=one_by_one, result_avals=batched, vmap_method=vmap_method, **params)
        return outs, (0,) * len(outs)


def _sequentially(callback: Callable[..., Any], batched: Sequence[bool], size: int) -> Callable[..., Any]:
    """A callback on batches that calls `callback` on one element after the other."""
    def on_batch(*args: Any) -> list[Any]:
        rows = [callback(*(x[i] if b else x for x, b in zip(args, batched, strict=True))) for i in range(size)]
        return [np.stack(column) for column in zip(*rows, strict=True)] if size else []
    on_batch.__name__ = fun_name(callback)
    return on_batch


class _Effectful(_Callback):
    """A callback with side effects: called exactly once for each time that the program comes by."""

    __slots__ = ()

    def batch(self, axis: Any, args: Any, dims: Any, *, callback: Any, result_avals: Any, ordered: bool) -> Any:
        if ordered and self.kind == "io":
            raise ValueError("Cannot `vmap` ordered IO callback.\n  The order of the elements is not defined.")
        moved = [x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]
        batched = tuple(ShapedArray((axis.size, *a.shape), a.dtype) for a in result_avals)
        one_by_one = _sequentially(callback, [d is not None for d in dims], axis.size)
        outs = self.call(*moved, callback=one_by_one, result_avals=batched, ordered=ordered)
        return outs, (0,) * len(outs)


@final
class IOCallback(_Effectful):
    """A callback with side effects, and results."""

    __slots__ = ()
    name = "io_callback"
    multiple_results = True
    kind = "io"

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        if all(type(t) is Zero for t in tangents):
            outs = self.call(*primals, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        raise ValueError("IO callbacks do not support JVP. Wrap the call in `jax.lax.stop_gradient` or give it a "
                         "`jax.custom_jvp` rule.")


@final
class DebugCallback(_Effectful):
    """A callback for looking at values; it has no results, and transformations see it once."""

    __slots__ = ()
    name = "debug_callback"
    multiple_results = True
    kind = "debug"

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self.call(*primals, **params), ()


pure_callback_p = PureCallback()
io_callback_p = IOCallback()
debug_callback_p = DebugCallback()


def _flat_call(callback: Callable[..., Any], tree: Any, out_tree: Any) -> Callable[..., Any]:
    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = pytrees.tree_unflatten(tree, leaves)
        out = callback(*args, **kwargs)
        leaves_out, found = pytrees.tree_flatten(out)
        if out_tree is not None and found != out_tree:
            raise RuntimeError(f"Mismatched tree of results of callback {fun_name(callback)}: expected {out_tree}, got {found}.")
        return leaves_out
    flat.__name__ = fun_name(callback)
    return flat


def _result_avals(result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = pytrees.tree_flatten(result_shape_dtypes)
    if any(dtypes.canonicalize_dtype(x.dtype) != x.dtype for x in leaves):
        raise ValueError("result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled")
    return tuple(ShapeDtypeStruct(x.shape, x.dtype).aval for x in leaves), tree


@tracebacks.api_boundary
def pure_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None,
                  vmap_method: str | None = None, **kwargs: Any) -> Any:
    """Call a Python function on host arrays, from inside a program; the function must have no side effects.

    result_shape_dtypes: the results' tree, with objects that have shape and dtype as leaves.
    vmap_method: what `vmap` does: 'sequential' (one element after the other), 'expand_dims' or 'broadcast_all' (the function
        takes batches; arguments that are not batched have a leading axis of size 1 or of the batch), 'legacy_vectorized' (they
        have none); by default an error.
    Raises ValueError for an unknown vmap_method; differentiation raises ValueError.

    >>> import teucer as jax, numpy as np
    >>> jax.jit(lambda x: jax.pure_callback(np.square, x, x))(3.)
    Array(9., dtype=float32)
    """
    check_callable(callback, "pure_callback")
    if vmap_method not in _VMAP_METHODS:
        raise ValueError(f"vmap_method must be on of the allowed methods {list(_VMAP_METHODS)}, but got: {vmap_method}")
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    avals, out_tree = _result_avals(result_shape_dtypes)
    outs = pure_callback_p.call(*leaves, callback=_flat_call(callback, tree, out_tree), result_avals=avals,
                                vmap_method=vmap_method)
    return pytrees.tree_unflatten(out_tree, outs)


@tracebacks.api_boundary
def io_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None,
                ordered: bool = False, **kwargs: Any) -> Any:
    """Call a Python function on host arrays, from inside a program; the function may have side effects.

    result_shape_dtypes: the results' tree, with objects that have shape and dtype as leaves; None for no results.
    ordered: calls keep the order of the program.

    >>> import teucer as jax
    >>> jax.jit(lambda x: jax.experimental.io_callback(lambda v: None, None, x))(1.)
    """
    check_callable(callback, "io_callback")
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    avals, out_tree = _result_avals(result_shape_dtypes)
    outs = io_callback_p.call(*leaves, callback=_flat_call(callback, tree, out_tree), result_avals=avals,
                              ordered=ordered)
    return pytrees.tree_unflatten(out_tree, outs)


def debug_callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, partitioned: bool = False,
                   **kwargs: Any) -> None:
    """Call a Python function on host arrays, from inside a program, for its side effect; what it returns is ignored.

    Under vmap it is called for each element; under differentiation once, with the values.

    >>> import teucer as jax
    >>> jax.debug.callback(lambda x: print(x + 1), 3)
    4
    """
    check_callable(callback, "debug.callback")
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    flat = _flat_call(callback, tree, None)

    def ignoring(*values: Any) -> list[Any]:
        flat(*values)
        return []

    debug_callback_p.call(*leaves, callback=ignoring, result_avals=(), ordered=ordered)
