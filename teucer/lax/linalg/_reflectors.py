"""Products with Householder reflectors where no LAPACK is: as one block reflector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._core.trace import typeof
from teucer.lax._arithmetic import add, conj, mul, sub
from teucer.lax._slicing import slice_in_dim
from teucer.lax.linalg._matrices import adjoint, columns, eye, matmul, tril, triu
from teucer.lax.linalg._solve import triangular_solve

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["reflected"]


def reflected(a: Array, taus: Array, c: Array, *, left: bool, transpose: bool) -> Any:
    """Q c, or with `transpose` Q^H c, or from the right c Q, c Q^H, for the Householder vectors in
    a and their factors.

    Q = I - V T V^H with T = (I + D S)^-1 D, where D = diag(taus) and S is V^H V above its diagonal:
    Puglisi, SIAM J. Sci. Stat. Comput. 13 (1992) 723, in a form without 1 / tau.
    """
    if not left:
        return adjoint(reflected(a, taus, adjoint(c), left=True, transpose=not transpose))
    k = typeof(taus).shape[-1]
    packed = slice_in_dim(a, 0, k, axis=typeof(a).ndim - 1)
    v = add(tril(packed, -1), eye(packed))
    gram = triu(matmul(adjoint(v), v), 1)
    inner = matmul(adjoint(v), c)
    unit = mul(columns(taus, gram), gram)
    options: Any = {"left_side": True, "unit_diagonal": True}
    if transpose:
        solved = triangular_solve(unit, inner, transpose_a=True, conjugate_a=True, **options)
        turned = mul(columns(conj(taus) if typeof(taus).dtype.kind == "c" else taus, inner), solved)
    else:
        turned = triangular_solve(unit, mul(columns(taus, inner), inner), **options)
    return sub(c, matmul(v, turned))
