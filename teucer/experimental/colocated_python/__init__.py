"""Python functions that run on the hosts of devices, on the values that these hold there.

The hosts of all devices that Teucer has are the processes of the program itself. So the functions
run in this process, at once, on arrays over CPU devices. All processes that hold parts of the
arguments call them, as they call programs. Runtimes whose devices are behind a proxy are refused.
"""

from __future__ import annotations

import sys

from teucer._base.lazy import listing
from teucer._devices import backends
from teucer._experimental.colocated import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
)
from teucer._experimental.unbuilt import unbuilt_modules

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
__dir__ = listing(__name__, __all__)

# How JAX hands functions to a runtime behind a proxy. Libraries import some of it (orbax, MaxText).
unbuilt_modules(
    __name__,
    {
        "func": (
            "FunctionInfo Specialization _make_prng_wrapped_fun is_prng_key_dtype make_callable "
            "physical_sharding"
        ),
        "func_backend": "SINGLETON_RESULT_STORE",
        "obj": "SINGLETON_INSTANCE_REGISTRY wrap_class",
        "obj_backend": "SINGLETON_OBJECT_STORE",
        "serialization": (
            "DeviceList _get_cpu_device_map _reduce_device_list _reduce_mesh "
            "_reduce_single_device_sharding"
        ),
    },
    "functions do not travel to the hosts of remote accelerators.",
)
vars(sys.modules[f"{__name__}.serialization"])["xb"] = backends
