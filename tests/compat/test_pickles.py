"""Pickles under the alias: those of JAX are read (tests/data/make_jax_pickles.py made them), and ours name JAX's modules."""

from pathlib import Path

from compat_process import python

DATA = Path(__file__).parent.parent / "data" / "jax_0_10_2.pickles"
MADE = DATA.with_name("make_jax_pickles.py").read_text()
OBJECTS = MADE[:MADE.index("with open")] + """
def same(found):
    assert all(found[name] == OBJECTS[name] for name in ("p", "s", "d", "t", "k", "mesh", "u"))
    for name in ("x", "w"):
        assert isinstance(found[name], jax.Array) and found[name].dtype == OBJECTS[name].dtype
        assert found[name].weak_type == OBJECTS[name].weak_type
        assert np.array_equal(found[name], OBJECTS[name])
    assert found["part"](np.ones(2)).tolist() == [2.0, 2.0]
    assert found["q"][1] == jnp.int4
    assert found["q"][0].shape == (2, 2)
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
assert jax.random.key_data(key).tolist() == [0, 3]
assert pickle.loads(pickle.dumps(jnp.ones(2), protocol=2)).tolist() == [1, 1]
""")


def test_pickles_of_teucer_are_read_under_the_alias(tmp_path):
    path = tmp_path / "plain.pickle"
    python(f"""
import pickle, teucer, teucer.numpy as jnp
tree, struct = teucer.tree.structure((1, 2)), teucer.ShapeDtypeStruct((2,), "int32")
values = jnp.ones(2), teucer.P("x"), tree, struct
pickle.dump(values, open({str(path)!r}, "wb"))
""", before="")
    python(f"""
import pickle, jax
x, spec, tree, struct = pickle.load(open({str(path)!r}, "rb"))
assert x.tolist() == [1, 1]
assert spec == jax.P("x")
assert tree == jax.tree.structure((1, 2))
assert struct.shape == (2,)
""")
