"""Sparse linear systems, which SciPy's SuperLU solves on the host."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer import numpy as jnp
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import dtypes, tracebacks
from teucer._core.primitive import Undefined
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._sparse.csr import _csr_matmat, _csr_matvec
from teucer._sparse.defined import Defined
from teucer.lax._callbacks import pure_callback

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Value


@final
class _Spsolve(Defined):
    """x of A x = b, or of its transpose, for a matrix A in the format CSR."""

    __slots__ = ()
    name = "spsolve"

    def types(
        self, data: ShapedArray, indices: Any, indptr: ShapedArray, b: ShapedArray, **params: object
    ) -> tuple[Any, ...]:
        if data.dtype != b.dtype or not dtypes.issubdtype(b.dtype, np.inexact):
            raise TypeError(
                f"spsolve: data and b must have one dtype, of inexact numbers, got {data.dtype} "
                f"and {b.dtype}."
            )
        if (
            b.ndim not in (1, 2)
            or indptr.ndim != 1
            or indptr.shape[0] != b.shape[0] + 1
            or data.shape != indices.shape
        ):
            raise ValueError(
                f"spsolve: the matrix must be square, of the size of b.\n    data: {data.shape}\n"
                f"    indices: {indices.shape}\n    indptr: {indptr.shape}\n    b: {b.shape}"
            )
        return (b.strengthen(),)

    def program(
        self,
        data: Any,
        indices: Any,
        indptr: Any,
        b: Any,
        *,
        tol: float,
        reorder: int,
        transposed: bool,
    ) -> tuple[Any, ...]:
        def solve(data: Array, indices: Array, indptr: Array, b: Array) -> Any:
            values, places, starts, side = map(np.asarray, (data, indices, indptr, b))
            return _solve(values, places, starts, side, transposed, bool(reorder))

        return (
            pure_callback(
                solve,
                ShapeDtypeStruct(b.shape, b.dtype),
                data,
                indices,
                indptr,
                b,
                vmap_method="sequential",
            ),
        )

    def jvp(
        self, primals: Any, tangents: Any, *, tol: float, reorder: int, transposed: bool
    ) -> Any:
        data, indices, indptr, b = primals
        td, _, _, tb = tangents
        params = {"tol": tol, "reorder": reorder, "transposed": transposed}
        (x,) = self.call(*primals, **params)
        rhs = tb
        if type(td) is not Zero:
            product = _csr_matvec if np.ndim(b) == 1 else _csr_matmat
            moved = product(
                td, indices, indptr, x, shape=(np.shape(b)[0],) * 2, transpose=transposed
            )
            rhs = -moved if type(tb) is Zero else tb - moved
        if type(rhs) is Zero:
            return (x,), (typeof(x).zero,)
        return (x,), self.call(data, indices, indptr, rhs, **params)

    def transpose(
        self,
        cts: Any,
        data: Any,
        indices: Value,
        indptr: Value,
        b: Value,
        *,
        tol: float,
        reorder: int,
        transposed: bool,
    ) -> Any:
        assert type(b) is Undefined
        return (
            None,
            None,
            None,
            *self.call(
                data, indices, indptr, *cts, tol=tol, reorder=reorder, transposed=not transposed
            ),
        )


def _solve(data: Any, indices: Any, indptr: Any, b: Any, transposed: bool, reorder: bool) -> Any:
    # SciPy's solvers take half a second to load.
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import MatrixRankWarning, spsolve

    kind = b.dtype if b.dtype.char in "fdFD" else np.dtype(np.float32)
    matrix = csr_matrix((data.astype(kind), indices, indptr), shape=(len(b), len(b)))
    matrix.sum_duplicates()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", MatrixRankWarning
        )  # the result is NaN, as for dense matrices
        x = spsolve(
            (matrix.T if transposed else matrix).tocsc(),
            b.astype(kind),
            permc_spec="COLAMD" if reorder else "NATURAL",
        )
    return np.asarray(x).reshape(b.shape).astype(b.dtype)


spsolve_p = _Spsolve()


@tracebacks.api_boundary
def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Any:
    """The solution x of A x = b for a sparse square matrix A, on the host.

    data, indices, indptr: the matrix in the format CSR, data: T[nse]. b: T[n] or T[n, k].
    tol: is not looked at. reorder: 0 for eliminating columns in their order, else they are put in a
    better one. A singular matrix gives NaN. It can be differentiated with regard to data and b.
    Raises TypeError if dtypes differ or are no inexact numbers, ValueError if shapes do not fit.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> A = sparse.BCSR.fromdense(jnp.array([[2., 0.], [1., 4.]]))
    >>> sparse.linalg.spsolve(A.data, A.indices, A.indptr, jnp.array([2., 9.]))
    Array([1., 2.], dtype=float32)

    Method: Li, ACM Trans. Math. Softw. 31 (2005) 302 (SuperLU), through
    `scipy.sparse.linalg.spsolve`.
    """
    return spsolve_p.call(
        *map(jnp.asarray, (data, indices, indptr, b)),
        tol=float(tol),
        reorder=int(reorder),
        transposed=False,
    )[0]
