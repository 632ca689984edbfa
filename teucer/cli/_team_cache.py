"""`teucer cache push`, `pull`, `stats` and `warm`.

The cache of a team, beside the local folder: docs/guide/team_cache.md.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from teucer._executables import disk_cache
from teucer._executables.remote import client, counts, stores, transfers
from teucer.cli import _run
from teucer.cli._errors import CommandError

_LONG = 3600.0  # seconds that `warm` waits for uploads that go on


def push() -> int:
    """Upload the entries of the local folder that the cache of the team lacks."""
    remote, folder = _both()
    _push(remote, folder)
    return 0


def pull() -> int:
    """Fetch the entries of the cache of the team that the local folder lacks; 1 if some were
    refused."""
    remote, folder = _both()
    fetched = refused = 0
    try:
        for name, why in transfers.pull(remote, folder):
            fetched, refused = fetched + (not why), refused + bool(why)
            if why:
                print(f"{name} is refused: {why}.")
    except transfers.Failure as err:
        raise CommandError(f"{remote.shown}, after {fetched} entries: {err}") from None
    finally:
        remote.save_counts()
    print(f"{remote.shown}: fetched {fetched}, refused {refused}")
    return int(refused > 0)


def stats() -> int:
    """Print the entries of both caches, and the counts of their use."""
    remote, folder = _both()
    found = disk_cache.entries(folder)
    used, done = disk_cache.counts(folder), counts.read(folder, remote.address)
    mine = (len(found), _mib(sum(path.stat().st_size for path in found)), used.hits, used.misses)
    try:
        there = transfers.sizes(remote)
        size = _mib(sum(there.values())) if all(there.values()) else "?"
        theirs: tuple[object, ...] = len(there), size
        problem = ""
    except transfers.Failure as err:
        theirs, problem = ("?", "?"), str(err)
    theirs += done.fetched, done.misses
    print(f"local: {folder}\nteam:  {remote.shown}\n")
    print(f"{'':10}{'local':>10}{'team':>10}")
    for name, one, other in zip(("entries", "MiB", "hits", "misses"), mine, theirs, strict=True):
        print(f"{name:10}{one:>10}{other:>10}")
    for name, number in zip(
        ("fetched", "uploaded", "refused"), (done.fetched, done.uploaded, done.refused), strict=True
    ):
        print(f"{name:10}{'':10}{number:>10}")
    if problem:
        print(f"\nThe cache of the team cannot be listed: {problem}")
    return 0


def warm(program: Sequence[str]) -> int:
    """Run a program, and upload the entries that it needed and the team's cache lacks; returns its
    status."""
    if not program:
        raise CommandError("name a Python file, or a module after -m.")
    remote, folder = _both()
    start, status = time.time() - 1, 0
    try:
        if program[0] == "-m" and len(program) > 1:
            status = _run.run_module(program[1], program[2:])
        else:
            status = _run.run(program[0], program[1:])
    finally:
        used = client.current()
        if used is not None:
            used.flush(_LONG)
        # Entries that the program found in the folder may be missing in the team's cache. Its
        # processes inherit our settings.
        _push(remote, folder, start)
    return status


def _push(remote: client.Remote, folder: Path, since: float = 0.0) -> None:
    number = 0
    try:
        for _ in transfers.push(remote, folder, lambda path: path.stat().st_mtime >= since):
            number += 1
    except transfers.Failure as err:
        raise CommandError(f"{remote.shown}, after {number} entries: {err}") from None
    finally:
        remote.save_counts()
    print(f"{remote.shown}: uploaded {number}")


def _both() -> tuple[client.Remote, Path]:
    """The cache of the team, and the local folder."""
    address, folder = disk_cache.remote_address(), disk_cache.cache_dir()
    if address is None:
        raise CommandError(
            "there is no cache of a team. TEUCER_CACHE_DIR or TEUCER_CACHE_REMOTE names its "
            "address: s3://bucket/folder."
        )
    if folder is None:
        raise CommandError("the cache is off, or there is no home folder for it.")
    try:
        return client.usable(address), folder
    except stores.Unusable as err:
        raise CommandError(f"{stores.shown(address)}: {err}") from None


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"
