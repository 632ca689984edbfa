"""The cache of compiled programs on disk (`compilation_cache`)."""

from teucer.experimental.compilation_cache import compilation_cache

__all__ = ["compilation_cache"]
