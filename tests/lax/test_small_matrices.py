"""Small matrices, whose factorizations are written out, beside LAPACK's."""

import itertools

import numpy as np
import pytest
import scipy.linalg

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.lax.linalg import _small

RANDOM = np.random.default_rng(11)
START = RANDOM.bit_generator.state
DTYPES = ["float32", "float64", "complex64", "complex128"]
SIZES = [1, 2, 3, 4]
COUNT = 400  # 20000 once: the same


@pytest.fixture(autouse=True)
def x64_and_the_same_numbers():
    RANDOM.bit_generator.state = START
    with jax.enable_x64(True):
        yield


def _normal(*shape, dtype):
    x = RANDOM.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RANDOM.standard_normal(shape)
    return x.astype(dtype)


def _conditioned(n, count, dtype):
    """Matrices of condition numbers from 1 to 10^6, of sizes from 10^-8 to 10^8."""
    u, _ = np.linalg.qr(_normal(count, n, n, dtype="complex128" if dtype[0] == "c" else "float64"))
    v, _ = np.linalg.qr(_normal(count, n, n, dtype="complex128" if dtype[0] == "c" else "float64"))
    exponents = RANDOM.uniform(0, 6, (count, 1)) * np.linspace(0, -1, n)
    scale = 10.0 ** RANDOM.uniform(-8, 8, (count, 1, 1))
    return ((u * 10.0 ** exponents[:, None, :]) @ v * scale).astype(dtype)


def _is_written_out(f, *args):
    return "lapack" not in jax.jit(f).lower(*args).as_text()


def _error(found, exact):
    """Of each matrix, over its greatest element."""
    found, exact = np.asarray(found), np.asarray(exact)
    axes = tuple(range(1, exact.ndim))
    return np.abs(found - exact).max(axes) / np.abs(exact).max(axes)


def _compared(found, by_lapack, exact):
    """Errors are those of LAPACK: their mean, and the greatest of many."""
    own, its = _error(found, exact), _error(by_lapack, exact)
    eps = np.finfo(np.asarray(found).dtype).eps
    assert own.mean() <= 1.1 * its.mean() + eps
    assert own.max() <= 2 * its.max() + eps


@pytest.mark.parametrize(("dtype", "n"), [*itertools.product(DTYPES, SIZES[1:])], ids=str)
def test_errors_are_no_larger_than_lapacks(dtype, n):
    a, b = _conditioned(n, COUNT, dtype), _normal(COUNT, n, 2, dtype=dtype)
    wide = np.clongdouble if dtype[0] == "c" else np.longdouble
    exact = _in_long_double(
        a.astype(wide), np.concatenate([b, np.broadcast_to(np.eye(n), a.shape)], -1).astype(wide)
    )
    assert _is_written_out(jnp.linalg.solve, a, b)
    eye = np.broadcast_to(np.eye(n, dtype=dtype), a.shape)
    _compared(jnp.linalg.solve(a, b), _by_lapack(a, b), exact[..., :2])
    _compared(jnp.linalg.inv(a), _by_lapack(a, eye), exact[..., 2:])
    with np.errstate(all="ignore"):
        sign, logdet = np.linalg.slogdet(a.astype("complex128" if dtype[0] == "c" else "float64"))
    own = jnp.linalg.slogdet(a)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(own.sign, sign, 0, 1e7 * eps)
    np.testing.assert_allclose(own.logabsdet, logdet, 0, 1e7 * eps)


def _by_lapack(a, b):
    """In the precision of a; NumPy solves in double precision."""
    gesv = scipy.linalg.lapack.get_lapack_funcs("gesv", (a, b))
    return np.stack([gesv(x, y)[2] for x, y in zip(a, b, strict=True)])


def _in_long_double(a, b):
    """The solution of a x = b by elimination with complete pivoting."""
    both, n = np.concatenate([a, b], -1), a.shape[-1]
    out = np.empty(b.shape, b.dtype)
    for m, x in zip(both, out, strict=True):
        columns = list(range(n))
        for k in range(n):
            i, j = np.unravel_index(np.argmax(np.abs(m[k:, k:n])), (n - k, n - k))
            m[[k, k + i]] = m[[k + i, k]]
            m[:, [k, k + j]] = m[:, [k + j, k]]
            columns[k], columns[k + j] = columns[k + j], columns[k]
            m[k + 1 :] -= m[k + 1 :, k : k + 1] / m[k, k] * m[k]
        for k in reversed(range(n)):
            m[k] /= m[k, k]
            m[:k] -= m[:k, k : k + 1] * m[k]
        x[columns] = m[:, n:]
    return out


