"""Mosaic's rules of random numbers: keys as their words, and the generator of a core."""

from __future__ import annotations

from typing import Any

from teucer._core.jaxpr import Eqn
from teucer._pallas import key_programs, tpu
from teucer._pallas.mosaic.table import MOSAIC, by_program
from teucer._pallas.mosaic.text import I32, Refused, Value, Writer, type_text


@MOSAIC.define(*key_programs.SAME)
def _words(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (x,)


for _p, _f in key_programs.PROGRAMS.items():
    MOSAIC[_p] = by_program(_f)

_SEEDS = 2  # that the generator takes


@MOSAIC.define(tpu.prng_seed_p)
def _seed(w: Writer, eqn: Eqn, *seeds: Value) -> Any:
    if not 0 < len(seeds) <= _SEEDS or any(s.shape for s in seeds):
        raise Refused(
            f"prng_seed of {len(seeds)} seeds", "Give one or two integer scalars: fold others in."
        )
    names, kinds = ", ".join(s.name for s in seeds), ", ".join(s.type for s in seeds)
    w.line(f'"tpu.prng_set_seed_32"({names}) : ({kinds}) -> ()')
    return ()


@MOSAIC.define(tpu.prng_random_bits_p)
def _bits(w: Writer, eqn: Eqn) -> Any:
    shape = eqn.params["shape"]
    if not shape:
        raise Refused("prng_random_bits of a scalar", "Draw an array, (8, 128), and take one.")
    return (w.make(f'"tpu.prng_random_bits"() : () -> {type_text(I32, shape)}', I32, shape),)
