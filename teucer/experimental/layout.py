"""How arrays lie in memory."""

from teucer._runtime.formats import Format, Layout

__all__ = ["Format", "Layout"]
