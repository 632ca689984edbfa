"""Functions with a reverse-mode rule of their own: `custom_vjp`, `custom_gradient`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, final

import numpy as np

from teucer._base import config, dtypes, errors, tracebacks
from teucer._core import array_ops, dialects, structure
from teucer._core import reference_types as references
from teucer._core.calls import flatten_results, fun_name, leaf_names
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.names import called
from teucer._core.primitive import Primitive, Undefined
from teucer._core.reference_types import is_reference
from teucer._core.stage import stage_flat
from teucer._core.trace import Tracer, typeof
from teucer._core.types import Zero, is_valid_type
from teucer._derived import remat_rules
from teucer._derived.accumulators import accums_of, accumulated, declared
from teucer._derived.custom_calls import (
    CustomCall,
    CustomFunction,
    OutDims,
    OutTypes,
    SymbolicZero,
    batched,
    batched_aval,
    closed_over,
    unbatched_zero,
)
from teucer._derived.logged import Logged, check_leaves, encoded, marked, pair_of
from teucer._derived.transposing import transposed_rule
from teucer._transform.batch import batch_flat, unmapped_aval
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.jaxpr import Jaxpr
    from teucer._core.primitive import Axis
    from teucer._core.stage import StageTrace
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Aval, Avals, Cotangent, Dims, Params, Tangents, Value
    from teucer._xla.pytree import PyTree

    class CustomVJPCallParams(TypedDict):
        call_jaxpr: ClosedJaxpr
        fwd_jaxpr_thunk: Callable[..., Any]
        bwd: Callable[..., object]
        name: str
        symbolic_zeros: bool

    class CustomLinParams(TypedDict):
        out_avals: Sequence[ShapedArray]
        name: str
        num_res: int
        bwd: Callable[..., Any]
        moving: Sequence[bool]
        in_avals: Avals
        symbolic_zeros: bool
        logs: str | None


class CustomVJPPrimal:
    """In a forward rule with symbolic_zeros=True: an argument's `value`, and whether it is
    `perturbed`."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Value, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def custom_vjp_primal_tree_values(tree: PyTree) -> Any:
    """The tree that a forward rule with symbolic_zeros=True is given, with the values alone.

    Raises TypeError for a leaf that is no CustomVJPPrimal.
    """

    def value(leaf: object) -> Any:
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(
                f"unexpected leaf type {type(leaf)}\n  custom_vjp_primal_tree_values: leaves are "
                "what forward rules with symbolic_zeros=True are given."
            )
        return leaf.value

    return pytrees.tree_map(value, tree)


