"""Lowering rules that build operations with jaxlib's bindings of MLIR."""

from functools import partial

import numpy as np
import pytest
from jaxlib.mlir.dialects import func
from jaxlib.mlir.dialects import stablehlo as hlo

import teucer as jax
import teucer.numpy as jnp
from teucer.extend.core import Primitive
from teucer.interpreters import mlir


def lowered_by(rule, types=lambda x, **_: x, multiple=False):
    """A primitive of one operand that is lowered by a rule."""
    p = Primitive("built")
    p.multiple_results = multiple
    p.def_abstract_eval(types)
    mlir.register_lowering(p, rule)
    return p


def test_a_rule_builds_operations_and_sees_its_call():
    seen = []

    def rule(ctx, x, *, by):
        seen.append(
            (
                ctx.avals_in,
                tuple(ctx.avals_out),
                ctx.primitive,
                len(ctx.tokens_in),
                ctx.module_context.platforms,
            )
        )
        assert ctx.replace(primitive=None).avals_in == ctx.avals_in
        assert str(x.type) == str(mlir.aval_to_ir_type(ctx.avals_in[0])) == "tensor<3xf32>"
        return hlo.add(x, mlir.ir_constant(np.full(3, by, np.float32)))

    p = lowered_by(rule)
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(
        jax.jit(lambda x: p.bind(x, by=2) * p.bind(x, by=3))(x),
        (np.arange(3) + 2) * (np.arange(3) + 3),
    )
    aval = jax.typeof(x)
    assert seen[0] == ((aval,), (aval,), p, 0, ("cpu",))


def test_rules_within_loops_batches_and_branches():
    p = lowered_by(lambda ctx, x: [hlo.multiply(x, x)])
    assert jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: p.bind(c), x))(2.0) == 256.0
    assert jax.jit(lambda x: jax.lax.cond(x > 0, p.bind, lambda x: x, x))(3.0) == 9.0


@pytest.mark.parametrize(
    "shape_of_results",
    [
        lambda y: y,
        lambda y: [y],
        lambda y: ([y],),
        lambda y: hlo.AddOp(y, y).operands[0],
        lambda y: hlo.MulOp(y, mlir.ir_constant(np.float32(1))),
        lambda y: hlo.MulOp(y, mlir.ir_constant(np.float32(1))).results,
    ],
)
def test_what_rules_may_return(shape_of_results):
    p = lowered_by(lambda ctx, x: shape_of_results(x))
    assert jax.jit(p.bind)(np.float32(5)) == 5.0


def test_several_results():
    p = lowered_by(lambda ctx, x: (x, hlo.negate(x)), lambda x: (x, x), multiple=True)
    assert [float(y) for y in jax.jit(p.bind)(2.0)] == [2.0, -2.0]


def test_rules_call_what_teucer_writes():
    def rule(ctx, x):
        (y,) = mlir.lower_fun(lambda a: jnp.cumsum(a), multiple_results=False)(ctx, x)
        jaxpr = jax.make_jaxpr(lambda a: a * 2)(jax.ShapeDtypeStruct((4,), jnp.float32))
        (z,), _ = mlir.jaxpr_subcomp(
            ctx.module_context,
            jaxpr.jaxpr,
            ctx.name_stack,
            ctx.tokens_in,
            (),
            y,
            dim_var_values=ctx.dim_var_values,
            const_lowering=ctx.const_lowering,
        )
        (z,) = mlir.core_call_lowering(ctx, z, name="inner", call_jaxpr=jaxpr)
        function = mlir.lower_jaxpr_to_fun(ctx.module_context, "twice", jaxpr, [], num_const_args=0)
        return func.CallOp(function, [z]).results

    p = lowered_by(rule)
    np.testing.assert_array_equal(
        jax.jit(lambda x: p.bind(p.bind(x)))(jnp.ones(4)), 64 * np.cumsum(np.cumsum(np.ones(4)))
    )


def test_rules_call_foreign_functions():
    rule = jax.ffi.ffi_lowering("some_function", backend_config={"n": 3})
    text = jax.jit(lowered_by(lambda ctx, x: rule(ctx, x)).bind).lower(1.0).as_text()
    assert "custom_call @some_function" in text and "n = 3" in text


def test_rules_call_python():
    def rule(ctx, x):
        outs, token, _ = mlir.emit_python_callback(
            ctx,
            lambda x: [np.asarray(x) + 1],
            None,
            [x],
            ctx.avals_in,
            ctx.avals_out,
            has_side_effect=False,
            returns_token=False,
        )
        assert token is None
        return outs

    assert jax.jit(lowered_by(rule).bind)(2.0) == 3.0


def test_functions_that_rules_add_have_names_of_their_own():
    def rule(ctx, x):
        other = mlir.ir.Module.parse(
            "func.func @main(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.negate %a : "
            "tensor<f32>\n  return %0 : tensor<f32> }"
        )
        name = mlir.merge_mlir_modules(
            ctx.module_context.module, "added", other, ctx.module_context.symbol_table
        )
        return func.CallOp([x.type], mlir.ir.FlatSymbolRefAttr.get(name), [x]).results

    p, q = lowered_by(rule), lowered_by(rule)
    assert jax.jit(lambda x: p.bind(x) + q.bind(p.bind(x)))(1.0) == 0.0


