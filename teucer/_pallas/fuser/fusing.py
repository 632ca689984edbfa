"""`fuse`: the program around a fusible function is cut into a part before it and a part behind,
which are handed to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import tracebacks
from teucer._core.calls import debug_info, flatten_call, flatten_results
from teucer._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eval_jaxpr, interpret
from teucer._core.stage import stage_flat, stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import Aval, ShapedArray, is_valid_type
from teucer._pallas.fuser.fusible import (
    Fused,
    Fusion,
    carries,
    consts_of,
    custom_fusion_p,
    fusible_p,
)
from teucer._transform.jit_calls import jit_p
from teucer._trees import pytrees
from teucer.lax import dynamic_slice_p

if TYPE_CHECKING:
    from teucer._core.typing import Array, Params, Value
    from teucer._xla.pytree import PyTree


@tracebacks.api_boundary
def fuse(
    f: Callable[..., object] | None = None,
    *,
    resolve_fusion_dtypes: bool = True,
    debug: bool = False,
    strict_mode: bool = True,
    static_argnums: Any = (),
    static_argnames: Any = (),
) -> Any:
    """A function that calls a fusible function with fusions: the parts of f before it and behind
    it.

    f: a function of arrays that calls a fusible function; of several the first is fused.
    resolve_fusion_dtypes: accepted; it is about dtypes that do not exist here. debug: print
    the jaxpr. strict_mode: as the fusions tell it.
    static_argnums, static_argnames: arguments that are no arrays.
    Raises ValueError if f calls no fusible function, or a result of f depends on two that have
    output fusions of their own.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental.pallas import fuser
    >>> @fuser.fusible
    ... def product(x, y, out):
    ...     z = x() @ y()
    ...     return z if out is None else out(z)
    >>> fuser.fuse(lambda x: jax.nn.relu(product(x - 1, x.T)))(jnp.eye(2))
    Array([[0., 0.],
           [0., 0.]], dtype=float32)
    """
    if f is None:
        return functools.partial(
            fuse,
            resolve_fusion_dtypes=resolve_fusion_dtypes,
            debug=debug,
            strict_mode=strict_mode,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    function = f
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums or ())
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames or ())

    @functools.wraps(function)
    @tracebacks.boundary_of(function)
    def fused(*args: object, **kwargs: object) -> Any:
        fixed = {i % len(args) for i in nums if -len(args) <= i < len(args)}
        moving = [x for i, x in enumerate(args) if i not in fixed]
        options = {name: kwargs[name] for name in names if name in kwargs}

        def on_moving(*values: Value, **named: object) -> Any:
            rest = iter(values)
            return function(
                *[x if i in fixed else next(rest) for i, x in enumerate(args)], **named, **options
            )

        given = {name: x for name, x in kwargs.items() if name not in options}
        leaves, closed, out_tree = traced("fuse", on_moving, function, moving, given)
        closed = inlined_where(
            closed, lambda eqn: eqn.primitive is not fusible_p and carries(fusible_p, eqn)
        )
        if debug:
            print(closed)
        return pytrees.tree_unflatten(out_tree, _fused(closed, leaves, strict_mode))

    return fused


def traced(
    what: str,
    f: Callable[..., object],
    named: Callable[..., object],
    args: Sequence[Value],
    kwargs: Params,
) -> tuple[list[Any], ClosedJaxpr, Any]:
    """The leaves of arguments, arrays or types of them, the jaxpr of a function of these, and the
    tree of its results."""
    call = flatten_call(tuple(args), kwargs)
    info = debug_info(what, named, call)
    trees: list[Any] = []

    def flat(*leaves: Value) -> list[Any]:
        outs, tree = flatten_results(call.apply(f, list(leaves)), what, info)
        trees.append(tree)
        return outs

    jaxpr, consts = stage_flat(flat, list(map(_type_of, call.leaves)), info)
    return call.leaves, ClosedJaxpr(jaxpr, consts), trees[0]


def _type_of(x: Array) -> Any:
    """The type of an argument: an array, a type, or a ShapeDtypeStruct."""
    if isinstance(x, Aval):
        return x
    if is_valid_type(x):
        return typeof(x)
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise TypeError(f"fuser: expected an array or the type of one, got {x!r:.100}.")
    return ShapedArray(tuple(x.shape), x.dtype)


def inlined_where(closed: ClosedJaxpr, wanted: Callable[[Eqn], bool]) -> ClosedJaxpr:
    """A jaxpr in which the calls that `wanted` accepts are inlined."""
    if not any(map(wanted, closed.jaxpr.eqns)):
        return closed

    def handle(eqn: Eqn, operands: tuple[object, ...]) -> Any:
        if wanted(eqn):
            if eqn.primitive is jit_p:
                return interpret(eqn.params["jaxpr"], operands, handle)
            if eqn.primitive.inlined is not None:
                found = eqn.primitive.inlined(operands, eqn.params)
                if found is not None:
                    return interpret(found[0], found[1], handle)
        return eqn.primitive.call(*operands, **eqn.params)

    return stage_jaxpr(
        lambda *args: interpret(closed, args, handle), closed.in_avals, closed.jaxpr.debug_info
    )


def without_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr in which calls are inlined, except calls with rules of their own."""
    return inlined_where(
        closed, lambda eqn: eqn.primitive.higher_order and eqn.primitive is not custom_fusion_p
    )


