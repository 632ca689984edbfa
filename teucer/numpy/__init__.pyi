# Made by tools/stubs.py from the tables of this module.
from typing import Any
from teucer._core.typing import Array as _ndarray
from teucer._core.typing import Binary
from teucer._core.typing import Unary
from teucer.numpy import fft as fft
from teucer.numpy import linalg as linalg
from teucer.numpy._arithmetic import divmod as divmod
from teucer.numpy._arithmetic import float_power as float_power
from teucer.numpy._arithmetic import floor_divide as floor_divide
from teucer.numpy._arithmetic import fmod as fmod
from teucer.numpy._arithmetic import gcd as gcd
from teucer.numpy._arithmetic import lcm as lcm
from teucer.numpy._arithmetic import power as _pow
from teucer.numpy._arithmetic import power as power
from teucer.numpy._arithmetic import remainder as _mod
from teucer.numpy._arithmetic import remainder as remainder
from teucer.numpy._averages import average as average
from teucer.numpy._bits import packbits as packbits
from teucer.numpy._bits import unpackbits as unpackbits
from teucer.numpy._creation import arange as arange
from teucer.numpy._creation import array as array
from teucer.numpy._creation import asarray as asarray
from teucer.numpy._creation import copy as copy
from teucer.numpy._creation import empty as empty
from teucer.numpy._creation import empty_like as empty_like
from teucer.numpy._creation import full as full
from teucer.numpy._creation import full_like as full_like
from teucer.numpy._creation import ones as ones
from teucer.numpy._creation import ones_like as ones_like
from teucer.numpy._creation import zeros as zeros
from teucer.numpy._creation import zeros_like as zeros_like
from teucer.numpy._cumulative import cumprod as cumprod
from teucer.numpy._cumulative import cumsum as cumsum
from teucer.numpy._cumulative import cumulative_prod as cumulative_prod
from teucer.numpy._cumulative import cumulative_sum as cumulative_sum
from teucer.numpy._cumulative import nancumprod as nancumprod
from teucer.numpy._cumulative import nancumsum as nancumsum
from teucer.numpy._dtypes import can_cast as can_cast
from teucer.numpy._dtypes import finfo as finfo
from teucer.numpy._dtypes import iinfo as iinfo
from teucer.numpy._dtypes import isdtype as isdtype
from teucer.numpy._dtypes import issubdtype as issubdtype
from teucer.numpy._dtypes import promote_types as promote_types
from teucer.numpy._dtypes import result_type as result_type
from teucer.numpy._einsum import einsum as einsum
from teucer.numpy._einsum import einsum_path as einsum_path
from teucer.numpy._files import array_repr as array_repr
from teucer.numpy._files import array_str as array_str
from teucer.numpy._files import load as load
from teucer.numpy._floats import angle as angle
from teucer.numpy._floats import copysign as copysign
from teucer.numpy._floats import fmax as fmax
from teucer.numpy._floats import fmin as fmin
from teucer.numpy._floats import frexp as frexp
from teucer.numpy._floats import heaviside as heaviside
from teucer.numpy._floats import hypot as hypot
from teucer.numpy._floats import isneginf as isneginf
from teucer.numpy._floats import isposinf as isposinf
from teucer.numpy._floats import ldexp as ldexp
from teucer.numpy._floats import modf as modf
from teucer.numpy._floats import nan_to_num as nan_to_num
from teucer.numpy._floats import round as _around
from teucer.numpy._floats import round as round
from teucer.numpy._floats import signbit as signbit
from teucer.numpy._floats import spacing as spacing
from teucer.numpy._histograms import bincount as bincount
from teucer.numpy._histograms import histogram as histogram
from teucer.numpy._histograms import histogram2d as histogram2d
from teucer.numpy._histograms import histogram_bin_edges as histogram_bin_edges
from teucer.numpy._histograms import histogramdd as histogramdd
from teucer.numpy._index_tricks import c_ as c_
from teucer.numpy._index_tricks import diag_indices as diag_indices
from teucer.numpy._index_tricks import diag_indices_from as diag_indices_from
from teucer.numpy._index_tricks import diagonal as diagonal
from teucer.numpy._index_tricks import fill_diagonal as fill_diagonal
from teucer.numpy._index_tricks import index_exp as index_exp
from teucer.numpy._index_tricks import ix_ as ix_
from teucer.numpy._index_tricks import mgrid as mgrid
from teucer.numpy._index_tricks import ogrid as ogrid
from teucer.numpy._index_tricks import r_ as r_
from teucer.numpy._index_tricks import ravel_multi_index as ravel_multi_index
from teucer.numpy._index_tricks import s_ as s_
from teucer.numpy._index_tricks import tril_indices as tril_indices
from teucer.numpy._index_tricks import tril_indices_from as tril_indices_from
from teucer.numpy._index_tricks import triu_indices as triu_indices
from teucer.numpy._index_tricks import triu_indices_from as triu_indices_from
from teucer.numpy._index_tricks import unravel_index as unravel_index
from teucer.numpy._insertion import delete as delete
from teucer.numpy._insertion import insert as insert
from teucer.numpy._interchange import __array_namespace_info__ as __array_namespace_info__
from teucer.numpy._interchange import astype as astype
from teucer.numpy._interchange import from_dlpack as from_dlpack
from teucer.numpy._interchange import frombuffer as frombuffer
from teucer.numpy._interchange import fromfile as fromfile
from teucer.numpy._interchange import fromiter as fromiter
from teucer.numpy._interchange import fromstring as fromstring
from teucer.numpy._linear import cross as cross
from teucer.numpy._linear import dot as dot
from teucer.numpy._linear import inner as inner
from teucer.numpy._linear import kron as kron
from teucer.numpy._linear import matmul as matmul
from teucer.numpy._linear import matvec as matvec
from teucer.numpy._linear import outer as outer
from teucer.numpy._linear import tensordot as tensordot
from teucer.numpy._linear import vdot as vdot
from teucer.numpy._linear import vecdot as vecdot
from teucer.numpy._linear import vecmat as vecmat
from teucer.numpy._logic import allclose as allclose
from teucer.numpy._logic import array_equal as array_equal
from teucer.numpy._logic import array_equiv as array_equiv
from teucer.numpy._logic import clip as clip
from teucer.numpy._logic import isclose as isclose
from teucer.numpy._logic import iscomplex as iscomplex
from teucer.numpy._logic import iscomplexobj as iscomplexobj
from teucer.numpy._logic import isreal as isreal
from teucer.numpy._logic import isrealobj as isrealobj
from teucer.numpy._logic import isscalar as isscalar
from teucer.numpy._manipulation import atleast_1d as atleast_1d
from teucer.numpy._manipulation import atleast_2d as atleast_2d
from teucer.numpy._manipulation import atleast_3d as atleast_3d
from teucer.numpy._manipulation import broadcast_arrays as broadcast_arrays
from teucer.numpy._manipulation import broadcast_shapes as broadcast_shapes
from teucer.numpy._manipulation import broadcast_to as broadcast_to
from teucer.numpy._manipulation import expand_dims as expand_dims
from teucer.numpy._manipulation import flip as flip
from teucer.numpy._manipulation import fliplr as fliplr
from teucer.numpy._manipulation import flipud as flipud
from teucer.numpy._manipulation import matrix_transpose as matrix_transpose
from teucer.numpy._manipulation import moveaxis as moveaxis
from teucer.numpy._manipulation import ndim as ndim
from teucer.numpy._manipulation import permute_dims as permute_dims
from teucer.numpy._manipulation import ravel as ravel
from teucer.numpy._manipulation import reshape as reshape
from teucer.numpy._manipulation import roll as roll
from teucer.numpy._manipulation import rollaxis as rollaxis
from teucer.numpy._manipulation import rot90 as rot90
from teucer.numpy._manipulation import shape as shape
from teucer.numpy._manipulation import size as size
from teucer.numpy._manipulation import squeeze as squeeze
from teucer.numpy._manipulation import swapaxes as swapaxes
from teucer.numpy._manipulation import transpose as transpose
from teucer.numpy._manipulation import unstack as unstack
from teucer.numpy._matrices import diag as diag
from teucer.numpy._matrices import diagflat as diagflat
from teucer.numpy._matrices import eye as eye
from teucer.numpy._matrices import identity as identity
from teucer.numpy._matrices import trace as trace
from teucer.numpy._matrices import tri as tri
from teucer.numpy._matrices import tril as tril
from teucer.numpy._matrices import triu as triu
from teucer.numpy._matrices import vander as vander
from teucer.numpy._nan_reductions import nanargmax as nanargmax
from teucer.numpy._nan_reductions import nanargmin as nanargmin
from teucer.numpy._nan_reductions import nanmax as nanmax
from teucer.numpy._nan_reductions import nanmean as nanmean
from teucer.numpy._nan_reductions import nanmin as nanmin
from teucer.numpy._nan_reductions import nanprod as nanprod
from teucer.numpy._nan_reductions import nanstd as nanstd
from teucer.numpy._nan_reductions import nansum as nansum
from teucer.numpy._nan_reductions import nanvar as nanvar
from teucer.numpy._nonzero import argwhere as argwhere
from teucer.numpy._nonzero import flatnonzero as flatnonzero
from teucer.numpy._nonzero import nonzero as nonzero
from teucer.numpy._padding import pad as pad
from teucer.numpy._polynomial import poly as poly
from teucer.numpy._polynomial import polyadd as polyadd
from teucer.numpy._polynomial import polyder as polyder
from teucer.numpy._polynomial import polydiv as polydiv
from teucer.numpy._polynomial import polyfit as polyfit
from teucer.numpy._polynomial import polyint as polyint
from teucer.numpy._polynomial import polymul as polymul
from teucer.numpy._polynomial import polysub as polysub
from teucer.numpy._polynomial import polyval as polyval
from teucer.numpy._polynomial import roots as roots
from teucer.numpy._quantiles import median as median
from teucer.numpy._quantiles import nanmedian as nanmedian
from teucer.numpy._quantiles import nanpercentile as nanpercentile
from teucer.numpy._quantiles import nanquantile as nanquantile
from teucer.numpy._quantiles import percentile as percentile
from teucer.numpy._quantiles import quantile as quantile
from teucer.numpy._ranges import fromfunction as fromfunction
from teucer.numpy._ranges import geomspace as geomspace
from teucer.numpy._ranges import indices as indices
from teucer.numpy._ranges import linspace as linspace
from teucer.numpy._ranges import logspace as logspace
from teucer.numpy._ranges import meshgrid as meshgrid
from teucer.numpy._reductions import all as all
from teucer.numpy._reductions import any as any
from teucer.numpy._reductions import argmax as argmax
from teucer.numpy._reductions import argmin as argmin
from teucer.numpy._reductions import count_nonzero as count_nonzero
from teucer.numpy._reductions import max as _amax
from teucer.numpy._reductions import max as max
from teucer.numpy._reductions import mean as mean
from teucer.numpy._reductions import min as _amin
from teucer.numpy._reductions import min as min
from teucer.numpy._reductions import prod as prod
from teucer.numpy._reductions import ptp as ptp
from teucer.numpy._reductions import std as std
from teucer.numpy._reductions import sum as sum
from teucer.numpy._reductions import var as var
from teucer.numpy._select import choose as choose
from teucer.numpy._select import compress as compress
from teucer.numpy._select import extract as extract
from teucer.numpy._select import piecewise as piecewise
from teucer.numpy._select import select as select
from teucer.numpy._sets import intersect1d as intersect1d
from teucer.numpy._sets import isin as isin
from teucer.numpy._sets import setdiff1d as setdiff1d
from teucer.numpy._sets import setxor1d as setxor1d
from teucer.numpy._sets import union1d as union1d
from teucer.numpy._sets import unique as unique
from teucer.numpy._sets import unique_all as unique_all
from teucer.numpy._sets import unique_counts as unique_counts
from teucer.numpy._sets import unique_inverse as unique_inverse
from teucer.numpy._sets import unique_values as unique_values
from teucer.numpy._signals import convolve as convolve
from teucer.numpy._signals import corrcoef as corrcoef
from teucer.numpy._signals import correlate as correlate
from teucer.numpy._signals import cov as cov
from teucer.numpy._signals import diff as diff
from teucer.numpy._signals import ediff1d as ediff1d
from teucer.numpy._signals import gradient as gradient
from teucer.numpy._signals import interp as interp
from teucer.numpy._signals import trapezoid as trapezoid
from teucer.numpy._signals import unwrap as unwrap
from teucer.numpy._sorting import argpartition as argpartition
from teucer.numpy._sorting import argsort as argsort
from teucer.numpy._sorting import digitize as digitize
from teucer.numpy._sorting import lexsort as lexsort
from teucer.numpy._sorting import partition as partition
from teucer.numpy._sorting import searchsorted as searchsorted
from teucer.numpy._sorting import sort as sort
from teucer.numpy._sorting import sort_complex as sort_complex
from teucer.numpy._special import i0 as i0
from teucer.numpy._special import sinc as sinc
from teucer.numpy._stacking import append as append
from teucer.numpy._stacking import array_split as array_split
from teucer.numpy._stacking import block as block
from teucer.numpy._stacking import column_stack as column_stack
from teucer.numpy._stacking import concat as concat
from teucer.numpy._stacking import concatenate as concatenate
from teucer.numpy._stacking import dsplit as dsplit
from teucer.numpy._stacking import dstack as dstack
from teucer.numpy._stacking import hsplit as hsplit
from teucer.numpy._stacking import hstack as hstack
from teucer.numpy._stacking import repeat as repeat
from teucer.numpy._stacking import resize as resize
from teucer.numpy._stacking import split as split
from teucer.numpy._stacking import stack as stack
from teucer.numpy._stacking import tile as tile
from teucer.numpy._stacking import trim_zeros as trim_zeros
from teucer.numpy._stacking import vsplit as vsplit
from teucer.numpy._stacking import vstack as vstack
from teucer.numpy._taking import place as place
from teucer.numpy._taking import put as put
from teucer.numpy._taking import put_along_axis as put_along_axis
from teucer.numpy._taking import take as take
from teucer.numpy._taking import take_along_axis as take_along_axis
from teucer.numpy._topmost import minmax as minmax
from teucer.numpy._topmost import top_k as top_k
from teucer.numpy._ufunc_objects import add as add
from teucer.numpy._ufunc_objects import bitwise_and as bitwise_and
from teucer.numpy._ufunc_objects import bitwise_or as bitwise_or
from teucer.numpy._ufunc_objects import bitwise_xor as bitwise_xor
from teucer.numpy._ufunc_objects import frompyfunc as frompyfunc
from teucer.numpy._ufunc_objects import logaddexp as logaddexp
from teucer.numpy._ufunc_objects import logaddexp2 as logaddexp2
from teucer.numpy._ufunc_objects import logical_and as logical_and
from teucer.numpy._ufunc_objects import logical_or as logical_or
from teucer.numpy._ufunc_objects import logical_xor as logical_xor
from teucer.numpy._ufunc_objects import maximum as maximum
from teucer.numpy._ufunc_objects import minimum as minimum
from teucer.numpy._ufunc_objects import multiply as multiply
from teucer.numpy._ufunc_objects import negative as negative
from teucer.numpy._ufunc_objects import subtract as subtract
from teucer.numpy._ufunc_objects import ufunc as ufunc
from teucer.numpy._ufuncs import abs as _absolute
from teucer.numpy._ufuncs import abs as abs
from teucer.numpy._ufuncs import bitwise_count as bitwise_count
from teucer.numpy._ufuncs import bitwise_not as _bitwise_invert
from teucer.numpy._ufuncs import bitwise_not as _invert
from teucer.numpy._ufuncs import bitwise_not as bitwise_not
from teucer.numpy._ufuncs import ceil as ceil
from teucer.numpy._ufuncs import conj as _conjugate
from teucer.numpy._ufuncs import conj as conj
from teucer.numpy._ufuncs import deg2rad as _radians
from teucer.numpy._ufuncs import deg2rad as deg2rad
from teucer.numpy._ufuncs import divide as _true_divide
from teucer.numpy._ufuncs import divide as divide
from teucer.numpy._ufuncs import equal as equal
from teucer.numpy._ufuncs import fabs as fabs
from teucer.numpy._ufuncs import floor as floor
from teucer.numpy._ufuncs import greater as greater
from teucer.numpy._ufuncs import greater_equal as greater_equal
from teucer.numpy._ufuncs import imag as imag
from teucer.numpy._ufuncs import isfinite as isfinite
from teucer.numpy._ufuncs import isinf as isinf
from teucer.numpy._ufuncs import isnan as isnan
from teucer.numpy._ufuncs import left_shift as _bitwise_left_shift
from teucer.numpy._ufuncs import left_shift as left_shift
from teucer.numpy._ufuncs import less as less
from teucer.numpy._ufuncs import less_equal as less_equal
from teucer.numpy._ufuncs import log10 as log10
from teucer.numpy._ufuncs import log2 as log2
from teucer.numpy._ufuncs import logical_not as logical_not
from teucer.numpy._ufuncs import not_equal as not_equal
from teucer.numpy._ufuncs import positive as positive
from teucer.numpy._ufuncs import rad2deg as _degrees
from teucer.numpy._ufuncs import rad2deg as rad2deg
from teucer.numpy._ufuncs import real as real
from teucer.numpy._ufuncs import reciprocal as reciprocal
from teucer.numpy._ufuncs import right_shift as _bitwise_right_shift
from teucer.numpy._ufuncs import right_shift as right_shift
from teucer.numpy._ufuncs import rint as rint
from teucer.numpy._ufuncs import sign as sign
from teucer.numpy._ufuncs import trunc as trunc
from teucer.numpy._vectorize import apply_along_axis as apply_along_axis
from teucer.numpy._vectorize import apply_over_axes as apply_over_axes
from teucer.numpy._vectorize import vectorize as vectorize
from teucer.numpy._where import mask_indices as mask_indices
from teucer.numpy._where import where as where
from teucer.numpy._windows import bartlett as bartlett
from teucer.numpy._windows import blackman as blackman
from teucer.numpy._windows import hamming as hamming
from teucer.numpy._windows import hanning as hanning
from teucer.numpy._windows import kaiser as kaiser

