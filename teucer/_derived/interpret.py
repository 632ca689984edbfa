"""Interpreters of jaxprs that are no transformations of the core: how they walk a jaxpr, and the table of their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from teucer._core.jaxpr import Eqn, Jaxpr, Literal
from teucer._core.primitive import MissingRule, Primitive

__all__ = ["Rules", "interpret"]


def interpret(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any],
              handle: Callable[[Eqn, list[Any]], Sequence[Any]], lift: Callable[[Any], Any] = lambda x: x) -> list[Any]:
    """Results of a jaxpr whose equations `handle(eqn, operands)` computes, on values of any kind.

    lift: literal -> a value of the kind.
    """
    env: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(atoms: Sequence[Any]) -> list[Any]:
        return [lift(v.val) if type(v) is Literal else env[v] for v in atoms]

    for eqn in jaxpr.eqns:
        env.update(zip(eqn.outvars, handle(eqn, read(eqn.invars)), strict=True))
    return read(jaxpr.outvars)


class Rules(dict[Primitive, Callable[..., Any]]):
    """The rules of one interpreter, by primitive.

    name: of the interpreter, for messages. exempt: primitives that carry jaxprs and need no rule, with the reason.
    """

    def __init__(self, name: str, rules: Mapping[Primitive, Callable[..., Any]],
                 exempt: Mapping[Primitive, str] | None = None) -> None:
        super().__init__(rules)
        self.name = name
        self.exempt = dict(exempt or {})

    def of(self, primitive: Primitive) -> Callable[..., Any] | None:
        """The rule of a primitive; None where there is none and the interpreter's default will do.

        Raises MissingRule for a primitive that carries jaxprs, whose equations the default would not see.
        """
        rule = self.get(primitive)
        if rule is None and primitive.higher_order and primitive not in self.exempt:
            raise MissingRule(f"{self.name} rule for {primitive} is not implemented.\n"
                              f"  The primitive carries jaxprs, which {self.name} would not see.")
        return rule

    def lacking(self, primitives: Iterable[Primitive]) -> list[Primitive]:
        """The primitives that carry jaxprs and have neither a rule nor a reason to need none."""
        return [p for p in primitives if p.higher_order and p not in self and p not in self.exempt]
