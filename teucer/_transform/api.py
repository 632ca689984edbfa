"""The transformations as users call them: arguments checked and flattened, results put back into trees."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer._base import dtypes, pytrees, tracebacks
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Axis, Undefined
from teucer._core.stage import DebugInfo, stage_flat
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray, float0, is_valid_type
from teucer._transform import arith
from teucer._transform.batch import batch_flat
from teucer._transform.calls import (as_indices, check_callable, flatten_results, fun_name, where)
from teucer._transform.jit import jit
from teucer._transform.jvp import jvp_flat
from teucer._transform.partial import linearize_flat
from teucer._transform.shapes import ShapeDtypeStruct
from teucer._transform.transpose import backward_pass

__all__ = ["closure_convert", "fwd_and_bwd", "grad", "hessian", "jacfwd", "jacobian", "jacrev", "jvp", "linear_transpose",
           "linearize", "saved_input_vjp", "value_and_grad", "vjp", "vmap"]

boundary = tracebacks.api_boundary


def _info(what: str, fun: Callable[..., Any]) -> DebugInfo:
    return DebugInfo(fun_name(fun), (), (), what, where(fun))


class _Flat:
    """A function of pytrees as one of flat values; after a call, `tree` is the tree of its results."""

    __slots__ = ("fun", "in_tree", "tree", "what", "aux", "has_aux", "info")

    def __init__(self, fun: Callable[..., Any], in_tree: Any, what: str, has_aux: bool = False) -> None:
        self.fun, self.in_tree, self.what, self.has_aux = fun, in_tree, what, has_aux
        self.tree: Any = None
        self.aux: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self.fun(*pytrees.tree_unflatten(self.in_tree, leaves))
        if self.has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise TypeError(f"{self.what} with has_aux=True: the function must return a pair (output, auxiliary data), "
                                f"got {_describe(out)}.\n    function: {fun_name(self.fun)} at {where(self.fun)}")
            out, self.aux = out
        leaves_, self.tree = flatten_results(out, self.what, _info(self.what, self.fun))
        return leaves_


def _describe(x: Any) -> str:
    return f"{type(x).__name__} of length {len(x)}" if isinstance(x, tuple | list) else type(x).__name__


# --- Forward mode ---------------------------------------------------------------------------------------------------


@boundary
def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """Results of a function and their tangents, for tangents of its arguments: forward-mode differentiation.

    primals: tuple or list of arguments. tangents: the same trees; arrays of the arguments' shapes and tangent dtypes.
    has_aux: `fun` returns (output, aux); then the result is (outputs, tangents, aux).
    Raises TypeError if trees, shapes or dtypes of primals and tangents differ.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.jvp(jnp.square, (3.,), (1.,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, "jvp")
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError("primal and tangent arguments to jax.jvp must be tuples or lists; "
                        f"found {type(primals).__name__} and {type(tangents).__name__}.")
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    flat_tangents, tangent_tree = pytrees.tree_flatten(tuple(tangents))
    if in_tree != tangent_tree:
        raise TypeError("primal and tangent arguments to jax.jvp must have the same tree structure; primals have tree "
                        f"structure {in_tree} whereas tangents have tree structure {tangent_tree}.")
    for x, t in zip(flat, flat_tangents, strict=True):
        _check_tangent(x, t, "jvp")
    f = _Flat(fun, in_tree, "jvp", has_aux)
    given = [typeof(x).zero if typeof(t).dtype == float0 else t for x, t in zip(flat, flat_tangents, strict=True)]
    outs, out_tangents = jvp_flat(f, flat, given)
    results = (pytrees.tree_unflatten(f.tree, outs),
               pytrees.tree_unflatten(f.tree, [arith.instantiate(t) for t in out_tangents]))
    return (*results, _known(f.aux)) if has_aux else results


def _check_tangent(x: Any, t: Any, op: str) -> None:
    aval, tangent = typeof(x), typeof(t)
    expected = aval.tangent_aval()
    if expected.dtype != tangent.dtype:
        raise TypeError(f"primal and tangent arguments to jax.{op} do not match; dtypes must be equal, or in case of int/bool "
                        f"primal dtype the tangent dtype must be float0. Got primal dtype {aval.dtype.name} and so expected "
                        f"tangent dtype {_name(expected.dtype)}, but got tangent dtype {_name(tangent.dtype)} instead.")
    if aval.shape != tangent.shape:
        raise ValueError(f"jvp called with different primal and tangent shapes; Got primal shape {aval.shape} and tangent "
                         f"shape as {tangent.shape}")


def _name(dtype: Any) -> str:
    return "float0" if dtype == float0 else str(dtype.name)


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function, and its derivative there as a linear function of tangents, ready to be called often.

    Returns (output, f_jvp), with has_aux (output, f_jvp, aux). f_jvp takes tangents of the trees and types of `primals`.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> y, f_jvp = jax.linearize(jnp.square, 3.)
    >>> f_jvp(1.)
    Array(6., dtype=float32, weak_type=True)
    """
    check_callable(fun, "linearize")
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    f = _Flat(fun, in_tree, "linearize", has_aux)
    lin = linearize_flat(f, flat, debug_info=_info("linearize", fun))
    avals = [typeof(x) for x in flat]
    out_avals = [typeof(y) for y in lin.outs]
    out_tree = f.tree

    @boundary
    def f_jvp(*tangents: Any) -> Any:
        given, tree = pytrees.tree_flatten(tangents)
        if tree != in_tree:
            raise ValueError("linearized function called with tangents of another tree than the primals.\n"
                             f"    primals: {in_tree}\n    tangents: {tree}")
        for a, t in zip(avals, given, strict=True):
            if a.tangent_aval().shape != typeof(t).shape or a.tangent_aval().dtype != typeof(t).dtype:
                raise ValueError("linearized function called on tangent values inconsistent with the original primal values: "
                                 f"got tangent aval {typeof(t)} for primal aval {a}")
        outs = iter(_eval(lin.jaxpr, lin.residuals, given))
        return pytrees.tree_unflatten(out_tree, [next(outs) if m else arith.instantiate(a.zero)
                                                 for a, m in zip(out_avals, lin.moving_outs, strict=True)])

    out = pytrees.tree_unflatten(out_tree, lin.outs)
    return (out, f_jvp, _known(f.aux)) if has_aux else (out, f_jvp)


def _eval(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    return ClosedJaxpr(jaxpr, consts)(*args)


def _known(aux: Any) -> Any:
    """Auxiliary results without the tracers of a transformation that has ended."""
    def strip(x: Any) -> Any:
        while isinstance(x, Tracer) and not x.trace.alive and hasattr(x, "primal"):
            x = x.primal
        return x

    return pytrees.tree_map(strip, aux)


# --- Reverse mode ---------------------------------------------------------------------------------------------------


@boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()) -> Any:
    """The value of a function, and the function from cotangents of its results to cotangents of its arguments.

    Returns (output, vjp_fun), with has_aux (output, vjp_fun, aux). vjp_fun takes one value of the tree and types of the
    output, and returns a tuple with one cotangent an argument (dtype float0 for integer arguments).

    >>> import teucer as jax, teucer.numpy as jnp
    >>> y, vjp_fun = jax.vjp(jnp.square, 3.)
    >>> vjp_fun(1.)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "vjp")
    _refuse_reduce_axes(reduce_axes, "vjp")
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    f = _Flat(fun, in_tree, "vjp", has_aux)
    pullback = Pullback(f, flat)
    out = pytrees.tree_unflatten(f.tree, pullback.outs)
    vjp_fun = pytrees.Partial(_pull, pullback)
    return (out, vjp_fun, _known(f.aux)) if has_aux else (out, vjp_fun)


