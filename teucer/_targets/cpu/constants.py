"""The tuned constants of the CPU target, each with where it was measured.

Thresholds that follow from times to compile and to run are computed in `rates`.

Notes named here stand in `benchmarks/notes/`, and say on which machine: servers with 2 cores,
jaxlib 0.10.2 where they do not say otherwise. The pages of `docs/` say what follows.
"""

from __future__ import annotations

from typing import NamedTuple

# --- Outlining (docs/outlining.md); the other constants of it: `outlining.constants` -------------

# Programs with so many equations for each at which fusion ends. Measured: outlining.md,
# "Thresholds".
SEPARATED = 64

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

    Of compilation, for the gradient of a network of equal layers. program: the part that does not
    grow with its depth. equation: an equation of a short one. length: equations of one in which
    each takes twice as long. function: what the layer as functions (forward and backward) that XLA
    does not inline adds. called: their calls for one layer. rolled: what the loops in the place of
    calls add. loop: one loop of machine code, which XLA makes of fused equations. Of a step. call:
    a call within an executable. dispatch: an executable that is a piece.
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


class Factors(NamedTuple):
    """Factors of the ratios in `rates.thresholds`, for quantities that the rates lack. Fitted so
    that the committed rates give what was measured on whole programs: corpus.md, "The cost model".

    short: the least function, against the compilation of a call. function: the equations that few
    calls must spare, against the compilation of a function. copied: the equations from which each
    takes a quarter longer, against `Rates.length`. carried: the time of a pass over the operands
    and results of a function, against the dispatch of a piece; divided by `MARGIN`. fused: the
    least function that is one loop, against the compilation of a loop. saved: the least number of
    equations that calls save, against `short`. steps: the least number of calls that become a
    loop, against the compilation of the loop. stacked: the time to copy what a loop stacks in a
    step, against a call. expensive: the time of a value that is computed once, against a call;
    divided by `MARGIN`. long: bytes that each element of a loop's result moves: a number of four
    bytes is written once and read twice.
    """

    short: float
    function: float
    copied: float
    carried: float
    fused: float
    saved: int
    steps: float
    stacked: float
    expensive: float
    long: int


FACTORS = Factors(
    short=1.3,
    function=0.85,
    copied=0.36,
    carried=3,
    fused=1.1,
    saved=3,
    steps=0.75,
    stacked=16,
    expensive=2.5,
    long=12,
)

# Loops that read a part of an array each, from which on the parts are alike to XLA.
# Measured: outlining.md, "Parts".
ALIKE_LEAST = 4

# Bytes of an expensive result that malloc keeps for the next step (`host_memory`). Measured:
# outlining.md, "Expensive values".
EXPENSIVE_MOST = 1 << 25
# Ways to read a variable, or loops that read it, that are told apart. Not measured: a bound.
WAYS = 8

# A loop that computes the reciprocal of a divisor pays if the divisor is broadcast to at least this
# many elements.
# Measured: corpus.md, "Quotients".
DIVIDED_LEAST = 1 << 10


# --- Lean code (docs/outlining.md). Measured: outlining.md, "Lean code" ---------------------------

# If the innermost loop, over the last axis, has at least this many steps, vector instructions are
# enough and XLA need not unroll it.
PLAIN_STEPS = 8
# Elements of an array whose loops take almost no time; elements of an array that fits into the
# cache while it is transposed.
PLAIN_FEW, PLAIN_CACHED = 1 << 10, 1 << 17
# Elements that a step of a user's loop computes up to which the loops inside are too short for
# vector instructions. Measured: corpus.md, "XLA's unrolling for loops over small arrays".
PLAIN_BODY = 1 << 11
# The greatest part of all elements that loops of another kind may compute.
PLAIN_PART = 1 / 16

# --- Whole loops (docs/outlining.md). Measured: corpus.md, "Whole loops" --------------------------

# A product of matrices with at least this many multiplications is computed by YNNPACK, which no
# kernel calls.
LIBRARY_PRODUCT = 1 << 9
# Rows of fewer elements are short. Then other products of WHOLE_PRODUCT multiplications take longer
# in the kernel of a loop, and so do places of extrema among WHOLE_EXTREMA elements.
WHOLE_ROW = 16
WHOLE_PRODUCT, WHOLE_EXTREMA = 1 << 11, 1 << 9
# A step of at least WHOLE_WORK operations may gain more from threads. An elementary function counts
# as ELEMENTARY_WORK operations.
WHOLE_WORK, ELEMENTARY_WORK = 1 << 19, 8
# If a function that a loop calls returns at least this many elements, XLA may divide it among
# threads: random bits from 1 310 on.
WHOLE_CALL = 1 << 10
# One kernel for a step of at least this many equations takes longer to compile than many kernels.
WHOLE_STEP = 768
# The length of the code of a matrix-vector product, counted in equations.
PRODUCT_LENGTH = 20


