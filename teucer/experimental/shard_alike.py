"""Values that the compiler is to lay out alike."""

from teucer.sharding._shard_alike import shard_alike

__all__ = ["shard_alike"]
