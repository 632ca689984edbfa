"""One program on several devices, each with an element of the arguments.

`pmap`, a compiled `shard_map` along one axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core import axes as in_force
from teucer._core.calls import as_indices, check_callable
from teucer._core.high import refuse_high
from teucer._core.trace import Tracer, typeof
from teucer._derived.moves import device_put
from teucer._derived.stages import jit
from teucer._devices import backends
from teucer._devices.meshes import AxisType, Mesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer._executables import misses
from teucer._sharding.local_parts import part_of, to_part_p, to_whole_p
from teucer._sharding.shard_map import over_devices
from teucer._transform.vmap import vmap
from teucer._trees import pytrees

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from teucer._core.typing import Array, Value, Values
    from teucer._lower.value import Value as Written
    from teucer._xla.client import Device
    from teucer._xla.pytree import PyTree


_UNNAMED = "_internal_pmap_axis_name"


def pmap(
    fun: Callable[..., object],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """A compiled function that maps `fun` over an axis of its arguments, each element on a device
    of its own.

    axis_name, in_axes, out_axes, axis_size: as for `vmap`; a result for which out_axes is None is
    the first device's. Keyword arguments are mapped over axis 0. Collectives over axis_name
    communicate between the devices.
    static_broadcasted_argnums, donate_argnums: as static_argnums and donate_argnums of `jit`.
    devices: which; by default the first of `backend`. Results are laid over them.
    Over several processes, all of which call the function, the devices of all are used. Each
    process gives as many elements as it has devices, and gets their results, on its devices.
    `axis_size` counts all elements.
    Raises ValueError if there are more elements than devices, over several processes fewer too, or
    the sizes of mapped axes differ.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.pmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")(jnp.ones(1))
    Array([1.], dtype=float32)
    """
    check_callable(fun, "pmap")
    static = as_indices(static_broadcasted_argnums, "static_broadcasted_argnums", "pmap")
    name = _UNNAMED if axis_name is None else axis_name

    @functools.lru_cache(maxsize=64)
    def over(size: int, mesh: Mesh) -> Any:
        @functools.wraps(fun)
        def program(*args: Value, **kwargs: object) -> Any:
            fixed, moving = _parted(args, static)

            def element(moving_args: Sequence[Value], kwargs: dict[str, object]) -> Any:
                given = {**fixed, **dict(zip(moving, moving_args, strict=True))}
                return fun(*(given[i] for i in range(len(args))), **kwargs)

            flat, tree = pytrees.tree_flatten(([args[i] for i in moving], kwargs))
            axes = _axes(in_axes, args, moving, tree)
            if in_force.axis_key():  # within a mapped function, whose devices are taken
                return vmap(
                    element,
                    (
                        pytrees.tree_unflatten(
                            pytrees.treedef_children(tree)[0], axes[: _count(tree)]
                        ),
                        0,
                    ),
                    out_axes,
                    axis_name=name,
                    axis_size=size,
                )(*pytrees.tree_unflatten(tree, flat))
            parts = [
                None if a is None else a % typeof(x).ndim for x, a in zip(flat, axes, strict=True)
            ]
            return _over_devices(
                lambda *leaves: element(*pytrees.tree_unflatten(tree, leaves)),
                flat,
                parts,
                out_axes,
                mesh,
                name,
            )

        misses.one_of_several(program, f"pmap over devices {[d.id for d in mesh.flat_devices]}")
        return jit(program, static_argnums=static, donate_argnums=donate_argnums)

    def prepared(
        args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> tuple[Any, tuple[Any, ...], Mapping[str, Any], Mesh]:
        """The program for these arguments, the arguments laid over its devices, and these."""
        _, moving = _parted(args, static)
        flat, tree = pytrees.tree_flatten(([args[i] for i in moving], kwargs))
        axes = _axes(in_axes, args, moving, tree)
        available = list(devices) if devices is not None else backends.devices(backend)
        mesh = _mesh_of_all(available, name)
        if mesh is None:
            size = _size(flat, axes, axis_size)
            mesh = _mesh(size, available, name)
        else:
            size = _size_of_all(_size(flat, axes, None), axis_size, mesh)

        def placed(x: Array, axis: int | None) -> Any:
            at = None if axis is None else axis % np.ndim(x)
            if mesh.is_multi_process:
                return to_whole_p.call(x, mesh=mesh, axis=at)[0]
            spec = _spec(name, at)
            return x if isinstance(x, Tracer) else device_put(x, NamedSharding(mesh, spec))

        laid = list(map(placed, flat, axes))
        moved, kwargs = pytrees.tree_unflatten(tree, laid)
        given = dict(zip(moving, moved, strict=True))
        return over(size, mesh), tuple(given.get(i, x) for i, x in enumerate(args)), kwargs, mesh

    @tracebacks.boundary_of(fun)
    def mapped(*args: Value, **kwargs: object) -> Any:
        program, given, named, mesh = prepared(args, kwargs)
        out = program(*given, **named)
        return _parts(out, out_axes, mesh) if mesh.is_multi_process else out

    @tracebacks.api_boundary
    def lower(*args: Written, **kwargs: object) -> Any:
        """The program for these arguments as StableHLO."""
        program, given, named, _ = prepared(args, kwargs)
        return program.lower(*given, **named)

    mapped.lower = lower  # type: ignore[attr-defined]
    return mapped


def _over_devices(
    element: Callable[..., object],
    flat: Sequence[object],
    axes: Sequence[int | None],
    out_axes: object,
    mesh: Mesh,
    name: Hashable,
) -> Any:
    """The results of a function of elements, one on each device; axes: those along which the
    arguments have them."""
    found: list[Any] = []

    def on_device(*parts: Value) -> list[Any]:
        out = element(
            *(x if a is None else _without(x, a) for x, a in zip(parts, axes, strict=True))
        )
        leaves, tree = pytrees.tree_flatten(out)
        wanted = pytrees.flatten_axes("pmap out_axes", tree, out_axes)
        found[:] = [
            tree,
            [
                None if a is None else a % (np.ndim(y) + 1)
                for y, a in zip(leaves, wanted, strict=True)
            ],
        ]
        return [
            y if a is None else array_ops.broadcast(y, 1, a)
            for y, a in zip(leaves, found[1], strict=True)
        ]

    outs = over_devices(
        on_device,
        flat,
        [_spec(name, a) for a in axes],
        lambda: [_spec(name, a) for a in found[1]],
        mesh,
    )
    return pytrees.tree_unflatten(found[0], outs)


def _parted(args: Sequence[Value], static: Sequence[int]) -> tuple[dict[int, Any], list[int]]:
    """The static arguments by position, and the positions of the others."""
    if any(not -len(args) <= i < len(args) for i in static):
        raise ValueError(
            f"pmapped function has static_broadcasted_argnums={tuple(static)} but was called with "
            f"only {len(args)} positional argument{'s' * (len(args) != 1)}. All static "
            "broadcasted arguments must be passed positionally."
        )
    fixed = {i % len(args): args[i] for i in static}
    return fixed, [i for i in range(len(args)) if i not in fixed]


def _count(tree: PyTree) -> int:
    """How many leaves of (positional arguments, keyword arguments) are positional."""
    count: int = pytrees.treedef_children(tree)[0].num_leaves
    return count


def _axes(in_axes: object, args: Values, moving: Sequence[int], tree: PyTree) -> list[int | None]:
    """The mapped axis of each leaf of (positional arguments that are not static, keyword
    arguments)."""
    if isinstance(in_axes, list | tuple):
        if len(in_axes) != len(args):
            raise ValueError(
                "pmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, but got "
                f"len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        in_axes = [in_axes[i] for i in moving]
    bad = [
        a
        for a in pytrees.tree_leaves(in_axes)
        if isinstance(a, bool) or not hasattr(a, "__index__")
    ]
    if bad:
        raise TypeError(
            "pmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {bad[0]!r}."
        )
    return pytrees.flatten_axes("pmap in_axes", tree, (in_axes, 0), kws=True)


def _size(flat: Sequence[object], axes: Sequence[int | None], axis_size: int | None) -> int:
    refuse_high("pmap", *map(typeof, flat))
    sizes = {
        typeof(x).shape[a]
        for x, a in zip(flat, axes, strict=True)
        if a is not None and typeof(x).ndim
    }
    if axis_size is not None:
        sizes.add(axis_size)
    if not sizes:
        raise ValueError(
            "pmap requires at least one argument with a mapped axis.\n"
            "  Give an array, or axis_size."
        )
    if len(sizes) > 1:
        listed = "".join(
            f"\n    {typeof(x).str_short(short_dtypes=True)}, axis {a}"
            for x, a in zip(flat, axes, strict=True)
            if a is not None
        )
        raise ValueError(
            f"pmap got inconsistent sizes for array axes to be mapped: {sorted(sizes)}{listed}"
        )
    size: int = sizes.pop()
    return size


def _mesh(size: int, available: Sequence[Device], name: Hashable) -> Mesh:
    if size > len(available):
        raise ValueError(
            f"compiling computation that requires {size} logical devices, but only "
            f"{len(available)} XLA devices are available.\n    devices: {available}\n"
            "  To map over more elements than devices, use vmap."
        )
    return Mesh(np.array(available[:size]), (name,), axis_types=(AxisType.Auto,))


def _mesh_of_all(available: Sequence[Device], name: Hashable) -> Mesh | None:
    """The devices of several processes, over which one program runs; None if there is one
    process."""
    if len({d.process_index for d in available}) < 2 or in_force.axis_key():
        return None
    return Mesh(np.array(available), (name,), axis_types=(AxisType.Auto,))


def _size_of_all(own: int, axis_size: int | None, mesh: Mesh) -> int:
    """The number of elements of all processes."""
    here = part_of(mesh).size
    if own != here:
        raise ValueError(
            "Leading axis size of input to pmapped function must equal the number of local "
            f"devices. Got axis_size={own}, num_local_devices={here}\n"
            f"    devices: {mesh.size}, of {len({d.process_index for d in mesh.flat_devices})} "
            "processes\n  Give one element a device of this process. To compute in this process "
            "alone: pmap(..., devices=jax.local_devices())."
        )
    if axis_size not in (None, mesh.size):
        raise ValueError(
            f"Specified axis_size {axis_size} doesn't match the {mesh.size} devices of all "
            "processes.\n  axis_size counts the elements of all processes."
        )
    return mesh.size


def _parts(out: object, out_axes: object, mesh: Mesh) -> Any:
    """This process's part of the results."""
    leaves, tree = pytrees.tree_flatten(out)
    wanted = pytrees.flatten_axes("pmap out_axes", tree, out_axes)
    return pytrees.tree_unflatten(
        tree,
        [
            to_part_p.call(y, mesh=mesh, axis=None if a is None else a % np.ndim(y))[0]
            for y, a in zip(leaves, wanted, strict=True)
        ],
    )


def _spec(name: Hashable, axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*(None,) * axis, name)


def _without(x: Value, axis: int) -> Any:
    """x without an axis of size 1."""
    shape = typeof(x).shape
    return array_ops.reshape(x, (*shape[:axis], *shape[axis + 1 :]))
