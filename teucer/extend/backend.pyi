# Made by tools/stubs.py from the tables of this module.
from teucer._derived.caches import clear_backends as clear_backends
from teucer._jax.backend import backend_xla_version as backend_xla_version
from teucer._jax.backend import backends as backends
from teucer._jax.backend import clear_in_memory_compilation_cache as clear_in_memory_compilation_cache
from teucer._jax.backend import get_backend as get_backend
from teucer._jax.backend import get_compile_options as get_compile_options
from teucer._jax.backend import get_default_device as get_default_device
from teucer._jax.backend import register_backend_cache as register_backend_cache
from teucer._jax.backend import register_backend_factory as register_backend_factory
from teucer._xla.platforms import proxy as ifrt_proxy
