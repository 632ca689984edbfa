"""Decompositions as TPUs compute them, on the CPU: XLA expands the same custom calls there, but for
LU's. The tolerances are a few units of the last place times the size of the matrices."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer._targets.cpu.target import CPU
from teucer._targets.tpu.target import TPU
from teucer.lax.linalg._qr import geqrf_p

QUICK, MOST = ["float32"], ["complex64", "float64", "complex128"]


@pytest.fixture(autouse=True)
def as_on_tpus(monkeypatch):
    kernels = TPU.kernels
    calls = {name: call for name, call in kernels.built_in.items() if name != "getrf"}
    jax.clear_caches()
    monkeypatch.setattr(CPU, "kernels", kernels._replace(built_in=calls))
    with jax.enable_x64(True):
        yield
    jax.clear_caches()


def dtypes(*quick):
    return pytest.mark.parametrize(
        "dtype",
        [*quick, *(pytest.param(d, marks=pytest.mark.slow) for d in MOST if d not in quick)],
    )


def drawn(*shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=shape)
    return (x + 1j * random.normal(size=shape) if "complex" in dtype else x).astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def off(x, y):
    """The greatest difference in units of the last place of 1."""
    return np.abs(np.subtract(x, y)).max(initial=0) / np.finfo(np.asarray(x).dtype).eps


@dtypes("float32", "complex64")
@pytest.mark.parametrize("shape", [(3, 6, 6), (1, 1), (2, 0, 0)])
def test_eigh(shape, dtype):
    x = drawn(*shape, dtype=dtype)
    x = x + adjoint(x)
    v, w = map(np.asarray, lax.linalg.eigh(x))
    n = shape[-1]
    # Rotations by less than 1e-6 are left out, also in double precision.
    residual = np.abs(x @ v - v * w[..., None, :]).max(initial=0)
    assert residual < 1e-5
    assert off(adjoint(v) @ v, np.broadcast_to(np.eye(n), shape)) < 40
    assert off(w, np.linalg.eigvalsh(x)) < 100
    part = lax.linalg.eigh(np.tril(x), symmetrize_input=False, subset_by_index=(0, n // 2))
    assert off(part[1], w[..., : n // 2]) < 1 and part[0].shape == (*shape[:-1], n // 2)


def test_a_matrix_with_nan_has_no_eigenvectors():
    x = np.stack([np.eye(3), np.full((3, 3), np.nan)]).astype(np.float32)
    v, w = map(np.asarray, lax.linalg.eigh(x))
    assert np.isfinite(v[0]).all() and np.isnan(v[1]).all() and np.isnan(w[1]).all()


def matrix(kind, dtype):
    if kind == "rank 2":
        return drawn(6, 2, dtype=dtype) @ drawn(2, 5, dtype=dtype, seed=1)
    return np.zeros((5, 4), dtype) if kind == "zero" else drawn(*kind, dtype=dtype)


SLOW = pytest.mark.slow  # XLA takes 5 s to compile each


@dtypes("float32")
@pytest.mark.parametrize(
    "kind",
    ["rank 2", *(pytest.param(k, marks=SLOW) for k in ("zero", (4, 7), (2, 7, 4), (30, 20)))],
    ids=str,
)
@pytest.mark.parametrize("full", [True, pytest.param(False, marks=SLOW)])
def test_svd(kind, full, dtype):
    x = matrix(kind, dtype)
    u, s, vh = map(np.asarray, lax.linalg.svd(x, full_matrices=full))
    k = s.shape[-1]
    size = 1 + np.abs(x).max()
    product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    if np.finfo(dtype).eps > 1e-10:
        assert off(product, x) < 100 * size
    else:  # as of eigh
        assert np.abs(product - x).max() < 1e-5
    for q in (u, adjoint(vh)):
        eye = np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
        assert off(adjoint(q) @ q, eye) < 40
    assert off(s, np.linalg.svd(x, compute_uv=False)) < 100 * size


@dtypes("float32", "complex64")
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(left, transpose, dtype):
    packed, taus = geqrf_p.call(jax.numpy.asarray(drawn(2, 7, 4, dtype=dtype)))
    square = np.concatenate([np.asarray(packed), np.zeros((2, 7, 3), dtype)], -1)
    q = np.asarray(lax.linalg.householder_product(square, taus))
    q = adjoint(q) if transpose else q
    c = drawn(2, 7, 3, dtype=dtype, seed=1)
    c = c if left else adjoint(c)
    found = lax.linalg.ormqr(packed, taus, c, left=left, transpose=transpose)
    assert off(found, q @ c if left else c @ q) < 30


@dtypes("float32", "complex64")
@pytest.mark.parametrize("shape", [(9,), (3, 4), (2,), (1,)])
def test_tridiagonal_solve_exchanges_equations(shape, dtype):
    """With small diagonals elimination without exchange loses all digits."""
    n = shape[-1]
    dl, d, du = (drawn(*shape, dtype=dtype, seed=i) for i in range(3))
    d, b = d * 1e-4, drawn(*shape, 2, dtype=dtype, seed=3)
    a, i = np.zeros((*shape, n), dtype), np.arange(n)
    a[..., i, i] = d
    a[..., i[1:], i[:-1]], a[..., i[:-1], i[1:]] = dl[..., 1:], du[..., :-1]
    dl[..., 0] = du[..., -1] = np.nan  # which are not read
    x = np.asarray(lax.linalg.tridiagonal_solve(dl, d, du, b))
    assert off(a @ x, b) < 50 * (1 + np.abs(x).max())


def test_a_singular_tridiagonal_matrix():
    zeros, b = np.zeros((3, 2, 4), np.float32), np.ones((2, 4, 1), np.float32)
    zeros[1, 0] = 1  # the first of two is the identity
    x = np.asarray(lax.linalg.tridiagonal_solve(*zeros, b))
    assert (x[0] == 1).all() and np.isnan(x[1]).all()
    x = np.asarray(lax.linalg.tridiagonal_solve(*zeros, b, perturb_singular=True))
    assert (x[0] == 1).all() and np.isfinite(x[1]).all() and (x[1] > 1e6).all()


def test_algorithms_that_tpus_lack():
    x = np.eye(2, dtype=np.float32)
    for name in ("QR", "QDWH"):
        with pytest.raises(NotImplementedError, match="is not supported on CPU"):
            lax.linalg.eigh(x, implementation=lax.linalg.EighImplementation[name])
    for name in ("QR", "JACOBI", "DIVIDE_AND_CONQUER"):
        with pytest.raises(NotImplementedError, match="Use SvdAlgorithm.DEFAULT or POLAR"):
            lax.linalg.svd(x, algorithm=lax.linalg.SvdAlgorithm[name])
