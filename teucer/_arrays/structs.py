"""Types of arrays without arrays: ShapeDtypeStruct, `typeof`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.formats import Format, Layout
from teucer._arrays.transfer import host_rules
from teucer._base import dtypes
from teucer._core.calls import FlatCall
from teucer._core.memory import space_of
from teucer._core.reference_types import RefType
from teucer._core.trace import typeof as aval_of_value
from teucer._core.types import ShapedArray, register_aval_of
from teucer._devices.shardings import NamedSharding, as_named, typed
from teucer._devices.specs import PartitionSpec
from teucer._xla.arrays import Sharding as ShardingBase

if TYPE_CHECKING:
    from teucer._core.types import Aval
    from teucer._core.typing import Array, DTypeLike, Value
    from teucer._devices.axis_type import ManualAxisType
    from teucer._devices.shardings import Sharding


@final
class ShapeDtypeStruct:
    """A stand-in for an array: its shape and dtype, and where it is to live, without values.

    shape: a sequence of ints. dtype: a dtype. sharding, vma, weak_type, is_ref: as of the array it
    stands for; the sharding may be a Format, of a layout that is not left to the compiler.

    >>> import teucer as jax
    >>> jax.ShapeDtypeStruct((2, 3), "float32").size
    6
    """

    __slots__ = (
        "shape",
        "dtype",
        "_sharding",
        "weak_type",
        "vma",
        "is_ref",
        "manual_axis_type",
        "_layout",
    )

    def __init__(
        self,
        shape: Iterable[Any],
        dtype: DTypeLike,
        *,
        sharding: Format | Sharding | PartitionSpec | None = None,
        weak_type: bool = False,
        vma: Iterable[str] | None = None,
        is_ref: bool = False,
        manual_axis_type: ManualAxisType | None = None,
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape = tuple(shape)
        self.dtype = dtype if isinstance(dtype, dtypes.ExtendedDType) else dtypes.as_dtype(dtype)
        layout: Any = None
        if isinstance(sharding, Format):
            layout = sharding.layout
            if not isinstance(layout, Layout | None):
                raise TypeError(
                    "`Layout.AUTO` cannot be used in place of a device-local layout in a "
                    f"`ShapeDtypeStruct`. Got {sharding}\n  Give it to jit, as in_shardings."
                )
            sharding = sharding.sharding
        if isinstance(sharding, NamedSharding):
            sharding.check_compatible_aval(self.shape)
        if isinstance(sharding, PartitionSpec) and len(sharding) > len(self.shape):
            raise ValueError(
                f"PartitionSpec {sharding} is only valid for values of rank at least "
                f"{len(sharding)}, but was applied to a value of rank {len(self.shape)}."
            )
        if sharding is not None and not isinstance(sharding, ShardingBase | PartitionSpec):
            raise ValueError(
                "sharding should be an instance of `jax.sharding.Sharding`, "
                "`jax.sharding.PartitionSpec` or `jax.experimental.layout.Format`. Got "
                f"{sharding} of type {type(sharding)}."
            )
        self._layout = layout
        self._sharding, self.weak_type, self.is_ref = sharding, bool(weak_type), is_ref
        self.manual_axis_type = manual_axis_type
        if manual_axis_type is not None and vma is None:
            vma = manual_axis_type.varying
        self.vma = None if vma is None else frozenset(vma)

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise RuntimeError(
                f"Cannot reassign attributes ({name}) of immutable ShapeDtypeStruct objects.\n"
                f"  update({name}=...) gives another."
            )
        super().__setattr__(name, value)

    @classmethod
    def like(cls, x: Value) -> ShapeDtypeStruct:
        """The struct of an array, a traced value, a number, or of any object with shape and dtype.

        A committed array gives its format too. Raises TypeError for anything else.

        >>> import teucer as jax, teucer.numpy as jnp
        >>> jax.ShapeDtypeStruct.like(jnp.ones((2, 3)))
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        x = _duck(x)
        if isinstance(x, cls):
            return x
        struct: ShapeDtypeStruct = as_struct(aval_of_value(x))
        return (
            struct.update(sharding=x.format)
            if isinstance(x, ArrayImpl) and x._committed
            else struct
        )

    @property
    def aval(self) -> ShapedArray | RefType:
        """The type that this stands for, with the dtypes of the current precision."""
        dtype = dtypes.check_user_dtype_supported(self.dtype, "ShapeDtypeStruct")
        aval = ShapedArray(
            self.shape,
            dtype,
            self.weak_type,
            vma=self.vma or frozenset(),
            sharding=typed(self.sharding, len(self.shape)),
            memory_space=space_of(getattr(self.sharding, "_memory_kind", None)),
            manual_axis_type=self.manual_axis_type,
        )
        return RefType(aval) if self.is_ref else aval

    @property
    def sharding(self) -> Any:
        """How the array lies, or None; a PartitionSpec that was given names the mesh in force.

        Raises TypeError for a PartitionSpec without a mesh.
        """
        return as_named(
            self._sharding,
            TypeError(
                "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be "
                f"empty. Please use `jax.set_mesh` to set the mesh context.\n    struct: {self}"
            ),
        )

    @property
    def format(self) -> Format:
        """The layout of the array, None if none was given, and its sharding."""
        return Format(self._layout, self.sharding)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def update(self, **changes: object) -> ShapeDtypeStruct:
        """The struct with some of its fields changed."""
        fields = {name: getattr(self, name) for name in self.__slots__ if not name.startswith("_")}
        given = changes.get("sharding")
        if self._layout and given is not None and not isinstance(given, Format):
            raise ValueError(
                "updating ShapeDtypeStruct: it has a layout, of which the new sharding says "
                f"nothing.\n    struct: {self}\n    sharding: {given}\n"
                "  Give a Format, with a layout, or None."
            )
        own = Format(self._layout, self._sharding) if self._layout else self._sharding
        return ShapeDtypeStruct(**(fields | {"sharding": own} | changes))

    def __len__(self) -> int:
        try:
            return int(self.shape[0])
        except IndexError:
            raise TypeError("len() of unsized object") from None

    def __repr__(self) -> str:
        extra = "".join(
            f", {name}={value}"
            for name, value in (
                ("sharding", self._sharding),
                ("format", self._layout),
                ("weak_type", self.weak_type or None),
                ("vma", self.vma),
            )
            if value is not None
        )
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{extra})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (
            self.shape,
            self.dtype,
            self._sharding,
            self._layout,
            self.weak_type,
            self.vma,
            self.is_ref,
        )


