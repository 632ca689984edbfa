"""Python functions called while a program runs.

`pure_callback`, `io_callback`, and debug callbacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl, to_numpy
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import dtypes, errors, tracebacks
from teucer._core import array_ops, dialects, places
from teucer._core.calls import check_callable, fun_name
from teucer._core.primitive import Primitive
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray, Zero, is_valid_type
from teucer._devices import backends, placement
from teucer._devices.partition import Labels
from teucer._devices.shardings import NamedSharding, SingleDeviceSharding
from teucer._devices.specs import PartitionSpec
from teucer._executables.callbacks import note_failure, put_off
from teucer._lower import hlo
from teucer._lower.context import Value
from teucer._optimize.effects import Effect
from teucer._trees import pytrees
from teucer.lax._slicing import index_in_dim

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, Dims
    from teucer._lower.context import Context
    from teucer._xla.pytree import PyTreeDef


_VMAP_METHODS = (
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None,
)  # fmt: skip

# Where the block being written keeps the token of the last ordered call in it.
_ORDER_AVAL = ShapedArray((), np.dtype(bool))


def _for_python(x: Any) -> Any:
    """A value as an argument of the user's function: an array on the first device of the CPU, a
    copy that it may keep; typed keys as their words."""
    if isinstance(typeof(x).dtype, dtypes.ExtendedDType):
        x = x._key_data()
    host = _host()
    if isinstance(x, ArrayImpl) and x.sharding.device_set == {host}:
        return x
    return transfer.put(
        to_numpy(x) if isinstance(x, ArrayImpl) else np.asarray(x), host, committed=False
    )


def _host() -> Any:
    return backends.local_devices(backend="cpu")[0]


class _Callback(Primitive):
    """Calls `callback`, a function of flat host arrays that returns a sequence of arrays of the
    types result_avals."""

    __slots__ = ()
    kind: str | None = None

    def types(
        self, *avals: ShapedArray, result_avals: Sequence[ShapedArray], **params: object
    ) -> Any:
        return result_avals

    def effects(
        self, *avals: ShapedArray, ordered: bool = False, **params: object
    ) -> frozenset[Effect]:
        return frozenset() if self.kind is None else frozenset({Effect(self.kind, ordered)})

    def evaluate(
        self,
        *args: object,
        callback: Callable[..., object],
        result_avals: Sequence[ShapedArray],
        sharding: SingleDeviceSharding | None = None,
        **params: object,
    ) -> Any:
        where = placement.placement_of(args) if result_avals else None  # as of a compiled program
        if where is not None and sharding is not None:
            where = _calling(where, sharding._device, placement.Named(self.name, ""))
        try:
            outs = _checked(callback(*map(_for_python, args)), result_avals, callback)
        except Exception as err:
            if self is debug_callback_p:
                raise
            # As in a compiled program.
            raise errors.JaxRuntimeError(
                f"INTERNAL: CpuCallback error calling callback: {type(err).__name__}: {err}"
            ) from err
        if where is None:
            return ()
        if where.mesh is None:
            return tuple(transfer.put(y, where.device, committed=where.committed) for y in outs)
        whole = NamedSharding(where.mesh, PartitionSpec())
        return tuple(transfer.put_array(y, whole) for y in outs)

    def shard(self, *avals: ShapedArray, **params: object) -> Any:
        return Labels(
            [tuple((i, axis) for axis in range(a.ndim)) for i, a in enumerate(avals)], [()]
        )

    def lower(
        self,
        ctx: Context,
        *values: Value,
        callback: Callable[..., object],
        result_avals: Sequence[ShapedArray],
        ordered: bool = False,
        partitioned: bool = False,
        sharding: SingleDeviceSharding | None = None,
        **params: object,
    ) -> Any:
        kernels = ctx.target.kernels
        if kernels.python is None and not kernels.transfers:
            raise NotImplementedError(
                f"{self.name}: Python callbacks are implemented on CPU, GPU and TPU, not on "
                f"{ctx.platform}.\n  Run the function that calls Python on a CPU device: "
                "device_put its arguments there."
            )
        divided = partitioned and kernels.transfers and ctx.may_divide()
        if divided:
            raise NotImplementedError(
                f"{self.name}: partitioned=True is not implemented on {ctx.platform}, where the "
                "compiler divides the array.\n  Call it in shard_map, in which each device has "
                "its part, and calls."
            )

        device = None if sharding is None else sharding._device
        if device is not None and ctx.module.mesh is None:
            ctx.module.name_device(device, ctx.named())
        where = f"the {self.name} of {fun_name(callback)}{places.where(ctx.source)}"

        # Where a failure would leave a device, or others, waiting for ever.
        goes_on = kernels.transfers or (ctx.target.in_host_memory and ctx.module.mesh is not None)

        def call(*args: object) -> tuple[Any, ...]:
            try:
                return tuple(_checked(callback(*map(_for_python, args)), result_avals, callback))
            except BaseException as err:  # SystemExit at a prompt too
                if goes_on:
                    put_off(err, where)
                    return tuple(np.zeros(aval.shape, aval.dtype) for aval in result_avals)
                note_failure(err, where)
                raise

        if not ordered:
            return self._call(ctx, values, result_avals, call, partitioned, device)
        # Within a block one call waits for the one before it, since it takes a value that that one
        # gives.
        previous = ctx.order or ctx.constant(False)
        outs = self._call(
            ctx,
            (previous, *values),
            (_ORDER_AVAL, *result_avals),
            lambda token, *args: (token, *call(*args)),
            device=device,
        )
        ctx.order = outs[0]
        return outs[1:]

    def _call(
        self,
        ctx: Context,
        values: Sequence[Value],
        avals: Sequence[ShapedArray],
        call: Callable[..., tuple[Any, ...]],
        by_parts: bool = False,
        device: object = None,
    ) -> Any:
        kernel, callbacks = ctx.target.kernels.python, ctx.module.host_callbacks

        def alone(n_results: int) -> str:
            # One device calls for all, which sees the whole; or each with its part.
            apart = by_parts or ctx.manual is not None
            return "" if apart else ctx.module.on_one_device(n_results, device)

        def write(*values: Any) -> Any:
            if kernel is None:
                from teucer.lax import _host_transfers  # for TPUs

                return _host_transfers.call(ctx, call, values, avals, alone)
            callbacks.append(call)
            return hlo.custom_call(
                ctx,
                kernel.replace("ffi_", "ffi_partitioned_") if by_parts else kernel,
                values,
                avals,
                config=f"{{index = {len(callbacks) - 1} : ui64}}",
                operand_layouts=[_row_major(v.aval) for v in values],
                result_layouts=[_row_major(a) for a in avals],
                has_side_effect=self.kind is not None,
                attributes=alone(len(avals)),
            )

        if ctx.manual is not None and not ctx.all_manual():
            # Each device along the manual axes calls; along the others too, since XLA divides
            # nothing that has effects.
            from teucer._dialects.meshes.manual import (
                manual_computation,
            )  # loaded already, with `shard_map`

            mesh, whole = ctx.manual.mesh, PartitionSpec()
            rest = [name for name in mesh.axis_names if name not in ctx.manual.axes]
            return manual_computation(
                ctx,
                mesh,
                rest,
                values,
                [whole] * len(values),
                [v.aval for v in values],
                avals,
                [whole] * len(avals),
                write,
            )
        return tuple(map(ctx.whole, write(*values)))

    @dialects.on_keys.rule
    def on_keys(self, ctx: Context, *values: Value, **params: Any) -> Any:
        words = (
            Value(v.name, v.aval.physical) if isinstance(v.dtype, dtypes.ExtendedDType) else v
            for v in values
        )
        return self.lower(ctx, *words, **params)


def _calling(where: placement.Placement, device: Any, by: placement.Named) -> placement.Placement:
    """Where an eager callback gives its results that one device is to call.

    Raises ValueError where its arguments are committed to others.
    """
    if where.mesh is None:
        return placement.on_device(where, device, by)
    if device not in where.devices:
        raise placement.IncompatibleDevices(((placement.COMMITTED, where.devices), (by, (device,))))
    return where


def _caller(name: str, sharding: object) -> Any:
    """The sharding of the device that is to call, or None.

    Raises NotImplementedError for one of several devices.
    """
    if sharding is not None and not isinstance(sharding, SingleDeviceSharding):
        raise NotImplementedError(
            f"{name} only supports SingleDeviceSharding, but got {type(sharding)}\n"
            "  One device calls the function. Lay its result out as you like with "
            "jax.lax.with_sharding_constraint."
        )
    return sharding


def _row_major(aval: ShapedArray) -> tuple[int, ...]:
    return tuple(range(aval.ndim - 1, -1, -1))


def _checked(outs: Any, avals: Sequence[ShapedArray], callback: Callable[..., object]) -> list[Any]:
    """The results of a callback, as arrays of the promised types."""
    outs = list(outs) if outs is not None else []
    if len(outs) != len(avals):
        raise RuntimeError(
            f"Mismatched number of outputs from callback. Expected: {len(avals)}, Actual: "
            f"{len(outs)}\n  callback: {fun_name(callback)}"
        )
    arrays = []
    for i, (y, aval) in enumerate(zip(outs, avals, strict=True)):
        y = np.asarray(y)
        if y.shape != aval.shape:
            raise RuntimeError(
                f"Incorrect output shape for return value #{i}: Expected: {aval.shape}, Actual: "
                f"{y.shape}\n  callback: {fun_name(callback)}"
            )
        if dtypes.canonicalize_dtype(y.dtype) != aval.dtype:
            raise RuntimeError(
                f"Incorrect output dtype for return value #{i}: Expected: {aval.dtype}, Actual: "
                f"{y.dtype}\n  callback: {fun_name(callback)}"
            )
        arrays.append(np.asarray(y, aval.dtype))
    return arrays


@final
class PureCallback(_Callback):
    """A callback without side effects: it may be called any number of times, or not at all."""

    __slots__ = ()
    name = "pure_callback"
    multiple_results = True

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        if all(type(t) is Zero for t in tangents):
            outs = self.call(*primals, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        raise ValueError(
            "Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks "
            "while taking gradients."
        )

    def transpose(self, cts: Any, *args: Any, **params: object) -> Any:
        raise ValueError(
            "Pure callbacks do not support transpose. Please use `jax.custom_vjp` to use callbacks "
            "while taking gradients."
        )

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Dims,
        *,
        callback: Callable[..., object],
        result_avals: Sequence[ShapedArray],
        vmap_method: str | None,
        **params: object,
    ) -> Any:
        if vmap_method is None:
            allowed = ", ".join(repr(m) for m in _VMAP_METHODS if m)
            raise NotImplementedError(
                "vmap is only supported for the pure_callback primitive when vmap_method is one "
                f"of {allowed}. Got vmap_method=None."
            )
        batched = tuple(ShapedArray((axis.size, *a.shape), a.dtype) for a in result_avals)
        moved = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        if vmap_method in ("expand_dims", "broadcast_all", "legacy_vectorized"):
            size = axis.size if vmap_method == "broadcast_all" else 1
            filled = [
                array_ops.broadcast(x, size, 0)
                if d is None and vmap_method != "legacy_vectorized"
                else x
                for x, d in zip(moved, dims, strict=True)
            ]
            outs = self.call(
                *filled, callback=callback, result_avals=batched, vmap_method=vmap_method, **params
            )
        else:
            one_by_one = _OneByOne.of(
                callback, [d is not None for d in dims], axis.size, result_avals
            )
            outs = self.call(
                *moved, callback=one_by_one, result_avals=batched, vmap_method=vmap_method, **params
            )
        return outs, (0,) * len(outs)


class _OneByOne:
    """A callback on batches that calls `function` on one element after the other.

    axes: which operands each batch axis is of, and its size; the one that was batched first is the
    outermost loop, and is the last of the leading axes of operands and results.
    """

    def __init__(
        self,
        function: Callable[..., object],
        axes: tuple[tuple[tuple[bool, ...], int], ...],
        avals: Sequence[ShapedArray],
    ) -> None:
        self.function, self.axes, self.avals = function, axes, avals
        self.__name__ = fun_name(function)

    @classmethod
    def of(
        cls,
        callback: Callable[..., object],
        batched: Sequence[bool],
        size: int,
        avals: Sequence[ShapedArray],
    ) -> _OneByOne:
        """The callback on batches of `callback`'s arguments. avals: of its results."""
        axis = (tuple(batched), size)
        if isinstance(callback, _OneByOne):
            return cls(callback.function, (*callback.axes, axis), callback.avals)
        return cls(callback, (axis,), avals)

    def __call__(self, *args: object) -> list[Any]:
        sizes = [size for _, size in self.axes]
        outs = [np.empty((*sizes[::-1], *a.shape), a.dtype) for a in self.avals]
        operands = list(map(np.asarray, args))
        for place in np.ndindex(*sizes):

            def element(k: int, place: Any = place) -> Any:
                return tuple(
                    i
                    for (batched, _), i in zip(self.axes[::-1], place[::-1], strict=True)
                    if batched[k]
                )

            results = _checked(
                self.function(*(_for_python(x[element(k)]) for k, x in enumerate(operands))),
                self.avals,
                self,
            )
            for out, result in zip(outs, results, strict=True):
                out[place[::-1]] = result
        return outs


