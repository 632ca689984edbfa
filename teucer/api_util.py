"""Arguments of functions as flat values, for libraries that write transformations."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._jax.api_util": (
            "argnums_partial debug_info donation_vector flatten_axes flatten_fun "
            "flatten_fun_nokwargs rebase_donate_argnums safe_map shaped_abstractify"
        ),
    },
)
