"""Minimization, as scipy.optimize has it; gradients are derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array
from teucer._transform.reverse import value_and_grad
from teucer._trees import pytrees
from teucer.scipy._operands import product

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike

__all__ = ["OptimizeResults", "minimize"]
__dir__ = listing(__name__, __all__)

# The conditions of Wolfe: the share of the slope by which the function must fall, and the share of
# it that may be left.
_FALL, _LEFT = 1e-4, 0.9


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    x: the place. success: whether it was reached. fun, jac: value and gradient there. hess_inv:
    estimate of the inverse Hessian, None of methods that have none.
    status: 0 success, 1 the greatest number of iterations or evaluations, 3 no step makes the
    function smaller.
    nfev, njev, nit: how many values, gradients and iterations were computed.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., object],
    x0: ArrayLike,
    args: tuple[object, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A place where a function is smallest nearby.

    fun: (x, *args) -> real number. x0: T[...], where to start. method: "BFGS", or
    "l-bfgs-experimental-do-not-rely-on-this", which keeps the last `maxcor` (10) steps in place of
    a matrix.
    tol: as the option gtol. options: `gtol` (1e-5): the norm of the gradient to be reached; `norm`
    (inf): which norm;
    `maxiter`: by default 200 times the number of elements; `line_search_maxiter` (10), of the
    other method `maxls` (20). That one has `ftol` (2.2e-9), the relative fall of the function at
    which it ends, and `maxfun` and `maxgrad`, how often it is evaluated at most.
    Works under `jit` and `vmap`; it is not differentiable in reverse.
    Raises TypeError if args is no tuple, ValueError for other methods or options.

    >>> round(float(minimize(lambda x: jnp.sum((x - 2.0) ** 4), jnp.zeros(2), method="BFGS").x[0]),
    ...     1)
    2.0

    Method: J. Nocedal and S. J. Wright, "Numerical Optimization", Springer, 2006, algorithms 6.1
    and 7.4; steps by bracketing.
    """
    if not isinstance(args, tuple):
        raise TypeError(
            f"args argument to jax.scipy.optimize.minimize must be a tuple, got {args!r}"
        )
    found = _METHODS.get(method.lower())
    if found is None:
        raise ValueError(
            f"minimize: Method {method} not recognized\n  allowed: 'BFGS', {_LIMITED!r}"
        )
    way, allowed = found
    options = dict(options or {})
    if tol is not None:
        options.setdefault("gtol", tol)
    unknown = set(options) - allowed
    if unknown:
        raise ValueError(
            f"minimize: unknown options {sorted(unknown)}\n  allowed: {', '.join(sorted(allowed))}"
        )
    x0 = jnp.asarray(x0)
    x0 = x0 if jnp.issubdtype(x0.dtype, np.inexact) else x0.astype(float)
    is_complex = jnp.issubdtype(x0.dtype, np.complexfloating)

    def shaped(x: Array) -> Any:
        if is_complex:
            x = jnp.split(x, 2)[0] + 1j * jnp.split(x, 2)[1]
        return x.reshape(x0.shape)

    start = x0.reshape(-1)
    start = jnp.concatenate([start.real, start.imag]) if is_complex else start
    result = way(lambda x: fun(shaped(x), *args), start, **options)
    # As grad has it, the gradient of a complex number is the conjugate of the steepest ascent.
    return result._replace(x=shaped(result.x), jac=jnp.conj(shaped(result.jac)))


class _State(NamedTuple):
    """A step of the iteration.

    memory: the method's approximation of the Hessian. failed: whether no step was found. settled:
    whether the function falls no more.
    """

    x: Any
    f: Any
    g: Any
    memory: Any
    nit: Any
    nfev: Any
    failed: Any
    settled: Any


class _Limits(NamedTuple):
    """When the iteration ends.

    ftol: the least relative decrease of the function. evaluations: its calls, at most.
    """

    gtol: float
    norm: object
    iterations: float
    line_search: int
    ftol: float = -np.inf
    evaluations: float = np.inf


