"""Calls of foreign functions: `ffi_call`, and lowering rules that write one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._arrays.formats import Layout
from teucer._base import tracebacks
from teucer._core import dialects
from teucer._core.cost import Cost
from teucer._core.high import is_high
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._devices.partition import Labels
from teucer._dialects.high.lowering import taken_apart
from teucer._hlo.rare_hlo import paired
from teucer._lower.value import Value
from teucer._optimize.effects import Effect
from teucer.lax._foreign import shared
from teucer.lax._foreign.lowering import TYPED, custom_call

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, Aval, Avals, Dims
    from teucer._lower.context import Context


@final
class FFICall(Primitive):
    """A call of a foreign function.

    attributes: pairs of a name and a value. Layouts are axes from minor to major.
        input_output_aliases: pairs of places.
    (C1) There is a layout for each operand and result, which is a permutation of its axes.
    (C2) Operands and results that share a buffer have one type and one layout.
    """

    __slots__ = ()
    name = "ffi_call"
    cost = Cost(reorders=True)
    # A function may have state of its own.
    mergeable = False

    def types(self, *avals: ShapedArray, result_avals: Avals, **params: object) -> Any:
        return result_avals

    def effects(
        self, *avals: ShapedArray, has_side_effect: bool, **params: object
    ) -> frozenset[Effect]:
        return frozenset({Effect("ffi")}) if has_side_effect else frozenset()

    def lower(
        self,
        ctx: Context,
        *values: Value,
        target_name: str,
        result_avals: Sequence[ShapedArray],
        has_side_effect: bool,
        input_layouts: Any,
        output_layouts: Any,
        input_output_aliases: Any,
        custom_call_api_version: int,
        legacy_backend_config: object,
        attributes: Sequence[tuple[str, Any]],
        **params: object,
    ) -> Any:
        operands = [
            (Value(v.name, v.aval.physical), _with_words(order, v.aval))
            for v, order in zip(values, input_layouts, strict=True)
        ]
        return custom_call(
            ctx,
            target_name,
            [v for v, _ in operands],
            result_avals,
            api_version=custom_call_api_version,
            backend_config={k: shared.plain(v) for k, v in attributes}
            if legacy_backend_config is None
            else legacy_backend_config,
            operand_layouts=[order for _, order in operands],
            result_layouts=list(map(_with_words, output_layouts, result_avals)),
            has_side_effect=has_side_effect,
            aliases=[(out, i) for i, out in input_output_aliases],
        )

    # Keys go as their words.
    on_keys = dialects.on_keys.rule(lower)

    # The function takes whole arrays: the compiler gathers the parts.
    def shard(self, *avals: ShapedArray, **params: object) -> Labels:
        return Labels(
            [tuple((i, axis) for axis in range(a.ndim)) for i, a in enumerate(avals)], [()]
        )

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        if all(type(t) is Zero for t in tangents):
            outs = self.call(*primals, **params)
            return outs, tuple(typeof(y).zero for y in outs)
        raise ValueError(
            f"The FFI call to `{params['target_name']}` cannot be differentiated. "
            "You can use `jax.custom_jvp` or `jax.custom_vjp` to add support."
        )

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Dims,
        *,
        result_avals: Sequence[ShapedArray],
        vmap_method: str | None,
        input_layouts: Any,
        output_layouts: Any,
        **params: object,
    ) -> Any:
        def call(args: Sequence[Array], batched: Sequence[bool], leading: bool) -> Any:
            ins = [
                _one_more(order) if b else order
                for order, b in zip(input_layouts, batched, strict=True)
            ]
            outs = list(map(_one_more, output_layouts)) if leading else output_layouts
            results = (
                tuple([ShapedArray((axis.size, *a.shape), a.dtype) for a in result_avals])
                if leading
                else result_avals
            )
            return self.call(
                *args,
                result_avals=results,
                vmap_method=vmap_method,
                input_layouts=tuple(ins),
                output_layouts=tuple(outs),
                **params,
            )

        return shared.batch_of_call("ffi_call", axis, args, dims, vmap_method, call)


ffi_call_p = FFICall()


@dialects.high.mark
@final
class _CallWithTokens(Primitive):
    """A call some of whose operands and results are tokens."""

    __slots__ = ()
    name = "ffi_call"
    mergeable = False
    effects = FFICall.effects  # type: ignore[assignment]  # as methods are
    jvp = FFICall.jvp  # type: ignore[assignment]  # as methods are

    def types(self, *avals: Any, result_avals: Sequence[Any], **params: object) -> Any:
        for aval in (*avals, *result_avals):
            if is_high(aval) and aval.str_short() != "Tok":
                raise TypeError(
                    f"ffi_call takes and gives arrays and tokens, got a value of type {aval}.\n"
                    "  Pass the arrays of which it is made."
                )
        return result_avals

    def evaluate(self, *args: Value, result_avals: Sequence[Any], **params: object) -> Any:
        avals = [typeof(x) for x in args]
        tokens = tuple([aval if is_high(aval) else None for aval in avals])
        low = taken_apart(args, avals).low
        outs = _call_with_low_tokens_p.call(
            *low, tokens=tokens, result_avals=result_avals, **params
        )
        return tuple(
            [a.raise_val(y) if is_high(a) else y for y, a in zip(outs, result_avals, strict=True)]
        )

    def batch(self, axis: Axis, args: object, dims: object, **params: object) -> Any:
        raise NotImplementedError(
            f"The FFI call to `{params['target_name']}` takes or gives a token, of which there are "
            "no batches.\n  Loop with jax.lax.map."
        )


@final
class _CallWithLowTokens(Primitive):
    """A call with tokens where each is a boolean.

    tokens: for each operand the type of tokens, if it is one; `result_avals` say it of results.
    """

    __slots__ = ()
    name = "ffi_call"
    mergeable = False
    effects = FFICall.effects  # type: ignore[assignment]  # as methods are
    shard = FFICall.shard  # type: ignore[assignment]  # as methods are

    def types(self, *avals: ShapedArray, result_avals: Sequence[Any], **params: object) -> Any:
        return tuple([a.lo_ty()[0] if is_high(a) else a for a in result_avals])

    def lower(self, ctx: Context, *values: Value, tokens: Any, **params: Any) -> Any:
        given = [
            v if a is None else paired(ctx, ctx.op("stablehlo.create_token", (), (a,))[0], v)[0]
            for v, a in zip(values, tokens, strict=True)
        ]
        outs = ffi_call_p.lower(ctx, *given, **params)
        return tuple(
            [paired(ctx, y, ctx.constant(False))[1] if is_high(y.aval) else y for y in outs]
        )

    on_keys = dialects.on_keys.rule(lower)


_call_with_tokens_p = _CallWithTokens()
_call_with_low_tokens_p = _CallWithLowTokens()


@tracebacks.api_boundary
def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[object] | None = None,
    output_layouts: object = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function of arrays that calls a foreign function, such as one in C++, by the name under
    which it is registered.

    result_shape_dtypes: an object with shape and dtype, or a sequence of such, for the results.
    has_side_effect: the call is made even if its results are not used.
    vmap_method: as of `pure_callback`; by default `vmap` is refused.
    input_layouts, output_layouts: for each array the order of its axes in memory, the slowest
        first, as a Layout or a sequence of ints; None is row by row.
    input_output_aliases: which operand gives its buffer to which result; an operand that is used
        elsewhere is copied first.
    custom_call_api_version, legacy_backend_config: of functions that are not typed, below 4, and
    what they are told. The function that is returned takes arrays by position, and by keyword the
    attributes of the call: bools, ints (i64), floats (f64), strings, NumPy scalars and arrays,
    tuples and dicts of such.
    Raises ValueError for results without shape or dtype, layouts and aliases that do not fit, and
    when it is differentiated: give it a rule with `jax.custom_vjp`. The runtime's error says when
    nothing is registered under the name.

    >>> import teucer as jax, numpy as np
    >>> call = jax.ffi.ffi_call("my_rms_norm", jax.ShapeDtypeStruct((2, 3), np.float32))
    >>> jax.jit(lambda x: call(x, eps=np.float32(1e-6))).lower(np.ones((2, 3),
    ...     np.float32)).as_text().count("@my_rms_norm")
    1
    """
    shared.check_vmap_method(vmap_method)
    if legacy_backend_config is not None and custom_call_api_version >= TYPED:
        raise ValueError(
            "The use of the legacy_backend_config parameter requires custom_call_api_version < "
            f"4; got {custom_call_api_version}."
        )
    several = isinstance(result_shape_dtypes, list | tuple)
    result_avals = shared.results_of(result_shape_dtypes if several else [result_shape_dtypes])
    output_orders = _orders(
        output_layouts
        if several or output_layouts is None or isinstance(output_layouts, list)
        else [output_layouts],
        result_avals,
        "output",
    )

    @tracebacks.api_boundary
    def call(*args: Array, **attributes: object) -> Any:
        if attributes and custom_call_api_version < TYPED:
            raise ValueError(
                "The use of ffi_call attributes requires a custom call API version of at least "
                f"4; got api_version={custom_call_api_version}."
            )
        avals = [typeof(x) for x in args]
        input_orders = _orders(input_layouts, avals, "input")
        aliases = shared.check_aliases(
            input_output_aliases, avals, result_avals, input_orders, output_orders
        )
        primitive = (
            _call_with_tokens_p if any(map(is_high, (*avals, *result_avals))) else ffi_call_p
        )
        outs = primitive.call(
            *args,
            target_name=target_name,
            result_avals=result_avals,
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            input_layouts=input_orders,
            output_layouts=output_orders,
            input_output_aliases=aliases,
            custom_call_api_version=custom_call_api_version,
            legacy_backend_config=legacy_backend_config,
            attributes=tuple((k, shared.hashable(k, v)) for k, v in attributes.items()),
        )
        return type(result_shape_dtypes)(outs) if several else outs[0]

    return call


