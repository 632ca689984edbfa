"""What the compiler is told of operations."""

from teucer._derived.metadata import set_xla_metadata, xla_metadata_call

__all__ = ["set_xla_metadata", "xla_metadata_call"]
