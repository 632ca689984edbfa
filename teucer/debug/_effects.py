"""Effects of operations that show values.

The classes that libraries look for among its effects.
"""

from __future__ import annotations

from teucer._optimize.effects import Effect


class _Kind(type):
    """A class of one effect, which is a record: a call gives it, and isinstance finds it."""

    effect: Effect

    def __call__(cls) -> Effect:
        return cls.effect

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Effect) and instance == cls.effect


class DebugEffect(metaclass=_Kind):
    """The effect of a callback of `debug`: it happens once for each time that the program comes by,
    in any order.

    >>> import teucer as jax
    >>> closed = jax.make_jaxpr(lambda x: jax.debug.print("{}", x))(1.)
    >>> any(isinstance(effect, DebugEffect) for effect in closed.effects)
    True
    """

    effect = Effect("debug")


class OrderedDebugEffect(metaclass=_Kind):
    """The effect of a callback of `debug` that keeps the program's order (ordered=True).

    >>> import teucer as jax
    >>> closed = jax.make_jaxpr(lambda x: jax.debug.print("{}", x, ordered=True))(1.)
    >>> OrderedDebugEffect() in closed.effects
    True
    """

    effect = Effect("debug", ordered=True)
