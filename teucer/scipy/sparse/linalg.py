"""Iterative solutions of linear systems A x = b, with derivatives that are such solutions
themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._base.lazy import listing
from teucer._core.trace import typeof
from teucer._core.types import is_valid_type
from teucer._trees import pytrees
from teucer.flatten_util import ravel_pytree
from teucer.scipy._linalg_systems import solve_triangular
from teucer.scipy._operands import product

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike
    from teucer._xla.pytree import PyTree

__all__ = ["bicgstab", "cg", "gmres"]
__dir__ = listing(__name__, __all__)

Operator = Callable[[Any], Any]


class _Product(Protocol):
    """An object with a product, such as a sparse array."""

    def __matmul__(self, x: Any, /) -> Any: ...


Matrix: TypeAlias = "ArrayLike | Operator | _Product"
# solve(matvec, precondition, b, x0) -> x, on vectors, or on arrays of any shape where the method
# only adds and multiplies them
Method = Callable[[Operator, Operator, Any, Any], Any]


@tracebacks.api_boundary
def cg(
    A: Matrix,
    b: Any,
    x0: PyTree | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Matrix | None = None,
) -> tuple[Any, None]:
    """(x, None) with A x = b by conjugate gradients.

    A: a Hermitian positive definite matrix T[n,n], a linear function of such trees as b is one, or
    an object with a product, A @ b.
    b: a tree of arrays.
    x0: where to begin, by default zero. M: an approximate inverse of A, in either form.
    tol, atol: it ends when the residual's norm is at most max(tol * norm(b), atol), or after
    maxiter steps (10 n). Raises ValueError if A is a matrix that is not square, or x0 is not alike
    b; TypeError if A is neither.

    >>> import teucer.numpy as jnp
    >>> cg(jnp.diag(jnp.array([1., 4.])), jnp.ones(2))[0]
    Array([1.  , 0.25], dtype=float32)

    Method: Hestenes & Stiefel, J. Res. Natl. Bur. Stand. 49 (1952) 409.
    """

    def method(matvec: Operator, precondition: Operator, b: Any, x0: Any) -> Any:
        limit = _limit(b, tol, atol)

        def step(state: Any) -> Any:
            x, r, p, gamma, k = state
            ap = matvec(p)
            alpha = (gamma / _vdot(p, ap).real).astype(b.dtype)
            x, r = x + alpha * p, r - alpha * ap
            z = precondition(r)
            new = _vdot(r, z).real
            return x, r, z + (new / gamma).astype(b.dtype) * p, new, k + 1

        r = b - matvec(x0)
        z = precondition(r)
        start = x0, r, z, _vdot(r, z).real, 0
        return lax.while_loop(
            lambda s: (_norm(s[1]) > limit) & (s[4] < _steps(maxiter, b)), step, start
        )[0]

    return _solved("cg", method, A, b, x0, M, any_shape=True, symmetric=True), None


@tracebacks.api_boundary
def bicgstab(
    A: Matrix,
    b: Any,
    x0: PyTree | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Matrix | None = None,
) -> tuple[Any, None]:
    """(x, None) with A x = b by stabilised biconjugate gradients. Arguments as for `cg`; A need not
    be symmetric.

    >>> import teucer.numpy as jnp
    >>> bicgstab(jnp.array([[1., 1.], [0., 2.]]), jnp.ones(2))[0]
    Array([0.5, 0.5], dtype=float32)

    Method: van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631.
    """

    def method(matvec: Operator, precondition: Operator, b: Any, x0: Any) -> Any:
        limit, tiny = _limit(b, tol, atol), jnp.finfo(b.dtype).tiny

        def step(state: Any) -> Any:
            x, r, p, v, rho, alpha, omega, k, _ = state
            new = _vdot(shadow, r)
            p = r + new / rho * (alpha / omega) * (p - omega * v)
            p_hat = precondition(p)
            v = matvec(p_hat)
            alpha = new / _vdot(shadow, v)
            s = r - alpha * v
            early = _norm(s) <= limit
            s_hat = precondition(s)
            t = matvec(s_hat)
            omega = jnp.where(early, jnp.ones_like(omega), _vdot(t, s) / _vdot(t, t))
            x = x + alpha * p_hat + jnp.where(early, jnp.zeros_like(s), omega * s_hat)
            r = jnp.where(early, s, s - omega * t)
            # If it breaks down, the solution found so far is kept.
            broken = (jnp.abs(new) < tiny) | (jnp.abs(omega) < tiny) | ~jnp.isfinite(_norm(r))
            x, r = jnp.where(broken, state[0], x), jnp.where(broken, state[1], r)
            return x, r, p, v, new, alpha, omega, k + 1, broken

        shadow = r = b - matvec(x0)
        one = jnp.ones((), b.dtype)
        start = x0, r, jnp.zeros_like(r), jnp.zeros_like(r), one, one, one, 0, False
        steps = _steps(maxiter, b)
        return lax.while_loop(
            lambda s: (_norm(s[1]) > limit) & (s[7] < steps) & jnp.logical_not(s[8]), step, start
        )[0]

    return _solved("bicgstab", method, A, b, x0, M, any_shape=True), None


@tracebacks.api_boundary
def gmres(
    A: Matrix,
    b: Any,
    x0: PyTree | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Matrix | None = None,
    solve_method: str = "batched",
) -> tuple[Any, int]:
    """(x, 0) with A x = b by generalised minimal residuals. Arguments as for `cg`; A need not be
    symmetric.

    restart: the size of the space in which a step looks for the smallest residual. maxiter: how
    many such steps.
    solve_method: 'batched' or 'incremental', which only differ in rounding: either way each step's
        least-squares problem is solved at its end.
    Raises ValueError for another solve_method.

    >>> import teucer.numpy as jnp
    >>> gmres(jnp.array([[1., 1.], [0., 2.]]), jnp.ones(2))[0].round(4)
    Array([0.5, 0.5], dtype=float32)

    Method: Saad & Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856, preconditioned from the left.
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'"
        )

    def method(matvec: Operator, precondition: Operator, b: Any, x0: Any) -> Any:
        limit, m = _limit(precondition(b), tol, atol), min(restart, b.size)

        def residual(x: Any) -> Any:
            return precondition(b - matvec(x))

        def step(state: Any) -> Any:
            x, r, norm, k = state
            # Rows are the basis; rows that have not been made yet, and those after the space is
            # exhausted, are zero.
            basis = jnp.zeros((m + 1, b.size), b.dtype).at[0].set(r / norm.astype(b.dtype))

            def extend(j: Any, made: Any) -> Any:
                basis, projected = made
                w = precondition(matvec(basis[j]))
                before = _norm(w)
                column = jnp.zeros(m + 1, b.dtype)
                for _ in range(2):  # once more, for the rest that rounding has left
                    part = product(basis.conj(), w)
                    column, w = column + part, w - product(part, basis)
                size = _norm(w)
                new = size > jnp.finfo(b.dtype).eps * before
                unit = jnp.where(new, w / jnp.where(new, size, 1).astype(b.dtype), 0)
                column = column.at[j + 1].set(jnp.where(new, size, 0).astype(b.dtype))
                return basis.at[j + 1].set(unit), projected.at[:, j].set(column)

            basis, projected = lax.fori_loop(0, m, extend, (basis, jnp.zeros((m + 1, m), b.dtype)))
            x = x + product(_smallest_residual(projected, norm), basis[:m])
            r = residual(x)
            return x, r, _norm(r), k + 1

        r = residual(x0)
        steps = _steps(maxiter, b)
        return lax.while_loop(
            lambda s: (s[2] > limit) & (s[3] < steps), step, (x0, r, _norm(r), 0)
        )[0]

    return _solved("gmres", method, A, b, x0, M), 0


