"""A hierarchical regression in numpyro, sampled by NUTS, as a user writes it.

A step is a run of 200 draws.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from reporting import measured

GROUPS, SIZE = 8, 25


def model(group: jax.Array, x: jax.Array, y: jax.Array) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("groups", GROUPS):
        offset = numpyro.sample("offset", dist.Normal(0, spread))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(offset[group] + slope * x, noise), obs=y)


rng = np.random.default_rng(0)
group, x = np.repeat(np.arange(GROUPS), SIZE), rng.normal(size=GROUPS * SIZE).astype(np.float32)
y = (rng.normal(size=GROUPS)[group] + 1.5 * x + 0.3 * rng.normal(size=len(x))).astype(np.float32)
sampler = MCMC(NUTS(model), num_warmup=200, num_samples=200, progress_bar=False)


def step() -> jax.Array:
    sampler.run(jax.random.key(1), group, x, y)
    return jnp.mean(sampler.get_samples()["slope"])


measured(step, steps=2)