@boundary
def _pull(pullback: Pullback, ct: Any) -> Any:
    return pullback(ct)


class Pullback:
    """The backward map of a function at a point: a linear jaxpr over residuals. A pytree, whose leaves are the residuals."""

    __slots__ = ("jaxpr", "residuals", "in_tree", "out_tree", "in_avals", "out_avals", "moving_outs", "outs", "name")

    def __init__(self, f: _Flat, primals: Sequence[Any], moving: Sequence[bool] | None = None) -> None:
        lin = linearize_flat(f, primals, moving, _info(f.what, f.fun))
        self.jaxpr, self.residuals, self.moving_outs, self.outs = lin.jaxpr, lin.residuals, lin.moving_outs, lin.outs
        self.in_tree, self.out_tree = f.in_tree, f.tree
        self.in_avals, self.out_avals = [typeof(x) for x in primals], [typeof(y) for y in lin.outs]
        self.name = fun_name(f.fun)

    def __call__(self, ct: Any) -> Any:
        leaves, tree = pytrees.tree_flatten(ct)
        if tree != self.out_tree:
            raise ValueError(f"unexpected tree structure of argument to vjp function: got {tree}, but expected to match "
                             f"{self.out_tree}, the tree of the results of {self.name}.")
        for x, aval in zip(leaves, self.out_avals, strict=True):
            self._check(x, aval)
        cts = self.pull_flat(leaves)
        return pytrees.tree_unflatten(self.in_tree, [arith.instantiate(c) for c in cts])

    def _check(self, ct: Any, aval: Any) -> None:
        expected, got = aval.cotangent_aval(), typeof(ct)
        if got.dtype != expected.dtype and got.dtype != float0:
            raise ValueError("unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
                             f"{got.str_short()}, but expected {expected.str_short()} because the corresponding output of the "
                             f"function {self.name} had JAX type {aval.str_short()}")
        if got.shape != expected.shape:
            raise ValueError("unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
                             f"{got.str_short()}, but expected {expected.str_short()} because the corresponding output of the "
                             f"function {self.name} had JAX type {aval.str_short()}")

    def pull_flat(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the arguments that vary, Zeros among them."""
        given = [c for c, m in zip(cts, self.moving_outs, strict=True) if m]
        args = [Undefined(v.aval) for v in self.jaxpr.invars]
        return backward_pass(self.jaxpr, self.residuals, args, given)


def _flatten_pullback(p: Pullback) -> Any:
    static = (p.jaxpr, p.in_tree, p.out_tree, tuple(p.in_avals), tuple(p.out_avals), tuple(p.moving_outs), p.name)
    return (p.residuals,), static


def _unflatten_pullback(static: Any, children: Any) -> Pullback:
    p = object.__new__(Pullback)
    p.jaxpr, p.in_tree, p.out_tree, p.in_avals, p.out_avals, p.moving_outs, p.name = static
    p.outs = []
    (p.residuals,) = children
    return p


pytrees.register_pytree_node(Pullback, _flatten_pullback, _unflatten_pullback)


def _refuse_reduce_axes(reduce_axes: Any, op: str) -> None:
    if tuple(reduce_axes):
        raise NotImplementedError(f"{op}: reduce_axes is not supported; sum over the axis with lax.psum in the function.")


def grad(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False,
         allow_int: bool = False, reduce_axes: Any = ()) -> Callable[..., Any]:
    """The gradient of a scalar function.

    argnums: the positional argument, or a tuple of them, with respect to which to differentiate.
    has_aux: `fun` returns (output, aux); then the gradient function returns (gradient, aux).
    holomorphic: `fun` is a holomorphic function of complex arguments. allow_int: integer arguments are allowed, their
    gradients are of dtype float0.
    The gradient has the tree and shapes of the argument. Raises TypeError if the output is not a scalar, or an argument or
    the output is of a dtype that has no gradient.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.grad(jnp.tanh)(0.)
    Array(1., dtype=float32, weak_type=True)
    """
    value_and_gradient = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes, _op="grad")

    @functools.wraps(fun)
    @boundary
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, g = value_and_gradient(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def value_and_grad(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False,
                   allow_int: bool = False, reduce_axes: Any = (), *, _op: str = "value_and_grad") -> Callable[..., Any]:
    """The value and the gradient of a scalar function; arguments as for `grad`.

    The function returned gives (value, gradient), with has_aux ((value, aux), gradient).

    >>> import teucer as jax
    >>> jax.value_and_grad(lambda x: x ** 2)(3.)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun, _op)
    _refuse_reduce_axes(reduce_axes, _op)
    single = not isinstance(argnums, tuple | list)
    numbers = as_indices(argnums, "argnums", _op)

    @functools.wraps(fun)
    @boundary
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        positions = _positions(numbers, args, fun, _op)
        f_partial = _fix_other_arguments(fun, args, kwargs, positions)
        flat, in_tree = pytrees.tree_flatten(tuple(args[i] for i in positions))
        for x in flat:
            _check_grad_input(x, holomorphic, allow_int, _op)
        f = _Flat(f_partial, in_tree, _op, has_aux)
        pullback = Pullback(f, flat)
        value = pullback.outs[0] if len(pullback.outs) == 1 else None
        _check_grad_output(pullback, holomorphic, _op, fun)
        one = arith.ones(typeof(value).cotangent_aval())
        cts = [arith.instantiate(c) for c in pullback.pull_flat([one])]
        gradients = pytrees.tree_unflatten(in_tree, cts)
        value = pytrees.tree_unflatten(f.tree, [value])
        return ((value, _known(f.aux)) if has_aux else value), gradients[0] if single else gradients

    return value_and_gradient


