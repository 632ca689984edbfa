"""`debug.explain`.

Planted losses of digits, NaNs, infinities and differences, each found with its line and its
remedy.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.debug import _remedies, explain
from teucer.debug._remedies import Made
from teucer.extend import core
from teucer.interpreters import mlir


def log_of_sum(x):
    return jnp.log(1 + x)


def exponential_less_one(x):
    return jnp.exp(x) - 1.0


def versine(x):
    return 1 - jnp.cos(x)


def difference_of_squares(x):
    return (x + 1000) ** 2 - x**2 - 1e6


def difference_of_roots(x):
    return jnp.sqrt(x + 1e6) - jnp.sqrt(x + 1e6 - 1e-1)


def complement(x):
    return 1 - jax.nn.sigmoid(x + 15)


def variance(x):
    y = x + 1000.0 * jnp.arange(1, 3) / jnp.arange(1, 3)
    return jnp.mean(y**2) - jnp.mean(y) ** 2


@pytest.mark.parametrize(
    ("f", "x", "remedy"),
    [
        (log_of_sum, 1e-6, "log1p"),
        (exponential_less_one, 1e-6, "expm1"),
        (versine, 1e-3, "sin"),
        (difference_of_squares, 1e-4, "cancel"),
        (difference_of_roots, 1.0, "sqrt(a) + sqrt(b)"),
        (complement, 1.0, "sigmoid(-x)"),
        (variance, np.float32([0.1, 0.2]), "jnp.var"),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_a_loss_of_digits_has_its_line_and_its_remedy(f, x, remedy):
    found = explain(f, x)
    assert not found.clean and found.nan is None and found.inf is None
    worst = found.lines[0]
    assert remedy in worst.remedy and worst.digits > 2
    assert worst.text.startswith("return ") and f.__name__ in worst.place
    assert remedy in str(found) and worst.text in str(found)


@pytest.mark.parametrize(
    "f", [jnp.log1p, jnp.expm1, lambda x: jnp.var(x + jnp.arange(3.0)), jax.nn.softplus]
)
def test_what_loses_nothing_is_clean(f):
    found = explain(f, 1e-6)
    assert found.clean and "Nothing to mend" in str(found)
    ((agree, possible),) = found.digits.values()
    assert agree > possible - 1


def test_digits_lost_in_a_backward_pass():
    found = explain(jax.grad(lambda x: (1 - jnp.cos(x)) ** 2), 1e-3)
    assert (
        any(line.backward for line in found.lines)
        or found.lines[0].remedy == "1 - cos(x) is 2 * sin(x / 2) ** 2"
    )


def test_the_first_nan_in_a_loop():
    def f(x):
        return jax.lax.fori_loop(0, 5, lambda i, c: jnp.sqrt(c - 1.0), x)  # a loop

    found = explain(jax.jit(f), 3.0)
    assert (
        found.nan.operation == "sqrt"
        and "# a loop" in found.nan.text
        and "step 2 of 5" in found.nan.steps[0]
    )
    assert "negative" in found.nan.remedy and "step 2 of 5" in str(found)


def test_the_first_nan_in_a_while_loop_and_in_a_branch():
    def f(x):
        x = jax.lax.while_loop(lambda c: c > 0, lambda c: c - 1.0, x)
        return jax.lax.cond(x < 0, jnp.log, jnp.exp, x)

    found = explain(f, 0.5)
    assert found.nan.operation == "log" and found.inf is None
    assert explain(f, 1.0).clean


def test_a_nan_that_only_the_backward_pass_makes():
    def norm(x):
        return jnp.sqrt(jnp.sum(x**2))

    found = explain(jax.grad(norm), jnp.zeros(2))
    assert found.inf.operation in ("div", "rsqrt", "pow") and found.nan.operation == "mul"
    assert found.nan.text == "return jnp.sqrt(jnp.sum(x**2))" and "0 * inf" in found.nan.remedy


def test_the_first_infinity():
    found = explain(lambda x: jnp.log(jnp.sum(jnp.exp(x))), jnp.array([1.0, 200.0]))
    assert found.inf.operation == "exp" and "logsumexp" in found.inf.remedy
    assert found.digits["result"][0] == 0.0
    # An infinity that is written into the program is meant.
    assert explain(lambda x: jnp.max(jnp.where(x > 1, x, -jnp.inf)), jnp.array([1.0, 2.0])).clean


def test_a_compiled_form_that_differs():
    # XLA's code for the CPU keeps more digits of a product that is added at once.
    x = jnp.float32(1.1)
    y = x * x

    @jax.jit
    def inner(x, y):
        return jnp.sin(x * x - y)

    found = explain(lambda x, y: inner(x, y) * 2, x, y)
    if found.difference is not None:  # a machine without fused multiply-add has none
        assert found.difference.operation in (
            "sub",
            "sin",
            "mul",
        )  # in which of them depends on what XLA fuses
        assert "alone:    float32[] = 0." in str(found)
    assert explain(lambda x, y: inner(x, y) * 2, x, y, tolerance=2.0).difference is None


# Doubles where it runs alone, and nothing where it is compiled.
planted_p = core.Primitive("planted")
planted_p.def_impl(lambda x: np.float32(2) * x)
planted_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(planted_p, lambda ctx, x: [x])


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f,
        jax.jit,
        lambda f: jax.jit(lambda x: jax.jit(f)(x + 1)),
        jax.checkpoint,
        lambda f: jax.jit(jax.checkpoint(f)),
    ],
)
def test_the_operation_that_differs_is_found_within_calls(call):
    def body(x):
        return jnp.sin(planted_p.bind(x * 3)) + 1  # planted

    found = explain(lambda x: call(body)(x) * 2, np.float32(0.5)).difference
    assert (found.operation, found.text) == (
        "planted",
        "return jnp.sin(planted_p.bind(x * 3)) + 1  # planted",
    )
    (operand,) = found.operands
    assert found.found and found.alone != found.compiled == operand
    assert found.size == pytest.approx(0.5)
    text = str(found).splitlines()
    assert text[0].startswith("  planted at ") and text[1] == f"      {found.text}"
    assert text[2:] == [
        f"    operand 0: {operand}",
        f"    alone:    {found.alone}",
        f"    compiled: {found.compiled}",
        "    relative difference: 0.5",
    ]


def test_what_has_no_double_form_is_named():
    found = explain(
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x),
        np.float32(1.0),
    )
    assert found.not_in_double == ("pure_callback",) and found.clean
    assert "Not run in double precision (taken as exact): pure_callback" in str(found).splitlines()


def test_other_dtypes_trees_and_keys():
    def f(tree, key, *, scale):
        noise = jax.random.normal(key, (3,))
        return {
            "a": tree["x"] * scale + noise,
            "n": jnp.argmax(tree["x"]),
            "z": jnp.exp(1j * tree["x"]),
        }

    found = explain(f, {"x": jnp.arange(3.0)}, jax.random.key(0), scale=2.0)
    assert set(found.digits) == {"result['a']", "result['z']"} and found.clean
    narrow = explain(lambda x: jnp.log(1 + x), jnp.bfloat16(1e-3))
    assert narrow.lines[0].remedy.startswith("jnp.log1p") and narrow.digits["result"][1] < 3


def test_linear_algebra_of_a_nearly_singular_matrix():
    found = explain(
        lambda a, b: jnp.linalg.solve(a, b),
        jnp.array([[1.0, 1.1], [1.1, 1.2101]]),
        jnp.array([1.0, 2.0]),
    )
    assert found.lines and found.lines[0].digits > 1


def test_options_for_nans_do_not_disturb():
    with jax.debug_nans(True):
        assert explain(lambda x: jnp.log(-x), 1.0).nan.operation == "log"


def test_remedies_look_through_changes_of_form():
    one = Made("broadcast_in_dim", (Made("constant", value=1.0),))
    x = Made("argument")
    assert _remedies.remedy("loss", Made("sub", (Made("exp", (x,)), one))).startswith("jnp.expm1")
    squares = Made("sub", (Made("mul", (x, x)), Made("square", (one,))))
    assert _remedies.remedy("loss", squares) == "a**2 - b**2 is (a - b) * (a + b)"
    softmax = Made("div", (Made("exp", (x,)), Made("reduce_sum", (Made("exp", (x,)),))))
    assert _remedies.remedy("nan", softmax).startswith("inf / inf")
    assert _remedies.remedy("loss", Made("sort", (x,))) == ""


def test_a_decomposition_differentiated_at_equal_values():
    def first_vector(x):
        return jnp.linalg.eigh(x)[1][0, 0]

    found = explain(jax.grad(first_vector), jnp.eye(3))
    (equal,) = found.equal
    assert equal.operation == "eigh" and equal.text.startswith("return jnp.linalg.eigh")
    assert "counts as constant" in str(found)
    assert not explain(jax.grad(first_vector), jnp.diag(jnp.arange(3.0))).equal
    assert not explain(first_vector, jnp.eye(3)).equal
