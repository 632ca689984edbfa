"""The array type: C++'s, with the members that do not compute.

The libraries attach the operators (`numpy`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from teucer._arrays import formats
from teucer._arrays.reading import raise_ended, replace_buffers, wait, was_ended
from teucer._base import dtypes
from teucer._base.errors import ambiguous
from teucer._core.provided import provided
from teucer._core.types import KeyCarrier, ShapedArray, aval_of, register_aval_of
from teucer._devices import backends, processes, shardings
from teucer._devices.specs import AS_IN_0_12
from teucer._xla import arrays as xla
from teucer._xla.client import Device, XlaRuntimeError, platform_of

if TYPE_CHECKING:
    from teucer._base.dtypes import ExtendedDType
    from teucer._core.typing import DTypeLike, HostArray, Value


Array = xla.Array
ArrayImpl = xla.ArrayImpl


_Number = TypeVar("_Number", int, float, complex)

# The type that C++ holds: for keys a stand-in (KeyCarrier), which nothing else sees.
ArrayImpl._carried = ArrayImpl.__dict__.get("_carried", ArrayImpl.aval)


# `aval_of` itself knows this class, the most frequent one; registered so that it counts as a value.
register_aval_of(ArrayImpl, aval_of)


# DLPack's numbers of kinds of devices.
DLPACK_KINDS = {"cpu": 1, "cuda": 2, "rocm": 10}


@final
class Shard:
    """One device's part of an array: where it is, which part (`index`), which copy of that part,
    and the values."""

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(
        self, device: object, index: tuple[slice, ...], replica_id: int, data: Value
    ) -> None:
        self.device, self.index, self.replica_id, self.data = device, index, replica_id, data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


def to_numpy(x: ArrayImpl) -> np.ndarray[Any, Any]:
    """The values of an array on the host, read-only; waits for them, and raises what their
    computation raised."""
    x_ = check_live(x)
    if type(x_._carried) is KeyCarrier:
        raise TypeError(
            "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use "
            "jax.random.key_data(arr) if you wish to extract the underlying integer array.\n"
            f"    x: {x_.aval.str_short()}"
        )
    if x_._npy_value is not None:
        pass
    elif processes.state.client is not None and not x_._sharding.is_fully_addressable:
        x_._npy_value = _elsewhere(x_)
    elif x_._sharding.is_fully_replicated:
        # Among copies on several devices the first is read.
        value, in_place = _read(xla.one_copy(x_))
        value.flags.writeable = False
        if in_place:
            return value
        x_._npy_value = value
    else:
        x_._npy_value = _gather(x_)
    return x_._npy_value  # type: ignore[no-any-return]


def _elsewhere(x: ArrayImpl) -> np.ndarray[Any, Any]:
    """The values of an array that several processes hold, if this process holds all of them."""
    sharding = x._sharding
    whole = sharding.is_fully_replicated and not sharding._sums()
    copies = len(sharding._internal_device_list.addressable_device_list) if whole else 0
    if not copies and not _is_legible(x):
        raise RuntimeError(
            "Fetching value for `jax.Array` that spans non-addressable (non process local) "
            f"devices is not possible.\n    x: {x.aval.str_short()}, sharding {x.sharding}\n"
            "  Read the parts that this process has, x.addressable_shards, or gather all with "
            "jax.experimental.multihost_utils.process_allgather(x, tiled=True)."
        )
    try:
        if copies:
            value = np.array(_read(x if copies == 1 else xla.one_copy(x))[0])
            value.flags.writeable = False
            return value
        return _joined(x, {repr(shard.index): shard for shard in x.addressable_shards}.values())
    except XlaRuntimeError as err:
        raise processes.explained(err) from err


def _read(x: ArrayImpl) -> tuple[np.ndarray[Any, Any], bool]:
    """The values of an array on one device, and whether they are the device's own."""
    wait(x)
    try:
        return np.asarray(
            memoryview(x)
        ), True  # on CPU, in NumPy's dtypes; the way below looks for the package jax first
    except (BufferError, SystemError):  # of Python 3.11 (`reading`)
        value, did_copy = x._single_device_array_to_np_array_did_copy()
        return value, not did_copy


def _gather(x: ArrayImpl) -> np.ndarray[Any, Any]:
    if x._sharding._sums():
        raise ValueError(
            "the value of an array whose parts are still to be summed is on no device.\n"
            f"    x: {x.aval.str_short()}, sharding {x.sharding}\n"
            f"  Sum them first: jax.reshard(x, jax.P())."
        )
    return _joined(x, [shard for shard in x.addressable_shards if shard.replica_id == 0])


