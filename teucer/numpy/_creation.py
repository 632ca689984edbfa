"""Arrays from data, filled arrays, and ranges."""

from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes, errors
from teucer._base.source import user_stacklevel
from teucer._core.high import as_array
from teucer._core.trace import EVAL, Tracer, current_trace
from teucer._core.types import ShapedArray, aval_of, is_valid_type
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._derived.moves import device_put, filled_at
from teucer._devices.meshes import AbstractMesh
from teucer._devices.shardings import explicit_sharding, single_device_sharding, typed
from teucer._dimensions.dimensions import ceil_div, is_symbolic, max_dim
from teucer._dimensions.refusals import not_a_shape
from teucer._xla.client import Device
from teucer.lax import _conversion, _joining, _shapes, _structure
from teucer.lax import _elementwise as lax
from teucer.lax._random_keys import KeyDType
from teucer.numpy._library import fast
from teucer.numpy._promotion import as_value, broadcast_to, check_arraylike, convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Shape
    from teucer._devices.specs import OutSharding

__all__ = [
    "arange", "array", "asarray", "copy", "empty", "empty_like", "full", "full_like", "ones",
    "ones_like", "zeros", "zeros_like",
]  # fmt: skip

_PYTHON = (bool, int, float, complex)


def constant(value: ArrayLike, aval: ShapedArray) -> Any:
    """A host value as an array; while a program is traced, as a constant of the program."""
    data = transfer.host_value(value, aval)
    if transfer.is_wide(aval):  # literals are NumPy's, which are narrowed
        return transfer.put(data, None, aval=aval)
    lifted = current_trace().lift(data if aval.shape else data[()], aval)
    if isinstance(lifted, Tracer):
        return lifted
    return transfer.put(data, None, aval=aval)


def place(x: Array, device: object) -> Any:
    """x on a device or sharding, if one is given."""
    return (
        x
        if device is None
        else device_put(x, single_device_sharding(device) if isinstance(device, Device) else device)
    )


def laid_out(x: Array, sharding: Any) -> Any:
    """x laid out by a sharding over Explicit mesh axes, if one is given."""
    if sharding is None:
        return x
    from teucer.lax._sharding import reshard  # for arrays over meshes

    return reshard(x, sharding)


def checked_dtype(dtype: Any, op: str) -> Any:
    """A dtype that the user asked for, at the widths in force; None stays."""
    if dtype is None:
        return None
    return dtypes.check_user_dtype_supported(dtype, op)


def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: object = None,
) -> Array:
    """An array from data: a number, nested lists or tuples, an array, or an object with __array__
    or a buffer.

    Arrays of NumPy's StringDType become arrays that lie on a CPU; no program computes with them.
    dtype: by default the data's; Python numbers alone are int32, float32 or complex64, weakly
    typed if not in a list.
    ndmin: at least so many axes. copy: whether an array is copied; its buffer is shared otherwise.
    Raises TypeError for data that are not numbers, ValueError for None and ragged lists,
    OverflowError for an integer out of range, NotImplementedError for orders other than 'K'.

    >>> array([[1, 2.5], [3, 4]])
    Array([[1. , 2.5],
           [3. , 4. ]], dtype=float32)
    """
    if args:
        if len(args) > 3:
            raise TypeError(
                f"array() takes at most 5 positional arguments but {2 + len(args)} were given"
            )
        twice = [
            name
            for name, value, default in (
                ("copy", copy, True),
                ("order", order, "K"),
                ("ndmin", ndmin, 0),
            )[: len(args)]
            if value is not default
        ]
        if twice:
            raise TypeError(f"array() got multiple values for argument {twice[0]!r}")
        warnings.warn(
            "Passing the copy, order, and ndmin arguments to jnp.array positionally is "
            "deprecated. Use keyword arguments instead.",
            DeprecationWarning,
            stacklevel=user_stacklevel(),
        )
        given = dict(zip(("copy", "order", "ndmin"), args, strict=False))
        copy, order, ndmin = (
            given.get("copy", copy),
            given.get("order", order),
            given.get("ndmin", ndmin),
        )
    if order is not None and order != "K":
        raise NotImplementedError(f"Only implemented for order='K'\n    order: {order!r}")
    if dtypes.is_string(dtype) or dtypes.is_string(getattr(object, "dtype", None)):
        where = explicit_sharding("jnp.array", out_sharding, max(ndmin, np.ndim(object))) or device
        return _of_strings(object, dtype, copy, ndmin, where)
    kind = checked_dtype(dtype, "array")
    out = _from_data(object, kind)
    if kind is not None:
        out = convert_array(out, kind)
    if copy and out is object:
        out = _conversion.copy_p.call(out)[0]
    if out.ndim < ndmin:
        out = _structure.reshape(out, (1,) * (ndmin - out.ndim) + out.shape)
    return place(laid_out(out, explicit_sharding("jnp.array", out_sharding, np.ndim(out))), device)


