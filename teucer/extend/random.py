"""Generators of random numbers: the existing ones, and new ones.

A generator defines seeding, splitting and drawing on the uint32 words of one key. `jax.random` does
the rest: arrays of keys, transformations, distributions.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._jax.random": "define_prng_impl random_seed seed_with_impl threefry_2x32",
        "teucer.lax._random": "threefry2x32_p",
        "teucer.random._rbg": "rbg_prng_impl=rbg unsafe_rbg_prng_impl=unsafe_rbg",
        "teucer.random._threefry": "threefry_prng_impl=threefry",
    },
)
