"""A tiny GPT-2 of Levanter, with gradients checkpointed, for four steps with each attention."""

import equinox as eqx
import haliax as hax
import jax
import numpy as np
import optax
from levanter.models.gpt2 import Gpt2Config, Gpt2LMHeadModel
from levanter.models.lm_model import LmExample, compute_next_token_loss

Vocab, Batch, Pos = hax.Axis("vocab", 32), hax.Axis("batch", 4), hax.Axis("position", 16)
tokens = hax.named(np.random.default_rng(0).integers(0, 32, (4, 16)), (Batch, Pos))
optimizer = optax.adamw(1e-2)


def loss(model):
    def of_one(tokens):
        return compute_next_token_loss(model, LmExample.causal(tokens), reduction=None)

    return hax.mean(hax.vmap(of_one, Batch)(tokens)).scalar()


@eqx.filter_jit
def step(model, state):
    value, grads = eqx.filter_value_and_grad(loss)(model)
    updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), state, value


for kind in ("vanilla", "jax_flash"):
    config = Gpt2Config(seq_len=16, hidden_dim=16, num_layers=2, num_heads=2, attn_backend=kind)
    model = Gpt2LMHeadModel.init(Vocab, config, key=jax.random.PRNGKey(0))
    print(sum(x.size for x in jax.tree.leaves(eqx.filter(model, eqx.is_array))))
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(4):
        model, state, value = step(model, state)
        print(value)
