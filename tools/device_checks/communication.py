"""What devices and the host say to each other: collectives, callbacks, memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from targets import calling_python

import teucer as jax
from teucer import lax
from teucer import numpy as jnp

P = jax.sharding.PartitionSpec


def collectives(devices: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each kind over all devices, and over halves of them, beside NumPy."""
    n = len(devices)
    mesh = jax.sharding.Mesh(np.array(devices), ("i",))
    x = np.random.default_rng(0).integers(-8, 8, (n, n, 4)).astype(np.float32)

    def over(f: Callable[..., Any], expected: Any, x: Any = x) -> bool:
        g = jax.shard_map(
            lambda x: f(x[0])[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False
        )
        return np.array_equal(jax.jit(g)(x), expected)

    def each(y: Any) -> Any:
        return np.broadcast_to(y, (n, *np.shape(y)))

    shift = [(i, (i + 1) % n) for i in range(n)]
    table: dict[str, tuple[Callable[..., Any], Any]] = {
        "psum": (lambda x: lax.psum(x, "i"), each(x.sum(0))),
        "pmean": (lambda x: lax.pmean(x, "i"), each(x.mean(0))),
        "pmax": (lambda x: lax.pmax(x, "i"), each(x.max(0))),
        "pmin": (lambda x: lax.pmin(x, "i"), each(x.min(0))),
        "all_gather": (lambda x: lax.all_gather(x, "i"), each(x)),
        "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), x.sum(0)),
        "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), x.swapaxes(0, 1)),
        "ppermute": (lambda x: lax.ppermute(x, "i", shift), np.roll(x, 1, 0)),
        "axis_index": (lambda x: lax.axis_index("i"), np.arange(n)),
        "psum in a loop": (
            lambda x: lax.fori_loop(0, 3, lambda _, x: lax.pmean(x, "i"), x),
            each(x.mean(0)),
        ),
        "gradient of psum": (
            jax.grad(lambda x: (lax.psum(x, "i") * x).sum()),
            each(2 * x.sum(0)),
        ),
    }
    if n % 2 == 0:
        halves = [list(range(n // 2)), list(range(n // 2, n))]
        sums = np.concatenate([np.broadcast_to(x[h].sum(0), x[h].shape) for h in halves])
        table["psum in groups"] = (lambda x: lax.psum(x, "i", axis_index_groups=halves), sums)
    for name, (f, expected) in table.items():
        yield f"{name} over {n}", lambda f=f, e=expected: over(f, e)

    def partitioned() -> bool:
        where = jax.NamedSharding(mesh, P("i"))
        a = jax.device_put(x.reshape(n, -1), where)
        y = jax.jit(lambda a: jnp.sort(a.T @ a, axis=0), out_shardings=where if n == 4 else None)(a)
        flat = x.reshape(n, -1)
        return np.array_equal(y, np.sort(flat.T @ flat, axis=0))

    yield f"a partitioned product and sort over {n}", partitioned


def callbacks(devices: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Programs that call Python: the calls and values of the CPU. Those over eight devices need
    as many."""
    for name in calling_python.PROGRAMS:
        many = name in calling_python.OVER_DEVICES
        if many and len(devices) < 8:
            continue
        yield name, lambda n=name, m=many: _same_calls(n, devices[: 8 if m else 1])

    def fails() -> bool:
        def raises(x: Any) -> Any:
            raise KeyError("planted")

        try:
            x = jax.device_put(np.float32(1), devices[0])
            jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(raises, x, x) + 1)(x))
        except jax.errors.JaxRuntimeError as err:
            return "planted" in str(err)
        return False

    yield "an exception is raised", fails


def _same_calls(name: str, devices: list[Any]) -> bool:
    def normal(found: Any) -> Any:
        values, calls = found
        return [np.asarray(v).tolist() for v in jax.tree.leaves(values)], sorted(map(repr, calls))

    cpus = jax.devices("cpu")
    if len(cpus) < len(devices):
        raise ValueError("JAX_NUM_CPU_DEVICES=8 gives as many CPU devices to compare with")
    found, expected = (
        normal(calling_python.outcome(name, which)) for which in (devices, cpus[: len(devices)])
    )
    return bool(found == expected)


def memories(device: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Arrays in each memory, moved there and back within programs; donated ones."""
    x = np.arange(1024.0, dtype=np.float32).reshape(8, 128)
    kinds = [m.kind for m in device.addressable_memories()]

    def there_and_back(kind: str) -> bool:
        where = jax.sharding.SingleDeviceSharding(device, memory_kind=kind)
        home = jax.sharding.SingleDeviceSharding(device)
        y = jax.device_put(x, where)
        f = jax.jit(lambda y: jax.device_put(y, home) * 2, out_shardings=home)
        g = jax.jit(lambda y: y + 1, out_shardings=where)
        kept = g(jax.device_put(x, home))
        return (
            y.sharding.memory_kind == kept.sharding.memory_kind == kind
            and np.array_equal(f(y), x * 2)
            and np.array_equal(kept, x + 1)
        )

    for kind in kinds:
        yield f"memory {kind}", lambda k=kind: there_and_back(k)

    def donated() -> bool:
        y = jax.device_put(x, device)
        z = jax.jit(lambda y: y + 1, donate_argnums=0)(y)
        return y.is_deleted() and np.array_equal(z, x + 1)

    yield "a donated argument", donated

    def offloaded() -> bool:
        policy = jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["kept"],
            offload_src="device", offload_dst="pinned_host",
        )  # fmt: skip

        def f(x: Any) -> Any:
            y = jax.ad_checkpoint.checkpoint_name(jnp.sin(x), "kept")
            return jnp.sin(y).sum()

        y = jax.device_put(x, device)
        found = jax.jit(jax.grad(jax.checkpoint(f, policy=policy)))(y)
        return np.allclose(found, np.cos(np.sin(x)) * np.cos(x), atol=1e-5)

    if "pinned_host" in kinds:
        yield "offloaded residuals", offloaded
