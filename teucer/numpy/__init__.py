"""NumPy's functions on arrays that can be traced: the public module.

Names are loaded on first use (PEP 562).
"""

from __future__ import annotations

import importlib
import math
from types import FunctionType
from typing import Any

import numpy as np

from teucer._advice.guarding import guarded
from teucer._base import lazy
from teucer._derived.library_stages import with_stages as _with_stages
from teucer._transform.dispatching import LIBRARY_MEMBERS as _LIBRARY_MEMBERS
from teucer.numpy import _array_methods, _opt_einsum
from teucer.numpy._dtypes import SCALAR_ALIASES, SCALAR_TYPES

# What the modules hand on, from their `__all__`: made by tools/stubs.py.
_SOURCES = {
    "teucer.numpy._arithmetic": "divmod float_power floor_divide fmod gcd lcm power remainder",
    "teucer.numpy._averages": "average",
    "teucer.numpy._bits": "packbits unpackbits",
    "teucer.numpy._creation": (
        "arange array asarray copy empty empty_like full full_like ones ones_like zeros zeros_like"
    ),
    "teucer.numpy._cumulative": (
        "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum"
    ),
    "teucer.numpy._dtypes": "can_cast finfo iinfo isdtype issubdtype promote_types result_type",
    "teucer.numpy._einsum": "einsum einsum_path",
    "teucer.numpy._files": "array_repr array_str load",
    "teucer.numpy._floats": (
        "angle copysign fmax fmin frexp heaviside hypot isneginf isposinf ldexp modf nan_to_num "
        "round signbit spacing"
    ),
    "teucer.numpy._from_lax": (
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh exp exp2 expm1 log log1p nextafter "
        "sin sinh sqrt square tan tanh"
    ),
    "teucer.numpy._histograms": "bincount histogram histogram2d histogram_bin_edges histogramdd",
    "teucer.numpy._index_tricks": (
        "c_ diag_indices diag_indices_from diagonal fill_diagonal index_exp ix_ mgrid ogrid r_ "
        "ravel_multi_index s_ tril_indices tril_indices_from triu_indices triu_indices_from "
        "unravel_index"
    ),
    "teucer.numpy._insertion": "delete insert",
    "teucer.numpy._interchange": (
        "__array_namespace_info__ astype from_dlpack frombuffer fromfile fromiter fromstring"
    ),
    "teucer.numpy._linear": "cross dot inner kron matmul matvec outer tensordot vdot vecdot vecmat",
    "teucer.numpy._logic": (
        "allclose array_equal array_equiv clip isclose iscomplex iscomplexobj isreal isrealobj "
        "isscalar"
    ),
    "teucer.numpy._manipulation": (
        "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_shapes broadcast_to "
        "expand_dims flip fliplr flipud matrix_transpose moveaxis ndim permute_dims ravel reshape "
        "roll rollaxis rot90 shape size squeeze swapaxes transpose unstack"
    ),
    "teucer.numpy._matrices": "diag diagflat eye identity trace tri tril triu vander",
    "teucer.numpy._nan_reductions": (
        "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar"
    ),
    "teucer.numpy._nonzero": "argwhere flatnonzero nonzero",
    "teucer.numpy._padding": "pad",
    "teucer.numpy._polynomial": (
        "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots"
    ),
    "teucer.numpy._quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "teucer.numpy._ranges": "fromfunction geomspace indices linspace logspace meshgrid",
    "teucer.numpy._reductions": (
        "all any argmax argmin count_nonzero max mean min prod ptp std sum var"
    ),
    "teucer.numpy._select": "choose compress extract piecewise select",
    "teucer.numpy._sets": (
        "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts "
        "unique_inverse unique_values"
    ),
    "teucer.numpy._signals": (
        "convolve corrcoef correlate cov diff ediff1d gradient interp trapezoid unwrap"
    ),
    "teucer.numpy._sorting": (
        "argpartition argsort digitize lexsort partition searchsorted sort sort_complex"
    ),
    "teucer.numpy._special": "i0 sinc",
    "teucer.numpy._stacking": (
        "append array_split block column_stack concat concatenate dsplit dstack hsplit hstack "
        "repeat resize split stack tile trim_zeros vsplit vstack"
    ),
    "teucer.numpy._taking": "place put put_along_axis take take_along_axis",
    "teucer.numpy._topmost": "minmax top_k",
    "teucer.numpy._ufunc_objects": (
        "add bitwise_and bitwise_or bitwise_xor frompyfunc logaddexp logaddexp2 logical_and "
        "logical_or logical_xor maximum minimum multiply negative subtract ufunc"
    ),
    "teucer.numpy._ufuncs": (
        "abs bitwise_count bitwise_not ceil conj deg2rad divide equal fabs floor greater "
        "greater_equal imag isfinite isinf isnan left_shift less less_equal log10 log2 logical_not "
        "not_equal positive rad2deg real reciprocal right_shift rint sign trunc"
    ),
    "teucer.numpy._vectorize": "apply_along_axis apply_over_axes vectorize",
    "teucer.numpy._where": "mask_indices where",
    "teucer.numpy._windows": "bartlett blackman hamming hanning kaiser",
}
# Other names of the same functions: NumPy's beside the array API's.
_ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "bitwise_invert": "bitwise_not",
    "invert": "bitwise_not",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "conjugate": "conj",
    "degrees": "rad2deg",
    "mod": "remainder",
    "pow": "power",
    "radians": "deg2rad",
    "true_divide": "divide",
    "amax": "max",
    "amin": "min",
    "around": "round",
}
_REMOVED = {
    "fix": (
        "jax.numpy.fix was deprecated in JAX v0.9.0, and removed in JAX v0.10.0. Use "
        "jax.numpy.trunc instead."
    )
}
_MODULES = ("linalg", "fft")
_WHERE = {name: module for module, names in _SOURCES.items() for name in names.split()}

