"""Functions of matrices, and the Sylvester equation: by complex Schur forms, column by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer._derived.forward import jvp
from teucer._transform.vmap import vmap
from teucer.numpy._library import fast
from teucer.scipy._linalg_factors import adjoint, schur, triangular
from teucer.scipy._linalg_systems import expm
from teucer.scipy._operands import along_last, as_complex, identity, matrices, product

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, Value


@overload
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = ..., compute_expm: Literal[True] = ...
) -> tuple[Array, Array]: ...
@overload
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = ..., compute_expm: bool = ...
) -> Any: ...
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """(expm(A), l), l the derivative of expm at A along E; only l without compute_expm. `method`
    has no effect.

    A, E: T[..., n, n]. Raises ValueError if they are not square, or their shapes differ.

    >>> expm_frechet(jnp.zeros((1, 1)), jnp.ones((1, 1)))
    (Array([[1.]], dtype=float32), Array([[1.]], dtype=float32))
    """
    value, derivative = _expm_frechet(A, E)
    return (value, derivative) if compute_expm else derivative


@fast
def _expm_frechet(a: ArrayLike, e: ArrayLike) -> tuple[Any, Any]:
    a, e = matrices("expm_frechet", a, e)
    for name, x in (("A", a), ("E", e)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(
                f"expm_frechet: expected {name} to be a (batched) square matrix, got "
                f"{name}.shape={x.shape}."
            )
    if a.shape != e.shape:
        raise ValueError(
            f"expm_frechet: expected A and E to be the same shape, got A.shape={a.shape} and "
            f"E.shape={e.shape}."
        )
    return jvp(expm, (a,), (e,))


@overload
def funm(A: ArrayLike, func: Callable[[Value], object], disp: Literal[True] = ...) -> Array: ...
@overload
def funm(A: ArrayLike, func: Callable[[Value], object], disp: bool = ...) -> Any: ...
def funm(
    A: ArrayLike, func: Callable[[Value], object], disp: bool = True
) -> Array | tuple[Array, Array]:
    """The function of a matrix that `func`, of numbers, says: of its eigenvalues, by Parlett's
    recurrence. Complex.

    A: T[..., n, n]. disp: False: (the result, an estimate of its relative error).
    Raises ValueError if A is not square.

    >>> funm(jnp.array([[4., 1.], [0., 9.]]), jnp.sqrt).real[0].round(3)
    Array([2. , 0.2], dtype=float32)

    Method: B. N. Parlett, Linear Algebra Appl. 14 (1976) 117. It is inaccurate where eigenvalues
    are close.
    """
    (a,) = _square("funm", A)
    t, z = schur(a, "complex")
    of_numbers = func
    for _ in range(a.ndim - 1):
        of_numbers = vmap(of_numbers)
    diagonal = jnp.diagonal(t, axis1=-2, axis2=-1)
    values = jnp.asarray(of_numbers(diagonal)).astype(t.dtype)
    f = _from_diagonal(t, values)
    result = product(z, product(f, adjoint(z)))
    return result if disp else (result, _parlett_error(t, diagonal, f))


def _parlett_error(t: Array, diagonal: Array, f: Array) -> Any:
    """An estimate of the relative error: large where eigenvalues are close."""
    eps = jnp.finfo(t.dtype).eps
    n = t.shape[-1]
    apart = jnp.abs(diagonal[..., :, None] - diagonal[..., None, :])
    distinct = jnp.triu(jnp.ones((n, n), bool), 1) & (apart != 0)
    nearest = jnp.minimum(
        jnp.max(jnp.abs(t), axis=(-2, -1), initial=0.0),
        jnp.min(apart, axis=(-2, -1), initial=jnp.inf, where=distinct),
    )
    norm = jnp.max(jnp.sum(jnp.abs(jnp.triu(t, 1)), axis=-2), axis=-1, initial=0.0)
    error = jnp.clip(eps / jnp.where(nearest == 0, eps, nearest) * norm, eps, 1.0)
    return jnp.where(jnp.isfinite(f).all(axis=(-2, -1)), error, jnp.inf)


@fast(static=("blocksize",))
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a matrix, complex; nan where there is none. Only blocksize 1 is
    supported.

    A: T[..., n, n]. Raises ValueError if it is not square, NotImplementedError for another
    blocksize.

    >>> sqrtm(jnp.array([[4., 1.], [0., 9.]])).real[0].round(3)
    Array([2. , 0.2], dtype=float32)

    Method: A. Björck and S. Hammarling, Linear Algebra Appl. 52 (1983) 127.
    """
    if blocksize > 1:
        raise NotImplementedError("sqrtm: blocks are not supported\n  Leave blocksize at 1.")
    (a,) = _square("sqrtm", A)
    return _sqrtm(as_complex(a))


