"""JAX's compilers of kernels for TPUs and NVIDIA GPUs, which Teucer does not have.

Kernels are written with `jax.experimental.pallas`.
"""

from __future__ import annotations

from teucer._experimental.unbuilt import unbuilt_modules, unbuilt_names

_TPU = (
    "Mosaic's kernels are not compiled for TPUs yet.\n  jax.experimental.pallas runs kernels "
    "interpreted, and compiles them for CPUs and NVIDIA GPUs."
)
_GPU = (
    "kernels with warp groups, TMA and tensor memory are not compiled yet.\n  Write the kernel for "
    "Triton, by pl.pallas_call and pallas.triton."
)
__all__: list[str] = []
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "OptLevel Tiling TpuMemorySpace TpuSideEffectType as_tpu_kernel lower_module_to_custom_call "
    "lowered_as_tpu_kernel",
    _TPU,
)

unbuilt_modules(
    __name__,
    {
        "dialects": "",
        "dialects.tpu": (
            "assume_multiple enqueue_dma enqueue_indirect_dma load memref_slice pack_subelements "
            "register_dialect reinterpret_cast sem_alloc store unpack_subelements wait_dma2 "
            "wait_indirect_dma"
        ),
    },
    _TPU,
)
unbuilt_modules(
    __name__,
    {
        "gpu": (
            "AsyncCopyImplementation Barrier BarrierRef ClusterBarrier CollectiveBarrierRef "
            "CopyPartition CtaBarrier CtaBarrierRef DialectBarrierRef DynamicSlice "
            "FragmentedArray GLOBAL_BROADCAST LaunchContext LoweringSemantics MMALayouts "
            "MemRefTransform OOBFillMode Partition Partition1D Rounding SemaphoreRef "
            "TCGEN05_COL_LAYOUT TCGEN05_LAYOUT TCGEN05_ROW_LAYOUT TCGEN05_TRANSPOSED_LAYOUT "
            "TMA_INDICES_4_LAYOUT TMA_INDICES_LAYOUT TMEM TMEM_NATIVE_LAYOUT ThreadSubset "
            "TileTransform TiledLayout TransposeTransform Union WGMMAAccumulator WGMMA_COL_LAYOUT "
            "WGMMA_LAYOUT WGMMA_LAYOUT_8BIT WGMMA_LAYOUT_UPCAST_2X WGMMA_LAYOUT_UPCAST_4X "
            "WGMMA_ROW_LAYOUT WGMMA_TRANSPOSED_LAYOUT WGSplatFragLayout WGStridedFragLayout "
            "as_gpu_kernel as_torch_gpu_kernel bitwidth bytewidth c commit_shared concatenate "
            "copy_tiled debug_print ds fori get_cluster_ref infer_layout is_known_divisible "
            "is_nvshmem_available lower_mgpu_dialect memref_fold memref_reshape memref_slice "
            "memref_transpose memref_unfold memref_unsqueeze nanosleep optimization_barrier "
            "query_cluster_cancel single_thread single_thread_predicate tile_shape "
            "tmem_native_layout to_layout_attr try_cluster_cancel warp_idx warpgroup_barrier "
            "warpgroup_idx when "
        )
    },
    _GPU,
)
unbuilt_modules(
    f"{__name__}.gpu",
    {
        "constraints": (
            "AlwaysTrue CollapseShape ConstraintSystem Divides Equals IsSupportedBroadcast "
            "IsTransferable IsTransferableSmemRegisters IsTransferableTmemRegisters MemorySpace "
            "MinorDimDivisibleBy NotOfType OneOf Reduce RegisterLayout Relayout Reshape "
            "SMEMTransforms TMEMLayout Transpose Unsatisfiable Variable "
            "canonicalize_strict_non_splat_relayouts_to_equals compute_transitively_equal_vars "
            "is_valid_assignment merge_divides_constraints non_splat_variables reduce "
            "reduce_collapse_shape_expression reduce_constraint reduce_expression "
            "reduce_reduce_expression reduce_reshape_expression reduce_transpose_expression "
            "saturate_distinct_from_splat saturate_divides_constraints_for_equal_vars "
            "saturate_one_of_constraints_for_equal_vars"
        ),
        "core": (
            "BAZEL_TEST Barrier ClusterBarrier CtaBarrier FWD_COMPAT_IR_VERSION KNOWN_KERNELS "
            "LoweringSemantics PYTHON_RUNFILES RUNTIME_PATH TMEM Union "
            "artificial_shared_memory_limit as_gpu_kernel as_torch_gpu_kernel c cuda_root "
            "is_nvshmem_available is_single_process_multi_device_topology lower_mgpu_module "
            "mosaic_gpu_p"
        ),
        "dialect_lowering": (
            "CMPF_IMPLS CMPI_IMPLS LoweringContext MMALayouts RECURSED Recursed do_mma "
            "fragmented_array_to_ir lower_mgpu_dialect memref_transforms_from_transforms_attr "
            "pprint_layout pprint_transforms swizzle_from_transforms_attr tile_offset "
            "tile_strides transform_type unwrap_transformed_memref wrap_transformed_memref"
        ),
        "fragmented_array": (
            "FragmentedArray ReductionKind Replicated Rounding SMEM_BANKS SMEM_BANK_BYTES "
            "StaggeredTransferPlan TCGEN05_COL_LAYOUT TCGEN05_LAYOUT TCGEN05_ROW_LAYOUT "
            "TCGEN05_TRANSPOSED_LAYOUT TMA_INDICES_4_LAYOUT TMA_INDICES_LAYOUT TMEM_NATIVE_LAYOUT "
            "TiledLayout Tiling TransferPlan TransferPlanDerivationError TrivialTransferPlan "
            "TxMatrixIneligible Unreduced UnsupportedTransferError WARPGROUP_SIZE "
            "WARPS_IN_WARPGROUP WARP_SIZE WGMMA_COL_LAYOUT WGMMA_LAYOUT WGMMA_LAYOUT_8BIT "
            "WGMMA_LAYOUT_ACC_32BIT WGMMA_LAYOUT_UPCAST_2X WGMMA_LAYOUT_UPCAST_4X "
            "WGMMA_ROW_LAYOUT WGMMA_TRANSPOSED_LAYOUT WGSplatFragLayout WGStridedFragLayout addf "
            "c can_relayout_wgmma_2x_to_wgmma can_relayout_wgmma_4x_to_wgmma_2x concatenate "
            "copy_tiled enumerate_negative is_supported_strided_layout_broadcast mgpu_lib mulf "
            "optimization_barrier plan_gmem_transfer plan_tiled_transfer subf "
            "tiled_copy_smem_gmem_layout tmem_native_layout"
        ),
        "inference_utils": (
            "attr_element has_any_layout_set has_in_layouts_set has_out_layouts_set "
            "has_out_transforms_set in_layouts in_tmem_layouts in_transforms "
            "is_transformable_smem_memref out_layouts out_tmem_layouts out_transforms "
            "should_have_in_layout should_have_in_tmem_layout should_have_in_transforms "
            "should_have_layout should_have_out_layout should_have_out_tmem_layout "
            "should_have_out_transforms should_have_tmem_layout should_have_transforms"
        ),
        "launch_context": (
            "AsyncCopyImplementation COLLECTIVE_ATTR COLLECTIVE_METADATA_SIZE "
            "CollapseLeadingIndicesTransform CopyPartition DEVICE_ID_ATTR DropUnitDimsTransform "
            "GLOBAL_BROADCAST GlobalBroadcast HBM_ALIGNMENT KERNEL_ARG_ID_ATTR LaunchContext "
            "MOSAIC_GPU_SMEM_ALLOC_ATTR MemRefTransform OOBFillMode ORIGINAL_KERNEL_ARG_ATTR "
            "OnDeviceProfiler ReplicationError Rounding SYMMETRIC_MEMORY_ARGS_ATTR Scratch "
            "TMA_DESCRIPTOR_ALIGNMENT TMA_DESCRIPTOR_BYTES TileTransform TransposeTransform "
            "USES_MULTIMEM_ATTR c get_collective_metadata_size jaxlib_version "
            "uses_collective_metadata"
        ),
        "layout_inference": (
            "DerivationContext MMALayouts ValueSite VariableType assign_layouts "
            "check_for_expensive_relayout check_layout_assignment conjure_assignment "
            "consumer_operands derive_relayout_constraints diagnose_unsatisfiable_system "
            "dynamic_gcd extract_assignment_candidates_from_reduce_equation find_assignments_for "
            "infer_layout is_hopper is_terminator is_vector mma_tiling_constraint "
            "prime_decomposition producer_result traverse_op try_raise_constraint_specific_error "
            "vector_value_sites"
        ),
        "layouts": (
            "from_layout_attr from_transform_attr pprint_layout splat_is_compatible_with_tiled "
            "to_layout_attr to_transform_attr"
        ),
        "mma": "MMALayouts SUPPORTED_F8_TYPES mma",
        "mma_utils": ("Dim create_descriptor encode_addr encode_descriptor tiled_memref_shape"),
        "profiler": (
            "Arch BarrierRef CollectiveBarrierRef CtaBarrierRef Cupti DYNAMIC DYNAMIC32 "
            "DialectBarrierRef DynamicSlice ForResult MBARRIER_BYTES MultimemRef OnDeviceProfiler "
            "Partition Partition1D ProfilerSpec ReductionKind SemaphoreRef ThreadSubset "
            "WARPGROUP_SIZE WARPS_IN_WARPGROUP WARP_SIZE WORKGROUP_NVPTX_ADDRESS_SPACE "
            "before_thread_sync bitcast bitwidth bitwidth_impl bytewidth c ceil_div clock "
            "cluster_collective_mask cluster_idx commit_shared debug_print ds dtype_to_ir_type "
            "dump_to_file_or_stdout dyn_dot elements_to_bytes fence_release_sys fori get_arch "
            "get_cluster_ptr get_cluster_ref get_contiguous_strides get_memref_llvm_address_space "
            "getelementptr globaltimer gpu_address_space_to_nvptx inline_ptx is_cluster_smem_ref "
            "is_known_divisible is_memref_transposed is_signed is_smem_ref is_tmem_ref measure "
            "memref_descriptor_type memref_fold memref_ptr memref_reshape memref_slice "
            "memref_transpose memref_unfold memref_unsqueeze mosaic_gpu_lib multimem_load_reduce "
            "multimem_store nanosleep pack_array parse_indices prefetch_tensormap prmt "
            "ptr_as_memref query_cluster_cancel reduce_shape redux shfl_bfly single_thread "
            "single_thread_predicate smem smem_cluster smid tile_shape tmem to_memref_descriptor "
            "try_cluster_cancel vector_concat vector_slice warp_barrier warp_idx warp_tree_reduce "
            "warpgroup_barrier warpgroup_barrier_idx warpgroup_idx when"
        ),
        "tcgen05": (
            "COL_LAYOUT LAYOUT LaunchContext ROW_LAYOUT TCGEN05_SMEM_DESCRIPTOR_BIT TMEMLayout "
            "TMEMRef TMEM_MAX_COLS TMEM_NATIVE_LAYOUT TMEM_ROWS TRANSPOSED_LAYOUT "
            "async_copy_scales_smem_to_tmem async_copy_smem_to_tmem "
            "async_copy_sparse_metadata_smem_to_tmem b_scales_m64_collective_layout commit_arrive "
            "commit_tmem create_instr_descriptor create_scaled_f4_instr_descriptor "
            "create_scaled_f8f6f4_instr_descriptor fa_m64_collective_layout mma scales_layout "
            "sparse_group_elems sparse_meta_layout tmem_alloc tmem_alloc_exact_ncols tmem_dealloc "
            "tmem_default_layout tmem_half_lane_layout tmem_m64_collective_layout "
            "tmem_relinquish_alloc_permit wait_load_tmem"
        ),
        "utils": (
            "Arch BarrierRef CollectiveBarrierRef CtaBarrierRef DYNAMIC DYNAMIC32 "
            "DialectBarrierRef DynamicSlice ForResult MBARRIER_BYTES MultimemRef Partition "
            "Partition1D ReductionKind SemaphoreRef ThreadSubset WARPGROUP_SIZE "
            "WARPS_IN_WARPGROUP WARP_SIZE WORKGROUP_NVPTX_ADDRESS_SPACE before_thread_sync "
            "bitcast bitwidth bitwidth_impl bytewidth c ceil_div clock cluster_collective_mask "
            "cluster_idx commit_shared debug_print ds dtype_to_ir_type dump_to_file_or_stdout "
            "dyn_dot elements_to_bytes fence_release_sys fori get_arch get_cluster_ptr "
            "get_cluster_ref get_contiguous_strides get_memref_llvm_address_space getelementptr "
            "globaltimer gpu_address_space_to_nvptx inline_ptx is_cluster_smem_ref "
            "is_known_divisible is_memref_transposed is_signed is_smem_ref is_tmem_ref "
            "memref_descriptor_type memref_fold memref_ptr memref_reshape memref_slice "
            "memref_transpose memref_unfold memref_unsqueeze multimem_load_reduce multimem_store "
            "nanosleep pack_array parse_indices prefetch_tensormap prmt ptr_as_memref "
            "query_cluster_cancel reduce_shape redux shfl_bfly single_thread "
            "single_thread_predicate smem smem_cluster smid tile_shape tmem to_memref_descriptor "
            "try_cluster_cancel vector_concat vector_slice warp_barrier warp_idx warp_tree_reduce "
            "warpgroup_barrier warpgroup_barrier_idx warpgroup_idx when"
        ),
        "wgmma": ("SUPPORTED_F8_TYPES WGMMAAccumulator bytewidth c wgmma wgmma_fence wgmma_m64"),
    },
    _GPU,
)
