"""Pickles under the alias.

JAX's pickles can be read here, and pickles written here name only JAX's modules, so that JAX can
read them.

Arrays, keys, dtypes and scalar types, treedefs, Partials, PartitionSpec, ShapeDtypeStruct, and
shardings over an AbstractMesh. Types (ShapedArray) and dtypes of keys too. Keys are written as
calls of `jax.random.wrap_key_data`, and their dtypes as an attribute of one. Shardings over devices
cannot be pickled, in JAX neither.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import KeyCarrier, _unpickle
from teucer._arrays.formats import Format
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._core.memory import MemorySpace
from teucer._core.types import ShapedArray
from teucer._devices.axis_type import ManualAxisType
from teucer._devices.meshes import AbstractMesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import UNCONSTRAINED, PartitionSpec, UnreducedKind
from teucer._xla.arrays import ArrayImpl
from teucer._xla.pytree import default_registry
from teucer.lax._random_keys import KeyDType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from teucer._core.typing import Array


# JAX's names of the fields of a ShapeDtypeStruct, where they are others.
_FIELDS = {"_dll": "_layout", "_sharding": "sharding"}


class PRNGImpl:
    """The generator in a pickle of keys that JAX wrote.

    It is recognised by its name. The functions in the pickle are not called.
    """

    def __new__(
        cls,
        key_shape: tuple[int, ...],
        seed: None,
        split: None,
        random_bits: None,
        fold_in: None,
        name: str,
        tag: str,
    ) -> PRNGImpl:
        made = super().__new__(cls)
        made.name = name
        return made

    name: str


_rbg_fold_in = _rbg_random_bits = _rbg_seed = _rbg_split = _unsafe_rbg_fold_in = (
    _unsafe_rbg_split
) = None


class PRNGKeyArray:
    """Called by JAX's pickles of keys: an array, which `_set_keys` fills."""

    def __new__(cls) -> Any:
        return ArrayImpl.__new__(ArrayImpl)


class KeyTy:
    """Called by JAX's pickles of key dtypes: a dtype, which `_set_key_dtype` fills."""

    def __new__(cls) -> Any:
        return KeyDType.__new__(KeyDType)


def install() -> None:
    """Write and read as JAX does from now on."""
    copyreg.pickle(ShapedArray, _reduce_aval)
    copyreg.pickle(ManualAxisType, _reduce_manual)
    copyreg.pickle(MemorySpace, lambda space: (MemorySpace, (space.value,)))
    copyreg.pickle(KeyDType, _reduce_key_dtype)
    KeyDType.__setstate__ = _set_key_dtype  # type: ignore[attr-defined]
    copyreg.pickle(ArrayImpl, _reduce_array)  # type: ignore[arg-type]  # it returns what pickle takes
    copyreg.pickle(PartitionSpec, _reduce_spec)
    copyreg.pickle(ShapeDtypeStruct, _reduce_struct)
    copyreg.pickle(type(UNCONSTRAINED), _reduce_unconstrained)
    copyreg.pickle(AbstractMesh, _reduce_abstract_mesh)
    ArrayImpl.__setstate__ = _set_keys
    ShapeDtypeStruct.__setstate__ = _set_struct  # type: ignore[attr-defined]
    default_registry.__module__ = "jax._src.tree_util"
    _reconstruct_array.__module__ = "jax._src.array"
    ShapedArray.__module__ = "jax.core"
    ManualAxisType.__module__ = MemorySpace.__module__ = "jax._src.core"


def _reconstruct_array(
    function: Callable[..., np.ndarray],
    args: tuple[object, ...],
    state: object,
    about: Mapping[str, object],
) -> Array:
    """An array of the NumPy array function(*args) with a state; about: whether it is weakly
    typed."""
    value = function(*args)
    value.__setstate__(state)
    return _unpickle(value, bool(about.get("weak_type")))


def _reduce_array(x: ArrayImpl) -> Any:
    if type(x._carried) is KeyCarrier:
        random = _random()
        return functools.partial(random.wrap_key_data, impl=str(random.key_impl(x))), (
            random.key_data(x),
        )
    function, args, state = np.asarray(x).__reduce__()
    return _reconstruct_array, (function, args, state, {"weak_type": x.aval.weak_type})


