"""The primitive scan: a loop over the leading axis of arrays, with a carry.

Its number of steps is known, so that values for the backward pass can be kept: reverse mode works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, final

import numpy as np

from teucer._core import array_ops, dialects, structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from teucer._core.primitive import Primitive, Undefined
from teucer._core.reference_types import at_operands
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import Trace, typeof, using
from teucer._core.types import Zero
from teucer._derived.remat import CutBody, Saving
from teucer._dialects.high.lowering import lowered, put_back, refuse_mutable, taken_apart
from teucer._dialects.references.discharge import discharged
from teucer._dimensions.dimensions import is_symbolic
from teucer._dynamic import padding
from teucer._optimize.dce import dce_closed, filtered, narrowed
from teucer._optimize.unchanged import unchanged
from teucer._transform.batch import batch_jaxpr, unmapped_aval
from teucer._transform.jvp import jvp_jaxpr, split_tangents
from teucer._transform.partial import split_jaxpr
from teucer._transform.transpose import transpose_jaxpr
from teucer.lax import _dynamic, _elementwise
from teucer.lax._control import bodies
from teucer.lax._control import scan_lowering as _control_scan_lowering
from teucer.lax._control.groups import GROUPED, GroupedParams, by_count
from teucer.lax._control.while_loop import while_p

if TYPE_CHECKING:
    from teucer._core.high import AvalQDD
    from teucer._core.primitive import Axis
    from teucer._core.stage import StageTrace
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, Arrays, Avals, Dims, Params, Value
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._transform.partial import PartialTrace

    class ScanParams(TypedDict):
        jaxpr: ClosedJaxpr
        length: int
        num_consts: int
        num_carry: int
        reverse: bool
        linear: tuple[bool, ...]
        unroll: int
        _split_transpose: bool


__all__ = ["scan_p"]


class SplitScan(NamedTuple):
    """A scan cut into the part that depends on its known operands alone, and the rest.

    unknown, unknown_outs: of the operands and results of the whole.
    known, n_known: jaxpr and (num_consts, num_carry) of the known scan; its operands are
        `known_consts` and the known operands, its results are the known results and the stacked
        residuals.
    invariant: computes the residuals that do not change from step to step, from `known_consts` and
    known operands.
    staged, n_staged: of the scan of the rest; its operands are `staged_consts` and those that
    `sources` names.
    sources: ("operand", i) an operand of the whole; ("result", i) a result of the known scan;
    ("invariant", i).
    """

    unknown: tuple[bool, ...]
    unknown_outs: tuple[bool, ...]
    known: ClosedJaxpr
    known_consts: Sequence[Any]
    n_known: tuple[int, int]
    invariant: ClosedJaxpr
    staged: ClosedJaxpr
    staged_consts: Sequence[Any]
    n_staged: tuple[int, int]
    sources: tuple[tuple[str, int], ...]


def _as_loop(
    operands: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    length: object,
    reverse: bool,
    **params: object,
) -> structure.Loop:
    consts, carry, xs = bodies.split_list(operands, num_consts, num_carry)
    return structure.Loop(jaxpr, consts, carry, xs, length, reverse)


def _as_params(loop: structure.Loop) -> dict[str, Any]:
    return {
        "jaxpr": loop.body,
        "length": loop.length,
        "reverse": loop.reverse,
        "num_consts": len(loop.consts),
        "num_carry": len(loop.carry),
    }


@structure.structured(structure.Loop, _as_loop, _as_params)
@final
class Scan(Primitive):
    """Apply jaxpr: (consts, carry, elements of xs) -> (carry, elements of ys) `length` times.

    Operands are consts, carry, xs; results are the last carry, and ys stacked.
    (C1) jaxpr has no constants, and returns a carry of the types that it takes.  (C2) xs have
    leading size `length`.
    """

    __slots__ = ()
    name = "scan"
    multiple_results = True
    higher_order = True

    def types(
        self,
        *avals: ShapedArray,
        jaxpr: ClosedJaxpr,
        length: int,
        num_consts: int,
        num_carry: int,
        **params: object,
    ) -> Any:
        return (
            *jaxpr.out_avals[:num_carry],
            *(unmapped_aval(a, 0, length) for a in jaxpr.out_avals[num_carry:]),
        )

    def effects(self, *avals: ShapedArray, **params: Unpack[ScanParams]) -> Any:
        jaxpr = params["jaxpr"]
        return at_operands(jaxpr.effects, jaxpr.jaxpr.invars)

    def bind(self, *args: Any, **params: Unpack[ScanParams]) -> Any:
        return list(self.call(*args, **by_count(params)))

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], *rest: Any) -> Any:
        from teucer._derived.members import Members  # for libraries written for JAX

        return Members.bind_with_trace(self, trace, args, by_count(rest[-1]))

    def stage(self, trace: StageTrace, args: tuple[Any, ...], params: Params) -> Any:
        """Libraries that read the equation find the groups as JAX of this release says them."""
        return trace.record(self, args, GroupedParams(params) if GROUPED else params)

    @dialects.on_values.rule
    def on_values(
        self, operands: Sequence[Array], groups: Sequence[int | None], **params: Unpack[ScanParams]
    ) -> Any:
        """An array that the body changes is carried."""
        jaxpr, num_consts = params["jaxpr"], params["num_consts"]
        found = discharged(jaxpr, groups)
        inner, extra = bodies.hoisted(found.jaxpr)
        h, n, k = len(extra), len(jaxpr.out_avals), len(found.changed)
        moved = [groups.index(g) for g in found.changed]
        fixed = [i for i in range(num_consts) if i not in moved and groups[i] not in found.changed]
        # Where one reference is two operands, the first alone stays.
        order = [*fixed, *moved, *range(num_consts, len(operands))]
        inner = bodies.reordered(
            inner, [*range(h), *(h + i for i in order)], [*range(n, n + k), *range(n)]
        )
        outs = self.call(
            *extra,
            *(operands[i] for i in order),
            **{
                **params,
                "jaxpr": inner,
                "num_consts": h + len(fixed),
                "num_carry": k + params["num_carry"],
            },
        )
        return outs[k:], dict(zip(found.changed, outs[:k], strict=True))

    @dialects.on_low.rule
    def on_low(
        self, operands: Sequence[object], avals: Sequence[AvalQDD], **params: Unpack[ScanParams]
    ) -> Any:
        """Constants that change are in references. The types of xs and ys include the axis of
        steps."""
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        refuse_mutable(self, avals[num_consts:])
        refs: dict[int, list[Any]] = {}
        given, low = taken_apart(operands, avals, refs), lowered(params["jaxpr"], in_place=True)
        inner, consts = bodies.hoisted(low.jaxpr)
        outs = self.call(
            *consts,
            *given.low,
            **{
                **params,
                "jaxpr": inner,
                "num_consts": len(consts) + given.count(0, num_consts),
                "num_carry": given.count(num_consts, num_consts + num_carry),
            },
        )
        types = (
            *low.outs[:num_carry],
            *(unmapped_aval(a, 0, params["length"]) for a in low.outs[num_carry:]),
        )
        put_back(operands, avals, refs)
        return low._replace(outs=types).raised(outs, operands)

    def evaluate(self, *args: Value, **params: Unpack[ScanParams]) -> Any:
        return bodies.run(self, args, params, params["jaxpr"])

    def lower(self, ctx: Context, *values: object, **params: Unpack[ScanParams]) -> Any:
        return _control_scan_lowering.lower_scan(ctx, values, **params)

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Sequence[object], **params: Unpack[ScanParams]
    ) -> Any:
        jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
        moving = [type(t) is not Zero for t in tangents]
        in_carry = slice(num_consts, num_consts + num_carry)
        while True:
            inner, out_moving = jvp_jaxpr(
                jaxpr, moving, [*moving[in_carry], *[False] * (len(jaxpr.out_avals) - num_carry)]
            )
            if out_moving[:num_carry] == moving[in_carry]:
                break
            moving[in_carry] = out_moving[:num_carry]
        inner, consts = bodies.hoisted(inner)
        nh, n, n_out = len(consts), len(primals), len(jaxpr.out_avals)
        # Inputs (consts, carry, xs, tangents of each) and results (carry, ys, tangents of each) go
        # into the order of a scan.
        ins = _interleaved(nh, moving, (num_consts, num_carry, n - num_consts - num_carry))
        outs_order = _interleaved(0, out_moving, (num_carry, n_out - num_carry))
        inner = bodies.reordered(inner, [*range(nh), *ins], outs_order)
        operands = [
            *primals,
            *(array_ops.instantiate(t) for t, m in zip(tangents, moving, strict=True) if m),
        ]
        outs = self.call(
            *consts,
            *(operands[i - nh] for i in ins),
            **{
                **params,
                "jaxpr": inner,
                "num_consts": nh + num_consts + sum(moving[:num_consts]),
                "num_carry": num_carry + sum(moving[in_carry]),
            },
        )
        by_number = dict(zip(outs_order, outs, strict=True))
        return split_tangents([by_number[i] for i in range(len(outs))], out_moving)

    def partial_eval(self, trace: PartialTrace, args: Sequence[ArrayLike], params: Params) -> Any:
        cut = _cut(params, tuple(trace.is_unknown(x) for x in args))
        assert trace.parent is not None
        with using(trace.parent):
            known_outs, operands = _run_known(cut, args, params)
        num_consts, num_carry = cut.n_staged
        staged = iter(
            trace.record(
                self,
                tuple(operands),
                {**params, "jaxpr": cut.staged, "num_consts": num_consts, "num_carry": num_carry},
            )
        )
        known = iter(known_outs)
        return tuple(next(staged) if u else next(known) for u in cut.unknown_outs)

    def transpose(
        self,
        cts: Sequence[Array | Zero],
        *args: Array | Undefined,
        jaxpr: ClosedJaxpr,
        num_consts: int,
        num_carry: int,
        reverse: bool,
        **params: Any,
    ) -> Any:
        params = {**params, "reverse": reverse}
        whole = {**params, "jaxpr": jaxpr, "num_consts": num_consts, "num_carry": num_carry}
        cut = _cut(whole, tuple(type(x) is Undefined for x in args))
        if all(cut.unknown[num_consts : num_consts + num_carry]):
            return _transpose_linear(cts, args, **whole)
        # Part of the carry does not depend on linear operands (a counter, say): it is run forwards
        # first.
        _, operands = _run_known(cut, args, whole)
        n_consts, n_carry = cut.n_staged
        found = _transpose_linear(
            [ct for ct, u in zip(cts, cut.unknown_outs, strict=True) if u],
            operands,
            **{**whole, "jaxpr": cut.staged, "num_consts": n_consts, "num_carry": n_carry},
        )
        result: list[Any] = [None] * len(args)
        for (kind, i), ct in zip(cut.sources, found[len(cut.staged_consts) :], strict=True):
            if kind == "operand" and type(args[i]) is Undefined:
                result[i] = ct
        return tuple(result)

    def batch(
        self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: Unpack[ScanParams]
    ) -> Any:
        jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
        batched = [d is not None for d in dims]
        in_carry = slice(num_consts, num_consts + num_carry)
        while True:
            inner, out_batched = batch_jaxpr(
                jaxpr,
                axis,
                batched,
                [*batched[in_carry], *[False] * (len(jaxpr.out_avals) - num_carry)],
            )
            if out_batched[:num_carry] == batched[in_carry]:
                break
            batched[in_carry] = out_batched[:num_carry]
        inner, hoisted_consts = bodies.hoisted(inner)
        first_xs = num_consts + num_carry
        operands = [
            array_ops.to_axis(x, d, axis.size, int(i >= first_xs)) if b else x
            for i, (x, d, b) in enumerate(zip(args, dims, batched, strict=True))
        ]
        outs = self.call(
            *hoisted_consts,
            *operands,
            **{**params, "jaxpr": inner, "num_consts": num_consts + len(hoisted_consts)},
        )
        return outs, tuple(int(i >= num_carry) if b else None for i, b in enumerate(out_batched))

    def uses_axis(self, name: str, params: Params) -> bool:
        return bodies.jaxprs_use_axis((params["jaxpr"],), name)

    def forward(self, eqn: Eqn) -> Any:
        """A carry that no step changes becomes a const of the loop; stacked elements of xs become
        xs."""
        closed, m, n = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
        sources = unchanged(closed.jaxpr)
        fixed = [
            i
            for i in range(n)
            if sources[i] == m + i and eqn.invars[m + i].aval is eqn.outvars[i].aval
        ]
        atoms = [
            eqn.invars[s]
            if isinstance(s, int) and (i in fixed or (i >= n and s >= m + n))
            else None
            for i, s in enumerate(sources)
        ]
        if not fixed:
            return eqn, atoms
        ins = [
            *range(m),
            *(m + i for i in fixed),
            *(i for i in range(m, len(eqn.invars)) if i - m not in fixed),
        ]
        outs = [i for i in range(len(eqn.outvars)) if i not in fixed]
        params = {
            **eqn.params,
            "jaxpr": bodies.reordered(closed, ins, outs),
            "num_consts": m + len(fixed),
            "num_carry": n - len(fixed),
        }
        return eqn.replace(
            invars=[eqn.invars[i] for i in ins],
            outvars=[eqn.outvars[i] for i in outs],
            params=params,
        ), atoms

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        closed, m, n = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
        used = list(used)
        while True:
            taken = dce_closed(closed, used)[1]
            carried = [u or t for u, t in zip(used[:n], taken[m : m + n], strict=True)]
            if carried == used[:n]:
                break
            used[:n] = carried
        # A carry is kept even if only its last value is used.
        body, taken = dce_closed(
            closed, used, [*[False] * m, *carried, *[False] * (len(taken) - m - n)]
        )
        return narrowed(
            eqn, used, taken, jaxpr=body, num_consts=sum(taken[:m]), num_carry=sum(carried)
        )

    def saving(self, eqn: Eqn, used: Sequence[bool], cut: CutBody) -> Saving | None:
        """Saved values of each step are stacked. The carry is computed again, from saved values if
        possible."""
        closed, n = eqn.params["jaxpr"], eqn.params["num_carry"]
        taken = [*[True] * n, *used[n:]]
        found = cut(closed, taken)
        if found is None:
            return None
        saved = [
            Var(unmapped_aval(a, 0, eqn.params["length"]))
            for a in found.now.out_avals[len(closed.out_avals) :]
        ]
        return Saving(
            eqn.replace(outvars=[*eqn.outvars, *saved], params={**eqn.params, "jaxpr": found.now}),
            eqn.replace(
                invars=[*eqn.invars, *saved],
                outvars=filtered(eqn.outvars, taken),
                params={**eqn.params, "jaxpr": found.again},
            ),
            found.answers,
        )

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Avals, outs: Avals, **params: Unpack[ScanParams]
    ) -> Any:
        length, num_consts, num_carry = params["length"], params["num_consts"], params["num_carry"]
        (inner,), given = sizes.together((params["jaxpr"],))
        consts, carry, xs = bodies.split_list(args, num_consts, num_carry)
        if not is_symbolic(length):
            return self.call(
                *given, *args, **{**params, "jaxpr": inner, "num_consts": len(given) + num_consts}
            )
        return _padded_loop(
            sizes, inner, length, params["reverse"], (*given, *consts), carry, xs, outs[num_carry:]
        )


scan_p = Scan()


def _padded_loop(
    sizes: Sizes,
    inner: ClosedJaxpr,
    length: Any,
    reverse: bool,
    consts: Sequence[object],
    carry: Sequence[object],
    xs: Sequence[Array],
    ys_avals: Sequence[ShapedArray],
) -> Any:
    """A scan of as many steps as there are elements: the rest of the buffers is neither read nor
    written."""
    n, m, k = len(consts), len(carry), len(xs)
    steps = sizes.value(length)
    state = [np.int32(0), *carry, *(array_ops.zeros(padding.bounded_aval(a)) for a in ys_avals)]

    def body(*args: Array) -> list[Any]:
        steps, own, xs, (i, *state) = (
            args[0],
            args[1 : 1 + n],
            args[1 + n : 1 + n + k],
            args[1 + n + k :],
        )
        at = _elementwise.sub(_elementwise.sub(steps, i), np.int32(1)) if reverse else i
        outs = inner(
            *own, *state[:m], *(_dynamic.dynamic_index_in_dim(x, at, 0, False) for x in xs)
        )
        ys = [
            _dynamic.dynamic_update_index_in_dim(y, one, at, 0)
            for y, one in zip(state[m:], outs[m:], strict=True)
        ]
        return [_elementwise.add(i, np.int32(1)), *outs[:m], *ys]

    def going(steps: object, i: object, *state: object) -> list[Any]:
        return [_elementwise.lt(i, steps)]

    operands = [*consts, *xs]
    avals, state_avals = [padding.SIZE, *map(typeof, operands)], [*map(typeof, state)]
    outs = while_p.call(
        steps,
        steps,
        *operands,
        *state,
        cond_jaxpr=stage_jaxpr(going, [padding.SIZE, *state_avals]),
        body_jaxpr=stage_jaxpr(body, [*avals, *state_avals]),
        cond_nconsts=1,
        body_nconsts=1 + n + k,
    )
    return outs[1:]


def _interleaved(offset: int, moving: Sequence[bool], sizes: Sequence[int]) -> list[int]:
    """Numbers of values and of their tangents, which stand behind all values, group by group:
    values, then tangents."""
    order: list[int] = []
    at, tangent = 0, len(moving)
    for size in sizes:
        order += range(offset + at, offset + at + size)
        n = sum(moving[at : at + size])
        order += range(offset + tangent, offset + tangent + n)
        at, tangent = at + size, tangent + n
    return order


# --- Partial evaluation ---------------------------------------------------------------------------


def _cut(params: Params, unknown: tuple[bool, ...]) -> SplitScan:
    """Cut a scan, given which operands are unknown; a carry that unknown values flow into becomes
    unknown."""
    jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
    return jaxpr.kept(
        ("cut", unknown, num_consts, num_carry),
        lambda: _make_cut(jaxpr, num_consts, num_carry, list(unknown)),
    )


def _make_cut(
    jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, unknown: list[bool]
) -> SplitScan:
    in_carry = slice(num_consts, num_consts + num_carry)
    while True:
        split = split_jaxpr(
            jaxpr, unknown, [*unknown[in_carry], *[False] * (len(jaxpr.out_avals) - num_carry)]
        )
        if list(split.unknown_outs[:num_carry]) == unknown[in_carry]:
            break
        unknown[in_carry] = split.unknown_outs[:num_carry]
    known_operands = [i for i, u in enumerate(unknown) if not u]
    n_consts = sum(not u for u in unknown[:num_consts])
    n_carry = sum(not u for u in unknown[in_carry])
    known = split.known.jaxpr
    constant = _invariant_vars(known, known.invars[:n_consts])
    n_outs = sum(not u for u in split.unknown_outs)
    outvars, residuals = list(known.outvars[:n_outs]), iter(known.outvars[n_outs:])
    invariants: list[Var] = []
    sources: list[tuple[str, int]] = []
    for f in split.forwarded:
        v = next(residuals) if f is None else known.invars[f]
        if f is not None and not n_consts <= f < n_consts + n_carry:
            sources.append(("operand", known_operands[f]))
        elif v in constant:
            sources.append(("invariant", len(invariants)))
            invariants.append(v)
        else:
            # A residual that is stacked as a result of the user's already is not stacked twice.
            at = next((i for i in range(n_carry, len(outvars)) if outvars[i] is v), len(outvars))
            outvars[at : at + 1] = [v]
            sources.append(("result", at))
    loop, known_consts = bodies.hoisted(split.known)
    loop = ClosedJaxpr(bodies.without_dead(loop.jaxpr.replace(outvars=outvars)))
    fixed = known.replace(
        outvars=invariants,
        eqns=[e for e in known.eqns if not constant.isdisjoint(e.outvars)],
        constvars=[],
        invars=[*known.constvars, *known.invars[:n_consts]],
        effects=frozenset(),
    )
    return _order_staged(
        jaxpr,
        split,
        (num_consts, num_carry),
        unknown,
        sources,
        SplitScan(
            tuple(unknown),
            split.unknown_outs,
            loop,
            known_consts,
            (n_consts + len(known_consts), n_carry),
            ClosedJaxpr(bodies.without_dead(fixed)),
            split.staged,
            (),
            (0, 0),
            (),
        ),
    )


def _invariant_vars(jaxpr: Jaxpr, constant: Sequence[Var]) -> set[Var]:
    """The part of an iteration that depends on constants only: the same at each step."""
    found = {*constant, *jaxpr.constvars}
    for eqn in jaxpr.eqns:
        if not eqn.effects and all(type(v) is Literal or v in found for v in eqn.invars):
            found.update(eqn.outvars)
    return found


def _order_staged(
    jaxpr: ClosedJaxpr,
    split: Any,
    counts: tuple[int, int],
    unknown: Sequence[bool],
    residuals: Sequence[tuple[str, int]],
    cut: SplitScan,
) -> SplitScan:
    """The cut with its staged scan: inputs (residuals, unknown operands) go into the order consts,
    carry, xs."""
    num_consts, num_carry = counts
    staged, consts = bodies.hoisted(split.staged)
    sources = [*residuals, *(("operand", i) for i, u in enumerate(unknown) if u)]

    def group(i: int) -> int:
        kind, at = sources[i]
        if kind == "operand":
            return (
                0
                if at < num_consts
                else 1
                if at < num_consts + num_carry and i >= len(residuals)
                else 2
            )
        return 0 if kind == "invariant" else 2

    order = sorted(range(len(sources)), key=group)
    n = len(consts)
    staged = bodies.reordered(
        staged, [*range(n), *(n + i for i in order)], range(len(staged.out_avals))
    )
    groups = [group(i) for i in order]
    return cut._replace(
        staged=staged,
        staged_consts=consts,
        n_staged=(n + groups.count(0), groups.count(1)),
        sources=tuple(sources[i] for i in order),
    )


def _run_known(
    cut: SplitScan, args: Sequence[ArrayLike | Undefined], params: Params
) -> tuple[Sequence[Any], list[Any]]:
    """Run the known part of a scan: its known results, and the operands of the staged part."""
    known_args = [x for x, u in zip(args, cut.unknown, strict=True) if not u]
    num_consts, num_carry = cut.n_known
    outs: Sequence[Any] = ()
    if cut.known.out_avals or cut.known.effects:
        outs = scan_p.call(
            *cut.known_consts,
            *known_args,
            **{**params, "jaxpr": cut.known, "num_consts": num_consts, "num_carry": num_carry},
        )
    fixed: Sequence[Any] = ()
    if cut.invariant.out_avals:
        fixed = cut.invariant(*cut.known_consts, *known_args[: num_consts - len(cut.known_consts)])
    values = {"operand": args, "result": outs, "invariant": fixed}
    n_outs = sum(not u for u in cut.unknown_outs)
    return outs[:n_outs], [*cut.staged_consts, *(values[kind][i] for kind, i in cut.sources)]


# --- Transposition --------------------------------------------------------------------------------


def _transpose_linear(
    cts: Sequence[Array | Zero],
    args: Sequence[Array | Undefined],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    **params: object,
) -> Any:
    """Transpose a scan whose whole carry is linear: a scan backwards, that carries the cotangents
    of consts and carry."""
    is_linear = [type(x) is Undefined for x in args]
    lin_consts, _, lin_xs = bodies.split_list(is_linear, num_consts, num_carry)
    ct_carry, ct_ys = bodies.split_list(cts, num_carry)
    back = _transposed_body(
        jaxpr,
        tuple(lin_consts),
        tuple(lin_xs),
        num_carry,
        tuple(type(ct) is not Zero for ct in ct_carry),
        tuple(type(ct) is not Zero for ct in ct_ys),
    )
    consts, _, xs = bodies.split_list(args, num_consts, num_carry)
    body, body_consts = bodies.hoisted(back.body)
    fixed = [*body_consts, *(x for x, lin in zip(consts, lin_consts, strict=True) if not lin)]
    linear_consts = [x for x, lin in zip(consts, lin_consts, strict=True) if lin]
    sums = [
        array_ops.zeros(x.aval.cotangent_aval())
        for x, nz in zip(linear_consts, back.consts, strict=True)
        if nz
    ]
    carried = [
        array_ops.instantiate(ct) for ct, given in zip(ct_carry, back.carry, strict=True) if given
    ]
    elements = [
        *(x for x, lin in zip(xs, lin_xs, strict=True) if not lin),
        *(ct for ct in ct_ys if type(ct) is not Zero),
    ]
    outs = iter(
        scan_p.call(
            *fixed,
            *sums,
            *carried,
            *elements,
            jaxpr=body,
            num_consts=len(fixed),
            num_carry=len(sums) + len(carried),
            reverse=not reverse,
            **params,
        )
    )
    found_consts = iter([next(outs) if nz else None for nz in back.consts])
    found_carry = [next(outs) if given else None for given in back.carry]
    found_xs = iter([next(outs) if nz else None for nz in back.xs])
    carry = is_linear[num_consts : num_consts + num_carry]
    return (
        *(next(found_consts) if lin else None for lin in lin_consts),
        *(ct if lin else None for ct, lin in zip(found_carry, carry, strict=True)),
        *(next(found_xs) if lin else None for lin in lin_xs),
    )


class Backwards(NamedTuple):
    """The body of a transposed scan, and which linear consts, carries and linear xs have a
    cotangent.

    body: (non-linear consts, sums of cts of consts, cts of carry, non-linear xs, cts of ys) ->
    (sums, cts of carry, cts of xs), with those cotangents only that there are.
    """

    body: ClosedJaxpr
    consts: list[bool]
    carry: list[bool]
    xs: list[bool]


def _transposed_body(
    jaxpr: ClosedJaxpr,
    lin_consts: tuple[bool, ...],
    lin_xs: tuple[bool, ...],
    num_carry: int,
    ct_carry: tuple[bool, ...],
    ct_ys: tuple[bool, ...],
) -> Backwards:
    key = ("transposed scan", lin_consts, lin_xs, num_carry, ct_carry, ct_ys)
    return jaxpr.kept(
        key,
        lambda: _make_transposed_body(
            jaxpr, lin_consts, lin_xs, num_carry, list(ct_carry), list(ct_ys)
        ),
    )


def _make_transposed_body(
    jaxpr: ClosedJaxpr,
    lin_consts: Sequence[bool],
    lin_xs: Sequence[bool],
    num_carry: int,
    given: list[bool],
    ct_ys: list[bool],
) -> Backwards:
    linear = [*lin_consts, *[True] * num_carry, *lin_xs]
    while True:
        step, nonzero = transpose_jaxpr(jaxpr, linear, [*given, *ct_ys])
        nz_consts, nz_carry, nz_xs = bodies.split_list(nonzero, sum(lin_consts), num_carry)
        settled = [g or nz for g, nz in zip(given, nz_carry, strict=True)]
        if settled == given:
            break
        given = settled
    in_consts, in_carry, in_xs = bodies.split_list(jaxpr.in_avals, len(lin_consts), num_carry)
    fixed = [a for a, lin in zip(in_consts, lin_consts, strict=True) if not lin]
    sum_avals = [
        a.cotangent_aval()
        for a, nz in zip(
            [a for a, lin in zip(in_consts, lin_consts, strict=True) if lin], nz_consts, strict=True
        )
        if nz
    ]
    carry_avals = [a.cotangent_aval() for a, g in zip(in_carry, given, strict=True) if g]
    elements = [a for a, lin in zip(in_xs, lin_xs, strict=True) if not lin]
    ct_avals = [
        a.cotangent_aval() for a, g in zip(jaxpr.out_avals[num_carry:], ct_ys, strict=True) if g
    ]

    def backwards(*args: Array) -> list[Any]:
        consts, sums, carry, xs, cts = bodies.split_list(
            args, len(fixed), len(sum_avals), len(carry_avals), len(elements)
        )
        outs = iter(step(*consts, *xs, *carry, *cts))
        added = [array_ops.add_cotangents(total, next(outs)) for total in sums]
        new_carry = [
            next(outs) if nz else array_ops.zeros(a.cotangent_aval())
            for a, nz, g in zip(in_carry, nz_carry, given, strict=True)
            if g
        ]
        return [*added, *new_carry, *outs]

    body = stage_jaxpr(
        backwards, [*fixed, *sum_avals, *carry_avals, *elements, *ct_avals], jaxpr.jaxpr.debug_info
    )
    return Backwards(body, nz_consts, given, nz_xs)
