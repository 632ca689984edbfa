"""Programs that call Python, in every way: for tests on one platform beside another."""

import numpy as np

import teucer as jax
from teucer import numpy as jnp
from teucer.experimental import checkify, io_callback

P = jax.sharding.PartitionSpec
X = np.linspace(-1, 1, 8, dtype=np.float32)
VECTOR = jax.ShapeDtypeStruct((8,), np.float32)


class Calls:
    """Functions for programs to call, and what they were called with."""

    def __init__(self):
        self.seen = []

    def note(self, *args):
        self.seen.append(tuple((str(x.dtype), np.asarray(x).tolist()) for x in args))

    def sin(self, x):
        self.note(x)
        return np.sin(x)

    def swapped(self, x, y):
        self.note(x, y)
        return y, x


# Of the program that is being made: eight for those over devices.
on = []


def mesh():
    return jax.sharding.Mesh(np.reshape(on, (4, 2)), ("a", "b"))


def by_device(f, **options):
    return jax.shard_map(f, mesh=mesh(), in_specs=P("a"), out_specs=P("a"), **options)


def repeated(calls):
    """A function of the module that is called twice, with operands in two orders."""
    inner = jax.jit(lambda x, y: jax.pure_callback(calls.swapped, (VECTOR, VECTOR), x, y))
    return lambda x: [inner(x, x + 1), inner(x + 2, x)]


def printed(x, calls):
    jax.debug.callback(calls.note, x, ordered=True)
    return x + 1


def in_turn(x, calls):
    x = io_callback(calls.sin, VECTOR, x, ordered=True)
    jax.debug.callback(calls.note, x, ordered=True)
    return io_callback(calls.sin, VECTOR, x, ordered=True)


PROGRAMS = {
    "pure": lambda calls: lambda x: jax.pure_callback(calls.sin, VECTOR, x),
    "two results": lambda calls: (
        lambda x: jax.pure_callback(calls.swapped, (VECTOR, VECTOR), x, x + 1)
    ),
    "no results": lambda calls: lambda x: (jax.debug.callback(calls.note, x, x[0]), x)[1],
    "no operands": lambda calls: (
        lambda x: x + jax.pure_callback(lambda: np.float32(2), jax.ShapeDtypeStruct((), x.dtype))
    ),
    "nothing": lambda calls: lambda x: (jax.debug.callback(calls.note), x)[1],
    "empty": lambda calls: (
        lambda x: jax.pure_callback(calls.swapped, (VECTOR, x[:0]), x[:0], x)[0]
    ),
    "ordered": lambda calls: lambda x: in_turn(x, calls),
    "in a loop": lambda calls: (
        lambda x: jax.lax.fori_loop(0, 3, lambda i, x: jax.pure_callback(calls.sin, x, x), x)
    ),
    "ordered in loops": lambda calls: (
        lambda x: jax.lax.fori_loop(0, 3, lambda i, x: printed(x, calls), printed(x, calls))
    ),
    "in a condition": lambda calls: (
        lambda x: jax.lax.while_loop(lambda x: printed(x, calls)[0] < 3, lambda x: x + 1, x)
    ),
    "in a branch": lambda calls: (
        lambda x: jax.lax.cond(x[0] > 0, lambda x: x, lambda x: printed(x, calls), x)
    ),
    "a function twice": repeated,
    "vmap": lambda calls: jax.vmap(
        lambda x: jax.pure_callback(calls.sin, x, x, vmap_method="sequential")
    ),
    "vmap at once": lambda calls: jax.vmap(
        lambda x: jax.pure_callback(calls.sin, x, x, vmap_method="expand_dims")
    ),
    "vmap of a print": lambda calls: jax.vmap(
        lambda x: (jax.debug.callback(calls.note, x), x * 2)[1]
    ),
    "gradient": lambda calls: jax.grad(
        lambda x: (jax.debug.callback(calls.note, x), jnp.sin(x).sum())[1]
    ),
    "rematerialised": lambda calls: jax.grad(
        jax.checkpoint(lambda x: (jax.debug.callback(calls.note, x), jnp.sin(x * x).sum())[1])
    ),
    "checked": lambda calls: (
        lambda x: checkify.checkify(lambda x: (checkify.check(x[0] > 0, "{}", x[0]), x)[1])(x)[1]
    ),
    "on each device": lambda calls: by_device(
        lambda x: jax.pure_callback(calls.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    ),
    "on each, in turn": lambda calls: by_device(lambda x: printed(printed(x, calls), calls)),
    "along an axis": lambda calls: by_device(
        lambda x: (jax.debug.callback(calls.note, x), x)[1], axis_names={"a"}
    ),
    "over devices": lambda calls: (
        lambda x: jax.pure_callback(calls.sin, VECTOR, jax.lax.with_sharding_constraint(
            x, jax.NamedSharding(mesh(), P("a"))
        ))
    ),
    "on the third": lambda calls: (
        lambda x: jax.pure_callback(
            calls.sin, VECTOR, x, sharding=jax.sharding.SingleDeviceSharding(on[2])
        )
    ),
}  # fmt: skip
OVER_DEVICES = [
    name for name in PROGRAMS if any(word in name for word in ("device", "each", "along", "third"))
]


def where(name):
    """The sharding of a program's argument, over its devices."""
    if name in OVER_DEVICES and "third" not in name:
        return jax.NamedSharding(mesh(), P("a"))
    return jax.sharding.SingleDeviceSharding(on[2 if "third" in name else -1])


def outcome(name, devices):
    """The values of a program, and the calls that it made."""
    on[:] = devices
    calls = Calls()
    outs = jax.jit(PROGRAMS[name](calls))(jax.device_put(X, where(name)))
    jax.effects_barrier()
    return jax.tree.map(np.asarray, outs), calls.seen
