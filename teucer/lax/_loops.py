"""The primitives of which outlining makes loops (`teucer._targets.cpu.roll`)."""

from teucer.lax._control.scan import scan_p
from teucer.lax._joining import stack_p, unstack_p
from teucer.lax._slicing import slice_p

__all__ = ["PRIMITIVES"]

PRIMITIVES = {"scan": scan_p, "stack": stack_p, "unstack": unstack_p, "slice": slice_p}
