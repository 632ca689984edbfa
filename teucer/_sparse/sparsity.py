"""Which elements of the results of a program depend on which of its arguments, found from its
jaxpr.

A value is represented by its dependencies: a matrix of booleans, with a row for each of its
elements and a column for each element of the arguments. A value that depends on none of them and
can be computed is represented by its number. The dependencies found may be too many, never too few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer._base import dtypes
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, interpret
from teucer._core.trace import EVAL, using
from teucer._derived.rules_table import Rules
from teucer.lax._families import Elementwise
from teucer.lax._structure import add_any_p

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


class Dependence(NamedTuple):
    """How a value depends on the arguments: the pattern (None where it does not), and the number
    (None where it is not known)."""

    pattern: Any
    value: Any


UNKNOWN = Dependence(None, None)


def sparsity(closed: ClosedJaxpr) -> Any:
    """bool[size of results, size of arguments], in the format CSR: which result may depend on which
    argument.

    Arguments and results that are no inexact numbers depend on nothing.
    """
    # SciPy's sparse matrices take a while to load.
    from scipy import sparse

    avals = closed.in_avals
    sizes = [math.prod(a.shape) for a in avals]
    n, starts = sum(sizes), np.cumsum([0, *sizes])
    args = []
    for aval, size, start in zip(avals, sizes, starts, strict=False):
        ones = np.ones(size, bool), (np.arange(size), np.arange(start, start + size))
        moving = dtypes.issubdtype(aval.dtype, np.inexact)
        args.append(Dependence(sparse.csr_matrix(ones, shape=(size, n)) if moving else None, None))
    outs = _Detection(n).run(closed, args)
    rows = [
        out.pattern
        if out.pattern is not None and dtypes.issubdtype(aval.dtype, np.inexact)
        else sparse.csr_matrix((math.prod(aval.shape), n), dtype=bool)
        for out, aval in zip(outs, closed.out_avals, strict=True)
    ]
    found = sparse.vstack(rows, format="csr")
    found.sum_duplicates()
    found.sort_indices()
    return found


def _positions(aval: ShapedArray) -> Any:
    return np.arange(math.prod(aval.shape), dtype=np.int32).reshape(aval.shape)


def _known(x: Any) -> Dependence:
    """The pattern of a value or a constant of a jaxpr: what it depends on."""
    return x if isinstance(x, Dependence) else Dependence(None, np.asarray(x))


class _Detection:
    """One run over a jaxpr; n: the size of the arguments."""

    def __init__(self, n: int) -> None:
        self.n = n

    def run(self, closed: ClosedJaxpr, args: Sequence[Dependence]) -> list[Dependence]:
        outs = interpret(
            closed, args, lambda eqn, operands: self.equation(eqn, list(map(_known, operands)))
        )
        return list(map(_known, outs))

    def equation(self, eqn: Eqn, args: list[Dependence]) -> Sequence[Dependence]:
        if all(x.pattern is None for x in args) and structure.kind_of(eqn.primitive) not in CALLS:
            if all(x.value is not None for x in args):
                with using(EVAL):
                    return [
                        Dependence(None, np.asarray(y))
                        for y in eqn.primitive.call(*(x.value for x in args), **eqn.params)
                    ]
            return [UNKNOWN] * len(eqn.outvars)
        rule = RULES.get(eqn.primitive)
        if rule is None and type(eqn.primitive) is Elementwise:
            rule = _elementwise
        outs = None if rule is None else rule(self, eqn, args)
        if outs is None:
            outs = self.everything(eqn, args)
        return [
            out if dtypes.issubdtype(v.aval.dtype, np.inexact) else out._replace(pattern=None)
            for out, v in zip(outs, eqn.outvars, strict=True)
        ]

    def everything(self, eqn: Eqn, args: Sequence[Dependence]) -> list[Dependence]:
        """Each element of the results depends on whatever the operands do."""
        from scipy import sparse

        columns = np.unique(
            np.concatenate([x.pattern.indices for x in args if x.pattern is not None])
        )
        outs = []
        for v in eqn.outvars:
            m = math.prod(v.aval.shape)
            indptr = np.arange(m + 1) * len(columns)
            ones = np.ones(m * len(columns), bool)
            outs.append(
                Dependence(
                    sparse.csr_matrix((ones, np.tile(columns, m), indptr), shape=(m, self.n)), None
                )
            )
        return outs

    def union(self, patterns: Sequence[Any]) -> Dependence:
        """The union of patterns of one shape."""
        given = [p for p in patterns if p is not None]
        if not given:
            return UNKNOWN
        out = given[0]
        for p in given[1:]:
            out = out + p
        return Dependence(out, None)


def _taken(pattern: Any, places: Any) -> Any:
    """The rows of a pattern at places; none where a place is negative."""
    places = np.asarray(places).reshape(-1)
    found = pattern[np.maximum(places, 0)]
    if (places < 0).any():
        from scipy import sparse

        found = sparse.diags((places >= 0).astype(bool), format="csr", dtype=bool) @ found
    return found


def _elementwise(run: _Detection, eqn: Eqn, args: Sequence[Dependence]) -> Sequence[Dependence]:
    shape = eqn.outvars[0].aval.shape
    tangents = getattr(eqn.primitive, "tangents", None) or [True] * len(args)
    patterns = []
    for x, v, tangent in zip(
        args,
        eqn.invars,
        tangents if len(tangents) == len(args) else [True] * len(args),
        strict=True,
    ):
        if x.pattern is None or tangent is None:
            continue
        same = v.aval.shape == shape
        patterns.append(
            x.pattern if same else _taken(x.pattern, np.broadcast_to(_positions(v.aval), shape))
        )
    return [run.union(patterns)]


def _moved(run: _Detection, eqn: Eqn, args: Sequence[Dependence]) -> Sequence[Dependence] | None:
    """An operation that only moves elements: each element of a result is an element of an operand,
    or a constant. The operation applied to positions gives its origin. None if its indices are not
    known."""
    offset, operands, patterns = 0, [], []
    first_only = eqn.primitive in _INDEXED
    for i, (x, v) in enumerate(zip(args, eqn.invars, strict=True)):
        if first_only and i:
            if x.value is None:
                return None
            operands.append(x.value)
        elif eqn.primitive is lax.pad_p and i:
            operands.append(np.int32(-1))
        elif x.pattern is None:
            operands.append(np.full(v.aval.shape, -1, np.int32))
        else:
            operands.append(_positions(v.aval) + np.int32(offset))
            patterns.append(x.pattern)
            offset += math.prod(v.aval.shape)
    params = dict(eqn.params)
    if eqn.primitive is lax.gather_p and params["mode"] is lax.GatherScatterMode.FILL_OR_DROP:
        params["fill_value"] = -1
    with using(EVAL):
        outs = eqn.primitive.call(*operands, **params)
    from scipy import sparse

    whole = patterns[0] if len(patterns) == 1 else sparse.vstack(patterns, format="csr")
    return [Dependence(_taken(whole, places), None) for places in outs]


def _reduced(run: _Detection, eqn: Eqn, args: Sequence[Dependence]) -> Sequence[Dependence]:
    """A reduction: an element has the dependencies of all elements that it combines."""
    from scipy import sparse

    (x,), aval, out = args[:1], eqn.invars[0].aval, eqn.outvars[0].aval
    kept = [a for a in range(aval.ndim) if a not in eqn.params["axes"]]
    target = np.broadcast_to(
        _positions(out).reshape([n if a in kept else 1 for a, n in enumerate(aval.shape)]),
        aval.shape,
    )
    size = math.prod(aval.shape)
    ones = np.ones(size, bool), (target.reshape(-1), np.arange(size))
    return [
        Dependence(sparse.csr_matrix(ones, shape=(math.prod(out.shape), size)) @ x.pattern, None)
    ]


def _selected(run: _Detection, eqn: Eqn, args: Sequence[Dependence]) -> Sequence[Dependence]:
    which, *cases = args
    avals = [v.aval for v in eqn.invars[1:]]
    if which.value is not None:
        chosen = [
            None
            if x.pattern is None
            else _taken(
                x.pattern, np.where(np.broadcast_to(which.value == i, a.shape), _positions(a), -1)
            )
            for i, (x, a) in enumerate(zip(cases, avals, strict=True))
        ]
        return [run.union(chosen)]
    return [run.union([x.pattern for x in cases])]


def _matrix_product(
    run: _Detection, eqn: Eqn, args: Sequence[Dependence]
) -> Sequence[Dependence] | None:
    """A product of a known matrix or vector and one that depends on arguments, of two axes at
    most."""
    from scipy import sparse

    (lc, rc), (lb, rb) = eqn.params["dimension_numbers"]
    lhs, rhs = (v.aval for v in eqn.invars)
    if lb or rb or len(lc) != 1 or max(lhs.ndim, rhs.ndim) > 2:
        return None
    x, y = args
    swapped = x.pattern is not None
    if (swapped and y.pattern is not None) or (y if swapped else x).value is None:
        return None
    known, moving = (
        (np.asarray(y.value), x.pattern) if swapped else (np.asarray(x.value), y.pattern)
    )
    axis, other, aval = (rc[0], lc[0], lhs) if swapped else (lc[0], rc[0], rhs)
    matrix = np.moveaxis(known, axis, -1).reshape(-1, known.shape[axis]) != 0
    rest = math.prod(aval.shape) // max(aval.shape[other], 1)
    # Rows of the pattern in the order (contracted, free).
    ordered = moving[np.moveaxis(_positions(aval), other, 0).reshape(-1)]
    weights = sparse.kron(
        sparse.csr_matrix(matrix), sparse.identity(rest, dtype=bool), format="csr"
    )
    out = weights.astype(bool) @ ordered
    if swapped:
        out = out[np.arange(out.shape[0]).reshape(len(matrix), rest).T.reshape(-1)]
    return [Dependence(out, None)]


def _called(run: _Detection, eqn: Eqn, args: Sequence[Dependence]) -> Sequence[Dependence]:
    call: Any = structure.of(eqn, args)
    return run.run(call.body, call.operands)


def _branched(run: _Detection, eqn: Eqn, args: Sequence[Dependence]) -> Sequence[Dependence]:
    branch: Any = structure.of(eqn, args)
    outs = [run.run(program, given) for program, given in branch.bodies]
    return [run.union([out.pattern for out in found]) for found in zip(*outs, strict=True)]


def _same(patterns: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether patterns are equal to others that contain them: then the counts are equal."""
    return [None if p is None else p.nnz for p in patterns] == [
        None if p is None else p.nnz for p in others
    ]


