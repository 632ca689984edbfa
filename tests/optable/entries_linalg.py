"""Entries of linear algebra.

What a factorization leaves open (signs, phases, order) is taken away before comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.linalg
from optable.table import LINEAR_ALGEBRA, NO_RULE, Draw, Op, Sample, bad, sample

from teucer import lax
from teucer.lax.linalg._qr import geqp3_p, geqrf_p
from teucer.lax.linalg._small import eliminated

F = np.float32
REAL = ("float32", "float64")
# Backward stable algorithms on well-conditioned matrices of size 4: the error is some multiples of
# the size.
STABLE = 64


def square(draw: Draw, *shape: int) -> Any:
    """Well-conditioned: near a diagonal of different elements."""
    n = shape[-1]
    return (draw(*shape, low=-0.5, high=0.5) + np.diag(np.arange(2.0, 2 + n))).astype(draw.dtype)


def adjoint(x: Any) -> Any:
    return np.swapaxes(np.conj(x), -1, -2)


def hermitian(draw: Draw, *shape: int) -> Any:
    x = square(draw, *shape)
    return ((x + adjoint(x)) / 2).astype(draw.dtype)


def each_square(*, symmetric: bool = False, **kwargs: Any) -> Callable[[Draw], Iterable[Sample]]:
    make = hermitian if symmetric else square
    return lambda draw: [sample(make(draw, 4, 4), **kwargs), sample(make(draw, 2, 3, 3), **kwargs)]


def lax_adjoint(x: Any) -> Any:
    y = lax.conj(x) if np.dtype(x.dtype).kind == "c" else x
    return lax.transpose(y, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def product(x: Any, y: Any) -> Any:
    n = tuple(range(x.ndim - 2))
    return lax.dot_general(x, y, (((x.ndim - 1,), (x.ndim - 2,)), (n, n)))


def symmetrized(x: Any) -> Any:
    return lax.mul(lax.add(x, lax_adjoint(x)), np.asarray(0.5, x.dtype))


def scaled(x: Any, by: Any) -> Any:
    """The columns of x times a vector."""
    shape = (*by.shape[:-1], 1, by.shape[-1])
    return lax.mul(
        x,
        lax.broadcast_in_dim(
            lax.reshape(lax.convert_element_type(by, x.dtype), shape), x.shape, tuple(range(x.ndim))
        ),
    )


def eigh_function(x: Any) -> Any:
    """exp of a Hermitian matrix by its eigenvectors, and its eigenvalues."""
    v, w = lax.linalg.eigh(symmetrized(x), symmetrize_input=False)
    return product(scaled(v, lax.exp(lax.mul(w, np.asarray(0.25, w.dtype)))), lax_adjoint(v)), w


def eigh_expected(x: Any) -> Any:
    w, v = np.linalg.eigh((x + adjoint(x)) / 2)
    return [(v * np.exp(w / 4)[..., None, :]) @ adjoint(v), w]


def svd_function(x: Any) -> Any:
    """The polar factor u v of a matrix, and its singular values."""
    u, s, v = lax.linalg.svd(x, full_matrices=False)
    return product(scaled(u, lax.add(s, np.asarray(1, s.dtype))), v), s


def svd_expected(x: Any) -> Any:
    u, s, v = np.linalg.svd(x, full_matrices=False)
    return [(u * (s + 1)[..., None, :]) @ v, s]


def qr_function(x: Any) -> Any:
    """The projection on the columns, and the triangular factor's Gram matrix of absolute values."""
    q, r = lax.linalg.qr(x, full_matrices=False)
    return product(q, lax_adjoint(q)), lax.abs(r)


def qr_expected(x: Any) -> Any:
    q, r = np.linalg.qr(x)
    return [q @ adjoint(q), np.abs(r)]


def lu_function(x: Any) -> Any:
    lu, _, permutation = lax.linalg.lu(x)
    return lu, permutation


def lu_expected(x: Any) -> Any:
    if x.ndim > 2:
        return [np.stack(ys) for ys in zip(*(lu_expected(y) for y in x), strict=True)]
    packed, pivots = scipy.linalg.lu_factor(x)
    order = np.arange(len(x))
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    return [packed, order]


def eig_values(x: Any) -> Any:
    (w,) = lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return w


def eig_function(x: Any) -> Any:
    """The sum of the squares of the eigenvalues; and x + (x v - v w), which is x, for right
    eigenvectors v."""
    w, v = lax.linalg.eig(x, compute_left_eigenvectors=False)
    x = lax.convert_element_type(x, v.dtype)
    return lax.reduce_sum(lax.mul(w, w), (w.ndim - 1,)), lax.add(
        x, lax.sub(product(x, v), scaled(v, w))
    )


