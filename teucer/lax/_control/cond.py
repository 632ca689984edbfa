"""cond and switch: one of several functions, chosen while the program runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict, Unpack, final

import numpy as np

from teucer._base import config, dtypes, tracebacks
from teucer._core import array_ops, dialects, structure
from teucer._core.high import stated
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Literal, Var
from teucer._core.primitive import Axis, Primitive, Undefined
from teucer._core.reference_types import at_operands
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero, is_valid_type
from teucer._derived.remat import BodyCut, CutBody, Saving
from teucer._devices import backends
from teucer._dialects.high.lowering import lowered, refuse_other_state, taken_apart
from teucer._dialects.references.discharge import discharged
from teucer._hlo import rare_hlo
from teucer._optimize.dce import dce_closed, filtered, narrowed
from teucer._optimize.unchanged import unchanged
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jvp import jvp_jaxpr, split_tangents
from teucer._transform.partial import PartialTrace, Split, split_jaxpr
from teucer._transform.transpose import transpose_jaxpr
from teucer._trees import pytrees
from teucer.lax import _arithmetic, _conversion, _selection, _structure
from teucer.lax._control.bodies import (
    Body,
    as_index,
    avals_of,
    check_branches,
    check_pred,
    filler,
    hoisted,
    immutable,
    is_concrete,
    jaxprs_use_axis,
    order_in,
    order_out,
    refuse_io,
    refuse_shared,
    run,
    set_order,
    stage_body,
)

if TYPE_CHECKING:
    from teucer._core.typing import (
        Array,
        ArrayLike,
        Arrays,
        Atom,
        Avals,
        Axes,
        Dims,
        Params,
        Tangents,
    )
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class CondParams(TypedDict):
        branches: Sequence[ClosedJaxpr]
        branches_platforms: NotRequired[Any]


__all__ = ["cond", "cond_p", "switch"]


def _as_branch(
    operands: Sequence[Any],
    *,
    branches: Sequence[ClosedJaxpr],
    branches_platforms: Any = None,
    **params: object,
) -> structure.Branch:
    return structure.Branch(operands[0], branches, operands[1:], branches_platforms)


@structure.structured(structure.Branch, _as_branch, lambda b: {"branches": tuple(b.programs)})
@final
class Cond(Primitive):
    """Apply the branch that the first operand, an i32 index, chooses to the others.

    (C1) branches have no constants, and take and return the same types.  (C2) index is an i32
    scalar within their number.
    branches_platforms: where the index says the platform, the platforms of each branch; None for
    the others.
    """

    __slots__ = ()
    name = "cond"
    multiple_results = True
    higher_order = True

    def types(self, *avals: ShapedArray, branches: Sequence[ClosedJaxpr], **params: object) -> Any:
        return tuple(_joined(outs) for outs in zip(*(b.out_avals for b in branches), strict=True))

    def effects(self, *avals: ShapedArray, **params: Unpack[CondParams]) -> Any:
        return frozenset().union(
            *(at_operands(b.effects, b.jaxpr.invars, 1) for b in params["branches"])
        )

    @dialects.on_values.rule
    def on_values(
        self,
        operands: Arrays,
        groups: Sequence[int | None],
        *,
        branches: Sequence[ClosedJaxpr],
        **params: object,
    ) -> Any:
        changed = tuple(sorted({g for b in branches for g in discharged(b, groups[1:]).changed}))
        found = [discharged(b, groups[1:], changed) for b in branches]
        return found[0].split(
            self._bind(operands[0], operands[1:], [d.jaxpr for d in found], params)
        )

    @dialects.on_low.rule
    def on_low(
        self, operands: Arrays, avals: Avals, *, branches: Sequence[ClosedJaxpr], **params: object
    ) -> Any:
        found = [lowered(b) for b in branches]
        for low in found[1:]:
            for (_, one), (_, other) in zip(found[0].ends, low.ends, strict=True):
                refuse_other_state(
                    one, other, "the branches of cond leave it holding different things"
                )
        given = taken_apart(operands[1:], avals[1:])
        return found[0].raised(
            self._bind(operands[0], given.low, [low.jaxpr for low in found], params), operands[1:]
        )

    def evaluate(self, *args: object, **params: Unpack[CondParams]) -> Any:
        return run(self, args, params, params["branches"][0])

    def lower(
        self,
        ctx: Context,
        index: Value,
        *values: Value,
        branches: Sequence[ClosedJaxpr],
        branches_platforms: Any = None,
    ) -> Any:
        avals = ctx.avals_out
        if branches_platforms is not None:
            return ctx.by_platform(
                lambda: ctx.inline(
                    branches[platform_number(branches_platforms, ctx.platform)], *values
                ),
                ctx.avals_out,
            )
        if len(branches) == 1:
            return ctx.inline(branches[0], *values)
        if not avals and not any(b.effects for b in branches):
            return ()
        order = order_in(ctx, self.effects(branches=branches))

        def run_branch(i: int) -> Any:
            set_order(ctx, order)
            return (
                *ctx.inline(branches[i], *values, under=f"cond/branch_{i}_fun"),
                *order_out(ctx, order),
            )

        outs = rare_hlo.case(
            ctx,
            index,
            [partial(run_branch, i) for i in range(len(branches))],
            [*avals, *(v.aval for v in order)],
        )
        set_order(ctx, outs[len(avals) :])
        return outs[: len(avals)]

    def jvp(
        self,
        primals: Sequence[ArrayLike],
        tangents: Tangents,
        *,
        branches: Sequence[ClosedJaxpr],
        **params: object,
    ) -> Any:
        index, *operands = primals
        moving = [type(t) is not Zero for t in tangents[1:]]
        out_moving = _union(jvp_jaxpr(b, moving, False)[1] for b in branches)
        found = [jvp_jaxpr(b, moving, out_moving)[0] for b in branches]
        given = [t for t in tangents[1:] if type(t) is not Zero]
        return split_tangents(self._bind(index, [*operands, *given], found, params), out_moving)

    def _bind(
        self,
        index: object,
        operands: Sequence[object],
        branches: Sequence[ClosedJaxpr],
        params: Params,
    ) -> Any:
        joined, consts = _hoisted(branches)
        return self.call(index, *consts, *operands, branches=joined, **params)

    def partial_eval(self, trace: PartialTrace, args: tuple[ArrayLike, ...], params: Params) -> Any:
        index, *operands = args
        if trace.is_unknown(index):
            return trace.record(self, args, params)
        branches: Sequence[ClosedJaxpr] = params["branches"]
        unknown = [trace.is_unknown(x) for x in operands]
        outs_unknown = _union(split_jaxpr(b, unknown, False).unknown_outs for b in branches)
        splits = [split_jaxpr(b, unknown, outs_unknown) for b in branches]
        key = ("cut", tuple(unknown), tuple(outs_unknown), branches)
        cut: SplitCond = branches[0].kept(key, lambda: _make_cut(splits, unknown))
        known_args = [x for x, u in zip(operands, unknown, strict=True) if not u]
        known_outs: Sequence[Any] = ()
        if cut.known[0].out_avals or any(b.effects for b in cut.known):
            known_outs = trace.evaluate_known(
                self, (index, *cut.known_consts, *known_args), {**params, "branches": cut.known}
            )
        n = outs_unknown.count(False)
        unknown_args = [x for x, u in zip(operands, unknown, strict=True) if u]
        staged = iter(
            trace.record(
                self,
                (
                    index,
                    *cut.staged_consts,
                    *(known_args[i] for i in cut.forwarded),
                    *known_outs[n:],
                    *unknown_args,
                ),
                {**params, "branches": cut.staged},
            )
        )
        known = iter(known_outs)
        return tuple(next(staged) if u else next(known) for u in outs_unknown)

    def transpose(
        self,
        cts: Tangents,
        index: object,
        *operands: Array | Undefined,
        branches: Sequence[ClosedJaxpr],
        **params: object,
    ) -> Any:
        linear = [type(x) is Undefined for x in operands]
        given = [type(ct) is not Zero for ct in cts]
        pairs = [transpose_jaxpr(b, linear, given) for b in branches]
        nonzero = _union(nz for _, nz in pairs)
        ct_avals = [
            a.cotangent_aval() for a, lin in zip(branches[0].in_avals, linear, strict=True) if lin
        ]
        transposed = [_instantiated(t, nz, nonzero, ct_avals) for t, nz in pairs]
        values: list[Any] = [x for x, lin in zip(operands, linear, strict=True) if not lin]
        values += [ct for ct in cts if type(ct) is not Zero]
        outs = iter(self._bind(index, values, transposed, params))
        found = iter([next(outs) if nz else None for nz in nonzero])
        return (None, *(next(found) if lin else None for lin in linear))

    def batch(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Dims,
        *,
        branches: Sequence[ClosedJaxpr],
        **params: object,
    ) -> Any:
        index, *operands = args
        at, *operand_dims = dims
        operands = [
            x if d is None else array_ops.moveaxis(x, d, 0)
            for x, d in zip(operands, operand_dims, strict=True)
        ]
        batched = [d is not None for d in operand_dims]
        if at is not None:
            refuse_io("cond", self.effects(branches=branches))
            return _select_branches(axis, index, operands, batched, branches)
        out_batched = _union(batch_jaxpr(b, axis, batched, False)[1] for b in branches)
        outs = self._bind(
            index,
            operands,
            [batch_jaxpr(b, axis, batched, out_batched)[0] for b in branches],
            params,
        )
        return outs, tuple(0 if b else None for b in out_batched)

    def uses_axis(self, name: str, params: Params) -> bool:
        return jaxprs_use_axis(params["branches"], name)

    def inlined(self, operands: Sequence[Atom], params: Params) -> Any:
        index, *rest = operands
        return (params["branches"][int(index.val)], rest) if type(index) is Literal else None

    def forward(self, eqn: Eqn) -> Any:
        """For each result the operand that every branch returns as it, or None."""
        return eqn, [
            None if i is None else eqn.invars[1 + i] for i in _handed_on(eqn.params["branches"])
        ]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        branches = eqn.params["branches"]
        taken = _union(dce_closed(b, used)[1] for b in branches)
        return narrowed(
            eqn,
            used,
            [True, *taken],
            branches=tuple(dce_closed(b, used, taken)[0] for b in branches),
        )

    def saving(self, eqn: Eqn, used: Sequence[bool], cut: CutBody) -> Saving | None:
        """Each branch returns its own saved values, and zeros for the other branches'."""
        branches = eqn.params["branches"]
        cuts = [cut(b, used) for b in branches]
        saved = [
            a
            for c, b in zip(cuts, branches, strict=True)
            if c
            for a in c.now.out_avals[len(b.out_avals) :]
        ]
        if not saved:
            return None
        now, again, start = [], [], 0
        for b, c in zip(branches, cuts, strict=True):
            own = slice(start, start + len(c.answers) if c else start)
            now.append(_giving_saved(b, c, saved, own))
            again.append(_taking_saved(b, c, saved, own, used))
            start = own.stop
        new = [Var(a) for a in saved]
        return Saving(
            eqn.replace(
                outvars=[*eqn.outvars, *new], params={**eqn.params, "branches": tuple(now)}
            ),
            eqn.replace(
                invars=[*eqn.invars, *new],
                outvars=filtered(eqn.outvars, used),
                params={**eqn.params, "branches": tuple(again)},
            ),
            [answer for c in cuts if c for answer in c.answers],
        )

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Avals, outs: Arrays, **params: Unpack[CondParams]
    ) -> Any:
        index, *operands = args
        inner, given = sizes.together(params["branches"])
        return self.call(index, *given, *operands, **{**params, "branches": inner})


