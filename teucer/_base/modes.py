"""Options whose values are the members of an enumeration, as in JAX."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExplicitX64Mode", "warn_error_allow"]


class ExplicitX64Mode(IntEnum):
    """What happens when a 64-bit dtype is asked for by name while `jax_enable_x64` is off."""

    WARN = 1
    ERROR = 2
    ALLOW = 3


def warn_error_allow(value: object) -> ExplicitX64Mode:
    """A member, by itself, its number or its name in any case.

    >>> warn_error_allow("allow")
    <ExplicitX64Mode.ALLOW: 3>
    """
    for mode in ExplicitX64Mode:
        if value == mode or (isinstance(value, str) and value.upper() == mode.name):
            return mode
    raise ValueError(f"{value!r} is not a valid ExplicitX64Mode.\n  allowed: 'warn', 'error', 'allow'")
