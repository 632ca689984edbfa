"""Names that JAX has removed within two years, which are still there under the alias.

Each gives a DeprecationWarning that names its replacement. `docs/compat.md` says what is promised.
`teucer compat check` lists a package's uses of them. The list is written by hand, from the
releases' listings (`tools/releases.py`).
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import teucer
from teucer._advice.guarding import guarded

if TYPE_CHECKING:
    from teucer import Device
    from teucer.typing import ArrayLike

_HERE = "teucer.compat._removed"
# module -> {where the names are: the names}; `name=other` gives `other` as `name`.
NAMES: dict[str, dict[str, str]] = {
    "jax": {
        "jax": "get_ty=typeof array_ref=new_ref ArrayRef=Ref",
        _HERE: "device_put_replicated device_put_sharded",
    },
    "jax.core": {
        "jax.extend.core": "AbstractToken ClosedJaxpr Jaxpr JaxprEqn Literal Primitive Token "
        "TraceTag Var call_impl jaxpr_as_fun mapped_aval set_current_trace subjaxprs "
        "take_current_trace unmapped_aval",
        "jax.errors": "ConcretizationTypeError",
        "jax._src.core": "full_lower get_aval trace_state_clean",
    },
    "jax.dlpack": {_HERE: "to_dlpack"},
    "jax.experimental": {
        _HERE: "disable_x64 enable_x64",
        "jax": "MutableArray=Ref mutable_array=new_ref",
    },
    "jax.experimental.layout": {"jax.experimental.layout": "DeviceLocalLayout=Layout"},
    "jax.experimental.pallas.tpu": {
        "jax.experimental.pallas.tpu": "TPUCompilerParams=CompilerParams TPUMemorySpace=MemorySpace"
    },
    "jax.lax": {"jax.numpy": "zeros_like_array=zeros_like", _HERE: "pvary"},
    "jax.numpy": {"jax.numpy": "fix=trunc round_=round"},
    "jax.ref": {"jax.ref": "ArrayRef=Ref array_ref=new_ref"},
    "jax.scipy.special": {_HERE: "sph_harm"},
    "jax.sharding": {"jax.sharding": "AxisTypes=AxisType use_mesh=set_mesh"},
}
# The removed modules, each with its replacement.
MODULES = {
    "jax.extend.ffi": "jax.ffi",
    "jax.lib.xla_bridge": "jax._src.xla_bridge",
    "jax.lib.xla_client": "jax._src.lib.xla_client",
    "jax.util": "jax._src.util",
}
_INSTEAD = {
    "device_put_replicated": "jax.device_put with a sharding",
    "device_put_sharded": "jax.device_put with a sharding, or "
    "jax.make_array_from_single_device_arrays",
    "to_dlpack": "x.__dlpack__()",
    "disable_x64": "jax.enable_x64(False)",
    "enable_x64": "jax.enable_x64(True)",
    "pvary": "jax.lax.pcast(x, axis_name, to='varying')",
    "sph_harm": "jax.scipy.special.sph_harm_y",
}


def give(module: ModuleType, name: str) -> None:
    """Let a public module have the names that JAX has removed from it."""
    if name not in NAMES:
        return
    where = {}
    for source, names in NAMES[name].items():
        for item in names.split():
            given, _, other = item.partition("=")
            where[given] = source, other or given
    vars(module)["__getattr__"] = _getter(name, where, vars(module).get("__getattr__"))


def _getter(
    module: str, where: dict[str, tuple[str, str]], own: Callable[[str], Any] | None
) -> Callable[[str], Any]:
    def __getattr__(name: str) -> Any:
        if name in where:
            source, other = where[name]
            value = getattr(importlib.import_module(source), other)
            _warn(f"{module}.{name}", _INSTEAD.get(name, f"{source}.{other}"))
            return value
        if own is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return own(name)

    return guarded(__getattr__)


def module(name: str) -> ModuleType:
    """A stand-in for a module that JAX has removed."""
    instead = MODULES[name]
    _warn(name, "no private module" if "._src" in instead else instead)
    found = importlib.import_module(instead)
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, found)
    return found


def _warn(name: str, instead: str) -> None:
    warnings.warn(
        f"JAX has removed {name}; Teucer still has it. Use {instead}.",
        DeprecationWarning,
        stacklevel=3,
    )


def device_put_replicated(x: object, devices: Sequence[Device]) -> Any:
    """A tree of arrays with an axis of the devices in front. Each device holds the whole."""
    return device_put_sharded([x] * len(devices), devices)


def device_put_sharded(shards: Sequence[object], devices: Sequence[Device]) -> Any:
    """A tree of arrays with a new leading axis. Each device holds one shard along it."""
    if not devices or len(shards) != len(devices):
        raise ValueError(
            f"device_put_sharded: {len(shards)} shards were given for {len(devices)} devices."
        )
    mesh = teucer.sharding.Mesh(list(devices), ("devices",))
    sharding = teucer.sharding.NamedSharding(mesh, teucer.sharding.PartitionSpec("devices"))
    return teucer.tree.map(
        lambda *parts: teucer.device_put(teucer.numpy.stack(parts), sharding), *shards
    )


def to_dlpack(x: teucer.Array, **options: object) -> Any:
    """The capsule of an array."""
    return x.__dlpack__(**options)


def enable_x64(new_val: bool = True) -> Any:
    """A context in which types of 64 bits are kept, or not."""
    return teucer.enable_x64(new_val)


def disable_x64() -> Any:
    """A context in which types of 64 bits are not kept."""
    return enable_x64(False)


def pvary(x: object, axis_name: str | tuple[str, ...]) -> Any:
    """x, which says that it varies along axes of a mesh."""
    return teucer.tree.map(lambda leaf: teucer.lax.pcast(leaf, axis_name, to="varying"), x)


def sph_harm(
    m: ArrayLike, n: ArrayLike, theta: ArrayLike, phi: ArrayLike, n_max: int | None = None
) -> Any:
    """Spherical harmonics, with the azimuth before the polar angle."""
    special = importlib.import_module("teucer.scipy.special")
    return special.sph_harm_y(n, m, phi, theta, n_max=n_max)
