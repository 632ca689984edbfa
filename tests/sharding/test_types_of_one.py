"""Types with sizes of 1 over Explicit mesh axes are JAX's.

The golden types are made by tests/data/make_sharding_types_of_one.py.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.sharding import AxisType, NamedSharding, PartitionSpec

P = jax.P
GOLDEN = json.loads(
    (Path(__file__).parent.parent / "data" / "sharding_types_of_one.json").read_text()
)
TYPES, OF_0_10 = GOLDEN["types"], GOLDEN["jax 0.10.2"]
MESH = jax.make_mesh((1, 2), ("x", "y"))
# Where JAX 0.12.0.1 gives another type, in one of its cases or in all with these words.
OTHER = {
    "lax.clamp(a,b,a)": "as in arithmetic; JAX takes the sharding of the middle operand",
    "lax.conv(a,b,(1,1),'SAME'),A((8,4,8,8)),": "features of the kernel become the result's",
    "jnp.diag(a)": "rows are masked, not columns",
    "a.at[0].set(1.)": "one place of one is all: a value made anew, that nothing partitions",
    "jnp.repeat(": "repeats are an axis, which is merged",
    "jax.vmap(lambda c:c.reshape(-1))": "a reshape does not know which axis is the batch's",
}


def struct(dtype):
    return lambda shape, *spec: jax.ShapeDtypeStruct(
        shape, dtype, sharding=NamedSharding(MESH, P(*spec))
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


def agrees(case):
    """Whether our types are JAX's of either release. Where JAX refuses, ours may be any."""
    wanted = [TYPES[case], OF_0_10.get(case, TYPES[case])]
    try:
        found = eval(f"types_of({case})", {**NAMES, "types_of": types_of})
    except Exception:  # of whatever class JAX raises
        return any(isinstance(types, str) for types in wanted)
    return found in wanted or isinstance(TYPES[case], str)


@pytest.mark.parametrize(
    "part", [0, *[pytest.param(i, marks=pytest.mark.slow) for i in range(1, 12)]]
)
def test_types_are_those_of_jax(part):
    with jax.set_mesh(MESH):
        wrong = [case for case in list(TYPES)[part::12] if not agrees(case)]
    assert [case for case in wrong if not any(words in case for words in OTHER)] == []


def test_exceptions_are_needed():
    with jax.set_mesh(MESH):
        wrong = [
            case for case in TYPES if any(words in case for words in OTHER) and not agrees(case)
        ]
    assert [words for words in OTHER if not any(words in case for case in wrong)] == []


def test_an_axis_of_size_1_keeps_its_mesh_axis_through_a_reshape():
    with jax.set_mesh(MESH):
        x = jax.device_put(np.arange(512.0, dtype=np.float32).reshape(1, 512), P("x", "y"))

        @jax.jit
        def f(x):
            y = x.reshape(1, 4, 128)
            assert jax.typeof(y).sharding.spec == P("x", "y", None)
            assert jax.typeof(jnp.sum(y, 1, keepdims=True)).sharding.spec == P("x", None, None)
            return y

        np.testing.assert_array_equal(f(x).reshape(-1), np.arange(512.0))


def test_a_type_says_what_its_manual_axes_say():
    """In a program over manual axes: over which a value varies, and over which it is summed."""
    seen = []

    def f(x):
        whole = NamedSharding(jax.sharding.get_abstract_mesh(), P(None))
        for name in ("varying", "unreduced", "reduced"):
            said = jax.sharding.ManualAxisType(**{name: frozenset({"y"})})
            aval = jax.core.ShapedArray((3,), np.float32, sharding=whole, manual_axis_type=said)
            assert aval.manual_axis_type == said
            plain = jax.core.ShapedArray((3,), np.float32)
            assert plain.update(sharding=whole, manual_axis_type=said) is aval
            assert plain.update_manual_axis_type(said) is aval
            seen.append(str(aval))
        return x

    jax.shard_map(f, mesh=MESH, in_specs=P(), out_specs=P())(np.ones(3, np.float32))
    assert seen == ["float32[3]{V:y}", "float32[3]{U:y}", "float32[3]{R:y}"]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_shard_map_refuses_what_is_not_laid_out_as_in_specs_say(wrap):
    x = np.ones(4, np.float32)
    f = wrap(jax.shard_map(lambda v: v, mesh=MESH, in_specs=P("y"), out_specs=P("y")))
    for given in (x, jnp.ones(4), jax.device_put(x, NamedSharding(MESH, P()))):
        with pytest.raises(ValueError, match=r"in_specs passed to shard_map: .* does not match"):
            f(given)
    np.testing.assert_array_equal(f(jax.device_put(x, NamedSharding(MESH, P("y")))), x)
    auto = jax.make_mesh((1, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    g = wrap(jax.shard_map(lambda v: v, mesh=auto, in_specs=P("y"), out_specs=P("y")))
    np.testing.assert_array_equal(g(x), x)


def test_device_put_refuses_a_spec_longer_than_the_rank():
    one = jax.make_mesh((1,), ("x",))
    for mesh in (one, MESH):
        where = NamedSharding(mesh, PartitionSpec("x", None))
        for x in (np.ones(4), jnp.ones(4)):
            with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
                jax.device_put(x, where)


def test_a_gather_and_its_gradient_where_indices_are_laid_out():
    mesh = jax.make_mesh((2,), ("s",))
    where = NamedSharding(mesh, P("s"))
    with jax.set_mesh(mesh):
        table, i = jnp.ones((4, 2)), jax.device_put(jnp.arange(4) % 2, where)
        slope = jax.jit(jax.grad(lambda t: (t[i, :] ** 2).sum()))(table)
        assert jax.typeof(slope) == jax.typeof(table)
        np.testing.assert_array_equal(slope, [[4, 4], [4, 4], [0, 0], [0, 0]])
    rows = jax.device_put(np.arange(32).reshape(4, 8), NamedSharding(mesh, P(None, "s")))
    ids = jax.device_put(np.zeros((4, 2), np.int32), NamedSharding(mesh, P("s", None)))
    assert np.all(np.asarray(jax.jit(lambda m, ids: m[2, ids])(rows, ids)) == 16)
