"""The tuned constants of the CPU target, each with where it was measured.

Those that follow from what compiling and running takes are in `rates`, as functions of it.

Notes named here stand in `benchmarks/notes/`, and say on which machine: servers with 2 cores,
jaxlib 0.10.2 where they do not say otherwise. The pages of `docs/` say what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from teucer._core.jaxpr import Eqn

__all__ = ["COMMITTED", "FORCED_COSTS", "FORCED_LIMITS", "Costs", "Limits", "Rates"]


# --- Outlining (docs/outlining.md) ----------------------------------------------------------------


class Costs(NamedTuple):
    """When a repeat is outlined: break-even points (`teucer._targets.cpu.rates`).

    short: equations that a function has at least, if XLA does not fuse all of them into one loop.
    fused: the same, if it does: then each call costs another pass over memory.
    saved: equations fewer in the program, at least. few, saved_by_few: the same for so few
        instances or fewer: what XLA makes of a program grows faster than its depth only from there
        on, and calls cost copies.
    separated, carried: programs with an equation in so many at which fusion ends (`Cost.separates`)
        get loops, and functions that take and give so many bytes, which are executables of their
        own (`teucer._targets.cpu.pieces`).
    many: periods of a run from which on what its ends leave over costs little beside them.
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
    """When a program is cut into pieces: break-even points (`teucer._targets.cpu.rates`).

    carried: bytes that a function takes and gives, at least, so that what its call costs by itself
    is small beside it.
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


# Periods of a run from which on what its ends leave over costs little. Measured: outlining.md, "An
# edit of one layer".
MANY = 16
# Programs with so many equations for each at which fusion ends. Measured: outlining.md,
# "Thresholds".
SEPARATED = 64
# Calls of a piece, pieces of a run, bytes that a piece holds, runs of a piece. Measured:
# outlining.md, "Pieces".
GROUPED, GROUPS, HELD, PIECE_RUNS = 4, 6, 1 << 25, 3

# Where a user asks for it (`outline=True`): whatever can be a function, or a piece. Not measured.
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

# --- The cost model (docs/outlining.md, "Thresholds"). Measured: corpus.md, "The cost model" ------

# A way is taken if it pays by more than this part.
MARGIN = 0.1
# Equations of a usual layer, forward or backward.
LAYER = 64
# Another threshold differs clearly if it is more than so many times as large, or as small.
CLEAR = 2
# How often a program runs for each time that it is compiled.
RUNS = 1250


class Rates(NamedTuple):
    """Seconds of one processor, where nothing else is said.

    Of compilation, for the gradient of a network of equal layers. program: what does not grow with
    its depth. equation: an equation of a short one. length: equations of one in which each takes
    twice as long. function: what the layer as functions (forward and backward) that XLA does not
    inline adds. called: their calls for one layer. rolled: what the loops in the place of calls
    add. loop: one loop of machine code, which XLA makes of fused equations.
    Of a step. call: a call within an executable. dispatch: an executable that is a piece.
    element: the sine of one number. cached, memory: bytes that are copied in a second, of arrays
    that caches hold, and of larger ones.
    """

    program: float
    equation: float
    length: float
    function: float
    called: float
    rolled: float
    loop: float
    call: float
    dispatch: float
    element: float
    cached: float
    memory: float

    def flat(self, equations: float) -> float:
        """Seconds to compile a network whose layers are written one after the other."""
        return self.program + self.equation * equations * (1 + (equations / self.length) ** 2)

    def outlined(self, layers: float) -> float:
        """The same if each layer is a call."""
        return self.program + self.function + self.called * layers

    def looped(self) -> float:
        """The same if the layers are a loop."""
        return self.outlined(1) + self.rolled


# By release of jaxlib. Measured as `teucer tune` does, medians of three rounds on an idle machine,
# 2026-11-27, AMD EPYC, 2 cores (tune.md). Of `call` and `cached` on 0.12 the best round: they
# differed by twice.
COMMITTED = {
    (0, 10): Rates(
        program=0.1337,
        equation=7.75e-4,
        length=1409,
        function=0.2357,
        called=0.00951,
        rolled=0.0504,
        loop=0.0440,
        call=4.08e-7,
        dispatch=5.5e-6,
        element=2.463e-9,
        cached=4.67e10,
        memory=9.587e9,
    ),
    (0, 12): Rates(
        program=0.1518,
        equation=6.086e-4,
        length=1076,
        function=0.1271,
        called=0.01243,
        rolled=0.1067,
        loop=0.04284,
        call=8.448e-7,
        dispatch=9.525e-6,
        element=3.122e-9,
        cached=2.264e10,
        memory=9.164e9,
    ),
}


# How often the equations are searched, at most, calls being letters from the second time on. Not
# measured: a bound.
OUTLINE_ROUNDS = 4
# What a value that passes a cut counts beside its bytes, which decide between cuts that as many
# pass: more than any program has.
PASSING = 1 << 40
# Of a short period, so many times the shortest function become one. Measured: outlining.md,
# "Thresholds" (LSTM and Runge-Kutta, whose steps are short).
PERIODS = 4

# Recomputation. A use is far if so many equations lie between it and the value: more than a few
# lines of a program, fewer than a layer. At most so many equations compute a value again. The array
# that is kept in its place is so many times smaller. Measured:
# outlining.md, "Cheap values computed again".
RECOMPUTE_FAR, RECOMPUTE_MOST, RECOMPUTE_SMALLER = 32, 8, 8

# Bytes of an expensive result that malloc keeps for the next step (`host_memory`). Measured:
# outlining.md, "Expensive values".
EXPENSIVE_MOST = 1 << 25
# Ways to read an expensive value that are told apart. Not measured: a bound.
EXPENSIVE_WAYS = 8

# A reciprocal of a divisor pays for another loop if the divisor is broadcast to so many elements.
# Measured: corpus.md, "Quotients".
DIVIDED_LEAST = 1 << 10


# --- Lean code (docs/outlining.md). Measured: outlining.md, "Lean code" ---------------------------

# From so many steps of the innermost loop (that over the last axis), vector instructions are enough
# unrolling.
PLAIN_STEPS = 8
# Elements of an array whose loops take next to no time, whatever they are; of one that cache holds
# while it is transposed.
PLAIN_FEW, PLAIN_CACHED = 1 << 10, 1 << 17
# Elements that a step of a user's loop computes up to which the loops inside are too short for
# vector instructions. Measured: corpus.md, "XLA's unrolling for loops over small arrays".
PLAIN_BODY = 1 << 11
# The part of all elements that loops of another kind may take.
PLAIN_PART = 1 / 16


# --- Products (docs/performance.md, "Many small matrices", and the paragraph on left operands) ----

# For each of many matrices of such sizes XLA calls a library; a loop is 3 to 25 times as fast.
SMALL_ROWS, SMALL_COLUMNS, SMALL_MANY = range(4, 8), range(3, 8), 32
# Products whose left operand is copied to rows first. Of many matrices: those with so few or so
# many multiplications each. Of one matrix: short sums and narrow results, but not sums that are
# long for the size of the result. Of fewer multiplications than ROWS_LEAST they take as long either
# way, and the copy takes as long to compile. Measured: corpus.md, "Loops".
ROWS_SMALL, ROWS_LARGE, ROWS_LEAST = 1 << 13, 1 << 24, 1 << 17
ROWS_SHORT, ROWS_NARROW, ROWS_LONG = 8, 16, 32


# --- Convolutions (docs/convolutions.md) ----------------------------------------------------------

# Products that are written out one by one; planes that are. Measured: convolutions.md, "Rewritten
# convolutions".
CONVOLUTION_TERMS, CONVOLUTION_PLANES = 128, 8
# Convolutions of fewer products take no time and are not counted.
EIGEN_FEW = 1 << 21
# XLA leaves convolutions to Eigen where neither operand nor result has more features.
EIGEN_FEATURES = 16


class EigenRates(NamedTuple):
    """How many times as long YNNPACK takes as Eigen. Measured: convolutions.md, "YNNPACK and
    Eigen".

    points: of windows of one pixel. colours: the same from fewer than 8 features. sums: of their
    gradients, which are sums over all places.
    single, few, many: of the gradients of other kernels, of up to 2 images, up to 6, and more.
    narrow: of fewer than 24 features in or out (not of colours, fewer than 8, in), and of windows
    that do not overlap. other: of all others.
    """

    points: float
    colours: float
    sums: float
    single: float
    few: float
    many: float
    narrow: float
    other: float


# By the first release of jaxlib that has them. In those before 0.12 YNNPACK leaves most of its work
# to one thread; from then on the work is what counts.
EIGEN = {
    (0, 10): EigenRates(1.9, 0.45, 2.2, 0.3, 0.5, 1.2, 1.0, 1.5),
    (0, 12): EigenRates(1.25, 0.45, 1.6, 0.3, 0.75, 1.0, 0.7, 0.95),
}
# Eigen computes the convolutions of a program if that saves more than this part of their time.
EIGEN_CLEAR = MARGIN


# --- Executables ----------------------------------------------------------------------------------

# Executables of at least so many bytes are stripped, which halves their loading time
# (docs/configuration.md, "Stripped forms"). Smaller ones load in a few milliseconds anyway.
STRIPPED_LEAST = 1 << 16
