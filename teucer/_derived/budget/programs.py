"""`jit` within an amount of memory.

The gradients of the function get a budget, all the same one. It is as large as the memory of the
whole program allows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from teucer._base import config
from teucer._core.calls import (
    FlatCall,
    FlatFunction,
    check_leaves,
    flatten_call,
    fun_name,
    stage_user,
)
from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr
from teucer._core.types import is_valid_type
from teucer._derived.budget.amounts import amount
from teucer._derived.budget.checkpoints import Unplanned
from teucer._derived.budget.plan import MemoryBudgetError
from teucer._derived.checkpoint import checkpoint
from teucer._derived.liveness import peak_of, size_text
from teucer._transform.jit_options import JitOptions, donated_leaves
from teucer._trees import pytrees

# Budgets that are tried for a program, at most; and the part of the memory from which on it is
# used well.
TRIED, FULL = 8, 0.95


class _Traced(NamedTuple):
    """A program, and the predicted peak of its memory. budget: that of its gradients, or 0."""

    closed: ClosedJaxpr
    out_tree: Any
    peak: int
    budget: int


def within_memory(
    fun: Callable[..., object], memory: object, options: JitOptions
) -> Callable[..., Any]:
    """A function, for `jit` with these options, that saves for its gradients what fits into memory.

    memory: bytes that the program may need at once on one device, with its arguments and results;
    or the share of what it would need. Raises ValueError when it is traced and cannot fit.
    """
    allowed = amount(memory, "jit")

    @functools.wraps(fun)
    def fun_within(*args: object, **kwargs: object) -> Any:
        call = flatten_call(args, kwargs, options.static_argnums, options.static_argnames)
        program = _Program(fun, call, donated_leaves(call, options))
        whole = program.traced(None)
        limit = allowed.size
        if limit is None:
            assert allowed.share is not None
            limit = int(allowed.share * whole.peak)
        chosen = whole if whole.peak <= limit else program.fitted(limit, whole)
        outs = eval_jaxpr(chosen.closed.jaxpr, chosen.closed.consts, *call.leaves)
        return pytrees.tree_unflatten(chosen.out_tree, outs)

    return fun_within


@final
class _Program:
    """A call of a function that is to fit into memory."""

    def __init__(self, fun: Callable[..., object], call: FlatCall, donated: Sequence[bool]) -> None:
        self.fun, self.call, self.donated = fun, call, donated
        self.avals: tuple[Any, ...] = check_leaves(call, fun, "jit")
        for aval in self.avals:
            if getattr(aval, "symbolic", False):
                raise NotImplementedError(
                    f"jit: `memory` needs known sizes, and an argument is {aval.str_short()}."
                )

    def traced(self, budget: int | None) -> _Traced:
        """The program whose gradients have a budget."""
        with config.gradient_memory(budget):
            jaxpr, consts, out_tree, _ = stage_user(self.fun, self.call, self.avals, "jit")
        closed = ClosedJaxpr(jaxpr, consts)
        return _Traced(closed, out_tree, peak_of(closed, (), self.donated).size, budget or 0)

    def kept(self, budget: int) -> _Traced:
        """The program whose gradients have a budget, or the least that each of them can keep."""
        while True:
            try:
                return self.traced(budget)
            except MemoryBudgetError as err:  # of one of the gradients: the least is larger
                budget = max(
                    err.smallest, budget + budget // 4 + 1
                )  # under vmap each element has a part

    def fitted(self, limit: int, whole: _Traced) -> _Traced:
        """The program with the largest budget found with which it fits."""
        best: _Traced | None = None
        least = whole
        low, high, budget = 0, limit + 1, limit  # budgets known to fit, or be kept, and not to fit
        for _ in range(TRIED):
            found = self.kept(budget)
            least = min(least, found, key=lambda program: program.peak)
            if found.budget > budget and (best is not None or found.budget >= high):
                break
            budget = found.budget
            spare = limit - found.peak
            if spare >= 0:
                best, low = found, budget
            else:
                high = budget
            if 0 <= spare <= (1 - FULL) * limit or high - low <= limit // 50:
                break
            budget += spare
            if not low < budget < high:
                budget = (low + high) // 2
        if best is None:
            raise _too_little(self.fun, limit, whole, least)
        return best


def _too_little(
    fun: Callable[..., object], limit: int, whole: _Traced, least: _Traced
) -> MemoryBudgetError:
    said = (
        f"jit of {fun_name(fun)}: the program needs more than the {size_text(limit)} of `memory`."
        f"\n  Without a limit it needs {size_text(whole.peak)}."
    )
    if least.peak >= whole.peak:
        return MemoryBudgetError(
            f"{said} Only what gradients keep can be chosen, and that saves nothing here.\n"
            "  jax.debug.memory shows what needs it. Smaller batches, more devices or "
            "donate_argnums take less.",
            whole.peak,
        )
    return MemoryBudgetError(
        f"{said} The smallest amount found is {least.peak} bytes ({size_text(least.peak)}).\n"
        "  Smaller batches, more devices or donate_argnums take less.",
        least.peak,
    )


def by_budget(
    f: FlatFunction, run: Callable[..., Sequence[object]] | None
) -> Callable[..., Sequence[object]]:
    """What is differentiated in the place of a function, or of `run`, where gradients have a
    budget (the option teucer_gradient_memory)."""
    budget = config.gradient_memory.value
    aux: list[Any] = []

    def body(*values: Any) -> Any:
        with config.gradient_memory(None):  # gradients within are part of the plan
            outs = (run or f)(*values)
        leaves, tree = pytrees.tree_flatten(f.aux)
        aux[:] = [tree, leaves]
        return list(outs), [x for x in leaves if is_valid_type(x)]

    def within(*values: Any) -> Sequence[object]:
        outs: Sequence[object]
        try:
            outs, arrays = checkpoint(body, budget=budget)(*values)
        except Unplanned:
            return (run or f)(*values)
        tree, leaves = aux
        rest = iter(arrays)
        f.aux = tree.unflatten([next(rest) if is_valid_type(x) else x for x in leaves])
        return outs

    return within
