# Made by tools/stubs.py from the tables of this module.
from teucer._jax.random import define_prng_impl as define_prng_impl
from teucer._jax.random import random_seed as random_seed
from teucer._jax.random import seed_with_impl as seed_with_impl
from teucer._jax.random import threefry_2x32 as threefry_2x32
from teucer.lax._random import threefry2x32_p as threefry2x32_p
from teucer.random._rbg import rbg as _rbg_prng_impl
from teucer.random._rbg import unsafe_rbg as _unsafe_rbg_prng_impl
from teucer.random._threefry import threefry as _threefry_prng_impl

rbg_prng_impl = _rbg_prng_impl
threefry_prng_impl = _threefry_prng_impl
unsafe_rbg_prng_impl = _unsafe_rbg_prng_impl
