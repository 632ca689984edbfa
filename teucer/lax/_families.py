"""Families of elementwise primitives.

A row of a table declares one; the family supplies every rule that follows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import numpy as np

from teucer._base import dtypes, errors, memo
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero, is_valid_type
from teucer._core.typing import Binary, Unary
from teucer._devices import partition
from teucer._lower import hlo
from teucer.lax import _structure
from teucer.lax._costs import CHEAP, EXPENSIVE, FUSED

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, ArrayLike, Dims, DType, DTypeLike, Params, Size, Values
    from teucer._lower.context import Context
    from teucer._lower.value import Value


class Accepts(NamedTuple):
    """A set of dtypes: the subtypes of the given NumPy kinds."""

    kinds: tuple[Any, ...]

    def __contains__(self, dtype: object) -> bool:
        return _accepted(self.kinds, dtype)

    def __str__(self) -> str:
        names = {np.floating: "floating", np.complexfloating: "complexfloating", np.bool_: "bool"}
        return ", ".join(names.get(kind, kind.__name__) for kind in self.kinds)


@functools.cache
def _accepted(kinds: tuple[object, ...], dtype: DType) -> bool:
    return any(dtypes.issubdtype(dtype, kind) for kind in kinds)


FLOAT = Accepts((np.floating,))
COMPLEX = Accepts((np.complexfloating,))
INEXACT = Accepts((np.floating, np.complexfloating))
INT = Accepts((np.integer,))
BOOL_OR_INT = Accepts((np.bool_, np.integer))
SIGNED = Accepts((np.signedinteger, np.floating, np.complexfloating))
REAL = Accepts((np.integer, np.floating))
NUMERIC = Accepts((np.integer, np.floating, np.complexfloating))
# The dtypes in which series are computed; 16-bit floats in float32.
FLOATS = ("float16", "bfloat16", "float32", "float64")
ANY = Accepts((np.integer, np.floating, np.complexfloating, np.bool_))


_NONE: Mapping[str, Any] = MappingProxyType({})


class Checked(NamedTuple):
    """How an elementwise operation is tested: an interval for its operands, and the units in the
    last place allowed.

    reference: what it is compared with, as Python text: a function of NumPy (`np`), mpmath, or
    tests/optable/formulas.py. By default NumPy's function that the row names, or the one with the
    operation's name.
    ulp_of: where one dtype needs other units. params: the parameters of its calls.
    given: a function that turns drawn operands into test operands, if not all will do.
    constant: positions of operands in which it is not differentiated.
    costly: whether a copy of it takes a second to compile, so that fewer are tested.
    widen: whether the reference gets operands as "long" doubles, or "no", as they are.
    exceptions: law -> why it does not hold.
    """

    low: float
    high: float
    ulp: float
    reference: str = ""
    ulp_of: Mapping[str, float] = _NONE
    params: Mapping[str, object] = _NONE
    given: Callable[..., tuple[object, ...]] | None = None
    constant: tuple[int, ...] = ()
    costly: bool = False
    widen: Literal["long", "no"] = "long"
    exceptions: Mapping[str, str] = _NONE


# Every elementwise primitive by name: the operation table of the tests asks here.
ELEMENTWISE: dict[str, Elementwise] = {}


def check_dtypes(name: str, accepts: Accepts, avals: Sequence[ShapedArray]) -> None:
    """Raise TypeError if an operand's dtype is not accepted."""
    for i, aval in enumerate(avals):
        if not _accepted(accepts.kinds, aval.dtype):
            if aval.dtype == dtypes.float0:
                raise errors.float0_refused(name)
            at = f" at position {i}" if len(avals) > 1 else ""
            listed = ", ".join(a.str_short(short_dtypes=True) for a in avals)
            raise TypeError(
                f"{name} does not accept dtype {aval.dtype.name}{at}. Accepted dtypes{at} are "
                f"subtypes of {accepts}.\n    operands: {listed}"
            )


