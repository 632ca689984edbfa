"""Contexts of MLIR and of lowering rules, for libraries that write StableHLO through jaxlib's
bindings."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._jax.module_context": "LoweringRuleContext",
        "teucer._xla.mlir": "JaxIrContext upstream_dialects",
    },
)
