"""Programs over several devices: libraries ask here which mesh `with mesh:` has put in force."""

from __future__ import annotations

import warnings
from typing import final

from teucer._base.lazy import listing
from teucer._devices import meshes

__all__ = ["thread_resources"]  # noqa: F822  # __getattr__ gives it
__dir__ = listing(__name__, __all__)


@final
class _Resources:
    """The mesh of the innermost `with mesh:` block; one of no devices and no axes where there is
    none."""

    @property
    def env(self) -> _Resources:
        return self

    @property
    def physical_mesh(self) -> meshes.Mesh:
        return meshes.innermost_block()


_thread_resources = _Resources()


def __getattr__(name: str) -> _Resources:
    if name != "thread_resources":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    warnings.warn(
        "jax.interpreters.pxla.thread_resources is deprecated. Set the mesh by `with "
        "jax.set_mesh(mesh):` and ask jax.sharding.get_abstract_mesh().",
        DeprecationWarning,
        stacklevel=2,
    )
    return _thread_resources
