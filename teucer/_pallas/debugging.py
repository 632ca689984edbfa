"""Looking into kernels while they run: prints, and checks of conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer import debug
from teucer import numpy as jnp
from teucer._base import config, tracebacks
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._transform.batch import batch_flat
from teucer.lax._callbacks import debug_callback_p

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.types import ShapedArray
    from teucer._core.typing import ArrayLike, Value
    from teucer._lower.context import Context


enable_debug_checks = config.pallas_enable_debug_checks
# `with pl.enable_poison_buffers(True):`, memory of pl.run_scoped begins with NaN, so that results
# which depend on it show.
enable_poison_buffers = config.pallas_poison_buffers


@final
class DebugPrint(Primitive):
    """Print numbers while a kernel runs. fmt: with {} for each operand. No results."""

    __slots__ = ()
    name = "debug_print"
    multiple_results = True
    mergeable = False

    def types(self, *avals: Any, fmt: str) -> Any:
        return ()

    def effects(self, *avals: ShapedArray, fmt: str) -> Any:
        return debug_callback_p.effects(*avals, ordered=False)

    def evaluate(self, *args: Any, fmt: str) -> Any:
        debug.print(fmt, *args)
        return ()

    def lower(self, ctx: Context, *args: Any, fmt: str) -> Any:
        return ctx.trace(lambda *xs: _printed(fmt, xs), *args)

    def jvp(self, primals: Sequence[Value], tangents: Any, *, fmt: str) -> Any:
        return self.call(*primals, fmt=fmt), ()

    def batch(self, axis: Any, args: Any, dims: Any, *, fmt: str) -> Any:
        return batch_flat(lambda *xs: _printed(fmt, xs), axis, args, dims)


def _printed(fmt: str, xs: Sequence[Value]) -> list[Any]:
    debug.print(fmt, *xs)
    return []


debug_print_p = DebugPrint()


@tracebacks.api_boundary
def debug_print(fmt: str, *args: object) -> None:
    """Print numbers while the kernel runs. fmt: with {} for each of args; without, args come behind
    it."""
    if args and "{" not in fmt:
        fmt = fmt + " " + " ".join(["{}"] * len(args))
    fmt.format(*args)  # an argument too few is found here
    debug_print_p.call(*args, fmt=fmt)


def debug_checks_enabled() -> bool:
    """Whether `debug_check` checks: the option jax_pallas_enable_debug_checks."""
    return bool(enable_debug_checks.value)


@tracebacks.api_boundary
def debug_check(condition: ArrayLike, message: str) -> None:
    """Raise an error with the message while the kernel runs, if the condition does not hold;
    nothing unless checks are enabled.

    condition: a boolean scalar. Enable checks by `with pl.enable_debug_checks(True):`, or
    jax_pallas_enable_debug_checks. Raises TypeError if the condition is no boolean scalar.
    """
    aval = typeof(condition)
    if aval.shape or aval.dtype != np.bool_:
        raise TypeError(
            f"debug_check: the condition is a boolean scalar, got {aval.str_short(True)}.\n"
            "  Combine elements by jnp.all(...)."
        )
    if debug_checks_enabled():
        debug.callback(_Check(message), jnp.asarray(condition))


class _Check:
    """A callback that raises an error with a message unless it is given True."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __call__(self, condition: Any) -> None:
        if not condition:
            raise RuntimeError(f"pl.debug_check: {self.message}")

    def __eq__(self, other: object) -> bool:
        return type(other) is _Check and other.message == self.message

    def __hash__(self) -> int:
        return hash((_Check, self.message))
