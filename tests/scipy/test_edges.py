"""The law of edges: special functions at zeros, poles, extremes and infinities.

Every argument takes 0, -0, whole and half numbers, subnormal, tiny and greatest numbers,
infinities and nan, in all combinations; SciPy in float64 is the reference. XLA takes subnormal
operands as zeros, so a result for zeros is right there, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.special as reference
import scipy.stats as reference_stats

import teucer as jax
import teucer.numpy as jnp
from teucer.scipy import special, stats


class Row(NamedTuple):
    """A function, its reference, and how many arguments it takes.

    passes: where SciPy is wrong, or has no value, as a function of the operands and of its result.
    near: an error that is right beside a zero, in roundings of 1. loose: by how much the tolerance
    is larger, where logarithms of gamma functions of negative numbers cancel.
    """

    function: Callable[..., Any]
    reference: Callable[..., Any]
    arity: int = 1
    passes: Callable[..., Any] | None = None
    near: float = 0.0
    loose: float = 1.0


def same(name: str, arity: int = 1, passes: Any = None, **others: float) -> Row:
    return Row(getattr(special, name), getattr(reference, name), arity, passes, **others)


def no_value(*operands: Any) -> Any:
    """SciPy gives nan for numbers."""
    *given, want = operands
    return np.isnan(want) & ~np.any([np.isnan(x) for x in given], axis=0)


def huge_poles(a: Any, b: Any, want: Any) -> Any:
    """SciPy takes whole numbers beyond those of int32 for poles, nan at a pole for inf, and sums
    of negative numbers lose what differs from a pole."""
    is_pole = [(x <= -1e9) | (x <= 0) & (x == np.floor(x)) & np.isnan(a + b) for x in (a, b)]
    return no_value(a, b, want) | is_pole[0] | is_pole[1] | (a < 0) & (b < 0)


def turns(x: Any) -> Any:
    nearest = np.round(x)
    sine = np.sin(np.pi * (x - nearest)) * np.where(nearest % 2 == 0, 1, -1)
    return np.where(x == 0, 1, np.where(np.isinf(x), 0, sine / (np.pi * x)))


SIMPLE = [
    *("dawsn", "entr", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "gamma"),
    *("gammasgn", "i0", "i0e", "i1", "i1e", "log_ndtr", "logit", "ndtr"),
]

ROWS = {
    **{name: same(name) for name in SIMPLE},
    "ndtri": same("ndtri"),
    # Beside -1 the zero of x + 1 counts, which SciPy loses.
    "digamma": same("digamma", passes=lambda x, w: np.abs(x + 1) < 1e-6),
    # C's lgamma(-inf) is inf.
    "gammaln": same("gammaln", passes=lambda x, w: x == -np.inf, near=8),
    # The halves of the least numbers are zeros.
    "erfcinv": same("erfcinv", passes=lambda x, w: np.abs(x) < 1e-37),
    "spence": same("spence", passes=no_value),
    "sinc": Row(jnp.sinc, turns),
    **{
        f"fresnel {i}": Row(
            lambda x, i=i: special.fresnel(x)[i],
            lambda x, i=i: reference.fresnel(x)[i],
            passes=no_value,
        )
        for i in (0, 1)
    },
    **{
        f"sici {i}": Row(lambda x, i=i: special.sici(x)[i], lambda x, i=i: reference.sici(x)[i])
        for i in (0, 1)
    },
    **{
        f"polygamma {n}": Row(
            lambda x, n=n: special.polygamma(n, x),
            lambda x, n=n: reference.polygamma(n, x),
            # Halves are zeros of even orders, far below 0.
            passes=lambda x, w: (x == -170.5) | (np.abs(x + 1) < 1e-6),
        )
        for n in (0, 1, 2, 5)
    },
    **{
        f"expn {n}": Row(lambda x, n=n: special.expn(n, x), lambda x, n=n: reference.expn(n, x))
        for n in (0, 1, 2, 5)
    },
    "beta": same("beta", 2, huge_poles, loose=100),
    "betaln": same("betaln", 2, huge_poles, near=8, loose=10),
    # SciPy takes the logarithm for small exponents, at 0 and infinity, too.
    "boxcox": same("boxcox", 2, lambda x, y, w: np.abs(y) < 1e-18),
    "boxcox1p": same("boxcox1p", 2, lambda x, y, w: np.abs(y) < 1e-18),
    "comb": same("comb", 2, no_value),
    "gammainc": same("gammainc", 2, no_value),
    "gammaincc": same("gammaincc", 2, no_value),
    "rel_entr": same("rel_entr", 2, lambda p, q, w: p / q - 1 < 1e-6),
    "xlog1py": same("xlog1py", 2),
    "xlogy": same("xlogy", 2),
    # SciPy's is nan for large exponents, and inf at (1, nan).
    "zeta": same(
        "zeta",
        2,
        lambda x, q, w: (
            no_value(x, q, w) | np.isnan(x + q) | (np.abs(x - 1) < 1e-6) | (q == -170.5)
        ),
    ),
    # SciPy's sums are nan for the greatest numbers; so is what is left of its limits there.
    "betainc": same("betainc", 3, lambda a, b, x, w: no_value(a, b, x, w) | (a > 1e9) | (b > 1e9)),
}
# Not in the table: `bessel_jn` is a recurrence of a given length, right for arguments of its size;
# `multigammaln` is a formula outside its domain, where SciPy raises; `poch` has no values in SciPy
# for most negative numbers (test_poch_at_poles).


def edges(dtype: Any, arity: int) -> Any:
    info = np.finfo(dtype)
    tiny, most = float(info.tiny), float(info.max)
    least = 5 * float(info.smallest_subnormal)
    ends = [0.0, tiny * 4, 1e-5, 0.5, 1.0, 2.5, 1e10, most, np.inf]
    more = [2.0, 3.0, 1.5, 10.0, 26.0, 100.0, 170.5, 1e3, least, 1e-20, 1e20, most / 2]
    beside = [1 + float(info.eps), 1 - float(info.eps) / 2]
    values = ends + (more + beside if arity < 3 else [2.0])
    return np.array([*(-x for x in values), *values, np.nan]).astype(dtype)


def flushed(x: Any) -> Any:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def faults(row: Row, dtype: Any) -> list[str]:
    values = edges(dtype, row.arity)
    operands = [x.ravel() for x in np.meshgrid(*[values] * row.arity, indexing="ij")]
    with jax.enable_x64(True):
        got = np.asarray(row.function(*map(jnp.asarray, operands))).astype(float)
    info = np.finfo(dtype)
    rtol = row.loose * (2e-5 if dtype == np.float32 else 1e-9)
    right = np.zeros(got.shape, bool)
    for given in (operands, [flushed(x) for x in operands]):
        given = [x.astype(float) for x in given]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = np.asarray(row.reference(*given), float)
            right |= (got == want) | (np.isnan(got) & np.isnan(want))
            overflows = np.abs(want) > float(info.max) * (1 - rtol)
            right |= np.isinf(got) & overflows & (np.sign(got) == np.sign(want))
            error = rtol * np.abs(want) + 2 * float(info.tiny) + row.near * float(info.eps)
            right |= np.isfinite(got) & np.isfinite(want) & (np.abs(got - want) <= error)
            if row.passes is not None:
                right |= row.passes(*given, want)
    wrong = np.flatnonzero(~right)
    return [f"{[float(x[i]) for x in operands]}: {got[i]}, SciPy: {want[i]}" for i in wrong]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ROWS)
def test_edges(name, dtype):
    found = faults(ROWS[name], dtype)
    assert not found, f"{len(found)} wrong: " + "\n".join(found[:8])


@pytest.mark.parametrize("name", ["beta", "betaln", "digamma", "sinc", "dawsn", "polygamma 2"])
def test_some_edges(name):
    found = faults(ROWS[name], np.float32)
    assert not found, f"{len(found)} wrong: " + "\n".join(found[:8])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sinc_of_short_floats_is_zero_at_whole_numbers(dtype):
    x = jnp.array([1.0, 6.0, -3.0, jnp.inf, 0.0], dtype)
    np.testing.assert_array_equal(jnp.sinc(x).astype(np.float32), [0, 0, 0, 0, 1])


def test_incomplete_functions_of_large_operands():
    """Where series would be long: against SciPy's expansions."""
    with jax.enable_x64(True):
        for a in (1e9, 1e12, 1e20):
            x = a + np.sqrt(a) * np.array([-3.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 3.0])
            np.testing.assert_allclose(special.gammainc(a, x), reference.gammainc(a, x), rtol=1e-7)
            np.testing.assert_allclose(
                special.gammaincc(a, x), reference.gammaincc(a, x), rtol=1e-7
            )
        mode = np.array([-3.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 3.0])
        x = 0.25 + mode * np.sqrt(0.25 * 0.75 / 4e9)
        want = reference.betainc(1e9, 3e9, x)
        np.testing.assert_allclose(special.betainc(1e9, 3e9, x), want, rtol=1e-6)
    assert special.betainc(jnp.inf, 2.0, 0.5) == 0 and special.betainc(1e30, 2.0, 0.5) == 0


def test_poch_at_poles():
    z = np.array([-10, 2, -3, -3, -3, -3, 0, 0, 1e10, -10.0], np.float32)
    m = np.array([-1, -3, 2, 5, 3, -2, 1, -1, 3, 0.5], np.float32)
    with np.errstate(all="ignore"):
        want = reference.poch(z.astype(float), m.astype(float))
    np.testing.assert_allclose(special.poch(z, m), want, rtol=2e-5)


def test_t_of_many_degrees_of_freedom_is_normal():
    z = np.array([-3.0, -0.5, 0.0, 2.0])
    with jax.enable_x64(True):
        for df in (9e7, 2e8, 1e12, 1e20):
            np.testing.assert_allclose(stats.t.cdf(z, df), reference_stats.t.cdf(z, df), rtol=1e-8)
    for df in (9e3, 2e4, 1e10):
        got = stats.t.cdf(z.astype(np.float32), np.float32(df))
        np.testing.assert_allclose(got, reference_stats.t.cdf(z, df), rtol=1e-3)
