"""The beta-binomial distribution.

Successes in `n` trials, with a probability that is beta distributed.
"""

from teucer._base.lazy import listing
from teucer.scipy.stats._discrete import BETABINOM

__all__ = ["logpmf", "pmf"]

logpmf, pmf = BETABINOM.functions(*__all__)
__dir__ = listing(__name__, __all__)
