"""What libraries say of their types to loops and meshes."""

from __future__ import annotations

from typing import Any

__all__ = ["HiPspec", "control_flow_allowed_effects"]


class HiPspec:
    """How a value of a high type is laid over a mesh. Each type has specs of its own.

    to_lo() -> PartitionSpecs of the values of which it is made.
    """

    def to_lo(self) -> tuple[Any, ...]:
        """The PartitionSpecs of the values of which one is made."""
        raise NotImplementedError(f"{type(self).__name__}: define to_lo.")

    def to_tangent_spec(self) -> HiPspec:
        """The spec of tangents."""
        raise NotImplementedError(f"{type(self).__name__}: define to_tangent_spec.")

    def to_ct_spec(self) -> HiPspec:
        """The spec of cotangents."""
        raise NotImplementedError(f"{type(self).__name__}: define to_ct_spec.")


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
