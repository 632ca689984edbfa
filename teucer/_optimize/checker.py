"""The checker of jaxprs.

Variables defined before they are used, equations of the types that their primitives say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import NoReturn

from teucer._base.errors import JaxprTypeError
from teucer._core.jaxpr import (
    Atom,
    DropVar,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    jaxprs_in_params,
    join_effects,
)
from teucer._core.types import aval_of
from teucer._devices.partition import laid_out


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise JaxprTypeError unless the jaxpr, and every jaxpr in it, is well formed.

    (C1) a variable is defined once.  (C2) it is defined before it is used.  (C3) a literal has the
    type of its value. (C4) an equation's results have the types that its primitive says.  (C5) its
    effects are as the primitive says, and the jaxpr has the effects of its equations.

    >>> from teucer._core.types import ShapedArray
    >>> x = Var(ShapedArray((), "float32"))
    >>> try:
    ...     check_jaxpr(Jaxpr([], [], [x], []))
    ... except TypeError as err:
    ...     print(str(err).splitlines()[0])
    jaxpr: a variable is used and not defined before (C2).
    """
    if jaxpr.cache.get(check_jaxpr):
        return
    defined: set[Var] = set()
    _define(defined, (*jaxpr.constvars, *jaxpr.invars), "arguments of the jaxpr")
    for eqn in jaxpr.eqns:
        _check_used(defined, eqn.invars, eqn)
        with (
            eqn.primitive.within(eqn.params)
            if eqn.primitive.within is not None
            else contextlib.nullcontext()
        ):
            for inner in jaxprs_in_params(eqn.params):
                check_jaxpr(inner)
        _check_types(eqn)
        _define(defined, eqn.outvars, eqn)
    _check_used(defined, jaxpr.outvars, "results of the jaxpr")
    missing = join_effects(jaxpr.eqns, (*jaxpr.constvars, *jaxpr.invars)) - jaxpr.effects
    if missing:
        _fail(
            "the jaxpr lacks effects of its equations (C5)",
            "results of the jaxpr",
            effects=sorted(map(str, missing)),
        )
    jaxpr.cache[check_jaxpr] = True


def _define(defined: set[Var], variables: Iterable[Var], at: object) -> None:
    for v in variables:
        if type(v) is DropVar:
            continue
        if v in defined:
            _fail("a variable is defined twice (C1)", at, variable=v.aval)
        defined.add(v)


def _check_used(defined: set[Var], atoms: Iterable[Atom], at: object) -> None:
    for v in atoms:
        if type(v) is Literal:
            of_value = aval_of(v.val)
            if (of_value.shape, of_value.dtype) != (v.aval.shape, v.aval.dtype):
                _fail(
                    "a literal has another type than its value (C3)",
                    at,
                    literal=v.aval,
                    value=of_value,
                )
        elif v not in defined:
            _fail("a variable is used and not defined before (C2)", at, variable=v.aval)


def _check_types(eqn: Eqn) -> None:
    avals = [v.aval for v in eqn.invars]
    try:
        expected = laid_out(
            eqn.primitive, avals, eqn.params, eqn.primitive.types(*avals, **eqn.params)
        )
    except (TypeError, ValueError) as err:
        raise JaxprTypeError(
            _text("the primitive refuses the equation's operands (C4)", eqn, operands=avals)
        ) from err
    found = [v.aval for v in eqn.outvars]
    if list(expected) != found:
        _fail(
            "results have other types than the primitive says (C4)",
            eqn,
            operands=avals,
            primitive=list(expected),
            equation=found,
        )
    effects = eqn.primitive.effects(*avals, **eqn.params)
    if effects != eqn.effects:
        _fail(
            "an equation has other effects than its primitive says (C5)",
            eqn,
            primitive=sorted(map(str, effects)),
            equation=sorted(map(str, eqn.effects)),
        )


def _fail(what: str, at: object, **values: object) -> NoReturn:
    raise JaxprTypeError(_text(what, at, **values))


def _text(what: str, at: object, **values: object) -> str:
    lines = [f"jaxpr: {what}.", *(f"    {name}: {value}" for name, value in values.items())]
    lines.append(f"    at: {at if isinstance(at, str) else repr(at).strip()[:400]}")
    if isinstance(at, Eqn) and at.where():
        lines.append(at.where("    made at: "))
    return "\n".join(lines)
