"""Types for annotations of rules and functions of the library.

Modules of the core and above import these for type checkers alone, under `if TYPE_CHECKING`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from teucer._base.dtypes import ExtendedDType
    from teucer._base.source import Place
    from teucer._core.array_type import Array as Array
    from teucer._core.jaxpr import Atom as Atom
    from teucer._core.types import Aval as Aval
    from teucer._core.types import ShapedArray, Zero
    from teucer._dimensions.dimensions import Dimension
else:
    from teucer._xla.arrays import Array


# A value of a program: an array, a traced value, a number, a reference, or a value of a library's
# type. `typeof` says which.
Value: TypeAlias = object
# A value, a symbolic zero (`Zero`), or None for an operand that has no cotangent.
Cotangent: TypeAlias = object
# The parameters of a call of a primitive. Only the rules of that primitive know what each one is.
Params: TypeAlias = dict[str, Any]
# The batch axis of an operand, None if it has none; and the batch axes of all operands.
Dim: TypeAlias = int | None
Dims: TypeAlias = Sequence[Dim]
# The size of an axis, which may be symbolic.
Size: TypeAlias = "int | Dimension"
# The dtype of a type: NumPy's, or a dtype of typed keys.
DType: TypeAlias = "np.dtype[Any] | ExtendedDType"
# Where an equation comes from: a line of the user's program, and name scopes.
Source: TypeAlias = "tuple[Place | None, tuple[str, ...]] | None"

# Sequences with an entry for each operand of a rule: values, arrays, types, tangents or cotangents.
# `Axes` are numbers of axes.
Values: TypeAlias = Sequence[Value]
Arrays: TypeAlias = "Sequence[Array]"
Avals: TypeAlias = "Sequence[ShapedArray]"
Tangents: TypeAlias = "Sequence[Array | Zero]"
Axes: TypeAlias = Sequence[int]

# An array of NumPy, of any shape and dtype.
HostArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
# An array of either kind, for functions that use its members.
AnyArray: TypeAlias = "Array | HostArray"
# An argument of a numerical function.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex


@runtime_checkable  # pydantic asks isinstance(value, _HasDType)
class _HasDType(Protocol):
    @property
    def dtype(self) -> Any: ...


# An argument that names a dtype: also a class of scalars, or an object with an attribute `dtype`.
DTypeLike: TypeAlias = np.dtype | type | str | _HasDType
# Sizes, which may be symbolic, and so are not always int.
Shape: TypeAlias = "int | Sequence[Size]"
# An axis, several, or None for all.
Axis: TypeAlias = int | Sequence[int] | None
# The name of an axis that `vmap` or a mesh maps over, or several.
AxisName: TypeAlias = Hashable | Sequence[Hashable]
# Groups of indices: a collective works within each group. None is one group of all indices.
Groups: TypeAlias = Sequence[Sequence[int]] | None


class Stated:
    """Properties that types of arrays and references have. Types of libraries may have them; tokens
    do not."""

    shape: tuple[Any, ...]
    ndim: int
    dtype: Any
    weak_type: bool
    vma: frozenset[str]
    sharding: Any
    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    physical: Any
    memory_space: Any

    def update(self, **changes: object) -> Any: ...
    def str_short(self, short_dtypes: bool = False) -> str:
        raise NotImplementedError

    def vspace_zero(self) -> Any: ...
    def vspace_add(self, x: object, y: object) -> Any: ...


class Partition(Protocol):
    """How an array lies over the axes of a mesh: a `NamedSharding`, which a layer above the core
    defines."""

    @property
    def spec(self) -> Any: ...
    @property
    def mesh(self) -> Any: ...
    def with_spec(self, spec: object) -> Any: ...
    def inserted(self, ndim: int, axis: int, entry: object) -> Any: ...


class _Staged(Protocol):
    """The part of a jitted function's interface that library functions have."""

    __name__: str

    def lower(self, *args: object, **kwargs: object) -> Any: ...
    def trace(self, *args: object, **kwargs: object) -> Any: ...
    def eval_shape(self, *args: object, **kwargs: object) -> Any: ...
    def clear_cache(self) -> None: ...


class Unary(_Staged, Protocol):
    """An elementwise function of one operand, made by a table."""

    def __call__(self, x: ArrayLike, /, **options: object) -> Array: ...


class Binary(_Staged, Protocol):
    """An elementwise function of two operands, made by a table."""

    def __call__(self, x: ArrayLike, y: ArrayLike, /, **options: object) -> Array: ...
