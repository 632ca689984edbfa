"""Shardings that the compiler chose, and their serialized form.

>>> from teucer._xla.arrays import HloSharding
>>> proto = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
>>> get_hlo_sharding_from_serialized_proto(proto)
{replicated}
"""

from teucer._base.lazy import listing
from teucer._devices.chosen import GSPMDSharding
from teucer._xla.arrays import HloSharding
from teucer._xla.arrays import OpSharding as _OpSharding

__all__ = [
    "GSPMDSharding",
    "get_hlo_sharding_from_serialized_proto",
    "get_op_sharding_from_serialized_proto",
    "get_serialized_proto_from_hlo_sharding",
]
__dir__ = listing(__name__, __all__)


def get_op_sharding_from_serialized_proto(sharding: bytes) -> _OpSharding:
    """The sharding that a serialized protocol buffer says, as the protocol buffer."""
    proto = _OpSharding()
    proto.ParseFromString(sharding)
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> HloSharding:
    """The sharding that a serialized protocol buffer says."""
    return HloSharding.from_proto(get_op_sharding_from_serialized_proto(sharding))


def get_serialized_proto_from_hlo_sharding(sharding: HloSharding) -> bytes:
    """A sharding as a serialized protocol buffer."""
    return sharding.to_proto().SerializeToString()  # type: ignore[no-any-return]
