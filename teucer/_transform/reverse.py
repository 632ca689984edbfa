"""Reverse-mode differentiation.

The backward map of a function, and `grad` and `value_and_grad` as users call them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._arrays.arrays import Array
from teucer._base import config, dtypes, tracebacks
from teucer._core import array_ops
from teucer._core.calls import FlatFunction, as_indices, check_callable, fun_name, is_index, where
from teucer._core.names import TRANSPOSE, within
from teucer._core.provided import provided
from teucer._core.reference_types import RefType
from teucer._core.trace import Tracer, current_trace, typeof
from teucer._core.types import float0, is_valid_type
from teucer._transform.linearize import linearize_flat, without_dead
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.jaxpr import Jaxpr
    from teucer._core.typing import Aval, Value
    from teucer._xla.pytree import PyTreeDef


class Static(NamedTuple):
    """The parts of a backward map that are no values."""

    jaxpr: Jaxpr
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    out_avals: tuple[Aval, ...]
    moving_outs: tuple[bool, ...]
    name: str


class Pullback:
    """The backward map of a function at a point: a linear jaxpr over residuals."""

    __slots__ = (
        "jaxpr",
        "residuals",
        "in_tree",
        "out_tree",
        "out_avals",
        "moving_outs",
        "outs",
        "name",
    )

    def __init__(
        self,
        f: FlatFunction,
        primals: Sequence[Value],
        moving: Sequence[bool] | None = None,
        *,
        lean: bool = False,
        run: Callable[..., Sequence[object]] | None = None,
    ) -> None:
        # lean: for a map that is kept: without equations that no result needs. run: differentiated
        # in place of f; it gives more results.
        if config.gradient_memory.value is not None:
            run = provided.by_budget(f, run)
        lin = linearize_flat(run or f, primals, moving, f.info)
        if lean:
            lin = without_dead(lin)
        self.jaxpr, self.residuals, self.moving_outs, self.outs = (
            lin.jaxpr,
            lin.residuals,
            lin.moving_outs,
            lin.outs,
        )
        self.in_tree, self.out_tree, self.name = f.in_tree, f.tree, f.info.name
        self.out_avals = [typeof(y) for y in lin.outs]

    def static(self) -> Static:
        """All but values: hashable, so that it can be part of the structure of a pytree."""
        return Static(
            self.jaxpr,
            self.in_tree,
            self.out_tree,
            tuple(self.out_avals),
            tuple(self.moving_outs),
            self.name,
        )

    @classmethod
    def of(cls, static: Static, residuals: list[Value]) -> Pullback:
        """The backward map that `static` describes, on other residuals."""
        p = object.__new__(cls)
        p.jaxpr, p.in_tree, p.out_tree, out_avals, moving_outs, p.name = static
        p.out_avals, p.moving_outs = list(out_avals), list(moving_outs)
        p.residuals, p.outs = residuals, []
        return p

    def __repr__(self) -> str:
        return f"{self.name}: {self.jaxpr}"

    def __call__(self, ct: Value) -> Any:
        return pytrees.tree_unflatten(
            self.in_tree, [array_ops.instantiate(c) for c in self.cotangents(ct)]
        )

    def cotangents(
        self, ct: Value, wanted: Sequence[bool] | None = None, more: Sequence[Value] = ()
    ) -> list[Any]:
        """Cotangents of the flat arguments (of those wanted) for a tree of cotangents of the
        results, and for more results."""
        leaves, tree = pytrees.tree_flatten(ct)
        if tree != self.out_tree:
            raise ValueError(
                f"unexpected tree structure of argument to VJP function: got {tree}, but expected "
                f"to match {self.out_tree}, the tree of the results of {self.name}."
            )
        leaves = [*leaves, *more]
        for x, aval in zip(leaves, self.out_avals, strict=True):
            self._check(x, aval)
        return self.pull_flat(
            [array_ops.vary(x, aval.vma) for x, aval in zip(leaves, self.out_avals, strict=True)],
            wanted,
        )

    def _check(self, ct: Value, aval: Aval) -> None:
        expected, got = aval.cotangent_aval(), typeof(ct)
        if expected == got:
            return
        # The cotangent of an integer carries nothing. As in JAX, a value of the integer's own type
        # may stand for it.
        allowed = (
            ()
            if expected.is_high
            else (float0, aval.dtype)
            if expected.dtype == float0
            else (float0, expected.dtype)
        )
        if got.shape != expected.shape or got.dtype not in allowed or not got.vma <= expected.vma:
            raise ValueError(
                "unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got "
                f"{got.str_short()}, but expected {expected.str_short()} because the "
                "corresponding output of the differentiated function had JAX type "
                f"{aval.str_short()}\n    function: {self.name}"
            )

    def pull_flat(self, cts: Sequence[Value], wanted: Sequence[bool] | None = None) -> list[Any]:
        """Cotangents of the arguments that vary, Zeros among them."""
        given = [c for c, m in zip(cts, self.moving_outs, strict=True) if m]
        with within(TRANSPOSE):
            return provided.pull(self.jaxpr, self.residuals, given, wanted)


def refuse_reduce_axes(reduce_axes: Iterable[object], op: str) -> None:
    if tuple(reduce_axes):
        raise NotImplementedError(
            f"{op}: reduce_axes is not supported; sum over the axis with lax.psum in the function."
        )


def grad(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Iterable[object] = (),
) -> Callable[..., Any]:
    """The gradient of a scalar function.

    argnums: the positional argument, or a tuple of them, with respect to which to differentiate.
    has_aux: `fun` returns (output, aux); then the gradient function returns (gradient, aux).
    holomorphic: `fun` is a holomorphic function of complex arguments. allow_int: integer arguments
    are allowed, their gradients are of dtype float0.
    The gradient has the tree and shapes of the argument. Raises TypeError if the output is not a
    scalar, or an argument or the output is of a dtype that has no gradient.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.grad(jnp.tanh)(0.)
    Array(1., dtype=float32, weak_type=True)
    """
    value_and_gradient = _differentiated(
        "grad", fun, argnums, has_aux, holomorphic, allow_int, reduce_axes
    )

    def gradient(*args: Value, **kwargs: object) -> Any:
        value, g = value_and_gradient(args, kwargs)
        return (g, value[1]) if has_aux else g

    return tracebacks.api_boundary(gradient, fun, _doc("Gradient", fun, argnums, "the gradient"))


def value_and_grad(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Iterable[object] = (),
) -> Callable[..., Any]:
    """The value and the gradient of a scalar function; arguments as for `grad`.

    The function returned gives (value, gradient), with has_aux ((value, aux), gradient).

    >>> import teucer as jax
    >>> jax.value_and_grad(lambda x: x ** 2)(3.)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    value_and_gradient = _differentiated(
        "value_and_grad", fun, argnums, has_aux, holomorphic, allow_int, reduce_axes
    )
    return tracebacks.api_boundary(
        lambda *args, **kwargs: value_and_gradient(args, kwargs),
        fun,
        _doc("Value and gradient", fun, argnums, "its value and the gradient, as a pair"),
    )


