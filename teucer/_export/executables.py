"""Compiled functions as bytes, and back: machine code for this platform and this version of jaxlib.

Beside XLA's own bytes there are only JSON and numbers: no Python objects.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer._derived.stages import ArgInfo, Compiled
from teucer._devices import backends, processes
from teucer._devices.chosen import GSPMDSharding
from teucer._devices.placement import Placement
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer._executables.compile import LoadedCode
from teucer._export import serialization
from teucer._export.symbolic_shapes import SymbolicScope
from teucer._programs.lower import Lowering
from teucer._programs.program import Program
from teucer._targets.table import target_of
from teucer._trees import pytrees
from teucer._xla import client as xla
from teucer.random._keys import wrap_key_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from teucer._core.types import ShapedArray
    from teucer._core.typing import Params
    from teucer._xla.client import Client, Device
    from teucer._xla.pytree import PyTree, PyTreeDef


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled function as (bytes, tree of its arguments, tree of its results), for
    `deserialize_and_load`.

    The bytes load where platform and jaxlib are of the same version. The trees are in them as well,
    but for trees with keys that are no strings, or nodes of classes that are not registered for it
    (`export.register_pytree_node_serialization`). Raises TypeError if it is not compiled,
    ValueError if it calls Python functions.
    """
    if not isinstance(compiled, Compiled):
        raise TypeError(
            "serialize: a compiled function is needed, jit(f).lower(...).compile(), not "
            f"{type(compiled)}"
        )
    program = compiled.program
    if program.has_effects or program.callbacks:
        raise ValueError(
            f"serialize: '{program.name}' calls Python functions, which live in this process only."
        )
    devices = program.placement.devices
    infos = pytrees.tree_leaves(compiled.args_info)
    fields = {
        "name": program.name,
        "in_tree": _text_of(compiled.in_tree),
        "out_tree": _text_of(compiled.out_tree),
        "in_avals": [serialization.aval_text(info.aval) for info in infos],
        "donated": [info.donated for info in infos],
        "out_avals": [serialization.aval_text(aval) for aval in compiled.out_avals],
        "arg_names": list(compiled.arg_names),
        "kept": list(program.kept),
        "committed": program.placement.committed,
        "machine": _machine(program.placement.device),
        "consts": [serialization.aval_text(typeof(c)) for c in compiled.consts],
    }
    if program.placement.mesh is not None:
        avals = [*map(typeof, compiled.consts), *(info.aval for info in infos)]
        taken = itertools.compress(avals, program.kept)
        fields["laid_out"] = {
            "devices": [d.id for d in devices],
            "mesh": serialization.sharding_text(
                NamedSharding(program.placement.mesh, PartitionSpec()), devices
            ),
            "types": [serialization.sharding_text(info.aval.partition) for info in infos],
            "ins": [
                _layout_text(s, aval, devices)
                for s, aval in zip(program.in_shardings, taken, strict=True)
            ],
            "outs": [
                _layout_text(s, aval, devices)
                for s, aval in zip(program.out_shardings, compiled.out_avals, strict=True)
            ],
        }
    try:
        code = program.data
    except xla.XlaRuntimeError as err:
        raise ValueError(
            f"serialize: XLA cannot write the executable of '{program.name}': {err}"
        ) from err
    sections = [json.dumps(fields).encode(), code, *map(_bytes_of, compiled.consts)]
    return serialization.pack("executable", sections), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    backend: str | Client | None = None,
    execution_devices: Sequence[Device] | None = None,
) -> Compiled:
    """The compiled function that `serialize` wrote, loaded on devices; call it as it was.

    in_tree, out_tree: as `serialize` gave them; None for those in the bytes, if they are. backend:
    a platform's name or client.
    execution_devices: the devices to run on, instead of those that it was compiled for. By
    default a program on one device runs on the platform's first, and one over a mesh on the devices
    of the same numbers.
    Raises ValueError for bytes that it did not write, that are damaged, or that are for another
    platform, version of jaxlib or number of devices.
    """
    sections = serialization.unpack("executable", serialized)
    fields = json.loads(sections[0])
    laid_out = fields.get("laid_out")
    devices = _devices_for(laid_out, execution_devices or (), backend)
    device = devices[0]
    if fields["machine"] != _machine(device):
        raise ValueError(
            "deserialize: the executable is for another platform or version.\n"
            f"    made for: {fields['machine']}\n    here: {_machine(device)}\n"
            "  Compile the function anew, or export it."
        )
    scope = SymbolicScope()
    in_avals, out_avals, const_avals = (
        [serialization.aval_of(text, scope) for text in fields[name]]
        for name in ("in_avals", "out_avals", "consts")
    )
    in_tree = _tree_of(fields, "in_tree") if in_tree is None else in_tree
    out_tree = _tree_of(fields, "out_tree") if out_tree is None else out_tree
    mesh, ins, outs = None, (), ()
    if laid_out is not None:
        mesh = serialization.sharding_of(laid_out["mesh"], devices).mesh
        ins, outs = (
            tuple([serialization.sharding_of(text, devices) for text in laid_out[name]])
            for name in ("ins", "outs")
        )
        in_avals = [
            a
            if s is None
            else a.update(
                sharding=NamedSharding(mesh.abstract_mesh, serialization.sharding_of(s).spec)
            )
            for a, s in zip(in_avals, laid_out["types"], strict=True)
        ]
    options = xla.compile_options([d.id for d in devices], use_shardy=mesh is not None)
    executable = xla.deserialize(device.client, sections[1], xla.DeviceList(devices), options)
    placement = Placement(devices, fields["committed"] or bool(execution_devices), mesh)
    lowering = Lowering(
        "",
        tuple(fields["kept"]),
        (),
        False,
        False,
        (*const_avals, *in_avals),
        ins,
        outs,
        placement,
        trace_time=0.0,
        lower_time=0.0,
    )
    code, agreement = LoadedCode(executable, sections[1]), None
    if processes.state.client is not None:
        from teucer._executables.agreement import agreement_of  # for several processes

        text = "\n".join(module.to_string() for module in executable.hlo_modules())
        agreement = agreement_of(devices, fields["name"], text, code)
    program = Program(code, lowering, out_avals, fields["name"], agreement=agreement)
    infos = [
        ArgInfo(aval, donated) for aval, donated in zip(in_avals, fields["donated"], strict=True)
    ]
    consts = [_value_of(data, aval) for data, aval in zip(sections[2:], const_avals, strict=True)]
    return Compiled(
        program,
        consts,
        pytrees.tree_unflatten(in_tree, infos),
        out_tree,
        out_avals,
        fields["arg_names"],
    )


