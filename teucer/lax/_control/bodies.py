"""Helpers of control flow.

User functions staged as jaxprs without constants, carries whose types settle, transformed jaxprs
put in order, and running a primitive that carries jaxprs as one program. Also predicates, and the
branch that one chooses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._arrays import transfer
from teucer._base import config, dtypes, memo
from teucer._core import array_ops, axes
from teucer._core import reference_types as references
from teucer._core.calls import flatten_results, fun_name, where
from teucer._core.debug_info import DebugInfo
from teucer._core.high import fits, is_mutable, stated
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, Var
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_flat
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._derived.jit_references import arrays, run_apart
from teucer._devices.placement import placement_of, spread
from teucer._dialects.references.aliases import refuse_aliases
from teucer._dimensions.dimensions import Dimension
from teucer._optimize.effects import Effect
from teucer._programs.compile import program_for
from teucer._programs.eager import check_no_tracers
from teucer._programs.job import Job
from teucer._transform.jit_calls import execute, hoist_consts, hoisted, jaxpr_uses_axis
from teucer._trees import pytrees, tree_errors
from teucer.lax import _arithmetic, _shapes, _structure

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Value
    from teucer._lower.context import Context
    from teucer._xla.pytree import PyTreeDef

__all__ = [
    "Body", "as_index", "avals_of", "check_carry", "check_pred", "difference", "filler", "hoisted",
    "is_concrete", "jaxprs_use_axis", "kind_text", "order_in", "order_out", "parameter_names",
    "refuse_io", "refuse_shared", "reordered", "run", "same_type", "set_order", "settle_carry",
    "split_list", "stage_anew", "stage_body", "without_dead",
]  # fmt: skip


class Body(NamedTuple):
    """A function staged for control flow. Values that it closes over are the first inputs of its
    jaxpr, with values `consts`."""

    jaxpr: ClosedJaxpr
    consts: tuple[Any, ...]
    out_tree: Any


# By function, then by signature, as for jit: a loop run again with the same function is not traced
# again.
_staged = memo.Memo()


def stage_body(
    fun: Callable[..., object],
    what: str,
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    call: Callable[..., object] | None = None,
) -> Body:
    """Stage `fun` on arguments of a tree and types, or find it staged.

    in_tree: of the tuple of positional arguments. call: called in place of `fun`; it
    depends on `fun` and `what` alone.
    """
    key = (what, in_tree, tuple(avals), config.trace_context(), axes.axis_key())
    by_signature = _staged.of(fun)
    found: Body | None = by_signature.get(key)
    if found is None or not fits(found.jaxpr.in_avals, found.consts):
        found = stage_anew(fun, what, in_tree, avals, fun if call is None else call)
        if not any(isinstance(c, Tracer) for c in found.consts):
            memo.remember(by_signature, key, found)
    return found


def stage_anew(
    fun: Callable[..., object],
    what: str,
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    call: Callable[..., object],
) -> Body:
    """As `stage_body`, without the cache: for a `call` that depends on more than `fun`."""
    info = DebugInfo(fun, _argument_names(fun, in_tree), what)
    trees: list[Any] = []

    def flat(*leaves: Array) -> list[Any]:
        outs, tree = flatten_results(call(*pytrees.tree_unflatten(in_tree, leaves)), what, info)
        trees.append(tree)
        return outs

    jaxpr, consts = stage_flat(flat, avals, info)
    return Body(hoist_consts(jaxpr), tuple(consts), trees[-1])


def _argument_names(fun: Callable[..., object], in_tree: PyTreeDef) -> tuple[str, ...]:
    names = parameter_names(fun)
    return tuple(
        (
            f"{names[head.idx] if head.idx < len(names) else f'args[{head.idx}]'}"
            f"{pytrees.keystr(tuple(rest))}"
        )
        for head, *rest in tree_errors.leaf_paths(in_tree)
    )


def refuse_shared(
    fun: Callable[..., object],
    what: str,
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    operands: Sequence[ArrayLike],
    consts: Sequence[object] = (),
) -> None:
    """Raise ValueError if one reference is two operands of `fun`, or is an operand and closed
    over."""
    if references.may_alias(operands):
        refuse_aliases(
            avals,
            operands,
            consts,
            f"{fun_name(fun)} at {where(fun)}",
            what,
            lambda: _argument_names(fun, in_tree),
        )


def parameter_names(fun: Callable[..., object]) -> list[str]:
    """Names of the positional parameters, as far as known."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def avals_of(op: str, leaves: Sequence[object]) -> list[Any]:
    """The types of the leaves of an argument.

    Raises TypeError for one that is not an array.
    """
    for x in leaves:
        if not is_valid_type(x):
            raise TypeError(
                f"{op}: Argument '{x!s:.100}' of type {type(x)} is not a valid JAX type.\n"
                "  Arguments are arrays, numbers, and pytrees of them; close over anything else."
            )
    return [stated(x) for x in leaves]


