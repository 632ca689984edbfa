"""Functions that run on each core of a mesh of cores.

One core after the other, wherever they are not compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from teucer._base import tracebacks
from teucer._core import axes
from teucer._core.reference_types import RefType, is_part, is_reference
from teucer._core.trace import typeof
from teucer._pallas.kernel import run_scoped
from teucer._trees import pytrees
from teucer.numpy._references import empty_ref, freeze, new_ref

if TYPE_CHECKING:
    from teucer._devices.meshes import BaseMesh


class Cores(Protocol):
    """A mesh of cores: its `shape` is the size of each axis."""

    @property
    def shape(self) -> Mapping[Any, int]: ...


def _sizes(op: str, mesh: object) -> Mapping[Any, int]:
    shape = getattr(mesh, "shape", None)
    if not isinstance(shape, Mapping):
        raise TypeError(
            f"{op}: mesh is a mesh of cores, whose shape gives the size of each axis, got "
            f"{mesh!r:.100}.\n  pltpu.create_tensorcore_mesh('core', num_cores=1) makes one."
        )
    return shape


def core_map(
    mesh: Cores,
    *,
    compiler_params: object = None,
    interpret: object = False,
    debug: bool = False,
    cost_estimate: object = None,
    name: str | None = None,
    metadata: object = None,
    scratch_shapes: Any = (),
) -> Callable[[Callable[..., Any]], None]:
    """A decorator that runs a function on each core of a mesh, now. It works on references that it
    closes over.

    mesh: of cores. scratch_shapes: memory that each core gets, a sequence or a dict of scratch
    shapes. In the function `jax.lax.axis_index(axis)` says which core it is. Cores run one after
    the other, so what they exchange by semaphores must come from those before. compiler_params and
    the rest are for compilers of kernels, which are not here yet.
    """
    sizes = _sizes("core_map", mesh)

    def run(f: Callable[..., Any]) -> None:
        for place in itertools.product(*map(range, sizes.values())):
            with axes.extended(sizes, places=dict(zip(sizes, place, strict=True))):
                if isinstance(scratch_shapes, Mapping):
                    run_scoped(lambda **refs: (f(**refs), None)[1], **scratch_shapes)
                else:
                    run_scoped(lambda *refs: (f(*refs), None)[1], *scratch_shapes)

    return tracebacks.api_boundary(run)


def kernel(
    body: Callable[..., object] | None = None,
    out_type: object = (),
    *,
    mesh: BaseMesh,
    scratch_types: object = (),
    compiler_params: object = None,
    interpret: object = False,
    cost_estimate: object = None,
    debug: bool = False,
    name: str | None = None,
    metadata: object = None,
) -> Any:
    """A function of arrays and references whose body runs on each core of a mesh.

    body: (*references to arguments, *to results, *scratch); without it, a decorator. out_type: a
    tree of things with shape and dtype. References among the arguments are changed in place.
    scratch_types: memory of each core.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental.pallas import tpu as pltpu
    >>> @kernel(out_type=jax.ShapeDtypeStruct((2,), jnp.int32),
    ...     mesh=pltpu.create_tensorcore_mesh("core", num_cores=2))
    ... def add_core(x_ref, o_ref):
    ...     i = jax.lax.axis_index("core")
    ...     o_ref[i] = x_ref[i] + 10 * i
    >>> add_core(jnp.array([1, 2]))
    Array([ 1, 12], dtype=int32)
    """
    if isinstance(body, Sequence) or isinstance(mesh, Sequence):
        raise NotImplementedError(
            "pl.kernel: several bodies on several meshes are for different cores of a TPU, which "
            "are not here yet.\n  Run them one after the other, as kernels of their own."
        )
    if body is None:
        return lambda f: kernel(
            f,
            out_type,
            mesh=mesh,
            scratch_types=scratch_types,
            compiler_params=compiler_params,
            interpret=interpret,
            cost_estimate=cost_estimate,
            debug=debug,
            name=name,
            metadata=metadata,
        )

    @tracebacks.api_boundary
    def call(*args: Any) -> Any:
        given = pytrees.tree_map(
            lambda x: x if is_part(x) or is_reference(typeof(x)) else new_ref(x),
            args,
            is_leaf=is_part,
        )
        outs = pytrees.tree_map(empty_ref, out_type, is_leaf=lambda s: hasattr(s, "shape"))
        results = outs if isinstance(outs, tuple | list) else (outs,)
        named = scratch_types if isinstance(scratch_types, Mapping) else None
        shapes = (
            scratch_types
            if named is not None
            else tuple(scratch_types)
            if isinstance(scratch_types, tuple | list)
            else (scratch_types,)
        )
        core_map(mesh, scratch_shapes=shapes)(
            lambda *refs, **own: body(*given, *results, *refs, **own)
        )
        return pytrees.tree_map(freeze, outs, is_leaf=lambda r: type(typeof(r)) is RefType)

    return call
