"""Meshes and partitions tried for a program: data, fully sharded, tensor, sequence, expert.

Axes of the program's arrays fall into classes (`axes`). A way to divide it lays the class of the
batch over the mesh axis "data", and those of hidden units, heads, experts or a vocabulary over
"model"; fully sharded, the width of parameters over "data", too; in sequence, the positions over
"model" between products. Formulas leave the best few, which are compiled.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from teucer import lax
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import source, tracebacks
from teucer._core import structure
from teucer._core.calls import fun_name
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var, new_eqn
from teucer._derived.liveness import size_text
from teucer._derived.stages import jit
from teucer._devices.meshes import Mesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer._plan import advice, plan, text
from teucer._plan.axes import Axes, Product, cost
from teucer._plan.chips import Chip, chip_of
from teucer._plan.network import Network
from teucer._plan.plan import Plan
from teucer._sharding.manual_call import shard_map_p
from teucer._trees import pytrees
from teucer.sharding import set_mesh

DATA, MODEL = "data", "model"


class Way(NamedTuple):
    """A way to divide a program: the sizes of the mesh, and the mesh axes of each class of axes in
    values of the batch (`values`) and in parameters (`weights`). name: as people call it."""

    name: str
    sizes: tuple[int, int]
    values: dict[int, str]
    weights: dict[int, str]


class Estimate(NamedTuple):
    """What formulas say of a way: seconds, and bytes of a device."""

    way: Way
    seconds: float
    memory: float


class Annotation(NamedTuple):
    """What to write: how an argument lies, or a value of a line."""

    what: str
    spec: str


@dataclasses.dataclass(frozen=True, repr=False)
class Found:
    """The result of a search: all ways with what formulas say of them, those that were compiled,
    the best first, and what to write for the best."""

    name: str
    topology: str
    estimates: tuple[Estimate, ...]
    plans: tuple[tuple[Way, Plan], ...]
    arguments: tuple[Annotation, ...]
    values: tuple[Annotation, ...]

    @property
    def best(self) -> Plan:
        """The plan of the best way."""
        return self.plans[0][1]

    def __str__(self) -> str:
        said = [f"{self.name} on {self.topology}: {len(self.estimates)} ways by formulas", ""]
        compiled = {way.name: found for way, found in self.plans}
        rows: list[Sequence[str]] = [("way", "formulas", "memory", "compiled", "memory")]
        for estimate in self.estimates[:12]:
            found = compiled.get(estimate.way.name)
            took = "" if found is None else "does not fit"
            if found is not None and found.seconds is not None:
                took = text.time_text(found.seconds)
            rows.append(
                (
                    estimate.way.name,
                    text.time_text(estimate.seconds),
                    size_text(estimate.memory),
                    took,
                    "" if found is None else size_text(found.memory.peak),
                )
            )
        said += text.table(rows, numbers=(1, 2, 3, 4))
        way, best = self.plans[0]
        sizes = ", ".join(f"{n}" for n in way.sizes)
        said += ["", f"The best: {way.name}. Write", ""]
        said.append(f'  mesh = jax.make_mesh(({sizes}), ("{DATA}", "{MODEL}"))')
        said += [f"  {a.what}: {a.spec}" for a in self.arguments]
        said += [
            f"  {a.what}: jax.lax.with_sharding_constraint(..., {a.spec})" for a in self.values
        ]
        return "\n".join([*said, "", str(best)])

    def __repr__(self) -> str:
        return str(self)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "ways": [
                {
                    "name": e.way.name,
                    "mesh": dict(zip((DATA, MODEL), e.way.sizes, strict=True)),
                    "seconds": e.seconds,
                    "memory": e.memory,
                }
                for e in self.estimates
            ],
            "compiled": [{"way": way.name, **found.as_dict()} for way, found in self.plans],
            "arguments": [a._asdict() for a in self.arguments],
            "values": [a._asdict() for a in self.values],
        }


@tracebacks.api_boundary
def plan_search(
    f: Callable[..., object],
    *args: object,
    topology: Any,
    tries: int = 3,
    data: Sequence[str] = (),
    tokens: int | None = None,
    price: float | None = None,
    **kwargs: object,
) -> Found:
    """The best ways to divide a program over devices that need not be there.

    f: a function without shardings of its own; constraints in it are left out. args, kwargs: what
    it would be called with, arrays or ShapeDtypeStructs; of their shardings nothing is taken. What
    the function hands back, as a training step does parameters, is divided as parameters are, the
    rest as data; data: the names of those that are. topology, tokens, price: as of `plan`. tries:
    how many ways are compiled.
    Raises ValueError for a program that says itself what each device does, and where no way fits.
    """
    where, devices = plan._devices_of(topology, None, ())
    start = plan.mesh_over({DATA: len(devices), MODEL: 1}, devices, where)
    args, kwargs = _plain((args, kwargs))
    function: Any = f if hasattr(f, "trace") else jit(f)
    laid_args, laid_kwargs = plan.laid((args, kwargs), start)
    with set_mesh(start):
        traced = function.trace(*laid_args, **laid_kwargs)
    closed = ClosedJaxpr(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    _refuse_manual(closed.jaxpr)
    axes = Axes(closed)
    given = advice.arguments(traced, traced.arg_names)
    roles = roles_of(axes, closed, given, data)
    grids = {
        sizes: plan.mesh_over(dict(zip((DATA, MODEL), sizes, strict=True)), devices, where)
        for sizes in _sizes(len(devices))
    }
    chip = chip_of(devices[0])
    estimates = sorted(
        (
            estimate(way, axes, closed, given, roles, grids[way.sizes], chip)
            for way in ways(axes, roles, grids)
        ),
        key=lambda e: (e.memory > chip.memory, e.seconds if e.memory <= chip.memory else e.memory),
    )
    plans = []
    for one in estimates[:tries]:
        mesh = grids[one.way.sizes]
        found = _compiled(traced, closed, axes, roles, one.way, mesh, where, fun_name(f))
        plans.append(
            (one.way, dataclasses.replace(found, tokens=tokens or found.tokens, price=price))
        )
    plans.sort(key=lambda p: (p[1].seconds is None, p[1].seconds or p[1].memory.peak))
    way = plans[0][0]
    return Found(
        fun_name(f), where, tuple(estimates), tuple(plans),
        _arguments(traced, axes, closed, roles, way), _values(axes, roles, way),
    )  # fmt: skip


class Roles(NamedTuple):
    """The classes of a program by what they are for, and which arguments are data.

    width: of what goes from layer to layer. model: those that tensor and expert parallelism divide,
    with their names.
    """

    batch: int | None
    length: int | None
    width: int | None
    model: dict[int, str]
    data: tuple[bool, ...]


def roles_of(
    axes: Axes,
    closed: ClosedJaxpr,
    given: Sequence[advice.Argument],
    named: Sequence[str] = (),
) -> Roles:
    """What the classes of the axes of a program are for. named: the arguments that are data."""
    data = _data(given, named)
    inputs = [v for v, is_data in zip(closed.jaxpr.invars, data, strict=True) if is_data]
    weights = [v for v, is_data in zip(closed.jaxpr.invars, data, strict=True) if not is_data]
    inputs = [v for v in inputs if v.aval.ndim > 0]
    batch = axes.of(max(inputs, key=lambda v: v.aval.size))[0] if inputs else None
    length = next(
        (axes.of(v)[1] for v in inputs if v.aval.ndim > 1 and v.aval.dtype.kind in "iu"), None
    )
    if length is None:
        length = next((axes.of(v)[1] for v in inputs if v.aval.ndim > 2), None)
    counted: collections.Counter[int] = collections.Counter()
    for v in weights:
        counted.update({c for c in axes.of(v) if axes.size(c) > 1 and not axes.is_stacked(c)})
    outs = [v for v in closed.jaxpr.outvars if batch in axes.of(v)]
    ends = {c for v in (*inputs, *outs) for c in axes.of(v)}
    for taken in (batch, length):
        if taken is not None:
            counted.pop(taken, None)
    width = max(counted, key=lambda c: (c in ends, counted[c], axes.size(c)), default=None)
    model = {
        c: "tensor" for c in counted if c != width and c not in ends and _divides(axes, c, batch)
    }
    for c in model:
        if any(_is_expert(axes, p, c, batch) for p in axes.products):
            model[c] = "expert"
    return Roles(batch, length, width, model, data)


def _data(given: Sequence[advice.Argument], named: Sequence[str]) -> tuple[bool, ...]:
    """Which arguments are data: those that are named. Without names: those that a training step
    does not return; else integers; else the first.

    Raises ValueError for a name that no argument has.
    """
    tops = [re.split(r"[\[.]", a.name)[0] for a in given]
    missing = sorted(set(named) - {*tops, *(a.name for a in given)})
    if missing:
        raise ValueError(
            f"plan: no argument is called {', '.join(map(repr, missing))}. There are "
            f"{', '.join(dict.fromkeys(tops))}."
        )
    if named:
        return tuple(a.name in named or top in named for a, top in zip(given, tops, strict=True))
    if 2 * sum(a.size for a in given if a.returned) > sum(a.size for a in given):
        return tuple(not a.returned for a in given)
    whole = [a.dtype.startswith(("int", "uint")) for a in given]
    return tuple(whole) if any(whole) else tuple(i == 0 for i in range(len(given)))


def _divides(axes: Axes, c: int, batch: int | None) -> bool:
    """Whether a class can be divided without sums of what two values of the batch make: wherever it
    is contracted, one operand is a weight."""
    for product in axes.products:
        lhs, rhs = (axes.of(v) for v in product.eqn.invars)
        (contract, _), _ = product.eqn.params["dimension_numbers"]
        contracted = [lhs[i] for i in contract]
        if c in contracted and batch in lhs and batch in rhs and batch not in contracted:
            return False
    return True


def _is_expert(axes: Axes, product: Product, c: int, batch: int | None) -> bool:
    """Whether a class numbers the matrices of a product of many."""
    lhs, rhs = (axes.of(v) for v in product.eqn.invars)
    _, (many, _) = product.eqn.params["dimension_numbers"]
    return c in [lhs[i] for i in many] and (batch in lhs) != (batch in rhs)


def _sizes(count: int) -> list[tuple[int, int]]:
    return [(count // m, m) for m in range(1, count + 1) if count % m == 0]


def ways(axes: Axes, roles: Roles, grids: dict[tuple[int, int], Mesh]) -> Iterator[Way]:
    """The ways to divide a program over meshes."""
    for d, m in grids:
        if d > 1 and (roles.batch is None or axes.size(roles.batch) % d):
            continue
        model = {c: MODEL for c in roles.model if axes.size(c) % m == 0} if m > 1 else {}
        if m > 1 and not model:
            continue
        experts = any(roles.model[c] == "expert" for c in model)
        values = {**model, **({roles.batch: DATA} if d > 1 and roles.batch is not None else {})}
        divides = roles.width is not None and axes.size(roles.width) % d == 0
        for full in (False, True) if d > 1 and divides else (False,):
            for sequence in (False, True) if m > 1 and roles.length is not None else (False,):
                if sequence and axes.size(roles.length or 0) % m:
                    continue
                weights = dict(model)
                if full and roles.width is not None:
                    weights[roles.width] = DATA
                said = []
                if d > 1:
                    said.append(f"{'fully sharded' if full else 'data'} {d}")
                if m > 1:
                    said.append(f"{'expert' if experts else 'tensor'} {m}")
                if sequence:
                    said.append("sequence")
                own = {**values, **({roles.length: MODEL} if sequence and roles.length else {})}
                yield Way(" x ".join(said) or "whole", (d, m), own, weights)


def spec_of(
    classes: Sequence[int], lies: dict[int, str], axes: Axes, sizes: tuple[int, int]
) -> list[str | None]:
    """How a value lies: each mesh axis once, where it divides; positions give way to others."""
    length = dict(zip((DATA, MODEL), sizes, strict=True))
    entries: list[str | None] = []
    for c in classes:
        axis = lies.get(c)
        if axis is None or axis in entries or axes.size(c) % length[axis] or length[axis] == 1:
            entries.append(None)
        else:
            entries.append(axis)
    return entries


def weight_spec(classes: Sequence[int], axes: Axes, way: Way) -> list[str | None]:
    """How a parameter lies. Fully sharded, one without the width is divided along its longest
    axis."""
    entries = spec_of(classes, way.weights, axes, way.sizes)
    if DATA in way.weights.values() and DATA not in entries:
        free = [
            i
            for i, c in enumerate(classes)
            if entries[i] is None and axes.size(c) % way.sizes[0] == 0 and not axes.is_stacked(c)
        ]
        if free:
            entries[max(free, key=lambda i: axes.size(classes[i]))] = DATA
    return entries


def _value_spec(classes: Sequence[int], roles: Roles, way: Way, axes: Axes) -> list[str | None]:
    """How a value lies: as those of the batch, or as parameters."""
    if roles.batch not in classes:
        return weight_spec(classes, axes, way)
    # Positions give way to hidden units and heads.
    first = {c: axis for c, axis in way.values.items() if c != roles.length}
    entries = spec_of(classes, first, axes, way.sizes)
    return entries if MODEL in entries else spec_of(classes, way.values, axes, way.sizes)


def _argument_spec(v: Any, is_data: bool, axes: Axes, way: Way) -> list[str | None]:
    if is_data:
        return spec_of(axes.of(v), way.values, axes, way.sizes)
    return weight_spec(axes.of(v), axes, way)


def estimate(
    way: Way,
    axes: Axes,
    closed: ClosedJaxpr,
    given: Sequence[advice.Argument],
    roles: Roles,
    mesh: Mesh,
    chip: Chip,
) -> Estimate:
    """What formulas say of a way (docs/scaling.md): operations over the peak; what fully sharded
    parameters send goes beside them; sums of tensor parallelism are waited for."""
    network = Network(chip, list(mesh.devices.flat))
    d, m = way.sizes
    grid = _numbers(mesh)
    speeds = {
        DATA: network.way(grid[:, 0].tolist()) if d > 1 else None,
        MODEL: network.way(grid[0, :].tolist()) if m > 1 else None,
    }
    work, beside, waited = 0.0, 0.0, 0.0

    def takes(kind: str, size: float, axis: str) -> float:
        over = speeds[axis]
        return 0.0 if over is None else network.seconds(kind, int(size), over)

    for product in axes.products:
        lhs, rhs = (axes.of(v) for v in product.eqn.invars)
        out = product.eqn.outvars[0]
        classes = axes.of(out)
        parts = _parts({*lhs, *rhs}, roles, way, axes)
        work += cost(product) / parts / chip.peak
        (contract, _), _ = product.eqn.params["dimension_numbers"]
        contracted = {lhs[i] for i in contract}
        whole = way._replace(values={c: a for c, a in way.values.items() if c != roles.length})
        size = _bytes(out) / _shards(_value_spec(classes, roles, whole, axes), way)
        many = product.times
        if roles.batch in contracted:  # the gradient of a parameter
            full = DATA in way.weights.values()
            beside += (
                many
                * takes("all-reduce", size * (0.5 * d if full else 1), DATA)
                * (0.5 if full else 1)
            )
        elif any(way.values.get(c) == MODEL for c in contracted):
            waited += many * takes("all-reduce", size, MODEL)
        if DATA in way.weights.values() and roles.batch not in contracted:
            for v, own in zip(product.eqn.invars, (lhs, rhs), strict=True):
                spec = weight_spec(own, axes, way)
                if roles.batch not in own and DATA in spec:
                    beside += many * takes("all-gather", _bytes(v) / _shards(spec, way), DATA)
    return Estimate(way, max(work, beside) + waited, _memory(way, axes, closed, given, roles))


def _numbers(mesh: Mesh) -> Any:
    """The numbers of the devices in the grid of a mesh, as programs number them."""
    return np.arange(mesh.size).reshape(mesh.devices.shape)


def _parts(classes: set[int], roles: Roles, way: Way, axes: Axes) -> int:
    """Over how many devices the work on some classes is divided."""
    lies = {c: a for c, a in way.values.items() if c != roles.length}
    named = {lies[c] for c in classes if c in lies}
    return math.prod(n for n, axis in zip(way.sizes, (DATA, MODEL), strict=True) if axis in named)


def _shards(spec: Sequence[str | None], way: Way) -> int:
    sizes = dict(zip((DATA, MODEL), way.sizes, strict=True))
    return math.prod(sizes[axis] for axis in spec if axis is not None)


def _bytes(v: Any) -> float:
    return float(math.prod(v.aval.shape) * v.aval.dtype.itemsize)


def _memory(
    way: Way,
    axes: Axes,
    closed: ClosedJaxpr,
    given: Sequence[advice.Argument],
    roles: Roles,
) -> float:
    """Arguments, results that have no place of a donated argument, and what loops keep."""
    held = 0.0
    for v, a, is_data in zip(closed.jaxpr.invars, given, roles.data, strict=True):
        size = _bytes(v) / _shards(_argument_spec(v, is_data, axes, way), way)
        held += size * (2 if a.returned and not a.donated else 1)
    return held + _kept(closed.jaxpr, way, axes, roles)


def _kept(jaxpr: Jaxpr, way: Way, axes: Axes, roles: Roles) -> float:
    """Bytes of values of the batch that loops give out, and of the largest product beside them."""
    kept, largest = 0.0, 0.0
    for eqn in jaxpr.eqns:
        found = structure.of(eqn)
        if isinstance(found, structure.Loop):
            for v in eqn.outvars[len(found.carry) :]:
                classes = axes.of(v)
                if roles.batch in classes:
                    kept += _bytes(v) / _shards(_value_spec(classes, roles, way, axes), way)
        for body, _ in found.bodies if found is not None else ():
            largest = max(largest, _kept(body.jaxpr, way, axes, roles))
        if eqn.primitive is lax.dot_general_p:
            out = eqn.outvars[0]
            spec = _value_spec(axes.of(out), roles, way, axes)
            largest = max(largest, 2 * _bytes(out) / _shards(spec, way))
    return kept + largest


# --- Compiling a way ----------------------------------------------------------------------------


def _compiled(
    traced: Any,
    closed: ClosedJaxpr,
    axes: Axes,
    roles: Roles,
    way: Way,
    mesh: Mesh,
    where: str,
    name: str,
) -> Plan:
    """The plan of a program that is divided by a way: arguments and products lie as it says."""
    flat = ClosedJaxpr(_constrained(closed.jaxpr, axes, roles, way, mesh), closed.consts)
    program: Any = flat

    def divided(*values: Any) -> Any:
        return program(*values)

    divided.__name__ = name
    args = []
    for v, is_data in zip(closed.jaxpr.invars, roles.data, strict=True):
        spec = PartitionSpec(*_argument_spec(v, is_data, axes, way))
        args.append(
            ShapeDtypeStruct(v.aval.shape, v.aval.dtype, sharding=NamedSharding(mesh, spec))
        )
    donated = list(traced.staged.donated)[-len(args) :]
    outs = [
        NamedSharding(mesh, PartitionSpec(*_value_spec(axes.of(v), roles, way, axes)))
        for v in closed.jaxpr.outvars
    ]
    jitted = jit(
        divided,
        donate_argnums=tuple(i for i, given in enumerate(donated) if given),
        out_shardings=outs,
    )
    return plan.planned(jitted, args, {}, mesh, where)


def _constrained(jaxpr: Jaxpr, axes: Axes, roles: Roles, way: Way, mesh: Mesh) -> Jaxpr:
    """A program whose products are held as a way says; its own constraints are left out."""
    names: dict[Any, Any] = {}
    eqns: list[Eqn] = []

    def read(atom: Any) -> Any:
        return names.get(atom, atom) if isinstance(atom, Var) else atom

    for eqn in jaxpr.eqns:
        if eqn.primitive is lax.sharding_constraint_p:
            names[eqn.outvars[0]] = read(eqn.invars[0])
            continue
        made = eqn.replace(
            invars=[read(v) for v in eqn.invars],
            params=_params(eqn, axes, roles, way, mesh),
        )
        eqns.append(made)
        if eqn.primitive is lax.dot_general_p:
            out = eqn.outvars[0]
            spec = _value_spec(axes.of(out), roles, way, axes)
            held = Var(out.aval)
            eqns.append(_constraint(out, held, NamedSharding(mesh, PartitionSpec(*spec)), eqn))
            names[out] = held
    return jaxpr.replace(eqns=eqns, outvars=[read(v) for v in jaxpr.outvars])


def _constraint(value: Any, held: Var, sharding: NamedSharding, eqn: Eqn) -> Eqn:
    return new_eqn(
        lax.sharding_constraint_p,
        [value],
        [held],
        {
            "sharding": sharding,
            "layout": None,
            "context_mesh": sharding.mesh.abstract_mesh,
            "unconstrained_dims": frozenset(),
        },
        eqn.source,
    )


def _params(eqn: Eqn, axes: Axes, roles: Roles, way: Way, mesh: Mesh) -> dict[str, Any]:
    found = structure.of(eqn)

    def within(body: ClosedJaxpr) -> ClosedJaxpr:
        return ClosedJaxpr(_constrained(body.jaxpr, axes, roles, way, mesh), body.consts)

    if isinstance(found, structure.Branch):
        programs = tuple(within(p) for p in found.programs)
        return structure.params_of(eqn.primitive, eqn.params, found._replace(programs=programs))
    if isinstance(found, structure.Call | structure.Loop):
        return structure.params_of(
            eqn.primitive, eqn.params, found._replace(body=within(found.body))
        )
    return dict(eqn.params)


def _refuse_manual(jaxpr: Jaxpr) -> None:
    for eqn in jaxpr.eqns:
        if eqn.primitive is shard_map_p:
            raise ValueError(
                "plan: the program says itself what each device does, by shard_map"
                f"{eqn.where()}. Search needs it as one writes it for one device."
            )
        found = structure.of(eqn)
        for body, _ in found.bodies if found is not None else ():
            _refuse_manual(body.jaxpr)


# --- What to write ------------------------------------------------------------------------------


def _shown(spec: Sequence[str | None]) -> str:
    entries = list(spec)
    while entries and entries[-1] is None:
        entries.pop()
    return f"P({', '.join('None' if e is None else repr(e) for e in entries)})"


def _arguments(
    traced: Any, axes: Axes, closed: ClosedJaxpr, roles: Roles, way: Way
) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(name, _shown(_argument_spec(v, is_data, axes, way)))
        for name, v, is_data in zip(traced.arg_names, closed.jaxpr.invars, roles.data, strict=True)
    )


def _values(axes: Axes, roles: Roles, way: Way) -> tuple[Annotation, ...]:
    """How the products of lines lie, of values of the batch."""
    found: dict[str, str] = {}
    for product in axes.products:
        out = product.eqn.outvars[0]
        place = source.locate(product.eqn.place)
        if place is None or roles.batch not in axes.of(out):
            continue
        spec = _shown(_value_spec(axes.of(out), roles, way, axes))
        found.setdefault(
            f"{place.file.rpartition('/')[2]}:{place.line} {out.aval.str_short()}", spec
        )
    return tuple(Annotation(what, spec) for what, spec in found.items())


def _plain(args: Any) -> Any:
    """Arguments without shardings."""

    def plain(leaf: Any) -> Any:
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
            return ShapeDtypeStruct(leaf.shape, leaf.dtype)
        return leaf

    return pytrees.tree_map(plain, args)
