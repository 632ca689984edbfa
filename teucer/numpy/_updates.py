"""x.at[key]: arrays with some elements changed, and reads with a choice of values for places
outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._advice.guarding import guarded_class
from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, dtypes
from teucer._base.source import warn
from teucer._core.trace import EVAL, current_trace, typeof
from teucer._core.types import is_valid_type
from teucer._transform.library import library
from teucer.lax._indexing.numbers import GatherScatterMode
from teucer.numpy import _ufuncs
from teucer.numpy._creation import ones_like
from teucer.numpy._index_keys import Key, out_of_bounds, parse
from teucer.numpy._promotion import as_value
from teucer.numpy._reading import Options, read
from teucer.numpy._writing import write

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Value
    from teucer._devices.specs import OutSharding


@library(static=("plan", "options"))
def _read(plan: Key, options: Options, x: ArrayLike, *operands: Value) -> Any:
    return read(x, plan._replace(operands=operands), options)


@library(static=("operation", "plan", "options"))
def _write(operation: str, plan: Key, options: Options, x: Any, value: Any, *operands: Any) -> Any:
    return write(operation, x, value, plan._replace(operands=operands), options)


def get(x: Any, key: Key, options: Options) -> Any:
    """x[key] with options: one program for all places where nothing is traced."""
    if current_trace() is EVAL:
        return _read(key.plan, options, x, *key.operands)
    return read(x, _as_data(key), options)


def _as_data(key: Key) -> Key:
    """Where each operation is run at once, places are operands, so that its program serves all
    places."""
    if current_trace().staging():
        return key
    return key._replace(operands=tuple(np.int32(p) if type(p) is int else p for p in key.operands))


@guarded_class
@final
class At:
    """x.at, to be indexed: x.at[key] is a place, whose methods return changed copies of x."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, key: object) -> Place:
        return Place(self.array, key)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