def _text_of(tree: PyTree) -> Any:
    """A tree as `tree_text` writes it. None if it cannot: the program that loads the function may
    have the tree."""
    try:
        return serialization.tree_text(tree)
    except (TypeError, ValueError):
        return None


def _tree_of(fields: Params, name: str) -> Any:
    if fields[name] is None:
        raise ValueError(
            f"deserialize: {name} is not in the bytes, because it has nodes of classes not "
            f"registered, or keys that are no strings.\n  Give the {name} that serialize "
            "returned, or register the classes before: "
            "jax.export.register_pytree_node_serialization."
        )
    return serialization.read_tree(fields[name])


def _layout_text(
    sharding: GSPMDSharding | NamedSharding | None, aval: ShapedArray, devices: Sequence[object]
) -> Any:
    return serialization.sharding_text(
        sharding.named(aval.ndim) if isinstance(sharding, GSPMDSharding) else sharding, devices
    )


def _devices_for(
    laid_out: Mapping[str, Any] | None, chosen: Sequence[Device], backend: str | Client | None
) -> tuple[Any, ...]:
    """The devices on which an executable is loaded. laid_out: None for a program on a single
    device."""
    client = backends.client_of(backend)
    if laid_out is None:
        return ((chosen or client.local_devices())[0],)
    needed = laid_out["devices"]
    by_id = {d.id: d for d in chosen or client.devices()}
    found = chosen or [by_id[i] for i in needed if i in by_id]
    if len(found) != len(needed):
        raise ValueError(
            f"deserialize: the executable runs on {len(needed)} devices, of numbers {needed}; "
            f"{len(found)} of these are there, or given as execution_devices.\n"
            "  Name as many as execution_devices, or start the process with more (on CPU: "
            "JAX_NUM_CPU_DEVICES)."
        )
    return tuple(found)


def _machine(device: Device) -> list[str]:
    """The versions and features that an executable depends on."""
    return [
        xla.jaxlib_version,
        device.platform,
        device.device_kind,
        device.client.platform_version,
        target_of(device.platform).machine(),
    ]


def _bytes_of(const: Any) -> bytes:
    aval = typeof(const)
    return np.ascontiguousarray(const._key_data() if aval.extended else const).tobytes()


def _value_of(data: bytes, aval: ShapedArray) -> Any:
    physical = aval.physical
    words = np.frombuffer(data, physical.dtype).reshape(physical.shape)
    return wrap_key_data(words, impl=aval.dtype._impl.name) if aval.extended else words
