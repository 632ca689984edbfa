"""The largest eigenvalues of symmetric matrices, given by products.

The locally optimal block method (LOBPCG).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import dtypes, tracebacks
from teucer._derived.stages import jit
from teucer._derived.staging import eval_shape

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Value


@tracebacks.api_boundary
def lobpcg_standard(
    A: ArrayLike | Callable[[Any], Any], X: object, m: int = 100, tol: float | None = None
) -> tuple[Any, Any, Any]:
    """The k largest eigenvalues of a symmetric matrix, and their eigenvectors.

    A: T[n, n], dense or sparse, or a function that maps T[n, k] to its product with the matrix. X:
    T[n, k], where to start; 5 k < n. m: the most iterations. tol: the largest residual |A u - t u|
    / (|A u| + t) / (10 n); by default the eps of T. Returns eigenvalues T[k], largest first,
    orthonormal eigenvectors T[n, k], and the number of iterations. Raises ValueError if shapes or
    dtypes do not fit.

    >>> from teucer import numpy as jnp, random
    >>> from teucer.experimental import sparse
    >>> A = jnp.diag(jnp.arange(20.))
    >>> theta, U, i = sparse.linalg.lobpcg_standard(A, random.normal(random.key(0), (20, 2)))
    >>> theta.round(3)
    Array([19., 18.], dtype=float32)

    Method: Knyazev, SIAM J. Sci. Comput. 23 (2001) 517. The basis of each step is made orthonormal
    by a QR decomposition, which is what keeps it stable (Duersch, Shao, Yang & Gu, SIAM J. Sci.
    Comput. 40 (2018) C655).
    """
    X = jnp.asarray(X)
    _check(A, X)
    if callable(A):
        theta, U, i, _ = _lobpcg_standard_callable(A, X, int(m), tol)
    else:
        theta, U, i, _ = _lobpcg_standard_matrix(A, X, int(m), tol)
    return theta, U, i


def _check(A: Any, X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(f"lobpcg_standard: X must have two axes, got shape {X.shape}.")
    n, k = X.shape
    if not k:
        raise ValueError(f"lobpcg_standard: must have search dim > 0, got {k}.")
    if k * 5 >= n:
        raise ValueError(
            f"lobpcg_standard: expected search dim * 5 < matrix dim, got {k * 5}, {n}."
        )
    if not callable(A):
        if np.shape(A) != (n, n):
            raise ValueError(
                f"lobpcg_standard: A must be ({n}, {n}) for X of shape {X.shape}, got "
                f"{np.shape(A)}."
            )
        dtype = A.dtype
    else:
        out = eval_shape(A, ShapeDtypeStruct(X.shape, X.dtype))
        if out.shape != X.shape:
            raise ValueError(
                f"lobpcg_standard: A must be ({n}, {n}): it maps {X.shape} to {out.shape}."
            )
        dtype = out.dtype
    if dtype != X.dtype:
        raise ValueError(f"lobpcg_standard: A, X must have same dtypes, got {dtype}, {X.dtype}.")


class _State(NamedTuple):
    iteration: Any
    X: Any  # orthonormal columns
    AX: Any
    P: Any  # the last step, orthogonal to where it began
    theta: Any
    converged: Any


def _scaled(V: Any) -> Any:
    """V with columns of length 1, but for those that are 0."""
    norm = jnp.linalg.norm(V, axis=0, keepdims=True)
    return V / jnp.where(norm > 0, norm, jnp.ones_like(norm))


def _residual(state: _State) -> Any:
    return state.AX - state.X * state.theta.astype(state.X.dtype)[None]


def _errors(state: _State) -> Any:
    """How far each pair is from an eigenvalue and its vector, by which convergence is decided."""
    n = state.X.shape[0]
    size = jnp.linalg.norm(state.AX, axis=0) + jnp.abs(state.theta)
    residual = jnp.linalg.norm(_residual(state), axis=0)
    return residual / jnp.where(size > 0, size, jnp.ones_like(size)) / (10 * n)


def _ritz(A: Callable[[Value], object], S: Any, k: int) -> tuple[Any, Any, Any]:
    """The k largest eigenvalues of A on the span of orthonormal columns, coefficients of their
    vectors, and A S."""
    AS = A(S)
    H = S.conj().T @ AS
    values, C = jnp.linalg.eigh((H + H.conj().T) / 2)
    return values[::-1][:k], C[:, ::-1][:, :k], AS


def _start(A: Callable[[Any], Any], X: Any) -> _State:
    S, _ = jnp.linalg.qr(X)
    theta, C, AS = _ritz(A, S, X.shape[1])
    return _State(np.int32(0), S @ C, AS @ C, jnp.zeros_like(X), theta, jnp.zeros((), bool))


def _step(A: Callable[[Value], object], tol: object, state: _State) -> _State:
    k = state.X.shape[1]
    # Columns that depend on the others become directions of their own in the QR decomposition,
    # which does no harm.
    S, _ = jnp.linalg.qr(jnp.concatenate([state.X, _scaled(state.P), _scaled(_residual(state))], 1))
    theta, C, AS = _ritz(A, S, k)
    after = _State(
        state.iteration + np.int32(1), S @ C, AS @ C, S[:, k:] @ C[k:], theta, state.converged
    )
    return after._replace(converged=(_errors(after) <= tol).all())


def _run(
    A: Callable[[Value], object], X: Any, m: int, tol: float | None, debug: bool
) -> tuple[Any, Any, Any, Any]:
    real = np.finfo(X.dtype).dtype if X.dtype.kind in "fc" else X.dtype
    limit = jnp.asarray(dtypes.finfo(X.dtype).eps if tol is None else tol, real)
    # With no tolerance at all every iteration is made.
    start = _start(A, X)
    if not debug:
        last = lax.while_loop(
            lambda s: (s.iteration < m) & ~(s.converged & (limit > 0)),
            lambda s: _step(A, limit, s),
            start,
        )
        return last.theta, last.X, last.iteration, None

    def record(state: _State, _: object) -> tuple[_State, dict[str, Any]]:
        after = _step(A, limit, state)
        gram = after.X.conj().T @ after.X
        return after, {
            "lambda history": after.theta,
            "X zeros": (jnp.abs(after.X).sum(0) == 0).sum(),
            "P zeros": (jnp.abs(after.P).sum(0) == 0).sum(),
            "adjusted residual": _errors(after),
            "X orth": jnp.abs(gram - jnp.eye(len(gram), dtype=gram.dtype)).mean(),
        }

    last, info = lax.scan(record, start, None, length=m)
    return last.theta, last.X, last.iteration, info


@functools.partial(jit, static_argnames=("m", "tol", "debug"))
def _lobpcg_standard_matrix(
    A: Array, X: object, m: int, tol: float | None = None, debug: bool = False
) -> tuple[Any, ...]:
    return _run(lambda V: A @ V, X, m, tol, debug)


@functools.partial(jit, static_argnames=("A", "m", "tol", "debug"))
def _lobpcg_standard_callable(
    A: Callable[[Value], object], X: object, m: int, tol: float | None = None, debug: bool = False
) -> tuple[Any, ...]:
    return _run(A, X, m, tol, debug)