@final
class CustomVJPCall(CustomCall):
    """Calls `call_jaxpr`; differentiated in reverse by `fwd_jaxpr_thunk` and `bwd`.

    fwd_jaxpr_thunk(*args, moving=...) -> (*outs, *residuals); out_trees gives the number of results
    after it has run. bwd(*residuals, *cts) -> cts of the arguments.
    """

    __slots__ = ()
    name = "custom_vjp_call"
    multiple_results = True
    functions = ("call_jaxpr", "fwd_jaxpr_thunk", "bwd")

    def wider(self, k: int, n: int, params: Params) -> dict[str, Any]:
        fwd, bwd = params["fwd_jaxpr_thunk"], params["bwd"]

        def fwd_wider(*values: Value, moving: Sequence[bool]) -> Any:
            return fwd(*values[k:], moving=moving[k:])

        def bwd_wider(*values: Value) -> Any:
            cts = bwd(*values)
            more = [*[None] * k, *cts]
            return Logged(more, cts.logs) if isinstance(cts, Logged) else more

        marked(bwd_wider, bwd)
        return {"fwd_jaxpr_thunk": fwd_wider, "bwd": bwd_wider}

    def jvp(
        self,
        primals: Sequence[Value],
        tangents: Tangents,
        *,
        num_consts: int,
        **params: Unpack[CustomVJPCallParams],
    ) -> Any:
        name = params["name"]
        moving = tuple(type(t) is not Zero for t in tangents)
        if any(moving[:num_consts]):
            raise closed_over("custom_vjp", name)
        outs, residuals = params["fwd_jaxpr_thunk"](*primals, moving=moving)
        out_avals = tuple(typeof(y).tangent_aval() for y in outs)
        given = [
            array_ops.read_reference(t) if is_reference(typeof(t)) else t
            for t, m in zip(tangents, moving, strict=True)
            if m
        ]
        avals = tuple(_value_aval(typeof(p)).tangent_aval() for p in primals)
        differentiable = [a.moves for a in out_avals]
        found = iter(
            custom_lin_p.call(
                *residuals,
                *given,
                num_res=len(residuals),
                bwd=params["bwd"],
                moving=moving,
                in_avals=avals,
                out_avals=out_avals,
                symbolic_zeros=params["symbolic_zeros"],
                name=name,
            )
        )
        out_tangents = [next(found) for _ in out_avals]
        return tuple(outs), tuple(
            t if d else typeof(y).zero
            for y, t, d in zip(outs, out_tangents, differentiable, strict=True)
        )

    def transpose(
        self, cts: Sequence[Cotangent], *args: Value, **params: Unpack[CustomVJPCallParams]
    ) -> Any:
        """Transpose a linear program that calls the function, as the rules say."""
        moving = tuple(type(x) is Undefined for x in args)

        def rule(*values: Value) -> Any:
            n = len(moving)
            _, residuals = params["fwd_jaxpr_thunk"](*values[:n], moving=moving)
            return params["bwd"](*residuals, *values[n:])

        return transposed_rule(rule, params["call_jaxpr"], args, cts)

    def batch(
        self, axis: Axis, args: Sequence[Array], dims: Dims, **params: Unpack[CustomVJPCallParams]
    ) -> Any:
        out_dims = OutDims(dims)
        call = batched(params["call_jaxpr"], axis, dims, out_dims)
        residual_dims: list[Any] = []

        def fwd(*values: Value, moving: Sequence[bool]) -> Any:
            sizes: list[int] = []

            def flat(*xs: Value) -> list[Any]:
                outs, residuals = params["fwd_jaxpr_thunk"](*xs, moving=moving)
                sizes.append(len(outs))
                return [*outs, *residuals]

            results, found = batch_flat(flat, axis, values, dims)
            n = sizes[0]
            residual_dims[:] = found[n:]
            return out_dims.kept(results[:n], found[:n], axis), results[n:]

        rule = _batched_bwd(params["bwd"], axis, lambda: [*residual_dims, *out_dims.dims], dims)
        outs = self.call(
            *args, **{**params, "call_jaxpr": call, "fwd_jaxpr_thunk": fwd, "bwd": rule}
        )
        return outs, tuple(out_dims.dims)


def _value_aval(aval: Any) -> Any:
    """The type that a cotangent belongs to. For a reference this is the array that it holds when
    the function is called."""
    return aval.inner if is_reference(aval) else aval


def _batched_bwd(
    bwd: Callable[..., Any],
    axis: Axis,
    dims_of: Callable[[], list[int | None]],
    arg_dims: Sequence[int | None],
) -> Callable[..., Any]:
    """The backward rule on batches: (*residuals, *cts), batched as dims_of() says then -> cts
    batched as the arguments are."""

    def on_batch(*values: Value) -> Any:
        in_dims = dims_of()
        given = [unbatched_zero(x, d) for x, d in zip(values, in_dims, strict=True)]
        live = [None if type(x) is Zero else d for x, d in zip(values, in_dims, strict=True)]
        masks: list[bool] = []
        trees: list[Any] = []

        def flat(*xs: Value) -> list[Any]:
            cts = bwd(*xs)
            masks[:] = [ct is not None and type(ct) is not Zero for ct in cts]
            logs, tree = pytrees.tree_flatten(cts.logs if isinstance(cts, Logged) else None)
            trees[:] = [tree]
            return [*(ct for ct, m in zip(cts, masks, strict=True) if m), *logs]

        results, found = batch_flat(flat, axis, given, live)
        pairs = iter(zip(results, found, strict=True))
        cts = [
            _match_dim(*next(pairs), d, axis) if m else None
            for m, d in zip(masks, arg_dims, strict=True)
        ]
        logs = trees[0].unflatten([array_ops.to_axis(x, d, axis.size, 0) for x, d in pairs])
        return cts if logs is None else Logged(cts, logs)

    return marked(on_batch, bwd)


