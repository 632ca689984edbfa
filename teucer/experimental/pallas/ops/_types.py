"""Types of what kernels take, for annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike


class _Parts(Protocol):
    def __getitem__(self, key: object) -> BlockRef: ...


class BlockRef(Protocol):
    """A reference to a block of an array, or to a part of it: `ref[...]`, `ref[...] = x`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def at(self) -> _Parts: ...

    def __getitem__(self, key: object) -> Array: ...

    def __setitem__(self, key: object, value: ArrayLike) -> None: ...
