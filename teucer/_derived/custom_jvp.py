"""Functions with a forward-mode rule of their own: `custom_jvp`; and what custom rules share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, final

from teucer._base import tracebacks
from teucer._core.calls import as_indices, as_names, check_callable, flatten_call, flatten_results, fun_name
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import DebugInfo, stage_flat
from teucer._core.trace import typeof
from teucer._core.types import Zero, float0
from teucer._transform import arith
from teucer._transform.batch import batch_flat, mapped_aval, unmapped_aval
from teucer._transform.jit_calls import hoist_consts
from teucer._trees import pytrees

__all__ = ["CustomCall", "CustomJVPCall", "OutDims", "SymbolicZero", "batched", "batched_aval", "closed_over", "custom_jvp",
           "custom_jvp_call_p", "nondiff_positions", "resolve_kwargs", "to_jaxpr", "unbatched_zero"]


class SymbolicZero:
    """In a custom rule with symbolic_zeros=True: a tangent or cotangent known to be zero, with its shape and dtype."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

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


def to_jaxpr(call: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any]]:
    """A function of flat values as a jaxpr whose constants are its first inputs, with their values."""
    if isinstance(call, ClosedJaxpr):
        return call, []
    jaxpr, consts = stage_flat(call, [typeof(x) for x in args], call.info if hasattr(call, "info") else None)
    return hoist_consts(jaxpr), consts


