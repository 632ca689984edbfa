"""`with_logs` of a function from `vjp`: cotangents, and logs of backward rules.

A log is the cotangent of an input that changes nothing. The linear program of a pullback gets such
inputs, one for each array that a rule logs, wherever the rule stands in it: in loops, branches,
calls and maps over a mesh. Transposition then gives the logs as it gives other cotangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._core import array_ops, structure
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, Var, new_eqn
from teucer._core.stage import stage_flat
from teucer._core.types import ShapedArray
from teucer._derived.custom_vjp import custom_lin_p
from teucer._derived.logged import CondSum, Leaf, Ran, decoded, logs_of, parts_of
from teucer._devices.specs import PartitionSpec
from teucer._transform.batch import unmapped_aval
from teucer._transform.jit_calls import JaxprCall
from teucer._transform.reverse import Pullback
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn
    from teucer._core.typing import Value
    from teucer._xla.pytree import PyTree


class Threaded(NamedTuple):
    """A linear program with further inputs, last, for the logs of the rules in it.

    parts: the types of these inputs. template: the logs, with a Leaf for each array. ran: for each
    name (place, axes): the cotangent of that input is 1 if the rule ran, and has so many axes.
    """

    jaxpr: Jaxpr
    parts: tuple[Any, ...]
    template: dict[Any, Any]
    ran: dict[Any, tuple[int, int]]


class _Logs:
    """The logs of a program, as they are found."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.template: dict[Any, Any] = {}
        self.ran: dict[Any, tuple[int, int]] = {}

    def take(self, found: Threaded, parts: Sequence[ShapedArray]) -> None:
        """Add the logs of an inner program. parts: the types that its logged values have in this
        program."""
        first = len(self.parts)
        self.parts += parts
        for name, template in found.template.items():
            self.name(name, _moved(template, first, parts))
            place = found.ran[name][0]
            self.ran[name] = first + place, parts[place].ndim

    def name(self, name: object, template: PyTree) -> None:
        if name in self.template:
            raise ValueError(
                f"Duplicate backward-pass log key {name!r}. Each key must be unique within a "
                "backward pass.\n  Give the logs of each call a name of their own."
            )
        self.template[name] = template


def _moved(template: PyTree, first: int, parts: Sequence[ShapedArray]) -> Any:
    """Logs whose parts begin further behind, and are of other shapes."""

    def moved(leaf: Leaf | Ran) -> Any:
        if isinstance(leaf, Ran):
            return Ran(tuple(p and (p[0] + first, p[1]) for p in leaf.places))
        return Leaf(leaf.place + first, leaf.aval)

    return pytrees.tree_map(moved, template, is_leaf=lambda x: isinstance(x, Leaf | Ran))


def threaded(jaxpr: Jaxpr) -> Threaded:
    """The program with inputs for the logs of the rules in it.

    Raises ValueError where two rules log under one name.
    """
    found = jaxpr.cache.get("logs")
    if found is None:
        found = jaxpr.cache["logs"] = _threaded(jaxpr)
    kept: Threaded = found
    return kept


def _threaded(jaxpr: Jaxpr) -> Threaded:
    logs, eqns = _Logs(), []
    for eqn in jaxpr.eqns:
        first = len(logs.parts)
        params = _in_equation(eqn, logs)
        eqns.append((eqn, first, len(logs.parts), params))
    extra = [Var(aval) for aval in logs.parts]
    if not extra:
        return Threaded(jaxpr, (), {}, {})
    made = [
        eqn
        if params is None
        else new_eqn(
            eqn.primitive, [*eqn.invars, *extra[first:last]], eqn.outvars, params, eqn.source
        )
        for eqn, first, last, params in eqns
    ]
    return Threaded(
        jaxpr.replace(invars=[*jaxpr.invars, *extra], eqns=made),
        tuple(logs.parts),
        logs.template,
        logs.ran,
    )


def _in_equation(eqn: Eqn, logs: _Logs) -> dict[str, Any] | None:
    """Add the logs of an equation; its parameters with inputs for these, None if it has none."""
    primitive = eqn.primitive
    if primitive is custom_lin_p:
        return _in_rule(eqn, logs) if logs_of(eqn.params["bwd"]) else None
    view: Any = structure.of(eqn)
    if view is None:
        return None
    if isinstance(view, structure.Branch):
        return _in_branches(eqn, view, logs)
    found = threaded(view.body.jaxpr)
    if not found.parts:
        return None
    if isinstance(view, structure.Mapped):
        return _in_map(eqn, view, found, logs)
    body = ClosedJaxpr(found.jaxpr, view.body.consts)
    if isinstance(view, structure.Loop):
        if view.length is None:
            raise NotImplementedError(
                "with_logs: a backward rule logs in a while loop, and as many logs as there are "
                f"steps cannot be stacked.\n    logs: {', '.join(map(str, found.template))}\n"
                "  Use lax.scan, or fori_loop with static bounds."
            )
        logs.take(found, [unmapped_aval(a, 0, view.length) for a in found.parts])
    else:
        logs.take(found, found.parts)
    params = structure.params_of(primitive, eqn.params, view._replace(body=body))
    if isinstance(primitive, JaxprCall):
        sources = [*range(len(eqn.invars)), *[None] * len(found.parts)]
        params = primitive.for_operands(params, sources)
    return params