class _Effectful(_Callback):
    """A callback with side effects: called exactly once for each time that the program comes by."""

    __slots__ = ()

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Dims,
        *,
        callback: Callable[..., object],
        result_avals: Sequence[ShapedArray],
        **params: object,
    ) -> Any:
        if params["ordered"] and self.kind == "io":
            raise ValueError(
                "Cannot `vmap` ordered IO callback.\n  The order of the elements is not defined."
            )
        moved = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        batched = tuple(ShapedArray((axis.size, *a.shape), a.dtype) for a in result_avals)
        one_by_one = _OneByOne.of(callback, [d is not None for d in dims], axis.size, result_avals)
        outs = self.call(*moved, callback=one_by_one, result_avals=batched, **params)
        return outs, (0,) * len(outs)


@final
class IOCallback(_Effectful):
    """A callback with side effects, and results."""

    __slots__ = ()
    name = "io_callback"
    multiple_results = True
    kind = "io"

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        if all(type(t) is Zero for t in tangents):
            outs = self.call(*primals, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        raise ValueError(
            "IO callbacks do not support JVP. Wrap the call in `jax.lax.stop_gradient` or give it "
            "a `jax.custom_jvp` rule."
        )

    def transpose(self, cts: Any, *args: Any, **params: object) -> Any:
        raise ValueError(
            "IO callbacks do not support transpose. Give the call a `jax.custom_vjp` rule."
        )


@final
class DebugCallback(_Effectful):
    """A callback for looking at values; it has no results, and transformations see it once."""

    __slots__ = ()
    name = "debug_callback"
    kind = "debug"

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        return self.call(*primals, **params), ()

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: Any) -> Any:
        if not params["partitioned"]:
            return super().batch(axis, args, dims, **params)
        # How much of a batch a device has is not known here.
        for i in range(axis.size):
            one = (
                x if d is None else index_in_dim(x, i, d, keepdims=False)
                for x, d in zip(args, dims, strict=True)
            )
            self.call(*one, **params)
        return (), ()


