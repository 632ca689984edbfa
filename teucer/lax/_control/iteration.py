"""scan and fori_loop, as users call them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import config, dtypes, errors, tracebacks
from teucer._core import array_ops
from teucer._core import reference_types as references
from teucer._core.calls import fun_name, where
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.reference_types import is_reference, refuse_parts
from teucer._core.stage import StageTracer, stage_jaxpr
from teucer._core.trace import Tracer, typeof
from teucer._core.types import Aval
from teucer._dimensions.dimensions import is_symbolic, max_dim
from teucer._transform.batch import mapped_aval
from teucer._trees import pytrees
from teucer.lax import _arithmetic, _joining, _shapes, _slicing, _structure
from teucer.lax._control import bodies
from teucer.lax._control.scan import scan_p
from teucer.lax._control.while_loop import run_while
from teucer.lax._families import scalar_like

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike
    from teucer._xla.pytree import PyTreeDef

__all__ = ["fori_loop", "scan"]


@tracebacks.api_boundary
def scan(
    f: Callable[..., Any],
    init: object,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """A loop over the leading axis of arrays, with a carry, as one operation: (carry, x) -> (carry,
    y) at each step.

    f: called as f(carry, x), where x is an element of each array in xs; traced once. The carry that
        it returns has the tree, shapes and dtypes of `init`; where `init` is weakly typed it takes
        the dtypes that f makes of it.
    xs: a tree of arrays with one leading size, or None with `length` given.
    reverse: step from the last element to the first; ys stay in the order of xs.
    unroll: how many steps make one iteration of the compiled loop; True or 0 for all of them.
    _split_transpose: taken for the sake of programs that give it; the order of work in the backward
    pass is XLA's. Returns (last carry, ys stacked along a new leading axis).
    Raises TypeError if f does not return a pair, or a carry of another type than it takes;
    ValueError if leading sizes differ from each other or from `length`.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.lax.scan(lambda total, x: (total + x, total), 0., jnp.arange(4.))
    (Array(6., dtype=float32), Array([0., 0., 1., 3.], dtype=float32, weak_type=True))
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    return run_scan(f, init, xs, length, reverse, unroll)


def run_scan(
    f: Callable[..., object],
    init: Any,
    xs: object,
    length: int | None,
    reverse: bool,
    unroll: int | bool,
    what: str = "scan",
    call: Callable[..., object] | None = None,
) -> tuple[Any, Any]:
    """scan for the function `what`. `call`: called in place of `f`; it is traced each time, as in
    JAX."""
    stage = bodies.stage_body if call is None else bodies.stage_anew
    call = f if call is None else call
    flat_xs, xs_tree = pytrees.tree_flatten(xs)
    refuse_parts(xs_tree, "Among the xs of scan")
    flat_init, init_tree = pytrees.tree_flatten(init)
    x_avals, init_avals = bodies.avals_of("scan", flat_xs), bodies.avals_of("scan", flat_init)
    in_tree = pytrees.treedef_tuple((init_tree, xs_tree))
    flat, avals = [*flat_init, *flat_xs], [*init_avals, *x_avals]
    bodies.refuse_shared(f, what, in_tree, avals, flat)
    if any(map(is_reference, x_avals)):
        return _scan_references(
            call, init, flat_xs, xs_tree, x_avals, (length, reverse, unroll, what)
        )
    length = _length(x_avals, xs_tree, length)
    if config.disable_jit.value:
        return _python_scan(call, init, flat_xs, xs_tree, length, reverse)
    for a in x_avals:
        if not a.is_high and a.partition is not None and a.partition.spec[0] is not None:
            raise ValueError(
                f"0th dimension of all xs should be replicated. Got {a.partition.spec}\n"
                f"    {what}: {a.str_short(short_dtypes=True)}\n"
                "  Lay xs out otherwise with jax.reshard."
            )
    elements = [
        a.dec_rank(length, a.leading_axis_spec()) if a.is_high else mapped_aval(a, 0)
        for a in x_avals
    ]
    name = next(iter(bodies.parameter_names(f)), "carry")

    def check(body: bodies.Body) -> None:
        bodies.refuse_shared(f, what, in_tree, avals, flat, body.consts)
        _check_pair(f, body)
        bodies.check_carry("scan", f, name, init_tree, None, body.out_tree.children()[0], ())

    n = len(flat_init)
    body, carry = bodies.settle_carry(
        lambda avals: stage(f, what, in_tree, [*avals, *elements], call),
        flat_init,
        init_avals,
        check,
        f,
    )
    in_avals = body.jaxpr.in_avals[len(body.consts) : len(body.consts) + n]
    bodies.check_carry("scan", f, name, init_tree, in_avals, init_tree, body.jaxpr.out_avals[:n])
    outs = bind_scan(
        (body.consts, carry, flat_xs),
        body.jaxpr,
        length=length,
        reverse=bool(reverse),
        unroll=unrolled(unroll, length),
    )
    _, ys_tree = body.out_tree.children()
    return pytrees.tree_unflatten(init_tree, outs[:n]), pytrees.tree_unflatten(ys_tree, outs[n:])


