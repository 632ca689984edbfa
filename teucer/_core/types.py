"""Types (avals): the facts about a value that are known while a program is traced.

Equal types of arrays, or of references, are one object. It is compared and hashed by identity, and
keeps the facts that follow from it. High types define `__eq__`, so code that may meet them compares
types by `==`.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np

from teucer._base import config, dtypes, memo
from teucer._core.memory import MemorySpace
from teucer._core.provided import provided
from teucer._dimensions.dimensions import Dimension, is_constant, is_symbolic
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.typing import DType, DTypeLike, Size, Stated, Value
else:
    Stated = object


float0 = dtypes.float0


class Aval(Stated):
    """A type of the language of jaxprs. Subclasses are arrays, references and high types."""

    __slots__ = ("_zero", "_hlo", "__weakref__")
    # Whether the dtype is an extended one (typed keys), which the buffer does not have.
    extended: bool = False
    # Whether sizes are symbolic dimensions.
    symbolic: bool = False
    # Whether it is a type of a library, made of others, and whether its values change
    # (`_core.high`).
    is_high: bool = False
    has_qdd: bool = False
    # Whether it says where values lie: over mesh axes, or in the memory of the host.
    placed: bool = False
    # How it lies over explicit mesh axes; None where nothing is said, as of all types but arrays'.
    partition: Any = None
    _zero: Zero
    _hlo: str

    def tangent_aval(self) -> Aval:
        """The type of tangents to values of this type."""
        raise TypeError(f"values of type {self} have no tangents")

    def cotangent_aval(self) -> Aval:
        """The type of cotangents: the type of tangents, since cotangents here are unconjugated."""
        return self.tangent_aval()

    @property
    def zero_cotangent(self) -> Zero:
        """The symbolic zero cotangent of values of this type."""
        return self.zero

    def to_tangent_aval(self) -> Aval:
        """As `tangent_aval`, under JAX's name."""
        return self.tangent_aval()

    def to_ct_aval(self) -> Aval:
        """As `cotangent_aval`, under JAX's name."""
        return self.cotangent_aval()

    to_cotangent_aval = to_ct_aval
    at_least_vspace = to_tangent_aval

    def lo_ty(self) -> list[Any]:
        """The types that values consist of: this type alone."""
        return [self]

    def lower_val(self, value: Value) -> list[Any]:
        """The values that a value of this type consists of: itself alone."""
        return [value]

    def raise_val(self, value: Value) -> Any:
        """The value of this type that is made of the low value `value`: the same."""
        return value

    def dec_rank(self, size: object, spec: int | None) -> Any:
        """The type of one element of a batch along axis `spec`."""
        if spec is None:
            return self
        shape, sharding = self.shape, self.partition
        return self.update(
            shape=(*shape[:spec], *shape[spec + 1 :]),
            sharding=sharding if sharding is None else sharding.without(spec),
        )

    def inc_rank(self, size: Size, spec: int | None) -> Any:
        """The type of a batch of `size` values along axis `spec`."""
        if spec is None:
            return self
        shape, sharding = self.shape, self.partition
        return self.update(
            shape=(*shape[:spec], size, *shape[spec:]),
            sharding=sharding if sharding is None else sharding.inserted(len(shape), spec, None),
        )

    def leading_axis_spec(self) -> Any:
        """How loops map over values: along the first axis."""
        return 0

    @property
    def moves(self) -> bool:
        """Whether values of this type, a type of tangents, carry anything: tangents of integers do
        not."""
        return getattr(self, "dtype", None) != float0

    @property
    def zero(self) -> Zero:
        """The symbolic zero tangent of values of this type."""
        try:
            return self._zero
        except AttributeError:
            self._zero = Zero(self.tangent_aval())
            return self._zero


_NOTHING: frozenset[Any] = frozenset()
DEVICE = MemorySpace.Device


class _Key(NamedTuple):
    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool
    partition: Any
    vma: frozenset[str]
    memory_space: MemorySpace


