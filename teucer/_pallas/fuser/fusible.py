"""Functions that can be fused with the operations before and behind them.

`Fusion`, `fusible`, `custom_fusion`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

from teucer._base import tracebacks
from teucer._core import array_ops, dialects, structure
from teucer._core.calls import debug_info, flatten_call, flatten_results
from teucer._core.jaxpr import ClosedJaxpr, Eqn, jaxprs_in_params
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jit_calls import hoist_consts
from teucer._transform.jvp import jvp_jaxpr, split_tangents
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Params, Value


@dataclasses.dataclass(frozen=True)
class Fusion:
    """A fusion: a function before or behind a fusible function, with the types that it takes and
    gives.

    A fusible function gets each argument as a function without arguments, which computes the value.
    The function for its result takes the result.
    """

    # Libraries annotate with its types, as `Fusion[[int], Array]`.
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    func: Callable[..., Any]
    in_type: Any
    out_type: Any
    strict_mode: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)

    @property
    def type(self) -> Any:
        """The type of its result."""
        return self.out_type

    @property
    def shape(self) -> Any:
        """The shape of its result; of several, a tree."""
        return pytrees.tree_map(lambda a: a.shape, self.out_type)

    @property
    def dtype(self) -> Any:
        """The dtype of its result; of several, a tree."""
        return pytrees.tree_map(lambda a: a.dtype, self.out_type)

    @property
    def in_shape(self) -> Any:
        """The shapes of its arguments."""
        return pytrees.tree_map(lambda a: a.shape, self.in_type)

    @property
    def in_dtype(self) -> Any:
        """The dtypes of its arguments."""
        return pytrees.tree_map(lambda a: a.dtype, self.in_type)


class Fused(NamedTuple):
    """A fusible function in a jaxpr: the function of fusions, its trees, and which results have an
    output fusion of their own."""

    function: Callable[..., Any]
    in_tree: Any
    out_tree: Any
    prefix: Any

    def groups(self) -> list[int]:
        """For each result the output fusion that it goes through."""
        tree = pytrees.tree_structure(self.prefix)
        numbered = pytrees.tree_unflatten(tree, range(tree.num_leaves))
        return pytrees.flatten_axes("output_fusion_prefix", self.out_tree, numbered)

    def outputs(self, fusions: Sequence[Fusion | None]) -> Any:
        """Output fusions as the function takes them, None for those that do nothing."""
        return pytrees.tree_unflatten(pytrees.tree_structure(self.prefix), fusions)


def fusible(f: Callable[..., object] | None = None, *, output_fusion_prefix: object = True) -> Any:
    """A function into which `fuse` puts the computation of its arguments, and the operations on its
    results.

    f: (*input fusions, output fusions) -> results. An input is a `Fusion` that takes nothing and
        computes the argument; an output is a `Fusion` of the result, or None if nothing is done
        with it. f returns the output fusion's value of its result.
    output_fusion_prefix: True for one output fusion of all results, or a tree prefix of these with
    True for each fusion. Returns a function of arrays. Outside of `fuse` the inputs are constants
    and the outputs None.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @fusible
    ... def double(x, out):
    ...     y = 2 * x()
    ...     return y if out is None else out(y)
    >>> double(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    if f is None:
        return functools.partial(fusible, output_fusion_prefix=output_fusion_prefix)
    function, prefix = f, output_fusion_prefix
    nothing = pytrees.tree_map(lambda _: None, prefix)

    @functools.wraps(function)
    @tracebacks.boundary_of(function)
    def call(*args: Any) -> Any:
        given = flatten_call(args, {})
        info = debug_info("fusible", function, given)
        trees: list[Any] = []

        def flat(*leaves: Value) -> list[Any]:
            values, _ = given.arguments(leaves)
            outs, tree = flatten_results(
                function(*map(_constant, values), nothing), "fusible", info
            )
            trees.append(tree)
            return outs

        jaxpr, consts = stage_flat(flat, list(map(typeof, given.leaves)), info)
        in_tree = pytrees.tree_structure(tuple(args))
        what = Fused(function, in_tree, trees[0], prefix)
        outs = fusible_p.call(
            *consts, *given.leaves, jaxpr=hoist_consts(jaxpr), num_consts=len(consts), fused=what
        )
        return pytrees.tree_unflatten(trees[0], outs)

    return call


def _constant(value: Array) -> Fusion:
    return Fusion(lambda: value, ((), {}), pytrees.tree_map(typeof, value))


def _as_call(
    operands: Sequence[Any], *, jaxpr: ClosedJaxpr, num_consts: int, **params: object
) -> structure.Call:
    return structure.Call(jaxpr, operands, num_consts)


@structure.structured(structure.Call, _as_call, lambda c: dict(jaxpr=c.body, num_consts=c.consts))
class _Inlined(Primitive):
    """A primitive that carries its definition as a jaxpr; transformed, it becomes the transformed
    jaxpr."""

    __slots__ = ()
    higher_order = True
    multiple_results = True

    def types(self, *avals: Any, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(jaxpr.out_avals)

    def inlined(self, operands: Sequence[Value], params: Params) -> Any:
        return params["jaxpr"], operands

    def evaluate(self, *args: Any, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(jaxpr(*args))

    def lower(self, ctx: Any, *values: Any, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return ctx.inline(jaxpr, *values)

    def jvp(
        self, primals: Sequence[Value], tangents: Any, *, jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        moving = [type(t) is not Zero for t in tangents]
        jvp, out_moving = jvp_jaxpr(jaxpr, moving, False)
        return split_tangents(
            jvp(*primals, *(t for t, m in zip(tangents, moving, strict=True) if m)), out_moving
        )

    def batch(
        self, axis: Any, args: Sequence[Array], dims: Any, *, jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        batched, out_batched = batch_jaxpr(jaxpr, axis, [d is not None for d in dims], False)
        operands = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        return tuple(batched(*operands)), tuple(0 if b else None for b in out_batched)

    @dialects.on_low.rule
    def on_low(
        self,
        operands: Sequence[Value],
        avals: Sequence[ShapedArray],
        *,
        jaxpr: ClosedJaxpr,
        **params: object,
    ) -> Any:
        return tuple(jaxpr(*operands))


@final
class Fusible(_Inlined):
    """A call of a fusible function. jaxpr: the call without fusions; fused: data for `fuse`."""

    __slots__ = ()
    name = "fusible"


@final
class CustomFusion(_Inlined):
    """A call of a `custom_fusion`, `rules`; jaxpr: its definition."""

    __slots__ = ()
    name = "custom_fusion"


fusible_p, custom_fusion_p = Fusible(), CustomFusion()


class custom_fusion:
    """A function with rules of its own for fusing it into kernels; also a decorator.

    fun: a function of arrays. Its rules are given by the methods, each of which takes a function
    and returns it.

    >>> import teucer.numpy as jnp
    >>> @custom_fusion
    ... def offset(x):
    ...     return x + 1
    >>> rule = offset.def_pull_block_spec(lambda blocks: (blocks[0],))
    >>> offset(jnp.zeros(2))
    Array([1., 1.], dtype=float32)
    """

    pull_block_spec_rule: Callable[..., Any] | None = None
    push_block_spec_rule: Callable[..., Any] | None = None
    eval_rule: Callable[..., Any] | None = None
    pallas_impl: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[..., object]) -> None:
        self.fun = fun
        functools.update_wrapper(self, fun)

    def def_pull_block_spec(
        self, pull_block_spec_rule: Callable[..., object]
    ) -> Callable[..., Any]:
        """The rule for the BlockSpecs of the arguments, from the tuple of the results'
        BlockSpecs."""
        self.pull_block_spec_rule = pull_block_spec_rule
        return pull_block_spec_rule

    def def_push_block_spec(
        self, push_block_spec_rule: Callable[..., object]
    ) -> Callable[..., Any]:
        """The rule for the BlockSpecs of the results, from the tuple of the arguments'
        BlockSpecs."""
        self.push_block_spec_rule = push_block_spec_rule
        return push_block_spec_rule

    def def_eval_rule(self, eval_rule: Callable[..., object]) -> Callable[..., Any]:
        """Say the results on blocks: (context, *blocks) -> results; by default the function
        itself."""
        self.eval_rule = eval_rule
        return eval_rule

    def def_pallas_impl(self, pallas_impl: Callable[..., object]) -> Callable[..., Any]:
        """Set the function that kernels compute in place of this one."""
        self.pallas_impl = pallas_impl
        return pallas_impl

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from teucer._pallas import kernel  # the grid, if this is in a kernel

        fun = self.pallas_impl if self.pallas_impl is not None and kernel.inside() else self.fun
        given = flatten_call(args, kwargs)
        info = debug_info("custom_fusion", fun, given)
        trees: list[Any] = []

        def flat(*leaves: Value) -> list[Any]:
            outs, tree = flatten_results(given.apply(fun, list(leaves)), "custom_fusion", info)
            trees.append(tree)
            return outs

        jaxpr, consts = stage_flat(flat, list(map(typeof, given.leaves)), info)
        outs = custom_fusion_p.call(
            *consts, *given.leaves, jaxpr=hoist_consts(jaxpr), num_consts=len(consts), rules=self
        )
        return pytrees.tree_unflatten(trees[0], outs)


def consts_of(eqn: Eqn) -> int:
    """The number of leading operands that hold values the function closes over."""
    call: Any = structure.of(eqn)
    return int(call.consts)


def carries(primitive: Primitive, eqn: Eqn) -> bool:
    """Whether an equation is a call of a primitive, or carries one."""

    def within(eqns: Sequence[Eqn]) -> Iterator[bool]:
        for e in eqns:
            yield e.primitive is primitive or any(
                any(within(inner.eqns)) for inner in jaxprs_in_params(e.params)
            )

    return any(within([eqn]))
