"""Pickles under the alias: what JAX wrote is read, and what is written names nothing but JAX's modules, so that JAX reads it.

Arrays, dtypes and scalar types, treedefs, Partials, PartitionSpec and ShapeDtypeStruct. Keys are written in Teucer's own form, and
those that JAX wrote are not read: save `jax.random.key_data` of them.
"""

from __future__ import annotations

import copyreg
from typing import Any

import numpy as np

from teucer._arrays.arrays import KeyCarrier, _unpickle
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._core.specs import PartitionSpec
from teucer._xla.arrays import ArrayImpl
from teucer._xla.pytree import default_registry

__all__ = ["_reconstruct_array", "install"]

# JAX's names of the fields of a ShapeDtypeStruct, where they are others.
_FIELDS = {"_dll": "_layout", "_sharding": "sharding"}
_OWN_REDUCE = ArrayImpl.__reduce__


def install() -> None:
    """Write and read as JAX does from now on."""
    copyreg.pickle(ArrayImpl, _reduce_array)  # type: ignore[arg-type]  # it returns what pickle takes
    copyreg.pickle(PartitionSpec, _reduce_spec)
    copyreg.pickle(ShapeDtypeStruct, _reduce_struct)
    ShapeDtypeStruct.__setstate__ = _set_struct  # type: ignore[attr-defined]
    default_registry.__module__ = "jax._src.tree_util"
    _reconstruct_array.__module__ = "jax._src.array"


def _reconstruct_array(function: Any, args: Any, state: Any, about: dict[str, Any]) -> Any:
    """An array of the NumPy array function(*args) with a state; about: whether it is weakly typed."""
    value = function(*args)
    value.__setstate__(state)
    return _unpickle(value, bool(about.get("weak_type")))


def _reduce_array(x: Any) -> Any:
    if type(x._carried) is KeyCarrier:
        return _OWN_REDUCE(x)
    function, args, state = np.asarray(x).__reduce__()
    return _reconstruct_array, (function, args, state, {"weak_type": x.aval.weak_type})


def _reduce_spec(spec: PartitionSpec) -> Any:
    return copyreg.__newobj_ex__, (PartitionSpec, tuple(spec), {"unreduced": spec.unreduced, "reduced": spec.reduced})


def _reduce_struct(x: ShapeDtypeStruct) -> Any:
    state = {"shape": x.shape, "dtype": x.dtype, "_sharding": x.sharding, "_dll": None, "weak_type": x.weak_type,
             "manual_axis_type": None, "is_ref": x.is_ref}
    return copyreg.__newobj__, (ShapeDtypeStruct,), (None, state)


def _set_struct(x: ShapeDtypeStruct, state: Any) -> None:
    found = {_FIELDS.get(name, name): value for name, value in (state[1] if isinstance(state, tuple) else state).items()}
    x.__init__(found["shape"], found["dtype"], sharding=found.get("sharding"),  # type: ignore[misc]
               weak_type=bool(found.get("weak_type")))
