"""Factorizations and linear systems."""

import itertools

import numpy as np
import pytest
import scipy.linalg
from optable.laws import FIRST, assert_derivatives, assert_vmap_is_loop
from optable.trees import normal

from teucer._base import config
from teucer._derived.forward import jvp
from teucer._derived.vjp import vjp
from teucer.lax import linalg
from teucer.lax.linalg._qr import geqrf_p

rng = np.random.default_rng(0)
FLOATS = ["float32", "float64", "complex64", "complex128"]
WIDE = ["float64", "complex128"]
SHAPES = [(2, 4, 3), (2, 3, 4), (2, 4, 4)]


@pytest.fixture(autouse=True)
def x64():
    with config.enable_x64(True):
        yield


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def positive(dtype, *batch):
    x = normal(rng, *batch, 4, 4, dtype=dtype)
    return x @ adjoint(x) + 2 * np.eye(4, dtype=dtype)


def assert_close(x, y):
    x, y = np.asarray(x), np.asarray(y)
    np.testing.assert_allclose(
        x, y, rtol=0, atol=2e-4 if x.dtype in (np.float32, np.complex64) else 1e-11
    )


def assert_orthonormal(q):
    assert_close(
        adjoint(q) @ q,
        np.broadcast_to(
            np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], q.shape[-1], q.shape[-1])
        ),
    )


# Cholesky, LU


@pytest.mark.parametrize("dtype", FLOATS)
def test_cholesky(dtype):
    x = positive(dtype, 2)
    factor = np.asarray(linalg.cholesky(x))
    assert factor.dtype == dtype
    np.testing.assert_array_equal(np.triu(factor, 1), 0)
    assert_close(factor @ adjoint(factor), x)
    assert_close(linalg.cholesky(np.tril(x), symmetrize_input=False), factor)


def test_cholesky_edges():
    assert np.isnan(np.asarray(linalg.cholesky(-np.eye(2)))[np.tril_indices(2)]).all()
    out = np.asarray(linalg.cholesky(np.stack([np.eye(2), -np.eye(2)])))
    np.testing.assert_array_equal(out[0], np.eye(2))
    assert linalg.cholesky(np.eye(2, dtype=np.int32)).dtype == np.float32
    assert linalg.cholesky(np.zeros((0, 3, 3))).shape == (0, 3, 3)
    with pytest.raises(
        ValueError, match=r"The input to cholesky must be a square matrix. Got shape \(2, 3\)"
    ):
        linalg.cholesky(np.ones((2, 3)))
    with pytest.raises(TypeError, match="Input 0 to cholesky must have rank at least 2"):
        linalg.cholesky(np.ones(3))
    for error, said in [  # of JAX 0.10 and 0.12
        (NotImplementedError, "Unsupported dtype float16"),
        (TypeError, "cholesky does not accept dtype float16"),
    ]:
        with pytest.raises(error, match=said):
            linalg.cholesky(np.eye(2, dtype=np.float16))


