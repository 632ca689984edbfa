"""The largest errors of first and second derivatives, in ulp, eager and jitted.

    python benchmarks/accuracy_derivatives.py                     of all functions
    python benchmarks/accuracy_derivatives.py --dtypes bfloat16 asin erf

References are formulas in mpmath's 50 digits. Numbers are drawn from the whole domain: of usual
size, of all exponents, and near its ends. Results near the range's ends are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp

import teucer as jax
from teucer import lax, nn
from teucer import numpy as jnp
from teucer._base import config
from teucer.scipy import special


class Row(NamedTuple):
    """A function, its derivatives in mpmath, its domain.

    most: units of the first and second derivative where they are more than 4, and why.
    """

    f: Callable[..., Any]
    first: Callable[..., Any]
    second: Callable[..., Any]
    domain: tuple[float, float]
    most: tuple[float, float] = (4, 4)
    why: str = ""


def _bell(x: Any) -> Any:
    return mp.exp(-x * x) / mp.sqrt(mp.pi)


def _mills(x: Any) -> Any:
    """The density of the normal distribution, divided by the probability below."""
    return mp.npdf(x) / (mp.erfc(-x / mp.sqrt(2)) / 2)


def _of_logistic(x: Any) -> Any:
    return mp.exp(-abs(x)) / (1 + mp.exp(-abs(x))) ** 2


REAL, POSITIVE, EXPONENTS = (-1e18, 1e18), (0.0, 1e18), (-80.0, 80.0)
ANY = float("inf")
SATURATES = "1 - y of the rounded y: another exponential would slow every training step"
BESSEL = "a difference of Bessel functions, a share of 1 / 2x of them"
CROSSES = "passes 0 beside which terms cancel"
ROWS: dict[str, Row] = {
    "exp": Row(lax.exp, mp.exp, mp.exp, EXPONENTS),
    "exp2": Row(
        lax.exp2,
        lambda x: mp.log(2) * mp.mpf(2) ** x,
        lambda x: mp.log(2) ** 2 * mp.mpf(2) ** x,
        (-110, 110),
    ),
    "expm1": Row(lax.expm1, mp.exp, mp.exp, EXPONENTS),
    "log": Row(lax.log, lambda x: 1 / x, lambda x: -1 / x**2, POSITIVE),
    "log2": Row(
        lax.log2, lambda x: 1 / (x * mp.log(2)), lambda x: -1 / (x**2 * mp.log(2)), POSITIVE
    ),
    "log10": Row(
        jnp.log10, lambda x: 1 / (x * mp.log(10)), lambda x: -1 / (x**2 * mp.log(10)), POSITIVE
    ),
    "log1p": Row(lax.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, (-1, 1e18)),
    "logistic": Row(
        lax.logistic,
        _of_logistic,
        lambda x: _of_logistic(x) * (1 - 2 / (1 + mp.exp(-x))),
        EXPONENTS,
        (ANY, ANY),
        SATURATES,
    ),
    "sqrt": Row(
        lax.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), lambda x: -1 / (4 * x * mp.sqrt(x)), POSITIVE
    ),
    "rsqrt": Row(
        lax.rsqrt,
        lambda x: -1 / (2 * x * mp.sqrt(x)),
        lambda x: 3 / (4 * x**2 * mp.sqrt(x)),
        (0, 1e12),
    ),
    "cbrt": Row(
        lax.cbrt,
        lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),
        lambda x: -2 * mp.sign(x) / (9 * mp.cbrt(abs(x)) ** 5),
        REAL,
        (4, 10),
        "the fifth power of y",
    ),
    "sin": Row(lax.sin, mp.cos, lambda x: -mp.sin(x), (-40, 40)),
    "cos": Row(lax.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x), (-40, 40)),
    "tan": Row(
        lax.tan,
        lambda x: mp.sec(x) ** 2,
        lambda x: 2 * mp.tan(x) * mp.sec(x) ** 2,
        (-40, 40),
        (5, 7),
        "powers of y",
    ),
    "asin": Row(
        lax.asin,
        lambda x: 1 / mp.sqrt(1 - x * x),
        lambda x: x / mp.sqrt(1 - x * x) ** 3,
        (-1, 1),
    ),
    "acos": Row(
        lax.acos,
        lambda x: -1 / mp.sqrt(1 - x * x),
        lambda x: -x / mp.sqrt(1 - x * x) ** 3,
        (-1, 1),
    ),
    "atan": Row(
        lax.atan,
        lambda x: 1 / (1 + x * x),
        lambda x: -2 * x / (1 + x * x) ** 2,
        (-1e4, 1e4),
        (4, 6),
        "six operations",
    ),
    "sinh": Row(lax.sinh, mp.cosh, mp.sinh, EXPONENTS),
    "cosh": Row(lax.cosh, mp.sinh, mp.cosh, EXPONENTS),
    "tanh": Row(
        lax.tanh,
        lambda x: mp.sech(x) ** 2,
        lambda x: -2 * mp.tanh(x) * mp.sech(x) ** 2,
        (-30, 30),
        (ANY, ANY),
        SATURATES,
    ),
    "asinh": Row(
        lax.asinh,
        lambda x: 1 / mp.sqrt(1 + x * x),
        lambda x: -x / mp.sqrt(1 + x * x) ** 3,
        (-1e25, 1e25),
        (4, 5),
        "six operations",
    ),
    "acosh": Row(
        lax.acosh,
        lambda x: 1 / mp.sqrt(x * x - 1),
        lambda x: -x / mp.sqrt(x * x - 1) ** 3,
        (1, 1e25),
        (4, 6),
        "seven operations",
    ),
    "atanh": Row(
        lax.atanh,
        lambda x: 1 / (1 - x * x),
        lambda x: 2 * x / (1 - x * x) ** 2,
        (-1, 1),
        (4, 6),
        "six operations",
    ),
    "erf": Row(lax.erf, lambda x: 2 * _bell(x), lambda x: -4 * x * _bell(x), (-9, 9)),
    "erfc": Row(lax.erfc, lambda x: -2 * _bell(x), lambda x: 4 * x * _bell(x), (-9, 9)),
    "erf_inv": Row(
        lax.erf_inv,
        lambda x: 1 / (2 * _bell(mp.erfinv(x))),
        lambda x: mp.erfinv(x) / (2 * _bell(mp.erfinv(x)) ** 2),
        (-1, 1),
        (ANY, ANY),
        "e^(y^2) makes the error of y up to 2 y^2 times as large",
    ),
    "ndtr": Row(
        special.ndtr,
        mp.npdf,
        lambda x: -x * mp.npdf(x),
        (-12, 12),
    ),
    "log_ndtr": Row(
        special.log_ndtr,
        _mills,
        lambda x: -_mills(x) * (x + _mills(x)),
        (-1e4, 12),
        (16, ANY),
        "the rounding of log_ndtr in the exponent; its second " + CROSSES,
    ),
    "softplus": Row(
        nn.softplus,
        lambda x: 1 / (1 + mp.exp(-x)),
        _of_logistic,
        EXPONENTS,
        (4, ANY),
        SATURATES,
    ),
    "sinc": Row(
        jnp.sinc,
        lambda x: (mp.cospi(x) - mp.sincpi(x)) / x,
        lambda x: -mp.pi * mp.sinpi(x) / x - 2 * (mp.cospi(x) - mp.sincpi(x)) / x**2,
        (-40, 40),
        (ANY, ANY),
        CROSSES,
    ),
    "i0e": Row(
        special.i0e,
        lambda x: mp.exp(-abs(x)) * (mp.besseli(1, x) - mp.sign(x) * mp.besseli(0, x)),
        lambda x: (
            mp.exp(-abs(x))
            * (2 * mp.besseli(0, x) - mp.besseli(1, x) / x - 2 * mp.sign(x) * mp.besseli(1, x))
        ),
        (-300, 300),
        (ANY, ANY),
        BESSEL,
    ),
    "i1e": Row(
        special.i1e,
        lambda x: mp.exp(-abs(x)) * (mp.besseli(0, x) - mp.besseli(1, x) * (mp.sign(x) + 1 / x)),
        lambda x: (
            mp.exp(-abs(x))
            * (
                mp.besseli(1, x) * (2 + 2 / x**2 + 2 / abs(x))
                - mp.besseli(0, x) * (1 / x + 2 * mp.sign(x))
            )
        ),
        (-300, 300),
        (ANY, ANY),
        BESSEL,
    ),
    "digamma": Row(
        lax.digamma,
        lambda x: mp.polygamma(1, x),
        lambda x: mp.polygamma(2, x),
        (0, 1e6),
        (32, 32),
        "XLA's polygamma",
    ),
    "lgamma": Row(
        lax.lgamma,
        mp.digamma,
        lambda x: mp.polygamma(1, x),
        (0, 1e6),
        (4, 32),
        "XLA's polygamma",
    ),
    "logit": Row(
        special.logit,
        lambda x: 1 / (x * (1 - x)),
        lambda x: (2 * x - 1) / (x * (1 - x)) ** 2,
        (0, 1),
        (4, ANY),
        CROSSES,
    ),
    "entr": Row(
        special.entr, lambda x: -mp.log(x) - 1, lambda x: -1 / x, POSITIVE, (ANY, 4), CROSSES
    ),
}


def numbers(row: Row, dtype: str, count: int) -> np.ndarray:
    """Numbers of a domain, as float64."""
    low, high = row.domain
    rng = np.random.default_rng(2026)
    large = max(abs(low), abs(high))
    sizes = np.exp2(rng.uniform(-20, np.log2(large), count))
    beside = [np.exp2(rng.uniform(-22, 0, count)) * max(1.0, abs(end)) for end in row.domain]
    parts = [
        rng.uniform(max(low, -4), min(high, 4), count),
        rng.uniform(low, high, count),
        sizes,
        -sizes,
        low + beside[0],
        high - beside[1],
        np.array([0.9999, 1.0001, -0.9999, -20.0, 8.653374671936035]),
    ]
    x = np.concatenate(parts)
    x = np.unique(x[(x > low) & (x < high)].astype(dtype).astype(np.float64))
    return x[(x > low) & (x < high) & (x != 0)]


def in_units(y: np.ndarray, exact: list[Any], dtype: str) -> np.ndarray:
    """The errors; 0 where the exact result is within a factor of 8 of the ends of the range."""
    info = jnp.finfo(dtype)
    found = np.zeros(y.size)
    for i, (got, right) in enumerate(zip(y.tolist(), exact, strict=True)):
        size = abs(right)
        if 8 * float(info.tiny) < size < float(info.max) / 8:
            unit = mp.mpf(2) ** (mp.floor(mp.log(size, 2)) - info.nmant)
            found[i] = float(abs(mp.mpf(got) - right) / unit) if np.isfinite(got) else np.inf
    return found


class Worst(NamedTuple):
    """The largest error of a derivative of an order, eager or jitted, and where it is."""

    error: float
    at: float
    order: int
    jitted: bool


def worst(name: str, dtype: str, count: int) -> list[Worst]:
    """The largest errors: of each order, eager and jitted."""
    row, found = ROWS[name], []
    x = numbers(row, dtype, count)
    with config.enable_x64(True), mp.workdps(50):
        xs = jnp.asarray(x, dtype)
        slope = jax.grad(row.f)
        for order, f, reference in ((1, slope, row.first), (2, jax.grad(slope), row.second)):
            exact = [mp.mpf(reference(mp.mpf(v))) for v in x.tolist()]
            for jitted in (False, True):
                g = jax.jit(jax.vmap(f)) if jitted else jax.vmap(f)
                error = in_units(np.asarray(g(xs)).astype(np.float64), exact, dtype)
                at = int(np.argmax(error))
                found.append(Worst(float(error[at]), float(x[at]), order, jitted))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtypes", default="float32,float64,bfloat16,float16")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("names", nargs="*", help="functions; all without")
    options = parser.parse_args()
    print("| function | dtype | first | at | second | at |\n| --- | --- | --- | --- | --- | --- |")
    for name in options.names or ROWS:
        for dtype in options.dtypes.split(","):
            cells = []
            found = worst(name, dtype, options.count)
            for order in (1, 2):
                most = max(w for w in found if w.order == order)
                cells.append(f"{most.error:.3g} | {most.at:.9g}")
            print(f"| {name} | {dtype} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
