"""Errors of running programs, and of arrays whose buffers are gone."""

import pickle

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._executables import effects


def fail(x):
    raise ZeroDivisionError("in the callback")


def calls_back(x):
    return jax.pure_callback(fail, jax.ShapeDtypeStruct((), np.float32), x) + 1


READS = {
    "block_until_ready": lambda x: x.block_until_ready(),
    "jax.block_until_ready": jax.block_until_ready,
    "float": float,
    "asarray": np.asarray,
    "device_get": jax.device_get,
    "repr": repr,
    "next": lambda x: float(x + 1),
}


@pytest.mark.parametrize("read", READS)
def test_an_error_in_a_program_comes_by_the_read(read):
    f = jax.jit(calls_back)
    for _ in range(3):
        with pytest.raises(jax.errors.JaxRuntimeError, match="in the callback"):
            READS[read](f(1.0))
    assert jax.jit(lambda x: x + 1)(1.0) == 2  # the process is well


def test_errors_of_effects_come_by_the_barrier():
    f = jax.jit(lambda x: (jax.debug.callback(fail, x), x)[1])

    def run():
        f(1.0).block_until_ready()
        jax.effects_barrier()

    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="in the callback"):
            run()
    jax.effects_barrier()
    assert jnp.add(1, 1) == 2


def test_the_barrier_waits_for_all_programs():
    class Token:
        waited = 0

        def block_until_ready(self):
            Token.waited += 1

    for _ in range(3000):
        effects.watch(Token(), None)
    jax.effects_barrier()
    assert Token.waited == 3000


def test_a_callback_of_other_shape():
    f = jax.jit(
        lambda x: jax.pure_callback(
            lambda x: np.zeros(3, np.float32), jax.ShapeDtypeStruct((), np.float32), x
        )
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"\(3,\)"):
        float(f(1.0))


USES = {
    "numpy": np.asarray,
    "add": lambda x: x + 1,
    "jit": jax.jit(lambda x: x),
    "grad": jax.grad(lambda x: x.sum()),
    "index": lambda x: x[0],
    "list": list,
    "tolist": lambda x: x.tolist(),
    "shards": lambda x: x.addressable_shards,
    "pickle": pickle.dumps,
    "copy": lambda x: x.copy(),
    "device_get": jax.device_get,
    "dlpack": lambda x: x.__dlpack__(),
    "is_ready": lambda x: x.is_ready(),
    "clone": lambda x: x.clone(),
    "platform": lambda x: x.platform(),
    "pointer": lambda x: x.unsafe_buffer_pointer(),
    "wait": lambda x: x.block_until_ready(),
}


@pytest.mark.parametrize("use", USES)
def test_uses_of_a_deleted_array(use):
    x = jnp.arange(3.0)
    x.delete()
    x.delete()
    assert x.is_deleted() and x.shape == (3,) and x.dtype == np.float32
    with pytest.raises(RuntimeError, match="deleted"):
        USES[use](x)
    assert repr(x) == str(x) == f"{x}" == "Array(shape=(3,), dtype=float32, deleted)"


def test_donated_arrays_are_gone():
    f = jax.jit(lambda x, y: x + y, donate_argnums=0)
    for _ in range(3):
        x, y = jnp.ones(3), jnp.ones(3)
        assert f(x, y).tolist() == [2, 2, 2]
        assert x.is_deleted() and not y.is_deleted()
        with pytest.raises((RuntimeError, ValueError), match="deleted"):
            f(x, y)
    with pytest.raises((RuntimeError, ValueError), match="donated"):
        f(y, y)
    assert f(np.ones(3, np.float32), 1.0).tolist() == [2, 2, 2]


def test_a_tree_is_donated_whole():
    f = jax.jit(lambda t: jax.tree.map(lambda x: x * 2, t), donate_argnums=0)
    for _ in range(3):
        tree = {"a": jnp.ones(2), "b": [jnp.ones(2), jnp.ones(3)]}
        f(tree)
        assert all(x.is_deleted() for x in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("f", "sizes", "unusable"),
    [
        (lambda x: x.sum(), (3,), "float32[3]"),
        (lambda x, y: x * y, (3, 3), "float32[3]"),
        (lambda x, y: y.sum() + x, (3, 5), "float32[5]"),
        (lambda x: x, (3,), None),
        (lambda x: x.astype(int), (3,), None),
        (lambda x, y: x, (3, 5), None),  # an argument that is not used is not passed
    ],
)
def test_warning_of_donated_buffers_without_use(f, sizes, unusable):
    jitted = jax.jit(f, donate_argnums=tuple(range(len(sizes))))
    args = [jnp.ones(n) for n in sizes]
    if unusable is None:
        jitted(*args)
        assert args[0].is_deleted()
    else:
        with pytest.warns(
            UserWarning,
            match=f"Some donated buffers were not usable: {unusable}".replace("[", r"\["),
        ) as seen:
            jitted(*args)
        assert seen[0].filename == __file__
