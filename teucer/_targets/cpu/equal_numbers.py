"""Products with equal numbers, whose values the compiler is not told.

YNNPACK fuses a product with a sum over its results. Where XLA knows that an operand of the
product is one number throughout, as `ones` and `full` make it, the sum is wrong from some four
thousand elements on (`_executables/guard.py`). A barrier hides that from XLA. It costs the time to
write the operand, and the fusion stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Eqn, Jaxpr, Literal, Var, jaxprs_in_params, new_eqn
from teucer._core.primitive import Primitive
from teucer._lower import hlo
from teucer._optimize.passes import map_jaxprs

if TYPE_CHECKING:
    from teucer._core.jaxpr import Atom
    from teucer._core.typing import Array, Aval
    from teucer._lower.context import Context
    from teucer._lower.value import Value


def hidden(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with barriers before operands of products that may be equal numbers."""
    return _hidden(jaxpr, frozenset())[0]


def _hidden(jaxpr: Jaxpr, places: frozenset[int]) -> tuple[Jaxpr, frozenset[int]]:
    """The jaxpr with barriers, where the arguments in these places may be equal numbers; and the
    places of the results that are.

    An array is equal numbers where it is made of numbers and of such arrays alone.
    """
    key = (_hidden, places)
    if key in jaxpr.cache:
        new, results = jaxpr.cache[key]
        return new or jaxpr, results  # a jaxpr in its own cache would live until a collection
    equal: set[Atom] = {v for i, v in enumerate(jaxpr.invars) if i in places}
    eqns = list[Eqn]()
    for eqn in jaxpr.eqns:
        flags = [_is_number(v) or v in equal for v in eqn.invars]
        if any(True for _ in jaxprs_in_params(eqn.params)):
            new_one, given = _with_bodies(eqn, flags)
            eqns.append(new_one)
            equal.update(v for i, v in enumerate(eqn.outvars) if i in given)
            continue
        if flags and all(flags):
            equal.update(eqn.outvars)
        eqns += _behind_barriers(eqn, flags) if eqn.primitive.cost.work is Work.PRODUCT else [eqn]
    results = frozenset(i for i, v in enumerate(jaxpr.outvars) if _is_number(v) or v in equal)
    new = None if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)
    jaxpr.cache[key] = new, results
    return new or jaxpr, results


def _is_number(v: Atom) -> bool:
    return type(v) is Literal or v.aval.ndim == 0


def _behind_barriers(eqn: Eqn, flags: Sequence[bool]) -> list[Eqn]:
    eqns: list[Eqn] = []
    operands: list[Atom] = []
    for v, flag in zip(eqn.invars, flags, strict=True):
        if flag and v.aval.ndim:
            eqns.append(new_eqn(hidden_p, [v], [Var(v.aval)], {}, eqn.source))
            operands.append(eqns[-1].outvars[0])
        else:
            operands.append(v)
    return [*eqns, eqn.replace(invars=operands)] if eqns else [eqn]


def _with_bodies(eqn: Eqn, flags: list[bool]) -> tuple[Eqn, frozenset[int]]:
    """An equation with barriers in the programs that it carries; and the places of its results that
    are equal numbers."""
    known, given = defaultdict[int, set[int]](set), frozenset[int]()
    found = structure.of(eqn, flags) or structure.presumed(eqn, flags)
    if isinstance(found, structure.Loop):
        found = _settled(found)
    if found is None:
        for body in jaxprs_in_params(eqn.params):
            known[id(body)].update(range(len(body.invars)) if any(flags) else ())
    else:
        for closed, operands in found.bodies:
            places = frozenset(i for i, flag in enumerate(operands) if flag)
            known[id(closed.jaxpr)] |= places
            if isinstance(found, structure.Call):
                given = _hidden(closed.jaxpr, places)[1]
    return map_jaxprs(eqn, lambda body: _hidden(body, frozenset(known[id(body)]))[0]), given


def _settled(loop: structure.Loop) -> structure.Loop:
    """A loop on flags whose carry is equal numbers in each step. XLA runs a single step without a
    loop, so there the first carry counts."""
    carry = list(loop.carry)
    while any(carry) and not (loop.condition is None and loop.times == 1):
        operands = [*loop.consts, *carry, *loop.xs]
        _, equal = _hidden(loop.body.jaxpr, frozenset(i for i, f in enumerate(operands) if f))
        kept = [flag and i in equal for i, flag in enumerate(carry)]
        if kept == carry:
            break
        carry = kept
    return loop._replace(carry=carry)


@structure.internal
@final
class Hidden(Primitive):
    """An array whose values the compiler does not know."""

    __slots__ = ()
    name = "hidden"

    def types(self, x: Aval) -> Any:
        return (x,)

    def evaluate(self, x: Array) -> Any:
        return (x,)

    def lower(self, ctx: Context, x: Value) -> Any:
        return hlo.optimization_barrier(ctx, (x,))


hidden_p = Hidden()