class CustomCall(Primitive):
    """A call of `call_jaxpr` (a function of flat values, or a closed jaxpr once staged) that has a derivative of its own."""

    __slots__ = ()
    higher_order = True

    def types(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return tuple(call_jaxpr.out_avals)

    def effects(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return call_jaxpr.effects

    def evaluate(self, *args: Any, call_jaxpr: Any, **params: Any) -> Any:
        return tuple(call_jaxpr(*args))

    def lower(self, ctx: Any, *values: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return ctx.inline(call_jaxpr, *values)

    def inlined(self, operands: Any, params: Any) -> Any:
        return params["call_jaxpr"], operands

    def uses_axis(self, name: Any, params: Any) -> bool:
        # What a Python function does, and the rule is one, is not known before it runs.
        return name is not None

    def padded(self, sizes: Any, args: Any, avals: Any, outs: Any, *, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        # Derivatives have been taken, so that only the function itself is left.
        return sizes.evaluate(call_jaxpr, args)


@final
class CustomJVPCall(CustomCall):
    """Calls `call_jaxpr`; differentiated by `jvp`.

    jvp: a function of (*primals, *tangents) that returns (*outs, *out_tangents); Zeros are given if symbolic_zeros.
    """

    __slots__ = ()
    name = "custom_jvp_call"

    def stage(self, trace: Any, args: Any, params: Any) -> Any:
        call = params["call_jaxpr"]
        closed, consts = to_jaxpr(call, args)
        rule = params["jvp"]
        n = params["num_consts"]
        if consts:
            rule = _ignoring_consts(rule, n, len(consts), len(args))
        return trace.record(self, (*consts, *args), {**params, "call_jaxpr": closed, "jvp": rule,
                                                    "num_consts": n + len(consts)})

    def jvp(self, primals: Any, tangents: Any, *, call_jaxpr: Any, jvp: Any, num_consts: int, symbolic_zeros: bool,
            **params: Any) -> Any:
        given = list(tangents) if symbolic_zeros else [arith.instantiate(t) for t in tangents]
        if any(type(t) is not Zero for t in tangents[:num_consts]):
            raise closed_over("custom_jvp", params["name"])
        outs = jvp(*primals, *given)
        n = len(outs) // 2
        return tuple(outs[:n]), tuple(_clean(t, y) for y, t in zip(outs[:n], outs[n:], strict=True))

    def batch(self, axis: Any, args: Any, dims: Any, *, call_jaxpr: Any, jvp: Any, **params: Any) -> Any:
        out_dims = OutDims(dims)
        call = batched(call_jaxpr, axis, dims, out_dims)
        rule = batched(jvp, axis, (*dims, *dims), out_dims, parts=2)
        outs = self.bind(*args, call_jaxpr=call, jvp=rule, **params)
        return outs, tuple(out_dims.dims)


def _clean(t: Any, y: Any) -> Any:
    """An output tangent: Zero for float0 ones, which carry nothing."""
    return typeof(y).zero if type(t) is Zero or typeof(t).dtype == float0 else t


def _ignoring_consts(rule: Callable[..., Any], old: int, new: int, n_args: int) -> Callable[..., Any]:
    """A jvp rule for a call with `new` more leading operands, that it does not look at."""
    @functools.wraps(rule)
    def wrapped(*values: Any) -> Any:
        return rule(*values[new:new + n_args], *values[2 * new + n_args:])
    return wrapped


class OutDims:
    """The batch dimensions of the results of a custom function: those that all of its parts, which run at different times, keep.

    All results are batched if an operand is; else those that the first part to run makes depend on the named axis.
    """

    __slots__ = ("all", "dims")

    def __init__(self, in_dims: Sequence[int | None]) -> None:
        self.all = any(d is not None for d in in_dims)
        self.dims: list[int | None] = []

    def kept(self, outs: Sequence[Any], found: Sequence[int | None], axis: Any, parts: int = 1) -> list[Any]:
        """Results with the batch dimensions found, in front where they are kept; `parts` lists of results one after another."""
        n = len(found) // parts
        if not self.dims:
            self.dims = [0 if self.all or any(d is not None for d in found[i::n]) else None for i in range(n)]
        return [_kept(y, d, wanted, axis) for y, d, wanted in zip(outs, found, self.dims * parts, strict=True)]


def _kept(y: Any, dim: int | None, wanted: int | None, axis: Any) -> Any:
    if wanted is None:
        if dim is not None:
            raise ValueError(f"vmap: a custom derivative rule gives a result that differs along the axis {axis.name}, where that "
                             f"of the function itself does not.\n    result: {typeof(y).str_short(short_dtypes=True)}, axis {dim} "
                             f"is {axis.name}\n  Map over an argument of the function.")
        return y
    return Zero(batched_aval(y.aval, axis)) if type(y) is Zero else arith.to_axis(y, dim, axis.size, 0)


def batched(f: Any, axis: Any, dims: Sequence[Any], out_dims: OutDims, parts: int = 1) -> Callable[..., Any]:
    """A function of flat values on batches, whose results are batched as out_dims says."""
    def on_batch(*args: Any) -> list[Any]:
        live = [None if type(x) is Zero else d for x, d in zip(args, dims, strict=True)]
        given = [unbatched_zero(x, d) for x, d in zip(args, dims, strict=True)]
        return out_dims.kept(*batch_flat(f, axis, given, live), axis, parts)

    on_batch.__name__ = getattr(f, "__name__", "custom")
    return on_batch


def unbatched_zero(x: Any, dim: int | None) -> Any:
    if type(x) is not Zero or dim is None:
        return x
    return Zero(mapped_aval(x.aval, dim))


def batched_aval(aval: Any, axis: Any) -> Any:
    return unmapped_aval(aval, 0, axis.size)


def closed_over(kind: str, name: str) -> Exception:
    return TypeError(f"{kind} function {name}: a value being differentiated is closed over by the function, whose rule cannot "
                     "see it.\n  Detected differentiation of a custom rule with respect to a closed-over value: pass the value "
                     "as an argument, or use jax.closure_convert.")


custom_jvp_call_p = CustomJVPCall()


class custom_jvp:
    """A function with its own forward-mode rule, from which its reverse mode follows too.

    fun: the function. nondiff_argnums, nondiff_argnames: arguments that are Python values, which the rule gets first.
    Give the rule with `defjvp` or `defjvps`. Differentiating without a rule raises AttributeError.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 2. * tangents[0]
    >>> jax.grad(f)(1.)
    Array(2., dtype=float32, weak_type=True)
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (),
                 nondiff_argnames: Sequence[str] = ()) -> None:
        check_callable(fun, "custom_jvp")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = as_indices(nondiff_argnums, "nondiff_argnums", "custom_jvp")
        self.nondiff_argnames = as_names(nondiff_argnames, "nondiff_argnames", "custom_jvp")
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule: jvp(*nondiff_args, primals, tangents) -> (output, output tangent).

        symbolic_zeros: tangents known to be zero are given as SymbolicZero objects instead of arrays of zeros.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule for each argument: jvp(tangent, output, *primals) -> its part of the output tangent; None for zero."""
        if self.nondiff_argnums or self.nondiff_argnames:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``: give one rule with ``defjvp``.")

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            zeros = pytrees.tree_map(lambda y: arith.instantiate(typeof(y).zero), out)
            parts = [rule(t, out, *primals) for rule, t in zip(jvps, tangents, strict=True) if rule is not None]
            return out, functools.reduce(lambda a, b: pytrees.tree_map(arith.add_cotangents, a, b), parts, zeros)

        self.defjvp(jvp)

    @tracebacks.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = fun_name(self.fun)
        jvp = self.jvp
        if jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
        args = resolve_kwargs(self.fun, args, kwargs)
        fixed = nondiff_positions(self, args)
        call = flatten_call(args, {}, fixed)
        out_tree: list[Any] = []
        info = DebugInfo(self.fun, (), "custom_jvp")

        def flat(*leaves: Any) -> list[Any]:
            outs, tree = flatten_results(call.apply(self.fun, leaves), "custom_jvp", info)
            out_tree[:] = [tree]
            return outs

        flat.info = info  # type: ignore[attr-defined]
        nondiff = [v for _, v in call.statics[0]]
        n = len(call.leaves)

        def rule(*values: Any) -> list[Any]:
            primals, tangents = values[:n], values[n:]
            shown = [_shown_tangent(p, t, self.symbolic_zeros) for p, t in zip(primals, tangents, strict=True)]
            trees = (pytrees.tree_unflatten(call.tree, list(v))[0] for v in (primals, shown))
            result = jvp(*nondiff, *trees)
            outs, out_tangents, tree = _check_jvp_result(result, name, jvp)
            out_tree[:] = [tree]
            return [*outs, *out_tangents]

        rule.__name__ = getattr(self.jvp, "__name__", "jvp")
        outs = custom_jvp_call_p.bind(*call.leaves, call_jaxpr=flat, jvp=rule, name=name, num_consts=0,
                                      symbolic_zeros=self.symbolic_zeros)
        return pytrees.tree_unflatten(out_tree[0], outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _shown_tangent(primal: Any, t: Any, symbolic: bool) -> Any:
    """A tangent as a rule sees it."""
    if type(t) is Zero:
        return SymbolicZero(t.aval) if symbolic else arith.instantiate(t)
    return t


def _check_jvp_result(result: Any, name: str, rule: Any) -> tuple[list[Any], list[Any], Any]:
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(f"Custom JVP rule {fun_name(rule)} for function {name} must produce a pair (list or tuple of length two) "
                        f"representing primal and tangent outputs, but got {result!r:.200}.")
    outs, tree = pytrees.tree_flatten(result[0])
    tangents, tangent_tree = pytrees.tree_flatten(result[1])
    if tree != tangent_tree:
        raise TypeError(f"Custom JVP rule {fun_name(rule)} for function {name} must produce primal and tangent outputs with equal "
                        f"container (pytree) structures, but got {tree} and {tangent_tree} respectively.")
    cleaned = []
    for y, t in zip(outs, tangents, strict=True):
        expected = typeof(y).tangent_aval()
        if isinstance(t, SymbolicZero):
            cleaned.append(Zero(expected))
            continue
        got = typeof(t)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            if got.shape == expected.shape and expected.dtype == float0:
                cleaned.append(Zero(expected))
                continue
            raise TypeError(f"Custom JVP rule {fun_name(rule)} for function {name} must produce primal and tangent outputs with "
                            f"corresponding shapes and dtypes. Expected {expected.str_short()} (tangent type of "
                            f"{typeof(y).str_short()}) but got {got.str_short()}.")
        cleaned.append(t)
    return outs, cleaned, tree


def resolve_kwargs(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments by position, defaults filled in: custom rules take their arguments by position.

    Raises TypeError for arguments that can be passed by name only.
    """
    try:
        signature = inspect.signature(fun)
    except (ValueError, TypeError):
        if kwargs:
            raise TypeError(f"keyword arguments could not be resolved to positions for {fun_name(fun)}.") from None
        return args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError("The following keyword arguments could not be resolved to positions: "
                        f"{', '.join(map(repr, bound.kwargs))}.\n    function: {fun_name(fun)}")
    return bound.args


def nondiff_positions(custom: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """Positions of the arguments that are not differentiated."""
    found = {i % len(args) for i in custom.nondiff_argnums if -len(args) <= i < len(args)}
    if custom.nondiff_argnames:
        names = list(inspect.signature(custom.fun).parameters)
        found |= {names.index(n) for n in custom.nondiff_argnames if n in names}
    return tuple(sorted(found))