def _match_dim(ct: Cotangent, dim: int | None, wanted: int | None, axis: Axis) -> Any:
    """A cotangent with the batch dimension of its argument; summed over the batch for an argument
    that has none."""
    if wanted is None:
        return ct if dim is None else array_ops.sum_axis(ct, dim)
    return array_ops.to_axis(ct, dim, axis.size, wanted)


@structure.internal
@dialects.keeps_references.mark
@dialects.pulls_zeros.mark
@final
class CustomLin(Primitive):
    """The linear map of a custom_vjp function: only its transpose is known."""

    __slots__ = ()
    name = "custom_lin"
    multiple_results = True
    higher_order = True

    def types(self, *avals: ShapedArray, out_avals: Sequence[ShapedArray], **params: object) -> Any:
        return out_avals

    def stage(self, trace: StageTrace, args: tuple[Value, ...], params: Params) -> Any:
        return trace.record(self, args, params)

    def evaluate(self, *args: Value, **params: Unpack[CustomLinParams]) -> Any:
        name = params["name"]
        raise TypeError(
            "can't apply forward-mode autodiff (jvp) to a custom_vjp function.\n"
            f"    function: {name}\n  Use reverse mode (grad, vjp, jacrev), or give it a "
            "custom_jvp rule."
        )

    # Neither can it be compiled nor differentiated forwards.
    lower = jvp = evaluate  # type: ignore[assignment]

    def transpose(
        self,
        cts: Sequence[Cotangent],
        *args: Value,
        num_res: int,
        bwd: Callable[..., Any],
        moving: Sequence[bool],
        in_avals: Avals,
        out_avals: Avals,
        symbolic_zeros: bool,
        logs: str | None = None,
        **params: object,
    ) -> Any:
        # logs: the function whose rule logs, where the last operands are inputs for that (`logs`).
        residuals = args[:num_res]
        given = list(cts) if symbolic_zeros else [array_ops.instantiate(ct) for ct in cts]
        in_cts = bwd(*residuals, *given)
        found = [ct for ct, m in zip(in_cts, moving, strict=True) if m]
        if logs is not None:
            ran = np.ones((), np.float32)
            found += [ran, *(p for x in pytrees.tree_leaves(in_cts.logs) for p in encoded(x))]
        return (None,) * num_res + tuple(found)

    def batch(
        self, axis: Axis, args: Sequence[Array], dims: Dims, **params: Unpack[CustomLinParams]
    ) -> Any:
        num_res, out_avals = params["num_res"], params["out_avals"]
        res_dims = dims[:num_res]
        tangent_dims = iter(dims[num_res:])
        full_dims = [next(tangent_dims) if m else None for m in params["moving"]]
        batched_outs = tuple(batched_aval(a, axis) for a in out_avals)
        batched_ins = tuple(
            unmapped_aval(a, d, axis.size, axis.explicit)
            for a, d in zip(params["in_avals"], full_dims, strict=True)
        )
        rule = _batched_bwd(
            params["bwd"], axis, lambda: [*res_dims, *[0] * len(out_avals)], full_dims
        )
        outs = self.call(
            *args, **{**params, "bwd": rule, "in_avals": batched_ins, "out_avals": batched_outs}
        )
        return outs, (0,) * len(outs)


custom_vjp_call_p = CustomVJPCall()
custom_lin_p = CustomLin()


class RematRules(NamedTuple):
    """The rule that `custom_vjp.defremat` was given."""

    fwd: Callable[..., Any]
    rem: Callable[..., Any]
    bwd: Callable[..., Any]
    with_logs: bool


class _Rules(NamedTuple):
    """The rule of a call. rem: what `checkpoint` computes again, or None."""

    fwd: Callable[..., Any]
    bwd: Callable[..., Any]
    rem: Callable[..., Any] | None
    symbolic_zeros: bool = False
    with_logs: bool = False
    with_accums: bool = False


