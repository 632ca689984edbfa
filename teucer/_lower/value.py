"""Values of the text that is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from teucer._core.typing import Aval


@final
class Value:
    """An SSA value: its name in the text, and its type."""

    __slots__ = ("name", "aval")
    aval: Any

    def __init__(self, name: str, aval: Aval) -> None:
        self.name, self.aval = name, aval

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"{self.name}: {self.aval}"