def split_list(xs: Sequence[object], *sizes: int) -> list[list[Any]]:
    """A sequence cut in parts of the given sizes, and the rest."""
    parts, at = [], 0
    for n in sizes:
        parts.append(list(xs[at : at + n]))
        at += n
    return [*parts, list(xs[at:])]


def is_concrete(x: ArrayLike) -> bool:
    """Whether the number is known while the Python program runs."""
    return not isinstance(x, Tracer | Dimension) or (
        isinstance(x, Tracer) and x.concrete() is not None
    )


def immutable(tree: Any) -> Any:
    """A tree with NumPy's arrays as ours: under disable_jit too, a body that says `x += 1` changes
    no array of its caller's."""
    return pytrees.tree_map(
        lambda x: transfer.put(x, None) if isinstance(x, np.ndarray) else x, tree
    )


# --- Carries --------------------------------------------------------------------------------------


def settle_carry(
    stage: Callable[[list[Any]], Body],
    init: Sequence[Any],
    avals: Sequence[ShapedArray],
    check: Callable[[Body], None],
    fun: Callable[..., object],
) -> tuple[Body, list[Any]]:
    """Stage a body whose carry may be weakly typed: where the body makes another dtype of it, it
    gives way. Where the body makes a strong type of the same dtype the two need not agree: the
    loop's result is strong.

    stage: types of the carry -> body, whose first results are the next carry. check: raises if
    trees differ.
    fun: the body. Loops of Teucer's own functions know nothing of devices. There the carry is cast
    to vary over the manual mesh axes over which the body makes it vary. Users say so themselves, as
    in JAX.
    Returns the body and the initial carry, converted.
    """
    current, ours = list(avals), str(getattr(fun, "__module__", "")).startswith("teucer.")
    while True:
        body = stage(current)
        check(body)
        outs = body.jaxpr.out_avals[: len(current)]
        settled = [_settled(i, o) for i, o in zip(current, outs, strict=True)]
        if ours:
            settled = [
                i.update(vma=i.vma | o.vma)
                if isinstance(i, ShapedArray) and isinstance(o, ShapedArray)
                else i
                for i, o in zip(settled, outs, strict=True)
            ]
        if settled == current:
            return body, [
                _settled_value(x, i, a) for x, i, a in zip(init, avals, current, strict=True)
            ]
        current = settled


def _settled_value(x: ArrayLike, aval: ShapedArray, settled: Any) -> Any:
    """The initial value of a component of the carry, of type `aval`, as a value of its settled
    type."""
    if settled is aval:
        return x
    return array_ops.vary(
        x if settled.dtype == aval.dtype else array_ops.convert(x, settled), settled.vma
    )


def _settled(aval: ShapedArray, out: Any) -> Any:
    """The type of a component of the carry, after the body has made `out` of `aval`."""
    if (
        type(aval) is not ShapedArray
        or not aval.weak_type
        or aval.shape != out.shape
        or isinstance(out.dtype, dtypes.ExtendedDType)
        or out.dtype == aval.dtype
    ):
        return aval
    return aval.update(dtype=dtypes.result_type(aval, out), weak_type=False)


