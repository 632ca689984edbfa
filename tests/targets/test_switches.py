"""What XLA is told of programs.

Which get lean code (loops that are long and run along the last axis), and Eigen's convolutions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from targets.test_outline import outlined

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config
from teucer._executables import compile as compilation
from teucer._targets.cpu import constants, convolutions
from teucer._targets.cpu.constants import PLAIN_CACHED, PLAIN_STEPS
from teucer._targets.cpu.rates import of_release
from teucer._targets.cpu.switches import has_plain_loops, suits_eigen
from teucer._targets.table import target_of
from teucer._xla import client as xla


def of(*shape: int, dtype: Any = "float32") -> Any:
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def dense(x: Any, w: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w) ** 2)


PLAIN = {
    "elementwise": (lambda x, y: jnp.sin(x) * y + 1, of(64, 64), of(64)),
    "reductions": (lambda x: (x - x.mean(1, keepdims=True)) / x.std(0), of(64, 64)),
    "matrix products, their gradients": (jax.grad(dense, (0, 1)), of(64, 64), of(64, 64)),
    "heads": (
        lambda q, k: lax.dot_general(q, k, (((3,), (3,)), ((0, 2), (0, 2)))),
        of(8, 64, 4, 32),
        of(8, 64, 4, 32),
    ),
    "outer axes transposed": (lambda x: x.transpose(1, 0, 2) + 1, of(64, 64, 64)),
    "few elements": (lambda x: jnp.argmax(x, 1) + x.reshape(-1, 3).T.sum(), of(30, 30)),
    "transposed, a small part": (lambda x: sum(jnp.sin(x * i) for i in range(20)).T, of(64, 64)),
    "loops of long steps": (
        lambda x: lax.fori_loop(0, 9, lambda i, c: jnp.sin(c) + x, x),
        of(64, 64),
    ),
    "narrow, a small part": (
        lambda x, y: sum(jnp.sin(y * i) for i in range(50)).sum() + x.sum(),
        of(400, 3),
        of(64, 64),
    ),
    "images, their kernels' gradients": (
        jax.grad(
            lambda w, x: jnp.tanh(
                lax.conv_general_dilated(
                    x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
            ).sum()
        ),
        of(3, 3, 3, 64),
        of(8, 16, 16, 3),
    ),
    "windows, a small part": (
        lambda x: lax.reduce_window(
            sum(jnp.sin(x * i) for i in range(80)), 0.0, lax.add, (2, 2), (2, 2), "VALID"
        ),
        of(64, 64),
    ),
    "an axis just long enough": (lambda x: x * 2, of(1000, PLAIN_STEPS)),
    "a vector": (lambda x: x + 1, of(5)),
    "numbers in a loop": (lambda x: lax.fori_loop(0, 9, lambda i, c: jnp.sin(c) + i, x), of()),
}
OTHER = {
    "transposed": (lambda x: x.T, of(64, 64)),
    "transposed, beyond the cache": (
        lambda x: sum(jnp.sin(x * i) for i in range(40)).T,
        of(PLAIN_CACHED // 64 + 1, 64),
    ),
    "contracted in front": (
        lambda x, y: lax.dot_general(x, y, (((0, 1), (0, 1)), ((), ()))),
        of(8, 64, 512),
        of(8, 64, 64),
    ),
    "batched behind": (
        lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((1,), (1,)))),
        of(64, 64),
        of(64, 64),
    ),
    "an axis just too short": (lambda x: x * 2, of(1000, PLAIN_STEPS - 1)),
    "a short last axis": (lambda x: x * 2, of(1000, 3)),
    "a short last axis on the way": (lambda x: x.reshape(-1, 4).sum(), of(64, 64)),
    "places": (lambda x: jnp.argmax(x, 1), of(64, 64)),
    "windows": (lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 3), (1, 1), "SAME"), of(64, 64)),
    "images with the features in front": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        of(8, 16, 16, 16),
        of(16, 16, 3, 3),
    ),
    "the greatest of windows": (
        jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME").sum()),
        of(64, 64),
    ),
    "sorting": (lambda x: jnp.sort(x), of(64, 64)),
    "short in a loop": (lambda x: lax.fori_loop(0, 9, lambda i, c: c + x, x), of(1000, 3)),
    "small arrays in a loop": (
        lambda x: lax.scan(lambda c, _: (jnp.sin(c) @ x, None), x, length=9)[0],
        of(8, 8),
    ),
    "other code": (lambda x: jnp.linalg.cholesky(x), of(64, 64)),
}


@pytest.mark.parametrize("name", [*PLAIN, *OTHER])
def test_plain(name):
    f, *args = (PLAIN | OTHER)[name]
    assert has_plain_loops(jax.make_jaxpr(f)(*args).jaxpr) == (name in PLAIN)


def test_loops_that_outlining_makes_stay_plain():
    """Of small arrays too: unrolled, they would round otherwise."""

    def f(x: Any) -> Any:
        for _ in range(8):
            x = jnp.sin(x * 2) @ x + jnp.tanh(x)
        return x

    jaxpr = outlined(f, np.eye(4, dtype=np.float32))
    assert [eqn.primitive.name for eqn in jaxpr.eqns].count("scan") == 1
    assert has_plain_loops(jaxpr)


def test_symbolic_sizes_are_not_known():
    (n,) = jax.export.symbolic_shape("n")
    assert not has_plain_loops(
        jax.make_jaxpr(lambda x: x + 1)(jax.ShapeDtypeStruct((n, 64), np.float32)).jaxpr
    )


def convolve(x: Any, w: Any, strides: Any = (1, 1), padding: Any = "SAME", **window: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **window
    )


def gradients(f: Any) -> Any:
    return jax.grad(lambda *args: jnp.tanh(f(*args)).sum(), (0, 1))


EIGEN = {
    "an image": (convolve, of(1, 32, 32, 32), of(3, 3, 32, 32)),
    "three features": (convolve, of(16, 64, 64, 3), of(7, 7, 3, 32)),
    "gradients of a batch": (gradients(convolve), of(32, 32, 32, 32), of(3, 3, 32, 32)),
    "features in front": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        of(8, 32, 32, 32),
        of(32, 32, 3, 3),
    ),
    "in a loop": (
        lambda x, w: lax.fori_loop(0, 3, lambda i, x: convolve(x, w), x),
        of(8, 32, 32, 32),
        of(3, 3, 32, 32),
    ),
    "short floats": (
        convolve,
        of(8, 32, 32, 32, dtype="float16"),
        of(3, 3, 32, 32, dtype="float16"),
    ),
    "complex": (
        convolve,
        of(8, 32, 32, 32, dtype="complex64"),
        of(3, 3, 32, 32, dtype="complex64"),
    ),
    "beside small ones": (
        lambda x, w, y: (convolve(x, w), convolve(y, w[:, :, :, :8])),
        of(8, 32, 32, 32),
        of(3, 3, 32, 32),
        of(1, 4, 4, 32),
    ),
}
YNNPACK = {
    "none": (jnp.sin, of(64, 64)),
    "small": (convolve, of(2, 16, 16, 16), of(3, 3, 16, 16)),
    "gradients of an image": (gradients(convolve), of(1, 32, 32, 32), of(3, 3, 32, 32)),
    "of four images": (gradients(convolve), of(4, 32, 32, 32), of(3, 3, 32, 32)),
    "patches": (lambda x, w: convolve(x, w, (8, 8)), of(8, 64, 64, 3), of(8, 8, 3, 128)),
    "double": (convolve, of(8, 32, 32, 32, dtype="float64"), of(3, 3, 32, 32, dtype="float64")),
    "integers": (
        lambda x, w: convolve(x, w, preferred_element_type=np.int32),
        of(8, 32, 32, 32, dtype="int8"),
        of(3, 3, 32, 32, dtype="int8"),
    ),
    "double beside others": (
        lambda x, w, y: (convolve(x, w), convolve(y, y[:3, :3, :, :])),
        of(8, 32, 32, 32),
        of(3, 3, 32, 32),
        of(32, 32, 32, 32, dtype="float64"),
    ),
    "groups": (
        lambda x, w: convolve(x, w, feature_group_count=4),
        of(8, 32, 32, 64),
        of(3, 3, 16, 64),
    ),
    "one axis": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        ),
        of(8, 512, 64),
        of(5, 64, 64),
    ),
}


# From jaxlib 0.12 on YNNPACK uses all threads: Eigen wins where windows have one pixel.
POINTS = {
    "pixels": (convolve, of(8, 32, 32, 64), of(1, 1, 64, 64)),
    "gradients of pixels": (gradients(convolve), of(8, 32, 32, 64), of(1, 1, 64, 64)),
    "pixels, and few others": (
        lambda x, w, v: convolve(convolve(x, w), v),
        of(8, 32, 32, 128),
        of(1, 1, 128, 256),
        of(3, 3, 256, 2),
    ),
}
# Those that it loses, with either jaxlib, and what they cost in the whole.
LOST = {
    "a dense network": (
        gradients(lambda x, w: jnp.concatenate([x, convolve(x, w)], -1)),
        of(8, 16, 16, 108),
        of(3, 3, 108, 12),
    ),
    "colours": (convolve, of(8, 64, 64, 3), of(1, 1, 3, 64)),
    "gradients to colours": (
        lambda y, w: lax.conv_transpose(y, w, (1, 1), "SAME"),
        of(8, 64, 64, 32),
        of(3, 3, 32, 3),
    ),
}
WINNERS = {(0, 10): EIGEN | POINTS, (0, 12): POINTS}


@pytest.mark.parametrize("release", WINNERS, ids=str)
@pytest.mark.parametrize("name", [*(EIGEN | POINTS), *YNNPACK, *LOST])
def test_suits_eigen(name, release, monkeypatch):
    monkeypatch.setattr(convolutions, "eigen_rates", lambda: constants.EIGEN[release])
    f, *args = (EIGEN | POINTS | YNNPACK | LOST)[name]
    with jax.enable_x64(True):
        # Counts are kept on the jaxpr, and that with the function.
        jaxpr = jax.make_jaxpr(lambda *args: f(*args))(*args).jaxpr
        assert suits_eigen(jaxpr) == (name in WINNERS[release])


def test_rates_of_eigen_are_those_of_this_jaxlib():
    assert convolutions.eigen_rates() in constants.EIGEN.values()
    assert of_release(constants.EIGEN, "0.11.2") is constants.EIGEN[0, 10]
    assert of_release(constants.EIGEN, "0.13") is constants.EIGEN[0, 12]


X, W = of(8, 32, 32, 32), of(3, 3, 32, 32)


def ynnpack_takes(compiled: Any) -> bool:
    return "__ynn" in compiled.as_text()


def test_eigen_gets_what_suits_it():
    f, *args = POINTS["pixels"]
    assert not ynnpack_takes(jax.jit(f).lower(*args).compile())
    f, *args = YNNPACK["patches"]
    assert ynnpack_takes(jax.jit(f).lower(*args).compile())
    assert ynnpack_takes(jax.jit(lambda x: x @ x).lower(of(256, 256)).compile())


def test_the_user_decides_whose_convolutions(monkeypatch):
    f = jax.jit(convolve)
    chosen = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"}
    assert ynnpack_takes(f.lower(X, W).compile(chosen))
    monkeypatch.setenv(
        "XLA_FLAGS",
        "--xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION",
    )
    assert ynnpack_takes(
        jax.jit(lambda x, w: convolve(x, w) + 1).lower(X, W).compile()
    )  # XLA has read its flags before


def test_both_libraries_compute_the_same():
    r = np.random.default_rng(0)
    x, w = (
        r.standard_normal(X.shape).astype(np.float32),
        r.standard_normal(W.shape).astype(np.float32),
    )
    f = jax.jit(gradients(convolve))
    chosen = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"}
    for eigen, ynnpack in zip(
        f.lower(x, w).compile(xla.EIGEN_CONVOLUTIONS)(x, w),
        f.lower(x, w).compile(chosen)(x, w),
        strict=True,
    ):
        np.testing.assert_allclose(
            eigen, ynnpack, rtol=2e-4, atol=2e-4 * np.abs(ynnpack).max()
        )  # sums of up to 8192 floats


@pytest.fixture
def compiled(monkeypatch):
    """How modules are compiled while the test runs: name and whether the code is lean."""
    seen = []
    real = xla.compile_options

    def options(*args, switches=(), **kwargs):
        seen.append(tuple(switches))
        return real(*args, switches=switches, **kwargs)

    monkeypatch.setattr(compilation.xla, "compile_options", options)
    return seen


def test_plain_loops_alone_make_lean_code(compiled):
    jax.jit(lambda x: jnp.cos(x) * 3.25).lower(of(64, 64)).compile()
    jax.jit(lambda x: (x * 3.25).T).lower(of(64, 64)).compile()
    assert compiled == [xla.LEAN_CODE + xla.LOOPS_WHOLE, xla.LOOPS_WHOLE]


def test_switches_of_the_user_stay_alone(compiled, monkeypatch):
    monkeypatch.setenv(
        "XLA_FLAGS", "--xla_backend_extra_options=xla_cpu_disable_loop_unrolling=true"
    )
    jax.jit(lambda x: jnp.cos(x) * 3.75).lower(of(64, 64)).compile()
    assert compiled == [()]


def test_what_runs_once_beside_pieces_that_run_often_is_lean(compiled):
    def layer(x, w):
        x = x + jnp.tanh(jnp.cos(x * 2) @ w) * jnp.sin(x) - jnp.exp(-x * x)
        return x.T

    def network(x, ws):
        x = x.T
        for w in ws:
            x = layer(x, w)
        return (x.T / 3).T

    x, ws = jnp.ones((256, 256)), [jnp.ones((256, 256))] * 24
    steps = jax.jit(network, outline=True).lower(x, ws).compile().program.steps
    assert len(steps.steps) >= 25
    lean = [set(xla.LEAN_CODE) <= set(switches) for switches in compiled]
    assert len(lean) >= 2 and lean.count(False) == 1


def test_switches_reach_the_options_of_the_compiler():
    text = xla.compile_options(
        (0,), switches=("one", "x" * 200), overrides={"xla_cpu_enable_fast_math": True}
    ).SerializeAsString()
    plain = xla.compile_options(
        (0,), overrides={"xla_cpu_enable_fast_math": True}
    ).SerializeAsString()
    assert b"one" in text and b"x" * 200 in text and b"one" not in plain
    # Two entries, each with two fields, of two to three bytes around their content, in a map whose
    # key has two bytes.
    assert len(text) - len(plain) in range(200 + 3 + 2 * 4 + 16, 200 + 3 + 2 * 4 + 32)


def test_lean_code_computes_the_same():
    r = np.random.default_rng(0)
    x, w = r.standard_normal((64, 64)), r.standard_normal((64, 64))
    with jax.enable_x64(True), config.disable_most_optimizations(False):
        f = jax.jit(jax.grad(dense, (0, 1)))
        lean = f.lower(x, w).compile()
        assert has_plain_loops(jax.make_jaxpr(f)(x, w).jaxpr)
        for got, expected in zip(lean(x, w), jax.grad(dense, (0, 1))(x, w), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_each_platform_has_its_target() -> None:
    names = {
        p: type(target_of(p)).__name__ for p in ("cpu", "cuda", "rocm", "gpu", "tpu", "of others")
    }
    assert names == {
        "cpu": "CPU",
        "cuda": "CUDA",
        "rocm": "ROCm",
        "gpu": "GPU",
        "tpu": "TPU",
        "of others": "Target",
    }
