"""Collectives that are begun at one place of a program and waited for at another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._trees import pytrees
from teucer._trees.registry import register_pytree_node_class
from teucer.lax._collectives.movement import psum_scatter

if TYPE_CHECKING:
    from teucer._core.typing import AxisName, Groups

__all__ = ["psum_scatter_start"]


@register_pytree_node_class
class Future:
    """The future result of a collective that has begun; `done()` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def done(self) -> Any:
        """The array, which the program needs from here on."""
        return self._value

    def __repr__(self) -> str:
        return f"Future({self._value})"

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Its only child."""
        return (self._value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[object, ...]) -> Future:
        """The future of a child."""
        return cls(*children)


def psum_scatter_start(
    x: object,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """Begin a `psum_scatter`. For each array it gives a future, whose `done()` is the result.

    Arguments and errors are as for `psum_scatter`. XLA begins collectives as early and waits for
    them as late as it can, on platforms that do other work meanwhile; CPUs do not. So futures only
    say where the program means to wait, and have derivatives and batches as their arrays do.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: psum_scatter_start(x, "i").done(),
    ...     axis_name="i")(jnp.array([[1., 2.], [3., 4.]]))
    Array([4., 6.], dtype=float32)
    """
    result = psum_scatter(
        x,
        axis_name,
        scatter_dimension=scatter_dimension,
        axis_index_groups=axis_index_groups,
        tiled=tiled,
    )
    return pytrees.tree_map(Future, result)
