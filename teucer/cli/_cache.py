"""`teucer cache`.

Where the compilation cache on disk is, how large, how much it is used, and how to empty it.
"""

from pathlib import Path

from teucer._base import config
from teucer._executables import disk_cache
from teucer.cli._errors import CommandError


def cache(*, clear: bool) -> int:
    """Print the folder of the cache, its size, its hits and misses; with clear, remove its entries
    and counts instead."""
    if not config.enable_compilation_cache.value:
        print("The cache is off (JAX_ENABLE_COMPILATION_CACHE).")
        return 0
    folder = disk_cache.cache_dir()
    if folder is None:
        print(
            "There is no cache, since there is no home folder for it. TEUCER_CACHE_DIR names "
            "another folder."
        )
        return 0
    try:
        if clear:
            print(f"{folder}: removed {_number(disk_cache.clear(folder), 'entry', 'entries')}")
            _clear_counts(folder)
        else:
            _print_size(folder)
    except OSError as err:
        raise CommandError(f"{folder} cannot be used: {err}") from err
    return 0


def _print_size(folder: Path) -> None:
    found = disk_cache.entries(folder)
    own = disk_cache.kept_by_compilers(folder)
    size = sum(path.stat().st_size for path in (*found, *own) if path.exists())
    most = disk_cache.limit()
    bound = f" of {most / 2**20:.1f}" if most < 1 << 62 else ""
    kept = f", {_number(len(own), 'result', 'results')} of autotuning" if own else ""
    print(
        f"{folder}: {_number(len(found), 'entry', 'entries')}{kept}, {size / 2**20:.1f}{bound} MiB"
    )
    used = disk_cache.counts(folder)
    print(
        f"{_number(used.hits, 'hit', 'hits')}, {_number(used.misses, 'miss', 'misses')} since it "
        "was last cleared"
    )
    if disk_cache.remote_address() is not None:
        print("`teucer cache stats` says more, of the cache of the team too.")


def _clear_counts(folder: Path) -> None:
    # Late, because few have a team's cache.
    from teucer._executables.remote import counts

    counts.clear(folder)


def _number(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