def _positions(numbers: tuple[int, ...], args: tuple[Any, ...], fun: Callable[..., Any], op: str) -> list[int]:
    n = len(args)
    for i in numbers:
        if not -n <= i < n:
            raise ValueError(f"differentiating with respect to argnums={i} requires at least {i + 1 if i >= 0 else -i} "
                             f"positional arguments to be passed by the caller, but got only {n} positional arguments.\n"
                             f"  {op} of {fun_name(fun)}: pass that argument by position.")
    return [i % n for i in numbers]


def _fix_other_arguments(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                         positions: Sequence[int]) -> Callable[..., Any]:
    @functools.wraps(fun)
    def partial(*chosen: Any) -> Any:
        filled = list(args)
        for i, x in zip(positions, chosen, strict=True):
            filled[i] = x
        return fun(*filled, **kwargs)

    return partial


def _check_grad_input(x: Any, holomorphic: bool, allow_int: bool, op: str) -> None:
    if not is_valid_type(x):
        raise TypeError(f"Argument '{x!r:.100}' of type '{type(x)}' is not a valid JAX type to differentiate ({op}).\n"
                        "  Choose the arguments to differentiate with argnums.")
    aval = typeof(x)
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(f"{op} with holomorphic=True requires inputs with complex dtype, but got {aval.dtype.name}.")
        return
    if isinstance(aval.dtype, dtypes.ExtendedDType) or not dtypes.issubdtype(aval.dtype, np.inexact):
        if not allow_int:
            raise TypeError(f"{op} requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but "
                            f"got {aval.dtype.name}. If you want to use Boolean- or integer-valued inputs, use vjp or set "
                            "allow_int to True.")
    elif dtypes.issubdtype(aval.dtype, np.complexfloating):
        return