def _of_strings(x: object, dtype: Any, copy: bool, ndmin: int, where: object) -> Array:
    """An array of strings from one, of NumPy or on a device."""
    if not isinstance(x, ArrayImpl | np.ndarray):
        raise TypeError(
            f"Currently, string arrays can only be made from NumPy arrays. Got: {type(x)}."
        )
    if dtype is not None and (kind := dtypes.as_dtype(dtype)) != x.dtype:
        raise TypeError(
            f"Cannot make an array with dtype {kind} from an object with dtype {x.dtype}.\n"
            "  NumPy converts numbers and strings: np.asarray(x).astype(...)."
        )
    if x.ndim < ndmin:
        x = np.asarray(x).reshape((1,) * (ndmin - x.ndim) + x.shape)
    return device_put(x, where, may_alias=False if copy else None)


def convert_array(x: Any, dtype: Any) -> Any:
    """An array as another dtype, strongly typed; typed keys stay."""
    if isinstance(dtype, dtypes.ExtendedDType) or dtypes.is_extended(x.dtype):
        return _conversion.convert_element_type(x, dtype)
    dtypes.report_dropped(x.dtype, dtype)
    return _structure.convert_element_type(x.as_array() if isinstance(x, Tracer) else x, dtype)


def _from_data(x: object, dtype: DTypeLike | None) -> Any:
    """Data as an array; `dtype` is used where the data are on the host, and does not matter where
    they are not."""
    x = as_value(x)
    if isinstance(x, ArrayImpl | Tracer):
        return x.as_array() if isinstance(x, Tracer) else x
    if x is None:
        raise ValueError(
            "None is not a valid value for jnp.array\n  Use jnp.nan, or leave the element out."
        )
    if isinstance(x, list | tuple):
        return _from_sequence(x, dtype)
    if isinstance(x, _PYTHON) and not isinstance(x, np.generic):
        if dtype is None:
            return constant(x, aval_of(x))
        return _host(x, dtype)
    if isinstance(x, np.ndarray | np.generic) and (dtype is None or x.dtype == dtype):
        return _host(np.asarray(x), None, narrow=dtype)
    return _host(x, dtype if not isinstance(x, np.ndarray | np.generic) else None, narrow=dtype)


