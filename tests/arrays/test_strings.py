"""Arrays of strings: they lie on CPUs, move and come back; no program computes with them."""

import copy
import pickle

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._arrays import transfer
from teucer._core.types import aval_of

STRINGS = np.array([["ab", "é"], ["more than sixteen characters", ""]], np.dtypes.StringDType())


def mesh(n):
    return jax.make_mesh((n,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.mark.parametrize(
    "put",
    [
        jax.device_put,
        jnp.array,
        jnp.asarray,
        lambda x: jnp.asarray(x, STRINGS.dtype),
        lambda x: jnp.asarray(jax.device_put(x), device=jax.devices()[0]),
        lambda x: jax.device_put(x, jax.NamedSharding(mesh(1), jax.P("x"))),
        lambda x: jax.vmap(lambda row: row)(jax.device_put(x)),
        lambda x: jnp.array(x, ndmin=3),
    ],
)
def test_there_and_back(put):
    """What comes back are the strings, also after those that were given have changed."""
    given = STRINGS.copy()
    x = put(given)
    given[:] = "other"
    assert x.dtype == np.dtypes.StringDType()
    for back in (x, jax.device_get(x), x.copy(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert np.asarray(back).dtype == STRINGS.dtype
        np.testing.assert_array_equal(back, STRINGS.reshape(x.shape))
    assert x.format.layout is None
    assert "'é'" in repr(x) and "dtype=StringDType" in repr(x)
    assert jax.eval_shape(lambda x: x, x).shape == x.shape


@pytest.mark.parametrize(
    "f",
    [
        jax.jit(lambda x: x),
        lambda x: x[0],
        lambda x: x.T,
        lambda x: jnp.stack([x, x]),
        jax.grad(lambda x: x),
        jax.jit(lambda _: jnp.asarray(STRINGS)),
        jax.lax.square,
        lambda x: jax.lax.cond(True, lambda x: x, lambda x: x, x),
    ],
)
def test_programs_refuse_them(f):
    with pytest.raises(TypeError, match=r"(?s)(Argument.*is not a valid JAX type|as a JAX value)"):
        f(jax.device_put(STRINGS))


def test_other_refusals():
    with pytest.raises(TypeError, match="Argument.*is not a valid JAX type"):
        jax.jit(lambda x: x)(STRINGS)
    with pytest.raises(ValueError, match="StringDType.*is not a valid dtype"):
        jax.device_put(STRINGS) + 1
    with pytest.raises(TypeError, match="dtype bfloat16 from an object with dtype StringDType"):
        jnp.asarray(STRINGS, jnp.bfloat16)
    with pytest.raises(TypeError, match=r"dtype StringDType\(\) from an object with dtype int64"):
        jnp.asarray(np.arange(2), STRINGS.dtype)
    with pytest.raises(TypeError, match=r"(?s)can only be made from NumPy arrays.*list"):
        jnp.asarray(["a"], STRINGS.dtype)
    with pytest.raises(ValueError, match=r"at least one element.*\(0,\)"):
        jax.device_put(STRINGS[:0, 0])
    with pytest.raises(TypeError, match=r"na_object=None\) is not a valid JAX array type"):
        jax.device_put(np.array(["a"], np.dtypes.StringDType(na_object=None)))


def test_only_cpus_hold_them():
    class Gpu:
        platform = "gpu"

    with pytest.raises(TypeError, match="String arrays can only be sharded to CPU devices"):
        transfer._check_strings(aval_of(STRINGS), [Gpu()])


def test_over_devices():
    """Parts on each device, and the whole on each."""
    m = mesh(len(jax.devices()))
    strings = np.tile(STRINGS, (m.size, 1))
    for spec in (jax.P("x"), jax.P()):
        x = jax.device_put(strings, jax.NamedSharding(m, spec))
        assert len(x.addressable_shards) == m.size
        for shard in x.addressable_shards:
            np.testing.assert_array_equal(shard.data, strings[shard.index])
        for other in (jax.devices()[0], jax.P(None), jax.P("x")):
            where = jax.NamedSharding(m, other) if isinstance(other, jax.P) else other
            np.testing.assert_array_equal(jax.device_put(x, where), strings)