@guarded_class
@final
class Place:
    """x.at[index]: the elements x[index] of x, to be read or changed in a copy.

    All methods take these options. mode: the treatment of places outside: "drop" or "fill" (the
    default: changes to them are dropped), "clip", "promise_in_bounds". indices_are_sorted,
    unique_indices: promises about index arrays. wrap_negative_indices: whether negative places
    count from the end. Changes keep the dtype of x.

    >>> import teucer.numpy as jnp
    >>> jnp.arange(3).at[1].set(7).tolist()
    [0, 7, 2]
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x[key]; places outside give fill_value with mode "fill": by default NaN, or the least
        signed or greatest unsigned integer.

        >>> import teucer.numpy as jnp
        >>> jnp.arange(3).at[5].get(mode="fill", fill_value=-1).tolist()
        -1
        """
        if out_sharding is not None:
            return self._laid_out(
                out_sharding,
                "get",
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                fill_value=fill_value,
                wrap_negative_indices=wrap_negative_indices,
            )
        fill = None if fill_value is None else fill_scalar(fill_value, self.array)
        options = Options(
            _mode(mode),
            fill,
            bool(indices_are_sorted),
            bool(unique_indices),
            bool(wrap_negative_indices),
        )
        key = parse(self.index, np.shape(self.array), wrap=wrap_negative_indices)
        if not key.in_bounds and config.check_static_indices.value and options.mode in _UNCHECKED:
            raise out_of_bounds(key, np.shape(self.array))
        return get(self.array, key, options)

    def set(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with x[key] replaced by values. Of several for one element, any one may win.

        >>> import teucer.numpy as jnp
        >>> jnp.zeros(3).at[jnp.array([0, 2])].set(jnp.array([1., 2.])).tolist()
        [1.0, 0.0, 2.0]
        """
        if out_sharding is not None:
            return self._laid_out(
                out_sharding,
                "set",
                values,
                indices_are_sorted=indices_are_sorted,
                mode=mode,
                unique_indices=unique_indices,
                wrap_negative_indices=wrap_negative_indices,
            )
        return self._update(
            "set", values, mode, indices_are_sorted, unique_indices, wrap_negative_indices
        )

    def apply(
        self,
        func: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with an elementwise function applied to x[key]; again for each time that an element is
        named.

        >>> import teucer.numpy as jnp
        >>> jnp.arange(3).at[jnp.array([2, 2])].apply(lambda x: 10 * x).tolist()
        [0, 1, 200]
        """
        if out_sharding is not None:
            return self._laid_out(
                out_sharding,
                "apply",
                func,
                indices_are_sorted=indices_are_sorted,
                mode=mode,
                unique_indices=unique_indices,
                wrap_negative_indices=wrap_negative_indices,
            )
        options = Options(
            _mode(mode), None, indices_are_sorted, unique_indices, wrap_negative_indices
        )
        key = parse(self.index, np.shape(self.array), wrap=wrap_negative_indices)
        return write(func, self.array, None, _as_data(key), options)

    def divide(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with x[key] divided by values, as floats.

        >>> import teucer.numpy as jnp
        >>> jnp.ones(3).at[1].divide(2).tolist()
        [1.0, 0.5, 1.0]
        """
        if out_sharding is not None:
            return self._laid_out(
                out_sharding,
                "divide",
                values,
                indices_are_sorted=indices_are_sorted,
                mode=mode,
                unique_indices=unique_indices,
                wrap_negative_indices=wrap_negative_indices,
            )
        return _ufuncs.divide(
            self.array,
            self._factors(values, mode, indices_are_sorted, unique_indices, wrap_negative_indices),
        )

    def power(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with x[key] raised to powers.

        >>> import teucer.numpy as jnp
        >>> jnp.arange(3).at[2].power(3).tolist()
        [0, 1, 8]
        """
        if out_sharding is not None:
            return self._laid_out(
                out_sharding,
                "power",
                values,
                indices_are_sorted=indices_are_sorted,
                mode=mode,
                unique_indices=unique_indices,
                wrap_negative_indices=wrap_negative_indices,
            )
        return self.array ** self._factors(
            values, mode, indices_are_sorted, unique_indices, wrap_negative_indices
        )

    def _laid_out(self, out_sharding: Any, method: str, *args: Any, **options: object) -> Any:
        """The result of a method, laid out by a sharding."""
        from teucer.lax._sharding import laid_out  # for arrays over meshes

        return laid_out(
            f".{method}",
            out_sharding,
            lambda x, key, args: getattr(Place(x, key), method)(*args, **options),
            self.array,
            self.index,
            args,
        )

    def _factors(self, values: Any, *options: Any) -> Any:
        """For each element of the array the product of the values that belong to it, or 1."""
        return Place(ones_like(self.array), self.index)._update("multiply", values, *options)

    def _update(
        self,
        operation: str,
        values: Any,
        mode: Any,
        indices_are_sorted: bool,
        unique_indices: bool,
        wrap: bool,
    ) -> Any:
        x = self.array
        value = values if type(values) in _PLAIN else _as_array(values, operation)
        if (
            type(value) is int
            and value > _INT32_MAX
            and dtypes.issubdtype(x.dtype, np.unsignedinteger)
        ):
            value = np.asarray(value, x.dtype)  # it does not fit into int32, but into x
        if type(value) is bool and not isinstance(x.dtype, dtypes.ExtendedDType):
            value = np.asarray(value, x.dtype)  # a number of any dtype, however dtypes promote
        check_cast(x, value)
        options = _DEFAULT
        if mode is not None or indices_are_sorted or unique_indices or not wrap:
            options = Options(
                _mode(mode), None, bool(indices_are_sorted), bool(unique_indices), bool(wrap)
            )
        key = parse(self.index, np.shape(x), wrap=wrap)
        if current_trace() is EVAL:
            return _write(operation, key.plan, options, x, value, *key.operands)
        return write(operation, x, value, _as_data(key), options)


_DEFAULT = Options()
# Modes that do not decide about places outside.
_UNCHECKED = (None, GatherScatterMode.PROMISE_IN_BOUNDS)
_PLAIN = frozenset({int, float, bool, complex, ArrayImpl, np.ndarray})


def _method(operation: str, doc: str) -> Any:
    def method(
        self: Place,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        if out_sharding is not None:
            return self._laid_out(
                out_sharding,
                operation,
                values,
                indices_are_sorted=indices_are_sorted,
                mode=mode,
                unique_indices=unique_indices,
                wrap_negative_indices=wrap_negative_indices,
            )
        return self._update(
            operation, values, mode, indices_are_sorted, unique_indices, wrap_negative_indices
        )

    method.__doc__ = doc
    return method


def _add_methods() -> None:
    for names, doc in (
        (
            ("add",),
            "x with values added to x[key], all of them where an element is named several times.",
        ),
        (("subtract",), "x with values subtracted from x[key]."),
        (("multiply", "mul"), "x with x[key] multiplied by values."),
        (("min",), "x with the lesser of x[key] and values."),
        (("max",), "x with the greater of x[key] and values."),
    ):
        method = _method(names[0], doc)
        method.__name__, method.__qualname__ = names[0], f"Place.{names[0]}"
        for name in names:
            setattr(Place, name, method)


_add_methods()


def _mode(mode: Any) -> GatherScatterMode | None:
    return None if mode is None else GatherScatterMode.from_any(mode)


def fill_scalar(value: ArrayLike, x: Any) -> Any:
    """A fill value as a hashable scalar of the dtype of x."""
    dtype = typeof(x).dtype
    return value if isinstance(dtype, dtypes.ExtendedDType) else np.asarray(value).astype(dtype)[()]


def _as_array(values: Any, operation: str) -> Any:
    """Values given as a list become an array."""
    values = as_value(values)
    if is_valid_type(values):
        return values
    if values is None:
        raise ValueError(f".at[].{operation}: None is not a valid value.")
    value = np.asarray(values)
    if value.dtype.kind not in "biufcV":
        raise TypeError(
            f"Value '{values!s:.100}' with dtype {value.dtype} is not a valid JAX array type. "
            "Only arrays of numeric types are supported by JAX."
        )
    return (
        value.astype(
            dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[type(value.flat[0].item())])
        )
        if value.size and value.dtype.itemsize == 8
        else value
    )


_INT32_MAX = np.iinfo(np.int32).max
_safe: set[Any] = set()


# Python's numbers, by the kinds of weakly typed arrays.
_NUMBERS = {"b": bool, "i": int, "f": float, "c": complex}


def check_cast(x: Any, value: Any) -> None:
    """Warn if values do not fit into the dtype of x."""
    kind = type(value)
    if kind is np.ndarray:
        dtype = dtypes.canonicalize_dtype(value.dtype)
    else:
        dtype = kind if kind in _NUMBERS.values() else value.dtype
        if kind is not dtype and typeof(value).weak_type:
            dtype = _NUMBERS[dtype.kind]
    key = (x.dtype, dtype, config.numpy_dtype_promotion.value)
    if key in _safe:
        return
    if isinstance(x.dtype, dtypes.ExtendedDType) or dtypes.promote_types(x.dtype, dtype) == x.dtype:
        _safe.add(key)
        return
    if dtypes.result_type(x, value) == x.dtype:
        return
    warn(
        "scatter inputs have incompatible types: cannot safely cast value from "
        f"dtype={dtypes.dtype(value)} to dtype={x.dtype} with "
        f"jax_numpy_dtype_promotion={config.numpy_dtype_promotion.value}. In future JAX releases "
        "this will result in an error.",
        FutureWarning,
    )
    dtypes.report_dropped(dtypes.dtype(value), x.dtype)


at = property(
    At,
    doc="""To change elements: x.at[key].set(y), add, subtract, multiply, divide, power, min,
max, apply, get.""",
)
