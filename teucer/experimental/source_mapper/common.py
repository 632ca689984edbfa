"""Passes: forms of a program that source maps are made of."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from teucer._base import config
from teucer._base.lazy import listing
from teucer._experimental.source_maps import SourceMap

if TYPE_CHECKING:
    from teucer._core.typing import Params

__all__ = [
    "CompileFn", "GenerateDumpFn", "Pass", "SourceMapDump", "all_passes", "canonicalize_filename",
    "compile_with_env", "filter_passes", "flag_env", "register_pass",
]  # fmt: skip
__dir__ = listing(__name__, __all__)


@dataclasses.dataclass(frozen=True)
class SourceMapDump:
    """A form of a program as text, with its source map."""

    source_map: SourceMap
    generated_code: str
    pass_name: str


CompileFn = Callable[..., Any]
GenerateDumpFn = Callable[..., SourceMapDump]


@dataclasses.dataclass(frozen=True)
class Pass:
    """A form of a program: compile_fn(folder, f, args, kwargs) makes it, generate_dump(result)
    writes it."""

    name: str
    compile_fn: CompileFn
    generate_dump: GenerateDumpFn


_passes: dict[str, Pass] = {}


def register_pass(pass_: Pass) -> None:
    """Add a form. Raises ValueError if there is one of its name."""
    if pass_.name in _passes:
        raise ValueError(f"Pass {pass_.name} already registered")
    _passes[pass_.name] = pass_


def all_passes() -> Sequence[Pass]:
    """All forms."""
    return list(_passes.values())


def filter_passes(regex: str) -> Sequence[Pass]:
    """The forms whose whole name matches.

    >>> from teucer.experimental import source_mapper
    >>> [p.name for p in source_mapper.filter_passes("hlo:.*")]
    ['hlo:stable-hlo', 'hlo:original', 'hlo:optimized']
    """
    return [p for p in all_passes() if re.fullmatch(regex, p.name)]


def canonicalize_filename(file_name: str) -> str:
    """A file's name as maps write it: its real path."""
    return os.path.realpath(file_name) if os.path.exists(file_name) else file_name


@contextmanager
def flag_env(**kwargs: object) -> Iterator[None]:
    """Options set in a `with` block, by name."""
    saved = {name: getattr(config.config, name) for name in kwargs}
    try:
        for name, value in kwargs.items():
            config.config.update(name, value)
        yield
    finally:
        for name, value in saved.items():
            config.config.update(name, value)


def compile_with_env(
    f: Callable[..., Any],
    f_args: Any,
    f_kwargs: Any,
    env_flags: Params,
    compiler_flags: dict[str, Any],
) -> Any:
    """f compiled for arguments: with options by name, and XLA's debug options by name."""
    from teucer._derived.stages import jit  # after the package: jit is loaded with it

    with flag_env(**env_flags), config.locations(True):
        return jit(f).lower(*f_args, **f_kwargs).compile(compiler_options=dict(compiler_flags))
