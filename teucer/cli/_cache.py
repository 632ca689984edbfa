"""`teucer cache`: where the compilation cache on disk is, how large, how much it is used, and how to empty it."""

from teucer._runtime import disk_cache


def cache(*, clear: bool) -> int:
    """Print the folder of the cache, its size, its hits and misses; with clear, remove its entries and counts instead."""
    folder = disk_cache.cache_dir()
    if folder is None:
        print("The cache is off (JAX_ENABLE_COMPILATION_CACHE).")
        return 0
    if clear:
        print(f"{folder}: removed {_number(disk_cache.clear(folder), 'entry', 'entries')}")
        return 0
    found = disk_cache.entries(folder)
    size = sum(entry.stat().st_size for entry in found if entry.exists())
    most = disk_cache.limit()
    bound = f" of {most / 2**20:.1f}" if most < 1 << 62 else ""
    print(f"{folder}: {_number(len(found), 'entry', 'entries')}, {size / 2**20:.1f}{bound} MiB")
    used = disk_cache.counts(folder)
    print(f"{_number(used.hits, 'hit', 'hits')}, {_number(used.misses, 'miss', 'misses')} since it was last cleared")
    return 0


def _number(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
