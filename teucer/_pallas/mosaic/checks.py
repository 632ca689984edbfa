"""What is checked of a kernel before libtpu compiles it: blocks that fit its tiles, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from teucer._pallas.mosaic.text import Ref, Refused, bits
from teucer._pallas.records import Kernel
from teucer._pallas.semaphores import SemaphoreType

LANES, SUBLANES, WORD = 128, 8, 32
MIB = 2**20


def check(kernel: Kernel, windows: Sequence[Any], scratch: Sequence[Ref]) -> None:
    """Raise Refused for blocks that cut tiles, and for more VMEM than there is."""
    first = len(windows) - len(kernel.ins) - len(kernel.outs)
    for window, block in zip(windows[first:], (*kernel.ins, *kernel.outs), strict=True):
        if block.index is not None and window.space in ("vmem", "smem"):
            _check_tiles(window, block)
    _check_memory(kernel, windows, scratch)


def _check_tiles(window: Any, block: Any) -> None:
    """The last two sizes of a block are multiples of a tile's, or all of the array."""
    array, inner = block.array.shape, window.inner
    wanted = (SUBLANES, LANES)[-len(inner) :] if len(inner) > 1 else (
        LANES * WORD // bits(window.dtype),)  # fmt: skip
    for back, multiple in enumerate(reversed(wanted), 1):
        n, size = array[-back], inner[-back]
        if size != n and size % multiple:
            near = max(multiple, -(-size // multiple) * multiple)
            one = n if near > n else near
            raise Refused(
                f"{window.name}: blocks of {list(inner)} of an array of {list(array)} "
                f"{window.dtype.name}: {size} along axis {len(inner) - back} is no multiple of "
                f"{multiple}, nor all {n}",
                f"The last two axes of blocks are cut in tiles of {SUBLANES} x {LANES}: take {one} "
                f"there, or all of the axis.",
            )


def padded_bytes(shape: Sequence[int], dtype: Any) -> int:
    """The VMEM of an array, in whole tiles."""
    size = bits(dtype)
    rows, columns = (1, *shape)[-2:] if shape else (1, 1)
    packed = SUBLANES * WORD // size
    rows = -(-rows // packed) * packed if rows > 1 or len(shape) < 2 else SUBLANES
    columns = -(-columns // LANES) * LANES
    return math.prod(shape[:-2]) * rows * columns * size // 8


def vmem(windows: Sequence[Any], scratch: Sequence[Ref]) -> list[tuple[str, int]]:
    """Each buffer in VMEM with its bytes."""
    found = [
        (
            f"{x.name}: {x.dtype.name}{list(x.inner)}" + (" x 2 buffers" if x.buffers == 2 else ""),
            padded_bytes(x.inner, x.dtype) * x.buffers,
        )
        for x in windows
        if x.space == "vmem"
    ]
    found += [
        (f"scratch {i}: {r.dtype.name}{list(r.shape)}", padded_bytes(r.shape, r.dtype))
        for i, r in enumerate(scratch)
        if r.space == "vmem" and not isinstance(r.space, SemaphoreType)
    ]
    return found


# The most VMEM of any chip, v5e and v6e: more is refused whatever the chip.
LARGEST = 128 * MIB


def _check_memory(kernel: Kernel, windows: Sequence[Any], scratch: Sequence[Ref]) -> None:
    buffers = vmem(windows, scratch)
    total = sum(n for _, n in buffers)
    given = getattr(kernel.options, "vmem_limit_bytes", None)
    limit = LARGEST if given is None else int(given)
    if total <= limit:
        return
    listed = "".join(
        f"\n    {n / MIB:9.2f} MiB  {what}" for what, n in sorted(buffers, key=lambda b: -b[1])
    )
    said = "vmem_limit_bytes" if given is not None else "what the largest chip has"
    raise Refused(
        f"{total / MIB:.1f} MiB of VMEM, more than {limit / MIB:.1f} MiB, {said}:{listed}",
        "Let blocks be smaller along an axis of the grid, pl.Buffered(1) for one buffer, or leave "
        "arrays in pl.ANY and copy parts.",
    )
