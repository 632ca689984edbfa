"""pallas_call: a kernel, run for each place of a grid on blocks of arrays.

The kernel is traced once, to a jaxpr over references to blocks, and discharged. On the CPU, and
interpreted anywhere, the grid becomes a loop that reads blocks, runs the kernel on them, and writes
them back in place (docs/guide/pallas.md).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer import lax
from teucer._base import config, dtypes, tracebacks
from teucer._core import array_ops
from teucer._core.calls import fun_name, leaf_names, where
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.reference_types import RefEffect, RefType
from teucer._core.stage import stage_flat
from teucer._core.trace import EVAL, Tracer, typeof, using
from teucer._core.types import ShapedArray, is_valid_type
from teucer._dimensions.dimensions import is_symbolic, max_dim
from teucer._pallas import kernel as _kernel
from teucer._pallas.batching import batched
from teucer._pallas.checked import InterpretParams
from teucer._pallas.merging import lanes_of
from teucer._pallas.records import Block, Kernel
from teucer._pallas.running import run_grid, run_with_checks
from teucer._pallas.specs import BlockSpec, Dim, GridSpec, dim_of, no_block_spec
from teucer._pallas.targets import lower_kernel
from teucer._transform.batch import batch_flat
from teucer._transform.jit_calls import hoist_consts
from teucer._transform.jvp import jvp_flat
from teucer._trees import pytrees
from teucer.lax._control.bodies import run as run_program
from teucer.numpy._index_keys import Slice

if TYPE_CHECKING:
    from teucer._core.types import Aval
    from teucer._core.typing import Params, Size, Value
    from teucer._lower.context import Context
    from teucer._xla.pytree import PyTree


_INT = ShapedArray((), np.dtype(np.int32))


class _Interpreting(threading.local):
    """How kernels run that do not say so themselves: compiled (None), or interpreted (True, or an
    InterpretParams)."""

    how: Any = None


_interpreting = _Interpreting()


@contextlib.contextmanager
def interpreting(how: object) -> Iterator[None]:
    """Interpret kernels that are called meanwhile."""
    before, _interpreting.how = _interpreting.how, how
    try:
        yield
    finally:
        _interpreting.how = before


def always_interpret(how: object) -> None:
    """Interpret kernels from now on in this thread; None: no more."""
    _interpreting.how = how


@final
class PallasCall(Primitive):
    """Run a kernel over its grid.

    Operands: dynamic sizes of the grid, constants of the kernel, constants of index maps, scalars,
    arrays.
    """

    __slots__ = ()
    name = "pallas_call"
    multiple_results = True

    def types(self, *avals: Any, kernel: Kernel, **params: object) -> Any:
        return tuple([b.array for b in kernel.outs])

    def effects(self, *avals: ShapedArray, kernel: Kernel, **params: object) -> Any:
        return frozenset(e for e in kernel.jaxpr.effects if not isinstance(e, RefEffect))

    def evaluate(self, *args: Any, **params: Any) -> Any:
        if isinstance(params["interpret"], InterpretParams):
            return run_with_checks(params["kernel"], params["interpret"], args)
        return run_program(self, args, params, params["kernel"].jaxpr)

    def lower(self, ctx: Context, *values: Any, kernel: Kernel, interpret: object) -> Any:
        if isinstance(interpret, InterpretParams):
            raise NotImplementedError(
                f"pallas_call of {kernel.name}: a kernel is checked outside of jit only.\n"
                "  Call it on arrays, not in a program; or interpret it without checks: "
                "interpret=True."
            )
        return lower_kernel(ctx, kernel, values, interpret=bool(interpret))

    def jvp(
        self, primals: Sequence[Value], tangents: Any, *, kernel: Kernel, **params: object
    ) -> Any:
        return jvp_flat(
            functools.partial(run_grid, kernel, lanes=lanes_of(kernel)), primals, tangents
        )

    def batch(self, axis: Any, args: Any, dims: Any, *, kernel: Kernel, interpret: object) -> Any:
        wider = batched(kernel, axis.size, dims)
        if wider is None:
            return batch_flat(functools.partial(run_grid, kernel), axis, args, dims)
        xs = [
            x if d is None else array_ops.to_axis(x, d, axis.size, 0)
            for x, d in zip(args, dims, strict=True)
        ]
        return self.call(*xs, kernel=wider, interpret=interpret), (0,) * len(kernel.outs)


pallas_call_p = PallasCall()


# --- Tracing --------------------------------------------------------------------------------------


def pallas_call(
    kernel: Callable[..., object],
    out_shape: object,
    *,
    grid_spec: GridSpec | None = None,
    grid: object = (),
    in_specs: object = no_block_spec,
    out_specs: object = no_block_spec,
    scratch_shapes: object = (),
    input_output_aliases: Mapping[int, int] | Sequence[tuple[int, int]] = (),
    debug: bool = False,
    interpret: object = False,
    name: str | None = None,
    compiler_params: object = None,
    cost_estimate: object = None,
    metadata: object = None,
    backend: object = None,
) -> Callable[..., Any]:
    """A function of arrays that runs `kernel` for each place of a grid.

    kernel: (*references to blocks of arguments, *of results, *scratch) -> None; it reads `ref[...]`
    and writes `ref[...] = x`.
    out_shape: a tree of things with shape and dtype. grid: a size or a tuple of them; sizes may be
    traced.
    in_specs, out_specs: trees of BlockSpecs, as the arguments and results; by default each step
    sees whole arrays.
    grid_spec: all of this in one. compiler_params, cost_estimate, metadata: for compilers of
    kernels; the CPU's needs none.
    scratch_shapes: memory that stays from step to step: `pl.ANY(shape, dtype)` and its kin.
    input_output_aliases: {number of an argument, number of a result}: the result begins with the
    argument's elements.
    interpret: run as loops over blocks on any platform; on the CPU that is how kernels are
        compiled. `pl.InterpretParams(...)`: step by step, with checks of races, reads and indices.
    Steps run in order, the last axis of the grid fastest. Differentiation and vmap go through.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental import pallas as pl
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] * 2
    >>> rows = pl.BlockSpec((2,), lambda i: (i,))
    >>> f = pl.pallas_call(double, jax.ShapeDtypeStruct((6,), jnp.float32), grid=3, in_specs=[rows],
    ...     out_specs=rows)
    >>> f(jnp.arange(6.))
    Array([ 0.,  2.,  4.,  6.,  8., 10.], dtype=float32)
    """
    if not callable(kernel):
        raise TypeError(f"pallas_call: the kernel is a function, got {kernel!r:.100}")
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    elif grid not in ((), None) or in_specs is not no_block_spec or out_specs is not no_block_spec:
        raise ValueError(
            "If `grid_spec` is specified, then `grid`, `in_specs` and `out_specs` must not be."
        )
    spec = grid_spec
    traced: dict[Any, Any] = {}

    @tracebacks.api_boundary
    def call(*args: Any) -> Any:
        flat, tree = pytrees.tree_flatten(args)
        for x in flat:
            if not is_valid_type(x):
                raise TypeError(
                    f"pallas_call: Argument '{x!s:.100}' of type {type(x)} is not a valid JAX type."
                )
        key = tree, tuple(map(typeof, flat)), config.trace_context()
        found = traced.get(key)
        if found is None:
            found = _trace(
                kernel,
                out_shape,
                spec,
                dict(input_output_aliases),
                flat,
                tree,
                name,
                _Said(compiler_params, cost_estimate, metadata),
            )
            if not any(
                isinstance(x, Tracer) for x in found[1]
            ):  # a kernel that closes over traced values is not kept
                traced[key] = found
        made, operands, out_tree = found
        how = interpret or _interpreting.how
        outs = pallas_call_p.call(
            *operands,
            *flat,
            kernel=made,
            interpret=how if isinstance(how, InterpretParams) else bool(how),
        )
        return pytrees.tree_unflatten(out_tree, outs)

    return call


class _Said(NamedTuple):
    """What the caller tells compilers of kernels: options, cost, metadata."""

    options: Any
    cost: Any
    metadata: Any


def _trace(
    kernel: Callable[..., Any],
    out_shape: object,
    spec: GridSpec,
    aliases: dict[int, int],
    flat: Sequence[Any],
    tree: PyTree,
    name: str | None,
    said: _Said,
) -> tuple[Kernel, list[Any], Any]:
    """The kernel for arguments of these types, and the operands before them."""
    avals = [typeof(x) for x in flat]
    out_leaves, out_tree = pytrees.tree_flatten(out_shape)
    out_avals = [
        ShapedArray(tuple(s.shape), dtypes.canonicalize_dtype(s.dtype)) for s in out_leaves
    ]
    n_scalars, children = 0, tree.children()
    for child in children[: spec.num_scalar_prefetch]:
        n_scalars += child.num_leaves
    grid = tuple(map(_size, spec.grid))
    ins_tree = pytrees.treedef_tuple(children[spec.num_scalar_prefetch :])
    what = f"pallas_call of {fun_name(kernel)}"
    in_blocks, in_consts = _blocks(
        what,
        "input",
        _leaves(what, "in_specs", spec.in_specs, ins_tree),
        avals[n_scalars:],
        grid,
        children[: spec.num_scalar_prefetch],
        avals[:n_scalars],
    )
    out_blocks, out_consts = _blocks(
        what,
        "output",
        _leaves(what, "out_specs", spec.out_specs, out_tree),
        out_avals,
        grid,
        children[: spec.num_scalar_prefetch],
        avals[:n_scalars],
    )
    scratch, scratch_tree = pytrees.tree_flatten(
        spec.scratch_shapes, is_leaf=lambda s: hasattr(s, "shape")
    )
    scratch_refs = [
        s
        if isinstance(s, RefType)
        else s.get_ref_aval()
        if hasattr(s, "get_ref_aval")
        else RefType(ShapedArray(tuple(s.shape), s.dtype))
        for s in scratch
    ]
    refs = [
        *(RefType(a) for a in avals[:n_scalars]),
        *(RefType(b.inner, b.memory_space) for b in (*in_blocks, *out_blocks)),
        *scratch_refs,
    ]
    dynamic = [n for n in grid if type(n) is not int]
    trees = (tree, out_tree, scratch_tree)
    jaxpr, consts = _trace_kernel(kernel, what, grid, len(dynamic), refs, trees)
    for i, o in aliases.items():
        if not (0 <= i < len(avals) and 0 <= o < len(out_avals)):
            raise ValueError(
                f"{what}: input_output_aliases has {{{i}: {o}}}, for {len(avals)} inputs and "
                f"{len(out_avals)} outputs."
            )
        if (avals[i].shape, avals[i].dtype) != (out_avals[o].shape, out_avals[o].dtype):
            raise ValueError(
                f"{what}: input {i} and output {o}, which input_output_aliases makes one array, "
                f"differ in type: {avals[i].str_short()} and {out_avals[o].str_short()}."
            )
    made = Kernel(
        jaxpr,
        len(consts),
        tuple([n if type(n) is int else None for n in grid]),
        n_scalars,
        in_blocks,
        out_blocks,
        tuple([r.inner for r in scratch_refs]),
        tuple([(i - n_scalars, o) for i, o in aliases.items()]),
        name or fun_name(kernel),
        *said,
    )
    return made, [*dynamic, *consts, *in_consts, *out_consts], out_tree


def _size(n: Any) -> Any:
    """A size of a grid: an int; for a traced or symbolic size an int32 scalar."""
    if isinstance(n, Tracer) or hasattr(n, "dtype"):
        return n
    if is_symbolic(n):
        return lax.convert_element_type(n.as_array(n), np.int32)
    try:
        size = int(n.__index__())
    except AttributeError:
        raise TypeError(f"pallas_call: grid must be a tuple of ints, got {n!r}") from None
    if size < 0:
        raise ValueError(f"pallas_call: a size of the grid is negative: {size}.")
    return size


def _trace_kernel(
    kernel: Callable[..., Any],
    what: str,
    grid: Sequence[Any],
    n_dynamic: int,
    refs: Sequence[RefType],
    trees: tuple[Any, Any, Any],
) -> tuple[ClosedJaxpr, list[Any]]:
    tree, out_tree, scratch_tree = trees
    n_in, n_out = tree.num_leaves, out_tree.num_leaves

    def arguments(values: Sequence[Value]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Inputs, outputs, and scratch memory, by position or name."""
        args = pytrees.tree_unflatten(tree, values[:n_in])
        outs = pytrees.tree_unflatten(out_tree, values[n_in : n_in + n_out])
        scratch = pytrees.tree_unflatten(scratch_tree, values[n_in + n_out :])
        args = (*args, *(outs if isinstance(outs, tuple | list) else (outs,)))
        if isinstance(scratch, dict):
            return args, scratch
        return (*args, *(scratch if isinstance(scratch, tuple | list) else (scratch,))), {}

    def flat(*values: Value) -> list[Any]:
        place, rest = values[: len(grid)], values[len(grid) :]
        given = iter(rest[:n_dynamic])
        args, named = arguments(rest[n_dynamic:])
        with _kernel.in_grid(place, [n if type(n) is int else next(given) for n in grid]):
            result = kernel(*args, **named)
        if pytrees.tree_leaves(result):
            raise ValueError(
                f"The kernel function in the {what} should return None. It returns a PyTree: "
                f"{pytrees.tree_structure(result)}.\n    kernel: {where(kernel)}\n"
                "  Write results to its references."
            )
        return []

    args, named = arguments([0] * len(refs))
    _check_takes(
        f"{what}: the kernel does not take its {len(refs)} references (inputs: {n_in}, outputs: "
        f"{n_out}, scratch memory: {len(refs) - n_in - n_out})",
        "kernel",
        kernel,
        args,
        named,
    )
    names = [
        *(f"pl.program_id({i})" for i in range(len(grid))),
        *["grid"] * n_dynamic,
        *leaf_names(kernel, pytrees.tree_structure((args, named))),
    ]
    jaxpr, consts = stage_flat(
        flat, [_INT] * (len(grid) + n_dynamic) + list(refs), DebugInfo(kernel, names, "pallas_call")
    )
    return hoist_consts(jaxpr), consts


