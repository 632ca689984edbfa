"""Solutions of equations whose derivatives follow from the equation.

Custom_root and custom_linear_solve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._base import tracebacks
from teucer._core import array_ops, dialects
from teucer._core.calls import fun_name, where
from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr
from teucer._core.primitive import Primitive, Undefined
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import Zero, float0
from teucer._derived.custom_jvp import custom_jvp
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jvp import jvp_flat, jvp_jaxpr
from teucer._transform.linearize import linearize_flat
from teucer._transform.transpose import transpose_jaxpr
from teucer._trees import pytrees
from teucer.lax import _arithmetic
from teucer.lax._control.bodies import (
    Body,
    avals_of,
    hoisted,
    jaxprs_use_axis,
    run,
    split_list,
    stage_anew,
    stage_body,
)

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, Avals, Dims, Params
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value
    from teucer._xla.pytree import PyTreeDef

__all__ = ["custom_linear_solve", "custom_root", "linear_solve_p"]


# --- custom_linear_solve --------------------------------------------------------------------------


class SolveParts(NamedTuple):
    """Values for each of the four functions of a linear solve."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> SolveParts:
        """The parts of the solve with the transposed matrix."""
        return SolveParts(self.vecmat, self.matvec, self.transpose_solve, self.solve)


@final
class LinearSolve(Primitive):
    """The solution x of matvec(x) = b as `solve` gives it, and further results of `solve`.

    Operands are the consts of matvec, vecmat, solve and transpose_solve, and b. vecmat and
    transpose_solve, which solves vecmat(x) = b, may be None where reverse mode is not wanted.
    (C1) the jaxprs have no constants.  (C2) the first results of solve and transpose_solve have the
    types of b.
    """

    __slots__ = ()
    name = "custom_linear_solve"
    multiple_results = True
    higher_order = True

    def types(self, *avals: ShapedArray, jaxprs: SolveParts, **params: object) -> Any:
        return tuple(jaxprs.solve.out_avals)

    def effects(self, *avals: ShapedArray, jaxprs: SolveParts, **params: object) -> Any:
        return jaxprs.solve.effects

    def evaluate(self, *args: Any, **params: Any) -> Any:
        return run(self, args, params, params["jaxprs"].solve)

    def lower(
        self, ctx: Context, *values: Value, const_lengths: SolveParts, jaxprs: SolveParts
    ) -> Any:
        consts, b = _parts(values, const_lengths)
        return ctx.inline(jaxprs.solve, *consts.solve, *b)

    def jvp(
        self,
        primals: Sequence[ArrayLike],
        tangents: Sequence[Array | Zero],
        *,
        const_lengths: SolveParts,
        jaxprs: SolveParts,
    ) -> Any:
        """A x = b gives A dx = db - dA x."""
        outs = self.call(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
        consts, b = _parts(primals, const_lengths)
        dots, b_dot = _parts(tangents, const_lengths)
        x = outs[: len(b)]
        moving = [type(t) is not Zero for t in dots.matvec]
        if any(moving):
            matvec, out_moving = jvp_jaxpr(jaxprs.matvec, [*moving, *[False] * len(x)], False)
            moved = matvec(*consts.matvec, *x, *(t for t in dots.matvec if type(t) is not Zero))[
                len(x) :
            ]
            parts = iter(moved)
            b_dot = [
                array_ops.add_cotangents(t, _arithmetic.neg(next(parts))) if m else t
                for t, m in zip(b_dot, out_moving, strict=True)
            ]
        still = tuple(typeof(y).zero for y in outs)
        if all(type(t) is Zero for t in b_dot):
            return outs, still
        flat_consts = [c for part in consts for c in part]
        x_dot = self.call(
            *flat_consts,
            *map(array_ops.instantiate, b_dot),
            const_lengths=const_lengths,
            jaxprs=jaxprs,
        )
        return outs, (*x_dot[: len(x)], *still[len(x) :])

    def transpose(
        self,
        cts: Sequence[Array | Zero],
        *args: ArrayLike | Undefined,
        const_lengths: SolveParts,
        jaxprs: SolveParts,
    ) -> Any:
        if jaxprs.transpose_solve is None:
            raise TypeError(
                "transpose_solve required for backwards mode automatic differentiation of "
                "custom_linear_solve.\n  Give transpose_solve, or symmetric=True if the matrix is "
                "symmetric."
            )
        consts, b = _parts(args, const_lengths)
        n = len(args) - len(b)
        assert not any(
            type(x) is Undefined for x in args[:n]
        )  # the tangent of the solution is linear in b alone
        flat_consts = [c for part in consts.transposed() for c in part]
        x_cts = [array_ops.instantiate(ct) for ct in cts[: len(b)]]
        outs = self.call(
            *flat_consts,
            *x_cts,
            const_lengths=const_lengths.transposed(),
            jaxprs=jaxprs.transposed(),
        )
        return (
            *[None] * n,
            *(ct if type(x) is Undefined else None for x, ct in zip(b, outs, strict=False)),
        )

    def batch(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Dims,
        *,
        const_lengths: SolveParts,
        jaxprs: SolveParts,
    ) -> Any:
        moved = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        consts, b = _parts(moved, const_lengths)
        batched, _ = _parts([d is not None for d in dims], const_lengths)
        b = [
            array_ops.to_axis(x, None if d is None else 0, axis.size, 0)
            for x, d in zip(b, dims[len(dims) - len(b) :], strict=True)
        ]
        found, new_consts = [], []
        out_batched: list[bool] = []
        for name, closed, own, flags in zip(
            SolveParts._fields, jaxprs, consts, batched, strict=True
        ):
            inner: ClosedJaxpr | None = None
            extra: list[Any] = []
            if closed is not None:
                n_out = len(closed.out_avals)
                wanted = [i < len(b) for i in range(n_out)]
                inner, flags_out = batch_jaxpr(closed, axis, [*flags, *[True] * len(b)], wanted)
                inner, extra = hoisted(inner)
                out_batched = flags_out if name == "solve" else out_batched
            found.append(inner)
            new_consts.append([*extra, *own])
        outs = self.call(
            *(c for part in new_consts for c in part),
            *b,
            jaxprs=SolveParts(*found),
            const_lengths=SolveParts(*map(len, new_consts)),
        )
        return outs, tuple(0 if b else None for b in out_batched)

    def inlined(self, operands: Sequence[object], params: Params) -> Any:
        consts, b = _parts(operands, params["const_lengths"])
        return params["jaxprs"].solve, [*consts.solve, *b]

    def uses_axis(self, name: str, params: Params) -> bool:
        return jaxprs_use_axis([j for j in params["jaxprs"] if j is not None], name)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[ShapedArray],
        *,
        const_lengths: SolveParts,
        jaxprs: SolveParts,
    ) -> Any:
        consts, b = _parts(args, const_lengths)
        return sizes.evaluate(jaxprs.solve, (*consts.solve, *b))


