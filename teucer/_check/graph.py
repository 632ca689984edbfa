"""A program as one graph of values: calls inlined, loops and branches seen through.

Rules ask a value what made it, what uses it, which numbers it may be, and in which loops it is.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from teucer._base import dtypes
from teucer._check import ranges
from teucer._check.lines import in_library, line_of, record_of
from teucer._check.ranges import Range
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Literal
from teucer._derived.liveness import is_backward
from teucer.lax._arithmetic import add_p

_MOST_VALUES = 400_000
_MOST_CONSTANT = 1 << 22  # elements of a constant whose range is computed
_THROUGH = frozenset(
    {
        "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "convert_element_type", "copy",
        "copy_p", "stop_gradient", "reduce_precision", "sharding_constraint", "reshard", "pvary",
        "pbroadcast", "transpose", "name", "checkpoint_name", "optimization_barrier",
    }
)  # fmt: skip


class Context(NamedTuple):
    """Where an equation stands: the loops around it, the mesh of `shard_map`, and whether a branch
    or a derivative is around it."""

    loops: tuple[Eqn, ...] = ()
    mesh: Any = None
    branch: bool = False
    backward: bool = False
    calls: tuple[str, ...] = ()

    @property
    def times(self) -> int:
        """How often the loops around run the equation, as far as known."""
        n = 1
        for eqn in self.loops:
            n *= max(structure.times(eqn), 1)
        return n


@final
class Value:
    """A result of an equation, an argument ("argument"), or a constant ("constant").

    op: the name of the primitive; "carry", "element", "part", "phi", "stacked", "carried" and
    "whole" stand for the ends of loops, branches and maps.
    """

    __slots__ = (
        "op", "operands", "params", "aval", "eqn", "index", "context", "constant", "uses", "range",
        "next",
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        operands: Sequence[Value],
        aval: Any,
        *,
        params: dict[str, Any] | None = None,
        eqn: Eqn | None = None,
        index: int = 0,
        context: Context = Context(),
        constant: Any = None,
        range_: Range | None = None,
    ) -> None:
        self.op, self.operands, self.params, self.aval = op, tuple(operands), params or {}, aval
        self.eqn, self.index, self.context, self.constant = eqn, index, context, constant
        self.uses: list[Value] = []
        self.next: Value | None = None  # of a carry: the value for the next step
        for operand in self.operands:
            operand.uses.append(self)
        self.range = range_ if range_ is not None else self._range()

    def _range(self) -> Range:
        own = self.operands
        if (self.op in ranges.MOVES or self.op == "psum") and self.index < len(own):
            own = own[self.index :]  # each result is of one operand
        found = ranges.of_operation(
            self.op, self.params, [x.range for x in own], [x.aval for x in own], self.aval
        )
        if self.op == "mul" and alike(self.operands[0], self.operands[1], formed=True):
            return ranges.RULES["square"](self.operands[0].range)
        if found.attained and len(self.operands) > 1 and self.op in ("add", "sub", "mul", "div"):
            free = [set(ancestors(x)) for x in self.operands if not is_constant(x)]
            if len(free) > 1 and free[0] & free[1]:
                return found._replace(attained=False)
        return found if self.op != "select_n" else _refined(self, found)

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(getattr(self.aval, "shape", ()))

    @property
    def dtype(self) -> Any:
        return getattr(self.aval, "dtype", None)

    @property
    def is_float(self) -> bool:
        return self.dtype is not None and dtypes.issubdtype(self.dtype, np.floating)

    @property
    def place(self) -> Any:
        return None if self.eqn is None else self.eqn.place

    @property
    def line(self) -> Any:
        """The line of the user's program that made the value."""
        return line_of(self.place)

    @property
    def is_differentiated(self) -> bool:
        """Whether a derivative is taken of the equation that made the value."""
        return self.eqn is not None and "jvp(" in str(self.eqn.source_info.name_stack)

    @property
    def is_users(self) -> bool:
        """Whether the user's own code made it, in a forward pass."""
        return self.eqn is not None and not self.context.backward and not in_library(self.place)

    def __repr__(self) -> str:
        return f"{self.op}:{self.aval}"


def _refined(value: Value, found: Range) -> Range:
    """`where(x > c, x, other)`: the x that is taken is above c."""
    which, *cases = value.operands
    if len(cases) != 2 or which.range.is_point:
        return found
    test = plain(which)
    if test.op not in ("gt", "ge", "lt", "le") or len(test.operands) != 2:
        return found
    taken = []
    for holds, case in zip((False, True), cases, strict=True):
        taken.append(_bounded(case, test, holds))
    return taken[0].joined(taken[1])


