"""Functions with differentiation rules of their own: `custom_jvp`, `custom_vjp`, `custom_gradient`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from teucer._base import dtypes, pytrees, tracebacks
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import DebugInfo, stage_flat
from teucer._core.trace import typeof
from teucer._core.types import Zero, float0
from teucer._transform import arith
from teucer._transform.batch import batch_flat
from teucer._transform.calls import as_indices, as_names, check_callable, flatten_call, flatten_results, fun_name, where
from teucer._transform.jit import hoist_consts, jaxpr_uses_axis

__all__ = ["CustomVJPPrimal", "SymbolicZero", "custom_gradient", "custom_jvp", "custom_jvp_call_p", "custom_vjp",
           "custom_vjp_call_p"]


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


class CustomVJPPrimal:
    """In a forward rule with symbolic_zeros=True: an argument's `value`, and whether it is `perturbed`."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def _info(what: str, fun: Callable[..., Any]) -> DebugInfo:
    return DebugInfo(fun_name(fun), (), (), what, where(fun))


def _to_jaxpr(call: Any, args: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any]]:
    """A function of flat values as a jaxpr whose constants are its first inputs, with their values."""
    if isinstance(call, ClosedJaxpr):
        return call, []
    jaxpr, consts = stage_flat(call, [typeof(x) for x in args], call.info if hasattr(call, "info") else None)
    return hoist_consts(jaxpr), consts


