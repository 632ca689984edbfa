"""The sizes of dimension variables from the shapes of arguments.

Equations, solved in Python and in a module.

A module with symbolic dimensions begins with operations that `in_module` writes: the sizes of its
arguments, the values of the variables, and assertions that the sizes are as specified. The compiler
computes and checks all of it when it refines the module to static shapes. `on_shapes` does the same
for shapes that are known in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import numpy as np

from teucer._core.types import ShapedArray
from teucer._dimensions.dimensions import (
    Dimension,
    Scope,
    bounds,
    is_symbolic,
    substitute,
    variables_of,
)
from teucer._lower import hlo
from teucer._lower.context import Context, Value
from teucer._lower.text import quoted

if TYPE_CHECKING:
    from teucer._core.typing import Params, Size


_MISFIT = "polymorphic shapes specification."
_PAGE = "https://docs.jax.dev/en/latest/export/shape_poly.html"


class _Equation(NamedTuple):
    """The size of an axis of an argument, as specified and as found, and its name."""

    specified: Any
    found: Any
    place: str


class _Algebra(Protocol):
    """How sizes are computed and checked: with numbers, or by operations of a module."""

    def value(self, size: Any, known: Params) -> Any: ...
    def difference(self, x: Any, y: Any) -> Any: ...
    def divmod(self, x: Any, n: int) -> tuple[Any, Any]: ...
    def check(self, x: Any, relation: str, y: Any, message: str, values: Sequence[Any]) -> None: ...


def on_shapes(
    specified: Sequence[Sequence[object]], shapes: Sequence[Sequence[object]], names: Sequence[str]
) -> dict[str, Any]:
    """Values of the variables of the specified shapes, for shapes of arguments called `names`.

    Raises ValueError if a shape does not fit, or is symbolic and not known to.
    """
    equations = [
        _Equation(spec, size, f"{name}.shape[{i}]")
        for name, spec_shape, shape in zip(names, specified, shapes, strict=True)
        for i, (spec, size) in enumerate(zip(spec_shape, shape, strict=True))
    ]
    return _solve(equations, specified, names, _Numbers())


def in_module(ctx: Context, args: Sequence[Value], names: Sequence[str]) -> dict[str, Value]:
    """Write how the variables follow from the arguments' sizes, and assertions that these fit; the
    variables' values."""
    scalar = hlo.size(ctx, 0).aval
    equations = []
    for arg, name in zip(args, names, strict=True):
        for i, spec in enumerate(arg.shape):
            if is_symbolic(spec):
                found = ctx.op1(
                    "stablehlo.get_dimension_size",
                    (arg,),
                    ShapedArray((), np.dtype(np.int32)),
                    f"dimension = {i} : i64",
                )
                equations.append(
                    _Equation(spec, hlo.convert(ctx, found, scalar.dtype), f"{name}.shape[{i}]")
                )
    return _solve(equations, [arg.shape for arg in args], names, _Operations(ctx))


