"""Functions whose errors are treated where they leave, at no cost to calls that succeed.

A wrapper would cost each call a frame. Instead the function's own code is given a handler: since
Python 3.11 a `try` costs nothing until something is raised, because its range and its handler stand
in a table beside the code. The handler calls what treats errors, and raises again.
"""

from __future__ import annotations

import dis
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar, final

T = TypeVar("T")
C = TypeVar("C", bound=type)
# on_error: functions of an error that leaves a boundary, and of the frame outside. boundaries: the
# code of the functions that are boundaries.
on_error: list[Callable[[Exception, FrameType | None], None]] = []
boundaries: set[CodeType] = set()

# How the versions of Python call a constant without arguments. Elsewhere functions stay as they
# are.
_CALLS = {
    (3, 11): ("PUSH_NULL", "LOAD_CONST", "PRECALL", "CALL"),
    (3, 12): ("PUSH_NULL", "LOAD_CONST", "CALL"),
    (3, 13): ("LOAD_CONST", "PUSH_NULL", "CALL"),
}
_CALL = _CALLS.get(sys.version_info[:2]) if sys.implementation.name == "cpython" else None
# Values that a call of a handler leaves on the stack at most.
_DEPTH = 5
# Where our own files are.
HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_GENERATES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# Codes by the identity of those that they were made of, which are kept so that no other takes it.
_made: dict[int, tuple[CodeType, CodeType]] = {}
_seen: set[type] = set()


class _Range(NamedTuple):
    """An entry of a table of handlers, in units of two bytes."""

    start: int
    size: int
    target: int
    depth: int  # values on the stack, times two; odd where the place of the error is kept


def guarded(value: T) -> T:
    """The same function, class or object, which users get; its functions now treat the errors that
    leave them.

    Functions of users, and generators, stay as they are.
    """
    if _CALL is not None:
        if isinstance(value, FunctionType):
            _guard(value)
        elif not isinstance(value, ModuleType):
            for kind in (value, type(value)) if isinstance(value, type) else (type(value),):
                guarded_class(kind)
    return value


def guarded_class(cls: C) -> C:
    """The same class; also a decorator, of classes whose objects users get unasked."""
    for one in cls.__mro__:
        if one in _seen or one.__module__.partition(".")[0] not in ("teucer", "jax"):
            continue
        _seen.add(one)
        for member in list(vars(one).values()):
            guard_member(member)
    return cls


def guard_module(module: ModuleType) -> None:
    """Guard what a public module hands on, and its own answer for names that it lacks."""
    names = vars(module)
    for name in names.get("__all__") or [name for name in names if not name.startswith("_")]:
        guarded(names.get(name))
    guarded(names.get("__getattr__"))


def guard_member(member: object) -> None:
    """Guard a member of a class: a function, a property, a method of the class."""
    if isinstance(member, property):
        parts = (member.fget, member.fset, member.fdel)
    else:
        parts = (getattr(member, "__func__", member),)
    for part in parts:
        if _CALL is not None and isinstance(part, FunctionType):
            _guard(part)


def _guard(function: FunctionType) -> None:
    code = function.__code__
    if code.co_flags & _GENERATES or not code.co_filename.startswith(HOME) or code in boundaries:
        return
    kept = _made.get(id(code))
    if kept is None:
        _made[id(code)] = kept = code, _with_handler(code)
        boundaries.add(kept[1])
    function.__code__ = kept[1]


def _treat() -> None:
    err, outside = sys.exception(), sys._getframe(1).f_back
    # `from teucer.lax import _sorting` asks for an attribute first.
    importing = outside is not None and outside.f_code.co_filename.startswith("<frozen importlib")
    if isinstance(err, Exception) and not importing:
        for treat in on_error:
            treat(err, outside)


def _with_handler(code: CodeType) -> CodeType:
    """Code with a handler of all errors that none of its own handles."""
    end = len(code.co_code) // 2
    handler, cleanup = _handler(len(code.co_consts))
    ranges, at = [], 0
    for one in _ranges(code.co_exceptiontable):
        if at < one.start:
            ranges.append(_Range(at, one.start - at, end, 0))
        ranges.append(one)
        at = one.start + one.size
    if at < end:
        ranges.append(_Range(at, end - at, end, 0))
    # An error of the handler itself, or the one that it raises again.
    ranges.append(_Range(end, cleanup, end + cleanup, 2 * 1 + 1))
    return code.replace(
        co_code=code.co_code + handler,
        co_consts=(*code.co_consts, _treat),
        co_exceptiontable=b"".join(map(_entry, ranges)),
        co_linetable=code.co_linetable + _no_lines(len(handler) // 2),
        co_stacksize=max(code.co_stacksize, _DEPTH),
    )


@functools.cache
def _handler(const: int) -> tuple[bytes, int]:
    """The handler that calls a constant, by its number; and where what cleans up after it begins,
    in units of two bytes."""
    assert _CALL is not None
    parts = [_bytes("PUSH_EXC_INFO", 0), _bytes("POP_TOP", 0)]
    parts += [_bytes(name, const if name == "LOAD_CONST" else 0) for name in _CALL]
    parts += [_bytes("POP_TOP", 0), _bytes("RAISE_VARARGS", 0)]
    catching = b"".join(parts)
    cleaning = _bytes("COPY", 3) + _bytes("POP_EXCEPT", 0) + _bytes("RERAISE", 1)
    return catching + cleaning, len(catching) // 2


def _bytes(name: str, argument: int) -> bytes:
    """An instruction: prefixes for a large argument, the code, and its empty inline caches."""
    op = dis.opmap[name]
    wide = b"".join(
        bytes((dis.EXTENDED_ARG, argument >> shift & 255))
        for shift in (24, 16, 8)
        if argument >> shift
    )
    entries: Any = dis._inline_cache_entries  # type: ignore[attr-defined]  # the table of dis itself
    caches = entries.get(name, 0) if isinstance(entries, dict) else entries[op]
    return wide + bytes((op, argument & 255)) + bytes(2 * caches)


def _ranges(table: bytes) -> Iterator[_Range]:
    numbers = _numbers(table)
    for start in numbers:
        yield _Range(start, next(numbers), next(numbers), next(numbers))


def _numbers(table: bytes) -> Iterator[int]:
    """The numbers of a table: six bits a byte, the highest first; 64 says that more follow."""
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            yield number
            number = 0


def _entry(one: _Range) -> bytes:
    """An entry of a table; 128 marks where it begins."""
    out = bytearray()
    for value in one:
        if value > 63:
            parts = [value & 63]
            while value := value >> 6:
                parts.append(value & 63 | 64)
            out += bytes(reversed(parts))
        else:
            out.append(value)
    out[0] |= 128
    return bytes(out)


@functools.cache
def _no_lines(units: int) -> bytes:
    """The table of lines of instructions that have none: 15 is their kind, at most eight an
    entry."""
    return bytes(128 | 15 << 3 | min(8, units - done) - 1 for done in range(0, units, 8))


def is_public(module: str) -> bool:
    """Whether users import a module by its name. The command runs their programs, so its functions
    are no boundary."""
    return (
        module.startswith("teucer.")
        and "._" not in module
        and not module.startswith(("teucer.cli", "teucer.compat"))
    )


@final
class _Loader(SourceFileLoader):
    """Loads a public module; then its functions are guarded."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        guard_module(module)


@final
class _Finder:
    """Finds the public modules of Teucer."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not is_public(name):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


if _CALL is not None:
    sys.meta_path.insert(0, _Finder())
