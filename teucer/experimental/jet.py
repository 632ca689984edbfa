"""Taylor series of functions.

Derivatives of high order in one direction, in one pass over the function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer import lax
from teucer._base import dtypes, tracebacks
from teucer._base.lazy import listing, refusing
from teucer._core import array_ops
from teucer._core.calls import FlatFunction, check_callable
from teucer._core.jaxpr import eval_jaxpr
from teucer._core.leaks import check_alive, check_leaks
from teucer._core.primitive import Primitive
from teucer._core.trace import Trace, Tracer, current_trace, end, typeof, using
from teucer._core.types import Zero
from teucer._jax.ad import primitive_jvps
from teucer._transform.jit_calls import jit_p
from teucer._trees import pytrees
from teucer.lax import _structure

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Params, Value

__all__ = [
    "JetTrace", "JetTracer", "ZeroSeries", "ZeroTerm", "def_comp", "def_deriv", "deflinear",
    "defzero", "deriv_prop", "fact", "jet", "jet2", "jet_rules", "linear_prop", "zero_prop",
    "zero_series", "zero_term",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

fact = math.factorial
Rule = Callable[..., tuple[Any, Any]]


class ZeroTerm:
    """The stand-in for a term that is zero."""

    def __repr__(self) -> str:
        return "zero_term"


class ZeroSeries:
    """The stand-in for the terms of an argument or a result that does not move."""

    def __repr__(self) -> str:
        return "zero_series"


zero_term, zero_series = ZeroTerm(), ZeroSeries()


@tracebacks.api_boundary
def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """The value of a function, and its derivatives along a curve.

    primals: arguments, arrays. series: for each of them as many terms: the derivatives of the
    curve, from the first on; or `zero_series`. A term may be `zero_term`.
    factorial_scaled: whether terms are derivatives; else they are coefficients of the Taylor
    series. Returns (results, terms of the results): a list of terms in the place of each result.
    Raises ValueError if arguments are no arrays, or numbers of terms differ.

    >>> import teucer.numpy as jnp
    >>> value, (first, second) = jet(jnp.exp, (0.,), ((1., 0.),))
    >>> float(value), float(first), float(second)
    (1.0, 1.0, 1.0)

    Method: the series of a primitive's derivative, which its jvp rule gives, has one term less and
    is found in the same way; linear and bilinear primitives and quotients have rules of their own.
    A. Griewank and A. Walther, "Evaluating Derivatives", SIAM, 2008, chapter 13.
    """
    check_callable(fun, "jet")
    known = [len(terms) for terms in series if not isinstance(terms, ZeroSeries)]
    primals = tuple(primals)
    series = [
        [0.0] * max(known, default=0) if isinstance(terms, ZeroSeries) else list(terms)
        for terms in series
    ]
    if len(primals) != len(series):
        raise ValueError(f"jet: there are {len(primals)} primal values and {len(series)} series.")
    orders = {len(terms) for terms in series}
    if len(orders) > 1:
        raise ValueError(
            f"jet terms have inconsistent lengths for different arguments: {sorted(orders)}"
        )
    order = orders.pop() if orders else 0
    for i, (x, terms) in enumerate(zip(primals, series, strict=True)):
        for what, values in (("primal value", [x]), ("term", terms)):
            if not all(pytrees.all_leaves([v]) and v is not None for v in values):
                raise ValueError(f"{what} at position {i} is not an array")
    scales = [math.factorial(k + 1) if factorial_scaled else 1 for k in range(order)]
    given = [
        [_term(x, t, scale) for t, scale in zip(terms, scales, strict=True)]
        for x, terms in zip(primals, series, strict=True)
    ]
    f = FlatFunction(fun, pytrees.tree_structure(primals), "jet", False)
    outs, out_terms = _jet_flat(f, order, list(primals), given)
    results = []
    for y, known_terms in zip(outs, out_terms, strict=True):
        terms = [_zero(y)] * order if known_terms is None else known_terms
        derivatives = [
            t if scale == 1 else lax.mul(t, _like(t, scale))
            for t, scale in zip(terms, scales, strict=True)
        ]
        # Derivatives of a number give way in promotion as it does.
        weak = typeof(y).weak_type
        results.append(
            [_structure.convert_element_type(t, typeof(t).dtype, weak) for t in derivatives]
        )
    return pytrees.tree_unflatten(f.tree, outs), pytrees.tree_unflatten(f.tree, results)


jet2 = functools.partial(jet, factorial_scaled=False)


def _term(x: ArrayLike, term: object, scale: int) -> Any:
    """A coefficient, of the dtype of derivatives of the argument."""
    if isinstance(term, ZeroTerm):
        return _zero(x)
    dtype = (
        typeof(x).dtype
        if dtypes.issubdtype(typeof(x).dtype, np.inexact)
        else typeof(array_ops.instantiate(_zero(x))).dtype
    )
    value = _structure.convert_element_type(term, dtype)
    if not typeof(value).shape and typeof(x).shape:
        value = _structure.broadcast_to(value, typeof(x).shape, ())
    return value if scale == 1 else lax.div(value, _like(value, scale))


def _like(x: Any, value: float) -> Any:
    return _structure.full(typeof(x).shape, value, typeof(x).dtype)


def _zero(x: Any) -> Any:
    """A zero term of a value; of integers and booleans a zero float."""
    aval = typeof(x)
    dtype = (
        aval.dtype
        if dtypes.issubdtype(aval.dtype, np.inexact)
        else dtypes.canonicalize_dtype(float)
    )
    return _structure.full(aval.shape, 0, dtype)


@final
class JetTracer(Tracer):
    """A value and the coefficients of its series, from the first on."""

    __slots__ = ("aval", "primal", "terms")
    aval: Any

    def __init__(self, trace: Trace, primal: object, terms: list[Any]) -> None:
        self._trace, self.primal, self.terms, self.aval = trace, primal, terms, typeof(primal)

    def origin(self) -> str:
        return self.primal.origin() if isinstance(self.primal, Tracer) else ""

    def concrete(self) -> Any:
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def __repr__(self) -> str:
        return f"JetTracer(primal={self.primal}, terms={self.terms})"


class JetTrace(Trace):
    """Runs each primitive on series in the parent."""

    __slots__ = ("order",)

    def __init__(self, parent: Trace, order: int) -> None:
        super().__init__(parent)
        self.order = order

    def process(
        self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        primals, series = [], []
        for x in args:
            mine = type(x) is JetTracer and x._trace is self
            if not mine and isinstance(x, Tracer):
                check_alive(x)
            primals.append(x.primal if mine else x)
            series.append(x.terms if mine else None)
        parent = self.parent
        assert parent is not None
        if primitive is jit_p and any(terms is not None for terms in series):
            return tuple(eval_jaxpr(params["jaxpr"].jaxpr, params["jaxpr"].consts, *args))
        with using(parent):
            if all(terms is None for terms in series):
                return parent.process(primitive, tuple(primals), params)
            outs, out_terms = _series(primitive, params, self.order, primals, series)
        return tuple(
            [
                y if terms is None else JetTracer(self, y, terms)
                for y, terms in zip(outs, out_terms, strict=True)
            ]
        )

    def split(self, x: Any) -> tuple[Any, list[Any] | None]:
        """The value and the terms of a function's result."""
        if type(x) is JetTracer and x._trace is self:
            return x.primal, x.terms
        check_alive(x)
        return x, None

    def __repr__(self) -> str:
        return "a function expanded in a series (jet)"


