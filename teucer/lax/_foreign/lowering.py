"""The operation that calls a foreign function, and lowering rules that write one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, final

from teucer._arrays.formats import Layout
from teucer._lower import hlo
from teucer._lower.context import Context
from teucer._lower.value import Value
from teucer.lax._attributes import dictionary, quoted

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


# From this version of the call on, functions are typed and take attributes.
TYPED = 4


def custom_call(
    ctx: Context,
    target: str,
    operands: Sequence[Value],
    avals: Sequence[ShapedArray],
    *,
    backend_config: Any,
    api_version: int,
    operand_layouts: Sequence[Sequence[int]],
    result_layouts: Sequence[Sequence[int]],
    has_side_effect: bool,
    aliases: Sequence[tuple[int, int]],
    extra: Mapping[str, str] | None = None,
) -> tuple[Value, ...]:
    attributes = dict(extra or {})
    if api_version >= TYPED:  # in the form that JAX's programs have
        attributes["mhlo.backend_config"] = dictionary(backend_config or {})
        backend_config, api_version = "", 1
    return hlo.custom_call(
        ctx,
        target,
        operands,
        avals,
        config=quoted(backend_config if isinstance(backend_config, str) else ""),
        api_version=api_version,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
        has_side_effect=has_side_effect,
        aliases=aliases,
        attributes=", ".join(f"{k} = {v}" for k, v in attributes.items()),
    )


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[object] | None = None,
    result_layouts: Sequence[object] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    has_side_effect: bool = False,
    api_version: int = TYPED,
    operand_output_aliases: Mapping[int, int] | None = None,
    extra_attributes: Mapping[str, str] | None = None,
    result_types: Sequence[ShapedArray] | None = None,
    skip_ffi_layout_processing: bool = False,
) -> Callable[..., Any]:
    """A lowering rule, as `interpreters.mlir.register_lowering` takes it, that writes a call of a
    foreign function.

    operand_layouts, result_layouts: for each array its axes from minor to major, or a Layout; row
        by row where it is None.
    backend_config: attributes of the call, to which the parameters of the primitive come; a string
        for one that is not typed.
    extra_attributes: other attributes of the operation by name, as text or as MLIR has them.
    result_types: types of results, by default as of the equation. skip_ffi_layout_processing:
    layouts are given, for all arrays, as they are to be written.
    """

    def rule(ctx: Context, *operands: Value, **params: object) -> tuple[Value, ...]:
        avals = tuple(result_types) if result_types is not None else tuple(ctx.avals_out)
        config: Any = backend_config
        if not isinstance(config, str):
            config = {**(config or {}), **params}
        orders = [
            _minor_first(layouts, taken, skip_ffi_layout_processing)
            for layouts, taken in (
                (operand_layouts, [v.aval for v in operands]),
                (result_layouts, avals),
            )
        ]
        return custom_call(
            ctx,
            call_target_name,
            operands,
            avals,
            backend_config=config,
            api_version=api_version,
            operand_layouts=orders[0],
            result_layouts=orders[1],
            has_side_effect=has_side_effect,
            aliases=[(o, i) for i, o in (operand_output_aliases or {}).items()],
            extra=extra_attributes,
        )

    return TextRule(rule)


def _minor_first(layouts: Sequence[Any] | None, avals: Sequence[ShapedArray], given: bool) -> Any:
    if given and layouts is not None:
        return layouts
    return [
        tuple(reversed(range(a.physical.ndim)))
        if layout is None
        else layout.major_to_minor[::-1]
        if isinstance(layout, Layout)
        else tuple(layout)
        for layout, a in zip(
            layouts if layouts is not None else [None] * len(avals), avals, strict=True
        )
    ]


class Bound(Protocol):
    """The context of a rule that builds with MLIR's bindings."""

    def through(
        self, write: Callable[..., Sequence[Value]], *values: object, **params: object
    ) -> Sequence[object]:
        """Apply a rule that is written for `Context` to values of MLIR."""


@final
class TextRule:
    """A lowering rule that is written for `Context`.

    A rule that builds operations with MLIR's bindings may call it too: its context has `through`,
    which puts what the rule writes into a function and calls it.
    """

    __slots__ = ("__weakref__", "write")

    def __init__(self, write: Callable[..., Sequence[Value]]) -> None:
        self.write = write

    def __call__(self, ctx: Context | Bound, *values: object, **params: object) -> Sequence[object]:
        if isinstance(ctx, Context):
            return tuple(self.write(ctx, *values, **params))
        return ctx.through(self.write, *values, **params)
