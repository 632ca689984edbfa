# Made by tools/stubs.py from the tables of this module.
from teucer._jax.api_util import argnums_partial as argnums_partial
from teucer._jax.api_util import debug_info as debug_info
from teucer._jax.api_util import donation_vector as donation_vector
from teucer._jax.api_util import flatten_axes as flatten_axes
from teucer._jax.api_util import flatten_fun as flatten_fun
from teucer._jax.api_util import flatten_fun_nokwargs as flatten_fun_nokwargs
from teucer._jax.api_util import rebase_donate_argnums as rebase_donate_argnums
from teucer._jax.api_util import safe_map as safe_map
from teucer._jax.api_util import shaped_abstractify as shaped_abstractify
