"""Pipeline parallelism by `shard_map` and `ppermute`.

Each device has a layer, and parts of the batch flow through them.

A step lasts as long as there are parts, and layers to fill and to empty. The gradient flows back
the same way: it is that of the layers one after the other.
"""

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax

STAGES, PARTS, SIZE, WIDTH, RATE = 4, 8, 4, 16, 0.1


def layer(w, x):
    return jnp.tanh(x @ w)


def pipelined(weights, x):
    """All layers on x, of shape (PARTS, SIZE, WIDTH); runs on each device with the layer that it
    has."""
    w, stage = weights[0], lax.axis_index("stage")

    def tick(carry, t):
        inside, outs = carry
        given = jnp.where(stage == 0, x[jnp.minimum(t, PARTS - 1)], inside)
        y = layer(w, given)
        # What the last stage gives at time t is part t - STAGES + 1.
        at = jnp.maximum(t - STAGES + 1, 0)
        outs = outs.at[at].set(jnp.where((stage == STAGES - 1) & (t >= STAGES - 1), y, outs[at]))
        return (lax.ppermute(y, "stage", [(i, i + 1) for i in range(STAGES - 1)]), outs), None

    start = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
    (_, outs), _ = lax.scan(tick, start, jnp.arange(PARTS + STAGES - 1))
    return lax.psum(jnp.where(stage == STAGES - 1, outs, 0.0), "stage")


def main(steps=50):
    """Train both ways; returns the greatest difference of the losses."""
    mesh = jax.make_mesh((STAGES,), ("stage",), axis_types=(jax.sharding.AxisType.Auto,))
    run = jax.shard_map(pipelined, mesh=mesh, in_specs=(P("stage"), P()), out_specs=P())

    def straight(weights, x):
        for w in weights:
            x = layer(w, x)
        return x

    x = jax.random.normal(jax.random.key(1), (PARTS, SIZE, WIDTH))
    target = jnp.sin(2 * x)
    curves = []
    for f in (run, straight):
        step = jax.jit(jax.value_and_grad(lambda w, f=f: jnp.mean((f(w, x) - target) ** 2)))
        weights, losses = (
            jax.random.normal(jax.random.key(0), (STAGES, WIDTH, WIDTH)) * WIDTH**-0.5,
            [],
        )
        for _ in range(steps):
            value, gradient = step(weights)
            weights = weights - RATE * gradient
            losses.append(float(value))
        curves.append(losses)
    worst = max(abs(a - b) for a, b in zip(*curves, strict=True))
    print(
        f"loss {curves[0][0]:.4f} -> {curves[0][-1]:.4f} over {STAGES} devices; greatest "
        f"difference from one device {worst:.1e}"
    )
    return worst


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