cond_p = Cond()


def _giving_saved(
    branch: ClosedJaxpr, cut: BodyCut | None, saved: Avals, own: slice
) -> ClosedJaxpr:
    """A branch that also returns the saved values of all branches."""
    n = len(branch.out_avals)

    def run_now(*operands: Array) -> list[Any]:
        outs = (branch if cut is None else cut.now)(*operands)
        rest = [array_ops.zeros(a) for a in saved]
        rest[own] = outs[n:]
        return [*outs[:n], *rest]

    return stage_jaxpr(run_now, branch.in_avals, branch.jaxpr.debug_info)


def _taking_saved(
    branch: ClosedJaxpr, cut: BodyCut | None, saved: Avals, own: slice, used: Sequence[bool]
) -> ClosedJaxpr:
    """A branch that takes the saved values of all branches after its operands, and returns the
    results in use."""
    n = len(branch.in_avals)

    def run_again(*operands: Array) -> list[Any]:
        return (
            filtered(branch(*operands[:n]), used)
            if cut is None
            else cut.again(*operands[:n], *operands[n:][own])
        )

    return stage_jaxpr(run_again, [*branch.in_avals, *saved], branch.jaxpr.debug_info)


def platform_number(platforms: Sequence[Sequence[str] | None], platform: str) -> int:
    """Which branch is for a platform.

    Raises NotImplementedError if none is.
    """
    for i, names in enumerate(platforms):
        if names is None or platform in itertools.chain.from_iterable(
            map(backends.platforms_called, names)
        ):
            return i
    known = ", ".join(name for names in platforms if names for name in names)
    raise NotImplementedError(
        f"platform_dependent: there is no branch for platform {platform} and no default.\n"
        f"    platforms given: {known}\n  Give default=...."
    )


