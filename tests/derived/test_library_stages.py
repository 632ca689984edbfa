"""Functions of the library have the members of jitted functions."""

import pickle

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

X = np.float32([[1, 2], [3, 5]])


@pytest.mark.parametrize(
    ("f", "args", "kwargs", "operands"),
    [
        (jnp.sin, (X,), {}, 1),
        (jnp.sin, (3.0,), {}, 1),
        (jnp.nanvar, (X,), {"axis": 0}, 1),
        (jnp.nanvar, (X, 0), {}, 1),
        (jnp.clip, (X, 1, 2), {}, 3),
        (jnp.clip, (X,), {"min": 2}, 2),
        (jnp.swapaxes, (X, 0, 1), {}, 1),
        (jnp.sum, (X,), {"axis": (0, 1), "dtype": np.int32}, 1),
        (jnp.where, (X > 1, X, 0), {}, 3),
        (jnp.concatenate, ([X, X],), {}, 2),
        (jnp.linalg.inv, (X,), {}, 1),
        (jax.nn.softmax, (X,), {"axis": -1}, 1),
        (jnp.einsum, ("ij,jk", X, X), {}, 2),
        (jnp.full_like, (X, 7), {}, 2),
    ],
)
def test_what_is_lowered_is_what_is_called(f, args, kwargs, operands):
    lowered = f.lower(*args, **kwargs)
    assert len(f.trace(*args, **kwargs).jaxpr.in_avals) == operands
    assert str(f.trace(*args, **kwargs).jaxpr.out_avals[0]) == str(jax.typeof(f(*args, **kwargs)))
    dynamic = [a for a in args if not isinstance(a, int | str | tuple)]
    if len(dynamic) == len(args):
        traced = {name: x for name, x in kwargs.items() if name == "min"}
        np.testing.assert_array_equal(lowered.compile()(*args, **traced), f(*args, **kwargs))
    f.clear_cache()


def test_structs_and_exports():
    struct = jax.ShapeDtypeStruct((3,), np.float32)
    assert jnp.tanh.eval_shape(struct) == struct
    assert jnp.sum.eval_shape(struct, axis=0).shape == ()
    exported = jax.export.export(jnp.sin)(struct)
    assert exported.fun_name == "sin"
    np.testing.assert_array_equal(
        exported.call(np.ones(3, np.float32)), jnp.sin(np.ones(3, np.float32))
    )
    with pytest.raises(TypeError, match="positional argument"):
        jnp.sin.lower()
    assert pickle.loads(pickle.dumps(jnp.sin)) is jnp.sin


def test_jitted_functions_keep_attributes():
    def f(x):
        return x

    f.mark = 5
    assert jax.jit(f).mark == 5
    assert jax.jit(jax.jit(f)).mark == 5
    assert jax.jit(jnp.sin).lower(X).compile()(X).shape == (2, 2)