def _solve(
    equations: Sequence[_Equation],
    specified: Sequence[Sequence[object]],
    names: Sequence[str],
    algebra: _Algebra,
) -> dict[str, Any]:
    """Find a variable by an equation in which it alone is unknown, and linear, as long as there is
    one; check the others."""
    wanted = variables_of(specified)
    texts = ", ".join(
        f"{name}.shape = ({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        for name, shape in zip(names, specified, strict=True)
    )
    known: dict[str, Any] = {}
    story: list[str] = []
    values: list[Any] = []

    def check(x: Any, relation: str, y: Any, what: str) -> None:
        """`what` may name x and y, as {0} and {1}; after them come the sizes found so far."""
        told = "".join(part.format(*(f"{{{i + 2}}}" for i in range(len(values)))) for part in story)
        message = (
            f"Input shapes do not match the {what} Using the following polymorphic shapes "
            f"specifications: {texts}.{' Obtained dimension variables: ' + told if told else ''}. "
            f"Please see {_PAGE}#shape-assertion-errors for more details."
        )
        algebra.check(x, relation, y, message, [x, y, *values])

    pending = list(equations)
    scope = next((e.specified.scope for e in equations if is_symbolic(e.specified)), Scope())
    while len(known) < len(wanted):
        steps = [(e, *_unknown(e.specified, known)) for e in pending]
        # First constraints without a division.
        step = min((s for s in steps if s[1]), key=lambda s: s[2] != 1, default=None)
        if step is None:
            missing = [name for name in wanted if name not in known]
            raise ValueError(
                f"Cannot solve for values of dimension variables {set(missing)}. We can only "
                "solve linear uni-variate constraints. Using the following polymorphic shapes "
                f"specifications: {texts}. Unprocessed specifications: "
                + ", ".join(f"'{e.specified}' for dimension size {e.place}" for e in pending)
                + f". Please see {_PAGE}#dimension-variables-must-be-solvable-from-the-input-shapes"
                " for more details."
            )
        e, name, c = step
        pending.remove(e)
        rest = e.specified - scope.variable(name) * c
        x, remainder = e.found, None
        if is_symbolic(rest) or rest:
            x = algebra.difference(x, algebra.value(rest, known))
        if c != 1:
            x, remainder = algebra.divmod(x, c)
            check(
                remainder,
                "EQ",
                algebra.value(0, known),
                f"{_MISFIT} Division had remainder {{0}} when computing the value of '{name}'.",
            )
        known[name] = x
        story.append(
            f"'{name}' = {{{len(values)}}} from specification '{e.specified}' for dimension "
            f"{e.place} (= {{{len(values) + 1}}}), "
        )
        values += [x, e.found]
        low, high = scope.ranges[name]
        check(
            x,
            "GE",
            algebra.value(int(low), known),
            f"{_MISFIT} Expected value >= {int(low)} for dimension variable '{name}'.",
        )
        if high < float("inf"):
            check(
                algebra.value(int(high), known),
                "GE",
                x,
                f"{_MISFIT} Expected value <= {int(high)} for dimension variable '{name}'.",
            )
    for e in pending:
        check(
            e.found,
            "EQ",
            algebra.value(e.specified, known),
            f"{_MISFIT} Found inconsistency between dimension size {e.place} (= {{0}}) and the "
            f"specification '{e.specified}' (= {{1}}).",
        )
    for fact in scope.facts:
        if not fact.checked:
            continue
        size = fact.polynomial
        if not known.keys() >= set(variables_of([[size]])):
            # By the equalities: a variable that equals others does not come up in the shapes.
            size = substitute(size, {name: scope.variable(name) for name in scope.ranges})
            for name in variables_of([[size]]):
                if name not in known:
                    raise ValueError(
                        f"Encountered dimension variable '{name}' that is not appearing in the "
                        f"shapes of the function arguments.\n    constraint: {fact.text}\n"
                        "  Only values of variables that are sizes of arguments can be checked."
                    )
        relation = "equal to" if fact.checked == "EQ" else "greater or equal to"
        check(
            algebra.value(size, known),
            fact.checked,
            algebra.value(0, known),
            (
                f"symbolic shape constraint {fact.text}. Expected '{fact.polynomial}' to be "
                f"{relation} 0, but found {{0}}."
            ),
        )
    return {name: known[name] for name in wanted}


def _unknown(size: Size, known: Params) -> tuple[str, int]:
    """The only unknown variable of a size and its coefficient, if the size is linear in it; else
    ("", 0)."""
    if not isinstance(size, Dimension):
        return "", 0
    names = [name for name in variables_of([[size]]) if name not in known]
    if len(names) != 1:
        return "", 0
    c = dict(size.terms).get(size.scope.variable(names[0]).terms[0][0], 0)
    rest = size - size.scope.variable(names[0]) * c
    return (names[0], c) if c and names[0] not in variables_of([[rest]]) else ("", 0)


@final
class _Numbers:
    """Sizes as numbers, or as symbolic dimensions of another program."""

    def value(self, size: Any, known: Params) -> Any:
        return substitute(size, known)

    def difference(self, x: Any, y: Any) -> Any:
        return x - y

    def divmod(self, x: Any, n: int) -> tuple[Any, Any]:
        return x // n, x % n

    def check(self, x: Any, relation: str, y: Any, message: str, values: Sequence[Any]) -> None:
        low, high = bounds(x - y)
        if low < 0 or (relation == "EQ" and high > 0):
            known = high >= 0 and low <= 0
            raise ValueError(
                message.format(*values)
                + "\n  It is so for some sizes only. Say what is known of them with a "
                'constraint: symbolic_shape(..., constraints=["a >= b"]).' * known
            )


@final
class _Operations:
    """Sizes as scalars of a module."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def value(self, size: Any, known: Params) -> Value:
        self.ctx.scalars = {**self.ctx.scalars, **known}
        return hlo.size(self.ctx, size)

    def difference(self, x: Value, y: Value) -> Value:
        return hlo.elementwise(self.ctx, "subtract", x, y)

    def divmod(self, x: Value, n: int) -> tuple[Value, Value]:
        ctx, by = self.ctx, hlo.size(self.ctx, n)
        return hlo.elementwise(ctx, "divide", x, by), hlo.elementwise(ctx, "remainder", x, by)

    def check(
        self, x: Value, relation: str, y: Value, message: str, values: Sequence[Value]
    ) -> None:
        holds = hlo.compare(self.ctx, x, y, relation)
        hlo.custom_call(
            self.ctx,
            "shape_assertion",
            [holds, *values],
            [],
            api_version=2,
            has_side_effect=True,
            attributes=f"error_message = {quoted(message)}",
        )
