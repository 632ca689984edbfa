"""Calls of jitted functions whose arguments or results have dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from teucer._core.calls import FlatCall
from teucer._core.dialects import REFERENCES
from teucer._derived.references.programs import OnValues, on_values
from teucer._transform.jit_calls import sized_call_p
from teucer._transform.jit_options import JitOptions
from teucer._transform.staged import Staged, refuse_given_twice


def call_sized(
    fun: Callable[..., object],
    call: FlatCall,
    staged: Staged,
    sizes: tuple[tuple[str, int], ...],
    options: JitOptions,
) -> Sequence[Any]:
    """The results of a function whose arguments or results have dynamic sizes. References are
    discharged before it is padded."""
    found = OnValues(staged.jaxpr, (*staged.consts, *call.leaves), [])
    if REFERENCES in staged.dialects:
        refuse_given_twice(fun, call, staged)
        found = on_values(*found[:2])
    return found.write(
        sized_call_p.call(
            *found.args,
            jaxpr=found.jaxpr,
            name=staged.debug_info.name,
            sizes=sizes,
            donated_invars=staged.donated,
            keep_unused=options.keep_unused,
            inline=False,
            options=options.compiler_options,
            outline=options.outline,
        )
    )
