"""Calling exported functions.

The primitive `call_exported`, which puts the exported module into the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._core.types import ShapedArray
from teucer._devices.meshes import AbstractMesh, AxisType, get_abstract_mesh
from teucer._devices.placement import Named
from teucer._devices.shardings import NamedSharding, typed
from teucer._devices.specs import PartitionSpec, entry_names
from teucer._dimensions.dimensions import is_symbolic, substitute
from teucer._dynamic import sizes
from teucer._lower.context import Value
from teucer._xla import mlir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Array, Avals, Dims, Size
    from teucer._devices.shardings import Sharding
    from teucer._export.exported import Exported
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written


@final
class CallExported(Primitive):
    """Calls an exported function on its flat arguments.

    (C1) operands have the ranks and dtypes that it was exported for.  (C2) and its sizes, where
    these are not symbolic. (C3) sizes give the dimension variables values that all sizes and
    constraints agree with.
    (C4) it was exported for the platform of the program.  (C5) and, if for several devices, for as
    many as the program has.
    """

    __slots__ = ()
    name = "call_exported"
    multiple_results = True

    def types(self, *avals: ShapedArray, exported: Exported) -> Any:
        names = exported.arg_names
        for name, aval, expected in zip(names, avals, exported.in_avals, strict=True):
            if aval.ndim != expected.ndim:
                raise ValueError(
                    f"Rank mismatch for {name}: expected {expected.shape} and called with "
                    f"{aval.shape}"
                )
            for i, (size, n) in enumerate(zip(aval.shape, expected.shape, strict=True)):
                if not is_symbolic(n) and size != n:
                    raise ValueError(
                        f"Shape mismatch for {name}.shape[{i}] (expected same constant): expected "
                        f"{expected.shape} and called with {aval.shape}"
                    )
            if aval.dtype != expected.dtype:
                raise ValueError(
                    f"Dtype mismatch for {name}: expected {expected.dtype} and called with "
                    f"{aval.dtype}"
                )
        known = sizes.on_shapes(
            [a.shape for a in exported.in_avals], [a.shape for a in avals], names
        )
        return tuple(
            a.update(
                shape=tuple(substitute(n, known) for n in a.shape),
                sharding=_over_own_mesh(a.partition, avals, exported),
            )
            for a in exported.out_avals
        )

    def shard(self, *avals: ShapedArray, exported: object) -> Any:
        return None

    def lower(self, ctx: Context, *args: Written, exported: Exported) -> Any:
        avals_out = ctx.avals_out
        expected = [exported.in_avals[i] for i in exported.module_kept_var_idx]
        prefix = f"{ctx.module.unique_name(exported.fun_name)}_"
        ctx.module.functions.append(_functions(ctx, exported, prefix))
        kept = [
            _laid_out(ctx, _of_type(ctx, args[i], aval), exported, exported._in_named_shardings[i])
            for i, aval in zip(exported.module_kept_var_idx, expected, strict=True)
        ]
        if len(exported.platforms) > 1:
            number = ShapedArray((), np.dtype(np.int32))
            kept = [
                *ctx.by_platform(
                    lambda: (ctx.constant(np.int32(_platform_number(ctx, exported))),), [number]
                ),
                *kept,
            ]
        else:
            ctx.by_platform(lambda: (ctx.constant(np.int32(_platform_number(ctx, exported))),), [])
        ctx.module.polymorphic |= exported.uses_global_constants
        outs = ctx.op("func.call", kept, exported.out_avals, f"callee = @{prefix}main")
        return tuple(
            _of_type(ctx, _laid_out(ctx, out, exported, sharding), aval)
            for out, sharding, aval in zip(
                outs, exported._out_named_shardings, avals_out, strict=True
            )
        )

    on_keys = dialects.on_keys.rule(lower)

    def evaluate(self, *args: Array, exported: Exported) -> Any:
        return exported._run(*args)

    def batch(self, size: Size, xs: Sequence[object], dims: Dims, *, exported: Exported) -> Any:
        raise NotImplementedError(
            f"Batching rule (for vmap) for 'call_exported' not implemented: '{exported.fun_name}' "
            "was exported for arguments of fixed ranks.\n"
            "  Export the mapped function, export(jit(vmap(f))), with a symbolic size for its "
            "axis; or loop over the axis with lax.map."
        )


call_exported_p = CallExported()


def _over_own_mesh(sharding: Sharding | None, avals: Avals, exported: Exported) -> Any:
    """The sharding of a result's type over the mesh of the caller, whose axes may have other
    names."""
    if sharding is None:
        return None
    mesh = next((a.partition.mesh for a in avals if a.partition is not None), get_abstract_mesh())
    old = sharding.mesh
    if mesh.empty or mesh.axis_sizes != old.axis_sizes:
        raise ValueError(
            f"Function {exported.fun_name} was exported with types over a mesh of "
            f"{dict(old.shape_tuple)} and is called over {dict(mesh.shape_tuple)}.\n"
            "  Enter a mesh of those sizes with jax.set_mesh."
        )
    names = dict(zip(old.axis_names, mesh.axis_names, strict=True))
    entries = [tuple(names[n] for n in entry_names(e)) for e in sharding.spec.partitions]
    unreduced, reduced = (
        frozenset(names[n] for n in axes)
        for axes in (sharding.spec.unreduced, sharding.spec.reduced)
    )
    spec = PartitionSpec(
        *entries,
        unreduced=unreduced,
        reduced=reduced,
        unreduced_kind=sharding.spec.unreduced_kind,
    )
    return typed(NamedSharding(mesh, spec), len(entries))


# Stands before the names of an exported module's functions in the text that is kept of them.
_PREFIX = "__exported__"


def functions_of(artifact: bytes) -> tuple[str, tuple[Any, ...]]:
    """The functions of an exported module, and the axes of its meshes, for `CallExported.lower`."""
    return mlir.functions(artifact, _PREFIX)


def _functions(ctx: Context, exported: Exported, prefix: str) -> str:
    """The functions of an exported module as the program calls them, over the program's devices."""
    mesh = ctx.module.mesh
    n_devices = 1 if mesh is None else mesh.size
    if exported.nr_devices not in (1, n_devices):
        raise ValueError(
            f"Function {exported.fun_name} was exported for {exported.nr_devices} devices and is "
            f"called in a context with {n_devices} devices, which is not allowed.\n"
            f"  Lay an argument over a mesh of {exported.nr_devices} devices with jax.device_put, "
            "or enter one with jax.set_mesh."
        )
    text, meshes = exported.functions
    for i, axes in enumerate(meshes):
        if exported.nr_devices == 1 and n_devices > 1:
            axes = (*axes, ("__devices__", n_devices))  # no array is split along this axis
        symbol = ctx.module.mesh_symbol(
            AbstractMesh(
                tuple(size for _, size in axes),
                tuple(name for name, _ in axes),
                (AxisType.Auto,) * len(axes),
            ),
            Named(exported.fun_name, ""),
        )
        text = text.replace(mlir.mesh_of(_PREFIX, i), symbol)
    functions: str = text.replace(_PREFIX, prefix)
    return functions