@pytest.mark.parametrize("dtype", WIDE)
def test_cholesky_laws(dtype):
    assert_derivatives(linalg.cholesky, positive(dtype, 2))
    assert_vmap_is_loop(linalg.cholesky, positive(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu(shape, dtype):
    x = normal(rng, *shape, dtype=dtype)
    packed, pivots, permutation = map(np.asarray, linalg.lu(x))
    k = min(shape[1:])
    lower, upper = (
        np.tril(packed[..., :k], -1) + np.eye(shape[1], k, dtype=dtype),
        np.triu(packed[:, :k]),
    )
    assert_close(lower @ upper, np.take_along_axis(x, permutation[..., None], 1))
    np.testing.assert_array_equal(linalg.lu_pivots_to_permutation(pivots, shape[1]), permutation)
    np.testing.assert_array_equal(
        pivots[0], scipy.linalg.lapack.get_lapack_funcs(("getrf",), (x,))[0](x[0])[1]
    )


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_laws(shape, dtype):
    assert_derivatives(linalg.lu, normal(rng, *shape, dtype=dtype))
    assert_vmap_is_loop(linalg.lu, normal(rng, *shape[1:], dtype=dtype))


def test_lu_edges():
    assert np.isnan(np.asarray(linalg.lu(np.full((2, 2), np.nan))[0])).all()
    np.testing.assert_array_equal(linalg.lu(np.zeros((2, 2)))[0], 0)
    assert [y.tolist() for y in linalg.lu(np.zeros((3, 0)))] == [
        [[], [], []],
        [],
        [0, 1, 2],
    ]
    with pytest.raises(TypeError, match="lu does not accept dtype int64 at position 0"):
        linalg.lu(np.ones((2, 2), int))


def test_lu_pivots_to_permutation():
    pivots = np.int32([[2, 1], [1, 3]])
    np.testing.assert_array_equal(
        linalg.lu_pivots_to_permutation(pivots, 4), [[2, 1, 0, 3], [1, 3, 2, 0]]
    )
    assert_vmap_is_loop(lambda p: linalg.lu_pivots_to_permutation(p, 4), pivots[0])
    with pytest.raises(TypeError, match="subtypes of int32"):
        linalg.lu_pivots_to_permutation(pivots.astype(np.uint32), 4)
    with pytest.raises(
        ValueError,
        match="Output permutation size 1 has to exceed the trailing dimension of the pivots",
    ):
        linalg.lu_pivots_to_permutation(pivots, 1)


# QR


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("full", "pivoting"), list(itertools.product([False, True], repeat=2)))
def test_qr(full, pivoting, shape, dtype):
    x = normal(rng, *shape, dtype=dtype)
    q, r, *order = map(np.asarray, linalg.qr(x, full_matrices=full, pivoting=pivoting))
    assert q.shape == (2, shape[1], shape[1] if full else min(shape[1:]))
    assert_orthonormal(q)
    np.testing.assert_array_equal(np.tril(r, -1), 0)
    assert_close(q @ r, np.take_along_axis(x, order[0][:, None, :], 2) if pivoting else x)
    if pivoting:
        sizes = np.abs(np.diagonal(r, axis1=1, axis2=2))
        assert (np.diff(sizes) <= 1e-6).all()
        np.testing.assert_array_equal(order[0][0], scipy.linalg.qr(x[0], pivoting=True)[2])


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pivoting", [False, True])
def test_qr_laws(pivoting, shape, dtype):
    assert_derivatives(
        lambda x: linalg.qr(x, full_matrices=False, pivoting=pivoting),
        normal(rng, *shape, dtype=dtype),
    )
    assert_vmap_is_loop(
        lambda x: linalg.qr(x, pivoting=pivoting), normal(rng, *shape[1:], dtype=dtype)
    )


def test_qr_edges():
    for pivoting in (False, True):
        q, r, *_ = linalg.qr(np.zeros((3, 0)), pivoting=pivoting)
        np.testing.assert_array_equal(q, np.eye(3))
        assert r.shape == (3, 0)
        assert [y.shape for y in linalg.qr(np.zeros((0, 3)), pivoting=pivoting)][:2] == [
            (0, 0),
            (0, 3),
        ]


@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivative_of_full_qr(dtype, pivoting):
    """The last columns of Q too are functions of x, though of no interest but for the space that
    they span."""
    rng = np.random.default_rng(0)
    x, t = (
        (rng.standard_normal((2, 5, 3)) + 1j * rng.standard_normal((2, 5, 3))) for _ in range(2)
    )
    x, t = (x, t) if dtype == "complex128" else (x.real, t.real)

    def f(x):
        return linalg.qr(x, pivoting=pivoting)[:2]

    h = 1e-6
    outs, tangents = jvp(f, (x,), (t,))
    for y, dy, ahead, behind in zip(outs, tangents, f(x + h * t), f(x - h * t), strict=True):
        assert dy.shape == y.shape
        np.testing.assert_allclose(
            dy, (np.asarray(ahead) - np.asarray(behind)) / (2 * h), rtol=1e-6, atol=1e-7
        )
    cts = tuple(rng.standard_normal(y.shape).astype(y.dtype) for y in outs)
    (ct,) = vjp(f, x)[1](cts)
    # Linear over the reals only; cotangents are not conjugated.
    expected = sum(np.sum(c * np.asarray(dy)) for c, dy in zip(cts, tangents, strict=True))
    np.testing.assert_allclose(np.sum(np.asarray(ct) * t).real, expected.real, rtol=1e-9)


@pytest.mark.parametrize("dtype", FLOATS)
def test_householder_product_and_ormqr(dtype):
    x = normal(rng, 2, 4, 3, dtype=dtype)
    packed, taus = map(np.asarray, geqrf_p.call(x))
    q, _ = map(np.asarray, linalg.qr(x))
    assert_close(linalg.householder_product(packed, taus), q[..., :3])
    c, d = normal(rng, 2, 4, 5, dtype=dtype), normal(rng, 2, 5, 4, dtype=dtype)
    assert_close(linalg.ormqr(packed, taus, c), q @ c)
    assert_close(linalg.ormqr(packed, taus, c, transpose=True), adjoint(q) @ c)
    assert_close(linalg.ormqr(packed, taus, d, left=False), d @ q)
    assert_close(linalg.ormqr(packed, taus, d, left=False, transpose=True), d @ adjoint(q))
    assert_vmap_is_loop(linalg.householder_product, packed[0], taus[0], rtol=1e-4)
    assert_vmap_is_loop(linalg.ormqr, packed[0], taus[0], c[0], rtol=1e-4)


def test_householder_errors():
    with pytest.raises(
        ValueError, match="must have at least as many rows as columns, got shape \\(3, 4\\)"
    ):
        linalg.householder_product(np.ones((3, 4)), np.ones(3))
    with pytest.raises(ValueError, match="must not have more rows than the minimum"):
        linalg.householder_product(np.ones((4, 3)), np.ones(4))
    with pytest.raises(TypeError, match=r"same number of batch dimensions, but got \[1, 0\]"):
        linalg.householder_product(np.ones((2, 4, 3)), np.ones(3))
    with pytest.raises(
        TypeError, match="requires arguments to have the same dtypes, got float64, float32"
    ):
        linalg.householder_product(np.ones((4, 3)), np.ones(3, np.float32))
    with pytest.raises(
        ValueError, match="ormqr with left=True expects c to have the same number of rows"
    ):
        linalg.ormqr(np.ones((4, 3)), np.ones(3), np.ones((5, 5)))


# Eigenvalues


@pytest.mark.parametrize("dtype", FLOATS)
def test_eigh(dtype):
    x = positive(dtype, 2)
    for v, w in (
        linalg.eigh(x),
        linalg.eigh(np.tril(x), symmetrize_input=False),
        linalg.eigh(np.triu(x), lower=False, symmetrize_input=False),
        linalg.eigh(x, subset_by_index=(1, 3)),
    ):
        v, w = np.asarray(v), np.asarray(w)
        assert w.dtype == np.finfo(dtype).dtype
        assert_orthonormal(v)
        assert_close(x @ v, v * w[:, None])
        assert_close(
            w, np.linalg.eigvalsh(x)[:, 1:3] if w.shape == (2, 2) else np.linalg.eigvalsh(x)
        )


@pytest.mark.parametrize("dtype", WIDE)
def test_eigh_laws(dtype):
    x = positive(dtype, 2)
    # The phases of complex eigenvectors are free; what does not depend on them is differentiable.
    assert_derivatives(
        linalg.eigh, x, laws=FIRST if dtype == "float64" else FIRST - {"differences"}
    )
    assert_derivatives(lambda x: linalg.eigh(x)[1], x)
    (v, w), (dv, dw) = jvp(linalg.eigh, (x,), (x @ x,))
    v, w, dv, dw = map(np.asarray, (v, w, dv, dw))
    assert_close(
        dv @ (w[..., None] * adjoint(v))
        + v @ (dw[..., None] * adjoint(v))
        + v @ (w[..., None] * adjoint(dv)),
        x @ x,
    )
    assert_vmap_is_loop(linalg.eigh, positive(dtype))


def test_eigh_edges():
    assert np.isnan(np.asarray(linalg.eigh(np.full((2, 2), np.nan))[1])).all()
    assert linalg.eigh(np.eye(2), implementation="qr")[1].shape == (2,)
    with pytest.raises(NotImplementedError, match="QDWH implementation is only supported on TPU"):
        linalg.eigh(np.eye(2), implementation=linalg.EighImplementation.QDWH)
    with pytest.raises(NotImplementedError, match="Jacobi implementation is not supported on CPU"):
        linalg.eigh(np.eye(2), implementation=linalg.EighImplementation.JACOBI)
    with pytest.raises(ValueError, match="subset_by_index must satisfy 0 <= first <= last <= n"):
        linalg.eigh(np.eye(2), subset_by_index=(0, 3))
    with pytest.raises(ValueError, match="implementation must be one of"):
        linalg.eigh(np.eye(2), implementation="fast")
    with pytest.raises(NotImplementedError, match="derivatives of a subset"):
        jvp(lambda x: linalg.eigh(x, subset_by_index=(0, 1)), (np.eye(2),), (np.eye(2),))


@pytest.mark.parametrize("dtype", FLOATS)
def test_eig(dtype):
    x = normal(rng, 2, 4, 4, dtype=dtype)
    w, left, right = map(np.asarray, linalg.eig(x))
    assert_close(x @ right, right * w[:, None])
    assert_close(adjoint(left) @ x, w[..., None] * adjoint(left))
    (only,) = linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    assert_close(np.sort_complex(only), np.sort_complex(w))
    assert w.dtype == np.result_type(dtype, np.complex64)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize(("left", "right"), list(itertools.product([False, True], repeat=2)))
def test_eig_laws(left, right, dtype):
    x = normal(np.random.default_rng(3), 2, 4, 4, dtype=dtype)
    options = {"compute_left_eigenvectors": left, "compute_right_eigenvectors": right}
    assert_derivatives(lambda x: linalg.eig(x, enable_eigvec_derivs=True, **options), x)
    if left or right:
        with pytest.raises(
            NotImplementedError, match="Pass enable_eigvec_derivs=True to eig to opt in"
        ):
            jvp(lambda x: linalg.eig(x, **options), (x,), (x,))
    assert_vmap_is_loop(lambda x: linalg.eig(x, **options), x[0])


def test_eig_edges():
    assert np.isnan(np.asarray(linalg.eig(np.full((2, 2), np.nan))[0])).all()
    with pytest.raises(ValueError, match="Only the lapack implementation is supported on CPU"):
        linalg.eig(np.eye(2), implementation=linalg.EigImplementation.CUSOLVER)
    with pytest.warns(DeprecationWarning, match="use_magma is deprecated"):
        linalg.eig(np.eye(2), use_magma=False)
    with pytest.raises(ValueError, match="The input to eig must be a square matrix"):
        linalg.eig(np.ones((2, 3)))


# Singular values


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", [None, linalg.SvdAlgorithm.QR])
def test_svd(algorithm, shape, dtype):
    x = normal(rng, *shape, dtype=dtype)
    k = min(shape[1:])
    for full in (False, True):
        u, s, vh = map(np.asarray, linalg.svd(x, full_matrices=full, algorithm=algorithm))
        assert (u.shape[-1], vh.shape[-2]) == (shape[1:] if full else (k, k))
        assert s.dtype == np.finfo(dtype).dtype
        assert_orthonormal(u)
        assert_orthonormal(adjoint(vh))
        assert_close((u[..., :k] * s[:, None]) @ vh[:, :k], x)
        assert_close(s, np.linalg.svd(x, compute_uv=False))
    assert_close(linalg.svd(x, compute_uv=False), s)
    part = linalg.svd(x, full_matrices=False, subset_by_index=(1, 3))
    for y, z, at in zip(
        part,
        (u, s, vh),
        ((..., slice(1, 3)), (..., slice(1, 3)), (slice(None), slice(1, 3))),
        strict=True,
    ):
        assert y.shape == z[at].shape
    assert_close(part[1], s[:, 1:3])


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", SHAPES)
def test_svd_laws(shape, dtype):
    x, t = normal(rng, *shape, dtype=dtype), normal(rng, *shape, dtype=dtype)
    assert_derivatives(
        lambda x: linalg.svd(x, full_matrices=False),
        x,
        laws=FIRST if dtype == "float64" else FIRST - {"differences"},
    )
    assert_derivatives(lambda x: linalg.svd(x, compute_uv=False), x)
    (u, s, vh), (du, ds, dvh) = (
        map(np.asarray, y) for y in jvp(lambda x: linalg.svd(x, full_matrices=False), (x,), (t,))
    )
    s, ds = s[..., None, :], ds[..., None, :]
    assert_close((du * s) @ vh + (u * ds) @ vh + (u * s) @ dvh, t)
    for q, dq in ((u, du), (adjoint(vh), adjoint(dvh))):
        assert_close(adjoint(q) @ dq + adjoint(dq) @ q, np.zeros_like(adjoint(q) @ dq))
    assert_vmap_is_loop(linalg.svd, x[0])


def test_svd_edges():
    assert np.isnan(np.asarray(linalg.svd(np.full((2, 2), np.nan))[1])).all()
    u, s, vh = linalg.svd(np.zeros((3, 0)))
    np.testing.assert_array_equal(u, np.eye(3))
    assert (s.shape, vh.shape) == ((0,), (0, 0))
    with pytest.raises(
        NotImplementedError, match="SVD Jacobi and Polar algorithms are not implemented on CPU"
    ):
        linalg.svd(np.eye(2), algorithm=linalg.SvdAlgorithm.JACOBI)
    with pytest.raises(ValueError, match="full_matrices and subset_by_index cannot both be set"):
        linalg.svd(np.ones((2, 3)), subset_by_index=(0, 1))
    with pytest.raises(ValueError, match="subset_by_index must satisfy"):
        linalg.svd(np.ones((2, 3)), full_matrices=False, subset_by_index=(2, 1))
    with pytest.raises(NotImplementedError, match="JVP not implemented for full matrices"):
        jvp(linalg.svd, (np.ones((3, 2)),), (np.ones((3, 2)),))
    # A singular value of zero does not spoil the derivatives of the others.
    _, (_, ds, _) = jvp(
        lambda x: linalg.svd(x, full_matrices=False), (np.diag([2.0, 1.0, 0.0]),), (np.eye(3),)
    )
    np.testing.assert_allclose(ds, 1)


# Reductions to simpler forms


@pytest.mark.parametrize("dtype", FLOATS)
def test_schur_hessenberg_tridiagonal(dtype):
    x = normal(rng, 2, 4, 4, dtype=dtype)
    form, z = map(np.asarray, linalg.schur(x))
    assert_orthonormal(z)
    assert_close(z @ form @ adjoint(z), x)
    assert_close(linalg.schur(x, compute_schur_vectors=False)[0], form)
    np.testing.assert_array_equal(np.tril(form, -2 if np.dtype(dtype).kind == "f" else -1), 0)

    def completed(packed, taus):
        q = np.zeros_like(packed)
        q[:, 0, 0] = 1
        q[:, 1:, 1:] = linalg.householder_product(np.ascontiguousarray(packed[:, 1:, :-1]), taus)
        return q

    packed, taus = map(np.asarray, linalg.hessenberg(x))
    q = completed(packed, taus)
    assert_close(q @ np.triu(packed, -1) @ adjoint(q), x)
    h = positive(dtype, 2)
    packed, d, e, taus = map(np.asarray, linalg.tridiagonal(h))
    q = completed(packed, taus)
    t = np.stack([np.diag(d[i]) + np.diag(e[i], 1) + np.diag(e[i], -1) for i in range(2)])
    assert_close(q @ t @ adjoint(q), h)
    assert_close(linalg.tridiagonal(np.triu(h), lower=False)[1].shape, d.shape)
    for f in (linalg.schur, linalg.hessenberg, linalg.tridiagonal):
        assert_vmap_is_loop(f, x[0], rtol=1e-4)


def test_reduction_edges():
    assert [y.shape for y in linalg.hessenberg(np.zeros((0, 0)))] == [(0, 0), (0,)]
    with pytest.raises(
        NotImplementedError, match="The sort feature of LAPACK's gees routine is not implemented"
    ):
        linalg.schur(np.eye(2), sort_eig_vals=True)
    with pytest.raises(ValueError, match="The input to tridiagonal must be a square matrix"):
        linalg.tridiagonal(np.zeros((0, 0)))
    with pytest.raises(ValueError, match="Argument to Hessenberg reduction must have shape"):
        linalg.hessenberg(np.ones((2, 3)))
    with pytest.raises(
        NotImplementedError, match="Differentiation rule for 'schur' not implemented"
    ):
        jvp(linalg.schur, (np.eye(2),), (np.eye(2),))


# Linear systems

FLAGS = [
    dict(zip(("left_side", "lower", "transpose_a", "conjugate_a"), flags, strict=True))
    for flags in itertools.product([False, True], repeat=4)
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_triangular_solve(unit_diagonal, dtype):
    a = (normal(rng, 2, 4, 4, dtype=dtype) + 3 * np.eye(4)).astype(dtype)
    for flags in FLAGS:
        b = normal(rng, *((2, 4, 3) if flags["left_side"] else (2, 3, 4)), dtype=dtype)
        x = np.asarray(linalg.triangular_solve(a, b, unit_diagonal=unit_diagonal, **flags))
        op = np.tril(a) if flags["lower"] else np.triu(a)
        op = op - op * np.eye(4) + np.eye(4) if unit_diagonal else op
        op = np.swapaxes(op, 1, 2) if flags["transpose_a"] else op
        op = np.conj(op) if flags["conjugate_a"] else op
        scale = max(1, np.abs(x).max())
        assert_close((op @ x if flags["left_side"] else x @ op).astype(dtype) / scale, b / scale)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("flags", FLAGS, ids=lambda f: "".join(str(int(v)) for v in f.values()))
def test_triangular_solve_laws(flags, dtype):
    a = normal(rng, 4, 4, dtype=dtype) + 3 * np.eye(4)
    b = normal(rng, *((4, 2) if flags["left_side"] else (2, 4)), dtype=dtype)
    for unit in (False, True):
        assert_derivatives(
            lambda a, b, unit=unit: linalg.triangular_solve(a, b, unit_diagonal=unit, **flags), a, b
        )
    assert_vmap_is_loop(lambda a, b: linalg.triangular_solve(a, b, **flags), a, b)


def test_triangular_solve_of_vectors_and_edges():
    a, v = np.eye(3) + np.tri(3), np.ones(3)
    x = linalg.triangular_solve(a, v, left_side=True, lower=True)
    assert_close(np.tril(a) @ np.asarray(x), v)
    assert_close(np.asarray(linalg.triangular_solve(a, v, lower=True)) @ np.tril(a), v)
    assert linalg.triangular_solve(np.ones((2, 3, 3)), np.ones((2, 3))).shape == (2, 3)
    assert linalg.triangular_solve(np.zeros((0, 0)), np.zeros((0, 0))).shape == (0, 0)
    assert (
        linalg.triangular_solve(np.eye(2, dtype=np.float16), np.ones((2, 2), np.float16)).dtype
        == np.float16
    )
    assert np.isinf(np.asarray(linalg.triangular_solve(np.zeros((1, 1)), np.ones((1, 1))))).all()


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (
            (3, 4),
            (4, 2),
            ValueError,
            r"The first input to triangular_solve must be a square matrix. Got shape \(3, 4\)",
        ),
        (
            (3, 3),
            (4, 2),
            ValueError,
            r"Incompatible shapes for arguments to triangular_solve: \(3, 3\) and \(4, 2\)",
        ),
        ((3, 3), (2, 3, 3), TypeError, r"same number of batch dimensions, but got \[0, 1\]"),
        ((3,), (3,), TypeError, "Input 0 to triangular_solve must have rank at least 2"),
    ],
)
def test_triangular_solve_C1_C2(a, b, error, message):
    with pytest.raises(error, match=message):
        linalg.triangular_solve(np.ones(a), np.ones(b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("perturb", [False, True])
def test_tridiagonal_solve(perturb, dtype):
    dl, d, du = (normal(rng, 2, 5, dtype=dtype) for _ in range(3))
    d = (d + 5).astype(dtype)
    b = normal(rng, 2, 5, 3, dtype=dtype)
    x = np.asarray(linalg.tridiagonal_solve(dl, d, du, b, perturb_singular=perturb))
    a = np.stack(
        [np.diag(d[i]) + np.diag(du[i, :-1], 1) + np.diag(dl[i, 1:], -1) for i in range(2)]
    )
    assert_close((a @ x).astype(dtype), b)


@pytest.mark.parametrize("dtype", WIDE)
def test_tridiagonal_solve_laws(dtype):
    dl, d, du = (
        normal(rng, 5, dtype=dtype),
        normal(rng, 5, dtype=dtype) + 5,
        normal(rng, 5, dtype=dtype),
    )
    assert_derivatives(linalg.tridiagonal_solve, dl, d, du, normal(rng, 5, 2, dtype=dtype))
    assert_vmap_is_loop(linalg.tridiagonal_solve, dl, d, du, normal(rng, 5, 2, dtype=dtype))


def test_tridiagonal_solve_edges():
    zero = np.zeros(3)
    assert np.isnan(np.asarray(linalg.tridiagonal_solve(zero, zero, zero, np.ones((3, 1))))).all()
    assert np.isfinite(
        np.asarray(
            linalg.tridiagonal_solve(zero, zero, zero, np.ones((3, 1)), perturb_singular=True)
        )
    ).all()
    np.testing.assert_array_equal(
        linalg.tridiagonal_solve(np.ones(1), np.full(1, 2.0), np.ones(1), np.ones((1, 2))),
        [[0.5, 0.5]],
    )
    assert linalg.tridiagonal_solve(*(np.zeros(0),) * 3, np.zeros((0, 2))).shape == (0, 2)
    with pytest.raises(TypeError, match="requires that all diagonal arguments have the same shape"):
        linalg.tridiagonal_solve(np.ones(4), np.ones(3), np.ones(4), np.ones((4, 2)))
    with pytest.raises(
        TypeError, match="leading ndim-1 dimensions of b equal the dimensions of the diagonal"
    ):
        linalg.tridiagonal_solve(np.ones(4), np.ones(4), np.ones(4), np.ones((3, 2)))
    with pytest.raises(TypeError, match="Input 3 to tridiagonal_solve must have rank at least 2"):
        linalg.tridiagonal_solve(np.ones(4), np.ones(4), np.ones(4), np.ones(4))


# Updates, polar decomposition


def test_cholesky_update():
    r, w = np.triu(normal(rng, 2, 4, 4)), normal(rng, 2, 4)
    out = np.asarray(linalg.cholesky_update(r, w))
    np.testing.assert_array_equal(np.tril(out, -1), 0)
    assert_close(adjoint(out) @ out, adjoint(r) @ r + w[:, :, None] * w[:, None])
    assert_vmap_is_loop(linalg.cholesky_update, r[0], w[0])
    np.testing.assert_array_equal(linalg.cholesky_update(np.zeros((2, 2)), np.zeros(2)), 0)
    with pytest.raises(ValueError, match="takes a square matrix and a vector of the same size"):
        linalg.cholesky_update(np.ones((3, 3)), np.ones(4))
    with pytest.raises(TypeError, match="cholesky_update does not accept dtype complex128"):
        linalg.cholesky_update(np.ones((3, 3), complex), np.ones(3, complex))


def test_symmetric_product():
    a, c = normal(rng, 2, 4, 3), positive("float64", 2)
    expected = 2 * a @ adjoint(a) + 3 * c
    assert_close(
        linalg.symmetric_product(a, c, alpha=2.0, beta=3.0, symmetrize_output=True), expected
    )
    assert_close(np.tril(linalg.symmetric_product(a, c, alpha=2.0, beta=3.0)), np.tril(expected))
    assert_derivatives(lambda a, c: linalg.symmetric_product(a, c, alpha=2.0, beta=3.0), a, c)
    assert_vmap_is_loop(linalg.symmetric_product, a[0], c[0])
    with pytest.raises(ValueError, match="symmetric_update expects a rectangular matrix of shape"):
        linalg.symmetric_product(np.ones((3, 4)), np.ones((4, 4)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3)])
def test_qdwh(shape, dtype):
    x = normal(rng, *shape, dtype=dtype)
    u, h, steps, converged = linalg.qdwh(x)
    for y, z in zip((u, h), scipy.linalg.polar(x), strict=True):
        assert_close(y, z.astype(dtype))
    assert int(steps) <= 6
    assert bool(converged)


def test_qdwh_edges():
    x = normal(rng, 4, 4)
    u, h, steps, converged = linalg.qdwh(x, max_iterations=2)
    assert (int(steps), bool(converged)) == (2, False)
    u, h, *_ = linalg.qdwh(x, dynamic_shape=(3, 2))
    for y, z in zip((u, h), scipy.linalg.polar(x[:3, :2]), strict=True):
        assert_close(np.asarray(y)[: z.shape[0], : z.shape[1]], z)
    np.testing.assert_array_equal(np.asarray(u)[3:], 0)
    np.testing.assert_array_equal(linalg.qdwh(np.zeros((2, 2)))[1], 0)
    assert_close(linalg.qdwh(np.diag([1.0, 1e-12]))[0], np.eye(2))
    assert_derivatives(lambda x: linalg.qdwh(x)[:2], x)
    with pytest.raises(ValueError, match="must have M >= N"):
        linalg.qdwh(np.ones((2, 3)))
