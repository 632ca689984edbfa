"""map, associative_scan, platform_dependent, optimization_barrier, dce_sink, stage."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import tracebacks
from teucer._core import dialects
from teucer._core.high import low_types, low_values
from teucer._core.primitive import Primitive
from teucer._core.reference_types import RefType
from teucer._core.trace import Tracer, current_trace, typeof
from teucer._core.types import ShapedArray, Zero, is_valid_type
from teucer._core.typing import Array
from teucer._devices.partition import Labels
from teucer._devices.placement import placement_of
from teucer._dimensions.dimensions import is_symbolic
from teucer._lower import hlo
from teucer._optimize.effects import DCE_SINK, Effect
from teucer._transform.vmap import vmap
from teucer._trees import pytrees
from teucer.lax import _conversion, _joining, _shapes, _slicing, _structure
from teucer.lax._associative import prefixes
from teucer.lax._control.bodies import avals_of, check_branches, stage_body
from teucer.lax._control.cond import bind_branches, platform_number
from teucer.lax._control.iteration import run_scan

if TYPE_CHECKING:
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.typing import ArrayLike, Arrays, Dims, Tangents
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "associative_scan", "dce_sink", "dce_sink_p", "map", "optimization_barrier",
    "optimization_barrier_p", "platform_dependent", "platform_index_p", "stage",
]  # fmt: skip


# --- map ------------------------------------------------------------------------------------------


@tracebacks.api_boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """f of each element along the leading axis of arrays, one after the other, stacked: a loop,
    where vmap is one operation.

    xs: a tree of arrays with one leading size; f is called with an element of each, and traced
    once.
    batch_size: how many elements f is vectorised over at a time; a last smaller batch takes the
    rest. Raises ValueError if leading sizes differ, or batch_size is negative.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.lax.map(lambda x: x * x, jnp.arange(3.))
    Array([0., 1., 4.], dtype=float32)
    """
    if not callable(f):
        raise TypeError("lax.map: f argument should be a callable.")
    if not batch_size:
        return run_scan(f, (), xs, None, False, 1, "map", lambda _, x: ((), f(x)))[1]
    flat, tree = pytrees.tree_flatten(xs)
    n = _leading_size(avals_of("map", flat))
    size = operator.index(batch_size)
    if size < 0:
        raise ValueError(f"map: batch_size must be positive.\n    batch_size: {batch_size}")
    count, rest = divmod(n, size)
    outs = []
    if count:
        batches = [
            _structure.reshape(
                _slicing.slice_in_dim(x, 0, count * size), (count, size, *np.shape(x)[1:])
            )
            for x in flat
        ]
        mapped = run_scan(
            f,
            (),
            pytrees.tree_unflatten(tree, batches),
            None,
            False,
            1,
            "map of batches",
            lambda _, x: ((), vmap(f)(x)),
        )[1]
        outs.append(
            pytrees.tree_map(
                lambda y: _structure.reshape(y, (count * size, *np.shape(y)[2:])), mapped
            )
        )
    if rest or not count:
        last = [_slicing.slice_in_dim(x, count * size, n) for x in flat]
        outs.append(vmap(f)(pytrees.tree_unflatten(tree, last)))
    return (
        outs[0]
        if len(outs) == 1
        else pytrees.tree_map(lambda a, b: _joining.concatenate([a, b], 0), *outs)
    )


def _leading_size(avals: Sequence[ShapedArray]) -> Any:
    """The leading size of all operands.

    Raises ValueError if they differ, or there is none.
    """
    for aval in avals:
        if not aval.shape:
            raise ValueError(
                "map got value with no leading axis to map over: "
                f"{aval.str_short(short_dtypes=True)}."
            )
    sizes = [aval.shape[0] for aval in avals]
    if not sizes:
        raise ValueError("map got no values to map over.")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"map got values with different leading axis sizes: {', '.join(str(n) for n in sizes)}."
        )
    return sizes[0]


# --- associative_scan -----------------------------------------------------------------------------


@tracebacks.api_boundary
def associative_scan(
    fn: Callable[[Any, Any], object], elems: object, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefixes of arrays combined by an associative function, in a number of steps logarithmic
    in their size.

    fn: called as fn(a, b) on trees like `elems`, vectorised over `axis`; it must be associative.
    reverse: suffixes in the place of prefixes; fn gets the later elements first.
    Raises ValueError if sizes along `axis` differ.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.lax.associative_scan(jnp.add, jnp.arange(4))
    Array([0, 1, 3, 6], dtype=int32)

    Method: G. E. Blelloch, Prefix sums and their applications, CMU-CS-90-190 (1990).
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    flat, tree = pytrees.tree_flatten(elems)
    avals = avals_of("associative_scan", flat)
    if not avals:
        raise ValueError("associative_scan: elems is a tree without arrays.")
    at = _structure.canonical_axis(axis, avals[0].ndim)
    if any(aval.ndim <= at or aval.shape[at] != avals[0].shape[at] for aval in avals):
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. "
            f"(saw: {[aval.shape for aval in avals]})\n    axis: {axis}"
        )

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out = fn(pytrees.tree_unflatten(tree, a), pytrees.tree_unflatten(tree, b))
        leaves, out_tree = pytrees.tree_flatten(out)
        if out_tree != tree:
            raise TypeError(
                "associative_scan: fn must return a tree like its arguments.\n"
                f"    arguments: {tree}\n    result: {out_tree}"
            )
        return leaves

    xs = [_shapes.rev(x, (at,)) for x in flat] if reverse else flat
    outs = prefixes(combine, xs, at)
    if is_symbolic(avals[0].shape[at]) or avals[0].shape[at] > 1:
        outs = [_structure.convert_element_type(y, typeof(y).dtype) for y in outs]
    return pytrees.tree_unflatten(tree, [_shapes.rev(y, (at,)) for y in outs] if reverse else outs)


# --- platform_dependent ---------------------------------------------------------------------------


@final
class PlatformIndex(Primitive):
    """The number of the group of platforms that the program is compiled for; None stands for the
    others.

    (C1) there is such a group.
    """

    __slots__ = ()
    name = "platform_index"

    def types(self, *, platforms: object) -> Any:
        return (ShapedArray((), np.dtype(np.int32)),)

    def lower(self, ctx: Context, *, platforms: Any) -> Any:
        return (ctx.constant(np.int32(platform_number(platforms, ctx.platform))),)


platform_index_p = PlatformIndex()


@tracebacks.api_boundary
def platform_dependent(
    *args: object,
    default: Callable[..., object] | None = None,
    **per_platform: Callable[..., object],
) -> Any:
    """The function for the platform that the program is compiled for, applied to the arguments.

    per_platform: functions by platform: cpu, cuda, rocm, tpu. default: for the others. They return
    the same tree and types. Called with values, one of them runs. In a program all are traced and
    differentiated, and one is compiled. Raises NotImplementedError if there is none for the
    platform.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.lax.platform_dependent(2., tpu=jnp.sin, default=jnp.square)
    Array(4., dtype=float32, weak_type=True)
    """
    groups: list[Any] = [(name,) for name in per_platform]
    funs = list(per_platform.values())
    if default is not None:
        groups.append(None)
        funs.append(default)
    if not funs:
        raise ValueError("platform_dependent: give a function for a platform, or default=....")
    flat, tree = pytrees.tree_flatten(args)
    avals = avals_of("platform_dependent", flat)
    platforms = tuple(groups)
    known = [x.concrete() if isinstance(x, Tracer) else x for x in flat]
    if not current_trace().staging() and all(x is not None for x in known):
        return funs[platform_number(platforms, placement_of(known).platform)](*args)
    bodies = [stage_body(fun, "platform_dependent", tree, avals) for fun in funs]
    names = [f"the function for {group[0]}" if group else "default" for group in groups]
    check_branches("platform_dependent", funs, names, bodies)
    (index,) = platform_index_p.call(platforms=platforms)
    return bind_branches(index, bodies, flat, branches_platforms=platforms)


# --- optimization_barrier -------------------------------------------------------------------------


@final
class OptimizationBarrier(Primitive):
    """The operands, which the compiler computes before anything that depends on the results, and
    does not look through."""

    __slots__ = ()
    name = "optimization_barrier"
    multiple_results = True
    mergeable = False

    def types(self, *avals: ShapedArray) -> Any:
        return avals

    def shard(self, *avals: ShapedArray) -> Any:
        return None

    @dialects.on_low.rule
    def on_low(self, operands: Sequence[object], avals: Sequence[ShapedArray]) -> Any:
        outs = iter(
            self.call(
                *(
                    part
                    for x, aval in zip(operands, avals, strict=True)
                    for part in low_values(x, aval)
                )
            )
        )
        return tuple(
            [aval.raise_val(*itertools.islice(outs, len(low_types(aval)))) for aval in avals]
        )

    def lower(self, ctx: Context, *xs: Value) -> Any:
        return hlo.optimization_barrier(ctx, xs)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> Any:
        return self.call(*primals), self._moving(tangents)

    def transpose(self, cts: Sequence[Array | Zero], *args: Array | Undefined) -> Any:
        return self._moving(cts)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims) -> Any:
        return self.call(*args), dims

    def _moving(self, xs: Sequence[Array | Zero]) -> tuple[Any, ...]:
        outs = iter(self.call(*(x for x in xs if type(x) is not Zero)))
        return tuple(x if type(x) is Zero else next(outs) for x in xs)

    padded = dialects.through


optimization_barrier_p = OptimizationBarrier()


@tracebacks.api_boundary
def optimization_barrier(operand: Any, /) -> Any:
    """The operand, a tree of arrays, unchanged; the compiler moves no computation across it.

    Derivatives pass through a barrier of their own.

    >>> import teucer as jax
    >>> jax.lax.optimization_barrier(1.)
    Array(1., dtype=float32, weak_type=True)
    """
    flat, tree = pytrees.tree_flatten(operand)
    _check_values("optimization_barrier", flat)
    return pytrees.tree_unflatten(tree, optimization_barrier_p.call(*flat) if flat else ())


def _check_values(op: str, flat: Sequence[object]) -> None:
    for i, x in enumerate(flat):
        if not is_valid_type(x):
            raise TypeError(
                f"Error interpreting argument to {op} as a JAX value. The problematic value is of "
                f"type {type(x)} and was passed to {op} at position {i}."
            )


# --- dce_sink, stage ------------------------------------------------------------------------------


@final
class DceSink(Primitive):
    """Uses its operand, so that its computation is no dead code. prevent_mlir_dce: the compiler
    keeps it too."""

    __slots__ = ()
    name = "dce_sink"
    multiple_results = True

    def types(self, x: ShapedArray, *, prevent_mlir_dce: bool) -> tuple[()]:
        return ()

    def effects(self, x: ShapedArray, *, prevent_mlir_dce: bool) -> frozenset[Effect]:
        return frozenset({DCE_SINK})

    def evaluate(self, x: Array, *, prevent_mlir_dce: bool) -> tuple[()]:
        return ()

    def lower(self, ctx: Context, x: Value, *, prevent_mlir_dce: bool) -> tuple[()]:
        if prevent_mlir_dce:
            hlo.custom_call(ctx, "dce_sink", (x,), (), has_side_effect=True)
        return ()

    def shard(self, x: ShapedArray, **params: object) -> Labels:
        return Labels([tuple((0, axis) for axis in range(x.ndim))], [])

    def jvp(self, primals: Arrays, tangents: Tangents, **params: object) -> Any:
        return self.call(*primals, **params), ()

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return self.call(*args, **params), ()

    padded = dialects.through


dce_sink_p = DceSink()


@tracebacks.api_boundary
def dce_sink(val: object, *, prevent_mlir_dce: bool = False) -> None:
    """Keep the computation of values that nothing uses.

    val: tree of arrays. prevent_mlir_dce: the compiled program computes them too; otherwise jaxprs
    do, and the compiler may remove them. Derivatives are of what is used elsewhere.

    >>> import teucer as jax
    >>> jax.make_jaxpr(lambda x: jax.lax.dce_sink(jax.lax.sin(x)))(1.)
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        dce_sink[prevent_mlir_dce=False] b
      in () }
    """
    flat = pytrees.tree_leaves(val)
    _check_values("dce_sink", flat)
    for x in flat:
        dce_sink_p.call(x, prevent_mlir_dce=prevent_mlir_dce)


@tracebacks.api_boundary
def stage(x: ArrayLike, /) -> Array:
    """The value as one of the program that is being traced; outside of any, as an array.

    x: an array, NumPy array, or number. Where a program is recorded, NumPy arrays and numbers that
    are given become values of it, so that Python no longer knows them.
    Raises TypeError for objects that are no values, and for references.

    >>> import teucer as jax
    >>> jax.lax.stage(2.)
    Array(2., dtype=float32, weak_type=True)
    >>> jax.jit(lambda: print(jax.lax.stage(2.)))()
    JitTracer(~float32[])
    """
    _check_values("stage", [x])
    aval = typeof(x)
    if isinstance(aval, RefType):
        raise TypeError(
            f"stage: x is a reference, {aval.str_short()}; references are not staged.\n"
            "  Read it: stage(ref[...])."
        )
    if isinstance(x, Tracer):
        return x
    trace = current_trace()
    if trace.staging():
        return trace.lift(x, aval)
    return x if isinstance(x, Array) else _conversion.copy_p.call(x)[0]