@final
class ShapedArray(Aval):
    """An array's type: shape, dtype, whether the dtype is weak, and where it lives.

    shape: a tuple of sizes, each an int or a symbolic dimension.
    sharding: a NamedSharding over an AbstractMesh, of which the partition over Explicit axes is
    kept.
    partition: that, with an entry an axis; None where it says nothing, which is what most types
    have.
    vma: the manual mesh axes over which the value varies; manual_axis_type says the same.
    memory_space: of its devices, or of the host.
    Raises ValueError for a sharding over devices, a spec longer than the rank, or an axis that it
    does not divide.

    >>> ShapedArray((2, 3), np.dtype("float32")) is ShapedArray((2, 3), np.dtype("float32"))
    True
    """

    __slots__ = (
        "shape",
        "dtype",
        "weak_type",
        "partition",
        "vma",
        "memory_space",
        "ndim",
        "extended",
        "symbolic",
        "placed",
        "_carrier",
    )
    _interned: ClassVar[memo.Interned[ShapedArray]] = memo.Interned()

    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool
    partition: Any
    vma: frozenset[str]
    memory_space: MemorySpace
    ndim: int
    _carrier: KeyCarrier

    def __new__(
        cls,
        shape: Sequence[Size],
        dtype: DTypeLike | DType,
        weak_type: bool = False,
        *,
        sharding: object = None,
        vma: frozenset[str] = frozenset(),
        memory_space: MemorySpace = DEVICE,
        manual_axis_type: Any = None,
        layout: object = None,
    ) -> ShapedArray:
        if layout is not None and type(layout) is not type:
            raise NotImplementedError(
                "ShapedArray: types that say a layout are not supported.\n"
                f"    layout: {layout!r}\n  Lay results out by jit(out_shardings=Format(...))."
            )
        if manual_axis_type is not None:
            vma, sharding = manual_axis_type.said(sharding, len(shape))
        key = (shape, dtype, weak_type, sharding, vma, memory_space)
        try:
            known = cls._interned.refs[key]()
        except (KeyError, TypeError):
            pass
        else:
            if known is not None:
                return known
        shape = tuple(d if type(d) is int else _dimension(d) for d in shape)
        if not isinstance(dtype, np.dtype | dtypes.ExtendedDType):
            dtype = np.dtype(dtype)
        partition = None if sharding is None else provided.partition_of(sharding, shape)
        full = _Key(shape, dtype, bool(weak_type), partition, vma, memory_space)
        self = cls._interned.get(full)
        if self is None:
            self = super().__new__(cls)
            self.shape, self.dtype, self.weak_type, self.partition, self.vma, self.memory_space = (
                full
            )
            self.ndim = len(shape)
            self.extended = isinstance(dtype, dtypes.ExtendedDType)
            self.symbolic = not is_constant(shape)
            self.placed = partition is not None or bool(vma) or memory_space is not DEVICE
            self = cls._interned.keep(full, self)
        return self

    def __reduce__(self) -> Any:
        return _remake, tuple([getattr(self, name) for name in _Key._fields])

    @property
    def sharding(self) -> Any:
        """How values are laid over Explicit mesh axes: a NamedSharding, over the mesh in force
        where nothing partitions them."""
        return self.partition or provided.whole_sharding(self.ndim)

    @property
    def size(self) -> Any:
        """Number of elements."""
        n: Any = 1
        for d in self.shape:
            n = n * d
        return n

    def update(self, **changes: object) -> ShapedArray:
        """The type with some of its fields changed. One of another shape is partitioned as
        `sharding` says, which may be left out.

        >>> ShapedArray((2,), np.dtype("float32")).update(shape=(5,))
        ShapedArray(float32[5])
        """
        kept = self.partition if changes.get("shape", self.shape) == self.shape else None
        return ShapedArray(
            **{
                "shape": self.shape,
                "dtype": self.dtype,
                "weak_type": self.weak_type,
                "sharding": kept,
                "vma": self.vma,
                "memory_space": self.memory_space,
                **changes,
            }
        )

    def strip_weak_type(self) -> ShapedArray:
        """The same type, not weak, as libraries call it."""
        return self.strengthen()

    def update_weak_type(self, weak_type: bool) -> ShapedArray:
        """The type, weak or not."""
        return self.update(weak_type=weak_type)

    def update_manual_axis_type(self, manual_axis_type: object) -> ShapedArray:
        """The type of a value that varies over the manual mesh axes which are named."""
        return self.update(manual_axis_type=manual_axis_type)

    def strengthen(self) -> ShapedArray:
        """The same type, not weak."""
        return self.update(weak_type=False) if self.weak_type else self

    normalize = strengthen

    def vspace_add(self, x: Value, y: Value) -> Any:
        """The sum of two tangents of this type."""
        return provided.add(x, y)

    def shard(
        self, mesh: object, manual_axes: frozenset[object], check_vma: bool, spec: object
    ) -> Any:
        """The type of each device's part of a value that lies over a mesh as `spec` says."""
        return provided.parts().part_aval(self, spec, mesh, manual_axes, check_vma)

    def unshard(self, mesh: object, check_vma: bool, spec: object) -> Any:
        """The type of the whole value, if each device has a part of this type."""
        parts = provided.parts()
        return parts.whole_aval(self, spec, mesh, parts.named_here(mesh), check_vma)

    def tangent_aval(self) -> ShapedArray:
        if isinstance(self.dtype, dtypes.ExtendedDType) or not dtypes.issubdtype(
            self.dtype, np.inexact
        ):
            return ShapedArray(self.shape, float0, vma=self.vma)
        return self

    def cotangent_aval(self) -> ShapedArray:
        """The type of cotangents. Axes over which values are unreduced are reduced in it, and the
        reverse."""
        aval = self.tangent_aval()
        own = aval.partition
        if own is None or not (own.spec.unreduced or own.spec.reduced):
            return aval
        return aval.update(sharding=own.with_spec(own.spec.to_ct_spec()))

    @property
    def zero_cotangent(self) -> Zero:
        return self.zero if self.partition is None else Zero(self.cotangent_aval())

    @property
    def unreduced(self) -> frozenset[Any]:
        """The mesh axes, Explicit or manual, over which values are still to be summed."""
        return _NOTHING if self.partition is None else self.partition.spec.unreduced

    @property
    def reduced(self) -> frozenset[Any]:
        """The mesh axes over which cotangents of values are still to be summed."""
        return _NOTHING if self.partition is None else self.partition.spec.reduced

    @property
    def carrier(self) -> Any:
        """The type that a C++ array of this type holds: this type, or for an extended dtype a
        stand-in with a NumPy dtype.

        C++ has no arrays of float0; arrays of booleans replace them.
        """
        if not self.extended:
            return (
                self
                if self.dtype != float0
                else ShapedArray(self.shape, np.dtype(bool), vma=self.vma)
            )
        try:
            return self._carrier
        except AttributeError:
            self._carrier = KeyCarrier(self)
            return self._carrier

    @property
    def physical(self) -> ShapedArray:
        """The type of the buffer: an extended dtype adds trailing axes."""
        if self.extended:
            element = self.dtype.physical
            return ShapedArray(self.shape + element.shape, element.dtype)
        return self

    def str_short(self, short_dtypes: bool = False) -> str:
        """The type in the notation of jaxprs.

        >>> ShapedArray((2, 3), np.dtype("float32")).str_short(short_dtypes=True)
        'f32[2,3]'
        """
        name = (
            dtypes.short_name(self.dtype)
            if short_dtypes
            else "float0"
            if self.dtype == float0
            else self.dtype.name
        )
        sizes = (
            shape_text(self.shape)
            if self.partition is None
            else self.partition.shape_text(self.shape)
        )
        space = "" if self.memory_space is DEVICE else f"<{self.memory_space.name.lower()}>"
        return f"{name}{space}[{sizes}]{self._manual_text()}"

    @property
    def mat(self) -> Any:
        """The kinds of variation over manual mesh axes that the type states."""
        return provided.parts().manual_type(self)

    manual_axis_type = mat

    def _manual_text(self) -> str:
        """The mesh axes over which the value varies, is unreduced, or has an unreduced cotangent:
        `{V:x, U:(y,z)}`."""
        kind = self.partition.spec.combined if self.unreduced else ""
        axes = {"V": self.vma, f"U_{kind}" if kind else "U": self.unreduced, "R": self.reduced}
        parts = [
            f"{kind}:{_names_text(sorted(map(str, names)))}"
            for kind, names in axes.items()
            if names
        ]
        return f"{{{', '.join(parts)}}}" if parts else ""

    def __str__(self) -> str:
        return ("~" if self.weak_type else "") + self.str_short()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