def check_carry(
    op: str,
    fun: Callable[..., object],
    name: str,
    in_tree: PyTreeDef,
    in_avals: Sequence[ShapedArray] | None,
    out_tree: PyTreeDef,
    out_avals: Sequence[ShapedArray],
) -> None:
    """Raise TypeError unless a body returns a carry of the tree, and if in_avals are given of the
    types, that it takes.

    name: how the body calls its carry.
    """
    head = f"{op} body function carry input and carry output must have"
    if in_tree != out_tree:
        lines = [
            f"The input carry {_component(name, path)} is a {kind_text(one)} but the "
            f"corresponding component of the carry output is a {kind_text(other)}, so {why}."
            for path, one, other, why in tree_errors.equality_errors_pytreedef(in_tree, out_tree)
        ]
        raise TypeError(
            _carry_message(
                f"{head} the same pytree structure",
                fun,
                lines,
                "Revise the function so that the carry output has the same pytree structure as the "
                "carry input.",
            )
        )
    if in_avals is None:
        return
    lines = [
        f"The input carry {_component(name, path)} has type {one.str_short()} but the "
        f"corresponding output carry component has type {other.str_short()}, so "
        f"{difference(one, other)}."
        for path, one, other in zip(
            tree_errors.leaf_paths(in_tree), in_avals, out_avals, strict=True
        )
        if not same_type(one, other)
    ]
    if lines:
        of_carry = "initial carry value corresponding to the input carry"
        hints = vma_hints(
            (one, other, f"{of_carry} {_component(name, path)}")
            for path, one, other in zip(
                tree_errors.leaf_paths(in_tree), in_avals, out_avals, strict=True
            )
        )
        remedy = "Revise the function so that all output types match the corresponding input types."
        raise TypeError(
            _carry_message(f"{head} equal types", fun, lines, "\n".join([*hints, remedy]))
        )


def _carry_message(head: str, fun: Callable[..., object], lines: Sequence[str], remedy: str) -> str:
    """A line for each component that differs; of several, each is an item of a list."""
    if len(lines) > 1:
        items = [line[0].lower() + line[1:].rstrip(".") for line in lines]
        said = ";\n".join(f"  * {item}" for item in items) + "."
    else:
        said = "".join(lines)
    return (
        f"{head}, but they differ:\n\n{said}\n\n{remedy}\n"
        f"    function: {fun_name(fun)} at {where(fun)}"
    )


def vma_hints(values: Iterable[tuple[object, object, str]]) -> list[str]:
    """Remedies for values whose first type varies over fewer manual axes than the second. values:
    (first type, second type, name in messages)."""
    hints = [
        f"applying `jax.lax.pcast(..., {axes}, to='varying')` to the {what}."
        for one, other, what in values
        if isinstance(one, ShapedArray)
        and isinstance(other, ShapedArray)
        and (axes := tuple(sorted(other.vma - one.vma, key=str)))
    ]
    if len(hints) > 1:
        return ["\n  * ".join(["This might be fixed by:", *hints])]
    return [f"This might be fixed by {hint}" for hint in hints]


def _component(name: str, path: Any) -> str:
    return f"component {name}{pytrees.keystr(tuple(path))}" if path else name


def kind_text(kind: str) -> str:
    """A node of a tree as messages name it, without an article."""
    return "pytree leaf" if kind == "a leaf" else kind.removeprefix("a ")


def same_type(x: Any, y: ShapedArray) -> bool:
    """Whether two types agree but for weakness."""
    if x.is_high:
        return bool(x == y)
    return x is y or (
        type(x) is type(y) is ShapedArray
        and x.shape == y.shape
        and x.dtype == y.dtype
        and x.vma == y.vma
        and x.partition is y.partition
    )


