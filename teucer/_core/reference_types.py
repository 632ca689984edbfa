"""The type of references, and the effects of a program on references among its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np

from teucer._base import memo
from teucer._core.provided import provided
from teucer._core.types import (
    Aval,
    ShapedArray,
    aval_of,
    aval_rules,
    is_valid_type,
    register_aval_of,
)
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Value
    from teucer._xla.pytree import PyTreeDef


# Objects that are never references. Their types may be refused, with an error of its own.
_HOST = np.ndarray, np.generic, int, float, complex


def may_alias(xs: Sequence[Value]) -> bool:
    """Whether a reference, or a value that changes, is among the values. Callers then look whether
    one of them was given twice, and refuse it."""
    for x in xs:
        kind = type(x)
        if not (kind is ArrayImpl or isinstance(x, _HOST)):
            rule = aval_rules.get(kind)
            if rule is not None:
                aval = rule(x)
            elif is_valid_type(x):
                aval = aval_of(x)
            else:
                continue
            if type(aval) is RefType or aval.has_qdd:
                return True
    return False


def is_part(x: object) -> bool:
    """Whether a value is a part of a reference, `ref.at[...]`, which is a node of trees."""
    return getattr(type(x), "is_part", False)


def parts_in(tree: PyTreeDef) -> bool:
    """Whether a tree has parts of references, `ref.at[...]`, among its nodes."""
    data = tree.node_data()
    if data is None:
        return False
    return getattr(data[0], "is_part", False) or any(map(parts_in, tree.children()))


def refuse_parts(tree: PyTreeDef, what: str) -> None:
    """Raise TypeError for parts of references where axes are mapped over: a part has others than
    its reference."""
    if parts_in(tree):
        raise TypeError(
            f"{what}, TransformedRefs are not allowed, but got a TransformedRef, ref.at[...].\n"
            "  Its axes are not those of its reference. Pass the reference, and take the part "
            "within the function."
        )


@final
class RefType(Aval):
    """The type of a reference to an array of type `inner`.

    memory_space: where a kernel keeps the array, None for the device's own memory.
    kind: None, or 'no_grad_no_remat': written values have no derivative, and rematerialisation does
    not write again.

    >>> import numpy as np
    >>> RefType(ShapedArray((3,), np.dtype("float32")))
    Ref{float32[3]}
    """

    __slots__ = (
        "inner",
        "memory_space",
        "kind",
        "shape",
        "dtype",
        "weak_type",
        "ndim",
        "extended",
        "symbolic",
        "is_high",
    )
    _interned: ClassVar[memo.Interned[RefType]] = memo.Interned()

    inner: ShapedArray
    memory_space: Any
    kind: str | None
    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool
    ndim: int

    def __new__(
        cls, inner: ShapedArray, memory_space: object = None, kind: str | None = None
    ) -> RefType:
        key = (inner, memory_space, kind)
        self = cls._interned.get(key)
        if self is None:
            if not cls._interned.refs:
                provided.references()  # gives references and what stands for them their methods
            self = super().__new__(cls)
            self.inner, self.memory_space, self.kind = inner, memory_space, kind
            self.is_high = inner.is_high
            if not self.is_high:
                self.shape, self.dtype, self.weak_type, self.ndim = (
                    inner.shape,
                    inner.dtype,
                    inner.weak_type,
                    inner.ndim,
                )
            self.extended, self.symbolic = False, inner.symbolic
            self = cls._interned.keep(key, self)
        return self

    def __reduce__(self) -> Any:
        return RefType, (self.inner, self.memory_space, self.kind)

    @property
    def inner_aval(self) -> ShapedArray:
        """The type of the array, under JAX's name."""
        return self.inner

    @property
    def size(self) -> Any:
        return self.inner.size

    @property
    def partition(self) -> Any:
        return self.inner.partition

    @property
    def placed(self) -> bool:
        return self.inner.placed

    @property
    def sharding(self) -> Any:
        return self.inner.sharding

    @property
    def unreduced(self) -> frozenset[Any]:
        return self.inner.unreduced

    @property
    def reduced(self) -> frozenset[Any]:
        return self.inner.reduced

    @property
    def vma(self) -> frozenset[str]:
        return self.inner.vma

    def update(self, **changes: Any) -> RefType:
        """The type with some of its fields changed, or fields of the array's type."""
        own = {"memory_space": self.memory_space, "kind": self.kind}
        own.update({name: changes.pop(name) for name in list(changes) if name in own})
        inner = changes.pop("inner_aval", self.inner)
        return RefType(inner.update(**changes) if changes else inner, **own)

    def __getattr__(self, name: str) -> Any:
        # A reference to a value of a high type has that type's own attributes.
        if name in ("shape", "dtype", "weak_type", "ndim"):
            return getattr(self.inner, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def lo_ty(self) -> list[Any]:
        if not self.is_high:
            return [self]
        return [RefType(low, self.memory_space, self.kind) for low in self.inner.lo_ty()]

    def lower_val(self, ref: Any) -> list[Any]:
        return list(self.inner.lower_val(ref._refs)) if self.is_high else [ref]

    def raise_val(self, *refs: Value) -> Any:
        return HighRef(self, self.inner.raise_val(*refs)) if self.is_high else refs[0]

    def tangent_aval(self) -> RefType:
        return RefType(self.inner.tangent_aval(), self.memory_space, self.kind)

    def str_short(self, short_dtypes: bool = False) -> str:
        text = self.inner.str_short(short_dtypes)
        return (
            f"Ref{{{text}}}"
            if self.memory_space is None
            else f"MemRef<{self.memory_space}>{{{text}}}"
        )

    def __repr__(self) -> str:
        return self.str_short()


@final
class HighRef:
    """A reference to a value of a high type: one reference to each low value in it."""

    __slots__ = ("_refs", "aval")

    def __init__(self, aval: RefType, refs: Sequence[Value]) -> None:
        self.aval, self._refs = aval, refs

    def __repr__(self) -> str:
        return f"Ref({self._refs!r})"


register_aval_of(HighRef, lambda ref: ref.aval)


class RefEffect:
    """The effect of a program that reads, replaces or adds to the array of a reference, its input.

    index: in effects of an equation, the number of the operand; in those of a jaxpr, the variable.
    """

    __slots__ = ("index",)
    index: Any
    ordered = False
    # Whether, of several such effects on one input, only the last counts.
    is_last = False

    def __init__(self, index: object) -> None:
        self.index = index

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.index == other.index

    def __hash__(self) -> int:
        return hash((type(self), self.index))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index})"

    def at(self, index: object) -> RefEffect:
        """The same effect on another input."""
        return type(self)(index)