def _factor_in_long_double(a):
    """The Cholesky factors."""
    a = a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble)
    out, n = np.zeros_like(a), a.shape[-1]
    for k in range(n):
        done = out[:, k:, :k] @ np.conj(out[:, k, :k, None])
        column = a[:, k:, k] - done[..., 0]
        out[:, k:, k] = column / np.sqrt(np.real(column[:, :1]))
    return out


@pytest.mark.parametrize(("dtype", "n"), [*itertools.product(DTYPES, SIZES)], ids=str)
def test_lu_takes_lapacks_pivots(dtype, n):
    a = _normal(50, n, n, dtype=dtype)
    a[:10] = RANDOM.integers(-1, 2, (10, n, n))  # many equal pivots, and singular ones
    packed, pivots, permutation = lax.linalg.lu(a)
    for x, lu_, own, order in zip(a, packed, pivots, permutation, strict=True):
        expected, its = scipy.linalg.lapack.get_lapack_funcs("getrf", (x,))(x)[:2]
        np.testing.assert_array_equal(own, its)
        np.testing.assert_allclose(lu_, expected, 0, 50 * np.finfo(dtype).eps)
        rows = np.arange(n)
        for i, j in enumerate(its):
            rows[[i, j]] = rows[[j, i]]
        np.testing.assert_array_equal(order, rows)


