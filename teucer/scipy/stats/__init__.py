"""Probability distributions, each a module, and statistics of samples."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer.scipy.stats._kde": "gaussian_kde",
        "teucer.scipy.stats._samples": "mode rankdata sem",
        "teucer.scipy.stats.bernoulli": "bernoulli=.",
        "teucer.scipy.stats.beta": "beta=.",
        "teucer.scipy.stats.betabinom": "betabinom=.",
        "teucer.scipy.stats.binom": "binom=.",
        "teucer.scipy.stats.cauchy": "cauchy=.",
        "teucer.scipy.stats.chi2": "chi2=.",
        "teucer.scipy.stats.dirichlet": "dirichlet=.",
        "teucer.scipy.stats.expon": "expon=.",
        "teucer.scipy.stats.gamma": "gamma=.",
        "teucer.scipy.stats.gennorm": "gennorm=.",
        "teucer.scipy.stats.geom": "geom=.",
        "teucer.scipy.stats.gumbel_l": "gumbel_l=.",
        "teucer.scipy.stats.gumbel_r": "gumbel_r=.",
        "teucer.scipy.stats.laplace": "laplace=.",
        "teucer.scipy.stats.logistic": "logistic=.",
        "teucer.scipy.stats.multinomial": "multinomial=.",
        "teucer.scipy.stats.multivariate_normal": "multivariate_normal=.",
        "teucer.scipy.stats.nbinom": "nbinom=.",
        "teucer.scipy.stats.norm": "norm=.",
        "teucer.scipy.stats.pareto": "pareto=.",
        "teucer.scipy.stats.poisson": "poisson=.",
        "teucer.scipy.stats.t": "t=.",
        "teucer.scipy.stats.truncnorm": "truncnorm=.",
        "teucer.scipy.stats.uniform": "uniform=.",
        "teucer.scipy.stats.vonmises": "vonmises=.",
        "teucer.scipy.stats.wrapcauchy": "wrapcauchy=.",
    },
)
