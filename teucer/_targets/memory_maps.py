"""Memory maps.

Each loaded executable takes some, Linux lets a process have so many, and XLA dies when there are no
more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from teucer._base import config, errors

_MAPS_A_LOAD = 128  # Small executables take 3, large ones a hundred and more.
# between two counts: large executables must not use up the last quarter, and others make maps too
_MOST_LOADS = 100
_SPARE = 512  # XLA's threads and allocators need some while they compile.
# Executables to load before the maps are counted again, which takes a microsecond a map. Only an
# estimate of when to look, so threads may disturb each other's count.
_loads_left = 0


def make_room(let_go: Callable[[], bool]) -> None:
    """Before an executable is loaded: have `let_go` drop others while the process has few maps
    left; it says if it dropped any.

    Raises RuntimeError if that does not help.
    """
    global _loads_left  # a count of this process
    _loads_left -= 1
    if _loads_left >= 0:
        return
    most = _most()
    if most is None:
        _loads_left = 1 << 30
        return
    bound = most * 3 // 4 if config.max_memory_maps.value < 0 else config.max_memory_maps.value
    now = count()
    while now >= bound and let_go():
        now = count()
    if now > most - _SPARE:
        raise RuntimeError(
            errors.message(
                "compile",
                (
                    f"the process has {now} memory maps of the {most} that the system allows, and "
                    "no room to load a program"
                ),
                "What holds them is not Teucer's: free memory-mapped files and arrays, or raise "
                "the limit (sysctl vm.max_map_count).",
                {},
            )
        )
    _loads_left = min(((bound if now < bound else most) - now) // _MAPS_A_LOAD, _MOST_LOADS)


def count() -> int:
    """The memory maps of this process."""
    with open("/proc/self/maps", "rb") as maps:
        return maps.read().count(b"\n")


def _most() -> int | None:
    """How many maps a process may have; None where there is no such limit."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    return None