def _joined(x: ArrayImpl, shards: Iterable[Shard]) -> np.ndarray[Any, Any]:
    """The values of an array, from all of its parts."""
    out = np.empty(x.shape, x.dtype)
    for shard in shards:
        if out.size:  # XLA does not divide an array without elements, whatever its sharding says
            data: Any = shard.data
            value = to_numpy(data)
            # Keys of other generators have axes of size 1 behind, by which they are told apart.
            out[shard.index] = (
                value if value.ndim == out.ndim else value.reshape(out[shard.index].shape)
            )
    out.flags.writeable = False
    return out


def check_live(x: ArrayImpl) -> Any:
    """The array, if its buffer is there; else a RuntimeError."""
    if x.is_deleted():
        raise RuntimeError(
            f"Array has been deleted with shape={x.dtype}[{','.join(map(str, x.shape))}].\n"
            "  It was deleted by x.delete() or donated to a jitted function (donate_argnums), "
            "which may write its result over it."
        )
    return x


_MEMBERS: dict[str, Any] = {}


def _member(f: Callable[..., object]) -> Callable[..., Any]:
    _MEMBERS[f.__name__] = f
    return f


def _property(f: Callable[..., object]) -> Callable[..., Any]:
    _MEMBERS[f.__name__] = property(f)
    return f


def _checked(name: str, doc: str) -> Callable[..., Any]:
    """A method of C++ that does not look whether the buffer is there."""
    method = getattr(ArrayImpl, name)

    def checked(x: ArrayImpl) -> Any:
        return method(check_live(x))

    checked.__name__, checked.__doc__ = name, doc
    return checked


_MEMBERS.update(
    {
        name: _checked(name, doc)
        for name, doc in {
            "clone": "The same buffer as another array.",
            "is_ready": (
                "Whether the values have been computed, so that reading them does not wait."
            ),
            "platform": "The name of the platform of the array's devices.",
        }.items()
    }
)
_MEMBERS["aval"] = property(aval_of, doc="The array's type.")


@_property
def _value(x: ArrayImpl) -> np.ndarray[Any, Any]:
    """The values on the host; jaxlib from 0.11 on asks for them by this name."""
    return to_numpy(x)


@_property
def shape(x: ArrayImpl) -> tuple[int, ...]:
    """Sizes of the axes."""
    aval = x._carried
    return aval.shape if type(aval) is ShapedArray else aval.logical.shape


@_property
def dtype(x: ArrayImpl) -> Any:
    """Type of the elements."""
    aval = x._carried
    return aval.dtype if type(aval) is ShapedArray else aval.logical.dtype


@_property
def ndim(x: ArrayImpl) -> int:
    """Number of axes."""
    return len(x.aval.shape)


@_property
def size(x: ArrayImpl) -> int:
    """Number of elements."""
    return math.prod(x.aval.shape)


@_property
def weak_type(x: ArrayImpl) -> bool:
    """Whether the dtype gives way in promotion, as that of Python scalars."""
    return x.aval.weak_type  # type: ignore[no-any-return]


@_property
def itemsize(x: ArrayImpl) -> int:
    """Bytes an element."""
    return x.dtype.itemsize  # type: ignore[no-any-return]


@_property
def nbytes(x: ArrayImpl) -> int:
    """Bytes of all elements."""
    elements: int = math.prod(x.aval.shape)
    return elements * int(x.dtype.itemsize)


@_property
def sharding(x: ArrayImpl) -> Any:
    """How the array is laid over devices."""
    return x._sharding


def _format(x: ArrayImpl) -> formats.Format:
    check_live(x)
    if dtypes.is_string(x.dtype):  # the runtime does not say how strings lie in memory
        return formats.Format(None, x._sharding)
    return formats.Format(formats.Layout.from_pjrt_layout(x._pjrt_layout), x._sharding)


_MEMBERS["format"] = property(_format, doc="How the array lies in memory, and over devices.")


@_property
def committed(x: ArrayImpl) -> bool:
    """Whether the array was put on its devices explicitly, so that computation follows it."""
    return x._committed  # type: ignore[no-any-return]


@_property
def device(x: ArrayImpl) -> Any:
    """The device of an array on one device; else its sharding."""
    devices_ = x._sharding.device_set
    return next(iter(devices_)) if len(devices_) == 1 else x._sharding