def _union(flags: Any) -> list[bool]:
    return [any(column) for column in zip(*flags, strict=True)]


def _joined(avals: Avals) -> Any:
    """The type of a result of all branches: weak if it is weak in the first branch, for False."""
    return avals[0]


def _hoisted(branches: Sequence[ClosedJaxpr]) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    """Branches that take all of their constants as their first inputs, and the values of those."""
    if not any(b.consts for b in branches):
        return tuple(branches), []
    consts = [c for b in branches for c in b.consts]
    return _taking(
        [hoisted(b)[0] for b in branches],
        [len(b.consts) for b in branches],
        [typeof(c) for c in consts],
    ), consts


def _taking(branches: Sequence[ClosedJaxpr], counts: Axes, avals: Avals) -> tuple[ClosedJaxpr, ...]:
    """Branches whose first inputs are their own constants, changed to take the constants of all
    branches, one branch after the other."""
    out, at = [], 0
    for closed, count in zip(branches, counts, strict=True):
        here = slice(at, at + count)
        at += count

        def widened(*args: Array, closed: ClosedJaxpr = closed, here: slice = here) -> list[Any]:
            return closed(*args[here], *args[len(avals) :])

        out.append(
            closed.kept(
                ("taking", count, here.start, tuple(avals)),
                partial(
                    stage_jaxpr,
                    widened,
                    [*avals, *closed.in_avals[count:]],
                    closed.jaxpr.debug_info,
                ),
            )
        )
    return tuple(out)


