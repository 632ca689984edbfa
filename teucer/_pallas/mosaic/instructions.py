"""Mosaic's rules of what TPUs have instructions for, and of other devices: copies, semaphores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from teucer import lax
from teucer._core.jaxpr import Eqn
from teucer._pallas import copies, tpu
from teucer._pallas.mosaic import memory
from teucer._pallas.mosaic.shapes import rotated
from teucer._pallas.mosaic.table import MOSAIC
from teucer._pallas.mosaic.text import (
    F32,
    I32,
    Ref,
    Refused,
    Value,
    Writer,
    bits,
    element,
    is_float,
    type_text,
)


@MOSAIC.define(tpu.roll_p)
def _roll(w: Writer, eqn: Eqn, x: Value, shift: Value) -> Any:
    p = eqn.params
    stride = None if p["stride"] is None else (p["stride"], p["stride_axis"])
    return (rotated(w, x, shift, p["axis"], stride),)


@MOSAIC.define(tpu.packed_bitcast_p)
def _packed(w: Writer, eqn: Eqn, x: Value) -> Any:
    dtype, shape = eqn.params["dtype"], eqn.outvars[0].aval.shape
    if bits(dtype) == bits(x.dtype) and dtype == x.dtype:
        return (x,)
    if type_text(dtype, shape) == x.type:
        return (Value(x.name, np.dtype(dtype), shape),)
    kind = type_text(dtype, shape)
    return (w.make(f"tpu.bitcast {x.name} : {x.type} -> {kind}", dtype, shape),)


@MOSAIC.define(tpu.approximate_reciprocal_p)
def _reciprocal(w: Writer, eqn: Eqn, x: Value) -> Any:
    if not x.shape:
        return MOSAIC[lax.div_p](w, eqn, w.constant(1, x.dtype), x)
    wide = w.convert(x, F32)
    kind = f"{wide.type} -> {wide.type}"
    out = w.make(f"tpu.reciprocal {wide.name} {{approx = true}} : {kind}", F32, x.shape)
    return (w.convert(out, x.dtype),)


@MOSAIC.define(tpu.pack_elementwise_p)
def _pack(w: Writer, eqn: Eqn, *xs: Value) -> Any:
    dtype, shape = eqn.params["dtype"], xs[0].shape
    names, kinds = ", ".join(x.name for x in xs), ", ".join(x.type for x in xs)
    said = f"{{target_type = {element(dtype)}}}"
    kind = type_text(I32, shape)
    return (w.make(f"tpu.pack_elementwise {names} {said} : {kinds} -> {kind}", np.uint32, shape),)


@MOSAIC.define(tpu.unpack_elementwise_p)
def _unpack(w: Writer, eqn: Eqn, x: Value) -> Any:
    p = eqn.params
    wide = np.dtype(F32 if is_float(p["packed"]) else I32)
    said = f"{x.name}, {p['index']} {{source_type = {element(p['packed'])}}}"
    kind = type_text(wide, x.shape)
    out = w.make(f"tpu.unpack_elementwise {said} : {x.type} -> {kind}", wide, x.shape)
    return (w.convert(out, p["unpacked"]),)


@MOSAIC.define(tpu.stochastic_round_p)
def _stochastic_round(w: Writer, eqn: Eqn, x: Value, random: Value) -> Any:
    dtype = eqn.outvars[0].aval.dtype
    kind = type_text(dtype, x.shape)
    said = f"{x.name}, {random.name} : {x.type}, {random.type} -> {kind}"
    return (w.make(f"tpu.stochastic_convert {said}", dtype, x.shape),)


@MOSAIC.define(tpu.multiple_of_p)
def _multiple(w: Writer, eqn: Eqn, x: Value) -> Any:
    by = math.lcm(*eqn.params["values"])
    if x.shape or by < 2:
        return (x,)
    return (w.make(f"tpu.assume_multiple {x.name}, {by} : {x.type}", x.dtype, (), x.bounds),)


@MOSAIC.define(tpu.delay_p)
def _delay(w: Writer, eqn: Eqn, x: Value) -> Any:
    w.line(f"tpu.delay {w.convert(x, I32).name}")
    return ()


# --- Copies and semaphores ----------------------------------------------------------------------


def _memories(w: Writer, eqn: Eqn, operands: tuple[Any, ...]) -> tuple[list[Ref], tuple[Any, ...]]:
    found = copies.taken(operands, eqn.params["views"])
    refs = [memory.memory(w, memory.part_of(w, p.ref, p.views, p.places)) for p in found.parts]
    return refs, found.rest


def _remote(w: Writer, eqn: Eqn, rest: tuple[Any, ...]) -> str:
    """The number of the device to which a copy goes."""
    if not eqn.params["mesh"]:
        return ""
    w.remote = True
    return f" device_id({_device(w, eqn, rest[0])})"


def _device(w: Writer, eqn: Eqn, number: Value) -> str:
    """The number of a device in the program, from that in the mesh of its manual axes."""
    if w.mesh and tuple(w.mesh) != tuple(eqn.params["mesh"]):
        number = _in_program(w, number, eqn.params["mesh"])
    return number.name


def _in_program(w: Writer, number: Value, mesh: copies.Mesh) -> Value:
    """The number among all devices, those of other axes at this one's place."""
    places, rest = {}, number
    for name, size in reversed(mesh):
        n = w.constant(size, I32)
        places[name] = w.make(f"arith.remsi {rest.name}, {n.name} : i32", I32)
        rest = w.make(f"arith.divsi {rest.name}, {n.name} : i32", I32)
    out = w.constant(0, I32)
    for name, size in w.mesh:
        place = places[name] if name in places else axis_index(w, name)
        out = w.add(w.times(out, size), place)
    return out


