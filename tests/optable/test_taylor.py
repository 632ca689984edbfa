"""The law of higher derivatives.

To order 6 they are those of mpmath's Taylor series, at 0 and wherever the code has a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest

import teucer as jax
from teucer import lax, nn
from teucer import numpy as jnp
from teucer._base import config
from teucer.scipy import special

ORDER = 6


class Smooth(NamedTuple):
    """A function that is smooth at the points, and what it is in mpmath. order: of how many
    derivatives it is tested."""

    f: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    points: tuple[float, ...]
    rtol: float = 1e-9
    order: int = ORDER


def softplus(x: Any) -> Any:
    return mpmath.log(1 + mpmath.exp(x))


FUNCTIONS = {
    "sinc": Smooth(
        jnp.sinc, lambda x: mpmath.sincpi(x), (0.0, 1e-3, 0.3, 1 / np.pi, 0.5, 2.0), 1e-8
    ),
    "sin": Smooth(jnp.sin, mpmath.sin, (0.0, 1.0)),
    "tan": Smooth(jnp.tan, mpmath.tan, (0.0, 1.0)),
    "sinh": Smooth(jnp.sinh, mpmath.sinh, (0.0, 1.0, 2.0)),
    "cosh": Smooth(jnp.cosh, mpmath.cosh, (0.0, 1.0, 2.0)),
    "tanh": Smooth(jnp.tanh, mpmath.tanh, (0.0, 1.0)),
    "expm1": Smooth(jnp.expm1, mpmath.expm1, (0.0, 0.5)),
    "log1p": Smooth(jnp.log1p, mpmath.log1p, (0.0, 0.4, 0.5)),
    "exp2": Smooth(jnp.exp2, lambda x: mpmath.mpf(2) ** x, (0.0, 0.5, 3.0)),
    "cbrt": Smooth(jnp.cbrt, mpmath.cbrt, (1.0, 3.0)),
    "hypot": Smooth(lambda x: jnp.hypot(x, 1.0), lambda x: mpmath.sqrt(x * x + 1), (0.5, 1.5)),
    "arctan": Smooth(jnp.arctan, mpmath.atan, (0.0, 1.0, 2.0)),
    "arcsinh": Smooth(jnp.arcsinh, mpmath.asinh, (0.0, 1.0)),
    "logaddexp": Smooth(lambda x: jnp.logaddexp(x, 0.0), softplus, (0.0, 1.0, -1.0)),
    "softplus": Smooth(nn.softplus, softplus, (0.0, 1.0)),
    "sigmoid": Smooth(nn.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)), (0.0, 2.0)),
    "log_sigmoid": Smooth(nn.log_sigmoid, lambda x: -softplus(-x), (0.0, 1.0)),
    "silu": Smooth(nn.silu, lambda x: x / (1 + mpmath.exp(-x)), (0.0, 1.0)),
    "mish": Smooth(nn.mish, lambda x: x * mpmath.tanh(softplus(x)), (0.0, 1.0)),
    "gelu": Smooth(
        lambda x: nn.gelu(x, approximate=False), lambda x: x * mpmath.ncdf(x), (0.0, 1.0)
    ),
    "logit": Smooth(special.logit, lambda x: mpmath.log(x / (1 - x)), (0.25, 0.5, 0.75)),
    "entr": Smooth(special.entr, lambda x: -x * mpmath.log(x), (0.5, 2.0)),
    "xlogy": Smooth(lambda x: special.xlogy(x, x + 1), lambda x: x * mpmath.log(x + 1), (0.5, 1.0)),
    "xlog1py": Smooth(lambda x: special.xlog1py(x, x), lambda x: x * mpmath.log1p(x), (0.5, 1.0)),
    "i0": Smooth(special.i0, lambda x: mpmath.besseli(0, x), (1.0, 7.9, 8.1), 1e-7, 2),
    "erf": Smooth(special.erf, mpmath.erf, (0.0, 0.5, 2.0)),
    "erfc": Smooth(special.erfc, mpmath.erfc, (0.0, 2.0)),
    "erfcx": Smooth(
        special.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), (0.0, 1.0), 1e-6, 4
    ),
    "dawsn": Smooth(
        special.dawsn,
        lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
        (0.0, 0.9, 1.1),
        1e-7,
    ),
    "gammaln": Smooth(special.gammaln, mpmath.loggamma, (1.5, 3.0), 1e-7, 4),
    "digamma": Smooth(special.digamma, mpmath.digamma, (1.5, 3.0), 1e-7, 3),
    "zeta": Smooth(lambda x: special.zeta(x, 2.0), lambda x: mpmath.zeta(x, 2), (1.5, 3.0), 1e-8),
    "logistic": Smooth(lax.logistic, lambda x: 1 / (1 + mpmath.exp(-x)), (0.0, 1.0)),
    "power": Smooth(lambda x: x**3, lambda x: x**3, (0.0, 2.0)),
    "power of a float": Smooth(lambda x: x**2.5, lambda x: x ** mpmath.mpf(2.5), (2.0,)),
    "prod": Smooth(
        lambda x: jnp.prod(jnp.stack([x, x - 1, x + 2])),
        lambda x: x * (x - 1) * (x + 2),
        (0.0, 1.0, 3.0),
    ),
    "square root": Smooth(jnp.sqrt, mpmath.sqrt, (1.0, 2.0)),
    "atan2": Smooth(lambda x: jnp.arctan2(x, 1.0), mpmath.atan, (0.0, 1.0)),
    "logsumexp": Smooth(lambda x: nn.logsumexp(jnp.stack([x, 0.0 * x])), softplus, (0.0, 1.0)),
}


QUICK = ("sinc", "softplus", "xlogy", "dawsn", "prod")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in FUNCTIONS]
)
def test_taylor_series(name: str) -> None:
    f, exact, points, rtol, order = FUNCTIONS[name]
    with config.enable_x64(True), mpmath.workdps(40):
        derivatives = [f]
        for _ in range(order):
            derivatives.append(jax.jacfwd(derivatives[-1]))
        together = jax.jit(lambda x: [g(x) for g in derivatives])
        for at in points:
            found = together(jnp.asarray(at, np.float64))
            series = mpmath.taylor(exact, mpmath.mpf(at), order)
            size = max(abs(float(c) * float(mpmath.factorial(i))) for i, c in enumerate(series))
            for i, (y, c) in enumerate(zip(found, series, strict=True)):
                right = float(c * mpmath.factorial(i))
                assert abs(float(y) - right) <= rtol * max(abs(right), 1e-3 * size), (
                    f"{name}, derivative {i} at {at}: {float(y)!r}, not {right!r}"
                )