# --- Partial evaluation ---------------------------------------------------------------------------


class SplitCond(NamedTuple):
    """Branches cut in two. All known branches return the same residuals: of each type as many as
    the neediest has.

    forwarded: known operands that the staged branches take as they are, before the residuals.
    """

    known: tuple[ClosedJaxpr, ...]
    known_consts: list[Any]
    staged: tuple[ClosedJaxpr, ...]
    staged_consts: list[Any]
    forwarded: tuple[int, ...]


def _make_cut(splits: Sequence[Split], unknown: Sequence[bool]) -> SplitCond:
    n_outs = splits[0].unknown_outs.count(False)
    forwarded = sorted({f for s in splits for f in s.forwarded if f is not None})
    slots: list[Any] = []
    places = []
    for split in splits:
        free = list(enumerate(slots))
        own = []
        for aval in split.known.out_avals[n_outs:]:
            found = next((pair for pair in free if pair[1] is aval), None)
            if found is None:
                found = (len(slots), aval)
                slots.append(aval)
            else:
                free.remove(found)
            own.append(found[0])
        places.append(own)
    known_avals = splits[0].known.in_avals
    unknown_avals = splits[0].staged.in_avals[len(splits[0].forwarded) :]
    known, staged = [], []
    for split, own in zip(splits, places, strict=True):
        known.append(
            stage_jaxpr(partial(_with_slots, split.known, n_outs, own, slots), known_avals)
        )
        sources = _sources(split, forwarded, own)
        staged.append(
            stage_jaxpr(
                partial(_from_slots, split.staged, sources, len(forwarded) + len(slots)),
                [*(known_avals[i] for i in forwarded), *slots, *unknown_avals],
            )
        )
    known_joined, known_consts = _hoisted(known)
    staged_joined, staged_consts = _hoisted(staged)
    return SplitCond(known_joined, known_consts, staged_joined, staged_consts, tuple(forwarded))


