"""The law of derivatives of special functions.

Values, first and second derivatives in every real argument that has one are those of mpmath: at
seeded points, and near zeros, poles, and where arguments are large or small.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from mpmath import mp

import teucer as jax
from teucer import lax, nn
from teucer import numpy as jnp
from teucer._base import config
from teucer.scipy import special


class Row(NamedTuple):
    """A function, what it is in mpmath, and for each argument where it is tested.

    moving: the arguments in which it has derivatives. rtol: by the order of the derivative,
    relative to the largest of f / x^order and the derivative. orders: how many derivatives it has.
    """

    f: Callable[..., Any]
    exact: Callable[..., Any]
    points: tuple[tuple[float, ...], ...]
    moving: tuple[int, ...] = (0,)
    rtol: tuple[float, float, float] = (2e-12, 1e-11, 1e-10)
    orders: int = 2


def near(*centres: float) -> tuple[float, ...]:
    """Points, and some drawn beside each."""
    rng = np.random.default_rng(2026)
    return (*centres, *(float(c * (1 + 0.01 * rng.normal())) for c in centres))


def normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def dawson(x: Any) -> Any:
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


ALL = near(-30.0, -3.0, -0.5, -1e-8, 1e-8, 0.3, 1.0, 2.5, 9.0)
MODEST = near(-6.0, -2.5, -0.5, -1e-8, 1e-8, 0.3, 1.0, 2.5, 6.0)
POSITIVE = near(1e-8, 1e-3, 0.3, 1.0, 1.9, 2.5, 9.0, 40.0)
UNIT = near(1e-12, 1e-3, 0.1, 0.4, 0.5, 0.9) + (0.999, 1 - 1e-9)
SIGNED_UNIT = tuple(s * x for x in UNIT[:12] for s in (1, -1)) + (0.999, -0.999)
POLES = near(-4.5, -2.25, -0.5, -1e-6, 1e-6, 0.3, 1.0, 1.4616321449683622, 2.0, 3.5, 12.0, 60.0)

ROWS: dict[str, Row] = {
    "erf": Row(special.erf, mp.erf, (MODEST,)),
    "erfc": Row(special.erfc, mp.erfc, (MODEST + near(12.0, 25.0),)),
    "erfcx": Row(special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (MODEST + near(50.0, 1e4),)),
    "erfinv": Row(special.erfinv, mp.erfinv, (SIGNED_UNIT,)),
    "dawsn": Row(special.dawsn, dawson, (MODEST + near(12.0),)),
    "ndtr": Row(special.ndtr, normal, (ALL,)),
    "log_ndtr": Row(special.log_ndtr, lambda x: mp.log(normal(x)), (ALL,)),
    "ndtri": Row(special.ndtri, lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), (UNIT[1:],)),
    "expit": Row(special.expit, lambda x: 1 / (1 + mp.exp(-x)), (ALL,)),
    "logit": Row(special.logit, lambda x: mp.log(x / (1 - x)), (UNIT,)),
    "entr": Row(special.entr, lambda x: -x * mp.log(x), (POSITIVE,)),
    "gammaln": Row(special.gammaln, lambda x: mp.re(mp.loggamma(x)), (POLES,)),
    "loggamma": Row(special.loggamma, mp.loggamma, (POSITIVE,)),
    "gamma": Row(special.gamma, mp.gamma, (POLES,)),
    "digamma": Row(special.digamma, mp.digamma, (POLES,)),
    "exp1": Row(special.exp1, mp.e1, (POSITIVE,)),
    "expi": Row(special.expi, mp.ei, (near(-9.0, -1.0, -1e-3, 1e-3, 0.3, 1.0, 9.0, 60.0),)),
    "i0": Row(special.i0, lambda x: mp.besseli(0, x), (ALL,)),
    "i0e": Row(special.i0e, lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), (ALL + near(1e4, -1e7),)),
    "i1": Row(special.i1, lambda x: mp.besseli(1, x), (ALL,)),
    "i1e": Row(special.i1e, lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), (ALL + near(1e4, -1e7),)),
    "spence": Row(special.spence, lambda x: mp.re(mp.polylog(2, 1 - x)), (POSITIVE,)),
    "sici 0": Row(lambda x: special.sici(x)[0], mp.si, (MODEST + near(30.0),)),
    "sici 1": Row(lambda x: special.sici(x)[1], mp.ci, (POSITIVE,)),
    "fresnel 0": Row(lambda x: special.fresnel(x)[0], mp.fresnels, (MODEST,)),
    "fresnel 1": Row(lambda x: special.fresnel(x)[1], mp.fresnelc, (MODEST,)),
    "xlogy": Row(special.xlogy, lambda x, y: x * mp.log(y), (MODEST, POSITIVE), (0, 1)),
    "xlog1py": Row(special.xlog1py, lambda x, y: x * mp.log1p(y), (MODEST, POSITIVE), (0, 1)),
    "rel_entr": Row(special.rel_entr, lambda x, y: x * mp.log(x / y), (POSITIVE, UNIT), (0, 1)),
    "kl_div": Row(
        special.kl_div,
        lambda x, y: x * mp.log(x / y) - x + y,
        (near(1e-8, 0.3, 0.70001, 2.5), near(0.01, 0.7)),
        (0, 1),
    ),
    "soft_sign": Row(nn.soft_sign, lambda x: x / (1 + abs(x)), (ALL + near(1e5, -1e9),)),
    "beta": Row(special.beta, mp.beta, (POSITIVE, POSITIVE), (0, 1)),
    "betaln": Row(special.betaln, lambda a, b: mp.log(mp.beta(a, b)), (POSITIVE, POSITIVE), (0, 1)),
    "betainc": Row(
        special.betainc,
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        (near(0.5, 2.0, 9.0), near(0.7, 3.0), near(0.1, 0.5, 0.9)),
        (2,),
    ),
    "gammainc": Row(
        special.gammainc,
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        (near(0.5, 2.0, 9.0, 40.0), near(0.1, 1.0, 8.0, 45.0)),
        (1,),
    ),
    "gammaincc": Row(
        special.gammaincc,
        lambda a, x: mp.gammainc(a, x, regularized=True),
        (near(0.5, 2.0, 9.0, 40.0), near(0.1, 1.0, 8.0, 45.0)),
        (1,),
    ),
    "gammainc in a": Row(
        special.gammainc,
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        (near(0.5, 2.0, 9.0), near(0.1, 1.0, 8.0)),
        (0,),
        (1e-13, 1e-10, 1e-10),
        1,
    ),
    "polygamma": Row(lambda x: special.polygamma(2, x), lambda x: mp.polygamma(2, x), (POSITIVE,)),
    "zeta": Row(special.zeta, mp.zeta, (near(1.5, 2.0, 5.0, 20.0), near(0.5, 1.0, 3.0)), (0, 1)),
    "expn": Row(lambda x: special.expn(3, x), lambda x: mp.expint(3, x), (POSITIVE,)),
    "poch": Row(special.poch, mp.rf, (near(0.5, 2.0, 9.0), near(0.3, 1.0, 3.5)), (0, 1)),
    "hyp1f1": Row(
        special.hyp1f1, mp.hyp1f1, (near(0.5, 2.0), near(0.7, 3.0), near(-3.0, 0.2, 2.0)), (2,)
    ),
    "hyp2f1": Row(
        special.hyp2f1,
        mp.hyp2f1,
        (near(0.5, 2.0), near(0.7, 1.5), near(2.2, 3.3), near(-3.0, 0.2, 0.7)),
        (3,),
    ),
    "multigammaln": Row(
        lambda a: special.multigammaln(a, 3),
        lambda a: mp.log(mp.pi) * 1.5 + sum(mp.loggamma(a - mp.mpf(j) / 2) for j in range(3)),
        (near(1.5, 3.0, 20.0),),
    ),
    "boxcox": Row(
        special.boxcox,
        lambda x, m: mp.expm1(m * mp.log(x)) / m,
        (POSITIVE, near(-1.0, 0.5)),
        (0, 1),
    ),
    "boxcox1p": Row(
        special.boxcox1p,
        lambda x, m: mp.expm1(m * mp.log1p(x)) / m,
        (POSITIVE, near(-1.0, 0.5)),
        (0, 1),
    ),
    "lax.bessel_i0e": Row(lax.bessel_i0e, lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), (ALL,)),
    "lax.erf_inv": Row(lax.erf_inv, mp.erfinv, (SIGNED_UNIT,)),
    "lax.lgamma": Row(lax.lgamma, lambda x: mp.re(mp.loggamma(x)), (POLES,)),
    "lax.logistic": Row(lax.logistic, lambda x: 1 / (1 + mp.exp(-x)), (ALL,)),
    "jnp.sinc": Row(jnp.sinc, mp.sincpi, (MODEST,)),
}


def inputs(row: Row, most: int) -> list[tuple[float, ...]]:
    """Some of all points, drawn by chance."""
    every = list(itertools.product(*row.points))
    chosen = np.random.default_rng(1).permutation(len(every))[:most]
    return [every[i] for i in sorted(chosen)]


def right(row: Row, at: tuple[float, ...], moving: int) -> list[float]:
    """The value and derivatives in one argument."""

    def along(t: Any) -> Any:
        return row.exact(*(t if i == moving else mp.mpf(v) for i, v in enumerate(at)))

    with mp.workdps(60):
        derivatives = (mp.diff(along, mp.mpf(at[moving]), n) for n in range(row.orders + 1))
        return [float(mp.re(d)) for d in derivatives]


def wrong(name: str, most: int) -> list[str]:
    """What of a function is not as in mpmath, at some points."""
    row, listed = ROWS[name], []
    points = inputs(row, most)
    with config.enable_x64(True):
        columns = [jnp.asarray(column) for column in np.asarray(points).T]
        for moving in row.moving:
            functions = [row.f]
            for _ in range(row.orders):
                functions.append(jax.grad(functions[-1], argnums=moving))
            found = jax.jit(lambda *xs, fs=functions: [jax.vmap(f)(*xs) for f in fs])(*columns)
            for n, at in enumerate(points):
                exact = right(row, at, moving)
                for order, (y, r) in enumerate(zip(found, exact, strict=True)):
                    # Where a derivative is zero it is as exact as those before it allow.
                    scales = [
                        abs(e / at[moving] ** (order - i)) for i, e in enumerate(exact[:order])
                    ]
                    size = max(abs(r), 1e-2 * max(scales, default=0.0))
                    if not abs(float(y[n]) - r) <= row.rtol[order] * size:
                        listed.append(
                            f"derivative {order} in argument {moving} at {at}: {y[n]!r}, not {r!r}"
                        )
    return listed


QUICK = ("erfc", "erfcx", "logit", "xlogy", "i0e", "gammaln")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in ROWS]
)
def test_value_and_derivatives(name: str) -> None:
    assert wrong(name, 12) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_value_and_derivatives_at_many_points(name: str) -> None:
    assert wrong(name, 60) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["i0", "i1"])
def test_bessel_derivatives_are_right_relative_to_themselves(name: str, dtype: str) -> None:
    """Also beside 0, where terms of a derivative cancel, and where e^|x| nearly overflows."""
    order = int(name[1])
    with jax.enable_x64(True):
        x = np.array([1e-30, -1e-8, 1e-3, 0.3, 0.99, 1.01, 1.7, -4.0, 20.0, 80.0], dtype)
        f = getattr(special, name)
        for k in range(4):
            terms = [
                [mp.binomial(k, j) * mp.besseli(order - k + 2 * j, mp.mpf(float(v))) for v in x]
                for j in range(k + 1)
            ]
            want = [float(sum(column) / 2**k) for column in zip(*terms, strict=True)]
            # Of a third derivative more terms cancel beside 1.
            rtol = (10 if k == 3 else 8) * float(np.finfo(dtype).eps)
            np.testing.assert_allclose(jax.vmap(f)(x), want, rtol=rtol)
            np.testing.assert_allclose(jax.jit(jax.vmap(f))(x), want, rtol=rtol)
            f = jax.grad(f)


@pytest.mark.parametrize(
    ("f", "slope", "points"),
    [
        (special.i0e, lambda x: (mp.besseli(1, x) - mp.besseli(0, x)) / mp.exp(x), (10.0, 1e4)),
        (special.spence, lambda x: mp.log(x) / (1 - x), (0.7, 0.999, 1.0001, 1.3)),
        (nn.soft_sign, lambda x: 1 / (1 + x) ** 2, (10.0, 1e5, 1e10)),
        (lambda x: special.kl_div(x, 2.0), lambda x: mp.log(x / 2), (1.8, 1.9999, 2.001, 2.3)),
    ],
)
def test_slopes_whose_terms_cancel(f: Any, slope: Any, points: tuple[float, ...]) -> None:
    """In float32, and of a second order too: relative to themselves."""
    for x in points:
        at = float(np.float32(x))
        for k in range(2):
            g = jax.grad(f) if k == 0 else jax.grad(jax.grad(f))
            with mp.workdps(60):
                want = float(mp.diff(slope, at, k))
            for way in (g, jax.jit(g)):
                np.testing.assert_allclose(way(np.float32(x)), want, rtol=1e-6)


@pytest.mark.parametrize("f", [special.i0, special.i1, jnp.i0])
def test_bessel_functions_and_derivatives_are_infinite_where_they_overflow(f: Any) -> None:
    odd = f is special.i1
    for _ in range(3):
        for x in (1e4, -1e4):
            assert f(jnp.float32(x)) == (-np.inf if odd and x < 0 else np.inf)
        f, odd = jax.grad(f), not odd


@pytest.mark.parametrize("x", [0.5, 1.0, 2.0, 20.0])
def test_second_derivatives_of_betaln_at_equal_operands(x: float) -> None:
    want = float(mp.psi(1, x) - mp.psi(1, 2 * mp.mpf(x)))
    for second in (jax.grad(jax.grad(special.betaln)), jax.jacfwd(jax.jacfwd(special.betaln))):
        np.testing.assert_allclose(second(x, x), want, rtol=1e-5)