@custom_jvp
def _sqrtm(a: Array) -> Any:
    t, z = schur(a, "complex")
    return product(z, product(_triangular_sqrt(t), adjoint(z)))


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Arrays, tangents: Arrays) -> tuple[Any, Any]:
    """Differentiating x x = a: x dx + dx x = da."""
    root = _sqrtm(*primals)
    return root, _sylvester_of(root, root)(tangents[0])


@fast(static=("method", "tol"))
def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """The solution x of A @ x + x @ B = C; nan where an eigenvalue of A is, within tol, the
    opposite of one of B.

    A: T[..., m, m], B: T[..., n, n], C: T[..., m, n]. method: 'schur', or 'eigen', which needs A
    and B to be diagonalizable. Raises ValueError for another method, and if shapes do not fit.

    >>> solve_sylvester(jnp.array([[2.]]), jnp.array([[1.]]), jnp.array([[6.]])).round(3)
    Array([[2.]], dtype=float32)

    Method: R. H. Bartels and G. W. Stewart, Comm. ACM 15 (1972) 820.
    """
    if method not in ("schur", "eigen"):
        raise ValueError(
            f"solve_sylvester: unrecognized method {method!r}; the two valid methods are 'schur' "
            "and 'eigen'."
        )
    a, b, c = _square("solve_sylvester", A, B, C, square=2)
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(
            f"solve_sylvester: shapes do not fit\n    A: {a.shape}\n    B: {b.shape}\n"
            f"    C: {c.shape}"
        )
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    return _solve_sylvester(
        method, tol, *(jnp.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b, c))
    )


def _solve_sylvester(method: str, tol: float, a: Array, b: Array, c: Array) -> Any:
    @custom_jvp
    def solve(a: Array, b: Array, c: Array) -> Any:
        return _sylvester_of(a, b, method, tol)(c)

    @solve.defjvp
    def derivative(primals: Arrays, tangents: Arrays) -> tuple[Any, Any]:
        a, b, c = primals
        da, db, dc = tangents
        of = _sylvester_of(a, b, method, tol)
        x = of(c)
        return x, of(dc - product(da, x) - product(x, db))

    return solve(a, b, c)


def _sylvester_of(
    a: Array, b: Array, method: str = "schur", tol: float = 0.0
) -> Callable[[Any], Any]:
    """The solution of a @ x + x @ b = c, as a linear function of c."""
    is_real = not (jnp.iscomplexobj(a) or jnp.iscomplexobj(b))
    if method == "eigen":
        (r, u), (s, v) = (jnp.linalg.eig(x) for x in (a, b))
        sums = r[..., :, None] + s[..., None, :]

        def transformed(c: Array) -> Any:
            y = jnp.linalg.solve(u, product(as_complex(c), v)) / sums
            return product(product(u, y), jnp.linalg.inv(v))
    else:
        (r, u), (s, v) = (schur(x, "complex") for x in (a, b))
        sums = (
            jnp.diagonal(r, axis1=-2, axis2=-1)[..., :, None]
            + jnp.diagonal(s, axis1=-2, axis2=-1)[..., None, :]
        )

        def transformed(c: Array) -> Any:
            y = _triangular_sylvester(r, s, product(adjoint(u), product(as_complex(c), v)))
            return product(u, product(y, adjoint(v)))

    is_singular = (jnp.abs(sums) <= tol).any(axis=(-2, -1))[..., None, None] if tol else False

    def solve(c: Array) -> Any:
        x = transformed(c)
        x = x.real if is_real and not jnp.iscomplexobj(c) else x
        return jnp.where(is_singular, jnp.nan, x) if tol else x

    return solve