class custom_vjp(CustomFunction):
    """A function with its own reverse-mode rule.

    fun: the function. nondiff_argnums, nondiff_argnames: arguments that are Python values, which
    bwd gets first. Give the rule with `defvjp(fwd, bwd)`. Forward-mode differentiation raises
    TypeError.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.custom_vjp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> f.defvjp(lambda x: (f(x), None), lambda res, ct: (3. * ct,))
    >>> jax.grad(f)(1.)
    Array(3., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        fun: Callable[..., object],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.remat_rules: RematRules | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False
        self.generic_batching = False
        self.with_logs = self.with_accums = False

    def defvjp(
        self,
        fwd: Callable[..., object],
        bwd: Callable[..., object],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None:
        """Set the rule: fwd(*args) -> (output, residuals); bwd(*nondiff_args, residuals, cotangent)
        -> tuple of cotangents.

        A cotangent may be None for zero. symbolic_zeros: fwd gets CustomVJPPrimal objects, and
        cotangents known to be zero are SymbolicZero objects. optimize_remat and generic_batching
        change no result.
        """
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros
        self.optimize_remat, self.generic_batching = optimize_remat, generic_batching

    def defvjp_with_logs(
        self,
        fwd: Callable[..., object],
        bwd: Callable[..., object],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None:
        """As `defvjp`, with a rule that logs: bwd returns (cotangents, logs). logs is a dict of
        named pytrees of arrays, or None.

        `jax.vjp(f, x)[1].with_logs(ct)` returns them; otherwise they are not computed when the
        backward pass is compiled. Names must differ within one backward pass.

        >>> import teucer as jax, teucer.numpy as jnp
        >>> @jax.custom_vjp
        ... def f(x):
        ...     return jnp.sin(x)
        >>> f.defvjp_with_logs(lambda x: (f(x), x), lambda x, ct: ((ct * x,), {"ct": ct}))
        >>> jax.vjp(f, 2.)[1].with_logs(jnp.float32(1))[1]
        {'ct': Array(1., dtype=float32)}
        """
        self.defvjp(fwd, bwd, symbolic_zeros, optimize_remat, generic_batching)
        self.with_logs = True

    def defvjp_with_accums(
        self,
        fwd: Callable[..., object],
        bwd: Callable[..., object],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None:
        """As `defvjp`, with a rule that gives cotangents to accumulators: bwd(*nondiff_args,
        residuals, cotangent, *accumulators) returns None, or logs as for `defvjp_with_logs`.

        The accumulators have the tree of the arguments. A NullAccum stands for an argument that is
        not differentiated; other arguments have a ValAccum.

        >>> import teucer as jax, teucer.numpy as jnp
        >>> @jax.custom_vjp
        ... def f(x):
        ...     return jnp.sin(x)
        >>> f.defvjp_with_accums(lambda x: (f(x), x), lambda x, ct, acc: acc.accum(ct * x))
        >>> jax.grad(f)(2.)
        Array(2., dtype=float32, weak_type=True)
        """
        self.defvjp_with_logs(fwd, bwd, symbolic_zeros, optimize_remat, generic_batching)
        self.with_accums = True

    def defremat(
        self,
        fwd: Callable[..., object],
        rem: Callable[..., object],
        bwd: Callable[..., object],
        generic_batching: bool = False,
    ) -> None:
        """Set the rule for `checkpoint`: fwd(*args) -> (output, residuals); rem(residuals, *args)
        -> (output, more residuals); bwd(*nondiff_args, more residuals, cotangent) -> cotangents.

        `checkpoint` saves the residuals of fwd whatever its policy, and runs rem in the backward
        pass. Elsewhere the rule of `defvjp` holds; without one, rem runs behind fwd.
        generic_batching changes no result.

        >>> import teucer as jax, teucer.numpy as jnp
        >>> @jax.custom_vjp
        ... def f(x):
        ...     return jnp.sin(x)
        >>> f.defremat(
        ...     lambda x: (jnp.sin(x), jnp.cos(x)),
        ...     lambda cos, x: (jnp.sin(x), 2. * cos),
        ...     lambda res, ct: (ct * res,))
        >>> jax.grad(jax.checkpoint(f))(0.)
        Array(2., dtype=float32, weak_type=True)
        """
        self.remat_rules = RematRules(fwd, rem, bwd, False)

    def defremat_with_logs(
        self,
        fwd: Callable[..., object],
        rem: Callable[..., object],
        bwd: Callable[..., object],
        generic_batching: bool = False,
    ) -> None:
        """As `defremat`, with a rule that logs: bwd returns (cotangents, logs), as for
        `defvjp_with_logs`."""
        self.remat_rules = RematRules(fwd, rem, bwd, True)

    def rule_in_force(self) -> _Rules:
        """The rule for a call at this place: that of `defremat` while a checkpoint is traced, or
        where it is the only one."""
        found = self.remat_rules
        if found is not None and (self.fwd is None or remat_rules.in_checkpoint()):
            return _Rules(found.fwd, found.bwd, found.rem, with_logs=found.with_logs)
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {fun_name(self.fun)} using defvjp."
            )
        return _Rules(
            self.fwd,
            self.bwd,
            None,
            symbolic_zeros=self.symbolic_zeros,
            with_logs=self.with_logs,
            with_accums=self.with_accums,
        )

    @tracebacks.api_boundary
    def __call__(self, *args: Value, **kwargs: object) -> Any:
        name = fun_name(self.fun)
        rules = self.rule_in_force()
        call = self.flatten_call(args, kwargs)
        if any(
            isinstance(x, Tracer)
            for x in pytrees.tree_leaves([value for _, value in call.statics[0]])
        ):
            raise errors.UnexpectedTracerError(
                "Found a JAX Tracer object passed as an argument to a custom_vjp function in a "
                "position indicated by nondiff_argnums as non-differentiable.\n"
                f"    function: {name}\n  nondiff_argnums is for values of Python, such as "
                "functions. Pass arrays as ordinary arguments, and return None for cotangents "
                "that are not wanted."
            )
        rule = _VJPRule(self.fun, rules, call, name)
        if references.may_alias(call.leaves):
            from teucer._dialects.references.aliases import (
                refuse_aliases,  # for calls with references
            )

            refuse_aliases(
                [typeof(x) for x in call.leaves],
                call.leaves,
                (),
                name,
                "custom_vjp",
                lambda: leaf_names(self.fun, call.tree, [i for i, _ in call.statics[0]]),
            )
        backward = _named(rule.backward, rules.bwd)
        if rules.with_logs:
            backward.logs = name  # type: ignore[attr-defined]
        outs = custom_vjp_call_p.call(
            *call.leaves,
            call_jaxpr=rule.call,
            fwd_jaxpr_thunk=_named(rule.forward, rules.fwd),
            bwd=backward,
            num_consts=0,
            name=name,
            symbolic_zeros=rules.symbolic_zeros,
        )
        return pytrees.tree_unflatten(rule.out_tree, outs)


def _named(method: Callable[..., object], fun: Callable[..., object]) -> Callable[..., Any]:
    """`method` under the name of the user's function, by which jaxprs show it."""

    def rule(*args: object, **kwargs: object) -> Any:
        return method(*args, **kwargs)

    rule.__name__ = fun_name(fun)
    return rule


