"""while_loop: a loop as long as a condition holds.

Reverse mode is in `reversal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._base import config, errors, tracebacks
from teucer._core import array_ops, dialects, structure
from teucer._core.calls import fun_name, where
from teucer._core.jaxpr import ClosedJaxpr, Eqn
from teucer._core.primitive import Primitive
from teucer._core.reference_types import at_operands
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._dialects.high.lowering import lowered, put_back, refuse_mutable, taken_apart
from teucer._dialects.references.discharge import discharged
from teucer._lower import hlo
from teucer._lower.context import Value
from teucer._optimize.dce import dce_closed, narrowed
from teucer._optimize.unchanged import unchanged
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jvp import jvp_jaxpr, split_tangents
from teucer._trees import pytrees
from teucer.lax import _dynamic, _extremes, _reductions, _selection, _structure
from teucer.lax._control.bodies import (
    Body,
    avals_of,
    check_carry,
    hoisted,
    immutable,
    jaxprs_use_axis,
    order_in,
    order_out,
    parameter_names,
    refuse_io,
    reordered,
    run,
    set_order,
    settle_carry,
    split_list,
    stage_body,
)
from teucer.lax._control.reversal.counted import partially_evaluated

if TYPE_CHECKING:
    from teucer._core.high import AvalQDD
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.typing import Array, ArrayLike, Arrays, Avals, Dims, Params, Tangents, Values
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._transform.partial import PartialTrace
    from teucer._xla.pytree import PyTreeDef

    class WhileParams(TypedDict):
        body_jaxpr: ClosedJaxpr
        body_nconsts: int
        cond_jaxpr: ClosedJaxpr
        cond_nconsts: int


__all__ = ["while_loop", "while_p"]

_BOOL = ShapedArray((), np.dtype(bool))


def _as_loop(
    operands: Sequence[Any],
    *,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> structure.Loop:
    cond_consts, consts, carry = split_list(operands, cond_nconsts, body_nconsts)
    return structure.Loop(
        body_jaxpr, consts, carry, condition=cond_jaxpr, condition_consts=cond_consts
    )


def _as_params(loop: structure.Loop) -> dict[str, Any]:
    return {
        "cond_jaxpr": loop.condition,
        "body_jaxpr": loop.body,
        "cond_nconsts": len(loop.condition_consts),
        "body_nconsts": len(loop.consts),
    }


@structure.structured(structure.Loop, _as_loop, _as_params)
@final
class While(Primitive):
    """Apply body_jaxpr to the carry while cond_jaxpr of it is true.

    Operands are the consts of cond_jaxpr, the consts of body_jaxpr, and the carry; results are the
    last carry. (C1) neither jaxpr has constants; body_jaxpr returns a carry of the types that it
    takes. (C2) cond_jaxpr returns a boolean scalar.
    """

    __slots__ = ()
    name = "while"
    multiple_results = True
    higher_order = True

    def types(
        self, *avals: ShapedArray, body_jaxpr: ClosedJaxpr, body_nconsts: int, **params: object
    ) -> Any:
        return tuple(body_jaxpr.out_avals)

    def effects(
        self,
        *avals: ShapedArray,
        cond_jaxpr: ClosedJaxpr,
        body_jaxpr: ClosedJaxpr,
        cond_nconsts: int = 0,
        **params: object,
    ) -> Any:
        return at_operands(cond_jaxpr.effects, cond_jaxpr.jaxpr.invars) | at_operands(
            body_jaxpr.effects, body_jaxpr.jaxpr.invars, cond_nconsts
        )

    @dialects.on_values.rule
    def on_values(
        self, operands: Arrays, groups: tuple[int | None, ...], **params: Unpack[WhileParams]
    ) -> Any:
        """An array that the body changes is carried; the condition reads it there."""
        body_nconsts = params["body_nconsts"]
        m = params["cond_nconsts"]
        found = discharged(params["body_jaxpr"], groups[m:])
        body, changed, k = found.jaxpr, found.changed, len(found.changed)
        cond = discharged(params["cond_jaxpr"], groups[:m] + groups[m + body_nconsts :]).jaxpr
        fixed = [
            [i for i in places if groups[i] is None or groups[i] not in changed]
            for places in (range(m), range(m, m + body_nconsts))
        ]
        at: dict[int | None, int] = {g: i for i, g in enumerate(changed)}

        def rearranged(
            inner: ClosedJaxpr, own: Sequence[int], places: Sequence[int], carried_last: bool
        ) -> ClosedJaxpr:
            def call(*args: Array) -> list[Any]:
                given, (state, carry) = (
                    dict(zip(own, args, strict=False)),
                    split_list(args[len(own) :], k),
                )
                taken = [given[i] if i in given else state[at[groups[i]]] for i in places]
                outs = inner(*taken, *carry)
                return [*outs[len(outs) - k :], *outs[: len(outs) - k]] if carried_last else outs

            avals = [typeof(operands[i]) for i in own] + [
                body.out_avals[len(body.out_avals) - k + i] for i in range(k)
            ]
            return stage_jaxpr(call, [*avals, *inner.in_avals[len(places) :]])

        cond, cond_extra = hoisted(rearranged(cond, fixed[0], range(m), False))
        body, body_extra = hoisted(rearranged(body, fixed[1], range(m, m + body_nconsts), True))
        first = [operands[groups.index(g)] for g in changed]
        outs = self.call(
            *cond_extra,
            *(operands[i] for i in fixed[0]),
            *body_extra,
            *(operands[i] for i in fixed[1]),
            *first,
            *operands[m + body_nconsts :],
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=len(cond_extra) + len(fixed[0]),
            body_nconsts=len(body_extra) + len(fixed[1]),
        )
        return outs[k:], dict(zip(changed, outs[:k], strict=True))

    @dialects.on_low.rule
    def on_low(
        self, operands: Sequence[object], avals: Sequence[AvalQDD], **params: Unpack[WhileParams]
    ) -> Any:
        """Constants that change are in references, which condition and body share."""
        cond_nconsts = params["cond_nconsts"]
        m = cond_nconsts + params["body_nconsts"]
        refuse_mutable(self, avals[m:])
        refs: dict[int, list[Any]] = {}
        given = taken_apart(operands, avals, refs)
        low_cond, low = (
            lowered(params["cond_jaxpr"], in_place=True),
            lowered(params["body_jaxpr"], in_place=True),
        )
        (cond, cond_extra), (body, body_extra) = hoisted(low_cond.jaxpr), hoisted(low.jaxpr)
        k, n = given.count(0, cond_nconsts), given.count(cond_nconsts, m)
        outs = self.call(
            *cond_extra,
            *given.low[:k],
            *body_extra,
            *given.low[k:],
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=len(cond_extra) + k,
            body_nconsts=len(body_extra) + n,
        )
        put_back(operands, avals, refs)
        return low.raised(outs, operands)

    def evaluate(self, *args: object, **params: Unpack[WhileParams]) -> Any:
        return run(self, args, params, params["body_jaxpr"])

    def lower(self, ctx: Context, *values: object, **params: Unpack[WhileParams]) -> Any:
        cond_jaxpr, body_jaxpr, body_nconsts = (
            params["cond_jaxpr"],
            params["body_jaxpr"],
            params["body_nconsts"],
        )
        cond_consts, body_consts, carry = split_list(values, params["cond_nconsts"], body_nconsts)
        avals = body_jaxpr.in_avals[body_nconsts:]
        order = order_in(ctx, self.effects(cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr))
        n = len(carry)
        state = [Value(v.name, aval) for v, aval in zip(carry, avals, strict=True)] + order
        if not state:  # XLA's while has a state; this one counts nothing
            state = [ctx.constant(np.int32(0))]

        def cond(*xs: Any) -> Any:
            set_order(ctx, xs[n:] if order else ())
            return ctx.inline(cond_jaxpr, *cond_consts, *xs[:n], under="while/cond")

        def body(*xs: Any) -> Any:
            set_order(ctx, xs[n:] if order else ())
            outs = ctx.inline(body_jaxpr, *body_consts, *xs[:n], under="while/body")
            return (*outs, *(order_out(ctx, order) or xs[n:]))

        outs = hlo.while_(ctx, state, cond, body)
        set_order(ctx, outs[n:] if order else ())
        return outs[:n]

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Tangents, **params: Unpack[WhileParams]
    ) -> Any:
        cond_nconsts, body_nconsts = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts, init = split_list(primals, cond_nconsts, body_nconsts)
        _, consts_dot, init_dot = split_list(tangents, cond_nconsts, body_nconsts)
        consts_moving = [type(t) is not Zero for t in consts_dot]
        moving = [type(t) is not Zero for t in init_dot]
        while True:
            body, out_moving = jvp_jaxpr(params["body_jaxpr"], [*consts_moving, *moving], moving)
            if out_moving == moving:
                break
            moving = out_moving
        body, hoisted_consts = hoisted(body)
        h, n_consts, n = len(hoisted_consts), len(body_consts), len(init)
        n_dots = sum(consts_moving)
        # Inputs (consts, carry, tangents of consts, tangents of carry) become (consts, their
        # tangents, carry, its tangents).
        at = h + n_consts + n
        order = [
            *range(h + n_consts),
            *range(at, at + n_dots),
            *range(h + n_consts, at),
            *range(at + n_dots, at + n_dots + sum(moving)),
        ]
        body = reordered(body, order, range(len(body.out_avals)))
        cond = _ignoring(params["cond_jaxpr"], body.in_avals[len(body.in_avals) - sum(moving) :])
        outs = self.call(
            *cond_consts,
            *hoisted_consts,
            *body_consts,
            *(t for t in consts_dot if type(t) is not Zero),
            *init,
            *(array_ops.instantiate(t) for t, m in zip(init_dot, moving, strict=True) if m),
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=cond_nconsts,
            body_nconsts=h + n_consts + n_dots,
        )
        return split_tangents(outs, moving)

    def partial_eval(self, trace: PartialTrace, args: tuple[ArrayLike, ...], params: Params) -> Any:
        """Run the part of the carry that is known, if the condition depends on that alone; record
        the whole for the rest, with as many steps."""
        return partially_evaluated(self, trace, args, params)

    def transpose(
        self, cts: Sequence[object], *args: ArrayLike | Undefined, **params: Unpack[WhileParams]
    ) -> Any:
        if config.while_reverse.value == "refuse":
            raise ValueError(
                "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop "
                "with dynamic start/stop values. Try using lax.scan, or using fori_loop with "
                "static start/stop.\n  The option jax_while_reverse refuses it. Where it is "
                "'checkpoint', the backward pass computes the steps of the loop again."
            )
        from teucer.lax._control.reversal.transposing import transposed  # for reverse mode alone

        return transposed(self, cts, args, **params)

    def batch(self, axis: Axis, args: Values, dims: Dims, **params: Unpack[WhileParams]) -> Any:
        cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts = (
            params["cond_jaxpr"],
            params["body_jaxpr"],
            params["cond_nconsts"],
            params["body_nconsts"],
        )
        cond_batched, consts_batched, batched = split_list(
            [d is not None for d in dims], cond_nconsts, body_nconsts
        )
        fixed = [s == body_nconsts + i for i, s in enumerate(unchanged(body_jaxpr.jaxpr))]
        while True:
            body, out_batched = batch_jaxpr(body_jaxpr, axis, [*consts_batched, *batched], batched)
            cond, (any_batched,) = batch_jaxpr(cond_jaxpr, axis, [*cond_batched, *batched], False)
            # Where the condition is batched, an element that is done waits for the others: all of
            # the carry that the body changes is batched.
            settled = (
                [b or not f for b, f in zip(batched, fixed, strict=True)]
                if any_batched
                else out_batched
            )
            if settled == batched:
                break
            batched = settled
        cond, cond_hoisted = hoisted(cond)
        body, body_hoisted = hoisted(body)
        moved = [
            array_ops.to_axis(x, d, axis.size, 0) if b else x
            for x, d, b in zip(args, dims, [*cond_batched, *consts_batched, *batched], strict=True)
        ]
        cond_consts, body_consts, carry = split_list(moved, cond_nconsts, body_nconsts)
        cond_consts, body_consts = [*cond_hoisted, *cond_consts], [*body_hoisted, *body_consts]
        kept: Sequence[Array] = ()
        if any_batched:
            refuse_io("while", cond_jaxpr.effects | body_jaxpr.effects)
            n = len(cond_consts)
            shared = (*[True] * len(body_hoisted), *[not b for b in (*consts_batched, *batched)])
            once = any(effect.ordered for effect in cond_jaxpr.effects)
            if once:
                kept = cond(*cond_consts, *carry)
            checked = config.checked.value
            key = ("masked", cond, n, shared, checked)
            cond, body = body.kept(
                key, lambda: _masked(cond, body, n, len(body_consts), shared, checked, once)
            )
            cond_consts, body_consts = [] if once else cond_consts, [*cond_consts, *body_consts]
        outs = self.call(
            *cond_consts,
            *body_consts,
            *carry,
            *kept,
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=len(cond_consts),
            body_nconsts=len(body_consts),
        )[: len(carry)]
        return outs, tuple(0 if b else None for b in batched)

    def uses_axis(self, name: str, params: Params) -> bool:
        return jaxprs_use_axis((params["cond_jaxpr"], params["body_jaxpr"]), name)

    def forward(self, eqn: Eqn) -> Any:
        """A component of the carry that the body does not change is a const of the loop."""
        cond, body, k, m = (
            eqn.params[name]
            for name in ("cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts")
        )
        cond_consts, body_consts, carry = split_list(eqn.invars, k, m)
        sources, n = unchanged(body.jaxpr), len(carry)
        fixed = [
            i for i in range(n) if sources[i] == m + i and carry[i].aval is eqn.outvars[i].aval
        ]
        atoms = [carry[i] if i in fixed else None for i in range(n)]
        if not fixed:
            return eqn, atoms
        rest = [i for i in range(n) if i not in fixed]
        consts = [carry[i] for i in fixed]
        params = {
            "cond_jaxpr": reordered(cond, [*range(k), *(k + i for i in (*fixed, *rest))], (0,)),
            "body_jaxpr": reordered(body, [*range(m), *(m + i for i in (*fixed, *rest))], rest),
            "cond_nconsts": k + len(fixed),
            "body_nconsts": m + len(fixed),
        }
        invars = [*cond_consts, *consts, *body_consts, *consts, *(carry[i] for i in rest)]
        return eqn.replace(
            invars=invars, outvars=[eqn.outvars[i] for i in rest], params=params
        ), atoms

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        cond, body, k, m = (
            eqn.params[name]
            for name in ("cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts")
        )
        cond_taken = dce_closed(cond, [True])[1]
        carried = [u or c for u, c in zip(used, cond_taken[k:], strict=True)]
        while True:
            taken = dce_closed(body, carried)[1]
            settled = [c or t for c, t in zip(carried, taken[m:], strict=True)]
            if settled == carried:
                break
            carried = settled
        cond, cond_taken = dce_closed(cond, [True], [*[False] * k, *carried])
        body, taken = dce_closed(body, carried, [*[False] * m, *carried])
        return narrowed(
            eqn,
            carried,
            [*cond_taken[:k], *taken],
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=sum(cond_taken[:k]),
            body_nconsts=sum(taken[:m]),
        )

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Avals, outs: Arrays, **params: Unpack[WhileParams]
    ) -> Any:
        cond_nconsts = params["cond_nconsts"]
        (cond, body), given = sizes.together((params["cond_jaxpr"], params["body_jaxpr"]))
        n = len(given)
        return self.call(
            *given,
            *args[:cond_nconsts],
            *given,
            *args[cond_nconsts:],
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=n + cond_nconsts,
            body_nconsts=n + params["body_nconsts"],
        )


while_p = While()


def _ignoring(cond: ClosedJaxpr, extra: Sequence[Any]) -> ClosedJaxpr:
    """The condition as a function of a longer carry. It ignores the additional components,
    `extra`."""
    if not extra:
        return cond
    return cond.kept(
        ("ignoring", tuple(extra)),
        lambda: stage_jaxpr(lambda *xs: cond(*xs[: len(cond.in_avals)]), [*cond.in_avals, *extra]),
    )


def _masked(
    cond: ClosedJaxpr,
    body: ClosedJaxpr,
    n_cond: int,
    n_body: int,
    shared: Sequence[bool],
    checked: bool,
    once: bool,
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Condition and body of a batch of loops: go on while any loop goes on, and leave finished
    loops as they are.

    shared: which operands of the body have no axis of the batch. The body does not change them.
    checked: under `checkify`. The body must not fail for finished loops: for them it computes as
    for a loop that goes on.
    once: the condition runs once a step, since its effects are ordered. The carry then ends with
    its last result.
    """

    def any_goes_on(*args: Array) -> list[Any]:
        going = args[-1] if once else cond(*args)[0]
        return [_reductions.reduce_or(going, (0,))]

    def masked(*args: Array) -> list[Any]:
        cond_consts, body_consts, carry = split_list(args, n_cond, n_body)
        going = carry.pop() if once else None
        given = [*body_consts, *carry]
        if checked:
            going = cond(*cond_consts, *carry)[0] if going is None else going
            given = [
                x if alone else _of_one_that_goes_on(going, x)
                for x, alone in zip(given, shared, strict=True)
            ]
        outs = body(*given)
        going = cond(*cond_consts, *carry)[0] if going is None else going
        new = [
            x if alone else _selected(going, y, x)
            for x, y, alone in zip(carry, outs, shared[n_body:], strict=True)
        ]
        return [*new, *cond(*cond_consts, *new)] if once else new

    carry = [*body.in_avals[n_body:], *(cond.out_avals if once else ())]
    return (
        stage_jaxpr(any_goes_on, carry if once else cond.in_avals),
        stage_jaxpr(masked, [*cond.in_avals[:n_cond], *body.in_avals[:n_body], *carry]),
    )


