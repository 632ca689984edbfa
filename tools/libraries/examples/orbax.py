"""Orbax: checkpoints of trees and sharded arrays."""

import os
import tempfile

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

d = tempfile.mkdtemp()
t = {
    "a": jnp.arange(6.0).reshape(2, 3),
    "b": [jnp.ones(3, jnp.bfloat16), jnp.int32(4)],
    "k": jax.random.key(3),
}
c = ocp.StandardCheckpointer()
t2 = {k: t[k] for k in "ab"}
c.save(os.path.join(d, "x"), t2)
c.wait_until_finished()
r = c.restore(os.path.join(d, "x"), jax.tree.map(ocp.utils.to_shape_dtype_struct, t2))
print(r["a"], r["b"][0].dtype, r["b"][1])
with ocp.CheckpointManager(
    os.path.join(d, "m"), options=ocp.CheckpointManagerOptions(max_to_keep=2)
) as m:
    for s in range(3):
        m.save(
            s, args=ocp.args.Composite(st=ocp.args.StandardSave(t2), j=ocp.args.JsonSave({"s": s}))
        )
    m.wait_until_finished()
    print(sorted(m.all_steps()))
    r = m.restore(
        2, args=ocp.args.Composite(st=ocp.args.StandardRestore(t2), j=ocp.args.JsonRestore())
    )
    print(r.j, r.st["a"].sum())
mesh = jax.make_mesh((1,), ("x",))
s = jax.NamedSharding(mesh, jax.P("x"))
a = jax.device_put(t["a"], s)
ck = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
ck.save(os.path.join(d, "y"), args=ocp.args.PyTreeSave({"a": a}))
ck.wait_until_finished()
print(
    ck.restore(
        os.path.join(d, "y"),
        args=ocp.args.PyTreeRestore(
            {"a": a}, restore_args=ocp.checkpoint_utils.construct_restore_args({"a": a})
        ),
    )["a"].sharding.spec
)