linear_solve_p = LinearSolve()


def _parts(xs: Sequence[Any], const_lengths: SolveParts) -> tuple[SolveParts, list[Any]]:
    """The consts of each function, and b."""
    *consts, b = split_list(xs, *const_lengths)
    return SolveParts(*consts), b


@tracebacks.api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: ArrayLike,
    solve: Callable[..., object],
    transpose_solve: Callable[..., object] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of matvec(x) = b, with derivatives that are themselves such solutions.

    b: a tree of arrays; matvec: a linear function from such a tree to another, which may close over
    arrays.
    solve: called as solve(matvec, b); it need not be differentiable, and derivatives are as
    accurate as it is.
    transpose_solve: called as transpose_solve(vecmat, b), solves with the transposed matrix, for
    reverse mode.
    symmetric: the matrix is symmetric; `solve` solves the transposed system too, unless there is a
    transpose_solve.
    has_aux: solve returns (x, aux), and so does this; aux has no derivative.
    Raises ValueError if a function returns arrays of other shapes than b has.

    >>> import teucer as jax
    >>> jax.lax.custom_linear_solve(lambda x: 4. * x, 2., lambda matvec, b: b / 4., symmetric=True)
    Array(0.5, dtype=float32, weak_type=True)
    """
    if (
        not callable(matvec)
        or not callable(solve)
        or not (transpose_solve is None or callable(transpose_solve))
    ):
        raise TypeError(
            "lax.custom_linear_solve: matvec, solve and transpose_solve arguments should be "
            "callable."
        )
    flat, tree = pytrees.tree_flatten(b)
    in_tree, avals = pytrees.treedef_tuple((tree,)), avals_of("custom_linear_solve", flat)

    def stage(fun: Callable[..., object], name: str, *first: Any, aux: bool = False) -> Body:
        call = (lambda x: fun(*first, x)) if first else fun
        body = (stage_anew if first else stage_body)(
            fun, f"custom_linear_solve ({name})", in_tree, avals, call
        )
        _check_solution(fun, name, body, tree, avals, aux)
        return body

    mat = stage(matvec, "matvec")
    solved = stage(solve, "solve", matvec, aux=has_aux)
    vec = back = None
    if transpose_solve is not None:
        vec = mat if symmetric else _transposed(mat, len(flat))
        vecmat = matvec if symmetric else _as_function(vec, tree)
        back = stage(transpose_solve, "transpose_solve", vecmat, aux=has_aux)
    elif symmetric:
        vec, back = mat, solved
    bodies = SolveParts(mat, vec, solved, back)
    consts = [() if body is None else body.consts for body in bodies]
    outs = linear_solve_p.call(
        *(c for part in consts for c in part),
        *flat,
        const_lengths=SolveParts(*map(len, consts)),
        jaxprs=SolveParts(*(None if body is None else body.jaxpr for body in bodies)),
    )
    x = pytrees.tree_unflatten(tree, outs[: len(flat)])
    if not has_aux:
        return x
    return x, pytrees.tree_unflatten(
        pytrees.treedef_children(solved.out_tree)[1], outs[len(flat) :]
    )


def _check_solution(
    fun: Callable[..., object], name: str, body: Body, tree: PyTreeDef, avals: Avals, has_aux: bool
) -> None:
    """Raise unless a function returns arrays like b, with has_aux and something else."""
    out_tree, out_avals = body.out_tree, body.jaxpr.out_avals
    if has_aux:
        children = pytrees.treedef_children(out_tree)
        if len(children) != 2:
            raise TypeError(
                f"custom_linear_solve: {name} must return a pair (x, aux) with has_aux=True.\n"
                f"    {name}: {fun_name(fun)} at {where(fun)}"
            )
        out_tree = children[0]
        out_avals = out_avals[: out_tree.num_leaves]
    if [a.shape for a in out_avals] != [a.shape for a in avals]:
        raise ValueError(
            f"{name}() output shapes must match b, got {[a.shape for a in out_avals]} and "
            f"{[a.shape for a in avals]}\n    {name}: {fun_name(fun)} at {where(fun)}"
        )


def _transposed(mat: Body, n: int) -> Body:
    """The transpose of a linear function, with the consts of that."""

    def make() -> tuple[ClosedJaxpr, list[Any]]:
        linear = [*[False] * len(mat.consts), *[True] * n]
        inner, nonzero = transpose_jaxpr(mat.jaxpr, linear, [True] * n)
        inner, extra = hoisted(inner)
        return _with_zeros(inner, nonzero, mat.jaxpr.in_avals[len(mat.consts) :]), extra

    inner, extra = mat.jaxpr.kept(("matrix transposed", n, len(mat.consts)), make)
    return Body(inner, (*extra, *mat.consts), mat.out_tree)


def _with_zeros(closed: ClosedJaxpr, nonzero: Sequence[bool], avals: Avals) -> ClosedJaxpr:
    """The jaxpr with zeros for results that it leaves out."""
    if all(nonzero):
        return closed

    def full(*args: Any) -> list[Any]:
        outs = iter(closed(*args))
        return [
            next(outs) if nz else array_ops.zeros(a.cotangent_aval())
            for a, nz in zip(avals, nonzero, strict=True)
        ]

    return stage_jaxpr(full, closed.in_avals)


def _as_function(body: Body, tree: PyTreeDef) -> Callable[[Any], Any]:
    """A staged function on trees again."""
    return lambda x: pytrees.tree_unflatten(tree, body.jaxpr(*body.consts, *pytrees.tree_leaves(x)))


# --- custom_root ----------------------------------------------------------------------------------


@tracebacks.api_boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: object,
    solve: Callable[..., object],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """A root of f as `solve` finds it, differentiated by the implicit function theorem.

    f: a function of a tree of arrays that returns a tree like it, and may close over arrays.
    solve: called as solve(f, initial_guess); it need not be differentiable.
    tangent_solve: called as tangent_solve(g, y), solves g(x) = y for the linear function g, the
        derivative of f at the root. For reverse mode it must be linear in y as JAX traces it;
        custom_linear_solve, or y / g(1.0) for scalars, is.
    has_aux: solve returns (root, aux), and so does this; aux has no derivative.
    Raises TypeError if a function returns another tree than initial_guess has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> root = lambda a: jax.lax.custom_root(lambda x: x * x - a, 1., lambda f, x: jnp.sqrt(a),
    ...     lambda g, y: y / g(1.))
    >>> jax.grad(root)(4.)
    Array(0.25, dtype=float32, weak_type=True)

    Method: f(x(a), a) = 0 gives f_x dx = -f_a da. Krantz & Parks, The Implicit Function Theorem
    (2003), chapter 1.
    """
    if not (callable(f) and callable(solve) and callable(tangent_solve)):
        raise TypeError("lax.custom_root: f, solve and tangent_solve arguments should be callable.")
    flat, tree = pytrees.tree_flatten(initial_guess)
    in_tree, avals = pytrees.treedef_tuple((tree,)), avals_of("custom_root", flat)
    equation = stage_body(f, "custom_root (f)", in_tree, avals)
    _check_tree("f", f, equation.out_tree, "initial_guess", tree)
    solved = stage_anew(solve, "custom_root (solve)", in_tree, avals, lambda x: solve(f, x))
    out_tree = solved.out_tree
    if has_aux:
        children = pytrees.treedef_children(out_tree)
        if len(children) != 2:
            raise TypeError(
                "custom_root: solve must return a pair (root, aux) with has_aux=True.\n"
                f"    solve: {fun_name(solve)} at {where(solve)}"
            )
        out_tree, aux_tree = children
    _check_tree("solve", solve, out_tree, "initial_guess", tree)
    n = len(flat)
    of_equation, of_solution = (
        equation.jaxpr,
        solved.jaxpr,
    )  # the rule is kept, but not the values of constants

    def root(consts: Any, solve_consts: Any, guess: Any) -> Any:
        return tuple(of_solution(*solve_consts, *guess))

    def root_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        outs = derived(*primals)
        x = outs[:n]
        x_dot = _root_tangent(of_equation, primals[0], tangents[0], x, tree, tangent_solve)
        return outs, (*x_dot, *(array_ops.instantiate(typeof(y).zero) for y in outs[n:]))

    derived = custom_jvp(root)
    derived.defjvp(root_jvp)
    outs = derived(equation.consts, solved.consts, tuple(flat))
    x = pytrees.tree_unflatten(tree, outs[:n])
    return (x, pytrees.tree_unflatten(aux_tree, outs[n:])) if has_aux else x


def _root_tangent(
    f: ClosedJaxpr,
    consts: Sequence[Any],
    consts_dot: Sequence[Any],
    x: Sequence[object],
    tree: PyTreeDef,
    tangent_solve: Callable[..., object],
) -> list[Any]:
    """The tangent of a root of f for tangents of values that f depends on."""
    zeros = [
        typeof(c).zero if typeof(t).dtype == float0 else t
        for c, t in zip(consts, consts_dot, strict=True)
    ]
    _, moved = jvp_flat(lambda *cs: f(*cs, *x), consts, zeros)
    right = pytrees.tree_unflatten(tree, [_arithmetic.neg(array_ops.instantiate(t)) for t in moved])
    lin = linearize_flat(lambda *xs: f(*consts, *xs), x)

    def g(y: ArrayLike) -> Any:
        outs = iter(eval_jaxpr(lin.jaxpr, lin.residuals, *pytrees.tree_leaves(y)))
        return pytrees.tree_unflatten(
            tree,
            [
                next(outs) if m else array_ops.instantiate(typeof(v).zero)
                for v, m in zip(lin.outs, lin.moving_outs, strict=True)
            ],
        )

    solution = tangent_solve(g, right)
    leaves, out_tree = pytrees.tree_flatten(solution)
    _check_tree("tangent_solve", tangent_solve, out_tree, "x", tree)
    return [array_ops.convert(t, typeof(v).tangent_aval()) for t, v in zip(leaves, x, strict=True)]


def _check_tree(
    name: str, fun: Callable[..., object], tree: PyTreeDef, expected_name: str, expected: object
) -> None:
    if tree != expected:
        raise TypeError(
            f"{name}() output pytree structure must match {expected_name}, got {tree} and "
            f"{expected}.\n    {name}: {fun_name(fun)} at {where(fun)}"
        )
