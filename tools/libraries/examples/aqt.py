"""AQT: products in int8, and a layer that trains through them."""

import jax
import jax.numpy as jnp
from aqt.jax.v2 import aqt_dot_general, config

x = jax.random.normal(jax.random.PRNGKey(0), (4, 8))
w = jax.random.normal(jax.random.PRNGKey(1), (8, 3))
dimensions = (((1,), (0,)), ((), ()))
for made in (
    config.config_v4(),
    config.config_v3(),
    config.fully_quantized(),
    config.config_fwd_fp8(),
):
    made = config.set_context(made, jax.random.PRNGKey(2), train_step=0)
    product = (
        aqt_dot_general.make_dot_general(made)
        if hasattr(aqt_dot_general, "make_dot_general")
        else made
    )
    print(jnp.asarray(product(x, w, dimensions))[0])
    gradient = jax.jit(jax.grad(lambda w, p=product: (p(x, w, dimensions) ** 2).sum()))(w)
    print(gradient[0])
