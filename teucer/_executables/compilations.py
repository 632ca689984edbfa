"""The record of compilations: the table of `debug.compiles()`, the log of `jax_log_compiles`, and
the dumps of `jax_dump_ir_to`.
"""

from __future__ import annotations

import collections
import itertools
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final, overload

from teucer._base import config, source
from teucer._core.trace import typeof
from teucer._executables import events
from teucer._executables.compile import Source

if TYPE_CHECKING:
    from teucer._core.jaxpr import Jaxpr
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Value


LIMIT = 1000  # the most rows that are kept; the oldest are dropped
_DUMPED = ("stablehlo", "jaxpr", "eqn_count_pprof")
_logger = logging.getLogger("teucer")
_rows: collections.deque[Compilation] = collections.deque(maxlen=LIMIT)
_dump_numbers = {mode: itertools.count() for mode in _DUMPED}


class Compilation(NamedTuple):
    """A program that was made: times in seconds; code_bytes is None if it is not known.

    source: "compiled" by XLA, read from the "disk" cache, or found in "memory", where another
    function has the same program.
    """

    function: str
    avals: tuple[Any, ...]
    trace_time: float
    lower_time: float
    compile_time: float
    code_bytes: int | None
    source: Source
    place: source.Place | None = None  # of the call that needed it

    @property
    def signature(self) -> str:
        """The types of the program's arguments: f32[8], i32[]."""
        return ", ".join(
            [
                ("~" if getattr(a, "weak_type", False) else "") + a.str_short(short_dtypes=True)
                for a in self.avals
            ]
        )


@final
class Compilations:
    """The programs made so far, oldest first, as a table; the last 1000 are kept.

    Iterating gives rows of type `Compilation`, printing the table. `clear` empties it.
    """

    def __iter__(self) -> Iterator[Compilation]:
        return iter(list(_rows))

    def __len__(self) -> int:
        return len(_rows)

    @overload
    def __getitem__(self, i: int) -> Compilation: ...
    @overload
    def __getitem__(self, i: slice) -> list[Compilation]: ...
    def __getitem__(self, i: int | slice) -> Compilation | list[Compilation]:
        return list(_rows)[i] if isinstance(i, slice) else _rows[i]

    def clear(self) -> None:
        """Forget all rows."""
        _rows.clear()

    def __repr__(self) -> str:
        head = ("function", "signature", "trace ms", "lower ms", "compile ms", "code KiB", "source")
        lines = [head, *map(_cells, self)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(w) if 1 < i < 6 else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )


compilations = Compilations()


def _cells(row: Compilation) -> tuple[str, ...]:
    signature = row.signature
    signature = signature if len(signature) <= 60 else signature[:57] + "..."
    times = [f"{1e3 * t:.2f}" for t in (row.trace_time, row.lower_time, row.compile_time)]
    return (
        row.function,
        signature,
        *times,
        "" if row.code_bytes is None else f"{row.code_bytes / 1024:.1f}",
        row.source,
    )


def log(message: str, *args: object) -> None:
    """Log a step of a compilation: with jax_log_compiles as a warning, else for debugging."""
    level = logging.WARNING if config.log_compiles.value else logging.DEBUG
    if _logger.isEnabledFor(level):
        _logger.log(level, message, *args)


def log_begin(name: str, avals: Sequence[ShapedArray]) -> None:
    """Log that a program is about to be lowered."""
    log("Compiling jit(%s) with global shapes and types %s.", name, avals)


def log_lowered(name: str, seconds: float) -> None:
    """Log that a program has been lowered."""
    log("Finished jaxpr to MLIR module conversion jit(%s) in %.9f sec", name, seconds)
    events.took(events.LOWERING, seconds, fun_name=f"jit({name})")


def log_traced(name: str, seconds: float) -> None:
    """Log that a function has been traced."""
    log("Finished tracing %s for jit in %.9f sec", name, seconds)
    events.took(events.TRACING, seconds, fun_name=name)


def record(row: Compilation) -> None:
    """Add a row to the table, and log it."""
    _rows.append(row._replace(place=source.here()))
    log(
        "Finished XLA compilation of jit(%s) in %.9f sec (%s)",
        row.function,
        row.compile_time,
        row.source,
    )
    events.took(events.BACKEND_COMPILE, row.compile_time, fun_name=f"jit({row.function})")


def log_residuals(inputs: Sequence[object], intermediates: Sequence[object]) -> None:
    """Log the values that a checkpoint keeps for the backward pass."""
    for kind, values in (("inputs with shapes", inputs), ("these intermediates", intermediates)):
        if values:
            shapes = "".join(f"\n  {typeof(x).str_short()}" for x in values)
            _logger.warning("remat-decorated function saving %s:%s", kind, shapes)


def warn_of_constants(jaxpr: Jaxpr, consts: Sequence[Value]) -> None:
    """Warn of large arrays that a function closes over, as jax_captured_constants_warn_bytes
    asks."""
    most = config.captured_constants_warn_bytes.value
    sizes = [int(getattr(c, "nbytes", 0)) for c in consts]
    if most < 0 or sum(sizes) <= most:
        return
    text = (
        f"A large amount of constants were captured during lowering ({sum(sizes)} bytes total). "
        "Pass them as arguments, or disable this warning by setting "
        "JAX_CAPTURED_CONSTANTS_WARN_BYTES=-1."
    )
    if config.captured_constants_report_frames.value:
        users = {
            v: eqn for eqn in reversed(jaxpr.eqns) for v in eqn.invars if not hasattr(v, "val")
        }
        for size, var in sorted(
            zip(sizes, jaxpr.constvars, strict=True), key=lambda pair: -pair[0]
        ):
            used = source.describe(users[var].place if var in users else None)
            text += f"\n    {var.aval.str_short()}, {size} bytes, used at {used}"
    else:
        text += " To see where they are used, set JAX_CAPTURED_CONSTANTS_REPORT_FRAMES=-1."
    warnings.warn(text, stacklevel=source.user_stacklevel())


def dump(name: str, jaxpr: Jaxpr, text: str) -> None:
    """Write a program into the folder that jax_dump_ir_to names, in the forms of jax_dump_ir_modes.

    Raises ValueError for a form that is not known, OSError if the folder cannot be written.
    """
    forms = [form for form in config.dump_ir_modes.value.split(",") if form]
    unknown = [form for form in forms if form not in _DUMPED]
    if unknown:
        raise ValueError(
            f"jax_dump_ir_modes: {', '.join(map(repr, unknown))} cannot be dumped.\n  Known are "
            f"{', '.join(_DUMPED)}."
        )
    folder = Path(config.dump_ir_to.value)
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "_", name)
    if "stablehlo" in forms:
        (
            folder / f"jax_ir{next(_dump_numbers['stablehlo']):04d}_jit_{name}_compile.mlir"
        ).write_text(text)
    if "jaxpr" in forms:
        (folder / f"jax_{next(_dump_numbers['jaxpr']):06d}_{name}.jaxpr.txt").write_text(
            f"{jaxpr}\n"
        )
    if "eqn_count_pprof" in forms:
        from teucer._executables.equation_profile import equation_profile  # for this form

        number = next(_dump_numbers["eqn_count_pprof"])
        content = equation_profile(jaxpr, name)
        (folder / f"jax_{number:06d}_{name}.eqn_count_pprof").write_bytes(content)