class _VJPRule:
    """A call of a custom_vjp function: its function and rules on flat values."""

    def __init__(self, fun: Callable[..., object], rules: _Rules, call: Any, name: str) -> None:
        self.fun, self.rules, self.name = fun, rules, name
        self.flat_call = call.form()  # the backward pass keeps the rule, but not the arguments
        self.nondiff = [v for _, v in call.statics[0]]
        self.info = DebugInfo(fun, (), "custom_vjp")
        self.out_tree: Any = None
        self.seen = OutTypes()
        self.res_tree: Any = None
        self.in_avals: list[Any] = [_value_aval(typeof(x)) for x in call.leaves]
        self.moved = [False] * len(self.in_avals)  # arguments that had tangents so far

    def call(self, *leaves: Value) -> list[Any]:
        outs, self.out_tree = flatten_results(
            self.flat_call.apply(self.fun, leaves), "custom_vjp", self.info
        )
        self.seen.saw(self.out_tree, outs)
        return outs

    def forward(self, *leaves: Value, moving: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        fwd = self.rules.fwd
        self.moved = [a or b for a, b in zip(self.moved, moving, strict=True)]
        shown = (
            [CustomVJPPrimal(x, m) for x, m in zip(leaves, moving, strict=True)]
            if self.rules.symbolic_zeros
            else leaves
        )
        outs, residuals, self.out_tree, self.res_tree = self._pair(
            "fwd", fwd, self.flat_call.apply(fwd, shown)
        )
        if references.may_alias(residuals):
            self._refuse_new(residuals, leaves, fwd)
        if self.rules.rem is not None:
            outs, residuals = self._again(outs, residuals, leaves, self.rules.rem)
        return outs, residuals

    def _again(
        self,
        outs: Sequence[Value],
        residuals: Sequence[Value],
        leaves: Sequence[Value],
        rem: Callable[..., Any],
    ) -> tuple[list[Any], list[Any]]:
        """What the rule for rematerialisation gives behind the forward rule."""
        given = pytrees.tree_unflatten(self.res_tree, remat_rules.saved(residuals))
        result = self.flat_call.apply(functools.partial(rem, given), leaves)
        again, more, _, self.res_tree = self._pair("rem", rem, result)
        return remat_rules.computed_again(outs, again), more

    def _pair(
        self, kind: str, rule: Callable[..., Any], result: Any
    ) -> tuple[list[Any], list[Any], PyTree, PyTree]:
        """The leaves and the trees of what a rule gave: (output, residuals)."""
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TypeError(
                f"Custom VJP {kind} rule {fun_name(rule)} for function {self.name} must produce a "
                "pair (list or tuple of length two) where the first element represents the "
                f"primal output (equal to those of the custom_vjp-decorated function {self.name}) "
                "and the second element represents residuals (i.e. values stored from the "
                "forward pass for use on the backward pass), but instead of a pair the "
                f"{kind} rule {fun_name(rule)} produced {result!r:.200}."
            )
        outs, tree = pytrees.tree_flatten(result[0])
        self.seen.check(
            tree,
            outs,
            f"Custom VJP {kind} rule {fun_name(rule)} for function {self.name} must produce a pair "
            "(list or tuple of length two) where the first element represents the primal output "
            f"(equal to the output of the custom_vjp-decorated function {self.name}) and the "
            "second element represents residuals (i.e. values stored from the forward pass for "
            f"use on the backward pass), but instead the {kind} rule output's first element",
            f"custom_vjp-decorated function {self.name}",
        )
        residuals, res_tree = pytrees.tree_flatten(result[1])
        return outs, residuals, tree, res_tree

    def _refuse_new(
        self, residuals: Sequence[object], leaves: Sequence[Value], fwd: Callable[..., object]
    ) -> None:
        for x in residuals:
            if (
                is_valid_type(x)
                and is_reference(typeof(x))
                and not any(x is given for given in leaves)
            ):
                raise ValueError(
                    f"custom_vjp fwd function {fun_name(fwd)} for {self.name} returned a mutable "
                    f"array reference of type {typeof(x).str_short()} that is none of its "
                    "arguments.\n  Residuals are arrays, and references that the function was "
                    "given."
                )

    def backward(self, *values: Value) -> list[Any]:
        n = self.res_tree.num_leaves
        residuals = pytrees.tree_unflatten(self.res_tree, values[:n])
        cts = [
            SymbolicZero(ct.aval)
            if type(ct) is Zero and self.rules.symbolic_zeros
            else array_ops.instantiate(ct)
            for ct in values[n:]
        ]
        bwd = self.rules.bwd
        given = (*self.nondiff, residuals, pytrees.tree_unflatten(self.out_tree, cts))
        if self.rules.with_accums:
            tree, _ = self.flat_call.tree.children()
            found, entries = accumulated(
                functools.partial(called, bwd, *given),
                accums_of(self.in_avals, self.moved),
                tree,
                "Custom VJP bwd rule was registered with defvjp_with_accums, and so",
            )
            check_leaves(entries, self.name)
            return Logged(self._checked(found, bwd), entries)
        result = called(bwd, *given)
        if not self.rules.with_logs:
            return self._check(result, bwd)
        result, logs = pair_of(
            result,
            (
                "Custom VJP bwd rule was registered with defvjp_with_logs and so must produce a "
                f"pair (in_cts, logs), but {fun_name(bwd)}, of {self.name}, gave",
                "Custom VJP bwd rule was registered with defvjp_with_logs, and so the second "
                "element of the pair it returns",
            ),
        )
        check_leaves(logs, self.name)
        return Logged(self._check(result, bwd), logs)

    def _check(self, result: object, bwd: Callable[..., Any]) -> list[Any]:
        tree = self.flat_call.tree
        dummy = pytrees.tree_unflatten(tree, self.in_avals)[0]
        if isinstance(result, list):
            result = tuple(result)
        arg_tree = pytrees.tree_structure(dummy)
        try:
            leaves = pytrees.flatten_axes(
                "bwd", arg_tree, result if isinstance(result, tuple) else ((),)
            )
        except ValueError as err:
            raise TypeError(
                "Custom VJP bwd rule must produce an output with the same container (pytree) "
                "structure as the args tuple of the primal function, and in particular must "
                "produce a tuple of length equal to the number of arguments to the primal "
                f"function, but got bwd output structure {pytrees.tree_structure(result)} for "
                f"primal input structure {arg_tree}.\n    rule: {fun_name(bwd)}, for function "
                f"{self.name}"
            ) from err
        return self._checked(leaves, bwd)

    def _checked(self, cts: Sequence[Cotangent], bwd: Callable[..., Any]) -> list[Any]:
        return [
            self._check_leaf(ct, aval, bwd, i)
            for i, (ct, aval) in enumerate(zip(cts, self.in_avals, strict=True))
        ]

    def _check_leaf(self, ct: Cotangent, aval: Aval, bwd: Callable[..., Any], i: int) -> Any:
        expected = aval.cotangent_aval()
        if isinstance(ct, SymbolicZero) and not expected.is_high and ct.shape != expected.shape:
            raise ValueError(
                f"Custom VJP bwd rule {fun_name(bwd)} for function {self.name} gave a zero of "
                f"type {ct.aval.str_short()} for an input of type {aval.str_short()}. Consider "
                "just returning a None here."
            )
        if ct is None or isinstance(ct, SymbolicZero) or type(ct) is Zero or not expected.moves:
            return Zero(expected)
        got = typeof(ct)
        if expected.is_high:
            if got != expected:
                raise ValueError(
                    f"Custom VJP bwd rule {fun_name(bwd)} for function {self.name} must produce a "
                    f"cotangent of type {expected}, for an input of type {aval.str_short()}, but "
                    f"gave one of type {got}."
                )
            return ct
        if got.shape != expected.shape or got.dtype != expected.dtype:
            if got.shape == expected.shape and dtypes.issubdtype(got.dtype, np.inexact):
                return array_ops.convert(ct, expected)
            if config.disable_bwd_checks.value:
                return ct
            path = pytrees.keystr(
                list(pytrees.leaf_paths(pytrees.treedef_children(self.flat_call.tree)[0]))[i]
            )
            what = "shapes" if got.shape != expected.shape else "dtypes"
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple "
                f"of the primal function, but at output{path} the bwd rule produced an output of "
                f"type {got.str_short()} corresponding to an input of type {aval.str_short()}, so "
                f"the {what} do not match\n    rule: {fun_name(bwd)}, for function {self.name}"
            )
        return ct


