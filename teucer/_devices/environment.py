"""The facts about the machine that a report of a defect needs."""

from __future__ import annotations

import platform
import sys

import numpy as np

from teucer._devices import backends
from teucer._xla.client import jaxlib_version


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices and the platform; or return them as text.

    >>> "jaxlib" in print_environment_info(return_string=True)
    True
    """
    package = sys.modules[__name__.partition(".")[0]]  # under the alias this is jax
    text = "\n".join(
        [
            f"{package.__name__ + ':':7} {package.__version__}",
            f"jaxlib: {jaxlib_version}",
            f"numpy:  {np.__version__}",
            f"python: {sys.version}",
            f"device info: {', '.join(map(str, backends.devices()))}",
            f"process_count: {backends.process_count()}",
            f"platform: {platform.uname()}",
        ]
    )
    if return_string:
        return text
    print(text)
    return None
