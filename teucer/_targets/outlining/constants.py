"""The constants of outlining: its bounds, and the records of break-even points that targets fill.

Notes named here stand in `benchmarks/notes/`, and say on which machine. Their figures are the
CPU's; other targets replace what differs there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from teucer._core.jaxpr import Eqn, Jaxpr
from teucer._targets.outlining.bytes import carried


class Costs(NamedTuple):
    """When a repeat is outlined: break-even points (of the CPU: `_targets.cpu.rates`).

    short: the least equations of a function, if XLA does not fuse all of them into one loop. fused:
    the least equations if XLA does: then each call costs another pass over memory.
    saved: the least equations that a function takes out of the program. saved_by_few: the same for
    at most `few` instances. There XLA's work grows no faster than the depth, and calls cost copies.
    separated, carried: programs with an equation in so many at which fusion ends (`Cost.separates`)
        get loops, and functions that take and give so many bytes, which are executables of their
        own (`pieces`).
    many: in a run of at least this many periods the equations left over at its ends cost little.
    steps, stacked: calls that follow one another become a loop if they are as many, and if the loop
        need not stack more than so many bytes a step.
    """

    short: int
    fused: int
    saved: int
    few: int
    saved_by_few: int
    separated: int
    carried: int
    many: int
    steps: int
    stacked: int

    def pay(self, eqns: Sequence[Eqn], count: int) -> bool:
        """Whether equations that occur `count` times are to be a function."""
        saved = self.saved_by_few if count <= self.few else self.saved
        if (count - 1) * len(eqns) < saved or len(eqns) < self.short:
            return False
        return len(eqns) >= self.fused or not all(eqn.primitive.cost.fuses for eqn in eqns)


class Limits(NamedTuple):
    """When a program is cut into pieces: break-even points (of the CPU: `_targets.cpu.rates`).

    carried: the least bytes of a function's operands and results with which the overhead of its
    call is small.
    copied: equations that XLA would have to copy, at least.
    grouped, repeated, held: calls of a function that follow one another share pieces. A piece has
    so many calls at most; XLA copies so many equations in it; it takes and gives so many bytes at
    most.
    groups: where the calls do not divide into such pieces, there are so many pieces at least.
    runs: of such pieces, as data may flow between their calls in different ways, each runs so many
    times on the average, at least.
    """

    carried: int
    copied: int
    grouped: int
    groups: int
    repeated: int
    held: int
    runs: int

    def large(self, function: Jaxpr) -> bool:
        """Whether the overhead of a function's call is small."""
        return carried(function) >= self.carried

    def most(self, function: Jaxpr) -> int:
        """How many calls of a function may share a piece."""
        return min(
            self.grouped,
            1 + self.repeated // max(len(function.eqns), 1),
            self.held // max(carried(function), 1),
        )

    def singly(self) -> Limits:
        """The same, with a piece for each call."""
        return self._replace(repeated=0)


# Periods of a run from which on the equations left over at its ends cost little. Measured:
# outlining.md, "An edit of one layer".
MANY = 16
# Calls of a piece, pieces of a run, bytes that a piece holds, runs of a piece. Measured:
# outlining.md, "Pieces".
GROUPED, GROUPS, HELD, PIECE_RUNS = 4, 6, 1 << 25, 3

# For `outline=True`: all equations that can be a function or a piece become one. Not measured.
FORCED_COSTS = Costs(
    short=4,
    fused=4,
    saved=4,
    few=0,
    saved_by_few=0,
    separated=0,
    carried=0,
    many=MANY,
    steps=4,
    stacked=1 << 16,
)
FORCED_LIMITS = Limits(
    carried=0, copied=1, grouped=GROUPED, groups=GROUPS, repeated=0, held=HELD, runs=PIECE_RUNS
)


# --- The search -------------------------------------------------------------------------------

# How often the equations are searched, at most, calls being letters from the second time on. Not
# measured: a bound.
OUTLINE_ROUNDS = 4
# A run of at least this many periods has a typical inner one, near neither end. Not measured.
LONG_RUN = 4
# The weight of a value that passes a cut, in bytes: more than any program has. So bytes only decide
# between cuts that equally many values pass.
PASSING = 1 << 40
# If a period is shorter than the shortest function, periods in a row become one function of at
# least PERIODS times the shortest length. Measured: outlining.md, "Thresholds" (LSTM and
# Runge-Kutta, whose steps are short).
PERIODS = 4

# Operands of an expression that is written again where it is read, at most. Not measured: a bound.
CHEAP_MOST = 8
# The weight of an equation left over at the ends of a run, for each equation of a period. A value
# that passes a cut weighs 1. Not measured.
LEFT_OVER = 4
# For repeats that occur side by side: the part of an occurrence that is written a second time.
ADJACENT = 0.25
# A candidate that saves a smaller part of its bound waits for others.
STALE = 0.9
# The work of the search. A look at a candidate costs the number of its places and LOOKS_EACH. In
# all the search may spend LOOKS_LEAST, and LOOKS for each letter. Not measured: bounds.
LOOKS, LOOKS_LEAST, LOOKS_EACH = 10, 5000, 100

# Recomputation. A use is far if so many equations lie between it and the value: more than a few
# lines of a program, fewer than a layer. At most so many equations compute a value again. The array
# that is kept in its place is so many times smaller. Measured:
# outlining.md, "Cheap values computed again".
RECOMPUTE_FAR, RECOMPUTE_MOST, RECOMPUTE_SMALLER = 32, 8, 8
# How many neighbours on each side must be equal for two equations to be alike.
RECOMPUTE_LIKE = 3


# --- What is computed again (docs/remat.md) -------------------------------------------------------


class Speeds(NamedTuple):
    """Approximate speeds of a device. Per second: `products`, operations of matrix products;
    `memory` and `host`, bytes read or written in its own memory and in the host's. `element`:
    seconds of an elementary function of one number."""

    products: float
    element: float
    memory: float
    host: float


# Approximate data sheet of an accelerator of 2024, for devices that nobody has measured.
ACCELERATOR = Speeds(products=2e14, element=2e-12, memory=1.5e12, host=2.5e10)
