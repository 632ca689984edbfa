"""Singular values from the polar factors, where no LAPACK is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._core.trace import typeof
from teucer._transform.vmap import vmap
from teucer.lax._arithmetic import abs as absolute
from teucer.lax._arithmetic import add, div, ge, gt, mul
from teucer.lax._joining import concatenate
from teucer.lax._reductions import reduce_max
from teucer.lax._selection import where_else
from teucer.lax._shapes import rev
from teucer.lax._slicing import slice_in_dim
from teucer.lax._structure import broadcast_to, convert_element_type, full
from teucer.lax.linalg._eigen import eigh_p
from teucer.lax.linalg._matrices import adjoint, diagonal, like, matmul, rows
from teucer.lax.linalg._polar import qdwh
from teucer.lax.linalg._qr import qr

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["svd_by_polar"]


def svd_by_polar(x: Array, *, full_matrices: bool, compute_uv: bool) -> tuple[Any, ...]:
    """Singular values, and with compute_uv U and V^H, from the polar factors of x.

    With A = U_p H and H = V S V^H, A = (U_p V) S V^H: Nakatsukasa & Higham, SIAM J. Sci. Comput. 35
    (2013) A1325.
    """
    ndim = typeof(x).ndim
    if ndim > 2:
        return tuple(
            vmap(lambda y: svd_by_polar(y, full_matrices=full_matrices, compute_uv=compute_uv))(x)
        )
    m, n = typeof(x).shape
    if m < n:
        s, *uv = svd_by_polar(adjoint(x), full_matrices=full_matrices, compute_uv=compute_uv)
        return (s, *map(adjoint, reversed(uv)))
    size = reduce_max(absolute(x), (0, 1))
    size = where_else(gt(size, like(size, 0)), size, like(size, 1))
    y = div(x, broadcast_to(convert_element_type(size, typeof(x).dtype), typeof(x).shape, ()))
    q, y = qr(y, full_matrices=False) if m > n else (None, y)
    turn, stretch, _, _ = qdwh(y)
    v, s = eigh_p.call(
        stretch, lower=True, sort_eigenvalues=True, subset_by_index=None, algorithm=None
    )
    s, v = rev(s, (0,)), rev(v, (1,))
    # Rounding makes values of zero negative; NaN stays.
    s = mul(where_else(ge(s, like(s, 0)), s, mul(s, like(s, 0))), broadcast_to(size, (n,), ()))
    if not compute_uv:
        return (s,)
    u = matmul(turn, v)
    return s, _completed(u if q is None else matmul(q, u), full_matrices), adjoint(v)


def _completed(u: Array, full_matrices: bool) -> Any:
    """u made orthonormal: its columns of length 1 stay, others are replaced. Columns for singular
    values of zero may have another length in u."""
    q, r = qr(u, full_matrices=full_matrices)
    n = typeof(u).shape[1]
    phases = diagonal(slice_in_dim(r, 0, n, axis=0))
    length = absolute(phases)
    is_vector = gt(length, like(length, 0.5))
    one = like(phases, 1)
    phases = where_else(
        is_vector, div(phases, convert_element_type(length, typeof(phases).dtype)), one
    )
    rest = typeof(q).shape[1] - n
    phases = concatenate([phases, full((rest,), 1, typeof(q).dtype)], 0) if rest else phases
    # A matrix with NaN has NaN in all of its vectors.
    lost = add(mul(phases, like(phases, 0)), like(phases, 1))
    return mul(q, rows(mul(phases, lost), q))
