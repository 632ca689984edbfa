"""Every primitive of the package, for tests of completeness."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import teucer._derived
import teucer._optimize
import teucer._targets
import teucer._transform
import teucer.lax
from teucer._core.primitive import Primitive


def primitives() -> Iterator[tuple[str, Primitive]]:
    """Every primitive of lax and of the transformations, with the module that states it."""
    seen: set[int] = set()
    for package in (
        teucer.lax,
        teucer._derived,
        teucer._transform,
        teucer._optimize,
        teucer._targets,
    ):
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, Primitive) and id(value) not in seen:
                    seen.add(id(value))
                    yield info.name, value


def carry_jaxprs() -> list[Primitive]:
    """Those whose equations carry jaxprs, or functions that are jaxprs once they are staged."""
    return [
        p
        for _, p in primitives()
        if p.higher_order or any("jaxpr" in name for name in inspect.signature(p.types).parameters)
    ]
