"""Exported functions.

Jitted functions as StableHLO that outlives the process, with symbolic shapes.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._export.exported": (
            "DisabledSafetyCheck Exported default_export_platform deserialize export "
            "maximum_supported_calling_convention_version "
            "minimum_supported_calling_convention_version"
        ),
        "teucer._export.serialization": (
            "register_namedtuple_serialization register_pytree_node_serialization"
        ),
        "teucer._export.symbolic_shapes": (
            "SymbolicScope is_symbolic_dim symbolic_args_specs symbolic_dim_bounds symbolic_shape"
        ),
    },
)