def _with_slots(
    known: ClosedJaxpr, n_outs: int, own: Axes, slots: Sequence[Any], *args: Array
) -> list[Any]:
    outs = known(*args)
    filled = dict(zip(own, outs[n_outs:], strict=True))
    return [*outs[:n_outs], *(filled[i] if i in filled else filler(a) for i, a in enumerate(slots))]


def _sources(split: Split, forwarded: Axes, own: Axes) -> list[int]:
    """Where the residuals of a branch stand among (forwarded operands, slots)."""
    rest = iter(own)
    return [
        len(forwarded) + next(rest) if f is None else forwarded.index(f) for f in split.forwarded
    ]


def _from_slots(staged: ClosedJaxpr, sources: Axes, n: int, *args: Array) -> list[Any]:
    return staged(*(args[i] for i in sources), *args[n:])


def _instantiated(
    transposed: ClosedJaxpr, nonzero: Sequence[bool], wanted: Sequence[bool], avals: Avals
) -> ClosedJaxpr:
    """A transposed branch that returns the wanted cotangents, with zeros for missing ones."""
    if list(nonzero) == list(wanted):
        return transposed

    def full(*args: object) -> list[Any]:
        outs = iter(transposed(*args))
        return [
            next(outs) if nz else array_ops.zeros(a)
            for a, nz, w in zip(avals, nonzero, wanted, strict=True)
            if w
        ]

    return transposed.kept(
        ("instantiated", tuple(wanted)),
        lambda: stage_jaxpr(full, transposed.in_avals, transposed.jaxpr.debug_info),
    )


def _select_branches(
    axis: Any,
    index: ArrayLike,
    operands: Sequence[ArrayLike],
    batched: Sequence[bool],
    branches: Sequence[ClosedJaxpr],
) -> Any:
    """All branches on the whole batch, and of each element the result of the branch that it
    chose."""
    wanted = [True] * len(branches[0].out_avals)
    cases = []
    for k, branch in enumerate(branches):
        chosen = _arithmetic.eq(index, np.int32(k))
        # Elements that did not choose the branch go through it without a derivative, which may be
        # infinite for them.
        guarded = [_guarded(chosen, x) if b else x for x, b in zip(operands, batched, strict=True)]
        cases.append(batch_jaxpr(branch, axis, batched, wanted)[0](*guarded))
    outs: Sequence[Any] = (
        cases[0]
        if len(branches) == 1
        else [
            _selection.select_n(_structure.broadcast_to(index, typeof(ys[0]).shape, (0,)), *ys)
            for ys in zip(*cases, strict=True)
        ]
    )
    # A result that every branch passes on from an operand is that operand, which need not be
    # batched.
    same = _handed_on(branches)
    return (
        [y if i is None else operands[i] for y, i in zip(outs, same, strict=True)],
        tuple(0 if i is None or batched[i] else None for i in same),
    )