def axis_index(w: Writer, name: Any) -> Value:
    """The place of this device along an axis of the mesh."""
    sizes = dict(w.mesh)
    if name not in sizes:
        known = ", ".join(map(repr, sizes)) or "none"
        raise Refused(
            f"axis_index of {name!r}, which is no axis of the mesh: {known}",
            "Pass the place as an argument of the kernel.",
        )
    names = [n for n, _ in w.mesh]
    step = math.prod(size for _, size in w.mesh[names.index(name) + 1 :])
    me = w.make("tpu.device_id : i32", I32)
    if step > 1:
        me = w.make(f"arith.divui {me.name}, {w.constant(step, I32).name} : i32", I32)
    n = sizes[name]
    return w.make(f"arith.remui {me.name}, {w.constant(n, I32).name} : i32", I32, (), (0, n - 1))


@MOSAIC.define(lax.axis_index_p)
def _axis_index(w: Writer, eqn: Eqn) -> Any:
    name = eqn.params["axis_name"]
    if name in w.cores:
        return (w.cores[name],)
    return (axis_index(w, name),)


@MOSAIC.define(copies.dma_start_p)
def _dma_start(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    (source, target, *sems), rest = _memories(w, eqn, operands)
    if eqn.params["add"]:
        raise Refused("a copy that adds", "Copy to scratch memory, and add there: o_ref[...] += x.")
    if not sems:
        raise Refused("a copy without a semaphore", "Give it one: pltpu.SemaphoreType.DMA.")
    said = f"source({source.name} : {source.type}) target({target.name} : {target.type})"
    if len(sems) > 1:
        if not eqn.params["mesh"]:
            raise Refused(
                "a semaphore of the source of a copy on one device",
                "The end of such a copy frees its source too: leave src_sem out.",
            )
        said += f" source_semaphore({sems[1].name} : {sems[1].type})"
    said += f" target_semaphore({sems[0].name} : {sems[0].type})"
    priority = eqn.params["priority"]
    more = f" {{priority = {priority} : i32}}" if priority else ""
    w.line(f"tpu.enqueue_dma {said}{_remote(w, eqn, rest)}{more}")
    return ()


@MOSAIC.define(copies.dma_wait_p)
def _dma_wait(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    (source, target, *sems), rest = _memories(w, eqn, operands)
    send = eqn.params["send"]
    said = f"source({source.name} : {source.type}) target({target.name} : {target.type})"
    if len(sems) > 1:
        said += f" source_semaphore({sems[1].name} : {sems[1].type})"
    said += f" target_semaphore({sems[0].name} : {sems[0].type})"
    target_too = "false" if send and len(sems) > 1 else "true"
    w.line(f"tpu.wait_dma {said}{_remote(w, eqn, rest)} {{wait_target = {target_too}}}")
    return ()


@MOSAIC.define(copies.semaphore_signal_p)
def _signal(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    (sem,), (inc, *rest) = _memories(w, eqn, operands)
    more = ""
    if eqn.params["mesh"]:
        w.remote = True
        more += f" device_id {_device(w, eqn, rest[0])}"
    if eqn.params["core"]:
        more += f" core_id {rest[-1].name}"
    w.line(f"tpu.sem_signal {sem.name}, {inc.name}{more} : {sem.type}")
    return ()


@MOSAIC.define(copies.semaphore_wait_p)
def _wait(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    (sem,), (value,) = _memories(w, eqn, operands)
    if not eqn.params["decrement"]:
        raise Refused("semaphore_wait with decrement=False", "Wait, and signal as much again.")
    w.line(f"tpu.sem_wait {sem.name}, {value.name} : {sem.type}")
    return ()


@MOSAIC.define(copies.semaphore_read_p)
def _read(w: Writer, eqn: Eqn, *operands: Any) -> Any:
    (sem,), _ = _memories(w, eqn, operands)
    return (w.make(f"tpu.sem_read {sem.name} : {sem.type} -> i32", I32),)
