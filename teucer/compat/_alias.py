"""The alias.

`jax` and `jax.X` are Teucer's own module objects, under the names that JAX gives them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from inspect import get_annotations
from types import FunctionType, ModuleType
from typing import Any, ForwardRef, NewType, final

import teucer
from teucer._base import lazy
from teucer.compat import _classes, _pickles, _private, _removed
from teucer.compat._version import __version__, __version_info__

STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_startup")
# Modules of JAX that Teucer has for the sake of the alias only.
_OWN = {"jax.version": "teucer.compat._version", "jax.lib": "teucer.compat._lib"}
_HIDDEN = ("teucer.cli", "teucer.compat")
# The modules that JAX names as the home of objects that several modules hand on.
_HOMES = {
    "teucer._devices.specs": "jax.sharding",
    "teucer._base.errors": "jax.errors",
    "teucer._devices.shardings": "jax.sharding",
    "teucer._devices.meshes": "jax.sharding",
    "teucer._trees.pytrees": "jax.tree_util",
    "teucer._trees.registry": "jax.tree_util",
    "teucer.tree_util": "jax.tree_util",
}


def install() -> None:
    """Make `import jax` and `import jax.X` give Teucer, in this process and in those that it
    starts.

    Calling it again changes nothing. `import teucer.compat` calls it.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    # The finder of `_startup` knows the distribution `jax`; the one below comes before it.
    sys.path.insert(1, STARTUP)
    importlib.import_module("teucer_as_jax")
    sys.meta_path.insert(0, _classes.Finder())
    sys.meta_path.insert(0, _Finder())
    vars(teucer).update(__version__=__version__, __version_info__=__version_info__)
    for name, module in list(sys.modules.items()):
        if _is_public(name) and module is not None:
            _give_name(module, "jax" + name.removeprefix("teucer"))
    for name, module in list(sys.modules.items()):
        if name.startswith("teucer.") and module is not None:
            _classes.say_jax(module, name)
    for name in (*_OWN, "jax._src"):
        importlib.import_module(name)
    lazy.on_handing = _handed
    _pickles.install()
    # Where processes that are started look for the finder.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if STARTUP not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([STARTUP, *filter(None, paths)])


@final
class _Finder:
    """Finds `jax.X` as the module `teucer.X`, and `jax._src.X` as an adapter
    (`teucer.compat._private`)."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "jax" and not name.startswith("jax."):
            return None
        if name not in _OWN and not name.startswith("jax._src") and name not in _removed.MODULES:
            own = "teucer" + name.removeprefix("jax")
            if _is_hidden(own):
                # Python would look into Teucer's folder next, and load a second copy.
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if importlib.util.find_spec(own) is None:
                return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]  # a loader of its own kind

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, placeholder: ModuleType) -> None:
        """Put the module in the place of the one that the import system has made."""
        name = placeholder.__name__
        if name.startswith("jax._src"):
            sys.modules[name] = _private.module(name, placeholder.__spec__)
            return
        if name in _removed.MODULES:
            sys.modules[name] = _removed.module(name)
            return
        own = _OWN.get(name, "teucer" + name.removeprefix("jax"))
        module = importlib.import_module(own)
        if name in _OWN or _is_public(own):
            _give_name(module, name)
        else:
            # `from teucer.lax import _room` asks for it so, since teucer.lax is named jax.lax.
            sys.modules[name] = module


def _is_hidden(name: str) -> bool:
    return any(name == n or name.startswith(n + ".") for n in _HIDDEN)


def _is_public(name: str) -> bool:
    return (
        (name == "teucer" or name.startswith("teucer."))
        and "._" not in name
        and not _is_hidden(name)
    )


def _give_name(module: ModuleType, name: str) -> None:
    module.__name__ = name
    sys.modules[name] = module
    _removed.give(module, name)
    names = vars(module)
    for given in names.get("__all__", names):
        if given in names and not given.startswith("_"):
            _give_home(names[given], name)


def _give_home(value: object, module: str) -> None:
    """Let a class or function say that it is of a public module, as JAX's do, if it says that it is
    of Teucer."""
    if not isinstance(value, type | FunctionType | NewType | _Compiled):
        return
    home = _classes.own(value.__module__)
    if home is not None:
        if isinstance(value, type) and (
            issubclass(value, tuple) or "__dataclass_fields__" in vars(value)
        ):
            _resolve(value, home)
        value.__module__ = _HOMES.get(home, module)


def _resolve(cls: type, home: str) -> None:
    """Write out the annotations of a named tuple or dataclass, which the public module could not
    resolve (pydantic does, in the module that a class says).

    What is imported for type checkers alone is Any.
    """
    hints = {}
    for name, said in get_annotations(cls).items():
        text = said.__forward_arg__ if isinstance(said, ForwardRef) else said
        try:
            hints[name] = eval(text, vars(sys.modules[home])) if isinstance(text, str) else text
        except (NameError, TypeError):  # a type that is a string at run time: None | "int"
            hints[name] = Any
    cls.__annotations__ = hints
    for name, field in vars(cls).get("__dataclass_fields__", {}).items():
        field.type = hints.get(name, field.type)


def _handed(public: str, name: str, value: object) -> None:
    """A public module hands on a name for the first time: of a module, or from a private one."""
    if isinstance(value, ModuleType):
        if _is_public(value.__name__):
            _give_name(value, "jax" + value.__name__.removeprefix("teucer"))
    else:
        _give_home(value, "jax" + public.removeprefix("teucer"))


_Compiled = type(teucer.numpy.sin)
