"""Products of matrices, contractions and convolutions, and computations on their results."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.signal

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.cli.guard.answer import Answer, check_values

__all__ = ["ANSWERS"]


def _random(*shape: int, dtype: str = "float32") -> np.ndarray:
    x = np.random.default_rng(sum(shape)).standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * np.random.default_rng(1).standard_normal(shape)
    return x.astype(dtype) if not dtype.startswith("int") else (x * 10).astype(dtype)


def _product(m: int, k: int, n: int, dtype: str) -> str:
    x, y = _random(m, k, dtype=dtype), _random(k, n, dtype=dtype)
    wide = "complex128" if dtype.startswith("complex") else "float64"
    exact = x.astype(wide) @ y.astype(wide)
    if dtype == "int8":
        exact = (x.astype("int64") @ y.astype("int64")).astype("int8")
    rtol = {"float16": 4e-3, "float32": 1e-5, "complex64": 1e-5, "int8": 0}.get(dtype, 1e-11)
    return check_values(jnp.matmul, [x, y], exact, rtol)


def _sum_of_product(rows: int, n: int, axis: int, dtype: str) -> str:
    """sum((m @ x)**2) along an axis: exact, since all are small integers or their squares."""
    m, x = np.eye(rows, dtype=dtype), np.zeros((rows, n), dtype)
    x[0] = np.arange(n) % 2048
    exact = ((m @ x).astype("float64") ** 2).sum(axis)
    f = lambda m, x: jnp.sum((m @ x) ** 2, axis=axis)  # noqa: E731
    if text := check_values(f, [m, x], exact, 1e-6):
        return text
    g = lambda m, x: jnp.sum((m @ x.T) ** 2, axis=axis)  # noqa: E731
    return check_values(g, [m, np.ascontiguousarray(x.T)], exact, 1e-6)


def _equal_numbers(form: str) -> str:
    """A product with `ones` or `full`, summed."""
    x = np.random.default_rng(0).random((10_000, 3))
    f, exact = {
        "ones": (lambda x, c: (x @ jnp.ones((3, 3))).sum(0), x.sum()),
        "full": (lambda x, c: (x @ jnp.full((3, 3), c)).sum(0), 2 * x.sum()),
        "padded": (lambda x, c: (jnp.pad(x, ((0, 0), (0, 2))) @ jnp.ones((5, 3))).sum(0), x.sum()),
        "of a batch": (
            lambda x, c: jnp.einsum(
                "bij,bjk->bik", x.reshape(-1, 8, 3), jnp.ones((1250, 3, 3))
            ).sum((0, 1)),
            x.sum(),
        ),
    }[form]
    return check_values(f, [x, 2.0], np.full(3, exact), 1e-9)


def _mapped() -> str:
    """vmap of a product of a matrix and a vector, and a sum."""
    m, x = np.eye(3), np.zeros((16_385, 3))
    x[:, 0] = np.arange(16_385)
    f = jax.vmap(lambda m, row: jnp.sum((m @ row) ** 2), (None, 0))
    return check_values(f, [m, x], np.arange(16_385.0) ** 2, 1e-12)


def _gradient_of_products() -> str:
    """The gradient of a mean over a million rows that two products reach (xla 13054)."""
    w, x, ys = np.array([1.0, 2.0, 3.0]), np.ones(3), np.ones((100_000, 3))

    def mean(x: Any, w: Any, ys: Any) -> Any:
        def one(y: Any) -> Any:
            diff = y - x
            return jnp.dot(diff, w) + jnp.dot(jnp.dot(diff, jnp.zeros((3, 3))), diff)

        return jnp.mean(jax.vmap(one)(ys))

    return check_values(jax.grad(mean), [x, w, ys], -w, 1e-9)


def _contraction(spec: str, *shapes: tuple[int, ...]) -> str:
    args = [_random(*shape, dtype="float64") for shape in shapes]
    exact = np.einsum(spec, *args, optimize=True)
    return check_values(lambda *args: jnp.einsum(spec, *args), args, exact, 1e-10)


def _layer() -> str:
    """Products, biases and activations in one program, and its gradient by differences."""
    x, w, b = _random(33, 65, dtype="float64"), _random(65, 17, dtype="float64"), np.ones(17)

    def loss(w: Any) -> Any:
        return (jnp.tanh(x @ w / 8 + b) ** 2).sum()

    step = np.zeros_like(w)
    step[3, 5] = 1e-6
    exact = lambda w: (np.tanh(x @ w / 8 + b) ** 2).sum()  # noqa: E731
    slope = (exact(w + step) - exact(w - step)) / 2e-6
    return check_values(lambda w: (loss(w), jax.grad(loss)(w)[3, 5]), [w], (exact(w), slope), 1e-6)


def _scaled_bias() -> str:
    """alpha (A B + bias), mapped (jax 39336)."""
    a, b, bias = _random(32, 15), _random(100, 15), _random(32)
    exact = 0.1 * (np.einsum("ij,kj->ki", a.astype("float64"), b) + bias)
    return check_values(
        lambda a, b, bias: jax.vmap(lambda b: 0.1 * ((a @ b) + bias))(b), [a, b, bias], exact
    )


def _convolution(rank: int, stride: int, dilation: int, groups: int) -> str:
    sizes = (17, 15, 9)[:rank]
    x, w = (
        _random(2, 4, *sizes, dtype="float64"),
        _random(6, 4 // groups, *(3,) * rank, dtype="float64"),
    )
    out = []
    for image in x:
        channels = []
        for o in range(6):
            first = o // (6 // groups) * (4 // groups)
            total: Any = 0
            for i in range(4 // groups):
                kernel = np.zeros([2 * dilation + 1] * rank)
                kernel[(slice(None, None, dilation),) * rank] = w[o, i]
                total = total + scipy.signal.correlate(image[first + i], kernel, "valid", "direct")
            channels.append(total[(slice(None, None, stride),) * rank])
        out.append(channels)
    f = lambda x, w: lax.conv_general_dilated(  # noqa: E731
        x, w, (stride,) * rank, "VALID", rhs_dilation=(dilation,) * rank, feature_group_count=groups
    )
    return check_values(f, [x, w], np.array(out), 1e-11)


ANSWERS = (
    [
        Answer(f"product {m}x{k}x{n} {dtype}", functools.partial(_product, m, k, n, dtype))
        for m, k, n in ((3, 3, 3), (1, 300, 1), (1, 129, 257), (65, 33, 129), (300, 300, 300))
        for dtype in ("float32", "float64", "float16", "complex64", "int8")
    ]
    + [
        Answer(
            f"sum of a squared product {rows}x{n} along {axis}, {dtype}",
            functools.partial(_sum_of_product, rows, n, axis, dtype),
        )
        for rows, n in ((3, 32_769), (3, 16_385), (8, 70_001))
        for axis in (0, 1)
        for dtype in ("float32", "float64")
    ]
    + [
        Answer(
            f"sum of a product with equal numbers, {form}", functools.partial(_equal_numbers, form)
        )
        for form in ("ones", "full", "padded", "of a batch")
    ]
    + [
        Answer("mapped products of vectors, summed", _mapped),
        Answer("gradient of two products in a mean", _gradient_of_products),
        Answer("a layer and its gradient", _layer),
        Answer("a scaled product and bias, mapped", _scaled_bias),
    ]
    + [
        Answer(f"einsum {spec}", functools.partial(_contraction, spec, *shapes))
        for spec, shapes in (
            ("bij,bjk->bik", ((7, 33, 9), (7, 9, 17))),
            ("bhqd,bhkd->bhqk", ((2, 3, 17, 8), (2, 3, 19, 8))),
            ("ijk,kl,jm->ilm", ((5, 6, 7), (7, 4), (6, 3))),
            ("abcdefgh,hgfedcba->ah", ((2,) * 8, (2,) * 8)),
            ("ij,ij->", ((65, 33), (65, 33))),
            ("iij->j", ((9, 9, 5),)),
        )
    ]
    + [
        Answer(
            f"convolution over {rank} axes, stride {stride}, dilation {dilation}, {groups} groups",
            functools.partial(_convolution, rank, stride, dilation, groups),
        )
        for rank in (1, 2, 3)
        for stride, dilation, groups in ((1, 1, 1), (2, 1, 2), (1, 2, 1))
    ]
)
