"""Python functions that work on the buffers of a program in place."""

from teucer._xla.platforms.foreign import Buffer, ExecutionContext, ExecutionStage
from teucer.lax._foreign.buffer_callback import buffer_callback

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]
