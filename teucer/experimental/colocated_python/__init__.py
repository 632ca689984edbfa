"""Python functions that run on the hosts of devices, on the values that these hold there.

The hosts of all devices that Teucer has are the processes of the program itself. So the functions
run in this process, at once, on arrays over CPU devices. All processes that hold parts of the
arguments call them, as they call programs. Runtimes whose devices are behind a proxy are refused.
"""

from __future__ import annotations

from teucer._base.lazy import listing
from teucer._experimental.colocated import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
)

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
__dir__ = listing(__name__, __all__)
