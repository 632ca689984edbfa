"""Pipelines within kernels: blocks of references that pass by a body.

Here one block after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._pallas import kernel
from teucer._pallas.specs import BlockSpec, dim_of
from teucer.numpy._references import View

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike


def emit_pipeline(
    body: Callable[..., None],
    *,
    grid: tuple[Any, ...],
    in_specs: object = (),
    out_specs: object = (),
    tiling: object = None,
    core_axis: object = None,
    core_axis_name: object = None,
    dimension_semantics: object = None,
    trace_scopes: bool = True,
    no_pipelining: bool = False,
    output_wait_read_only: bool = False,
    _explicit_indices: bool = False,
) -> Callable[..., None]:
    """A function of references that runs `body` on their blocks, for each place of a grid.

    body: (*references to blocks of arguments, *of results) -> None; `pl.program_id` is the place in
    this grid. in_specs, out_specs: BlockSpecs, whose blocks divide the references. The rest is for
    compilers of kernels. Raises ValueError for blocks that do not divide their reference.
    """
    specs = [*_listed(in_specs), *_listed(out_specs)]

    def run(*refs: Any, scratches: Sequence[object] = (), **options: object) -> None:
        if len(refs) != len(specs):
            raise TypeError(
                f"emit_pipeline: {len(specs)} references are wanted, one for each spec, got "
                f"{len(refs)}."
            )

        def step(i: ArrayLike, _: object) -> Any:
            place: list[Any] = []
            for n in reversed(grid):
                place.append(lax.rem(i, np.int32(n)))
                i = lax.div(i, np.int32(n))
            place.reverse()
            with kernel.in_grid(place, grid):
                blocks = [_block(r, s, place) for r, s in zip(refs, specs, strict=True)]
                body(*([tuple(place)] if _explicit_indices else []), *blocks, *scratches)
            return _

        lax.fori_loop(0, math.prod(grid), step, None)

    return run


def _listed(specs: Any) -> list[BlockSpec]:
    return list(specs) if isinstance(specs, tuple | list) else [specs]


def _block(ref: Any, spec: BlockSpec, place: Sequence[object]) -> View:
    view = ref if type(ref) is View else View(ref)
    if spec.block_shape is None:
        return view
    dims = [dim_of(d) for d in spec.block_shape]
    index_map = spec.index_map or (lambda *place: (0,) * len(dims))
    found = index_map(*place)
    key: list[Any] = []
    for d, n, i in zip(
        dims, view.shape, found if isinstance(found, tuple | list) else (found,), strict=True
    ):
        if d.counts_blocks and n % d.size:
            raise ValueError(
                f"emit_pipeline: blocks of {d.size} do not divide an axis of {n}.\n"
                f"    reference: {view.aval.str_short(True)}\n"
                "  Choose blocks that do, or give the kernel blocks by pallas_call, which pads."
            )
        start = jnp.asarray(i, np.int32) * d.size if d.counts_blocks else i
        key.append(start if d.squeezed else kernel.ds(start, d.size))
    return view.at[tuple(key)]
