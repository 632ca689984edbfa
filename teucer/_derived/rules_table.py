"""Tables of rules for interpreters of jaxprs outside the core.

A table says what an interpreter does with each primitive. A primitive without a rule is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, NoReturn, TypeAlias, TypeVar

from teucer._core import structure
from teucer._core.jaxpr import Eqn, jaxprs_in_params
from teucer._core.primitive import MissingRule, Primitive

if TYPE_CHECKING:
    from teucer._core.typing import Params


Rule = TypeVar("Rule", bound=Callable[..., object])
Key: TypeAlias = Primitive | structure.Kind


class Rules(Generic[Rule]):
    """The rules of one interpreter, each for one primitive or more, or for all of a kind of
    structure: calls, branches, loops. That of the primitive itself comes first.

    interpreter: what users call it, for messages. rules: for primitives that are there already.
    opaque: primitives that carry jaxprs which the interpreter need not look into: it treats them as
    primitives that carry none. So are primitives that passes make for themselves
    (`structure.internal`).

    >>> from teucer.lax import add_p, mul_p
    >>> rules = Rules("swap", {add_p: lambda x, y: y + x})
    >>> @rules.define(mul_p)
    ... def _mul(x, y):
    ...     return y * x
    >>> rules[mul_p](2, 3)
    6
    """

    __slots__ = ("_opaque", "_rules", "interpreter")

    def __init__(
        self,
        interpreter: str,
        rules: Mapping[Key, Rule] | None = None,
        *,
        opaque: Iterable[Primitive] = (),
    ) -> None:
        self.interpreter = interpreter
        self._rules: dict[Key, Rule] = dict(rules or {})
        self._opaque = set(opaque)

    def define(self, *keys: Key) -> Callable[[Rule], Rule]:
        """A decorator: the function is the rule of these primitives and kinds.

        Raises ValueError where one of them has a rule.
        """

        def defined(rule: Rule) -> Rule:
            if second := [str(key) for key in keys if key in self._rules]:
                raise ValueError(
                    f"{self.interpreter}: {', '.join(second)} has a rule already.\n"
                    "  To put another in its place, say table[primitive] = rule."
                )
            self._rules.update(dict.fromkeys(keys, rule))
            return rule

        return defined

    def __getitem__(self, primitive: Primitive) -> Rule:
        """The rule of a primitive.

        Raises MissingRule, which names the primitive, if there is none.
        """
        rule = self.get(primitive)
        return self.missing(primitive) if rule is None else rule

    def __contains__(self, primitive: Primitive) -> bool:
        return self.get(primitive) is not None

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        self._rules[primitive] = rule

    def get(self, primitive: Primitive, default: Rule | None = None) -> Rule | None:
        """The rule of a primitive, or the default."""
        rule = self._rules.get(primitive)
        if rule is None and (kind := structure.kind_of(primitive)) is not None:
            rule = self._rules.get(kind)
        return default if rule is None else rule

    def of(self, eqn: Eqn) -> Rule | None:
        """The rule for an equation; None where it needs none, since it carries no jaxprs or is
        opaque.

        Raises MissingRule if the equation carries jaxprs and its primitive has no rule.
        """
        return self.of_call(eqn.primitive, eqn.params)

    def of_call(self, primitive: Primitive, params: Params) -> Rule | None:
        """As `of`, for a call of a primitive."""
        rule = self.get(primitive)
        if (
            rule is None
            and not self._is_opaque(primitive)
            and next(jaxprs_in_params(params), None) is not None
        ):
            self.missing(primitive, " It carries jaxprs, into which the interpreter must look.")
        return rule

    def lacking(self, primitives: Iterable[Primitive]) -> list[str]:
        """The names of the primitives that have no rule. A test passes those that carry jaxprs."""
        return sorted(str(p) for p in primitives if p not in self and not self._is_opaque(p))

    def _is_opaque(self, primitive: Primitive) -> bool:
        return primitive in self._opaque or structure.is_internal(primitive)

    def missing(self, primitive: Primitive, why: str = "") -> NoReturn:
        """Raise the error that names the primitive and the interpreter."""
        raise MissingRule(
            f"{self.interpreter}: no rule for the primitive '{primitive}'.{why}\n"
            f"  Define one in the table of rules of {self.interpreter}."
        )
