"""opt_einsum contracts Teucer's arrays and tracers.

It takes the first word of `type(x).__module__` for the module that has `einsum` and `tensordot`.
Arrays say `jaxlib`, tracers `teucer`; for both that is `teucer.numpy`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, final

_DISPATCH = "opt_einsum.backends.dispatch"


def tell() -> None:
    """Tell opt_einsum, now or when it is imported."""
    if _DISPATCH in sys.modules:
        _register(sys.modules[_DISPATCH])
    else:
        sys.meta_path.insert(0, _Waiting())


def _register(dispatch: ModuleType) -> None:
    # A version without this table knows nothing of jaxlib either.
    aliases = vars(dispatch).get("_aliases", {})
    aliases.update(jaxlib="teucer.numpy", teucer="teucer.numpy")


@final
class _Waiting:
    """Finds opt_einsum's table of backends, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _DISPATCH:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader)  # type: ignore[assignment]  # a loader by its methods
        return spec


@final
class _Telling:
    """A loader that has the loaded module told."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _register(module)