def _scan_references(
    call: Callable[..., Any],
    init: Any,
    xs: Sequence[Any],
    xs_tree: Any,
    avals: Sequence[ShapedArray],
    how: tuple[Any, ...],
) -> tuple[Any, Any]:
    """scan over references: each step gets a reference to its row, which is written back if the
    step changes it."""
    length, reverse, unroll, what = how
    n = _length(avals, xs_tree, length)
    refs = [i for i, a in enumerate(avals) if is_reference(a)]
    arrays = [x for i, x in enumerate(xs) if i not in refs]

    def step(carry: ArrayLike, row: Array) -> Any:
        at, given = row[0], iter(row[1:])
        own = {i: array_ops.new_reference(xs[i][at]) for i in refs}
        out = call(
            carry,
            pytrees.tree_unflatten(
                xs_tree, [own[i] if i in own else next(given) for i in range(len(xs))]
            ),
        )
        for i, ref in own.items():
            if _is_written(ref):
                xs[i][at] = array_ops.read_reference(ref)
        return out

    step.__name__ = fun_name(call)
    return run_scan(
        step, init, (_shapes.iota(np.dtype(np.int32), n), *arrays), n, reverse, unroll, what
    )


def bind_scan(
    operands: tuple[Sequence[ArrayLike], Sequence[ArrayLike], Sequence[ArrayLike]],
    jaxpr: ClosedJaxpr,
    **params: object,
) -> list[Any]:
    """Bind scan_p on (consts, carry, xs). Values that the body passes on are not looped: a carry
    that it returns unchanged becomes a constant, and ys that are xs are not copied."""
    consts, carry, xs = operands
    n_consts, n_carry = len(consts), len(carry)
    in_carry, in_xs = bodies.split_list(jaxpr.jaxpr.invars[n_consts:], n_carry)
    out_carry, out_ys = bodies.split_list(jaxpr.jaxpr.outvars, n_carry)
    fixed = [i for i in range(n_carry) if out_carry[i] is in_carry[i]]
    looped = [i for i in range(n_carry) if out_carry[i] is not in_carry[i]]
    number = {v: k for k, v in enumerate(in_xs)}
    made = [j for j, v in enumerate(out_ys) if v not in number]
    inner = bodies.reordered(
        jaxpr,
        [
            *range(n_consts),
            *(n_consts + i for i in fixed + looped),
            *range(n_consts + n_carry, len(jaxpr.in_avals)),
        ],
        [*looped, *(n_carry + j for j in made)],
    )
    outs = iter(
        scan_p.call(
            *consts,
            *(carry[i] for i in fixed + looped),
            *xs,
            jaxpr=inner,
            num_consts=n_consts + len(fixed),
            num_carry=len(looped),
            **params,
        )
    )
    found: dict[int, Any] = dict(zip([*looped, *(n_carry + j for j in made)], outs, strict=True))
    found |= {i: _as_array(carry[i], in_carry[i].aval) for i in fixed}
    found |= {
        n_carry + j: _as_array(xs[number[v]], typeof(xs[number[v]]))
        for j, v in enumerate(out_ys)
        if v in number
    }
    return [found[i] for i in range(n_carry + len(out_ys))]


def _as_array(x: ArrayLike, aval: ShapedArray) -> Any:
    return (
        x
        if _shapes.is_array(x) or config.tracing.value or aval.is_high
        else array_ops.convert(x, aval)
    )