def _jet_flat(
    f: Callable[..., Sequence[object]],
    order: int,
    primals: Sequence[Value],
    series: Sequence[list[Any] | None],
) -> tuple[list[Any], list[list[Any] | None]]:
    """Results and their terms of a function of flat values; no terms where they are constant."""
    trace = JetTrace(current_trace(), order)
    args = [
        x if not terms else JetTracer(trace, x, terms)
        for x, terms in zip(primals, series, strict=True)
    ]
    with using(trace):
        outs = f(*args)
    pairs = [trace.split(y) for y in outs]
    end(trace)
    del args, outs
    check_leaks(trace)
    return [y for y, _ in pairs], [terms for _, terms in pairs]


# Primitives that are linear in the operands at these places together, the others being constant;
# None: in all.
_LINEAR: dict[Primitive, tuple[int, ...] | None] = {
    lax.add_p: None,
    lax.sub_p: None,
    _structure.add_any_p: None,
    lax.concatenate_p: None,
    lax.pad_p: (0, 1),
    lax.dynamic_slice_p: (0,),
    lax.dynamic_update_slice_p: (0, 1),
    lax.gather_p: (0,),
    lax.scatter_add_p: (0, 2),
    lax.complex_p: None,
}
_BILINEAR = frozenset({lax.mul_p, lax.dot_general_p, lax.conv_general_dilated_p})


