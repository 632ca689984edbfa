"""`jax.lib`: the version of jaxlib."""

import re

from teucer._xla.client import jaxlib_version as __version__

__all__ = ["__version__", "__version_info__"]

__version_info__ = tuple(int(n) for n in re.findall(r"\d+", __version__)[:3])

__path__: list[str] = []  # JAX had modules under it (`_removed.MODULES`)
