"""Tables of dialects: inheritance, and that none lacks a primitive without a reason."""

import pytest
from optable.primitives import primitives

import teucer as jax
from teucer import lax
from teucer._core import dialects
from teucer._core.dialects import Table
from teucer._core.primitive import Primitive
from teucer._derived.members import Members

PRIMITIVES = {str(p.name): p for _, p in primitives()}
# Operands of high types, and references, are refused by name: no rule can take them apart, since
# their functions say what they are given, or since only passes make them.
REFUSE = {
    "composite",
    "custom_lin",
    "custom_linear_solve",
    "custom_vmap_call",
    "joined_call",
    "linear_call",
    "outlined_call",
}
# What goes back through a loop is made of bodies whose references are values already.
ON_VALUES = {"reversed_while"}


def without(table: Table) -> set[str]:
    return {name for name, p in PRIMITIVES.items() if table.of(p) is None}


def marked(table: Table) -> set[str]:
    return {name for name, p in PRIMITIVES.items() if table[type(p)]}


def test_primitives_with_bodies_take_high_values_and_references_or_have_a_reason() -> None:
    bodies = {name for name, p in PRIMITIVES.items() if p.higher_order}
    assert bodies & without(dialects.on_low) == REFUSE
    assert bodies & without(dialects.on_values) == REFUSE | ON_VALUES


def test_primitives_on_references_are_discharged_and_lowered() -> None:
    on_references = marked(dialects.takes_references) | marked(dialects.makes_references)
    assert on_references >= {"get", "swap", "addupdate", "new_ref", "freeze"}
    assert not on_references & without(dialects.discharge)
    assert not on_references & without(dialects.on_low)


def test_primitives_on_tokens_are_high() -> None:
    assert marked(dialects.high) == {"after_all", "create_token"}


def test_subclasses_have_the_entries_of_their_nearest_ancestor() -> None:
    table, kind = Table(), Table()

    @kind.mark
    class A(Primitive):
        @table.rule
        def rule(self) -> str:
            return "A"

    class B(A):
        pass

    class C(B):
        @table.rule
        def rule(self) -> str:
            return super().rule() + "C"

    class D(C):
        pass

    assert [table.of(P()) and table.of(P())() for P in (A, B, C, D, Primitive)] == [
        "A",
        "A",
        "AC",
        "AC",
        None,
    ]
    assert [kind[P] for P in (A, B, D, Primitive)] == [True, True, True, None]


def test_a_primitive_may_have_an_entry_of_its_own() -> None:
    table = Table()
    p, q = Primitive(), Primitive()
    table.own[p] = lambda self, x: (self, x)
    assert table.of(p)(1) == (p, 1) and table.of(q) is None


def test_the_core_knows_no_rule_of_a_dialect() -> None:
    tables = {name for name, value in vars(dialects).items() if isinstance(value, Table)}
    assert len(tables) > 10 and not tables & set(vars(Primitive))


def test_members_that_libraries_ask_for_are_found_on_every_primitive() -> None:
    for name in vars(Members).keys() - {"__module__", "__doc__", "__slots__"}:
        if not name.startswith("__"):
            assert hasattr(lax.add_p, name) and hasattr(jax.extend.core.Primitive("p"), name), name
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        lax.add_p.nothing_of_the_kind()
