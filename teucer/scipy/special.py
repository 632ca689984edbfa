"""Special functions, as scipy.special has them. Names are loaded on first use."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer.nn._normalizations": "logsumexp",
        "teucer.scipy._special_logs": (
            "boxcox boxcox1p entr expit kl_div log_ndtr log_softmax logit ndtr ndtri rel_entr "
            "softmax xlog1py xlogy"
        ),
        "teucer.scipy._special_gamma": (
            "bernoulli beta betainc betaln comb digamma factorial gamma gammainc gammaincc "
            "gammaln gammasgn loggamma multigammaln poch polygamma zeta"
        ),
        "teucer.scipy._special_faddeeva": "dawsn erfcx fresnel sici wofz",
        "teucer.scipy._special_integrals": (
            "bessel_jn erf erfc erfinv exp1 expi expn i0 i0e i1 i1e spence"
        ),
        "teucer.scipy._special_harmonics": "sph_harm_y",
        "teucer.scipy._special_legendre": "lpmn lpmn_values",
        "teucer.scipy._special_hypergeometric": "hyp1f1 hyp2f1",
        "teucer.scipy._special_normal": "erfcinv owens_t",
    },
)
