"""Where a module begins and ends: its arguments and results, and which of them share buffers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._base import source
from teucer._lower import text
from teucer._lower.value import Value

if TYPE_CHECKING:
    from teucer._core.typing import Atom, Aval
    from teucer._devices.chosen import GSPMDSharding
    from teucer._devices.shardings import NamedSharding
    from teucer._lower.context import Module

__all__ = ["Argument", "argument", "boundary", "donated_to", "returned"]


class Argument(NamedTuple):
    """An argument of the main function: its type, and what is known of its buffer. buffer: its attributes (`text.buffer`)."""

    aval: Any
    donated: bool = False
    sharding: Any = None
    buffer: tuple[str, ...] = ()


def donated_to(args: Sequence[Argument], outs: Sequence[Value | Atom],
               out_buffers: Sequence[tuple[str, ...]] = ()) -> dict[int, int]:
    """For each donated argument, a result of the same type, layout and memory to be written over it; warns of those without."""
    if True not in [arg.donated for arg in args]:
        return {}
    free: dict[Any, list[int]] = {}
    for i, (out, buffer) in enumerate(zip(outs, out_buffers or ((),) * len(outs), strict=True)):
        free.setdefault((text.tensor_type(out.aval), buffer), []).append(i)
    aliases = {}
    for i, arg in enumerate(args):
        candidates = free.get((text.tensor_type(arg.aval), arg.buffer), []) if arg.donated and text.AUTO not in arg.buffer else []
        if candidates:
            aliases[i] = candidates.pop(0)
    _warn_of_unusable(args, outs, aliases)
    return aliases


def _warn_of_unusable(args: Sequence[Argument], outs: Sequence[Value | Atom], aliases: dict[int, int]) -> None:
    """Warn of donated arguments that no result can take the place of: of the same type, or at least as many bytes."""
    taken = set(aliases.values())
    free = [_size(out.aval) for i, out in enumerate(outs) if i not in taken]
    unusable = []
    for i, arg in enumerate(args):
        if arg.donated and i not in aliases:
            if _size(arg.aval) in free:
                free.remove(_size(arg.aval))
            else:
                unusable.append(arg.aval)
    if unusable:
        warnings.warn(f"Some donated buffers were not usable: {', '.join(map(str, unusable))}.\n  There are fewer results of "
                      "their size than donated arguments (donate_argnums); the arguments are deleted all the same.",
                      stacklevel=source.user_stacklevel())


def _size(aval: Aval) -> Any:
    """Bytes of the buffer."""
    return aval.physical.size * aval.physical.dtype.itemsize


def boundary(module: Module, aval: Aval, sharding: NamedSharding | GSPMDSharding | None, buffer: tuple[str, ...]) -> list[str]:
    """The attributes that an argument or a result has."""
    laid = [] if sharding is None else [f"sdy.sharding = #sdy.sharding{module.sharding(sharding, aval.physical.ndim)}"]
    return [*laid, *buffer]


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