def triangles(draw: Draw) -> Iterable[Sample]:
    kind = draw.kind == "c"
    yield sample(square(draw, 4, 4), draw(4, 2), left_side=True, lower=True)
    yield sample(square(draw, 4, 4), draw(2, 4), left_side=False, lower=False, transpose_a=True)
    yield sample(
        square(draw, 2, 3, 3),
        draw(2, 3, 2),
        left_side=True,
        lower=True,
        transpose_a=True,
        conjugate_a=kind,
    )
    yield sample(square(draw, 3, 3), draw(3, 2), left_side=True, lower=True, unit_diagonal=True)


def triangle_solved(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    a = np.conj(a) if conjugate_a else a
    return (
        np.linalg.solve(a, b)
        if left_side
        else np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    )


def bands(draw: Draw) -> Iterable[Sample]:
    lower, upper = draw(4, low=-1, high=1), draw(4, low=-1, high=1)
    lower[0], upper[-1] = 0, 0
    yield sample(lower, draw(4, low=4, high=5), upper, draw(4, 2))


def bands_solved(lower: Any, d: Any, upper: Any, b: Any) -> Any:
    return np.linalg.solve(np.diag(d) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1), b)


def householder(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(4, 3, low=-1, high=1), draw(3, low=0.5, high=1))
    yield sample(draw(2, 4, 2, low=-1, high=1), draw(2, 2, low=0.5, high=1))


def reflected(a: Any, taus: Any) -> Any:
    if a.ndim > 2:
        return np.stack([reflected(x, t) for x, t in zip(a, taus, strict=True)])
    m, n = a.shape
    q = np.eye(m, dtype=a.dtype)
    for i in range(len(taus)):
        v = np.concatenate([np.zeros(i), [1], a[i + 1 :, i]])
        q = q @ (np.eye(m) - taus[i] * np.outer(v, np.conj(v)))
    return q[:, :n]


def schur_function(x: Any) -> Any:
    t, v = lax.linalg.schur(x)
    return product(product(v, t), lax_adjoint(v)), product(v, lax_adjoint(v))


def hessenberg_function(x: Any) -> Any:
    a, taus = lax.linalg.hessenberg(x)
    return lax.abs(a), taus


def pivoted(x: Any) -> Any:
    q, r, p = lax.linalg.qr(x, pivoting=True, full_matrices=False)
    return product(q, r), p


def pivoted_expected(x: Any) -> Any:
    _, _, p = scipy.linalg.qr(x, pivoting=True, mode="economic")
    return [x[:, p], p]


def updated_factor(x: Any, w: Any) -> Any:
    r = lax.linalg.cholesky_update(x, w)
    return product(lax_adjoint(r), r)


NOT_SQUARE = (
    bad((TypeError, ValueError), r"(?s)(square|\(2, 3\))", np.ones((2, 3), F)),
    bad((TypeError, ValueError), "(?s)(rank|dimension|at least)", np.ones(3, F)),
    bad((TypeError, ValueError), "(?s)int32", np.ones((3, 3), np.int32)),
)


def named(op: str, calls: Any) -> Any:
    return [
        type(b)(b.args, b.kwargs, b.error, f"(?s){op}.*{b.match.removeprefix('(?s)')}")
        for b in calls
    ]


