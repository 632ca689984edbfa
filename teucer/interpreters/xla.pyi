# Made by tools/stubs.py from the tables of this module.
from teucer._arrays.transfer import host_rules as _canonicalize_dtype_handlers
from teucer._jax.primitive import apply_primitive as apply_primitive
from teucer._xla.client import Client as _Backend

Backend = _Backend
canonicalize_dtype_handlers = _canonicalize_dtype_handlers
