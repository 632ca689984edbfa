# Made by tools/stubs.py from the tables of this module.
from teucer._sparse.coo import COO as COO
from teucer._sparse.coo import COOInfo as COOInfo
from teucer._sparse.coo import Dtype as Dtype
from teucer._sparse.coo import _coo_fromdense as _coo_fromdense
from teucer._sparse.coo import _coo_matmat as _coo_matmat
from teucer._sparse.coo import _coo_matvec as _coo_matvec
from teucer._sparse.coo import _coo_todense as _coo_todense
from teucer._sparse.coo import coo_fromdense as coo_fromdense
from teucer._sparse.coo import coo_fromdense_p as coo_fromdense_p
from teucer._sparse.coo import coo_matmat as coo_matmat
from teucer._sparse.coo import coo_matmat_p as coo_matmat_p
from teucer._sparse.coo import coo_matvec as coo_matvec
from teucer._sparse.coo import coo_matvec_p as coo_matvec_p
from teucer._sparse.coo import coo_todense as coo_todense
from teucer._sparse.coo import coo_todense_p as coo_todense_p
from teucer._sparse.util import Shape as Shape