def _host(x: Any, dtype: Any, narrow: Any = None) -> Any:
    """Host data as an array, in `dtype` where Python numbers must fit it, converted to `narrow`
    where they wrap."""
    if dtype is not None and dtypes.bit_width(dtype) < 8:
        x = np.asarray(x)
        value = x.astype(dtype)
    else:
        try:
            value = np.asarray(x, dtype if not isinstance(x, str) else None)
        except (
            TypeError
        ):  # of other libraries: an array of a GPU, or of a dtype that NumPy does not have
            from teucer.numpy import _foreign_arrays  # for data of other libraries

            if not _foreign_arrays.is_foreign(x):
                raise
            return _foreign_arrays.of_other_library(x)
        if value.dtype == object:
            from teucer.numpy import _foreign_arrays  # for data of other libraries

            if _foreign_arrays.is_foreign(x):
                return _foreign_arrays.of_other_library(x)
    if narrow is not None and dtype is None:
        with np.errstate(all="ignore"):
            value = value.astype(narrow, copy=False)
    if value.dtype.kind not in "biufcV" or (
        value.dtype.kind == "V" and value.dtype not in dtypes.ALL_SET | {dtypes.float0}
    ):
        raise TypeError(
            f"Value '{x!s:.100}' with dtype {value.dtype} is not a valid JAX array type. Only "
            "arrays of numeric types are supported by JAX."
        )
    asked = dtype is not None or narrow is not None
    kind = value.dtype if asked else dtypes.canonicalize_dtype(value.dtype)
    return constant(value, ShapedArray(value.shape, kind))


def _leaves(x: Sequence[object]) -> list[Any]:
    return [
        leaf
        for item in x
        for leaf in (_leaves(item) if isinstance(item, list | tuple) else (item,))
    ]


def _from_sequence(x: Sequence[object], dtype: DTypeLike | None) -> Any:
    leaves = [as_value(leaf) for leaf in _leaves(x)]
    if any(leaf is None for leaf in leaves):
        raise ValueError(
            "None is not a valid value for jnp.array\n  Use jnp.nan, or leave the element out."
        )
    if dtype is None:
        dtype = _common_dtype(leaves)
    if any(isinstance(leaf, ArrayImpl | Tracer) for leaf in leaves):
        return _stacked(x, dtype)
    if all(isinstance(leaf, _PYTHON) for leaf in leaves):
        return _host(x, dtype)
    return _host(x, None if dtype is None else dtype)


def _common_dtype(leaves: list[Any]) -> Any:
    """The dtype of a list of numbers and arrays; None if NumPy is to decide."""
    if not leaves:
        return dtypes.canonicalize_dtype(float)
    try:
        nodes = tuple(dtypes.node_of(leaf) for leaf in leaves)
    except TypeError:
        return None
    return dtypes.promote_nodes(nodes)[0]


def _stacked(x: object, dtype: DTypeLike) -> Any:
    """Nested sequences of arrays and numbers, stacked."""
    if not isinstance(x, list | tuple):
        value = as_value(x)
        return (
            convert_array(value, dtype)
            if isinstance(value, ArrayImpl | Tracer)
            else convert(value if isinstance(value, _PYTHON) else np.asarray(value), dtype)
        )
    parts = [_stacked(item, dtype) for item in x]
    if current_trace() is EVAL:  # one operation for all
        return _joining.stack([_structure.convert_element_type(p, dtype) for p in parts])
    rows = [
        _structure.reshape(_structure.convert_element_type(p, dtype), (1, *np.shape(p)))
        for p in parts
    ]
    return _joining.concatenate(rows, 0)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """As `array`, but an array that has the dtype already is returned as it is.

    >>> asarray([1, 2, 3])
    Array([1, 2, 3], dtype=int32)
    """
    return array(
        a, dtype=dtype, copy=bool(copy), order=order, device=device, out_sharding=out_sharding
    )


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of an array."""
    check_arraylike("copy", a)
    return array(a, copy=True, order=order)


def _shape(shape: Any, op: str) -> tuple[Any, ...]:
    """The shape given to a function: one size or a sequence of sizes."""
    if isinstance(shape, str) or shape is None:
        raise not_a_shape(op, (shape,))
    sizes = (
        tuple(shape)
        if isinstance(shape, tuple | list)
        else (shape,)
        if np.ndim(shape) == 0
        else tuple(shape)
    )
    if any(isinstance(d, Tracer) for d in sizes) or isinstance(shape, Tracer):
        raise not_a_shape(op, sizes)
    return _structure.canonical_shape(sizes, op)


def _filled(
    op: str, shape: Shape, value: ArrayLike, dtype: Any, device: object, out_sharding: OutSharding
) -> Any:
    try:
        kind = checked_dtype(float if dtype is None else dtype, op)
    except TypeError as err:
        if not isinstance(shape, int) or not isinstance(dtype, int):
            raise
        raise TypeError(
            f"{err}.\n  Did you accidentally write `jax.numpy.{op}({shape}, {dtype})` when you "
            f"meant `jax.numpy.{op}(({shape}, {dtype}))`, i.e. with a single tuple argument for "
            "the shape?"
        ) from None
    sizes = _shape(shape, op)
    return filled_at(
        _filled_array(sizes, value, kind, explicit_sharding(f"jnp.{op}", out_sharding, len(sizes))),
        device,
    )


def _filled_array(
    shape: tuple[int, ...], value: Any, dtype: np.dtype[Any] | KeyDType, sharding: object = None
) -> Any:
    if dtype == dtypes.float0:
        return np.zeros(shape, dtype)  # values of this dtype are NumPy's
    if isinstance(dtype, KeyDType):
        return _shapes.full(shape, value, dtype, sharding=sharding)
    if sharding is not None:
        return _structure.full(shape, value, dtype, False, sharding)
    if not shape and isinstance(value, int | float):
        return constant(np.asarray(value, dtype), ShapedArray((), dtype))
    return _structure.full(shape, value, dtype)


def zeros(
    shape: Shape,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros of a shape, float32 by default.

    Raises TypeError if the shape is not made of integers known while tracing.

    >>> zeros((2,))
    Array([0., 0.], dtype=float32)
    """
    return _filled("zeros", shape, 0, dtype, device, out_sharding)


