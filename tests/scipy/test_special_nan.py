"""The law of special functions and nan.

Where an operand is nan, so is the result. (`comb` of nan is 0, as in SciPy.)
"""

import numpy as np
import pytest

import teucer.numpy as jnp
from teucer import lax
from teucer.scipy import special

# Operands at which a function has a value; nan takes the place of each that is a float.
CALLS = {
    special.beta: (1.5, 2.0),
    special.betainc: (1.5, 2.0, 0.3),
    special.betaln: (1.5, 2.0),
    special.dawsn: (0.5,),
    special.digamma: (0.5,),
    special.entr: (0.5,),
    special.erf: (0.5,),
    special.erfc: (0.5,),
    special.erfcx: (0.5,),
    special.erfinv: (0.5,),
    special.exp1: (0.5,),
    special.expi: (0.5,),
    special.expit: (0.5,),
    special.expn: (1, 0.5),
    special.factorial: (2.0,),
    special.fresnel: (0.5,),
    special.gamma: (0.5,),
    special.gammainc: (1.5, 0.5),
    special.gammaincc: (1.5, 0.5),
    special.gammaln: (0.5,),
    special.gammasgn: (0.5,),
    special.hyp1f1: (0.5, 1.5, 0.5),
    special.hyp2f1: (0.5, 1.5, 2.5, 0.5),
    special.i0: (0.5,),
    special.i0e: (0.5,),
    special.i1: (0.5,),
    special.i1e: (0.5,),
    special.kl_div: (0.5, 0.7),
    special.log_ndtr: (0.5,),
    special.logit: (0.5,),
    special.ndtr: (0.5,),
    special.ndtri: (0.5,),
    special.owens_t: (0.5, 0.5),
    special.poch: (1.5, 0.5),
    special.polygamma: (1, 0.5),
    special.rel_entr: (0.5, 0.7),
    special.sici: (0.5,),
    special.spence: (0.5,),
    special.xlog1py: (0.5, 0.5),
    special.xlogy: (0.5, 0.5),
    special.zeta: (2.5, 1.5),
    lax.bessel_i0e: (0.5,),
    lax.bessel_i1e: (0.5,),
    lax.igamma_grad_a: (1.5, 0.5),
    lax.random_gamma_grad: (1.5, 0.5),
    jnp.sinc: (0.5,),
    jnp.i0: (0.5,),
    jnp.logaddexp: (0.5, 1.0),
    jnp.logaddexp2: (0.5, 1.0),
    jnp.hypot: (0.5, 1.0),
    lambda x: special.multigammaln(x, 2): (3.5,),
    lambda x: special.bessel_jn(x, v=2): (0.5,),
}


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float16, marks=pytest.mark.slow)])
def test_nan_of_nan(dtype):
    wrong = []
    for f, operands in CALLS.items():
        for place, value in enumerate(operands):
            if isinstance(value, int):
                continue
            xs = [x if isinstance(x, int) else np.full(2, x, dtype) for x in operands]
            xs[place][1] = np.nan
            outs = f(*xs)
            for y in outs if isinstance(outs, tuple) else (outs,):
                if list(np.isnan(np.asarray(y, np.float64)).reshape(-1, 2)[-1]) != [False, True]:
                    wrong.append((getattr(f, "__name__", f), place, y))
    assert wrong == []
