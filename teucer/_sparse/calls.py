"""The rules of `sparsify` for primitives that carry jaxprs.

These become jaxprs on buffers, kept on the ones they come from.

Each is rule(evaluate, spenv, *spvalues, **params), where `evaluate` is `transform.eval_sparse`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer import lax
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._derived.custom_batching import custom_vmap_call_p
from teucer._derived.custom_jvp import custom_jvp_call_p
from teucer._derived.custom_vjp import custom_vjp_call_p
from teucer._derived.metadata import xla_metadata_call_p
from teucer._derived.remat import remat_p
from teucer._sparse.base import JAXSparse
from teucer._sparse.spenv import SparsifyEnv, SparsifyValue, array_of, spvalue_of
from teucer._transform.jit_calls import jit_p
from teucer._trees import pytrees
from teucer.lax._control.reversal.primitive import reversed_while_p

if TYPE_CHECKING:
    from teucer._core.typing import Array, Avals, Params, Value
    from teucer._xla.pytree import PyTree


Evaluate = Callable[..., list[SparsifyValue]]
Values = Sequence[SparsifyValue]


def _arrays(spenv: SparsifyEnv, values: Values) -> list[Any]:
    return [array_of(spenv, v) for v in values]


def _plain(x: Array) -> Any:
    """An array without properties of its indices: loops and branches may change these."""
    if not isinstance(x, JAXSparse):
        return x
    bufs, aux = x.tree_flatten()
    return type(x).tree_unflatten({**aux, "indices_sorted": False, "unique_indices": False}, bufs)


def _on_buffers(
    evaluate: Evaluate, closed: ClosedJaxpr, arrays: Sequence[Value], plain: bool = False
) -> tuple[ClosedJaxpr, Any]:
    """A jaxpr as one on the buffers of its arguments, and the tree of the results; plain: results
    without properties of their indices."""
    bufs, tree = pytrees.tree_flatten(list(arrays))
    trees: list[Any] = []

    def run(*bufs: Any) -> list[Any]:
        spenv = SparsifyEnv()
        given = [spvalue_of(spenv, x) for x in pytrees.tree_unflatten(tree, bufs)]
        outs = _arrays(spenv, evaluate(closed.jaxpr, closed.consts, given, spenv))
        leaves, out_tree = pytrees.tree_flatten([_plain(y) for y in outs] if plain else outs)
        trees[:] = [out_tree]
        return leaves

    def make() -> tuple[ClosedJaxpr, Any]:
        return stage_jaxpr(run, [typeof(x) for x in bufs], closed.jaxpr.debug_info), trees[0]

    return closed.kept(("sparsify", str(tree), tuple(typeof(x) for x in bufs), plain), make)


def _values(spenv: SparsifyEnv, tree: PyTree, bufs: Sequence[object]) -> Values:
    return [spvalue_of(spenv, x) for x in pytrees.tree_unflatten(tree, list(bufs))]


def _called(primitive: Any) -> Callable[..., Values]:
    """The rule of a primitive that evaluates its parameter `jaxpr` on its operands, and stays a
    call."""

    def rule(
        evaluate: Evaluate,
        spenv: SparsifyEnv,
        *values: SparsifyValue,
        jaxpr: ClosedJaxpr,
        **params: object,
    ) -> Values:
        arrays = _arrays(spenv, values)
        closed, tree = _on_buffers(evaluate, jaxpr, arrays)
        leaves = pytrees.tree_leaves(arrays)
        return _values(
            spenv, tree, primitive.on_jaxpr(closed, leaves, params, [None] * len(leaves))
        )

    return rule


def _viewed(primitive: Primitive, rule: Callable[..., Values]) -> Callable[..., Values]:
    """A rule that is given the view of a primitive (`structure`)."""

    def on_values(
        evaluate: Evaluate, spenv: SparsifyEnv, *values: SparsifyValue, **params: Any
    ) -> Values:
        return rule(evaluate, spenv, structure.of_call(primitive, params, values), params)

    return on_values


def _inlined(
    evaluate: Evaluate, spenv: SparsifyEnv, call: structure.Call, params: Params
) -> Values:
    """Parameters about transformations of the function matter to dense arrays alone."""
    return evaluate(call.body.jaxpr, call.body.consts, call.operands, spenv)


def _branched(
    evaluate: Evaluate, spenv: SparsifyEnv, branch: structure.Branch, params: Params
) -> Values:
    if branch.index.is_sparse():
        raise NotImplementedError(
            "sparse rule for cond with a sparse predicate is not implemented.\n"
            "  Pass predicate.todense()."
        )
    arrays = _arrays(spenv, branch.operands)
    made = [_on_buffers(evaluate, program, arrays, plain=True) for program in branch.programs]
    names = (
        ["false_fun", "true_fun"] if len(made) == 2 else [f"branch {i}" for i in range(len(made))]
    )
    (first, tree), *others = made
    for (closed, own), name in zip(others, names[1:], strict=True):
        if own != tree or [a.strengthen() for a in closed.out_avals] != [
            a.strengthen() for a in first.out_avals
        ]:
            raise TypeError(
                f"sparsified {name} output must have same type structure as sparsified {names[0]} "
                f"output.\n    {name}: {own}, {closed.out_avals}\n"
                f"    {names[0]}: {tree}, {first.out_avals}"
            )
    functions = [lambda *bufs, closed=closed: closed(*bufs) for closed, _ in made]
    outs = lax.switch(spenv.data(branch.index), functions, *pytrees.tree_leaves(arrays))
    return _values(spenv, tree, outs)


def _check_carry(op: str, arrays: Sequence[Value], avals: Avals, tree: PyTree) -> None:
    bufs, before = pytrees.tree_flatten(list(arrays))
    if before != tree or [typeof(x).shape for x in bufs] != [a.shape for a in avals]:
        raise TypeError(
            f"sparsified {op} body function output must have the same type structure as its "
            f"input: the number of stored elements may not change.\n    input: {before}\n"
            f"    output: {tree}\n  Use sum_duplicates(nse=...) in the body."
        )


def _looped(evaluate: Evaluate, spenv: SparsifyEnv, loop: structure.Loop, params: Params) -> Values:
    return (_scan if loop.condition is None else _while)(evaluate, spenv, loop, params)


def _while(evaluate: Evaluate, spenv: SparsifyEnv, loop: structure.Loop, params: Params) -> Values:
    of_cond, of_body, carry = (
        _arrays(spenv, values) for values in (loop.condition_consts, loop.consts, loop.carry)
    )
    carry = list(map(_plain, carry))
    assert loop.condition is not None
    cond, _ = _on_buffers(evaluate, loop.condition, [*of_cond, *carry])
    body, tree = _on_buffers(evaluate, loop.body, [*of_body, *carry], plain=True)
    _check_carry("while_loop", carry, body.out_avals, tree)
    fixed_cond, fixed_body = (pytrees.tree_leaves(x) for x in (of_cond, of_body))
    outs = lax.while_loop(
        lambda bufs: cond(*fixed_cond, *bufs)[0],
        lambda bufs: body(*fixed_body, *bufs),
        pytrees.tree_leaves(carry),
    )
    return _values(spenv, tree, outs)


def _scan(evaluate: Evaluate, spenv: SparsifyEnv, loop: structure.Loop, params: Params) -> Values:
    if any(v.is_sparse() for v in loop.xs):
        raise NotImplementedError(
            "sparse rule for scan over the elements of a sparse array is not implemented.\n"
            "  Sparse arrays may be closed over or carried."
        )
    consts, carry, xs = (_arrays(spenv, values) for values in (loop.consts, loop.carry, loop.xs))
    carry = list(map(_plain, carry))
    element = [typeof(x) for x in xs]
    samples = [lax.full(a.shape[1:], 0, a.dtype) for a in element]
    body, tree = _on_buffers(evaluate, loop.body, [*consts, *carry, *samples], plain=True)
    n = len(pytrees.tree_leaves(carry))
    states, outputs = tree.children()[: len(carry)], tree.children()[len(carry) :]
    if any(out.num_leaves != 1 for out in outputs):
        raise NotImplementedError(
            "sparse rule for scan with sparse results for each step is not implemented.\n"
            "  Return todense() of them, or carry a sparse array."
        )
    carried = [pytrees.tree_unflatten(state, [0] * state.num_leaves) for state in states]
    _check_carry("scan", carry, body.out_avals[:n], pytrees.tree_structure(carried))
    fixed = pytrees.tree_leaves(consts)

    def step(bufs: Any, x: Any) -> tuple[Any, Any]:
        outs = body(*fixed, *bufs, *x)
        return outs[:n], outs[n:]

    last, ys = lax.scan(
        step,
        pytrees.tree_leaves(carry),
        xs,
        length=loop.length,
        reverse=loop.reverse,
        unroll=params["unroll"],
    )
    return _values(spenv, tree, [*last, *ys])


CALLS: dict[Primitive, Callable[..., Values]] = {
    **{p: _called(p) for p in (jit_p, remat_p, xla_metadata_call_p)},
    **{
        p: _viewed(p, _inlined)
        for p in (
            custom_jvp_call_p,
            custom_vjp_call_p,
            custom_vmap_call_p,
            lax.composite_p,
            reversed_while_p,
        )
    },
    lax.cond_p: _viewed(lax.cond_p, _branched),
    **{p: _viewed(p, _looped) for p in (lax.while_p, lax.scan_p)},
}