def _length(x_avals: Sequence[ShapedArray], xs_tree: Any, length: Any) -> Any:
    """The number of steps.

    Raises ValueError if leading sizes differ, or there is nothing that says it.
    """
    x_avals = [low for aval in x_avals for low in aval.lo_ty()]
    for i, aval in enumerate(x_avals):
        if not aval.shape:
            raise ValueError(
                "scan got value with no leading axis to scan over: "
                f"xs{_path(xs_tree, i)}: {aval.str_short(short_dtypes=True)}."
            )
    sizes = [aval.shape[0] for aval in x_avals]
    if isinstance(length, Tracer):
        raise errors.ConcretizationTypeError(
            length,
            "The `length` argument to `scan` expects a concrete `int` value. For "
            "scan-like iteration with a dynamic length, use `while_loop` or `fori_loop`.",
        )
    if length is not None:
        given = length if is_symbolic(length) else int(length)
        if any(n != given for n in sizes):
            raise ValueError(
                f"scan got `length` argument of {given} which disagrees with leading axis sizes "
                f"{list(dict.fromkeys(sizes))}.{_sizes_text(x_avals, xs_tree)}"
            )
        return max_dim(given, 0)
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            "scan got values with different leading axis sizes: "
            f"{', '.join(str(a.shape[0]) for a in x_avals)}.{_sizes_text(x_avals, xs_tree)}"
        )
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return sizes[0]


def _path(tree: PyTreeDef, i: int) -> str:
    return pytrees.keystr(tuple(pytrees.leaf_paths(tree))[i])


def _sizes_text(x_avals: Sequence[ShapedArray], xs_tree: Any) -> str:
    return "".join(
        f"\n    xs{_path(xs_tree, i)}: {a.str_short(short_dtypes=True)}"
        for i, a in enumerate(x_avals)
    )


def unrolled(unroll: int | bool, length: int) -> int:
    """The number of steps in an iteration, at least 1."""
    if not bodies.is_concrete(unroll):
        raise errors.ConcretizationTypeError(
            unroll, "The `unroll` argument to `scan` expects a concrete `int` or `bool` value."
        )
    if not isinstance(unroll, bool | int | np.integer) or unroll < 0:
        raise ValueError(f"`unroll` must be a `bool` or a non-negative `int`, got {unroll!r}.")
    if isinstance(unroll, bool):
        return operator.index(max_dim(length, 1)) if unroll else 1
    return operator.index(max_dim(int(unroll) or length, 1))


def _check_pair(f: Callable[..., object], body: bodies.Body) -> None:
    children = body.out_tree.children()
    if (
        body.out_tree.node_data() is None
        or len(children) != 2
        or body.out_tree.node_data()[0] is not tuple
    ):
        outs = pytrees.tree_unflatten(body.out_tree, body.jaxpr.out_avals)
        raise TypeError(
            "scan body output must be a pair, got "
            f"{outs.str_short() if isinstance(outs, Aval) else repr(outs)}.\n"
            f"    function: {fun_name(f)} at {where(f)}\n  Return (carry, y); y may be None."
        )


