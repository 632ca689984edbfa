"""`pjit`, the older name of `jax.jit`."""

from teucer import jit as pjit

__all__ = ["pjit"]
