# Made by tools/stubs.py from the tables of this module.
from teucer._sparse.util import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from teucer._sparse.util import Shape as Shape
from teucer._sparse.util import SparseEfficiencyError as SparseEfficiencyError
from teucer._sparse.util import SparseEfficiencyWarning as SparseEfficiencyWarning
from teucer._sparse.util import SparseInfo as SparseInfo
from teucer._sparse.util import _coo_to_csr as _coo_to_csr
from teucer._sparse.util import _count_stored_elements as _count_stored_elements
from teucer._sparse.util import _count_stored_elements_per_batch as _count_stored_elements_per_batch
from teucer._sparse.util import _csr_to_coo as _csr_to_coo
from teucer._sparse.util import broadcasting_vmap as broadcasting_vmap
from teucer._sparse.util import known as known
from teucer._sparse.util import nfold_vmap as nfold_vmap
