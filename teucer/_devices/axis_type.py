"""How values of a type vary over the manual mesh axes of `shard_map`, as an object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, final

from teucer._base import memo
from teucer._core.provided import provided
from teucer._devices import specs

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


@final
class ManualAxisType:
    """How a value lies over manual mesh axes: those over which it varies, is still to be summed (or
    combined as unreduced_kind says), or its cotangent is.

    Equal ones are one object. Raises ValueError if an axis is in two of the sets.

    >>> ManualAxisType(varying={"x"}, unreduced={"y"}).to_ct_mat().reduced
    frozenset({'y'})
    """

    __slots__ = ("__weakref__", "reduced", "unreduced", "unreduced_kind", "varying")
    _made: ClassVar[memo.Interned[ManualAxisType]] = memo.Interned()
    varying: frozenset[Any]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    unreduced_kind: specs.UnreducedKind | None

    def __new__(
        cls,
        *,
        varying: Iterable[object] = frozenset(),
        unreduced: Iterable[object] = frozenset(),
        reduced: Iterable[object] = frozenset(),
        unreduced_kind: specs.UnreducedKind | None = None,
    ) -> ManualAxisType:
        if unreduced_kind is not None:
            specs.check_kind(unreduced, unreduced_kind)
        sets = (frozenset(varying), frozenset(unreduced), frozenset(reduced))
        key = (*sets, specs.kind_of(sets[1], unreduced_kind))
        found = cls._made.get(key)
        if found is None:
            named = dict(zip(("varying", "unreduced", "reduced"), sets, strict=True))
            for one, other in (
                ("varying", "unreduced"),
                ("varying", "reduced"),
                ("unreduced", "reduced"),
            ):
                if named[one] & named[other]:
                    raise ValueError(
                        f"{one} and {other} cannot have common mesh axes. Got "
                        f"{one}={set(named[one])} and {other}={set(named[other])}"
                    )
            found = super().__new__(cls)
            for name, axes in named.items():
                object.__setattr__(found, name, axes)
            object.__setattr__(found, "unreduced_kind", key[-1])
            found = cls._made.keep(key, found)
        return found

    def said(self, sharding: object, ndim: int) -> tuple[frozenset[Any], Any]:
        """The fields of a type for this kind of variation: the axes over which it varies, and the
        sharding with sums. None: over the mesh in force."""
        if self.unreduced or self.reduced:
            whole: Any = provided.whole_sharding(ndim) if sharding is None else sharding
            spec = whole.spec.update(
                unreduced=self.unreduced, reduced=self.reduced, unreduced_kind=self.unreduced_kind
            )
            sharding = whole.update(spec=spec)
        return self.varying, sharding

    @property
    def vur(self) -> frozenset[Any]:
        """All axes that it says something about."""
        return self.varying | self.unreduced | self.reduced

    @property
    def empty(self) -> bool:
        """Whether the object names no axis: values are the same on all devices."""
        return not self.vur

    def invarying(self, mesh: Any) -> frozenset[Any]:
        """The manual axes of a mesh over which the value is the same."""
        return frozenset(mesh.manual_axes) - self.vur

    def update(self, **kwargs: Any) -> ManualAxisType:
        """With some of the sets changed."""
        sets = {
            "varying": self.varying,
            "unreduced": self.unreduced,
            "reduced": self.reduced,
            **kwargs,
        }
        if sets["unreduced"]:
            sets.setdefault("unreduced_kind", self.unreduced_kind)
        return ManualAxisType(**sets)

    def to_ct_mat(self) -> ManualAxisType:
        """The type of the cotangent: if one sum is still to be taken, the other is already
        taken."""
        spec = specs.PartitionSpec(
            unreduced=self.unreduced, reduced=self.reduced, unreduced_kind=self.unreduced_kind
        ).to_ct_spec()
        return ManualAxisType(varying=self.varying, unreduced=spec.unreduced, reduced=spec.reduced)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"ManualAxisType cannot be changed: {name}. Use update.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"ManualAxisType cannot be changed: {name}. Use update.")

    def __deepcopy__(self, memo: dict[int, object]) -> ManualAxisType:
        return self

    def __reduce__(self) -> Any:
        return _remake, (self.varying, self.unreduced, self.reduced, self.unreduced_kind)

    def __repr__(self) -> str:
        kind = f", unreduced_kind={self.unreduced_kind}" if specs.AS_IN_0_12 else ""
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, "
            f"reduced={self.reduced}{kind})"
        )


def _remake(
    varying: Iterable[object],
    unreduced: Iterable[object],
    reduced: Iterable[object],
    unreduced_kind: specs.UnreducedKind | None = None,
) -> ManualAxisType:
    return ManualAxisType(
        varying=varying, unreduced=unreduced, reduced=reduced, unreduced_kind=unreduced_kind
    )


def manual_type(aval: ShapedArray) -> ManualAxisType:
    """How an array of this type varies over manual mesh axes."""
    manual = frozenset() if aval.partition is None else aval.partition.mesh.manual_axes
    unreduced = aval.unreduced.intersection(manual)
    return ManualAxisType(
        varying=aval.vma,
        unreduced=unreduced,
        reduced=aval.reduced.intersection(manual),
        unreduced_kind=specs.kind_within(aval, unreduced),
    )