def _series(
    primitive: Primitive,
    params: Params,
    order: int,
    primals: list[Any],
    series: list[list[Any] | None],
) -> tuple[Sequence[Any], Sequence[list[Any] | None]]:
    """Results of a primitive and their terms."""
    rule = jet_rules.registered.get(primitive)
    if rule is not None:
        return _by_rule(rule, primitive, params, order, primals, series)
    moving = [i for i, terms in enumerate(series) if terms is not None]
    inexact = all(dtypes.issubdtype(typeof(primals[i]).dtype, np.inexact) for i in moving)

    def results(*xs: Value) -> Any:
        return current_trace().process(primitive, xs, params)

    def call(*xs: Any) -> Any:
        return results(*xs)[0]

    if inexact and (isinstance(primitive, _structure.Linear) or primitive in _LINEAR):
        places = _LINEAR.get(primitive) or range(len(primals))
        if all(i in places for i in moving):
            return results(*primals), _linear(results, order, primals, series, places)
    if inexact and primitive is lax.select_n_p and moving[0] > 0:
        return results(*primals), _linear(results, order, primals, series, range(1, len(primals)))
    if inexact and primitive in _BILINEAR:
        return _convolved(call, order, primals, series)
    if inexact and primitive is lax.div_p:
        return _quotient(order, primals, series)
    return _by_derivative(primitive, params, order, primals, series)


def _linear(
    results: Callable[..., Any],
    order: int,
    primals: list[Any],
    series: list[list[Any] | None],
    places: Any,
) -> list[list[Any]]:
    """The terms of each result. Terms of the operands of one order give the terms of that order."""
    by_order = [
        results(
            *(
                x if i not in places else _zero(x) if terms is None else terms[k]
                for i, (x, terms) in enumerate(zip(primals, series, strict=True))
            )
        )
        for k in range(order)
    ]
    return [list(terms) for terms in zip(*by_order, strict=True)]


def _convolved(
    call: Callable[..., object], order: int, primals: list[Any], series: list[list[Any] | None]
) -> tuple[Any, Any]:
    """The terms of a product: each is the sum of products of terms whose orders sum to its own."""
    x, y = ([primal, *(terms or ())] for primal, terms in zip(primals, series, strict=True))
    outs = [
        _sum([call(x[j], y[k - j]) for j in range(k + 1) if j < len(x) and k - j < len(y)])
        for k in range(order + 1)
    ]
    return [outs[0]], [outs[1:]]


def _quotient(order: int, primals: list[Any], series: list[list[Any] | None]) -> tuple[Any, Any]:
    """The terms z of x / y, from x = z y."""
    x, y = ([primal, *(terms or ())] for primal, terms in zip(primals, series, strict=True))
    z = [lax.div(x[0], y[0])]
    for k in range(1, order + 1):
        products = [lax.mul(z[k - j], y[j]) for j in range(1, k + 1) if j < len(y)]
        rest = _sum([x[k]] if k < len(x) else [_zero(z[0])])
        z.append(lax.div(lax.sub(rest, _sum(products)) if products else rest, y[0]))
    return [z[0]], [z[1:]]


