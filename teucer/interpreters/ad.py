"""Differentiation rules of primitives.

`primitive_jvps`, `primitive_transposes`, and ways to write them.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._core.array_ops": ("add_tangents=add_cotangents zeros_like_aval=zeros"),
        "teucer._core.primitive": "UndefinedPrimal=Undefined",
        "teucer._core.types": "Zero",
        "teucer._derived.accumulators": "GradAccum NullAccum RefAccum ValAccum",
        "teucer._jax.ad": (
            "add_jaxvals defbilinear defjvp defjvp2 deflinear deflinear2 "
            "get_primitive_transpose instantiate_zeros is_undefined_primal primitive_jvps "
            "primitive_transposes"
        ),
        "teucer._jax.jaxprs": "backward_pass jvp_jaxpr",
        "teucer._transform.jvp": "JVPTrace JVPTracer",
        "teucer.lax._structure": "add_jaxvals_p=add_any_p",
    },
)
