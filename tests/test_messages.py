"""Phrases of JAX's messages, which people search for and tests match, stand in Teucer's."""

import re

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

X = jnp.arange(3.0)


def nondiff(f, x):
    return x


app = jax.custom_vjp(nondiff, nondiff_argnums=(0,))
app.defvjp(lambda f, x: (x, None), lambda f, res, ct: (ct,))
rule = jax.custom_vjp(lambda x, y: x)
rule.defvjp(lambda x, y: (x, None), lambda res, ct: (ct, ct))
ROWS = [
    (lambda: hash(X), TypeError, "unhashable type: 'jaxlib._jax.ArrayImpl'"),
    (
        lambda: bool(X[:0]),
        ValueError,
        "The truth value of an empty array is ambiguous. Use `array.size > 0`",
    ),
    (
        lambda: lax.add(X, X[None]),
        TypeError,
        "add: arrays must have the same number of dimensions, got {1, 2}: shapes (3,), (1, 3)",
    ),
    *(
        (
            lambda f=f: jax.jit(f)(1),
            TypeError,
            (
                "Shapes must be 1D sequences of concrete values of integer type, got "
                f"{shown.format('JitTracer(~int32[])')}.\nIf using `jit`, try using "
                "`static_argnums` or applying `jit` to smaller subfunctions."
            ),
        )
        for shown, f in {
            "[{}]": lambda n: X.reshape(n),
            "(3, {})": lambda n: X.reshape(3, n),
            "({},)": lambda n: lax.iota(int, n),
            "(2, {})": lambda n: jnp.zeros((2, n)),
        }.items()
    ),
    (lambda: [1][X], TypeError, "Only integer scalar arrays can be converted to a scalar index."),
    (lambda: [1, 2] + X, TypeError, "unsupported operand type(s) for +: 'list' and 'ArrayImpl'"),
    (lambda: X + [1, 2], TypeError, "unsupported operand type(s) for +: 'ArrayImpl' and 'list'"),
    (
        lambda: (1,) ** X,
        TypeError,
        "unsupported operand type(s) for ** or pow(): 'tuple' and 'ArrayImpl'",
    ),
    (lambda: X < [1], TypeError, "'<' not supported between instances of 'ArrayImpl' and 'list'"),
    (
        lambda: jax.jit(lambda x: [1] + x)(X),
        TypeError,
        "unsupported operand type(s) for +: 'list' and 'StageTracer'",
    ),
    (lambda: jax.jit(lambda x: {x: 1})(X), TypeError, "unhashable type: 'StageTracer'"),
    (
        lambda: jax.jit(lambda x: x[x > 1])(X),
        jax.errors.NonConcreteBooleanIndexError,
        "Array boolean indices must be concrete; got bool[3]",
    ),
    (
        lambda: jax.jit(lambda d, y: y)({"a": 2**40}, 1),
        OverflowError,
        (
            "jitted computation, whose argument path is d['a']. Got <class 'int'> with value "
            "1099511627776"
        ),
    ),
    (lambda: jax.make_jaxpr(lambda x: x)(-(2**31) - 1), OverflowError, "whose argument path is x."),
    (
        lambda: jax.jit(lambda x: x, static_argnums=5),
        ValueError,
        "Jitted function has static_argnums=(5,), but only accepts 1 positional arguments.",
    ),
    (
        lambda: jax.jit(lambda x: x, donate_argnames="y"),
        ValueError,
        (
            "Jitted function has invalid argnames {'y'} in donate_argnames. Function does not take "
            "these args."
        ),
    ),
    (
        lambda: jax.jit(lambda x: x, static_argnums=0, donate_argnums=0),
        ValueError,
        "static_argnums and donate_argnums cannot",
    ),
    (lambda: jax.grad(3), TypeError, "Expected a callable value, got 3"),
    (
        lambda: jax.grad(lambda x: x)("a"),
        TypeError,
        "Argument 'a' of type <class 'str'> is not a valid JAX type",
    ),
    (
        lambda: jax.grad(lambda x, y: x, argnums=-3)(1.0, 2.0),
        ValueError,
        "but got value -3 for len(args) == 2",
    ),
    (
        lambda: jax.grad(lambda x, y: x, argnums=(0, -2))(1.0, 2.0),
        ValueError,
        "argnums=(0, -2) names an argument twice",
    ),
    (
        lambda: jax.jacfwd(lambda x: x)(1),
        TypeError,
        "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of "
        "np.floating), but got int32. For holomorphic differentiation, pass holomorphic=True.",
    ),
    (
        lambda: jax.vjp(lambda x: x, 1.0)[1](X),
        ValueError,
        "JAX type (e.g. shape/dtype) for argument to VJP function: got float32[3], but expected "
        "float32[] because the corresponding output of the differentiated function had JAX type "
        "float32[]",
    ),
    (
        lambda: jax.linear_transpose(jnp.sin, 1.0)(1.0),
        NotImplementedError,
        "Transpose rule (for reverse-mode differentiation) for 'sin' not implemented",
    ),
    (
        lambda: jax.grad(lax.random_gamma_grad)(1.0, 2.0),
        NotImplementedError,
        "Differentiation rule for 'random_gamma_grad' not implemented",
    ),
    (
        lambda: app(X, 1.0) and jax.jit(app)(X, 1.0),
        jax.errors.UnexpectedTracerError,
        "Found a JAX Tracer object passed as an argument to a custom_vjp function in a position "
        "indicated by nondiff_argnums as non-differentiable.",
    ),
    (
        lambda: rule(1.0),
        TypeError,
        "Binding failed with the error:\nmissing a required argument: 'y'",
    ),
    (
        lambda: jax.jvp(rule, (1.0, 2.0), (1.0, 1.0)),
        TypeError,
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function.",
    ),
    (
        lambda: jax.vmap(lambda x: x)(None),
        ValueError,
        "must be passed at least one argument containing an array or axis_size must be specified",
    ),
    (
        lambda: jax.vmap(lambda x: x, in_axes=None)(X),
        ValueError,
        "vmap must have at least one non-None value in in_axes or axis_size must be specified",
    ),
    (
        lambda: jax.vmap(lambda x: (x, {"b": x}), out_axes=(0, None))(X),
        ValueError,
        "at vmap out_axes[1]['b'], got axis spec None but output was batched on axis 0",
    ),
    (lambda: lax.psum(1, "i"), NameError, "Found an unbound axis name: i."),
    (
        lambda: lax.scan(lambda c, x: (c, x, x), 0, X),
        TypeError,
        "scan body output must be a pair, got (ShapedArray(int32[], "
        "weak_type=True), ShapedArray(float32[]), ShapedArray(float32[])).",
    ),
    (
        lambda: lax.while_loop(lambda c: c, lambda c: c, 1),
        TypeError,
        (
            "cond_fun must return a boolean scalar, but got output type(s) [ShapedArray(int32[], "
            "weak_type=True)]."
        ),
    ),
    (
        lambda: jnp.array(["xy"]),
        TypeError,
        "with dtype <U2 is not a valid JAX array type. Only arrays of numeric types",
    ),
    (
        lambda: jnp.ones(3, "U1"),
        TypeError,
        "JAX only supports number, bool, and string dtypes, got dtype U1 in ones",
    ),
    (
        lambda: np.asarray(jax.random.key(0).item()),
        TypeError,
        (
            "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use "
            "jax.random.key_data(arr)"
        ),
    ),
    (
        lambda: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(X),
        TypeError,
        (
            "expected 2, got 1 on vectorized function with excluded=frozenset() and "
            "signature='(n),(n)->()'"
        ),
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "phrase"), ROWS, ids=[phrase[:40] for _, _, phrase in ROWS]
)
def test_phrase(call, error, phrase):
    with pytest.raises(error, match=re.escape(phrase)):
        call()


def test_rank_promotion():
    with (
        jax.numpy_rank_promotion("raise"),
        pytest.raises(ValueError, match=r"for add on shapes \(2, 3\) \(3,\) and with"),
    ):
        jnp.ones((2, 3)) + X