def _equal(x: Dependence, y: Dependence) -> bool:
    if x.pattern is None or y.pattern is None:
        return x.pattern is y.pattern
    return x.pattern.nnz == y.pattern.nnz and (x.pattern != y.pattern).nnz == 0


def _looped(run: _Detection, eqn: Eqn, args: Sequence[Dependence]) -> Sequence[Dependence] | None:
    loop: Any = structure.of(eqn, args)
    return _scanned(run, eqn, loop) if loop.condition is None else _repeated(run, loop)


def _repeated(run: _Detection, loop: structure.Loop) -> Sequence[Dependence] | None:
    """A loop of unknown length: dependencies of the carry are computed repeatedly, until they
    change no more."""
    state = [x._replace(value=None) for x in loop.carry]
    for _ in range(run.n + 1):
        after = run.run(loop.body, [*loop.consts, *state])
        joined = [run.union([a.pattern, b.pattern]) for a, b in zip(state, after, strict=True)]
        if _same([x.pattern for x in state], [x.pattern for x in joined]):
            return joined
        state = joined
    return None


def _scanned(run: _Detection, eqn: Eqn, loop: structure.Loop) -> Sequence[Dependence]:
    """A loop of known length, step by step: a stencil reaches as far as there are steps, no
    farther."""
    from scipy import sparse

    given, state, arrays, carried = loop.consts, loop.carry, loop.xs, len(loop.carry)
    kept: list[list[Dependence]] = [[] for _ in eqn.outvars[carried:]]
    for i in loop.places:
        after = run.run(loop.body, [*given, *state, *(_step(x, i, loop.length) for x in arrays)])
        before, state = state, after[:carried]
        for outs, y in zip(kept, after[carried:], strict=True):
            outs.append(y)
        settled = all(b.value is None and _equal(a, b) for a, b in zip(before, state, strict=True))
        if settled and not arrays and not kept:
            break
    results = list(state)
    for v, steps in zip(eqn.outvars[carried:], kept, strict=True):
        ys = steps[::-1] if loop.reverse else steps
        if all(y.pattern is None for y in ys):
            results.append(UNKNOWN)
            continue
        m = math.prod(v.aval.shape[1:])
        none = sparse.csr_matrix((m, run.n), dtype=bool)
        blocks = [none if y.pattern is None else y.pattern for y in ys]
        results.append(Dependence(sparse.vstack(blocks, format="csr"), None))
    return results