__array_api_version__ = "2024.12"
e, pi, euler_gamma, inf, nan, newaxis = (
    math.e,
    math.pi,
    0.5772156649015329,
    math.inf,
    math.nan,
    None,
)
_FROM_NUMPY = (
    "character", "complexfloating", "dtype", "flexible", "floating", "generic", "inexact",
    "integer", "iterable", "get_printoptions", "number", "object_", "printoptions", "save",
    "savez", "set_printoptions", "signedinteger", "unsignedinteger",
)  # fmt: skip
__all__ = [  # noqa: PLE0604  names from the tables
    *_WHERE,
    *_ALIASES,
    *SCALAR_TYPES,
    *SCALAR_ALIASES,
    *_FROM_NUMPY,
    *_MODULES,
    "ComplexWarning",
    "e",
    "euler_gamma",
    "inf",
    "nan",
    "ndarray",
    "newaxis",
    "pi",
]
__dir__ = lazy.listing(__name__, __all__)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = _with_stages(getattr(importlib.import_module(_WHERE[name]), name))
    elif name in _ALIASES:
        value = _with_stages(
            _renamed(globals().get(_ALIASES[name]) or __getattr__(_ALIASES[name]), name)
        )
    elif name in SCALAR_TYPES or name in SCALAR_ALIASES:
        value = SCALAR_TYPES[SCALAR_ALIASES.get(name, name)]
    elif name in _FROM_NUMPY:
        value = getattr(np, name)
    elif name in _MODULES:
        value = importlib.import_module(f"teucer.numpy.{name}")
    elif name == "ndarray":
        value = importlib.import_module("teucer._arrays.arrays").Array
    elif name == "ComplexWarning":
        value = np.exceptions.ComplexWarning
    else:
        from teucer._advice import mistakes  # of errors alone

        raise AttributeError(
            _REMOVED.get(name)
            or f"module {__name__!r} has no attribute {name!r}{mistakes.on_name(name)}"
        )
    globals()[name] = guarded(value)
    if lazy.on_handing is not None:
        lazy.on_handing("teucer.numpy", name, value)
    return value


def _renamed(function: Any, name: str) -> Any:
    """A copy of a function with another name, which shares its compiled programs."""
    alias = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    alias.__dict__.update(
        {
            member: value
            for member, value in vars(function).items()
            if member not in _LIBRARY_MEMBERS
        }
    )
    alias.__kwdefaults__, alias.__annotations__ = function.__kwdefaults__, function.__annotations__
    alias.__module__, alias.__qualname__, alias.__doc__ = __name__, name, function.__doc__
    return alias


_array_methods.attach()
_opt_einsum.tell()
