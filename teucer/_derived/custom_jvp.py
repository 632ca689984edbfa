"""Functions with a forward-mode rule of their own: `custom_jvp`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core.calls import flatten_results, fun_name
from teucer._core.debug_info import DebugInfo
from teucer._core.names import called
from teucer._core.trace import typeof
from teucer._core.types import Zero, float0
from teucer._derived import custom_calls
from teucer._derived.transposing import transposed_program
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.jaxpr import ClosedJaxpr
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, Cotangent, Dims, Params, Tangents, Value

    class CustomJVPCallParams(TypedDict):
        call_jaxpr: ClosedJaxpr
        jvp: Callable[..., Any]
        name: str
        num_consts: int
        symbolic_zeros: bool


@final
class CustomJVPCall(custom_calls.CustomCall):
    """Calls `call_jaxpr`; differentiated by `jvp`.

    jvp: a function of (*primals, *tangents) that returns (*outs, *out_tangents); Zeros are given if
    symbolic_zeros.
    """

    __slots__ = ()
    name = "custom_jvp_call"
    multiple_results = True
    functions = ("call_jaxpr", "jvp")

    def wider(self, k: int, n: int, params: Params) -> dict[str, Any]:
        return {"jvp": _ignoring_consts(params["jvp"], k, n)}

    def jvp(
        self,
        primals: Sequence[Value],
        tangents: Tangents,
        *,
        call_jaxpr: Callable[..., Any],
        jvp: Callable[..., Any],
        num_consts: int,
        symbolic_zeros: bool,
        **params: Any,
    ) -> Any:
        given = list(tangents) if symbolic_zeros else [array_ops.instantiate(t) for t in tangents]
        if any(type(t) is not Zero for t in tangents[:num_consts]):
            raise custom_calls.closed_over("custom_jvp", params["name"])
        outs = jvp(*primals, *given)
        n = len(outs) // 2
        return tuple(outs[:n]), tuple(_clean(t, y) for y, t in zip(outs[:n], outs[n:], strict=True))

    def transpose(
        self, cts: Sequence[Cotangent], *args: Value, **params: Unpack[CustomJVPCallParams]
    ) -> Any:
        """Transpose a linear program that calls the function. Its own derivative plays no part, so
        the function itself is transposed."""
        return transposed_program(params["call_jaxpr"], args, cts)

    def batch(
        self, axis: Axis, args: Sequence[Array], dims: Dims, **params: Unpack[CustomJVPCallParams]
    ) -> Any:
        out_dims = custom_calls.OutDims(dims)
        call = custom_calls.batched(params["call_jaxpr"], axis, dims, out_dims)
        rule = custom_calls.batched(params["jvp"], axis, (*dims, *dims), out_dims, parts=2)
        outs = self.call(*args, **{**params, "call_jaxpr": call, "jvp": rule})
        return outs, tuple(out_dims.dims)


def _clean(t: Value, y: Value) -> Any:
    """An output tangent: Zero for float0 ones, which carry nothing."""
    return typeof(y).zero if type(t) is Zero or not typeof(t).moves else t


def _ignoring_consts(rule: Callable[..., object], n: int, n_args: int) -> Callable[..., Any]:
    """A jvp rule for a call with n more leading operands, that it does not look at."""

    @functools.wraps(rule)
    def wrapped(*values: Value) -> Any:
        return rule(*values[n : n + n_args], *values[2 * n + n_args :])

    return wrapped


custom_jvp_call_p = CustomJVPCall()


class custom_jvp(custom_calls.CustomFunction):
    """A function with its own forward-mode rule, from which its reverse mode follows too.

    fun: the function. nondiff_argnums, nondiff_argnames: arguments that are Python values, which
    the rule gets first. Give the rule with `defjvp` or `defjvps`. Differentiating without a rule
    raises AttributeError.

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

    def __init__(
        self,
        fun: Callable[..., object],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(
        self, jvp: Callable[..., object], symbolic_zeros: bool = False
    ) -> Callable[..., Any]:
        """Set the rule: jvp(*nondiff_args, primals, tangents) -> (output, output tangent).

        symbolic_zeros: tangents known to be zero are given as SymbolicZero objects instead of
        arrays of zeros.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., object] | None) -> None:
        """Set a rule for each argument: jvp(tangent, output, *primals) -> its part of the output
        tangent; None for zero."""
        if self.nondiff_argnums or self.nondiff_argnames:
            raise TypeError(
                "Can't use ``defjvps`` with ``nondiff_argnums``: give one rule with ``defjvp``."
            )

        def jvp(primals: Sequence[Value], tangents: Tangents) -> Any:
            out = self(*primals)
            zeros = pytrees.tree_map(lambda y: array_ops.instantiate(typeof(y).zero), out)
            parts = [
                rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=True)
                if rule is not None
            ]
            return out, functools.reduce(
                lambda a, b: pytrees.tree_map(array_ops.add_cotangents, a, b), parts, zeros
            )

        self.defjvp(jvp)

    @tracebacks.api_boundary
    def __call__(self, *args: Value, **kwargs: object) -> Any:
        name = fun_name(self.fun)
        jvp = self.jvp
        if jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {name} using defjvp.")
        call = self.flatten_call(args, kwargs)
        leaves, call = (
            call.leaves,
            call.form(),
        )  # the equation keeps the rule, but not the arguments
        out_tree: list[Any] = []
        seen = custom_calls.OutTypes()
        info = DebugInfo(self.fun, (), "custom_jvp")

        def flat(*leaves: Value) -> list[Any]:
            outs, tree = flatten_results(call.apply(self.fun, leaves), "custom_jvp", info)
            out_tree[:] = [tree]
            seen.saw(tree, outs)
            return outs

        flat.info = info  # type: ignore[attr-defined]
        nondiff = [v for _, v in call.statics[0]]
        n = len(leaves)

        def rule(*values: Value) -> list[Any]:
            primals, tangents = values[:n], values[n:]
            shown = [
                _shown_tangent(p, t, self.symbolic_zeros)
                for p, t in zip(primals, tangents, strict=True)
            ]
            trees = (pytrees.tree_unflatten(call.tree, list(v))[0] for v in (primals, shown))
            result = called(jvp, *nondiff, *trees)
            outs, out_tangents, tree = _check_jvp_result(result, name, jvp, seen)
            out_tree[:] = [tree]
            return [*outs, *out_tangents]

        rule.__name__ = getattr(self.jvp, "__name__", "jvp")
        outs = custom_jvp_call_p.call(
            *leaves,
            call_jaxpr=flat,
            jvp=rule,
            name=name,
            num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
        )
        return pytrees.tree_unflatten(out_tree[0], outs)


def _shown_tangent(primal: object, t: Value, symbolic: bool) -> Any:
    """A tangent as a rule sees it."""
    if type(t) is Zero:
        return custom_calls.SymbolicZero(t.aval) if symbolic else array_ops.instantiate(t)
    return t


def _check_jvp_result(
    result: object, name: str, rule: Callable[..., object], seen: custom_calls.OutTypes
) -> tuple[list[Any], list[Any], Any]:
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(
            f"Custom JVP rule {fun_name(rule)} for function {name} must produce a pair (list or "
            "tuple of length two) representing primal and tangent outputs, but got "
            f"{result!r:.200}."
        )
    outs, tree = pytrees.tree_flatten(result[0])
    tangents, tangent_tree = pytrees.tree_flatten(result[1])
    other_tree = seen.tree is not None and tree != seen.tree
    same = (
        "of the same container/pytree structure"
        if other_tree
        else "with leaves of the same shape/dtype"
    )
    seen.check(
        tree,
        outs,
        f"Custom JVP rule {fun_name(rule)} for function {name} must produce a pair (list or tuple "
        "of length two) where the first element represents the primal output (equal in value to "
        f"the output of the custom_jvp-decorated function {name}, and in particular {same}), but "
        "instead the JVP rule output's first element",
        f"custom_jvp-decorated function {name}",
    )
    if tree != tangent_tree:
        raise TypeError(
            f"Custom JVP rule {fun_name(rule)} for function {name} must produce primal and "
            f"tangent outputs with equal container (pytree) structures, but got {tree} and "
            f"{tangent_tree} respectively."
        )
    cleaned = []
    for y, t in zip(outs, tangents, strict=True):
        expected = typeof(y).tangent_aval()
        if isinstance(t, custom_calls.SymbolicZero):
            cleaned.append(Zero(expected))
            continue
        got = typeof(t)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            if got.shape == expected.shape and expected.dtype == float0:
                cleaned.append(Zero(expected))
                continue
            raise TypeError(
                "Custom JVP rule must produce primal and tangent outputs with corresponding "
                f"shapes and dtypes. Expected {expected.str_short()} (tangent type of "
                f"{typeof(y).str_short()}) but got {got.str_short()}.\n"
                f"    rule: {fun_name(rule)}, for function {name}"
            )
        cleaned.append(t)
    return outs, cleaned, tree
