"""Compiled functions as bytes, and back: machine code for this platform and this version of jaxlib.

Beside XLA's own bytes there are only JSON and numbers: no Python objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._core.trace import typeof
from teucer._derived.stages import ArgInfo, Compiled
from teucer._export.serialization import aval_of, aval_text, pack, read_tree, tree_text, unpack
from teucer._export.symbolic_shapes import SymbolicScope
from teucer._runtime import backends, cpu_features
from teucer._transform import programs
from teucer._trees import pytrees
from teucer._xla import client as xla
from teucer.random._keys import wrap_key_data

__all__ = ["deserialize_and_load", "serialize"]


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """A compiled function as (bytes, tree of its arguments, tree of its results), for `deserialize_and_load`.

    The bytes load where platform and jaxlib are of the same version. The trees are in them as well.
    Raises TypeError if it is not compiled, ValueError if it calls Python functions or has nodes of trees that are not registered
    (`export.register_pytree_node_serialization`).
    """
    if not isinstance(compiled, Compiled):
        raise TypeError(f"serialize: a compiled function is needed, jit(f).lower(...).compile(), not {type(compiled)}")
    program = compiled.program
    if program.has_effects:
        raise ValueError(f"serialize: '{program.name}' calls Python functions, which live in this process only.")
    if program.placement.mesh is not None:
        raise NotImplementedError(f"serialize: '{program.name}' runs over {program.placement.mesh}. Only programs on one device "
                                  "can be serialized; the disk cache keeps others.")
    infos = pytrees.tree_leaves(compiled.args_info, is_leaf=lambda x: isinstance(x, ArgInfo))
    fields = {
        "name": program.name, "in_tree": tree_text(compiled.in_tree), "out_tree": tree_text(compiled.out_tree),
        "in_avals": [aval_text(info.aval) for info in infos], "donated": [info.donated for info in infos],
        "out_avals": [aval_text(aval) for aval in compiled.out_avals], "arg_names": list(compiled.arg_names),
        "kept": list(program.kept), "committed": program.placement.committed,
        "machine": _machine(program.placement.device),
        "consts": [aval_text(typeof(c)) for c in compiled.consts],
    }
    try:
        code = program.data
    except xla.XlaRuntimeError as err:
        raise ValueError(f"serialize: XLA cannot write the executable of '{program.name}': {err}") from err
    sections = [json.dumps(fields).encode(), code, *map(_bytes_of, compiled.consts)]
    return pack("executable", sections), compiled.in_tree, compiled.out_tree


def deserialize_and_load(serialized: bytes, in_tree: Any, out_tree: Any, backend: str | Any | None = None,
                         execution_devices: Sequence[Any] | None = None) -> Compiled:
    """The compiled function that `serialize` wrote, loaded on a device; call it as it was.

    in_tree, out_tree: as `serialize` gave them; None for those in the bytes. backend: a platform's name or client.
    execution_devices: the device to run on.
    Raises ValueError for bytes that it did not write, that are damaged, or that are for another platform or version of jaxlib.
    """
    sections = unpack("executable", serialized)
    fields = json.loads(sections[0])
    device = execution_devices[0] if execution_devices else backends.client_of(backend).local_devices()[0]
    if fields["machine"] != _machine(device):
        raise ValueError("deserialize: the executable is for another platform or version.\n"
                         f"    made for: {fields['machine']}\n    here: {_machine(device)}\n"
                         "  Compile the function anew, or export it.")
    scope = SymbolicScope()
    in_avals, out_avals, const_avals = ([aval_of(text, scope) for text in fields[name]]
                                        for name in ("in_avals", "out_avals", "consts"))
    in_tree = read_tree(fields["in_tree"]) if in_tree is None else in_tree
    out_tree = read_tree(fields["out_tree"]) if out_tree is None else out_tree
    executable = xla.deserialize(device.client, sections[1], xla.DeviceList((device,)), xla.compile_options((device.id,)))
    placement = programs.Placement((device,), fields["committed"] or bool(execution_devices))
    lowering = programs.Lowering("", tuple(fields["kept"]), (), False, False, (*const_avals, *in_avals), (), (), placement,
                                 trace_time=0.0, lower_time=0.0)
    program = programs.Program(programs.LoadedCode(executable, sections[1]), lowering, placement, out_avals, fields["name"])
    infos = [ArgInfo(aval, donated) for aval, donated in zip(in_avals, fields["donated"], strict=True)]
    consts = [_value_of(data, aval) for data, aval in zip(sections[2:], const_avals, strict=True)]
    return Compiled(program, consts, pytrees.tree_unflatten(in_tree, infos), out_tree, out_avals, fields["arg_names"])


def _machine(device: Any) -> list[str]:
    """What an executable depends on."""
    cpu = cpu_features.host() if device.platform == "cpu" else ""
    return [xla.jaxlib_version, device.platform, device.device_kind, device.client.platform_version, cpu]


def _bytes_of(const: Any) -> bytes:
    aval = typeof(const)
    return np.ascontiguousarray(const._key_data() if aval.extended else const).tobytes()


def _value_of(data: bytes, aval: Any) -> Any:
    physical = aval.physical
    words = np.frombuffer(data, physical.dtype).reshape(physical.shape)
    return wrap_key_data(words, impl=aval.dtype._impl.name) if aval.extended else words