def custom_gradient(
    fun: Callable[..., tuple[Any, Callable[..., Any]]] | None = None,
    *,
    with_logs: bool = False,
    remat: bool = False,
    with_accums: object = None,
) -> Any:
    """A function with its own reverse-mode rule, in one piece: `fun` returns (output, vjp_fun).

    vjp_fun takes a cotangent of the output and returns that of the argument, or a tuple of them for
    several arguments. Without `fun` it is a decorator.
    with_logs: vjp_fun returns (cotangents, logs), as for `custom_vjp.defvjp_with_logs`.
    remat: `fun` returns (output, rem), and rem of the same arguments (output, vjp_fun).
    `checkpoint` saves what rem needs of `fun`, and computes rem in the backward pass; elsewhere rem
    runs behind `fun`.
    with_accums: vjp_fun takes an accumulator for each argument after the cotangent, and returns
    None or logs, as for `custom_vjp.defvjp_with_accums`. ValAccum or RefAccum, or a tree prefix of
    the arguments of these, says of which kind.

    >>> import teucer as jax
    >>> @jax.custom_gradient
    ... def f(x):
    ...     return x ** 2, lambda ct: ct * x
    >>> jax.grad(f)(3.)
    Array(3., dtype=float32, weak_type=True)
    """

    if fun is None:
        return functools.partial(
            custom_gradient, with_logs=with_logs, remat=remat, with_accums=with_accums
        )
    with_logs = with_logs or with_accums is not None
    rule_of = fun

    @functools.wraps(rule_of)
    def wrapped(*args: Value, **kwargs: object) -> Any:
        return rule_of(*args, **kwargs)[0]

    custom = custom_vjp(wrapped)

    def staged(rule: Callable[..., Any], out: Any, args: tuple[Value, ...]) -> _Rule:
        """Stage the backward function `rule` of a call whose result was `out`."""
        ct_avals, ct_tree = pytrees.tree_flatten(
            pytrees.tree_map(lambda y: typeof(y).cotangent_aval(), out)
        )
        trees: list[Any] = []

        def flat(*cts: Cotangent) -> list[Any]:
            given = pytrees.tree_unflatten(ct_tree, cts)
            if with_accums is not None:
                avals = [typeof(x) for x in pytrees.tree_leaves(args)]
                tree = pytrees.tree_structure(args)
                found, logs = accumulated(
                    functools.partial(rule, given),
                    declared(with_accums, args, avals),
                    tree,
                    "custom_gradient function used with with_accums must return a VJP function, "
                    "which",
                )
                found = [None if type(ct) is Zero else ct for ct in found]
                result = (pytrees.tree_unflatten(tree, found), logs)
            else:
                result = rule(given)
            if with_logs:
                result = pair_of(result, _SAID_OF_LOGS)
            leaves, tree = pytrees.tree_flatten(result)
            trees[:] = [tree]
            return leaves

        jaxpr, consts = stage_flat(flat, ct_avals, DebugInfo(rule_of, (), "custom_gradient"))
        return _Rule(jaxpr, consts, trees[0], len(args))

    def fwd(*args: Value, **kwargs: object) -> Any:
        out, rule = rule_of(*args, **kwargs)
        return out, staged(rule, out, args)

    def fwd_before_rem(*args: Value, **kwargs: object) -> Any:
        out, rem_of_call = rule_of(*args, **kwargs)
        leaves, tree = pytrees.tree_flatten((args, kwargs))
        trees: list[Any] = []

        def flat(*leaves: Value) -> list[Any]:
            args, kwargs = pytrees.tree_unflatten(tree, leaves)
            again, rule = rem_of_call(*args, **kwargs)
            found, out_tree = pytrees.tree_flatten((again, staged(rule, again, args)))
            trees[:] = [out_tree]
            return found

        info = DebugInfo(rule_of, (), "custom_gradient")
        jaxpr, consts = stage_flat(flat, [typeof(x) for x in leaves], info)
        return out, _Rule(jaxpr, consts, trees[0], len(args))

    def rem(staged_rem: _Rule, *args: Value, **kwargs: object) -> Any:
        return staged_rem(*pytrees.tree_leaves((args, kwargs)))

    def bwd(rule: _Rule, ct: Cotangent) -> Any:
        result = rule(*pytrees.tree_leaves(ct))
        result, *logs = result if with_logs else (result,)
        cts = result if isinstance(result, tuple) else (result,)
        return (cts, *logs) if with_logs else cts

    if remat:
        define = custom.defremat_with_logs if with_logs else custom.defremat
        define(fwd_before_rem, rem, bwd)
    else:
        (custom.defvjp_with_logs if with_logs else custom.defvjp)(fwd, bwd)
    return custom


_SAID_OF_LOGS = (
    "custom_gradient function used with with_logs=True must return a VJP function producing a pair "
    "(in_cts, logs), but the VJP function returned",
    "custom_gradient function used with with_logs=True must return a VJP function whose second "
    "output",
)


class _Rule:
    """A staged function of custom_gradient: a pytree whose leaves are its constants.

    Calls take flat values, and give the tree of results.
    """

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Value], tree: PyTree, n_args: int) -> None:
        self.jaxpr, self.consts, self.tree, self.n_args = jaxpr, consts, tree, n_args

    def __call__(self, *leaves: Value) -> Any:
        return self.tree.unflatten(ClosedJaxpr(self.jaxpr, self.consts)(*leaves))


pytrees.register_pytree_node(
    _Rule,
    lambda r: ((r.consts,), (r.jaxpr, r.tree, r.n_args)),
    lambda s, c: _Rule(s[0], c[0], s[1], s[2]),
)
