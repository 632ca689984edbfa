"""What may still change.

Callbacks with side effects (`io_callback`), the compilation cache by functions, layouts, and
more.
"""

from teucer._core.high_types import cur_qdd
from teucer.experimental import compilation_cache
from teucer.lax._callbacks import io_callback

__all__ = ["compilation_cache", "cur_qdd", "io_callback"]
