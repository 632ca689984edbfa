"""How many operations on numbers an equation does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from teucer._base import dtypes
from teucer._core import structure
from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray

__all__ = ["is_product", "operations", "total_operations"]

# Elementwise, but nothing is computed.
_NO_ARITHMETIC = frozenset(
    {
        "bitcast_convert_type",
        "broadcast_in_dim",
        "concatenate",
        "convert_element_type",
        "copy",
        "copy_p",
        "dynamic_slice",
        "dynamic_update_slice",
        "expand_dims",
        "gather",
        "imag",
        "iota",
        "pad",
        "real",
        "reshape",
        "rev",
        "select_n",
        "slice",
        "split",
        "squeeze",
        "stack",
        "stop_gradient",
        "tile",
        "transpose",
        "unstack",
    }
)
# Operations for a matrix of n rows: G. H. Golub, C. F. Van Loan, Matrix Computations (2013),
# chapters 3 to 5, 8.
_CUBES = {
    "cholesky": 1 / 3,
    "lu": 2 / 3,
    "geqrf": 4 / 3,
    "geqp3": 4 / 3,
    "householder_product": 4 / 3,
    "qr": 8 / 3,
    "tridiagonal": 4 / 3,
    "hessenberg": 10 / 3,
    "schur": 25.0,
    "eigh": 9.0,
    "svd": 21.0,
    "eig": 25.0,
    "triangular_solve": 1.0,
}


def is_product(eqn: Eqn) -> bool:
    """Whether an equation is a matrix product or a convolution."""
    return eqn.primitive.name in ("dot_general", "conv_general_dilated")


def total_operations(jaxpr: Jaxpr) -> float:
    """Operations of a whole program."""
    return sum(map(operations, jaxpr.eqns))


def operations(eqn: Eqn) -> float:
    """Operations on numbers: two for each product of a matrix product, one for each element of
    others."""
    name, params = eqn.primitive.name, eqn.params
    if not eqn.outvars or any(
        getattr(v.aval, "symbolic", False) for v in (*eqn.invars, *eqn.outvars)
    ):
        return 0.0
    out = _size(eqn.outvars[0].aval)
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2.0 * out * float(math.prod(eqn.invars[0].aval.shape[i] for i in contracted))
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval
        features = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
        return float(2 * out * kernel.size / max(features, 1))
    if name in _CUBES:
        shape = eqn.invars[0].aval.shape
        return float(_CUBES[name] * math.prod(shape) * shape[-1])
    if name == "fft":
        n = math.prod(params["fft_lengths"])
        return 5.0 * out * math.log2(max(n, 2))
    if eqn.primitive.higher_order:
        return _inside(eqn)
    if name in _NO_ARITHMETIC or isinstance(eqn.outvars[0].aval.dtype, dtypes.ExtendedDType):
        return 0.0
    if eqn.primitive.cost.reduces or name.startswith(("reduce", "cum", "arg", "scatter")):
        return float(_size(eqn.invars[0].aval))
    return float(out)


def _inside(eqn: Eqn) -> float:
    inner = [sum(map(operations, jaxpr.eqns)) for jaxpr in jaxprs_in_params(eqn.params)]
    if not inner:
        return 0.0
    if structure.kind_of(eqn.primitive) is structure.Branch:
        return max(inner)
    return float(structure.times(eqn)) * sum(inner)


def _size(aval: ShapedArray) -> int:
    return int(getattr(aval, "size", 0))
