"""Makes sharding_types_of_one.json: what JAX says of types with sizes of 1 over Explicit mesh axes.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/data/make_sharding_types_of_one.py

Run it with JAX 0.12.0.1, then with 0.10.2, whose answers are kept where they differ. The mesh is
1 x 2, of axes x and y. A(shape, *spec) is a float32 array laid out so, I an int32 one. The cases are
those of make_sharding_types.py, on this mesh, reshapes of shapes with sizes of 1, and OF_ONE.
"""

import itertools
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

HERE = Path(__file__).parent
# Over the axes i, j, k, each expression is tried with (1, 8, 1) laid out in every way.
OF_ONE = """
a+a
a+a[:1]
a*jnp.ones((1,8,1))
jnp.squeeze(a,0)
jnp.squeeze(a,2)
jnp.squeeze(a)
jnp.expand_dims(a,0)
jnp.expand_dims(a,3)
jnp.expand_dims(a,(1,3))
jnp.broadcast_to(a,(3,8,1))
jnp.broadcast_to(a,(1,8,4))
jnp.broadcast_to(a,(2,1,8,1))
lax.broadcast_in_dim(a,(1,1,8,1),(0,2,3))
lax.broadcast_in_dim(a,(1,8,1,5),(0,1,2))
jnp.sum(a)
jnp.sum(a,0)
jnp.sum(a,1)
jnp.sum(a,2)
jnp.sum(a,1,keepdims=True)
jnp.sum(a,(0,2),keepdims=True)
jnp.max(a,0)
jnp.mean(a,1)
jnp.argmax(a,0)
jnp.argmax(a,1)
jnp.cumsum(a,0)
jnp.cumsum(a,2)
jnp.sort(a,0)
jnp.sort(a,1)
jnp.flip(a,0)
jnp.flip(a,1)
jnp.transpose(a)
jnp.transpose(a,(1,0,2))
jnp.swapaxes(a,0,2)
jnp.concatenate([a,a],0)
jnp.concatenate([a,a],1)
jnp.concatenate([a,a],2)
jnp.stack([a,a])
jnp.stack([a,a],3)
a[0]
a[:,:,0]
a[0,:,0]
a[:,0]
a[:1]
a[:,:4]
a[...,:0]
a[:,::2]
a[None]
a[:,None]
a[jnp.array([0])]
a[:,jnp.array([0,1])]
a.at[0].set(1.)
a.at[:,0].add(1.)
lax.slice(a,(0,0,0),(1,4,1))
lax.dynamic_slice(a,(0,0,0),(1,8,1))
lax.dynamic_slice(a,(0,0,0),(1,4,1))
lax.dynamic_update_slice(a,a,(0,0,0))
lax.dynamic_index_in_dim(a,0,0)
lax.dynamic_index_in_dim(a,0,0,keepdims=False)
lax.dynamic_index_in_dim(a,0,2,keepdims=False)
lax.pad(a,np.float32(0),((1,1,0),(0,0,0),(0,0,0)))
lax.pad(a,np.float32(0),((0,0,0),(1,1,0),(0,0,0)))
lax.pad(a,np.float32(0),((0,0,0),(0,0,0),(0,1,0)))
jnp.tile(a,(2,1,1))
jnp.tile(a,(1,1,3))
jnp.repeat(a,2,0)
jnp.repeat(a,2,2)
jnp.roll(a,1,1)
jnp.where(a>0,a,0.)
lax.select(a>0,a,a)
lax.clamp(np.float32(0),a,np.float32(1))
jnp.einsum('ijk,ijk->ij',a,a)
jnp.einsum('ijk,ilk->ijl',a,a)
jnp.einsum('ijk,ijk->',a,a)
jnp.einsum('ijk,kl->ijl',a,jnp.ones((1,4)))
jnp.matmul(a,jnp.ones((1,1,4)))
jnp.swapaxes(a,1,2)@a
jnp.tensordot(a,a,((1,),(1,)))
lax.dot_general(a,a,(((1,),(1,)),((0,),(0,))))
lax.dot_general(a,a,(((0,),(0,)),((),())))
lax.dot_general(a,a,(((2,),(2,)),((0,),(0,))))
jnp.fft.fft(a,axis=1)
jnp.fft.fft(a,axis=2)
lax.reduce_window(a,np.float32(0),lax.add,(1,2,1),(1,1,1),'SAME')
lax.reduce_window(a,np.float32(0),lax.add,(1,1,1),(1,1,1),'SAME')
jnp.split(a,2,1)
jnp.split(a,1,0)
jnp.array_split(a,1,2)
jax.nn.softmax(a,0)
jax.nn.softmax(a,1)
a.astype(np.int32)
lax.bitcast_convert_type(a,np.uint32)
lax.map(lambda c:c*2,a)
lax.scan(lambda c,b:(c,b*2),0.,a)[1]
jax.vmap(lambda c:c*2)(a)
jax.vmap(lambda c:c.sum(),1)(a)
jax.vmap(lambda c:c*2,2,0)(a)
jax.vmap(lambda c:c.reshape(-1))(a)
jax.grad(lambda a:(a**2).sum())(a)
jax.grad(lambda a:a.reshape(8).sum())(a)
jax.grad(lambda a:jnp.squeeze(a).sum())(a)
jax.grad(lambda a:a[0].sum())(a)
jax.grad(lambda a:jnp.broadcast_to(a,(1,8,4)).sum())(a)
jax.jvp(lambda a:a.reshape(8,1),(a,),(a,))
jax.jit(lambda a:a.reshape(1,8))(a)
jax.checkpoint(lambda a:jnp.sin(a).reshape(1,8))(a)
jnp.zeros_like(a)
jnp.outer(a,a)
jnp.ravel(a)
a.reshape(-1)
a.reshape(a.shape)
jnp.moveaxis(a,0,2)
jnp.linalg.norm(a,axis=1)
jnp.atleast_2d(a)
jnp.column_stack([a,a])
jnp.vstack([a,a])
jnp.append(a,a,0)
jnp.tril(a)
jnp.var(a,0)
jnp.diff(a,axis=1)
lax.top_k(a,1)
lax.optimization_barrier(a)
lax.collapse(a,0,2)
lax.collapse(a,1,3)
lax.reshape(a,(8,),(2,1,0))
lax.reduce_precision(a,5,5)
lax.expand_dims(a,(0,))
jax.reshard(a,P())
jax.reshard(a,P('x'))
jax.lax.stop_gradient(a)
""".strip().splitlines()
SHAPES = [(8,), (1,), (1, 8), (8, 1), (1, 1), (1, 8, 1), (2, 1, 4), (2, 4), (1, 2, 4), (1, 1, 8)]
TARGETS = [*SHAPES, (), (1, 2, 1, 4), (1, 4, 2), (4, 2), (2, 2, 2), (1, 1, 1), (2, 4, 1), (4, 1, 2)]


