"""Questions to the check of random keys.

Does a function use one twice, is one used up at a place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._derived.staging import make_jaxpr
from teucer.random._reuse import RULES, use_of
from teucer.random._reuse_signatures import (
    Forward,
    KeyReuseSignature,
    Sink,
    Source,
    function_type_signature,
    jaxpr_type_signature,
    key_reuse_signatures,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Dims, Value
    from teucer._lower.context import Context

__all__ = [
    "Forward", "KeyReuseSignature", "Sink", "Source", "assert_consumed", "assert_unconsumed",
    "check_key_reuse", "consume", "consume_p", "function_type_signature", "jaxpr_type_signature",
    "key_reuse_signatures",
]  # fmt: skip


class _Looks(Primitive):
    """Keys as they are; the check of programs sees more in it."""

    __slots__ = ()
    mergeable = False

    def types(self, x: ShapedArray, **params: object) -> Any:
        return (x,)

    def evaluate(self, x: Value, **params: object) -> Any:
        return (x,)

    def lower(self, ctx: Context, x: Value, **params: object) -> Any:
        return (x,)

    on_keys = dialects.on_keys.rule(lower)

    def batch(self, axis: Any, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return self.call(*args, **params), dims


@final
class Consume(_Looks):
    """Uses keys up, and gives them back as used ones."""

    __slots__ = ()
    name = "consume"


@final
class AssertConsumed(_Looks):
    """Says which elements of an array of keys are used up."""

    __slots__ = ()
    name = "assert_consumed_value"


consume_p = Consume()
assert_consumed_value_p = AssertConsumed()


def _asserts(walk: Any, eqn: Any, operands: Any) -> Any:
    found = np.isin(operands[0], list(walk.used))
    wanted = np.broadcast_to(np.array(eqn.params["value"]), found.shape)
    if (found != wanted).any():
        raise AssertionError(
            f"Expected {wanted} for {eqn.invars[0]}, got {found}: which keys are used up."
        )
    return operands


key_reuse_signatures[consume_p] = KeyReuseSignature(Sink(0), Forward(0, 0))
RULES[assert_consumed_value_p] = _asserts


def consume(key: object) -> Any:
    """A key as it is, which the check takes for used from here on."""
    return consume_p.call(key)[0]


def assert_consumed(key: object, value: object = True) -> None:
    """Have the check raise AssertionError unless those keys are used up for which value is True."""
    assert_consumed_value_p.call(
        key, value=tuple(value) if isinstance(value, np.ndarray) else value
    )


def assert_unconsumed(key: object) -> None:
    """Have the check raise AssertionError if a key is used up."""
    assert_consumed(key, False)


def check_key_reuse(fun: Callable[..., object], /, *args: object) -> None:
    """Raise KeyReuseError if a function uses a random key twice for arguments of these types. It is
    traced, and not run.

    >>> import teucer as jax
    >>> from teucer.experimental.key_reuse._core import check_key_reuse
    >>> check_key_reuse(jax.random.normal, jax.random.key(0))
    """
    use_of(make_jaxpr(fun)(*args).jaxpr)
