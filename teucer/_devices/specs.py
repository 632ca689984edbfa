"""PartitionSpecs: how the axes of an array lie over named mesh axes."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

from teucer._xla.client import jaxlib_version

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Partition

# Whether specs and meshes have the forms of JAX 0.12.
AS_IN_0_12 = tuple(map(int, jaxlib_version.split(".")[:2])) >= (0, 12)


class DuplicateSpecError(Exception):
    """A mesh axis partitions two axes of an array."""

    __module__ = "teucer.errors"

    def naming(self, what: str) -> DuplicateSpecError:
        """The same message with the user's name for the spec: in_shardings, say."""
        return DuplicateSpecError(str(self).replace("NamedSharding spec", what, 1))


@final
class _Unconstrained:
    """In a PartitionSpec: the compiler may partition this axis as it likes."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class UnreducedKind(enum.Enum):
    """How values that are still to be combined over mesh axes will be."""

    sum = 1
    max = 2
    min = 3


@final
class PartitionSpec:
    """How an array's axes lie over mesh axes: for each, a mesh axis, a tuple of them, None, or
    UNCONSTRAINED.

    Axes that are left out at the end are not partitioned.
    unreduced: mesh axes over which the array is still to be summed, or combined otherwise, as
    unreduced_kind says. reduced: those over which its cotangent will be.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ("partitions", "reduced", "unreduced", "unreduced_kind", "_hash")
    UNCONSTRAINED: ClassVar[Any] = UNCONSTRAINED
    partitions: tuple[Any, ...]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    unreduced_kind: UnreducedKind | None
    _hash: int

    # Not __init__: pickles of JAX make objects by __new__ alone.
    def __new__(
        cls,
        *partitions: object,
        unreduced: Iterable[object] = frozenset(),
        reduced: Iterable[object] = frozenset(),
        unreduced_kind: UnreducedKind | None = None,
    ) -> PartitionSpec:
        if unreduced_kind is not None:
            check_kind(unreduced, unreduced_kind)
        self = object.__new__(cls)
        self.partitions = tuple(map(_canonical_entry, partitions))
        if unreduced or reduced:
            _check_sums(unreduced, reduced)
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)
        self.unreduced_kind = kind_of(self.unreduced, unreduced_kind)
        self._hash = hash((self.partitions, self.unreduced, self.reduced, self.combined))
        named = set(self.names())
        for what in ("unreduced", "reduced"):
            if named & getattr(self, what):
                raise ValueError(
                    f"partitions cannot overlap with {what} axes passed to PartitionSpec. Got "
                    f"partitions: {self.partitions} and {what} axes: {getattr(self, what)}"
                )
        return self

    @property
    def combined(self) -> str:
        """ "max" or "min" where parts are to be combined so; empty for sums, and where there are
        none."""
        kind = self.unreduced_kind
        return "" if kind is None or kind is UnreducedKind.sum else kind.name

    def names(self) -> list[Any]:
        """The mesh axes that it names, in order."""
        return [name for entry in self.partitions for name in entry_names(entry)]

    def update(
        self,
        partitions: Iterable[object] | None = None,
        unreduced: Iterable[object] | None = None,
        reduced: Iterable[object] | None = None,
        unreduced_kind: UnreducedKind | None = None,
    ) -> PartitionSpec:
        """The spec with some of its fields changed. If it has no unreduced axes, `unreduced_kind`
        is None."""
        unreduced = self.unreduced if unreduced is None else unreduced
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=unreduced,
            reduced=self.reduced if reduced is None else reduced,
            unreduced_kind=unreduced_kind or (self.unreduced_kind if unreduced else None),
        )

    def to_ct_spec(self) -> PartitionSpec:
        """The spec of cotangents: an axis that is unreduced in values is reduced in cotangents, and
        the reverse.

        Raises NotImplementedError where a maximum or minimum is still to be taken.
        """
        tangent = self.to_tangent_spec()
        return PartitionSpec(*self.partitions, unreduced=tangent.reduced, reduced=tangent.unreduced)

    def to_tangent_spec(self) -> PartitionSpec:
        """The spec of tangents: the same.

        Raises NotImplementedError where a maximum or minimum is still to be taken.
        """
        if self.combined:
            raise NotImplementedError(
                f"The {self.combined} over mesh axes {set(self.unreduced)} is still to be taken of "
                "a value that is differentiated, and such values have no tangents.\n"
                f"    {self}\n  Give the reduction an out_sharding without unreduced axes, or take "
                "it first, with jax.reshard."
            )
        return self

    def to_lo(self) -> list[PartitionSpec]:
        """The specs of the arrays that an array of this spec consists of: itself."""
        return [self]

    def count(self, value: object) -> int:
        """How often an entry occurs."""
        return self.partitions.count(_canonical_entry(value))

    def index(self, value: object) -> int:
        """Where an entry occurs first."""
        return self.partitions.index(_canonical_entry(value))

    def __getitem__(self, i: int | slice) -> Any:
        return self.partitions[i]

    def __iter__(self) -> Iterator[Any]:
        if self.unreduced or self.reduced:
            raise ValueError(
                "Using *pspec is dangerous when PartitionSpec has non-empty unreduced/reduced set. "
                f"Please use *spec.partitions\n    spec: {self}"
            )
        return iter(self.partitions)

    def __contains__(self, entry: object) -> bool:
        return entry in self.partitions

    def __len__(self) -> int:
        return len(self.partitions)

    def __add__(self, other: object) -> PartitionSpec:
        if not isinstance(other, PartitionSpec | tuple):
            return NotImplemented
        return self.update(partitions=(*self.partitions, *other))

    def __radd__(self, other: object) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        return self.update(partitions=(*other, *self.partitions))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartitionSpec):
            return (self.partitions, self.unreduced, self.reduced, self.unreduced_kind) == (
                other.partitions,
                other.unreduced,
                other.reduced,
                other.unreduced_kind,
            )
        return NotImplemented  # also for tuples, as in JAX

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _remake_spec, (self.partitions, self.unreduced, self.reduced, self.unreduced_kind)

    def __deepcopy__(self, memo: dict[int, object]) -> PartitionSpec:
        return self

    def __repr__(self) -> str:
        inner = repr(self.partitions)[1:-1]
        sets = [
            f"{name}={set(axes)!r}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        if self.unreduced and AS_IN_0_12:
            sets.append(f"unreduced_kind={self.combined or 'sum'}")
        return f"P({', '.join(filter(None, [inner.rstrip(',') if sets else inner, *sets]))})"


def _remake_spec(
    partitions: Iterable[object],
    unreduced: Iterable[object],
    reduced: Iterable[object],
    unreduced_kind: UnreducedKind | None = None,
) -> PartitionSpec:
    return PartitionSpec(
        *partitions, unreduced=unreduced, reduced=reduced, unreduced_kind=unreduced_kind
    )


def _check_sums(unreduced: Iterable[object], reduced: Iterable[object]) -> None:
    """Check that two sets name mesh axes, none in both."""
    for what, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if axes and not isinstance(axes, set | frozenset):
            raise TypeError(
                f"{what} argument of PartitionSpec should of type `frozenset` or `set`. Got type "
                f"{type(axes)}\n    {what}: {axes!r:.100}\n  Write {what}={{'x'}}."
            )
        if axes and None in axes:
            raise ValueError(
                f"{what} cannot contain None. All elements in {what} should refer to the mesh "
                f"axes.\n    {what}: {set(axes)}"
            )
    if unreduced and reduced and set(unreduced) & set(reduced):
        raise ValueError(
            "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got unreduced: "
            f"{unreduced} and reduced: {reduced}"
        )


def _canonical_entry(entry: object) -> Any:
    """A tuple of one axis becomes that axis, an empty tuple None."""
    if isinstance(entry, list | tuple):
        for inner in entry:
            if isinstance(inner, list | tuple):
                raise ValueError(
                    "A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
                    f"{entry} and the nested tuple: {inner}"
                )
        return None if not entry else entry[0] if len(entry) == 1 else tuple(entry)
    return entry


def entry_names(entry: object) -> tuple[Any, ...]:
    """The mesh axes of one entry of a spec."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def kind_of(
    unreduced: frozenset[object], kind: UnreducedKind | None = None
) -> UnreducedKind | None:
    """How parts over these axes are to be combined: by their sum unless another is given; None
    where there are no axes."""
    return kind or UnreducedKind.sum if unreduced else None


def kind_within(aval: Aval, axes: frozenset[object]) -> UnreducedKind | None:
    """How parts of values of a type are to be combined over some of its unreduced axes."""
    return aval.partition.spec.unreduced_kind if axes else None


def check_kind(unreduced: Iterable[object], kind: UnreducedKind) -> None:
    if not isinstance(kind, UnreducedKind):
        raise TypeError(
            "Expected unreduced_kind to be of type `jax.sharding.UnreducedKind` but got "
            f"{type(kind)}"
        )
    if not unreduced:
        raise ValueError(
            "`unreduced_kind` should be `None` when `unreduced` is an empty set. Got "
            f"unreduced_kind={kind!r} and unreduced={unreduced!r}"
        )
    if kind is not UnreducedKind.sum and not AS_IN_0_12:
        raise NotImplementedError(
            f"unreduced_kind: arrays still to be combined by {kind.name} need jaxlib 0.12; "
            f"{jaxlib_version} is installed.\n  Take the reduction over the mesh axis first "
            "(lax.pmax, lax.pmin)."
        )


# How a result lies over a mesh: a sharding, or its spec over the mesh in force. None leaves it to
# the operands.
OutSharding: TypeAlias = "Partition | PartitionSpec | None"
