"""`teucer cache`: where the compilation cache on disk is, how large, and how to empty it."""

from teucer._runtime.disk_cache import cache_dir, entries


def cache(*, clear: bool) -> int:
    """Print the folder of the cache and its size; with clear, remove its entries first."""
    folder = cache_dir()
    if folder is None:
        print("The cache is off (JAX_ENABLE_COMPILATION_CACHE).")
        return 0
    found = entries(folder)
    if clear:
        for entry in found:
            entry.unlink(missing_ok=True)
        print(f"{folder}: removed {_count(len(found))}")
        return 0
    size = sum(entry.stat().st_size for entry in found if entry.exists())
    print(f"{folder}: {_count(len(found))}, {size / 2**20:.1f} MiB")
    return 0


def _count(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"