def _triangular_sylvester(r: Any, s: Any, f: Any) -> Any:
    """The solution of r @ y + y @ s = f for upper triangular r and s: a column after the other."""
    eye = identity(r)

    def column(y: Any, k: Any) -> tuple[Any, None]:
        weights = lax.dynamic_index_in_dim(s, k, axis=s.ndim - 1)
        shift = lax.dynamic_index_in_dim(weights, k, axis=s.ndim - 2)
        # Columns of y from k on are still zero.
        right = lax.dynamic_index_in_dim(f, k, axis=f.ndim - 1) - product(y, weights)
        return lax.dynamic_update_slice_in_dim(
            y, triangular(r + shift * eye, right, lower=False), k, axis=y.ndim - 1
        ), None

    return lax.scan(column, jnp.zeros_like(f), jnp.arange(f.shape[-1]))[0] if f.size else f


def _triangular_sqrt(t: Array) -> Any:
    """The square root of upper triangular matrices; nan where it does not exist."""
    roots = jnp.sqrt(jnp.diagonal(t, axis1=-2, axis2=-1))

    def system(u: Array, above: Array, root: Array, own: Array) -> tuple[Array, Array]:
        return u + root * identity(t), above

    u = _by_columns(t, roots, system)
    is_none = (roots[..., :, None] + roots[..., None, :] == 0) & (jnp.triu(u, 1) != 0)
    return jnp.where(is_none, jnp.nan, u)


def _from_diagonal(t: Array, values: Any) -> Any:
    """The upper triangular f with the given diagonal that commutes with t; where eigenvalues are
    equal, as if they were 1 apart."""

    def system(f: Array, above: Array, value: Array, own: Array) -> tuple[Array, Array]:
        return own * identity(t) - t, above * value - product(f, above)

    return _by_columns(t, values, system)


def _by_columns(
    t: Array,
    values: Array,
    system: Callable[[Array, Array, Array, Array], tuple[Array, Array]],
) -> Array:
    """An upper triangular matrix with a given diagonal.

    Its column k above the diagonal solves the first k rows of `matrix @ x = right`.
    Here matrix, right = system(the columns before k, t's elements above the diagonal in column k,
    values[k], t[k, k]). A zero on the diagonal is taken for 1.
    """
    n = t.shape[-1]
    places, eye = jnp.arange(n), identity(t)
    diagonal = jnp.diagonal(t, axis1=-2, axis2=-1)

    def column(f: Any, k: Any) -> tuple[Any, None]:
        is_above = along_last(places < k, t).mT
        above = jnp.where(is_above, lax.dynamic_index_in_dim(t, k, axis=t.ndim - 1), 0)
        value, own = (
            lax.dynamic_index_in_dim(x, k, axis=x.ndim - 1)[..., None] for x in (values, diagonal)
        )
        matrix, right = system(f, above, value, own)
        matrix = jnp.where(is_above & is_above.mT, jnp.triu(matrix), eye)
        matrix = jnp.where((eye != 0) & (matrix == 0), 1, matrix)
        x = triangular(matrix, jnp.where(is_above, right, 0), lower=False)
        x = jnp.where(along_last(places == k, t).mT, value, x)
        return lax.dynamic_update_slice_in_dim(f, x, k, axis=f.ndim - 1), None

    return lax.scan(column, jnp.zeros_like(t), places)[0] if n else t


def _square(op: str, *xs: Value, square: int = 1) -> list[Any]:
    """Matrices in one inexact dtype. The first ones must be square."""
    values = matrices(op, *xs)
    for x in values[:square]:
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"{op}: the matrix must be square, got shape {x.shape}.")
    return values
