"""`jax.version`: the version of JAX whose public names Teucer has."""

__all__ = ["__version__", "__version_info__"]

__version__ = "0.10.2"
__version_info__ = (0, 10, 2)
