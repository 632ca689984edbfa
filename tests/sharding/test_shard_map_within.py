"""What a function may do under shard_map, and what may be done with it.

References, calls of Python, vmap over Explicit axes.
"""

import functools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax
from teucer.sharding import AxisType, NamedSharding


@pytest.fixture
def mesh():
    return jax.make_mesh((4,), ("x",), (AxisType.Auto,), devices=jax.devices()[:4])


def test_references(mesh):
    """Made within, given, closed over; read and written as the parts of arrays are."""
    x = jnp.arange(8.0)
    sharded = functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))

    def within(x):
        ref = jax.new_ref(x)
        ref[...] *= lax.psum(ref[...].sum(), "x")
        ref[0] += lax.axis_index("x") * 1.0
        return ref[...]

    expected = np.arange(8.0) * 28 + np.repeat(np.arange(4), 2) * (np.arange(8) % 2 == 0)
    np.testing.assert_allclose(jax.jit(sharded(within))(x), expected)
    np.testing.assert_allclose(
        jax.pmap(lambda x: within(x), axis_name="x")(x.reshape(4, 2)).reshape(8), expected
    )
    ref = jax.new_ref(x)
    assert sharded(lambda r: r.__setitem__(..., r[...] * 2), out_specs=None)(ref) is None
    np.testing.assert_allclose(ref[...], 2 * np.arange(8))

    def around(x):
        ref = jax.new_ref(x)
        y = sharded(lambda r: r.__setitem__(..., r[...] ** 2) or r[...].sum()[None])(ref)
        return y.sum() + ref[...].sum()

    np.testing.assert_allclose(jax.jit(jax.grad(around))(x), 4 * np.arange(8))
    with pytest.raises(
        ValueError,
        match=r"(?s)what is written to a reference differs.*Name the axes \['x'\] in in_specs",
    ):
        sharded(
            lambda r: r.__setitem__(..., r[...] + lax.axis_index("x")), in_specs=P(), out_specs=None
        )(ref)
    with pytest.raises(ValueError, match="Eager shard_map cannot return a `jax.Ref`"):
        sharded(within)(x)


def test_python_is_called_on_each_device_of_a_partly_manual_function():
    mesh = jax.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=jax.devices()[:4])
    seen = []
    f = jax.shard_map(
        lambda x: jax.debug.callback(lambda v: seen.append(float(v)), x.sum()) or x * 2,
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names={"x"},
    )
    np.testing.assert_allclose(jax.jit(f)(jnp.arange(4.0)), 2 * np.arange(4))
    jax.effects_barrier()
    assert set(seen) == {1.0, 5.0}


def test_vmap_over_an_explicit_mesh_axis():
    """The batch stays divided: over a manual axis by hand, over another one in the types of the
    parts."""
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    value = np.arange(16, dtype=np.float32).reshape(4, 4)
    x = jax.device_put(value, NamedSharding(mesh, P("x", "y")))
    with jax.set_mesh(mesh):
        for names in (frozenset(), {"y"}):
            total = jax.vmap(
                jax.shard_map(
                    lambda r: lax.psum(r, "y"), in_specs=P("y"), out_specs=P(), axis_names=names
                )
            )
            for f in (total, jax.jit(total)):
                y = f(x)
                assert jax.typeof(y).sharding.spec == P("x", None)
                np.testing.assert_allclose(y, value[:, :2] + value[:, 2:])
        assert jax.grad(lambda x: jax.vmap(jax.jit(jnp.sin))(x).sum())(x).sharding == x.sharding
        column = jax.reshard(x, P("x"))[:, 0]
        assert jax.vmap(lambda r: jnp.zeros(4), out_axes=-1)(column).sharding.spec == P(None, "x")
        for call, match in [
            (lambda: jax.vmap(jnp.add, (0, 1))(x, x), "should be sharded the same"),
            (
                lambda: jax.vmap(jnp.sin, spmd_axis_name="y")(x),
                "Only one of spmd_axis_name or arrays",
            ),
            (
                lambda: jax.vmap(jnp.add, (0, None))(x, column),
                "Unmapped values passed to vmap cannot be sharded",
            ),
        ]:
            with pytest.raises(ValueError, match=match):
                call()
        smapped = jax.smap(lambda r: r * 2, in_axes=1, out_axes=0, axis_name="x")
        np.testing.assert_allclose(smapped(x), 2 * np.concatenate([value[:, :2], value[:, 2:]]))


def test_a_batch_is_not_divided_over_an_axis_that_the_function_speaks_of():
    """Without types a derivative sums over the axis, which then is no axis of the batch."""
    mesh = jax.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=jax.devices()[:4])
    f = jax.shard_map(
        lambda x: jnp.sin(x.sum()), mesh=mesh, in_specs=P("y"), out_specs=P(), check_vma=False
    )
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(f), spmd_axis_name="x")(x), jax.vmap(jax.grad(f))(x)
    )
    with pytest.raises(ValueError, match="contains manual axes"):
        jax.set_mesh(jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",), (AxisType.Manual,)))


def test_carries_and_branches_that_vary_are_named():
    """Each component with the cast that it needs."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    v = jnp.arange(8.0)

    def swaps(x, y, z):
        return lax.scan(lambda c, _: ((c[2], c[0], c[1]), None), (x, y, z), None, length=2)[0]

    both = P(("x", "y"))
    said = [
        r"component c\[0\] has type float32\[2\]\{V:x\} .* float32\[2\]\{V:\(x,y\)\}",
        r"pcast\(..., \('y',\), to='varying'\)` to the .* input carry component c\[0\]",
        r"pcast\(..., \('x',\), to='varying'\)` to the .* input carry component c\[1\]",
    ]
    with pytest.raises(TypeError, match="(?s)" + ".*".join(said)):
        jax.shard_map(swaps, mesh=mesh, in_specs=(P("x"), P(), both), out_specs=both)(
            v, v[:2], jnp.arange(16.0)
        )
    branches = jax.shard_map(
        lambda x: lax.cond(True, lambda: {"a": v[:2], "b": x}, lambda: {"a": x, "b": x}),
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    with pytest.raises(
        TypeError, match=r"fixed by .*\('x',\), to='varying'\)` to the output of .* at path \['a'\]"
    ):
        jax.jit(branches)(v)