def _check_grad_output(pullback: Pullback, holomorphic: bool, op: str, fun: Callable[..., Any]) -> None:
    outs = pullback.outs
    if len(outs) != 1 or pullback.out_tree.num_nodes != 1:
        raise TypeError(f"Gradient only defined for scalar-output functions. Output was {_tree_text(pullback)}.\n"
                        f"    function: {fun_name(fun)} at {where(fun)}")
    aval = typeof(outs[0])
    if aval.shape != ():
        raise TypeError(f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}.\n"
                        f"    function: {fun_name(fun)} at {where(fun)}\n  Reduce the output, with .sum() or .mean(), or use "
                        "jax.jacrev for the Jacobian.")
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(f"{op} with holomorphic=True requires outputs with complex dtype, but got {aval.dtype.name}.")
    elif not dtypes.issubdtype(aval.dtype, np.floating):
        kind = "complex" if dtypes.issubdtype(aval.dtype, np.complexfloating) else "other"
        what = ("For holomorphic differentiation, pass holomorphic=True. For differentiation of non-holomorphic functions "
                "involving complex outputs, use jax.vjp directly." if kind == "complex"
                else "For differentiation of functions with integer outputs, use jax.vjp directly.")
        raise TypeError(f"{op} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
                        f"{aval.dtype.name}. {what}")


