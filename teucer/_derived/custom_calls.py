"""Functions with rules of their own: how they are called, and their calls as a primitive."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar

from teucer._core import array_ops, calls, dialects, structure
from teucer._core.calls import flatten_call
from teucer._core.high import stated
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.reference_types import at_operands
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._dialects.references.discharge import discharged
from teucer._transform.batch import batch_flat, mapped_aval, unmapped_aval
from teucer._transform.jit_calls import hoist_consts
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.stage import StageTrace
    from teucer._core.types import Aval
    from teucer._core.typing import Avals, Dims, Params, Value, Values
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._xla.pytree import PyTree


RULE_SETTERS = ("def_vmap", "defjvp", "defjvps", "defvjp")


class CustomFunction:
    """A function with a derivative of its own; some of its arguments may be Python values, which
    are not differentiated."""

    __call__: Callable[..., Any]
    # Annotations may say what it returns: custom_jvp[Array].
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    def __init__(
        self,
        fun: Callable[..., object],
        nondiff_argnums: Sequence[int],
        nondiff_argnames: Sequence[str],
    ) -> None:
        kind = type(self).__name__
        calls.check_callable(fun, kind)
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = calls.as_indices(nondiff_argnums, "nondiff_argnums", kind)
        self.nondiff_argnames = calls.as_names(nondiff_argnames, "nondiff_argnames", kind)

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        # A function that has a rule may get another: custom_vjp(custom_vmap(f)).def_vmap gives the
        # rule to the inner function.
        if name in RULE_SETTERS and "fun" in vars(self):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def flatten_call(self, args: tuple[object, ...], kwargs: Params) -> calls.FlatCall:
        """A call with all arguments by position. Those that are not differentiated are static."""
        args = resolve_kwargs(self.fun, args, kwargs, type(self).__name__)
        fixed = {i % len(args) for i in self.nondiff_argnums if -len(args) <= i < len(args)}
        if self.nondiff_argnames:
            names = list(inspect.signature(self.fun).parameters)
            fixed |= {names.index(n) for n in self.nondiff_argnames if n in names}
        return flatten_call(args, {}, tuple(sorted(fixed)))


def resolve_kwargs(
    fun: Callable[..., object], args: tuple[object, ...], kwargs: Params, kind: str
) -> tuple[Any, ...]:
    """All arguments by position, defaults filled in: custom rules take their arguments by position.

    Raises TypeError for arguments that can be passed by name only.
    """
    try:
        signature = inspect.signature(fun)
    except (ValueError, TypeError):
        if kwargs:
            raise TypeError(
                f"keyword arguments could not be resolved to positions for {calls.fun_name(fun)}."
            ) from None
        return args
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as err:
        raise TypeError(
            f"The input arguments to the {kind}-decorated function {calls.fun_name(fun)} could not "
            f"be resolved to positional-only arguments. Binding failed with the error:\n{err}"
        ) from err
    # One that was skipped has its default, so those after it have positions too.
    bound.apply_defaults()
    by_name = [name for name in kwargs if not _has_position(signature, name)]
    if by_name:
        raise TypeError(
            f"The input arguments to the {kind}-decorated function {calls.fun_name(fun)} could not "
            "be resolved to positional-only arguments.\nThe following keyword arguments could not "
            f"be resolved to positions: {', '.join(by_name)}"
        )
    return bound.args


def _has_position(signature: inspect.Signature, name: str) -> bool:
    parameter = signature.parameters.get(name)
    return parameter is not None and parameter.kind is parameter.POSITIONAL_OR_KEYWORD


class OutTypes:
    """The results that a function with a custom rule returned. The results of the rule must have
    their tree and types."""

    __slots__ = ("avals", "tree")

    def __init__(self) -> None:
        self.tree: Any = None
        self.avals: list[Any] = []

    def saw(self, tree: PyTree, outs: Sequence[Value]) -> None:
        """Note what the function returned."""
        self.tree, self.avals = tree, [typeof(y) for y in outs]

    def check(self, tree: PyTree, outs: Sequence[Value], head: str, function: str) -> None:
        """Raise TypeError if a rule returned something else. head: the beginning of the message."""
        if self.tree is None:
            return
        avals = [typeof(y) for y in outs]
        if tree != self.tree:
            raise TypeError(
                f"{head} had container/pytree structure:\n    {_types(tree, avals)}\n"
                f"while the {function} had output container/pytree structure:\n"
                f"    {_types(self.tree, self.avals)}."
            )
        if any(
            (a.shape, a.dtype) != (b.shape, b.dtype)
            for a, b in zip(avals, self.avals, strict=True)
            if isinstance(a, ShapedArray) and isinstance(b, ShapedArray)
        ):
            raise TypeError(
                f"{head} had shapes/dtypes of:\n    {_types(tree, avals)}\n"
                f"while the {function} had output shapes/dtypes of:\n"
                f"    {_types(self.tree, self.avals)}"
            )


def _types(tree: PyTree, avals: Sequence[ShapedArray]) -> str:
    return str(pytrees.tree_unflatten(tree, [_Shown(a.str_short()) for a in avals]))


class _Shown(str):
    """Text that shows as itself within a container."""

    __slots__ = ()
    __repr__ = str.__str__


class SymbolicZero:
    """In a custom rule with symbolic_zeros=True: a tangent or cotangent known to be zero, with its
    shape and dtype."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    @classmethod
    def from_primal_value(cls, val: Value) -> SymbolicZero:
        """The zero among the tangents of `val`."""
        return cls(typeof(val).tangent_aval())

    @property
    def shape(self) -> Any:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def zero_from_primal(val: Value, symbolic_zeros: bool = False) -> Any:
    """Zero tangents for a tree of arrays: arrays of zeros, of dtype float0 for integers, or
    SymbolicZeros.

    >>> zero_from_primal(2.)
    Array(0., dtype=float32, weak_type=True)
    """
    zeros = pytrees.tree_map(SymbolicZero.from_primal_value, val)
    return (
        zeros
        if symbolic_zeros
        else pytrees.tree_map(lambda zero: array_ops.zeros(zero.aval), zeros)
    )