def _smallest_residual(projected: Array, norm: Array) -> Array:
    """y for which norm * e_0 - projected @ y is smallest, of a Hessenberg matrix (m + 1, m).

    Its columns depend on each other only from the last one on that found a new direction. There
    nothing is lost with y = 0.
    """
    q, r = jnp.linalg.qr(projected)
    size = jnp.abs(jnp.diagonal(r))
    lost = size <= jnp.finfo(r.dtype).eps * r.shape[0] * size.max()
    r = jnp.where(lost[:, None], jnp.eye(r.shape[0], dtype=r.dtype), r)
    target = jnp.where(lost, 0, q[0].conj() * norm.astype(r.dtype))
    return solve_triangular(r, target)


def _vdot(x: Array, y: Array) -> Any:
    return jnp.vdot(x, y, precision="highest")


def _norm(x: Array) -> Any:
    return jnp.sqrt(_vdot(x, x).real)


def _limit(b: Any, tol: float, atol: float) -> Any:
    return jnp.maximum(tol * _norm(b), atol)


def _steps(maxiter: int | None, b: Any) -> int:
    return 10 * b.size if maxiter is None else maxiter


def _operator(A: Any) -> Operator:
    """A matrix or a function of trees as a function of trees."""
    if callable(A):
        return A
    is_array = is_valid_type(A)
    if not is_array and not hasattr(A, "__matmul__"):
        raise TypeError(
            f"linear operator must be either a function or ndarray: {A}\n"
            "  Or an object with a product, A @ x."
        )
    shape = typeof(A).shape if is_array else getattr(A, "shape", None) or (0, 0)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"linear operator must be a square matrix, but has shape: {shape}")
    return (lambda x: product(A, x)) if is_array else (lambda x: A @ x)