def _orders(layouts: Any, avals: Sequence[Aval], which: str) -> tuple[tuple[int, ...], ...]:
    """Axes from minor to major of each array, for layouts as users give them (C1)."""
    if layouts is None:
        layouts = [None] * len(avals)
    plural = "input arguments" if which == "input" else "outputs"
    if len(layouts) != len(avals):
        raise ValueError(
            f"The number of {plural} ({len(avals)}) must equal the number of {which} layouts "
            f"({len(layouts)})."
        )
    orders = []
    for i, (layout, aval) in enumerate(zip(layouts, avals, strict=True)):
        order = (
            range(aval.ndim)
            if layout is None
            else layout.major_to_minor
            if isinstance(layout, Layout)
            else tuple(map(int, layout))
        )
        if sorted(order) != list(range(aval.ndim)):
            raise ValueError(
                "ffi_call: a layout is a permutation of the array's axes.\n"
                f"    {which}_layouts[{i}]: {layout}\n    {which} {i}: {aval.str_short()}"
            )
        orders.append(tuple(order)[::-1])
    return tuple(orders)


def _one_more(order: tuple[int, ...]) -> tuple[int, ...]:
    """The layout of a batch of arrays."""
    return (*[i + 1 for i in order], 0)


def _with_words(order: Sequence[int], aval: ShapedArray) -> tuple[int, ...]:
    """The layout of the numbers of keys, or of an array of numbers."""
    return (*reversed(range(aval.ndim, aval.physical.ndim)), *order)
