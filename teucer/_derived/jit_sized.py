"""Calls of jitted functions whose arguments or results have dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._arrays import finite
from teucer._core import structure
from teucer._core.calls import FlatCall
from teucer._core.dialects import REFERENCES
from teucer._core.jaxpr import ClosedJaxpr
from teucer._derived.jit_references import OnValues, on_values
from teucer._devices.placement import placement_of
from teucer._dynamic import dynamic, padding
from teucer._programs import run
from teucer._programs.compile import program_for
from teucer._programs.eager import check_no_tracers
from teucer._programs.job import Job
from teucer._transform.jit_calls import ProgramCall, hoisted
from teucer._transform.jit_options import JitOptions
from teucer._transform.staged import Staged, refuse_given_twice

if TYPE_CHECKING:
    from teucer._core.trace import Trace
    from teucer._core.typing import Aval, Params, Value
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written


@structure.internal
@final
class SizedCall(ProgramCall):
    """A call of a jaxpr with symbolic dimensions on arrays of true sizes, with one program for all
    sizes of its variables.

    (C2) sizes gives the size of every variable that the types of operands name.
    """

    __slots__ = ()
    name = "sized_call"
    multiple_results = True

    def for_staged(
        self, params: Params, avals: Sequence[Aval], outs: Sequence[Value]
    ) -> dict[str, Any]:
        # The staged part may name sizes that the known part has found as results.
        return {**params, "sizes": dynamic.sizes_of_results(avals, outs, params["sizes"])}

    def types(
        self, *avals: Aval, jaxpr: ClosedJaxpr, sizes: tuple[tuple[str, int], ...], **params: object
    ) -> Any:
        return tuple(dynamic.specialized(aval, dict(sizes)) for aval in jaxpr.out_avals)

    def evaluate(
        self,
        *args: Value,
        jaxpr: ClosedJaxpr,
        name: str,
        sizes: tuple[tuple[str, int], ...],
        donated_invars: Sequence[bool],
        keep_unused: bool,
        inline: bool,
        options: tuple[tuple[str, object], ...],
        outline: bool | None,
    ) -> Any:
        check_no_tracers(args)
        closed, found = padding.pad_jaxpr(jaxpr, tuple(n for n, _ in sizes))
        inner, consts = hoisted(closed)
        donated = (*[False] * (len(consts) + len(sizes)), *donated_invars)
        program = program_for(
            Job(inner.jaxpr, name, placement_of(args), donated, keep_unused, options, outline)
        )
        operands = [
            *consts,
            *(np.int32(n) for _, n in sizes),
            *dynamic.to_buffers(args, jaxpr.in_avals),
        ]
        # The padding behind the elements may be NaN: only the true arrays are checked.
        outs = run.execute(program, operands, checked=False)
        n = len(jaxpr.out_avals)
        known = {**dict(sizes), **dynamic.found_sizes(found, outs[n:])}
        found_arrays = dynamic.true_arrays(outs[:n], jaxpr.out_avals, known)
        try:
            finite.check_finite(found_arrays, name)
        except FloatingPointError:
            # Run operation by operation, which names the operation that gave the NaN. Not possible
            # where sizes are known only in the program.
            if not found:
                dynamic.specialize(jaxpr, known, *args)
            raise
        return tuple(found_arrays)

    def stage(self, trace: Trace, args: Sequence[Value], params: Params) -> Any:
        return tuple(dynamic.specialize(params["jaxpr"], dict(params["sizes"]), *args))

    def lower(
        self,
        ctx: Context,
        *values: Written,
        jaxpr: ClosedJaxpr,
        sizes: tuple[tuple[str, int], ...],
        **params: object,
    ) -> Any:
        return ctx.trace(lambda *xs: dynamic.specialize(jaxpr, dict(sizes), *xs), *values)


sized_call_p = SizedCall()


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
