"""XLA's serialized executables for the CPU, without the parts that only serve to read programs.

XLA loads an executable with the HLO module that it was compiled from, which it builds twice, copies
and writes out again: half of the time of loading. Most of the module are the **bodies** of fusions,
which are machine code elsewhere in the executable. Without them the runtime treats a fusion as an
opaque call. Bodies stay where XLA looks into them: those that a library computes, and those that
may write in place, by which XLA finds out which buffers are one.

The numbers of fields are those of xla/service/hlo.proto and xla/service/cpu/executable.proto.
Protocol buffers never reuse the number of a field, and messages of an unknown form are left as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

# Number, value and place of a field. The value is an integer, or the start and end of bytes.
_Field: TypeAlias = tuple[int, int | tuple[int, int], int, int]

# The path of fields to the module, behind the runtime's header: the compiler's result, the module
# with its options, the module.
_MODULE = (1, 1, 1)
_COMPUTATIONS, _INSTRUCTIONS, _COMPUTATION_ID, _IS_FUSED = 3, 2, 5, 7
_OPCODE, _FUSION_KIND, _CALLED, _BACKEND_CONFIG, _CUSTOM_CALL_TARGET = 2, 11, 38, 43, 28


def _message(number: int, content: bytes) -> bytes:
    return _varint_bytes(number << 3 | 2) + _varint_bytes(len(content)) + content


def _varint_bytes(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


_FUSION = _message(_OPCODE, b"fusion")
_CALL = _message(_OPCODE, b"custom-call") + _message(_CUSTOM_CALL_TARGET, b"fusion")
_LOOKED_INTO = tuple(
    _message(_OPCODE, name)
    for name in (
        b"dynamic-update-slice",
        b"scatter",
        b"set-dimension-size",
        b"custom-call",
        b"fusion",
    )
)


def without_bodies(data: bytes) -> bytes | None:
    """The executable without the bodies of fusions that loading it does not need; None if it is of
    another form."""
    try:
        length, start = _varint(data, 0)
        return data[: start + length] + _changed(
            data, start + length, len(data), _MODULE, _stripped_module
        )
    except (ValueError, IndexError):
        return None


def _changed(
    data: bytes,
    start: int,
    end: int,
    path: tuple[int, ...],
    change: Callable[[bytes, int, int], bytes],
) -> bytes:
    """The message in data[start:end] with the one that `path`, numbers of fields, leads to
    changed."""
    if not path:
        return change(data, start, end)
    for number, value, begin, stop in _fields(data, start, end):
        if number == path[0] and isinstance(value, tuple):
            return (
                data[start:begin]
                + _message(number, _changed(data, *value, path[1:], change))
                + data[stop:end]
            )
    raise ValueError(f"no field {path[0]}")


def _stripped_module(data: bytes, start: int, end: int) -> bytes:
    fields = list(_fields(data, start, end))
    computations = {
        begin: (value, *_about(data, *value))
        for number, value, begin, _ in fields
        if number == _COMPUTATIONS and isinstance(value, tuple)
    }
    bodies = {
        ident
        for (lo, hi), ident, fused in computations.values()
        if fused and not any(data.find(opcode, lo, hi) >= 0 for opcode in _LOOKED_INTO)
    }
    stripped = {
        begin: _stripped_computation(data, *place, bodies)
        for begin, (place, _, _) in computations.items()
    }
    needed = {body for _, kept in stripped.values() for body in kept}
    written = bytearray()
    for _, _, begin, stop in fields:
        if begin not in stripped:
            written += data[begin:stop]
        elif computations[begin][1] not in bodies or computations[begin][1] in needed:
            written += _message(_COMPUTATIONS, stripped[begin][0])
    return bytes(written)


def _about(data: bytes, start: int, end: int) -> tuple[int, bool]:
    """Number of a computation, and whether it is the body of a fusion."""
    ident, fused = 0, False
    for number, value, _, _ in _fields(data, start, end):
        if number == _COMPUTATION_ID and isinstance(value, int):
            ident = value
        elif number == _IS_FUSED:
            fused = bool(value)
    return ident, fused


def _stripped_computation(
    data: bytes, start: int, end: int, bodies: Collection[int]
) -> tuple[bytes, list[int]]:
    """The computation with calls in the place of fusions, where they need no bodies; the bodies of
    the others."""
    written, copied, needed = bytearray(), start, []
    if data.find(_FUSION, start, end) >= 0:
        for number, value, begin, stop in _fields(data, start, end):
            if (
                number == _INSTRUCTIONS
                and isinstance(value, tuple)
                and data.find(_FUSION, *value) >= 0
            ):
                call, body = _call(data, *value)
                if call is not None and body in bodies:
                    written += data[copied:begin] + _message(number, call)
                    copied = stop
                else:
                    needed.append(body)
    return bytes(written + data[copied:end]), needed


def _call(data: bytes, start: int, end: int) -> tuple[bytes | None, int]:
    """A fusion as a call without a body, None if a library computes it or it is none; and the
    number of its body."""
    written, called, fusion, by_library = bytearray(), -1, False, False
    for number, value, begin, stop in _fields(data, start, end):
        if number == _OPCODE:
            fusion = data[begin:stop] == _FUSION
            written += _CALL
        elif number == _CALLED:
            called = value if isinstance(value, int) else _varint(data, value[0])[0]
        elif (
            number == _BACKEND_CONFIG
            and isinstance(value, tuple)
            and data.find(b'"fusion_config"', *value) >= 0
        ):
            by_library = True
        elif number != _FUSION_KIND:
            written += data[begin:stop]
    return bytes(written) if fusion and not by_library else None, called


def _fields(data: bytes, start: int, end: int) -> Iterator[_Field]:
    """The fields of the message in data[start:end]. Raises ValueError if it is none."""
    at = start
    while at < end:
        begin = at
        tag, at = _varint(data, at)
        kind = tag & 7
        value: int | tuple[int, int] = 0
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = (at, at + length), at + length
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        else:
            raise ValueError(f"no kind of field: {kind}")
        if at > end:
            raise ValueError("a field goes beyond its message")
        yield tag >> 3, value, begin, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer that begins at `at`, and where it ends."""
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
    return value | byte << shift, at + 1
