"""References and programs on values.

`run_state` and `discharge_state`, and the effects of references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._base import tracebacks
from teucer._base.lazy import listing
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
from teucer._core.reference_types import AccumEffect, ReadEffect, RefEffect, RefType, WriteEffect
from teucer._dialects.references.discharge import discharged
from teucer._trees import pytrees
from teucer.numpy._references import freeze, new_ref

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = ["AccumEffect", "ReadEffect", "RefEffect", "WriteEffect", "discharge_state", "run_state"]
__dir__ = listing(__name__, __all__)


@tracebacks.api_boundary
def run_state(f: Callable[..., object]) -> Callable[[Any], Any]:
    """A pure function out of one that changes references: (tree of arrays) -> tree of the arrays as
    `f` leaves them.

    f: takes one tree of references, and returns nothing.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> def bump(ref):
    ...     ref[0] += 1.
    >>> run_state(bump)(jnp.zeros(2))
    Array([1., 0.], dtype=float32)
    """

    def on_arrays(state: object) -> Any:
        refs = pytrees.tree_map(new_ref, state)
        f(refs)
        return pytrees.tree_map(freeze, refs)

    return on_arrays


def discharge_state(
    jaxpr: Jaxpr, consts: Sequence[Value] = (), *, should_discharge: bool | Sequence[bool] = True
) -> tuple[Jaxpr, list[Any]]:
    """A jaxpr with arrays in the place of references: its results are followed by the last arrays
    of all references.

    should_discharge: which of its inputs, where they are references, become arrays.
    Returns it with the values of its constants.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> closed = jax.make_jaxpr(lambda ref: ref.addupdate(1.))(jax.new_ref(2.))
    >>> discharge_state(closed.jaxpr)[0]
    { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    """
    chosen = (
        [should_discharge] * len(jaxpr.invars)
        if isinstance(should_discharge, bool)
        else list(should_discharge)
    )
    numbers = [
        i
        for i, (v, c) in enumerate(zip(jaxpr.invars, chosen, strict=True))
        if c and type(v.aval) is RefType
    ]
    groups = tuple(numbers.index(i) if i in numbers else None for i in range(len(jaxpr.invars)))
    found = discharged(ClosedJaxpr(jaxpr, consts), groups, tuple(range(len(numbers))))
    return found.jaxpr.jaxpr, found.jaxpr.consts