def _leaves(what: str, name: str, specs: object, tree: PyTree) -> list[BlockSpec]:
    """A spec for each leaf."""
    if specs is no_block_spec:
        return [BlockSpec()] * tree.num_leaves
    if tree.num_leaves == 1 and isinstance(specs, BlockSpec):
        return [specs]
    leaves = pytrees.tree_leaves(specs)
    if len(leaves) == tree.num_leaves and all(isinstance(s, BlockSpec) for s in leaves):
        return leaves
    try:
        found = pytrees.flatten_axes(name, tree, specs)
    except ValueError as err:
        raise ValueError(
            f"{what}: Pytree for `{name}` and {'inputs' if name == 'in_specs' else 'out_shape'} "
            f"do not match.\n    {name}: {pytrees.tree_structure(specs)}\n    expected: {tree}"
        ) from err
    return [BlockSpec() if s is no_block_spec or s is None else s for s in found]


def _blocks(
    what: str,
    kind: str,
    specs: Sequence[BlockSpec],
    avals: Sequence[ShapedArray],
    grid: Sequence[object],
    scalar_trees: Sequence[object],
    scalars: Sequence[object],
) -> tuple[tuple[Block, ...], list[Any]]:
    blocks, consts = [], []
    for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
        block, own = _block(f"{what}: {kind} {i}", spec, aval, grid, scalar_trees, scalars)
        blocks.append(block)
        consts += own
    return tuple(blocks), consts


