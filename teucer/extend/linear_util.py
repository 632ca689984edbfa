"""Functions wrapped in transformations of their arguments and results, for libraries that trace
functions of flat values."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "collections.abc": "Callable",
        "teucer._jax.linear_util": (
            "StoreException WrappedFun cache merge_linear_aux transformation "
            "transformation2 transformation_with_aux transformation_with_aux2 wrap_init"
        ),
    },
)
