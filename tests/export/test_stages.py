"""The stages of jit: what can be asked of each, what their calls refuse, and executables as bytes."""

import functools
import pickle
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export
from teucer._xla.client import jaxlib_version
from teucer.experimental import serialize_executable
from teucer.experimental.layout import Format, Layout

X = np.ones((2, 3), np.float32)


def g(x, *, scale=2.0):
    return jnp.sin(x) * scale, {"a": x}


def test_text_of_the_lowered():
    lowered = jax.jit(g).lower(X)
    # As JAX 0.10.2 prints it.
    assert (
        lowered.as_text()
        == """\
module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32> {jax.result_info = "result[0]"}, \
tensor<2x3xf32> {jax.result_info = "result[1]['a']"}) {
    %0 = stablehlo.sine %arg0 : tensor<2x3xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<2x3xf32>
    return %2, %arg0 : tensor<2x3xf32>, tensor<2x3xf32>
  }
}
"""
    )
    assert "test_stages.py" in lowered.as_text(debug_info=True)
    assert "module @jit__lambda " in jax.jit(lambda x: x).lower(X).as_text()
    assert lowered.as_text("hlo").startswith("HloModule jit_g, entry_computation_layout=")
    assert "ROOT" in lowered.compiler_ir("hlo").as_hlo_text() and "stablehlo.sine" in str(
        lowered.compiler_ir()
    )
    assert str(lowered.compiler_ir()) == lowered.as_text()
    for method in (lowered.as_text, lowered.compiler_ir):
        with pytest.raises(ValueError, match="unknown dialect: foo"):
            method("foo")


def test_what_each_stage_tells():
    traced = jax.jit(g, donate_argnums=0).trace(X, scale=3.0)
    lowered = traced.lower()
    compiled = lowered.compile()
    for stage in (traced, lowered, compiled):
        assert (
            str(stage.in_avals)
            == "((ShapedArray(float32[2,3]),), {'scale': ShapedArray(float32[], weak_type=True)})"
        )
        assert stage.donate_argnums == (0,) and stage.in_tree == jax.tree.structure(
            ((0,), {"scale": 0})
        )
        assert stage.out_tree == jax.tree.structure((0, {"a": 0})) and stage.args_info[0][0].donated
        assert [s.shape for s in jax.tree.leaves(stage.out_info)] == [(2, 3), (2, 3)]
        infos = jax.tree.leaves(stage.args_info)  # they are leaves
        assert [(a.shape, a.donated) for a in infos] == [((2, 3), True), ((), False)]
        assert repr(infos[0]) == "ArgInfo(_aval=ShapedArray(float32[2,3]), donated=True)"
    weak = jax.jit(lambda x: x * 2).trace(1.0)
    assert [stage.out_info.weak_type for stage in (weak, weak.lower(), weak.lower().compile())] == [
        True,
        False,
        False,
    ]
    assert (
        traced.fun_name == "g"
        and "sin" in str(traced.jaxpr)
        and traced(X, scale=3.0)[1]["a"].shape == (2, 3)
    )
    assert (
        lowered.cost_analysis()["transcendentals"] == 6
        and compiled.cost_analysis()["transcendentals"] == 6
    )
    assert (
        compiled.memory_analysis().argument_size_in_bytes == 28
        and compiled.runtime_executable() is not None
    )
    assert "HloModule jit_g" in compiled.as_text()
    assert (
        compiled.input_shardings[0][0]
        == compiled.output_shardings[0]
        == compiled.out_info[0].sharding
    )
    assert compiled.input_formats[0][0] == Format(
        Layout((0, 1), ()), compiled.input_shardings[0][0]
    )
    assert compiled.output_formats[1]["a"].layout.major_to_minor == (0, 1)


def test_stages_tell_where_results_are_to_be():
    mesh = jax.make_mesh(
        (2,), ("a",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2]
    )
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    split = jax.NamedSharding(mesh, jax.P("a"))
    columns = Format(Layout((1, 0)), here)
    for given, format in (
        (here, Format(None, here)),
        (split, Format(None, split)),
        (columns, columns),
        (None, Format()),
        (Format(Layout.AUTO, here), Format(None, here)),
        (Format(Layout.AUTO), Format()),
    ):
        f = jax.jit(lambda x: (x * 2, x.sum()), out_shardings=(given, None))
        for first, second in (
            f.trace(X).out_info,
            f.lower(X).out_info,
            f.eval_shape(X),
            jax.eval_shape(f, X),
        ):
            assert (
                first.format == format
                and second.sharding is None
                and (first.shape, second.shape) == ((2, 3), ())
            )
    assert jax.eval_shape(jax.jit(jnp.sin, device=jax.devices()[1]), X).sharding.device_set == {
        jax.devices()[1]
    }
    with jax.set_mesh(mesh):
        assert jax.jit(jnp.sin, out_shardings=jax.P(None, "a")).eval_shape(
            np.ones((3, 2))
        ).sharding.spec == jax.P(None, "a")
    for stage in (
        jax.jit(jnp.sin, out_shardings=split).trace,
        jax.jit(jnp.sin, out_shardings=split).eval_shape,
    ):
        with pytest.raises(ValueError, match="partitioned 2 times, but the dimension size is 3"):
            stage(np.ones(3))


