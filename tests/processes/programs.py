"""What the tests of several processes run, each in its own process.

Functions of a mode on the command line.
"""

import os
import signal
import sys
import threading

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import multihost_utils

P = jax.sharding.PartitionSpec


def rows(n=None):
    """An array over all devices: 0, 1, 2, ..."""
    n = 2 * jax.device_count() if n is None else n
    sharding = jax.NamedSharding(jax.sharding.Mesh(jax.devices(), ("x",)), P("x"))
    return jax.make_array_from_callback(
        (n,), sharding, lambda index: np.arange(float(n), dtype=np.float32)[index]
    )


double = jax.jit(lambda a: jnp.sum(a * 2))
triple = jax.jit(lambda a: jnp.sum(a * 3))
largest = jax.jit(lambda a: jnp.max(a * 3))


def same(actual, expected):
    np.testing.assert_array_equal(np.asarray(actual), expected)


def values():
    """Each function of multihost_utils, and arrays that lie over processes."""
    i, n = jax.process_index(), jax.process_count()
    assert jax.devices() != jax.local_devices()
    assert jax.process_indices() == list(range(n))
    gather, broadcast = multihost_utils.process_allgather, multihost_utils.broadcast_one_to_all
    for dtype in ("float32", "bfloat16", "complex64", "int8", "bool"):
        x = np.arange(3).astype(jnp.dtype(dtype))
        same(gather(x), np.stack([x] * n))
    same(gather(np.arange(3) + i, tiled=True), np.concatenate([np.arange(3) + k for k in range(n)]))
    same(gather(2.0 + i), 2.0 + np.arange(n))
    same(gather(np.zeros((0, 2))), np.zeros((n, 0, 2)))
    found = broadcast({"a": np.float32(-0.0 if i == 0 else 1), "b": [np.array([i, 3])]})
    assert np.signbit(found["a"])
    same(found["b"][0], [0, 3])
    same(broadcast(np.arange(2) + i, is_source=i == n - 1), np.arange(2) + n - 1)
    assert type(broadcast(3 + i)) is np.ndarray
    multihost_utils.assert_equal({"x": np.arange(3), "nan": np.nan})
    multihost_utils.sync_global_devices("values")

    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(n, -1), ("process", "device"))
    whole = np.concatenate([np.arange(4) * k for k in range(n)])
    x = multihost_utils.host_local_array_to_global_array(np.arange(4) * i, mesh, P("process"))
    same(gather(x, tiled=True), whole)
    same(multihost_utils.global_array_to_host_local_array(x, mesh, P("process")), np.arange(4) * i)
    same(multihost_utils.global_array_to_host_local_array(x, mesh, P()), whole)
    assert not x.is_fully_addressable
    assert str(x) == repr(x) == f"Array(shape=({4 * n},), dtype=int32)"
    total = jax.jit(jnp.sum)(x)
    assert (str(total), repr(total)) == (str(whole.sum()), f"Array({whole.sum()}, dtype=int32)")
    assert (
        [s.data is None for s in x.global_shards].count(False)
        == len(x.addressable_shards)
        == jax.local_device_count()
    )
    same(jax.jit(jnp.sum)(x), whole.sum())
    same(gather(jnp.sin(x), tiled=True), np.sin(whole).astype(np.float32))
    same(jax.device_put(x, jax.NamedSharding(mesh, P())), whole)

    both = jax.NamedSharding(mesh, P(("process", "device")))
    m, d = jax.local_device_count(), jax.device_count()
    y = jax.make_array_from_process_local_data(both, np.arange(2 * m) + 100 * i)
    same(gather(y, tiled=True), np.concatenate([np.arange(2 * m) + 100 * k for k in range(n)]))
    same(
        gather(
            jax.make_array_from_process_local_data(both, np.arange(2 * d), (2 * d,)), tiled=True
        ),
        np.arange(2 * d),
    )
    step = jax.jit(jax.grad(lambda w: jnp.sum((w * y) ** 2)))
    same(step(jnp.float32(1)), 2 * np.sum(np.asarray(gather(y, tiled=True), np.float32) ** 2))
    with multihost_utils.live_devices(jax.devices()) as live:
        assert live == jax.devices()
    keys = jax.jit(lambda: jax.random.split(jax.random.key(0), d), out_shardings=both)()
    assert repr(keys) == (
        f"Array(({d},), dtype=key<fry>) overlaying:\nArray(shape=({d}, 2), dtype=uint32)"
    )
    shown = []
    parts = P(("process", "device"))
    jax.shard_map(lambda v: shown.append(str(v)) or v, mesh=mesh, in_specs=parts, out_specs=parts)(
        y
    )
    assert shown[0].count("On cpu:") == m  # the parts of this process
    assert all(f"= ({i}, {k}):\n{np.arange(2) + 2 * k + 100 * i}" in shown[0] for k in range(m))
    with jax.debug_nans(True):
        same(jax.jit(lambda v: v + 1)(y).addressable_shards[0].data, np.arange(2) + 100 * i + 1)
    assert not multihost_utils.reached_preemption_sync_point(1)
    print("values are right")


