"""The primitives of which outlining makes loops (`teucer._targets.cpu.roll`), provided to the floors below."""

from teucer._core.provided import Loops, provided

__all__: list[str] = []


def _loops() -> Loops:
    # Here, since `import teucer` would take longer with them, and few programs have loops to be found.
    from teucer.lax._control.scan import scan_p
    from teucer.lax._joining import stack_p, unstack_p
    from teucer.lax._slicing import slice_p
    return Loops(scan_p, stack_p, unstack_p, slice_p)


provided.fill(loops=_loops)
