# Made by tools/stubs.py from the tables of this module.
from teucer._sparse.api import empty as empty
from teucer._sparse.api import eye as eye
from teucer._sparse.api import todense as todense
from teucer._sparse.api import todense_p as todense_p