def _tree_text(pullback: Pullback) -> str:
    return str(pytrees.tree_unflatten(pullback.out_tree, [typeof(y).str_short(True) for y in pullback.outs]))


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()) -> Callable[..., Any]:
    """The transpose of a function that is linear: from cotangents of its results to cotangents of its arguments.

    primals: arrays or ShapeDtypeStructs that say the arguments' types; their values do not matter.
    Raises TypeError if argument dtypes and result dtypes are not all real or all complex.

    >>> import teucer as jax
    >>> transpose = jax.linear_transpose(lambda x: 3 * x, 1.)
    >>> transpose(2.)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "linear_transpose")
    _refuse_reduce_axes(reduce_axes, "linear_transpose")
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    avals = [_as_aval(x) for x in flat]
    f = _Flat(fun, in_tree, "linear_transpose")
    jaxpr, consts = stage_flat(f, avals, _info("linear_transpose", fun))
    out_avals, out_tree = jaxpr.out_avals, f.tree
    kinds = {dtypes.issubdtype(a.dtype, np.inexact) for a in [*avals, *out_avals]}
    if kinds != {True}:
        raise TypeError("linear_transpose only supports [float or complex] -> [float or complex] functions, but got "
                        f"{[a.dtype.name for a in avals]} -> {[a.dtype.name for a in out_avals]}.")

    @boundary
    def transposed(ct: Any) -> Any:
        cts, tree = pytrees.tree_flatten(ct)
        if tree != out_tree:
            raise TypeError(f"cotangent tree does not match function output, expected {out_tree} but got {tree}")
        for c, a in zip(cts, out_avals, strict=True):
            if typeof(c).shape != a.shape or typeof(c).dtype != a.dtype:
                raise TypeError(f"cotangent type does not match function output, expected {a.str_short()} but got "
                                f"{typeof(c).str_short()}")
        in_cts = backward_pass(jaxpr, consts, [Undefined(a) for a in avals], cts)
        return pytrees.tree_unflatten(in_tree, [arith.instantiate(c) for c in in_cts])

    return transposed


def _as_aval(x: Any) -> ShapedArray:
    return x.aval if isinstance(x, ShapeDtypeStruct) else typeof(x)  # type: ignore[no-any-return]


@boundary
def fwd_and_bwd(fun: Callable[..., Any], argnums: Any, has_aux: bool = False, jitted: bool = True) -> Any:
    """The forward and backward passes of a function as two functions, each of which can be jitted by itself.

    fwd(*args) gives (output, residuals), with has_aux (output, residuals, aux); bwd(residuals, cotangent) gives the
    cotangents of the arguments `argnums`.
    """
    check_callable(fun, "fwd_and_bwd")
    single = not isinstance(argnums, tuple | list)
    numbers = as_indices(argnums, "argnums", "fwd_and_bwd")

    def fwd(*args: Any, **kwargs: Any) -> Any:
        positions = _positions(numbers, args, fun, "fwd_and_bwd")
        f = _fix_other_arguments(fun, args, kwargs, positions)
        return vjp(f, *(args[i] for i in positions), has_aux=has_aux)

    def bwd(residuals: Any, ct: Any) -> Any:
        cts = residuals(ct)
        return cts[0] if single else cts

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


# --- Jacobians ------------------------------------------------------------------------------------------------------


def jacfwd(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False,
           ) -> Callable[..., Any]:
    """The Jacobian of a function by forward mode, a column at a time: best for few inputs and many outputs.

    Arguments as for `grad`; the output may be any tree of arrays. An entry has the output's axes, then the input's.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.jacfwd(lambda x: x ** 2)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun, "jacfwd")
    return _jacobian(fun, argnums, has_aux, holomorphic, "jacfwd")


