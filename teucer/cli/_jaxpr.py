"""`teucer jaxpr FILE:FUNCTION --args TYPES`.

The jaxpr of a function for arguments of the given types.
"""

import ast
import inspect
import os
import re
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import teucer as jax
from teucer._base import config
from teucer._base.element_types import ALL, canonicalize_dtype
from teucer._base.short_names import short_name
from teucer._core.jaxpr import Jaxpr, subjaxprs
from teucer._devices.meshes import get_abstract_mesh
from teucer._optimize.passes import PASSES, Pass
from teucer._optimize.structure import structural_key
from teucer._targets.table import target_of
from teucer._transform.jit_calls import hoist_consts
from teucer.cli._errors import CommandError
from teucer.export import SymbolicScope as Scope
from teucer.export import symbolic_shape

DTYPES = {short_name(dtype): dtype for dtype in ALL}
_NO_AXES = re.compile(r"([a-z]\w*)\[\s*\]")


def jaxpr(target: str, types: str, *, passes: bool) -> int:
    """Print the jaxpr of target, FILE:FUNCTION, on arguments of the given types, such as
    'f32[3,4],i32[]'.

    passes: also the jaxpr after each pass before it is lowered.
    """
    function, args = load(target), parse_types(types)
    check_count(target, function, args)
    closed = jax.make_jaxpr(function)(*args)
    if passes:
        _print_passes(hoist_consts(closed.jaxpr).jaxpr)
    else:
        print(closed)
    return 0