OPS = [
    Op(
        "cholesky",
        "lax.linalg.cholesky",
        each_square(symmetric=True),
        LINEAR_ALGEBRA,
        reference=np.linalg.cholesky,
        ulp=STABLE,
        errors=named("cholesky", NOT_SQUARE[:2]),
    ),
    Op(
        "eigh",
        eigh_function,
        each_square(symmetric=True),
        LINEAR_ALGEBRA,
        reference=eigh_expected,
        ulp=STABLE,
    ),
    Op(
        "svd",
        svd_function,
        lambda draw: [sample(square(draw, 4, 4)[:, :3]), sample(square(draw, 2, 3, 3))],
        LINEAR_ALGEBRA,
        reference=svd_expected,
        ulp=STABLE,
    ),
    Op(
        "svd_values",
        lambda x: lax.linalg.svd(x, compute_uv=False),
        lambda draw: [sample(square(draw, 4, 4)[:3])],
        LINEAR_ALGEBRA,
        reference=lambda x: np.linalg.svd(x, compute_uv=False),
        ulp=STABLE,
    ),
    Op(
        "qr",
        qr_function,
        lambda draw: [sample(square(draw, 4, 4)[:, :3]), sample(square(draw, 2, 3, 3))],
        LINEAR_ALGEBRA,
        reference=qr_expected,
        ulp=STABLE,
    ),
    Op(
        "geqrf",
        lambda x: lax.abs(geqrf_p.call(x)[0]),
        lambda draw: [sample(square(draw, 4, 4)[:, :3])],
        REAL,
        reference=lambda x: np.abs(scipy.linalg.qr(x, mode="raw")[0][0]),
        ulp=STABLE,
        exceptions={"gradient": NO_RULE},
    ),
    Op(
        "geqp3",
        lambda x: geqp3_p.call(x, use_magma=None)[1],
        lambda draw: [sample(square(draw, 4, 4))],
        REAL,
        reference=lambda x: scipy.linalg.qr(x, pivoting=True)[2],
        exceptions={"gradient": NO_RULE},
    ),
    Op(
        "qr_pivoted",
        pivoted,
        lambda draw: [sample(square(draw, 4, 4))],
        LINEAR_ALGEBRA,
        reference=pivoted_expected,
        ulp=STABLE,
    ),
    Op(
        "lu",
        lu_function,
        each_square(),
        LINEAR_ALGEBRA,
        reference=lu_expected,
        ulp=STABLE,
        errors=named("lu", NOT_SQUARE[1:]),
    ),
    Op(
        "eig_values",
        eig_values,
        each_square(),
        LINEAR_ALGEBRA,
        ulp=STABLE,
        reference=lambda x: np.linalg.eigvals(x) + 0j,
    ),
    Op(
        "eig",
        eig_function,
        each_square(),
        LINEAR_ALGEBRA,
        ulp=STABLE,
        reference=lambda x: [np.sum(np.linalg.eigvals(x) ** 2 + 0j, -1), x + 0j],
        exceptions={"gradient": NO_RULE},
    ),
    Op(
        "schur",
        schur_function,
        each_square(),
        LINEAR_ALGEBRA,
        ulp=STABLE,
        reference=lambda x: [x, np.broadcast_to(np.eye(x.shape[-1]), x.shape)],
        exceptions={"gradient": NO_RULE},
    ),
    Op(
        "hessenberg",
        hessenberg_function,
        lambda draw: [sample(square(draw, 4, 4))],
        REAL,
        ulp=STABLE,
        exceptions={
            "gradient": NO_RULE,
            "value": "packed as LAPACK does; tested against SciPy in tests/lax",
        },
    ),
    Op(
        "tridiagonal",
        lambda x: lax.linalg.tridiagonal(x)[1],
        lambda draw: [sample(hermitian(draw, 3, 3))],
        REAL,
        ulp=STABLE,
        exceptions={
            "gradient": NO_RULE,
            "value": "packed as LAPACK does; tested against SciPy in tests/lax",
        },
    ),
    Op(
        "eliminated",
        eliminated,
        lambda draw: [
            sample(square(draw, 4, 4), draw(4, 1)),
            sample(square(draw, 2, 3, 3), draw(2, 3, 2)),
        ],
        LINEAR_ALGEBRA,
        reference=np.linalg.solve,
        ulp=STABLE,
    ),
    Op(
        "triangular_solve",
        "lax.linalg.triangular_solve",
        triangles,
        LINEAR_ALGEBRA,
        reference=triangle_solved,
        ulp=STABLE,
        errors=[
            bad(
                (TypeError, ValueError),
                r"(?s)triangular_solve.*(square|\(2, 3\))",
                np.ones((2, 3), F),
                np.ones((3, 1), F),
            ),
            bad(
                (TypeError, ValueError),
                r"(?s)triangular_solve.*",
                np.ones((3, 3), F),
                np.ones((2, 2), F),
                left_side=True,
            ),
        ],
    ),
    Op(
        "tridiagonal_solve",
        "lax.linalg.tridiagonal_solve",
        bands,
        REAL,
        reference=bands_solved,
        ulp=STABLE,
    ),
    Op(
        "householder_product",
        "lax.linalg.householder_product",
        householder,
        LINEAR_ALGEBRA,
        reference=reflected,
        ulp=STABLE,
        exceptions={"gradient": NO_RULE},
    ),
    Op(
        "ormqr",
        "lax.linalg.ormqr",
        lambda draw: [sample(draw(4, 3, low=-1, high=1), draw(3, low=0.5, high=1), draw(4, 2))],
        ("float32", "float64"),
        exceptions={
            "gradient": NO_RULE,
            "value": "householder_product is the reference: tested in tests/lax",
        },
        ulp=STABLE,
    ),
    Op(
        "lu_pivots_to_permutation",
        "lax.linalg.lu_pivots_to_permutation",
        lambda draw: [sample(np.array([2, 2, 3, 3], np.int32), permutation_size=5)],
        ("int32",),
        reference=lambda pivots, permutation_size: np.array([2, 0, 3, 1, 4]),
    ),
    Op(
        "cholesky_update",
        updated_factor,
        lambda draw: [sample(np.triu(square(draw, 4, 4)), draw(4))],
        REAL,
        reference=lambda r, w: r.T @ r + np.outer(w, w),
        ulp=STABLE,
        exceptions={"gradient": NO_RULE},
    ),
    Op(
        "symmetric_product",
        lambda a, c: lax.linalg.symmetric_product(
            a, c, alpha=2.0, beta=0.5, symmetrize_output=True
        ),
        lambda draw: [sample(draw(3, 2), hermitian(draw, 3, 3))],
        REAL,
        reference=lambda a, c: 2 * a @ a.T + 0.5 * c,
        ulp=STABLE,
    ),
]
