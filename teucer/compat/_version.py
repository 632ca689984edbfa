"""`jax.version`: the version of JAX that Teucer stands for.

It is the release of JAX that jaxlib belongs to, since libraries choose by it what they may use.
"""

import re

from teucer._xla.client import jaxlib_version

# A build of jaxlib between releases says so after the release; JAX's version then is the release.
_release = re.match(r"\d+(?:\.\d+)*", jaxlib_version)
if _release is None:
    raise ImportError(f"jaxlib has a version that begins with no number: {jaxlib_version!r}.")
__version__ = _release[0]
__version_info__ = tuple(int(n) for n in __version__.split("."))
