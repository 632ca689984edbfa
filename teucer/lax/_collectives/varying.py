"""Types of manual mesh axes (`shard_map`).

Casts between such types, and the collectives that change them.

Along a manual axis a value varies, is the same everywhere, is parts of a sum that is still to be
taken (unreduced), or is the same while its cotangent is such parts (reduced).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

from teucer._core import axes as named
from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._devices import meshes, partition
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec, UnreducedKind
from teucer.lax._collectives import lowering
from teucer.lax._collectives.extremes import extreme_of_devices
from teucer.lax._costs import CHEAP, STILL
from teucer.lax._structure import Linear

if TYPE_CHECKING:
    from collections.abc import Hashable

    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, Axes, AxisName, Dims, Params, Value
    from teucer._lower.context import Context


def names_of(axis_name: AxisName) -> tuple[Any, ...]:
    """One or several names of axes as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def size_of(names: Sequence[Any], op: str = "the collective") -> Any:
    """The number of elements of the named axes of `op`.

    Raises NameError for a name that no axis in force has.
    """
    return math.prod(named.axis_size(name, op) for name in names)


class Collective(Primitive):
    """An operation between the elements of named axes."""

    __slots__ = ()
    cost = STILL

    def names(self, params: Any) -> tuple[Any, ...]:
        """The axes that a call uses."""
        return names_of(params["axis_name"])

    def uses_axis(self, name: object, params: Params) -> bool:
        return name is not None and name in self.names(params)

    def evaluate(self, *args: Any, **params: object) -> NoReturn:
        self.types(*map(typeof, args), **params)
        raise NotImplementedError(
            f"{self.name}: a collective over the named axes {self.names(params)} was called on "
            "values that are computed at once, outside the function that is mapped over these "
            "axes.\n  Call it in the mapped function itself."
        )