# --- Before and behind ----------------------------------------------------------------------------


class _Cut(NamedTuple):
    """A jaxpr around a fusible call: the equations before it or apart from it, the call, and the
    equations that depend on it."""

    before: list[Eqn]
    call: Eqn
    behind: list[Eqn]


def _cut(jaxpr: Jaxpr) -> _Cut:
    place = next((i for i, eqn in enumerate(jaxpr.eqns) if eqn.primitive is fusible_p), None)
    if place is None:
        raise ValueError(
            "fuse: No fusible eqn found: the function calls no fusible function.\n"
            "  Decorate the kernel that it calls with fuser.fusible."
        )
    call = jaxpr.eqns[place]
    depends: set[Var] = set(call.outvars)
    before, behind = list(jaxpr.eqns[:place]), []
    for eqn in jaxpr.eqns[place + 1 :]:
        if any(v in depends for v in eqn.invars if type(v) is Var):
            depends.update(eqn.outvars)
            behind.append(eqn)
        else:
            before.append(eqn)
    return _Cut(before, call, behind)


class _Scope:
    """Values of variables of a jaxpr, computed when they are asked for, by equations that each
    result needs."""

    def __init__(self, given: dict[Var, Any], info: Any, eqns: Sequence[Eqn]) -> None:
        self.given, self.info, self.eqns = given, info, eqns

    def with_equations(self, eqns: Sequence[Eqn]) -> _Scope:
        return _Scope(self.given, self.info, eqns)

    def evaluate(
        self, wanted: Sequence[Atom], values: dict[Var, Any] | None = None, effects: bool = False
    ) -> list[Any]:
        """The values of atoms. values: known values of variables. effects: whether equations with
        effects run in any case."""
        known = {**self.given, **(values or {})}
        needed = {v for v in wanted if type(v) is Var}
        chosen = []
        for eqn in reversed(self.eqns):
            if needed.intersection(eqn.outvars) or (effects and eqn.effects):
                chosen.append(eqn)
                needed.update(v for v in eqn.invars if type(v) is Var)
        ins = [v for v in known if v in needed]
        jaxpr = Jaxpr([], ins, list(wanted), chosen[::-1], debug_info=self.info)
        return eval_jaxpr(jaxpr, (), *[known[v] for v in ins])


def _fused(closed: ClosedJaxpr, args: Sequence[Value], strict: bool) -> list[Any]:
    """The results of a jaxpr, by its fusible function."""
    jaxpr, cut = closed.jaxpr, _cut(closed.jaxpr)
    what: Fused = cut.call.params["fused"]
    given = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))
    scope = _Scope(given, jaxpr.debug_info, cut.before)
    inputs = _inputs(cut, what, scope, strict)
    groups = what.groups()
    of_group = _results_by_group(jaxpr, cut, groups)
    own_of_group = [
        [v for v, g in zip(cut.call.outvars, groups, strict=True) if g == k]
        for k in range(len(of_group))
    ]
    outputs = [
        _output(cut, scope, own, wanted, tree, strict)
        for own, wanted, tree in zip(own_of_group, of_group, _subtrees(what), strict=True)
    ]
    found = pytrees.tree_structure(what.prefix).flatten_up_to(
        what.function(*inputs, what.outputs(outputs))
    )
    values: dict[Var, Any] = {}
    for result, own, wanted, output in zip(found, own_of_group, of_group, outputs, strict=True):
        values.update(
            zip(own if output is None else wanted, pytrees.tree_leaves(result), strict=True)
        )
    rest = [v for v in jaxpr.outvars if type(v) is Var and v not in values]
    every = [eqn for eqn in (*cut.before, *cut.behind) if eqn.effects]
    if rest or every:
        whole = scope.with_equations([*cut.before, *cut.behind])
        lost = (
            dict(zip(cut.call.outvars, _unfused(scope, cut, values), strict=True)) if every else {}
        )
        values.update(
            zip(rest, whole.evaluate(rest, {**lost, **values}, effects=bool(every)), strict=True)
        )
    return [v.val if type(v) is Literal else values[v] for v in jaxpr.outvars]


def _unfused(scope: _Scope, cut: _Cut, values: dict[Var, Any]) -> list[Any]:
    """The results of the fusible call for equations with effects: the known results, else the
    results of the call without fusions."""
    if all(v in values for v in cut.call.outvars):
        return [values[v] for v in cut.call.outvars]
    return list(cut.call.params["jaxpr"](*scope.evaluate(cut.call.invars)))


