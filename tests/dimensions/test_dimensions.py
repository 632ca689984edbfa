"""Symbolic dimensions.

Arithmetic, canonical form, comparisons; and the types that rules make of them.
"""

import math
import operator
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer._dimensions.dimensions import (
    Scope,
    bounds,
    ceil_div,
    max_dim,
    min_dim,
    substitute,
    variables_of,
)
from teucer.errors import InconclusiveDimensionOperation

SCOPE = Scope()
A, B, C = (SCOPE.variable(name) for name in "abc")
NAMES = {"a": A, "b": B, "c": C, "max_dim": max_dim, "min_dim": min_dim}

# As JAX 0.10.2 prints them (jax.export.symbolic_shape("a, b, c"), the same expressions).
PRINTED = {
    "a + b": "b + a",
    "a - b": "- b + a",
    "a - a": "0",
    "b*a*a": "a^2*b",
    "3 - 2*a": "- 2*a + 3",
    "(a + b)**2": "2*a*b + b^2 + a^2",
    "(a + 1)*(a - 1)": "a^2 - 1",
    "(a + 1)//2": "floordiv(a + 1, 2)",
    "(2*a + 4)//2": "a + 2",
    "(4*a + 3)//2": "2*a + 1",
    "(4*a - 3)//2": "2*a - 2",
    "(2*a + 3)%2": "1",
    "(3*a + 7)//2": "floordiv(3*a + 7, 2)",
    "(2*a)%2": "0",
    "(a*a + a)//a": "a + 1",
    "(4*a)//-2": "- 2*a",
    "-a//2": "floordiv(- a, 2)",
    "a//b*b + a%b": "b*floordiv(a, b) + mod(a, b)",
    "(a*b + 3)%a": "mod(a*b + 3, a)",
    "max_dim(a, 1)": "a",
    "max_dim(a - b, 0)": "max(- b + a, 0)",
    "min_dim(a, 1)": "1",
    "max_dim(a + 1, a)": "a + 1",
    "a*b + 2*a - 3*b*c + 7": "- 3*b*c + a*b + 2*a + 7",
    "a**0": "1",
    "(a + b)*c - a*c - b*c": "0",
    "max_dim(2*a, 3) + min_dim(b, 4)": "min(b, 4) + max(2*a, 3)",
    "a*(b//2)*(a%3)": "a*floordiv(b, 2)*mod(a, 3)",
}


@pytest.mark.parametrize("text", PRINTED)
def test_canonical_form_is_printed_as_by_jax(text):
    assert str(eval(text, dict(NAMES))) == PRINTED[text]


SIZES = st.integers(1, 40)
EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "c"]) | st.integers(-3, 9).map(str),
    lambda inner: (
        st.tuples(st.sampled_from("+-*"), inner, inner).map(lambda t: f"({t[1]} {t[0]} {t[2]})")
        | st.tuples(
            st.sampled_from(["//", "%"]), inner, st.sampled_from(["2", "3", "-2", "a", "(b + 1)"])
        ).map(lambda t: f"({t[1]} {t[0]} {t[2]})")
        | st.tuples(st.sampled_from(["max_dim", "min_dim"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        )
    ),
    max_leaves=7,
)
NUMBERS = {"max_dim": max, "min_dim": min}


@given(EXPRESSIONS, SIZES, SIZES, SIZES)
def test_value_is_that_of_the_numbers(text, a, b, c):
    sizes = {"a": a, "b": b, "c": c}
    assert substitute(eval(text, dict(NAMES)), sizes) == eval(text, NUMBERS | sizes)


@given(EXPRESSIONS, SIZES, SIZES, SIZES)
def test_bounds_hold(text, a, b, c):
    low, high = bounds(eval(text, dict(NAMES)))
    assert low <= eval(text, NUMBERS | {"a": a, "b": b, "c": c}) <= high


@given(EXPRESSIONS, EXPRESSIONS, SIZES, SIZES, SIZES)
def test_a_decided_comparison_holds(left, right, a, b, c):
    x, y = (eval(text, dict(NAMES)) for text in (left, right))
    m, n = (eval(text, NUMBERS | {"a": a, "b": b, "c": c}) for text in (left, right))
    for compare in (operator.ge, operator.gt, operator.le, operator.lt):
        try:
            decided = compare(x, y)
        except InconclusiveDimensionOperation:
            continue
        assert decided is compare(m, n)
    if x == y:
        assert m == n and (
            not hasattr(x, "terms") or not hasattr(y, "terms") or SCOPE.facts or hash(x) == hash(y)
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "a >= 1": True,
        "a > 0": True,
        "a < 1": False,
        "a + 1 > a": True,
        "a + b >= a": True,
        "a*b >= 1": True,
        "a%2 < 2": True,
        "a//2 <= a": True,
        "(a + 1)//2 >= 1": True,
        "2*a >= a + 1": True,
        "a//b*b <= a": True,
        "a - a%2 >= 0": True,
        "a - a//2*2 <= 1": True,
        "a//4 <= a//2": True,
        "min_dim(a, b) <= a": True,
        "max_dim(a, b) >= b": True,
        "a - max_dim(0, a - 3) >= 1": True,
        "a == b": False,
        "a == a + 1": False,
        "2*a == a": False,
        "a == 1": False,
        "a > 1": None,
        "a >= b": None,
        "a*2 >= b": None,
        "a//2 >= 1": None,
        "a - b >= 0": None,
    }.items(),
)
def test_what_is_decided(text, expected):
    if expected is None:
        with pytest.raises(InconclusiveDimensionOperation, match="is inconclusive"):
            eval(text, dict(NAMES))
    else:
        assert eval(text, dict(NAMES)) is expected


