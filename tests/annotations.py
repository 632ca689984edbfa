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
    """The names that a module imports or defines for type checkers alone, under `if TYPE_CHECKING`.
    A definition is its text."""
    found: dict[str, Any] = {}
    for node in ast.parse(Path(sys.modules[module].__file__ or "").read_text()).body:
        for line in node.body if isinstance(node, ast.If) else ():
            if isinstance(line, ast.AnnAssign) and line.value is not None:
                found[ast.unparse(line.target)] = ast.unparse(line.value)
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
    if origin is typing.TypeGuard:
        return isinstance(value, bool)
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


@functools.cache
def _definitions(path: str) -> dict[tuple[int, str], ast.FunctionDef]:
    """The functions of a file, by the line at which their code begins, and name."""
    return {
        ((node.decorator_list or [node])[0].lineno, node.name): node
        for node in ast.walk(ast.parse(Path(path).read_text()))
        if isinstance(node, ast.FunctionDef)
    }


def _kind(value: Any) -> Any:
    """What a value is, as far as it matters for whether it fits."""
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value), tuple(map(_kind, value[:8]))
    return (type(value), value) if isinstance(value, str | int) else type(value)


class Watch:
    """In the `with` block, all calls of functions of some packages, private ones and rules too:
    `untrue` says which values are not what the annotation says, as {(file, function, parameter):
    annotation and value}."""

    def __init__(self, *packages: str) -> None:
        self.folders = tuple(f"{ROOT / package}/" for package in packages)
        self.untrue: dict[tuple[str, str, str], str] = {}
        self.functions: dict[types.CodeType, Any] = {}
        self._seen: set[Any] = set()
        self._looking = False

    def __enter__(self) -> Watch:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _said(self, code: types.CodeType) -> Any:
        """The annotations of parameters and of the result; None for other functions."""
        if not code.co_filename.startswith(self.folders):
            return None
        found = _definitions(code.co_filename).get((code.co_firstlineno, code.co_name))
        if found is None:
            return None
        a = found.args
        said = [(p.arg, p.annotation, "one") for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        said += [(a.vararg.arg, a.vararg.annotation, "several")] if a.vararg else []
        said += [(a.kwarg.arg, a.kwarg.annotation, "named")] if a.kwarg else []
        result = None if code.co_flags & NO_RESULT or found.returns is None else found.returns
        return (
            (str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname),
            [(name, ast.unparse(kind), how) for name, kind, how in said if kind is not None],
            result and ast.unparse(result),
        )

    def _event(self, frame: types.FrameType, event: str, result: Any) -> None:
        if self._looking or event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self.functions:
            self.functions[code] = self._said(code)
        said = self.functions[code]
        if said is None:
            return
        self._looking = True  # what is called to look is no call of the program
        try:
            place, parameters, returned = said
            module = frame.f_globals["__name__"]
            if event == "call":
                for name, kind, how in parameters:
                    value = frame.f_locals.get(name)
                    if how == "one":
                        self._look(place, name, value, kind, module)
                    elif not kind.startswith(("Unpack", "P.")):  # signatures of their own
                        for one in value.values() if how == "named" else value:
                            self._look(place, name, one, kind, module)
            elif returned is not None and result is not None:  # None: it may have raised
                self._look(place, "return", result, returned, module)
        finally:
            self._looking = False

    def _look(self, place: tuple[str, str], name: str, value: Any, kind: str, module: str) -> None:
        key = (place, name, _kind(value))
        if kind in ("Any", "object") or key in self._seen:
            return
        self._seen.add(key)
        try:
            if not fits(value, kind, module):
                self.untrue.setdefault((*place, name), f"{kind} is {type(value).__name__}")
        except Unknown:  # names of type checkers alone
            pass
        except Exception as err:  # one that is raised here would end the watch
            self.untrue[*place, name] = f"{kind}: {err!r}"
