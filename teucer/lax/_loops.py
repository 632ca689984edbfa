"""What is provided to the floors below, loaded when it is asked for: primitives of loops, and who is to blame for a NaN."""

from collections.abc import Sequence
from typing import Any

from teucer._core.provided import Loops, provided

__all__: list[str] = []


def _loops() -> Loops:
    # Here, since `import teucer` would take longer with them, and few programs have loops to be found.
    from teucer.lax._control.scan import scan_p
    from teucer.lax._joining import stack_p, unstack_p
    from teucer.lax._slicing import slice_p
    return Loops(scan_p, stack_p, unstack_p, slice_p)


def _blame(closed: Any, args: Sequence[Any]) -> None:
    # For programs that have failed.
    from teucer.lax._blame import blame
    blame(closed, args)


provided.fill(loops=_loops, blame=_blame)
