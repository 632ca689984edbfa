"""Functions wrapped in transformations of their arguments and results, for libraries that trace
functions of flat values."""

from teucer._base.lazy import listing
from teucer._jax.linear_util import (
    Callable,
    StoreException,
    WrappedFun,
    cache,
    merge_linear_aux,
    transformation,
    transformation2,
    transformation_with_aux,
    transformation_with_aux2,
    wrap_init,
)
from teucer._jax.linear_util import Store as Store

__all__ = [
    "Callable",
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]
__dir__ = listing(__name__, __all__)
