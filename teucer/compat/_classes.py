"""Classes of Teucer's private modules say a module of `jax`.

Libraries choose by the first word of `type(x).__module__` how they treat a value (opt_einsum,
autoray, Keras). So `teucer._core.stage.StageTracer` says `jax._core.stage`, a second name of the
same module. A class that a public module hands on names that module (`_alias`).
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import final

from teucer._advice import guarding

_HIDDEN = ("teucer.cli", "teucer.compat")

# Classes that programs see the name of before they ask the public module for it.
_PUBLIC = {
    ("teucer.numpy._ufunc_objects", "ufunc"): "jax.numpy",
    ("teucer._base.element_types", "prng_key"): "jax.dtypes",
}


def own(home: object) -> str | None:
    """The module of Teucer that a class or function names as its own, by either package name.

    None for another package's, and for a public module of jax.
    """
    if not isinstance(home, str):
        return None
    if home.startswith("jax.") and "._" in home and not home.startswith("jax._src"):
        return "teucer" + home.removeprefix("jax")
    return home if home == "teucer" or home.startswith("teucer.") else None


def say_jax(module: ModuleType, name: str) -> None:
    """Let the classes that a module of Teucer defines say that they are of jax.

    name: the module's own, which begins with `teucer`.
    """
    if any(name == hidden or name.startswith(hidden + ".") for hidden in _HIDDEN):
        return
    named = "jax" + name.removeprefix("teucer")
    # Annotations and pickles are resolved in the module that a class names. Modules that JAX has
    # are found by the alias itself.
    if "._" in named:
        sys.modules.setdefault(named, module)
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == name:
            value.__module__ = _PUBLIC.get((name, value.__name__), named)
        elif _is_public(value):
            value.__module__ = "jax" + value.__module__.removeprefix("teucer")


def _is_public(value: object) -> bool:
    """Whether a class already says the public module that hands it on, as errors do."""
    return (
        isinstance(value, type)
        and value.__module__.startswith("teucer.")
        and "._" not in value.__module__
    )


@final
class _Loader(SourceFileLoader):
    """Loads a module of Teucer; then its classes say that they are of jax."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if guarding.is_public(self.name):
            guarding.guard_module(module)
        say_jax(module, self.name)


@final
class Finder:
    """Finds the modules of Teucer that are loaded later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("teucer."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec
