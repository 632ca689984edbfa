"""Groups of operations that are scheduled together, and calls of which the compiler is told
something."""

from teucer._derived.metadata import scheduling_group, xla_metadata_call, xla_metadata_call_p

__all__ = ["scheduling_group", "xla_metadata_call", "xla_metadata_call_p"]
