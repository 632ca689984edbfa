"""Backends: the clients of the platforms."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._derived.caches": "clear_backends",
        "teucer._jax.backend": (
            "backend_xla_version backends clear_in_memory_compilation_cache get_backend "
            "get_compile_options get_default_device register_backend_cache "
            "register_backend_factory"
        ),
        "teucer._xla.platforms.proxy": "ifrt_proxy=.",
    },
)