def _solved(
    name: str,
    method: Method,
    A: Matrix,
    b: Any,
    x0: Any,
    M: Matrix | None,
    *,
    any_shape: bool = False,
    symmetric: bool = False,
) -> Any:
    """The solution that a method on vectors finds for trees, as `custom_linear_solve`
    differentiates it.

    any_shape: the method takes arrays of any shape. A tree of one array then stays as it is: XLA
    computes the indices of a reshaped array for each element of each loop.
    """
    apply, invert = _operator(A), (lambda x: x) if M is None else _operator(M)
    inexact = pytrees.tree_map(_inexact, b)
    ravel = _only_leaf if any_shape and len(pytrees.tree_leaves(inexact)) == 1 else ravel_pytree
    flat, unravel = ravel(inexact)
    shapes, given = (
        [typeof(x).shape for x in pytrees.tree_leaves(tree)]
        for tree in (b, b if x0 is None else x0)
    )
    if shapes != given or (
        x0 is not None and pytrees.tree_structure(x0) != pytrees.tree_structure(b)
    ):
        raise ValueError(
            f"arrays in x0 and b must have matching shapes: {given} vs {shapes}\n"
            f"    function: {name}"
        )
    start = jnp.zeros_like(flat) if x0 is None else ravel(x0)[0].astype(flat.dtype)

    def on_vectors(f: Operator) -> Operator:
        return lambda v: ravel(f(unravel(v)))[0].astype(flat.dtype)

    def solve(matvec: Operator, b: Array) -> Any:
        return method(matvec, on_vectors(invert), b, lax.stop_gradient(start))

    x = lax.custom_linear_solve(
        on_vectors(apply), flat, solve, None if symmetric else solve, symmetric
    )
    return unravel(x)


def _only_leaf(tree: PyTree) -> tuple[Any, Callable[[Any], Any]]:
    """As `ravel_pytree`, of a tree of one array, which keeps its shape."""
    (leaf,), structure = pytrees.tree_flatten(tree)
    return jnp.asarray(leaf), lambda x: pytrees.tree_unflatten(structure, [x])


def _inexact(x: Array) -> Any:
    array = jnp.asarray(x)
    return (
        array
        if jnp.issubdtype(array.dtype, jnp.inexact)
        else array.astype(jnp.result_type(array.dtype, jnp.float32))
    )
