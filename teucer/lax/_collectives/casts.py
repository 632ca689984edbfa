"""Casts and collectives of values whose type says over which manual mesh axes they vary
(`shard_map`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._core import axes as named
from teucer._core.trace import typeof
from teucer._devices import meshes
from teucer._trees import pytrees
from teucer.lax._collectives.reductions import checked
from teucer.lax._collectives.varying import cast, names_of, one_state, size_of

if TYPE_CHECKING:
    from teucer._core.typing import AxisName

__all__ = ["pcast"]


def pcast(x: object, axis_name: AxisName, *, to: str) -> Any:
    """x with a type that says otherwise how it is laid over manual mesh axes.

    x: a pytree of arrays. axis_name: a name of a manual axis, or several in a tuple. to: 'varying':
    the value may then differ from device to device along the axes. 'unreduced': values that vary
    are parts of a sum that is not taken yet. 'reduced': the value is the same everywhere, and its
    cotangent is such parts of a sum.
    Raises ValueError for another `to`, or where x is of a type from which there is no cast;
    NameError for a name that no axis has.
    """
    if to not in ("varying", "reduced", "unreduced"):
        raise ValueError(
            f"Got unexpected `to` value for `jax.lax.pcast`: {to!r}. Allowed `to` values are: "
            "'varying', 'reduced', 'unreduced'."
        )
    if not isinstance(axis_name, str | tuple):
        raise TypeError(
            f"pcast: axis_name must be a tuple or a str, got {type(axis_name)}: {axis_name!r}"
        )
    names = names_of(axis_name)
    if not named.axes_in_force() and set(names) <= set(meshes.get_abstract_mesh().axis_names):
        raise ValueError(
            f"pcast: pvary should be called under jax.shard_map, which makes {names} manual "
            f"axes.\n    mesh in force: {meshes.get_abstract_mesh()!s}"
        )
    size_of(names, "pcast")
    manual = named.manual_axes().intersection(names)

    def one(leaf: object) -> Any:
        if not manual:
            return checked("pcast", leaf)
        state = one_state("pcast", typeof(checked("pcast", leaf)), names, manual)
        if state == to:
            raise ValueError(
                f"Unsupported pcast from={state}, to={to!r}\n"
                f"    x: {typeof(leaf).str_short(short_dtypes=True)}, axes: {names}"
            )
        return cast(leaf, manual, to)

    return pytrees.tree_map(one, x)
