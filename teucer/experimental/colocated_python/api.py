"""Python functions that run on the hosts of devices."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._experimental.colocated": (
            "colocated_cpu_devices colocated_python colocated_python_class"
        ),
        "teucer.experimental.colocated_python.func": "make_callable",
        "teucer.experimental.colocated_python.obj": "wrap_class",
    },
)
