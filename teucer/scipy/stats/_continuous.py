"""The table of the continuous distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import nn
from teucer import numpy as jnp
from teucer.scipy import special
from teucer.scipy.stats import _truncated
from teucer.scipy.stats._counts import log_binomial, log_poisson
from teucer.scipy.stats._standard import Continuous, complement

if TYPE_CHECKING:
    from teucer._core.typing import Array


def _tangent(q: Array) -> Any:
    """tan(pi (q - 1/2)): 0 in the middle, and infinite at 0 and 1, where it is written as a
    reciprocal."""
    from_middle = q - 0.5
    is_middle = jnp.abs(from_middle) < 0.25
    near, far = (
        jnp.where(is_middle, from_middle, 0.0),
        jnp.where(is_middle, 0.25, jnp.minimum(q, 1 - q)),
    )
    return jnp.where(
        is_middle, jnp.tan(math.pi * near), jnp.sign(from_middle) * abs(1 / jnp.tan(math.pi * far))
    )


def _log1p_square(z: Array, df: Any = 1.0) -> Any:
    """log(1 + z^2 / df), where z^2 may overflow."""
    w = jnp.abs(z) / jnp.sqrt(df)
    is_far = w > 1e9
    far = 2 * jnp.log(jnp.abs(jnp.where(is_far, z, 1))) - jnp.log(df)
    return jnp.where(is_far, far, jnp.log1p(jnp.square(jnp.where(is_far, 1, w))))


def _cauchy_log_density(z: Array) -> Any:
    if jnp.iscomplexobj(z):
        return -jnp.log(math.pi * (1 + z * z))
    return -math.log(math.pi) - _log1p_square(z)


def _cauchy_log_tail(z: Array) -> Any:
    """The logarithm of the probability of values above z."""
    if jnp.iscomplexobj(z):
        return jnp.log(jnp.arctan2(1.0, z) / math.pi)
    is_far, is_high = z > 1e9, z > 0
    far = -jnp.log(math.pi * jnp.where(is_far, z / 4, 1)) - math.log(4)
    high = jnp.log(jnp.arctan2(1.0, jnp.where(is_high & ~is_far, z, 1)) / math.pi)
    low = jnp.log1p(-jnp.arctan2(1.0, jnp.where(is_high, 1, -z)) / math.pi)
    return jnp.where(is_far, far, jnp.where(is_high, high, low))


def _gumbel_log_cdf(z: Array) -> Any:
    """log(1 - exp(-exp(z))), which is z where exp(z) is small."""
    is_small = z < -40
    return jnp.where(is_small, z, nn.log1mexp(jnp.exp(jnp.where(is_small, 0, z))))


def _below(z: Array, tail: Array) -> Any:
    """The probability of values up to z, where the density is even and `tail` is the probability of
    values beyond |z|."""
    return jnp.where(z < 0, tail, 1 - tail)


def _laplace_tail(z: Array) -> Any:
    return 0.5 * jnp.exp(-jnp.abs(z))


def _laplace_log_cdf(z: Array) -> Any:
    return jnp.where(z < 0, z - math.log(2), jnp.log1p(-_laplace_tail(z)))


def _laplace_quantile(q: Array) -> Any:
    return jnp.where(q < 0.5, jnp.log(2 * q), -jnp.log(2 * (1 - q)))


def _gennorm_log_density(z: Array, beta: Array) -> Any:
    return -math.log(2) - special.gammaln(1 + 1 / beta) - jnp.abs(z) ** beta


def _gennorm_tail(z: Array, beta: Array) -> Any:
    """Near 0, where |z|^beta may underflow, the density has its value at 0."""
    power = jnp.abs(z) ** beta
    is_near = power < float(jnp.finfo(power.dtype).eps)
    from_middle = jnp.abs(z) * jnp.exp(-special.gammaln(1 + 1 / beta))
    tail = special.gammaincc(1 / beta, jnp.where(is_near, 1, power))
    return 0.5 * jnp.where(is_near, 1 - from_middle, tail)


def _is_normal(z: Array, df: Array) -> Any:
    """Whether df is so large that t is nearly normal, and df / (df + z^2) rounded to 1."""
    return df > (1e8 if jnp.result_type(z) == np.float64 else 1e4)


def _t_tail(z: Array, df: Array) -> Any:
    """By the normal distribution for large df. Abramowitz & Stegun 26.7.8."""
    is_normal = _is_normal(z, df)
    n = jnp.where(is_normal, 5.0, df)
    w = jnp.abs(z) / jnp.sqrt(n)
    is_far = w > 1e9
    half = jnp.full_like(n, 0.5)
    share = 1 / (1 + jnp.square(jnp.where(is_far, 1, w)))
    tail = 0.5 * special.betainc(n / 2, half, share)
    # The integral of the density where this is a power of w.
    log_far = -n / 2 * _log1p_square(z, n) - special.betaln(1 + n / 2, half)
    far = jnp.exp(log_far) / (n + 1)
    m = jnp.where(is_normal, df, 1e8)
    z = jnp.minimum(jnp.abs(z), 1e15)
    near = special.ndtr(-z * (1 - 0.25 / m) / jnp.sqrt(1 + z * (z / (2 * m))))
    return jnp.where(is_normal, near, jnp.where(is_far, far, tail))


def _t_log_density(z: Array, df: Array) -> Any:
    is_normal = _is_normal(z, df)
    n = jnp.where(is_normal, 5.0, df)
    norm = 0.5 * jnp.log(n) - jnp.log(n + 1) - special.betaln(1 + n / 2, jnp.full_like(n, 0.5))
    norm = jnp.where(is_normal, -0.5 * math.log(2 * math.pi) - 0.25 / df, norm)
    w = z / jnp.sqrt(df)
    is_near = w * w < float(jnp.finfo(w.dtype).eps)
    far = (df + 1) / 2 * _log1p_square(z, df)
    # Here log1p is its argument, which may underflow.
    near = 0.5 * (z * z + w * w)
    return norm - jnp.where(is_near, near, far)


def _beta_log_density(z: Array, a: Array, b: Array) -> Any:
    is_large = (a > 10) & (b > 10)
    x, y = jnp.where(is_large, a - 1, 1), jnp.where(is_large, b - 1, 1)
    large = log_binomial(x, y, z, 1 - z) + jnp.log(x + y + 1)
    a, b = jnp.where(is_large, 1, a), jnp.where(is_large, 1, b)
    plain = special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b)
    return jnp.where(is_large, large, plain)


def _gamma_log_density(z: Array, a: Array) -> Any:
    is_large = a > 10
    large = log_poisson(jnp.where(is_large, a - 1, 1), z)
    a = jnp.where(is_large, 1, a)
    return jnp.where(is_large, large, special.xlogy(a - 1, z) - z - special.gammaln(a))


def _chi2_log_density(z: Array, df: Array) -> Any:
    """As of the gamma distribution; near 0 halves may underflow."""
    is_near = (df < 20) | (z < 4 * float(jnp.finfo(z.dtype).tiny)) & (df < jnp.inf)
    large = _gamma_log_density(jnp.where(is_near, 1, z / 2), jnp.where(is_near, 1, df / 2))
    a = df / 2
    norm = special.gammaln(1 + a) - jnp.log(df) + (a + 1) * math.log(2)
    near = special.xlogy(a - 1, jnp.where(is_near, z, 1)) - z / 2 - norm
    return jnp.where(is_near, near, large - math.log(2))


def _chi2_share(z: Array, df: Array, tail: Any, of_log: Any) -> Any:
    """tail(df / 2, z / 2); where z / 2 may underflow, of_log of the logarithm of the probability of
    values up to z."""
    info = jnp.finfo(z.dtype)
    is_near = z < 4 * float(info.tiny)
    a = jnp.maximum(df / 2, float(info.tiny))
    log_gamma = jnp.where(a < float(info.eps), -np.euler_gamma * a, special.gammaln(1 + a))
    log_below = special.xlogy(a, jnp.where(is_near, z, 1)) - a * math.log(2) - log_gamma
    return jnp.where(is_near, of_log(log_below), tail(a, jnp.where(is_near, 1, z / 2)))


def _vonmises_log_density(z: Array, kappa: Array) -> Any:
    """The scaled Bessel function keeps large concentrations finite."""
    sine = jnp.sin(z / 2)
    return -2 * (kappa * sine * sine) - jnp.log(2 * math.pi * special.i0e(kappa))


def _wrapcauchy_log_density(z: Array, c: Array) -> Any:
    # 1 + c^2 - 2 c cos(z)
    square = jnp.square(1 - c) + 4 * c * jnp.square(jnp.sin(z / 2))
    return jnp.log((1 - c) * (1 + c) / (2 * math.pi * square))


BETA = Continuous(
    name="beta",
    shapes="a b",
    low=0.0,
    high=1.0,
    logpdf=_beta_log_density,
    cdf=lambda z, a, b: special.betainc(a, b, z),
    sf=lambda z, a, b: complement(z, special.betainc(b, a, 1 - z), special.betainc(a, b, z)),
    example=(0.4, 2.0, 3.0),
    shown=dict(cdf=0.525, logcdf=-0.645, logpdf=0.547, logsf=-0.744, pdf=1.728, sf=0.475),
)

CAUCHY = Continuous(
    name="cauchy",
    analytic=True,
    whole=True,
    logpdf=_cauchy_log_density,
    cdf=lambda z: jnp.arctan2(1.0, -z) / math.pi,
    logcdf=lambda z: _cauchy_log_tail(-z),
    logsf=_cauchy_log_tail,
    sf=lambda z: jnp.arctan2(1.0, z) / math.pi,
    ppf=_tangent,
    isf=lambda q: -_tangent(q),
    shown=dict(
        cdf=0.648,
        isf=1.0,
        logcdf=-0.435,
        logpdf=-1.368,
        logsf=-1.043,
        pdf=0.255,
        ppf=-1.0,
        sf=0.352,
    ),
)

CHI2 = Continuous(
    name="chi2",
    shapes="df",
    low=0.0,
    logpdf=_chi2_log_density,
    cdf=lambda z, df: _chi2_share(z, df, special.gammainc, jnp.exp),
    sf=lambda z, df: _chi2_share(z, df, special.gammaincc, lambda x: -jnp.expm1(x)),
    example=(0.5, 2.0),
    shown=dict(cdf=0.221, logcdf=-1.509, logpdf=-0.943, logsf=-0.25, pdf=0.389, sf=0.779),
)

EXPON = Continuous(
    name="expon",
    low=0.0,
    logpdf=lambda z: -z,
    cdf=lambda z: -jnp.expm1(-z),
    logcdf=nn.log1mexp,
    sf=lambda z: jnp.exp(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -jnp.log1p(-q),
    isf=lambda q: -jnp.log(q),
    shown=dict(
        cdf=0.393, isf=1.386, logcdf=-0.933, logpdf=-0.5, logsf=-0.5, pdf=0.607, ppf=0.288, sf=0.607
    ),
)

GAMMA = Continuous(
    name="gamma",
    shapes="a",
    low=0.0,
    logpdf=_gamma_log_density,
    cdf=lambda z, a: special.gammainc(a, z),
    sf=lambda z, a: special.gammaincc(a, z),
    example=(0.5, 2.0),
    shown=dict(cdf=0.09, logcdf=-2.406, logpdf=-1.193, logsf=-0.095, pdf=0.303, sf=0.91),
)

GENNORM = Continuous(
    name="gennorm",
    shapes="beta",
    logpdf=_gennorm_log_density,
    cdf=lambda z, beta: _below(z, _gennorm_tail(z, beta)),
    sf=lambda z, beta: _below(-z, _gennorm_tail(z, beta)),
    example=(0.5, 2.0),
    shown=dict(cdf=0.76, logcdf=-0.274, logpdf=-0.822, logsf=-1.428, pdf=0.439, sf=0.24),
)

GUMBEL_L = Continuous(
    name="gumbel_l",
    logpdf=lambda z: z - jnp.exp(z),
    cdf=lambda z: -jnp.expm1(-jnp.exp(z)),
    logcdf=_gumbel_log_cdf,
    sf=lambda z: jnp.exp(-jnp.exp(z)),
    logsf=lambda z: -jnp.exp(z),
    ppf=lambda p: jnp.log(-jnp.log1p(-p)),
    isf=lambda p: jnp.log(-jnp.log(p)),
    quantile="p",
    shown=dict(
        cdf=0.808,
        isf=0.327,
        logcdf=-0.214,
        logpdf=-1.149,
        logsf=-1.649,
        pdf=0.317,
        ppf=-1.246,
        sf=0.192,
    ),
)

GUMBEL_R = Continuous(
    name="gumbel_r",
    logpdf=lambda z: -z - jnp.exp(-z),
    cdf=lambda z: jnp.exp(-jnp.exp(-z)),
    logcdf=lambda z: -jnp.exp(-z),
    sf=lambda z: -jnp.expm1(-jnp.exp(-z)),
    logsf=lambda z: _gumbel_log_cdf(-z),
    ppf=lambda p: -jnp.log(-jnp.log(p)),
    isf=lambda p: -jnp.log(-jnp.log1p(-p)),
    quantile="p",
    shown=dict(
        cdf=0.545,
        isf=1.246,
        logcdf=-0.607,
        logpdf=-1.107,
        logsf=-0.788,
        pdf=0.331,
        ppf=-0.327,
        sf=0.455,
    ),
)

LAPLACE = Continuous(
    name="laplace",
    whole=True,
    logpdf=lambda z: -jnp.abs(z) - math.log(2),
    cdf=lambda z: _below(z, _laplace_tail(z)),
    logcdf=_laplace_log_cdf,
    sf=lambda z: _below(-z, _laplace_tail(z)),
    logsf=lambda z: _laplace_log_cdf(-z),
    ppf=_laplace_quantile,
    isf=lambda q: -_laplace_quantile(q),
    shown=dict(
        cdf=0.697,
        isf=0.693,
        logcdf=-0.361,
        logpdf=-1.193,
        logsf=-1.193,
        pdf=0.303,
        ppf=-0.693,
        sf=0.303,
    ),
)

LOGISTIC = Continuous(
    name="logistic",
    whole=True,
    logpdf=lambda z: -jnp.abs(z) - 2 * jnp.log1p(jnp.exp(-jnp.abs(z))),
    cdf=special.expit,
    logcdf=nn.log_sigmoid,
    sf=lambda z: special.expit(-z),
    logsf=lambda z: nn.log_sigmoid(-z),
    ppf=special.logit,
    isf=lambda q: -special.logit(q),
    quantile="x",
    shown=dict(
        cdf=0.622,
        isf=1.099,
        logcdf=-0.474,
        logpdf=-1.448,
        logsf=-0.974,
        pdf=0.235,
        ppf=-1.099,
        sf=0.378,
    ),
)

NORM = Continuous(
    name="norm",
    analytic=True,
    whole=True,
    logpdf=lambda z: -0.5 * jnp.square(z) - 0.5 * math.log(2 * math.pi),
    cdf=special.ndtr,
    logcdf=special.log_ndtr,
    sf=lambda z: special.ndtr(-z),
    logsf=lambda z: special.log_ndtr(-z),
    ppf=special.ndtri,
    isf=lambda q: -special.ndtri(q),
    shown=dict(
        cdf=0.691,
        isf=0.674,
        logcdf=-0.369,
        logpdf=-1.044,
        logsf=-1.176,
        pdf=0.352,
        ppf=-0.674,
        sf=0.309,
    ),
)

PARETO = Continuous(
    name="pareto",
    shapes="b",
    low=1.0,
    inner=2.0,
    logpdf=lambda z, b: jnp.log(b) - (b + 1) * jnp.log(z),
    cdf=lambda z, b: -jnp.expm1(-b * jnp.log(z)),
    logcdf=lambda z, b: nn.log1mexp(b * jnp.log(z)),
    sf=lambda z, b: jnp.exp(-b * jnp.log(z)),
    logsf=lambda z, b: -b * jnp.log(z),
    ppf=lambda q, b: jnp.exp(-jnp.log1p(-q) / b),
    isf=lambda q, b: jnp.exp(-jnp.log(q) / b),
    example=(1.5, 2.0),
    shown=dict(
        cdf=0.556,
        isf=2.0,
        logcdf=-0.588,
        logpdf=-0.523,
        logsf=-0.811,
        pdf=0.593,
        ppf=1.155,
        sf=0.444,
    ),
)

T = Continuous(
    name="t",
    analytic=True,
    shapes="df",
    logpdf=_t_log_density,
    cdf=lambda z, df: _below(z, _t_tail(z, df)),
    sf=lambda z, df: _below(-z, _t_tail(z, df)),
    example=(0.5, 2.0),
    shown=dict(cdf=0.667, logcdf=-0.405, logpdf=-1.216, logsf=-1.099, pdf=0.296, sf=0.333),
)

TRUNCNORM = Continuous(
    name="truncnorm",
    shapes="a b",
    low=lambda a, b: a,
    high=lambda a, b: b,
    inner=lambda a, b: jnp.clip(0.0, a, b),
    valid=lambda a, b: a < b,
    logpdf=_truncated.log_density,
    logcdf=_truncated.log_cdf,
    cdf=lambda z, a, b: jnp.exp(_truncated.log_cdf(z, a, b)),
    logsf=lambda z, a, b: _truncated.log_cdf(-z, -b, -a),
    sf=lambda z, a, b: jnp.exp(_truncated.log_cdf(-z, -b, -a)),
    example=(0.5, 0.0, 2.0),
    shown=dict(cdf=0.401, logcdf=-0.913, logpdf=-0.304, logsf=-0.513, pdf=0.738, sf=0.599),
)

UNIFORM = Continuous(
    name="uniform",
    low=0.0,
    high=1.0,
    logpdf=jnp.zeros_like,
    cdf=lambda z: z,
    sf=lambda z: 1 - z,
    ppf=lambda q: q,
    isf=lambda q: 1 - q,
    shown=dict(
        cdf=0.5, isf=0.75, logcdf=-0.693, logpdf=0.0, logsf=-0.693, pdf=1.0, ppf=0.25, sf=0.5
    ),
)

VONMISES = Continuous(
    name="vonmises",
    whole=True,
    shapes="kappa",
    valid=lambda kappa: kappa >= 0,
    example=(0.5, 2.0),
    logpdf=_vonmises_log_density,
    shown={"logpdf": -0.907, "pdf": 0.404},
)

WRAPCAUCHY = Continuous(
    name="wrapcauchy",
    shapes="c",
    valid=lambda c: (c > 0) & (c < 1),
    low=0.0,
    high=2 * math.pi,
    logpdf=_wrapcauchy_log_density,
    example=(0.5, 0.2),
    shown={"logpdf": -1.506, "pdf": 0.222},
)