def ones(
    shape: Shape,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Ones of a shape, float32 by default.

    >>> ones(2, int)
    Array([1, 1], dtype=int32)
    """
    return _filled("ones", shape, 1, dtype, device, out_sharding)


def empty(
    shape: Shape,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of a shape, with arbitrary elements; here they are zero.

    >>> empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _filled("empty", shape, 0, dtype, device, out_sharding)


def full(
    shape: Any,
    fill_value: ArrayLike,
    dtype: Any = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of a value, broadcast to the shape; weakly typed if the value is and no dtype is
    given.

    >>> full((2,), 3, 'float32')
    Array([3., 3.], dtype=float32)
    """
    check_arraylike("full", fill_value)
    sizes, kind = _shape(shape, "full"), checked_dtype(dtype, "full")
    where = explicit_sharding("jnp.full", out_sharding, len(sizes))
    if where is not None and where._kind is not None and isinstance(where.mesh, AbstractMesh):
        raise ValueError(
            "jnp.full: sharding with memory_kind is not allowed. Please use `jax.device_put` to "
            f"transfer to different memory spaces. Got sharding={where}"
        )
    if np.ndim(fill_value) == 0:
        return filled_at(asarray(_shapes.full(sizes, fill_value, kind, sharding=where)), device)
    _check_fits("full", fill_value, sizes)
    return place(laid_out(broadcast_to(asarray(fill_value, kind), sizes), where), device)


def _check_fits(op: str, value: ArrayLike, shape: tuple[int, ...]) -> None:
    """Raise ValueError if a value does not broadcast to the shape to be filled."""
    own = np.shape(value)
    if len(own) > len(shape) or any(
        d not in (1, n) for d, n in zip(own[::-1], shape[::-1], strict=False)
    ):
        raise ValueError(
            f"{op}: Incompatible shapes for broadcasting: fill_value has shape {own}, the result "
            f"{shape}."
        )


def _is_description(a: Any) -> bool:
    """Whether an object only has the shape and dtype of an array, such as a reference's part."""
    if isinstance(a, type) or (is_valid_type(a) and not hasattr(type(a), "__jax_array__")):
        return False
    return isinstance(getattr(a, "shape", None), tuple) and hasattr(a, "dtype")


def _like(
    op: str,
    a: Any,
    value: ArrayLike,
    dtype: Any,
    shape: Any,
    device: object,
    out_sharding: OutSharding = None,
) -> Any:
    a = as_array(a)
    if _is_description(a):
        # a part of a reference, or a description of an array
        aval = ShapedArray(
            a.shape, dtypes.as_dtype(a.dtype), vma=getattr(a, "vma", None) or frozenset()
        )
    else:
        check_arraylike(op, a)
        aval = aval_of(a)
    sizes = aval.shape if shape is None else _shape(shape, op)
    kind = checked_dtype(dtype, op)
    weak = kind is None and aval.weak_type
    kind = aval.dtype if kind is None else kind
    where, named = explicit_sharding(f"jnp.{op}", out_sharding, len(sizes)), None
    if where is None and device is None and shape is None:
        own = _shapes.place_of_like(a, aval)
        where, device = (own, None) if typed(own, len(sizes)) is not None else (None, own)
        named = own
    if isinstance(value, _PYTHON) and (kind == dtypes.float0 or isinstance(kind, KeyDType)):
        return filled_at(_filled_array(sizes, value, kind, where), device)
    if np.ndim(value):
        _check_fits(op, value, sizes)
        out = laid_out(broadcast_to(asarray(value, kind), sizes), where)
    elif isinstance(value, _PYTHON):
        if isinstance(value, complex) and not (
            kind == np.bool_ or dtypes.issubdtype(kind, np.complexfloating)
        ):
            raise TypeError(
                f"{op}: a complex fill_value, {value}, does not fit dtype {kind.name}.\n"
                "  Take its real part."
            )
        with np.errstate(all="ignore"):
            out = _filled_array(sizes, np.asarray(value).astype(kind)[()], kind, where)
    else:
        out = _shapes.full(sizes, value, kind, sharding=where)
    out = (
        asarray(out)
        if not weak and not aval_of(out).weak_type
        else _structure.convert_element_type(out, kind, weak)
    )
    return _shapes.varying_as(_shapes.named_as(filled_at(out, device), named), aval)


def zeros_like(
    a: Any,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros of the shape and dtype of a, unless they are given.

    >>> zeros_like(ones(2, int))
    Array([0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(
    a: Any,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Ones of the shape and dtype of a, unless they are given."""
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(
    prototype: object,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    *,
    device: object = None,
) -> Array:
    """An array of the prototype's shape and dtype, with arbitrary elements; here they are zero."""
    return _like("empty_like", prototype, 0, dtype, shape, device)


def full_like(
    a: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of a value with the shape and dtype of a, unless they are given.

    >>> full_like(zeros(2, int), 3.7)
    Array([3, 3], dtype=int32)
    """
    check_arraylike("full_like", fill_value, at=1)
    return _like("full_like", a, fill_value, dtype, shape, device, out_sharding)


def _known(x: Any, what: str) -> Any:
    """A bound of a range as a number of the host."""
    if isinstance(x, Tracer):
        value = x.concrete()
        if value is None:
            raise errors.ConcretizationTypeError(
                x, f"It arose in the jnp.arange argument '{what}'."
            )
        x = value
    if isinstance(x, list | tuple):
        raise TypeError(
            f"arange requires ndarray, scalar, or None arguments, got {type(x)} as {what}."
        )
    if isinstance(x, str) or (
        not isinstance(x, _PYTHON) and np.asarray(x).dtype.kind not in "biufcV"
    ):
        raise TypeError(
            f"Value '{x!s:.100}' with dtype {np.asarray(x).dtype} is not a valid JAX array type. "
            "Only arrays of numeric types are supported by JAX."
        )
    if np.ndim(x):
        raise ValueError(f"jax.numpy.arange: arguments must be scalars; got {what}={x}")
    if isinstance(x, complex) or (not isinstance(x, _PYTHON) and np.asarray(x).dtype.kind == "c"):
        raise ValueError(
            "Passing complex start/stop/step to jnp.arange is no longer supported.\n"
            f"    {what}: {x}"
        )
    return x


def arange(
    start: object,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """start, start + step, ... below stop (above, for a negative step); from 0 if stop is not
    given.

    dtype: by default int32 if all are integers, else a float.
    Raises TypeError for values that are known only when the program runs, since they decide the
    shape, ZeroDivisionError for a step of 0.

    >>> arange(1, 2, 0.25)
    Array([1.  , 1.25, 1.5 , 1.75], dtype=float32)
    """
    if start is None:
        raise TypeError("arange: start must be a real number, not None.")
    first = "stop" if stop is None and step is None else "start"
    if any(is_symbolic(v) for v in (start, stop, step)):
        return _symbolic_range(
            start,
            stop,
            step,
            checked_dtype(dtype, "arange"),
            device if device is not None else out_sharding,
        )
    given = [
        _known(v, w) for v, w in ((start, first), (stop, "stop"), (step, "step")) if v is not None
    ]
    kind = checked_dtype(dtype, "arange")
    if kind is None:
        kind = dtypes.promote_nodes(
            tuple(dtypes.node_of(v if isinstance(v, _PYTHON) else aval_of(v)) for v in given)
        )[0]
    low, high = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    size = max(0, math.ceil((_number(high) - _number(low)) / _number(step)))
    if _number(low) == 0 and _number(step) == 1:
        out = _shapes.broadcasted_iota(kind, (size,), 0)
    else:
        by = None if _number(step) == 1 else convert(_number(step), kind)
        out = _stepped(convert(_number(low), kind), by, size, kind)
    return place(laid_out(out, explicit_sharding("jnp.arange", out_sharding, 1)), device)


def _symbolic_range(
    start: Any, stop: Any, step: Any, dtype: DTypeLike | None, device: object
) -> Any:
    """A range whose bounds are integers or symbolic dimensions."""
    low, high = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    if dtype is None:
        dtype = dtypes.promote_nodes(
            tuple(
                int if is_symbolic(v) or isinstance(v, _PYTHON) else dtypes.node_of(aval_of(v))
                for v in (low, high, step)
            )
        )[0]
    low, high, step = (
        _size_or_integer(v, name) for v, name in ((low, "start"), (high, "stop"), (step, "step"))
    )
    if not is_symbolic(step) and not step:
        raise ValueError(f"arange has step == 0.\n    start: {low}\n    stop: {high}")
    try:
        rises = step > 0
    except errors.InconclusiveDimensionOperation as err:
        raise errors.InconclusiveDimensionOperation(
            f"In arange with non-constant arguments the step ({step}) must be resolved statically "
            f"if it is > 0 or < 0.\n    {err}"
        ) from None
    size = max_dim(ceil_div(high - low, step) if rises else ceil_div(low - high, -step), 0)
    counted = _shapes.broadcasted_iota(dtype, (size,), 0)
    if type(low) is not int or low or type(step) is not int or step != 1:
        counted = lax.add(
            lax.mul(counted, _structure.full((), step, dtype)), _structure.full((), low, dtype)
        )
    return place(counted, device)


def _size_or_integer(x: ArrayLike, name: str) -> Any:
    if is_symbolic(x):
        return x
    number = _number(_known(x, name))
    if not isinstance(number, int):
        raise ValueError(
            "arange: beside a symbolic size, start, stop and step must be either dimension "
            f"expressions or integers.\n    {name}: {number}\n"
            "  For floats, scale a range of integers: jnp.arange(n) * step + start."
        )
    return number


@fast(static=("size", "dtype"))
def _stepped(low: ArrayLike, step: Any, size: int, dtype: DTypeLike) -> Any:
    counted = _shapes.broadcasted_iota(dtype, (size,), 0)
    return lax.add(low, counted if step is None else lax.mul(step, counted))


def _number(x: Any) -> Any:
    """A scalar of NumPy or Python as a Python number."""
    return operator.index(x) if isinstance(x, int | np.integer) else np.asarray(x).item()
