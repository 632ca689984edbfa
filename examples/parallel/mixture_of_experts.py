"""A mixture of experts over devices.

`all_to_all` brings each token to the device of its expert and back.

Each device has one expert and a part of the tokens. A token goes to the expert that a router
chooses, as long as there is room: an expert takes CAPACITY tokens of each device, and the others
pass by.
"""

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax

EXPERTS, TOKENS, WIDTH, CAPACITY = 8, 16, 8, 16


def expert(w, x):
    return jax.nn.gelu(x @ w)


def mixture(router, w, x):
    """Runs on each device: w (1, WIDTH, WIDTH) is its expert, x (TOKENS, WIDTH) its tokens."""
    scores = jax.nn.softmax(x @ router)
    chosen = jnp.argmax(scores, -1)
    onehot = jax.nn.one_hot(chosen, EXPERTS, dtype=jnp.int32)
    place = jnp.sum((jnp.cumsum(onehot, 0) - 1) * onehot, -1)
    # For each expert the tokens that go to it, in the places that they have there.
    sent = jnp.zeros((EXPERTS, CAPACITY, WIDTH)).at[chosen, place].set(x, mode="drop")
    received = lax.all_to_all(sent, "expert", 0, 0, tiled=True)
    answered = lax.all_to_all(expert(w[0], received), "expert", 0, 0, tiled=True)
    mine = answered.at[chosen, place].get(mode="fill", fill_value=0.0)
    return mine * jnp.take_along_axis(scores, chosen[:, None], -1)


def everywhere(router, w, x):
    """The same on one device: every token is given to its expert at once."""
    scores = jax.nn.softmax(x @ router)
    chosen = jnp.argmax(scores, -1)
    return jax.vmap(lambda t, e: expert(w[e], t))(x, chosen) * jnp.take_along_axis(
        scores, chosen[:, None], -1
    )


def main(steps=1):
    """Compare values and gradients over `steps` batches; returns the greatest difference."""
    mesh = jax.make_mesh((EXPERTS,), ("expert",), axis_types=(jax.sharding.AxisType.Auto,))
    run = jax.shard_map(
        mixture, mesh=mesh, in_specs=(P(), P("expert"), P("expert")), out_specs=P("expert")
    )
    worst = 0.0
    for i in range(steps):
        keys = jax.random.split(jax.random.key(i), 3)
        args = (
            jax.random.normal(keys[0], (WIDTH, EXPERTS)),
            jax.random.normal(keys[1], (EXPERTS, WIDTH, WIDTH)),
            jax.random.normal(keys[2], (EXPERTS * TOKENS, WIDTH)),
        )
        both = [
            jax.jit(jax.value_and_grad(lambda *a, f=f: jnp.sum(jnp.sin(f(*a))), (0, 1, 2)))(*args)
            for f in (run, everywhere)
        ]
        differences = jax.tree.map(lambda a, b: float(jnp.max(jnp.abs(a - b))), *both)
        worst = max(worst, *jax.tree.leaves(differences))
    print(
        f"{EXPERTS} experts on {EXPERTS} devices; greatest difference from one device: {worst:.1e}"
    )
    return worst


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
