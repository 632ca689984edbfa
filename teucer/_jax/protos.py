"""Shardings that the compiler chose, in their serialized form.

>>> from teucer._xla.arrays import HloSharding
>>> proto = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
>>> get_hlo_sharding_from_serialized_proto(proto)
{replicated}
"""

from teucer._xla.arrays import HloSharding, OpSharding


def get_op_sharding_from_serialized_proto(sharding: bytes) -> OpSharding:
    """The sharding that a serialized protocol buffer says, as the protocol buffer."""
    proto = OpSharding()
    proto.ParseFromString(sharding)
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> HloSharding:
    """The sharding that a serialized protocol buffer says."""
    return HloSharding.from_proto(get_op_sharding_from_serialized_proto(sharding))


def get_serialized_proto_from_hlo_sharding(sharding: HloSharding) -> bytes:
    """A sharding as a serialized protocol buffer."""
    return sharding.to_proto().SerializeToString()  # type: ignore[no-any-return]
