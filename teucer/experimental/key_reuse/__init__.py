"""Checks that no random key is used twice.

The check is on with the option `jax_debug_key_reuse`, and within `with jax.debug_key_reuse(True)`.
A program that uses a key twice raises KeyReuseError before it runs, with the line of the second
use. So does a call with a key that an earlier call used.

>>> import teucer as jax
>>> with jax.debug_key_reuse(True):
...     key = jax.random.key(0)
...     x = jax.random.normal(key)
...     y = jax.random.normal(key)
Traceback (most recent call last):
teucer.errors.KeyReuseError: Previously-consumed key passed to jit-compiled function at index 0...
"""
