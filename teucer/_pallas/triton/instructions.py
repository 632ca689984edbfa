"""Triton's rules of NVIDIA's instructions: an approximate tanh, barriers, inline assembly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._core.jaxpr import Eqn
from teucer._pallas import debugging, gpu, tpu
from teucer._pallas.triton.arithmetic import convert
from teucer._pallas.triton.table import TRITON, by_program
from teucer._pallas.triton.text import Value, Writer, is_signed
from teucer.lax._attributes import quoted

F32 = np.dtype(np.float32)


@TRITON.define(gpu.approx_tanh_p)
def _tanh(w: Writer, eqn: Eqn, x: Value) -> Any:
    (out,) = _assembly(w, "tanh.approx.f32 $0, $1;", "=f,f", 1, [convert(w, x, F32)], [F32])
    return (convert(w, out, x.dtype),)


@TRITON.define(gpu.debug_barrier_p)
def _barrier(w: Writer, eqn: Eqn) -> Any:
    w.line('"gpu.barrier"() : () -> ()')
    return ()


@TRITON.define(gpu.elementwise_inline_asm_p)
def _inline(w: Writer, eqn: Eqn, *xs: Value) -> Any:
    p = eqn.params
    return _assembly(w, p["asm"], p["constraints"], p["pack"], xs, [d for _, d in p["results"]])


@TRITON.define(debugging.debug_print_p)
def _print(w: Writer, eqn: Eqn, *xs: Value) -> Any:
    prefix = eqn.params["fmt"].replace("{}", "").rstrip(" :=") + ": "
    if not xs:
        w.line(f"tt.print {quoted(prefix)} {{hex = false, isSigned = array<i32>}}")
        return ()
    signed = ", ".join(str(int(is_signed(x.dtype))) for x in xs)
    names, kinds = ", ".join(x.name for x in xs), ", ".join(x.type for x in xs)
    w.line(
        f"tt.print {quoted(prefix)} {{hex = false, isSigned = array<i32: {signed}>}} : {names} : "
        f"{kinds}"
    )
    return ()


def _assembly(
    w: Writer, asm: str, constraints: str, pack: int, xs: Sequence[Value], dtypes: Sequence[Any]
) -> list[Value]:
    shape = xs[0].shape if xs else ()
    arrays = [w.reshape(x, shape or (1,)) for x in xs]
    outs = [Value("", d, shape or (1,)) for d in dtypes]
    name, kinds = w.name(), ", ".join(x.type for x in arrays)
    results = ", ".join(o.type for o in outs)
    w.line(
        f"{name}{f':{len(outs)}' if len(outs) > 1 else ''} = tt.elementwise_inline_asm "
        f"{quoted(asm)} {{constraints = {quoted(constraints)}, packed_element = {pack} : i32, "
        f"pure = true}} {', '.join(x.name for x in arrays)} : {kinds} -> {results}"
    )
    named = [o._replace(name=name if len(outs) == 1 else f"{name}#{i}") for i, o in enumerate(outs)]
    return [w.reshape(o, shape) for o in named]


for _p in tpu.INSTRUCTIONS:
    TRITON[_p] = by_program(lambda e, *xs: e.primitive.program(**e.params)(*xs))
