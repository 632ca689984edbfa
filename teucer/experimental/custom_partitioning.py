"""Functions whose division among devices is said by hand, and the rules by which Shardy divides
their calls."""

from teucer._sharding.custom_partitioning import custom_partitioning, custom_partitioning_p
from teucer._sharding.sharding_rule import BATCHING, ArrayMapping, CompoundFactor, SdyShardingRule

__all__ = [
    "BATCHING", "ArrayMapping", "CompoundFactor", "SdyShardingRule", "custom_partitioning",
    "custom_partitioning_p",
]  # fmt: skip
