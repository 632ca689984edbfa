"""Shardings that the compiler chose, and their serialized form."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._devices.chosen": "GSPMDSharding",
        "teucer._jax.protos": (
            "get_hlo_sharding_from_serialized_proto get_op_sharding_from_serialized_proto "
            "get_serialized_proto_from_hlo_sharding"
        ),
    },
)