def _of_one_that_goes_on(going: Any, x: Array) -> Any:
    shape = typeof(x).shape
    first = _extremes.argmax(going, 0, np.int32)
    one = _dynamic.dynamic_index_in_dim(x, first, 0, keepdims=False)
    return _selected(going, x, _structure.broadcast_to(one, shape, range(1, len(shape))))


def _selected(going: Any, on_true: Any, on_false: Any) -> Any:
    shape = typeof(on_true).shape
    return _selection.select_n(_structure.broadcast_to(going, shape, (0,)), on_false, on_true)


# --- The public function --------------------------------------------------------------------------


@tracebacks.api_boundary
def while_loop(
    cond_fun: Callable[[Any], object], body_fun: Callable[[Any], object], init_val: object
) -> Any:
    """body_fun applied again and again, as long as cond_fun of the value is true.

    init_val: a tree of arrays; body_fun returns one of the same tree, shapes and dtypes. Where
        `init_val` is weakly typed it takes the dtypes that body_fun makes of it.
    cond_fun: returns a boolean scalar. Both are traced once.
    Reverse mode keeps some of the states and computes the others again, in memory that does not
    grow with the number of steps (docs/loops.md). Raises TypeError if cond_fun does not return a
    boolean scalar, or body_fun returns another type than it takes.

    >>> import teucer as jax
    >>> jax.lax.while_loop(lambda n: n < 100, lambda n: n * 2, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    if config.disable_jit.value:
        try:
            val = immutable(init_val)
            while cond_fun(val):
                val = body_fun(val)
            return val
        except errors.ConcretizationTypeError:
            # the condition is not known in Python, under vmap say: the loop is staged after all
            pass
    flat, tree = pytrees.tree_flatten(init_val)
    avals = avals_of("while_loop", flat)
    name = next(iter(parameter_names(body_fun)), "carry")
    return run_while(cond_fun, body_fun, flat, tree, avals, name)


def run_while(
    cond_fun: Callable[..., object],
    body_fun: Callable[..., object],
    flat: Sequence[object],
    tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    name: str,
    *,
    call: Callable[..., object] | None = None,
    what: str = "while_loop",
) -> Any:
    """A while loop; `call` is what to call in the place of `body_fun`, which the user gave."""
    in_tree = pytrees.treedef_tuple((tree,))

    def check(body: Body) -> None:
        check_carry("while_loop", body_fun, name, tree, None, body.out_tree, ())

    body, carry = settle_carry(
        lambda avals: stage_body(body_fun, what, in_tree, avals, call), flat, avals, check, body_fun
    )
    in_avals = body.jaxpr.in_avals[len(body.consts) :]
    check_carry("while_loop", body_fun, name, tree, in_avals, tree, body.jaxpr.out_avals)
    cond = stage_body(cond_fun, "while_cond", in_tree, in_avals)
    _check_cond(cond_fun, cond)
    vma = cond.jaxpr.out_avals[0].vma
    if any(vma - a.vma for a in in_avals):  # devices may differ in their number of steps
        flat = [array_ops.vary(x, vma) for x in carry]
        return run_while(
            cond_fun, body_fun, flat, tree, avals_of(what, flat), name, call=call, what=what
        )
    outs = while_p.call(
        *cond.consts,
        *body.consts,
        *carry,
        cond_jaxpr=cond.jaxpr,
        body_jaxpr=body.jaxpr,
        cond_nconsts=len(cond.consts),
        body_nconsts=len(body.consts),
    )
    return pytrees.tree_unflatten(tree, outs)


def _check_cond(cond_fun: Callable[..., object], cond: Body) -> None:
    at = f"\n    cond_fun: {fun_name(cond_fun)} at {where(cond_fun)}"
    if cond.out_tree.num_nodes != 1 or len(cond.jaxpr.out_avals) != 1:
        raise TypeError(
            f"cond_fun must return a boolean scalar, but got pytree {cond.out_tree}.{at}"
        )
    if cond.jaxpr.out_avals[0].update(weak_type=False, sharding=None, vma=frozenset()) is not _BOOL:
        raise TypeError(
            "cond_fun must return a boolean scalar, but got output type(s) "
            f"[{cond.jaxpr.out_avals[0]!r}].{at}"
        )
