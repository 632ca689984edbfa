"""Shardings inside programs.

Constraints for the compiler (Auto mesh axes), resharding (Explicit ones).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.formats import Format, Layout
from teucer._arrays.transfer import put_array
from teucer._base import tracebacks
from teucer._core.high import refuse_high
from teucer._core.memory import MemorySpace
from teucer._core.trace import EVAL, Tracer, current_trace, typeof
from teucer._derived.layouts import with_layout_constraint
from teucer._derived.moves import device_put_p
from teucer._devices import meshes, partition, shardings
from teucer._devices.forbidden import no_collectives
from teucer._devices.meshes import AbstractMesh, AxisType, Mesh
from teucer._devices.placement import assigned
from teucer._devices.shardings import NamedSharding, SingleDeviceSharding
from teucer._devices.specs import UNCONSTRAINED, PartitionSpec, entry_names
from teucer._transform.jit import jit
from teucer._trees import pytrees
from teucer.lax._arithmetic import eq
from teucer.lax._collectives.extremes import extreme_taken
from teucer.lax._collectives.reductions import axis_index
from teucer.lax._collectives.varying import cast, state_of, taking
from teucer.lax._costs import STILL
from teucer.lax._selection import select
from teucer.lax._shapes import named_as
from teucer.lax._structure import Linear, broadcast_to, zeros

if TYPE_CHECKING:
    from teucer._core.types import Aval, ShapedArray
    from teucer._core.typing import Array, ArrayLike, Axes, Dims, Value
    from teucer._devices.specs import OutSharding
    from teucer._lower.context import Context

__all__ = ["sharding_constraint_p", "with_sharding_constraint"]


@final
class ShardingConstraint(Linear):
    """x, which the compiler is to lay out by a sharding over Auto mesh axes."""

    __slots__ = ()
    name = "sharding_constraint"
    cost = STILL

    def types(self, x: Aval, *, sharding: Any, **params: object) -> Any:
        # Within a program the parts may be of unequal size: XLA pads them.
        sharding.check_compatible_aval(x.shape)
        return (x,)

    def evaluate(self, x: Any, *, sharding: Any, **params: object) -> Any:
        shardings.check_shape(
            sharding,
            np.shape(x),
            "with_sharding_constraint: outside of programs an array lies in equal parts. ",
        )
        return super().evaluate(x, sharding=sharding, **params)

    shard = partition.aligned

    def lower(self, ctx: Context, x: Any, *, sharding: Any, **params: object) -> Any:
        own = x.aval.partition
        if own is not None and isinstance(
            sharding, NamedSharding
        ):  # along Explicit mesh axes x lies as its type says
            stated = [*sharding.spec.partitions, *[None] * (x.aval.ndim - len(sharding.spec))]
            sharding = sharding.with_spec(
                sharding.spec.update(
                    partitions=[
                        e if e is UNCONSTRAINED else (*entry_names(mine), *entry_names(e))
                        for e, mine in zip(stated, own.spec.partitions, strict=True)
                    ]
                )
            )
        return (ctx.constrain(x, sharding),)

    def transpose(self, cts: Any, x: Any, **params: object) -> Any:
        return self.call(*cts, **params)

    def batch(
        self,
        axis: Any,
        args: Sequence[Array],
        dims: Dims,
        *,
        sharding: Any,
        unconstrained_dims: Any,
        **params: object,
    ) -> Any:
        (x,), (dim,) = args, dims
        free = axis.spmd_name is None
        if isinstance(sharding, SingleDeviceSharding):
            if not free:
                raise ValueError(
                    "If you are using spmd_axis_name parameter of jax.vmap, please make sure to "
                    "run your jitted function inside the mesh context manager. Only "
                    "`jax.lax.with_sharding_constraint` with `jax.sharding.NamedSharding` lays "
                    f"the axis over {axis.spmd_name!r}, and not with {sharding}."
                )
            return self.call(
                x, sharding=sharding, unconstrained_dims=unconstrained_dims, **params
            ), dims
        twice = set(sharding.spec.names()).intersection(entry_names(axis.spmd_name))
        if twice:
            raise ValueError(
                f"vmap spmd_axis_name {axis.spmd_name!r} cannot appear in "
                f"with_sharding_constraint spec, but got spec {sharding.spec}\n"
                "  The mapped axis lies over it. Leave it out of one of them."
            )
        spread = sharding.inserted(
            typeof(x).ndim - 1, dim, UNCONSTRAINED if free else axis.spmd_name
        )
        shifted = frozenset(d + (d >= dim) for d in unconstrained_dims) | ({dim} if free else set())
        return self.call(x, sharding=spread, unconstrained_dims=shifted, **params), dims


@final
class Reshard(Linear):
    """x laid out by another sharding, which its type then says over Explicit mesh axes."""

    __slots__ = ()
    name = "reshard"
    cost = STILL
    linear_in = None

    def types(self, x: ShapedArray, *, dst_sharding: NamedSharding, concrete_mesh: object) -> Any:
        shardings.check_shape(dst_sharding, x.shape)
        dst_sharding.check_parts_of(x)
        return (x.update(sharding=shardings.typed(dst_sharding, x.ndim)),)

    def lower(self, ctx: Any, x: Any, *, dst_sharding: Any, concrete_mesh: Any) -> Any:
        if x.aval.unreduced:
            x = extreme_taken(ctx, x, dst_sharding.spec.unreduced)
        if UNCONSTRAINED in dst_sharding.spec.partitions:
            over = NamedSharding(concrete_mesh or dst_sharding.mesh, PartitionSpec())
            return (ctx.constrain(x, over.left_free(dst_sharding.spec)),)
        return (
            ctx.summed(
                x,
                dst_sharding if concrete_mesh is None else dst_sharding.update(mesh=concrete_mesh),
            ),
        )

    def shard(self, x: ShapedArray, **params: object) -> Any:
        return None

    def transpose(self, cts: Any, x: Any, *, dst_sharding: Any, concrete_mesh: Any) -> Any:
        # A value whose type says nothing may be divided, as the compiler likes (`laid_out`).
        own = x.aval.cotangent_aval().partition or dst_sharding.with_spec(
            (UNCONSTRAINED,) * x.aval.ndim
        )
        if concrete_mesh is not None and own.mesh.shape_tuple != concrete_mesh.shape_tuple:
            concrete_mesh = assigned(own.mesh, concrete_mesh.flat_devices)
        return self.call(*cts, dst_sharding=own, concrete_mesh=concrete_mesh)

    def batch(
        self, axis: Any, args: Sequence[Array], dims: Any, *, dst_sharding: Any, concrete_mesh: Any
    ) -> Any:
        (x,), (dim,) = args, dims
        aval = typeof(x)
        entry = aval.partition.spec[dim] if aval.partition is not None else axis.spmd_name
        return self.call(
            x,
            dst_sharding=dst_sharding.inserted(aval.ndim - 1, dim, entry),
            concrete_mesh=concrete_mesh,
        ), dims


sharding_constraint_p = ShardingConstraint()
reshard_p = Reshard()


def _leaves(name: str, x: Any, tree_of_shardings: object) -> tuple[list[Any], list[Any], Any]:
    leaves, tree = pytrees.tree_flatten(x)
    return leaves, pytrees.flatten_axes(name, tree, tree_of_shardings), tree


@tracebacks.api_boundary
def with_sharding_constraint(x: ArrayLike, shardings: object) -> Any:
    """x, which the compiler is to lay out so; outside jit, x laid out so.

    x: a pytree of arrays. shardings: a NamedSharding or a PartitionSpec over the mesh in force, or
    a tree prefix of them, over Auto mesh axes: over Explicit ones it asserts that x has that
    sharding. Of a program on one device a SingleDeviceSharding says which; a Format has a layout in
    memory too, as in `with_layout_constraint`.
    Raises RuntimeError for a PartitionSpec without a mesh, TypeError for an object that is no
    sharding, ValueError for None or if one does not fit, AssertionError as said.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> with_sharding_constraint(jnp.ones(2), jax.NamedSharding(mesh, jax.P("x")))
    Array([1., 1.], dtype=float32)
    """
    leaves, places, tree = _leaves("with_sharding_constraint shardings", x, shardings)
    return tree.unflatten(
        [_named(constrain(leaf, where), where) for leaf, where in zip(leaves, places, strict=True)]
    )


def _named(x: ArrayLike, where: object) -> Any:
    """x with the very sharding object that was asked for, if x is a concrete array."""
    where = where.sharding if isinstance(where, Format) else where
    free = isinstance(where, NamedSharding) and UNCONSTRAINED in where.spec
    return x if free else named_as(x, where)


_NO_MESH = (
    "{} requires a non-empty mesh in context if you are passing `PartitionSpec`s to {}. You can "
    "define a context mesh via `jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s to {} and "
    "then the mesh context manager is not required."
)


def constrain(x: ArrayLike, where: Any) -> Any:
    """One array constrained to a sharding over Auto mesh axes, or asserted to have one over
    Explicit ones."""
    if where is None:
        raise ValueError(
            "One of with_sharding_constraint arguments got sharding None which is not allowed. "
            "Please only pass `jax.sharding.Sharding` instances."
        )
    if isinstance(where, Format):
        x = constrain(x, where.sharding)
        return with_layout_constraint(x, where.layout) if isinstance(where.layout, Layout) else x
    if isinstance(where, NamedSharding) and isinstance(where.mesh, AbstractMesh):
        _check_devices_of(x, where)
    where = shardings.as_named(
        where,
        RuntimeError(_NO_MESH.format("with_sharding_constraint", "shardings", "shardings")),
        meshes.mesh_of_block(),
    )
    if not isinstance(where, NamedSharding | SingleDeviceSharding):
        raise TypeError(
            "shardings leaf specifications are expected to be PartitionSpec instances or None, but "
            f"got {where}\n  with_sharding_constraint: NamedShardings, SingleDeviceShardings and "
            "Formats of them are allowed, too."
        )
    refuse_high("with_sharding_constraint", typeof(x))
    if isinstance(where, SingleDeviceSharding):
        return _constrain(x, where)
    if shardings.is_of_no_mesh(where):
        raise ValueError(
            "with_sharding_constraint: One of shardings leaf specifications got an empty "
            f"NamedSharding: {where} which is not allowed."
        )
    aval, spec = typeof(x), where.spec
    try:
        where.check_compatible_aval(aval.shape)
    except ValueError as err:
        raise ValueError(
            "One of with_sharding_constraint arguments is incompatible with its sharding "
            f"annotation {where}: {err}"
        ) from None
    if where.mesh.are_all_axes_explicit:
        own = (None,) * aval.ndim if aval.partition is None else aval.partition.spec.partitions
        said = shardings.typed(where, aval.ndim)
        if own != ((None,) * aval.ndim if said is None else said.spec.partitions):
            raise AssertionError(
                "`with_sharding_constraint` acts as an assert when all axes of mesh are of type "
                f"`Explicit`. The array sharding: {PartitionSpec(*own)} did not match the "
                f"sharding provided: {spec}. Please use `jax.sharding.reshard` to shard your "
                "input to the sharding you want."
            )
        return x
    manual = set(meshes.get_abstract_mesh().manual_axes).intersection(spec.names())
    if manual:
        raise ValueError(
            f"with_sharding_constraint: the spec {spec} contains a manual axes "
            f"{sorted(manual, key=str)} of mesh {meshes.get_abstract_mesh()!s}, along which each "
            "device has its part already.\n  Leave them out."
        )
    if any(where.mesh.type_of[n] is not AxisType.Auto for n in spec.names()):
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto "
            f"axes of the mesh. Got spec={spec} and mesh={where.mesh}. You probably meant to use "
            "`reshard` API?"
        )
    return _constrain(
        x, where, frozenset(i for i, entry in enumerate(spec.partitions) if entry is UNCONSTRAINED)
    )


def _check_devices_of(x: Any, where: NamedSharding) -> None:
    """Check that an array has the devices that a sharding over an AbstractMesh leaves open; a
    traced value need not.

    Raises ValueError for an object that is no array, or an array over a mesh of another shape,
    TypeError for an array over no mesh.
    """
    if isinstance(x, Tracer) or where.mesh.empty:
        return
    shape = typeof(x).str_short()
    if not isinstance(x, ArrayImpl):
        raise ValueError(
            "Target sharding contains a `jax.sharding.AbstractMesh` which requires the input "
            f"passed should be a `jax.Array`. Got {type(x)} with shape {shape}"
        )
    if not isinstance(x.sharding, NamedSharding):
        raise TypeError(
            "The sharding on the input must be a `NamedSharding` since the target sharding has an "
            f"`AbstractMesh` in it. Got sharding type {type(x.sharding)} for shape {shape}"
        )
    own, wanted = x.sharding.mesh.shape_tuple, where.mesh.shape_tuple
    if own != wanted:
        raise ValueError(
            f"Mesh shape of the input {own} does not match the mesh shape of the target sharding "
            f"{wanted} for shape {shape}"
        )


def _constrain(x: Any, where: object, free: frozenset[int] = frozenset()) -> Any:
    return sharding_constraint_p.call(
        x,
        sharding=where,
        layout=None,
        context_mesh=meshes.get_abstract_mesh(),
        unconstrained_dims=free,
    )[0]


@tracebacks.api_boundary
def reshard(xs: Any, out_shardings: object) -> Any:
    """xs laid out by other shardings over Explicit mesh axes; types say so.

    xs: a pytree of arrays. out_shardings: a NamedSharding or a PartitionSpec over the mesh in
    force, or a tree prefix of them. Raises ValueError for a PartitionSpec without a mesh, over Auto
    axes, or one that does not fit.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.typeof(reshard(jnp.ones(2), jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x"))))
    ShapedArray(float32[2@x])
    """
    leaves, places, tree = _leaves("reshard out_shardings", xs, out_shardings)
    return tree.unflatten(
        [_reshard(leaf, where) for leaf, where in zip(leaves, places, strict=True)]
    )


def _reshard(x: Any, where: Any) -> Any:
    where, ndim = shardings.explicit_sharding("reshard", where, None), typeof(x).ndim
    if where is not None and len(where.spec) > ndim and not any(where.spec.partitions[ndim:]):
        where = where.with_spec(
            where.spec.update(partitions=where.spec.partitions[:ndim])
        )  # as in JAX
    if where is None:
        raise ValueError(
            "reshard: out_shardings says None, or has an empty mesh, where an array is to be "
            "laid out. Reshard should only be used with out_shardings which are non-None and "
            f"have a non-empty mesh.\n    array: {typeof(x).str_short(short_dtypes=True)}\n"
            "  Give a NamedSharding, or a PartitionSpec under a mesh."
        )
    mesh = where.mesh if isinstance(where.mesh, Mesh) else None
    where.check_parts_of(typeof(x))
    for name in where.mesh.manual_axes:
        x = _in_state(
            x,
            name,
            "unreduced"
            if name in where.spec.unreduced
            else "reduced"
            if name in where.spec.reduced
            else None,
        )
    return reshard_p.call(
        x, dst_sharding=where.update(mesh=where.mesh.abstract_mesh), concrete_mesh=mesh
    )[0]


def _in_state(x: Any, name: str, wanted: str | None) -> Any:
    """x as a type says it of a manual axis: the same on all devices, still to be summed, or with a
    cotangent that is."""
    state = state_of(typeof(x), name)
    if state in (wanted, "varying"):
        return x
    if (state, wanted) == (
        None,
        "unreduced",
    ):  # the first device has the value, the others have nothing to add to it
        first = eq(axis_index(name), np.int32(0))
        return cast(
            select(broadcast_to(first, np.shape(x), ()), x, zeros(typeof(x))),
            frozenset({name}),
            "unreduced",
        )
    if (state, wanted) == ("unreduced", None):
        return taking(typeof(x)).call(x, axes=(name,))[0]
    return cast(x, frozenset({name}), wanted or "invarying")


def lay_out(x: ArrayLike, where: object) -> Any:
    """x laid out by a sharding, over whichever mesh axes, or on one device; or in another
    memory."""
    if isinstance(where, MemorySpace):
        return device_put_p.call(x, device=where, copy=False)[0]
    if isinstance(where, NamedSharding):
        kinds = {where.mesh.type_of[n] for n in where.spec.names()}
        if AxisType.Auto not in kinds and set(where.mesh.axis_types) != {AxisType.Auto}:
            return _reshard(x, where)
    return constrain(x, where)


def reduce_cotangents(x: ArrayLike, where: NamedSharding) -> Any:
    """x, whose cotangents are to be summed over mesh axes."""
    manual = where.spec.reduced.intersection(where.mesh.manual_axes)
    x = cast(x, manual, "reduced") if manual else x
    rest = where.spec.reduced - manual
    own = typeof(x).partition or where.with_spec(PartitionSpec(*[None] * typeof(x).ndim))
    return (
        _reshard(x, own.with_spec(own.spec.update(reduced=own.spec.reduced | rest))) if rest else x
    )


def _mesh_with(mesh: meshes.AbstractMesh, axes: Any, kind: AxisType) -> meshes.AbstractMesh:
    """A mesh with the named axes (all, for None) of another type."""
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    unknown = [n for n in names if n not in mesh.sizes]
    if unknown:
        raise ValueError(
            f"auto_axes and explicit_axes: the mesh has no axes {unknown}.\n    mesh: {mesh}"
        )
    if any(mesh.type_of[n] is AxisType.Manual for n in names):
        raise NotImplementedError(
            "Going from `Manual` AxisType to `Auto` or `Explicit` AxisType is not allowed: within "
            f"jax.shard_map each device has its part already.\n    axes: {names}\n    mesh: {mesh}"
        )
    return mesh.update_axis_types(dict.fromkeys(names, kind))


def _entering(x: Any, mesh: meshes.AbstractMesh) -> Any:
    """x as a value of a program for `mesh`, whose Explicit axes its type keeps."""
    if current_trace() is EVAL and isinstance(x, ArrayImpl | np.ndarray):
        return _over_axes(x, mesh)
    old = typeof(x).partition
    if old is None:
        return x
    entries = [
        tuple(n for n in entry_names(e) if mesh.type_of[n] is AxisType.Explicit)
        for e in old.spec.partitions
    ]
    free = [names or (UNCONSTRAINED if mesh.auto_axes else None) for names in entries]
    return reshard_p.call(
        x, dst_sharding=NamedSharding(mesh, PartitionSpec(*free)), concrete_mesh=None
    )[0]


def _over_axes(x: Any, mesh: meshes.AbstractMesh) -> Any:
    """An array over the same devices, along mesh axes of other types; one of the host on all."""
    own = x._sharding if isinstance(x, ArrayImpl) else None
    if own is None:
        with meshes.use_abstract_mesh(mesh):
            over = meshes.mesh_in_force()
        return x if over is None else put_array(x, NamedSharding(over, PartitionSpec()))
    if not isinstance(own, NamedSharding) or own.mesh.shape_tuple != mesh.shape_tuple:
        return x
    return put_array(x, own.update(mesh=own.mesh.update(axis_types=mesh.axis_types)))


def laid_out(name: str, out_sharding: Any, f: Callable[..., Any], *operands: Value) -> Any:
    """f(*operands) with its result laid out by a sharding over Explicit mesh axes; inside, the
    compiler partitions.

    operands: pytrees; their arrays are arguments of one program when called eagerly.
    """
    if shardings.is_of_no_mesh(out_sharding):
        return f(*operands)
    leaves, tree = pytrees.tree_flatten(operands)
    arrays = [
        i for i, x in enumerate(leaves) if isinstance(x, ArrayImpl | Tracer) and x.dtype != np.bool_
    ]

    def run(*xs: Any) -> Any:
        where = shardings.explicit_sharding(name, out_sharding, None)
        mesh = where.mesh.abstract_mesh
        mesh = mesh.update_axis_types(dict.fromkeys(mesh.explicit_axes, AxisType.Auto))
        entered = list(leaves)
        for i, x in zip(arrays, xs, strict=True):
            entered[i] = _entering(x, mesh)
        with meshes.use_abstract_mesh(mesh):
            out = f(*tree.unflatten(entered))
        return _reshard(out, where)

    return (jit(run) if current_trace() is EVAL else run)(*(leaves[i] for i in arrays))


def _mesh_of(where: Sequence[Any]) -> meshes.AbstractMesh:
    """The mesh in force, else the first mesh among some shardings."""
    mesh = meshes.get_abstract_mesh()
    named = (s.mesh.abstract_mesh for s in where if isinstance(s, NamedSharding))
    return next(named, mesh) if mesh.empty else mesh


def auto_axes(
    f: Callable[..., object] | None = None, /, *, axes: Any = None, out_sharding: OutSharding = None
) -> Any:
    """A function inside of which the compiler partitions along some Explicit axes of the mesh in
    force.

    axes: their names; None for all. out_sharding: of the results, a tree prefix; here or as a
    keyword argument of each call. If no mesh is in force, the mesh of out_sharding is used;
    where no axis is Explicit, it is the function itself. Raises TypeError where no out_sharding is
    given, NotImplementedError for Manual axes, ValueError for axes that are not there.
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    def run(where: Any, *args: Any, **kwargs: object) -> Any:
        mesh = _mesh_with(_mesh_of(where[0]), axes, AxisType.Auto)
        entered = pytrees.tree_map(lambda x: _entering(x, mesh), (args, kwargs))
        with meshes.use_abstract_mesh(mesh):
            outs = f(*entered[0], **entered[1])
        return reshard(outs, pytrees.tree_unflatten(where[1], where[0]))

    compiled = jit(run, static_argnums=0)

    @functools.wraps(f)
    def wrapped(*args: Value, **kwargs: object) -> Any:
        where = kwargs.pop("out_sharding", out_sharding)
        if where is None:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        leaves, tree = pytrees.tree_flatten(where)
        outer = _mesh_of(leaves)
        if outer.empty or _mesh_with(outer, axes, AxisType.Auto) is outer:
            return f(*args, **kwargs)
        key = (tuple(leaves), tree)
        if current_trace() is not EVAL:
            return run(key, *args, **kwargs)
        # Values of Python, unless the program takes sums of their parts, or must not communicate.
        if no_collectives.value or any(
            typeof(x).unreduced or typeof(x).reduced
            for x in pytrees.tree_leaves((args, kwargs))
            if isinstance(x, ArrayImpl)
        ):
            return compiled(key, *args, **kwargs)
        over = next((s.mesh for s in leaves if isinstance(s, NamedSharding)), None)
        known = meshes.mesh_in_force() is not None or not isinstance(over, Mesh)
        with contextlib.nullcontext() if known else meshes.set_mesh(over):
            return run(key, *args, **kwargs)

    return wrapped


def explicit_axes(
    f: Callable[..., object] | None = None,
    /,
    *,
    axes: Axes | None = None,
    in_sharding: object = None,
) -> Any:
    """A function inside of which types say the partition along some Auto axes of the mesh in force.

    axes: their names; None for all. in_sharding: of the positional arguments, a tree prefix; here
    or as a keyword argument. Raises TypeError where no in_sharding is given, ValueError without a
    mesh in force, NotImplementedError for Manual axes.
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @functools.wraps(f)
    def wrapped(*args: Value, **kwargs: object) -> Any:
        where = kwargs.pop("in_sharding", in_sharding)
        if where is None:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        outer = meshes.get_abstract_mesh()
        if outer.empty:
            raise ValueError(
                "Context mesh cannot be empty. Please use `jax.set_mesh` API to enter into a mesh "
                "context when using `explicit_axes` API."
            )
        mesh = _mesh_with(outer, axes, AxisType.Explicit)
        with meshes.use_abstract_mesh(mesh):
            leaves, places, tree = _leaves("explicit_axes in_sharding", args, where)
            outs = f(*tree.unflatten(list(map(_reshard, leaves, places))), **kwargs)
        return pytrees.tree_map(lambda x: _entering(x, outer), outs)

    return wrapped
