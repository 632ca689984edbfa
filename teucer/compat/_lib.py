"""`jax.lib`: the version of jaxlib."""

from teucer._xla.client import jaxlib_version as __version__

__all__ = ["__version__"]