def _handed_on(branches: Sequence[ClosedJaxpr]) -> list[int | None]:
    """For each result the number of the operand, behind the index, that it is in every branch; None
    for another."""
    sources = zip(*(unchanged(b.jaxpr) for b in branches), strict=True)
    return [
        found[0] if isinstance(found[0], int) and len(set(found)) == 1 else None
        for found in sources
    ]


def _guarded(chosen: object, x: ArrayLike) -> Any:
    aval = typeof(x)
    if isinstance(aval.dtype, dtypes.ExtendedDType) or not dtypes.issubdtype(
        aval.dtype, np.inexact
    ):
        return x
    mask = _structure.broadcast_to(chosen, aval.shape, (0,))
    return _selection.select_n(mask, _conversion.stop_gradient(x), x)


# --- The public functions -------------------------------------------------------------------------

_ABSENT = object()


@tracebacks.api_boundary
def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any, operand: Any = _ABSENT) -> Any:
    """true_fun(*operands) if pred, else false_fun(*operands), decided while the program runs.

    pred: a boolean scalar, or a real number, which is compared with zero. Both functions are traced
        once, and only the chosen one runs; under vmap with a batched pred both run. They return the
        same tree, shapes and dtypes.
    operand: a single operand, as a keyword.
    Raises TypeError if pred is not a scalar, or the results of the branches differ in type.

    >>> import teucer as jax
    >>> jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 2.)
    Array(3., dtype=float32, weak_type=True)
    """
    own_operands = (
        not callable(true_fun)
        and callable(false_fun)
        and len(operands) == 2
        and callable(operands[1])
    )
    if own_operands:  # cond(pred, x, f, y, g): each branch has an operand of its own
        true_fun, false_fun, operands = false_fun, operands[1], (true_fun, operands[0])
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    operands = _with_keyword(operands, operand)
    check_pred(pred)
    calls = [
        _of_operand(fun, 1 - i) if own_operands else fun
        for i, fun in enumerate((false_fun, true_fun))
    ]
    if config.disable_jit.value and is_concrete(pred):
        return calls[bool(pred)](*immutable(operands))
    flat, tree = pytrees.tree_flatten(operands)
    refuse_shared(true_fun, "cond", tree, avals := avals_of("cond", flat), flat)
    bodies = [
        stage_body(fun, f"cond of operand {1 - i}" if own_operands else "cond", tree, avals, call)
        for i, (fun, call) in enumerate(zip((false_fun, true_fun), calls, strict=True))
    ]
    refuse_shared(true_fun, "cond", tree, avals, flat, bodies[0].consts + bodies[1].consts)
    check_branches("cond", (true_fun, false_fun), ("true_fun", "false_fun"), bodies[::-1])
    return bind_branches(as_index(pred), bodies, flat)


def _of_operand(fun: Callable[..., object], i: int) -> Callable[..., Any]:
    return lambda *operands: fun(operands[i])


def _with_keyword(operands: tuple[object, ...], operand: object) -> tuple[Any, ...]:
    if operand is _ABSENT:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be passed, got "
            f"operand={operand!r:.100} and positional operands {operands!r:.200}"
        )
    return (operand,)


@tracebacks.api_boundary
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _ABSENT
) -> Any:
    """branches[index](*operands), decided while the program runs; an index out of bounds takes the
    first or last branch.

    index: an integer scalar. All branches are traced once, and only the chosen one runs; under vmap
        with a batched index all of them run. They return the same tree, shapes and dtypes.
    operand: a single operand, as a keyword.
    Raises ValueError if there is no branch; TypeError if index is not an integer scalar, or results
    differ in type.

    >>> import teucer as jax
    >>> jax.lax.switch(1, [lambda x: x, lambda x: 2 * x], 3)
    Array(6, dtype=int32, weak_type=True)
    """
    branches = tuple(branches)
    if not all(callable(b) for b in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    operands = _with_keyword(operands, operand)
    if not is_valid_type(index):
        if not isinstance(index, list | tuple):
            raise TypeError(f"Index type must be an integer, got {index!s:.100}.")
        raise TypeError(
            f"Branch index must be scalar, got {index!s:.100} of shape {np.shape(index)}."
        )
    (aval,) = avals_of("switch", (index,))
    if aval.shape:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {aval.shape}.")
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"Index type must be an integer, got {index} as {aval.dtype.name}")
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.disable_jit.value and is_concrete(index):
        return branches[min(max(int(index), 0), len(branches) - 1)](*immutable(operands))
    flat, tree = pytrees.tree_flatten(operands)
    refuse_shared(branches[0], "switch", tree, avals := avals_of("switch", flat), flat)
    bodies = [stage_body(fun, "switch", tree, avals) for fun in branches]
    consts = [c for body in bodies for c in body.consts]
    refuse_shared(branches[0], "switch", tree, avals, flat, consts)
    check_branches("switch", branches, tuple(f"branch {i}" for i in range(len(branches))), bodies)
    return bind_branches(_clamped(index, aval, len(branches)), bodies, flat)


