"""Solutions of ordinary differential equations, with gradients by the adjoint equation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer._derived.custom_vjp import custom_vjp
from teucer._derived.linear import closure_convert
from teucer._derived.vjp import vjp
from teucer._transform.vmap import vmap
from teucer._trees import pytrees
from teucer.flatten_util import ravel_pytree

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, HostArray, Value

__all__ = [
    "abs2", "fit_4th_order_polynomial", "initial_step_size", "interp_fit_dopri",
    "mean_error_ratio", "odeint", "optimal_step_size", "runge_kutta_step",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

# The method of Dormand and Prince: times of stages; weights of the stages, of the solution, of its
# error, and of its midpoint.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0, 0.0])
_STAGES = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)
_SOLUTION = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
_ERROR = np.array(
    [
        35 / 384 - 1951 / 21600,
        0,
        500 / 1113 - 22642 / 50085,
        125 / 192 - 451 / 720,
        -2187 / 6784 + 12231 / 42400,
        11 / 84 - 649 / 6300,
        -1 / 60,
    ]
)
_MIDDLE = np.array(
    [
        6025192743 / 30085553152 / 2,
        0,
        51252292925 / 65400821598 / 2,
        -2691868925 / 45128329728 / 2,
        187940372067 / 1594534317056 / 2,
        -1776094331 / 19743644256 / 2,
        11237099 / 235043384 / 2,
    ]
)


def odeint(
    func: Callable[..., object],
    y0: Any,
    t: ArrayLike,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = jnp.inf,
    hmax: float = jnp.inf,
) -> Any:
    """The solution of dy/dt = func(y, t, *args) at times t, where y0 is the value at t[0].

    y0: tree of arrays. t: real[n], strictly increasing. args: trees of arrays, to which gradients
    are taken.
    rtol, atol: of the error of a step. mxstep: steps between two times. hmax: the greatest step.
    Returns the tree of y0, of arrays with a first axis for times.
    Raises TypeError if args or y0 have something else than arrays of numbers.

    >>> round(float(odeint(lambda y, t: -y, jnp.array(1.), jnp.array([0., 1.]))[1]), 4)
    0.3679

    Method: Dormand-Prince 5(4) with adaptive steps and interpolation of fourth order; gradients
    solve the adjoint equation backwards (R. T. Q. Chen et al., "Neural Ordinary Differential
    Equations", 2018).
    """
    for leaf in pytrees.tree_leaves((y0, args)):
        if not isinstance(
            leaf, jnp.ndarray | np.ndarray | np.generic | int | float | complex | bool
        ):
            raise TypeError(
                "The contents of odeint's y0 and *args must be arrays or scalars, but got "
                f"{leaf!r}."
            )
    flat, unravel = ravel_pytree(y0)
    flat = flat if jnp.issubdtype(flat.dtype, np.inexact) else flat.astype(float)

    def of_vector(y: Array, t: Array, *args: object) -> Any:
        return ravel_pytree(func(unravel(y), t, *args))[0].astype(y.dtype)

    t = jnp.asarray(t)
    t = t if jnp.issubdtype(t.dtype, np.inexact) else t.astype(float)
    converted, constants = closure_convert(of_vector, flat, t[0], *args)
    leaves, tree = pytrees.tree_flatten((*args, *constants))
    moving = tuple(jnp.issubdtype(jnp.result_type(leaf), np.inexact) for leaf in leaves)

    def of_leaves(y: Array, t: Array, *leaves: Value) -> Any:
        return converted(y, t, *pytrees.tree_unflatten(tree, leaves))

    ys = _odeint(of_leaves, _Options(rtol, atol, mxstep, hmax, moving), flat, t, *leaves)
    return vmap(unravel)(ys)


class _Options(NamedTuple):
    """Arguments of `odeint`, and which of the function's further operands have derivatives."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float
    moving: tuple[bool, ...]


class _Step(NamedTuple):
    """The state of the solution: its value and slope at t, the length of the next step, and how
    many steps were tried for this time.

    start, polynomial: interpolate the last step, in shares of its length from its start on.
    """

    y: Any
    slope: Any
    t: Any
    dt: Any
    start: Any
    polynomial: Any
    count: Any


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _odeint(func: Callable[..., object], options: _Options, y0: Any, ts: Any, *args: object) -> Any:
    def slope_of(y: Any, t: Array) -> Any:
        return func(y, t, *args)

    def advance(step: _Step) -> _Step:
        dt = jnp.minimum(step.dt, options.hmax)
        y, slope, error, stages = runge_kutta_step(slope_of, step.y, step.slope, step.t, dt)
        ratio = mean_error_ratio(error, options.rtol, options.atol, step.y, y)
        new = _Step(
            y, slope, step.t + dt, dt, step.t, interp_fit_dopri(step.y, y, stages, dt), step.count
        )
        accepted = ratio <= 1
        following = jnp.clip(optimal_step_size(dt, ratio), 0.0, options.hmax)
        kept = [jnp.where(accepted, after, before) for before, after in zip(step, new, strict=True)]
        return _Step(*kept)._replace(dt=following, count=step.count + 1)

    def to_time(step: _Step, target: object) -> tuple[_Step, Any]:
        def unfinished(step: _Step) -> Any:
            return (step.t < target) & (step.count.astype(float) < options.mxstep) & (step.dt > 0)

        step = lax.while_loop(unfinished, advance, step._replace(count=jnp.zeros_like(step.count)))
        length = step.t - step.start
        share = (target - step.start) / jnp.where(length == 0, 1.0, length)
        return step, jnp.polyval(step.polynomial, share.astype(step.t.dtype))

    f0 = slope_of(y0, ts[0])
    dt = jnp.clip(
        initial_step_size(slope_of, ts[0], y0, 4, options.rtol, options.atol, f0), 0.0, options.hmax
    )
    start = _Step(
        y0,
        f0,
        ts[0],
        dt.astype(ts.dtype),
        ts[0],
        jnp.stack([jnp.zeros_like(y0)] * 4 + [y0]),
        jnp.int32(0),
    )
    _, ys = lax.scan(to_time, start, ts[1:])
    return jnp.concatenate([y0[None], ys])


def _odeint_fwd(
    func: Callable[..., object], options: _Options, y0: Array, ts: object, *args: object
) -> tuple[Any, Any]:
    ys = _odeint(func, options, y0, ts, *args)
    return ys, (ys, ts, args)


def _odeint_bwd(
    func: Callable[..., Any], options: _Options, residuals: Any, cts: Any
) -> tuple[Any, ...]:
    """The cotangent of y obeys the adjoint equation, which is solved backwards with y. The
    cotangent of args is an integral along this solution."""
    (ys, ts), args = map(jnp.asarray, residuals[:2]), residuals[2]
    cts = jnp.asarray(cts)
    floats = [x for x, moves in zip(args, options.moving, strict=True) if moves]

    def with_floats(floats: Any) -> list[Any]:
        given = iter(floats)
        return [next(given) if moves else x for x, moves in zip(args, options.moving, strict=True)]

    def backwards(state: Any, t: Any, *floats: Any) -> Any:
        y, y_bar, _, _ = state
        slope, pull = vjp(lambda y, t, *floats: func(y, t, *with_floats(floats)), y, -t, *floats)
        y_rate, t_rate, *rates = pull(y_bar)
        return -slope, y_rate, t_rate, tuple(rates)

    def segment(carry: Any, i: Any) -> tuple[Any, Any]:
        y_bar, t_bar, floats_bar = carry
        along = jnp.sum(func(ys[i], ts[i], *args) * cts[i]).real.astype(ts.dtype)
        end = jnp.stack([-ts[i], -ts[i - 1]])
        state = odeint(
            backwards,
            (ys[i], y_bar, t_bar - along, floats_bar),
            end,
            *floats,
            rtol=options.rtol,
            atol=options.atol,
            mxstep=options.mxstep,
            hmax=options.hmax,
        )
        _, y_bar, t_bar, floats_bar = pytrees.tree_map(lambda x: x[1], state)
        return (y_bar + cts[i - 1], t_bar, floats_bar), along

    zeros = jnp.zeros((), ts.dtype), tuple(jnp.zeros_like(x) for x in floats)
    (y_bar, t0_bar, floats_bar), along = lax.scan(
        segment, (cts[-1], *zeros), jnp.arange(len(ts) - 1, 0, -1)
    )
    given = iter(floats_bar)
    args_bar = [next(given) if moves else None for moves in options.moving]
    return y_bar, jnp.concatenate([t0_bar[None], along[::-1]]), *args_bar


_odeint.defvjp(_odeint_fwd, _odeint_bwd)


def runge_kutta_step(
    func: Callable[[Any, Any], Any], y0: Any, f0: Any, t0: Any, dt: Any
) -> tuple[Any, Any, Any, Any]:
    """A step of Dormand and Prince: the value and slope after it, an estimate of its error, and the
    slopes at its stages.

    >>> y, _, _, _ = runge_kutta_step(lambda y, t: y, jnp.array([1.]), jnp.array([1.]), 0., 0.1)
    >>> round(float(y[0]), 4)
    1.1052
    """

    def stage(i: Any, k: Any) -> Any:
        y = y0 + dt.astype(y0.dtype) * jnp.matmul(stages[i - 1], k, precision="highest")
        return k.at[i].set(func(y, (t0 + dt * times[i - 1])))

    dt = jnp.asarray(dt, y0.real.dtype)
    times, stages = jnp.asarray(_TIMES, dt.dtype), jnp.asarray(_STAGES, f0.dtype)
    k = lax.fori_loop(1, 7, stage, jnp.zeros((7, f0.shape[0]), f0.dtype).at[0].set(f0))
    weights = jnp.asarray(np.stack([_SOLUTION, _ERROR]), f0.dtype)
    change, error = dt.astype(f0.dtype) * jnp.matmul(weights, k, precision="highest")
    return y0 + change, k[-1], error, k


def interp_fit_dopri(y0: Any, y1: Any, k: Any, dt: Any) -> Array:
    """The polynomial, highest power first, through a step: its ends, their slopes, and its middle.

    y0, y1: T[n], k: T[7, n], slopes at the stages  ->  T[5, n]
    """
    dt = jnp.asarray(dt).astype(y0.dtype)
    middle = y0 + dt * jnp.matmul(jnp.asarray(_MIDDLE, k.dtype), k, precision="highest")
    return jnp.stack(fit_4th_order_polynomial(y0, y1, middle, k[0], k[-1], dt))


def fit_4th_order_polynomial(
    y0: Any, y1: Any, y_mid: Any, dy0: Any, dy1: Any, dt: Any
) -> tuple[Any, ...]:
    """Coefficients, highest power first, in shares of dt, of the polynomial with given ends, slopes
    and middle.

    >>> fit_4th_order_polynomial(0., 1., 0.0625, 0., 4., 1.)
    (1.0, 0.0, 0.0, 0.0, 0.0)
    """
    first, last = dt * dy0, dt * dy1
    rise, turn, middle = y1 - y0 - first, last - first, 16 * (y_mid - y0) - 8 * first
    fourth = middle - 8 * rise + 2 * turn
    third = turn - 2 * rise - 2 * fourth
    return fourth, third, rise - fourth - third, first, y0


def initial_step_size(
    fun: Callable[[Any, Any], Any],
    t0: ArrayLike,
    y0: Array | HostArray,
    order: int,
    rtol: float,
    atol: float,
    f0: ArrayLike,
) -> Array:
    """The length of a first step.

    Method: E. Hairer, S. P. Norsett and G. Wanner, "Solving Ordinary Differential Equations I",
    Springer, 1993, II.4.
    """
    scale = atol + jnp.abs(y0) * rtol
    size, slope = (jnp.linalg.norm(jnp.abs(v) / scale) for v in (y0, f0))
    first = jnp.where(
        (size < 1e-5) | (slope < 1e-5), 1e-6, 0.01 * size / jnp.where(slope == 0, 1.0, slope)
    )
    after = fun(y0 + first.astype(y0.dtype) * f0, t0 + first.astype(jnp.result_type(t0)))
    curvature = jnp.linalg.norm(jnp.abs(after - f0) / scale) / first
    greatest = jnp.maximum(slope, curvature)
    second = jnp.where(
        greatest <= 1e-15,
        jnp.maximum(1e-6, first * 1e-3),
        (0.01 / jnp.where(greatest == 0, 1.0, greatest)) ** (1 / (order + 1)),
    )
    return jnp.minimum(100 * first, second)


def mean_error_ratio(error_estimate: Any, rtol: float, atol: float, y0: Any, y1: Any) -> Array:
    """The root of the mean square of errors in units of the tolerance.

    >>> mean_error_ratio(jnp.array([0.1]), 0.0, 0.1, jnp.ones(1), jnp.ones(1))
    Array(1., dtype=float32)
    """
    tolerated = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    return jnp.sqrt(jnp.mean(abs2(error_estimate / tolerated.astype(error_estimate.dtype))))


def optimal_step_size(
    last_step: ArrayLike,
    mean_error_ratio: Any,
    safety: float = 0.9,
    ifactor: float = 10.0,
    dfactor: float = 0.2,
    order: float = 5.0,
) -> Array:
    """The length of the next step: by at most ifactor longer or, after a step that is not accepted,
    dfactor shorter.

    >>> round(float(optimal_step_size(1.0, jnp.array(1.0))), 3)
    0.9
    """
    least = jnp.where(mean_error_ratio < 1, 1.0, dfactor)
    safe = jnp.where(mean_error_ratio == 0, 1.0, mean_error_ratio)
    factor = jnp.clip(safe ** (-1.0 / order) * safety, least, ifactor)
    return last_step * jnp.where(
        mean_error_ratio == 0, ifactor, jnp.where(jnp.isfinite(mean_error_ratio), factor, dfactor)
    )


def abs2(x: Any) -> Any:
    """The square of the absolute value.

    >>> float(abs2(jnp.array(3 + 4j)))
    25.0
    """
    return x.real**2 + x.imag**2 if jnp.iscomplexobj(x) else x * x
