# Made by tools/stubs.py from the tables of this module.
from teucer._sparse.coo import COOInfo as COOInfo
from teucer._sparse.csr import CSC as CSC
from teucer._sparse.csr import CSR as CSR
from teucer._sparse.csr import _csr_fromdense as _csr_fromdense
from teucer._sparse.csr import _csr_matmat as _csr_matmat
from teucer._sparse.csr import _csr_matvec as _csr_matvec
from teucer._sparse.csr import _csr_todense as _csr_todense
from teucer._sparse.csr import csr_fromdense as csr_fromdense
from teucer._sparse.csr import csr_fromdense_p as csr_fromdense_p
from teucer._sparse.csr import csr_matmat as csr_matmat
from teucer._sparse.csr import csr_matmat_p as csr_matmat_p
from teucer._sparse.csr import csr_matvec as csr_matvec
from teucer._sparse.csr import csr_matvec_p as csr_matvec_p
from teucer._sparse.csr import csr_todense as csr_todense
from teucer._sparse.csr import csr_todense_p as csr_todense_p
from teucer._sparse.util import Shape as Shape
