"""Executables on disk.

The stripped form that is loaded computes what the whole does, and who reads one sees the whole.
"""

import random

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config
from teucer._executables import compile, disk_cache, prefetch, stored
from teucer._targets.cpu import constants, stripped


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, in which small programs have a stripped form too."""
    monkeypatch.setattr(constants, "STRIPPED_LEAST", 0)
    monkeypatch.setattr(prefetch, "LEAST", 1)
    new_process()
    with config.cache_dir(str(tmp_path / "cache")), config.enable_compilation_cache(True):
        yield tmp_path / "cache"
    new_process()


def new_process():
    jax.clear_caches()
    compile.clear_memory()
    prefetch._traced.clear()


X = np.linspace(-1, 1, 600, dtype=np.float32).reshape(20, 30)
IMAGES = np.linspace(-1, 1, 2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3)
KERNEL = np.linspace(-1, 1, 3 * 3 * 3 * 4, dtype=np.float32).reshape(3, 3, 3, 4)


def in_place(x):
    """A loop that writes its rows one by one."""
    return lax.fori_loop(0, len(x), lambda i, x: x.at[i].set(jnp.sin(x[i - 1]) * x[i]), x)


def network(kernel, scale):
    x = lax.conv_general_dilated(
        IMAGES, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.tanh(x * scale - x.mean((1, 2), keepdims=True)).reshape(2, -1).sum(1).std()


PROGRAMS = {
    "two results of a loop": (lambda x: (jnp.sin(x) * 2, jnp.cos(x) + 1, (x * x).sum(1)), X),
    "matrices": (lambda x: jnp.tanh(x @ x.T + 1) @ x, X),
    "convolution and gradient": (
        jax.value_and_grad(network, argnums=(0, 1)),
        KERNEL,
        np.float32(2),
    ),
    "in place": (in_place, X),
    "scatter": (lambda x: x.at[jnp.array([1, 1, 3])].add(x[:3] * 2) * 3, X),
    "scan": (lambda x: lax.scan(lambda c, row: (c * 0.5 + row, jnp.exp(c) - row), x[0], x), X),
    "branches": (
        lambda x: lax.cond(x.sum() > 0, lambda x: jnp.sin(x) * 2, lambda x: jnp.cos(x) - 1, x),
        X,
    ),
    "sort": (lambda x: jnp.sort(x * -2, axis=1) + jnp.argmax(x, axis=0), X),
    "LAPACK": (lambda x: jnp.linalg.cholesky(x @ x.T + 30 * jnp.eye(20)) * 2, X),
    "random": (lambda x: jax.random.normal(jax.random.key(0), x.shape) * x, X),
    "complex": (lambda x: jnp.fft.fft(x).real * 2 + jnp.abs(x * 1j), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_loaded_stripped_is_the_same(folder, name):
    f, *args = PROGRAMS[name]

    def compiled():
        new_process()
        return jax.jit(f).lower(*args).compile()

    first, second = compiled(), compiled()
    assert jax.debug.compiles()[-1].source == "disk"
    for a, b in zip(jax.tree.leaves(first(*args)), jax.tree.leaves(second(*args)), strict=True):
        np.testing.assert_array_equal(a, b)
    # Who reads the program sees all of it.
    (text,) = [m.to_string() for m in second.program.executable.hlo_modules()]
    assert len(text) < len(first.as_text()) == len(second.as_text())
    assert second.as_text() == first.as_text() and second.cost_analysis() == first.cost_analysis()
    assert second.runtime_executable().hlo_modules()[0].to_string() == first.as_text()
    sizes = [c.memory_analysis() for c in (first, second)]
    assert str(sizes[0]) == str(sizes[1])


def test_sizes_that_change(folder):
    f = jax.jit(lambda x: jnp.sin(x[x > 0]) * 2 + 1, dynamic_results=True)
    for _ in range(2):
        new_process()
        np.testing.assert_allclose(f(X[0]), np.sin(X[0][X[0] > 0]) * 2 + 1, rtol=1e-6)


def test_several_devices(folder):
    mesh = jax.make_mesh((2,), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    f = jax.jit(lambda x: (jnp.sin(x) * 2).sum(0) + jnp.cos(x))
    results = []
    for _ in range(2):
        new_process()
        results.append(np.asarray(f(jax.device_put(X, sharding))))
    np.testing.assert_array_equal(*results)
    assert disk_cache.counts(folder).hits


def executable(f, *args):
    return jax.jit(f).lower(*args).compile().program.executables[0]


def test_only_bodies_are_left_out(folder):
    """Those of loops, and not of what a library computes or of what may write in place."""

    def bodies(f, *args):
        data = executable(f, *args).data()
        short = stripped.without_bodies(data)
        return [text.count(b"\x12\x06fusion") for text in (data, short)]

    whole, short = bodies(lambda x: (jnp.sin(x) * 2).sum(1), X)
    assert whole > short == 0
    whole, short = bodies(in_place, X)
    assert short  # the body of the loop


@pytest.mark.parametrize(
    "f, least",
    [(lambda x: jnp.sin(x) * 2, 1 << 30), (lambda x: x @ x.T, 0)],
    ids=["small", "no fusions"],
)
def test_what_gains_nothing_is_kept_as_it_is(folder, monkeypatch, f, least):
    monkeypatch.setattr(constants, "STRIPPED_LEAST", least)
    data = executable(f, X).data()
    (entry,) = disk_cache.entries(folder)
    assert disk_cache.read(entry)[8:] == data


def test_of_another_form(folder):
    """What is no executable of the known form has no stripped one, whatever it is."""
    data = executable(lambda x: jnp.sin(x) * 2, X).data()
    assert stripped.without_bodies(data) is not None
    rng = random.Random(0)
    for _ in range(300):
        at = rng.randrange(len(data))
        other = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        for damaged in (other, data[:at], data[at:], other[::-1]):
            assert isinstance(stripped.without_bodies(damaged), bytes | None)
    assert stripped.without_bodies(b"") is None and stripped.without_bodies(bytes(100)) is None
    assert (
        stored.whole(stored.pack(b"anything", "cpu"))
        == b"anything"
        == stored.whole(stored.pack(b"anything", "cuda"))
    )