@_member
def devices(x: ArrayImpl) -> set[Any]:
    """The devices that hold a part of the array."""
    found: set[Any] = x._sharding.device_set
    return set(found)


@_property
def is_fully_replicated(x: ArrayImpl) -> bool:
    """Whether every device holds the whole array."""
    return bool(x._sharding.is_fully_replicated)


@_property
def is_fully_addressable(x: ArrayImpl) -> bool:
    """Whether this process holds all of the array."""
    return bool(x._sharding.is_fully_addressable)


@_property
def global_shards(x: ArrayImpl) -> list[Shard]:
    """All parts of the array; `data` is None for those of other processes."""
    local = {s.device: s for s in x.addressable_shards}
    return [local.get(d, Shard(d, index, replica, None)) for d, index, replica in _placed_parts(x)]


@_property
def addressable_shards(x: ArrayImpl) -> list[Shard]:
    """The parts of the array that this process holds."""
    check_live(x)
    if x._sharding.num_devices == 1:
        (device,) = x._sharding._internal_device_list
        here = device.process_index == device.client.process_index()
        return [Shard(device, (slice(None),) * x.ndim, 0, x)] if here else []
    parts = iter(xla.shard_arrays(x))
    aval = x.aval.update(shape=x._sharding.shard_shape(x.shape), sharding=None)
    kind = x._sharding._memory_kind
    return [
        Shard(d, index, replica, _part(next(parts), aval, d, kind))
        for d, index, replica in _placed_parts(x)
        if d.process_index == d.client.process_index()
    ]


def _placed_parts(x: ArrayImpl) -> list[tuple[Any, tuple[slice, ...], int]]:
    """For each device: which part of the array it holds, and which copy of that part."""
    copies: dict[str, int] = {}
    placed = []
    for d, index in x._sharding.devices_indices_map(x.shape).items():
        key = repr(index)  # slices are not hashable
        copies[key] = copies.get(key, -1) + 1
        placed.append((d, index, copies[key]))
    return placed


def retyped(x: ArrayImpl, carrier: ShapedArray | KeyCarrier) -> Any:
    """The buffers of x as an array of another type, committed to their devices if x is."""
    if x._committed:
        return x._rewrap_with_aval_and_sharding(carrier, x._sharding)
    return xla.assemble(carrier, x._sharding, [x], committed=False)  # on one device


def _part(part: ArrayImpl, aval: ShapedArray, device: Device, memory_kind: str | None) -> Any:
    """One device's buffer, in a memory of it, as an array of its own."""
    return part._rewrap_with_aval_and_sharding(
        aval.carrier, shardings.SingleDeviceSharding(device, memory_kind)
    )


@_member
def _check_if_deleted(x: ArrayImpl) -> None:
    """Raise RuntimeError if the buffer is gone. Libraries call this."""
    check_live(x)


@_member
def addressable_data(x: ArrayImpl, index: int) -> Any:
    """The values of the index-th part that this process holds."""
    shards = x.addressable_shards
    if not shards:
        raise RuntimeError(
            "FullyReplicatedShard: Array has no addressable shards.\n"
            f"    x: {x.aval.str_short()}, on devices of other processes: {x.sharding}"
        )
    return shards[index].data


@_member
def copy_to_host_async(x: ArrayImpl) -> None:
    """Start copying the values to the host, so that reading them later waits less."""
    check_live(x)
    # In its memory there is nothing to copy, and jaxlib would look for the package jax first.
    if x._npy_value is not None or provided.target(x.platform()).in_host_memory:
        return
    if x._sharding.num_devices == 1:
        x._copy_single_device_array_to_host_async()
        return
    for shard in x.addressable_shards:
        if shard.replica_id == 0:
            shard.data.copy_to_host_async()


@_member
def __array__(
    x: ArrayImpl, dtype: DTypeLike | None = None, context: object = None, copy: bool | None = None
) -> Any:
    raise_ended(x)
    value = to_numpy(x)
    if dtype is not None and np.dtype(dtype) != value.dtype:
        return np.array(value, dtype=dtype)
    return value.copy() if copy else value


@_member
def item(x: ArrayImpl, *args: int) -> Any:
    """An element as a Python scalar; of an array of one element, that one.

    Raises ValueError if there are several elements and no index is given.
    """
    if not args and math.prod(x.aval.shape) != 1:  # before this process reads what it cannot
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    return to_numpy(x).item(*args)


@_member
def tolist(x: ArrayImpl) -> Any:
    """The values as nested Python lists, or a scalar for an array without axes."""
    return to_numpy(x).tolist()