def layouts(shape):
    """The ways in which a shape is laid out: each mesh axis over one axis of an array, or none."""
    for places in itertools.product((None, *range(len(shape))), repeat=2):
        spec = [()] * len(shape)
        for name, place in zip("xy", places, strict=True):
            if place is not None:
                spec[place] = (*spec[place], name)
        if all("y" not in names or size % 2 == 0 for names, size in zip(spec, shape, strict=True)):
            yield [names if len(names) > 1 else (*names, None)[0] for names in spec]


def cases():
    for path in [HERE / "sharding_types.json"]:
        yield from (row["case"] for row in json.loads(path.read_text())["cases"])
    for shape, target in itertools.product(SHAPES, TARGETS):
        if math.prod(shape) == math.prod(target):
            for spec in layouts(shape):
                yield f"lambda a:a.reshape{target},A({shape},*{spec})"
    for expression, spec in itertools.product(OF_ONE, layouts((1, 8, 1))):
        yield f"lambda a:{expression},A((1,8,1),*{spec})"


mesh = jax.make_mesh((1, 2), ("x", "y"))


def struct(dtype):
    return lambda shape, *spec: jax.ShapeDtypeStruct(
        shape, dtype, sharding=NamedSharding(mesh, P(*spec))
    )


A, I = struct(np.float32), struct(np.int32)
NAMES = {
    "jax": jax,
    "jnp": jnp,
    "lax": lax,
    "np": np,
    "P": P,
    "A": A,
    "I": I,
    "x": A((8, 4), "x", None),
    "y": A((8, 4), None, "y"),
    "xy": A((8, 4), "x", "y"),
    "r": A((8, 4)),
}


def types_of(f, *args):
    return [str(v.aval) for v in jax.make_jaxpr(f)(*args).jaxpr.outvars]


def answer(case):
    try:
        return eval(f"types_of({case})", {**NAMES, "types_of": types_of})
    except Exception as err:
        return type(err).__name__


if __name__ == "__main__":
    with jax.set_mesh(mesh):
        found = {case: answer(case) for case in cases()}
    path = HERE / "sharding_types_of_one.json"
    if jax.__version__.startswith("0.12"):
        data = {"origin": f"jax {jax.__version__}, {Path(__file__).name}", "types": found}
    else:
        data = json.loads(path.read_text())
        data["jax " + jax.__version__] = {
            case: types for case, types in found.items() if types != data["types"][case]
        }
    path.write_text(json.dumps(data, indent=0) + "\n")
