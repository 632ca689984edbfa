"""What a function with a rule for rematerialisation says to `checkpoint`.

`custom_vjp.defremat` and `custom_gradient(remat=True)` have a rule in three parts: what runs
forward, what is computed again, and the backward pass. `checkpoint` saves the residuals of the
first, whatever its policy, and runs the second in the backward pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import config
from teucer._core import array_ops, dialects, structure
from teucer._core.jaxpr import Eqn, Literal, Var
from teucer._core.primitive import Primitive
from teucer._core.reference_types import is_reference
from teucer._core.trace import typeof

if TYPE_CHECKING:
    from teucer._core.jaxpr import ClosedJaxpr
    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Cotangent, Dims, Tangents, Value
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written


@final
@structure.internal
class RematRule(Primitive):
    """x. Where `checkpoint` computes again: the second operand, or x saved where there is none."""

    __slots__ = ()
    name = "remat_rule"

    def types(self, x: ShapedArray, *again: ShapedArray) -> Any:
        return (x,)

    def evaluate(self, x: Value, *again: Value) -> Any:
        return (x,)

    def lower(self, ctx: Context, x: Written, *again: Written) -> Any:
        return (x,)

    def jvp(self, primals: Sequence[Value], tangents: Tangents) -> Any:
        return self.call(*primals), (tangents[0],)

    def transpose(self, cts: Sequence[Cotangent], x: Value, *again: Value) -> Any:
        return (*cts, *[None] * len(again))

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims) -> Any:
        args = [array_ops.to_axis(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)]
        return self.call(*args), (0,)

    def simplify(self, known: object, x: Value, *again: Value) -> Any:
        return x

    padded = dialects.through


remat_rule_p = RematRule()


def saved(residuals: Sequence[Value]) -> list[Any]:
    """Residuals of a forward rule, which `checkpoint` saves; references and values of high types
    stay as they are."""
    return [x if _is_other(typeof(x)) else remat_rule_p.call(x)[0] for x in residuals]


def computed_again(outs: Sequence[Value], again: Sequence[Value]) -> list[Any]:
    """Results of a forward rule, which `checkpoint` computes as `again` says."""
    return [
        x if _is_other(typeof(x)) else remat_rule_p.call(x, y)[0]
        for x, y in zip(outs, again, strict=True)
    ]


def _is_other(aval: Any) -> bool:
    return aval.is_high or is_reference(aval)


def for_now(eqn: Eqn) -> Eqn:
    """The equation of a rule where it runs first: without what is computed again."""
    return eqn.replace(invars=eqn.invars[:1])


def for_later(eqn: Eqn, inputs: Sequence[Var]) -> Eqn | None:
    """The equation of a rule where a function is computed again; None if its result is saved."""
    x, *again = eqn.invars
    if not again and not isinstance(x, Literal) and x not in inputs:
        return None
    return eqn.replace(invars=again or [x])


def has_rule(closed: ClosedJaxpr) -> bool:
    """Whether a function with such a rule is called in a jaxpr, or in what it calls."""

    def found() -> bool:
        for eqn in closed.eqns:
            if eqn.primitive is remat_rule_p:
                return True
            view = structure.of(eqn)
            if view is not None and any(has_rule(body) for body, _ in view.bodies):
                return True
        return False

    answer: bool = closed.kept("has_remat_rule", found)
    return answer


_traced: Any = config.context_cell("teucer_in_checkpoint", False, config.TRACE)


def in_checkpoint() -> bool:
    """Whether the function of a `checkpoint` is being traced."""
    return bool(_traced.value)


@contextlib.contextmanager
def tracing_checkpoint() -> Iterator[None]:
    """While the function of a `checkpoint` is traced."""
    before = _traced.swap_local(True)
    try:
        yield
    finally:
        _traced.set_local(before)
