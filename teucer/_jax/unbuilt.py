"""Lowering of kernels by rules of other compilers. It is not built."""

from __future__ import annotations

from typing import NoReturn


class GridMapping:
    """The type of a kernel's grid in such rules. Making one raises NotImplementedError."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        _refuse("GridMapping")


def register_lowering_rule(*args: object, **kwargs: object) -> None:
    """Raise NotImplementedError."""
    _refuse("register_lowering_rule")


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"jax.extend.pallas.{name}: kernels are lowered by Teucer's own compilers, which take no "
        "rules of others."
    )
