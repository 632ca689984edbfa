"""Dynamic dimensions by padding.

Programs whose arrays are as long as the bounds of their sizes, which come at run time.

An array with symbolic dimensions is carried in a buffer of their upper bounds. Its elements stand
in front along every axis; elements behind them are arbitrary, so a primitive that combines elements
of an axis masks them. Such rules are in the table `dialects.padded`; a primitive without one is
refused. Derivatives and batches are taken before, on types with symbolic dimensions, so that no
rule of differentiation ever sees the padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from teucer._base import errors
from teucer._core import dialects
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, interpret, jaxprs_in_params
from teucer._core.provided import provided
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import current_trace
from teucer._core.types import ShapedArray
from teucer._dimensions.dimensions import Dimension, bounds, is_symbolic, variables_of

if TYPE_CHECKING:
    from teucer._core.types import Aval
    from teucer._core.typing import ArrayLike, Size, Value


SIZE = ShapedArray((), np.dtype(np.int32))


class Padded(NamedTuple):
    """A jaxpr on padded arrays, whose first inputs are sizes; its last results are sizes of its
    own, the variables `found`."""

    jaxpr: ClosedJaxpr
    found: tuple[Dimension, ...]


def pad_jaxpr(closed: ClosedJaxpr, names: tuple[str, ...]) -> Padded:
    """The jaxpr on padded arrays, where the sizes called `names` come from outside. Kept on the
    jaxpr."""
    made: Padded = closed.kept(("padded", names), lambda: _pad(closed, names))
    return made


def _pad(closed: ClosedJaxpr, names: tuple[str, ...]) -> Padded:
    found: list[Dimension] = []

    def on_buffers(*args: object) -> list[Any]:
        sizes = Sizes(dict(zip(names, args, strict=False)))
        outs = sizes.evaluate(closed, args[len(names) :])
        escaping = variables_of([_shape(v) for v in closed.jaxpr.outvars])
        found[:] = [v for v in sizes.found if v in sizes.checked or str(v) in escaping]
        return [*outs, *(sizes.known[str(v)] for v in found)]

    avals = [*(SIZE for _ in names), *map(bounded_aval, closed.in_avals)]
    return Padded(stage_jaxpr(on_buffers, avals, closed.jaxpr.debug_info), tuple(found))


def bound_of(size: Any) -> int:
    """The upper bound of a size.

    Raises ValueError if it has none.
    """
    high = bounds(size).high
    if high == float("inf"):
        raise ValueError(f"the size {size} has no upper bound.\n  Give it one in dynamic_dims.")
    return max(int(high), 0)


def bounded_aval(aval: Any) -> Any:
    """The type of the buffer of an array with symbolic dimensions."""
    return aval.update(shape=tuple(map(bound_of, aval.shape))) if aval.symbolic else aval


def extend(x: Any, shape: Sequence[int]) -> Any:
    """An array as a buffer of the given shape."""
    return provided.buffers.extend(
        x, tuple(m - n for m, n in zip(shape, np.shape(x), strict=True)), 0
    )


def cut(x: Value, shape: Sequence[int]) -> Any:
    """The array of the given shape in a buffer."""
    return provided.buffers.window(x, (np.int32(0),) * len(shape), shape)


class Sizes:
    """The sizes of a program being padded, and the operations on buffers that rules share."""

    __slots__ = ("checked", "eqn", "found", "inside_of", "known")

    def __init__(self, known: dict[str, Any]) -> None:
        # Variables by name; scalars of the padded program.
        self.known = known
        self.inside_of: dict[Any, Any] = {}
        self.eqn: Any = None
        # Variables that equations introduce; and the ones whose bound the caller must check.
        self.found: list[Dimension] = []
        self.checked: set[Dimension] = set()

    def evaluate(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr, padded, on padded arguments."""
        process = current_trace().process

        def handle(eqn: Eqn, operands: tuple[object, ...]) -> Sequence[Any]:
            if next(_eqn_variables(eqn), None) is not None:
                return self._padded(eqn, operands)  # type: ignore[no-any-return]
            return process(eqn.primitive, operands, eqn.params)

        return interpret(closed, args, handle)

    def _padded(self, eqn: Eqn, operands: Sequence[Value]) -> Any:
        outer, self.eqn = self.eqn, eqn
        rule = dialects.padded.of(eqn.primitive)
        if rule is None:
            self.refuse("the primitive has no rule for padded arrays")
        avals, out_avals = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
        try:
            outs = rule(self, operands, avals, out_avals, **eqn.params)
        except errors.InconclusiveDimensionOperation as err:
            self.refuse(str(err))
        self.eqn = outer
        return outs

    def refuse(self, why: str) -> NoReturn:
        """Raise the error that names the primitive being padded and its line."""
        eqn = self.eqn
        where = eqn.where("\n    at ")
        listed = "".join(
            f"\n    operand {i}: {v.aval.str_short(True)}" for i, v in enumerate(eqn.invars)
        )
        raise NotImplementedError(
            f"{eqn.primitive}: not done with a dynamic dimension here: {why}.{where}{listed}\n"
            "  Compute it outside of the function with dynamic_dims, or on an axis of known size."
        )

    def inner(self, closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any], tuple[Dimension, ...]]:
        """Pad the jaxpr of an equation. Returns it, the sizes that it takes as leading operands,
        and the sizes that are its last results."""
        names = tuple(n for n in self.known if n in _variables(closed.jaxpr))
        made = pad_jaxpr(closed, names)
        return made.jaxpr, [self.known[n] for n in names], made.found

    def together(self, jaxprs: Sequence[ClosedJaxpr]) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
        """Pad the jaxprs of an equation. Returns them, and the sizes that each takes as leading
        operands."""
        names = tuple(
            n for n in self.known if any(n in _variables(closed.jaxpr) for closed in jaxprs)
        )
        made = [pad_jaxpr(closed, names) for closed in jaxprs]
        if any(m.found for m in made):
            self.refuse("a size that is found in a branch or a loop goes out of it")
        return tuple(m.jaxpr for m in made), [self.known[n] for n in names]

    def learn(self, outs: Sequence[Value], found: Sequence[Dimension]) -> Sequence[Any]:
        """Record the sizes that an inner jaxpr found, the last of its results. Returns the other
        results."""
        n = len(outs) - len(found)
        for variable, size in zip(found, outs[n:], strict=True):
            self.define(variable, size, checked=True)
        return outs[:n]

    def define(self, variable: Dimension, size: Any, *, checked: bool) -> None:
        """Record the value of a variable that an equation introduces. checked: whether this value
        may be beyond the variable's bound, so that the caller must check it."""
        if str(variable) in self.known:
            self.refuse(
                f"the size {variable} is computed a second time, so that two sizes would have one "
                "name"
            )
        self.known[str(variable)] = size
        self.found.append(variable)
        if checked:
            self.checked.add(variable)

    def value(self, size: Any) -> Any:
        """A size as an int32: a NumPy scalar, or a value of the padded program."""
        if not isinstance(size, Dimension):
            return np.int32(size)

        def variable(name: str) -> Any:
            if name not in self.known:
                self.refuse(f"the size {name} is not known here")
            return self.known[name]

        return size.fold(variable, np.int32, provided.buffers.value)

    def bounded(self, params: object) -> Any:
        """Parameters with sizes replaced by their bounds."""
        if isinstance(params, Dimension):
            return bound_of(params)
        if type(params) is tuple:
            return tuple(map(self.bounded, params))
        return {k: self.bounded(v) for k, v in params.items()} if type(params) is dict else params

    def inside(self, shape: Sequence[Any], axes: Sequence[int] | None = None) -> Any:
        """Which elements of a buffer are elements of its array along some or all axes; None if all
        are."""
        axes = tuple(
            a for a in (range(len(shape)) if axes is None else axes) if is_symbolic(shape[a])
        )
        if not axes:
            return None
        key = (tuple(shape), axes)
        if key not in self.inside_of:
            buffer = self.bounded(tuple(shape))
            found = None
            for a in axes:
                here = provided.buffers.less(provided.buffers.iota(buffer, a), self.value(shape[a]))
                found = here if found is None else provided.buffers.both(found, here)
            self.inside_of[key] = found
        return self.inside_of[key]

    def mask(self, x: Value, aval: Aval, fill: object, axes: Sequence[int] | None = None) -> Any:
        """A buffer whose padding, along some or all axes, is replaced by the scalar `fill`."""
        inside = self.inside(aval.shape, axes)
        if inside is None:
            return x
        return provided.buffers.select(
            inside, x, provided.buffers.fill(fill, self.bounded(aval.shape), aval.dtype)
        )

    def fit(self, x: Value, shape: Sequence[Size]) -> Any:
        """A buffer lengthened or cut to the bounds of `shape`."""
        return self.window(x, (0,) * len(shape), shape)

    def window(
        self,
        x: Value,
        starts: Sequence[object],
        shape: Sequence[Size],
        fill: ArrayLike = 0,
        *,
        fits: bool = False,
    ) -> Any:
        """The part of a buffer of the bounds of `shape` that begins at `starts`; `fill` where that
        is behind the buffer.

        fits: whether it is known to lie within the buffer where sizes are known.
        """
        widths = self.bounded(tuple(shape))
        x = self._reaching(
            x,
            starts,
            [0 if fits and w is n else w for w, n in zip(widths, shape, strict=True)],
            fill,
        )
        return provided.buffers.window(x, [self._start(s) for s in starts], widths)

    def put(self, x: Any, update: Any, starts: Sequence[Any]) -> Any:
        """A buffer with `update` written from `starts` on; elements behind its end are dropped."""
        shape = np.shape(x)
        x = self._reaching(x, starts, np.shape(update), 0)
        return self.fit(provided.buffers.put(x, update, [self._start(s) for s in starts]), shape)

    def behind(self, x: Any, lows: Sequence[Any], fill: object) -> Any:
        """A longer buffer: along each axis x is preceded by `fill`, as often as `lows` says."""
        shape = tuple(n + self.bounded(low) for n, low in zip(np.shape(x), lows, strict=True))
        blank = provided.buffers.broadcast(fill, shape, x)
        return provided.buffers.put(blank, x, [self.value(low) for low in lows])

    def _reaching(self, x: Any, starts: Sequence[Any], widths: Sequence[int], fill: object) -> Any:
        missing = [
            s + w - n if type(s) is int else w
            for s, w, n in zip(starts, widths, np.shape(x), strict=True)
        ]
        return provided.buffers.extend(x, tuple(max(m, 0) for m in missing), fill)

    def _start(self, start: Any) -> Any:
        return self.value(start) if isinstance(start, Dimension | int) else start

    def take(self, x: Value, places: object, axis: int) -> Any:
        """The elements of a buffer at places along an axis, which are clamped."""
        return provided.buffers.take(x, places, axis)

    def places(self, shape: Sequence[Size], target: Sequence[object]) -> Any:
        """Where a reshape from `shape` to `target` finds its elements: for each place in the flat
        buffer of the result, the place in the flat buffer of the operand."""
        return provided.buffers.places(
            [(self.bounded(n), self.value(n)) for n in shape],
            [(self.bounded(n), self.value(n)) for n in target],
        )

    def remainders(self, count: Size, size: Size) -> Any:
        """i % size for the places i of an axis of `count`."""
        return provided.buffers.value(
            "mod", provided.buffers.iota((self.bounded(count),), 0), self.value(size)
        )

    def clamped(
        self, starts: Sequence[object], shape: Sequence[Size], widths: Sequence[object]
    ) -> list[Any]:
        """Starts of a window of the given widths, moved so that it lies within an array of the
        given shape."""
        return [
            provided.buffers.clamped(
                s, provided.buffers.value("subtract", self.value(n), self.value(w))
            )
            for s, n, w in zip(starts, shape, widths, strict=True)
        ]

    def bordered(self, x: Any, aval: Any) -> Any:
        """Matrices with the identity behind their elements."""
        inside = self.inside(aval.shape)
        ops = provided.buffers
        return (
            x
            if inside is None
            else ops.select(inside, x, ops.identity(self.bounded(aval.shape), aval.dtype))
        )

    def may_be_empty(self, size: Size) -> bool:
        """Whether a size may be 0."""
        return bounds(size).low <= 0


def is_dynamic(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr has sizes that are not known."""
    return bool(_variables(jaxpr))


def _variables(jaxpr: Jaxpr) -> frozenset[str]:
    """The names of the sizes in a jaxpr, anywhere in it."""
    found: frozenset[str] | None = jaxpr.cache.get("variables")
    if found is None:
        names = set(
            variables_of([_shape(v) for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)])
        )
        for eqn in jaxpr.eqns:
            names.update(_eqn_variables(eqn))
        found = jaxpr.cache["variables"] = frozenset(names)
    return found


def _eqn_variables(eqn: Eqn) -> Iterator[str]:
    yield from variables_of([_shape(v) for v in (*eqn.invars, *eqn.outvars)])
    for inner in jaxprs_in_params(eqn.params):
        yield from _variables(inner)
    yield from variables_of([tuple(_sizes_in(tuple(eqn.params.values())))])


def _shape(v: Any) -> Any:
    return getattr(v.aval, "shape", ())


def _sizes_in(params: tuple[object, ...]) -> Iterator[Any]:
    for p in params:
        if isinstance(p, Dimension):
            yield p
        elif isinstance(p, tuple):
            yield from _sizes_in(p)
