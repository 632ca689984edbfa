"""`sparsify`: functions of dense arrays made into functions of sparse ones.

A function is traced as if all its arguments were dense. A rule for each primitive then does the
same to the buffers of sparse values (`_sparse_rules`, and here for primitives that carry jaxprs).
`SparseTrace` does the same while the function runs.
"""

from teucer._base import lazy

_SOURCES = {
    "teucer._sparse.rules": "sparse_rules_bcoo sparse_rules_bcsr",
    "teucer._sparse.spenv": (
        "SparsifyEnv SparsifyValue arrays_to_spvalues spvalues_to_arrays spvalues_to_avals"
    ),
    "teucer._sparse.transform": (
        "Array ArrayOrSparse SparseTrace SparseTracer eval_sparse sparsify sparsify_raw"
    ),
}
__getattr__, __dir__, __all__ = lazy.lazy_module(__name__, _SOURCES)