ComplexWarning: Any
absolute = _absolute
acos: Unary
acosh: Unary
amax = _amax
amin = _amin
arccos: Unary
arccosh: Unary
arcsin: Unary
arcsinh: Unary
arctan: Unary
arctan2: Binary
arctanh: Unary
around = _around
asin: Unary
asinh: Unary
atan: Unary
atan2: Binary
atanh: Unary
bfloat16: Any
bitwise_invert = _bitwise_invert
bitwise_left_shift = _bitwise_left_shift
bitwise_right_shift = _bitwise_right_shift
bool: Any
bool_: Any
cbrt: Unary
cdouble: Any
character: Any
complex128: Any
complex64: Any
complex_: Any
complexfloating: Any
conjugate = _conjugate
cos: Unary
cosh: Unary
csingle: Any
degrees = _degrees
double: Any
dtype: Any
e: Any
euler_gamma: Any
exp: Unary
exp2: Unary
expm1: Unary
flexible: Any
float16: Any
float32: Any
float4_e2m1fn: Any
float64: Any
float6_e2m3fn: Any
float6_e3m2fn: Any
float8_e3m4: Any
float8_e4m3: Any
float8_e4m3b11fnuz: Any
float8_e4m3fn: Any
float8_e4m3fnuz: Any
float8_e5m2: Any
float8_e5m2fnuz: Any
float8_e8m0fnu: Any
float_: Any
floating: Any
generic: Any
get_printoptions: Any
inexact: Any
inf: Any
int1: Any
int16: Any
int2: Any
int32: Any
int4: Any
int64: Any
int8: Any
int_: Any
integer: Any
invert = _invert
iterable: Any
log: Unary
log1p: Unary
mod = _mod
nan: Any
ndarray = _ndarray
newaxis: Any
nextafter: Binary
number: Any
object_: Any
pi: Any
pow = _pow
printoptions: Any
radians = _radians
save: Any
savez: Any
set_printoptions: Any
signedinteger: Any
sin: Unary
single: Any
sinh: Unary
sqrt: Unary
square: Unary
tan: Unary
tanh: Unary
true_divide = _true_divide
uint: Any
uint1: Any
uint16: Any
uint2: Any
uint32: Any
uint4: Any
uint64: Any
uint8: Any
unsignedinteger: Any
