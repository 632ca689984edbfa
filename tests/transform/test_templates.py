"""Templates: library functions traced again for the same types record what their Python would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._transform.library import library
from teucer._transform.templates import Templates

X = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)


def norm(x: Any) -> Any:
    return (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5)


def several(x: Any) -> Any:
    low, high = jnp.split(x, [1], axis=1)
    with jax.named_scope("part"):
        y = jnp.concatenate([high, low], axis=1) * jax.nn.softmax(x)
    return jnp.where(y > 0, jax.nn.gelu(y), -1e9) + jnp.einsum("ij,kj->ik", x, y).sum()


def whatever_way(f: Callable[..., Any]) -> Callable[[Any], Any]:
    """f three times, so that the last calls find templates."""
    return lambda x: f(f(f(x)))


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: f,
    "grad": lambda f: jax.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "vmap": lambda f: jax.vmap(lambda row: f(jnp.stack([row, row]))),
    "hessian": lambda f: jax.hessian(lambda x: f(x).sum()),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda row: f(jnp.stack([row, 2 * row])).sum())),
    "checkpoint": lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum()),
}


@pytest.mark.parametrize("of", TRANSFORMATIONS)
@pytest.mark.parametrize("f", [norm, several])
def test_templates_record_what_python_does(f: Any, of: str, monkeypatch: Any) -> None:
    program = TRANSFORMATIONS[of](whatever_way(f))
    found = [jax.jit(lambda x: program(x)).lower(X).as_text() for _ in range(3)]
    monkeypatch.setattr(
        Templates, "call", lambda self, trace, args, kwargs: self._fun(*args, **kwargs)
    )
    assert {jax.jit(lambda x: program(x)).lower(X).as_text() for _ in range(2)} == set(found)


def counted(static: tuple[str, ...] = ()) -> tuple[Callable[..., Any], list[Any]]:
    calls: list[Any] = []

    @library(static=static)
    def f(x: Any, y: Any = 1, *, axis: Any = None) -> Any:
        calls.append((x, y, axis))
        return jnp.sin(x) * y if axis is None else jnp.sum(x, axis) * y

    return f, calls


def traced(f: Callable[..., Any], *args: Any) -> str:
    return str(jax.make_jaxpr(f)(*args))


def test_python_runs_once_a_signature() -> None:
    f, calls = counted(("axis",))
    assert traced(lambda x: f(f(f(x))), X).count("sin") == 3
    assert len(calls) == 1
    traced(lambda x: f(x, axis=0) + f(x, axis=0) + f(x, axis=1).sum(), X)
    assert len(calls) == 3
    traced(lambda x: jax.grad(lambda x: f(f(x)).sum())(x), X)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (2.0, 3.0),
        (np.float32(1), 1.0),
        ([1, 2], (1, 2)),
        (float("nan"), 1.0),
    ],
)
def test_values_that_differ_are_other_signatures(one: Any, other: Any) -> None:
    @library
    def f(x: Any, y: Any) -> Any:
        return x * (sum(y) if isinstance(y, tuple) else 7 * sum(y) if isinstance(y, list) else y)

    for y in (one, other, one, other):
        plain = f.__wrapped__
        found, expected = (
            jax.jit(lambda x, y=y: f(f(x, y), y))(X),
            jax.jit(lambda x, y=y: plain(plain(x, y), y))(X),
        )
        assert (found.dtype, np.asarray(found).tobytes()) == (
            expected.dtype,
            np.asarray(expected).tobytes(),
        )


def test_the_same_array_twice_is_another_signature() -> None:
    @library
    def f(x: Any, y: Any) -> Any:
        return x * 2 if x is y else x - y

    assert [
        float(jax.jit(lambda x, y: f(x, x) + f(x, y) + f(y, y))(3.0, 1.0)) for _ in range(2)
    ] == [10.0, 10.0]


def test_options_are_part_of_the_signature() -> None:
    x = jnp.ones((2, 2))
    with jax.default_matmul_precision("highest"):
        high = traced(lambda x: jnp.matmul(jnp.matmul(x, x), x), x)
    low = traced(lambda x: jnp.matmul(jnp.matmul(x, x), x), x)
    assert high.count("HIGHEST") == 4 and "HIGHEST" not in low
    with jax.enable_x64(True):
        assert "f64" in traced(lambda x: jnp.arange(3.0) + jnp.sum(x).astype(float), x)
    assert "f64" not in traced(lambda x: jnp.arange(3.0) + jnp.sum(x).astype(float), x)


def test_what_a_function_closes_over_is_no_part_of_a_template() -> None:
    box = [jnp.ones(3)]

    @library
    def f(x: Any) -> Any:
        return x + box[0]

    first = jax.jit(lambda x: f(x))(jnp.ones(3))
    box[0] = jnp.full(3, 5.0)
    assert (float(first[0]), float(jax.jit(lambda x: f(x) * 1)(jnp.ones(3))[0])) == (2.0, 6.0)


def test_errors_are_those_of_the_call() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="incompatible shapes"):
            jax.jit(lambda x: jnp.add(x, x[:, :2]))(X)
        with pytest.raises(TypeError, match="concrete"):
            jax.jit(lambda x: jnp.zeros(jnp.sum(x).astype(int)))(X)


def test_lines_are_those_of_each_call() -> None:
    def f(x: Any) -> Any:
        y = jnp.var(x)
        z = jnp.var(x)  # another line
        return y + z

    text = jax.jit(f).lower(X).as_text(debug_info=True)
    start = f.__code__.co_firstlineno
    assert all(f'test_templates.py":{start + k}' in text for k in (1, 2))


def test_a_call_that_warns_warns_each_time() -> None:
    for _ in range(3):
        with pytest.warns(UserWarning, match="float64"):
            jax.jit(
                lambda x: (
                    jnp.zeros_like(jnp.sin(x), dtype="float64") + jnp.full_like(x, 2, "float64")
                )
            )(X)
        with pytest.warns(FutureWarning, match="scatter"):
            jax.jit(lambda x: jnp.zeros(3, int).at[0].set(jnp.sum(x)))(X)


def test_a_call_that_fails_runs_each_time() -> None:
    calls = []

    @library
    def f(x: Any) -> Any:
        calls.append(x)
        if len(calls) < 3:  # it fails as the template is made, and in the call itself
            raise ValueError("not yet")
        return x + 1

    with pytest.raises(ValueError, match="not yet"):
        jax.jit(lambda x: f(x))(X)
    assert jax.jit(lambda x: f(x))(X).shape == X.shape
    assert len(calls) == 3
