"""The exchange of one program with the cache of a team: fetch an entry that the local folder lacks,
or upload a new one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import final

from teucer._base import config
from teucer._devices import processes
from teucer._executables import disk_cache
from teucer._executables.remote import claims, client


@final
class Shared:
    """An entry of the cache of a team. content: None if it is not there, or cannot be trusted."""

    __slots__ = ("_claim", "_name", "_remote", "content")

    def __init__(
        self, name: str, remote: client.Remote, content: bytes | None, claim: claims.Claim | None
    ) -> None:
        self.content, self._name, self._remote, self._claim = content, name, remote, claim

    def keep(self, content: bytes) -> None:
        """Upload the content, which was compiled here."""
        claim, self._claim = self._claim, None
        if len(content) < config.persistent_cache_min_entry_size_bytes.value:
            self._claim = claim
        elif claim is None:
            self._remote.upload(self._name, content)
        else:
            claim.compiled(len(content))
            self._remote.upload(self._name, content, claim.ended)

    def leave(self) -> None:
        """Nothing more will come of it."""
        if self._claim is not None:
            self._claim.ended(False)


@contextlib.contextmanager
def shared(path: Path, several: bool) -> Iterator[Shared | None]:
    """In the `with` block, this process loads or compiles a program. Gives the exchange; an entry
    of the team's cache is also written to `path`.

    several: whether other processes of the job need the same program.
    """
    remote = client.current()
    if remote is None:
        yield None
        return
    content, claim = remote.fetch(path.name), None
    if content is None and several and processes.state.client is not None:
        claim = claims.claim(path.name)
        if claim is None:
            content = remote.fetch(path.name)
    if content is not None:
        disk_cache.write(path, content)
    found, start = Shared(path.name, remote, content, claim), monotonic()
    try:
        yield found
    finally:
        if content is None:
            remote.compiled(monotonic() - start)
        found.leave()