pure_callback_p = PureCallback()
io_callback_p = IOCallback()
debug_callback_p = DebugCallback()


def _flat_call(
    callback: Callable[..., object], tree: PyTreeDef, out_tree: PyTreeDef
) -> Callable[..., Any]:
    def flat(*leaves: Array) -> list[Any]:
        args, kwargs = pytrees.tree_unflatten(tree, leaves)
        out = callback(*args, **kwargs)
        leaves_out, found = pytrees.tree_flatten(out)
        if found.num_leaves != out_tree.num_leaves:
            return leaves_out  # their number is checked with their types
        if found != out_tree:
            raise RuntimeError(
                f"Mismatched tree of results of callback {fun_name(callback)}: expected "
                f"{out_tree}, got {found}."
            )
        return leaves_out

    flat.__name__ = fun_name(callback)
    return flat


def _result_avals(result_shape_dtypes: object) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = pytrees.tree_flatten(result_shape_dtypes)
    # Without `jit` arguments that stand for results are numbers.
    leaves = [typeof(x) if isinstance(x, bool | int | float | complex) else x for x in leaves]
    if any(dtypes.canonicalize_dtype(x.dtype) != x.dtype for x in leaves):
        raise ValueError(
            "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled"
        )
    avals: Any = tuple(ShapeDtypeStruct(x.shape, x.dtype).aval for x in leaves)
    return avals, tree


