"""`psend` and `precv`.

Arrays sent between devices by operations of their own, ordered by tokens. GPUs have them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import tracebacks
from teucer._core import dialects
from teucer._core.axes import manual_axes
from teucer._core.types import ShapedArray
from teucer._dialects.high.tokens import LOW, TOKEN, Token, TokenType
from teucer._hlo.rare_hlo import paired
from teucer._trees import pytrees
from teucer.lax._collectives import lowering
from teucer.lax._collectives.movement import check_pairs
from teucer.lax._collectives.reductions import checked, varying_over
from teucer.lax._collectives.varying import Collective, names_of

if TYPE_CHECKING:
    from teucer._core.typing import Array, AxisName, Params, Value
    from teucer._lower.context import Context

__all__ = ["precv", "psend"]

Pairs = tuple[tuple[int, int], ...]


class _OfSends(Collective):
    """An operation along the pairs (source, target) of perm; one operand or result is a token.

    (C1) sources are distinct, and so are targets.  (C2) all of them are elements of the axes.
    """

    __slots__ = ()
    mergeable = False

    def names(self, params: Params) -> tuple[Any, ...]:
        return params["axis_name"]

    def shard(self, *avals: ShapedArray, **params: object) -> None:
        return None

    def refuse(self, ctx: Context) -> None:
        """Raise NotImplementedError unless the program is for a GPU."""
        if not ctx.target.sends:
            raise NotImplementedError(
                f"{self.name} is currently only implemented on GPU, and the program is for "
                f"{ctx.platform}.\n  jax.lax.ppermute sends and receives on every platform."
            )


@dialects.high.mark
@final
class Send(_OfSends):
    """x sent to other devices; the token comes after it."""

    __slots__ = ()
    name = "psend"

    def types(self, x: ShapedArray, *, axis_name: AxisName, perm: Pairs) -> tuple[TokenType]:
        check_pairs("psend", axis_name, perm)
        return (TOKEN,)

    def evaluate(self, x: Value, **params: object) -> tuple[Token]:
        return (Token(_low_send_p.call(x, **params)[0]),)


@final
class LowSend(_OfSends):
    """As `Send`; the token is a boolean."""

    __slots__ = ()
    name = "psend"

    def types(self, x: ShapedArray, **params: object) -> tuple[ShapedArray]:
        return (LOW,)

    @dialects.varies.rule
    def varies(self, vma: frozenset[str], x: Array, **params: object) -> frozenset[Any]:
        return frozenset()

    def lower(self, ctx: Any, x: Any, *, axis_name: Any, perm: Pairs) -> Any:
        self.refuse(ctx)
        (start,) = ctx.op("stablehlo.create_token", (), (TOKEN,))
        (sent,) = ctx.op(
            "stablehlo.send", (x, start), (TOKEN,), lowering.along(ctx, perm, axis_name)
        )
        return (paired(ctx, sent, ctx.constant(False))[1],)


@dialects.high.mark
@final
class Receive(_OfSends):
    """The values that other devices send, after a token; zeros where none are sent."""

    __slots__ = ()
    name = "precv"

    def types(
        self, token: TokenType, *, out_shape: ShapedArray, axis_name: AxisName, perm: Pairs
    ) -> tuple[ShapedArray]:
        check_pairs("precv", axis_name, perm)
        if type(token) is not TokenType:
            raise TypeError(
                "precv: the first argument is a token, of psend or jax.lax.create_token(), got "
                f"{token}."
            )
        return (out_shape,)

    def evaluate(self, token: Token, **params: object) -> Any:
        return _low_receive_p.call(token._buf, **params)


@final
class LowReceive(_OfSends):
    """As `Receive`; the token is a boolean."""

    __slots__ = ()
    name = "precv"

    def types(
        self, token: ShapedArray, *, out_shape: ShapedArray, **params: object
    ) -> tuple[ShapedArray]:
        return (out_shape,)

    @dialects.varies.rule
    def varies(
        self, vma: frozenset[str], token: object, *, out_shape: ShapedArray, **params: object
    ) -> frozenset[Any]:
        return out_shape.vma

    def lower(
        self, ctx: Any, token: Any, *, out_shape: ShapedArray, axis_name: Any, perm: Pairs
    ) -> Any:
        self.refuse(ctx)
        start = paired(ctx, ctx.op("stablehlo.create_token", (), (TOKEN,))[0], token)[0]
        return ctx.op(
            "stablehlo.recv", (start,), (out_shape, TOKEN), lowering.along(ctx, perm, axis_name)
        )[:1]


psend_p = Send()
precv_p = Receive()
_low_send_p = LowSend()
_low_receive_p = LowReceive()


def _params(op: str, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> dict[str, Any]:
    check_pairs(op, names_of(axis_name), perm)
    return {
        "axis_name": names_of(axis_name),
        "perm": tuple((operator.index(a), operator.index(b)) for a, b in perm),
    }


@tracebacks.api_boundary
def psend(x: object, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send arrays to other devices of a `shard_map`, within `jit`, on GPUs; `precv` receives them.

    x: a pytree of arrays. perm: pairs (source, target) of places along the named axes.
    The result is a pytree of tokens, for `precv` or `optimization_barrier`.
    Raises ValueError if a source or a target stands there twice, NameError for a name that no axis
    in force has; lowering raises NotImplementedError for other platforms, where `ppermute` does
    both.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> def shifted(x):
    ...     return precv(psend(x, "x", [(0, 0)]), jax.ShapeDtypeStruct(x.shape, x.dtype), "x",
    ...     [(0, 0)])
    >>> f = jax.shard_map(shifted, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    >>> str(jax.make_jaxpr(f)(jnp.arange(2.))).count("psend")
    1
    """
    params = _params("psend", axis_name, perm)
    return pytrees.tree_map(
        lambda leaf: psend_p.call(
            varying_over(checked("psend", leaf), params["axis_name"]), **params
        )[0],
        x,
    )


@tracebacks.api_boundary
def precv(
    token: Any, out_shape: object, axis_name: AxisName, perm: Sequence[tuple[int, int]]
) -> Any:
    """Arrays that other devices of a `shard_map` have sent by `psend`, after a token. It is for
    GPUs, as that is.

    token: of `psend` or `create_token`. out_shape: a pytree of objects with shape and dtype. perm:
    as for `psend`. The result is a pytree of arrays; a device that nothing is sent to has zeros.
    Raises TypeError for an object that is no token, and the errors of `psend`.
    """
    params = _params("precv", axis_name, perm)
    vma = manual_axes().intersection(params["axis_name"])

    def received(leaf: Any) -> Any:
        return precv_p.call(
            token, out_shape=ShapedArray(leaf.shape, leaf.dtype, vma=vma), **params
        )[0]

    return pytrees.tree_map(received, out_shape)
