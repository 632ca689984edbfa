# Made by tools/stubs.py from the tables of this module.
from teucer._sparse.bcsr import _bcsr_dot_general as _bcsr_dot_general
from teucer._sparse.bcsr import _bcsr_fromdense as _bcsr_fromdense
from teucer._sparse.bcsr import _bcsr_todense as _bcsr_todense
from teucer._sparse.bcsr import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from teucer._sparse.bcsr import bcsr_concatenate as bcsr_concatenate
from teucer._sparse.bcsr import bcsr_dot_general as bcsr_dot_general
from teucer._sparse.bcsr import bcsr_dot_general_p as bcsr_dot_general_p
from teucer._sparse.bcsr import bcsr_eliminate_zeros as bcsr_eliminate_zeros
from teucer._sparse.bcsr import bcsr_extract as bcsr_extract
from teucer._sparse.bcsr import bcsr_extract_p as bcsr_extract_p
from teucer._sparse.bcsr import bcsr_fromdense as bcsr_fromdense
from teucer._sparse.bcsr import bcsr_fromdense_p as bcsr_fromdense_p
from teucer._sparse.bcsr import bcsr_sum_duplicates as bcsr_sum_duplicates
from teucer._sparse.bcsr import bcsr_todense as bcsr_todense
from teucer._sparse.bcsr import bcsr_todense_p as bcsr_todense_p
from teucer._sparse.bcsr_array import BCSR as BCSR
from teucer._sparse.layout import BCSRProperties as BCSRProperties
