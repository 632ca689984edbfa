"""What constructors of arrays, shardings and specs refuse, and what their messages say.

The texts that begin messages are those of JAX 0.10.2, which programs match.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from teucer.sharding import PartitionSpec as P

VALUE = np.arange(16, dtype=np.float32).reshape(8, 2)


def mesh(names="xy", step=1, kind=AxisType.Auto):
    grid = np.array(jax.devices()[::step]).reshape((4, 2) if len(names) == 2 else (8,))
    return Mesh(grid, tuple(names), axis_types=(kind,) * len(names))


def laid(*spec):
    return NamedSharding(mesh(), P(*spec))


def parts(sharding, dtype=np.float32):
    indices = sharding.addressable_devices_indices_map(VALUE.shape)
    return [jax.device_put(VALUE[i].astype(dtype), d) for d, i in indices.items()]


def deleted():
    own = parts(laid("x", "y"))
    own[0].delete()
    return own


def single(shape=(8, 2), arrays=None, sharding=None, **kwargs):
    sharding = laid("x", "y") if sharding is None else sharding
    return jax.make_array_from_single_device_arrays(
        shape, sharding, parts(sharding) if arrays is None else arrays(), **kwargs
    )


def own(change=lambda x: x):
    return lambda: change(parts(laid("x", "y")))


SINGLE = {
    "too few": ({"arrays": own(lambda x: x[:-1])}, ValueError, "Expected 8 per-device arrays"),
    "too many": ({"arrays": own(lambda x: x + x[:1])}, ValueError, "but got 9"),
    "one device twice": (
        {"arrays": own(lambda x: x[:-1] + x[:1])},
        ValueError,
        r"must be from distinct devices, but got device IDs \[0, 1, 2, 3, 4, 5, 6, 0\]",
    ),
    "another shape": (
        {"shape": (16, 2)},
        ValueError,
        r"Expected shard shape \(4, 1\) doesn't match the single device array shape \(2, 1\)",
    ),
    "another rank": ({"shape": (8, 2, 1)}, ValueError, r"Expected shard shape \(2, 1, 1\)"),
    "a rank too low": ({"shape": (8,)}, ValueError, "only valid for values of rank at least 2"),
    "not divisible": ({"shape": (9, 2)}, ValueError, "should evenly divide the shape"),
    "a size that is no int": ({"shape": (8.0, 2)}, TypeError, "Shapes must be 1D sequences"),
    "several dtypes": (
        {"arrays": own(lambda x: [x[0].astype(np.int32), *x[1:]])},
        ValueError,
        "must have matching dtypes. Got float32, expected int32",
    ),
    "another dtype said": (
        {"dtype": np.int32},
        ValueError,
        "Got dtype=int32 and shard dtype=float32",
    ),
    "no arrays, no dtype": ({"arrays": list}, ValueError, "`dtype` must be provided"),
    "of the host": (
        {"arrays": lambda: [VALUE[:2, :1]] * 8},
        TypeError,
        "Unsupported type for elements in `arrays`: <class 'numpy.ndarray'>",
    ),
    "no list": ({"arrays": lambda: iter(())}, TypeError, "must be a list or tuple"),
    "one array": ({"arrays": own(lambda x: x[0])}, TypeError, "must be a list or tuple"),
    "whole arrays": (
        {"arrays": lambda: [jax.device_put(VALUE, laid("x", "y"))] * 8},
        ValueError,
        r"must have one shard each. An argument array had 8 shard\(s\)",
    ),
    "deleted": ({"arrays": deleted}, RuntimeError, "Array has been deleted"),
    "of another device": (
        {
            "sharding": SingleDeviceSharding(jax.devices()[1]),
            "arrays": lambda: [jax.device_put(VALUE, jax.devices()[2])],
        },
        ValueError,
        r"contains devices \{1\} that are not present in per-device arrays",
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_arrays_that_are_no_parts_are_refused(name):
    given, error, text = SINGLE[name]
    with pytest.raises(error, match=text):
        single(**given)


def test_parts_may_come_in_any_order_and_dtype_may_be_said():
    for given in ({"arrays": own(lambda x: x[::-1])}, {"dtype": np.float32}, {"shape": [8, 2]}):
        np.testing.assert_array_equal(single(**given), VALUE)
    vector = NamedSharding(mesh("x"), P("x"))
    ones = [jax.device_put(np.ones(2, np.float32), d) for d in jax.devices()]
    assert jax.make_array_from_single_device_arrays(16, vector, ones).shape == (16,)


def test_traced_values_are_no_parts():
    with pytest.raises(ValueError, match="requires a list of concrete arrays as input"):
        jax.jit(lambda x: single(arrays=lambda: [x] * 8))(VALUE[:2, :1])


CALLBACK = {
    "another shape": (lambda i: VALUE, {}, ValueError, r"Expected shard shape \(2, 1\)"),
    "a number": (lambda i: 1.0, {}, ValueError, r"array shape \(\)"),
    "another dtype said": (
        lambda i: VALUE[i],
        {"dtype": np.int32},
        ValueError,
        "Got dtype=int32 and shard dtype=float32",
    ),
    "a list": (lambda i: VALUE[i].tolist(), {"dtype": np.float32}, TypeError, "not a valid JAX"),
    "nothing": (lambda i: None, {"dtype": np.float32}, TypeError, "not a valid JAX type"),
    "several dtypes": (
        lambda i: VALUE[i].astype(np.float16 if i[0].start else np.float32),
        {},
        ValueError,
        "must have matching dtypes. Got float16, expected float32",
    ),
}


@pytest.mark.parametrize("name", CALLBACK)
def test_callbacks_that_give_no_parts_are_refused(name):
    callback, given, error, text = CALLBACK[name]
    with pytest.raises(error, match=text):
        jax.make_array_from_callback((8, 2), laid("x", "y"), callback, **given)


def test_callbacks_may_give_arrays_of_any_device():
    found = jax.make_array_from_callback(
        (8, 2), laid("x", "y"), lambda i: jax.device_put(VALUE[i], jax.devices()[3]), np.float32
    )
    np.testing.assert_array_equal(found, VALUE)


SPECS = {
    "unreduced is text": (lambda: P(unreduced="x"), TypeError, "should of type `frozenset`"),
    "reduced is a tuple": (lambda: P(reduced=("x",)), TypeError, "should of type `frozenset`"),
    "unreduced over none": (lambda: P(unreduced={None}), ValueError, "cannot contain None"),
    "both": (lambda: P(unreduced={"x"}, reduced={"x"}), ValueError, "cannot overlap"),
    "tuples in tuples": (lambda: P((("x",), "y")), ValueError, "cannot contain a nested tuple"),
    "no spec": (lambda: NamedSharding(mesh(), None), TypeError, "Unexpected None"),
    "text": (lambda: NamedSharding(mesh(), "x"), TypeError, "spec must be a PartitionSpec"),
    "no mesh": (lambda: NamedSharding(jax.devices(), P()), TypeError, "mesh must be a Mesh"),
    "an unknown sum": (
        lambda: NamedSharding(mesh(kind=AxisType.Explicit), P(unreduced={"z"})),
        ValueError,
        "Unreduced axes z is not found in mesh.axis_names",
    ),
    "types of axes": (
        lambda: Mesh(np.array(jax.devices()), "x", axis_types={AxisType.Auto: "x"}),
        TypeError,
        "must be of type `jax.sharding.AxisType`",
    ),
    "a struct that lies nowhere": (
        lambda: jax.ShapeDtypeStruct((8,), np.float32, sharding="x"),
        ValueError,
        "sharding should be an instance of `jax.sharding.Sharding`",
    ),
    "put nowhere": (lambda: jax.device_put(VALUE, mesh()), ValueError, "Format.*Received invalid"),
}


@pytest.mark.parametrize("name", SPECS)
def test_what_is_no_sharding_is_refused(name):
    make, error, text = SPECS[name]
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("name", ["device_set", "is_fully_addressable", "addressable_devices"])
def test_a_mesh_without_devices_says_what_was_asked(name):
    with pytest.raises(ValueError, match="is not implemented for `jax.sharding.AbstractMesh`"):
        getattr(NamedSharding(mesh().abstract_mesh, P("x")), name)


def constrained(x, to=P("x"), names="xy"):
    where = NamedSharding(mesh(names).abstract_mesh, to)
    return jax.lax.with_sharding_constraint(x, where)


def test_constraints_without_devices_take_those_of_the_array():
    x = jax.device_put(VALUE, laid())
    assert constrained(x).sharding.is_equivalent_to(laid("x"), 2)
    with pytest.raises(ValueError, match="requires the input passed should be a `jax.Array`"):
        constrained(VALUE)
    with pytest.raises(TypeError, match="on the input must be a `NamedSharding`"):
        constrained(jnp.asarray(VALUE))
    with pytest.raises(ValueError, match="does not match the mesh shape of the target sharding"):
        constrained(x, P("a"), "a")


def test_devices_that_do_not_agree_are_named():
    """An argument, a result and each operation that names devices, with its line."""
    there = jax.device_put(VALUE, jax.devices()[2])
    named = r"argument x of f with shape float32\[8,2\] and with device ids \[2\]"
    inner = r"sharding_constraint inside jit with device ids \[{}.* at .*test_refusals"

    def f(x, to="x"):
        return jax.lax.with_sharding_constraint(x, laid(to))

    with pytest.raises(ValueError, match=f"{named}.* and {inner.format('0, 1')}"):
        jax.jit(f)(there)
    with pytest.raises(
        ValueError, match=rf"explicit output sharding with device ids \[2\].*{inner.format('0, 1')}"
    ):
        jax.jit(f, device=jax.devices()[2])(VALUE)
    with pytest.raises(ValueError, match=rf"explicit output.* \[2\].*{inner.format('0, 1')}"):
        jax.jit(lambda: f(jnp.ones((8, 2))), device=jax.devices()[2])()
    at = [SingleDeviceSharding(d) for d in jax.devices()[3:5]]
    with pytest.raises(ValueError, match=f"{inner.format(3)}.*{inner.format(4)}"):
        jax.jit(lambda x: [jax.lax.with_sharding_constraint(x, s) for s in at])(VALUE)
    with pytest.raises(ValueError, match=r"argument 0 of sharding_constraint.*ids \[2\]"):
        jax.lax.with_sharding_constraint(there, laid("x"))


def test_structs_are_no_values():
    struct = jax.ShapeDtypeStruct((4, 2), np.int32)
    with pytest.raises(
        TypeError, match=r"Argument 'x\['b'\]\['c'\]' of shape int32\[4,2\] of type .*ShapeDtypeStr"
    ):
        jax.jit(lambda x: x)({"a": VALUE, "b": {"c": struct}})
    with pytest.raises(TypeError, match="A ShapeDtypeStruct does not have a value"):
        jax.jit(lambda x: (x, struct))(VALUE)


def test_shard_map_over_a_mesh_without_devices_takes_those_of_arrays():
    def mapped(x, names="xy"):
        over = mesh(names).abstract_mesh
        return jax.shard_map(lambda x: x, mesh=over, in_specs=P(names[0]), out_specs=P(names[0]))(x)

    assert (mapped(jax.device_put(VALUE, laid("x"))) == VALUE).all()
    for given in (VALUE, jnp.asarray(VALUE)):
        with pytest.raises(ValueError, match="Please pass `jax.Array`s with a `NamedSharding`"):
            mapped(given)
    with pytest.raises(ValueError, match="does not match the mesh shape passed to shard_map"):
        mapped(jax.device_put(VALUE, laid("x")), "a")


@pytest.mark.parametrize("beside", [VALUE, jnp.asarray(VALUE)], ids=["numpy", "uncommitted"])
def test_values_beside_an_array_go_where_it_is(beside):
    def mapped(*args):
        over = mesh("xy").abstract_mesh
        return jax.shard_map(lambda *xs: xs, mesh=over, in_specs=P("x"), out_specs=P("x"))(*args)

    x = jax.device_put(VALUE, laid("x"))
    for out in (*mapped(x, beside), *mapped(beside, x)):
        assert (out == VALUE).all() and out.sharding == laid("x")
    with pytest.raises(ValueError, match="Please pass `jax.Array`s with a `NamedSharding`"):
        mapped(x, jax.device_put(VALUE, jax.devices()[0]))


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like"])
def test_arrays_like_others_say_all_axes(name):
    """As those that zeros, ones and full make."""
    over = mesh(kind=AxisType.Explicit)
    with jax.set_mesh(over):
        x = getattr(jnp, name)(VALUE, *([1.0] if name == "full_like" else []), out_sharding=P("x"))
    assert x.sharding == NamedSharding(over, P("x", None))


@pytest.mark.parametrize("op", ["set", "add", "max", "multiply"])
def test_updates_take_bools_of_python_without_promotion(op):
    with jax.numpy_dtype_promotion("strict"):
        assert getattr(jnp.arange(3).at[1], op)(True).dtype == np.int32
        with pytest.raises(Exception, match="no available implicit dtype promotion path"):
            getattr(jnp.arange(3).at[1], op)(np.float32(1))
