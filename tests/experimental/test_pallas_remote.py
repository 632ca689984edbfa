"""Copies between devices, and semaphores of others, where kernels run as programs on values."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.sharding import PartitionSpec as P

N = 4


def over_devices(kernel, x, shape):
    """What a kernel makes of each device's part of x."""
    mesh = jax.make_mesh((N,), ("x",), devices=jax.devices()[:N])

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    def f(x):
        anywhere = pl.BlockSpec(memory_space=pltpu.ANY)
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
            in_specs=[anywhere],
            out_specs=anywhere,
            scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA((N,))],
        )(x)

    return np.asarray(f(jax.device_put(x, jax.NamedSharding(mesh, P("x"))))).reshape(N, *shape)


@pytest.mark.parametrize("shift", [None, 1, 3])
def test_who_sends_says_where_a_copy_goes(shift):
    """All to the first device, or around a ring: each to the slot of its own number."""

    def kernel(x_ref, out_ref, sent, received):
        me = lax.axis_index("x")
        to = jnp.int32(0) if shift is None else (me + shift) % N
        out_ref[...] = jnp.zeros_like(out_ref)
        copy = pltpu.make_async_remote_copy(
            src_ref=x_ref,
            dst_ref=out_ref.at[me],
            send_sem=sent,
            recv_sem=received.at[me],
            device_id=(to,),
            device_id_type=pltpu.DeviceIdType.MESH,
        )
        copy.start()
        copy.wait_send()

    x = np.random.default_rng(0).normal(size=(N, 8, 128)).astype(np.float32)
    found = over_devices(kernel, x.reshape(-1, 128), (N, 8, 128))
    expected = np.zeros((N, N, 8, 128), np.float32)
    for i in range(N):
        expected[0 if shift is None else (i + shift) % N, i] = x[i]
    np.testing.assert_array_equal(found, expected)


def test_who_signals_says_which_semaphore():
    def kernel(x_ref, out_ref, sent, received):
        me = lax.axis_index("x")
        for to in range(N):
            pl.semaphore_signal(
                received.at[me], 1 + me, device_id=(jnp.int32(to),),
                device_id_type=pl.DeviceIdType.MESH,
            )  # fmt: skip
        for i in range(N):
            pl.semaphore_wait(received.at[i], 1)
            out_ref[i, :] = jnp.full((128,), pl.semaphore_read(received.at[i]), jnp.float32)

    found = over_devices(kernel, np.ones((N * 8, 128), np.float32), (N, 128))
    np.testing.assert_array_equal(found[:, :, 0], np.tile(np.arange(N), (N, 1)))