def difference(x: Any, y: Any) -> str:
    """The differences between two types."""
    if type(x) is not type(y) or x.is_high:
        return "the kinds of type do not match"
    parts = [
        text
        for text, differ in (
            ("the dtypes do not match", x.dtype != y.dtype),
            ("the shapes do not match", x.shape != y.shape),
            ("the shardings do not match", x.partition is not y.partition),
            ("the manual axis types do not match", x.vma != y.vma),
        )
        if differ
    ]
    return ", and ".join(parts)


def check_branches(
    op: str, funs: Sequence[Any], names: Sequence[str], bodies: Sequence[Body]
) -> None:
    """Raise TypeError unless all branches return what the first does."""
    first = bodies[0]
    for fun, name, body in zip(funs[1:], names[1:], bodies[1:], strict=True):
        about = [
            f"    {names[0]} is {fun_name(funs[0])} at {where(funs[0])}",
            f"    {name} is {fun_name(fun)} at {where(fun)}",
        ]
        if body.out_tree != first.out_tree:
            lines = [
                f"    {names[0]} output{_at(path)} is a {kind_text(one)} but {name} "
                f"output{_at(path)} is a {kind_text(other)}, so {why}."
                for path, one, other, why in tree_errors.equality_errors_pytreedef(
                    first.out_tree, body.out_tree
                )
            ]
            raise TypeError(
                "\n".join(
                    [
                        (
                            f"{op} branch outputs must have the same pytree structure, but they "
                            "differ:"
                        ),
                        *about,
                        *lines,
                        (
                            f"  Revise {names[0]} and/or {name} so that they have the same pytree "
                            "structure."
                        ),
                    ]
                )
            )
        pairs = list(
            zip(
                tree_errors.leaf_paths(first.out_tree),
                first.jaxpr.out_avals,
                body.jaxpr.out_avals,
                strict=True,
            )
        )
        lines = [
            f"    The output of {names[0]}{_at(path)} has type {one.str_short()} but the "
            f"corresponding output of {name} has type {other.str_short()}, so "
            f"{difference(one, other)}."
            for path, one, other in pairs
            if not same_type(one, other)
        ]
        if lines:
            hints = vma_hints(
                [
                    *((a, b, f"output of {names[0]}{_at(path)}") for path, a, b in pairs),
                    *((b, a, f"output of {name}{_at(path)}") for path, a, b in pairs),
                ]
            )
            lines += [f"    {hint}" for hint in hints]
            raise TypeError(
                "\n".join(
                    [
                        f"{op} branches must have equal output types but they differ.",
                        *about,
                        *lines,
                        f"  Revise {names[0]} and/or {name} so that all output types match.",
                    ]
                )
            )


def _at(path: Any) -> str:
    return f" at path {pytrees.keystr(tuple(path))}" if path else ""


# --- Jaxprs ---------------------------------------------------------------------------------------


def reordered(closed: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int]) -> ClosedJaxpr:
    """The jaxpr without constants that has only the inputs and results with the given numbers, in
    that order."""
    ins, outs = tuple(ins), tuple(outs)
    if ins == tuple(range(len(closed.jaxpr.invars))) and outs == tuple(
        range(len(closed.jaxpr.outvars))
    ):
        return closed

    def make() -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        return ClosedJaxpr(
            jaxpr.replace(
                invars=[jaxpr.invars[i] for i in ins], outvars=[jaxpr.outvars[i] for i in outs]
            )
        )

    return closed.kept(("order", ins, outs), make)


