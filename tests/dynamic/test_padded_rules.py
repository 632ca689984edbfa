"""Operations along a dynamic axis, one rule at a time: as on arrays of each size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._dynamic import dynamic

SIZES = (1, 2, 5, 8)
N = "n"  # the dynamic axis in a shape

# name: (function, shapes of its operands)
RULES: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "reductions": (
        lambda x: (
            x.sum(0),
            x.prod(0),
            x.max(0),
            x.min(0),
            x.mean(),
            jnp.any(x > 1, 0),
            jnp.all(x < 1, 0),
            x.std(0),
            lax.reduce(x, 0.5, lambda a, b: a * b + a + b, (1,)),
        ),
        [(N, 3)],
    ),
    "argmax": (
        lambda x: (
            x.argmax(0),
            x.argmin(0),
            x.argmax(),
            jnp.argmax(jnp.where(x > 0, jnp.nan, x), 0),
        ),
        [(N, 3)],
    ),
    "cumulative": (
        lambda x: (
            jnp.cumsum(x, 0),
            lax.cumsum(x, 0, reverse=True),
            lax.cumprod(x, 0, reverse=True),
            lax.cummax(x, 0, reverse=True),
            lax.cumlogsumexp(x, 0, reverse=True),
        ),
        [(N, 3)],
    ),
    "sort": (
        lambda x: (
            jnp.sort(x, 0),
            jnp.argsort(x, 0),
            jnp.sort(jnp.where(x > 1, jnp.nan, x), 0),
            jnp.sort(x > 0, 0),
            lax.sort((x, -x), 0, num_keys=1),
            jnp.median(x, 0),
        ),
        [(N, 3)],
    ),
    "top_k": (lambda x: lax.top_k(x.T, 1), [(N, 3)]),
    "matrix products": (
        lambda x, y: (x.T @ x, x @ x.T, y @ x, jnp.einsum("ij,ij->i", x, x)),
        [(N, 3), (2, N)],
    ),
    "reverse": (lambda x: (x[::-1], jnp.flip(x), jnp.roll(x, 1, 0)), [(N, 3)]),
    "slices": (
        lambda x: (x[-1], x[1:], x[:-1], lax.slice_in_dim(x, 0, None, 2), x[x.shape[0] - 1 :]),
        [(N, 3)],
    ),
    "dynamic slices": (
        lambda x: (
            lax.dynamic_slice(x, (7, 2), (1, 3)),
            lax.dynamic_index_in_dim(x, 7),
            lax.dynamic_index_in_dim(x, -1),
            lax.dynamic_update_slice(x, x[:1] * 9, (6, 0)),
            lax.dynamic_update_index_in_dim(x, x[0], 7, 0),
        ),
        [(N, 3)],
    ),
    "takes": (
        lambda x: (
            x[np.array([0, 7, -1])],
            jnp.take(x, np.array([0, 7, -1]), 0),
            jnp.take(x, np.array([7, 0]), 0, mode="clip"),
            x.at[np.array([7, 0])].get(mode="clip"),
            x.at[7].get(mode="fill", fill_value=3.0),
        ),
        [(N, 3)],
    ),
    "updates": (
        lambda x: (
            x.at[7].set(1.0),
            x.at[np.array([0, 7])].add(x[:1]),
            x.at[np.array([7, 1])].set(5.0, mode="clip"),
            x.at[:1].mul(2.0),
            jnp.zeros(9).at[jnp.abs(x[:, 0] * 4).astype(int)].add(x[:, 1]),
        ),
        [(N, 3)],
    ),
    "concatenate": (
        lambda x, y: (
            jnp.concatenate([x, y, x]),
            jnp.concatenate([y, x, y]),
            jnp.stack([x, x]),
            jnp.vstack([x, x]),
            jnp.tile(x, (2, 2)),
        ),
        [(N, 3), (2, 3)],
    ),
    "split": (lambda x: lax.split(x, (1, x.shape[0] - 1)), [(N, 3)]),
    "pad": (
        lambda x: (
            jnp.pad(x, ((1, 2), (0, 0))),
            lax.pad(x, 0.0, [(2, -1, 1), (0, 0, 0)]),
            lax.pad(x, 0.0, [(-1, 0, 0), (0, 0, 0)]),
        ),
        [(N, 3)],
    ),
    "reshape": (
        lambda x, y: (
            x.ravel(),
            y.ravel(),
            x.T.reshape(-1),
            x[None, :, :, None],
            x.reshape(-1, 1, 3),
            y.T.reshape(1, -1),
            (x[:, None] * x[None]).reshape(-1, 3),
            (x[:, None, 0] * x[None, :, 0]).reshape(-1),
        ),
        [(N, 3), (2, N)],
    ),
    "iota": (
        lambda x: (
            jnp.arange(x.shape[0]),
            jnp.eye(x.shape[0]),
            jnp.full(x.shape[:1], 2),
            jnp.tri(x.shape[0]),
        ),
        [(N, 3)],
    ),
    "sizes as values": (
        lambda x: (
            x.shape[0] * 1.5,
            x.sum() / x.size,
            jnp.asarray(x.shape[0] // 2),
            x * x.shape[0],
        ),
        [(N, 3)],
    ),
    "windows": (
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (2, 1), (1, 1), "SAME"),
            lax.reduce_window(x, 0.0, lax.add, (3, 1), (2, 1), ((1, 1), (0, 0))),
        ),
        [(N, 3)],
    ),
    "convolution": (
        lambda x, k: (
            lax.conv_general_dilated(x, k, (1,), [(1, 1)]),
            lax.conv_general_dilated(x, k, (2,), [(2, 2)]),
            lax.conv_general_dilated(x, k, (1,), [(2, 2)], lhs_dilation=(2,), rhs_dilation=(2,)),
        ),
        [(2, 3, N), (4, 3, 3)],
    ),
    "convolution over a batch": (
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"),
        [(N, 3, 6), (4, 3, 3)],
    ),
    "its derivative": (
        jax.grad(lambda x, k: (lax.conv_general_dilated(x, k, (1,), "SAME") ** 2).sum(), (0, 1)),
        [(N, 3, 6), (4, 3, 3)],
    ),
    "solves": (
        lambda x, b: (
            jnp.linalg.cholesky(x @ x.T + jnp.eye(x.shape[0])),
            lax.linalg.triangular_solve(
                x @ x.T + jnp.eye(x.shape[0]), b, left_side=True, lower=True
            ),
            jax.scipy.linalg.cho_solve(
                (jnp.linalg.cholesky(x @ x.T + jnp.eye(x.shape[0])), True), b
            ),
        ),
        [(N, 3), (N, 2)],
    ),
    "batched matrices": (
        lambda x: (
            jnp.linalg.inv(x + 3 * jnp.eye(3)),
            jnp.linalg.svd(x, compute_uv=False),
            jnp.linalg.eigvalsh(x),
            jnp.linalg.qr(x),
            jnp.fft.fft(x),
        ),
        [(N, 3, 3)],
    ),
    "segments": (lambda x: jax.ops.segment_sum(x, jnp.abs(x[:, 0] * 2).astype(int), 4), [(N, 3)]),
    "attention": (lambda q, k: jax.nn.softmax(q @ k.T / np.float32(3)) @ k, [(4, 3), (N, 3)]),
    "pooling": (
        jax.grad(
            lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID") ** 2).sum()
        ),
        [(N, 6)],
    ),
}


def operands(shapes: Any, n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    return [
        rng.normal(size=[n if k == N else k for k in shape]).astype(np.float32) for shape in shapes
    ]


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    f, shapes = RULES[name]
    dims = {
        i: dict.fromkeys((a for a, k in enumerate(shape) if k == N), 8)
        for i, shape in enumerate(shapes)
        if N in shape
    }
    padded, plain = jax.jit(lambda *xs: f(*xs), dynamic_dims=dims), jax.jit(f)
    for n in SIZES:
        xs = operands(shapes, n)
        found, expected = jax.tree.leaves(padded(*xs)), jax.tree.leaves(plain(*xs))
        for i, (y, z) in enumerate(zip(found, expected, strict=True)):
            assert y.aval is z.aval, f"size {n}, result {i}: {y.aval}, expected {z.aval}"
            np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5, err_msg=f"size {n}, result {i}")


def test_off_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where copies through the host would be slow, programs pad and cut."""
    f, shapes = RULES["matrix products"]
    monkeypatch.setattr(dynamic, "_on_host", lambda x: False)
    g = jax.jit(f, dynamic_dims={0: 8, 1: {1: 8}})
    for n in SIZES:
        xs = [jnp.asarray(x) for x in operands(shapes, n)]
        for y, z in zip(g(*xs), f(*xs), strict=True):
            assert y.aval is z.aval
            np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)
