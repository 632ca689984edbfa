"""Parts of references, `ref.at[...]`, are arguments of transformed functions like references."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.sharding import AxisType
from teucer.sharding import PartitionSpec as P

START = np.arange(12.0, dtype=np.float32).reshape(3, 4)

PARTS = {
    "row": lambda r: r.at[0],
    "from the end": lambda r: r.at[-1],
    "window": lambda r: r.at[:, 1:3],
    "steps": lambda r: r.at[::2],
    "element": lambda r: r.at[1, 2],
    "of a part": lambda r: r.at[0].at[1:3],
    "traced": lambda r: r.at[jnp.int32(1)],
    "dynamic": lambda r: r.at[jax.ds(jnp.int32(1), 2)],
    "array": lambda r: r.at[jnp.array([0, 2])],
    "mask": lambda r: r.at[np.array([True, False, True])],
    "reshaped": lambda r: r.reshape(2, 6).at[1],
    "transposed": lambda r: r.transpose(1, 0).at[0],
}


def increased(part):
    part[...] += 1
    return part[...].sum()


CALLS = {
    "jit": lambda f, r: jax.jit(f)(r),
    "cond": lambda f, r: lax.cond(True, f, lambda r: 0.0, r),
    "switch": lambda f, r: lax.switch(1, [lambda r: 0.0, f], r),
    "checkpoint": lambda f, r: jax.checkpoint(f)(r),
    "shard_map": lambda f, r: jax.shard_map(
        f,
        mesh=jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,)),
        in_specs=P(),
        out_specs=P(),
    )(r),
    "fori_loop": lambda f, r: lax.fori_loop(0, 1, lambda i, c: c + f(r), 0.0),
    "tree": lambda f, r: jax.jit(lambda t: f(t["a"][0]))({"a": (r, 3.0)}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
def test_parts_are_arguments(call, part, staged):
    """The call does what its function does to the part."""

    def run(x, apply):
        ref = jax.new_ref(x)
        return apply(increased, PARTS[part](ref)), ref[...]

    expected = run(START, lambda f, r: f(r))
    wrapped = lambda x: run(x, CALLS[call])
    found = (jax.jit(wrapped) if staged else wrapped)(START)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_parts_alike_are_traced_once():
    traced = []

    @jax.jit
    def f(part):
        traced.append(part.shape)
        return part[...]

    ref = jax.new_ref(START)
    for i in range(3):
        np.testing.assert_array_equal(f(ref.at[jnp.int32(i)]), START[i])
    f(ref.at[:2])
    assert traced == [(4,), (2, 4)]


@pytest.mark.parametrize(
    "call",
    [
        lambda r: jax.vmap(increased)(r.at[0]),
        lambda r: lax.scan(lambda c, x: (c, x[...]), 0.0, r.at[0]),
        lambda r: jax.shard_map(
            lambda q: q[...], mesh=jax.make_mesh((1,), ("x",)), in_specs=P("x"), out_specs=P("x")
        )(r.at[0]),
    ],
    ids=["vmap", "scan", "shard_map"],
)
def test_parts_are_not_mapped_over(call):
    with pytest.raises(TypeError, match="TransformedRefs are not allowed, but got a Transf"):
        call(jax.new_ref(START))


def test_two_parts_of_one_reference_are_named():
    ref = jax.new_ref(START)
    with pytest.raises(ValueError, match=r"only one reference .* at both a\.ref and b\.ref"):
        jax.jit(lambda a, b: a[...] + b[...])(ref.at[0], ref.at[1])


def test_one_reference_twice_is_refused_by_vjp():
    ref = jax.new_ref(START)
    with pytest.raises(ValueError, match="only one reference .* both a and b"):
        jax.vjp(lambda a, b: a[...] + b[...], ref, ref)


def test_shard_map_may_infer_in_specs():
    with jax.set_mesh(jax.make_mesh((1,), ("x",))):
        x = jax.device_put(START, P("x"))
        f = jax.shard_map(lambda x: x * 2, out_specs=P("x"))
        np.testing.assert_array_equal(f(x), START * 2)


@pytest.mark.parametrize("way", [lambda f: f, jax.jit])
def test_parts_are_printed(way, capfd):
    ref = jax.new_ref(jnp.arange(8.0).reshape(2, 4))
    way(lambda i: jax.debug.print("{} {}", ref.at[i], ref.at[0, 1:3]))(1)
    jax.effects_barrier()
    assert capfd.readouterr().out == "[4. 5. 6. 7.] [1. 2.]\n"


def test_trees_with_parts_take_other_leaves():
    ref = jax.new_ref(jnp.arange(8.0).reshape(2, 4))
    changed = jax.tree.map(lambda x: "leaf", {"a": ref.at[1, jnp.int32(2)]})
    assert repr(changed) == "{'a': View(ref[1,leaf], 'leaf')}"
