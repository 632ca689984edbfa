"""What this machine's processor can do.

Part of the key of the disk cache, since code is compiled for it.
"""

from __future__ import annotations

import functools
import platform

__all__ = ["host"]


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
