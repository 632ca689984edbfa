"""What programs say of themselves: names, signatures, stages, texts, and how often they are traced."""

import functools

import teucer as jax
import teucer.numpy as jnp
from teucer.flatten_util import ravel_pytree


def model(params, *inputs, scale=1.0, **options):
    return jnp.tanh(inputs[0] * params["w"]) * scale


traced = jax.make_jaxpr(model)({"w": 1.0}, 2.0, [3.0], scale=4.0, extra=5.0)
info = traced.jaxpr.debug_info
print(info.func_name, info.arg_names, info.result_paths)
print(jax.make_jaxpr(lambda a, b: a)(1.0, 2.0).jaxpr.debug_info.arg_names)

double = functools.partial(model, scale=2.0)
for transform in (jax.jit, jax.vmap, jax.grad, jax.value_and_grad, jax.checkpoint, jax.jacfwd):
    print(transform(double).__name__, transform(model).__qualname__)

lowered = jax.jit(model, donate_argnums=0).lower({"w": 1.0}, jnp.ones(3))
print(jax.tree.leaves(lowered.args_info), lowered.donate_argnums)
print(jax.jit(lambda x, y: jnp.sin(x) * y["k"]).lower(1.0, {"k": 2.0}).as_text("hlo"))

# Lines of jaxprs break between names.
print(jax.make_jaxpr(lambda *xs: xs[::-1])(*[jnp.ones((10, 20))] * 9))
print(jax.make_jaxpr(lambda *xs: [2.05 * x for x in xs])(*[1.0] * 11))

# A checkpointed function is traced once for each kind of call.
traces = []
body = jax.checkpoint(lambda x: (traces.append(0), jnp.sin(x))[1])
for x in (1.0, 2.0, jnp.ones(2), jnp.zeros(2)):
    body(x)
    jax.grad(lambda x: jnp.sum(body(x)))(x)
print(len(traces))

# Functions that unravel are equal, and take vectors of another dtype where leaves have one.
flat, unravel = ravel_pytree({"a": jnp.ones(2), "b": jnp.zeros((1, 1))})
other, again = ravel_pytree({"a": jnp.zeros(2), "b": jnp.ones((1, 1))})
print(unravel == again, hash(unravel) == hash(again), unravel(flat < 1), unravel(flat.astype(int)))
try:
    ravel_pytree((1.0, 2))[1](jnp.ones(2, bool))
except TypeError as err:
    print(err)

ref = jax.new_ref(jnp.arange(3.0))
ref[1] += 2
print(ref, jax.ref.get(ref, 1), jax.typeof(ref))