@final
class CustomJVPCall(Primitive):
    """Calls `call_jaxpr` (a function of flat values, or a closed jaxpr once staged); differentiated by `jvp`.

    jvp: a function of (*primals, *tangents) that returns (*outs, *out_tangents); Zeros are given if symbolic_zeros.
    """

    __slots__ = ()
    name = "custom_jvp_call"
    higher_order = True

    def types(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return tuple(call_jaxpr.out_avals)

    def effects(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return call_jaxpr.effects

    def evaluate(self, *args: Any, call_jaxpr: Any, **params: Any) -> Any:
        return tuple(call_jaxpr(*args))

    def stage(self, trace: Any, args: Any, params: Any) -> Any:
        call = params["call_jaxpr"]
        closed, consts = _to_jaxpr(call, args)
        rule = params["jvp"]
        n = params["num_consts"]
        if consts:
            rule = _ignoring_consts(rule, n, len(consts), len(args))
        return trace.record(self, (*args[:0], *consts, *args), {**params, "call_jaxpr": closed, "jvp": rule,
                                                                "num_consts": n + len(consts)})

    def lower(self, ctx: Any, *values: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return ctx.inline(call_jaxpr, *values)

    def jvp(self, primals: Any, tangents: Any, *, call_jaxpr: Any, jvp: Any, num_consts: int, symbolic_zeros: bool,
            **params: Any) -> Any:
        given = list(tangents) if symbolic_zeros else [arith.instantiate(t) for t in tangents]
        if any(type(t) is not Zero for t in tangents[:num_consts]):
            raise _closed_over("custom_jvp", params["name"])
        outs = jvp(*primals, *given)
        n = len(outs) // 2
        return tuple(outs[:n]), tuple(_clean(t, y) for y, t in zip(outs[:n], outs[n:], strict=True))

    def batch(self, axis: Any, args: Any, dims: Any, *, call_jaxpr: Any, jvp: Any, **params: Any) -> Any:
        out_dims: list[Any] = []
        call = _batched(call_jaxpr, axis, dims, out_dims, front=True)
        rule = _batched(jvp, axis, (*dims, *dims), [], front=True)
        outs = self.bind(*args, call_jaxpr=call, jvp=rule, **params)
        return outs, (0,) * len(outs)

    def uses_axis(self, name: Any, params: Any) -> bool:
        return name is not None and isinstance(params["call_jaxpr"], ClosedJaxpr) and jaxpr_uses_axis(
            params["call_jaxpr"].jaxpr, name)


def _clean(t: Any, y: Any) -> Any:
    """An output tangent: Zero for float0 ones, which carry nothing."""
    return typeof(y).zero if type(t) is Zero or typeof(t).dtype == float0 else t


def _ignoring_consts(rule: Callable[..., Any], old: int, new: int, n_args: int) -> Callable[..., Any]:
    """A jvp rule for a call with `new` more leading operands, that it does not look at."""
    @functools.wraps(rule)
    def wrapped(*values: Any) -> Any:
        return rule(*values[new:new + n_args], *values[2 * new + n_args:])
    return wrapped


def _batched(f: Any, axis: Any, dims: Sequence[Any], out_dims: list[Any], *, front: bool) -> Callable[..., Any]:
    """A function of flat values on batches; all its results are batched, in front."""
    def on_batch(*args: Any) -> list[Any]:
        live = [None if type(x) is Zero else d for x, d in zip(args, dims, strict=True)]
        given = [_unbatched_zero(x, d) for x, d in zip(args, dims, strict=True)]
        outs, found = batch_flat(f, axis, given, live)
        return [Zero(_batched_aval(y.aval, axis)) if type(y) is Zero else arith.to_axis(y, d, axis.size, 0)
                for y, d in zip(outs, found, strict=True)]

    on_batch.__name__ = getattr(f, "__name__", "custom")
    return on_batch


def _unbatched_zero(x: Any, dim: int | None) -> Any:
    if type(x) is not Zero or dim is None:
        return x
    shape = x.aval.shape
    return Zero(x.aval.update(shape=(*shape[:dim], *shape[dim + 1:])))


def _batched_aval(aval: Any, axis: Any) -> Any:
    return aval.update(shape=(axis.size, *aval.shape))


def _closed_over(kind: str, name: str) -> Exception:
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
        args = resolve_kwargs(self.fun, args, kwargs)
        fixed = _nondiff_positions(self, args)
        call = flatten_call(args, {}, fixed)
        out_tree: list[Any] = []
        info = _info("custom_jvp", self.fun)

        def flat(*leaves: Any) -> list[Any]:
            outs, tree = flatten_results(call.apply(self.fun, leaves), "custom_jvp", info)
            out_tree[:] = [tree]
            return outs

        flat.info = info  # type: ignore[attr-defined]
        nondiff = [v for _, v in call.statics[0]]
        n = len(call.leaves)

        def rule(*values: Any) -> list[Any]:
            if self.jvp is None:
                raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
            primals, tangents = values[:n], values[n:]
            shown = [_shown_tangent(p, t, self.symbolic_zeros) for p, t in zip(primals, tangents, strict=True)]
            trees = (pytrees.tree_unflatten(call.tree, list(v))[0] for v in (primals, shown))
            result = self.jvp(*nondiff, *trees)
            outs, out_tangents, tree = _check_jvp_result(result, name, self.jvp)
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


def _nondiff_positions(custom: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """Positions of the arguments that are not differentiated."""
    found = {i % len(args) for i in custom.nondiff_argnums if -len(args) <= i < len(args)}
    if custom.nondiff_argnames:
        names = list(inspect.signature(custom.fun).parameters)
        found |= {names.index(n) for n in custom.nondiff_argnames if n in names}
    return tuple(sorted(found))


# --- Reverse mode ---------------------------------------------------------------------------------------------------


@final
class CustomVJPCall(Primitive):
    """Calls `call_jaxpr`; differentiated in reverse by `fwd_jaxpr_thunk` and `bwd`.

    fwd_jaxpr_thunk(*args, moving=...) -> (*outs, *residuals); out_trees gives the number of results after it has run.
    bwd(*residuals, *cts) -> cts of the arguments.
    """

    __slots__ = ()
    name = "custom_vjp_call"
    higher_order = True

    def types(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return tuple(call_jaxpr.out_avals)

    def effects(self, *avals: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return call_jaxpr.effects

    def evaluate(self, *args: Any, call_jaxpr: Any, **params: Any) -> Any:
        return tuple(call_jaxpr(*args))

    def stage(self, trace: Any, args: Any, params: Any) -> Any:
        closed, consts = _to_jaxpr(params["call_jaxpr"], args)
        if consts:
            k, n = len(consts), len(args)
            fwd, bwd = params["fwd_jaxpr_thunk"], params["bwd"]

            def fwd_wider(*values: Any, moving: Any) -> Any:
                return fwd(*values[k:], moving=moving[k:])

            def bwd_wider(*values: Any) -> Any:
                return [None] * k + list(bwd(*values))

            params = {**params, "fwd_jaxpr_thunk": fwd_wider, "bwd": bwd_wider, "num_consts": params["num_consts"] + k}
            del n
        return trace.record(self, (*consts, *args), {**params, "call_jaxpr": closed})

    def lower(self, ctx: Any, *values: Any, call_jaxpr: ClosedJaxpr, **params: Any) -> Any:
        return ctx.inline(call_jaxpr, *values)

    def jvp(self, primals: Any, tangents: Any, *, call_jaxpr: Any, fwd_jaxpr_thunk: Any, bwd: Any, num_consts: int,
            name: str, symbolic_zeros: bool, **params: Any) -> Any:
        moving = tuple(type(t) is not Zero for t in tangents)
        if any(moving[:num_consts]):
            raise _closed_over("custom_vjp", name)
        outs, residuals = fwd_jaxpr_thunk(*primals, moving=moving)
        out_avals = tuple(typeof(y).tangent_aval() for y in outs)
        given = [t for t, m in zip(tangents, moving, strict=True) if m]
        avals = tuple(typeof(p).tangent_aval() for p in primals)
        differentiable = [a.dtype != float0 for a in out_avals]
        found = iter(custom_lin_p.bind(*residuals, *given, num_res=len(residuals), bwd=bwd, moving=moving, in_avals=avals,
                                       out_avals=out_avals, symbolic_zeros=symbolic_zeros, name=name))
        out_tangents = [next(found) for _ in out_avals]
        return tuple(outs), tuple(t if d else typeof(y).zero
                                  for y, t, d in zip(outs, out_tangents, differentiable, strict=True))

    def batch(self, axis: Any, args: Any, dims: Any, *, call_jaxpr: Any, fwd_jaxpr_thunk: Any, bwd: Any, **params: Any) -> Any:
        call = _batched(call_jaxpr, axis, dims, [], front=True)
        residual_dims: list[Any] = []

        def fwd(*values: Any, moving: Any) -> Any:
            sizes: list[int] = []

            def flat(*xs: Any) -> list[Any]:
                outs, residuals = fwd_jaxpr_thunk(*xs, moving=moving)
                sizes.append(len(outs))
                return [*outs, *residuals]

            results, found = batch_flat(flat, axis, values, dims)
            n = sizes[0]
            outs = [arith.to_axis(y, d, axis.size, 0) for y, d in zip(results[:n], found[:n], strict=True)]
            residual_dims[:] = found[n:]
            return outs, results[n:]

        def on_cts(*values: Any) -> Any:
            n_res = len(residual_dims)
            in_dims = [*residual_dims, *(0 for _ in values[n_res:])]
            given = [_unbatched_zero(x, d) for x, d in zip(values, in_dims, strict=True)]
            live = [None if type(x) is Zero else d for x, d in zip(values, in_dims, strict=True)]
            masks: list[Any] = []

            def flat(*xs: Any) -> list[Any]:
                cts = bwd(*xs)
                masks[:] = [ct is not None and type(ct) is not Zero for ct in cts]
                return [ct for ct, m in zip(cts, masks, strict=True) if m]

            results, found = batch_flat(flat, axis, given, live)
            pairs = iter(zip(results, found, strict=True))
            return [_match_dim(*next(pairs), d, axis) if m else None for m, d in zip(masks, dims, strict=True)]

        outs = self.bind(*args, call_jaxpr=call, fwd_jaxpr_thunk=fwd, bwd=on_cts, **params)
        return outs, (0,) * len(outs)


def _match_dim(ct: Any, dim: int | None, wanted: int | None, axis: Any) -> Any:
    """A cotangent with the batch dimension of its argument; summed over the batch for an argument that has none."""
    if wanted is None:
        return ct if dim is None else arith.sum_axis(ct, dim)
    return arith.to_axis(ct, dim, axis.size, wanted)


@final
class CustomLin(Primitive):
    """The linear map of a custom_vjp function: only its transpose is known."""

    __slots__ = ()
    name = "custom_lin"
    higher_order = True

    def types(self, *avals: Any, out_avals: Any, **params: Any) -> Any:
        return out_avals

    def stage(self, trace: Any, args: Any, params: Any) -> Any:
        return trace.record(self, args, params)

    def evaluate(self, *args: Any, name: str, **params: Any) -> Any:
        raise TypeError("can't apply forward-mode differentiation (jvp) to a custom_vjp function.\n"
                        f"    function: {name}\n  Use reverse mode (grad, vjp, jacrev), or give it a custom_jvp rule.")

    def lower(self, ctx: Any, *values: Any, name: str, **params: Any) -> Any:
        raise TypeError("can't apply forward-mode differentiation (jvp) to a custom_vjp function.\n"
                        f"    function: {name}\n  Use reverse mode (grad, vjp, jacrev), or give it a custom_jvp rule.")

    jvp = evaluate  # type: ignore[assignment]

    def transpose(self, cts: Any, *args: Any, num_res: int, bwd: Any, moving: Any, in_avals: Any, out_avals: Any,
                  symbolic_zeros: bool, **params: Any) -> Any:
        residuals = args[:num_res]
        given = list(cts) if symbolic_zeros else [arith.instantiate(ct) for ct in cts]
        in_cts = bwd(*residuals, *given)
        found = [ct for ct, m in zip(in_cts, moving, strict=True) if m]
        return (None,) * num_res + tuple(found)

    def batch(self, axis: Any, args: Any, dims: Any, *, num_res: int, bwd: Any, moving: Any, in_avals: Any, out_avals: Any,
              **params: Any) -> Any:
        res_dims = dims[:num_res]
        tangent_dims = iter(dims[num_res:])
        full_dims = [next(tangent_dims) if m else None for m in moving]

        def on_cts(*values: Any) -> Any:
            in_dims = [*res_dims, *(0 for _ in values[num_res:])]
            given = [_unbatched_zero(x, d) for x, d in zip(values, in_dims, strict=True)]
            live = [None if type(x) is Zero else d for x, d in zip(values, in_dims, strict=True)]
            masks: list[Any] = []

            def flat(*xs: Any) -> list[Any]:
                in_cts = bwd(*xs)
                masks[:] = [ct is not None and type(ct) is not Zero for ct in in_cts]
                return [ct for ct, m in zip(in_cts, masks, strict=True) if m]

            results, found = batch_flat(flat, axis, given, live)
            pairs = iter(zip(results, found, strict=True))
            return [_match_dim(*next(pairs), d, axis) if m else None for m, d in zip(masks, full_dims, strict=True)]

        batched_outs = tuple(_batched_aval(a, axis) for a in out_avals)
        batched_ins = tuple(a if d is None else a.update(shape=(*a.shape[:d], axis.size, *a.shape[d:]))
                            for a, d in zip(in_avals, full_dims, strict=True))
        outs = self.bind(*args, num_res=num_res, bwd=on_cts, moving=moving, in_avals=batched_ins, out_avals=batched_outs,
                         **params)
        return outs, (0,) * len(outs)


custom_vjp_call_p = CustomVJPCall()
custom_lin_p = CustomLin()


class custom_vjp:
    """A function with its own reverse-mode rule.

    fun: the function. nondiff_argnums, nondiff_argnames: arguments that are Python values, which bwd gets first.
    Give the rule with `defvjp(fwd, bwd)`. Forward-mode differentiation raises TypeError.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.custom_vjp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> f.defvjp(lambda x: (f(x), None), lambda res, ct: (3. * ct,))
    >>> jax.grad(f)(1.)
    Array(3., dtype=float32, weak_type=True)
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (),
                 nondiff_argnames: Sequence[str] = ()) -> None:
        check_callable(fun, "custom_vjp")
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = as_indices(nondiff_argnums, "nondiff_argnums", "custom_vjp")
        self.nondiff_argnames = as_names(nondiff_argnames, "nondiff_argnames", "custom_vjp")
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False,
               optimize_remat: bool = False) -> None:
        """Set the rule: fwd(*args) -> (output, residuals); bwd(*nondiff_args, residuals, cotangent) -> tuple of cotangents.

        A cotangent may be None for zero. symbolic_zeros: fwd gets CustomVJPPrimal objects, and cotangents known to be zero
        are SymbolicZero objects.
        """
        self.fwd, self.bwd, self.symbolic_zeros, self.optimize_remat = fwd, bwd, symbolic_zeros, optimize_remat

    @tracebacks.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = fun_name(self.fun)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {name} using defvjp.")
        args = resolve_kwargs(self.fun, args, kwargs)
        call = flatten_call(args, {}, _nondiff_positions(self, args))
        rule = _VJPRule(self, call, name)
        outs = custom_vjp_call_p.bind(*call.leaves, call_jaxpr=rule.call, fwd_jaxpr_thunk=rule.forward, bwd=rule.backward,
                                      num_consts=0, name=name, symbolic_zeros=self.symbolic_zeros)
        return pytrees.tree_unflatten(rule.out_tree, outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


class _VJPRule:
    """A call of a custom_vjp function: its function and rules on flat values."""

    def __init__(self, custom: custom_vjp, call: Any, name: str) -> None:
        self.custom, self.flat_call, self.name = custom, call, name
        self.nondiff = [v for _, v in call.statics[0]]
        self.info = _info("custom_vjp", custom.fun)
        self.out_tree: Any = None
        self.res_tree: Any = None
        self.in_avals: list[Any] = [typeof(x) for x in call.leaves]

    def call(self, *leaves: Any) -> list[Any]:
        outs, self.out_tree = flatten_results(self.flat_call.apply(self.custom.fun, leaves), "custom_vjp", self.info)
        return outs

    def forward(self, *leaves: Any, moving: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        fwd = self.custom.fwd
        shown = ([CustomVJPPrimal(x, m) for x, m in zip(leaves, moving, strict=True)] if self.custom.symbolic_zeros
                 else leaves)
        result = self.flat_call.apply(fwd, shown)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TypeError(f"Custom VJP fwd rule {fun_name(fwd)} for function {self.name} must produce a pair (list or tuple of "  # type: ignore[arg-type]
                            "length two) where the first element represents the primal output (equal to the output of the "
                            f"custom_vjp-decorated function {self.name}) and the second element represents residuals (i.e. values "
                            f"stored from the forward pass for use on the backward pass), but got {result!r:.200}.")
        outs, tree = pytrees.tree_flatten(result[0])
        if self.out_tree is not None and tree != self.out_tree:
            raise TypeError(f"Custom VJP fwd rule {fun_name(fwd)} for function {self.name} must produce a pair (list or tuple of "  # type: ignore[arg-type]
                            "length two) whose first element has the same container (pytree) structure as the output of "
                            f"{self.name}, {self.out_tree}, but got {tree}.")
        self.out_tree = tree
        residuals, self.res_tree = pytrees.tree_flatten(result[1])
        return outs, residuals

    def backward(self, *values: Any) -> list[Any]:
        n = self.res_tree.num_leaves
        residuals = pytrees.tree_unflatten(self.res_tree, values[:n])
        cts = [SymbolicZero(ct.aval) if type(ct) is Zero and self.custom.symbolic_zeros else arith.instantiate(ct)
               for ct in values[n:]]
        bwd = self.custom.bwd
        assert bwd is not None
        result = bwd(*self.nondiff, residuals, pytrees.tree_unflatten(self.out_tree, cts))
        return self._check(result, bwd)

    def _check(self, result: Any, bwd: Any) -> list[Any]:
        tree = self.flat_call.tree
        dummy = pytrees.tree_unflatten(tree, self.in_avals)[0]
        if isinstance(result, list):
            result = tuple(result)
        if not isinstance(result, tuple) or len(result) != len(dummy):
            raise TypeError(f"Custom VJP bwd rule {fun_name(bwd)} for function {self.name} must produce a tuple of length equal to "
                            f"the primal args tuple, {len(dummy)}, but got {result!r:.200}.")
        arg_tree = pytrees.tree_structure(dummy)
        try:
            leaves = pytrees.flatten_axes("bwd", arg_tree, result)
        except ValueError as err:
            raise TypeError(f"Custom VJP bwd rule {fun_name(bwd)} for function {self.name} must produce an output with the same "
                            f"container (pytree) structure as the args tuple of the primal function, {arg_tree}, and in particular "
                            f"must produce a tuple of length {len(dummy)}, but got {pytrees.tree_structure(result)}.") from err
        return [self._check_leaf(ct, aval, bwd) for ct, aval in zip(leaves, self.in_avals, strict=True)]

    def _check_leaf(self, ct: Any, aval: Any, bwd: Any) -> Any:
        expected = aval.cotangent_aval()
        if ct is None or isinstance(ct, SymbolicZero) or type(ct) is Zero or expected.dtype == float0:
            return Zero(expected)
        got = typeof(ct)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            if got.shape == expected.shape and dtypes.issubdtype(got.dtype, np.inexact):
                return arith.convert(ct, expected)
            raise ValueError(f"Custom VJP bwd rule {fun_name(bwd)} for function {self.name} must produce an output with types equal "
                             f"to the primal arguments': expected {expected.str_short()} for an argument of type "
                             f"{aval.str_short()}, but got {got.str_short()}.")
        return ct


def custom_gradient(fun: Callable[..., Any]) -> custom_vjp:
    """A function with its own reverse-mode rule, in one piece: `fun` returns (output, vjp_fun).

    vjp_fun takes a cotangent of the output and returns that of the argument, or a tuple of them for several arguments.

    >>> import teucer as jax
    >>> @jax.custom_gradient
    ... def f(x):
    ...     return x ** 2, lambda ct: ct * x
    >>> jax.grad(f)(3.)
    Array(3., dtype=float32, weak_type=True)
    """
    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)[0]

    custom = custom_vjp(wrapped)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        out, rule = fun(*args, **kwargs)
        ct_avals, ct_tree = pytrees.tree_flatten(pytrees.tree_map(lambda y: typeof(y).cotangent_aval(), out))
        trees: list[Any] = []

        def flat(*cts: Any) -> list[Any]:
            leaves, tree = pytrees.tree_flatten(rule(pytrees.tree_unflatten(ct_tree, cts)))
            trees[:] = [tree]
            return leaves

        jaxpr, consts = stage_flat(flat, ct_avals, _info("custom_gradient", fun))
        return out, _Rule(jaxpr, consts, trees[0], len(args))

    def bwd(rule: _Rule, ct: Any) -> Any:
        leaves = ClosedJaxpr(rule.jaxpr, rule.consts)(*pytrees.tree_leaves(ct))
        result = pytrees.tree_unflatten(rule.tree, leaves)
        return result if isinstance(result, tuple) else (result,)

    custom.defvjp(fwd, bwd)
    return custom


class _Rule:
    """A staged backward function of custom_gradient: a pytree whose leaves are its constants."""

    def __init__(self, jaxpr: Any, consts: list[Any], tree: Any, n_args: int) -> None:
        self.jaxpr, self.consts, self.tree, self.n_args = jaxpr, consts, tree, n_args


pytrees.register_pytree_node(_Rule, lambda r: ((r.consts,), (r.jaxpr, r.tree, r.n_args)),
                             lambda s, c: _Rule(s[0], c[0], s[1], s[2]))
