"""Attention over a sequence that is divided over devices.

Keys and values go round in a ring by `ppermute`.

Each device has a block of queries and sees the blocks of keys one after the other, with a running
maximum and sum of the softmax (Liu, Zaharia & Abbeel, "Ring Attention with Blockwise Transformers",
2023). No device ever has the whole sequence.
"""

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax

DEVICES, LENGTH, HEADS, DEPTH = 8, 64, 2, 8
RING = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]


def ring_attention(q, k, v):
    """Runs on each device, on its blocks (block, HEADS, DEPTH)."""

    def turn(carry, _):
        k, v, out, total, greatest = carry
        scores = jnp.einsum("qhd,khd->hqk", q, k) * DEPTH**-0.5
        new = jnp.maximum(greatest, scores.max(-1))
        weights, old = jnp.exp(scores - new[..., None]), jnp.exp(greatest - new)
        out = out * old[..., None] + jnp.einsum("hqk,khd->hqd", weights, v)
        total = total * old + weights.sum(-1)
        k, v = lax.ppermute((k, v), "ring", RING)
        return (k, v, out, total, new), None

    shape = (HEADS, q.shape[0])
    start = lax.pcast(
        (jnp.zeros((*shape, DEPTH)), jnp.zeros(shape), jnp.full(shape, -jnp.inf)),
        "ring",
        to="varying",
    )
    (_, _, out, total, _), _ = lax.scan(turn, (k, v, *start), length=DEVICES)
    return jnp.moveaxis(out / total[..., None], 0, 1)


def attention(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, k) * DEPTH**-0.5)
    return jnp.einsum("hqk,khd->qhd", weights, v)


def main(steps=1):
    """Compare values and gradients over `steps` sequences; returns the greatest difference."""
    mesh = jax.make_mesh((DEVICES,), ("ring",), axis_types=(jax.sharding.AxisType.Auto,))
    run = jax.shard_map(ring_attention, mesh=mesh, in_specs=P("ring"), out_specs=P("ring"))
    worst = 0.0
    for i in range(steps):
        args = jax.random.normal(jax.random.key(i), (3, LENGTH, HEADS, DEPTH))
        both = [
            jax.jit(jax.value_and_grad(lambda *a, f=f: jnp.sum(jnp.sin(f(*a))), (0, 1, 2)))(*args)
            for f in (run, attention)
        ]
        worst = max(
            worst,
            *(
                float(jnp.max(jnp.abs(a - b)))
                for a, b in zip(*map(jax.tree.leaves, both), strict=True)
            ),
        )
    print(
        f"{LENGTH} positions on {DEVICES} devices; greatest difference from one device: {worst:.1e}"
    )
    return worst


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
