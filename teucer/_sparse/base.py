"""What all sparse arrays have in common."""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any, Self

from teucer._core.trace import Tracer
from teucer._derived import moves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Size, Value


class JAXSparse(abc.ABC):
    """A sparse array: buffers of what is stored, and a shape. A pytree whose leaves are the
    buffers."""

    data: Any
    shape: tuple[int, ...]
    __hash__ = None  # type: ignore[assignment]
    # NumPy's operators give way to ours.
    __array_priority__ = 100

    def __init__(self, args: Sequence[Value], *, shape: Sequence[Size]) -> None:
        self.shape = tuple(int(n) for n in shape)

    @property
    @abc.abstractmethod
    def nse(self) -> int:
        """Number of stored elements, of each batch element."""

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, the zeros included."""
        return math.prod(self.shape)

    @property
    def T(self) -> Any:
        """The array with its axes in reverse order."""
        return self.transpose()

    @abc.abstractmethod
    def tree_flatten(self) -> tuple[Any, Any]:
        """Buffers, and what else makes up the array."""

    @classmethod
    @abc.abstractmethod
    def tree_unflatten(cls, aux_data: Any, children: object) -> Self:
        """The array of buffers, which may be any objects."""

    def transpose(self, axes: Any = None) -> Any:
        """The array with its axes permuted."""
        raise NotImplementedError(f"{type(self).__name__}.transpose")

    def todense(self) -> Any:
        """The array with its zeros, as an Array."""
        raise NotImplementedError(f"{type(self).__name__}.todense")

    def sum(self, *args: Any, **kwargs: object) -> Any:
        """The sum along axes: arguments as for `jnp.sum`."""
        raise NotImplementedError(f"{type(self).__name__}.sum")

    def block_until_ready(self) -> Self:
        """Wait until the buffers are computed; the array itself."""
        for buffer in self.tree_flatten()[0]:
            moves.block_until_ready(buffer)
        return self

    if TYPE_CHECKING:  # What `operators` attaches to the classes that have it.

        def __add__(self, other: object) -> Any: ...
        def __radd__(self, other: object) -> Any: ...
        def __sub__(self, other: object) -> Any: ...
        def __rsub__(self, other: object) -> Any: ...
        def __mul__(self, other: object) -> Any: ...
        def __rmul__(self, other: object) -> Any: ...
        def __truediv__(self, other: object) -> Any: ...
        def __rtruediv__(self, other: object) -> Any: ...
        def __floordiv__(self, other: object) -> Any: ...
        def __rfloordiv__(self, other: object) -> Any: ...
        def __mod__(self, other: object) -> Any: ...
        def __rmod__(self, other: object) -> Any: ...
        def __pow__(self, other: object) -> Any: ...
        def __rpow__(self, other: object) -> Any: ...
        def __matmul__(self, other: object) -> Any: ...
        def __rmatmul__(self, other: object) -> Any: ...
        def __neg__(self) -> Any: ...
        def __pos__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __iter__(self) -> Any: ...
        def __getitem__(self, item: object) -> Any: ...
        def reshape(self, *args: Any, **kwargs: Any) -> Any: ...
        def astype(self, *args: Any, **kwargs: Any) -> Any: ...

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object: the array has no axes")
        return self.shape[0]

    def __array__(self, *args: object, **kwargs: object) -> Any:
        raise TypeError(
            f"{self!r} is not made into a dense NumPy array without being asked.\n  Use todense()."
        )

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            text = f"{self.data.dtype.name}{list(self.shape)}, nse={self.nse}{self._layout_text()}"
        except (AttributeError, IndexError, TypeError, ValueError):  # buffers may be any objects
            return f"{name}(<invalid>)"
        tracer = self._tracer_name()
        return f"{tracer}[{name}({text})]" if tracer else f"{name}({text})"

    def _layout_text(self) -> str:
        return ""

    def _tracer_name(self) -> str:
        found = [repr(x) for x in self.tree_flatten()[0] if isinstance(x, Tracer)]
        return found[0].partition("(")[0] if found else ""
