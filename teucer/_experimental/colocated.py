"""Calls of Python functions where arrays are: at once, in this process (see the package)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._core.provided import provided
from teucer._core.trace import Tracer
from teucer._devices import backends, shardings
from teucer._devices.meshes import Mesh
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer._xla.pytree import PyTree


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices on the hosts of devices, in the same order; of a mesh, the mesh of them.

    devices_or_mesh: a sequence of devices, or a Mesh. A CPU device stands for its own host.
    Raises ValueError if a host has fewer CPU devices than other ones (jax_num_cpu_devices).

    >>> import teucer as jax
    >>> colocated_cpu_devices(jax.devices("cpu")[:2])
    [CpuDevice(id=0), CpuDevice(id=1)]
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        found = np.empty(mesh.devices.size, object)
        found[:] = colocated_cpu_devices(list(mesh.devices.flat))
        return Mesh(found.reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)
    return [
        d if provided.target(d.platform).in_host_memory else _cpu_beside(d) for d in devices_or_mesh
    ]


def _cpu_beside(device: Any) -> Any:
    """The CPU device on a device's host that has the same place among the host's CPU devices."""
    own = [d for d in device.client.devices() if d.process_index == device.process_index]
    cpus = [d for d in backends.devices("cpu") if d.process_index == device.process_index]
    place = own.index(device)
    if place >= len(cpus):
        raise ValueError(
            f"colocated_cpu_devices: process {device.process_index} has {len(own)} devices of "
            f"{device.platform} and "
            f"{len(cpus)} CPU devices.\n  Set jax_num_cpu_devices to {len(own)}."
        )
    return cpus[place]


class _Specialization(NamedTuple):
    """The specialisation of a function: what is fixed before it is called."""

    in_specs: Any = None
    out_specs_fn: Callable[..., Any] | None = None
    devices: tuple[Any, ...] | None = None


def colocated_python(fun: Callable[..., object]) -> Any:
    """A function whose Python code runs on the hosts of the devices that hold its arguments.

    fun: takes and returns pytrees of arrays; of an array over several devices it may read
    `addressable_shards`.
    Returns a function with `specialize(in_specs=None, out_specs_fn=None, devices=None)`, which
    gives the function for arguments of certain types, with results of the types that
    `out_specs_fn(*args)` says, or for devices, which functions without arguments need.
    Raises ValueError for arrays that are not on CPU devices, or without any devices; TypeError for
    traced values and other leaves.

    >>> import teucer as jax
    >>> @colocated_python
    ... def doubled(x):
    ...     return jax.device_put(np.asarray(x) * 2, x.sharding)
    >>> doubled(jax.device_put(3, jax.devices("cpu")[0]))
    Array(6, dtype=int32)
    """
    return _colocated(fun, _Specialization())


def _colocated(fun: Callable[..., Any], said: _Specialization) -> Any:
    name = getattr(fun, "__name__", type(fun).__name__)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: object) -> Any:
        _check_devices(name, said, _check_leaves(name, "argument", (args, kwargs)))
        _check_types(name, "argument", said.in_specs, (args, kwargs))
        out = fun(*args, **kwargs)
        _check_leaves(name, "result", out)
        if said.out_specs_fn is not None:
            specs = pytrees.tree_map(_struct, (args, kwargs))
            _check_types(name, "result", said.out_specs_fn(*specs[0], **specs[1]), out)
        return out

    def specialize(
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Any] | Mesh | None = None,
    ) -> Any:
        """The function for arguments of certain types, results of certain types, or devices.

        in_specs: (args, kwargs) as trees of ShapeDtypeStructs. out_specs_fn: from such structs to
        the results' structs. devices: a sequence or a mesh. Raises ValueError for settings that
        were made before.
        """
        given = {"in_specs": in_specs, "out_specs_fn": out_specs_fn,
                 "devices": None if devices is None else _flat(devices)}  # fmt: skip
        for key, value in given.items():
            if value is not None and getattr(said, key) is not None:
                raise ValueError(f"{key} already specified in colocated_python function {name}.")
        return _colocated(fun, said._replace(**{k: v for k, v in given.items() if v is not None}))

    call.specialize = specialize  # type: ignore[attr-defined]
    return call


def _flat(devices: Any) -> tuple[Any, ...]:
    return tuple(devices.devices.flat) if isinstance(devices, Mesh) else tuple(devices)


def _struct(x: Array) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def _check_leaves(name: str, what: str, tree: PyTree) -> list[Any]:
    leaves: list[Any] = pytrees.tree_leaves(tree)
    for x in leaves:
        if isinstance(x, Tracer):
            raise TypeError(
                f"colocated_python: {name} runs at once and has a traced value as {what}: {x}.\n  "
                "Call it outside of jit and "
                "other transformations; within them, jax.pure_callback calls Python."
            )
        if not isinstance(x, ArrayImpl):
            raise TypeError(
                f"colocated_python: the {what}s of {name} are arrays on devices, got {x!r:.100} "
                f"of type {type(x)}.\n"
                "  jax.device_put(x, device) makes one."
            )
    return leaves


def _check_devices(name: str, said: _Specialization, leaves: Sequence[Any]) -> None:
    devices = said.devices or tuple(d for x in leaves for d in shardings.devices_of(x.sharding))
    if not devices:
        raise ValueError(
            "No devices found. colocated_python function without input arguments must be first "
            "specialized with "
            f"devices.\n  Use {name}.specialize(devices=...)."
        )
    other = next((d for d in devices if not provided.target(d.platform).in_host_memory), None)
    if other is not None:
        raise ValueError(
            f"colocated_python: {name} runs on the CPUs of hosts, and has an argument on "
            f"{other}.\n  Move it to "
            "colocated_cpu_devices(devices) by device_put."
        )
    if "proxy" in getattr(devices[0].client, "runtime_type", ""):
        raise NotImplementedError(
            f"colocated_python: the devices of {devices[0].client.runtime_type} are elsewhere.\n"
            "  Call Python from a program: jax.pure_callback, or jax.experimental.io_callback."
        )


def _check_types(name: str, what: str, specs: object, tree: PyTree) -> None:
    if specs is None:
        return
    expected, structure = pytrees.tree_flatten(specs)
    found, given = pytrees.tree_flatten(tree)
    if structure != given:
        raise ValueError(
            f"colocated_python: the {what}s of {name} are to be {structure}, and are {given}."
        )
    for a, b in zip(expected, found, strict=True):
        sharding = getattr(a, "sharding", None)
        same = sharding is None or sharding.is_equivalent_to(b.sharding, b.ndim)
        if (tuple(a.shape), a.dtype) != (b.shape, b.dtype) or not same:
            raise ValueError(
                f"colocated_python: one {what} of {name} is to be {a}, and is {_struct(b)}."
            )


def colocated_python_class(cls: type) -> type:
    """A class whose objects live on the hosts of devices: its methods are colocated functions.

    cls: its methods take and return pytrees of arrays. The object is made by the first call of a
    method, and ends with the one that stands for it here.
    Returns a class that is used as `cls`; methods whose names begin with an underscore are not part
    of it.

    >>> import teucer as jax
    >>> @colocated_python_class
    ... class Sum:
    ...     def __init__(self):
    ...         self.total = np.float32(0)
    ...     def add(self, x):
    ...         self.total = self.total + np.asarray(x)
    ...         return jax.device_put(self.total, x.sharding)
    >>> s = Sum()
    >>> s.add(jax.device_put(2., jax.devices("cpu")[0]))
    Array(2., dtype=float32)
    """

    signature = inspect.signature(cls)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        signature.bind(*args, **kwargs)
        self._made = functools.cache(lambda: cls(*args, **kwargs))

    members: dict[str, Any] = {
        "__init__": __init__,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
    }
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            members[name] = _Method(member)
    return type(cls.__name__, (), members)


class _Method:
    """A method of such a class, as an attribute of it: bound, it is a colocated function."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        method, made = self._method, owner._made

        @functools.wraps(method)
        def call(*args: Any, **kwargs: object) -> Any:
            return method(made(), *args, **kwargs)

        return colocated_python(call)
