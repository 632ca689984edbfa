"""`pjit`, the older name of `jax.jit`, which runs over the mesh of a `with mesh:` block."""

from teucer._derived.pjit import pjit

__all__ = ["pjit"]