def _block(
    what: str,
    spec: BlockSpec,
    aval: Aval,
    grid: Sequence[Any],
    scalar_trees: Sequence[Any],
    scalars: Sequence[Any],
) -> tuple[Block, list[Any]]:
    if not isinstance(spec, BlockSpec):
        raise TypeError(f"{what}: expected a BlockSpec, got {spec!r:.100}")
    shape = aval.shape if spec.block_shape is None else spec.block_shape
    if len(shape) != len(aval.shape):
        raise ValueError(
            f"{what}: block_shape {tuple(shape)} must have the same number of dimensions as the "
            f"array shape {aval.shape}."
        )
    dims = tuple(map(dim_of, shape))
    array = ShapedArray(aval.shape, aval.dtype)
    if spec.index_map is None or (not grid and not scalar_trees):
        covers = all(
            (d.size == n and not d.squeezed) or (d.squeezed and n == 1)
            for d, n in zip(dims, aval.shape, strict=True)
        )
        if covers and spec.index_map is None:
            return Block(array, dims, None, 0, spec.memory_space, spec.pipeline_mode), []
    index_map = spec.index_map or (lambda *place: (0,) * len(dims))
    n = len(grid)

    def flat(*values: Any) -> list[Any]:
        rest, trees = list(values[n:]), []
        for tree in scalar_trees:
            trees.append(pytrees.tree_unflatten(tree, rest[: tree.num_leaves]))
            rest = rest[tree.num_leaves :]
        found = index_map(*values[:n], *trees)
        found = (
            tuple(found)
            if isinstance(found, tuple | list) and not isinstance(found, Slice)
            else (found,)
        )
        if len(found) != len(dims):
            raise ValueError(
                f"{what}: index_map must return {len(dims)} values to match block_shape "
                f"{tuple(shape)}, but returned {len(found)}: {found}.\n"
                f"    index_map: {where(index_map)}"
            )
        starts = [i.start if isinstance(i, Slice) else i for i in found]
        for i in starts:
            if typeof(i).shape or not dtypes.issubdtype(typeof(i).dtype, np.integer):
                raise ValueError(
                    f"{what}: index_map must return integer scalars, but returned "
                    f"{typeof(i).str_short()}.\n    index_map: {where(index_map)}"
                )
        return [lax.convert_element_type(i, np.int32) for i in starts]

    more = f" and {len(scalar_trees)} arguments given before" if scalar_trees else ""
    _check_takes(
        f"{what}: index_map does not take what it is given, the place in a grid of {n} axes{more}",
        "index_map",
        index_map,
        (None,) * (n + len(scalar_trees)),
        {},
    )
    jaxpr, consts = stage_flat(
        flat, [_INT] * n + [RefType(a) for a in scalars], DebugInfo(index_map, (), "index_map")
    )
    index = hoist_consts(jaxpr)
    if any(not d.counts_blocks for d in dims):
        dims = _with_room(dims, aval.shape, None if consts or scalars else _all_starts(index, grid))
    block = Block(array, dims, index, len(consts), spec.memory_space, spec.pipeline_mode)
    return block, list(consts)


