"""A transformer trained over a mesh of 2 x 4 devices in JAX's three modes, with the same losses.

Along "data" the batch is divided, and with it every parameter (ZeRO-3: a device gathers a layer's
parameters when it needs them). Along "model" attention heads and hidden units are (tensor
parallelism). `train("auto")` leaves the communication to the compiler, `train("explicit")` has it
said by types, and `train("manual")` writes it by hand.
"""

import functools

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax

LAYERS, WIDTH, HEADS, HIDDEN, LENGTH, BATCH, RATE = 2, 32, 4, 64, 8, 8, 0.05
# How each parameter of a layer lies over the mesh.
SPECS = {
    "qkv": P("data", None, "model"),
    "out": P("model", "data"),
    "up": P("data", "model"),
    "down": P("model", "data"),
}


def init(key):
    """Parameters of all layers, stacked."""
    shapes = {
        "qkv": (WIDTH, 3, WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.normal(k, (LAYERS, *shape)) * shape[0] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def normalized(x):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def layer(x, p, product=jnp.matmul, total=lambda x: x):
    """One layer. product(x, w): a product with parameters; total: what completes a sum over
    "model"."""
    qkv = product(normalized(x), p["qkv"].reshape(p["qkv"].shape[0], -1)).reshape(
        *x.shape[:2], 3, -1, WIDTH // HEADS
    )
    q, k, v = (qkv[:, :, i] for i in range(3))
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(*x.shape[:2], -1)
    x = x + total(product(mixed, p["out"]))
    return x + total(product(jax.nn.gelu(product(normalized(x), p["up"])), p["down"]))


def loss(params, x, target, layer=layer):
    x, _ = lax.scan(lambda x, p: (layer(x, p), None), x, params)
    return jnp.mean((x - target) ** 2)


def updated(params, gradients):
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradients)


def data(step):
    """A batch: sequences, and the same reversed."""
    x = np.random.RandomState(step).standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)
    return x, x[:, ::-1]


def stacked(spec):
    return P(None, *spec)


def by_compiler(mesh):
    """The step as one writes it for one device. Constraints say how the parameters lie."""

    @jax.jit
    def step(params, x, target):
        value, gradients = jax.value_and_grad(loss)(params, x, target)
        return lax.with_sharding_constraint(updated(params, gradients), places), value

    places = {name: jax.NamedSharding(mesh, stacked(spec)) for name, spec in SPECS.items()}
    return step


def by_types(mesh):
    """Types say how every value lies; products whose contracted axes are divided say how their
    results are to lie."""

    def gathered(w, spec):
        return jax.reshard(w, P(*(None if e == "data" else e for e in spec)))

    def typed_layer(x, p):
        p = {name: gathered(w, SPECS[name]) for name, w in p.items()}
        return jax.sharding.auto_axes(layer, out_sharding=P("data"))(x, p)

    @jax.jit
    def step(params, x, target):
        value, gradients = jax.value_and_grad(functools.partial(loss, layer=typed_layer))(
            params, x, target
        )
        return updated(params, gradients), value

    return step


def by_hand(mesh):
    """Each device writes what it does: gather the parameters of a layer over "data", sum over
    "model"."""

    def manual_layer(x, p):
        whole = {
            name: lax.all_gather(w, "data", axis=list(SPECS[name]).index("data"), tiled=True)
            for name, w in p.items()
        }
        return layer(x, whole, total=lambda x: lax.psum(x, "model"))

    def part(params, x, target):
        def mean(params):
            return lax.pmean(loss(params, x, target, manual_layer), "data")

        value, gradients = jax.value_and_grad(mean)(params)
        return updated(params, gradients), value

    specs = {name: stacked(spec) for name, spec in SPECS.items()}
    return jax.jit(
        jax.shard_map(
            part, mesh=mesh, in_specs=(specs, P("data"), P("data")), out_specs=(specs, P())
        )
    )


MODES = {
    "auto": (jax.sharding.AxisType.Auto, by_compiler),
    "explicit": (jax.sharding.AxisType.Explicit, by_types),
    "manual": (jax.sharding.AxisType.Auto, by_hand),
}


def train(mode, steps):
    """The loss of every step."""
    kind, make = MODES[mode]
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(kind,) * 2)
    with jax.set_mesh(mesh):
        params = init(jax.random.key(0))
        params = {name: jax.device_put(w, P(*stacked(SPECS[name]))) for name, w in params.items()}
        step, losses = make(mesh), []
        for i in range(steps):
            x, target = (jax.device_put(v, P("data")) for v in data(i))
            params, value = step(params, x, target)
            losses.append(float(value))
    return losses


def alone(steps):
    """The same on one device."""
    params, losses = init(jax.random.key(0)), []

    @jax.jit
    def step(params, x, target):
        value, gradients = jax.value_and_grad(loss)(params, x, target)
        return updated(params, gradients), value

    for i in range(steps):
        params, value = step(params, *data(i))
        losses.append(float(value))
    return losses


def main(steps=20):
    """Train on one device and in each mode; returns the greatest difference of the losses."""
    expected = alone(steps)
    worst = 0.0
    print(f"one device: {expected[0]:.4f} -> {expected[-1]:.4f}")
    for mode in MODES:
        losses = train(mode, steps)
        print(f"{mode:10}: {losses[0]:.4f} -> {losses[-1]:.4f}")
        worst = max(worst, *(abs(a - b) for a, b in zip(losses, expected, strict=True)))
    return worst


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