def _bounded(case: Value, test: Value, holds: bool) -> Range:
    x, y = test.operands
    above = (test.op in ("gt", "ge")) == holds
    own = case.range
    if plain(case) is plain(x):
        bound = y.range
    elif plain(case) is plain(y):
        bound, above = x.range, not above
    else:
        return own
    if above:
        return Range(max(own.low, bound.low), max(own.high, bound.low), own.attained)
    return Range(min(own.low, bound.high), min(own.high, bound.high), own.attained)


def plain(x: Value) -> Value:
    """The value behind another one: changes of form, and choices with a known condition, are looked
    through."""
    while x.operands:
        if x.op in _THROUGH:
            x = x.operands[0]
        elif x.op == "select_n" and x.operands[0].range.is_point:
            which = int(x.operands[0].range.low)
            x = x.operands[1 + min(which, len(x.operands) - 2)]
        else:
            break
    return x


def alike(x: Value, y: Value, depth: int = 6, *, formed: bool = False) -> bool:
    """Whether two values are the same, or made alike of the same values; formed: in the same form,
    so that their elements are equal one by one."""
    if not formed:
        x, y = plain(x), plain(y)
    if x is y:
        return True
    if x.op == y.op == "constant":
        return x.range.is_point and x.range[:2] == y.range[:2]
    if depth == 0 or x.op != y.op or not x.operands or len(x.operands) != len(y.operands):
        return False
    if x.eqn is None or y.eqn is None or x.shape != y.shape or x.index != y.index:
        return False
    return str(x.params) == str(y.params) and all(
        alike(a, b, depth - 1, formed=formed) for a, b in zip(x.operands, y.operands, strict=True)
    )


def is_constant(x: Value) -> bool:
    """Whether a value is a constant in another form."""
    return plain(x).op == "constant"


def number_of(x: Value) -> float | None:
    """The number that all elements of a value are; None for others."""
    return float(x.range.low) if x.range.is_point else None


def ancestors(x: Value, most: int = 48) -> Iterator[Value]:
    """A value and the values that it is made of, the nearest first, without constants."""
    seen, queue = {id(x)}, collections.deque([x])
    while queue and most:
        value = queue.popleft()
        most -= 1
        if value.op != "constant":
            yield value
        for operand in value.operands:
            if id(operand) not in seen:
                seen.add(id(operand))
                queue.append(operand)


def composed(*values: Value) -> bool:
    """Whether the user wrote these operations apart from each other, in no library function."""
    found = [record_of(v.place) for v in values]
    return all(v.is_users for v in values) and len(set(found)) == len(found)


class TooLarge(Exception):
    """The program has more values than a check looks at."""


