"""Linear algebra with sparse matrices.

Eigenvectors by `lobpcg_standard`, linear systems by `spsolve`.
"""

from __future__ import annotations

from teucer._base.lazy import listing
from teucer._sparse.lobpcg import lobpcg_standard
from teucer._sparse.spsolve import spsolve, spsolve_p

__all__ = ["lobpcg_standard", "spsolve", "spsolve_p"]
__dir__ = listing(__name__, __all__)
