"""linear_call: what it computes, its transpose under every transformation, what it refuses."""

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    linear_call,
    zero_from_primal,
)

X = jnp.arange(1.0, 4.0)


def scaled(r: Any, x: Any) -> Any:
    """x / r, with a transpose that can be told from the true one: 7 ct / r."""
    return linear_call(lambda r, x: {"y": x / r}, lambda r, ct: 7 * ct["y"] / r, r, x)["y"]


def test_transposes() -> None:
    assert scaled(2.0, X).tolist() == [0.5, 1, 1.5]
    assert jax.linear_transpose(lambda x: scaled(2.0, x), X)(X)[0].tolist() == [3.5, 7, 10.5]
    assert jax.jit(jax.grad(lambda x: scaled(2.0, x).sum()))(X).tolist() == [3.5] * 3
    y, tangent = jax.jvp(lambda x: scaled(2.0, x), (X,), (X,))
    assert y.tolist() == tangent.tolist() == [0.5, 1, 1.5]
    twice = jax.linear_transpose(
        lambda ct: jax.linear_transpose(lambda x: scaled(2.0, x), X)(ct)[0], X
    )
    assert twice(X)[0].tolist() == [0.5, 1, 1.5]


@pytest.mark.parametrize(
    ("in_axes", "r"),
    [((None, 0), 2.0), ((0, 0), jnp.array([2.0, 4.0])), ((0, None), jnp.array([2.0, 4.0]))],
)
def test_vmap_is_a_stack(in_axes: Any, r: Any) -> None:
    xs = jnp.stack([X, 3 * X]) if in_axes[1] == 0 else X
    for f in (scaled, lambda r, x: jax.grad(lambda x: (scaled(r, x) * X).sum())(x)):
        expected = [
            f(r if in_axes[0] is None else r[i], xs if in_axes[1] is None else xs[i])
            for i in range(2)
        ]
        assert jnp.allclose(jax.vmap(f, in_axes=in_axes)(r, xs), jnp.stack(expected))


def test_functions_may_close_over_arrays() -> None:
    def f(c: Any, d: Any, x: Any) -> Any:
        return linear_call(lambda _, x: c * x, lambda _, ct: d * ct, None, x)

    assert jax.jit(f)(2.0, 3.0, X).tolist() == [2, 4, 6]
    assert (
        jax.jit(lambda c, d, x: jax.grad(lambda x: f(c, d, x).sum())(x))(2.0, 3.0, X).tolist()
        == [3] * 3
    )
    assert jax.vmap(lambda d: jax.grad(lambda x: f(2.0, d, x).sum())(X))(
        jnp.array([3.0, 4.0])
    ).tolist() == [[3] * 3, [4] * 3]


def test_refusals() -> None:
    with pytest.raises(TypeError, match="derivative in its linear arguments only"):
        jax.grad(lambda r: scaled(r, X).sum())(2.0)
    with pytest.raises(TypeError, match="transpose output pytree structure must match"):
        linear_call(lambda r, x: x, lambda r, ct: (ct,), 1.0, X)
    with pytest.raises(
        TypeError,
        match=r"(?s)types of the linear arguments.*results: f32\[\].*linear_args: f32\[3\]",
    ):
        linear_call(lambda r, x: x, lambda r, ct: ct.sum(), 1.0, X)


def test_zeros_and_values_of_rules() -> None:
    assert zero_from_primal(X).tolist() == [0] * 3
    assert zero_from_primal(np.arange(2)).dtype == jax.dtypes.float0
    symbolic = zero_from_primal(X, symbolic_zeros=True)
    assert isinstance(symbolic, SymbolicZero) and (symbolic.shape, symbolic.dtype) == (
        (3,),
        np.float32,
    )
    assert custom_vjp_primal_tree_values({"a": CustomVJPPrimal(3, True)}) == {"a": 3}
    with pytest.raises(TypeError, match="unexpected leaf type"):
        custom_vjp_primal_tree_values([3])


def test_transposes_of_integers() -> None:
    assert jax.linear_transpose(lambda x: 2 * x, np.arange(3))(jnp.arange(3))[0].tolist() == [
        0,
        2,
        4,
    ]
    with pytest.raises(TypeError, match="integer -> integer"):
        jax.linear_transpose(lambda x: 2.0 * x, np.arange(3))


def test_static_arguments_of_checkpoint() -> None:
    f = jax.checkpoint(lambda x, n: jnp.sin(x) * (n if n > 2 else 0), static_argnames="n")
    assert jnp.allclose(jax.grad(f)(2.0, n=3), 3 * np.cos(2.0))
    with pytest.raises(
        ValueError, match=r"static_argnums.*but got \(5,\), while `len\(args\)` = 2"
    ):
        jax.checkpoint(lambda x, n: x, static_argnums=5)(1.0, 2)


def test_batches_of_map() -> None:
    with pytest.raises(ValueError, match="batch_size must be positive"):
        jax.lax.map(lambda x: x, X, batch_size=-1)
