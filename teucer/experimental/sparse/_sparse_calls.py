"""The rules of `sparsify` for primitives that carry jaxprs.

These become jaxprs on buffers, kept on the ones they come from.

Each is rule(evaluate, spenv, *spvalues, **params), where `evaluate` is `transform.eval_sparse`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer import lax
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._derived.custom_batching import custom_vmap_call_p
from teucer._derived.custom_jvp import custom_jvp_call_p
from teucer._derived.custom_vjp import custom_vjp_call_p
from teucer._derived.metadata import xla_metadata_call_p
from teucer._derived.remat import remat_p
from teucer._transform.jit_calls import hoisted, jit_p
from teucer._trees import pytrees
from teucer.experimental.sparse._base import JAXSparse
from teucer.experimental.sparse._spenv import SparsifyEnv, SparsifyValue, array_of, spvalue_of

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Value
    from teucer._xla.pytree import PyTree

__all__ = ["CALLS"]

Evaluate = Callable[..., list[SparsifyValue]]
Values = Sequence[SparsifyValue]


def _arrays(spenv: SparsifyEnv, values: Values) -> list[Any]:
    return [array_of(spenv, v) for v in values]


def _plain(x: Array) -> Any:
    """An array without what is known of its indices: loops and branches may change that."""
    if not isinstance(x, JAXSparse):
        return x
    bufs, aux = x.tree_flatten()
    return type(x).tree_unflatten({**aux, "indices_sorted": False, "unique_indices": False}, bufs)


def _on_buffers(
    evaluate: Evaluate, closed: ClosedJaxpr, arrays: Sequence[Value], plain: bool = False
) -> tuple[ClosedJaxpr, Any]:
    """A jaxpr as one on the buffers of its arguments, and the tree of the results; plain: results
    without what is known of their indices."""
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

    return closed.kept(("sparsify", str(tree), tuple(typeof(x) for x in bufs), plain), make)  # type: ignore[no-any-return]


def _values(spenv: SparsifyEnv, tree: PyTree, bufs: Sequence[object]) -> Values:
    return [spvalue_of(spenv, x) for x in pytrees.tree_unflatten(tree, list(bufs))]


def _jit(
    evaluate: Evaluate,
    spenv: SparsifyEnv,
    *values: SparsifyValue,
    jaxpr: ClosedJaxpr,
    donated_invars: object,
    **params: object,
) -> Values:
    arrays = _arrays(spenv, values)
    closed, tree = _on_buffers(evaluate, jaxpr, arrays)
    inner, consts = hoisted(closed)
    operands = [*consts, *pytrees.tree_leaves(arrays)]
    outs = jit_p.call(*operands, jaxpr=inner, donated_invars=(False,) * len(operands), **params)
    return _values(spenv, tree, outs)


def _calls(primitive: Primitive) -> Callable[..., Values]:
    """The rule of a primitive that evaluates its parameter `jaxpr` on its operands."""

    def rule(
        evaluate: Evaluate,
        spenv: SparsifyEnv,
        *values: SparsifyValue,
        jaxpr: ClosedJaxpr,
        **params: object,
    ) -> Values:
        arrays = _arrays(spenv, values)
        closed, tree = _on_buffers(evaluate, jaxpr, arrays)
        inner, consts = hoisted(closed)
        outs = primitive.call(*consts, *pytrees.tree_leaves(arrays), jaxpr=inner, **params)
        return _values(spenv, tree, outs)

    return rule


def _inlined(parameter: str) -> Callable[..., Values]:
    """The rule of a primitive that evaluates a jaxpr, and says how that is transformed, which
    matters to dense arrays alone."""

    def rule(
        evaluate: Evaluate, spenv: SparsifyEnv, *values: SparsifyValue, **params: Any
    ) -> Values:
        closed = params[parameter]
        return evaluate(closed.jaxpr, closed.consts, values, spenv)

    return rule


def _cond(
    evaluate: Evaluate,
    spenv: SparsifyEnv,
    index: SparsifyValue,
    *values: SparsifyValue,
    branches: Sequence[ClosedJaxpr],
    **params: object,
) -> Values:
    if index.is_sparse():
        raise NotImplementedError(
            "sparse rule for cond with a sparse predicate is not implemented.\n"
            "  Pass predicate.todense()."
        )
    arrays = _arrays(spenv, values)
    made = [_on_buffers(evaluate, branch, arrays, plain=True) for branch in branches]
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
    outs = lax.switch(spenv.data(index), functions, *pytrees.tree_leaves(arrays))
    return _values(spenv, tree, outs)


def _check_carry(
    op: str, arrays: Sequence[Value], avals: Sequence[ShapedArray], tree: PyTree
) -> None:
    bufs, before = pytrees.tree_flatten(list(arrays))
    if before != tree or [typeof(x).shape for x in bufs] != [a.shape for a in avals]:
        raise TypeError(
            f"sparsified {op} body function output must have the same type structure as its "
            f"input: the number of stored elements may not change.\n    input: {before}\n"
            f"    output: {tree}\n  Use sum_duplicates(nse=...) in the body."
        )


def _while(
    evaluate: Evaluate,
    spenv: SparsifyEnv,
    *values: SparsifyValue,
    cond_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_jaxpr: ClosedJaxpr,
    body_nconsts: int,
    **params: object,
) -> Values:
    arrays = _arrays(spenv, values)
    n = cond_nconsts + body_nconsts
    of_cond, of_body, carry = (
        arrays[:cond_nconsts],
        arrays[cond_nconsts:n],
        [_plain(x) for x in arrays[n:]],
    )
    cond, _ = _on_buffers(evaluate, cond_jaxpr, [*of_cond, *carry])
    body, tree = _on_buffers(evaluate, body_jaxpr, [*of_body, *carry], plain=True)
    _check_carry("while_loop", carry, body.out_avals, tree)
    fixed_cond, fixed_body = (pytrees.tree_leaves(x) for x in (of_cond, of_body))
    outs = lax.while_loop(
        lambda bufs: cond(*fixed_cond, *bufs)[0],
        lambda bufs: body(*fixed_body, *bufs),
        pytrees.tree_leaves(carry),
    )
    return _values(spenv, tree, outs)


def _scan(
    evaluate: Evaluate,
    spenv: SparsifyEnv,
    *values: SparsifyValue,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    length: Any,
    reverse: bool,
    unroll: Any,
    **params: object,
) -> Values:
    m = num_consts + num_carry
    if any(v.is_sparse() for v in values[m:]):
        raise NotImplementedError(
            "sparse rule for scan over the elements of a sparse array is not implemented.\n"
            "  Sparse arrays may be closed over or carried."
        )
    arrays = _arrays(spenv, values)
    consts, carry, xs = arrays[:num_consts], [_plain(x) for x in arrays[num_consts:m]], arrays[m:]
    element = [typeof(x) for x in xs]
    samples = [lax.full(a.shape[1:], 0, a.dtype) for a in element]
    body, tree = _on_buffers(evaluate, jaxpr, [*consts, *carry, *samples], plain=True)
    n = len(pytrees.tree_leaves(carry))
    states, outputs = tree.children()[:num_carry], tree.children()[num_carry:]
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
        step, pytrees.tree_leaves(carry), xs, length=length, reverse=reverse, unroll=unroll
    )
    return _values(spenv, tree, [*last, *ys])


CALLS: dict[Primitive, Callable[..., Values]] = {
    jit_p: _jit,
    remat_p: _calls(remat_p),
    xla_metadata_call_p: _calls(xla_metadata_call_p),
    custom_jvp_call_p: _inlined("call_jaxpr"),
    custom_vjp_call_p: _inlined("call_jaxpr"),
    custom_vmap_call_p: _inlined("call"),
    lax.composite_p: _inlined("jaxpr"),
    lax.cond_p: _cond,
    lax.while_p: _while,
    lax.scan_p: _scan,
}
