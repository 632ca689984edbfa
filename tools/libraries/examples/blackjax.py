"""BlackJAX: four steps of five samplers, window adaptation, pathfinder."""

import blackjax
import jax
import jax.numpy as jnp


def lp(x):
    return -0.5 * jnp.sum(x**2)


k = jax.random.key(0)
for name, a in (
    ("hmc", blackjax.hmc(lp, 0.2, jnp.ones(2), 4)),
    ("nuts", blackjax.nuts(lp, 0.3, jnp.ones(2))),
    ("mala", blackjax.mala(lp, 0.1)),
    ("rmh", blackjax.additive_step_random_walk(lp, blackjax.mcmc.random_walk.normal(jnp.ones(2)))),
    ("barker", blackjax.barker_proposal(lp, 0.1)),
):
    s = a.init(jnp.ones(2))
    st = jax.jit(a.step)
    for i in range(4):
        s, _ = st(jax.random.fold_in(k, i), s)
    print(name, s.position)
w = blackjax.window_adaptation(blackjax.nuts, lp)
(s, p), _ = w.run(k, jnp.ones(2), num_steps=20)
print(s.position, p["step_size"])
print(blackjax.vi.pathfinder.approximate(k, lp, jnp.ones(2))[0].elbo)
