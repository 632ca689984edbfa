"""Tokens: values without content, whose use orders operations.

Their type is a high one, made of a boolean.
"""

from __future__ import annotations

from typing import final

import numpy as np

from teucer._core.types import ShapedArray, float0
from teucer._core.typing import Array
from teucer._dialects.high.types import HighType, register_hitype

LOW = ShapedArray((), np.dtype(bool))


@final
class TokenType(HighType):
    """The type of tokens."""

    moves = False
    # As operands of foreign functions have it. No other operation takes one.
    _hlo = "!stablehlo.token"
    ndim = 0

    @property
    def physical(self) -> TokenType:
        """The same: what foreign functions ask of an array."""
        return self

    def lo_ty(self) -> list[ShapedArray]:
        return [LOW]

    def lower_val(self, hi_val: object, /) -> list[Array]:
        assert isinstance(hi_val, Token)
        return [hi_val._buf]

    def raise_val(self, *lo_vals: Array) -> Token:
        return Token(*lo_vals)

    def to_tangent_aval(self) -> ShapedArray:
        return ShapedArray((), float0)

    def __eq__(self, other: object) -> bool:
        return type(other) is TokenType

    def __hash__(self) -> int:
        return hash(TokenType)

    def __repr__(self) -> str:
        return "AbstractToken()"

    def str_short(self, short_dtypes: bool = False, **options: object) -> str:
        return "Tok"


TOKEN = TokenType()


@final
class Token:
    """A value without content. A program that takes a token begins after the program that returned
    it."""

    __slots__ = ("_buf",)

    def __init__(self, buf: Array) -> None:
        self._buf = buf

    def block_until_ready(self) -> None:
        """Wait for the program that gives it."""
        self._buf.block_until_ready()


register_hitype(Token, lambda token: TOKEN)