def _doc(what: str, fun: Callable[..., object], argnums: int | Sequence[int], result: str) -> str:
    """The docstring of a differentiated function."""
    name = fun_name(fun)
    return (
        f"{what} of {name} with respect to positional argument(s) {argnums}. Takes the arguments "
        f"of {name} and returns {result}. The gradient has the trees and shapes of these "
        "arguments."
    )


def _differentiated(
    op: str,
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    reduce_axes: Iterable[object],
) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """The function (args, kwargs) -> (value, gradient) behind `grad` and `value_and_grad`."""
    check_callable(fun, op)
    refuse_reduce_axes(reduce_axes, op)
    single = is_index(argnums)
    numbers = as_indices(argnums, "argnums", op)

    def value_and_gradient(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        positions = positions_of(numbers, args, fun, op)
        f_partial = fix_other_arguments(fun, args, kwargs, positions)
        flat, in_tree = pytrees.tree_flatten(tuple([args[i] for i in positions]))
        for i, x in enumerate(flat):
            check_grad_input(x, holomorphic, allow_int, op, (in_tree, i))
        f = FlatFunction(f_partial, in_tree, op, has_aux, fun)
        pullback = Pullback(f, flat)
        value = pullback.outs[0] if len(pullback.outs) == 1 else None
        _check_grad_output(pullback, holomorphic, op, fun)
        aval = typeof(value).cotangent_aval()
        # A host scalar spares a transfer; where it comes out as the gradient itself it is made an
        # array.
        odd = aval.weak_type or aval.vma or dtypes.canonicalize_dtype(aval.dtype) != aval.dtype
        one = array_ops.ones(aval) if odd else np.array(1, aval.dtype)
        cts = [
            _as_array(c, aval) if c is one else array_ops.instantiate(c)
            for c in pullback.pull_flat([one])
        ]
        gradients, value = in_tree.unflatten(cts), f.tree.unflatten([value])
        return ((value, known_part(f.aux)) if has_aux else value), gradients[
            0
        ] if single else gradients

    return value_and_gradient


def _as_array(x: Value, aval: Aval) -> Any:
    """A host scalar as a traced value or an array; other values stay."""
    if isinstance(x, Array):
        return x
    lifted = current_trace().lift(x, aval)
    return array_ops.convert(x, aval) if lifted is x else lifted


def positions_of(
    numbers: tuple[int, ...], args: tuple[Value, ...], fun: Callable[..., object], op: str
) -> list[int]:
    n = len(args)
    for i in numbers:
        if i < -n:
            raise ValueError(
                "Positional argument indices must have value greater than or equal to -len(args) "
                f"and less than len(args), but got value {i} for len(args) == {n}.\n"
                f"  {op} of {fun_name(fun)}."
            )
        if i >= n:
            raise TypeError(
                f"differentiating with respect to argnums={i} requires at least {i + 1} "
                f"positional arguments to be passed by the caller, but got only {n} positional "
                f"arguments.\n  {op} of {fun_name(fun)}: pass that argument by position."
            )
    positions = [i % n for i in numbers]
    if len(set(positions)) < len(positions):
        raise ValueError(f"{op} of {fun_name(fun)}: argnums={numbers} names an argument twice.")
    return positions


def fix_other_arguments(
    fun: Callable[..., object],
    args: tuple[Value, ...],
    kwargs: dict[str, object],
    positions: Sequence[int],
) -> Callable[..., Any]:
    """`fun` as a function of the arguments at `positions` alone."""
    if not kwargs and len(args) == len(positions) == 1:
        return fun

    def partial(*chosen: Value) -> Any:
        filled = list(args)
        for i, x in zip(positions, chosen, strict=True):
            filled[i] = x
        return fun(*filled, **kwargs)

    return partial


def check_grad_input(
    x: Value,
    holomorphic: bool,
    allow_int: bool,
    op: str,
    at: tuple[pytrees.PyTreeDef, int] | None = None,
) -> None:
    """Refuse a value without a gradient. at: the tree of the arguments, and the number of the
    leaf."""
    if not is_valid_type(x):
        from teucer._advice import mistakes  # of errors alone

        path = pytrees.keystr(list(pytrees.leaf_paths(at[0]))[at[1]][1:]) if at else ""
        raise TypeError(
            f"{op}: Argument '{x!s:.100}' of type {type(x)} is not a valid JAX type.\n"
            f"{path and f'    path: {path}' + chr(10)}"
            "  Choose the arguments to differentiate with argnums." + mistakes.on_value(x, path)
        )
    aval = typeof(x)
    if aval.is_high:
        return  # its type determines its tangents
    if type(aval) is RefType:
        raise ValueError(
            f"{op} with respect to a reference, {aval.str_short()}, is not defined: its array "
            "changes.\n  Pass the array and make the reference within the function: "
            "jax.new_ref(x)."
        )
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{op} with holomorphic=True requires inputs with complex dtype, but got "
                f"{aval.dtype.name}."
            )
        return
    if not allow_int and (
        isinstance(aval.dtype, dtypes.ExtendedDType)
        or not dtypes.issubdtype(aval.dtype, np.inexact)
    ):
        raise TypeError(
            f"{op} requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.inexact), but got {aval.dtype.name}. If you want to use Boolean- or "
            "integer-valued inputs, use vjp or set allow_int to True."
        )