def to_jaxpr(call: Any, args: Sequence[Value]) -> tuple[ClosedJaxpr, list[Any]]:
    """A function of flat values as a jaxpr whose constants are its first inputs, with their
    values."""
    if isinstance(call, ClosedJaxpr):
        return call, []
    jaxpr, consts = stage_flat(
        call, [stated(x) for x in args], call.info if hasattr(call, "info") else None
    )
    return hoist_consts(jaxpr), consts


class Subfunction:
    """One of the functions that a call carries, as interpreters of jaxprs call it:
    `call_wrapped(*values)`."""

    __slots__ = ("__weakref__", "call_wrapped")

    def __init__(self, call: Callable[..., object]) -> None:
        self.call_wrapped = call


def _as_call(
    operands: Sequence[Any], *, call_jaxpr: Any, num_consts: int, **params: object
) -> structure.Call:
    return structure.Call(call_jaxpr, operands, num_consts)


def _as_params(call: structure.Call) -> dict[str, Any]:
    return dict(call_jaxpr=call.body, num_consts=call.consts)


@structure.structured(structure.Call, _as_call, _as_params)
@dialects.keeps_references.mark
class CustomCall(Primitive):
    """A call of `call_jaxpr` (a function of flat values, or a closed jaxpr once staged) that has a
    derivative of its own."""

    __slots__ = ()
    higher_order = True
    # The parameters that are functions.
    functions: ClassVar[tuple[str, ...]] = ("call_jaxpr",)

    def stage(self, trace: StageTrace, args: Sequence[Value], params: Params) -> Any:
        """The values that the function closes over come as the first operands."""
        closed, consts = to_jaxpr(params["call_jaxpr"], args)
        call: Any = structure.of_call(self, params, args)
        call = call._replace(body=closed, consts=call.consts + len(consts))
        if consts:
            params = {**params, **self.wider(len(consts), len(args), params)}
        return trace.record(self, (*consts, *args), structure.params_of(self, params, call))

    def wider(self, k: int, n: int, params: Params) -> dict[str, Any]:
        """The rules among the parameters, changed to take k more operands in front of the n that
        they take."""
        raise NotImplementedError

    def bind(
        self, *args: object, subfuns: Sequence[Subfunction] | None = None, **params: object
    ) -> list[Any]:
        """Apply the primitive. subfuns: its functions as `get_bind_params` gives them."""
        if subfuns is not None:
            params |= zip(self.functions, (f.call_wrapped for f in subfuns), strict=True)
        return list(self.call(*args, **params))

    def get_bind_params(self, params: Params) -> dict[str, Any]:
        """The parameters with which an interpreter of jaxprs calls `bind`: the functions stand in
        `subfuns`."""
        rest = {name: value for name, value in params.items() if name not in self.functions}
        return {**rest, "subfuns": tuple(Subfunction(params[name]) for name in self.functions)}

    def types(self, *avals: ShapedArray, call_jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(call_jaxpr.out_avals)

    def effects(self, *avals: ShapedArray, call_jaxpr: ClosedJaxpr, **params: object) -> Any:
        return at_operands(call_jaxpr.effects, call_jaxpr.jaxpr.invars)

    @dialects.on_values.rule
    def on_values(
        self,
        operands: Sequence[Value],
        groups: Sequence[int | None],
        *,
        call_jaxpr: ClosedJaxpr,
        **params: object,
    ) -> Any:
        # Its derivative has been taken, or no transformation asks for one.
        inner = discharged(call_jaxpr, groups)
        return inner.split(inner.jaxpr(*operands))

    @dialects.on_low.rule
    def on_low(
        self, operands: Values, avals: Avals, *, call_jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        return tuple(call_jaxpr(*operands))

    def evaluate(self, *args: Value, call_jaxpr: Callable[..., Any], **params: object) -> Any:
        return tuple(call_jaxpr(*args))

    def lower(
        self, ctx: Context, *values: Written, call_jaxpr: ClosedJaxpr, **params: object
    ) -> Any:
        return ctx.inline(call_jaxpr, *values)

    def inlined(self, operands: Sequence[Value], params: Params) -> Any:
        return params["call_jaxpr"], operands

    def uses_axis(self, name: object, params: Params) -> bool:
        # A Python function, or a rule, may close over a batch: this is not known before it runs.
        return name is not None or not isinstance(params["call_jaxpr"], ClosedJaxpr)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Any,
        args: Sequence[Value],
        avals: Sequence[ShapedArray],
        outs: Avals,
        *,
        call_jaxpr: ClosedJaxpr,
        **params: object,
    ) -> Any:
        # Derivatives have been taken, so that only the function itself is left.
        return sizes.evaluate(call_jaxpr, args)


class OutDims:
    """The batch dimensions of the results of a custom function. All of its parts, which run at
    different times, must agree.

    All results are batched if an operand is. Else the first part to run decides: its results that
    depend on the named axis are batched.
    """

    __slots__ = ("all", "dims")

    def __init__(self, in_dims: Sequence[int | None]) -> None:
        self.all = any(d is not None for d in in_dims)
        self.dims: list[int | None] = []

    def kept(
        self, outs: Sequence[Value], found: Sequence[int | None], axis: Axis, parts: int = 1
    ) -> list[Any]:
        """Results with the batch dimensions found, in front where they are kept; `parts` lists of
        results one after another."""
        n = len(found) // parts
        if not self.dims:
            self.dims = [
                0 if self.all or any(d is not None for d in found[i::n]) else None for i in range(n)
            ]
        return [
            _kept(y, d, wanted, axis)
            for y, d, wanted in zip(outs, found, self.dims * parts, strict=True)
        ]


def _kept(y: Value, dim: int | None, wanted: int | None, axis: Axis) -> Any:
    if wanted is None:
        if dim is not None:
            raise ValueError(
                "vmap: a custom derivative rule gives a result that differs along the axis "
                f"{axis.name}, where that of the function itself does not.\n"
                f"    result: {typeof(y).str_short(short_dtypes=True)}, axis {dim} is "
                f"{axis.name}\n  Map over an argument of the function."
            )
        return y
    return (
        Zero(batched_aval(y.aval, axis))
        if type(y) is Zero
        else array_ops.to_axis(y, dim, axis.size, 0)
    )


def batched(
    f: Callable[..., Any], axis: Axis, dims: Dims, out_dims: OutDims, parts: int = 1
) -> Callable[..., Any]:
    """A function of flat values on batches, whose results are batched as out_dims says."""

    def on_batch(*args: Value) -> list[Any]:
        live = [None if type(x) is Zero else d for x, d in zip(args, dims, strict=True)]
        given = [unbatched_zero(x, d) for x, d in zip(args, dims, strict=True)]
        return out_dims.kept(*batch_flat(f, axis, given, live), axis, parts)

    on_batch.__name__ = getattr(f, "__name__", "custom")
    return on_batch


def unbatched_zero(x: Value, dim: int | None) -> Any:
    if type(x) is not Zero or dim is None:
        return x
    return Zero(mapped_aval(x.aval, dim))


def batched_aval(aval: Aval, axis: Axis) -> Any:
    return unmapped_aval(aval, 0, axis.size, axis.explicit)


class CustomVJPException(TypeError):
    """A function with a rule of its own is differentiated with respect to a value that its rule
    cannot see."""

    __module__ = "teucer.errors"


def closed_over(kind: str, name: str) -> Exception:
    return CustomVJPException(
        f"{kind} function {name}: a value being differentiated is closed over by the function, "
        f"whose rule cannot see it.\n  Detected differentiation of a {kind} function with respect "
        "to a closed-over value. Pass the value as an argument, or use jax.closure_convert."
    )
