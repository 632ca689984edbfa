"""How arrays lie in memory."""

from teucer._arrays.formats import Format, Layout
from teucer._derived.layouts import with_layout_constraint

__all__ = ["Format", "Layout", "with_layout_constraint"]
