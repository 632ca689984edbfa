"""Interfaces that may still change: callbacks with side effects (`io_callback`), the compilation
cache by functions, layouts, and more.
"""

from teucer._base.lazy import lazy_module, listing
from teucer._core.high import cur_qdd
from teucer.experimental import compilation_cache
from teucer.lax._callbacks import io_callback

# JAX has it from the first array that is laid over a mesh.
__getattr__, _, _lazy = lazy_module(
    __name__, {"teucer.experimental.multihost_utils": "multihost_utils=."}
)
__all__ = ["compilation_cache", "cur_qdd", "io_callback", "multihost_utils"]
__dir__ = listing(__name__, __all__)