def _sum(values: list[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = lax.add(total, value)
    return total


def _by_derivative(
    primitive: Any,
    params: dict[str, Any],
    order: int,
    primals: list[Any],
    series: list[list[Any] | None],
) -> tuple[list[Any], list[list[Any] | None]]:
    """From y' = derivative(x) x'. The series of y' has one term less than that of y; each
    coefficient is multiplied by its order."""
    moving = [
        i
        for i, terms in enumerate(series)
        if terms is not None and dtypes.issubdtype(typeof(primals[i]).dtype, np.inexact)
    ]

    def values_and_slopes(*args: Any) -> list[Any]:
        """The results, then the nonzero tangents of results. `args`: all operands, then tangents of
        the operands in `moving`."""
        slopes: list[Any] = [typeof(x).zero for x in primals]
        for i, slope in zip(moving, args[len(primals) :], strict=True):
            slopes[i] = slope
        outs, tangents = primitive.jvp(list(args[: len(primals)]), slopes, **params)
        moves[:] = [
            type(t) is not Zero and dtypes.issubdtype(typeof(y).dtype, np.inexact)
            for y, t in zip(outs, tangents, strict=True)
        ]
        return [*outs, *(t for t, m in zip(tangents, moves, strict=True) if m)]

    moves: list[bool] = []
    rates = [
        [t if k == 1 else lax.mul(t, _like(t, k)) for k, t in enumerate(series[i] or (), 1)]
        for i in moving
    ]
    given = [
        None if terms is None or i not in moving else terms[:-1] for i, terms in enumerate(series)
    ]
    values, terms = _jet_flat(
        values_and_slopes,
        order - 1,
        [*primals, *(rate[0] for rate in rates)],
        [*given, *(rate[1:] for rate in rates)],
    )
    count = len(moves)
    slopes = iter(zip(values[count:], terms[count:], strict=True))
    out_terms: list[list[Any] | None] = []
    for moved in moves:
        if not moved:
            out_terms.append(None)
            continue
        first, rest = next(slopes)
        coefficients = [first, *(rest or [_zero(first)] * (order - 1))]
        out_terms.append(
            [t if k == 1 else lax.div(t, _like(t, k)) for k, t in enumerate(coefficients, 1)]
        )
    return values[:count], out_terms


# --- Rules of primitives --------------------------------------------------------------------------


@final
class _Rules(MutableMapping[Primitive, Rule]):
    """The rules of primitives on series: rule(values, series, **params) -> (result, its series).

    A series is a list of coefficients, from the first on. Of a primitive with several results a
    rule gives lists of results and of series. Rules that are assigned are used by `jet`; rules of
    other primitives follow from their derivatives.
    """

    def __init__(self) -> None:
        self.registered: dict[Primitive, Rule] = {}

    def __getitem__(self, primitive: Primitive) -> Rule:
        if primitive in self.registered:
            return self.registered[primitive]
        if primitive not in primitive_jvps:
            raise KeyError(primitive)
        return functools.partial(_as_rule, primitive)

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        self.registered[primitive] = rule

    def __delitem__(self, primitive: Primitive) -> None:
        del self.registered[primitive]

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self.registered)

    def __len__(self) -> int:
        return len(self.registered)


jet_rules = _Rules()


def _by_rule(
    rule: Rule,
    primitive: Primitive,
    params: Params,
    order: int,
    primals: list[Any],
    series: list[list[Any] | None],
) -> tuple[list[Any], list[list[Any] | None]]:
    """Results of a primitive and their terms, by a rule that is registered."""
    given = [
        [_zero(x)] * order if terms is None else terms
        for x, terms in zip(primals, series, strict=True)
    ]
    outs, out_terms = rule(primals, given, **params)
    if not primitive.multiple_results:
        outs, out_terms = [outs], [out_terms]
    found: list[list[Any] | None] = []
    for y, terms in zip(outs, out_terms, strict=True):
        if isinstance(terms, ZeroSeries):
            found.append(None)
        elif len(terms) != order:
            raise ValueError(
                f"jet: the rule of {primitive} gives {len(terms)} terms of a series, where its "
                f"operands have {order}."
            )
        else:
            found.append([_term(y, t, 1) for t in terms])
    return list(outs), found


def _as_rule(
    primitive: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: object
) -> tuple[Any, Any]:
    """The rule of a primitive that has none of its own in the table."""
    still = [isinstance(terms, ZeroSeries) for terms in series_in]
    order = max((len(t) for t, s in zip(series_in, still, strict=True) if not s), default=0)
    if not order:
        return zero_prop(primitive, primals_in, series_in, **params)
    given = [
        None if s else [_term(x, t, 1) for t in terms]
        for x, terms, s in zip(primals_in, series_in, still, strict=True)
    ]
    outs, terms = _series(primitive, params, order, list(primals_in), given)
    found = [zero_series if t is None else list(t) for t in terms]
    return (list(outs), found) if primitive.multiple_results else (outs[0], found[0])


def _results(primitive: Primitive, operands: Sequence[Any], params: Params) -> Any:
    """The result of a primitive, or the list of them, as rules of the table give it."""
    outs = primitive.call(*operands, **params)
    return list(outs) if primitive.multiple_results else outs[0]


def deriv_prop(
    prim: Primitive,
    deriv: Callable[..., Any],
    primals_in: Sequence[Any],
    series_in: Sequence[Sequence[Any]],
) -> tuple[Any, list[Any]]:
    """The rule of a function of one value whose derivative is the function `deriv`.

    >>> import teucer.numpy as jnp
    >>> deriv_prop(lax.neg_p, lambda x: -jnp.ones_like(x), (1.,), ([2.],))
    (Array(-1., dtype=float32, weak_type=True), [Array(-2., dtype=float32, weak_type=True)])

    Method: y' = deriv(x) x', by coefficients: k y[k] = sum over j of j x[j] deriv(x)[k - j].
    """
    (x,), (terms,) = primals_in, series_in
    first, rest = jet2(deriv, (x,), (list(terms[:-1]),))
    slopes = [first, *rest]
    found = []
    for k in range(1, len(terms) + 1):
        parts = []
        for j in range(1, k + 1):
            part = lax.mul(terms[j - 1], slopes[k - j])
            parts.append(part if j == k else lax.mul(part, _like(part, j / k)))
        found.append(_sum(parts))
    return _results(prim, (x,), {}), found


def def_deriv(prim: Primitive, deriv: Callable[..., Any]) -> None:
    """Define the rule of a primitive of one value by its derivative."""
    jet_rules[prim] = functools.partial(deriv_prop, prim, deriv)


def def_comp(prim: Primitive, comp: Callable[..., Any], **kwargs: Any) -> None:
    """Compute the series of a primitive by those of a function with the same values.

    kwargs: the function's keyword arguments.
    """

    def rule(
        primals_in: Sequence[Any], series_in: Sequence[Any], **params: object
    ) -> tuple[Any, Any]:
        del params  # the function says all
        return jet2(functools.partial(comp, **kwargs), tuple(primals_in), tuple(series_in))

    jet_rules[prim] = rule


def linear_prop(
    prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: object
) -> tuple[Any, Any]:
    """The rule of a linear primitive: applied to the terms of each order.

    >>> value, (first, second) = linear_prop(lax.add_p, (1., 2.), ([3., 4.], [5., 6.]))
    >>> float(value), float(first), float(second)
    (3.0, 8.0, 10.0)
    """
    outs = _results(prim, primals_in, params)
    terms = [_results(prim, operands, params) for operands in zip(*series_in, strict=True)]
    return outs, [list(t) for t in zip(*terms, strict=True)] if prim.multiple_results else terms


def deflinear(prim: Primitive) -> None:
    """Say that a primitive is linear."""
    jet_rules[prim] = functools.partial(linear_prop, prim)


def zero_prop(
    prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: object
) -> tuple[Any, Any]:
    """The rule of a primitive whose results have no derivatives: their series is zero.

    >>> zero_prop(lax.floor_p, (1.5,), ([2.],))
    (Array(1., dtype=float32, weak_type=True), zero_series)
    """
    outs = _results(prim, primals_in, params)
    return outs, [zero_series] * len(outs) if prim.multiple_results else zero_series


def defzero(prim: Primitive) -> None:
    """Say that the results of a primitive do not move."""
    jet_rules[prim] = functools.partial(zero_prop, prim)