def test_symbolic_sizes():
    def rule(ctx, x):
        assert len(ctx.dim_var_values) == 1
        return hlo.add(
            x, mlir.lower_fun(lambda a: a * a.shape[0], multiple_results=False)(ctx, x)[0]
        )

    p = lowered_by(rule)
    exported = jax.export.export(jax.jit(p.bind))(
        jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), jnp.float32)
    )
    np.testing.assert_array_equal(exported.call(jnp.arange(3.0)), [0, 4, 8])


def test_wrong_results_are_errors():
    wrong = lowered_by(lambda ctx, x: mlir.ir_constant(np.arange(3)))
    with pytest.raises(ValueError, match=r"the lowering gives .*3xi64.*abstract evaluation .*f32"):
        jax.jit(wrong.bind)(1.0)
    nothing = lowered_by(lambda ctx, x: None)
    with pytest.raises(TypeError, match="returns values of MLIR, got None"):
        jax.jit(nothing.bind)(1.0)


def test_attributes_types_and_constants():
    found = {}

    def rule(ctx, x):
        m = mlir
        for name, value in {
            "i32": m.i32_attr(3),
            "i64": m.i64_attr(3),
            "array": m.dense_int_array([1, 2]),
            "elements": m.dense_int_elements([1, 2]),
            "attribute": m.ir_attribute([1, 2.0, True, "a"]),
            "bool": m.dtype_to_ir_type(np.dtype(bool)),
            "token": m.token_type(),
            "shape": m.shape_tensor(ctx.module_context, (2, 3)).type,
            "number": m.ir_constant(2.0).type,
            "typed": m.ir_constant(2, aval=ctx.avals_in[0]).type,
        }.items():
            found[name] = str(value)
        assert m.flatten_ir_values([x, [x], (x, x)]) == [x] * 4
        assert m.unflatten_ir_values_like_types([x, x, x], [x.type, (x.type, x.type)]) == [
            x,
            (x, x),
        ]
        assert m.ir_tree_registry.flatten([x, (x,)])[0] == [x, x]
        return x

    jax.jit(lowered_by(rule).bind)(np.float32(1))
    assert found == {
        "i32": "3 : i32",
        "i64": "3 : i64",
        "array": "array<i64: 1, 2>",
        "elements": "dense<[1, 2]> : tensor<2xi64>",
        "attribute": '[1, 2.000000e+00, true, "a"]',
        "bool": "i1",
        "token": "!stablehlo.token",
        "shape": "tensor<2xi32>",
        "number": "tensor<f32>",
        "typed": "tensor<f32>",
    }


def test_constants_of_classes_of_libraries():
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

    mlir.register_constant_handler(
        Celsius, lambda value, aval: mlir.ir_constant(np.float32(value.degrees))
    )
    p = lowered_by(lambda ctx, x: hlo.add(x, mlir.ir_constant(Celsius(20.0))))
    assert jax.jit(p.bind)(1.0) == 21.0
    with pytest.raises(TypeError):
        jax.jit(lowered_by(partial(lambda ctx, x: mlir.ir_constant(object()))).bind)(1.0)


def test_modules_as_text_and_bytes():
    with mlir.make_ir_context():
        module = mlir.ir.Module.parse("func.func @main() { return }")
    assert "func.func @main" in mlir.module_to_string(module)
    assert mlir.module_to_bytecode(module).startswith(b"ML\xefR")


def test_calls_of_foreign_functions_are_built_as_jax_builds_them():
    from teucer._jax.building import custom_call

    def text(**how):
        p = Primitive("p")
        p.def_abstract_eval(lambda x: x)
        mlir.register_lowering(
            p,
            lambda ctx, x: (
                custom_call(
                    "target",
                    operands=[x],
                    result_types=[x.type],
                    **{k: v() if callable(v) else v for k, v in how.items()},
                ).results
            ),
        )
        written = jax.jit(lambda x: p.bind(x)).lower(np.ones((2, 3), np.float32)).as_text()
        (line,) = [line for line in written.splitlines() if "custom_call" in line]
        return line.partition("(%arg0) ")[2].rpartition(" :")[0]

    alias = (
        "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, "
        "operand_tuple_indices = []>"
    )
    order = "[dense<[0, 1]> : tensor<2xindex>]"
    assert text() == '{api_version = 2 : i32, backend_config = ""}'
    assert text(backend_config=b"yy", api_version=1) == '{backend_config = "yy"}'
    assert (
        text(operand_output_aliases={0: 0})
        == f'{{api_version = 2 : i32, backend_config = "", output_operand_aliases = [{alias}]}}'
    )
    assert text(operand_layouts=[(0, 1)], result_layouts=[(0, 1)], has_side_effect=True) == (
        '{api_version = 2 : i32, backend_config = "", has_side_effect = true, '
        f"operand_layouts = {order}, result_layouts = {order}}}"
    )
    assert (
        text(
            backend_config=lambda: {"a": mlir.i32_attr(3)},
            api_version=4,
            extra_attributes=lambda: {"foo": mlir.ir_attribute(True)},
        )
        == '{backend_config = "", foo = true, mhlo.backend_config = {a = 3 : i32}}'
    )