# --- Products (docs/performance.md, "Many small matrices", and the paragraph on left operands) ----

# XLA calls a library for each of many matrices of these sizes. A loop is 3 to 25 times as fast.
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
# Fewer features are colours; fewer of the result, or of another operand, are narrow; images of a
# gradient that are single, and few.
EIGEN_COLOURS, EIGEN_NARROW, EIGEN_SINGLE, EIGEN_IMAGES = 8, 24, 2, 6


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


# By the first release of jaxlib that has them. Before 0.12 YNNPACK leaves most of its work to one
# thread; from then on the amount of work decides.
EIGEN = {
    (0, 10): EigenRates(1.9, 0.45, 2.2, 0.3, 0.5, 1.2, 1.0, 1.5),
    (0, 12): EigenRates(1.25, 0.45, 1.6, 0.3, 0.75, 1.0, 0.7, 0.95),
}
# Eigen computes the convolutions of a program if that saves more than this part of their time.
EIGEN_CLEAR = MARGIN


class FourierRates(NamedTuple):
    """Nanoseconds of a convolution by the Fourier transform, and of one by products.

    transform: of an element of a transform, times the logarithm of its length. start: of all.
    dense, product: of a product of a convolution that has at least `few` features in and out, and
    of others. Measured: convolutions.md, "By the Fourier transform".
    """

    transform: float
    start: float
    dense: float
    product: float
    few: int


FOURIER_RATES = FourierRates(transform=1.0, start=2e5, dense=0.03, product=0.5, few=4)
# The least length of a block of an axis, also in kernels; the least number of blocks. Elements of
# all transforms, at most.
FOURIER_BLOCK, FOURIER_KERNELS, FOURIER_BLOCKS = 4096, 8, 4
FOURIER_MOST = 1 << 27


# --- Sorting (docs/performance.md) ----------------------------------------------------------------

# Elements from which on sorting by digits is faster: for numbers alone, and with values that move
# along; and elements of a row.
SORTED_ALONE, SORTED_TOGETHER, SORTED_ROW = 1 << 14, 1 << 12, 1 << 9
# Bits of a digit, and how many digits there are.
SORTED_BITS, SORTED_DIGITS = 8, 1 << 8


# --- Executables ----------------------------------------------------------------------------------

# Executables of at least this many bytes are stripped, which halves their loading time
# (docs/configuration.md, "Stripped forms"). Smaller ones load in a few milliseconds anyway.
STRIPPED_LEAST = 1 << 16


# --- Joined loops (docs/outlining.md) -------------------------------------------------------------


class JoinedRates(NamedTuple):
    """Parts of the time that it takes to compile a loop as a kernel of its own, for a kernel of
    several loops, each loop in it, and each elementary function in it.

    Measured: outlining.md, "Joined loops".
    """

    kernel: float
    loop: float
    function: float


JOINED_RATES = JoinedRates(kernel=0.8, loop=0.2, function=0.3)
# The most bytes that an equation of a joined loop reads and writes, and the most operands it has.
JOINED_MOST, JOINED_OPERANDS = 1 << 16, 8
# The most loops of a kernel.
JOINED_LOOPS = 20
# In loops of at least this many steps the body has no regions.
JOINED_STEPS = 16
# The most elements that are reduced in a joined loop. YNNPACK reduces more, in a kernel of its own.
REDUCED_MOST = 2048
# XLA has YNNPACK reduce by maximum and minimum if at least this many elements are reduced.
EXTREME_LEAST = 4096
# Parts of an array that are compared element by element at once. XLA computes an operand again for
# each of up to 15 parts; with more it computes the operand once.
EXTREME_PARTS = 16
# The least elements of a part that lie side by side, and the most elements of a row that is reduced
# as it is: XLA makes windows of longer rows.
EXTREME_LANES, EXTREME_ROW = 16, 32

# --- What is computed again (docs/remat.md) -------------------------------------------------------

# A checkpoint that computes at least this many bytes again is a call (`Target.again_as_calls`).
# Where memory is worth saving, the time of a call does not matter.
AGAIN_LEAST = 1 << 16
# Operations of a large matrix product in a second, on two cores of the machine of `COMMITTED`.
PRODUCTS = 6e10