def test_constraints_decide():
    scope = Scope()
    a, b, c = (scope.variable(name) for name in "abc")
    scope.not_negative(a - 3, "a >= 3")
    scope.not_negative(2 * a - b, "b <= 2*a")
    scope.not_negative(b - c, "b >= c")
    scope.equal(a % 2, 0, "mod(a, 2) == 0")
    assert (
        a >= 3
        and 2 * a >= b
        and 2 * a >= c
        and a % 2 == 0
        and a // 2 * 2 == a
        and a != 2
        and a * b >= 3
    )
    with pytest.raises(
        InconclusiveDimensionOperation, match=r"'a' >= '4' is inconclusive(?s:.*)b <= 2\*a"
    ):
        bool(a >= 4)
    with pytest.raises(ValueError, match="Unsatisfiable explicit constraint: 3 >= 5"):
        scope.not_negative(3 - 5, "3 >= 5")
    with pytest.raises(ValueError, match="left-hand side"):
        scope.equal(a + b, c, "a + b == c")


def test_equality_replaces_a_term():
    scope = Scope()
    a, b = scope.variable("a"), scope.variable("b")
    scope.equal(a, 2 * b, "a == 2*b")
    assert str(scope.variable("a") + 1) == "2*b + 1"


def test_equality_replaces_multiples():
    scope = Scope()
    b, d = scope.variable("b"), scope.variable("d")
    scope.equal(d % 2, 0, "mod(d, 2) == 0")
    assert (d // 2 * 2).terms == d.terms and (4 * b * (d // 2)).terms == (2 * b * d).terms
    assert str(3 * b * (d // 2)) == "3*b*floordiv(d, 2)" and scope.constraints == ["mod(d, 2) == 0"]


@pytest.mark.parametrize(
    "equalities", [["a == a + 1"], ["a == b", "b == a + 1"], ["a == b + 1", "b == a"]]
)
def test_equalities_that_cannot_be(equalities):
    with pytest.raises(ValueError, match="Unsatisfiable explicit constraint"):
        export.symbolic_shape("a, b", constraints=equalities)


@pytest.mark.parametrize(
    "constraints",
    [
        ["a <= 0"],
        ["a >= 3", "a <= 2"],
        ["a == b", "b == 2*a"],
        ["a == b + c", "b == a + c"],
        ["a == 2*a"],
        ["a >= b + 1", "b >= c + 4", "a <= d + 2", "d <= c + 2"],
        ["max(a, b) <= 3", "b >= 4"],
        ["min(a, b) == c", "c >= b + 1"],
    ],
)
def test_constraints_that_cannot_be_met(constraints):
    with pytest.raises(ValueError, match=f"Unsatisfiable constraint: {re.escape(constraints[-1])}"):
        export.symbolic_shape("a, b, c, d", constraints=constraints)


@pytest.mark.parametrize(
    ("constraints", "decided"),
    [
        (
            ["max(a, b) >= 8", "min(a, b) <= 2"],
            ["max(a, b) >= 6", "min(a, b) <= 6", "max(a, b) + c >= 9"],
        ),
        (["b >= 2", "min(a, b) == b - 2"], ["min(a, b) == b - 2", "a >= b - 2", "a + c >= b - 1"]),
        (["max(a, b) == c"], ["c >= a", "c >= b"]),
        (
            ["mod(a + a % 2, -2) == 0"],
            [
                "(a + a % 2) % 2 == 0",
                "(a + a % 2) % -2 == 0",
                "(a + a % 2) // 2 * 2 == a + a % 2",
                "(a + a % 2) // -2 * -2 == a + a % 2",
            ],
        ),
    ],
)
def test_what_constraints_on_operations_decide(constraints, decided):
    names = dict(
        zip(
            "abc",
            export.symbolic_shape(
                "a, b, c", constraints=[text.replace("a % 2", "mod(a, 2)") for text in constraints]
            ),
            strict=True,
        )
    )
    assert all(eval(text, {**names, "max": max_dim, "min": min_dim}) is True for text in decided)


@pytest.mark.parametrize(
    ("equalities", "shape"),
    [
        (["a == max(a, b)"], "(a, b, c)"),
        (["a*b == c", "c == a^2"], "(a, b, c)"),
        (["floordiv(a, 2) == b + 1", "mod(a, 2) == 0"], "(a, b, c)"),
    ],
)
def test_equalities_that_go_round_replace_nothing(equalities, shape):
    a, *rest = export.symbolic_shape("a, b, c", constraints=equalities)
    assert str((a, *rest)) == shape and a >= 1 and str(a * 0 + 3) == "3"


def test_a_variable_with_bounds_may_be_zero():
    scope = Scope()
    n = scope.variable("n", 0, 8)
    assert n <= 8 and n >= 0 and max_dim(n, 9) == 9 and bounds(2 * n + 1) == (1, 17)
    with pytest.raises(InconclusiveDimensionOperation, match="'n' != '0'"):
        bool(n)


def test_scopes_do_not_mix():
    other = Scope().variable("a")
    assert other != A
    with pytest.raises(
        ValueError, match="Invalid mixing of symbolic scopes when computing 'a' \\+ 'a'"
    ):
        A + other
    with pytest.raises(
        ValueError, match="Invalid mixing of symbolic scopes when comparing 'a' >= 'a'"
    ):
        operator.ge(A, other)


@pytest.mark.parametrize(
    "use", [int, float, operator.index, range, lambda a: [0][a], lambda a: np.zeros(a)]
)
def test_a_constant_is_needed(use):
    with pytest.raises(
        InconclusiveDimensionOperation,
        match="Symbolic dimension 'a' used in a context that requires a constant",
    ):
        use(A)


def test_division_by_zero():
    with pytest.raises(ZeroDivisionError):
        A // 0
    with pytest.raises(ZeroDivisionError):
        A % 0
    with pytest.raises(ValueError, match="negative powers"):
        A**-1


def test_ceil_div():
    assert [ceil_div(n, 3) for n in range(7)] == [math.ceil(n / 3) for n in range(7)]


def test_variables_are_named_in_order():
    assert variables_of([(B, 2), (A // C,)]) == ("b", "a", "c")


def struct(*shape):
    return jax.ShapeDtypeStruct(shape, np.float32)


# The shapes are those of JAX 0.10.2 for the same functions and symbolic shapes.
SHAPES = [
    (
        lambda x: lax.conv(x[None, None], np.ones((1, 1, 5), np.float32), (1,), "VALID"),
        [(A,)],
        "(1, 1, max(a - 4, 0))",
    ),
    (lambda x: x[::2], [(A,)], "(floordiv(a + 1, 2),)"),
    (lambda x: x[1:], [(A,)], "(a - 1,)"),
    (lambda x: x[:5], [(A,)], "(min(a, 5),)"),
    (lambda x: x[2:], [(A,)], "(- min(a, 2) + a,)"),
    (lambda x: x[-3:], [(A,)], "(- max(0, a - 3) + a,)"),
    (lambda x: x[::-1], [(A,)], "(a,)"),
    (lambda x: x[5], [(A,)], "()"),
    (lambda x: x + jnp.ones(1), [(A,)], "(a,)"),
    (lambda x: x.reshape(-1, 2), [(2 * A,)], "(a, 2)"),
    (lambda x: x.reshape(-1), [(A, B)], "(a*b,)"),
    (lambda x: x.reshape(A, -1), [(A * B,)], "(a, b)"),
    (lambda x: jnp.concatenate([x, x]), [(A,)], "(2*a,)"),
    (lambda x: jnp.arange(1, x.shape[0], 2), [(A,)], "(floordiv(a, 2),)"),
    (lambda x: jnp.repeat(x, 2), [(A,)], "(2*a,)"),
    (lambda x: jnp.tile(x, (B, 1)), [(A,)], "(b, a)"),
    (lambda x: jnp.pad(x, 1), [(A,)], "(a + 2,)"),
    (lambda x: jnp.split(x, 2)[0], [(2 * A,)], "(a,)"),
    (lambda x: lax.top_k(x, 2)[0], [(A + 2,)], "(2,)"),
    (lambda x: jnp.eye(x.shape[0]), [(A,)], "(a, a)"),
    (lambda x: jnp.nonzero(x, size=3)[0], [(A,)], "(3,)"),
    (lambda x: jnp.roll(x, 1), [(A,)], "(a,)"),
    (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"),
        [(A,)],
        "(floordiv(a - 2, 2) + 1,)",
    ),
    (lambda x: jnp.linalg.qr(x, mode="r"), [(A + B, B)], "(b, b)"),
    (lambda x: x @ x.T, [(A, B)], "(a, a)"),
    (lambda x: jax.random.normal(jax.random.key(0), x.shape), [(A, B)], "(a, b)"),
    (lambda x: jnp.median(x), [(A,)], "()"),
    (lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x)[1], [(A,)], "(a,)"),
    (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0), [(A,)], "()"),
    (lambda x: jax.vmap(lambda y: y * 2)(x), [(A, B)], "(a, b)"),
    (lambda x: jax.grad(lambda x: (x**2).mean())(x), [(A,)], "(a,)"),
    (lambda x: jnp.cumsum(x), [(A,)], "(a,)"),
    (lambda x: x.sum() / x.shape[0], [(A,)], "()"),
]


@pytest.mark.parametrize(("f", "shapes", "expected"), SHAPES)
def test_shapes_of_results(f, shapes, expected):
    assert str(jax.eval_shape(f, *(struct(*shape) for shape in shapes)).shape) == expected


REFUSED = [
    (
        lambda x: x.reshape(-1, 2),
        [(A,)],
        InconclusiveDimensionOperation,
        "Cannot divide evenly the sizes of shapes",
    ),
    (lambda x: lax.top_k(x, 2), [(A,)], InconclusiveDimensionOperation, "is inconclusive"),
    (
        lambda x: lax.slice(x, (0,), (3,)),
        [(A,)],
        InconclusiveDimensionOperation,
        "'a' >= '3' is inconclusive",
    ),
    (
        lambda x: x if x.shape[0] > 3 else 2 * x,
        [(A,)],
        InconclusiveDimensionOperation,
        "'a' > '3' is inconclusive",
    ),
    (lambda x: list(x), [(A,)], InconclusiveDimensionOperation, "requires a constant"),
    (
        lambda x: x + jnp.ones(3),
        [(A,)],
        TypeError,
        "add got incompatible shapes for broadcasting: \\(a,\\), \\(3,\\)",
    ),
    (
        lambda x, y: x + y,
        [(A,), (B,)],
        TypeError,
        "add got incompatible shapes for broadcasting: \\(a,\\), \\(b,\\)",
    ),
    (lambda x: jnp.split(x, 2), [(A,)], ValueError, "rest is mod\\(a, 2\\)"),
    (lambda x: jnp.squeeze(x), [(A, 1)], ValueError, "squeeze with axis=None"),
    (lambda x: x @ x, [(A, B)], TypeError, "got \\(b,\\) and \\(a,\\)"),
]


@pytest.mark.parametrize(("f", "shapes", "error", "text"), REFUSED)
def test_what_is_refused(f, shapes, error, text):
    with pytest.raises(error, match=text):
        jax.eval_shape(f, *(struct(*shape) for shape in shapes))


def test_a_size_as_a_number():
    jaxpr = str(jax.make_jaxpr(lambda x: x * x.shape[0])(struct(A)))
    assert "b:i32[] = dim_as_value[dim=a]" in jaxpr and "f32[a] = mul" in jaxpr
    with pytest.raises(InconclusiveDimensionOperation, match="no program is being traced"):
        A / 2


def test_lowering_takes_sizes_from_the_arguments():
    text = jax.jit(lambda x: x[1:].reshape(-1)).lower(struct(A, 2 * B)).as_text()
    for part in (
        "get_dimension_size",
        "real_dynamic_slice",
        "dynamic_reshape",
        "shape_assertion",
        "tensor<?x?xf32>",
    ):
        assert part in text
    with pytest.raises(
        ValueError,
        match=r"Cannot solve for values of dimension variables \{'a', 'b'\}|\{'b', 'a'\}",
    ):
        jax.jit(lambda x: x + 1).lower(struct(A * B))


def test_a_lowering_that_needs_a_constant_says_where():
    with pytest.raises(InconclusiveDimensionOperation) as caught:
        jax.jit(lambda x: jnp.fft.fft(x)).lower(struct(A))
    assert (
        "in the lowering of fft" in caught.value.__notes__[0]
        and "test_dimensions.py" in caught.value.__notes__[0]
    )


def test_bounds_of_sizes_whose_hashes_are_equal():
    """hash(-1) == hash(-2), so that -n and -2 n may have one hash; constraints make sizes equal
    that are written in other ways."""
    (n,) = export.symbolic_shape("n", constraints=["n >= 3"])
    for k in (-2, -1, 1, 2):
        low, high = bounds(k * n)
        assert (low, high) == ((3 * k, math.inf) if k > 0 else (-math.inf, 3 * k))
    sizes = [k * n + c for k in range(-3, 4) for c in range(-3, 4)]
    for x in sizes:
        for y in sizes:
            assert (x == y) == (str(x) == str(y))
