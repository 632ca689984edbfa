"""Which programs of the corpus another threshold changes: their outlined jaxprs, or their pieces.

    python benchmarks/corpus/decisions.py short=24 pieces.copied=384

Each argument is a threshold of `teucer._targets.cpu.rates`, by its name there, and a number. A
program is named with the argument that changes it. Nothing is compiled.
"""

from __future__ import annotations

import sys
from typing import Any

import measure  # adds benchmarks to the path

import teucer as jax
from teucer._optimize.dce import remove_dead
from teucer._optimize.passes import optimize
from teucer._optimize.structure import structural_key
from teucer._targets.cpu.expensive import keep_expensive
from teucer._targets.cpu.rates import Thresholds, committed
from teucer._targets.extent import has_more
from teucer._targets.outlining.cut_into_pieces import cut
from teucer._targets.outlining.outline import outlined
from teucer._transform.jit_calls import hoist_consts


def with_threshold(name: str, value: int) -> Thresholds:
    """The committed thresholds but one."""
    ours = committed()
    if name.startswith("pieces."):
        return ours._replace(limits=ours.limits._replace(**{name.removeprefix("pieces."): value}))
    if name in ours.costs._fields:
        return ours._replace(costs=ours.costs._replace(**{name: value}))
    return ours._replace(**{name: value})


def decided(jaxpr: Any, by: Thresholds) -> tuple[Any, ...]:
    if has_more(jaxpr, by.costs.saved):
        jaxpr = outlined(jaxpr, by.costs)
    jaxpr = keep_expensive(jaxpr, by)
    found = cut(jaxpr, by.limits)
    pieces = () if found is None else found.pieces
    return structural_key(jaxpr), [(structural_key(p.jaxpr), p.calls) for p in pieces]


def main() -> None:
    others = {}
    for text in sys.argv[1:]:
        name, _, value = text.partition("=")
        others[text] = with_threshold(name, int(value))
    for case in measure.cases():
        program, _, variant = case.partition(".")
        function, args = measure.of_programs(jax, program)[variant]
        jaxpr = hoist_consts(jax.make_jaxpr(function)(*args).jaxpr).jaxpr
        jaxpr = remove_dead(optimize(jaxpr))
        ours = decided(jaxpr, committed())
        changed = [text for text, other in others.items() if decided(jaxpr, other) != ours]
        if changed:
            print(case, *changed, flush=True)


if __name__ == "__main__":
    main()
