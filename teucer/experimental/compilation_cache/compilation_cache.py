"""The folder of the cache of compiled programs on disk, by functions; docs/configuration.md has the
options."""

from teucer._base import config
from teucer._base.lazy import listing

__all__ = ["reset_cache", "set_cache_dir"]
__dir__ = listing(__name__, __all__)


def set_cache_dir(path: str | None) -> None:
    """Keep compiled programs in a folder from now on: the option jax_compilation_cache_dir. None:
    in the user's cache folder.

    >>> import tempfile
    >>> import teucer as jax
    >>> set_cache_dir(tempfile.gettempdir())
    >>> jax.config.jax_compilation_cache_dir == tempfile.gettempdir()
    True
    >>> set_cache_dir(None)
    """
    config.config.update("jax_compilation_cache_dir", path)


def reset_cache() -> None:
    """Let options of the cache that have changed take effect; they do at the next program in any
    case, and nothing is deleted."""
