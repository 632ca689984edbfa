"""`memory`: the peak of a program, the values in it, and how far `checkpoint` would lower it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from teucer._base import tracebacks
from teucer._core.calls import fun_name
from teucer._core.jaxpr import Jaxpr, jaxprs_in_params
from teucer._derived.budget.plan import Plan
from teucer._derived.budget.ways import Planned
from teucer._derived.liveness import Live, Peak, Saving, peak_of, size_text
from teucer._derived.remat import remat_p
from teucer._derived.stages import jit

__all__ = ["Compiled", "Live", "Memory", "Saving", "memory"]


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The bytes that a program needs, as the compiler says."""

    arguments: int
    results: int
    temporaries: int
    shared: int

    @property
    def total(self) -> int:
        """The sum: results that share the place of donated arguments count once."""
        return self.arguments + self.results + self.temporaries - self.shared


@dataclasses.dataclass(frozen=True, repr=False)
class Memory:
    """The result of `memory`; `str` gives it as text. `peak` is predicted from the program,
    `compiled` comes from the compiler."""

    name: str
    peak: Peak
    compiled: Compiled | None
    plans: tuple[Plan, ...] = ()

    @property
    def live(self) -> tuple[Live, ...]:
        """The values in memory at the peak, the largest first."""
        return self.peak.live

    @property
    def savings(self) -> tuple[Saving, ...]:
        """Estimated savings at the peak by `checkpoint`, the largest first."""
        return self.peak.savings

    def __str__(self) -> str:
        said = [f"memory: {self.name}"]
        if self.compiled is not None:
            c = self.compiled
            said.append(
                f"the compiler: {size_text(c.total)} (arguments {size_text(c.arguments)}, results "
                f"{size_text(c.results)}, temporaries {size_text(c.temporaries)})"
            )
        said += [f"checkpoint by a budget: {plan}" for plan in self.plans]
        said.append(str(self.peak))
        return "\n".join(said)

    def __repr__(self) -> str:
        return str(self)


@tracebacks.api_boundary
def memory(
    fun: Callable[..., object], *args: object, compiled: bool = True, **kwargs: object
) -> Memory:
    """The peak memory of a program, and the values in it, before it runs.

    args: arrays, or their types (ShapeDtypeStruct). compiled: whether the compiler is asked, too.
    The prediction follows the program's equations on one device. Savings by `checkpoint` are
    estimates: of a function that is called several times, and of the body of a scan.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> found = jax.debug.memory(lambda x: jnp.sin(x) @ x, jnp.ones((100, 100)), compiled=False)
    >>> found.peak.size, found.peak.arguments
    (120000, 40000)
    """
    function: Any = fun if hasattr(fun, "trace") else jit(fun)
    traced = function.trace(*args, **kwargs)
    names = [f"argument {name}" for name in traced.arg_names]
    peak = peak_of(traced.jaxpr, names, traced.staged.donated[len(traced.staged.consts) :])
    stats = None
    if compiled:
        found = traced.lower().compile().memory_analysis()
        stats = Compiled(
            found.argument_size_in_bytes,
            found.output_size_in_bytes,
            found.temp_size_in_bytes,
            found.alias_size_in_bytes,
        )
    return Memory(fun_name(fun), peak, stats, tuple(_plans(traced.jaxpr.jaxpr)))


def _plans(jaxpr: Jaxpr) -> list[Plan]:
    """The plans of the checkpoints in a program, each once."""
    found: dict[int, Plan] = {}
    for eqn in jaxpr.eqns:
        policy = eqn.params["policy"] if eqn.primitive is remat_p else None
        if isinstance(policy, Planned) and policy.plan is not None:
            found[id(policy.plan)] = policy.plan
        for inner in jaxprs_in_params(eqn.params):
            found |= {id(plan): plan for plan in _plans(inner)}
    return list(found.values())