@dialects.casts.mark
class Cast(Collective, Linear):
    """A collective that is linear, of one operand, and the same for each element of a batch."""

    __slots__ = ()

    def names(self, params: Params) -> tuple[Any, ...]:
        return params["axes"]

    shard = partition.aligned

    def types(self, x: ShapedArray, *, axes: Axes) -> Any:
        size_of(axes)
        return (x,)

    def batch(self, axis: Any, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return self.call(*args, **params), dims


@final
class PVary(Cast):
    """x, whose type says that it may vary over more manual axes."""

    __slots__ = ()
    name = "pvary"
    cost = CHEAP

    def types(self, x: ShapedArray, *, axes: Axes) -> Any:
        return (x,)

    @dialects.varies.rule
    def varies(self, vma: frozenset[str], x: Array, *, axes: Axes) -> Any:
        return vma | set(axes)

    def lower(self, ctx: Context, x: Value, *, axes: Axes) -> Any:
        return (x,)

    def transpose(self, cts: Any, x: Any, *, axes: Any) -> Any:
        new = tuple(name for name in axes if name not in x.aval.vma)
        return psum_invariant_p.call(*cts, axes=new) if new else tuple(cts)


@final
class PSumInvariant(Cast):
    """The sum over manual axes over which x varies, and the result does not."""

    __slots__ = ()
    name = "psum_invariant"

    def types(self, x: ShapedArray, *, axes: Sequence[Hashable]) -> Any:
        size_of(axes)
        if not set(axes) <= x.vma:
            raise ValueError(
                f"psum_invariant: x does not vary over {axes}.\n"
                f"    x: {x.str_short(short_dtypes=True)}"
            )
        return (x,)

    @dialects.varies.rule
    def varies(self, vma: Any, x: ShapedArray, *, axes: Any) -> Any:
        return vma - set(axes)

    def lower(self, ctx: Any, x: Any, *, axes: Any) -> Any:
        return (lowering.all_reduced(ctx, x, "add", axes),)

    def transpose(self, cts: Any, x: Any, *, axes: Any) -> Any:
        return pvary_p.call(*cts, axes=axes)


class SumCast(Cast):
    """A cast or collective between kinds of variation over manual axes: x varies, is the same
    everywhere, is still to be summed (unreduced), or its cotangent is (reduced).

    before, after: the kinds of the operand and of the result over the axes. op: the
    collective of devices, or None where the parts stay as they are. kind: how unreduced parts of
    the operand are combined. The transpose goes the other way, with unreduced and reduced
    exchanged; that of a maximum or minimum is never asked for (`PartitionSpec.to_ct_spec`).
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        before: str | None,
        after: str | None,
        op: str | None = None,
        kind: UnreducedKind = UnreducedKind.sum,
    ) -> None:
        self.name, self.before, self.after, self.op, self.kind = name, before, after, op, kind
        self.cost = STILL if op else CHEAP

    def types(self, x: ShapedArray, *, axes: Axes) -> Any:
        size_of(axes)
        if any(state_of(x, name) != self.before for name in axes):
            raise ValueError(
                f"{self.name} is a {_STATES[self.before]}->{_STATES[self.after]} collective, and "
                f"x is not {_STATES[self.before].lower()} over all of the axes {axes}.\n"
                f"    x: {x.str_short(short_dtypes=True)}"
            )
        if self.before == "unreduced":
            check_kind(self.name, x, self.kind)
        return (x.update(sharding=with_sums(x, axes, self.after)),)

    def shard(self, x: ShapedArray, **params: object) -> None:
        return None

    @dialects.varies.rule
    def varies(self, vma: Any, x: ArrayLike, *, axes: Any) -> Any:
        return vma | set(axes) if self.after == "varying" else vma - set(axes)

    def lower(self, ctx: Any, x: Any, *, axes: Any) -> Any:
        if self.op is None:
            return (x,)
        reduced = lowering.all_reduced if self.op == "add" else extreme_of_devices
        return (reduced(ctx, x, self.op, axes),)

    def transpose(self, cts: Any, x: Any, *, axes: Any) -> Any:
        return _CASTS[
            _EXCHANGED.get(self.after, self.after), _EXCHANGED.get(self.before, self.before)
        ].call(*cts, axes=axes)


_STATES = {"varying": "Varying", "unreduced": "Unreduced", "reduced": "Reduced", None: "Invarying"}
_EXCHANGED: dict[str | None, str] = {"unreduced": "reduced", "reduced": "unreduced"}


def state_of(aval: ShapedArray, name: Hashable) -> str | None:
    """The state of a type over a manual axis: "varying", "unreduced", "reduced", or None if values
    are the same everywhere."""
    return next(
        (
            what
            for what, axes in (
                ("varying", aval.vma),
                ("unreduced", aval.unreduced),
                ("reduced", aval.reduced),
            )
            if name in axes
        ),
        None,
    )


def with_sums(aval: ShapedArray, names: Sequence[Any], state: str | None) -> Any:
    """The type's sharding with the axes `names` in `state`: unreduced, reduced or neither."""
    own = aval.partition or NamedSharding(
        meshes.get_abstract_mesh(), PartitionSpec(*[None] * aval.ndim)
    )
    sums: dict[str, Any] = {
        what: axes - set(names) | (set(names) if what == state else set())
        for what, axes in (("unreduced", own.spec.unreduced), ("reduced", own.spec.reduced))
    }
    return own.with_spec(own.spec.update(**sums))


pvary_p = PVary()
psum_invariant_p = PSumInvariant()
reduced_vary_cast_p = SumCast("reduced_vary_cast", "reduced", "varying")
vary_unreduced_cast_p = SumCast("vary_unreduced_cast", "varying", "unreduced")
preduced_p = SumCast("preduced", None, "reduced")
unreduced_psum_p = SumCast("unreduced_psum", "unreduced", None, "add")
unreduced_pmax_p = SumCast("unreduced_pmax", "unreduced", None, "maximum", UnreducedKind.max)
unreduced_pmin_p = SumCast("unreduced_pmin", "unreduced", None, "minimum", UnreducedKind.min)
_CASTS = {
    (p.before, p.after): p
    for p in (reduced_vary_cast_p, vary_unreduced_cast_p, preduced_p, unreduced_psum_p)
}


_TAKING = {p.kind: p for p in (unreduced_psum_p, unreduced_pmax_p, unreduced_pmin_p)}


def taking(aval: ShapedArray) -> SumCast:
    """The collective that combines the unreduced parts of values of a type."""
    return _TAKING[aval.partition.spec.unreduced_kind]


def check_kind(name: str, aval: ShapedArray, kind: UnreducedKind) -> None:
    """Raise ValueError unless the unreduced parts of the type are combined by `kind`."""
    own = aval.partition.spec.unreduced_kind
    if own is not kind:
        raise ValueError(
            f"{name} cannot accept args with unreduced_kind={own}. Expected unreduced_kind={kind}\n"
            f"    x: {aval.str_short(short_dtypes=True)}"
        )


def cast(x: Any, names: frozenset[Any], to: str) -> Any:
    """x with a type in which the manual axes `names` are `to`: varying, unreduced or reduced.

    Raises ValueError where no cast does this: the devices would need other values.
    """
    aval = typeof(x)
    by_state: dict[str | None, list[Any]] = {}
    for name in sorted(names, key=str):
        by_state.setdefault(state_of(aval, name), []).append(name)
    for state, axes in by_state.items():
        primitive = pvary_p if (state, to) == (None, "varying") else _CASTS.get((state, to))
        if primitive is None and to == "unreduced":
            raise ValueError(
                "vary_unreduced_cast is a Varying->Unreduced collective, and only accepts inputs "
                f"that are varying. Unsupported pcast from={state or 'invarying'}, to={to!r}.\n"
                f"    x: {aval.str_short(short_dtypes=True)}, axes: {tuple(axes)}"
            )
        if primitive is None:
            raise ValueError(
                f"Unsupported pcast from={state or 'invarying'}, to={to!r}\n"
                f"    x: {aval.str_short(short_dtypes=True)}, axes: {tuple(axes)}\n"
                "  Sum or gather it first: jax.lax.psum, psum_scatter, all_gather."
            )
        (x,) = primitive.call(x, axes=tuple(axes))
    return x


def one_state(
    name: str, aval: ShapedArray, names: Sequence[object], manual: frozenset[str]
) -> str | None:
    """How values of a type vary over the manual axes among `names`.

    Raises ValueError if they vary differently over two of these axes.
    """
    states = {state_of(aval, axis) for axis in names if axis in manual}
    if len(states) > 1:
        raise ValueError(
            f"jax.lax.{name} can only accept axis_name which corresponds to one of varying, "
            "unreduced, reduced or invarying state of the input. Got input type: "
            f"{aval.str_short()}, axes: {tuple(names)} and input state: "
            f"{{{', '.join(repr(s or 'invarying') for s in _STATES if s in states)}}}\n"
            "  Name axes over which x varies alike, or cast it with jax.lax.pcast(x, axes, "
            "to='varying')."
        )
    return next(iter(states), None)
