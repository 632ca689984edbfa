"""Makes sharding_types.json: what JAX says of the types of results over Explicit mesh axes, by running it:

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python tests/data/make_sharding_types.py

The mesh is 4 x 2, of axes x and y. A(shape, *spec) is a float32 array laid out so, I an int32 one.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

CASES = """
lambda a,b:a+b,x,y
lambda a,b:a+b,A((8,8),'x',None),A((8,8),None,'x')
lambda a,b:a+b,A((8,8),'x',None),A((8,8),'y',None)
lambda a,b:a+b,A((8,8),('x','y'),None),A((8,8),'x',None)
lambda a:a.reshape(-1),x
lambda a:a.reshape(-1),y
lambda a:a.reshape(32,),xy
lambda a:a.reshape(8,2,2),xy
lambda a:a.reshape(4,2,4),xy
lambda a:a.reshape(8,1,4),xy
lambda a:a.reshape(16,2),x
lambda a:a.reshape(2,4,4),x
lambda a:a.reshape(8,4),A((8,1,4),'x')
lambda a:a.reshape(4,8),A((8,4))
lambda a:a.reshape(2,4),A((8,),('x','y'))
lambda a:a.reshape(4,2),A((8,),('x','y'))
lambda a:a.reshape(8,),A((4,2),'x','y')
lambda a:a.reshape(8,),A((4,2),None,'y')
lambda a:jnp.concatenate([a,a]),x
lambda a,b:jnp.concatenate([a,b]),x,y
lambda a,b:jnp.concatenate([a,b],1),x,r
lambda a:lax.pad(a,np.float32(0),((1,1,0),(0,0,0))),x
lambda a:lax.pad(a,np.float32(0),((0,0,0),(1,1,0))),x
lambda a:lax.pad(a,np.float32(0),((4,4,0),(0,0,0))),x
lambda a:lax.slice(a,(0,0),(4,4)),x
lambda a:lax.slice(a,(0,0),(2,4)),x
lambda a:lax.slice(a,(0,0),(8,2)),x
lambda a:lax.dynamic_slice(a,(0,0),(4,4)),x
lambda a:lax.dynamic_slice(a,(0,0),(8,2)),x
lambda a:lax.dynamic_slice(a,(0,0),(3,2)),x
lambda a,b:lax.dynamic_update_slice(a,b,(0,0)),x,A((8,2),'x')
lambda a,b:lax.dynamic_update_slice(a,b,(0,0)),x,A((4,4),)
lambda a,b:lax.dynamic_update_slice(a,b,(0,0)),x,A((4,4),'x')
lambda a:a[:,0],x
lambda a:a[:,1:3],x
lambda a:a[0],y
lambda a:a[0:2],y
lambda a:a[::2],x
lambda a:a[::-1],x
lambda a,i:a[:,i],x,I((3,))
lambda a,i:a[i],y,I((4,))
lambda a,i:a[i],y,I((4,),'x')
lambda a,i:a[i],x,I((4,))
lambda a,i:a[i],y,I((4,),'y')
lambda a,i:jnp.take_along_axis(a,i,1),x,I((8,2),'x')
lambda a:a.at[0].set(1.),x
lambda a:a.at[:,0].set(1.),x
lambda a:a.at[0].set(1.),y
lambda a,i:a.at[i].add(1.),y,I((3,))
lambda a,b:a.at[0].set(b),y,A((4,),'y')
lambda a,b:a.at[0].add(b),x,A((4,))
lambda a:lax.rev(a,(0,)),x
lambda a:lax.sort(a,dimension=0),x
lambda a:lax.top_k(a,2),x
lambda a:lax.top_k(a,2),y
lambda a:lax.argmax(a,0,np.int32),x
lambda a:jnp.max(a,1),x
lambda a:jnp.cumsum(a,0),x
lambda a:lax.select(a>0,a,a),x
lambda p,a:lax.select(p>0,a,a),x,r
lambda p,a:lax.select(p>0,a,a),r,x
lambda p,a,b:lax.select(p>0,a,b),x,x,r
lambda a:lax.clamp(np.float32(0),a,np.float32(1)),x
lambda a,b:lax.clamp(a,b,a),x,r
lambda a,b:lax.dot_general(a,b,(((1,),(0,)),((),()))),x,A((4,6))
lambda a,b:lax.dot_general(a,b,(((1,),(0,)),((),()))),y,A((4,6))
lambda a,b:lax.dot_general(a,b,(((1,),(0,)),((),()))),y,A((4,6),'x')
lambda a,b:lax.dot_general(a,b,(((1,),(0,)),((),()))),y,A((4,6),'y')
lambda a,b:lax.dot_general(a,b,(((1,),(0,)),((),())),out_sharding=P()),y,A((4,6),'y')
lambda a,b:lax.dot_general(a,b,(((1,),(0,)),((),()))),x,A((4,8),None,'x')
lambda a,b:lax.dot_general(a,b,(((2,),(1,)),((0,),(0,)))),A((8,3,4),'x'),A((8,4,2))
lambda a,b:lax.dot_general(a,b,(((2,),(1,)),((0,),(0,)))),A((8,3,4),'x'),A((8,4,2),'y')
lambda a,b:lax.dot_general(a,b,(((2,),(1,)),((0,),(0,)))),A((8,3,4),'x'),A((8,4,2),'x',None,'y')
lambda a,b:lax.conv(a,b,(1,1),'SAME'),A((8,4,8,8),'x'),A((4,4,3,3))
lambda a,b:lax.conv(a,b,(1,1),'SAME'),A((8,4,8,8)),A((4,4,3,3),'x')
lambda a,b:lax.conv(a,b,(1,1),'SAME'),A((8,4,8,8),None,None,'x'),A((4,4,3,3))
lambda a:jnp.fft.fft(a),x
lambda a:jnp.fft.fft(a,axis=0),x
lambda a:lax.reduce_window(a,np.float32(0),lax.add,(1,2),(1,1),'SAME'),x
lambda a:lax.reduce_window(a,np.float32(0),lax.add,(2,1),(1,1),'SAME'),x
lambda a:jnp.split(a,2,0),x
lambda a:jnp.split(a,2,1),x
lambda a:jnp.linalg.cholesky(a),A((8,3,3),'x')
lambda a:jnp.linalg.cholesky(a),A((8,4,4),None,'x')
lambda a:jnp.linalg.svd(a),A((8,3,3),'x')
lambda a:jnp.linalg.eigh(a),A((8,3,3),'x')
lambda a:jnp.linalg.solve(a,a),A((8,3,3),'x')
lambda a:jnp.expand_dims(a,1),x
lambda a:jnp.squeeze(a,1),A((8,1),'x')
lambda a:jnp.broadcast_to(a,(3,8,4)),x
lambda a:jnp.tile(a,(2,1)),x
lambda a:jnp.repeat(a,2,0),x
lambda a:jnp.stack([a,a]),x
lambda a:jax.nn.softmax(a,0),x
lambda a:jnp.mean(a,0),x
lambda a:jnp.var(a,0),x
lambda a:a.astype(np.int32),x
lambda a:lax.bitcast_convert_type(a,np.uint32),x
lambda a:lax.bitcast_convert_type(a,np.uint16),x
lambda a:lax.scan(lambda c,b:(c+b,b*2),jnp.zeros(8,out_sharding=P('x')),a)[1],A((5,8),None,'x')
lambda a:lax.scan(lambda c,b:(c,b),0.,a)[1],x
lambda a:lax.while_loop(lambda c:c.sum()<3,lambda c:c+1,a),x
lambda a:lax.cond(True,lambda c:c+1,lambda c:c,a),x
lambda a:lax.cond(True,lambda c:c+1,lambda c:jax.reshard(c,P()),a),x
lambda a:lax.fori_loop(0,3,lambda i,c:c*2,a),x
lambda a:lax.map(lambda c:c*2,a),y
lambda a:jax.vmap(lambda c:c*2)(a),xy
lambda a:jax.vmap(lambda c:c.sum())(a),xy
lambda a:jax.vmap(lambda c:c*2,out_axes=1)(a),xy
lambda a,b:jax.vmap(lambda c,d:c*d)(a,b),x,r
lambda a,b:jax.vmap(lambda c,d:c*d)(a,b),A((8,4),'x'),A((8,4),'y')
lambda a,b:jax.vmap(lambda c,d:c@d,in_axes=(0,None))(a,b),A((8,4,4),'x'),A((4,4))
lambda a,b:jax.vmap(lambda c,d:c@d,in_axes=(0,None))(a,b),A((8,4,4),'x'),A((4,4),None,'y')
jax.grad(lambda a:(a**2).sum()),xy
jax.grad(lambda a,b:(a@b).sum(),(0,1)),x,A((4,6))
jax.grad(lambda a,b:(jnp.tanh(a@b)).sum(),(0,1)),x,A((4,6),None,'y')
jax.grad(lambda a,b:(a+b).sum(),(0,1)),x,y
jax.grad(lambda a:a.reshape(-1).sum()),x
jax.grad(lambda a:a[:,0].sum()),x
jax.grad(lambda a:jnp.concatenate([a,a],1).sum()),x
jax.grad(lambda a:a.T.sum()),x
jax.grad(lambda a:jax.reshard(a,P(None,'y')).sum()),x
jax.grad(lambda a:jnp.max(a,1).sum()),x
jax.hessian(lambda a:(a**3).sum()),A((8,),'x')
jax.jacrev(lambda a:jnp.sin(a)),A((8,),'x')
lambda a:jax.jvp(jnp.sin,(a,),(a,)),x
jax.checkpoint(lambda a:jnp.sin(a)),x
jax.grad(jax.checkpoint(lambda a:jnp.sin(a).sum())),x
jax.jit(lambda a:jnp.sin(a).T),x
lambda a:jnp.einsum('ij,kj->ik',a,a),x
lambda a:jnp.einsum('ij,kj->ik',a,a,out_sharding=P('x')),x
lambda a:jnp.tril(a),x
lambda a:jnp.where(a>0,a,0.),x
lambda a:jnp.diag(a),A((8,),'x')
lambda a:jnp.roll(a,1,0),x
lambda a:jnp.flip(a),x
lambda a:jnp.moveaxis(a,0,1),x
lambda a:jnp.outer(a,a),A((8,),'x')
lambda a,b:jnp.outer(a,b),A((8,),'x'),A((8,),'y')
lambda a:jnp.linalg.norm(a,axis=1),x
lambda a:jnp.argsort(a,1),x
lambda a:lax.optimization_barrier(a),x
lambda a:lax.stop_gradient(a),x
lambda a:lax.reduce_precision(a,5,5),x
lambda k:jax.random.normal(k,(8,),out_sharding=P('x')),jax.random.key(0)
lambda a:jax.vmap(lambda k:jax.random.normal(k,(3,)))(a),jax.random.split(jax.random.key(0),8)
lambda a:jnp.zeros_like(a),x
lambda a:jnp.ones_like(a),x
lambda a:jnp.full_like(a,2),x
lambda a:jnp.maximum(a,0),x
lambda a:jax.nn.relu(a),x
lambda a:jnp.sort(a),x
lambda a:jnp.pad(a,((0,0),(1,1))),x
lambda a:jax.reshard(a,P('y')),x
lambda a:jax.reshard(a,P('x','x')),x
lambda a:jax.reshard(a,P('z')),x
lambda a:jax.reshard(a,P(None,None,'x')),x
lambda a:jax.reshard(a,P(None,'x')),A((8,3))
lambda a: jnp.broadcast_to(a, (8, 4), out_sharding=P('x')), r
lambda a: a.reshape(-1, out_sharding=P('x')), y
lambda a: a.at[jnp.arange(4)].get(out_sharding=P('x')), x
lambda a, b: lax.conv(a, b, (1, 1), 'SAME', ), A((8, 4, 8, 8), 'x'), A((4, 4, 3, 3))
jax.grad(lambda a, b: lax.conv(a, b, (1, 1), 'SAME').sum(), (0, 1)), A((8, 4, 8, 8), 'x'), A((4, 4, 3, 3))
lambda: jnp.zeros((8, 4), out_sharding=P('x'))
lambda: lax.broadcasted_iota(int, (8, 4), 0, out_sharding=P('x', 'y'))
lambda: jnp.full((8,), 2.0, out_sharding=P('y'))
lambda: jnp.arange(8, out_sharding=P('x'))
jax.sharding.auto_axes(lambda a: a.reshape(-1), out_sharding=P('x')), y
lambda a: jax.vmap(lambda c: c @ c.T)(a), A((8, 4, 4), 'x')
jax.value_and_grad(lambda a: jnp.tanh(a).sum()), x
jax.jacfwd(lambda a: jnp.sin(a)), A((8,), 'x')
lambda a: jnp.tanh(a) @ a.T, y
lambda a, b: jnp.maximum(a, b) ** 2 + a, x, y
jax.grad(lambda a: lax.scan(lambda c, b: (c * b, b), jnp.ones(8, out_sharding=P('x')), a)[0].sum()), A((5, 8), None, 'x')
lambda a: lax.cond(a.sum() > 0, jnp.sin, jnp.cos, a), x
jax.grad(lambda a: lax.cond(a.sum() > 0, jnp.sin, jnp.cos, a).sum()), x
jax.grad(lambda a: jax.jit(jnp.sin)(a).sum()), xy
lambda a: jax.jvp(lambda z: z @ z.T, (a,), (a,)), A((8, 4), None, 'y')
""".strip().splitlines()

mesh = jax.make_mesh((4, 2), ("x", "y"))


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


found = []
with jax.set_mesh(mesh):
    for case in CASES:
        try:
            found.append(
                {"case": case, "types": eval(f"types_of({case})", {**NAMES, "types_of": types_of})}
            )
        except Exception as err:
            found.append({"case": case, "error": type(err).__name__, "message": str(err)[:200]})
data = {"origin": f"jax {jax.__version__}, tests/data/make_sharding_types.py", "cases": found}
Path(__file__).with_name("sharding_types.json").write_text(json.dumps(data, indent=1) + "\n")