def _in_rule(eqn: Eqn, logs: _Logs) -> dict[str, Any]:
    params = eqn.params
    name, n_res = logs_of(params["bwd"]), params["num_res"]
    trees: list[Any] = []

    def run(*values: Value) -> list[Any]:
        leaves, tree = pytrees.tree_flatten(params["bwd"](*values).logs)
        trees[:] = [tree]
        return leaves

    avals = [v.aval for v in eqn.invars[:n_res]]
    jaxpr, _ = stage_flat(run, [*avals, *(a.cotangent_aval() for a in params["out_avals"])])
    place = len(logs.parts)
    logs.parts.append(ShapedArray((), np.dtype(np.float32)))
    leaves, at = [], place + 1
    for v in jaxpr.outvars:
        leaves.append(Leaf(at, v.aval))
        parts = parts_of(v.aval)
        logs.parts += parts
        at += len(parts)
    for key, template in pytrees.tree_unflatten(trees[0], leaves).items():
        logs.name(key, template)
        logs.ran[key] = place, 0
    return {**params, "logs": name}


def _in_branches(eqn: Eqn, view: structure.Branch, logs: _Logs) -> dict[str, Any] | None:
    found = [threaded(program.jaxpr) for program in view.programs]
    if not any(f.parts for f in found):
        return None
    first = len(logs.parts)
    avals = [a for f in found for a in f.parts]
    each, places = [], [first]
    for f in found:
        each.append({name: _moved(t, places[-1], f.parts) for name, t in f.template.items()})
        places.append(places[-1] + len(f.parts))
    logs.parts += avals
    for name in dict.fromkeys(name for templates in each for name in templates):
        ran = [
            (place + f.ran[name][0], f.ran[name][1]) if name in f.ran else None
            for f, place in zip(found, places, strict=False)
        ]
        logs.name(name, CondSum(Ran(tuple(ran)), [templates.get(name) for templates in each]))
        logs.ran[name] = next(r for r in ran if r is not None)
    programs = []
    for f, place, program in zip(found, places, view.programs, strict=False):
        extra = [Var(a) for a in avals]
        own = f.jaxpr.invars[len(program.jaxpr.invars) :]
        extra[place - first : place - first + len(own)] = own
        jaxpr = f.jaxpr.replace(invars=[*program.jaxpr.invars, *extra])
        programs.append(ClosedJaxpr(jaxpr, program.consts))
    return structure.params_of(eqn.primitive, eqn.params, view._replace(programs=programs))


def _in_map(eqn: Eqn, view: structure.Mapped, found: Threaded, logs: _Logs) -> dict[str, Any]:
    """Concatenate the devices' parts of a log over the mesh axes over which they may differ; parts
    that are numbers along a new axis."""
    params, n = eqn.params, len(view.body.jaxpr.invars)
    manual = params["newly_manual_axes"]
    inner, outer, specs = [], [], []
    for aval in found.parts:
        over = tuple(
            name
            for name in params["mesh"].axis_names
            if name in (aval.vma & manual if params["check_vma"] else manual)
        )
        shape: tuple[Any, ...] = aval.shape or ((1,) if over else ())
        inner.append(aval.update(shape=shape))
        count = int(np.prod([params["mesh"].shape[name] for name in over], dtype=int))
        whole = (shape[0] * count, *shape[1:]) if over else shape
        outer.append(aval.update(shape=whole, vma=aval.vma - manual))
        specs.append(PartitionSpec(over) if over else PartitionSpec())

    def run(*values: Any) -> Sequence[Value]:
        extra = [
            array_ops.reshape(x, aval.shape) if np.shape(x) != aval.shape else x
            for x, aval in zip(values[n:], found.parts, strict=True)
        ]
        return ClosedJaxpr(found.jaxpr, view.body.consts)(*values[:n], *extra)

    primitive: Any = eqn.primitive
    with primitive.within(params):
        jaxpr, consts = stage_flat(run, [*view.body.in_avals, *inner])
    logs.take(found, outer)
    body = view._replace(body=ClosedJaxpr(jaxpr, consts))
    return {
        **structure.params_of(primitive, params, body),
        "in_specs": (*params["in_specs"], *specs),
    }


def pull_with_logs(pullback: Pullback, ct: Value) -> tuple[Any, dict[Any, Any]]:
    """The cotangents of the arguments, and the logs of the backward pass by name."""
    found = threaded(pullback.jaxpr)
    whole = Pullback.of(pullback.static()._replace(jaxpr=found.jaxpr), pullback.residuals)
    cts = [array_ops.instantiate(c) for c in whole.cotangents(ct)]
    n = len(cts) - len(found.parts)
    return pytrees.tree_unflatten(pullback.in_tree, cts[:n]), decoded(found.template, cts[n:])
