"""Public modules whose private modules are loaded on first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from teucer._advice.guarding import guarded

# on_handing(module, name, value): called when a public module hands on a name for the first time
# (`teucer.compat`).
on_handing: Callable[[str, str, object], None] | None = None
# The table of JAX's names that Teucer refuses, loaded when a name is missed.
_REFUSED = "teucer._jax.refused"


def lazy_module(
    module: str,
    sources: Mapping[str, str],
    finish: Callable[[Any], object] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module that hands on names of private ones.

    sources: for each module, the names that it gives, in one string; `name=other` gives its `other`
    as `name`, `name=.` the module itself.
    finish: a function that is applied to a value before the module hands it on.

    >>> __getattr__, __dir__, __all__ = lazy_module("teucer.lax",
    ...     {"teucer.lax._sorting": "sort top_k"})
    >>> __all__
    ['sort', 'top_k']
    """
    where: dict[str, tuple[str, str]] = {}
    for source, names in sources.items():
        for item in names.split():
            name, _, other = item.partition("=")
            where[name] = (source, other or name)

    # Type checkers take its result for the type of every name of a public module that has no stub.
    def __getattr__(name: str) -> Any:
        try:
            source, other = where[name]
        except KeyError:
            raise lacking(module, name) from None
        loaded = importlib.import_module(source)
        value: object = loaded if other == "." else getattr(loaded, other)
        value = guarded(finish(value) if finish is not None else value)
        setattr(sys.modules[module], name, value)
        if on_handing is not None:
            on_handing(module, name, value)
        return value

    return guarded(__getattr__), listing(module, where), list(where)


def lacking(module: str, name: str) -> AttributeError:
    """The AttributeError for a name that a public module does not have. If JAX has the name, the
    error says why it is missing."""
    place = sys.modules[module]
    advice = "" if name.startswith("_") else importlib.import_module(_REFUSED).advice(module, name)
    return AttributeError(
        f"module {place.__name__!r} has no attribute {name!r}{advice}", name=name, obj=place
    )


def refusing(module: str) -> Callable[[str], NoReturn]:
    """`__getattr__` of a module that has all of its names itself: it says why JAX's others are not
    there.

    Assign it behind `if not TYPE_CHECKING`; type checkers would take it for any name.
    """

    def __getattr__(name: str) -> NoReturn:
        raise lacking(module, name)

    return __getattr__


def listing(module: str, names: Iterable[str]) -> Callable[[], list[str]]:
    """`__dir__` of a public module: its names, its submodules that are loaded, and Python's own
    such as `__doc__`.

    What the module imports for itself does not show, so that editors and `dir()` offer only what
    users may ask for.
    names: the module's `__all__`; read at each call, so it may still grow.

    >>> import teucer.flatten_util
    >>> [name for name in dir(teucer.flatten_util) if not name.startswith("_")]
    ['ravel_pytree']
    """

    def __dir__() -> list[str]:
        own = vars(sys.modules[module])
        python = {name for name in own if name.startswith("__") and name.endswith("__")}
        loaded = {
            name
            for name, value in own.items()
            if sys.modules.get(f"{module}.{name}") is value is not None
        }
        return sorted({*python, *(name for name in loaded if not name.startswith("_")), *names})

    return __dir__