def _remake(
    shape: Sequence[Size],
    dtype: DType,
    weak_type: bool,
    sharding: object,
    vma: frozenset[str],
    space: MemorySpace,
) -> ShapedArray:
    return ShapedArray(shape, dtype, weak_type, sharding=sharding, vma=vma, memory_space=space)


def _dimension(d: Size) -> Any:
    return d if is_symbolic(d) else operator.index(d)


def _names_text(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({','.join(names)})"


def shape_text(shape: Sequence[Size]) -> str:
    """Sizes joined by commas, as in `f32[2,3]`."""
    return ",".join(map(str, shape))


@final
class KeyCarrier:
    """The type that a C++ array of extended dtype holds.

    C++ has no extended dtypes: it tells types apart by element type, shape and weak type. So the
    buffer of keys is marked weakly typed, as no other unsigned array is. The number of trailing
    axes of size 1 tells the generator.
    """

    __slots__ = ("shape", "dtype", "weak_type", "logical", "ndim")

    def __init__(self, logical: ShapedArray) -> None:
        physical = logical.physical
        self.logical, self.weak_type, self.dtype = logical, True, physical.dtype
        self.shape = (*physical.shape, *(1,) * logical.dtype.number)
        self.ndim = len(self.shape)

    def __repr__(self) -> str:
        return repr(self.logical)


@final
class Zero:
    """A tangent or cotangent known to be zero, of type `aval`. Never reaches a lowering."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def instantiate(self) -> Any:
        """The array of zeros."""
        return provided.zeros(self.aval)

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


# How to find the type of values of a Python class: rule(value) -> aval. Libraries add classes of
# theirs.
aval_rules: dict[type, Any] = {}


def register_aval_of(kind: type, aval: Callable[..., Aval]) -> None:
    """Register the function that gives the types of values of the Python class `kind`."""
    aval_rules[kind] = aval


def aval_of(x: Value) -> Any:
    """The type of a value: array, tracer, NumPy array or scalar, Python scalar.

    Raises TypeError for any other object.

    >>> aval_of(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    if type(x) is ArrayImpl:
        carried = x._carried
        return carried if type(carried) is ShapedArray else carried.logical
    rule = aval_rules.get(type(x))
    if rule is not None:
        return rule(x)
    for kind in type(x).__mro__[1:]:
        if kind in aval_rules:
            return aval_rules[kind](x)
    if hasattr(x, "__jax_array__"):
        return aval_of(x.__jax_array__())
    raise TypeError(
        f"Argument '{x!s:.200}' of type {type(x)} is not a valid JAX type.\n"
        "  Array arguments are arrays, NumPy arrays and scalars, and Python numbers."
    )


def is_valid_type(x: Value) -> bool:
    """Whether programs compute with `x`: it has an aval, and is no array of strings."""
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype in dtypes.ALL_SET or x.dtype == float0
    if type(x) is ArrayImpl:
        return not dtypes.is_string(x._carried.dtype)
    return (
        type(x) in aval_rules
        or any(kind in aval_rules for kind in type(x).__mro__)
        or hasattr(x, "__jax_array__")
    )


def _scalar(kind: type) -> Any:
    known: dict[bool, ShapedArray] = {}

    def rule(x: Value) -> ShapedArray:
        x64 = config.enable_x64.value
        found = known.get(x64)
        if found is None:
            dtype = dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[kind])
            found = known[x64] = ShapedArray((), dtype, kind is not bool)
        return found

    return rule


for _kind in (int, float, complex, bool):
    register_aval_of(_kind, _scalar(_kind))
register_aval_of(Dimension, _scalar(int))


def _numpy(x: np.ndarray | np.generic) -> ShapedArray:
    if "numpy.ma" in sys.modules and isinstance(
        x, np.ma.MaskedArray
    ):  # numpy.ma takes 15 ms to load
        raise ValueError(
            "numpy masked arrays are not supported as direct inputs to JAX functions. Use "
            f"arr.filled() to convert the value to a standard numpy array.\n    value: {x!r:.200}"
        )
    dtype = x.dtype
    if dtype in dtypes.ALL_SET:
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(dtype))
    if dtype in (float0, dtypes.string):
        return ShapedArray(x.shape, dtype)
    order = (
        ""
        if dtype.isnative
        else (
            "\n  Its bytes are not in the order of this machine: "
            "x.astype(x.dtype.newbyteorder('='))."
        )
    )
    raise TypeError(
        f"Dtype {dtype} is not a valid JAX array type. Only arrays of numeric types are supported "
        f"by JAX.\n    value: {x!r:.200}{order}"
    )


register_aval_of(np.ndarray, _numpy)
register_aval_of(np.generic, _numpy)
