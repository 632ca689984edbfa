"""What is done for the compiler of a platform.

The questions that programs ask of their target, with default answers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from teucer._core.jaxpr import Jaxpr
from teucer._executables.compile import NO_SWITCHES, Switches
from teucer._targets import host_memory
from teucer._targets.outlined_call import outlined_call_p

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value
    from teucer._targets.outlining.constants import Speeds
    from teucer._targets.outlining.cut_into_pieces import CutProgram


Mode: TypeAlias = Literal["off", "auto", "force"]
"""Whether equations that repeat become functions: nowhere, where it pays, wherever they can."""


class Kernels(NamedTuple):
    """The kernels of a platform.

    lapack: whether it has LAPACK's, one for each dtype.
    routines: GPU kernels, one for all dtypes, by LAPACK's name of the routine or, if it has none,
    ours; "NAME complex" is for complex numbers alone.
    built_in: factorizations that the compiler has itself, by LAPACK's name of the routine, under
        the names that it knows.
    lacks: by function, the algorithms that users may ask for and that the platform does not have.
    python, buffers: kernels that call Python on arrays, and on buffers; None where nothing does.
    transfers: whether Python is called by transfers to the host and back.
    """

    lapack: bool = False
    routines: Mapping[str, str] = {}
    built_in: Mapping[str, str] = {}
    lacks: Mapping[str, Collection[str]] = {"eigh": ("QDWH",)}
    python: str | None = None
    buffers: str | None = None
    transfers: bool = False


class Target:
    """An unknown platform: programs are compiled unchanged, except for what their user asks."""

    # What rules of primitives ask, with the answers that always work.
    kernels: ClassVar[Kernels] = Kernels()
    # Whether arrays of its devices are in the memory of the host.
    in_host_memory: ClassVar[bool] = False
    # Whether a scatter can add complex numbers. If not, real and imaginary parts are added apart.
    adds_complex: ClassVar[bool] = False
    # Whether integers are sorted faster than floats.
    sorts_integers: ClassVar[bool] = False
    # Whether RngBitGenerator costs as much for one key as for a batch, so keys are drawn one by
    # one.
    draws_alone: ClassVar[bool] = False
    # Whether float64 is computed by the processor at half the speed of float32 or better.
    fast_float64: ClassVar[bool] = False
    # Whether reductions combine elements in order, with the partial result on the left.
    reduces_in_order: ClassVar[bool] = False
    # Whether a maximum or minimum over devices is NaN if an operand is.
    sends_nan: ClassVar[bool] = True
    # Whether sending to another device and receiving are operations of their own.
    sends: ClassVar[bool] = False
    # Whether devices are wired, so that their order in a mesh matters.
    wired: ClassVar[bool] = False
    # Whether executables of programs that call Python can be kept on disk without the functions
    # that they call.
    keeps_callbacks: ClassVar[bool] = False
    # Whether programs compute in the memory of the host as in device memory.
    one_memory: ClassVar[bool] = False
    # Whether a process compiles a program over several processes without the others: compilers that
    # tune may share that work.
    compiles_alone: ClassVar[bool] = False

    # Debug options for the compiler's own caches in a folder: functions of the folder, by the names
    # that users choose them by.
    own_caches: ClassVar[Mapping[str, Callable[[Path], Mapping[str, Any]]]] = {}
    # Whether functions that stay calls compile sooner within an executable, or run faster there.
    keeps_calls: ClassVar[bool] = True
    # From this many bytes on, a recomputation for the backward pass is a call that is never
    # inlined: the compiler removes barriers, and would merge it with the first computation. None
    # for never.
    again_as_calls: ClassVar[int | None] = None
    # Whether a piece writes its results over operands that nothing reads later, since temporaries
    # would take memory that is scarce.
    overwrites: ClassVar[bool] = False

    @property
    def speeds(self) -> Speeds:
        """How fast a device is."""
        from teucer._targets.outlining.constants import ACCELERATOR  # for programs with a budget

        return ACCELERATOR

    def prepare(self, jaxpr: Jaxpr, mode: Mode) -> Jaxpr:
        """An optimised jaxpr, rewritten into what this compiler handles best."""
        if mode != "force":
            return jaxpr
        # Here and below, for programs that need it: `import teucer` would take longer.
        from teucer._targets.extent import has_symbolic_sizes
        from teucer._targets.outlining.constants import FORCED_COSTS
        from teucer._targets.outlining.outline import outlined

        return jaxpr if has_symbolic_sizes(jaxpr) else outlined(jaxpr, FORCED_COSTS)

    def finished(self, jaxpr: Jaxpr, mode: Mode) -> Jaxpr:
        """The last rewrite of a jaxpr that becomes one executable: a prepared jaxpr, or a piece of
        one."""
        return jaxpr

    def divides(self, jaxpr: Jaxpr, mode: Mode) -> bool:
        """Whether it is worth asking for the pieces of a prepared jaxpr: a quick look."""
        return outlined_call_p in [eqn.primitive for eqn in jaxpr.eqns]

    def pieces(self, jaxpr: Jaxpr, mode: Mode) -> CutProgram | None:
        """The executables into which a prepared jaxpr is cut; None if it stays one."""
        if mode != "force":
            return None
        from teucer._targets.outlining.constants import FORCED_LIMITS
        from teucer._targets.outlining.cut_into_pieces import cut

        return cut(jaxpr, FORCED_LIMITS)

    def decisions(self) -> str:
        """The constants that this process decides by, as text, if another process may have others.
        Otherwise empty."""
        return ""

    @property
    def legal(self) -> Mapping[str, Callable[..., Any]]:
        """How operations of StableHLO are written where the compiler has slow code for them, by the
        names of the functions of `_lower.hlo` that write them (`Legalized`)."""
        return {}

    def sort(
        self, ctx: Context, xs: Sequence[Value], dimension: int, keys: int
    ) -> tuple[Value, ...] | None:
        """Arrays sorted together along an axis by the first `keys` of them, as `lax.sort_p` says,
        where something is faster than the compiler's comparisons; else None."""
        return None

    def switches(self, jaxpr: Jaxpr, *, lean: bool, parts: int = 1) -> Switches:
        """Options of the compiler for a program.

        lean: whether it is to compile quickly rather than well. parts: the devices among which the
        compiler divides arrays.
        """
        return NO_SWITCHES

    def pack(self, data: bytes) -> bytes | None:
        """A form of an executable that loads faster; None if there is none."""
        return None

    def machine(self) -> str:
        """What machine code depends on besides the kind of device."""
        return ""

    def keep_memory(self, *, of_threads: bool = False) -> None:
        """Have the process keep the pages that arrays free, or those of the heaps of threads too,
        if it keeps pages."""
        if of_threads:
            host_memory.keep_heaps()
        else:
            host_memory.keep_freed_pages()

    def make_room(self, let_go: Callable[[], bool]) -> None:
        """Before an executable is loaded: have `let_go` drop others if the process has few memory
        maps left; it says if it dropped any. Give pages of the host back that are kept, if they are
        scarce.

        Raises RuntimeError if the process can hold no more programs.
        """
        from teucer._targets import memory_maps

        memory_maps.make_room(let_go)
        host_memory.give_back_if_scarce()

    def loading(self) -> contextlib.AbstractContextManager[None]:
        """In the `with` block, an executable is loaded."""
        return host_memory.joining()
