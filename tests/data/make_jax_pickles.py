"""Makes jax_0_10_2.pickles: what JAX 0.10.2 writes of small objects. Run with a Python that has JAX, from this folder."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np

OBJECTS = {
    "p": jax.P("x", None, ("y", "z")),
    "s": jax.ShapeDtypeStruct((2,), "float32", weak_type=True),
    "t": jax.tree.structure({"a": (1, 2), "b": None}),
    "x": jnp.arange(3, dtype="bfloat16"),
    "w": jnp.asarray(2.0),
    "d": jnp.dtype("bfloat16"),
    "k": jnp.bfloat16,
    "part": jax.tree_util.Partial(np.add, jnp.ones(2)),
    "q": (jnp.ones((2, 2), jnp.complex64), jnp.int4),
    "keys": [
        jax.random.split(jax.random.key(3, impl=impl))
        for impl in ("threefry2x32", "rbg", "unsafe_rbg")
    ],
    "mesh": jax.sharding.NamedSharding(
        jax.sharding.AbstractMesh(
            (2,),
            ("x",),
            (jax.sharding.AxisType.Auto,),
            abstract_device=jax.sharding.AbstractDevice("cpu", None, "cpu"),
        ),
        jax.P("x", None),
    ),
    "u": jax.P(jax.P.UNCONSTRAINED),
}

with open("jax_0_10_2.pickles", "wb") as file:
    pickle.dump({name: pickle.dumps(value) for name, value in OBJECTS.items()}, file)
