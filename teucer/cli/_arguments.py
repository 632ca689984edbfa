"""What commands are told of a function: `FILE:FUNCTION`, and the types or values of its arguments.

One reader for `jaxpr`, `show`, `check`, `export` and `plan`. Arguments are written as Python writes
a call: types `f32[3,4]`, trees of them, values, and what the file defines.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import teucer as jax
from teucer._base.element_types import ALL, canonicalize_dtype
from teucer._base.short_names import short_name
from teucer._base.tracebacks import treat_uncaught
from teucer._devices.meshes import get_abstract_mesh
from teucer.cli import _run
from teucer.cli._errors import CommandError
from teucer.export import SymbolicScope as Scope
from teucer.export import symbolic_shape

DTYPES = {short_name(dtype): dtype for dtype in ALL} | {dtype.name: dtype for dtype in ALL}
_NO_AXES = re.compile(r"([a-z]\w*)\[\s*\]")
_FORM = (
    "Write each as dtype[shape], such as 'f32[3,4],i32[]', and trees of them as Python does: "
    "'{\"w\": f32[3,4]}, (f32[], 2)'. Values are numbers, text, load('x.npy'), and what the file "
    "defines."
)


class Call(NamedTuple):
    """A function, and what it is called with: types, and values."""

    function: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]


def read_call(
    target: str, text: str, *, scope: Scope | None = None, mesh: str | None = None
) -> Call:
    """The function FILE:FUNCTION with the arguments of a text, such as 'f32[3,4], n=2'.

    scope: of sizes that are names. mesh: axes and sizes, 'x=4,y=2', over which shardings lie:
    'f32[8,4]@P("x")'.
    Raises CommandError for what cannot be read, or called with so many arguments.
    """
    on_mesh = None if mesh is None else _mesh(mesh)  # before the file makes the first array
    path, name, names = variables(target)
    function = function_of(path, name, names)
    args, kwargs = _Reader(text, scope, names, on_mesh).arguments()
    if args and _is_method_of(function, args[0]):
        function, args = function.__get__(args[0]), args[1:]
    check_count(target, function, args, kwargs)
    return Call(function, args, kwargs)


def load(target: str) -> Callable[..., Any]:
    """The function FILE:FUNCTION, or FILE:CLASS.METHOD. Raises CommandError if there is none."""
    return function_of(*variables(target))


def parse_types(
    text: str, scope: Scope | None = None, names: Mapping[str, Any] | None = None
) -> list[Any]:
    """The arguments in a list such as 'f32[3,4], {"w": i32[]}, 2.0'. Raises CommandError for
    anything else.

    scope: where there is one, sizes may be symbols of it: 'f32[batch,4]'. names: what the text may
    name. Where a mesh is set, types may say the axes that they lie along: 'f32[8@data,4]'.

    >>> parse_types("f32[3,4],int32[]")
    [ShapeDtypeStruct(shape=(3, 4), dtype=float32), ShapeDtypeStruct(shape=(), dtype=int32)]
    >>> parse_types("{'w': f32[3]}, (2, None)")
    [{'w': ShapeDtypeStruct(shape=(3,), dtype=float32)}, (2, None)]
    """
    args, kwargs = _Reader(text, scope, names or {}, None).arguments()
    if kwargs:
        raise CommandError(f"arguments by name are not taken here: {', '.join(kwargs)}.")
    return args


def check_count(
    target: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Raise CommandError if a function cannot be called with these arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some builtin functions have none
        return
    try:
        signature.bind(*args, **(kwargs or {}))
    except TypeError as err:
        given = len(args) + len(kwargs or {})
        raise CommandError(
            f"{target} cannot be called with {given} argument{'s' * (given != 1)}: "
            f"{err}.\nGive the types of all of them: --args 'f32[3,4],i32[]'."
        ) from err


def read_dtype(name: str) -> Any:
    """The dtype of a short name. Raises CommandError for one of 64 bits where those are off."""
    dtype = DTYPES[name]
    narrower = canonicalize_dtype(dtype)
    if narrower != dtype:
        said = narrower.name if name == dtype.name else short_name(narrower)
        raise CommandError(
            f"{name} would be {said}, since types of 64 bits are off.\n"
            f"Switch them on, JAX_ENABLE_X64=1, or write {said}."
        )
    return dtype


# Functions


def variables(target: str) -> tuple[str, str, dict[str, Any]]:
    """The file and the name in FILE:FUNCTION, and what the file defines."""
    path, colon, name = target.rpartition(":")
    if not colon:
        raise CommandError(f"'{target}' names no function: write FILE:FUNCTION.")
    if not os.path.isfile(path):
        raise CommandError(f"there is no file {path}.")
    _run.as_jax()
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        names = runpy.run_path(path, run_name="teucer_jaxpr")
    except Exception as err:
        treat_uncaught(err)
        traceback.print_exception(err)
        raise CommandError(f"{path} ends with an error before {name} is defined.") from err
    return path, name, names


def function_of(path: str, name: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """What a name such as `f`, `model.apply` or `Model.loss` stands for.

    A method of a class whose objects are made without arguments is that of such an object.
    """
    first, *rest = name.split(".")
    value = names.get(first)
    for part in rest:
        owner, value = value, getattr(value, part, None)
        plain = isinstance(owner, type) and inspect.isfunction(vars(owner).get(part))
        if plain and _needs_nothing(owner):
            value = getattr(owner(), part)
    if callable(value):
        return value
    functions = sorted(n for n, found in names.items() if callable(found) and not n.startswith("_"))
    raise CommandError(f"{path} has no function {name}.\nIt has: {', '.join(functions) or 'none'}")


def _is_method_of(function: Any, value: Any) -> bool:
    """Whether a function is a method of the class of a value that is no tree of arrays."""
    found = getattr(type(value), getattr(function, "__name__", ""), None)
    return found is function and inspect.isfunction(function) and jax.tree_util.all_leaves([value])


def _needs_nothing(cls: Any) -> bool:
    try:
        signature = inspect.signature(cls)
        signature.bind()
    except (TypeError, ValueError):
        return False
    return True


def _mesh(text: str) -> jax.sharding.Mesh:
    """A mesh of axes such as 'x=4,y=2'. Raises CommandError where there are too few devices."""
    axes = [part.partition("=") for part in text.replace(" ", "").split(",")]
    if not all(name.isidentifier() and size.isdecimal() for name, _, size in axes):
        raise CommandError(f"cannot read the mesh '{text}'. Write it as 'x=4,y=2'.")
    sizes = tuple(int(size) for _, _, size in axes)
    count = int(np.prod(sizes))
    if jax.config.jax_num_cpu_devices < count:
        with contextlib.suppress(RuntimeError):  # of arrays that are there already
            jax.config.update("jax_num_cpu_devices", count)
    try:
        return jax.make_mesh(sizes, tuple(name for name, _, _ in axes))
    except ValueError as err:
        raise CommandError(f"the mesh {text} cannot be made.\n{err}") from err


# Arguments


class _Reader:
    """Reads a text of arguments. names: what the file defines."""

    def __init__(
        self,
        text: str,
        scope: Scope | None,
        names: Mapping[str, Any],
        mesh: jax.sharding.Mesh | None,
    ) -> None:
        self.text, self.scope, self.names, self.mesh = text.strip(), scope, names, mesh
        self.source = "_(" + _NO_AXES.sub(r"\1[()]", self.text) + ")"

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        try:
            call = ast.parse(self.source, mode="eval").body
        except SyntaxError as err:
            raise _unreadable(self.text) from err
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise _unreadable(self.text)
        return self._of(call)

    def _of(self, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        if any(word.arg is None for word in call.keywords):
            raise self._refused(call)
        args = [self.value(arg) for arg in call.args]
        return args, {str(word.arg): self.value(word.value) for word in call.keywords}

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for."""
        match node:
            case ast.Subscript(value=ast.Name(id=name)) if name in DTYPES:
                spec = self._spec(node)
                type_ = jax.ShapeDtypeStruct(self._shape(node), read_dtype(name))
                return type_ if spec is None else self._on_mesh(node, type_, spec)
            case ast.BinOp(op=ast.MatMult(), left=left, right=right):
                return self._laid_out(node, self.value(left), right)
            case ast.Tuple(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.List(elts=parts):
                return [self.value(part) for part in parts]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                return {
                    self._constant(key): self.value(value)
                    for key, value in zip(keys, values, strict=True)
                    if key
                }
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(node, self.value(owner), name)
            case ast.Call(func=ast.Name(id="load"), args=[ast.Constant(value=str(file))]):
                return _from_file(file)
            case ast.Call(func=function):
                args, kwargs = self._of(node)
                return self._called(node, self.value(function), args, kwargs)
        return self._constant(node)

    def _laid_out(self, node: ast.expr, type_: Any, spec: ast.expr) -> Any:
        if not isinstance(type_, jax.ShapeDtypeStruct):
            raise self._refused(node)
        match spec:
            case ast.Call(func=ast.Name(id="P" | "PartitionSpec"), args=args, keywords=[]):
                partition = jax.P(*(self._constant_or_axes(arg) for arg in args))
            case _:
                raise self._refused(spec)
        return self._on_mesh(node, type_, partition)

    def _on_mesh(self, node: ast.expr, type_: jax.ShapeDtypeStruct, spec: jax.P) -> Any:
        """A type laid out over the mesh of the reader, or that which is set."""
        if self.mesh is None and get_abstract_mesh().empty:
            raise CommandError(
                f"'{ast.get_source_segment(self.source, node)}' says axes of a mesh, and there is "
                "none here: say --mesh 'x=4,y=2'."
            )
        try:
            over = spec if self.mesh is None else jax.NamedSharding(self.mesh, spec)
            return jax.ShapeDtypeStruct(type_.shape, type_.dtype, sharding=over)
        except (TypeError, ValueError) as err:
            raise CommandError(f"{ast.unparse(node)}: {err}") from err

    def _spec(self, node: ast.Subscript) -> jax.P | None:
        """The mesh axes of a type such as f32[8@data,4], taken out of it; None if it has none."""
        sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        entries: list[Any] = []
        for i, size in enumerate(sizes):
            match size:
                case ast.BinOp(left=left, op=ast.MatMult(), right=ast.Name(id=axis)):
                    entries.append(axis)
                    sizes[i] = left
                case ast.BinOp(left=left, op=ast.MatMult(), right=ast.Tuple(elts=axes)) if all(
                    isinstance(axis, ast.Name) for axis in axes
                ):
                    entries.append(tuple(a.id for a in axes if isinstance(a, ast.Name)))
                    sizes[i] = left
                case _:
                    entries.append(None)
        if not isinstance(node.slice, ast.Tuple):
            node.slice = sizes[0]
        return None if all(entry is None for entry in entries) else jax.P(*entries)

    def _constant_or_axes(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple):
            return tuple(self._constant(part) for part in node.elts)
        return self._constant(node)

    def _attribute(self, node: ast.expr, owner: Any, name: str) -> Any:
        try:
            return getattr(owner, name)
        except AttributeError:
            raise self._refused(node) from None

    def _called(self, node: ast.expr, function: Any, args: list[Any], kwargs: Any) -> Any:
        if not callable(function):
            raise self._refused(node)
        try:
            return function(*args, **kwargs)
        except Exception as err:
            raise CommandError(f"{ast.unparse(node)} fails: {type(err).__name__}: {err}") from err

    def _constant(self, node: ast.expr) -> Any:
        if (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)) or isinstance(
            node, ast.Constant
        ):
            try:
                return ast.literal_eval(node)
            except ValueError:
                pass
        raise self._refused(node)

    def _shape(self, node: ast.Subscript) -> tuple[Any, ...]:
        sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if self.scope is not None and sizes:
            try:
                return symbolic_shape(",".join(map(ast.unparse, sizes)), scope=self.scope)
            except ValueError as err:
                raise CommandError(str(err)) from err
        if not all(isinstance(n, ast.Constant) and type(n.value) is int for n in sizes):
            raise self._refused(node)
        return tuple(
            n.value for n in sizes if isinstance(n, ast.Constant) and isinstance(n.value, int)
        )

    def _refused(self, node: ast.expr) -> CommandError:
        return _unreadable(ast.get_source_segment(self.source, node) or self.text)


def _unreadable(text: str) -> CommandError:
    shown = text.replace("[()]", "[]")
    return CommandError(f"cannot read the types at '{shown}'.\n{_FORM}")


def _from_file(name: str) -> Any:
    """The arrays of a file: .npy, .npz as a dict, .json as a tree."""
    kind = Path(name).suffix
    try:
        if kind == ".npy":
            return np.load(name)
        if kind == ".npz":
            with np.load(name) as found:
                return dict(found)
        if kind == ".json":
            return json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as err:
        raise CommandError(f"{name} cannot be read: {err.strerror or err}.") from err
    except ValueError as err:
        raise CommandError(f"{name} cannot be read: {err}.") from err
    raise CommandError(f"{name} is no file of values: .npy, .npz or .json.")