@tracebacks.api_boundary
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: object,
    *args: object,
    sharding: object = None,
    vmap_method: str | None = None,
    **kwargs: object,
) -> Any:
    """Call a Python function on host arrays, from inside a program; the function must have no side
    effects.

    result_shape_dtypes: the results' tree, with objects that have shape and dtype as leaves.
    vmap_method: the behaviour under `vmap`; by default it is refused. 'sequential' calls the
    function for one element after the other. For the others the function takes batches. Arguments
    that are not batched then have a leading axis of size 1 ('expand_dims') or of the batch
    ('broadcast_all'), or none ('legacy_vectorized').
    sharding: a SingleDeviceSharding, of the device that calls; by default the program's first.
    Raises ValueError for an unknown vmap_method, and for a device on which the program does not
    run, NotImplementedError for another sharding; differentiation raises ValueError.

    >>> import teucer as jax, numpy as np
    >>> jax.jit(lambda x: jax.pure_callback(np.square, x, x))(3.)
    Array(9., dtype=float32)
    """
    check_callable(callback, "pure_callback")
    if vmap_method not in _VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {list(_VMAP_METHODS)}, but got: "
            f"{vmap_method}"
        )
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    avals, out_tree = _result_avals(result_shape_dtypes)
    outs = pure_callback_p.call(
        *leaves,
        callback=_flat_call(callback, tree, out_tree),
        result_avals=avals,
        vmap_method=vmap_method,
        sharding=_caller("pure_callback", sharding),
    )
    return pytrees.tree_unflatten(out_tree, outs)