def _set_keys(x: ArrayImpl, state: Mapping[str, Any]) -> None:
    from teucer import random

    words = state["_base_array"]
    dtype = random.key_dtype(state["_impl"].name)
    aval = ShapedArray(words.shape[: words.ndim - dtype.physical.ndim], dtype)
    x.__init__(aval.carrier, words.sharding, [words], committed=False, _skip_checks=True)


def _random() -> Any:
    """The module of keys, under the name that JAX gives it: it may have been loaded by Teucer
    alone."""
    return importlib.import_module("jax.random")


def _reduce_aval(aval: ShapedArray) -> Any:
    said: dict[str, Any] = {}
    if aval.partition is not None:
        said["sharding"] = aval.partition
    if aval.vma:
        said["manual_axis_type"] = aval.mat
    if aval.memory_space is not MemorySpace.Device:
        said["memory_space"] = aval.memory_space
    return copyreg.__newobj_ex__, (ShapedArray, (aval.shape, aval.dtype, aval.weak_type), said)


def _reduce_manual(mat: ManualAxisType) -> Any:
    return copyreg.__newobj_ex__, (
        ManualAxisType,
        (),
        {
            "varying": mat.varying,
            "unreduced": mat.unreduced,
            "reduced": mat.reduced,
            **_kind(mat),
        },
    )


def _reduce_key_dtype(dtype: KeyDType) -> Any:
    random = _random()
    return getattr, (random.key(0, dtype=dtype), "dtype")


def _set_key_dtype(dtype: KeyDType, state: Mapping[str, Any]) -> None:
    random = _random()
    found = random.key_dtype(state["_impl"].name)
    for name in KeyDType.__slots__:
        setattr(dtype, name, getattr(found, name))


def _unpickle_named_sharding(
    mesh: AbstractMesh, spec: PartitionSpec, memory_kind: str | None, logical_device_ids: None
) -> NamedSharding:
    """The sharding that JAX pickles so."""
    return NamedSharding(mesh, spec, memory_kind)


def _reduce_abstract_mesh(mesh: AbstractMesh) -> Any:
    return copyreg.__newobj_ex__, (
        AbstractMesh,
        (mesh.axis_sizes, mesh.axis_names, mesh.axis_types),
        {"abstract_device": mesh.abstract_device},
    )


def _get_default_unconstrained() -> Any:
    """The entry of a spec for an axis that the compiler may partition."""
    return UNCONSTRAINED


def _reduce_unconstrained(_: object) -> Any:
    return getattr, (PartitionSpec, "UNCONSTRAINED")


def _reduce_spec(spec: PartitionSpec) -> Any:
    return copyreg.__newobj_ex__, (
        PartitionSpec,
        spec.partitions,
        {"unreduced": spec.unreduced, "reduced": spec.reduced, **_kind(spec)},
    )


def _kind(of: PartitionSpec | ManualAxisType) -> dict[str, Any]:
    """The operation that combines values, if it is no sum: JAX 0.10 knows sums alone."""
    kind = of.unreduced_kind
    return {} if kind is None or kind is UnreducedKind.sum else {"unreduced_kind": kind}


def _reduce_struct(x: ShapeDtypeStruct) -> Any:
    manual = x.manual_axis_type
    if manual is None and x.vma is not None:
        manual = ManualAxisType(varying=x.vma)
    state = {
        "shape": x.shape,
        "dtype": x.dtype,
        "_sharding": x._sharding,
        "_dll": x._layout,
        "weak_type": x.weak_type,
        "manual_axis_type": manual,
        "is_ref": x.is_ref,
    }
    return copyreg.__newobj__, (ShapeDtypeStruct,), (None, state)


def _set_struct(x: ShapeDtypeStruct, state: Any) -> None:
    found = {
        _FIELDS.get(name, name): value
        for name, value in (state[1] if isinstance(state, tuple) else state).items()
    }
    sharding, layout = found.get("sharding"), found.get("_layout")
    x.__init__(  # type: ignore[misc]
        found["shape"],
        found["dtype"],
        sharding=sharding if layout is None else Format(layout, sharding),
        weak_type=bool(found.get("weak_type")),
        is_ref=bool(found.get("is_ref")),
        manual_axis_type=found.get("manual_axis_type"),
    )
