"""The tuned constants of the targets of GPUs, each with where it was measured.

Notes named here stand in `benchmarks/notes/`. Compile times are seconds of processor time of XLA's
compiler for an H100, on a machine without one (gpu.md, "Compile times"), so without autotuning.
"""

from __future__ import annotations

from teucer._targets.outlining.constants import Costs

# --- Compilation. Measured: gpu.md, "Compile times" -----------------------------------------------

# Seconds for an executable, whatever its size; for an equation unlike earlier ones, which needs
# machine code; for each equation, which passes visit.
EXECUTABLE, NEW, EQUATION = 0.06, 0.014, 0.0014
# Pieces are taken if they compile sooner by more than this part.
MARGIN = 0.1

# --- Steps ----------------------------------------------------------------------------------------

# Seconds of the host for a piece. Measured on an H100: gpu.md, "A piece costs".
DISPATCH = 2.4e-4
# The GPU works at least so many times longer. Its time is predicted too short, by half or more for
# programs as users write them, so that it is hidden several times over.
HIDDEN = 2
# Products in a second by bytes of an operand's element, and bytes in a second: the data sheet of an
# H100 SXM, dense, float32 as TF32. On slower GPUs pieces are hidden better.
PRODUCTS = {1: 1.98e15, 2: 9.9e14, 4: 4.95e14, 8: 6.7e13}
BANDWIDTH = 3.35e12
# Calls of a piece at most: XLA compiles each of them. Measured: gpu.md, "Compile times". Pieces of
# a run at least if single calls are left over: these are an executable more, which takes less to
# compile than the whole.
GROUPED, GROUPS = 4, 2
# Runs of a piece, on the average, at least. Not measured: the CPU's.
PIECE_RUNS = 3
# The least number of equations that must be saved for one more executable: by the rates above, and
# by the machine code that executables share.
COPIED = 128

# When equations become a function. It is to be a piece. So short repeats are not looked for, and
# there are no loops: a loop would copy the parameters of its steps into one array. The ends of runs
# always count, since equations left over there are compiled again. Measured: gpu.md, "Compile
# times".
COSTS = Costs(
    short=32,
    fused=64,
    saved=COPIED,
    few=2,
    saved_by_few=2 * COPIED,
    separated=0,
    carried=0,
    many=1 << 30,
    steps=1 << 30,
    stacked=0,
)
