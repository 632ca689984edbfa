"""The base class of sparse arrays."""

from __future__ import annotations

import abc
import math
import operator
from typing import TYPE_CHECKING, Any, ClassVar, Self

from teucer._core.trace import Tracer
from teucer._derived import moves
from teucer._sparse.util import SparseInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Array, Axes, DTypeLike, Size, Value


class JAXSparse(abc.ABC):
    """A sparse array: buffers of stored elements and indices, and a shape. A pytree whose leaves
    are the buffers."""

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
        """The number of stored elements of each batch element."""

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

    if TYPE_CHECKING:  # The members that `operators` attaches to the classes.

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


class Stored(JAXSparse):
    """A sparse array that consists of buffers and of properties.

    _buffers: the names of the buffers. _known: properties beside the shape: argument's name ->
    attribute's name.
    """

    _buffers: ClassVar[tuple[str, ...]]
    _known: ClassVar[dict[str, str]] = {}
    if TYPE_CHECKING:

        @property
        def _bufs(self) -> tuple[Any, ...]: ...

    def __init_subclass__(cls) -> None:
        if "_buffers" in vars(cls):
            cls._bufs = property(operator.attrgetter(*cls._buffers))  # type: ignore[assignment]

    def tree_flatten(self) -> tuple[Any, Any]:
        """The buffers, and what else makes up the array."""
        known = {name: getattr(self, place) for name, place in self._known.items()}
        return self._bufs, {"shape": self.shape, **known}

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Self:
        """The array of buffers, which may be any objects."""
        self = object.__new__(cls)
        for name, child in zip(cls._buffers, children, strict=True):
            setattr(self, name, child)
        if aux_data.keys() != {"shape", *cls._known}:
            raise ValueError(f"{cls.__name__}.tree_unflatten: invalid aux_data={aux_data!r}.")
        self.shape = aux_data["shape"]
        for name, place in cls._known.items():
            setattr(self, place, aux_data[name])
        return self


class Batched(Stored):
    """A sparse array with batch, sparse and dense dimensions."""

    _known: ClassVar[dict[str, str]] = {
        "indices_sorted": "indices_sorted",
        "unique_indices": "unique_indices",
    }
    indices: Any
    indices_sorted: bool
    unique_indices: bool
    if TYPE_CHECKING:  # Members that `methods` attaches, and members that the formats define.

        @property
        def n_batch(self) -> int: ...
        def _layout(self) -> object: ...
        def todense(self) -> Array: ...
        def transpose(self, axes: Axes | None = ...) -> Self: ...
        def sum_duplicates(self, nse: int | None = ..., remove_zeros: bool = ...) -> Self: ...
        @classmethod
        def fromdense(
            cls,
            mat: object,
            *,
            nse: int | None = ...,
            index_dtype: DTypeLike = ...,
            n_dense: int = ...,
            n_batch: int = ...,
        ) -> Self: ...
        @classmethod
        def from_scipy_sparse(
            cls,
            mat: Any,
            *,
            index_dtype: DTypeLike | None = ...,
            n_dense: int = ...,
            n_batch: int = ...,
        ) -> Self: ...

    @property
    def n_dense(self) -> int:
        """Number of dense dimensions."""
        n: int = self.data.ndim - 1 - self.n_batch
        return n

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def _layout_text(self) -> str:
        self._layout()
        numbers = (("n_batch", self.n_batch), ("n_dense", self.n_dense))
        return "".join(f", {name}={n}" for name, n in numbers if n)
