"""How many equations each line of a program makes, as a profile that `go tool pprof` shows."""

from __future__ import annotations

import collections
import gzip
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from teucer._base import source
from teucer._core.jaxpr import subjaxprs

if TYPE_CHECKING:
    from teucer._core.jaxpr import Jaxpr


def equation_profile(jaxpr: Jaxpr, name: str) -> bytes:
    """The equations of a jaxpr and of those in it, counted by primitive and by the calls that led
    to them, in the gzipped format of pprof.

    Format: `profile.proto` of github.com/google/pprof.
    """
    counts: collections.Counter[tuple[str, tuple[Any, ...]]] = collections.Counter()
    for part in _all(jaxpr):
        for eqn in part.eqns:
            calls = map(source.spelled_out, source.records(eqn.place))
            lines = tuple([((call.file, call.function), call.line) for call in calls])
            counts[eqn.primitive.name, lines] += 1
    return gzip.compress(_encoded(counts, name), mtime=0)


def _all(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    yield jaxpr
    for inner in subjaxprs(jaxpr):
        yield from _all(inner)


class _Numbers(dict[Any, int]):
    """Numbers of things, in the order in which they are first asked for."""

    def __init__(self, first: int) -> None:
        self._first = first

    def __missing__(self, key: Any) -> int:
        self[key] = len(self) + self._first
        return self[key]


def _encoded(counts: collections.Counter[tuple[str, tuple[Any, ...]]], name: str) -> bytes:
    strings, lines, functions = _Numbers(0), _Numbers(1), _Numbers(1)
    assert strings[""] == 0
    out = [_message(1, _field(1, strings["equations"]), _field(2, strings["count"]))]
    for (primitive, calls), count in counts.items():
        places = [lines[call] for call in calls]
        label = _message(3, _field(1, strings["primitive"]), _field(2, strings[primitive]))
        out.append(_message(2, _packed(1, places), _packed(2, [count]), label))
    for (function, line), number in lines.items():
        said = _message(4, _field(1, functions[function]), _field(2, line))
        out.append(_message(4, _field(1, number), said))
    for (file, function), number in functions.items():
        named = _field(1, number), _field(2, strings[function]), _field(4, strings[file])
        out.append(_message(5, *named))
    comment = _packed(13, [strings[name]])
    out += [_bytes(6, text.encode()) for text in strings]
    return b"".join([*out, comment])


# The wire format of protocol buffers.


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _message(number: int, *fields: bytes) -> bytes:
    return _bytes(number, b"".join(fields))


def _packed(number: int, values: Iterable[int]) -> bytes:
    return _bytes(number, b"".join(map(_varint, values)))