@final
class Graph:
    """All values of a program, in the order in which they are made."""

    def __init__(self, closed: ClosedJaxpr, names: Sequence[str]) -> None:
        self.values: list[Value] = []
        self.equations: list[tuple[Eqn, Context]] = []
        self.constants = [
            self._constant(c, v.aval) for c, v in zip(closed.consts, closed.constvars, strict=True)
        ]
        self.arguments = [
            self._add(Value("argument", (), v.aval, constant=name, range_=_all_of(v.aval)))
            for v, name in zip(closed.invars, names, strict=True)
        ]
        self.results = self._program(closed, [*self.constants, *self.arguments], Context())

    def of(self, *ops: str) -> Iterator[Value]:
        """The values that operations make."""
        wanted = frozenset(ops)
        return (v for v in self.values if v.op in wanted)

    def _add(self, value: Value) -> Value:
        if len(self.values) >= _MOST_VALUES:
            raise TooLarge
        self.values.append(value)
        return value

    def _constant(self, x: Any, aval: Any) -> Value:
        small = getattr(aval, "size", 0)
        known = isinstance(small, int) and small <= _MOST_CONSTANT and _is_real(aval)
        return self._add(
            Value(
                "constant",
                (),
                aval,
                constant=x,
                range_=ranges.of_array(x) if known else _all_of(aval),
            )
        )

    def _program(
        self, closed: ClosedJaxpr, inputs: Sequence[Value], context: Context
    ) -> list[Value]:
        """The results of a program on values for its constants and arguments."""
        env: dict[Any, Value] = dict(zip((*closed.constvars, *closed.invars), inputs, strict=True))

        def read(atom: Any) -> Value:
            if type(atom) is Literal:
                return self._constant(atom.val, atom.aval)
            return env[atom]

        for eqn in closed.eqns:
            operands = [read(v) for v in eqn.invars]
            env.update(zip(eqn.outvars, self._equation(eqn, operands, context), strict=True))
        return [read(v) for v in closed.outvars]

    def _inside(
        self, closed: ClosedJaxpr, operands: Sequence[Value], context: Context
    ) -> list[Value]:
        consts = [
            self._constant(c, v.aval) for c, v in zip(closed.consts, closed.constvars, strict=True)
        ]
        return self._program(closed, [*consts, *operands], context)

    def _equation(self, eqn: Eqn, operands: list[Value], context: Context) -> list[Value]:
        if is_backward(eqn):
            context = context._replace(backward=True)
        self.equations.append((eqn, context))
        match structure.of(eqn, operands) or structure.presumed(eqn, operands):
            case structure.Call(body, inner):
                name = str(eqn.params.get("name", eqn.primitive.name))
                return self._inside(
                    body, list(inner), context._replace(calls=(*context.calls, name))
                )
            case structure.Branch() as branch:
                within = context._replace(branch=True)
                each = [self._inside(p, list(branch.operands), within) for p in branch.programs]
                return self._made("phi", eqn, context, list(zip(*each, strict=True)))
            case structure.Loop() as loop:
                return self._loop(eqn, loop, context)
            case structure.Mapped() as mapped:
                parts = [
                    self._add(Value("part", [x], v.aval, eqn=eqn, context=context))
                    for x, v in zip(mapped.operands, mapped.body.invars, strict=True)
                ]
                outs = self._inside(mapped.body, parts, context._replace(mesh=mapped.mesh))
                return self._made("whole", eqn, context, [(y,) for y in outs])
        return [
            self._add(
                Value(
                    eqn.primitive.name,
                    operands,
                    v.aval,
                    params=dict(eqn.params),
                    eqn=eqn,
                    index=i,
                    context=context,
                )
            )
            for i, v in enumerate(eqn.outvars)
        ]

    def _made(self, op: str, eqn: Eqn, context: Context, operands: Any) -> list[Value]:
        return [
            self._add(Value(op, given, v.aval, eqn=eqn, index=i, context=context))
            for i, (given, v) in enumerate(zip(operands, eqn.outvars, strict=True))
        ]

    def _loop(self, eqn: Eqn, loop: structure.Loop, context: Context) -> list[Value]:
        within = context._replace(loops=(*context.loops, eqn))
        n_consts, n = len(loop.consts), len(loop.carry)
        inner = loop.body.invars[n_consts:]
        carry = [
            self._add(
                Value(
                    "carry",
                    [x],
                    v.aval,
                    eqn=eqn,
                    index=i,
                    context=within,
                    range_=_counted(loop, i, x, v.aval),
                )
            )
            for i, (x, v) in enumerate(zip(loop.carry, inner[:n], strict=True))
        ]
        elements = [
            self._add(Value("element", [x], v.aval, eqn=eqn, index=i, context=within))
            for i, (x, v) in enumerate(zip(loop.xs, inner[n:], strict=True))
        ]
        if loop.condition is not None:
            self._inside(loop.condition, [*loop.condition_consts, *carry], within)
        outs = self._inside(loop.body, [*loop.consts, *carry, *elements], within)
        for c, y in zip(carry, outs[:n], strict=True):
            c.next = y
        ends = [
            self._add(
                Value(
                    "carried",
                    [y, c],
                    v.aval,
                    eqn=eqn,
                    index=i,
                    context=context,
                    range_=_all_of(v.aval),
                )
            )
            for i, (y, c, v) in enumerate(zip(outs[:n], carry, eqn.outvars[:n], strict=True))
        ]
        rows = [
            self._add(Value("stacked", [y], v.aval, eqn=eqn, index=n + i, context=context))
            for i, (y, v) in enumerate(zip(outs[n:], eqn.outvars[n:], strict=True))
        ]
        return [*ends, *rows]


def _counted(loop: structure.Loop, i: int, start: Value, aval: Any) -> Range:
    """The range of an element of a loop's carry: a counter, or a value that stays as it is."""
    body = loop.body
    own = body.invars[len(loop.consts) + i]
    out = body.outvars[i]
    if out is own:
        return start.range
    made = next((e for e in body.eqns if out in e.outvars), None)
    if made is None or made.primitive is not add_p or not isinstance(loop.length, int):
        return _all_of(aval)
    step = next((x.val for x in made.invars if type(x) is Literal), None)
    if step is None or own not in made.invars or not start.range.is_point or loop.length < 1:
        return _all_of(aval)
    first = start.range.low
    last = first + np.asarray(step).item() * (loop.length - 1)
    return Range(min(first, last), max(first, last), True)


def _is_real(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and not isinstance(dtype, dtypes.ExtendedDType) and (
        dtypes.issubdtype(dtype, np.floating) or np.dtype(dtype).kind in "biu"
    )  # fmt: skip


def _all_of(aval: Any) -> Range:
    return ranges.of_dtype(aval.dtype) if _is_real(aval) else Range()
