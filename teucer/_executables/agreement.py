"""Programs over several processes.

All must compile the same ones in the same order, and run them so.
"""

from __future__ import annotations

import collections
import itertools
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from teucer._base import config, source
from teucer._devices import processes
from teucer._xla.client import XlaRuntimeError

_SHOWN = 200  # characters of a line of a program that a message shows
_LONGEST = 4 << 20  # bytes of a program's text that processes show each other
_counts: collections.Counter[tuple[int, ...]] = collections.Counter()


class Agreement(NamedTuple):
    """A program that several processes run: which these are, and what they know it by."""

    group: tuple[int, ...]
    name: str
    fingerprint: str

    def run(self, call: Callable[[], list[Any]]) -> list[Any]:
        """Call the program, watched.

        Raises ProcessFailure if another process is at fault that it does not run.
        """
        watching = processes.state.watch
        if watching is None:
            raise RuntimeError(
                f"{self.name}: this program runs over processes {self.group}, and this process "
                "has parted from them (jax.distributed.shutdown)."
            )
        begun = watching.begin(self.group, self.name, self.fingerprint)
        try:
            begun.results = results = call()
        except XlaRuntimeError as err:
            begun.results = []  # it has ended
            reason = watching.explained(err)
            if reason is err:
                raise
            raise reason from err
        return results


def _group_of(devices: Sequence[Any]) -> tuple[int, ...]:
    """The processes that devices belong to, in order; empty where that is this one alone."""
    if processes.state.client is None:
        return ()
    numbers = {d.process_index for d in devices}
    return tuple(sorted(numbers)) if len(numbers) > 1 else ()


def agree(devices: Sequence[object], name: str, text: str) -> Agreement | None:
    """What the processes that devices belong to know a program by, which they are about to compile;
    None for one process.

    Raises ProcessFailure, in every process but the first of them, if its program is another one.
    """
    group, client, state = _group_of(devices), processes.state.client, processes.state
    if not group:
        return None
    import hashlib  # 2 ms to load

    own = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    agreement, number = Agreement(group, name, own), _counts[group]
    _counts[group] += 1
    if not config.check_programs.value:
        return agreement
    where = f"teucer/programs/{','.join(map(str, group))}/{number}"
    line = source.describe(source.here())
    if state.process_id == group[0]:
        client.key_value_set(f"{where}/said", f"{own}\n{name}\n{line}", allow_overwrite=True)
        packed = zlib.compress(text.encode(), 1)
        if len(packed) < _LONGEST:
            client.key_value_set_bytes(f"{where}/text", packed, allow_overwrite=True)
        return agreement
    assert state.watch is not None
    watch = state.watch
    place, call = watch.next_call(group)

    def compiled_before(said: str) -> processes.ProcessFailure:
        """The first process goes on to its next call without compiling a program."""
        fingerprint, its_name, its_line = said.split("\n", 2)
        shown = watch.place_of(where.rpartition("/")[0], number, fingerprint)
        return processes.ProcessFailure(
            f"process {state.process_id} and process {group[0]} run different programs as their "
            f"call number {call} over processes {group}.\n"
            f"    process {state.process_id}: {name}, which it compiles, called at {line}\n"
            f"    process {group[0]}: {its_name}, which is compiled, called at {its_line}"
            f"{'' if shown is None else _difference(client, shown, text)}\n"
            "  All processes must make the same calls, with arguments of the same shapes, in the "
            "same order.",
            (state.process_id,),
        )

    said = watch.ask(
        f"{where}/said",
        group,
        f"program {number} over processes {group}: {name}, called at {line}",
        (place, compiled_before),
    )
    theirs, their_name, their_line = said.split("\n", 2)
    if theirs != own:
        raise processes.ProcessFailure(
            f"process {state.process_id} and process {group[0]} compile different programs, as "
            f"their number {number} over processes {group}.\n"
            f"    process {state.process_id}: {name}, called at {line}\n"
            f"    process {group[0]}: {their_name}, called at "
            f"{their_line}{_difference(client, where, text)}\n"
            "  All processes must run the same programs in the same order. What differs between "
            "them must come in as an argument's values.",
            (state.process_id,),
        )
    return agreement


def _difference(client: Any, where: str, text: str) -> str:
    """The first lines in which two programs differ."""
    try:
        theirs = zlib.decompress(
            client.blocking_key_value_get_bytes(f"{where}/text", 5000)
        ).decode()
    except XlaRuntimeError:
        return ""
    pairs = itertools.zip_longest(theirs.splitlines(), text.splitlines(), fillvalue="")
    first = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return "".join(
        f"\n      {sign} {line.strip():.{_SHOWN}}" for sign, line in zip("-+", first, strict=True)
    )
