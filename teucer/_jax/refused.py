"""Names of JAX 0.12 that Teucer does not have: why, and what to use.

A public module that is asked for one of them raises an AttributeError with the reason, so that
`hasattr` and `getattr` with a default behave as for any other name. Each public name of JAX is
given, or stands in `REFUSED`; `tests/test_names_of_0_12.py` compares.
"""

from __future__ import annotations

_RULES = "Use jax.linearize, jax.vjp, jax.jvp and jax.vmap on jax.extend.core.jaxpr_as_fun(jaxpr)."
_FUNCTIONS = "it takes JAX's own kind of functions, WrappedFun, between its transformations."
_LOWERING = "it is a step of JAX's lowering; programs are written as text here.\n  Use jax.jit(f)"
_PRIMITIVE = "the function is made of other primitives here."
_NO_MORE = "it is a helper of JAX's own code, which the module does not mean to give."
# module -> reason: the names.
REFUSED: dict[str, dict[str, str]] = {
    "custom_derivatives": {
        "optimize_remat changes no programs here.\n  Use jax.checkpoint for what to keep.": (
            "remat_opt_p"
        ),
    },
    "experimental": {
        "arrays of extended dtypes are of jax.Array.\n  Use jax.Array.": "EArray",
        "there are no dtypes whose tangents have another dtype.\n  Define a type by "
        "jax.experimental.hijax.HiType, whose to_tangent_aval says it.": "primal_tangent_dtype",
    },
    "experimental.array_serialization.pytree_serialization_utils": {
        "it names a type of annotations.\n  Use types.ModuleType.": "PickleModule",
    },
    "experimental.fused": {
        "regions that are fused into chosen memory are not built.\n  Use jax.jit.": "fused_p",
        f"{_NO_MORE}\n  Use map and zip.": "unsafe_map unsafe_zip",
    },
    "experimental.jet": {
        f"{_FUNCTIONS}\n  Use jet.jet.": "jet_fun jet_subtrace traceable",
        "calls are expanded as what they carry.\n  Use jet_rules.": ("call_param_updaters"),
        f"{_NO_MORE}\n  Use functools.lru_cache.": "weakref_lru_cache",
    },
    "experimental.mesh_utils": {
        "it holds JAX's functions for single kinds of TPU.\n  Use create_device_mesh, which knows "
        "them.": "device_kind_handler_dict",
    },
    "experimental.multihost_utils": {
        "arrays of a process become arrays of all without a primitive.\n  Use "
        "host_local_array_to_global_array and global_array_to_host_local_array.": (
            "global_array_to_host_local_array_impl global_array_to_host_local_array_p "
            "gtl_abstract_eval host_local_array_to_global_array_impl "
            "host_local_array_to_global_array_p ltg_abstract_eval ltg_batcher"
        ),
    },
    "experimental.ode": {
        f"{_NO_MORE}\n  Use jax.numpy.promote_types.": "promote_dtypes_inexact",
        f"{_NO_MORE}\n  Use jax.flatten_util.ravel_pytree.": "ravel_first_arg",
    },
    "experimental.pallas": {
        "memory that outlives a kernel is for kernels compiled for TPUs and Hopper GPUs, which "
        "are not compiled yet.\n  Pass an array, with input_output_aliases.": "get_global",
        "blocks by an array of indices are for sparse cores of TPUs, which kernels are not "
        "compiled for.\n  Read the rows one by one, or take them before the kernel.": "Indirect",
        "programs are written as text.\n  Use jax.jit(f).lower(*args).as_text().": "lower_as_mlir",
        "kernels are exported as any program.\n  Use jax.export.export.": (
            "pallas_export_experimental"
        ),
    },
    "experimental.pallas.fuser": {
        "blocks are followed as BlockSpecs.\n  Use pull_block_spec and push_block_spec.": (
            "BlockIndexTransform"
        ),
    },
    "experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel": {
        "it is the kernel of one block, whose operands JAX's own code lays out.\n  Use "
        "make_splash_mha.": (
            "SplashResidualsType flash_attention_kernel from_head_minor get_kernel_name"
        ),
        "its argument is a mask as an array.\n  Use make_attention_reference.": (
            "attention_reference attention_reference_custom"
        ),
    },
    "experimental.rnn": {
        "the network is a loop of jax.lax here, which every transformation goes through.\n  Use "
        "lstm, and jax.vjp of it.": (
            "lstm_bwd lstm_fwd rnn_abstract_eval rnn_bwd_abstract_eval rnn_bwd_p rnn_fwd_p"
        ),
        "it names a type of annotations.\n  Use jax.Array.": "PRNGKeyArray",
    },
    "experimental.roofline.roofline": {
        f"{_NO_MORE}\n  Use jax.tree.broadcast.": "broadcast_prefix",
        f"{_NO_MORE}\n  Use dataclasses.field.": "field",
        f"{_NO_MORE}\n  Use a loop.": "foreach",
        "functions over a mesh are counted by their bodies.\n  Use jax.shard_map.": "shard_map_p",
    },
    "experimental.source_mapper.mlir": {
        "places are read from what Teucer writes, not from text by patterns.\n  Use "
        "create_mlir_sourcemap.": (
            "CALLSITE_REGEX LOC_REGEX Location Redirect SCOPED_REGEX SRC_REGEX parse_mlir_locations"
        ),
    },
    "experimental.sparse.ad": {
        f"{_NO_MORE}\n  Use functools.wraps.": "api_boundary wraps",
        f"{_NO_MORE}\n  Use slices.": "split_list",
    },
    "experimental.sparse.bcoo": {
        f"{_NO_MORE}\n  Use operator.index and the rank.": "canonicalize_axis",
        "products of coordinates with dense arrays are bcoo_dot_general.\n  Use "
        "bcoo_dot_general.": "coo_spmm_p coo_spmv_p",
        f"{_NO_MORE}\n  Use range.": "ranges_like remaining",
    },
    "experimental.sparse.coo": {
        f"{_NO_MORE}\n  Use jax.numpy.promote_types.": "promote_dtypes",
    },
    "experimental.sparse.csr": {
        f"{_NO_MORE}\n  Use jax.numpy.promote_types.": "promote_dtypes",
    },
    "experimental.sparse.transform": {
        "it is what a loop of JAX's module leaves behind.\n  Use sparsify.": (
            "bcoo_impl bcsr_impl impl method prim"
        ),
        f"{_FUNCTIONS}\n  Use sparsify.": "lift_jvp sparsify_fun sparsify_subtrace",
    },
    "experimental.transfer": {
        f"{_NO_MORE}\n  Use Python.": "use_cpp_class use_cpp_method",
    },
    "extend.core.primitives": {
        f"{_PRIMITIVE}\n  Use jax.lax.empty.": "empty2_p",
        f"{_PRIMITIVE}\n  Use jax.lax.ragged_all_to_all.": "ragged_all_to_all_p",
    },
    "extend.mlir": {
        f"{_LOWERING}, and jax.lax.with_sharding_constraint in it.": (
            "lower_with_sharding_in_types"
        ),
    },
    "interpreters.ad": {
        f"{_FUNCTIONS}\n  Use jax.jvp.": "jvp",
        f"{_FUNCTIONS}\n  Use jax.linearize.": "linearize",
    },
    "interpreters.batching": {
        "it takes JAX's description of the mapped axis.\n  Use jax.vmap of "
        "jax.extend.core.jaxpr_as_fun(jaxpr).": "batch_jaxpr_axes zero_if_mapped",
        f"{_FUNCTIONS}\n  Use jax.vmap.": "batch_subtrace",
    },
    "interpreters.mlir": {
        "it names a type of annotations.\n  Use typing.Any.": "ConstantHandler MeshAxisName",
        "channels to hosts belong to JAX's lowering of callbacks.\n  Use emit_python_callback.": (
            "DEVICE_TO_DEVICE_TYPE RECV_FROM_HOST_TYPE SEND_TO_HOST_TYPE"
        ),
        f"{_LOWERING} with symbolic sizes, by jax.export.": "ShapePolyLoweringState",
        "types are written as text.\n  Use aval_to_ir_type.": "ir_type_handlers",
        f"{_LOWERING}.lower(*args).": "lower_jaxpr_to_module",
    },
    "interpreters.partial_eval": {
        "it names a type of annotations.\n  Use typing.Any.": "Val",
        f"a jaxpr is cut in two by running it, with no rules of primitives.\n  {_RULES}": (
            "custom_partial_eval_rules partial_eval_jaxpr_custom_rules"
        ),
        "calls lose dead code by a rule of their own.\n  Use dce_jaxpr, or register a rule in "
        "dce_rules.": "dce_jaxpr_call_rule dce_jaxpr_closed_call_rule",
        "high types are lowered as the program is.\n  Use jax.jit(f).lower(*args).": (
            "lower_jaxpr lower_jaxpr2"
        ),
        "what is unknown is recorded at once, without recipes.\n  Use trace_to_jaxpr_nounits.": (
            "new_eqn_recipe"
        ),
    },
    "interpreters.pxla": {
        f"{_LOWERING}.lower(*args).compile(compiler_options).": "create_compile_options",
    },
    "lax": {
        f"{_PRIMITIVE}\n  Use jax.lax.ragged_all_to_all.": "ragged_all_to_all_p",
        "programs have no such equation.\n  Use jax.lax.optimization_barrier.": "stage_p",
    },
}
# Names that JAX's modules import for their own use, and show: where they are, the names.
IMPORTED: dict[str, dict[str, str]] = {
    "experimental.colocated_python.func": {"typing.Any": "ShapeDtypeStructTree"},
    "experimental.fused": {
        "jax": "typeof",
        "jax.api_util": "debug_info",
        "jax.tree_util": "tree_flatten tree_unflatten",
        "functools.lru_cache": "weakref_lru_cache",
    },
    "experimental.jet": {
        "jax.tree_util": (
            "register_pytree_node tree_flatten tree_structure tree_unflatten treedef_is_leaf"
        )
    },
    "experimental.multihost_utils": {
        "jax": "P",
        "jax.tree_util": "tree_flatten tree_unflatten",
    },
    "experimental.ode": {"jax.tree_util": "tree_leaves tree_map"},
    "experimental.pallas.ops.gpu.reduce_scatter_mgpu": {"typing": "Literal"},
    "experimental.pallas.ops.tpu.all_gather": {"jax": "P"},
    "experimental.pallas.ops.tpu.paged_attention.paged_attention_kernel": {"typing": "Literal"},
    "experimental.pallas.ops.tpu.paged_attention.quantization_utils": {"jax": "P"},
    "experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel": {"typing": "Literal"},
    "experimental.rnn": {"jax": "custom_vjp", "jax.nn": "sigmoid tanh"},
    "experimental.roofline.roofline": {
        "jax": "shard_map",
        "jax.interpreters.partial_eval": "dce_jaxpr lower_jaxpr2",
        "jax.sharding": "AbstractMesh Mesh",
        "jax.tree_util": "tree_flatten tree_map tree_unflatten",
    },
    "experimental.sparse.api": {"jax.experimental.sparse": "BCOO BCSR COO CSC CSR JAXSparse"},
    "experimental.sparse.bcoo": {
        "jax": "vmap",
        "jax.experimental.sparse": (
            "CuSparseEfficiencyWarning JAXSparse SparseEfficiencyError SparseEfficiencyWarning"
        ),
        "jax.lax": "DotDimensionNumbers GatherDimensionNumbers GatherScatterMode",
        "jax.typing": "ArrayLike",
    },
    "experimental.sparse.bcsr": {
        "jax.experimental.sparse": "CuSparseEfficiencyWarning JAXSparse SparseEfficiencyWarning",
        "jax.lax": "DotDimensionNumbers",
        "jax.typing": "ArrayLike",
    },
    "experimental.sparse.coo": {
        "jax.experimental.sparse": "CuSparseEfficiencyWarning JAXSparse",
        "jax.typing": "ArrayLike",
    },
    "experimental.sparse.csr": {"jax.experimental.sparse": "CuSparseEfficiencyWarning JAXSparse"},
    "experimental.sparse.test_util": {
        "jax.experimental.sparse.ad": "is_sparse",
        "jax.lax": "DotDimensionNumbers",
    },
    "experimental.sparse.transform": {
        "jax.api_util": "flatten_fun_nokwargs",
        "jax.experimental.sparse": "BCOO BCSR bcoo_multiply_dense bcoo_multiply_sparse",
        "jax.tree_util": "tree_flatten tree_map tree_unflatten",
    },
    "experimental.sparse.util": {
        "jax": "vmap",
        "jax.api_util": "flatten_axes",
        "jax.lax": "DotDimensionNumbers",
    },
    "experimental.topologies": {"jax": "Device"},
    "interpreters.mlir": {"jax.sharding": "Mesh"},
}
# Messages for names that JAX itself has removed.
REMOVED: dict[str, dict[str, str]] = {
    "": {
        "it is deprecated; use jax.device_put instead.": (
            "device_put_replicated device_put_sharded"
        ),
        "use jax.tree.map.": "tree_map",
    },
    "lax": {"it was removed in JAX 0.10; use jax.lax.pcast(x, axis_name, to='varying').": "pvary"},
    "sharding": {"it was removed in JAX 0.6; use NamedSharding.": "PositionalSharding"},
}


def advice(module: str, name: str) -> str:
    """The reason that the error of a missing name gives; empty if JAX does not have the name."""
    _, _, short = module.partition(".")
    for table, said in (
        (REFUSED, ", which JAX has: {}"),
        (IMPORTED, ", which JAX has: its module imports it for its own use.\n  Use that of {}."),
        (REMOVED, ": {}"),
    ):
        for what, names in table.get(short, {}).items():
            if name in names.split():
                return said.format(what)
    return ""
