# Made by tools/stubs.py from the tables of this module.
from collections.abc import Callable as Callable
from teucer._jax.linear_util import StoreException as StoreException
from teucer._jax.linear_util import WrappedFun as WrappedFun
from teucer._jax.linear_util import cache as cache
from teucer._jax.linear_util import merge_linear_aux as merge_linear_aux
from teucer._jax.linear_util import transformation as transformation
from teucer._jax.linear_util import transformation2 as transformation2
from teucer._jax.linear_util import transformation_with_aux as transformation_with_aux
from teucer._jax.linear_util import transformation_with_aux2 as transformation_with_aux2
from teucer._jax.linear_util import wrap_init as wrap_init