def check_count(target: str, function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise CommandError if a function cannot be called with so many arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some builtin functions have none
        return
    try:
        signature.bind(*args)
    except TypeError as err:
        raise CommandError(
            f"{target} cannot be called with {len(args)} argument{'s' * (len(args) != 1)}: "
            f"{err}.\nGive the types of all of them: --args 'f32[3,4],i32[]'."
        ) from err


def _print_passes(program: Jaxpr) -> None:
    """Print a program, and again after each pass that changes it; constants are its first
    arguments."""
    print(f"traced: {_count(program)}\n{program}")
    outline = Pass(
        "outline what repeats",
        lambda jaxpr: target_of(jax.default_backend()).prepare(jaxpr, config.outline.value),
    )
    for whole in (*PASSES, outline):
        for one in (*whole.parts, whole):
            after = one.apply(program)
            if structural_key(after) != structural_key(program):
                print(f"\n{one.name}: {_count(after)}\n{after}")
                program = after


def _count(program: Jaxpr) -> str:
    """How many equations there are, in the program and in each jaxpr that it carries."""
    found = [program]
    for one in found:
        found += [inner for inner in subjaxprs(one) if inner not in found]
    n = sum(len(one.eqns) for one in found)
    return f"{n} equation{'' if n == 1 else 's'}"


def load(target: str) -> Callable[..., Any]:
    """The function FILE:FUNCTION. Raises CommandError if there is none."""
    path, name, names = variables(target)
    return function_of(path, name, names)


def variables(target: str) -> tuple[str, str, dict[str, Any]]:
    """The file and the name in FILE:FUNCTION, and what the file defines."""
    path, colon, name = target.rpartition(":")
    if not colon:
        raise CommandError(f"'{target}' names no function: write FILE:FUNCTION.")
    if not os.path.isfile(path):
        raise CommandError(f"there is no file {path}.")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    return path, name, runpy.run_path(path, run_name="teucer_jaxpr")


def function_of(path: str, name: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of a name among what a file defines. Raises CommandError if there is none."""
    if not callable(names.get(name)):
        functions = sorted(
            n for n, value in names.items() if callable(value) and not n.startswith("_")
        )
        raise CommandError(
            f"{path} has no function {name}.\nIt has: {', '.join(functions) or 'none'}"
        )
    function: Callable[..., Any] = names[name]
    return function


def read_dtype(name: str) -> Any:
    """The dtype of a short name. Raises CommandError for one of 64 bits where those are off."""
    dtype = DTYPES[name]
    narrower = short_name(canonicalize_dtype(dtype))
    if narrower != name:
        raise CommandError(
            f"{name} would be {narrower}, since types of 64 bits are off.\n"
            f"Switch them on, JAX_ENABLE_X64=1, or write {narrower}."
        )
    return dtype


def parse_types(text: str, scope: Scope | None = None) -> list[Any]:
    """The arguments in a list such as 'f32[3,4], {"w": i32[]}, 2.0'. Raises CommandError for
    anything else.

    An argument is a type, or a tree of types and of numbers, strings and None, as Python writes
    tuples, lists and dicts. scope: where there is one, sizes may be symbols of it: 'f32[batch,4]'.

    >>> parse_types("f32[3,4],i32[]")
    [ShapeDtypeStruct(shape=(3, 4), dtype=float32), ShapeDtypeStruct(shape=(), dtype=int32)]
    >>> parse_types("{'w': f32[3]}, (2, None)")
    [{'w': ShapeDtypeStruct(shape=(3,), dtype=float32)}, (2, None)]
    """
    source = _NO_AXES.sub(r"\1[()]", text.strip())
    if not source:
        return []
    try:
        parsed = ast.parse(f"[{source}]", mode="eval").body
    except SyntaxError as err:
        raise _unreadable(text.strip()) from err
    assert isinstance(parsed, ast.List)
    return [_argument(node, source, scope) for node in parsed.elts]


def _argument(node: ast.expr, source: str, scope: Scope | None) -> Any:
    """The value of an expression of `parse_types`."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)) if name in DTYPES:
            spec = _spec(node, source)
            return jax.ShapeDtypeStruct(
                _shape(node, source, scope), read_dtype(name), sharding=spec
            )
        case ast.Tuple(elts=parts):
            return tuple(_argument(part, source, scope) for part in parts)
        case ast.List(elts=parts):
            return [_argument(part, source, scope) for part in parts]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {
                _constant(key, source): _argument(value, source, scope)
                for key, value in zip(keys, values, strict=True)
                if key
            }
    return _constant(node, source)


def _constant(node: ast.expr, source: str) -> Any:
    if (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)) or isinstance(
        node, ast.Constant
    ):
        try:
            return ast.literal_eval(node)
        except ValueError:
            pass
    raise _unreadable(ast.get_source_segment(f"[{source}]", node) or source)


def _spec(node: ast.Subscript, source: str) -> jax.P | None:
    """How an array lies over a mesh, of a type such as f32[8@data,4]; takes the axes of the mesh
    out of the type. None if it says nothing."""
    sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult) for n in sizes):
        return None
    entries: list[Any] = []
    plain: list[ast.expr] = []
    for n in sizes:
        match n:
            case ast.BinOp(left=size, op=ast.MatMult(), right=ast.Name(id=axis)):
                entries.append(axis)
            case ast.BinOp(left=size, op=ast.MatMult(), right=ast.Tuple(elts=axes)) if all(
                isinstance(a, ast.Name) for a in axes
            ):
                entries.append(tuple(a.id for a in axes if isinstance(a, ast.Name)))
            case size:
                entries.append(None)
        plain.append(size)
    if get_abstract_mesh().empty:
        raise CommandError(
            f"'{ast.get_source_segment(f'[{source}]', node)}' says axes of a mesh, and there is "
            "none here.\n`teucer plan` takes a mesh: --mesh data=4."
        )
    node.slice = ast.Tuple(plain, ast.Load())
    return jax.P(*entries)


def _shape(node: ast.Subscript, source: str, scope: Scope | None) -> tuple[Any, ...]:
    sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if scope is not None and sizes:
        try:
            return symbolic_shape(",".join(map(ast.unparse, sizes)), scope=scope)
        except ValueError as err:
            raise CommandError(str(err)) from err
    if not all(isinstance(n, ast.Constant) and type(n.value) is int for n in sizes):
        raise _unreadable(ast.get_source_segment(f"[{source}]", node) or source)
    return tuple(n.value for n in sizes if isinstance(n, ast.Constant) and isinstance(n.value, int))


def _unreadable(text: str) -> CommandError:
    return CommandError(
        f"cannot read the types at '{text.replace('[()]', '[]')}'.\n"
        "Write each as dtype[shape], such as 'f32[3,4],i32[]', and trees of them as Python does: "
        "'{\"w\": f32[3,4]}, (f32[], 2)'."
    )
