"""The structure of jaxprs.

A key that is equal for jaxprs that compute the same by the same equations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, Literal

if TYPE_CHECKING:
    from teucer._core.typing import Params


@final
class Structure:
    """A jaxpr without the names of its variables. Its hash is computed once."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: object) -> None:
        self.parts, self._hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Structure) and self._hash == other._hash and self.parts == other.parts
        )


def structural_key(jaxpr: Jaxpr) -> Structure:
    """The structure of a jaxpr; in time linear in its size, and kept on it.

    Equal keys: the same primitives with equal parameters on corresponding variables and equal
    literals, of the same types, with the same inputs and outputs. Names, source locations and name
    scopes do not count.
    """
    found: Structure | None = jaxpr.cache.get(structural_key)
    if found is None:
        try:
            found = Structure(_parts(jaxpr))
        except TypeError:  # a parameter that is not hashable: equal to nothing else
            found = Structure(id(jaxpr))
        jaxpr.cache[structural_key] = found
    return found


def _parts(jaxpr: Jaxpr) -> Any:
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    numbers: dict[Any, int] = {v: i for i, v in enumerate(inputs)}
    eqns = []
    for eqn in jaxpr.eqns:
        operands = tuple([literal_key(v) if type(v) is Literal else numbers[v] for v in eqn.invars])
        for v in eqn.outvars:
            numbers[v] = len(numbers)
        eqns.append(
            (eqn.primitive, operands, params_key(eqn.params), tuple([v.aval for v in eqn.outvars]))
        )
    outs = tuple(
        [(v.aval, literal_key(v)) if type(v) is Literal else numbers[v] for v in jaxpr.outvars]
    )
    return len(jaxpr.constvars), tuple([v.aval for v in inputs]), tuple(eqns), outs


def literal_key(literal: Literal) -> Any:
    """Equal for literals of one dtype and the same bits. Whether their types are weak shows in the
    results of the equation."""
    value, dtype = literal.val, literal.aval.dtype
    if literal.aval.ndim:  # places that a rule knows
        value = np.asarray(value, dtype)
        return dtype, value.shape, value.tobytes()
    if type(value) is not dtype.type:
        value = dtype.type(value)
    # Zeros of either sign compare equal, and so do complex numbers with such parts; not all numbers
    # of other kinds hash.
    return dtype, value if value and dtype.kind in "biuf" else repr(value)


def params_key(params: Params) -> Any:
    """Equal for equal parameters; jaxprs among them are equal if their structures are.

    Its hash raises TypeError if a parameter is not hashable.
    """
    return tuple(
        [
            (name, value if type(value) in _PLAIN else _value_key(value))
            for name, value in params.items()
        ]
    )


_PLAIN = frozenset({int, str, bool, type(None), np.dtype})


def _value_key(value: Any) -> Any:
    kind = type(value)
    if kind is ClosedJaxpr:
        return structural_key(value.jaxpr) if not value.consts else value
    if kind is Jaxpr:
        return structural_key(value)
    if isinstance(value, tuple):
        return tuple([v if type(v) in _PLAIN else _value_key(v) for v in value])
    # By repr, which tells 1.0 from 1, and 0.0 from -0.0.
    return (kind, repr(value)) if kind is float else value
