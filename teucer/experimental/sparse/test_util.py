"""Helpers of JAX's own tests of sparse arrays, which Teucer does not have."""

from teucer._experimental.unbuilt import unbuilt_names

__all__: list[str] = []
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "BatchedDotGeneralProperties SparseLayout SparseTestCase iter_bcsr_layouts iter_sparse_layouts "
    "MATMUL_TOL iter_subsets rand_bcoo rand_bcsr rand_sparse",
    "the helpers of JAX's own tests are not here.\n  jax.experimental.sparse.random_bcoo makes "
    "arrays, jax.test_util.check_grads compares derivatives.",
)
