"""The cost model of the CPU: times to compile and to run, and the thresholds that follow.

`Rates` are measured (`teucer tune`; ours are committed for two releases of jaxlib). `thresholds`
derives break-even points from them, which outlining, rolling and pieces ask. A ratio of two rates
says where two ways cost the same. Factors (`constants.FACTORS`) stand for quantities that no ratio
has, such as the loops of a layer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from teucer._targets.cpu import constants
from teucer._targets.outlining.constants import (
    GROUPED,
    GROUPS,
    HELD,
    MANY,
    PIECE_RUNS,
    Costs,
    Limits,
)
from teucer._xla.client import jaxlib_version

T = TypeVar("T")


class Thresholds(NamedTuple):
    """Break-even points.

    expensive: elements of an expensive result (`Cost.expensive`) that take longer to compute than a
    call. long: elements of random bits that one loop reads, up to which another pass over memory
    costs less than it saves of compilation.
    """

    costs: Costs
    limits: Limits
    expensive: int
    long: int

    def named(self) -> dict[str, int]:
        """All of them by name."""
        return {
            **self.costs._asdict(),
            **{f"pieces.{name}": n for name, n in self.limits._asdict().items()},
            "expensive": self.expensive,
            "long": self.long,
        }

    def settled(self, ours: Thresholds) -> Thresholds:
        """Those that differ clearly from `ours`, and ours otherwise: near a break-even point it
        makes no difference, and measurements err."""

        def settle(found: int, our: int) -> int:
            return (
                our if our <= constants.CLEAR * found and found <= constants.CLEAR * our else found
            )

        return Thresholds(
            Costs(*map(settle, self.costs, ours.costs)),
            Limits(*map(settle, self.limits, ours.limits)),
            settle(self.expensive, ours.expensive),
            settle(self.long, ours.long),
        )


@functools.cache
def thresholds(rates: constants.Rates) -> Thresholds:
    """The thresholds that follow from rates. Rounded, so that errors of measurement rarely show."""
    # The body of a function takes longer to compile than most of its call.
    short = rounded(constants.FACTORS.short * rates.called / rates.equation)
    # The equations that a few calls spare take as long as the function.
    function = rounded(constants.FACTORS.function * rates.function / rates.equation)
    # In a program of this many equations each takes a quarter longer to compile.
    copied = rounded(constants.FACTORS.copied * rates.length)
    # Going over so many bytes, often enough, takes ten times as long as the dispatch of a piece.
    carried = rounded(constants.FACTORS.carried / constants.MARGIN * rates.dispatch * rates.memory)
    return Thresholds(
        Costs(
            short=short,
            # A call adds a loop, and saves most of the loop's compile time.
            fused=rounded(constants.FACTORS.fused * rates.loop / rates.equation),
            # Three of the shortest functions.
            saved=constants.FACTORS.saved * short,
            # In layers: the equations that a few calls must spare.
            few=max(1, round(function / constants.LAYER)),
            saved_by_few=function,
            separated=constants.SEPARATED,
            carried=carried,
            many=MANY,
            # As many calls take half as long to compile as the loop, and longer to run.
            steps=max(2, rounded(constants.FACTORS.steps * rates.rolled / rates.called)),
            # The copy takes no longer than the calls of a layer do without the loop.
            stacked=rounded(constants.FACTORS.stacked * rates.call * rates.memory),
        ),
        Limits(
            carried=carried,
            copied=copied,
            grouped=GROUPED,
            groups=GROUPS,
            repeated=copied,
            held=HELD,
            runs=PIECE_RUNS,
        ),
        # The call, and the pass over memory that it adds, cost a tenth of the value that is
        # computed once.
        expensive=rounded(
            constants.FACTORS.expensive / constants.MARGIN * rates.call / rates.element
        ),
        # A number is four bytes, written and read at each run; a loop is compiled once.
        long=rounded(rates.loop / constants.RUNS * rates.cached / constants.FACTORS.long),
    )


def rounded(number: float) -> int:
    """The nearest of 1, 2, 3, 4, 6, 8, 12, 16, 24, ... by ratio."""
    power = 2.0 ** math.floor(math.log2(max(number, 1)))
    return int(
        min((power, 1.5 * power, 2 * power), key=lambda n: abs(math.log(n / max(number, 1))))
    )


@functools.cache
def committed() -> Thresholds:
    """The break-even points of the rates that Teucer comes with for this jaxlib."""
    return committed_for(jaxlib_version)


def committed_for(jaxlib: str) -> Thresholds:
    """The break-even points for a release of jaxlib. Those that do not clearly differ are taken
    from the first release, with which whole programs were measured."""
    first = thresholds(constants.COMMITTED[min(constants.COMMITTED)])
    return thresholds(committed_rates(jaxlib)).settled(first)


def committed_rates(jaxlib: str) -> constants.Rates:
    """The rates that Teucer comes with for a release of jaxlib."""
    return of_release(constants.COMMITTED, jaxlib)


def of_release(known: Mapping[tuple[int, int], T], jaxlib: str) -> T:
    """The entry of the last release that is not later, or of the first."""
    version = tuple(int(part) for part in jaxlib.split(".")[:2])
    return known[max((release for release in known if release <= version), default=min(known))]
