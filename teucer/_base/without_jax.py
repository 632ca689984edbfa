"""Teucer and jax exclude each other in a process.

Both give methods to jaxlib's array type, and types to its pytrees.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, NoReturn, final


def exclude_jax() -> None:
    """Let jax not be imported from now on, where it is installed.

    Raises ImportError if it has been.
    """
    if "jax" in sys.modules:
        raise _error("teucer", "jax")
    if PathFinder.find_spec("jax") is not None:
        sys.meta_path.insert(0, _Refusal())


@final
class _Refusal:
    """Finds jax, and does not load it.

    jaxlib itself looks for it whenever it reads an array, and goes on without; half imported, it
    would change jaxlib's options.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "jax" else None  # type: ignore[arg-type]  # a loader that never loads

    def create_module(self, spec: ModuleSpec) -> NoReturn:
        raise _error("jax", "teucer")

    def exec_module(self, module: Any) -> None:
        """Never called; the import system asks that a loader has it."""


def _error(second: str, first: str) -> ImportError:
    return ImportError(
        f"{second} cannot be imported into a process that has imported {first}: both give methods "
        "to jaxlib's array type.\n  Remove one of the imports, or run them in separate processes.\n"
        "  For `import jax` to give Teucer, begin the program with `import teucer.compat`, or "
        "run it by `teucer run`. Where Teucer's wheel named jax was installed, "
        "`teucer compat check` says what became of it.",
        name=second,
    )
