"""Types for annotations: what functions of the library take and give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from teucer._core.array_type import Array as Array
else:
    from teucer._xla.arrays import Array

__all__ = ["Array", "ArrayLike", "Axis", "Binary", "DTypeLike", "Shape", "Unary"]

# What an argument of a numerical function may be.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex


class _HasDType(Protocol):
    @property
    def dtype(self) -> Any: ...


# What may say a dtype: also a class of scalars, or an object with an attribute `dtype`.
DTypeLike: TypeAlias = np.dtype | type | str | _HasDType
# Sizes, which may be symbolic, and so are not always int.
Shape: TypeAlias = int | Sequence[Any]
# An axis, several, or None for all.
Axis: TypeAlias = int | Sequence[int] | None


class _Staged(Protocol):
    """What functions of the library have of jitted ones."""

    __name__: str

    def lower(self, *args: Any, **kwargs: Any) -> Any: ...
    def trace(self, *args: Any, **kwargs: Any) -> Any: ...
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...
    def clear_cache(self) -> None: ...


class Unary(_Staged, Protocol):
    """An elementwise function of one operand, made by a table."""

    def __call__(self, x: ArrayLike, /, **options: Any) -> Array: ...


class Binary(_Staged, Protocol):
    """An elementwise function of two operands, made by a table."""

    def __call__(self, x: ArrayLike, y: ArrayLike, /, **options: Any) -> Array: ...