def _inputs(cut: _Cut, what: Fused, scope: _Scope, strict: bool) -> list[Fusion]:
    """The input fusions: for each argument of the call a function that computes it."""
    leaves = cut.call.invars[consts_of(cut.call) :]
    fusions, rest = [], list(leaves)
    for tree in pytrees.treedef_children(what.in_tree):
        own, rest = rest[: tree.num_leaves], rest[tree.num_leaves :]

        def compute(own: Sequence[Atom] = tuple(own), tree: PyTree = tree) -> Any:
            return pytrees.tree_unflatten(tree, scope.evaluate(own))

        fusions.append(
            Fusion(compute, ((), {}), pytrees.tree_unflatten(tree, [v.aval for v in own]), strict)
        )
    return fusions


def _results_by_group(jaxpr: Jaxpr, cut: _Cut, groups: Sequence[int]) -> list[list[Var]]:
    """For each output fusion the results of the jaxpr that it makes."""
    of: dict[Var, frozenset[int]] = {
        v: frozenset([g]) for v, g in zip(cut.call.outvars, groups, strict=True)
    }
    for eqn in cut.behind:
        found = frozenset().union(*(of.get(v, frozenset()) for v in eqn.invars if type(v) is Var))
        of.update(dict.fromkeys(eqn.outvars, found))
    results: list[list[Var]] = [[] for _ in range(1 + max(groups, default=0))]
    for v in jaxpr.outvars:
        mine = of.get(v, frozenset()) if type(v) is Var else frozenset()
        if len(mine) > 1:
            raise ValueError(
                "fuse: Outputs must be disjoint in order to use separate output fusions: a "
                f"result depends on the results {sorted(mine)} of the fusible function.\n"
                f"    result: {v.aval}\n  Say output_fusion_prefix=True, for one output fusion."
            )
        for k in mine:
            results[k].append(v)
    return results


def _output(
    cut: _Cut, scope: _Scope, own: Sequence[Var], wanted: Sequence[Var], tree: PyTree, strict: bool
) -> Fusion | None:
    """The output fusion of some results of the call; None if nothing is done with them."""
    if not wanted or list(wanted) == list(own):
        return None
    whole = scope.with_equations([*cut.before, *cut.behind])

    def compute(value: Array) -> Any:
        return tuple(whole.evaluate(wanted, dict(zip(own, tree.flatten_up_to(value), strict=True))))

    return Fusion(
        compute,
        (pytrees.tree_unflatten(tree, [v.aval for v in own]), {}),
        tuple([v.aval for v in wanted]),
        strict,
    )


def _subtrees(what: Fused) -> list[Any]:
    """The trees of the results that each output fusion takes."""
    places = pytrees.tree_unflatten(what.out_tree, range(what.out_tree.num_leaves))
    return list(
        map(pytrees.tree_structure, pytrees.tree_structure(what.prefix).flatten_up_to(places))
    )


# --- Values of fusions ----------------------------------------------------------------------------


class Values:
    """A fusion as a function of the values that it closes over: (values, *arguments) -> results.

    scalars: values that say where blocks begin, which kernels are given before they run.
    """

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, is_scalar: Sequence[bool]) -> None:
        self.closed, self.out_tree, self.is_scalar = closed, out_tree, tuple(is_scalar)
        self.scalars = tuple([c for c, s in zip(closed.consts, is_scalar, strict=True) if s])
        self.values = tuple([c for c, s in zip(closed.consts, is_scalar, strict=True) if not s])

    def __call__(self, values: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        given, scalars = iter(values), iter(self.scalars)
        consts = [next(scalars) if s else next(given) for s in self.is_scalar]
        return pytrees.tree_unflatten(
            self.out_tree,
            eval_jaxpr(self.closed.jaxpr, consts, *pytrees.tree_leaves((args, kwargs))),
        )


@tracebacks.api_boundary
def get_fusion_values(
    fusion: Callable[..., object], *args: object, **kwargs: object
) -> tuple[Values, tuple[Any, ...], tuple[Any, ...]]:
    """Split a fusion into a function, the values that it closes over, and its scalars.

    A kernel takes the values as operands. args, kwargs: arguments of the fusion, arrays or types
    of them. Returns a function (values, *args, **kwargs) -> results, the values, and the scalars
    that say where blocks begin.

    >>> import teucer.numpy as jnp
    >>> x = jnp.arange(2.)
    >>> function, values, scalars = get_fusion_values(lambda: x + 1)
    >>> function(values), scalars
    (Array([1., 2.], dtype=float32), ())
    """
    _, closed, tree = traced("get_fusion_values", fusion, fusion, args, kwargs)
    closed = without_calls(closed)
    places = says_where(closed.jaxpr)
    found = Values(closed, tree, [v in places for v in closed.jaxpr.constvars])
    return found, found.values, found.scalars


def says_where(jaxpr: Jaxpr) -> set[Var]:
    """The variables, integer scalars, on which the beginning of a slice depends."""
    found: set[Var] = set()
    for eqn in reversed(jaxpr.eqns):
        if eqn.primitive is dynamic_slice_p:
            found.update(v for v in eqn.invars[1:] if type(v) is Var)
        elif found.intersection(eqn.outvars):
            found.update(v for v in eqn.invars if type(v) is Var)
    return {v for v in found if v.aval.shape == () and np.issubdtype(v.aval.dtype, np.integer)}