class Described:
    """What only says its type."""

    def __init__(self, shape, dtype, **more):
        self.shape, self.dtype = shape, np.dtype(dtype)
        vars(self).update(more)


def test_whatever_has_shape_and_dtype_is_as_good_as_an_array():
    x, f = Described((2, 3), np.float32), jax.jit(lambda x: x * 2)
    for out in (
        f.trace(x).out_info,
        f.lower(x).out_info,
        f.eval_shape(x),
        jax.eval_shape(f, x),
        jax.eval_shape(lambda x: x, x),
    ):
        assert (out.shape, out.dtype) == ((2, 3), np.float32)
    np.testing.assert_array_equal(f.lower(x).compile()(X), 2 * X)
    assert str(jax.make_jaxpr(lambda x: x)(x)) == "{ lambda ; a:f32[2,3]. let  in (a,) }"
    there = jax.sharding.SingleDeviceSharding(jax.devices()[1])
    assert f.lower(Described((), np.float32, sharding=there)).compile().input_shardings == (
        (there,),
        {},
    )
    assert f.eval_shape(Described((), np.float32, weak_type=True)).weak_type
    for wrong in (object(), "text"):
        with pytest.raises(TypeError, match="passed to the function at path x"):
            f.trace(wrong)
    with pytest.raises(TypeError, match="passed to the function at path x"):
        f(x)


def test_structs():
    like, there = jax.ShapeDtypeStruct.like, jax.device_put(X, jax.devices()[1])
    assert (
        like(X)
        == like(jnp.asarray(X))
        == like(Described((2, 3), np.float32))
        == jax.ShapeDtypeStruct((2, 3), np.float32)
    )
    assert like(2.0) == jax.ShapeDtypeStruct((), np.float32, weak_type=True)
    assert like(there).format == there.format and like(like(there)) == like(there)
    assert (
        like(jax.device_put(jax.random.key(0), jax.devices()[1])).dtype == jax.random.key(0).dtype
    )
    np.testing.assert_array_equal(
        jax.jit(lambda x: x * 2).lower(like(there)).compile()(there), 2 * X
    )
    seen = []
    jax.jit(jax.vmap(lambda x: seen.append(like(x)) or x))(X)
    assert seen == [jax.ShapeDtypeStruct((3,), np.float32)]
    for wrong in ("a", None, [1.0]):
        with pytest.raises(TypeError, match="not a valid JAX type|abstract array"):
            like(wrong)
    struct = pickle.loads(pickle.dumps(jax.ShapeDtypeStruct((2,), np.float32)))
    with pytest.raises(RuntimeError, match=r"Cannot reassign attributes \(shape\)"):
        struct.shape = (3,)
    assert struct.update(shape=(3,)).shape == (3,) and struct.shape == (2,)


def test_shapes_of_functions_with_static_arguments():
    cast = jax.jit(
        lambda x, dtype, *, n: x.astype(dtype)[:n], static_argnums=1, static_argnames="n"
    )
    for dtype in (np.int32, jnp.int32, "int32"):
        for out in (
            jax.eval_shape(cast, X, dtype, n=1),
            cast.eval_shape(Described((2, 3), np.float32), dtype, n=1),
        ):
            assert (out.shape, out.dtype) == ((1, 3), np.int32)
    assert jax.vmap(lambda x: x + jax.eval_shape(cast, x, int, n=2).size)(X)[0, 0] == 3


def test_arguments_that_are_not_used_have_no_format():
    compiled = jax.jit(lambda x, y: y).lower(X, 1.0).compile()
    assert (
        compiled.input_formats[0][0] is None
        and compiled.input_formats[0][1].layout.major_to_minor == ()
    )


def test_layouts():
    assert (
        Layout((1, 0)).update(major_to_minor=(0, 1)) == Layout((0, 1))
        and repr(Layout.AUTO) == "AutoLayout"
    )
    with pytest.raises(
        ValueError, match=r"rank of the value should match. Got major_to_minor=\(1, 0\)"
    ):
        Layout((1, 0)).check_compatible_aval((1, 2, 3))
    with pytest.raises(TypeError, match="Invalid value received for the layout argument"):
        Format(3)
    with pytest.raises(ValueError, match="Sharding has to be concrete"):
        Format(Layout((0,)))


