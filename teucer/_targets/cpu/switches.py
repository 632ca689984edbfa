"""Options of XLA's CPU backend for a program.

Whether its loops are plain, and whose convolutions suit it.

Two optimizations of the backend take a quarter of the time of a compilation: tiles, which make
transposition fast, and unrolling, which makes loops of few steps fast. Code for **plain loops**,
long ones that run along the last axis of everything that a program reads and writes, is as fast
without them (docs/outlining.md).

Loops of the program are one kernel each, or several: a kernel of each operation in their steps
(docs/outlining.md).

Convolutions over two axes are YNNPACK's where XLA is not told otherwise. Some take half the time by
Eigen, others a multiple (docs/convolutions.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from teucer._core.structure import is_loop
from teucer._optimize.operations import operations
from teucer._targets.cpu import constants
from teucer._targets.extent import has_more
from teucer._targets.outlined_call import outlined_call_p
from teucer._xla import client as xla

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


class LoopCounts(NamedTuple):
    """Of an equation or a jaxpr. moved: elements that are transposed, in short loops or in windows,
    infinitely many where nothing is known of the loops. computed: elements in all. products:
    multiplications of convolutions that are YNNPACK's or Eigen's.
    eigen: products that Eigen saves."""

    moved: float
    computed: float
    products: float
    eigen: float


def has_plain_loops(jaxpr: Jaxpr, parts: int = 1) -> bool:
    """Whether the loops that a jaxpr becomes are plain but for little, as far as can be told from
    its equations.

    parts: the devices among which the compiler divides arrays. Arrays that it leaves whole make
    longer loops.
    """
    counts = _counts(jaxpr, parts)
    return counts.moved <= constants.PLAIN_PART * counts.computed


def gains_by_whole_loops(jaxpr: Jaxpr) -> bool | None:
    """Whether loops gain from being one kernel each, if a jaxpr has some, including loops that its
    operations become; None where XLA is to decide."""
    if len(jaxpr.eqns) == 1 and not jaxpr.eqns[0].primitive.higher_order:
        return True  # without more calls of Python
    steps = _loop_steps(jaxpr)
    return None if steps.kept and not steps.lag else not steps.lag


def suits_eigen(jaxpr: Jaxpr) -> bool:
    """Whether the convolutions of a jaxpr take clearly less time by Eigen than by YNNPACK."""
    counts = _counts(jaxpr)
    return counts.eigen > constants.EIGEN_CLEAR * counts.products


def _counts(jaxpr: Jaxpr, parts: int = 1) -> LoopCounts:
    """The sums over the equations; kept on the jaxpr."""
    key = (_counts, parts)
    found: LoopCounts | None = jaxpr.cache.get(key)
    if found is None:
        found = jaxpr.cache[key] = _sums([_counts_of(eqn, parts) for eqn in jaxpr.eqns])
    return found


class LoopSteps(NamedTuple):
    """Of a jaxpr. lag: whether loops in it take longer as one kernel, to run or to compile.
    kept: whether there are others that may: threads may share their steps, outlining made them, or
    products in them have long code.
    narrow: whether something in it takes longer in such a kernel, because its rows are short.
    divided: whether it calls a kernel that threads may divide among them, which fails within a
    kernel.
    by_library: whether a library computes some of it, so that XLA makes no kernel of a loop around
    it."""

    lag: bool = False
    kept: bool = False
    narrow: bool = False
    divided: bool = False
    by_library: bool = False


def _loop_steps(jaxpr: Jaxpr) -> LoopSteps:
    """The facts that hold for any of the equations; kept on the jaxpr."""
    found: LoopSteps | None = jaxpr.cache.get(_loop_steps)
    if found is None:
        found = jaxpr.cache[_loop_steps] = _any_of([_loop_steps_of(eqn) for eqn in jaxpr.eqns])
    return found


def _any_of(steps: list[LoopSteps]) -> LoopSteps:
    return LoopSteps(*map(any, zip(*steps, strict=True))) if steps else LoopSteps()


def _loop_steps_of(eqn: Eqn) -> LoopSteps:
    primitive, work = eqn.primitive, eqn.primitive.cost.work
    if True in [v.aval.symbolic for v in eqn.invars]:
        return LoopSteps()
    if work is Work.PRODUCT:
        return _product(eqn)
    if work is Work.LIBRARY or primitive.cost.reorders:
        return LoopSteps(by_library=True)
    if work is Work.EXTREMUM:
        aval = eqn.invars[0].aval
        stays = aval.ndim - 1 not in eqn.params["axes"]
        return LoopSteps(narrow=stays and _is_short(aval) and aval.size >= constants.WHOLE_EXTREMA)
    if not primitive.higher_order:
        return LoopSteps()
    inner = list(jaxprs_in_params(eqn.params))
    steps = _any_of([_loop_steps(jaxpr) for jaxpr in inner])
    view = structure.of(eqn)
    loops = isinstance(view, structure.Loop)
    open_ended = isinstance(view, structure.Loop) and view.length is None
    # XLA may divide the last operation of a called function, or of a body of a loop, among threads.
    # With several results that operation is a tuple, which it does not divide.
    if (
        (primitive is outlined_call_p or open_ended)
        and len(eqn.outvars) == 1
        and eqn.outvars[0].aval.size >= constants.WHOLE_CALL
    ):
        steps = steps._replace(divided=xla.DIVIDES_CALLS)
    if loops:
        lags = (
            steps.narrow
            or steps.divided
            or True in [has_more(j, constants.WHOLE_STEP) for j in inner]
        )
        # Loops that outlining makes must round as the equations they replace.
        kept = (
            eqn.source is None
            or max(map(_work, inner)) >= constants.WHOLE_WORK
            or max(map(_length, inner)) >= constants.WHOLE_STEP
        )
        return steps._replace(
            lag=steps.lag or (lags and not steps.by_library),
            kept=steps.kept or (kept and not steps.by_library),
        )
    return steps


def _work(jaxpr: Jaxpr) -> float:
    """Operations on numbers, each loop in it once."""
    return sum(
        [
            sum(map(_work, jaxprs_in_params(eqn.params)))
            if eqn.primitive.higher_order
            else operations(eqn)
            * (constants.ELEMENTARY_WORK if eqn.primitive.cost.work is Work.FUNCTION else 1)
            for eqn in jaxpr.eqns
        ]
    )


def _length(jaxpr: Jaxpr) -> int:
    """The number of equations. A product counts as many, since its code is as long."""
    return sum(
        [
            sum(map(_length, jaxprs_in_params(eqn.params)))
            if eqn.primitive.higher_order
            else constants.PRODUCT_LENGTH
            if eqn.primitive.cost.work is Work.PRODUCT
            else 1
            for eqn in jaxpr.eqns
        ]
    )


def _product(eqn: Eqn) -> LoopSteps:
    """The loops of a product. YNNPACK computes products of matrices of some size, but not a matrix
    times a vector."""
    (contracted, _), (batched, _) = eqn.params["dimension_numbers"]
    left, right = eqn.invars[0].aval, eqn.invars[1].aval
    terms = math.prod([left.shape[i] for i in contracted])
    both = max(terms * math.prod([left.shape[i] for i in batched]), 1)
    rows, columns = left.size // both, right.size // both
    if rows > 1 and columns > 1 and rows * columns * terms >= constants.LIBRARY_PRODUCT:
        return LoopSteps(by_library=True)
    larger = left if left.size >= right.size else right
    large = rows * columns * both >= constants.WHOLE_PRODUCT
    return LoopSteps(narrow=large and _is_short(larger))


def _is_short(aval: ShapedArray) -> bool:
    return bool(aval.ndim and aval.shape[-1] < constants.WHOLE_ROW)


def _sums(counts: list[LoopCounts]) -> LoopCounts:
    if len(counts) == 1:
        return counts[0]
    return LoopCounts(*map(sum, zip(*counts, strict=True))) if counts else LoopCounts(0, 0, 0, 0)


def _counts_of(eqn: Eqn, parts: int) -> LoopCounts:
    # Code of each device (shard_map) is on its own part.
    inner = [
        _counts(jaxpr, parts if eqn.primitive.within is None else 1)
        for jaxpr in jaxprs_in_params(eqn.params)
    ]
    if inner:
        counts = _sums(inner)
        # Loops that outlining makes come from no line. Unrolled, they would round otherwise.
        of_user = is_loop(eqn.primitive) and eqn.source is not None
        if of_user and 0 < _largest(eqn) <= counts.computed <= constants.PLAIN_BODY:
            return counts._replace(moved=math.inf)
        return counts
    ins, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    avals, cost = ins + outs, eqn.primitive.cost
    if True in [aval.symbolic for aval in avals]:
        return LoopCounts(math.inf, 0, 0, 0)
    sizes = [aval.size / parts for aval in avals]
    computed = sum(sizes[len(ins) :])
    if max(sizes, default=0) < constants.PLAIN_FEW:
        return LoopCounts(0, computed, 0, 0)
    narrow = sum([n for n, aval in zip(sizes, avals, strict=True) if _is_narrow(aval)])
    moved, work, products, eigen = cost.moved(ins, eqn.params), cost.work, 0.0, 0.0
    if work is Work.PRODUCT:
        from teucer._targets.cpu.products import gains_by_rows  # for programs that have some

        lhs, rhs = ins
        moved += lhs.size if gains_by_rows(lhs, rhs, eqn.params["dimension_numbers"]) else 0
    elif work is Work.CONVOLUTION:
        from teucer._targets.cpu.convolutions import by_eigen  # as above

        products, eigen = by_eigen(*ins, *outs, **eqn.params)
    moved = moved / parts + narrow
    return LoopCounts(
        moved if moved <= constants.PLAIN_CACHED else math.inf, computed, products, eigen
    )


def _largest(eqn: Eqn) -> float:
    """Elements of the largest array that a step of a loop computes; 0 if there are only numbers."""
    sizes = [
        math.inf if v.aval.symbolic else v.aval.size
        for jaxpr in jaxprs_in_params(eqn.params)
        for inner in jaxpr.eqns
        for v in inner.outvars
        if v.aval.ndim
    ]
    return max(sizes, default=0)


def _is_narrow(aval: ShapedArray) -> bool:
    return bool(
        aval.ndim > 1
        and 1 < aval.shape[-1] < constants.PLAIN_STEPS
        and aval.size >= constants.PLAIN_FEW
    )
