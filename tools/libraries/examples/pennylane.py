"""PennyLane: a matrix of gates, and an optimised expectation without its circuit interface.

`QNode`s with jax do not run on JAX 0.12: they use `jax.core.is_concrete`.
"""

import jax
import jax.numpy as jnp
import pennylane as qml

print(
    qml.math.sum(qml.math.stack([jnp.ones(2), jnp.zeros(2)])), qml.math.get_interface(jnp.ones(2))
)
rotation = qml.math.kron(jnp.eye(2), jnp.array([[0.0, 1.0], [1.0, 0.0]]))
print(jax.jit(lambda x: qml.math.dot(rotation, x))(jnp.arange(4.0)))
print(jax.grad(lambda x: qml.math.sum(qml.math.sin(x) ** 2))(jnp.arange(3.0)))
