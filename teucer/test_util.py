"""Checks of derivatives against finite differences, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._base.lazy import listing
from teucer._core.trace import typeof
from teucer._core.types import float0
from teucer._derived.forward import jvp
from teucer._derived.vjp import vjp
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike, Tangents, Value
    from teucer._xla.pytree import PyTree

__all__ = ["check_grads", "check_jvp", "check_vjp"]
__dir__ = listing(__name__, __all__)

_TOLERANCES = {2: 1e-1, 4: 2e-3, 8: 1e-5}  # by the bytes of a real number
# A central difference errs by eps^2 and by the rounding of the function over eps: least near the
# cube root of the latter. Users have chosen their tolerances for JAX's step, which serves functions
# that bend more. A right derivative agrees with one of them.
_STEPS = {2: 1e-1, 4: 5e-3, 8: 1e-5}
_STEP_OF_JAX = 1e-4
Tolerance = float | Mapping[Any, float] | None


def check_grads(
    f: Callable[..., object],
    args: Sequence[Value],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Check derivatives of a function up to an order, along random directions, against central
    differences.

    args: its arguments, pytrees of floating arrays. modes: "fwd" for jvp, "rev" for vjp; of higher
    orders every combination.
    atol, rtol: tolerances, one for all or by dtype; by default the dtypes'. eps: half the
    distance of the differences. Raises AssertionError if a derivative is off.

    >>> import teucer.numpy as jnp
    >>> check_grads(jnp.sin, (1.,), order=2)
    """
    args = tuple(args)
    check = {"atol": atol, "rtol": rtol, "eps": eps}
    if "fwd" in modes:
        check_jvp(f, partial(jvp, f), args, **check)
        if order > 1:
            tangents = _random_like(args, 1)
            check_grads(lambda *xs: jvp(f, xs, tangents), args, order - 1, modes, **check)
    if "rev" in modes:
        check_vjp(f, partial(vjp, f), args, **check)
        if order > 1:
            cts = _random_like(f(*args), 2)
            check_grads(lambda *xs: vjp(f, *xs)[1](cts), args, order - 1, modes, **check)