def _clamped(index: ArrayLike, aval: ShapedArray, n: int) -> Any:
    """An index as an i32 within bounds."""
    if isinstance(index, int | np.integer):
        return np.int32(min(max(int(index), 0), n - 1))
    if np.iinfo(aval.dtype).bits > 32 or aval.dtype.kind == "u":
        top = min(n - 1, np.iinfo(aval.dtype).max)
        index = _arithmetic.clamp(
            _structure.number(0, aval.dtype), index, _structure.number(top, aval.dtype)
        )
    index = _structure.convert_element_type(index, np.dtype(np.int32))
    return _arithmetic.clamp(np.int32(0), index, np.int32(n - 1))


def bind_branches(
    index: object, bodies: Sequence[Body], flat: Sequence[object], **params: object
) -> Any:
    """Bind cond_p on staged branches of equal types. A value that several close over is an operand
    once.

    Where devices may take different branches (shard_map) operands are cast before to vary as the
    index does: derivatives of casts are sums over devices, in which all must take part.
    """
    consts = {id(c): c for body in bodies for c in body.consts}
    places = {key: i for i, key in enumerate(consts)}
    vma = typeof(index).vma
    closed_over, flat = ([array_ops.vary(x, vma) for x in xs] for xs in (consts.values(), flat))
    avals, operands = tuple(map(stated, closed_over)), tuple(map(stated, flat))
    out_avals = tuple(
        _joined(outs) for outs in zip(*(b.jaxpr.out_avals for b in bodies), strict=True)
    )
    if vma:
        out_avals = tuple(a.update(vma=a.vma | vma) for a in out_avals)
    branches = tuple(
        _closed_branch(
            body,
            tuple(places[id(c)] for c in body.consts),
            avals,
            out_avals,
            operands if vma else None,
        )
        for body in bodies
    )
    outs = cond_p.call(index, *closed_over, *flat, branches=branches, **params)
    return pytrees.tree_unflatten(bodies[0].out_tree, outs)


def _closed_branch(
    body: Body,
    places: tuple[int, ...],
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    operands: tuple[Array, ...] | None,
) -> ClosedJaxpr:
    """A branch that takes the values that all branches close over, and returns the joined types.
    operands: types of the others, if cast."""
    jaxpr = body.jaxpr
    if places == tuple(range(len(avals))) and tuple(jaxpr.out_avals) == out_avals:
        return jaxpr

    def branch(*args: Array) -> list[Any]:
        outs = jaxpr(*(args[i] for i in places), *args[len(avals) :])
        outs = [
            y if typeof(y).update(vma=a.vma) is a else array_ops.convert(y, a)
            for y, a in zip(outs, out_avals, strict=True)
        ]
        return [array_ops.vary(y, a.vma) for y, a in zip(outs, out_avals, strict=True)]

    others = jaxpr.in_avals[len(places) :] if operands is None else operands
    return jaxpr.kept(
        ("branch", places, avals, out_avals, operands),
        lambda: stage_jaxpr(branch, [*avals, *others], jaxpr.jaxpr.debug_info),
    )