def check_same(name: str, avals: Sequence[ShapedArray], *, scalars: bool = False) -> None:
    """Raise TypeError if operands differ in dtype or shape. scalars: whether a scalar goes with any
    shape."""
    first = avals[0]
    if any(aval.dtype != first.dtype for aval in avals):
        listed = ", ".join(a.dtype.name for a in avals)
        row = ELEMENTWISE.get(name)
        public, similar = (name, name) if row is None else (row.public, row.numpy)
        tip = (
            (
                f" (Tip: jnp.{similar} is a similar function that does automatic type promotion on "
                "inputs)."
            )
            if similar
            else ""
        )
        raise TypeError(
            f"lax.{public} requires arguments to have the same dtypes, got {listed}.{tip}"
        )
    shapes = [aval.shape for aval in avals if aval.shape or not scalars]
    if any(shape != shapes[0] for shape in shapes):  # no set: equal sizes may have different hashes
        raise not_broadcast(name, [a.shape for a in avals])


def not_broadcast(name: str, shapes: Sequence[tuple[Any, ...]]) -> TypeError:
    """The error for operands whose shapes do not broadcast."""
    ranks = {len(shape) for shape in shapes if shape}
    listed = ", ".join(map(str, shapes))
    return TypeError(
        (
            f"{name}: arrays must have the same number of dimensions, got {ranks}: shapes {listed}."
            if len(ranks) > 1
            else f"{name} got incompatible shapes for broadcasting: {listed}."
        )
        + "\n  lax operations take operands of one shape, but for axes of size 1, or scalars; "
        "jnp functions broadcast."
    )


