"""How arrays lie in memory."""

from teucer._derived.layouts import with_layout_constraint
from teucer._runtime.formats import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]
