"""How arrays lie in memory."""

from teucer._arrays.formats import Format, Layout
from teucer._base.lazy import listing
from teucer._derived.layouts import with_layout_constraint
from teucer._experimental.unbuilt import unbuilt

__all__ = ["Format", "Layout", "explicit_layout", "with_layout_constraint"]
__dir__ = listing(__name__, __all__)


explicit_layout = unbuilt(
    "jax.experimental.layout.explicit_layout",
    "types of arrays do not carry layouts.\n  Use with_layout_constraint, or Format for what goes "
    "into a program and comes out of it.",
)