def test_calls_that_do_not_fit():
    compiled = jax.jit(g).lower(X, scale=3.0).compile()
    with pytest.raises(
        TypeError,
        match=r"(?s)There are 2 mismatches, including:.*at args, seen tuple of length 1.*at kwargs",
    ):
        compiled(X, X)
    with pytest.raises(
        TypeError,
        match=r"Argument 'x' compiled with float32\[2,3\] and called with float32\[2\]\n"
        r"Argument 'scale' compiled with float32\[\] and called with int32\[\]",
    ):
        compiled(np.ones(2, np.float32), scale=np.int32(2))
    with pytest.raises(
        TypeError, match="Cannot apply JAX transformations to a function lowered and compiled"
    ):
        jax.grad(lambda x: compiled(x, scale=2.0)[0].sum())(X)


def test_compile():
    lowered = jax.jit(jnp.sin).lower(X)
    assert lowered.compile(compiler_options={"xla_cpu_enable_fast_math": True})(X).shape == (2, 3)
    for options in (
        {"optimization_level": "O1"},
        {"memory_fitting_level": 19, "xla_cpu_enable_fast_math": True},
    ):
        assert (
            lowered.compile(compiler_options=options)(X).shape
            == jax.jit(jnp.sin, compiler_options=options)(X).shape
            == (2, 3)
        )
    efforts = {"exec_time_optimization_effort": 0.2, "memory_fitting_effort": 1}
    if jaxlib_version.startswith("0.10."):
        assert lowered.compile(compiler_options=efforts)(X).shape == (2, 3)
    else:
        with pytest.raises(
            ValueError,
            match="has no option exec_time_optimization_effort. Use jax_optimization_level",
        ):
            lowered.compile(compiler_options=efforts)
    with pytest.raises(
        ValueError,
        match="optimization_level is one of UNKNOWN, O0, .*, or XLA's number of it, got 'O7'",
    ):
        lowered.compile(compiler_options={"optimization_level": "O7"})
    with pytest.raises(Exception, match="No such compile option: 'xla_foo'"):
        lowered.compile(compiler_options={"xla_foo": 1})
    device = jax.devices()[-1]
    assert lowered.compile(device_assignment=[device])(X).devices() == {device}
    named = jax.jit(
        lambda x: jax.device_put(x, jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    ).lower(X)
    with pytest.raises(ValueError, match="incompatible devices"):
        named.compile(device_assignment=[device])
    with pytest.raises(ValueError, match=r"must match the device_assignment.*ids \[0, 0\]"):
        lowered.compile(device_assignment=jax.devices()[:1] * 2)
    with pytest.raises(ValueError, match=r"arguments of symbolic sizes, float32\[a\]"):
        jax.jit(jnp.sin).lower(
            jax.ShapeDtypeStruct(export.symbolic_shape("a"), np.float32)
        ).compile()
    with pytest.raises(ValueError, match="is for several platforms, \\('cpu', 'tpu'\\)"):
        jax.jit(jnp.sin).trace(X).lower(lowering_platforms=("cpu", "tpu")).compile()


def test_executables_as_bytes():
    table, key = jnp.arange(3.0), jax.random.key(1)

    @jax.jit
    def f(x, i, *, tree):
        return {"out": x[:, i] + table, "key": jax.random.fold_in(key, i)}, tree[0]

    args = (np.ones((3, 4), np.float32), np.int32(2))
    compiled = f.lower(*args, tree=(1, None)).compile()
    data, in_tree, out_tree = serialize_executable.serialize(compiled)
    load = serialize_executable.deserialize_and_load
    for loaded in (
        load(data, in_tree, out_tree),
        load(data, None, None, backend="cpu", execution_devices=jax.devices()[-1:]),
    ):
        (got, n), (expected, m) = loaded(*args, tree=(5, None)), f(*args, tree=(5, None))
        np.testing.assert_array_equal(got["out"], expected["out"])
        keys = [np.asarray(jax.random.key_data(out["key"])).tolist() for out in (got, expected)]
        assert int(n) == int(m) and keys[0] == keys[1]
        assert loaded.in_avals == compiled.in_avals and loaded.out_tree == compiled.out_tree
        assert serialize_executable.serialize(loaded)[0][-1000:-32] == data[-1000:-32]
    with pytest.raises(TypeError, match="Argument 'i' compiled with int32"):
        loaded(np.ones((3, 4), np.float32), 2.5, tree=(1, None))


class Point(NamedTuple):
    x: float
    y: float


def test_trees_of_executables_that_cannot_be_written():
    serialize, load = serialize_executable.serialize, serialize_executable.deserialize_and_load
    data, in_tree, out_tree = serialize(
        jax.jit(lambda p: {1: p.x + p.y}).lower(Point(1.0, 2.0)).compile()
    )
    assert load(data, in_tree, out_tree)(Point(1.0, 3.0)) == {1: 4.0}
    for trees, name in [((None, out_tree), "in_tree"), ((in_tree, None), "out_tree")]:
        with pytest.raises(ValueError, match=f"{name} is not in the bytes"):
            load(data, *trees)


def test_executables_in_another_process(tmp_path):
    data, _, _ = serialize_executable.serialize(
        jax.jit(lambda x: jnp.sin(x) * 2).lower(X).compile()
    )
    (tmp_path / "f").write_bytes(data)
    program = (
        "import sys, numpy as np; from teucer.experimental.serialize_executable import deserialize_and_load; "
        "print(deserialize_and_load(open(sys.argv[1], 'rb').read(), None, None)(np.zeros((2, 3), np.float32)).sum())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "f")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "0.0"


def test_executables_that_are_refused():
    serialize, load = serialize_executable.serialize, serialize_executable.deserialize_and_load
    with pytest.raises(TypeError, match="a compiled function is needed"):
        serialize(jax.jit(jnp.sin).lower(X))
    with pytest.raises(ValueError, match="calls Python functions"):
        serialize(jax.jit(lambda x: (jax.debug.print("{}", x), x)[1]).lower(X).compile())
    with pytest.raises(ValueError, match="calls Python functions"):
        serialize(jax.jit(lambda x: jax.pure_callback(lambda x: x, X, x)).lower(X).compile())
    data, _, _ = serialize(jax.jit(jnp.sin).lower(X).compile())
    for bad, text in [
        (data[:-1], "damaged"),
        (data[:100] + b"x" + data[101:], "damaged"),
        (b"pickle", "not a serialized executable"),
        (bytes(export.export(jax.jit(jnp.sin))(X).serialize()), "not a serialized executable"),
    ]:
        with pytest.raises(ValueError, match=text):
            load(bad, None, None)


def test_jitted_functions_are_wrapped():
    assert isinstance(jax.jit(lambda x: x), jax.stages.Wrapped)
    assert not isinstance(len, jax.stages.Wrapped)


def test_instructions_have_the_names_of_arguments_and_operations():
    def f(x, y):
        return jnp.sin(x) * y["k"]

    lowered = jax.jit(f).lower(1.0, {"k": jnp.ones(3)})
    text = lowered.as_text("hlo")
    assert "x.1 = f32[] parameter(0)" in text and "y__k__.1 = f32[3]{0} parameter(1)" in text
    assert "sin.1 = f32[] sine(x.1)" in text and "mul.3 = f32[3]{0} multiply(" in text
    assert "op_name=\"y[\\'k\\']\"" in lowered.as_text("hlo", debug_info=True)
    located = lowered.as_text(debug_info=True)
    assert '%arg0: tensor<f32> loc("x")' in located and "loc(\"y['k']\")" in located
    assert "loc(" not in lowered.as_text()
    ref = jax.new_ref(1.0)  # operands that no argument stands for have no names
    assert "parameter(0)" in jax.jit(lambda x: ref[...] + x).lower(2.0).as_text("hlo")
    offset = jnp.arange(3.0)
    text = jax.jit(lambda x: x + offset).lower(2.0).as_text("hlo")
    assert "x.1 = f32[] parameter(1)" in text


def test_modules_of_exported_functions_say_what_results_are():
    exported = jax.export.export(jax.jit(lambda x: {"a": x, "b": (x + 1,)}))(1.0)
    text = exported.mlir_module()
    assert "jax.result_info = \"result['a']\"" in text and "result['b'][0]" in text


@pytest.mark.parametrize(
    "transform",
    [
        jax.jit,
        jax.vmap,
        jax.grad,
        jax.value_and_grad,
        jax.checkpoint,
        jax.jacfwd,
        jax.jacrev,
        jax.hessian,
        jax.pmap,
    ],
)
def test_transformed_functions_are_called_as_what_they_are_made_of(transform):
    def f(x, y=1.0):
        return x * y

    for fun in (functools.partial(f, y=2.0), functools.partial(functools.partial(f), y=2.0)):
        made = transform(fun)
        assert made.__name__ == "f" and made.__qualname__ == "f"
        assert "boundary" not in (made.__doc__ or "")
    assert transform(f).__qualname__ == f.__qualname__
