"""A tiny GPT decoder of AXLearn with its learner, for four steps."""

import jax
import jax.numpy as jnp
import numpy as np
from axlearn.common import causal_lm
from axlearn.common.attention import StackedTransformerLayer
from axlearn.common.config import config_for_function
from axlearn.common.learner import Learner
from axlearn.common.module import child_context, functional, new_output_collection
from axlearn.common.optimizer_base import OptParam
from axlearn.common.optimizers import adamw_optimizer
from axlearn.common.update_transformation import ForwardOutputs

decoder = causal_lm.gpt_decoder_config(
    stack_cfg=StackedTransformerLayer.default_config(),
    num_layers=2,
    hidden_dim=16,
    num_heads=4,
    vocab_size=32,
    activation_function="nn.gelu",
    max_position_embeddings=12,
    dropout_rate=0.1,
)
decoder.transformer.layer.self_attention.attention.causal = True
decoder.attention_mask = None
model = causal_lm.Model.default_config().set(decoder=decoder, name="lm").instantiate(parent=None)
params = model.initialize_parameters_recursively(jax.random.PRNGKey(0))
print(sum(x.size for x in jax.tree.leaves(params)))
ids = jnp.asarray(np.random.default_rng(0).integers(1, 32, (4, 12)))
batch = {"input_ids": ids, "target_labels": jnp.roll(ids, -1, 1)}
optimizer = config_for_function(adamw_optimizer).set(learning_rate=1e-2, b1=0.9, b2=0.95, eps=1e-8)
learner = Learner.default_config().set(name="learner", optimizer=optimizer).instantiate(parent=None)
specs = model.create_parameter_specs_recursively()


def optimized(params):
    return jax.tree.map(
        lambda p, s: OptParam(p, s.factorization, s.weight_decay_scale), params, specs
    )


state = learner.init(optimized(params))


def forward(*, model_params, inputs):
    collected = new_output_collection()
    with child_context(
        "model",
        module=model,
        state=model_params,
        prng_key=inputs["key"],
        output_collection=collected,
    ):
        loss, aux = model(input_batch=batch)
    return ForwardOutputs(loss=loss, aux=aux, output_collection=collected)


@jax.jit
def step(params, state, key):
    found, collected = functional(
        learner,
        method="forward_and_backward",
        state=state,
        is_training=True,
        prng_key=key,
        inputs={"fn": forward, "opt_params": optimized(params), "inputs": {"key": key}},
    )
    return (
        found.backward_outputs.updated_params,
        collected.state_updates,
        found.forward_outputs.loss,
    )


for i in range(4):
    params, state, value = step(params, state, jax.random.PRNGKey(i))
    print(value)
