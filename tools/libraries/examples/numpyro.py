"""NumPyro: NUTS, SVI, and samples of ten distributions."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, autoguide

x = jnp.linspace(0, 1, 10)
y = 2 * x + 0.5


def model(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.HalfNormal(1))
    with numpyro.plate("n", 10):
        numpyro.sample("y", dist.Normal(a + b * x, s), obs=y)


m = MCMC(NUTS(model), num_warmup=10, num_samples=5, progress_bar=False)
m.run(jax.random.PRNGKey(0), x, y)
print({k: v[:2] for k, v in m.get_samples().items()})
svi = SVI(model, autoguide.AutoNormal(model), numpyro.optim.Adam(0.01), Trace_ELBO())
r = svi.run(jax.random.PRNGKey(1), 20, x, y, progress_bar=False)
print(r.losses[-3:])
print(Predictive(model, num_samples=2)(jax.random.PRNGKey(2), x)["y"][0, :3])
for d in (
    dist.Gamma(2.0, 3.0),
    dist.Beta(2.0, 3.0),
    dist.LKJ(3, 1.0),
    dist.Dirichlet(jnp.ones(3)),
    dist.StudentT(3.0),
    dist.NegativeBinomial2(2.0, 3.0),
    dist.VonMises(0.0, 1.0),
    dist.TruncatedNormal(low=0.0),
    dist.CAR(0.0, 0.5, 1.0, jnp.ones((3, 3)) - jnp.eye(3)),
    dist.ZeroInflatedPoisson(0.2, 2.0),
):
    s = d.sample(jax.random.PRNGKey(3))
    print(type(d).__name__, s, d.log_prob(s))
