"""quimb, cotengra and autoray: tensor networks contracted and optimised by jax."""

import autoray as ar
import jax
import jax.numpy as jnp
import quimb.tensor as qtn

a, b = jnp.arange(6.0).reshape(2, 3), jnp.ones((3, 4))
print(ar.infer_backend(a), ar.do("tensordot", a, b, 1), ar.do("linalg.svd", a)[1])
print(jax.jit(lambda a: ar.do("einsum", "ij,jk->k", a, b))(a))
print(jax.grad(lambda a: ar.do("sum", ar.do("tanh", a)))(a))
network = qtn.TN_rand_reg(8, 3, 2, seed=1)
network.apply_to_arrays(jnp.asarray)
print(f"{float(network.contract(all, optimize='greedy')):.5f}")
state = qtn.MPS_rand_state(6, 4, seed=3, dtype="float32")
hamiltonian = qtn.MPO_ham_heis(6)


def energy(state):
    k, h, b = qtn.tensor_network_align(state, hamiltonian, state.H)
    norm = (state.H & state).contract(all, optimize="greedy")
    return (b & h & k).contract(all, optimize="greedy") / norm


optimizer = qtn.TNOptimizer(
    state.copy(), loss_fn=energy, autodiff_backend="jax", optimizer="adam", progbar=False
)
optimizer.optimize(5)
print([f"{loss:.4f}" for loss in optimizer.losses])