@final
class ReadEffect(RefEffect):
    """The effect of reading the array."""

    __slots__ = ()


@final
class WriteEffect(RefEffect):
    """The effect of replacing elements of the array."""

    __slots__ = ()


@final
class AccumEffect(RefEffect):
    """The effect of adding to elements of the array."""

    __slots__ = ()


def is_reference(aval: Aval) -> bool:
    """Whether a type is the type of a reference."""
    return type(aval) is RefType


def refuse(primitive: Primitive, avals: Sequence[Aval]) -> None:
    """Raise TypeError if an operand of a primitive that takes arrays is a reference."""
    for i, aval in enumerate(avals):
        if type(aval) is RefType:
            raise TypeError(
                f"{primitive}: operand {i} is a reference, {aval.str_short(True)}, where an array "
                "is wanted.\n  Read the array: ref[...]."
            )


class Touched(NamedTuple):
    """Numbers of the operands whose arrays are read, and of those whose arrays are changed."""

    read: frozenset[int]
    written: frozenset[int]


def touched(effects: Iterable[object]) -> Touched:
    """The effects of an equation on references."""
    refs = [e for e in effects if isinstance(e, RefEffect) and not e.is_last]
    return Touched(
        frozenset(e.index for e in refs if type(e) is not WriteEffect),
        frozenset(e.index for e in refs if type(e) is not ReadEffect),
    )


def at_operands(
    effects: frozenset[object], invars: Sequence[object], offset: int = 0
) -> frozenset[Any]:
    """The effects of a jaxpr as effects of an equation whose operands, from `offset` on, are the
    inputs `invars`."""
    if not effects or not any(isinstance(e, RefEffect) for e in effects):
        return effects
    number = {v: offset + i for i, v in enumerate(invars)}
    return frozenset(e.at(number[e.index]) if isinstance(e, RefEffect) else e for e in effects)


def at_inputs(eqns: Iterable[Eqn], inputs: Sequence[object]) -> frozenset[Any]:
    """The effects that a jaxpr with these equations and inputs has.

    Effects on references that the jaxpr makes itself are left out.
    """
    known, found, last = set(inputs), set(), {}
    for eqn in eqns:
        for e in eqn.effects:
            if not isinstance(e, RefEffect):
                found.add(e)
            elif eqn.invars[e.index] in known:
                own = e.at(eqn.invars[e.index])
                if e.is_last:
                    last[own.index] = own
                else:
                    found.add(own)
    return frozenset((*found, *last.values()))
