"""What may still change: callbacks with side effects (`io_callback`)."""

from teucer.lax._callbacks import io_callback

__all__ = ["io_callback"]
