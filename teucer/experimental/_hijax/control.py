"""What libraries say of their effects to loops."""

from __future__ import annotations

from typing import Any

__all__ = ["control_flow_allowed_effects"]


class EffectTypes:
    """Classes of effects."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Add a class."""
        self._types.add(effect_type)

    def contains(self, effect: Any) -> bool:
        """Whether an effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))


# Loops and branches take the effects of all high primitives; libraries say it of theirs all the same.
control_flow_allowed_effects = EffectTypes()
