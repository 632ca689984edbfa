"""Lowerings of primitives: `register_lowering`, and functions with which rules build operations.

A rule is called with a context and values of jaxlib's bindings of MLIR, and builds with these. The
insertion point and the location are in force.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._jax.mlir": (
            "LoweringResult LoweringRule Token Value aval_to_ir_type aval_to_ir_types "
            "core_call_lowering dense_int_array dense_int_elements dtype_to_ir_type "
            "emit_python_callback flatten_ir_types flatten_ir_values func_dialect hlo i32_attr "
            "i64_attr ir ir_attribute ir_constant ir_constants ir_tree_registry jaxpr_subcomp "
            "lower_fun lower_jaxpr_to_fun lowerable_effects make_ir_context merge_mlir_modules "
            "module_to_bytecode module_to_string register_constant_handler register_lowering "
            "shape_tensor token_type unflatten_ir_values_like_types"
        ),
        "teucer._jax.module_context": (
            "AxisContext LoweringParameters LoweringRuleContext ModuleContext SPMDAxisContext "
            "ShardingContext TokenSet"
        ),
    },
)
