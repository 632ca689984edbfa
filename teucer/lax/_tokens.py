"""Operations on tokens: `create_token` and `after_all`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from teucer._base import tracebacks
from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._dialects.high.tokens import TOKEN, Token, TokenType
from teucer.lax import _structure
from teucer.lax._control import misc

__all__ = ["after_all", "after_all_p", "create_token", "create_token_p"]


@dialects.high.mark
class _OnTokens(Primitive):
    """Takes tokens, and gives one."""

    __slots__ = ()
    mergeable = False

    def types(self, *avals: TokenType) -> tuple[TokenType]:
        return (TOKEN,)

    def jvp(
        self, primals: Sequence[Token], tangents: Sequence[object]
    ) -> tuple[tuple[Token], tuple[Zero]]:
        return self.call(*primals), (TOKEN.zero,)


@final
class CreateToken(_OnTokens):
    """A token that waits for nothing."""

    __slots__ = ()
    name = "create_token"

    def evaluate(self) -> tuple[Token]:
        return (Token(_structure.full((), False, bool)),)


@final
class AfterAll(_OnTokens):
    """A token that waits for the operands."""

    __slots__ = ()
    name = "after_all"

    def evaluate(self, *tokens: Token) -> tuple[Token]:
        if not tokens:
            return create_token_p.evaluate()
        return (Token(misc.optimization_barrier_p.call(*[token._buf for token in tokens])[0]),)


create_token_p = CreateToken()
after_all_p = AfterAll()


@tracebacks.api_boundary
def create_token(_: object = None) -> Token:
    """A token: a value without content, whose use orders operations. Foreign functions
    take and give tokens.

    _: is ignored.

    >>> import teucer as jax
    >>> jax.make_jaxpr(jax.lax.create_token)(0)
    { lambda ; a:i32[]. let b:Tok = create_token in (b,) }
    """
    (token,) = create_token_p.call()
    return token


@tracebacks.api_boundary
def after_all(*operands: Token) -> Token:
    """A token that comes after those given.

    Raises TypeError if an operand is no token.

    >>> import teucer as jax
    >>> jax.lax.after_all(jax.lax.create_token(), jax.lax.create_token()).block_until_ready()
    """
    for i, x in enumerate(operands):
        if typeof(x) != TOKEN:
            raise TypeError(
                f"Arguments to after_all must be tokens.\n    operand {i}: {x!r:.100} of type "
                f"{typeof(x)}\n  jax.lax.create_token() makes one."
            )
    (token,) = after_all_p.call(*operands)
    return token
