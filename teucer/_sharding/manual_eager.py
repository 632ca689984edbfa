"""`shard_map` called eagerly.

Operations run one after the other, on values that differ from device to device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer._base import config, memo
from teucer._core import dialects
from teucer._core.jaxpr import ClosedJaxpr, jaxprs_in_params
from teucer._core.leaks import check_alive
from teucer._core.stage import stage_flat, stage_jaxpr
from teucer._core.trace import EVAL, Trace, Tracer, end, typeof, using
from teucer._devices.specs import PartitionSpec
from teucer._sharding.manual_call import (
    inside,
    named_over,
    shard_map_p,
    stacked,
    stacked_aval,
    unstacked,
)
from teucer._transform.jit_calls import hoist_consts

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.types import Aval, ShapedArray
    from teucer._core.typing import Array, Params, Value, Values


class Devices(NamedTuple):
    """For which devices a function runs: a mesh, its manual axes, and whether types say over which
    of them values vary."""

    mesh: Any
    manual: frozenset[Any]
    check_vma: bool

    def side_by_side(self, aval: ShapedArray) -> PartitionSpec:
        """How the stacked parts of a value lie over the mesh."""
        return PartitionSpec(named_over(aval, *self))

    def run(
        self,
        jaxpr: ClosedJaxpr,
        args: Sequence[Value],
        ins: Sequence[PartitionSpec],
        outs: Sequence[PartitionSpec],
    ) -> Any:
        """Run a jaxpr on the parts of arrays."""
        with using(EVAL):
            return shard_map_p.call(
                *args,
                jaxpr=jaxpr,
                mesh=self.mesh,
                in_specs=tuple(ins),
                out_specs=tuple(outs),
                check_vma=self.check_vma,
                newly_manual_axes=self.manual,
            )


@final
class ShardMapTracer(Tracer):
    """A value that each device has for itself. The values are stacked, one for each place along the
    axes that they vary over."""

    __slots__ = ("aval", "value")
    aval: Any

    def __init__(self, trace: Trace, value: Value, aval: ShapedArray) -> None:
        self._trace, self.value, self.aval = trace, value, aval

    def concrete(self) -> Any:
        devices: Devices = self._trace.devices  # type: ignore[attr-defined]
        if named_over(self.aval, *devices):
            return None
        return np.asarray(self.value).reshape(self.aval.shape)

    def reason(self) -> str:
        return (
            "This value may differ from device to device (shard_map); a sum, say, over the mesh "
            "axes does not."
        )

    def __repr__(self) -> str:
        mesh, names = self._trace.devices.mesh, named_over(self.aval, *self._trace.devices)  # type: ignore[attr-defined]
        values, lines = dict(_rows_here(self.value)), []
        for place in np.ndindex(*mesh.axis_sizes):
            at = 0
            for name, i, size in zip(mesh.axis_names, place, mesh.axis_sizes, strict=True):
                at = at * size + i if name in names else at
            if at not in values:
                continue
            device = mesh.devices[place] if hasattr(mesh, "flat_devices") else "a device"
            axes = ", ".join(map(str, mesh.axis_names)) + ","
            lines.append(
                f"On {device} at mesh coordinates ({axes}) = {tuple(map(int, place))}:\n"
                f"{values[at]}\n"
            )
        return "\n".join(lines)

    __str__ = __repr__


def _rows_here(value: Value) -> Iterator[tuple[int, Any]]:
    """The rows of a stacked value that this process holds, and their numbers."""
    if getattr(value, "is_fully_addressable", True):
        yield from enumerate(np.asarray(value))
        return
    for shard in value.addressable_shards:  # type: ignore[attr-defined]  # an array
        yield from enumerate(np.asarray(shard.data), shard.index[0].start or 0)


# The programs of operations for all devices, by the operation and the types of its operands.
_programs: dict[Any, Any] = {}


@final
class ShardMapTrace(Trace):
    """Runs each primitive at once, on every device."""

    __slots__ = ("devices",)

    def __init__(self, devices: Devices) -> None:
        super().__init__(EVAL)
        self.placed[:] = (True,)
        self.devices = devices

    def process(self, primitive: Primitive, args: Values, params: Params) -> tuple[Any, ...]:
        if dialects.makes_references[type(primitive)]:
            raise ValueError(
                f"Eager shard_map cannot return a `jax.Ref`, as {primitive} does: operations run "
                "one by one there.\n  Wrap the function, or the call of shard_map, in jax.jit."
            )
        if primitive.higher_order and not any(jaxprs_in_params(params)):
            # It carries functions of Python, which run here.
            return primitive.evaluate(*args, **params)
        for x in args:
            check_alive(x)
        avals = tuple(x.aval if type(x) is ShardMapTracer else typeof(x) for x in args)
        mine = tuple(type(x) is ShardMapTracer for x in args)
        # Axes of inner vmaps belong to the types of the values that run.
        key: Any = (primitive, *params.items(), avals, mine, self.devices, config.trace_context())
        try:
            found = _programs.get(key)
        except TypeError:
            key, found = None, None
        if found is None:
            with inside(*self.devices):
                found = _operation(self.devices, primitive, avals, mine, params)
            if key is not None and not found[1]:
                memo.remember(_programs, key, found)
        jaxpr, consts, out_avals = found
        values = [x.value if type(x) is ShardMapTracer else x for x in (*consts, *args)]
        specs = [
            self.devices.side_by_side(typeof(x)) if type(x) is ShardMapTracer else PartitionSpec()
            for x in (*consts, *args)
        ]
        outs = self.devices.run(
            jaxpr, values, specs, list(map(self.devices.side_by_side, out_avals))
        )
        return tuple(ShardMapTracer(self, y, aval) for y, aval in zip(outs, out_avals, strict=True))

    def lifted(self, x: Value) -> ShardMapTracer:
        """A value that is the same on each device."""
        check_alive(x)
        aval = typeof(x)
        return ShardMapTracer(
            self,
            _placed(
                x, aval, self.devices, stacked, PartitionSpec(), self.devices.side_by_side(aval)
            ),
            aval,
        )

    def __repr__(self) -> str:
        return "a function under shard_map"


def _operation(
    devices: Devices,
    primitive: Primitive,
    avals: Sequence[Aval],
    mine: Sequence[bool],
    params: Params,
) -> Any:
    """A primitive as a jaxpr from stacked operands (`mine`) to stacked results; its constants;
    types of the results."""
    with using(EVAL):
        inner, consts = stage_flat(lambda *xs: primitive.call(*xs, **params), avals)
        closed = hoist_consts(inner)
        if any(aval.is_high for aval in closed.out_avals):
            raise NotImplementedError(
                f"Eager shard_map cannot hold what {primitive} gives, a value of type "
                f"{closed.out_avals[0].str_short()}: operations run one by one there.\n  Wrap the "
                "function, or the call of shard_map, in jax.jit."
            )
        are_stacked = [*(type(c) is ShardMapTracer for c in consts), *mine]

        def on_stacked(*xs: Array) -> list[Any]:
            return list(
                map(
                    stacked,
                    closed(
                        *(unstacked(x) if s else x for x, s in zip(xs, are_stacked, strict=True))
                    ),
                )
            )

        given = [
            stacked_aval(a) if s else a for a, s in zip(closed.in_avals, are_stacked, strict=True)
        ]
        return stage_jaxpr(on_stacked, given), consts, tuple(closed.out_avals)


def _placed(
    x: Value,
    aval: ShapedArray,
    devices: Devices,
    change: Callable[[Any], object],
    ins: PartitionSpec,
    outs: PartitionSpec,
) -> Any:
    """An array whose parts are changed: `stacked` or `unstacked`."""
    key = (change, aval, devices)
    jaxpr = _programs.get(key)
    if jaxpr is None:
        with inside(*devices), using(EVAL):
            jaxpr = memo.remember(_programs, key, stage_jaxpr(lambda part: (change(part),), [aval]))
    return devices.run(jaxpr, [x], [ins], [outs])[0]


def run_eagerly(
    f: Callable[..., Sequence[object]],
    args: Sequence[Value],
    avals: Sequence[ShapedArray],
    in_specs: Sequence[PartitionSpec],
    out_specs: Callable[[Sequence[object]], Sequence[PartitionSpec]],
    devices: Devices,
) -> Any:
    """The results of a function that each device runs on its parts, of types `avals`, of arrays.

    out_specs: from the types of the parts of results.
    """
    trace = ShardMapTrace(devices)
    parts = [
        ShardMapTracer(trace, _placed(x, a, devices, stacked, spec, devices.side_by_side(a)), a)
        for x, a, spec in zip(args, avals, in_specs, strict=True)
    ]
    with inside(*devices), using(trace):
        outs = [y if type(y) is ShardMapTracer else trace.lifted(y) for y in f(*parts)]
    end(trace)
    specs = out_specs([y.aval for y in outs])
    return [
        _placed(
            y.value, stacked_aval(y.aval), devices, unstacked, devices.side_by_side(y.aval), spec
        )
        for y, spec in zip(outs, specs, strict=True)
    ]
