"""Functions whose division among devices is said by hand, and the rules by which Shardy divides
their calls."""

from teucer.sharding._custom_partitioning import custom_partitioning, custom_partitioning_p
from teucer.sharding._sharding_rule import BATCHING, ArrayMapping, CompoundFactor, SdyShardingRule

__all__ = [
    "BATCHING",
    "ArrayMapping",
    "CompoundFactor",
    "SdyShardingRule",
    "custom_partitioning",
    "custom_partitioning_p",
]
