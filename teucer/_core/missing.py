"""Errors for transformations of a primitive that has no rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

from teucer._base import source
from teucer._base.errors import describe
from teucer._core.names import _names
from teucer._core.types import register_aval_of

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval


_REMEDIES = {
    "jvp": "{name} has no derivative. Keep derivatives away from it, jax.lax.stop_gradient, or "
    "give the function around it a rule: jax.custom_jvp or jax.custom_vjp.",
    "transpose": "{name} is not linear in them, so it has no transpose. What a jvp rule "
    "(jax.custom_jvp) computes of tangents must be linear in these, and so must the function "
    "that jax.linear_transpose is given.",
    "batch": "Map over it with jax.lax.map, or give the function around it a rule: "
    "jax.custom_batching.custom_vmap.",
    "shard": "Let the compiler lay out the function around it, jax.sharding.auto_axes, or its "
    "operands over no Explicit mesh axes, jax.reshard.",
    "lower": "It cannot be compiled. Call it eagerly, outside jit.",
}


class MissingRule(NotImplementedError):
    """A transformation met a primitive that has no rule for it."""

    __module__ = "teucer.errors"


class NotLinear(MissingRule):
    """A transpose rule met operands in which its primitive is not linear."""


@final
class Undefined:
    """In a transpose rule: an operand in which the primitive is linear, of type `aval`."""

    __slots__ = ("aval",)
    aval: Any

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Undefined({self.aval})"


def _has_no_value(x: Undefined) -> NoReturn:
    raise NotLinear(
        f"a value is asked for that a linear program has not.\n    value: {describe(x.aval)}"
    )


register_aval_of(Undefined, _has_no_value)


def no_rule(primitive: Primitive, what: str, rule: str, operands: Sequence[object]) -> MissingRule:
    """The error for a primitive without a rule: its operands, the line of the user's program that
    it comes from, and what to do."""
    shown = ", ".join(describe(x.aval) if type(x) is Undefined else describe(x) for x in operands)
    place = _names.place or source.here()
    told = [part for part in (shown, source.describe(place)) if part]
    lines = [f"{what} for '{primitive.name}' not implemented."]
    if told:
        lines.append(f"    {primitive.name}: {', '.join(told)}")
    kind = type(primitive)
    if kind.__module__.partition(".")[0] not in (
        "teucer",
        "jax",
    ):  # a library's class: its author can add the rule
        lines.append(f"  Define {kind.__name__}.{rule}.")
    elif rule in _REMEDIES:
        lines.append(f"  {_REMEDIES[rule].format(name=primitive.name)}")
    return MissingRule("\n".join(lines))