@_member
def tobytes(x: ArrayImpl, order: str = "C") -> bytes:
    """The values as bytes."""
    return to_numpy(x).tobytes(order)  # type: ignore[arg-type]  # NumPy checks the order


@_member
def __bool__(x: ArrayImpl) -> bool:
    if type(x._carried) is KeyCarrier:
        raise TypeError(f"key array cannot be converted to boolean.\n    x: {x.aval.str_short()}")
    if x.size != 1:
        raise ValueError(f"The truth value of {ambiguous(x.size)}\n    x: {x.aval.str_short()}")
    return bool(to_numpy(x))


def _scalar_conversion(kind: type[_Number]) -> Callable[[ArrayImpl], _Number]:
    def convert(x: ArrayImpl) -> _Number:
        if x.shape:
            raise TypeError(
                "Only scalar arrays can be converted to Python scalars; "
                f"got arr.ndim={x.ndim}\n"
                f"    x: {x.aval.str_short()}\n  Use x.item() or index x first."
            )
        return kind(to_numpy(x).item())

    return convert


_MEMBERS.update(
    {
        "__int__": _scalar_conversion(int),
        "__float__": _scalar_conversion(float),
        "__complex__": _scalar_conversion(complex),
    }
)


@_member
def __index__(x: ArrayImpl) -> int:
    if x.ndim or not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(
            f"Only integer scalar arrays can be converted to a scalar index.\n"
            f"    x: {x.aval.str_short()}"
        )
    return int(to_numpy(x).item())


_MEMBERS["__hash__"] = None  # the runtime quotes a message of its own, without frames of ours


@_member
def __len__(x: ArrayImpl) -> int:
    try:
        return x.aval.shape[0]  # type: ignore[no-any-return]
    except IndexError:
        raise TypeError("len() of unsized object") from None


@_member
def __repr__(x: ArrayImpl) -> str:
    if x.is_deleted():
        return f"Array(shape={x.shape}, dtype={x.dtype.name}, deleted)"
    if type(x._carried) is KeyCarrier:
        words = x._base_array
        text = str(to_numpy(words)) if _is_legible(words) else repr(words)
        return f"Array({x.shape}, dtype={x.dtype.name}) overlaying:\n{text}"
    name = f"dtype={x.dtype.name}" + (", weak_type=True" if x.aval.weak_type else "")
    if not _is_legible(x) or _is_large(x):
        where = f", sharding={x.sharding}" if x._sharding._sums() else ""
        return f"Array(shape={x.shape}, {name}{where})"
    return array_text(to_numpy(x), name)


def _is_large(x: ArrayImpl) -> bool:
    """Whether an array prints without its values, as in JAX from 0.12 on: to read it takes time."""
    return AS_IN_0_12 and x.size * x.dtype.itemsize >= 1 << 20


def _is_legible(x: ArrayImpl) -> bool:
    """Whether this process has all values, and none are still to be summed."""
    if x._sharding._sums():
        return False
    if x.is_fully_addressable:
        return True
    held = {repr(shard.index) for shard in x.addressable_shards}
    return bool(held) and held == {repr(index) for _, index, _ in _placed_parts(x)}


def array_text(value: HostArray, name: str) -> str:
    """The repr of an array of a host value; `name` says its dtype."""
    if not value.size:
        return f"Array([], shape={value.shape}, {name})"
    body = np.array2string(value, separator=", ", prefix="Array(", suffix=")")
    width = len(body.rpartition("\n")[2]) + len(name) + 3
    return f"Array({body},{' ' if width < np.get_printoptions()['linewidth'] else ' ' * 6}{name})"


@_member
def __str__(x: ArrayImpl) -> str:
    return str(to_numpy(x)) if _is_plain(x) and not _is_large(x) else repr(x)


def _is_plain(x: ArrayImpl) -> bool:
    """Whether it prints as NumPy's arrays do."""
    return not x.is_deleted() and type(x._carried) is not KeyCarrier and _is_legible(x)


@_member
def __format__(x: ArrayImpl, spec: str) -> str:
    if not _is_plain(x):
        return format(str(x), spec)
    return format(to_numpy(x)[()] if x.ndim == 0 else to_numpy(x), spec)


# The words behind an array of keys and their generator, by the names that programs know; other
# arrays have neither.
_MEMBERS["_base_array"] = property(
    lambda x: x if x.is_deleted() else retyped(x, x.dtype.physical and aval_of(x).physical)
)
_MEMBERS["_impl"] = property(lambda x: x.dtype._impl)
_MEMBERS["_key_data"] = lambda x: to_numpy(x._base_array)