register_aval_of(ShapeDtypeStruct, lambda s: s.aval)


def _without_values(x: Array) -> Any:
    raise TypeError(
        f"A ShapeDtypeStruct does not have a value. Argument '{x!s:.100}' of type {type(x)} is not "
        "a valid JAX type: it stands for an array.\n  Give an array; the struct is for "
        "eval_shape, export, and the methods lower and trace of jitted functions."
    )


host_rules[ShapeDtypeStruct] = _without_values


def as_struct(aval: Aval) -> Any:
    """The struct of a type; high types are their own."""
    if aval.is_high:
        return aval
    return ShapeDtypeStruct(
        aval.shape,
        aval.dtype,
        weak_type=aval.weak_type,
        sharding=aval.partition,
        vma=aval.vma or None,
        is_ref=type(aval) is RefType,
    )


def described(call: FlatCall) -> FlatCall:
    """A call whose arguments stand for arrays: anything with a shape and a dtype is as good as
    one."""
    return call._replace(leaves=[_duck(x) for x in call.leaves])


def _duck(x: Value) -> Any:
    known = isinstance(
        x, int | float | complex | np.ndarray | np.generic | ShapeDtypeStruct
    ) or hasattr(x, "aval")
    if known or not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return x
    own = (
        x.partition if isinstance(x, ShapedArray) else getattr(x, "sharding", None)
    )  # a type may leave it open
    return ShapeDtypeStruct(
        x.shape,
        x.dtype,
        sharding=own,
        weak_type=getattr(x, "weak_type", False),
        is_ref=type(x) is RefType,
    )


def typeof(x: Value) -> Any:
    """The type of an array, a traced value or a Python number.

    >>> import teucer as jax
    >>> jax.typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    return aval_of_value(x)