def jacrev(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable[..., Any]:
    """The Jacobian of a function by reverse mode, a row at a time: best for many inputs and few outputs.

    Arguments as for `grad`; the output may be any tree of arrays. An entry has the output's axes, then the input's.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.jacrev(lambda x: x ** 2)(jnp.array([1., 2.]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun, "jacrev")
    return _jacobian(fun, argnums, has_aux, holomorphic, "jacrev", allow_int)


jacobian = jacrev


def _jacobian(fun: Callable[..., Any], argnums: Any, has_aux: bool, holomorphic: bool, op: str,
              allow_int: bool = False) -> Callable[..., Any]:
    single = not isinstance(argnums, tuple | list)
    numbers = as_indices(argnums, "argnums", op)
    columns = _columns if op == "jacfwd" else _rows

    @functools.wraps(fun)
    @boundary
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        positions = _positions(numbers, args, fun, op)
        f_partial = _fix_other_arguments(fun, args, kwargs, positions)
        chosen = args[positions[0]] if single else tuple(args[i] for i in positions)
        flat, in_tree = pytrees.tree_flatten(chosen)
        for x in flat:
            _check_jacobian_input(x, holomorphic, allow_int, op)
        call = (lambda x: f_partial(x)) if single else (lambda xs: f_partial(*xs))
        f = _Flat(functools.wraps(fun)(lambda *leaves: call(pytrees.tree_unflatten(in_tree, leaves))),
                  pytrees.tree_structure(tuple(flat)), op, has_aux)
        blocks = columns(f, flat, holomorphic, op)
        out = pytrees.tree_unflatten(f.tree, [pytrees.tree_unflatten(in_tree, row) for row in blocks])
        return (out, _known(f.aux)) if has_aux else out

    return jacobian_fun


def _check_jacobian_input(x: Any, holomorphic: bool, allow_int: bool, op: str) -> None:
    _check_grad_input(x, holomorphic, allow_int, op)
    if op == "jacfwd" and not holomorphic and dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        raise TypeError("jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got "
                        f"{typeof(x).dtype.name}. For holomorphic differentiation, pass holomorphic=True. For differentiation "
                        "of non-holomorphic functions involving complex inputs, use jax.jvp directly.")


def _check_jacobian_output(aval: Any, holomorphic: bool, op: str) -> None:
    if holomorphic and not dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise TypeError(f"{op} with holomorphic=True requires outputs with complex dtype, but got {aval.dtype.name}.")
    if op == "jacrev" and not holomorphic and not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(f"jacrev requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
                        f"{aval.dtype.name}. For holomorphic differentiation, pass holomorphic=True. For differentiation of "
                        "functions involving complex or integer outputs, use jax.vjp directly.")


def _columns(f: _Flat, flat: Sequence[Any], holomorphic: bool, op: str) -> list[list[Any]]:
    lin = linearize_flat(f, flat, debug_info=_info(op, f.fun))
    avals = [typeof(x) for x in flat]
    out_avals = [typeof(y) for y in lin.outs]
    for a in out_avals:
        _check_jacobian_output(a, holomorphic, op)
    rows: list[list[Any]] = [[] for _ in out_avals]
    for k, aval in enumerate(avals):
        basis = _basis(aval)

        def push(t: Any, k: int = k) -> list[Any]:
            tangents = [t if i == k else arith.zeros(a.tangent_aval()) for i, a in enumerate(avals)]
            return _eval(lin.jaxpr, lin.residuals, tangents)

        outs, dims = batch_flat(push, Axis(aval.size), [basis], [0])
        moved = iter([arith.to_axis(y, d, aval.size, np.ndim(y) - (d is not None)) for y, d in zip(outs, dims, strict=True)])
        for row, a, moving in zip(rows, out_avals, lin.moving_outs, strict=True):
            block = next(moved) if moving else arith.zeros(ShapedArray((*a.shape, aval.size), a.tangent_aval().dtype))
            row.append(arith.reshape(block, (*a.shape, *aval.shape)))
    return rows


def _rows(f: _Flat, flat: Sequence[Any], holomorphic: bool, op: str) -> list[list[Any]]:
    pullback = Pullback(f, flat)
    rows = []
    for k, aval in enumerate(pullback.out_avals):
        _check_jacobian_output(aval, holomorphic, op)

        def pull(ct: Any, k: int = k) -> list[Any]:
            cts = [ct if i == k else a.zero for i, a in enumerate(pullback.out_avals)]
            return [arith.instantiate(c) for c in pullback.pull_flat(cts)]

        outs, dims = batch_flat(pull, Axis(aval.size), [_basis(aval)], [0])
        rows.append([arith.reshape(arith.to_axis(y, d, aval.size, 0), (*aval.shape, *x.shape))
                     for y, d, x in zip(outs, dims, pullback.in_avals, strict=True)])
    return rows


def _basis(aval: Any) -> Any:
    """The standard basis of the tangents of a type, along a leading axis."""
    tangent = aval.tangent_aval()
    if tangent.dtype == float0:
        return np.zeros((aval.size, *aval.shape), float0)
    return arith.convert(np.eye(aval.size).reshape(aval.size, *aval.shape).astype(tangent.dtype),
                         ShapedArray((aval.size, *aval.shape), tangent.dtype, tangent.weak_type and not aval.shape))


def hessian(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False,
            ) -> Callable[..., Any]:
    """The Hessian of a function, as `jacfwd` of `jacrev`.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.hessian(lambda x: jnp.sum(x ** 3))(jnp.array([1., 2.]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic), argnums, has_aux=has_aux,
                  holomorphic=holomorphic)


# --- Vectorisation --------------------------------------------------------------------------------------------------


def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None, axis_size: int | None = None,
         spmd_axis_name: Any = None, sum_match: bool = False) -> Callable[..., Any]:
    """A function that maps `fun` over an axis of its arguments.

    in_axes: the axis of each positional argument to map over (an int, None for not at all, or a tree prefix of them);
        keyword arguments are mapped over axis 0.
    out_axes: where the mapped axis goes in the results; None for results that do not depend on it.
    axis_name: the axis's name, for collectives. axis_size: its size, needed only if no argument is mapped.
    Raises ValueError if sizes differ, an axis is out of bounds, or the trees do not fit.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(jnp.dot)(jnp.ones((2, 3)), jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not isinstance(in_axes, int | tuple | type(None)) and not hasattr(in_axes, "__index__"):
        raise TypeError("vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                        f"passed to the function, but got {in_axes!r}.")
    for tree, name in ((in_axes, "in_axes"), (out_axes, "out_axes")):
        if not all(hasattr(leaf, "__index__") for leaf in pytrees.tree_leaves(tree)):
            raise TypeError(f"vmap {name} must be an int, None, or (nested) container with those types as leaves, but got "
                            f"{tree!r}.")

    @functools.wraps(fun)
    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError("vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                             f"passed to the function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}")
        flat, tree = pytrees.tree_flatten((args, kwargs))
        dims = _in_dims(fun, in_axes, args, kwargs, flat, tree)
        size = _mapped_size(fun, flat, dims, tree, axis_size)
        f = _Flat(lambda a, k: fun(*a, **k), tree, "vmap")
        f.fun = _named(f.fun, fun)
        outs, out_dims = batch_flat(f, Axis(size, axis_name, spmd_axis_name), flat, dims)
        wanted = _flatten_axes("vmap out_axes", f.tree, out_axes, kws=False)
        moved = [_to_out_axis(y, d, w, size, i, f.tree, fun)
                 for i, (y, d, w) in enumerate(zip(outs, out_dims, wanted, strict=True))]
        return pytrees.tree_unflatten(f.tree, moved)

    return mapped


def _named(f: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    f.__name__ = fun_name(original)
    return f


def _flatten_axes(name: str, tree: Any, axes: Any, *, kws: bool) -> list[Any]:
    return pytrees.flatten_axes(name, tree, axes, kws=kws)


def _in_dims(fun: Any, in_axes: Any, args: Any, kwargs: Any, flat: Sequence[Any], tree: Any) -> list[int | None]:
    axes = _flatten_axes("vmap in_axes", tree, (in_axes, 0), kws=True)
    dims: list[int | None] = []
    for i, (x, axis) in enumerate(zip(flat, axes, strict=True)):
        if axis is None:
            dims.append(None)
            continue
        aval = typeof(x) if is_valid_type(x) else None
        if aval is None:
            raise TypeError(f"vmap: {_leaf_name(fun, tree, flat, i)} is mapped over axis {axis} but is not an array: "
                            f"{type(x)}.\n  Give it None in in_axes.")
        n = aval.ndim
        if not -n <= axis < n:
            raise ValueError(f"vmap was requested to map its argument along axis {axis}, which implies that its rank should be at "
                             f"least {axis + 1 if axis >= 0 else -axis}, but is only {n} (its shape is {aval.shape}).\n"
                             f"    {_leaf_name(fun, tree, flat, i)}: {aval.str_short(short_dtypes=True)}")
        dims.append(axis % n)
    return dims


def _mapped_size(fun: Any, flat: Sequence[Any], dims: Sequence[int | None], tree: Any, axis_size: int | None) -> Any:
    sizes = {typeof(x).shape[d] for x, d in zip(flat, dims, strict=True) if d is not None}
    if axis_size is not None:
        sizes.add(axis_size)
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        if not flat:
            raise ValueError("vmap wrapped function must be passed at least one argument containing an array, got empty *args "
                             "and **kwargs.\n  Say the size with axis_size.")
        raise ValueError("vmap must have at least one non-None value in in_axes, or axis_size.\n"
                         f"    function: {fun_name(fun)} at {where(fun)}")
    raise ValueError(_size_mismatch(fun, flat, dims, tree, axis_size))


def _size_mismatch(fun: Any, flat: Sequence[Any], dims: Sequence[int | None], tree: Any, axis_size: int | None) -> str:
    lines = [f"    {_leaf_name(fun, tree, flat, i)}: {typeof(x).str_short(short_dtypes=True)}, axis {d} has size "
             f"{typeof(x).shape[d]}" for i, (x, d) in enumerate(zip(flat, dims, strict=True)) if d is not None]
    if axis_size is not None:
        lines.append(f"    axis_size={axis_size}")
    return "vmap got inconsistent sizes for array axes to be mapped:\n" + "\n".join(lines)


def _leaf_name(fun: Any, tree: Any, flat: Sequence[Any], index: int) -> str:
    """How the user would call a leaf of the arguments: `argument x[0]`."""
    paths = pytrees.leaf_paths(tree)
    kind, head, *rest = paths[index]
    if kind.idx == 0:
        try:
            names = [p.name for p in inspect.signature(fun).parameters.values()
                     if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        except (ValueError, TypeError):
            names = []
        name = names[head.idx] if head.idx < len(names) else f"args[{head.idx}]"
    else:
        name = f"kwargs[{head.key!r}]"
    return f"argument {name}{pytrees.keystr(tuple(rest))}"


def _to_out_axis(y: Any, dim: int | None, wanted: int | None, size: Any, i: int, tree: Any, fun: Any) -> Any:
    if wanted is None:
        if dim is not None:
            path = pytrees.keystr(pytrees.leaf_paths(tree)[i])
            raise ValueError(f"vmap has mapped output{path and f' {path}'} but out_axes is None.\n"
                             f"    function: {fun_name(fun)} at {where(fun)}\n"
                             "  out_axes may be None only for results that do not depend on the mapped arguments.")
        return y
    ndim = np.ndim(y) + (dim is None)
    if not -ndim <= wanted < ndim:
        raise ValueError(f"axis {wanted} is out of bounds for array of dimension {ndim}: out_axes of vmap for a result of "
                         f"{fun_name(fun)} with {ndim - 1} axes.")
    return arith.to_axis(y, dim, size, wanted % ndim)


# --- Closures -------------------------------------------------------------------------------------------------------


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function whose closed-over traced arrays are arguments: (converted, values), called as converted(*args, *values).

    For custom differentiation rules of functions that take functions. Only arrays that are being differentiated are lifted.
    """
    flat, in_tree = pytrees.tree_flatten(example_args)
    f = _Flat(fun, in_tree, "closure_convert")
    jaxpr, consts = stage_flat(f, [_as_aval(x) for x in flat], _info("closure_convert", fun))
    out_tree = f.tree
    lifted = [_may_be_differentiated(c) for c in consts]
    hoisted = [c for c, lift in zip(consts, lifted, strict=True) if lift]
    fixed = [c for c, lift in zip(consts, lifted, strict=True) if not lift]

    def converted(*args: Any) -> Any:
        n = len(args) - len(hoisted)
        flat_args, tree = pytrees.tree_flatten(args[:n])
        if tree != in_tree:
            raise TypeError(f"closure_convert: the converted function takes arguments of the tree {in_tree}, got {tree}.")
        values, rest = iter(args[n:]), iter(fixed)
        all_consts = [next(values) if lift else next(rest) for lift in lifted]
        return pytrees.tree_unflatten(out_tree, _eval(jaxpr, all_consts, flat_args))

    return converted, hoisted


def _may_be_differentiated(x: Any) -> bool:
    return isinstance(x, Tracer) and dtypes.issubdtype(typeof(x).dtype, np.inexact)


def saved_input_vjp(f: Callable[..., Any], which: Sequence[bool], *primals: Any, allow_unused: bool = True,
                    allow_opaque: bool = True) -> Any:
    """As `vjp`; the backward function takes the arguments marked in `which` again, instead of keeping them.

    Returns (output, vjp_fun) with vjp_fun(cotangent, *saved_arguments).
    """
    out, pullback = vjp(f, *primals)
    residuals, tree = pytrees.tree_flatten(pullback)
    saved = [x for x, keep in zip(primals, which, strict=True) if keep]
    leaves = pytrees.tree_leaves(saved)
    index = {id(x): i for i, x in enumerate(leaves)}
    kept = [None if id(r) in index else r for r in residuals]
    places = [index.get(id(r)) for r in residuals]

    def vjp_fun(ct: Any, *args: Any) -> Any:
        given = pytrees.tree_leaves(list(args))
        filled = [given[p] if p is not None else r for r, p in zip(kept, places, strict=True)]
        return pytrees.tree_unflatten(tree, filled)(ct)

    return out, vjp_fun

