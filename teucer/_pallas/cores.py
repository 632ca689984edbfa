"""Functions that run on each core of a mesh of cores.

One core after the other, wherever they are not compiled.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._core import axes
from teucer._core.calls import fun_name
from teucer._core.jaxpr import Jaxpr, eval_jaxpr
from teucer._core.reference_types import RefType, is_part, is_reference
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._pallas.call import pallas_call
from teucer._pallas.kernel import in_grid, num_programs, program_id, when
from teucer._pallas.specs import ANY, BlockSpec
from teucer._trees import pytrees
from teucer.numpy._references import empty_ref, freeze, get, new_ref
from teucer.numpy._references import set as put

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
    shapes. In the function `jax.lax.axis_index(axis)` says which core it is. Interpreted, cores run
    one after the other, so what they exchange by semaphores must come from those before.
    compiler_params and the rest: as `pallas_call` takes them.
    """
    sizes = _sizes("core_map", mesh)
    names, places = list(sizes), list(itertools.product(*map(range, sizes.values())))

    def run(f: Callable[..., Any]) -> None:
        shapes, tree = pytrees.tree_flatten(scratch_shapes, is_leaf=lambda s: hasattr(s, "shape"))

        def traced(place: Sequence[int]) -> tuple[Jaxpr, list[Any]]:
            def flat(*own: Any) -> list[Any]:
                given = pytrees.tree_unflatten(tree, own)
                with _on_core(sizes, place):
                    if isinstance(given, Mapping):
                        f(**given)
                    else:
                        f(*(given if isinstance(given, tuple | list) else (given,)))
                return []

            with in_grid([np.int32(i) for i in place], list(sizes.values())):
                jaxpr, consts = stage_flat(flat, [_reference(s) for s in shapes])
            return jaxpr, list(consts)

        bodies = [traced(place) for place in places]
        refs: dict[int, Any] = {}
        for _, consts in bodies:
            refs.update((id(c), c) for c in consts if is_reference(typeof(c)))

        def on_cores(*memory: Any) -> None:
            n = len(refs)
            own = memory[2 * n :]
            here = dict(zip(refs, memory[n : 2 * n], strict=True))
            for place, (jaxpr, consts) in zip(places, bodies, strict=True):
                given = [here.get(id(c), c) for c in consts]

                @when(_is_at(place))
                def _(jaxpr: Jaxpr = jaxpr, given: list[Any] = given) -> None:
                    eval_jaxpr(jaxpr, given, *own)

        kept = list(refs.values())
        outs = pallas_call(
            on_cores,
            [typeof(r).inner for r in kept],
            grid=tuple(sizes.values()),
            in_specs=[_ANYWHERE] * len(kept),
            out_specs=[_ANYWHERE] * len(kept),
            scratch_shapes=shapes,
            input_output_aliases={k: k for k in range(len(kept))},
            interpret=interpret,
            name=name or fun_name(f),
            compiler_params=_parallel(compiler_params, len(names)),
            cost_estimate=cost_estimate,
            metadata=metadata,
        )(*(get(r) for r in kept))
        for ref, value in zip(kept, outs, strict=True):
            put(ref, ..., value)

    return tracebacks.api_boundary(run)


_ANYWHERE = BlockSpec(memory_space=ANY)


def _reference(shape: Any) -> RefType:
    """The type of a reference to scratch memory."""
    if isinstance(shape, RefType):
        return shape
    found: RefType = shape.get_ref_aval()
    return found


def _on_core(sizes: Mapping[Any, int], place: Sequence[int]) -> axes.extended:
    return axes.extended(sizes, places=dict(zip(sizes, place, strict=True)))


def _is_at(place: Sequence[int]) -> Any:
    """Whether the step that runs is that of a core."""
    if not any(num_programs(i) > 1 for i in range(len(place))):
        return True
    here: Any = np.bool_(True)
    for axis, i in enumerate(place):
        here = jnp.logical_and(here, program_id(axis) == i)
    return here


def _parallel(options: Any, rank: int) -> Any:
    """Options of a compiler by which steps run on cores of their own."""
    if options is None:
        return OnCores(("parallel",) * rank)
    if getattr(options, "dimension_semantics", ()) is None:
        return options.replace(dimension_semantics=("parallel",) * rank)
    return options


@dataclasses.dataclass(frozen=True)
class OnCores:
    """Options of a compiler of kernels: which axes of the grid are cores."""

    dimension_semantics: tuple[str, ...]

    def replace(self, **changes: Any) -> OnCores:
        """The options with some of them changed."""
        return dataclasses.replace(self, **changes)


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
        leaves = pytrees.tree_leaves(args, is_leaf=is_part)
        if not any(is_part(x) or is_reference(typeof(x)) for x in leaves):
            return _on_arrays(args)
        given = pytrees.tree_map(
            lambda x: x if is_part(x) or is_reference(typeof(x)) else new_ref(x),
            args,
            is_leaf=is_part,
        )
        outs = pytrees.tree_map(empty_ref, out_type, is_leaf=lambda s: hasattr(s, "shape"))
        results = outs if isinstance(outs, tuple | list) else (outs,)
        core_map(
            mesh,
            compiler_params=compiler_params,
            interpret=interpret,
            cost_estimate=cost_estimate,
            name=name or fun_name(body),
            metadata=metadata,
            scratch_shapes=_memory(scratch_types),
        )(lambda *refs, **own: body(*given, *results, *refs, **own))
        return pytrees.tree_map(freeze, outs, is_leaf=lambda r: type(typeof(r)) is RefType)

    def _on_arrays(args: tuple[Any, ...]) -> Any:
        sizes = _sizes("pl.kernel", mesh)

        def on_cores(*refs: Any, **own: Any) -> None:
            for place in itertools.product(*map(range, sizes.values())):

                @when(_is_at(place))
                def _(place: Sequence[int] = place) -> None:
                    with _on_core(sizes, place):
                        body(*refs, **own)

        return pallas_call(
            on_cores,
            out_type,
            grid=tuple(sizes.values()),
            in_specs=pytrees.tree_map(lambda x: _ANYWHERE, args),
            out_specs=pytrees.tree_map(
                lambda s: _ANYWHERE, out_type, is_leaf=lambda s: hasattr(s, "shape")
            ),
            scratch_shapes=_memory(scratch_types),
            interpret=interpret,
            name=name or fun_name(body),
            compiler_params=_parallel(compiler_params, len(sizes)),
            cost_estimate=cost_estimate,
            metadata=metadata,
        )(*args)

    return call


def _memory(types: Any) -> Any:
    if isinstance(types, Mapping):
        return dict(types)
    return tuple(types) if isinstance(types, tuple | list) else (types,)
