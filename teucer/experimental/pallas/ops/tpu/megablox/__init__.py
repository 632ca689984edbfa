"""Products of groups of rows with a matrix each, as mixtures of experts need them."""

from teucer._base.lazy import listing
from teucer.experimental.pallas.ops.tpu.megablox.ops import gmm as gmm

__all__ = ["gmm"]
__dir__ = listing(__name__, __all__)
