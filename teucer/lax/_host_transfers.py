"""Calls of Python where the compiler has no call for them: the operands are sent to the host, which
sends the results back. So it is on TPUs.

Each array has a channel of its own. A token makes the transfers of one call follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core.types import ShapedArray
from teucer._lower import hlo
from teucer._lower.value import Value
from teucer._xla.platforms.transfers import HANDLER, ByTransfers

if TYPE_CHECKING:
    from teucer._lower.context import Context

# Collectives are on channel 1.
_FIRST = 2
_TO_HOST, _FROM_HOST = 2, 3
# Types of less than a byte, which the compiler packs in its own way, and what they travel as.
_CARRIERS = {
    "int2": np.int8, "uint2": np.uint8, "int4": np.int8, "uint4": np.uint8,
    "float4_e2m1fn": np.float32,
}  # fmt: skip
# A call without operands, or without results, sends and receives this.
_SIGNAL = ShapedArray((), np.dtype(np.float32))


@final
class _Token:
    """The type of a token, as the text of a program has it."""

    _hlo = "!stablehlo.token"


def call(
    ctx: Context,
    function: Callable[..., Sequence[Any]],
    values: Sequence[Value],
    avals: Sequence[ShapedArray],
    by: Callable[[int], str],
) -> tuple[Value, ...]:
    """Write a call of a function of host arrays.

    avals: of its results. by: an attribute of an operation of so many results, which says what
    devices it runs on.
    Raises NotImplementedError for sizes that are not known when the program is compiled.
    """
    for aval in (*(v.aval for v in values), *avals):
        if aval.symbolic:
            raise NotImplementedError(
                f"a call of Python on {ctx.platform} with an array of type {aval.str_short()}: "
                "sizes of what goes to the host and comes back must be known.\n  Pad the array "
                "to a fixed size."
            )
    outgoing = [_widened(ctx, v) for v in values if v.aval.size] or [ctx.constant(0, _SIGNAL.dtype)]
    incoming = [_wide(a) for a in avals if a.size] or [_SIGNAL]
    first = _next_channel(ctx.module.host_callbacks)
    channels = range(first, first + len(outgoing) + len(incoming))
    sends, receives = channels[: len(outgoing)], channels[len(outgoing) :]
    ctx.module.host_callbacks.append(
        ByTransfers(
            _on_host(function, [v.aval for v in values], avals),
            tuple([(v.aval.dtype, v.aval.shape) for v in outgoing]),
            tuple([(a.dtype, a.shape) for a in incoming]),
            tuple(sends),
            tuple(receives),
        )
    )
    token: Any = _Token()
    (last,) = ctx.op("stablehlo.create_token", (), (token,))
    for value, channel in zip(outgoing, sends, strict=True):
        (last,) = ctx.op(
            "stablehlo.send", (value, last), (token,), *_transfer(channel, _TO_HOST, by(1))
        )
    received = []
    for aval, channel in zip(incoming, receives, strict=True):
        value, last = ctx.op(
            "stablehlo.recv", (last,), (aval, token), *_transfer(channel, _FROM_HOST, by(2))
        )
        received.append(value)
    came = iter(received)
    return tuple(
        [hlo.convert(ctx, next(came), a.dtype) if a.size else hlo.splat(ctx, 0, a) for a in avals]
    )


def _transfer(channel: int, kind: int, by: str) -> tuple[str, tuple[()], str]:
    """The properties, regions and attributes of a transfer."""
    names = f'_xla_host_transfer_handler_name = "{HANDLER}"'
    names = f'{names}, _xla_host_transfer_rendezvous = "{channel}"'
    attributes = f"mhlo.frontend_attributes = {{{names}}}"
    return (
        f"channel_handle = #stablehlo.channel_handle<handle = {channel}, type = {kind}>, "
        "is_host_transfer = true",
        (),
        f"{attributes}, {by}" if by else attributes,
    )


def _next_channel(callbacks: Sequence[Any]) -> int:
    last = next((c for c in reversed(callbacks) if isinstance(c, ByTransfers)), None)
    return _FIRST if last is None else last.receives[-1] + 1


def _wide(aval: ShapedArray) -> ShapedArray:
    """The type under which an array travels."""
    return ShapedArray(aval.shape, np.dtype(_CARRIERS.get(str(aval.dtype), aval.dtype)))


def _widened(ctx: Context, value: Value) -> Value:
    return hlo.convert(ctx, value, _wide(value.aval).dtype)


def _on_host(
    function: Callable[..., Sequence[Any]],
    operands: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
) -> Callable[..., tuple[Any, ...]]:
    """The function as it is called with what was sent; it returns what is received."""

    def called(*sent: Any) -> tuple[Any, ...]:
        came = iter(sent)
        outs = function(
            *(
                np.asarray(next(came)).astype(a.dtype) if a.size else np.zeros(a.shape, a.dtype)
                for a in operands
            )
        )
        return tuple(
            [
                np.asarray(y).astype(_wide(a).dtype)
                for y, a in zip(outs, results, strict=True)
                if a.size
            ]
        ) or (np.zeros(_SIGNAL.shape, _SIGNAL.dtype),)

    return called
