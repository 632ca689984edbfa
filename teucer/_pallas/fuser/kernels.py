"""Functions for kernels with output fusions: the blocks of both sides at once, references that a
fusion reads and writes, and values without blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from teucer._base import tracebacks
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr
from teucer._core.reference_types import RefType
from teucer._dialects.references.discharge import discharged
from teucer._pallas.fuser.blocks import pull_block_spec, push_block_spec
from teucer._pallas.fuser.fusing import Values, says_where, traced, without_calls
from teucer._pallas.specs import BlockSpec, no_block_spec
from teucer._trees import pytrees
from teucer.lax._structure import transpose_p


@tracebacks.api_boundary
def push_pull_block_spec(
    f: Callable[..., object],
    *block_specs: object,
    scalar_prefetch_handler: Any = None,
    grid_len: int | None = None,
    **block_spec_kwargs: object,
) -> Callable[..., Any]:
    """For an output fusion (values, *outputs of the kernel) -> results, the BlockSpecs of its
    results and of the values, from the BlockSpecs of the outputs.

    f: the result of `get_fusion_values`. block_specs, block_spec_kwargs: the BlockSpecs of the
    outputs.
    scalar_prefetch_handler, grid_len: as of `pull_block_spec`.
    Returns a function of (values, *outputs), arrays or types of them. It gives five things: the
    function for the kernel, (place in the grid, scalars, values, *blocks) -> blocks of the results;
    the BlockSpecs of the values; those of the outputs by keyword; the types of the results, and
    their BlockSpecs.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental import pallas as pl
    >>> out = jax.ShapeDtypeStruct((8, 4), jnp.float32)
    >>> scale = jnp.ones((8, 4))
    >>> from teucer.experimental.pallas import fuser
    >>> function, values, _ = fuser.get_fusion_values(lambda y: y * scale, out)
    >>> ask = push_pull_block_spec(function, pl.BlockSpec((2, 4), lambda i: (i, 0)))
    >>> _, (spec,), _, result, _ = ask(values, out)
    >>> spec.block_shape, spec.index_map(3), result.shape
    ((2, 4), (3, 0), (8, 4))
    """

    def ask(values: object, *args: object, **kwargs: object) -> tuple[Any, Any, Any, Any, Any]:
        out_specs, out_type = push_block_spec(
            f,
            no_block_spec,
            *block_specs,
            scalar_prefetch_handler=scalar_prefetch_handler,
            grid_len=grid_len,
            return_out_type=True,
            **block_spec_kwargs,
        )(values, *args, **kwargs)
        kernel, (value_specs, *_), kwarg_specs = pull_block_spec(
            f,
            out_specs,
            scalar_prefetch_handler=scalar_prefetch_handler,
            grid_len=grid_len,
            strict_mode=False,
        )(values, *args, **kwargs)
        return kernel, value_specs, kwarg_specs, out_type, out_specs

    return ask


def _is_spec(x: object) -> bool:
    return x is None or x is no_block_spec or isinstance(x, BlockSpec)


def filter_no_block_specs(values: object, block_specs: object) -> tuple[Any, Any]:
    """Values and BlockSpecs, two trees of one structure, with None where there is no_block_spec.

    >>> filter_no_block_specs((1, 2), (no_block_spec, BlockSpec()))[0]
    (None, 2)
    """
    specs, tree = pytrees.tree_flatten(block_specs, is_leaf=_is_spec)
    kept = [spec is not no_block_spec for spec in specs]
    found = [x if k else None for x, k in zip(tree.flatten_up_to(values), kept, strict=True)]
    left = [spec if k else None for spec, k in zip(specs, kept, strict=True)]
    return pytrees.tree_unflatten(tree, found), pytrees.tree_unflatten(tree, left)


def block_spec_with_prefetch(block_specs: object, scalar_prefetch_smem_refs: Sequence[Any]) -> Any:
    """BlockSpecs whose index maps take the place in the grid alone, from BlockSpecs whose maps also
    take the scalars of the kernel.

    block_specs: a tree. scalar_prefetch_smem_refs: the scalars.

    >>> spec = BlockSpec((2,), lambda i, at: (i + at[0],))
    >>> block_spec_with_prefetch(spec, ([5],)).index_map(1)
    (6,)
    """
    scalars = tuple(scalar_prefetch_smem_refs)

    def with_scalars(spec: Any) -> Any:
        if not isinstance(spec, BlockSpec) or spec.index_map is None:
            return spec
        index_map = spec.index_map
        return spec.replace(index_map=lambda *place: index_map(*place, *scalars))

    return pytrees.tree_map(with_scalars, block_specs, is_leaf=_is_spec)


@tracebacks.api_boundary
def evaluate(f: Callable[..., object], *, allow_transpose: bool = True) -> Callable[..., Any]:
    """A function of blocks, for the body of a fused kernel, run operation by operation.

    It takes arguments by position alone. The functions that it makes raise NotImplementedError
    where f has a loop or a branch, and ValueError where it transposes and `allow_transpose` is
    false.

    >>> import teucer.numpy as jnp
    >>> evaluate(lambda x: 2 * x + 1)(jnp.arange(2.0))
    Array([1., 3.], dtype=float32)
    """

    def run(*args: object) -> Any:
        leaves, closed, tree = traced("fuser.evaluate", f, f, args, {})
        for eqn in closed.jaxpr.eqns:
            if structure.kind_of(eqn.primitive) in (structure.Loop, structure.Branch):
                raise NotImplementedError(
                    f"fuser.evaluate: Primitive {eqn.primitive.name} not supported.{eqn.where()}\n"
                    "  Loops and branches belong into the kernel itself."
                )
            if eqn.primitive is transpose_p and not allow_transpose:
                raise ValueError(
                    f"fuser.evaluate: Transpose not allowed.{eqn.where()}\n"
                    "  Transpose before the kernel, or give allow_transpose=True."
                )
        return pytrees.tree_unflatten(tree, eval_jaxpr(closed.jaxpr, closed.consts, *leaves))

    return run


# --- References -----------------------------------------------------------------------------------


def _on_arrays(
    what: str, fusion: Callable[..., object], args: Any, kwargs: Any, *, writes: bool
) -> tuple[Values, dict[int, int]]:
    """A fusion on the arrays of its references; and a map from its results that are last arrays of
    references to the places of these among its values and arguments."""
    _, closed, tree = traced(what, fusion, fusion, args, kwargs)
    closed = without_calls(closed)
    own = closed.jaxpr
    inputs = [*own.constvars, *own.invars]
    is_scalar = [v in says_where(own) for v in own.constvars]
    groups = [i if type(v.aval) is RefType else None for i, v in enumerate(inputs)]
    found = discharged(
        ClosedJaxpr(own.replace(constvars=[], invars=inputs)), groups, None if writes else ()
    )
    # Scalars are no values of the kernel, so that the places of the others move.
    scalars_before = [sum(is_scalar[:i]) for i in range(len(inputs))]
    aliases = {found.n_outs + k: g - scalars_before[g] for k, g in enumerate(found.changed)}
    pure, n = found.jaxpr.jaxpr, len(own.constvars)
    if found.changed:
        outs = pytrees.tree_unflatten(tree, [0] * tree.num_leaves)
        tree = pytrees.tree_structure((outs, (0,) * len(found.changed)))
    pure = pure.replace(constvars=[*pure.invars[:n], *pure.constvars], invars=pure.invars[n:])
    consts = [*closed.consts, *found.jaxpr.consts]
    is_scalar += [False] * len(found.jaxpr.consts)
    return Values(ClosedJaxpr(pure, consts), tree, is_scalar), aliases


@tracebacks.api_boundary
def get_stateful_input_fusion_values(
    fusion: Callable[..., object], *args: object, **kwargs: object
) -> tuple[Values, tuple[Any, ...], tuple[Any, ...]]:
    """As `get_fusion_values`, for a fusion that reads references: the values have the references,
    and the function takes their arrays. Writes of the fusion are lost.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> ref = jax.new_ref(jnp.arange(2.0))
    >>> function, values, _ = get_stateful_input_fusion_values(lambda: ref[...] + 1)
    >>> values[0] is ref, function((ref[...],))
    (True, Array([1., 2.], dtype=float32))
    """
    found, _ = _on_arrays("get_stateful_input_fusion_values", fusion, args, kwargs, writes=False)
    return found, found.values, found.scalars


@tracebacks.api_boundary
def get_stateful_output_fusion_values(
    fusion: Callable[..., object], *args: object, **kwargs: object
) -> tuple[Values, tuple[Any, ...], tuple[Any, ...], dict[int, int]]:
    """As `get_fusion_values`, of a fusion that reads and writes references.

    The function takes arrays in place of references. If it writes references, it returns (results,
    the last arrays of these references). The fourth result maps the place of a last array among all
    results to the place of its reference among values and arguments.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> ref = jax.new_ref(jnp.zeros(2))
    >>> def fusion(y):
    ...     ref[...] = y
    ...     return 2 * y
    >>> y = jnp.ones(2)
    >>> function, values, _, aliases = get_stateful_output_fusion_values(fusion, y)
    >>> function((ref[...],), y), aliases
    ((Array([2., 2.], dtype=float32), (Array([1., 1.], dtype=float32),)), {1: 0})
    """
    found, aliases = _on_arrays(
        "get_stateful_output_fusion_values", fusion, args, kwargs, writes=True
    )
    return found, found.values, found.scalars, aliases
