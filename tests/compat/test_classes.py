"""Classes say modules of jax under the alias, since libraries choose by the first word."""

import pytest
from compat_process import python

# Programs that hand a value to `see`, one for each kind of value that users get.
VALUES = {
    "jit": "jax.jit(see)(x)",
    "vmap": "jax.vmap(see)(x)",
    "grad": "jax.grad(lambda x: see(x).sum())(x)",
    "jvp": "jax.jvp(see, (x,), (x,))",
    "linearize": "jax.linearize(see, x)",
    "scan": "jax.lax.scan(lambda c, _: (see(c), None), x, None, length=2)",
    "eval_shape": "jax.eval_shape(see, x)",
    "shard_map": "jax.shard_map(see, mesh=mesh, in_specs=P('a'), out_specs=P('a'))(x)",
    "jet": "jet.jet(see, (x,), ((x,),))",
    "sparse": "sparse.sparsify(see)(sparse.BCOO.fromdense(x))",
    "reference": "see(jax.new_ref(x))",
    "jaxpr": "see(jax.make_jaxpr(jnp.sin)(x))",
    "parts of jaxprs": "[see(v) for e in jax.make_jaxpr(lambda x: x * 2)(x).eqns "
    "for v in (e, e.primitive, *e.invars)]",
    "mesh": "see(mesh)",
    "sharding": "see(x.sharding), see(jax.NamedSharding(mesh, P())), see(x.format)",
    "type": "see(jax.typeof(x))",
    "key type": "see(jax.random.key(0).dtype)",
    "scalar type": "see(jnp.float32)",
    "ufunc": "see(jnp.add)",
    "stages": "see(jax.jit(jnp.sin).trace(x)), see(jax.jit(jnp.sin).lower(x)), "
    "see(jax.jit(jnp.sin).lower(x).compile())",
    "at": "see(x.at), see(x.at[0])",
    "vjp": "see(jax.vjp(jnp.sin, x)[1])",
    "config": "see(jax.config)",
    "shard": "see(x.addressable_shards[0])",
    "dimension": "see(jax.export.symbolic_shape('n')[0])",
    "named tuples": "see(jnp.linalg.svd(x)), see(jnp.linalg.slogdet(x)), see(jnp.unique_all(x))",
    "custom functions": "see(jax.custom_jvp(jnp.sin)), see(jax.custom_vjp(jnp.sin))",
    "exported": "see(jax.export.export(jax.jit(jnp.sin))(x))",
    "states": "see(optimizers.sgd(0.1)), see(sparse.BCOO.fromdense(x))",
}


def test_every_value_says_jax():
    python(f"""
        import typing
        import jax, jax.export, jax.numpy as jnp
        from jax.example_libraries import optimizers
        from jax.experimental import jet, sparse
        from jax.sharding import PartitionSpec as P
        x = jnp.ones((2, 2))
        mesh = jax.make_mesh((1,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
        wrong, seen = [], []
        def see(value):
            seen.append(value)
            wrong.extend(
                f"{{name}}: {{cls}}"
                for cls in type(value).__mro__
                if cls.__module__.startswith("teucer")
            )
            return value
        for name, program in {VALUES!r}.items():
            before = len(seen)
            exec(program)
            assert len(seen) > before, name
        assert not wrong, wrong
    """)


def test_annotations_and_pickles_of_renamed_classes():
    python("""
        import pickle, sys, typing
        import jax
        import teucer._core.jaxpr, teucer._devices.meshes as meshes
        cls = teucer._core.jaxpr.Eqn
        assert cls.__module__ == "jax._core.jaxpr"
        assert sys.modules["jax._core.jaxpr"] is teucer._core.jaxpr
        assert pickle.loads(pickle.dumps(cls)) is cls
        assert typing.get_type_hints(teucer._core.jaxpr.Jaxpr) is not None
        # What is loaded later, and what a public module hands on later.
        import teucer.numpy._sets as late
        assert late.UniqueAllResult.__module__ == "jax.numpy._sets"
        assert jax.stages.Lowered.__module__ == "jax.stages"
    """)


CONTRACTIONS = """
    import opt_einsum
    import numpy as np
    x = jnp.arange(4.0).reshape(2, 2)
    xs = jnp.stack([x, x + 1])
    f = lambda x: opt_einsum.contract("ij,jk,kl->", x, x, x)
    assert f(x) == jax.jit(f)(x) == 78.0
    assert jax.grad(f)(x).tolist() == [[15.0, 35.0], [23.0, 51.0]]
    assert jax.vmap(f)(xs)[0] == 78.0
    assert jax.jit(jax.vmap(jax.grad(f)))(xs)[0].tolist() == [[15.0, 35.0], [23.0, 51.0]]
    g = opt_einsum.contract_expression("ij,jk->ik", (2, 2), (2, 2))
    assert jax.jit(g)(x, x).tolist() == (x @ x).tolist()
    h = opt_einsum.contract_expression("ij,jk->ik", np.ones((2, 2)), (2, 2), constants=[0])
    assert jax.jit(lambda x: h(x))(x).tolist() == [[2.0, 4.0], [2.0, 4.0]]
    for text in ("ii->i", "ij->ji", "ij->"):
        assert jax.jit(lambda x: opt_einsum.contract(text, x))(x).tolist() == (
            np.einsum(text, np.asarray(x)).tolist()
        )
    assert isinstance(f(x), jax.Array)
"""


@pytest.mark.parametrize(
    "before",
    [
        "import teucer.compat, jax, jax.numpy as jnp",
        "import teucer as jax, teucer.numpy as jnp",
        "import opt_einsum, teucer as jax, teucer.numpy as jnp",
    ],
)
def test_opt_einsum_contracts(before):
    python(CONTRACTIONS, before=before + "\n")


def test_annotations_of_dataclasses_and_named_tuples_can_be_read():
    # pydantic reads the types of fields in the module that a class says.
    python("""
        import dataclasses, typing
        import jax
        from jax.experimental import layout, pallas as pl
        from jax.experimental.pallas import fuser, tpu as pltpu
        for cls in (fuser.Fusion, layout.Layout, pl.BlockSpec, pl.GridSpec, pl.Slice,
                    pl.Buffered, pltpu.PrefetchScalarGridSpec, jax.stages.ArgInfo):
            hints = typing.get_type_hints(cls)
            fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
            assert hints and all(not isinstance(f.type, str) for f in fields), (cls, fields)
        assert typing.get_type_hints(fuser.Fusion)["strict_mode"] is bool
    """)