def without_dead(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without equations that nothing uses; all of its inputs stay."""
    live = {v for v in jaxpr.outvars if isinstance(v, Var)}
    eqns = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not live.isdisjoint(eqn.outvars):
            eqns.append(eqn)
            live.update(v for v in eqn.invars if isinstance(v, Var))
    return jaxpr.replace(eqns=eqns[::-1])


def jaxprs_use_axis(jaxprs: Iterator[Any] | Sequence[Any], name: str) -> bool:
    """Whether closed jaxprs use a named axis."""
    return name is not None and any(jaxpr_uses_axis(closed.jaxpr, name) for closed in jaxprs)


def refuse_io(op: str, effects: Iterable[object]) -> None:
    """Refuse io_callback in a vmapped loop or branch, where it would run for elements that do not
    take part. Raises NotImplementedError."""
    if any(isinstance(e, Effect) and e.kind == "io" for e in effects):
        raise NotImplementedError(
            f"IO effect not supported in vmap-of-{op}.\n  With a predicate that differs from "
            "element to element both branches run, or the body runs for elements that are done, "
            "and so would an io_callback in it."
        )


def order_in(ctx: Context, effects: Iterable[object]) -> list[Any]:
    """The value that ordered callbacks in a region wait for, as a list of operands of the region.
    The list is empty where no effect is ordered."""
    if not any(isinstance(e, Effect) and e.ordered for e in effects):
        return []
    return [ctx.order or ctx.constant(False)]


def set_order(ctx: Context, order: Sequence[Any]) -> None:
    """Let the callbacks that follow in this block wait for a value; `order` holds it, or
    nothing."""
    for value in order:
        ctx.order = value


def order_out(ctx: Context, order: Sequence[object]) -> list[Any]:
    """The value that later callbacks wait for, as a list. It is empty where `order` is empty."""
    return [ctx.order] if order else []


def run(
    primitive: Primitive,
    args: Sequence[Value],
    params: Mapping[str, Any],
    owner: ClosedJaxpr,
    outs: Sequence[object] = (),
) -> tuple[Any, ...]:
    """Run a primitive that carries jaxprs as one program. The program is cached on the jaxpr
    `owner`, one of them.

    outs: the shardings of results, None where the compiler chooses.
    """
    check_no_tracers(args)
    places: Sequence[int] = range(len(args))
    first = {id(x): i for i, x in reversed(list(enumerate(args))) if is_mutable(typeof(x))}
    if first:  # what changes is one argument, even if condition and body of a loop both take it
        own = [i for i, x in enumerate(args) if first.get(id(x), i) == i]
        places = [own.index(first.get(id(x), i)) for i, x in enumerate(args)]
        args = [args[i] for i in own]
    avals = tuple([stated(x) for x in args])

    def make() -> Jaxpr:
        return stage_flat(
            lambda *xs: primitive.call(*[xs[i] for i in places], **params),
            avals,
            DebugInfo(str(primitive.name)),
        )[0]

    jaxpr = owner.kept(("run", primitive, avals, tuple(params.items()), *places), make)
    given = arrays(args)
    placement = placement_of(given) if not any(outs) else spread(given, None, outs)
    job = Job(jaxpr, str(primitive.name), placement, (False,) * len(args))
    if jaxpr.dialects and (found := run_apart(job, args)) is not None:
        return tuple(found)
    return tuple(execute(program_for(job), ClosedJaxpr(jaxpr), args))


def filler(aval: ShapedArray) -> Any:
    """A value of a type, for operands whose elements are never read."""
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return _shapes.empty_p.call(shape=aval.shape, dtype=aval.dtype, out_sharding=None)[0]
    return array_ops.zeros(aval)


def check_pred(pred: ArrayLike) -> None:
    if pred is None:
        raise TypeError("cond predicate is None")
    if callable(pred):
        raise TypeError(f"Pred type must be either boolean or number, got {pred}.")
    try:
        aval = typeof(pred)
    except TypeError:
        raise TypeError(f"Pred must be a scalar, got {pred!s:.100} of type {type(pred)}") from None
    if aval.shape:
        raise TypeError(f"Pred must be a scalar, got {pred} of shape {aval.shape}.")
    if isinstance(aval.dtype, dtypes.ExtendedDType) or dtypes.issubdtype(
        aval.dtype, np.complexfloating
    ):
        raise TypeError(f"Pred type must be either boolean or number, got {aval.str_short()}.")


def as_index(pred: object) -> Any:
    dtype = typeof(pred).dtype
    if dtype != np.bool_:
        pred = _arithmetic.ne(pred, _structure.number(0, dtype))
    if isinstance(pred, bool | np.bool_):
        return np.int32(pred)
    return _structure.convert_element_type(pred, np.dtype(np.int32))
