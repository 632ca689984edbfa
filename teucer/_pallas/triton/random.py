"""Triton's rules of random numbers: keys are their words, and generators programs on them."""

from __future__ import annotations

from typing import Any

from teucer._core.jaxpr import Eqn
from teucer._pallas import key_programs
from teucer._pallas.triton.table import TRITON, by_program
from teucer._pallas.triton.text import Value, Writer


@TRITON.define(*key_programs.SAME)
def _words(w: Writer, eqn: Eqn, x: Value) -> Any:
    return (x,)


for _p, _f in key_programs.PROGRAMS.items():
    TRITON[_p] = by_program(_f)