def _check_grad_output(
    pullback: Pullback, holomorphic: bool, op: str, fun: Callable[..., object]
) -> None:
    outs = pullback.outs
    if len(outs) != 1 or pullback.out_tree.num_nodes != 1:
        from teucer._advice import mistakes  # of errors alone

        raise TypeError(
            "Gradient only defined for scalar-output functions. Output was "
            f"{_tree_text(pullback)}.\n    function: {fun_name(fun)} at {where(fun)}"
            + mistakes.on_outputs(len(pullback.out_tree.children()))
        )
    aval = typeof(outs[0])
    if aval.shape != ():
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}.\n"
            f"    function: {fun_name(fun)} at {where(fun)}\n"
            "  Reduce the output, with .sum() or .mean(), or use jax.jacrev for the Jacobian."
        )
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{op} with holomorphic=True requires outputs with complex dtype, but got "
                f"{aval.dtype.name}."
            )
    elif not dtypes.issubdtype(aval.dtype, np.floating):
        kind = "complex" if dtypes.issubdtype(aval.dtype, np.complexfloating) else "other"
        what = (
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use jax.vjp directly."
            if kind == "complex"
            else "For differentiation of functions with integer outputs, use jax.vjp directly."
        )
        raise TypeError(
            f"{op} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {aval.dtype.name}. {what}"
        )


def _tree_text(pullback: Pullback) -> str:
    return str(
        pytrees.tree_unflatten(
            pullback.out_tree, [typeof(y).str_short(True) for y in pullback.outs]
        )
    )


def known_part(aux: object) -> Any:
    """Auxiliary results without the tracers of a transformation that has ended."""

    def strip(x: Value) -> Any:
        while isinstance(x, Tracer) and not x._trace.alive and hasattr(x, "primal"):
            x = x.primal
        return x

    return pytrees.tree_map(strip, aux)