@pytest.mark.parametrize("n", SIZES[1:])
def test_singular_matrices(n):
    # Of equal rows, and of columns of zeros, elimination leaves zeros without rounding.
    a = RANDOM.integers(-3, 4, (100, n, n)).astype(np.float64)
    a[:50, 0] = a[:50, n - 1]
    a[50:, :, n // 2] = 0
    a[0] = 0
    sign, logdet = jnp.linalg.slogdet(a)
    assert (np.asarray(sign) == 0).all()
    assert (np.asarray(logdet) == -np.inf).all()
    assert (np.asarray(jnp.linalg.det(a)) == 0).all()
    # Each column of what LAPACK solves has the same infinities and NaN.
    b = RANDOM.integers(-2, 3, (len(a), n, 1)).astype(np.float64)
    found, factors = np.asarray(jnp.linalg.solve(a, b)), lax.linalg.lu(a)
    for x, y, lu_, order in zip(found, b, factors[0], factors[2], strict=True):
        assert not np.isfinite(x).all()
        lower = np.tril(lu_, -1) + np.eye(n)
        rest = scipy.linalg.solve_triangular(lower, y[np.asarray(order)], lower=True)[:, 0]
        expected = np.empty(n)
        with np.errstate(all="ignore"):
            for i in reversed(range(n)):
                for j in range(i + 1, n):
                    rest[i] -= lu_[i, j] * expected[j]
                expected[i] = rest[i] / lu_[i, i]
        # With rounding, what is 0 / 0 here may be something / 0 there.
        if not (np.concatenate([np.ravel(lu_), expected[np.isfinite(expected)]]) % 0.0625).any():
            np.testing.assert_array_equal(x[:, 0], expected)


@pytest.mark.parametrize(("dtype", "n"), [*itertools.product(DTYPES, SIZES)], ids=str)
def test_cholesky(dtype, n):
    a = _conditioned(n, 500, dtype)
    a = a @ np.conj(np.swapaxes(a, -1, -2)) / np.abs(a).max((-2, -1), keepdims=True)
    a += 1e-3 * np.trace(a, axis1=1, axis2=2)[:, None, None] * np.eye(n, dtype=dtype)
    own = np.asarray(jnp.linalg.cholesky(a))
    assert _is_written_out(jnp.linalg.cholesky, a)
    assert (np.triu(own, 1) == 0).all()
    potrf = scipy.linalg.lapack.get_lapack_funcs("potrf", (a,))
    expected = np.stack([potrf(x, lower=True, clean=True)[0] for x in a])
    _compared(own, expected, _factor_in_long_double(a))
    bad = a.copy()
    bad[::2, n - 1, n - 1] *= -1
    found = np.asarray(jnp.linalg.cholesky(bad))
    assert np.isnan(np.tril(found)[::2][..., np.tril_indices(n)[0], np.tril_indices(n)[1]]).all()
    np.testing.assert_array_equal(found[1::2], own[1::2])


@pytest.mark.parametrize(
    "options",
    [
        # In the quick suite none or four are True: each option comes in both ways.
        pytest.param(options, marks=pytest.mark.slow if sum(options) % 4 else ())
        for options in itertools.product([True, False], repeat=5)
    ],
    ids=str,
)
def test_triangular_solve(options):
    names = ["left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"]
    options = dict(zip(names, options, strict=True))
    for n, m in itertools.product(SIZES, (1, 3)):
        a = _normal(6, n, n, dtype="complex128") + 3 * np.eye(n)
        b = _normal(6, *((n, m) if options["left_side"] else (m, n)), dtype="complex128")
        found = np.asarray(lax.linalg.triangular_solve(a, b, **options))
        assert _is_written_out(lambda a, b: lax.linalg.triangular_solve(a, b, **options), a, b)
        own = np.tril(a) if options["lower"] else np.triu(a)
        if options["unit_diagonal"]:
            own[:, range(n), range(n)] = 1
        own = np.swapaxes(own, -1, -2) if options["transpose_a"] else own
        own = np.conj(own) if options["conjugate_a"] else own
        back = own @ found if options["left_side"] else found @ own
        np.testing.assert_allclose(back, b, 0, 1e-12)


def _all_of(a, b):
    sign, logdet = jnp.linalg.slogdet(a)
    return (
        jnp.linalg.inv(a),
        jnp.linalg.solve(a, b),
        jnp.linalg.det(a),
        logdet,
        jnp.linalg.cholesky(a @ jnp.conj(a.mT) + jnp.eye(a.shape[-1])),
    )


@pytest.mark.parametrize(
    ("dtype", "n"),
    [
        pytest.param(
            dtype,
            n,
            marks=() if (dtype, n) in (("float64", 4), ("complex128", 2)) else pytest.mark.slow,
        )
        for dtype, n in itertools.product(["float64", "complex128"], SIZES)
    ],
    ids=str,
)
def test_derivatives_of_every_order_and_vmap(dtype, n):
    a = _normal(n, n, dtype=dtype) + 2 * np.eye(n)
    b, ta, tb = _normal(n, 2, dtype=dtype), _normal(n, n, dtype=dtype), _normal(n, 2, dtype=dtype)

    def along(f):
        return lambda t: jax.tree.map(
            lambda x: jnp.sum(x * jnp.arange(1.0, x.size + 1).reshape(x.shape)),
            f(a + t * ta, b + t * tb),
        )

    f, h = along(_all_of), 1e-4
    first = jax.jvp(f, (0.0,), (1.0,))[1]
    second = jax.jvp(lambda t: jax.jvp(f, (t,), (1.0,))[1], (0.0,), (1.0,))[1]
    for d1, d2, low, here, high in zip(first, second, f(-h), f(0.0), f(h), strict=True):
        scale = max(1, abs(here), abs(d1), abs(d2))
        assert abs(d1 - (high - low) / (2 * h)) <= 1e-5 * scale
        assert abs(d2 - (high - 2 * here + low) / h**2) <= 1e-4 * scale
    outs, pullback = jax.vjp(_all_of, jnp.asarray(a), jnp.asarray(b))
    cts = tuple(jnp.asarray(_normal(*y.shape, dtype=y.dtype)) for y in outs)
    of_a, of_b = pullback(cts)
    forward = jax.jvp(
        _all_of, (jnp.asarray(a), jnp.asarray(b)), (jnp.asarray(ta), jnp.asarray(tb))
    )[1]
    left = sum(np.sum(np.asarray(c) * np.asarray(t)) for c, t in zip(cts, forward, strict=True))
    right = np.sum(of_a * ta) + np.sum(of_b * tb)
    np.testing.assert_allclose(np.real(left), np.real(right), 1e-9)
    stacked = jax.vmap(_all_of)(np.stack([a, a + ta]), np.stack([b, tb]))
    for found, one, other in zip(stacked, _all_of(a, b), _all_of(a + ta, tb), strict=True):
        np.testing.assert_allclose(found, np.stack([one, other]), 1e-9, 1e-9)


def test_alone_and_of_other_dtypes():
    assert _is_written_out(jnp.linalg.solve, np.eye(3), np.ones(3))
    assert not _is_written_out(lax.linalg.lu, np.eye(_small.MOST))
    assert not _is_written_out(jnp.linalg.inv, np.zeros((9, 5, 5)))
    with pytest.raises(TypeError, match="float16"):
        jnp.linalg.inv(np.eye(2, dtype=np.float16))