def _step(x: Dependence, i: int, length: int) -> Dependence:
    """The pattern of row i of an array."""
    value = None if x.value is None else x.value[i]
    if x.pattern is None:
        return Dependence(None, value)
    m = x.pattern.shape[0] // length
    return Dependence(x.pattern[i * m : (i + 1) * m], value)


_INDEXED = (lax.gather_p, lax.dynamic_slice_p)
_MOVES = (
    lax.broadcast_in_dim_p,
    lax.reshape_p,
    lax.transpose_p,
    lax.squeeze_p,
    lax.rev_p,
    lax.slice_p,
    lax.concatenate_p,
    lax.pad_p,
    lax.gather_p,
    lax.dynamic_slice_p,
    lax.split_p,
    lax.stack_p,
    lax.unstack_p,
    lax.tile_p,
)
CALLS: dict[Any, Callable[..., Any]] = {
    structure.Call: _called,
    structure.Branch: _branched,
    structure.Loop: _looped,
}
RULES: Rules[Callable[..., Any]] = Rules(
    "sparsity",
    {
        **CALLS,
        **dict.fromkeys(_MOVES, _moved),
        **dict.fromkeys(
            (lax.reduce_sum_p, lax.reduce_max_p, lax.reduce_min_p, lax.reduce_prod_p), _reduced
        ),
        **dict.fromkeys(
            (
                add_any_p,
                lax.convert_element_type_p,
                lax.copy_p,
                lax.reduce_precision_p,
                lax.pow_p,
                lax.erf_p,
                lax.erfc_p,
                lax.lgamma_p,
                lax.digamma_p,
                lax.clamp_p,
            ),
            _elementwise,
        ),
        lax.select_n_p: _selected,
        lax.dot_general_p: _matrix_product,
    },
)
