"""The features of this machine's processor.

Part of the key of the disk cache, since code is compiled for it.
"""

from __future__ import annotations

import functools
import os
import platform


@functools.cache
def host() -> str:
    """The processor's architecture and features as text."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith(("flags", "Features")):
                    return (
                        f"{platform.machine()} {' '.join(sorted(line.partition(':')[2].split()))}"
                    )
    except OSError:
        pass
    return f"{platform.machine()} {platform.processor()}"


@functools.cache
def model() -> str:
    """The name of the processor, and how many there are."""
    name = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            names = (line.partition(":")[2].strip() for line in info if line.startswith("model na"))
            name = next(names, name)
    except OSError:
        pass
    return f"{platform.machine()}, {name}, {os.cpu_count()} cores"
