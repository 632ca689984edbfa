"""Pickles under the alias.

Those of JAX are read (tests/data/make_jax_pickles.py made them), and ours name JAX's modules.
"""

from pathlib import Path

import pytest
from compat_process import python

DATA = Path(__file__).parent.parent / "data" / "jax_0_10_2.pickles"
MADE = DATA.with_name("make_jax_pickles.py").read_text()
OBJECTS = (
    MADE[: MADE.index("with open")]
    + """
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
)


def test_pickles_of_jax_are_read():
    python(
        OBJECTS
        + (
            f"same({{name: pickle.loads(text) for name, text in pickle.load(open({str(DATA)!r}, "
            "'rb')).items()})"
        )
    )


def test_pickles_name_the_modules_of_jax():
    python(
        OBJECTS
        + """
written = {name: pickle.dumps(value) for name, value in OBJECTS.items()}
assert not any(b"teucer" in text for text in written.values())
same({name: pickle.loads(text) for name, text in written.items()})
key = pickle.loads(pickle.dumps(jax.random.key(3)))
assert jax.random.key_data(key).tolist() == [0, 3]
assert pickle.loads(pickle.dumps(jnp.ones(2), protocol=2)).tolist() == [1, 1]
"""
    )


# What JAX 0.10.2 wrote of a key's dtype and of types, without what repeats.
TYPES = """
import copyreg, functools, pickle, jax, jax.numpy as jnp
from jax._src import core, mesh, named_sharding
from jax._src.random import prng, threefry2x32 as fry

class Written:
    def __init__(self, *how):
        self.how = how
    def __reduce__(self):
        return self.how

make, make_ex = functools.partial(copyreg.__newobj__), functools.partial(copyreg.__newobj_ex__)
steps = fry.threefry_seed, fry.threefry_split, fry.threefry_random_bits, fry.threefry_fold_in
impl = Written(make, (prng.PRNGImpl, (2,), *steps, "threefry2x32", "fry"))
key_dtype = Written(make, (prng.KeyTy,), {"_impl": impl})
no_mesh = mesh.AbstractMesh((), (), ())
whole = Written(named_sharding._unpickle_named_sharding, (no_mesh, jax.P(None, None), None, None))
space = Written(core.MemorySpace, (1,))

def aval(shape, dtype, weak, **said):
    sets = dict.fromkeys(("varying", "unreduced", "reduced"), frozenset())
    manual = Written(make_ex, (core.ManualAxisType, (), sets))
    return Written(make_ex, (core.ShapedArray, (shape, dtype, weak), {
        "manual_axis_type": manual, "memory_space": space, **said}))
"""


def test_types_that_jax_wrote_are_read():
    python(
        TYPES
        + """
key = jax.random.key(0)
matrix = aval((2, 3), jnp.dtype("float32"), True, sharding=whole)
found = pickle.loads(pickle.dumps([key_dtype, aval((), key_dtype, False), matrix]))
assert found[0] == key.dtype and hash(found[0]) == hash(key.dtype) and found[1] == jax.typeof(key)
assert found[2] is core.ShapedArray((2, 3), jnp.dtype("float32"), True)
"""
    )


@pytest.mark.parametrize(
    "before", ["", "from jax._src.random import prng"]
)  # which loads the module of keys from within
def test_types_are_written_as_jax_reads_them(before):
    python(
        before
        + """
import pickle, jax, jax.experimental.layout, jax.numpy as jnp
key = jax.random.key(0, impl="rbg")
values = [key.dtype, jax.typeof(key), jax.typeof(1.0), jax.typeof(jnp.ones((2, 3))),
          jax.memory.Space.Host]
kinds = jax.sharding.AxisType
mesh = jax.sharding.AbstractMesh((2, 2), ("x", "y"), (kinds.Explicit, kinds.Manual))
said = {"sharding": jax.NamedSharding(mesh, jax.P("x")), "vma": frozenset({"y"}),
        "memory_space": jax.memory.Space.Host, "weak_type": True}
for chosen in range(2 ** len(said)):
    some = {name: value for i, (name, value) in enumerate(said.items()) if chosen >> i & 1}
    values.append(jax.typeof(jnp.ones(2)).update(**some))
laid = jax.experimental.layout.Format(jax.experimental.layout.Layout((0,)), said["sharding"])
manual = jax.typeof(jnp.ones(2)).update(vma=said["vma"]).manual_axis_type
said = {"sharding": said["sharding"], "weak_type": True, "is_ref": True, "manual_axis_type": manual}
for name, value in said.items():
    values.append(jax.ShapeDtypeStruct((2,), jnp.int32, **{name: value}))
values += [jax.ShapeDtypeStruct((2,), jnp.int32), jax.ShapeDtypeStruct((2,), jnp.int32, **said),
           jax.ShapeDtypeStruct((2,), jnp.int32, sharding=jax.P("x")),
           jax.ShapeDtypeStruct((2,), jnp.int32, sharding=laid)]
written = pickle.dumps(values)
assert b"teucer" not in written
for found, value in zip(pickle.loads(written), values, strict=True):
    assert found == value, (found, value)
"""
    )


def test_pickles_of_teucer_are_read_under_the_alias(tmp_path):
    path = tmp_path / "plain.pickle"
    python(
        f"""
import pickle, teucer, teucer.numpy as jnp
tree, struct = teucer.tree.structure((1, 2)), teucer.ShapeDtypeStruct((2,), "int32")
values = jnp.ones(2), teucer.P("x"), tree, struct
pickle.dump(values, open({str(path)!r}, "wb"))
""",
        before="",
    )
    python(f"""
import pickle, jax
x, spec, tree, struct = pickle.load(open({str(path)!r}, "rb"))
assert x.tolist() == [1, 1]
assert spec == jax.P("x")
assert tree == jax.tree.structure((1, 2))
assert struct.shape == (2,)
""")
