"""Python functions that run on the hosts of devices."""

from __future__ import annotations

from teucer._base.lazy import listing
from teucer._experimental.colocated import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
)
from teucer._experimental.unbuilt import unbuilt

__all__ = [
    "colocated_cpu_devices", "colocated_python", "colocated_python_class", "make_callable",
    "wrap_class",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

make_callable, wrap_class = (
    unbuilt(
        f"jax.experimental.colocated_python.api.{name}",
        "functions do not travel to the hosts of remote accelerators.\n  colocated_python takes a "
        "function.",
    )
    for name in ("make_callable", "wrap_class")
)
