"""Which mesh `with mesh:` has put in force, as libraries ask for it."""

from __future__ import annotations

from typing import final

from teucer._devices import meshes


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


thread_resources = _Resources()