@_member
def __reduce__(x: ArrayImpl) -> Any:
    if type(x._carried) is KeyCarrier:
        return _unpickle_keys, (x._key_data(), x.dtype)
    return _unpickle, (to_numpy(x), x.aval.weak_type)


def _unpickle_keys(words: HostArray, dtype: ExtendedDType) -> Any:
    array: Any = provided.put(words, None)
    shape = words.shape[: words.ndim - dtype.physical.ndim]
    return retyped(array, ShapedArray(shape, dtype).carrier)


def _unpickle(value: Value, weak: bool) -> Any:
    return provided.put(value, None, aval=aval_of(value).update(weak_type=weak))


@_member
def __dlpack__(
    x: ArrayImpl,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    check_live(x)
    if type(x._carried) is KeyCarrier:
        raise TypeError(
            f"__dlpack__: keys have no DLPack form; jax.random.key_data(x) has.\n"
            f"    x: {x.aval.str_short()}"
        )
    if len(x.devices()) != 1:
        raise BufferError(
            "__dlpack__: only arrays on one device have a DLPack form.\n"
            f"    x: {x.aval.str_short()}, {x.sharding}"
        )
    if dtypes.bit_width(x.dtype) < 8:
        raise BufferError(
            f"__dlpack__: DLPack has no elements of less than a byte.\n"
            f"    x: {x.aval.str_short()}\n"
            "  Convert x to a dtype of whole bytes first."
        )
    if max_version is not None and not (isinstance(max_version, tuple) and len(max_version) == 2):
        raise TypeError(
            f"__dlpack__: max_version must be a pair of integers.\n    max_version: {max_version!r}"
        )
    on_host = provided.target(x.platform()).in_host_memory
    if stream is not None and (on_host or not isinstance(stream, int)):
        raise ValueError(
            "__dlpack__: a stream must be None on the CPU, and an integer on a GPU.\n"
            f"    stream: {stream!r}\n    x is on {x.device}"
        )
    if dl_device is not None and tuple(map(int, dl_device)) != x.__dlpack_device__():
        return _for_device(x, tuple(map(int, dl_device)), copy).__dlpack__(
            stream=stream, max_version=max_version
        )
    wait(x)
    # The capsule holds another array of the buffer: the process aborts if an array in a capsule is
    # deleted or donated.
    source = x.copy() if copy else x.clone()
    return xla.to_dlpack(source, stream)


def _for_device(x: ArrayImpl, place: tuple[int, ...], copy: bool | None) -> Any:
    """A copy of x on the device that DLPack's pair of numbers names."""
    kind, number = place
    platform = next((name for name, own in DLPACK_KINDS.items() if own == kind), None)
    found = [
        d
        for name, client in backends.backends().items()
        if name == platform
        for d in client.local_devices()
        if d.local_hardware_id == number or (kind == 1 and d.id == number)
    ]
    if not found:
        raise BufferError(
            f"__dlpack__: dl_device is not among the devices here: {list(backends.backends())}.\n"
            f"    dl_device: {place}"
        )
    if copy is False:
        raise ValueError(
            "__dlpack__: dl_device requires a copy since x is on another device, however "
            f"copy=False.\n    dl_device: {place}\n    x is on {x.device}\n"
            "  Say copy=None or copy=True."
        )
    return provided.put(to_numpy(x), found[0])


@_member
def __dlpack_device__(x: ArrayImpl) -> tuple[int, int]:
    d = x.device
    platform = platform_of(d) if hasattr(d, "platform") else None
    if platform not in DLPACK_KINDS:
        raise BufferError(f"__dlpack_device__: no DLPack device for {d}")
    return DLPACK_KINDS[platform], 0 if provided.target(
        platform
    ).in_host_memory else d.local_hardware_id


@_property
def __array_interface__(x: ArrayImpl) -> dict[str, Any]:
    """The memory of the array on the host, read-only, in NumPy's older protocol; only dtypes that
    NumPy has of its own."""
    if (
        was_ended(x)
        or type(x._carried) is KeyCarrier
        or x.dtype.kind not in "biufc"
        or x.dtype.isbuiltin != 1
    ):
        raise AttributeError(
            f"__array_interface__ has no form for elements of dtype {x.dtype.name}."
        )
    return dict(to_numpy(x).__array_interface__)


xla.attach(ArrayImpl, _MEMBERS)
replace_buffers()
