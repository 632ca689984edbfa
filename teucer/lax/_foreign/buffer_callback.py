"""`buffer_callback`: a Python function that works on the buffers of a program in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import dtypes, tracebacks
from teucer._core import dialects
from teucer._core.calls import check_callable, fun_name
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._devices.partition import Labels
from teucer._lower import hlo
from teucer._lower.value import Value
from teucer._optimize.effects import Effect
from teucer._trees import pytrees
from teucer.lax._foreign.shared import batch_of_call, check_aliases, check_vmap_method, results_of

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, Avals, Dims
    from teucer._lower.context import Context
    from teucer._xla.pytree import PyTreeDef


@final
class BufferCallback(Primitive):
    """Calls callback(context, results, *operands), on buffers in the trees in_tree and out_tree."""

    __slots__ = ()
    name = "buffer_callback"
    mergeable = False

    def types(self, *avals: ShapedArray, result_avals: Avals, **params: object) -> Any:
        return result_avals

    def effects(
        self, *avals: ShapedArray, has_side_effect: bool, **params: object
    ) -> frozenset[Effect]:
        return frozenset({Effect("buffer callback")}) if has_side_effect else frozenset()

    def lower(
        self,
        ctx: Context,
        *values: Value,
        callback: Callable[..., object],
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        result_avals: Sequence[ShapedArray],
        has_side_effect: bool,
        input_output_aliases: Any,
        command_buffer_compatible: bool,
        **params: object,
    ) -> Any:
        target = ctx.target.kernels.buffers
        if target is None:
            raise NotImplementedError(
                f"buffer_callback is implemented on CPU and GPU, not on {ctx.platform}.\n"
                "  Run the function that calls Python on a CPU device."
            )
        if command_buffer_compatible and target.endswith("gpu_callback"):
            target += "_cmd_buffer"

        def call(context: object, *buffers: Any) -> None:
            n = len(values)
            args, kwargs = pytrees.tree_unflatten(in_tree, buffers[:n])
            callback(context, pytrees.tree_unflatten(out_tree, buffers[n:]), *args, **kwargs)

        index = len(ctx.module.host_callbacks)
        ctx.module.host_callbacks.append(call)
        outs = hlo.custom_call(
            ctx,
            target,
            values,
            result_avals,
            config=f"{{index = {index} : ui64}}",
            operand_layouts=[_row_major(v.aval) for v in values],
            result_layouts=list(map(_row_major, result_avals)),
            has_side_effect=has_side_effect,
            aliases=[(o, i) for i, o in input_output_aliases],
            attributes=ctx.module.on_one_device(len(result_avals)),
        )
        return tuple(map(ctx.whole, outs))

    @dialects.on_keys.rule
    def on_keys(self, ctx: Context, *values: Value, **params: Any) -> Any:
        keyed = (isinstance(v.dtype, dtypes.ExtendedDType) for v in values)
        words = (
            Value(v.name, v.aval.physical) if k else v for v, k in zip(values, keyed, strict=True)
        )
        return self.lower(ctx, *words, **params)

    def shard(self, *avals: ShapedArray, **params: object) -> Labels:
        return Labels([() for _ in avals], [()])

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        if all(type(t) is Zero for t in tangents):
            outs = self.call(*primals, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        raise ValueError(
            "Buffer callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks "
            "while taking gradients."
        )

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Dims,
        *,
        result_avals: Sequence[ShapedArray],
        vmap_method: Any,
        **params: object,
    ) -> Any:
        def call(args: Sequence[Array], batched: Sequence[bool], leading: bool) -> Any:
            results = tuple([ShapedArray((axis.size, *a.shape), a.dtype) for a in result_avals])
            return self.call(
                *args,
                result_avals=results if leading else result_avals,
                vmap_method=vmap_method,
                **params,
            )

        return batch_of_call("buffer_callback", axis, args, dims, vmap_method, call)


buffer_callback_p = BufferCallback()


def _row_major(aval: ShapedArray) -> tuple[int, ...]:
    return tuple(range(aval.ndim - 1, -1, -1))


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: object,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """A function of arrays that has a Python function write its results where they are to be.

    callback: takes an ExecutionContext, the results as a tree of Buffers, and the arguments as
        trees of Buffers; it writes into the results and returns nothing. `numpy.asarray` looks at
        a Buffer on the CPU without a copy, DLPack on every device. Buffers are gone after the call.
    result_shape_dtypes: the results' tree, of objects that have shape and dtype.
    has_side_effect: it is called even if its results are not used.
    vmap_method: as of `pure_callback`.
    input_output_aliases: which argument gives its buffer to which result, by their places as
    leaves.
    command_buffer_compatible: on a GPU, it may be called once, and the work that it starts be
    replayed.
    Raises ValueError when it is differentiated, and the runtime's error for one in the callback.

    >>> import numpy as np, teucer as jax, teucer.numpy as jnp
    >>> def add_one(context, out, x):
    ...     np.asarray(out)[...] = np.asarray(x) + 1
    >>> x = jnp.array(41)
    >>> from teucer.experimental.buffer_callback import buffer_callback
    >>> buffer_callback(add_one, x)(x)
    Array(42, dtype=int32)
    """
    check_callable(callback, "buffer_callback")
    check_vmap_method(vmap_method)
    leaves, out_tree = pytrees.tree_flatten(result_shape_dtypes)
    result_avals = results_of(leaves)

    @tracebacks.api_boundary
    def call(*args: Array, **kwargs: object) -> Any:
        operands, in_tree = pytrees.tree_flatten((args, kwargs))
        aliases = check_aliases(input_output_aliases, list(map(typeof, operands)), result_avals)
        outs = buffer_callback_p.call(
            *operands,
            callback=callback,
            in_tree=in_tree,
            out_tree=out_tree,
            result_avals=result_avals,
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            input_output_aliases=aliases,
            command_buffer_compatible=command_buffer_compatible,
        )
        return pytrees.tree_unflatten(out_tree, outs)

    call.__name__ = fun_name(callback)
    return call
