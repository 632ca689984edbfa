"""Whether values are what annotations say, as a type checker would see it in a user's program."""

from __future__ import annotations

import ast
import collections.abc
import contextlib
import functools
import importlib
import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any

import teucer

ROOT = Path(teucer.__file__).resolve().parent
# What such a function returns is not what its annotation says.
NO_RESULT = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_NUMBERS = {float: (float, int), complex: (complex, float, int)}


@functools.cache
def names_for_checkers(module: str) -> dict[str, Any]:
    """The names that a module imports for type checkers alone, under `if TYPE_CHECKING`."""
    found: dict[str, Any] = {}
    for node in ast.parse(Path(sys.modules[module].__file__ or "").read_text()).body:
        for line in node.body if isinstance(node, ast.If) else ():
            if isinstance(line, ast.ImportFrom):
                try:
                    origin = importlib.import_module(line.module or "")
                except ModuleNotFoundError:  # a stub alone
                    continue
                for name in line.names:
                    value = getattr(origin, name.name, None)
                    if value is None:
                        value = names_for_checkers(origin.__name__).get(name.name)
                    found[name.asname or name.name] = value
    return found


class Unknown(Exception):
    """An annotation whose names exist for type checkers alone."""


def resolved(annotation: Any, module: str) -> Any:
    """The type that an annotation of a module says."""
    if not isinstance(annotation, str):
        return annotation
    names = {**vars(typing), **vars(sys.modules[module]), **names_for_checkers(module)}
    try:
        return eval(annotation, names)
    except (NameError, AttributeError, TypeError) as err:
        raise Unknown(f"{module}: {annotation}: {err}") from err


def fits(value: Any, kind: Any, module: str) -> bool:
    """Whether a value is of a type. Of functions and iterators only that they are ones is seen."""
    if isinstance(kind, str | typing.ForwardRef):
        text = kind if isinstance(kind, str) else kind.__forward_arg__
        parsed = ast.parse(text, mode="eval").body
        if isinstance(parsed, ast.BinOp):  # of parts that are strings themselves, maybe
            return any(fits(value, ast.unparse(k), module) for k in (parsed.left, parsed.right))
        for place in (module, "teucer._core.typing", "teucer._devices.specs"):
            with contextlib.suppress(Unknown):
                return fits(value, resolved(text, place), place)
        raise Unknown(text)
    if kind is Any or kind is object or isinstance(kind, typing.ParamSpec):
        return True
    if kind is None or kind is type(None):
        return value is None
    if isinstance(kind, typing.TypeVar):
        kinds = kind.__constraints__ or ((kind.__bound__,) if kind.__bound__ else (object,))
        return any(fits(value, k, module) for k in kinds)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, k, module) for k in args)
    if origin is typing.Literal:
        return any(value == a and type(value) is type(a) for a in args)
    if origin is typing.Annotated or origin in (typing.Final, typing.ClassVar):
        return fits(value, args[0], module)
    if origin is type:
        return isinstance(value, type)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(fits(v, args[0], module) for v in value)
        args = () if args == ((),) else args
        return len(args) == len(value) and all(
            fits(v, k, module) for v, k in zip(value, args, strict=True)
        )
    if origin is not None:
        if not isinstance(value, origin):
            return False
        if issubclass(origin, collections.abc.Mapping) and len(args) == 2:
            return all(fits(k, args[0], module) for k in value) and all(
                fits(v, args[1], module) for v in dict(value).values()
            )
        if isinstance(value, list | tuple | set | frozenset) and len(args) == 1:
            return all(fits(v, args[0], module) for v in value)
        return True
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in typing_names(kind))
    if isinstance(kind, typing.NewType):
        return fits(value, kind.__supertype__, module)
    return not isinstance(kind, type) or isinstance(value, _NUMBERS.get(kind, kind))


@functools.cache
def typing_names(protocol: type) -> tuple[str, ...]:
    """The members that a protocol asks for."""
    ignored = set(dir(typing.Protocol)) | {"__annotations__", "__dict__", "__weakref__"}
    ignored |= {"__protocol_attrs__", "__non_callable_proto_members__", "_is_runtime_protocol"}
    return tuple(
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False) and base is not typing.Protocol
        for name in (*vars(base), *getattr(base, "__annotations__", {}))
        if name not in ignored
        and not name.startswith(("_abc", "_is_", "__parameters__"))
        and name not in ("__orig_bases__", "__init__", "__subclasshook__", "__doc__", "__module__")
    )