def refusals():
    """Messages of what one process cannot do alone."""
    for refused in (
        lambda: np.asarray(rows()),
        lambda: multihost_utils.process_allgather(rows()),
        lambda: jax.distributed.initialize(),
        lambda: multihost_utils.sync_global_devices(str(jax.process_index())),
        lambda: jax.make_array_from_process_local_data(rows().sharding, np.ones(3), (4,)),
        lambda: multihost_utils.process_allgather(
            {"x": np.ones(2, ["int32", "float32"][jax.process_index()])}
        ),
        lambda: jax.jit(lambda x: jnp.log(x - 9))(rows()),
    ):
        try:
            with jax.debug_nans(True):
                refused()
        except (RuntimeError, ValueError, AssertionError, FloatingPointError) as err:
            print(type(err).__name__, str(err).replace("\n", " "))


def many():
    """More calls than XLA lets be in flight with several devices a process."""
    x, results = rows(), []
    for _ in range(300):
        results.append(double(x))
    same(results[-1], float(np.sum(np.arange(2 * jax.device_count()) * 2)))
    print("300 calls")


def keeps_on():
    """Until the input of process 0 ends."""
    ended = threading.Event()
    threading.Thread(
        target=lambda: (print("here", flush=True), sys.stdin.read(), ended.set()), daemon=True
    ).start()
    while not multihost_utils.broadcast_one_to_all(np.int32(ended.is_set())):
        ended.wait(0.1)
    print("it went on")


def goes_on():
    """With jax_enable_recoverability, those that are left go on without the one that has died."""
    last = jax.process_count() - 1
    double(rows())
    if jax.process_index() == last:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        triple(rows()).block_until_ready()
        raise SystemExit("no failure")
    except jax.distributed.ProcessFailure as err:
        failed = err.processes
    assert last in failed
    with multihost_utils.live_devices(jax.devices()) as devices:
        left = {d.process_index for d in devices}
        assert jax.process_index() in left and last not in left
        sharding = jax.NamedSharding(jax.sharding.Mesh(devices, ("x",)), P("x"))
        x = jax.make_array_from_callback(
            (len(devices),), sharding, lambda index: np.ones(len(devices), np.float32)[index]
        )
        print("survivors:", float(double(x)) / 2, "of", len(left))


def fault(kind):
    """The last process, or process 0, does what it should not."""
    x = rows()
    double(x).block_until_ready()
    me = {True: 0, False: jax.process_count() - 1}[kind.endswith("0")] == jax.process_index()
    if me and kind.startswith("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    if me and kind.startswith("stops"):
        os.kill(os.getpid(), signal.SIGSTOP)
    if me and kind == "raises":
        raise ValueError("bad data")
    if kind == "raises late":  # of a program that C++ runs
        double(x).block_until_ready()
        if me:
            raise ValueError("bad data")
        double(x)
    if me and kind == "ends":
        return
    if me and kind == "exits":
        sys.exit(3)
    if me and kind == "compiles another":
        largest(x)
    if me and kind == "other shapes":
        triple(rows(4 * jax.device_count()))
    if kind == "smaller batch":  # of a program that all have compiled
        triple(x).block_until_ready()
        triple(rows(4 * jax.device_count()) if me else x)
    if kind == "other order":
        for f in ((largest, triple), (triple, largest)):
            triple(x), largest(x)
            results = [g(x) for g in (f if me else f[::-1])]
        print("wrong:", results)
    if me and kind == "sleeps":
        threading.Event().wait()
    print(triple(x))


if __name__ == "__main__":
    jax.distributed.initialize(initialization_timeout=60)
    if sys.argv[1] in globals():
        globals()[sys.argv[1]]()
    else:
        fault(sys.argv[1])
