"""Dialects' rules for primitives: tables by class of primitive.

A dialect is a feature that few programs use: references, high types, padded sizes, types with
placement, typed keys. Its passes are modules of their own. Its rule for a primitive stands beside
the other rules of the primitive, as a method marked with the table. `Primitive` has no method for
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

from teucer._core.memory import MemorySpace

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Value


# What a jaxpr may have (`Jaxpr.dialects`). A pass removes these two before it is lowered.
HIGH, REFERENCES = "high types", "references"
# These stay, and lowering writes them: types in the host's memory; and sums over mesh axes that are
# still to be taken, in values or in their cotangents.
IN_HOST_MEMORY, SUMS = "host memory", "sums"

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


@final
class Table(dict[type, Any]):
    """A dialect's table of primitives, by their class: a rule, or a mark.

    A class without an entry inherits the entry of its nearest base class, or has None.

    >>> from teucer._core.primitive import Primitive
    >>> halved = Table()
    >>> class Add(Primitive):
    ...     @halved.rule
    ...     def halved(self, x, y):
    ...         return x / 2 + y / 2
    >>> halved.of(Add())(1, 3)
    2.0
    >>> halved.of(Primitive()) is None
    True
    """

    __slots__ = ("own",)

    def __init__(self) -> None:
        # The entries; the table itself has those that classes inherit, too. A primitive may have an
        # entry of its own.
        self.own: dict[object, Any] = {}

    def __missing__(self, kind: type) -> Any:
        found = None
        for base in kind.__mro__:
            if base in self.own:
                found = self.own[base]
                break
        self[kind] = found
        return found

    def rule(self, method: F) -> F:
        """A decorator in the body of a class: the method is the rule of its primitives."""
        return cast("F", _Entry(self, method))

    def mark(self, kind: C) -> C:
        """A decorator of a class: its primitives are of this kind."""
        self.own[kind] = True
        return kind

    def of(self, primitive: Primitive) -> Any:
        """The rule of a primitive, as a bound method; None if it has none."""
        found = self.own.get(primitive) or self[type(primitive)]
        return None if found is None else found.__get__(primitive)


@final
class _Entry:
    """A method that enters itself in a table when its class is made."""

    def __init__(self, table: Table, method: Callable[..., Any]) -> None:
        self.table, self.method = table, method

    def __set_name__(self, kind: type, name: str) -> None:
        self.table.own[kind] = self.method
        setattr(kind, name, self.method)


def kinds_of(aval: Aval) -> Iterator[str]:
    """Dialects of types that say where values lie, besides mesh axes."""
    aval = getattr(aval, "inner", aval)  # of a reference
    if aval.memory_space is not MemorySpace.Device:
        yield IN_HOST_MEMORY
    if aval.unreduced or aval.reduced:
        yield SUMS


# Padded sizes (`_dynamic.padding`).
# padded(sizes, args, avals, outs, **params) -> outs: the primitive on buffers that are longer than
# their arrays. Without it dynamic dimensions are refused, since elements that are not of the array
# would come into the result.
padded = Table()


@padded.rule
def through(
    primitive: Primitive,
    sizes: Any,
    args: Sequence[Value],
    avals: Sequence[Aval],
    outs: Sequence[Value],
    **params: object,
) -> Any:
    """The rule `padded` of a primitive that lets no elements meet: it acts on the buffers."""
    return primitive.call(*args, **sizes.bounded(params))


# High types (`_dialects.high.lowering`).
# on_low(operands, avals, **params) -> outs: a call with operands of high types, made with the
# values that these consist of.
on_low = Table()
# Operations of libraries on high types, and those that consist of several: lowering evaluates them.
high = Table()

# References (`_dialects.references.discharge`).
# discharge(*operands, **params) -> outs: on cells in the place of references.
discharge = Table()
# on_values(operands, groups, **params) -> outs, {group: array}: a call with arrays in the place of
# references.
on_values = Table()
# text(printer, eqn, used) -> the equation, where jaxprs show it in a way of its own.
text = Table()
# Operands may be references; primitives with bodies may have such operands anyhow.
takes_references = Table()
# Results are references: transformations ask its rules though no operand takes part.
makes_references = Table()
# Its rules are Python functions, which may read and write references themselves.
keeps_references = Table()
# Results are references of tangents, which are unknown to partial evaluation.
deferred = Table()
# Its transpose rule is a user's function. It is called even where no cotangent comes, since its
# results need not be linear (running statistics, say).
pulls_zeros = Table()

# Types that say where an array lies (`_devices.partition`).
# varies(vma, *avals, **params) -> the manual mesh axes over which results vary, where these are not
# `vma`, the union of those of the operands.
varies = Table()
# Its operands may vary over different manual mesh axes, and are not cast to vary over all.
casts = Table()
# Marks: cotangents of operands are sums over some mesh axes (`reduced` types), but not cotangents
# of the result.
drops_reduced = Table()
# Marks: the type rule itself gives the memory of results. Results of others are in the memory of
# the operands.
relocates = Table()

# Typed keys (`_dialects.keys.lowering`).
# on_keys(ctx, *values, **params) -> values: lowers a primitive on typed keys which knows their
# buffers. Others are mapped over these.
on_keys = Table()
