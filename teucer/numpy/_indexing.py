"""x[key] in all forms of NumPy's, as the method of arrays and tracers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, dtypes, tracebacks
from teucer._core import array_ops
from teucer._core.trace import EVAL, Tracer, current_trace
from teucer._transform.library import library
from teucer.lax import _dynamic, _joining, _structure
from teucer.numpy import _manipulation, _select, _updates
from teucer.numpy._index_keys import out_of_bounds, parse
from teucer.numpy._reading import Options

if TYPE_CHECKING:
    from teucer._core.typing import Array


_DEFAULT = Options()


@library
def _element(x: Any, place: object) -> Any:
    shape = np.shape(x)
    starts = [_structure.convert_element_type(place, np.int32), *[np.int32(0)] * (len(shape) - 1)]
    return _structure.reshape(
        _dynamic.dynamic_slice_p.call(x, *starts, slice_sizes=(1, *shape[1:]))[0], shape[1:]
    )


@tracebacks.api_boundary
def getitem(x: Any, key: Any) -> Any:
    """x[key]: places outside are moved inside.

    key: an int, slice, `...`, None (a new axis), array of integers or of booleans, or a tuple of
    these. Raises IndexError for too many indices, slices with traced bounds, and under
    jax_check_static_indices ints outside; TypeError for lists, strings and floats,
    NonConcreteBooleanIndexError for masks that are traced.

    >>> import teucer.numpy as jnp
    >>> jnp.arange(6).reshape(2, 3)[1, ::-1]
    Array([5, 4, 3], dtype=int32)
    """
    # The commonest key by the shortest way (benchmarks: eager x[0]).
    if type(key) is int and type(x) is ArrayImpl and current_trace() is EVAL:
        shape = x.aval.shape
        if shape and -shape[0] <= key < shape[0]:
            return _element(x, key + shape[0] if key < 0 else key)
    parsed = parse(key, np.shape(x))
    if not parsed.in_bounds and config.check_static_indices.value:
        raise out_of_bounds(parsed, np.shape(x))
    if (
        not parsed.operands
        and all(item == ("full",) for item in parsed.items)
        and not isinstance(x, np.ndarray)
    ):
        return x
    return _updates.get(x, parsed, _DEFAULT)


def _iterate(x: Array) -> Iterator[Any]:
    if not np.ndim(x):
        kind = "key array" if dtypes.is_extended(x.dtype) else "array"
        raise TypeError(f"iteration over a 0-d {kind}")
    own = x.aval.partition
    if own is not None and own.spec[0] is not None:  # an element lies on all devices
        x = array_ops.lay_out(x, own.with_spec(own.spec.update(partitions=(None, *own.spec[1:]))))
    # One equation while a program is traced; a program for single rows, whatever their number,
    # where none is.
    return (
        iter(_joining.unstack(x))
        if isinstance(x, Tracer)
        else (getitem(x, i) for i in range(np.shape(x)[0]))
    )


def _no_assignment(x: Array, key: object, value: Array) -> None:
    raise TypeError(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] "
        f"= y, use x = x.at[idx].set(y) or another .at[] method.\n    x: {x.aval}"
    )


def _compress(
    x: Array,
    condition: Array,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: int = 0,
) -> Any:
    """The parts along an axis where condition holds; see `compress`."""
    return _select.compress(condition, x, axis, size=size, fill_value=fill_value, out=out)


# Members that arrays and tracers get from here.
ATTACH: dict[str, Any] = {
    "__getitem__": getitem,
    "__iter__": _iterate,
    "__setitem__": _no_assignment,
    "at": _updates.at,
    "compress": _compress,
    **_manipulation.METHODS,
}
