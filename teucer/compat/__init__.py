"""Programs and libraries written for JAX, unmodified.

After `import teucer.compat`, `import jax` gives Teucer.

Put the import on the first line of a program, or leave the program alone and use `teucer run
program.py`, or install what `teucer compat wheel` builds. Processes that the program starts get the
alias too.

>>> import teucer, teucer.compat
>>> import jax, jax.numpy as jnp
>>> jax is teucer, jax.__version__
(True, '0.10.2')
"""

from teucer.compat._alias import install

__all__ = ["install"]

install()
