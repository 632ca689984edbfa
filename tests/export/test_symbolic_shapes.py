"""Shapes from text: grammar, `like`, constraints, trees of specifications."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export
from teucer.errors import InconclusiveDimensionOperation

# As JAX 0.10.2 reads and prints them.
READ = {
    "a, b": "(a, b)",
    "(a, b)": "(a, b)",
    "a,": "(a,)",
    "": "()",
    "()": "()",
    "a, 3, 2*a + b": "(a, 3, b + 2*a)",
    "a^2": "(a^2,)",
    "-a": "(- a,)",
    "+a": "(a,)",
    "a*-2 + -1, max(+a, b)": "(- 2*a - 1, max(a, b))",
    "a1, _b, a_b": "(a1, _b, a_b)",
    "0, a": "(0, a)",
    "floordiv(a, 2) + 1 + 2 * mod(b,3)*a": "(2*a*mod(b, 3) + floordiv(a, 2) + 1,)",
    "mod(a,2), max(a,b), min(a, 2)": "(mod(a, 2), max(a, b), min(a, 2))",
}


@pytest.mark.parametrize("text", READ)
def test_grammar(text):
    assert str(export.symbolic_shape(text)) == READ[text]


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "a+",
        "a, *",
        "a/2",
        "a**2",
        "1.5",
        "2a",
        "max(a, b, c)",
        "mod(a)",
        "foo(a, b)",
        "(a",
        "a)",
        "a--b",
        "a+-b",
        "-+a",
    ],
)
def test_syntax_errors(text):
    with pytest.raises(
        ValueError, match=r"syntax error in symbolic shape '(?s:.*)Parsed '.*', remaining '"
    ):
        export.symbolic_shape(text)


def test_like():
    assert str(export.symbolic_shape("_, a", like=(3, 4))) == "(3, a)"
    assert str(export.symbolic_shape("a, ...", like=(3, 4, 5))) == "(a, 4, 5)"
    for text, like in [("a, ...", ()), ("a, b, ...", (1,))]:
        with pytest.raises(ValueError, match="cannot resolve placeholder '...'"):
            export.symbolic_shape(text, like=like)
    with pytest.raises(ValueError, match="no 'like' shape was given"):
        export.symbolic_shape("_")
    with pytest.raises(ValueError, match=r"different size 3 for known dimension; like=\(4, 5\)"):
        export.symbolic_shape("3, b", like=(4, 5))
    with pytest.raises(ValueError, match="spec should be None or a string. Found 3"):
        export.symbolic_shape(3)


def test_constraints():
    assert str(export.symbolic_shape("a, b", constraints=["a == 2*b"])) == "(2*b, b)"
    a, b = export.symbolic_shape("a, b", constraints=["a >= b", "b >= 8", "mod(a, 4) == 0"])
    assert a >= 8 and a % 4 == 0
    with pytest.raises(
        InconclusiveDimensionOperation,
        match=r"'a' >= '9' is inconclusive(?s:.*) created at (?s:.*)a >= b",
    ):
        bool(a >= 9)
    for constraints, text in [
        (["a > 3"], "must contain one of"),
        ("a >= 3", "should be a sequence of strings"),
        (["3 >= 5"], "Unsatisfiable explicit constraint: 3 >= 5"),
        (["a + b == 3"], "left-hand side"),
    ]:
        with pytest.raises(ValueError, match=text):
            export.symbolic_shape("a", constraints=constraints)
    with pytest.raises(ValueError, match="both a `scope` and `constraints`"):
        export.symbolic_shape("a", scope=export.SymbolicScope(), constraints=["a >= 3"])


def test_is_symbolic_dim():
    (a,) = export.symbolic_shape("a")
    assert (
        export.is_symbolic_dim(a)
        and not export.is_symbolic_dim(a - a)
        and not export.is_symbolic_dim(3)
    )


X, Y = np.ones((3, 4), np.float32), np.ones(4, np.int32)


@pytest.mark.parametrize(
    ("args", "specs", "shapes"),
    [
        ((X, Y), ("a, b", "b"), "[(a, b), (b,)]"),
        ((X, Y), ["a, b", "b"], "[(a, b), (b,)]"),
        ((X, X), "a, b", "[(a, b), (a, b)]"),
        (({"x": X, "y": Y},), ({"x": "a, b", "y": None},), "[(a, b), (4,)]"),
        ((X, Y), None, "[(3, 4), (4,)]"),
        ((X, Y), "...", "[(3, 4), (4,)]"),
        (((X, Y), X), (("a, b", "c"), None), "[(a, b), (c,), (3, 4)]"),
        ({"k": X}, {"k": "a, b"}, "[(a, b)]"),
    ],
)
def test_args_specs(args, specs, shapes):
    found = export.symbolic_args_specs(args, specs)
    assert jax.tree.structure(found) == jax.tree.structure(args)
    assert str([struct.shape for struct in jax.tree.leaves(found)]) == shapes
    assert [struct.dtype for struct in jax.tree.leaves(found)] == [
        x.dtype for x in jax.tree.leaves(args)
    ]


def test_args_specs_that_do_not_fit():
    with pytest.raises(ValueError, match="pytree structure error"):
        export.symbolic_args_specs((X, Y), ("a",))
    with pytest.raises(ValueError, match="different size 5 for known dimension"):
        export.symbolic_args_specs((X,), ("b, 5",))


@pytest.mark.parametrize(
    ("text", "like", "message"),
    [
        (
            "b, 6, c, _",
            (1, 6, 3),
            "'_' because we parsed 3 already and 'like' shape has only 3 dim",
        ),
        (
            "b, 7, c, ...",
            (2, 7),
            "'...' because we parsed 3 already and 'like' shape has only 2 dim",
        ),
        ("_", (), "'_' because we parsed 0 already and 'like' shape has only 0 dimensions"),
    ],
)
def test_placeholders_for_sizes_that_are_not_there(text, like, message):
    with pytest.raises(ValueError, match="cannot resolve placeholder " + message):
        export.symbolic_shape(text, like=like)


def test_args_specs_are_of_the_enabled_precision():
    found = export.symbolic_args_specs((np.ones(3), jax.random.key(0)), ("a", ""))
    assert [str(struct.dtype) for struct in found] == ["float32", "key<fry>"]


def test_a_variable_that_no_argument_has():
    (a,) = export.symbolic_shape("a")
    for f in (
        lambda: jnp.ones((a,)),
        lambda: export.export(jax.jit(lambda x: x + jnp.ones((a,)).sum()))(1.0),
    ):
        with pytest.raises(
            InconclusiveDimensionOperation,
            match="dimension variable 'a' that is not appearing in the shapes",
        ):
            f()


@pytest.mark.parametrize(
    ("constraints", "shape", "message"),
    [
        (
            ["max(a, b) == 4", "a == b"],
            (3, 3),
            r"max\(a, b\) == 4. Expected 'max\(a, b\) - 4' to be equal to 0, but found -1",
        ),
        (
            ["a >= 4", "a == b"],
            (3, 3),
            "a >= 4. Expected 'a - 4' to be greater or equal to 0, but found -1",
        ),
        (["max(a, b) == b"], (3, 2), r"Expected 'max\(a, b\) - b' to be equal to 0, but found 1"),
        (["a*b == 12"], (4, 4), r"Expected 'a\*b - 12' to be equal to 0, but found 4"),
    ],
)
def test_constraints_are_checked_of_variables_that_equal_others(
    constraints, shape, message
) -> None:
    exported = export.export(jax.jit(lambda x: x))(
        jax.ShapeDtypeStruct(export.symbolic_shape("a, b", constraints=constraints), np.float32)
    )
    assert (
        exported.call(
            np.ones(
                (6, 6)
                if "a*b" not in constraints[0] and "== 4" not in constraints[0]
                else (3, 4)
                if "a*b" in constraints[0]
                else (4, 4),
                np.float32,
            )
        ).ndim
        == 2
    )
    with pytest.raises(ValueError, match=message):
        exported.call(np.ones(shape, np.float32))


def test_sizes_that_may_be_negative_are_refused() -> None:
    (a,) = export.symbolic_shape("a")
    with pytest.raises(InconclusiveDimensionOperation, match=r"'a - 3' >= '0' is inconclusive"):
        export.export(jax.jit(lambda x: jnp.ones(x.shape[0] - 3)))(
            jax.ShapeDtypeStruct((a,), np.float32)
        )
    (b,) = export.symbolic_shape("b", constraints=["b >= 3"])
    exported = export.export(jax.jit(lambda x: jnp.ones(x.shape[0] - 3)))(
        jax.ShapeDtypeStruct((b,), np.float32)
    )
    assert exported.call(np.ones(5, np.float32)).shape == (2,)


SIZES = {
    "sum and product": lambda a, b: a * b + 3 * a - b,
    "quotient": lambda a, b: (a * b) // 3,
    "quotient below zero": lambda a, b: (a - 7) // 2,
    "quotient by a negative number": lambda a, b: (a - 7) // -3,
    "quotient by a size": lambda a, b: (a + 5) // b,
    "remainder": lambda a, b: (a * b) % 4,
    "remainder below zero": lambda a, b: (a - 7) % 3,
    "remainder by a negative number": lambda a, b: (a - 4) % -3,
    "remainder by a size": lambda a, b: (a - 7) % b,
    "larger": lambda a, b: jax.core.max_dim(a, 2 * b),
    "smaller": lambda a, b: jax.core.min_dim(a - 1, b),
}


def test_programs_compute_sizes_as_python_does():
    """Every operation on sizes, where the program takes these from its arguments."""

    def f(x):
        a, b = x.shape
        return [jnp.asarray(of(a, b)) for of in SIZES.values()]

    (shape,) = [export.symbolic_shape("a, b")]
    again = export.deserialize(
        export.export(jax.jit(f))(jax.ShapeDtypeStruct(shape, np.float32)).serialize()
    )
    for a in range(1, 10):
        for b in (1, 2, 5):
            found = again.call(np.zeros((a, b), np.float32))
            expected = [of(a, b) for of in SIZES.values()]
            assert [int(x) for x in found] == expected, (a, b)
