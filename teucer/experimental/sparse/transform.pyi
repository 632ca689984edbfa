# Made by tools/stubs.py from the tables of this module.
from teucer._sparse.rules import sparse_rules_bcoo as sparse_rules_bcoo
from teucer._sparse.rules import sparse_rules_bcsr as sparse_rules_bcsr
from teucer._sparse.spenv import SparsifyEnv as SparsifyEnv
from teucer._sparse.spenv import SparsifyValue as SparsifyValue
from teucer._sparse.spenv import arrays_to_spvalues as arrays_to_spvalues
from teucer._sparse.spenv import spvalues_to_arrays as spvalues_to_arrays
from teucer._sparse.spenv import spvalues_to_avals as spvalues_to_avals
from teucer._sparse.transform import Array as Array
from teucer._sparse.transform import ArrayOrSparse as ArrayOrSparse
from teucer._sparse.transform import SparseTrace as SparseTrace
from teucer._sparse.transform import SparseTracer as SparseTracer
from teucer._sparse.transform import eval_sparse as eval_sparse
from teucer._sparse.transform import sparsify as sparsify
from teucer._sparse.transform import sparsify_raw as sparsify_raw
