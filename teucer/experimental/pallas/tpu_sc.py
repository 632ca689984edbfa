"""Names of `pallas.tpu_sc`, for kernels on the sparse cores of TPUs, which are not built."""

from __future__ import annotations

from teucer._experimental.unbuilt import unbuilt_names

__all__: list[str] = []
__getattr__, __dir__ = unbuilt_names(
    __name__,
    """
    Indices PackFormat ScalarSubcoreMesh SparseCorePushStreamWarning VectorSubcoreMesh addupdate
    addupdate_compressed addupdate_scatter all_reduce_ffs all_reduce_population_count bitcast
    cummax cumsum fetch_and_add get_sparse_core_info load_expanded load_gather pack
    parallel_loop scan_count slice_subcore_vmem_from_shared sort_key_val store_compressed
    store_scatter subcore_barrier unpack
    """,
    "kernels are not compiled for the sparse cores of TPUs.",
)