def _python_scan(
    f: Callable[[Any, Any], Any],
    init: ArrayLike,
    flat_xs: Sequence[Any],
    xs_tree: Any,
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """scan as a Python loop, under disable_jit."""
    if length == 0:
        raise ValueError(
            "zero-length scan is not supported in disable_jit() mode because the output type is "
            "unknown."
        )
    carry, rows = bodies.immutable(init), []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(
            carry,
            pytrees.tree_unflatten(
                xs_tree, [_slicing.index_in_dim(x, i, keepdims=False) for x in flat_xs]
            ),
        )
        rows.append(y)
    if reverse:
        rows.reverse()
    return carry, pytrees.tree_map(lambda *ys: _stack(ys), *rows)


def _stack(ys: Sequence[Any]) -> Any:
    rows = [_structure.expand(y, 1, 0) for y in ys]
    return _joining.concatenate(rows, 0)


# --- fori_loop ------------------------------------------------------------------------------------


@tracebacks.api_boundary
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """val = body_fun(i, val) for i = lower, lower + 1, ..., upper - 1.

    If lower and upper are known when the program is traced, this is a `scan` from int(lower) to
    int(upper), and reverse mode keeps each step; otherwise it is a `while_loop`. For upper <= lower
    the value is init_val.
    unroll: how many steps make one iteration of the compiled loop; only where the bounds are known.
    There body_fun gets i as a weakly typed integer, and elsewhere in the dtype of `lower`. Raises
    TypeError if the bounds differ in dtype, or body_fun returns another type than it takes.

    >>> import teucer as jax
    >>> jax.lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    lower, upper = _matched_bounds(lower, upper)
    bounds = _known_bounds(lower, upper)
    if config.disable_jit.value and bounds is not None:
        val = bodies.immutable(init_val)
        for i in range(*bounds):
            val = body_fun(i, val)
        return val
    flat, tree = pytrees.tree_flatten(init_val)
    avals = bodies.avals_of("fori_loop", flat)
    name = next(iter(bodies.parameter_names(body_fun)[1:]), "loop_carry[1]")
    if bounds is None:
        if unroll is not None:
            raise ValueError(
                "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
            )
        return _dynamic_fori((lower, upper), body_fun, flat, tree, avals, name)
    in_tree = pytrees.treedef_tuple((pytrees.tree_structure(0), tree))

    def check(body: bodies.Body) -> None:
        bodies.check_carry("fori_loop", body_fun, name, tree, None, body.out_tree, ())

    body, carry = bodies.settle_carry(
        lambda avals: bodies.stage_body(body_fun, "fori_loop", in_tree, [typeof(0), *avals]),
        flat,
        avals,
        check,
        body_fun,
    )
    n = len(body.consts)
    bodies.check_carry(
        "fori_loop", body_fun, name, tree, body.jaxpr.in_avals[n + 1 :], tree, body.jaxpr.out_avals
    )
    length = max(bounds[1] - bounds[0], 0)
    outs = bind_scan(
        (body.consts, [bounds[0], *carry], ()),
        _counting(body.jaxpr, n),
        length=length,
        reverse=False,
        unroll=unrolled(1 if unroll is None else unroll, length),
    )
    return pytrees.tree_unflatten(tree, outs[1:])


def _matched_bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Any, Any]:
    """The bounds in one dtype: a weakly typed integer takes the dtype of the other.

    Raises TypeError if they are not scalars, or of different dtypes.
    """
    avals = one, other = bodies.avals_of("fori_loop", (lower, upper))
    if one.shape or other.shape:
        raise TypeError(
            "fori_loop: lower and upper must be scalars.\n"
            f"    lower: {one.str_short(short_dtypes=True)}\n"
            f"    upper: {other.str_short(short_dtypes=True)}"
        )
    if one.dtype == other.dtype:
        return lower, upper
    integers = all(dtypes.issubdtype(a.dtype, np.integer) for a in avals)
    if not integers or one.weak_type is other.weak_type:
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{one.dtype.name} and {other.dtype.name}"
        )
    dtype = other.dtype if one.weak_type else one.dtype
    return tuple(
        _structure.number(x, dtype)
        if isinstance(x, int)
        else _structure.convert_element_type(x, dtype)
        for x in (lower, upper)
    )


def _known_bounds(lower: Any, upper: Any) -> tuple[int, int] | None:
    """The bounds as integers, if they are known: floats lose their fractions.

    Raises OverflowError if they do not fit the counter, an integer of default width; ValueError for
    NaN.
    """
    if not (bodies.is_concrete(lower) and bodies.is_concrete(upper)) or dtypes.issubdtype(
        typeof(lower).dtype, np.complexfloating
    ):
        return None
    bounds = int(lower), int(upper)
    np.asarray(bounds, typeof(0).dtype)
    return bounds


def _counting(jaxpr: ClosedJaxpr, n_consts: int) -> ClosedJaxpr:
    """(consts, i, value) -> value as (consts, i, value) -> (i + 1, value)."""

    def step(*args: Array) -> list[Any]:
        i = args[n_consts]
        return [_arithmetic.add(i, scalar_like(i, 1)), *jaxpr(*args)]

    return jaxpr.kept("counting", lambda: stage_jaxpr(step, jaxpr.in_avals, jaxpr.jaxpr.debug_info))


def _below(carry: Array) -> Any:
    i, upper, _ = carry
    return _arithmetic.lt(i, upper)


def _dynamic_fori(
    bounds: tuple[object, object],
    body_fun: Callable[..., object],
    flat: Sequence[object],
    tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    name: str,
) -> Any:
    def step(carry: Array) -> Any:
        i, upper, val = carry
        return _arithmetic.add(i, scalar_like(i, 1)), upper, body_fun(i, val)

    one = pytrees.tree_structure(0)
    whole = pytrees.treedef_tuple((one, one, tree))
    return run_while(
        _below,
        body_fun,
        [*bounds, *flat],
        whole,
        [*map(typeof, bounds), *avals],
        "loop_carry",
        call=step,
        what="fori_loop",
    )[2]


def _is_written(ref: StageTracer) -> bool:
    """Whether the program being recorded changes the array of a reference."""
    return any(
        eqn.invars[i] is ref._var
        for eqn in ref._trace.eqns  # type: ignore[attr-defined]
        if eqn.effects
        for i in references.touched(eqn.effects).written
    )
