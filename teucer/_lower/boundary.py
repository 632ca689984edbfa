"""Where a module begins and ends: its arguments and results, and which of them share buffers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from teucer._base import source
from teucer._devices.shardings import NamedSharding, SingleDeviceSharding
from teucer._devices.specs import PartitionSpec
from teucer._lower import text
from teucer._lower.value import Value

if TYPE_CHECKING:
    from teucer._core.typing import Atom, Aval
    from teucer._devices.chosen import GSPMDSharding
    from teucer._devices.meshes import BaseMesh
    from teucer._lower.context import Context
    from teucer._lower.module import Module

    Sharding: TypeAlias = NamedSharding | GSPMDSharding | None


class Argument(NamedTuple):
    """An argument of the main function: its type, and facts about its buffer. buffer: its
    attributes (`text.buffer`)."""

    aval: Any
    donated: bool = False
    sharding: Any = None
    buffer: tuple[str, ...] = ()


def donated_to(
    args: Sequence[Argument],
    outs: Sequence[Value | Atom],
    shardings: Sequence[Sharding] = (),
    out_buffers: Sequence[tuple[str, ...]] = (),
) -> dict[int, int]:
    """For each donated argument, a result that is written over it: of the same type, layout, memory
    and sharding.

    shardings: of the results of a program over a mesh. If the compiler chooses a sharding, it also
    chooses the pairs. Warns of donated arguments that no result can overwrite.
    """
    if True not in [arg.donated for arg in args]:
        return {}
    laid = [*shardings] or [None] * len(outs)
    free: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for i, (out, buffer) in enumerate(zip(outs, out_buffers or ((),) * len(outs), strict=True)):
        if laid[i] is not None or not shardings:
            free.setdefault((text.tensor_type(out.aval), buffer), []).append(i)
    aliases = {}
    for i, arg in enumerate(args):
        if arg.donated and text.AUTO not in arg.buffer:
            candidates = free.get((text.tensor_type(arg.aval), arg.buffer), [])
            found = next((j for j in candidates if _lie_alike(arg, laid[j], bool(shardings))), None)
            if found is not None:
                candidates.remove(found)
                aliases[i] = found
    taken = set(aliases.values())
    if not (shardings and None in [s for j, s in enumerate(laid) if j not in taken]):
        _warn_of_unusable(
            [arg for i, arg in enumerate(args) if arg.donated and i not in aliases],
            [_bytes(out.aval, laid[j]) for j, out in enumerate(outs) if j not in taken],
            bool(shardings),
        )
    return aliases


def _lie_alike(arg: Argument, out: Sharding, over_mesh: bool) -> bool:
    if arg.sharding is None or out is None:
        return not over_mesh
    return bool(arg.sharding.is_equivalent_to(out, arg.aval.physical.ndim))


def _warn_of_unusable(donated: Sequence[Argument], free: list[object], over_mesh: bool) -> None:
    """Warn of donated arguments whose buffers have the size of no result. free: bytes of
    results on one device."""
    unusable = []
    for arg in donated:
        if over_mesh and arg.sharding is None:
            continue
        if (size := _bytes(arg.aval, arg.sharding)) in free:
            free.remove(size)
        else:
            unusable.append(
                arg.aval
                if arg.sharding is None
                else arg.aval.update(shape=arg.sharding.shard_shape(arg.aval.shape), sharding=None)
            )
    if unusable:
        warnings.warn(
            f"Some donated buffers were not usable: {', '.join(map(str, unusable))}.\n"
            "  There are fewer results of their size than donated arguments (donate_argnums).",
            stacklevel=source.user_stacklevel(),
        )


def _bytes(aval: Aval, sharding: Sharding) -> Any:
    """Bytes of a buffer on one device."""
    shape = aval.shape if sharding is None else sharding.shard_shape(aval.shape)
    return math.prod(shape) * aval.dtype.itemsize


def boundary(module: Module, aval: Aval, sharding: Sharding, buffer: tuple[str, ...]) -> list[str]:
    """The attributes that an argument or a result has."""
    # On one device there is nothing to say, also in a program over a mesh that has one.
    laid = []
    if sharding is not None and not isinstance(sharding, SingleDeviceSharding):
        laid = [f"sdy.sharding = #sdy.sharding{module.sharding(sharding, aval.physical.ndim)}"]
    return [*laid, *buffer]


def finished(
    ctx: Context, results: Sequence[Value], outs: Sequence[Sharding], mesh: BaseMesh | None
) -> tuple[Value, ...]:
    """The results of a program over a mesh as their types, and the shardings `outs`, say."""
    if mesh is not None:  # XLA wants an operation where values begin or cease to be parts of a sum
        results = [
            ctx.summed(v, s)
            if type(s) is NamedSharding and s.spec.unreduced != v.aval.unreduced
            else v
            for v, s in zip(results, outs, strict=True)
        ]
    if (
        mesh is not None and mesh.auto_axes and mesh.explicit_axes
    ):  # no type says that they lie over these
        whole = NamedSharding(mesh, PartitionSpec())
        results = [
            v
            if s is not None or v.aval.partition is not None
            else ctx.constrain(v, whole, of_type=True)
            for v, s in zip(results, outs, strict=True)
        ]
    return tuple(results)


def argument(module: Module, v: Value, arg: Argument, alias: int | None) -> str:
    attrs = []
    if alias is not None:
        attrs.append(f"tf.aliasing_output = {alias} : i32")
    elif arg.donated:
        attrs.append("jax.buffer_donor = true")
    attrs += boundary(module, arg.aval, arg.sharding, arg.buffer)
    return f"{v.name}: {text.tensor_type(v.aval)}{text.attributes(attrs)}"


def returned(terminator: str, outs: Sequence[Value]) -> str:
    kinds = ", ".join([text.tensor_type(v.aval) for v in outs])
    return f'"{terminator}"({", ".join([v.name for v in outs])}) : ({kinds}) -> ()'
