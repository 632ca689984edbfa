"""Host values that several processes must give alike, compared before they become arrays over all.

Each process writes a hash of its values to the coordination service and reads the hashes of the
others. Only where one differs are values exchanged, for the error.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._base import source
from teucer._devices import processes
from teucer._devices.processes import DifferentValues

_LONGEST = 1 << 20  # bytes of a value that processes show each other
_counts: collections.Counter[tuple[int, ...]] = collections.Counter()


def group_of(devices: Sequence[Any]) -> tuple[int, ...]:
    """The processes that the devices belong to. Empty if they belong to one process, or none of
    them to this process."""
    state = processes.state
    if state.client is None:
        return ()
    group = {d.process_index for d in devices}
    return tuple(sorted(group)) if len(group) > 1 and state.process_id in group else ()


def compare(
    what: str, named: Sequence[tuple[str, np.ndarray[Any, Any]]], group: tuple[int, ...]
) -> None:
    """Check that all processes of a group give the same values, bit for bit.

    what: the function that takes them. named: the values with names for the error. Raises
    DifferentValues in every process, and ProcessFailure if one does not come.
    """
    import hashlib  # 2 ms to load

    client, own, watch = processes.state.client, processes.state.process_id, processes.state.watch
    assert watch is not None
    number = _counts[group]
    _counts[group] += 1
    place = f"teucer/values/{','.join(map(str, group))}"
    hashes = [
        hashlib.blake2b(
            f"{x.dtype}{x.shape}".encode() + np.ascontiguousarray(x).tobytes(), digest_size=8
        ).hexdigest()
        for _, x in named
    ]
    line = source.describe(source.here())
    said = "\n".join([line, *hashes])
    client.key_value_set(f"{place}/{number}/{own}", said, allow_overwrite=True)
    waiting = f"{what}, called at {line}, which compares values"
    theirs = {
        i: said if i == own else watch.ask(f"{place}/{number}/{i}", (i,), waiting) for i in group
    }
    if number:  # all have read the values before
        client.key_value_delete(f"{place}/{number - 1}/{own}")
    told = {i: text.split("\n")[1:] for i, text in theirs.items()}
    if all(h == hashes for h in told.values()):
        return
    counts = {i: len(h) for i, h in told.items()}
    if len(set(counts.values())) > 1:
        lines = "".join(
            f"\n    process {i}: {n} values, at {theirs[i].partition(chr(10))[0]}"
            for i, n in counts.items()
        )
        raise DifferentValues(
            f"{what}: processes {group} do not give the same values.{lines}{_REMEDY}"
        )
    at = next(k for k in range(len(named)) if len({h[k] for h in told.values()}) > 1)
    raise DifferentValues(_difference(what, *named[at], at, told, f"{place}/{number}/shown", group))


_REMEDY = (
    "\n  An array over several processes is made of one value, which all give. Where each has a "
    "part of its own: jax.make_array_from_process_local_data. Where one decides: "
    "multihost_utils.broadcast_one_to_all. The option teucer_check_values=False leaves the "
    "comparison out."
)


def _difference(
    what: str,
    name: str,
    x: np.ndarray[Any, Any],
    at: int,
    told: dict[int, list[str]],
    place: str,
    group: tuple[int, ...],
) -> str:
    """The message: the first process, another that differs from it, and where."""
    own, client = processes.state.process_id, processes.state.client
    first = group[0]
    other = next(i for i in group if told[i][at] != told[first][at])
    mine = _shown(x)
    if own in (first, other):
        client.key_value_set_bytes(f"{place}/{own}", mine, allow_overwrite=True)
    watch = processes.state.watch
    assert watch is not None
    both = [
        mine if i == own else watch.ask_bytes(f"{place}/{i}", (i,), f"{what}, whose values differ")
        for i in (first, other)
    ]
    (type_a, _, a), (type_b, _, b) = (text.partition(b"\n") for text in both)
    if type_a != type_b:
        texts = [type_a.decode(), type_b.decode()]
    else:
        texts = _elements(x, a, b)
    return (
        f"{name} passed to {what} is not the same on each process."
        f"\n    process {first}: {texts[0]}\n    process {other}: {texts[1]}{_REMEDY}"
    )


def _shown(x: np.ndarray[Any, Any]) -> bytes:
    """The type of a value, and as many of its bytes as others are shown."""
    content = np.ascontiguousarray(x).tobytes()[: _LONGEST // x.itemsize * x.itemsize]
    return f"{x.dtype}[{','.join(map(str, x.shape))}]".encode() + b"\n" + content


def _elements(x: np.ndarray[Any, Any], a: bytes, b: bytes) -> list[str]:
    """Lines about the first elements that differ. a, b: the bytes of two values of the type of
    x."""
    pairs = [np.frombuffer(v, np.uint8) for v in (a, b)]
    (differ,) = np.nonzero(pairs[0] != pairs[1])
    if not differ.size:
        return [f"{x.dtype}{list(x.shape)}, which differs behind its first {len(a)} bytes"] * 2
    at = int(differ[0]) // x.itemsize
    index = ", ".join(str(int(i)) for i in np.unravel_index(at, x.shape))
    where = f" at [{index}]" if x.ndim else ""
    return [f"{np.frombuffer(v, x.dtype)[at]!s}{where}" for v in (a, b)]
