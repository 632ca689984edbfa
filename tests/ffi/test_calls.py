"""Foreign functions.

Attributes, layouts, aliases, transformations, state, errors, and what is refused.
"""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import teucer as jax
from teucer import numpy as jnp
from teucer.cli import main
from teucer.experimental.buffer_callback import Buffer, ExecutionStage, buffer_callback
from teucer.experimental.layout import Layout
from teucer.extend.core import Primitive
from teucer.interpreters import mlir

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "ffi" / "rms_norm.py"
needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
LIKE = jax.ShapeDtypeStruct((2, 3), np.float32)


def text_of(f, *args):
    return jax.jit(f).lower(*args).as_text()


def config_of(**attributes):
    text = text_of(lambda x: jax.ffi.ffi_call("f", x)(x, **attributes), 1.0)
    return re.search(r"mhlo.backend_config = (\{.*\}), operand_layouts", text)[1]


@pytest.fixture(scope="module")
def rms():
    """The example's module; its library is built once."""
    spec = importlib.util.spec_from_file_location("example_rms_norm", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(x, eps=1e-6):
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


# What a call says


@pytest.mark.parametrize("value, expected", [
    (True, "true"), (3, ("3 : "
        "i64")), (2.5, ("2.500000e+00 : "
        "f64")), ("s", '"s"'), (b"ab", '"ab"'), ((1, 2), ("[1, "
        "2]")),
    ((1.5, "a"), ('[1.500000e+00, '
        '"a"]')), ((), "[]"), ({"a": 1, "b": {"c": np.int8(3)}}, ("{a = 1 : i64, b = {c = 3 : "
        "i8}}")),
    ({"x": np.arange(2)}, ("{x = dense<[0, 1]> : "
        "tensor<2xi64>}")), (np.float32(1), ("1.000000e+00 : "
        "f32")),
    (np.bool_(False), "false"), (np.uint64(1), ("1 : "
        "ui64")), (ml_dtypes.bfloat16(1), ("1.000000e+00 : "
        "bf16")),
    (np.zeros((), jax.float0), ("dense<false> : "
        "tensor<i1>")), (np.zeros(0), ("dense<> : "
        "tensor<0xf64>")),
    (float("nan"), ("0x7FF8000000000000 : "
        "f64")), (-(2**63), ("-9223372036854775808 : "
        "i64")), (np.dtype("int32"), "i32"),
    ('a"b\n\\é', r'"a\22b\0A\\\C3\A9"'),
], ids=str)  # fmt: skip
def test_attributes(value, expected):
    assert config_of(p=value) == f"{{p = {expected}}}"


def test_names_of_attributes_may_be_any_string():
    assert config_of(**{"my key": 1}) == '{"my key" = 1 : i64}'


@pytest.mark.parametrize("value, error, match", [
    (None, TypeError, "No attribute handler defined"), (1 + 2j, TypeError, "No attribute handler"),
    (np.complex64(2), TypeError, ("No attribute "
        "handler")), ([1, 2], TypeError, ("Non-hashable keyword argument to ffi_call "
        "p")),
    (2**63, OverflowError, "i64"), ({1: 2}, TypeError, "names of attributes are strings"),
], ids=str)  # fmt: skip
def test_attributes_that_are_none(value, error, match):
    with pytest.raises(error, match=match):
        config_of(p=value)


def test_attributes_are_hashable_in_jaxprs():
    f = lambda x: jax.ffi.ffi_call("f", x)(x, a={"b": 1}, c=np.arange(3))
    first, second = jax.make_jaxpr(f)(1.0), jax.make_jaxpr(f)(1.0)
    assert "FrozenDict({'b': 1})" in str(first) and "HashableArray([0 1 2])" in str(first)
    params = [jaxpr.eqns[0].params["attributes"] for jaxpr in (first, second)]
    assert params[0] == params[1] and hash(params[0]) == hash(params[1])


def test_layouts_are_from_major_to_minor():
    call = jax.ffi.ffi_call(
        "f", (LIKE, LIKE), input_layouts=[(1, 0)], output_layouts=[None, Layout((1, 0))]
    )
    text = text_of(call, jnp.ones((2, 3)))
    assert "operand_layouts = [dense<[0, 1]> : tensor<2xindex>]" in text
    assert (
        "result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>]"
        in text
    )


def test_keys_go_as_their_words():
    key = jax.random.key(0)
    text = text_of(lambda k: jax.ffi.ffi_call("f", k, input_layouts=[()])(k), key)
    assert "(tensor<2xui32>) -> tensor<2xui32>" in text


def test_versions_before_types():
    text = text_of(
        jax.ffi.ffi_call("f", LIKE, custom_call_api_version=2, legacy_backend_config="12"),
        jnp.ones(3),
    )
    assert 'api_version = 2 : i32, backend_config = "12"' in text
    with pytest.raises(ValueError, match="legacy_backend_config parameter requires"):
        jax.ffi.ffi_call("f", LIKE, legacy_backend_config="12")
    with pytest.raises(ValueError, match="use of ffi_call attributes requires"):
        jax.ffi.ffi_call("f", LIKE, custom_call_api_version=2)(jnp.ones(3), a=1)


@pytest.mark.parametrize("options, match", [
    ({"input_layouts": [(0, 1), (0,)]},
     r"number of input arguments \(1\) must equal the number of input layouts \(2\)"),
    ({"input_layouts": [(0, 0)]}, r"permutation(?s:.*)input_layouts\[0\]: \(0, 0\)"),
    ({"output_layouts": [(0,)]}, r"permutation"),
    ({"input_output_aliases": {1: 0}}, "with input index 1 outside"),
    ({"input_output_aliases": {0: 1}}, "with output index 1 outside"),
    ({"input_output_aliases": {0: 0}, "input_layouts": [(1, 0)]}, "with a different layout"),
    ({"vmap_method": "bad"}, "vmap_method must be on of the allowed"),
])  # fmt: skip
def test_calls_that_do_not_fit(options, match):
    with pytest.raises(ValueError, match=match):
        jax.ffi.ffi_call("f", LIKE, **options)(jnp.ones((2, 3)))


def test_aliases_are_of_one_type():
    with pytest.raises(ValueError, match="referring to an input with abstract value"):
        jax.ffi.ffi_call("f", LIKE, input_output_aliases={0: 0})(jnp.ones((2, 3), np.int32))


@pytest.mark.parametrize("results, position", [(None, 0), ((LIKE, ()), 1)])
def test_results_have_shape_and_dtype(results, position):
    with pytest.raises(
        ValueError, match=f"All elements of result_shape_dtypes must have.*position {position}"
    ):
        jax.ffi.ffi_call("f", results)


def test_unknown_targets_are_named():
    with pytest.raises(
        jax.errors.JaxRuntimeError, match="No FFI handler registered for no_such_function"
    ):
        jax.ffi.ffi_call("no_such_function", LIKE)(jnp.ones(3))


def test_registration_takes_capsules():
    with pytest.raises(TypeError, match="PyCapsule"):
        jax.ffi.register_ffi_target("f", 3)
    with pytest.raises(TypeError, match="PyCapsule"):
        jax.ffi.register_ffi_target("f", {"execute": 3})


def test_headers_are_there():
    assert all(
        (Path(jax.ffi.include_dir(), "xla", "ffi", "api", f)).exists()
        for f in ("c_api.h", "api.h", "ffi.h")
    )


def test_lowering_rules():
    p = Primitive("foreign_rule")
    p.def_abstract_eval(lambda x, **_: x)
    mlir.register_lowering(
        p,
        jax.ffi.ffi_lowering(
            "f",
            operand_layouts=[(0, 1)],
            result_layouts=[None],
            backend_config={"a": 1},
            operand_output_aliases={0: 0},
            has_side_effect=True,
        ),
    )
    text = text_of(lambda x: p.bind(x, b=2.0), jnp.ones((2, 3)))
    assert "@f(" in text and "mhlo.backend_config = {a = 1 : i64, b = 2.000000e+00 : f64}" in text
    assert "operand_layouts = [dense<[0, 1]>" in text and "result_layouts = [dense<[1, 0]>" in text
    assert "has_side_effect = true" in text and "output_operand_aliases" in text


# A library in C++


@needs_compiler
class TestLibrary:
    def test_values_and_gradients(self, rms):
        x = jax.random.normal(jax.random.key(1), (4, 5))
        weights = jnp.arange(20.0).reshape(4, 5)
        for f in (rms.rms_norm, jax.jit(rms.rms_norm)):
            np.testing.assert_allclose(f(x), reference(x), rtol=1e-5)
        grads = [jax.grad(lambda x: jnp.sum(weights * f(x)))(x) for f in (rms.rms_norm, reference)]
        np.testing.assert_allclose(*grads, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize(
        "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"]
    )
    def test_batches(self, rms, method):
        rms.register()
        x = jax.random.normal(jax.random.key(1), (3, 4, 5))
        outs = (jax.ShapeDtypeStruct((4, 5), x.dtype), jax.ShapeDtypeStruct((4,), x.dtype))
        f = lambda x: jax.ffi.ffi_call("rms_norm", outs, vmap_method=method)(
            x, eps=np.float32(1e-6)
        )[0]
        for transform in (lambda f: f, jax.jit):
            np.testing.assert_allclose(transform(jax.vmap(f))(x), reference(x), rtol=1e-5)
            twice = transform(jax.vmap(jax.vmap(lambda r: jnp.squeeze(f(jnp.tile(r, (4, 1)))[0]))))(
                x
            )
            np.testing.assert_allclose(twice, reference(x), rtol=1e-5)

    def test_unmapped_operands(self, rms):
        rms.register()
        x, ct = jnp.arange(1.0, 7).reshape(2, 3), jnp.ones(3)
        scale = 1 / jnp.sqrt(jnp.mean(x * x, -1))
        call = lambda x, s, ct: jax.ffi.ffi_call("rms_norm_grad", ct, vmap_method="broadcast_all")(
            x, s, ct
        )
        got = jax.vmap(call, (0, 0, None))(x, scale, ct)
        want = [call(x[i], scale[i], ct) for i in range(2)]
        np.testing.assert_allclose(got, np.stack(want), rtol=1e-6)

    def test_no_batches_without_a_method(self, rms):
        with pytest.raises(
            NotImplementedError, match="vmap is only supported for the ffi_call primitive when"
        ):
            jax.vmap(jax.ffi.ffi_call("rms_norm", LIKE))(jnp.ones((4, 2, 3)))

    def test_no_derivatives_of_its_own(self):
        call = jax.ffi.ffi_call("rms_norm", LIKE)
        with pytest.raises(ValueError, match="FFI call to `rms_norm` cannot be differentiated"):
            jax.jvp(call, (jnp.ones((2, 3)),), (jnp.ones((2, 3)),))

    def test_no_derivatives_are_needed_of_constants(self, rms):
        f = lambda x, i: jnp.sum(x) + rms.count(3) + i
        assert jax.grad(f)(jnp.ones(3), 1).tolist() == [1, 1, 1]

    def test_in_loops_and_branches(self, rms):
        x = jax.random.normal(jax.random.key(1), (5,))
        body = lambda c, _: (rms.rms_norm(c) + 1, jnp.sum(c))
        want = x
        for _ in range(3):
            want = reference(want) + 1
        np.testing.assert_allclose(jax.lax.scan(body, x, None, length=3)[0], want, rtol=1e-5)
        branch = jax.jit(lambda p, x: jax.lax.cond(p, rms.rms_norm, lambda x: x, x))
        np.testing.assert_allclose(branch(True, x), reference(x), rtol=1e-5)
        np.testing.assert_array_equal(branch(False, x), x)

    def test_errors_of_the_library(self, rms):
        with pytest.raises(jax.errors.JaxRuntimeError, match="rms_norm: eps is -1.0"):
            jax.block_until_ready(rms.rms_norm(jnp.ones(3), -1.0))
        call = jax.ffi.ffi_call("rms_norm", (jax.ShapeDtypeStruct((), np.float32),) * 2)
        with pytest.raises(jax.errors.JaxRuntimeError, match="x needs an axis"):
            jax.block_until_ready(call(jnp.float32(1), eps=np.float32(0)))

    def test_wrong_attributes_are_named(self, rms):
        rms.register()
        with pytest.raises(jax.errors.JaxRuntimeError, match="expected F32 but got F64"):
            jax.ffi.ffi_call("rms_norm", (LIKE, jax.ShapeDtypeStruct((2,), np.float32)))(
                jnp.ones((2, 3)), eps=1e-6
            )

    def test_state_is_one_a_program(self, rms):
        first, second = (jax.jit(lambda x, i=i: x + rms.count(i)) for i in (10, 100))
        assert [int(first(0)) for _ in range(3)] == [10, 11, 12]
        assert int(second(0)) == 100

    def test_side_effects_keep_unused_calls(self, rms):
        f = jax.jit(lambda x: (rms.count(7), x)[1])
        assert "has_side_effect = true" in f.lower(1.0).as_text()
        assert "custom-call" in f.lower(1.0).compile().as_text()

    def test_the_same_function_twice(self, rms):
        library = rms.register()
        jax.ffi.register_ffi_target("rms_norm", jax.ffi.pycapsule(library.rms_norm))
        with pytest.raises(jax.errors.JaxRuntimeError, match="Duplicate FFI handler"):
            jax.ffi.register_ffi_target("rms_norm", jax.ffi.pycapsule(library.rms_norm_grad))

    def test_aliases_leave_the_argument(self, rms):
        rms.register()
        x = jnp.arange(6.0).reshape(2, 3)
        outs = (LIKE, jax.ShapeDtypeStruct((2,), np.float32))
        y = jax.ffi.ffi_call("rms_norm", outs, input_output_aliases={0: 0})(
            x, eps=np.float32(1e-6)
        )[0]
        np.testing.assert_allclose(y, reference(x), rtol=1e-5)
        np.testing.assert_array_equal(x, np.arange(6.0).reshape(2, 3))

    def test_layouts_are_what_the_library_sees(self, rms):
        rms.register()
        x = jax.random.normal(jax.random.key(1), (4, 5))
        outs = (jax.ShapeDtypeStruct((4, 5), x.dtype), jax.ShapeDtypeStruct((4,), x.dtype))
        call = jax.ffi.ffi_call(
            "rms_norm", outs, input_layouts=[(1, 0)], output_layouts=[(1, 0), None]
        )
        y = jax.jit(lambda x: call(x, eps=np.float32(1e-6))[0])(x)
        # The library reads the columns, one after the other, as rows of five numbers.
        want = reference(x.T.reshape(4, 5)).reshape(5, 4).T
        np.testing.assert_allclose(y, want, rtol=1e-5)

    def test_main(self, rms, capsys):
        assert rms.main(steps=50) < 1e-2
        assert "C++ says: INVALID_ARGUMENT: rms_norm: eps is -1.0" in capsys.readouterr().out


@needs_compiler
@pytest.mark.slow
def test_cmake_builds_the_example(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake")
    subprocess.run(
        ["cmake", "-B", tmp_path, "-S", EXAMPLE.parent, f"-DPython_EXECUTABLE={sys.executable}"],
        check=True,
    )
    subprocess.run(["cmake", "--build", tmp_path], check=True)
    assert hasattr(ctypes.CDLL(str(tmp_path / "librms_norm.so")), "rms_norm")


# teucer ffi new


@needs_compiler
def test_new_project_builds_and_passes_its_test(tmp_path, capsys):
    target = tmp_path / "project"
    assert main(["ffi", "new", "scaled", "--output", str(target)]) == 0
    assert "scaled.cc, scaled.py, test_scaled.py, Makefile" in capsys.readouterr().out
    root = Path(jax.__file__).parent.parent
    done = subprocess.run(
        ["make", "-C", target, "test", f"PYTHON={sys.executable}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert "scaled works" in done.stdout, done.stdout + done.stderr


def test_new_project_needs_a_name_and_a_place(tmp_path, capsys):
    assert main(["ffi", "new", "2fast"]) == 2
    assert "no name of a function" in capsys.readouterr().err
    (tmp_path / "mine.cc").write_text("")
    assert main(["ffi", "new", "mine", "-o", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err


# buffer_callback


def add(context, out, x, y=None):
    assert context.stage == ExecutionStage.EXECUTE and isinstance(out, Buffer)
    assert out.writeable and not x.writeable
    np.asarray(out)[...] = np.asarray(x) + (1 if y is None else np.asarray(y))


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "bfloat16"])
def test_buffers(transform, dtype):
    x = jnp.arange(6).reshape(2, 3).astype(dtype)
    f = transform(buffer_callback(add, jax.ShapeDtypeStruct((2, 3), dtype)))
    np.testing.assert_array_equal(f(x, y=x), np.asarray(x) + np.asarray(x))


def test_buffers_in_trees():
    def swap(context, out, x):
        for name, other in (("a", "b"), ("b", "a")):
            np.asarray(out[name])[...] = np.asarray(x[other])

    f = buffer_callback(
        swap, {"a": jax.ShapeDtypeStruct((), np.float32), "b": jax.ShapeDtypeStruct((), np.float32)}
    )
    assert jax.tree.map(float, jax.jit(f)({"a": 1.0, "b": 2.0})) == {"a": 2.0, "b": 1.0}


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_buffers_of_batches(method):
    f = buffer_callback(add, jax.ShapeDtypeStruct((3,), np.float32), vmap_method=method)
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.ones(3)
    np.testing.assert_array_equal(jax.vmap(f, (0, None))(x, y), np.asarray(x) + 1)


def test_buffers_shared():
    f = buffer_callback(add, jax.ShapeDtypeStruct((3,), np.float32), input_output_aliases={0: 0})
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(jax.jit(f)(x), [1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_buffer_callback_refuses():
    f = buffer_callback(add, jax.ShapeDtypeStruct((), np.float32))
    with pytest.raises(ValueError, match="Buffer callbacks do not support JVP"):
        jax.grad(f)(1.0)
    with pytest.raises(NotImplementedError, match="vmap is only supported for the buffer_callback"):
        jax.vmap(f)(jnp.ones(2))


def test_buffer_callback_errors():
    def fails(context, out, x):
        raise ValueError("not today")

    with pytest.raises(jax.errors.JaxRuntimeError, match="not today"):
        jax.block_until_ready(buffer_callback(fails, jax.ShapeDtypeStruct((), np.float32))(1.0))


@pytest.mark.parametrize(
    "method, sizes",
    [
        ("expand_dims", "3x2xf32>, tensor<1x"),
        ("broadcast_all", "3x2xf32>, tensor<3x"),
        ("legacy_vectorized", "3x2xf32>, tensor<2x"),
    ],
)
def test_what_is_not_batched_has_the_axis_that_the_method_says(method, sizes):
    y = np.ones(2, np.float32)
    call = jax.ffi.ffi_call("f", jax.ShapeDtypeStruct((2,), np.float32), vmap_method=method)
    assert f"(tensor<{sizes}" in text_of(
        jax.vmap(lambda x: call(x, y)), np.ones((3, 2), np.float32)
    )


def test_an_alias_names_result_and_operand():
    x, y = np.ones(2, np.float32), np.ones(3, np.float32)
    outs = [jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((2,), np.int32)]
    text = text_of(
        lambda x, y: jax.ffi.ffi_call("f", outs, input_output_aliases={1: 0})(x, y), x, y
    )
    assert "output_tuple_indices = [0], operand_index = 1" in text


@pytest.mark.parametrize(
    "spec, of_gathered", [(("x", None), True), ((None, "x"), True), ((None, None), False)]
)
def test_operands_that_are_partitioned_are_gathered(spec, of_gathered):
    mesh = jax.make_mesh((4,), ("x",))
    x = jax.device_put(jnp.ones((8, 4)), jax.NamedSharding(mesh, jax.P(*spec)))

    def f(x):
        return jax.ffi.ffi_call("f", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    assert jax.typeof(x).sharding.spec == jax.P(*spec)
    assert jax.make_jaxpr(f)(x).out_avals[0].str_short() == "float32[8,4]"
    assert ("@x" in str(jax.make_jaxpr(f)(x))) == of_gathered