def _laid_out(ctx: Context, value: Value, exported: Exported, sharding: Sharding | None) -> Any:
    """A value as it was laid out over the devices of the export; over one it lay nowhere else."""
    return value if sharding is None or exported.nr_devices == 1 else ctx.constrain(value, sharding)


def _of_type(ctx: Context, value: Value, aval: ShapedArray) -> Any:
    """A value with its type changed to one that knows other facts about its sizes."""
    if _known_sizes(aval) == _known_sizes(value.aval):
        return Value(value.name, aval)
    physical = Value(value.name, value.aval.physical)
    return Value(ctx.op1("stablehlo.convert", (physical,), aval.physical).name, aval)


def _known_sizes(aval: ShapedArray) -> list[Any]:
    """Its sizes; None for sizes that the text of the program lacks."""
    return [None if is_symbolic(n) else n for n in aval.shape]


def _platform_number(ctx: Context, exported: Exported) -> int:
    """The number of the program's platform among those that a function was exported for."""
    if ctx.platform in exported.platforms:
        return exported.platforms.index(ctx.platform)
    if any(check.is_platform() for check in exported.disabled_safety_checks):
        return 0
    raise ValueError(
        f"Function '{exported.fun_name}' was exported for platforms '{exported.platforms}' but it "
        f"is used on '{ctx.platforms}'.\n  Export it for both: export(..., platforms=[...])."
    )
