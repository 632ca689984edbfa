"""Groups of operations that are scheduled together, and calls with metadata for the compiler."""

from teucer._derived.metadata import scheduling_group, xla_metadata_call, xla_metadata_call_p

__all__ = ["scheduling_group", "xla_metadata_call", "xla_metadata_call_p"]