def check_jvp(
    f: Callable[..., object],
    f_jvp: Callable[..., object],
    args: Sequence[Value],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check that f_jvp(args, tangents) gives the results of `f` and their tangents, along a random
    direction.

    Raises AssertionError if it does not.

    >>> import functools, teucer as jax, teucer.numpy as jnp
    >>> check_jvp(jnp.sin, functools.partial(jax.jvp, jnp.sin), (1.,))
    """
    args = tuple(args)
    tangents = _random_like(args, 0)
    out, tangents_out = f_jvp(args, tangents)
    _compare(out, f(*args), atol, rtol, f"{err_msg or 'JVP'} primal")
    _with_steps(
        eps,
        lambda step: _compare(
            tangents_out,
            _difference(f, args, tangents, step),
            atol,
            rtol,
            f"{err_msg or 'JVP'} tangent",
        ),
    )


def check_vjp(
    f: Callable[..., object],
    f_vjp: Callable[..., object],
    args: Sequence[Value],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check that f_vjp(*args) gives the result of `f` and a function that pulls a random cotangent
    back.

    Raises AssertionError if it does not.

    >>> import functools, teucer as jax, teucer.numpy as jnp
    >>> check_vjp(jnp.sin, functools.partial(jax.vjp, jnp.sin), (1.,))
    """
    args = tuple(args)
    out, pull = f_vjp(*args)
    _compare(out, f(*args), atol, rtol, f"{err_msg or 'VJP'} primal")
    tangents, cts = _random_like(args, 0), _random_like(out, 3)
    pulled = _inner(tangents, pull(cts))

    def check(step: float | None) -> None:
        pushed = _difference(f, args, tangents, step)
        kinds = {y.dtype for y in pytrees.tree_leaves(pushed) if y.dtype != float0}
        coarsest = {
            name: max((_tolerance(given, kind) for kind in kinds), default=0.0)
            for name, given in (("rtol", rtol), ("atol", atol))
        }
        np.testing.assert_allclose(
            pulled,
            _inner(pushed, cts),
            **coarsest,
            err_msg=f"{err_msg or 'VJP'} cotangent projection",
        )

    _with_steps(eps, check)


def _with_steps(eps: float | None, check: Callable[[float | None], None]) -> None:
    """Check with the step that is given; if none is, with that of the dtypes, and where this fails,
    with JAX's."""
    try:
        check(eps)
    except AssertionError:
        if eps is not None:
            raise
        check(_STEP_OF_JAX)


def _random_like(tree: PyTree, seed: int) -> Any:
    """Random tangents of the values of a tree."""
    draw = np.random.RandomState(seed).randn

    def leaf(x: Value) -> Any:
        aval = typeof(x).tangent_aval()
        if aval.dtype == float0:
            return np.zeros(aval.shape, float0)
        complexes = dtypes.issubdtype(aval.dtype, np.complexfloating)
        return np.asarray(
            draw(*aval.shape) + (1j * draw(*aval.shape) if complexes else 0), aval.dtype
        )

    return pytrees.tree_map(leaf, tree)


def _difference(
    f: Callable[..., object], args: Sequence[Value], tangents: Tangents, eps: float | None
) -> Any:
    """The central difference of `f` along a direction."""
    moving = [x.dtype for x in pytrees.tree_leaves(tangents) if x.dtype != float0]
    step = eps or max((_by_bytes(_STEPS, d) for d in moving), default=1.0)
    ahead, behind = (
        f(
            *pytrees.tree_map(
                lambda x, t, s=s: (
                    x if t.dtype == float0 else (np.asarray(x) + s * t).astype(t.dtype)
                ),
                args,
                tangents,
            )
        )
        for s in (step, -step)
    )

    def leaf(y: Value, z: Value) -> Any:
        aval = typeof(y).tangent_aval()
        if aval.dtype == float0:
            return np.zeros(aval.shape, float0)
        wide = np.complex128 if dtypes.issubdtype(aval.dtype, np.complexfloating) else np.float64
        return ((np.asarray(y).astype(wide) - np.asarray(z).astype(wide)) / (2 * step)).astype(
            aval.dtype
        )

    return pytrees.tree_map(leaf, ahead, behind)


def _inner(xs: Sequence[Value], ys: object) -> float:
    """The real part of the sum of products, which differentiation keeps."""
    pairs = zip(*(map(np.asarray, pytrees.tree_leaves(tree)) for tree in (xs, ys)), strict=True)
    return float(
        sum(
            np.vdot(x.astype(np.complex128).conj(), y.astype(np.complex128)).real
            for x, y in pairs
            if float0 not in (x.dtype, y.dtype)
        )
    )


def _compare(got: object, wanted: object, atol: Tolerance, rtol: Tolerance, what: str) -> None:
    for x, y in zip(
        *(map(np.asarray, pytrees.tree_leaves(tree)) for tree in (got, wanted)), strict=True
    ):
        if float0 in (x.dtype, y.dtype) or not dtypes.issubdtype(x.dtype, np.inexact):
            continue
        wide = np.complex128 if dtypes.issubdtype(x.dtype, np.complexfloating) else np.float64
        np.testing.assert_allclose(
            x.astype(wide),
            y.astype(wide),
            rtol=_tolerance(rtol, x.dtype),
            atol=_tolerance(atol, x.dtype),
            err_msg=what,
        )


def _tolerance(given: Tolerance, dtype: Any) -> float:
    """The tolerance for a dtype: the one given, for all dtypes or for this one, else its
    default."""
    if isinstance(given, Mapping):
        given = next((value for kind, value in given.items() if np.dtype(kind) == dtype), None)
    return _by_bytes(_TOLERANCES, dtype) if given is None else given


def _by_bytes(table: dict[int, float], dtype: DTypeLike) -> float:
    size = np.dtype(dtype).itemsize // (2 if dtypes.issubdtype(dtype, np.complexfloating) else 1)
    return table[max(size, min(table))]
