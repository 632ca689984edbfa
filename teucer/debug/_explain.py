"""`explain`.

Where a program loses digits, or makes NaN and infinity, and where its compiled form differs.
"""

from __future__ import annotations

import dataclasses
import linecache
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes

from teucer._base import config, source, tracebacks
from teucer._core.jaxpr import Eqn
from teucer._derived.stages import jit
from teucer._derived.staging import make_jaxpr
from teucer._trees import pytrees
from teucer.debug._compare import Difference, first_difference
from teucer.debug._double import is_inexact
from teucer.debug._walk import Equal, Fault, Loss, Walk

if TYPE_CHECKING:
    from teucer._core.typing import Value


class Line(NamedTuple):
    """A line of the user's program that loses digits.

    digits: decimal digits that its worst operation loses. times: how many operations of the line
    lose some.
    """

    place: str
    text: str
    operation: str
    digits: float
    times: int
    backward: bool
    remedy: str


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """The result of `explain`; `str` gives it as text.

    digits: for each result, by its path, how many decimal digits agree with double precision, of
    `possible`.
    difference: the first operation whose compiled form differs. nan, inf: the first operation that
    makes such a value.
    lines: the lines that lose digits, the worst first. not_in_double: operations that have no form
    of double precision. equal: decompositions that are differentiated at equal values.
    """

    name: str
    digits: dict[str, tuple[float, float]]
    difference: Difference | None
    nan: Fault | None
    inf: Fault | None
    lines: tuple[Line, ...]
    not_in_double: tuple[str, ...]
    equal: tuple[Equal, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether there is nothing to mend: no NaN, no infinity, no difference, no line that loses
        two digits."""
        worst = max((line.digits for line in self.lines), default=0.0)
        return self.difference is None and self.nan is None and self.inf is None and worst < 2

    def __str__(self) -> str:
        said = [f"explain: {self.name}"]
        said += [
            f"  {name}: {agree:.1f} of {possible:.1f} decimal digits agree with double precision"
            for name, (agree, possible) in self.digits.items()
        ]
        if self.difference is not None:
            said += [
                "",
                "The compiled program differs from its operations run one by one:",
                str(self.difference),
            ]
        for fault in (self.nan, self.inf):
            if fault is not None:
                said += ["", f"The first {fault.kind}:", str(fault)]
        if self.equal:
            said += [
                "",
                "Differentiated at equal values, whose vectors are any basis of their space:",
                *map(str, self.equal),
                "    -> what is computed of the whole space has its derivative; what depends on "
                "the basis has none, and counts as constant",
            ]
        if self.lines:
            said += ["", "Lines by the digits that they lose:"]
        for line in self.lines:
            way = ", in the backward pass" if line.backward else ""
            times = f", {line.times} times" if line.times > 1 else ""
            said.append(f"  {line.digits:4.1f}  {line.place}  {line.operation}{times}{way}")
            said += [f"          {line.text}"] if line.text else []
            said += [f"        -> {line.remedy}"] if line.remedy else []
        if self.not_in_double:
            said += [
                "",
                "Not run in double precision (taken as exact): " + ", ".join(self.not_in_double),
            ]
        if self.clean:
            said += ["", "Nothing to mend: no NaN, no infinity, no line that loses two digits."]
        return "\n".join(said)

    def __repr__(self) -> str:
        return str(self)


@tracebacks.api_boundary
def explain(
    fun: Callable[..., object], *args: object, tolerance: float | None = None, **kwargs: object
) -> Explanation:
    """Where a program loses digits, makes a NaN or an infinity, or differs from its compiled form.

    The function is run three times on the arguments: compiled, operation by operation, and beside
    that in double precision from the same arguments. Loops are run step by step, so it takes long.
    tolerance: the relative difference between compiled and uncompiled values that is not reported,
        by default 1000 roundings of the dtype.

    An operation loses digits if its result has a larger relative error than its operands. The error
    of an array is the bound that nine elements in ten keep to. Random bits, integers and branches
    taken are as in the given precision. Operations without a form in double precision, such as
    kernels and foreign functions, count as exact.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> found = jax.debug.explain(lambda x: jnp.log(1 + x), 1e-6)
    >>> found.lines[0].remedy
    'jnp.log1p(x) is log(1 + x) without forming 1 + x'
    """
    leaves, tree = pytrees.tree_flatten((args, kwargs))

    def flat(*values: Value) -> Any:
        given, named = pytrees.tree_unflatten(tree, values)
        return fun(*given, **named)

    with config.debug_nans(False), config.debug_infs(False):
        closed, shape = make_jaxpr(flat, return_shape=True)(*leaves)
        walk = Walk()
        outs = walk.run(closed, leaves)
        compiled = pytrees.tree_leaves(jit(flat)(*leaves))
        difference = first_difference(closed, leaves, [y.primal for y in outs], compiled, tolerance)
    paths = [f"result{pytrees.keystr(path)}" for path, _ in pytrees.tree_leaves_with_path(shape)]
    digits = {
        path: (_digits(y.error, y.primal), _possible(y.primal))
        for path, y in zip(paths, outs, strict=True)
        if is_inexact(y.primal)
    }
    return Explanation(
        getattr(fun, "__name__", type(fun).__name__),
        digits,
        difference,
        walk.nan,
        walk.inf,
        _lines(walk.losses),
        tuple(sorted(walk.not_in_double)),
        tuple(walk.equal),
    )


def _possible(x: Value) -> float:
    """How many decimal digits the dtype of an array has."""
    return -math.log10(float(_eps(x)))


def _eps(x: Any) -> Any:
    return ml_dtypes.finfo(x.dtype).eps


def _digits(error: float, x: Value) -> float:
    """How many decimal digits of an array of that relative error are right."""
    return (
        0.0
        if not math.isfinite(error)
        else min(_possible(x), max(0.0, -math.log10(max(error, 1e-300))))
    )


def _lines(losses: dict[Any, list[Loss]]) -> tuple[Line, ...]:
    """Losses by line, the worst first."""
    lines = []
    for where, found in losses.items():
        worst = max(found, key=lambda loss: loss.digits)
        eqn: Eqn = worst.eqn
        place = source.describe(eqn.place)
        text = linecache.getline(*where).strip() if where is not None else ""
        lines.append(
            Line(
                place,
                text,
                str(eqn.primitive),
                worst.digits,
                len(found),
                worst.backward,
                worst.remedy,
            )
        )
    return tuple(sorted(lines, key=lambda line: -line.digits))
