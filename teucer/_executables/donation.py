"""Donated arguments: one array may not be donated and be another argument too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from teucer._arrays.arrays import ArrayImpl
from teucer._xla.client import REFUSES_DONATED_TWICE, XlaRuntimeError

if TYPE_CHECKING:
    from teucer._core.debug_info import DebugInfo
    from teucer._core.typing import Value


def checked(
    kept: Sequence[bool],
    devices: int,
    donated: Sequence[bool],
    args: Sequence[Value],
    info: DebugInfo,
) -> bool:
    """Raise the runtime's error if a donated argument is another one too, before anything has run;
    whether each call must be looked at so, since the runtime dies of it.

    kept: which arguments the program takes. devices: on how many it runs. donated: which arguments
    are given away. The last of them have the names in `info`.
    """
    first: dict[int, int] = {}
    for i, (x, taken) in enumerate(zip(args, kept, strict=True)):
        if taken and type(x) is ArrayImpl:
            j = first.setdefault(id(x), i)
            if j != i and (donated[i] or donated[j]):
                known = ["", *[""] * len(args), *info.arg_names][-len(args) :]
                both = " and ".join(known[k] or f"{k}" for k in (j, i))
                does = (
                    "donate the same buffer twice"
                    if donated[i] and donated[j]
                    else "donate a buffer and use it, too,"
                )
                raise XlaRuntimeError(
                    f"INVALID_ARGUMENT: Attempt to {does} in one call: arguments {both} are "
                    f"one array, {x.aval.str_short()}.\n"
                    f"    function: {info.func_src_info}\n"
                    "  Give one of them as a copy, x.copy(), or do not donate it (donate_argnums)."
                )
    return not REFUSES_DONATED_TWICE and devices > 1
