"""Values that the compiler is to lay out alike."""

from teucer._sharding.shard_alike import shard_alike

__all__ = ["shard_alike"]
