"""Programs over several processes: all that communicate must run the same ones in the same
order."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, final

from teucer._base import config
from teucer._devices import processes
from teucer._xla.client import XlaRuntimeError

_SHOWN = 200  # characters of a line of a program that a message shows
_LONGEST = 4 << 20  # bytes of a program's text that processes show each other
_COMMUNICATES = re.compile(
    r" (all-gather|all-reduce|all-to-all|collective-broadcast|collective-permute"
    r"|ragged-all-to-all|recv|reduce-scatter|send)(-start)?\("
)


@final
class Agreement:
    """A program in which several processes communicate: which these are, and what they know it
    by."""

    __slots__ = ("_packed", "_shown", "fingerprint", "group", "name")

    def __init__(self, group: tuple[int, ...], name: str, text: str) -> None:
        import hashlib  # 2 ms to load

        self.group, self.name, self._shown = group, name, False
        self.fingerprint = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        self._packed = zlib.compress(text.encode(), 1)

    def run(self, call: Callable[[], list[Any]]) -> list[Any]:
        """Call the program, watched.

        Raises ProcessFailure if another process is at fault that it does not run.
        """
        state = processes.state
        watching = state.watch
        if watching is None:
            raise RuntimeError(
                f"{self.name}: this program runs over processes {self.group}, and this process "
                "has parted from them (jax.distributed.shutdown)."
            )
        if not self._shown and state.process_id == self.group[0] and config.check_programs.value:
            self._show()
        begun = watching.begin(self.group, self.name, self.fingerprint, self.difference)
        try:
            begun.results = results = call()
        except XlaRuntimeError as err:
            begun.results = []  # it has ended
            reason = watching.explained(err)
            if reason is err:
                raise
            raise reason from err
        return results

    def _show(self) -> None:
        """Let the others read the program's text, in case that theirs differs."""
        self._shown = True
        if len(self._packed) < _LONGEST:
            processes.state.client.key_value_set_bytes(
                _place_of(self.fingerprint), self._packed, allow_overwrite=True
            )

    def difference(self, other: str) -> str:
        """The first lines in which this program differs from one of another fingerprint."""
        try:
            packed = processes.state.client.blocking_key_value_get_bytes(_place_of(other), 5000)
        except XlaRuntimeError:
            return ""
        theirs, own = (zlib.decompress(x).decode().splitlines() for x in (packed, self._packed))
        pairs = itertools.zip_longest(theirs, own, fillvalue="")
        first = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        return "".join(
            f"\n      {sign} {line.strip():.{_SHOWN}}"
            for sign, line in zip("-+", first, strict=True)
        )


def _place_of(fingerprint: str) -> str:
    return f"teucer/programs/{fingerprint}"


def agreement_of(devices: Sequence[Any], name: str, text: str, executable: Any) -> Agreement | None:
    """What the processes that devices belong to know a program by; None for one process, and for a
    program in which they do not communicate: each may run that alone."""
    if processes.state.client is None:
        return None
    group = tuple(sorted({d.process_index for d in devices}))
    if len(group) < 2:
        return None
    modules = executable.whole().hlo_modules()
    if modules and not any(_COMMUNICATES.search(module.to_string()) for module in modules):
        return None
    return Agreement(group, name, text)
