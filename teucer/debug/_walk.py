"""A program run operation by operation, and in double precision beside it."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import ml_dtypes
import numpy as np

from teucer import numpy as jnp
from teucer._base import config, dtypes, source
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, interpret
from teucer._derived.liveness import is_backward
from teucer.debug._double import in_double, is_inexact, widened
from teucer.debug._remedies import Made, remedy
from teucer.lax._blame import mapped_values
from teucer.lax.linalg import eig_p, eigh_p, svd_p

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Value, Values


# The number of the result that has a decomposition's eigenvalues or singular values: vectors of
# equal values span a common space.
_VALUES: dict[Primitive, int] = {eigh_p: 1, eig_p: 0, svd_p: 0}
_SHOWN = 0.5  # digits: less is rounding


class Pair(NamedTuple):
    """A value, the same in double precision, its relative error, and how it came about."""

    primal: Any
    double: Any
    error: float
    made: Made


class Loss(NamedTuple):
    """An operation that loses decimal digits."""

    eqn: Eqn
    digits: float
    backward: bool
    remedy: str


class Fault(NamedTuple):
    """The first operation that makes a value of a kind, 'nan' or 'inf', of operands that have none.

    steps: the loops around it, and in which step of them it is.
    """

    kind: str
    operation: str
    place: str
    text: str
    operands: tuple[str, ...]
    result: str
    steps: tuple[str, ...]
    backward: bool
    remedy: str

    def __str__(self) -> str:
        way = ", in the backward pass" if self.backward else ""
        said = [f"  {self.operation} at {self.place or 'an unknown line'}{way}"]
        said += [f"      {self.text}"] if self.text else []
        said += [f"    {step}" for step in self.steps]
        said += [f"    operand {i}: {x}" for i, x in enumerate(self.operands)]
        said.append(f"    result: {self.result}")
        said += [f"    -> {self.remedy}"] if self.remedy else []
        return "\n".join(said)


class Equal(NamedTuple):
    """A decomposition that is differentiated where values are equal: their vectors turn without
    bound."""

    operation: str
    place: str
    text: str
    values: str

    def __str__(self) -> str:
        said = [f"  {self.operation} at {self.place or 'an unknown line'}"]
        said += [f"      {self.text}"] if self.text else []
        return "\n".join([*said, f"    values: {self.values}"])


def shown(x: Any) -> str:
    """A value in a line: its type and a few of its elements."""
    if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType):
        return f"keys of shape {x.shape}"
    array = np.asarray(x)
    listed = np.array2string(array, threshold=8, edgeitems=3).replace("\n", "")
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}] = {listed}"


def line_of(eqn: Eqn) -> tuple[str, int] | None:
    """The file and the line of an equation."""
    place = source.locate(eqn.place)
    return (place.file, place.line) if place is not None else None


@final
class Walk:
    """One run of a program. `losses`: by line. `nan`, `inf`: the first operation that makes one."""

    def __init__(self) -> None:
        self.losses: dict[tuple[str, int] | None, list[Loss]] = {}
        self.nan: Fault | None = None
        self.inf: Fault | None = None
        self.equal: list[Equal] = []
        self.not_in_double: set[str] = set()
        self._steps: list[str] = []
        self._backward = 0

    def run(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Pair]:
        """The results of a program on arguments."""
        return [self._pair(y) for y in interpret(closed, [_given(x) for x in args], self._equation)]

    def _equation(self, eqn: Eqn, operands: tuple[object, ...]) -> list[Pair]:
        pairs = [self._pair(x) for x in operands]
        match structure.of(eqn, pairs) or structure.presumed(eqn, pairs):
            case structure.Call(body):
                backward = is_backward(eqn)
                self._backward += backward
                outs = self._inside(body, pairs)
                self._backward -= backward
                return outs
            case structure.Branch() as branch:
                index = int(np.asarray(branch.index.primal))
                return self._inside(branch.chosen(index), branch.operands)
            case structure.Loop() as loop:
                return self._looped(eqn, loop)
            case structure.Mapped():
                for one, given, found in mapped_values(eqn, [p.primal for p in pairs]):
                    self._look_for_faults(one, Made(str(one.primitive)), given, found)
        return self._operation(eqn, pairs)

    def _pair(self, x: Value) -> Pair:
        if type(x) is Pair:
            return x
        constant = x if isinstance(x, int | float | complex | np.generic) else None
        if constant is None and getattr(x, "shape", None) == () and is_inexact(x):
            constant = np.asarray(x).item()
        return Pair(x, _double(x), 0.0, Made("constant", value=constant))

    def _operation(self, eqn: Eqn, pairs: list[Pair]) -> list[Pair]:
        primals = [p.primal for p in pairs]
        outs = list(eqn.primitive.call(*primals, **eqn.params))
        made = Made(str(eqn.primitive), tuple(p.made for p in pairs), None, eqn.params)
        self._look_for_faults(eqn, made, primals, outs)
        self._look_for_equal(eqn, outs)
        if not any(map(is_inexact, outs)):
            return [Pair(y, y, 0.0, made) for y in outs]
        doubles = in_double(eqn, [p.double for p in pairs])
        if doubles is None or any(d.shape != y.shape for d, y in zip(doubles, outs, strict=True)):
            self.not_in_double.add(str(eqn.primitive))
            return [Pair(y, _double(y), 0.0, made) for y in outs]
        before = max((p.error for p in pairs), default=0.0)
        found = []
        for y, d in zip(outs, doubles, strict=True):
            if not is_inexact(y):  # branches and indices are as in the given precision
                found.append(Pair(y, y, 0.0, made))
                continue
            error = relative_error(y, d)
            found.append(Pair(y, d, error, made))
            self._note_loss(eqn, made, y, before, error)
        return found

    def _note_loss(self, eqn: Eqn, made: Made, y: Any, before: float, after: float) -> None:
        if not (math.isfinite(after) and math.isfinite(before)):
            return
        least = float(ml_dtypes.finfo(y.dtype).eps) / 2
        digits = math.log10(max(after, least) / max(before, least))
        if digits >= _SHOWN:
            backward = bool(self._backward) or is_backward(eqn)
            loss = Loss(eqn, min(digits, -math.log10(least)), backward, remedy("loss", made))
            self.losses.setdefault(line_of(eqn), []).append(loss)

    def _look_for_faults(self, eqn: Eqn, made: Made, operands: Values, outs: Values) -> None:
        if self.nan is None and _any(np.isnan, outs) and not _any(np.isnan, operands):
            self.nan = self._fault("nan", eqn, made, operands, outs)
        new = self.inf is None and _any(np.isinf, outs) and not _any(np.isinf, operands)
        if new and not _is_meant(eqn, operands):
            self.inf = self._fault("inf", eqn, made, operands, outs)

    def _look_for_equal(self, eqn: Eqn, outs: Sequence[Value]) -> None:
        at = _VALUES.get(eqn.primitive)
        if at is None or len(outs) < 2 or "jvp(" not in str(eqn.source_info.name_stack):
            return
        values = np.sort(np.asarray(outs[at]), axis=-1)
        gaps = np.abs(np.diff(values, axis=-1))
        limit = 4 * float(ml_dtypes.finfo(values.dtype).eps) * np.abs(values).sum(-1, keepdims=True)
        if np.any(gaps <= limit):
            where = line_of(eqn)
            text = linecache.getline(*where).strip() if where else ""
            self.equal.append(Equal(str(eqn.primitive), eqn.where(""), text, shown(outs[at])))

    def _fault(self, kind: str, eqn: Eqn, made: Made, operands: Values, outs: Values) -> Fault:
        where = line_of(eqn)
        place = eqn.where("")
        bad = next(y for y in outs if _any(np.isnan if kind == "nan" else np.isinf, [y]))
        return Fault(
            kind,
            str(eqn.primitive),
            place,
            linecache.getline(*where).strip() if where else "",
            tuple(map(shown, operands)),
            shown(bad),
            tuple(reversed(self._steps)),
            bool(self._backward) or is_backward(eqn),
            remedy(kind, made),
        )

    def _inside(self, closed: ClosedJaxpr, pairs: Sequence[Pair], step: str = "") -> list[Pair]:
        self._steps += [step] if step else []
        outs = [self._pair(y) for y in interpret(closed, pairs, self._equation)]
        if step:
            self._steps.pop()
        return outs

    def _looped(self, eqn: Eqn, loop: structure.Loop) -> list[Pair]:
        at, n = eqn.where(), len(loop.carry)

        def step(i: int, body: ClosedJaxpr, pairs: list[Pair]) -> list[Pair]:
            outs = self._inside(body, pairs, f"in {loop.step(i)}{at}")
            # History would grow with each step.
            return [*(y._replace(made=Made("carry")) for y in outs[:n]), *outs[n:]]

        def element(x: Pair, i: int) -> Pair:
            return Pair(x.primal[i], x.double[i], x.error, Made("argument"))

        carry, rows = loop.run(step, element, lambda going: bool(np.asarray(going.primal)))
        ys = [_stacked([row[j] for row in rows], v.aval) for j, v in enumerate(eqn.outvars[n:])]
        return [*carry, *ys]


def _given(x: Value) -> Pair:
    return Pair(x, _double(x), 0.0, Made("argument"))


def _double(x: Value) -> Any:
    """A value in double precision, on the device."""
    if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType) or not hasattr(
        np.asarray(x), "dtype"
    ):
        return x
    array = np.asarray(x)
    if not dtypes.issubdtype(array.dtype, np.inexact):
        return x
    with config.enable_x64(True):
        return jnp.asarray(array.astype(widened(array.dtype)))


def _stacked(column: list[Pair], aval: ShapedArray) -> Pair:
    if not column:
        empty = jnp.zeros(aval.shape, aval.dtype)
        return Pair(empty, _double(empty), 0.0, Made("scan"))
    with config.enable_x64(True):
        double = jnp.stack([y.double for y in column])
    return Pair(
        jnp.stack([y.primal for y in column]), double, max(y.error for y in column), Made("scan")
    )


def relative_error(y: Value, double: object) -> float:
    """The relative error that nine elements in ten keep to, at most 1.

    An element that is finite in only one of the two arrays counts as 1.
    """
    b = np.asarray(double)
    a = np.asarray(y).astype(b.dtype)
    finite = np.isfinite(a) & np.isfinite(b)
    counted = finite | (np.isfinite(a) != np.isfinite(b))
    size = np.where(finite, np.abs(b), 1)
    apart = np.abs(np.where(finite, a, 1) - np.where(finite, b, 0))
    errors = np.minimum(apart / np.where(size > 0, size, 1), 1.0)
    errors = np.where(finite & (size == 0), np.where(apart == 0, 0.0, 1.0), errors)[counted]
    if not errors.size:
        return 0.0
    return float(np.max(errors)) if errors.size < 10 else float(np.quantile(errors, 0.9))


def _any(test: Callable[[Any], Any], values: Sequence[Any]) -> bool:
    return any(
        bool(np.any(test(_wide(x))))
        for x in values
        if is_inexact(x if hasattr(x, "dtype") else np.asarray(x))
    )


def _wide(x: Value) -> Any:
    array = np.asarray(x)
    return array.astype(widened(array.dtype))


def _is_meant(eqn: Eqn, operands: Sequence[Value]) -> bool:
    """Whether an infinity is written into the program, as the neutral element of a maximum is."""
    return str(eqn.primitive) in ("broadcast_in_dim", "full_like", "select_n") or not operands