def _descend(
    fun: Callable[[Array], Array],
    x0: Array,
    memory: Any,
    direction: Callable[[Any, Any], Any],
    remember: Callable[[Any, Any, Any, Any], Any],
    limits: _Limits,
) -> tuple[OptimizeResults, Any]:
    """Minimize `fun` by steps along direction(memory, gradient).

    After each step, remember(memory, step, change of the gradient, is_first) gives the next memory.
    Returns the result, and the last memory.
    """
    of = value_and_grad(fun)
    no = jnp.array(False)
    value, gradient = of(x0)
    start = _State(x0, value, gradient, memory, jnp.int32(0), jnp.int32(1), no, no)

    def has_converged(state: _State) -> Any:
        return jnp.linalg.norm(state.g, limits.norm) < limits.gtol

    def unfinished(state: _State) -> Any:
        ended = has_converged(state) | state.failed | state.settled
        for count, most in ((state.nit, limits.iterations), (state.nfev, limits.evaluations)):
            if most != np.inf:
                ended = ended | (count >= int(most))
        return ~ended

    def step(state: _State) -> _State:
        way = direction(state.memory, state.g)
        # The first direction is the gradient, whose length means nothing.
        first = jnp.where(
            state.nit == 0, jnp.minimum(1.0, 1 / jnp.maximum(jnp.sum(jnp.abs(state.g)), 1e-30)), 1.0
        )
        found = _line_search(of, state, way, first.astype(x0.dtype), limits.line_search)
        s, y = found.t * way, found.g - state.g
        failed = ~(found.f < state.f) & ~(jnp.linalg.norm(found.g, limits.norm) < limits.gtol)
        scale = jnp.maximum(jnp.maximum(jnp.abs(state.f), jnp.abs(found.f)), 1)
        settled = ~failed & (state.f - found.f <= limits.ftol * scale)
        learned = remember(state.memory, s, y, state.nit == 0)
        nit, nfev = state.nit + 1, state.nfev + found.count
        moved = _State(state.x + s, found.f, found.g, learned, nit, nfev, failed, settled)
        kept = pytrees.tree_map(lambda old, new: jnp.where(failed, old, new), state, moved)
        return kept._replace(nit=nit, nfev=nfev, failed=failed)

    end = lax.while_loop(unfinished, step, start)
    success = has_converged(end) | end.settled
    status = jnp.where(success, 0, jnp.where(end.failed, 3, 1))
    result = OptimizeResults(
        end.x, success, status, end.f, end.g, None, end.nfev, end.nfev, end.nit
    )
    return result, end.memory


def _bfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    gtol: float = 1e-5,
    norm: object = np.inf,
    maxiter: int | None = None,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    n = x0.shape[0]
    limits = _Limits(gtol, norm, 200 * n if maxiter is None else maxiter, line_search_maxiter)
    result, inverse = _descend(
        fun,
        x0,
        jnp.eye(n, dtype=x0.dtype),
        lambda inverse, g: -product(inverse, g),
        _updated,
        limits,
    )
    return result._replace(hess_inv=inverse)


class _Pairs(NamedTuple):
    """The last steps and changes of the gradient, the newest at the end, with the inverses of their
    products, which are 0 where there is no step yet. scale: of the inverse Hessian."""

    steps: Any
    changes: Any
    inverses: Any
    scale: Any


def _limited_bfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    gtol: float = 1e-5,
    ftol: float = 2.220446049250313e-09,
    norm: object = np.inf,
    maxiter: int | None = None,
    maxcor: int = 10,
    maxls: int = 20,
    maxfun: float = np.inf,
    maxgrad: float = np.inf,
) -> OptimizeResults:
    n = x0.shape[0]
    none = jnp.zeros((maxcor, n), x0.dtype)
    pairs = _Pairs(none, none, jnp.zeros(maxcor, x0.dtype), jnp.ones((), x0.dtype))
    limits = _Limits(
        gtol, norm, 200 * n if maxiter is None else maxiter, maxls, ftol, min(maxfun, maxgrad)
    )
    return _descend(fun, x0, pairs, _two_loops, _remembered, limits)[0]


def _two_loops(pairs: _Pairs, g: Array) -> Any:
    """The negative of the inverse Hessian times g."""

    def back(q: Array, pair: tuple[Array, Array, Array]) -> Any:
        s, y, inverse = pair
        share = inverse * jnp.vdot(s, q)
        return q - share * y, share

    def forth(r: Array, pair: tuple[Array, Array, Array, Array]) -> Any:
        s, y, inverse, share = pair
        return r + s * (share - inverse * jnp.vdot(y, r)), None

    *known, scale = pairs
    q, shares = lax.scan(back, g, tuple(known), reverse=True)
    return -lax.scan(forth, scale * q, (*known, shares))[0]


