"""Trees while they are saved or loaded, and their structure in a form that JSON can say."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from teucer._base.lazy import listing, refusing
from teucer._export.serialization import read_tree, register_pytree_node_serialization, tree_text
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Params

__all__ = [
    "PyTreeFuture", "deserialize_pytreedef", "register_pytree_node_serialization",
    "serialize_pytreedef",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

T = TypeVar("T")


class PyTreeFuture(Future[T]):
    """The outcome of a save or load in a thread; `pytree` has the shapes and dtypes."""

    def __init__(self, future: Future[T]) -> None:
        super().__init__()
        self._future = future
        self.pytree: Any = None

    def done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def result(self, *args: Any, **kw: Any) -> T:
        """Wait for it: the arrays of a load. Raises its exception."""
        return self._future.result(*args, **kw)

    def exception(self, *args: Any, **kw: Any) -> BaseException | None:
        """Wait for it: its exception, or None."""
        return self._future.exception(*args, **kw)

    def cancel(self) -> bool:
        """Have it not begin, if it has not yet; whether that succeeded."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether it was kept from beginning."""
        return self._future.cancelled()

    def running(self) -> bool:
        """Whether it has begun and not ended."""
        return self._future.running()

    def add_done_callback(self, fn: Any) -> None:
        """Have `fn(future)` called when it has ended."""
        self._future.add_done_callback(lambda _: fn(self))

    def __repr__(self) -> str:
        return f"PyTreeFuture(done={self.done()}, pytree={self.pytree})"


def serialize_pytreedef(node: object) -> dict[str, Any]:
    """The structure of a tree, as JSON can say it.

    node: a PyTreeDef.
    Raises ValueError for classes of nodes that are not registered
    (`register_pytree_node_serialization`).

    >>> import teucer as jax
    >>> deserialize_pytreedef(serialize_pytreedef(jax.tree.structure([1, {"a": 2}])))
    PyTreeDef([*, {'a': *}])
    """
    return {"structure": tree_text(node)}


def deserialize_pytreedef(pytreedef_repr: Params) -> Any:
    """The structure that `serialize_pytreedef` wrote: a PyTreeDef.

    Raises ValueError for classes of nodes that are not registered in this process.
    """
    return pytrees.tree_structure(
        pytrees.tree_unflatten(*_numbered(read_tree(pytreedef_repr["structure"])))
    )


def _numbered(structure: Any) -> tuple[Any, range]:
    return structure, range(structure.num_leaves)
