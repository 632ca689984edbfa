"""Values of Python classes that libraries bring, and primitives run one by one.

`canonicalize_dtype_handlers[cls] = lambda value: ...` says how values of a class become NumPy
arrays of a dtype that programs take; `jax.core.pytype_aval_mappings[cls]` says their type.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._arrays.transfer": "canonicalize_dtype_handlers=host_rules",
        "teucer._jax.primitive": "apply_primitive",
        "teucer._xla.client": "Backend=Client",
    },
)