@tracebacks.api_boundary
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: object,
    *args: object,
    sharding: object = None,
    ordered: bool = False,
    **kwargs: object,
) -> Any:
    """Call a Python function on host arrays, from inside a program; the function may have side
    effects.

    result_shape_dtypes: the results' tree, with objects that have shape and dtype as leaves; None
    for no results.
    ordered: calls keep the order of the program. sharding: as of pure_callback.

    >>> import teucer as jax
    >>> jax.jit(lambda x: jax.experimental.io_callback(lambda v: None, None, x))(1.)
    """
    check_callable(callback, "io_callback")
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    avals, out_tree = _result_avals(result_shape_dtypes)
    outs = io_callback_p.call(
        *leaves,
        callback=_flat_call(callback, tree, out_tree),
        result_avals=avals,
        ordered=ordered,
        sharding=_caller("io_callback", sharding),
    )
    return pytrees.tree_unflatten(out_tree, outs)


def debug_callback(
    callback: Callable[..., object] | None = None,
    *args: object,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: object,
) -> Any:
    """Call a Python function on arrays, from inside a program, for its side effect; its result is
    ignored.

    Arguments that are no arrays, such as strings, go to it as they are. Under vmap it is called for
    each element; under differentiation once, with the values.
    ordered: calls keep the order of the program. partitioned: every device calls it with its part
    of the arguments. Without a callback, a function that takes it and its arguments:
    `callback(ordered=True)(f, x, ordered=3)`. Raises TypeError for an object that cannot be called,
    ValueError for ordered and partitioned both.

    >>> import teucer as jax
    >>> jax.debug.callback(lambda x: print(x + 1), 3)
    4
    """
    if callback is None:
        if args or kwargs:
            raise TypeError(
                f"debug_callback received unexpected arguments in the two-call form: {args}, "
                f"{kwargs}.\n  Give it options only, and the arguments of the callback to what it "
                "returns."
            )
        return functools.partial(_debug_callback, ordered, partitioned)
    _debug_callback(ordered, partitioned, callback, *args, **kwargs)
    return None


def _debug_callback(
    ordered: bool,
    partitioned: bool,
    callback: Callable[..., object],
    /,
    *args: object,
    **kwargs: object,
) -> None:
    if not callable(callback):
        raise TypeError(
            "first argument to jax.debug.callback must be callable, but got an object of type "
            f"{type(callback)}"
        )
    both = ordered and partitioned
    if both:
        raise ValueError("`ordered` and `partitioned` cannot be set to True at the same time.")
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    is_array = [isinstance(x, Tracer) or is_valid_type(x) for x in leaves]
    others = [None if a else x for x, a in zip(leaves, is_array, strict=True)]

    def ignoring(*values: Array) -> list[Any]:
        known = iter(values)
        filled = [next(known) if a else x for x, a in zip(others, is_array, strict=True)]
        args, kwargs = pytrees.tree_unflatten(tree, filled)
        callback(*args, **kwargs)
        return []

    ignoring.__name__ = fun_name(callback)
    debug_callback_p.call(
        *(x for x, a in zip(leaves, is_array, strict=True) if a),
        callback=ignoring,
        result_avals=(),
        ordered=ordered,
        partitioned=partitioned,
    )
