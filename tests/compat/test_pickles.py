"""Pickles under the alias: those of JAX are read (tests/data/make_jax_pickles.py made them), and ours name JAX's modules."""

from pathlib import Path

from compat_process import python

DATA = Path(__file__).parent.parent / "data" / "jax_0_10_2.pickles"
OBJECTS = """
import pickle, re
import jax, jax.numpy as jnp, numpy as np
OBJECTS = {
    "p": jax.P("x", None, ("y", "z")), "s": jax.ShapeDtypeStruct((2,), "float32", weak_type=True),
    "t": jax.tree.structure({"a": (1, 2), "b": None}), "x": jnp.arange(3, dtype="bfloat16"), "w": jnp.asarray(2.0),
    "d": jnp.dtype("bfloat16"), "k": jnp.bfloat16, "part": jax.tree_util.Partial(np.add, jnp.ones(2)),
    "q": (jnp.ones((2, 2), jnp.complex64), jnp.int4),
    "keys": [jax.random.split(jax.random.key(3, impl=impl)) for impl in ("threefry2x32", "rbg", "unsafe_rbg")],
    "mesh": jax.sharding.NamedSharding(
        jax.sharding.AbstractMesh((2,), ("x",), (jax.sharding.AxisType.Auto,),
                                  abstract_device=jax.sharding.AbstractDevice("cpu", None, "cpu")), jax.P("x", None)),
    "u": jax.P(jax.P.UNCONSTRAINED)}

def same(found):
    assert all(found[name] == OBJECTS[name] for name in ("p", "s", "d", "t", "k", "mesh", "u"))
    for name in ("x", "w"):
        assert isinstance(found[name], jax.Array) and found[name].dtype == OBJECTS[name].dtype
        assert found[name].weak_type == OBJECTS[name].weak_type and np.array_equal(found[name], OBJECTS[name])
    assert found["part"](np.ones(2)).tolist() == [2.0, 2.0] and found["q"][1] == jnp.int4 and found["q"][0].shape == (2, 2)
    for found, key in zip(found["keys"], OBJECTS["keys"], strict=True):
        assert found.dtype == key.dtype and isinstance(found, jax.Array)
        assert np.array_equal(jax.random.key_data(found), jax.random.key_data(key))
        assert (jax.vmap(jax.random.normal)(found) == jax.vmap(jax.random.normal)(key)).all()
"""


def test_pickles_of_jax_are_read():
    python(OBJECTS + f"same({{name: pickle.loads(text) for name, text in pickle.load(open({str(DATA)!r}, 'rb')).items()}})")


def test_pickles_name_the_modules_of_jax():
    python(OBJECTS + """
written = {name: pickle.dumps(value) for name, value in OBJECTS.items()}
assert not any(b"teucer" in text for text in written.values())
same({name: pickle.loads(text) for name, text in written.items()})
key = pickle.loads(pickle.dumps(jax.random.key(3)))
assert jax.random.key_data(key).tolist() == [0, 3] and pickle.loads(pickle.dumps(jnp.ones(2), protocol=2)).tolist() == [1, 1]
""")


def test_pickles_of_teucer_are_read_under_the_alias(tmp_path):
    path = tmp_path / "plain.pickle"
    python(f"""
import pickle, teucer, teucer.numpy as jnp
values = jnp.ones(2), teucer.P("x"), teucer.tree.structure((1, 2)), teucer.ShapeDtypeStruct((2,), "int32")
pickle.dump(values, open({str(path)!r}, "wb"))
""", before="")
    python(f"""
import pickle, jax
x, spec, tree, struct = pickle.load(open({str(path)!r}, "rb"))
assert x.tolist() == [1, 1] and spec == jax.P("x") and tree == jax.tree.structure((1, 2)) and struct.shape == (2,)
""")
