"""Names of JAX for kernels that Teucer does not build.

They import everywhere, since libraries import them on every platform and use them on accelerators
alone. Calling one raises NotImplementedError with the reason. Attributes are of the same kind, so
that tables which name `Layout.WG` or `Tiling.COMPACT` can be read; subclasses can be defined.
Members of a name written `Layout()` only describe: calling them gives another description.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from teucer._base.lazy import lacking, listing


class _Unbuilt(type):
    """The class of such names."""

    said: str
    reason: str
    describes: bool

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        if cls.describes and cls.said.count(".") > cls.__module__.count(".") + 1:
            return _Unbuilt(
                cls.__name__,
                (),
                {"said": f"{cls.said}(...)", **{n: getattr(cls, n) for n in _KEPT}},
            )
        raise NotImplementedError(f"{cls.said}: {cls.reason}")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{cls.said} has no attribute {name!r}")
        value = _Unbuilt(
            name, (), {"said": f"{cls.said}.{name}", **{n: getattr(cls, n) for n in _KEPT}}
        )
        setattr(cls, name, value)
        return value

    def __getitem__(cls, index: object) -> Any:
        return cls

    def __repr__(cls) -> str:
        return f"<{cls.said}, which is not built>"


_KEPT = ("reason", "describes", "__module__")


def unbuilt(said: str, reason: str, *, describes: bool = False) -> Any:
    """A name that is not built, with `said` for messages; describes: calling a member gives another
    such name."""
    home, _, name = said.partition(" ")[0].rpartition(".")
    return _Unbuilt(
        name, (), {"said": said, "reason": reason, "describes": describes, "__module__": home}
    )


def unbuilt_names(
    module: str, names: str, reason: str, own: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module with such names; own: what it has besides."""
    absent = {name.removesuffix("()"): name.endswith("()") for name in names.split()}
    said = "jax" + module.removeprefix("teucer")

    def __getattr__(name: str) -> Any:
        if name not in absent:
            raise lacking(module, name)
        value = unbuilt(f"{said}.{name}", reason, describes=absent[name])
        setattr(sys.modules[module], name, value)
        return value

    return __getattr__, listing(module, [*own, *absent])


def unbuilt_modules(package: str, table: Mapping[str, str], reason: str) -> None:
    """Make the modules of a package in which no name is built. table: their names, by module.

    Call it while the package is loaded, so that the import system finds the modules.
    """
    for short, names in table.items():
        full = f"{package}.{short}"
        made = ModuleType(full, f"Names of JAX that are not built: {reason}")
        made.__spec__ = ModuleSpec(full, None, is_package=True)
        made.__path__ = []
        sys.modules[full] = made
        parent, _, last = full.rpartition(".")
        setattr(sys.modules[parent], last, made)
        vars(made)["__getattr__"], vars(made)["__dir__"] = unbuilt_names(full, names, reason)