def _remembered(pairs: _Pairs, s: Array, y: Array, is_first: object) -> Any:
    """The pairs with another one in place of the oldest; unchanged if the curvature is not
    positive."""
    curvature = jnp.vdot(y, s)
    usable = curvature > 0
    safe = jnp.where(usable, curvature, 1.0)
    new = _Pairs(s, y, 1 / safe, safe / jnp.where(usable, jnp.vdot(y, y), 1.0))
    longer = [
        jnp.append(old[1:], one[None], axis=0) for old, one in zip(pairs[:3], new[:3], strict=True)
    ]
    return _Pairs(
        *(jnp.where(usable, a, b) for a, b in zip((*longer, new.scale), pairs, strict=True))
    )


def _updated(inverse: object, s: Array, y: Array, is_first: object) -> Any:
    """The estimate of the inverse Hessian that takes y, the change of the gradient, to s; unchanged
    where the curvature is none."""
    curvature = jnp.vdot(y, s)
    usable = curvature > 0
    rho = jnp.where(usable, 1 / jnp.where(usable, curvature, 1.0), 0.0)
    eye = jnp.eye(s.shape[0], dtype=s.dtype)
    # The first estimate gets the scale of the curvature that was found.
    scale = jnp.where(usable & is_first, curvature / jnp.where(usable, jnp.vdot(y, y), 1.0), 1.0)
    left = eye - rho * jnp.outer(s, y)
    return jnp.where(
        usable, product(product(left, scale * inverse), left.T) + rho * jnp.outer(s, s), inverse
    )


class _Search(NamedTuple):
    """A line search: step lengths known to be too short and too long (infinite: none is), and the
    one tried."""

    low: Any
    low_f: Any
    low_slope: Any
    high: Any
    t: Any
    f: Any
    g: Any
    count: Any
    done: Any
    best_t: Any
    best_f: Any
    best_g: Any


class _Found(NamedTuple):
    """The step length, the function's value there, and the number of evaluations."""

    t: Any
    f: Any
    g: Any
    count: Any


def _line_search(
    of: Callable[[Any], Any], state: _State, direction: Any, first: Any, maxiter: int
) -> _Found:
    """A step length that meets the conditions of Wolfe. If `maxiter` evaluations find none, the
    best that was seen."""
    slope = jnp.vdot(state.g, direction)

    def at(t: Array) -> Any:
        return of(state.x + t * direction)

    def narrow(search: _Search) -> _Search:
        f, g = at(search.t)
        here = jnp.vdot(g, direction)
        is_long = ~(f <= state.f + _FALL * search.t * slope)
        is_short = ~is_long & (here < _LEFT * slope)
        low, low_f, low_slope = (
            jnp.where(is_short, new, old)
            for new, old in ((search.t, search.low), (f, search.low_f), (here, search.low_slope))
        )
        high = jnp.where(is_long, search.t, search.high)
        width = high - low
        # The minimum of the parabola through the known values, kept off the ends.
        bend = 2 * (f - low_f - low_slope * width)
        share = jnp.where(
            is_long & (bend > 0), -low_slope * width / jnp.where(bend > 0, bend, 1.0), 0.5
        )
        inner = low + jnp.clip(jnp.where(jnp.isfinite(share), share, 0.5), 0.1, 0.9) * width
        t = jnp.where(jnp.isfinite(high), inner, 4 * low)
        done = ~is_long & ~is_short
        is_best = done | (f < search.best_f)
        return _Search(
            low,
            low_f,
            low_slope,
            high,
            jnp.where(done, search.t, t),
            f,
            g,
            search.count + 1,
            done,
            jnp.where(is_best, search.t, search.best_t),
            jnp.where(is_best, f, search.best_f),
            jnp.where(is_best, g, search.best_g),
        )

    zero = jnp.zeros_like(first)
    start = _Search(
        zero,
        state.f,
        slope,
        zero + jnp.inf,
        first,
        state.f,
        state.g,
        jnp.int32(0),
        jnp.array(False),
        zero,
        state.f,
        state.g,
    )
    end = lax.while_loop(lambda s: ~s.done & (s.count < maxiter), narrow, start)
    return _Found(end.best_t, end.best_f, end.best_g, end.count)


_LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
_METHODS: Mapping[str, tuple[Callable[..., OptimizeResults], frozenset[str]]] = {
    "bfgs": (_bfgs, frozenset({"gtol", "line_search_maxiter", "maxiter", "norm"})),
    _LIMITED: (
        _limited_bfgs,
        frozenset({"ftol", "gtol", "maxcor", "maxfun", "maxgrad", "maxiter", "maxls", "norm"}),
    ),
}
