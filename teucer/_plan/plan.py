"""`plan`: what a function takes on devices that need not be there, before anything is rented."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import tracebacks
from teucer._core.calls import fun_name
from teucer._derived import hlo_text as hlo
from teucer._derived.stages import jit
from teucer._devices.meshes import Mesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer._plan import advice, machines, memory, parts
from teucer._plan.chips import BY_NAME, Chip, chip_of
from teucer._plan.memory import Memory
from teucer._plan.network import Network
from teucer._plan.parts import Part
from teucer._plan.products import products_of
from teucer._plan.timeline import Timeline
from teucer._programs.compiler import located
from teucer._trees import pytrees
from teucer._xla.client import XlaRuntimeError
from teucer.experimental import mesh_utils, topologies
from teucer.sharding import set_mesh, use_abstract_mesh


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """What a function takes in a call, on each of a number of devices.

    name: of the function. topology: where it would run, `devices` how many they are, `chip` of
    which kind. mesh: the sizes of its axes by name. memory: what a device holds. seconds: of a
    call; None if the program does not fit, so that the compiler made none. parts: what takes
    the time, by line of the user's program. products: operations of products that a device
    does; asked: those that the program asks for, on all devices together. tokens: in a call;
    price: of a chip for an hour. compile_seconds: how long tracing and compiling took. advice:
    what would make it better.
    """

    name: str
    topology: str
    devices: int
    chip: Chip
    mesh: dict[str, int]
    memory: Memory
    seconds: float | None
    parts: tuple[Part, ...]
    products: float
    asked: float
    tokens: int | None
    price: float | None
    compile_seconds: float
    advice: tuple[str, ...]
    unknown_loops: int = 0

    @property
    def fits(self) -> bool:
        """Whether it fits into the memory of a device."""
        return self.memory.fits

    @property
    def utilisation(self) -> float | None:
        """The share of the peak of all devices that the operations which the program asks for
        make up; what is computed again does not count."""
        if not self.seconds:
            return None
        return self.asked / (self.seconds * self.devices * self.chip.peak)

    @property
    def waited(self) -> dict[str, float]:
        """The seconds of a call by what a device does: 'products', 'elements', 'memory', 'copy' and
        'collective', the last two as far as they are not overlapped."""
        kinds = dict.fromkeys(("products", "elements", "memory", "copy", "collective"), 0.0)
        for part in self.parts:
            kinds[part.kind] += part.waited
        return kinds

    @property
    def overlapped(self) -> float:
        """Seconds of collectives during which the device computes."""
        return sum(max(0.0, p.seconds - p.waited) for p in self.parts if p.kind == "collective")

    @property
    def limit(self) -> str:
        """What takes most of the time: 'products', 'memory', 'collectives' and so on."""
        if self.seconds is None:
            return "memory of the device"
        kinds = self.waited
        most = max(kinds, key=lambda kind: kinds[kind])
        return "collectives" if most == "collective" else most

    @property
    def cost_per_million(self) -> float | None:
        """The price of a million tokens, if the price of a chip and the number of tokens are
        known."""
        if self.price is None or not self.tokens or not self.seconds:
            return None
        chips = self.devices / self.chip.devices
        return self.price * chips * self.seconds / 3600 / self.tokens * 1e6

    def __str__(self) -> str:
        from teucer._plan import text

        return text.report(self)

    def __repr__(self) -> str:
        return str(self)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        from teucer._plan import text

        return text.as_dict(self)

    @property
    def html(self) -> str:
        """A page that stands alone."""
        from teucer._plan import page

        return page.page(self)

    def _repr_html_(self) -> str:
        from teucer._plan import page

        return page.framed(self)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; returns its path."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path


@tracebacks.api_boundary
def plan(
    f: Callable[..., object],
    *args: object,
    topology: Any = None,
    mesh: Any = None,
    tokens: int | None = None,
    price: float | None = None,
    **kwargs: object,
) -> Plan:
    """What a function takes on devices that need not be there: memory, time of a call, and why.

    f: a function, jitted or not. args, kwargs: what it would be called with: arrays, or
    ShapeDtypeStructs, whose shardings say how they lie over the mesh. It is compiled, and not
    called. topology: a name, 'v5e-256', 'v5p:4x4x4', '2xv5e-256' or 'h100-16', or what
    `experimental.topologies.get_topology_desc` gives; by default the devices of the mesh.
    mesh: the sizes of its axes by name, {"data": 32, "model": 8}, or a mesh, whose axes are then
    laid over the topology; by default that of the arguments. tokens: how many a call works on; by
    default the size of the largest array of integers. price: of a chip for an hour.
    Raises ValueError for a topology that there is not, and a mesh that does not fill it;
    RuntimeError without the compiler of the platform.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> def f(x, w): return jnp.tanh(x @ w)
    >>> x = jax.ShapeDtypeStruct((8192, 8192), "bfloat16", sharding=jax.P("data"))
    >>> found = jax.debug.plan(f, x, x, topology="v5e-4", mesh={"data": 4})  # doctest: +SKIP
    >>> found.fits, found.limit  # doctest: +SKIP
    (True, 'products')
    """
    where, devices = _devices_of(topology, mesh, (args, kwargs))
    over = mesh_over(mesh, devices, where, (args, kwargs))
    args, kwargs = laid((args, kwargs), over)
    return planned(f, args, kwargs, over, where, tokens=tokens, price=price)


def planned(
    f: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    mesh: Mesh,
    where: str,
    *,
    tokens: int | None = None,
    price: float | None = None,
) -> Plan:
    """The plan of a function on arguments that are laid over a mesh of a topology."""
    start = time.perf_counter()
    function: Any = f if hasattr(f, "trace") else jit(f)
    chip = chip_of(mesh.devices.flat[0])
    sizes = dict(mesh.shape)
    with set_mesh(mesh):
        traced = function.trace(*args, **kwargs)
        names = tuple(traced.arg_names)
        refused = None
        try:
            lowering, executable = located(traced.job)
        except XlaRuntimeError as err:
            refused = memory.refusal(err, chip)
            if refused is None:
                raise
    took = time.perf_counter() - start
    asked = products_of(traced.jaxpr.jaxpr)
    tokens = tokens or _tokens((args, kwargs))
    common: dict[str, Any] = {
        "name": fun_name(f), "topology": where, "devices": mesh.size, "chip": chip, "mesh": sizes,
        "asked": asked, "tokens": tokens, "price": price, "compile_seconds": took,
    }  # fmt: skip
    lies = [getattr(leaf, "sharding", None) for leaf in pytrees.tree_leaves((args, kwargs))]
    arguments = advice.arguments(traced, names, lies)
    if refused is not None:
        held, rows = _as_larger(f, args, kwargs, mesh, refused)
        found = Plan(memory=held, seconds=None, parts=rows, products=math.nan, advice=(), **common)
        return dataclasses.replace(found, advice=advice.advice(found, arguments))
    code = executable.whole()
    module = hlo.Module(code.hlo_modules()[0].to_string())
    kept = [
        name
        for name, keep in zip(_padded(names, lowering.kept), lowering.kept, strict=True)
        if keep
    ]
    network = Network(chip, list(lowering.placement.devices))
    line = Timeline(module, network)
    found = Plan(
        memory=memory.of(module, code.get_compiled_memory_stats(), chip, kept),
        seconds=line.seconds,
        parts=parts.of(module, line.rows, sizes),
        products=sum(row.products * row.times for row in line.rows),
        advice=(),
        unknown_loops=len(line.unknown),
        **common,
    )
    return dataclasses.replace(found, advice=advice.advice(found, arguments))


def _as_larger(
    f: Callable[..., object], args: Any, kwargs: Any, mesh: Mesh, refused: Memory
) -> tuple[Memory, tuple[Part, ...]]:
    """What is in the memory, and what takes time, of a program that its compiler refuses: as the
    same program has it on chips of the same number with more memory."""
    larger = machines.larger(mesh.size)
    if larger is None or chip_of(mesh.devices.flat[0]).memory >= BY_NAME["v5p"].memory:
        return refused, ()
    described = topologies.get_topology_desc(larger.topology, larger.platform)
    over = Mesh(_grid(mesh.devices.shape, described.devices), mesh.axis_names, mesh.axis_types)
    laid_args, laid_kwargs = laid((args, kwargs), over)
    found = planned(f, laid_args, laid_kwargs, over, larger.topology)
    if found.seconds is None:
        return refused, ()
    return found.memory._replace(capacity=refused.capacity, why=refused.why), found.parts


def _padded(names: Sequence[str], kept: Sequence[bool]) -> list[str]:
    """The names of arguments, behind those of constants."""
    return ["a constant"] * (len(kept) - len(names)) + list(names)


def _devices_of(topology: Any, mesh: Any, args: object) -> tuple[str, list[Any]]:
    """The name and the devices of a topology."""
    if isinstance(topology, str):
        named = machines.machine(topology)
        described = topologies.get_topology_desc(
            named.topology, named.platform, **dict(named.options)
        )
        return topology, described.devices
    if topology is not None:
        return _kind(topology.devices), list(topology.devices)
    for found in [mesh, *(s.mesh for s in _shardings(args))]:
        if isinstance(found, Mesh):
            devices = list(found.devices.flat)
            return _kind(devices), devices
    raise ValueError(
        "plan: nothing says which devices it is for. Name them, topology='v5e-256', or lay the "
        "arguments over a mesh of a topology."
    )


def _kind(devices: Sequence[Any]) -> str:
    return f"{len(devices)} x {devices[0].device_kind}"


def mesh_over(mesh: Any, devices: Sequence[Any], where: str, args: object = ()) -> Mesh:
    """A mesh over the devices of a topology, its axes along those of the network.

    mesh: sizes by name, a mesh whose axes are taken, or None: that of the arguments.
    Raises ValueError if the sizes do not multiply to the number of devices.
    """
    types = None
    if mesh is None:
        mesh = next((s.mesh for s in _shardings(args)), None)
    if isinstance(mesh, Mesh) and list(mesh.devices.flat) == list(devices):
        return mesh
    if mesh is None:
        if len(devices) > 1:
            raise ValueError(
                f"plan: {where} has {len(devices)} devices, and nothing says how they are arranged."
                f" Name the axes of a mesh, mesh={{'data': {len(devices)}}}."
            )
        mesh = {"data": 1}
    if not isinstance(mesh, Mapping):
        types = mesh.axis_types
        mesh = dict(mesh.shape)
    sizes = {str(name): int(n) for name, n in mesh.items()}
    machines.check_mesh(sizes, len(devices), where)
    return Mesh(_grid(tuple(sizes.values()), devices), tuple(sizes), types)


def _grid(shape: tuple[int, ...], devices: Sequence[Any]) -> Any:
    """The devices in a grid, of which the first axis that can goes over slices."""
    slices = {getattr(d, "slice_index", 0) for d in devices}
    if len(slices) > 1:
        outer = [1] * len(shape)
        for axis, n in enumerate(shape):
            if n % len(slices) == 0:
                outer[axis] = len(slices)
                inner = [n // m for n, m in zip(shape, outer, strict=True)]
                return mesh_utils.create_hybrid_device_mesh(
                    inner, outer, devices, allow_split_physical_axes=True
                )
        raise ValueError(
            f"plan: {len(slices)} slices need an axis of the mesh that they divide, and the sizes "
            f"are {shape}. Make the axis of data a multiple of {len(slices)}."
        )
    return mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)


def _shardings(args: object) -> list[NamedSharding]:
    """The shardings of arguments that name a mesh."""
    found = []
    for leaf in pytrees.tree_leaves(args):
        with contextlib.suppress(TypeError):  # of a PartitionSpec, which names none yet
            found.append(getattr(leaf, "sharding", None))
    return [s for s in found if isinstance(s, NamedSharding)]


def laid(args: Any, mesh: Mesh) -> Any:
    """Arguments as types over a mesh: as their shardings say, whole on every device without one.

    Raises ValueError for a sharding along an axis that the mesh does not have.
    """

    def lay(leaf: Any) -> Any:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            return leaf
        said: Any = getattr(leaf, "sharding", None)
        spec = said if isinstance(said, PartitionSpec) else getattr(said, "spec", PartitionSpec())
        named = {
            name for e in spec if e is not None for name in (e if isinstance(e, tuple) else (e,))
        }
        missing = sorted(str(n) for n in named if isinstance(n, str) and n not in mesh.shape)
        if missing:
            raise ValueError(
                f"plan: an argument lies along {', '.join(map(repr, missing))}, {spec}, and the "
                f"mesh has the axes {', '.join(map(repr, mesh.shape))}."
            )
        over = getattr(said, "mesh", None)
        kind = said.memory_kind if isinstance(over, Mesh) else None
        return ShapeDtypeStruct(
            leaf.shape,
            leaf.dtype,
            sharding=NamedSharding(mesh, spec, memory_kind=kind if kind != "device" else None),
            weak_type=bool(getattr(leaf, "weak_type", False)),
        )

    with use_abstract_mesh(mesh.abstract_mesh):  # which PartitionSpecs name
        return pytrees.tree_map(lay, args)


def _tokens(args: object) -> int | None:
    """The size of the largest array of integers: batches of text are such."""
    sizes = [
        math.prod(leaf.shape)
        for leaf in pytrees.tree_leaves(args)
        if hasattr(leaf, "shape")
        and hasattr(leaf, "dtype")
        and len(leaf.shape) > 0
        and getattr(leaf.dtype, "kind", "") in "iu"
    ]
    return max(sizes, default=None)