def _check_takes(
    problem: str, kind: str, function: Callable[..., object], args: Sequence[Value], named: Params
) -> None:
    """Raise TypeError unless a function takes the arguments that it is to be given."""
    try:
        signature = inspect.signature(function)
        signature.bind(*args, **named)
    except TypeError as err:
        raise TypeError(f"{problem}: {err}.\n    {kind}: {where(function)}") from None
    except ValueError:  # a function of C says nothing of its parameters
        return


def _all_starts(index: ClosedJaxpr, grid: Sequence[Any]) -> list[Any] | None:
    """Where blocks begin in all steps of a grid, an array for each axis; None where it is not known
    yet."""
    if any(type(n) is not int for n in grid) or math.prod(grid) == 0:
        return None
    place = [np.asarray(i, np.int32).reshape(-1) for i in np.indices(grid)]
    try:  # index maps are mostly made of elementwise operations, which take all steps at once
        with using(EVAL):
            return list(map(np.asarray, index(*place)))
    except (TypeError, ValueError):
        return None


def _with_room(
    dims: Sequence[Dim], shape: Sequence[Size], starts: list[Any] | None
) -> tuple[Dim, ...]:
    """The axes whose blocks count elements, with padding behind the array so that all blocks lie
    within."""
    found = []
    for axis, (d, n) in enumerate(zip(dims, shape, strict=True)):
        if not d.counts_blocks:
            before, behind = d.padding
            needed = d.size - 1 if starts is None else int(starts[axis].max()) + d.size - n - before
            if is_symbolic(needed) or needed > behind:
                d = d._replace(padding=(before, max_dim(needed, behind)))
        found.append(d)
    return tuple(found)