@final
class Elementwise(Primitive):
    """A primitive that acts on corresponding elements of operands of one dtype, and of one shape or
    scalar.

    accepts: the dtypes of its operands.
    lower: the StableHLO operation (a name), or a function (ctx, *values) -> value.
    tangents: for each operand, (t, y, *operands) -> the tangent of y for tangent t of the operand;
    None, or giving None, if zero.
    transposes: for each operand in which the primitive is linear, (ct, *operands) -> its cotangent.
    result: operand dtype -> result dtype, where they differ.
    simplify, fold: the rules for the passes over jaxprs, from `_folding`.
    product: whether it is linear in each operand by itself; else it is so in those with transposes
    taken together.
    public: the name of its function in lax, if there is one. numpy: the name of NumPy's function,
    and of the function in jnp, which promotes.
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        accepts: Accepts,
        lower: str | Callable[..., object],
        tangents: Sequence[Callable[..., object] | None] | None,
        tested: Checked,
        *,
        transposes: Sequence[Callable[..., object] | None] | None = None,
        result: Function | None = None,
        simplify: object = None,
        fold: object = None,
        cost: Cost | None = None,
        complex_cost: Cost | None = None,
        product: bool = False,
        public: str = "",
        numpy: str = "",
        series: Sequence[str] = (),
    ) -> None:
        self.name, self.accepts, self.tangents, self.tested = name, accepts, tangents, tested
        self.public, self.numpy = public, numpy
        self.arity = 2 if tangents is None else len(tangents)
        self.transposes, self.result, self.simplify, self.fold = transposes, result, simplify, fold
        linear = tuple(i for i, rule in enumerate(transposes or ()) if rule is not None)
        self.linear_in = (
            "product"
            if product
            else "sum"
            if transposes and len(linear) == len(transposes)
            else linear or None
        )
        # Operations that processors round correctly are single instructions.
        self.cost = (cost or (FUSED if fold is None else CHEAP))._replace(
            of_complex=complex_cost, series=frozenset(series)
        )
        if isinstance(lower, str) and "." not in lower:
            lower = f"stablehlo.{lower}"
        self.lowering = lower
        # Types are interned, so the result types of operands met before are one look-up away.
        self.known: dict[Any, Any] = {}
        ELEMENTWISE[name] = self

    def types(self, *avals: ShapedArray, **params: object) -> Any:
        found = self.known.get(avals) if not params or self.result is None else None
        if found is None:
            found = (self.result_type(avals, params),)
            if not params or self.result is None:
                memo.remember(self.known, avals, found, memo.RECENT)
        return found

    def result_type(self, avals: Sequence[ShapedArray], params: Params) -> Any:
        """The type of the result, or the error that says why there is none."""
        check_dtypes(str(self.name), self.accepts, avals)
        first = avals[0]
        if len(avals) > 1:
            check_same(str(self.name), avals, scalars=True)
            first = max(avals, key=lambda aval: aval.ndim)
        dtype: Any = first.dtype if self.result is None else self.result(first.dtype, **params)
        weak = False not in [aval.weak_type for aval in avals]
        return ShapedArray(first.shape, dtype, weak)

    def bind(self, *args: Array, **params: object) -> Any:
        """Apply the primitive as libraries do: as lax's functions, an axis of size 1 goes with any
        size."""
        return self.call(*(stretched(*args) or args), **params)[0]

    shard = partition.aligned

    def lower(self, ctx: Context, *xs: Value, **params: object) -> Any:
        (aval,) = ctx.avals_out
        if len(xs) > 1:
            shape = aval.shape
            if xs[0].shape != shape or xs[-1].shape != shape or len(xs) > 2:
                xs = tuple([x if x.shape == shape else _lower_broadcast(ctx, x, shape) for x in xs])
        if isinstance(self.lowering, str):
            return (ctx.op1(self.lowering, xs, aval),)
        return (self.lowering(ctx, *xs, **params),)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Values, **params: object) -> Any:
        outs = self.call(*primals, **params)
        (y,) = outs
        rules = self.tangents
        total: Any = None
        for i, t in enumerate(tangents):
            if type(t) is Zero:
                continue
            if rules is None:
                self.missing("Differentiation rule", "jvp", *primals)
            rule = rules[i]
            term = None if rule is None else rule(t, y, *primals, **params)
            if term is not None:
                if len(primals) > 1:
                    term = _broadcast_to(term, typeof(y).shape)
                total = term if total is None else array_ops.add_cotangents(total, term)
        return outs, (typeof(y).zero if total is None else total,)

    def transpose(self, cts: Values, *args: ArrayLike | Undefined, **params: object) -> Any:
        (ct,) = cts
        out: list[Any] = []
        for i, x in enumerate(args):
            if type(x) is not Undefined:
                out.append(None)
                continue
            rule = self.transposes[i] if self.transposes is not None else None
            if rule is None:
                return super().transpose(cts, *args, **params)  # which raises
            found = rule(ct, *args, **params)
            out.append(
                found
                if typeof(found).shape == x.aval.shape
                else _structure.reduce_sum(found, range(typeof(found).ndim))
            )  # a scalar was broadcast, so its cotangent is summed
        return tuple(out)

    def batch(self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: object) -> Any:
        return batch_elementwise(self, axis, args, dims, params)

    padded = dialects.through


def _lower_broadcast(ctx: Context, x: Value, shape: Sequence[Size]) -> Any:
    """A scalar in a shape; written once a block, since the same constants come again and again."""
    found = ctx.constants.get((x.name, shape))
    if found is None:
        found = ctx.constants[x.name, shape] = hlo.broadcast_in_dim(ctx, x, shape, ())
    return found


def _broadcast_to(x: object, shape: Sequence[Size]) -> Any:
    """A scalar, or an array of the shape, in the shape."""
    return (
        x if type(x) is Zero or typeof(x).shape == shape else _structure.broadcast_to(x, shape, ())
    )


def batch_elementwise(
    primitive: Primitive, axis: Any, args: Sequence[object], dims: Dims, params: Params
) -> Any:
    """Batch an elementwise primitive: bring all operands to one batched shape; unbatched scalars
    stay scalars."""
    first = dims[0]
    if len(args) == 1:
        return primitive.call(*args, **params), dims
    shapes = [typeof(x).shape for x in args]
    if any(d != first for d in dims) or any(len(shape) != len(shapes[0]) for shape in shapes):
        ranks = [len(shape) - (d is not None) for shape, d in zip(shapes, dims, strict=True)]
        rank = max(ranks)
        at = ranks.index(rank)
        batched = list(shapes[at])
        dim = dims[at]
        if dim is not None:
            del batched[dim]
        first = next(
            (d for d, r in zip(dims, ranks, strict=True) if r == rank and d is not None), 0
        )
        batched.insert(first, axis.size)
        args = [
            x
            if d is None and not r
            else array_ops.to_axis(x, d, axis.size, first)
            if r == rank
            else _structure.broadcast_to(x, batched, (first,))
            for x, d, r in zip(args, dims, ranks, strict=True)
        ]
    return primitive.call(*args, **params), (first,)


_PYTHON_SCALARS = frozenset({int, float, complex})


def operands(*xs: Any) -> tuple[Any, ...]:
    """The operands of an elementwise function of lax: a Python scalar takes the dtype of the
    arrays, within its kind.

    lax.add(x, 1.0) adds to floats of any width, as in rules that hold for all of them; a scalar of
    another kind is left as it is, for the primitive to refuse.
    """
    # Plain loops: this runs for every operation with a number (benchmarks/).
    dtype, has_scalars = None, False
    for x in xs:
        if type(x) in _PYTHON_SCALARS:
            has_scalars = True
        elif dtype is None:
            dtype = typeof(x).dtype
    if dtype is None or not has_scalars:
        return xs
    return tuple([_scalar_as(x, dtype) if type(x) in _PYTHON_SCALARS else x for x in xs])


def _scalar_as(x: ArrayLike, dtype: DTypeLike) -> Any:
    """A Python scalar as a scalar of the dtype if that is of its kind, else unchanged."""
    own = typeof(x).dtype
    if own == dtype:
        return x
    kinds: tuple[Any, ...] = (np.integer, np.floating, np.complexfloating)
    same_kind = any(dtypes.issubdtype(own, k) and dtypes.issubdtype(dtype, k) for k in kinds)
    return _structure.number(x, dtype) if same_kind else x


_PYTHON_KINDS: dict[str, Any] = {"i": int, "f": float, "c": complex}


def scalar_like(x: object, value: ArrayLike) -> Any:
    """A number as a scalar of x's dtype, for rules: it goes with x of any shape, and leaves a weak
    type weak."""
    dtype = typeof(x).dtype
    kind = _PYTHON_KINDS.get(dtype.kind)
    if kind is not None and typeof(kind()).dtype == dtype:
        return kind(value)
    return _structure.number(value, dtype)


Function = Callable[..., Any]


def unary(
    name: str,
    accepts: Accepts,
    lower: str | Function,
    tangent: Function | None,
    tested: Checked,
    doc: str,
    *,
    public: str = "",
    numpy: str = "",
    accuracy: bool = False,
    transpose: Function | None = None,
    result: Function | None = None,
    simplify: object = None,
    fold: object = None,
    cost: Cost | None = None,
    by_parts: Function | None = None,
    complex_cost: Cost | None = None,
    by_series: Function | None = None,
    series_of: Sequence[str] = FLOATS,
) -> tuple[Elementwise, Unary]:
    """A row for an operation of one operand: its primitive, and its public function (`public`, or
    the same name).

    numpy: the name of NumPy's function of this meaning. If no module of jnp states it, jnp's is
    made of the row.
    by_parts: the lowering for complex operands, where it is another one, and complex_cost: what it
    costs.
    by_series: that by a series, and series_of: for which dtypes targets may ask for it.
    """
    lower = _with_accuracy(lower) if accuracy else lower
    if by_series is not None:
        lower = or_series(lower, by_series)
    public = public or name
    primitive = Elementwise(
        name,
        accepts,
        lower if by_parts is None else _by_kind(lower, by_parts),
        (tangent,),
        tested,
        transposes=(transpose,),
        result=result,
        simplify=simplify,
        fold=fold,
        cost=cost,
        complex_cost=complex_cost or (EXPENSIVE if by_parts else None),
        public=public,
        numpy=numpy,
        series=series_of if by_series is not None else (),
    )
    bind = primitive.call
    function: Function
    if accuracy:

        def accurate(x: ArrayLike, *, accuracy: object = None) -> Array:
            try:
                return bind(x)[0] if accuracy is None else bind(x, accuracy=accuracy)[0]
            except TypeError:
                check_arrays(public, x)
                raise

        function = accurate
    else:

        def plain(x: ArrayLike) -> Array:
            try:
                return bind(x)[0]
            except TypeError:
                check_arrays(public, x)
                raise

        function = plain
    return primitive, published(function, public, describe(doc, primitive, "x"))


def binary(
    name: str,
    accepts: Accepts,
    lower: str | Function,
    tangents: Sequence[Function | None] | None,
    tested: Checked,
    doc: str,
    *,
    public: str = "",
    numpy: str = "",
    names: tuple[str, str] = ("x", "y"),
    transposes: Sequence[Function | None] | None = None,
    result: Function | None = None,
    simplify: object = None,
    fold: object = None,
    cost: Cost | None = None,
    product: bool = False,
) -> tuple[Elementwise, Binary]:
    """A row for an operation of two operands."""
    public = public or name
    primitive = Elementwise(
        name,
        accepts,
        lower,
        tangents,
        tested,
        transposes=transposes,
        result=result,
        simplify=simplify,
        fold=fold,
        cost=cost,
        product=product,
        public=public,
        numpy=numpy,
    )
    bind = primitive.call

    def function(x: ArrayLike, y: ArrayLike) -> Array:
        try:
            if type(x) in _PYTHON_SCALARS or type(y) in _PYTHON_SCALARS:
                x, y = operands(x, y)
            return bind(x, y)[0]
        except TypeError:
            check_arrays(public, x, y)
            spread = stretched(x, y)
            if spread is None:
                raise
        return bind(*spread)[0]

    return primitive, published(function, public, describe(doc, primitive, *names), names)


def stretched(*xs: Any) -> tuple[Any, ...] | None:
    """Arrays of one rank in one shape, where they differ only by axes of size 1; None where that is
    not so."""
    shapes = [typeof(x).shape for x in xs]
    if all(shape == shapes[0] for shape in shapes) or len({len(shape) for shape in shapes}) > 1:
        return None
    sizes = [[size for size in axis if size != 1] for axis in zip(*shapes, strict=True)]
    if any(size != found[0] for found in sizes for size in found):
        return None
    shape = tuple(found[0] if found else 1 for found in sizes)
    return tuple(_structure.broadcast_to(x, shape, range(len(shape))) for x in xs)


def check_arrays(name: str, *xs: object) -> None:
    """Raise TypeError if an argument of the function `name` is not an array."""
    for i, x in enumerate(xs):
        if not is_valid_type(x):
            raise TypeError(
                f"Error interpreting argument to {name} as a JAX value. The problematic value is "
                f"of type {type(x)} and was passed to {name} at position {i}.\n"
                f"    value: {x!r:.200}\n  Array arguments are arrays, NumPy arrays and scalars, "
                "and Python numbers; jnp.asarray(...) converts sequences and arrays of other "
                "libraries."
            ) from None


def describe(doc: str, primitive: Elementwise, *names: str) -> str:
    """The docstring of an elementwise function: its meaning, its types, and its errors."""
    listed = ", ".join(names)
    result = "T[shape]"
    if primitive.result is not None:
        operand = np.dtype(
            np.complex64 if np.dtype(np.complex64) in primitive.accepts else np.float32
        )
        result = {"b": "bool", "f": "real", "c": "complex"}[
            primitive.result(operand).kind
        ] + "[shape]"
    same = (
        ""
        if len(names) == 1
        else "; a scalar goes with any shape, and an axis of size 1 with any size"
    )
    raises = (
        f"Raises TypeError if {listed} {'is' if len(names) == 1 else 'are'} of another dtype"
        + ("." if len(names) == 1 else ", of different dtypes, or of different shapes.")
    )
    return (
        f"{doc}\n\n    {listed}: T[shape], T in {primitive.accepts}  ->  {result}{same}\n"
        f"    {raises}"
    )


def published(function: Function, name: str, doc: str, names: Sequence[str] = ()) -> Any:
    """Give a generated function its public name and docstring, and its parameters their names."""
    if names and tuple(names) != ("x", "y"):
        function = _renamed(function, names)
    function.__name__ = function.__qualname__ = name
    function.__module__ = "teucer.lax"
    function.__doc__ = doc
    return function


def _renamed(function: Function, names: Sequence[str]) -> Function:
    """The function with its parameters called `names`."""
    signature = Signature([Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in names])

    def renamed(*args: ArrayLike, **kwargs: object) -> Array:
        return (
            function(*signature.bind(*args, **kwargs).args)
            if kwargs or len(args) != len(names)
            else function(*args)
        )

    renamed.__signature__ = signature  # type: ignore[attr-defined]
    return renamed


def _by_kind(lower: str | Function, by_parts: Function) -> Function:
    """A lowering that complex operands have apart."""
    real = _with_accuracy(lower) if isinstance(lower, str) else lower

    def chosen(ctx: Context, x: Value, **params: Any) -> Any:
        if x.dtype.kind != "c":
            return real(ctx, x, **params)
        if params.get("accuracy") is not None:
            accuracy_text(params["accuracy"])  # checked only, as below
        return by_parts(ctx, x)

    return chosen


def or_series(lower: str | Function, by_series: Function) -> Function:
    """A lowering that the parameter `series` chooses among two."""
    plain = _with_accuracy(lower) if isinstance(lower, str) else lower

    def chosen(ctx: Context, x: Value, *, series: bool = False, **params: object) -> Any:
        return by_series(ctx, x) if series else plain(ctx, x, **params)

    return chosen


def _with_accuracy(lower: str | Function) -> Function:
    """A lowering with the attribute that asks for an accuracy."""
    if not isinstance(lower, str):

        def computed(ctx: Context, x: Value, accuracy: Any = None) -> Any:
            if accuracy is not None:
                accuracy_text(
                    accuracy
                )  # checked only: these have no operation that could be more accurate
            return lower(ctx, x)

        return computed
    name = lower if "." in lower else f"stablehlo.{lower}"

    def write(ctx: Context, x: Value, accuracy: Any = None) -> Any:
        (aval,) = ctx.avals_out
        return ctx.op1(
            name,
            (x,),
            aval,
            "" if accuracy is None else f"result_accuracy = {accuracy_text(accuracy)}",
        )

    return write


@final
class AccuracyMode(Enum):
    """How accurate an elementwise operation is to be: as the platform has it, or the best that it
    has."""

    HIGHEST = 1
    DEFAULT = 2


@final
@dataclass(frozen=True)
class Tolerance:
    """The error that an elementwise operation may have: absolute, relative, or in units in the last
    place.

    Raises ValueError if one is negative, or none is given.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        if self.atol < 0.0 or self.rtol < 0.0 or self.ulps < 0:
            raise ValueError(
                f"Tolerances must be non-negative.\n    atol: {self.atol}, rtol: {self.rtol}, "
                f"ulps: {self.ulps}"
            )
        if not (self.atol or self.rtol or self.ulps):
            raise ValueError("At least one of atol, rtol, or ulps must be set.")


def accuracy_text(accuracy: AccuracyMode | Tolerance) -> str:
    """The attribute of an operation that says how accurate it is to be."""
    if isinstance(accuracy, AccuracyMode):
        return (
            f"#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<{accuracy.name}>>"
        )
    if isinstance(accuracy, Tolerance):
        return (
            f"#stablehlo.result_accuracy<atol = {float(accuracy.atol):e}, rtol = "
            f"{float(accuracy.rtol):e}, ulps = {int(accuracy.ulps)}, mode = "
            "#stablehlo.result_accuracy_mode<TOLERANCE>>"
        )
    raise TypeError(f"accuracy must be a lax.AccuracyMode or a lax.Tolerance, got {accuracy!r}.")
