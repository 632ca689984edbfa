"""Arguments of samplers: shapes, dtypes, parameters spread over the shape of the sample."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes, errors
from teucer._core.trace import typeof
from teucer._core.types import is_valid_type
from teucer._derived.moves import device_put
from teucer._devices.shardings import NamedSharding, explicit_sharding
from teucer._devices.specs import PartitionSpec
from teucer.lax import _structure
from teucer.lax._shapes import broadcast_shapes

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike
    from teucer._devices.specs import OutSharding


def as_shape(op: str, shape: Any) -> tuple[Any, ...]:
    """A shape, or the size of one axis, as a tuple.

    Raises TypeError if it is neither, ValueError for a negative size.
    """
    with contextlib.suppress(TypeError):
        shape = (operator.index(shape),)
    if shape is None:
        raise TypeError(f"{op}: shape must be an integer or a sequence of integers, got None.")
    return _structure.canonical_shape(shape, op)


def float_dtype(op: str, dtype: Any, *, allow_complex: bool = False) -> Any:
    """The dtype of a sample of reals, by default float32 or, with 64-bit types on, float64.

    Raises ValueError for a dtype of another kind.
    """
    wanted = dtypes.check_user_dtype_supported(float if dtype is None else dtype, op)
    kind = np.inexact if allow_complex else np.floating
    if not dtypes.issubdtype(wanted, kind):
        what = "float or complex dtype" if allow_complex else "float dtype"
        raise ValueError(f"dtype argument to `{op}` must be a {what}, got {wanted.name}")
    return wanted


def int_dtype(op: str, dtype: Any) -> Any:
    """The dtype of a sample of integers, by default int32 or, with 64-bit types on, int64.

    Raises ValueError for a dtype of another kind.
    """
    wanted = dtypes.check_user_dtype_supported(int if dtype is None else dtype, op)
    if not dtypes.issubdtype(wanted, np.integer):
        raise ValueError(f"dtype argument to `{op}` must be an int dtype, got {wanted.name}")
    return wanted


def parameter(op: str, x: Any, position: int, *, keys: bool = False) -> Any:
    """Raises TypeError unless x is an array or a number, or, with keys, an array of keys; returns
    it."""
    if not is_valid_type(x):
        raise TypeError(
            f"{op} requires ndarray or scalar arguments, got {type(x)} at position {position}."
        )
    if not keys and dtypes.is_extended(typeof(x).dtype):
        raise TypeError(f"{op} requires numbers at position {position}, got {typeof(x)}.")
    return x


def broadcast_shape(op: str, shape: Any, *parameters: Any) -> tuple[Any, ...]:
    """The shape of a sample: the given one, to which the parameters must broadcast, or the common
    shape of the parameters.

    Raises ValueError if they do not agree, or a parameter is complex.
    """
    avals = [typeof(parameter(op, x, i)) for i, x in enumerate(parameters)]
    for aval in avals:
        if dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise errors.TypePromotionError(
                f"In arguments to {op}, cannot safely cast argument of type {aval.dtype} to a real "
                "dtype.\n  Take its real part."
            )
    return agreed_shape(op, shape, [aval.shape for aval in avals])


def agreed_shape(op: str, shape: Any, shapes: Sequence[tuple[object, ...]]) -> tuple[Any, ...]:
    """The shape of a sample: the given one, with which the shapes of the parameters must agree, or
    theirs together.

    Raises ValueError if they do not agree.
    """
    wanted = None if shape is None else as_shape(op, shape)
    try:
        found = broadcast_shapes(*shapes) if wanted is None else broadcast_shapes(wanted, *shapes)
    except ValueError:
        found = None
    if found is None:
        listed = [*shapes] if wanted is None else [wanted, *shapes]
        raise ValueError(
            f"Incompatible shapes for broadcasting: shapes={listed}\n"
            f"  {op}: the parameters must agree with one another and with shape."
        )
    if wanted is not None and found != wanted:
        raise ValueError(
            f"{op} parameter shapes must be broadcast-compatible with shape argument, and the "
            "result of broadcasting the shapes must equal the shape argument, but got result "
            f"{found} for shape argument {wanted}."
        )
    return found


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """An array broadcast to a shape as NumPy does."""
    ndim = np.ndim(x)
    return _structure.broadcast_to(x, shape, range(len(shape) - ndim, len(shape)))


def aligned(x: ArrayLike, ndim: int) -> Any:
    """An array with axes of size 1 in front, unless it is a scalar."""
    shape = np.shape(x)
    return _structure.reshape(x, (*(1,) * (ndim - len(shape)), *shape)) if shape else x


def cast(x: Any, dtype: Any) -> Any:
    """An array or number as another dtype, complex numbers by their real part."""
    return _structure.convert_element_type(x, dtype)


scalar = _structure.number


def place(x: ArrayLike, out_sharding: OutSharding) -> Any:
    """A sample where `out_sharding` says, or where it is for None."""
    if out_sharding is None:
        return x
    if not isinstance(out_sharding, PartitionSpec | NamedSharding):
        return device_put(x, out_sharding)
    where = explicit_sharding("jax.random", out_sharding, typeof(x).ndim)
    if where is None:
        return x
    from teucer.lax._sharding import reshard  # for arrays over meshes

    return reshard(x, where)


def exact_only(name: str, method: str) -> None:
    """Check the method of a sampler.

    Raises ValueError for one that JAX does not know, NotImplementedError for its approximate one.
    """
    if method == "approximate":
        raise NotImplementedError(
            f"random.{name}: method='approximate' is not supported: its samples would have other "
            "bits than JAX's.\n  Use method='exact', the default."
        )
    if method != "exact":
        raise ValueError(
            f"method argument to `{name}` must be one of {{'exact', 'approximate'}}, got {method!r}"
        )
