"""Programs and libraries written for JAX, unmodified.

After `import teucer.compat`, `import jax` gives Teucer. Its version is the release of JAX that the
installed jaxlib belongs to.

Put the import on the first line of a program, or leave the program alone and use `teucer run
program.py`, or install what `teucer compat wheel` builds. Processes that the program starts get the
alias too.

>>> import teucer, teucer.compat
>>> import jax, jax.numpy as jnp
>>> jax is teucer, jax.__version__ == jax.lib.__version__
(True, True)
"""

from teucer.compat._alias import install

__all__ = ["install"]

install()
