"""Exported functions as bytes (docs/export.md says the format), and trees in a form that JSON can
say.

Nothing in the bytes is executed when they are read: they are JSON, and StableHLO's portable
artifact.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.memory import MemorySpace
from teucer._core.types import ShapedArray, float0
from teucer._devices.meshes import AbstractDevice, AbstractMesh, AxisType, Mesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import UNCONSTRAINED, PartitionSpec, UnreducedKind
from teucer._dimensions.dimensions import is_symbolic
from teucer._export.symbolic_shapes import SymbolicScope, symbolic_shape
from teucer._trees import pytrees
from teucer._xla import mlir
from teucer._xla.pytree import is_namedtuple, is_node, make_treedef
from teucer.random._keys import key_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from teucer._core.typing import Params
    from teucer._export.exported import DisabledSafetyCheck, Exported
    from teucer._xla.client import Device
    from teucer._xla.pytree import PyTree


_MAGIC = b"\x93teucer:"
_OPEN = {"open": True}  # an entry of a PartitionSpec that leaves it to the compiler
_KINDS = {"exported function": b"export", "executable": b"exec"}
_VERSION = 1


class _Node(NamedTuple):
    """How nodes of a class are written: the class, its name in the bytes, and how its auxiliary
    data are."""

    kind: type
    name: str
    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]
    from_children: Callable[[Any, Any], Any] | None


_by_class: dict[type, _Node] = {}
_by_name: dict[str, _Node] = {}


def register_pytree_node_serialization(
    nodetype: type,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Any], Any] | None = None,
) -> type:
    """Let exported functions take and return nodes of a class that is registered as a pytree. Gives
    the class back.

    serialized_name: its name in the bytes. serialize_auxdata, deserialize_auxdata: its
        auxiliary data as bytes, and back. from_children: (auxiliary data, children) -> node, where
        the registered one will not do.
    Raises ValueError if the class or the name is registered already, or the class is no pytree and
    there is no from_children.
    """
    if nodetype in _by_class:
        raise ValueError(
            f"Duplicate serialization registration for type `{nodetype}`. Previous registration "
            f"was with serialized_name `{_by_class[nodetype].name}`."
        )
    if serialized_name in _by_name:
        raise ValueError(
            f"Duplicate serialization registration for serialized_name `{serialized_name}`. "
            f"Previous registration was for type `{_by_name[serialized_name].kind}`."
        )
    if from_children is None and not (is_node(nodetype) or is_namedtuple(nodetype)):
        raise ValueError(
            "If `from_children` is not present, you must call first "
            f"`jax.tree_util.register_pytree_node` for `{nodetype}`."
        )
    node = _Node(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children)
    _by_class[nodetype] = _by_name[serialized_name] = node
    return nodetype


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Let exported functions take and return named tuples of a class. Gives the class back.

    Raises ValueError if it is not a class of named tuples, or the class or name is registered
    already.
    """
    if not is_namedtuple(nodetype):
        raise ValueError(
            "Use `jax.export.register_pytree_node_serialization` for types other than "
            f"`collections.namedtuple`: {nodetype}"
        )
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda aux: b"",
        deserialize_auxdata=lambda data: nodetype,
    )


register_pytree_node_serialization(
    OrderedDict,
    serialized_name="OrderedDict",
    serialize_auxdata=lambda keys: json.dumps(_string_keys(keys)).encode(),
    deserialize_auxdata=lambda data: tuple(json.loads(data)),
)


def _string_keys(keys: Sequence[Any]) -> list[str]:
    bad = [k for k in keys if not isinstance(k, str)]
    if bad:
        raise TypeError(
            "Serialization is supported only for dictionaries with string keys. Found key "
            f"{bad[0]!r} of type {type(bad[0])}."
        )
    return list(keys)


def write(exported: Exported, vjp_order: int) -> bytearray:
    """An `Exported` as bytes, with so many of its derivatives."""
    scopes = [n.scope for aval in exported.in_avals for n in aval.shape if is_symbolic(n)]
    fields = {
        "fun_name": exported.fun_name,
        "in_tree": tree_text(exported.in_tree),
        "out_tree": tree_text(exported.out_tree),
        "in_avals": [aval_text(a) for a in exported.in_avals],
        "out_avals": [aval_text(a) for a in exported.out_avals],
        "in_shardings": [sharding_text(s) for s in exported._in_named_shardings],
        "out_shardings": [sharding_text(s) for s in exported._out_named_shardings],
        "constraints": scopes[0].constraints if scopes else [],
        "nr_devices": exported.nr_devices,
        "platforms": list(exported.platforms),
        "disabled_safety_checks": [str(c) for c in exported.disabled_safety_checks],
        "calling_convention_version": exported.calling_convention_version,
        "module_kept_var_idx": list(exported.module_kept_var_idx),
        "uses_global_constants": exported.uses_global_constants,
    }
    parts = [json.dumps(fields).encode(), exported.mlir_module_serialized]
    if vjp_order > 0:
        parts.append(bytes(write(exported.vjp(), vjp_order - 1)))
    return bytearray(pack("exported function", parts))


def read(
    data: bytes | bytearray, exported: type[Exported], check: type[DisabledSafetyCheck]
) -> Any:
    """The function of the bytes, as an object of class `exported` with checks of class `check`."""
    sections = unpack("exported function", data)
    fields = json.loads(sections[0])
    scope = SymbolicScope(fields["constraints"])
    in_avals, out_avals = (
        tuple(aval_of(a, scope) for a in fields[name]) for name in ("in_avals", "out_avals")
    )
    derivative = read(sections[2], exported, check) if len(sections) > 2 else None
    mlir.read_portable(sections[1])
    return exported(
        fun_name=fields["fun_name"],
        in_tree=read_tree(fields["in_tree"]),
        in_avals=in_avals,
        out_tree=read_tree(fields["out_tree"]),
        out_avals=out_avals,
        _has_named_shardings=True,
        _in_named_shardings=tuple(map(sharding_of, fields["in_shardings"])),
        _out_named_shardings=tuple(map(sharding_of, fields["out_shardings"])),
        in_shardings_hlo=(None,) * len(in_avals),
        out_shardings_hlo=(None,) * len(out_avals),
        nr_devices=fields["nr_devices"],
        platforms=tuple(fields["platforms"]),
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=tuple(check(text) for text in fields["disabled_safety_checks"]),
        mlir_module_serialized=sections[1],
        calling_convention_version=fields["calling_convention_version"],
        module_kept_var_idx=tuple(fields["module_kept_var_idx"]),
        uses_global_constants=fields["uses_global_constants"],
        _get_vjp=None if derivative is None else lambda _: derivative,
    )


def pack(what: str, sections: Sequence[bytes]) -> bytes:
    """Sections in an envelope: its kind, its version, each section after its length, and a
    checksum."""
    head = _MAGIC + _KINDS[what].ljust(8, b"\0") + struct.pack("<II", _VERSION, len(sections))
    body = head + b"".join(struct.pack("<Q", len(s)) + s for s in sections)
    return body + hashlib.sha256(body).digest()


def unpack(what: str, data: bytes | bytearray | memoryview) -> list[bytes]:
    """The sections of an envelope.

    Raises TypeError for other objects than bytes, ValueError for an envelope of another kind or
    version, or a damaged one.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(
            f"deserialize: the bytes of a serialized {what} are needed, got {type(data)}."
        )
    data = bytes(data)
    head = len(_MAGIC) + 16
    if not data.startswith(_MAGIC + _KINDS[what].ljust(8, b"\0")) or len(data) < head + 32:
        raise ValueError(
            f"deserialize: the bytes are not a serialized {what}.\n"
            f"    they begin with {data[:16]!r} and are {len(data)}"
        )
    version, count = struct.unpack("<II", data[head - 8 : head])
    if version != _VERSION:
        raise ValueError(
            f"deserialize: the bytes are of version {version} of the format; this version of "
            f"teucer reads {_VERSION}."
        )
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise ValueError(
            f"deserialize: the serialized {what} is damaged: its checksum does not fit."
        )
    at, sections = head, []
    for _ in range(count):
        (size,) = struct.unpack("<Q", data[at : at + 8])
        sections.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return sections


def aval_text(aval: ShapedArray) -> dict[str, Any]:
    """A type as a dict that can be written as JSON."""
    dtype = (
        "float0"
        if aval.dtype == float0
        else aval.dtype._impl.name
        if aval.extended
        else aval.dtype.name
    )
    return {
        "shape": [str(n) if is_symbolic(n) else n for n in aval.shape],
        "dtype": dtype,
        "weak_type": aval.weak_type,
        "key": aval.extended,
        "sharding": sharding_text(aval.partition),
        "memory": aval.memory_space.name,
    }


def aval_of(text: Params, scope: SymbolicScope) -> ShapedArray:
    shape = tuple(
        symbolic_shape(n, scope=scope)[0] if isinstance(n, str) else int(n) for n in text["shape"]
    )
    name = text["dtype"]
    dtype = (
        key_dtype(name) if text["key"] else float0 if name == "float0" else dtypes.as_dtype(name)
    )
    return ShapedArray(
        shape,
        dtype,
        text["weak_type"],
        sharding=sharding_of(text.get("sharding")),
        memory_space=MemorySpace[text.get("memory", "Device")],
    )


def sharding_text(sharding: NamedSharding | None, devices: Sequence[object] = ()) -> Any:
    """A NamedSharding in a form that JSON can hold. devices: if a Mesh has these, they are named by
    their places."""
    if sharding is None:
        return None
    mesh, spec = sharding.mesh, sharding.spec
    text: dict[str, Any] = {
        "mesh": [list(axis) for axis in mesh.shape_tuple],
        "spec": [
            _OPEN if entry is UNCONSTRAINED else list(entry) if isinstance(entry, tuple) else entry
            for entry in spec.partitions
        ],
    }
    for name, axes in ("unreduced", spec.unreduced), ("reduced", spec.reduced):
        if axes:
            text[name] = sorted(axes)
    if spec.combined:
        text["combined"] = spec.combined
    if isinstance(mesh, AbstractMesh) and mesh.abstract_device is not None:
        text["device"] = dataclasses.asdict(mesh.abstract_device)
    if any(kind is not AxisType.Auto for kind in mesh.axis_types):
        text["types"] = [kind.name for kind in mesh.axis_types]
    if devices:
        place = {d: i for i, d in enumerate(devices)}
        text["devices"] = [place[d] for d in mesh.devices.flat]
    if sharding._memory_kind is not None:
        text["memory"] = sharding._memory_kind
    return text


def sharding_of(text: Mapping[str, Any] | None, devices: Sequence[Device] = ()) -> Any:
    """The sharding that `sharding_text` wrote, over these devices."""
    if text is None:
        return None
    names, sizes = zip(*text["mesh"], strict=True) if text["mesh"] else ((), ())
    spec = PartitionSpec(
        *[
            UNCONSTRAINED if entry == _OPEN else tuple(entry) if isinstance(entry, list) else entry
            for entry in text["spec"]
        ],
        unreduced=frozenset(text.get("unreduced", ())),
        reduced=frozenset(text.get("reduced", ())),
        unreduced_kind=UnreducedKind[text["combined"]] if "combined" in text else None,
    )
    types = tuple([AxisType[name] for name in text.get("types", ["Auto"] * len(names))])
    if "devices" not in text:
        device = AbstractDevice(**text["device"]) if "device" in text else None
        abstract = AbstractMesh(sizes, names, types, abstract_device=device)
        return NamedSharding(abstract, spec, memory_kind=text.get("memory"))
    own = np.empty(len(text["devices"]), object)
    own[:] = [devices[i] for i in text["devices"]]
    mesh = Mesh(own.reshape(sizes), names, types)
    return NamedSharding(mesh, spec, memory_kind=text.get("memory"))


def tree_text(tree: PyTree) -> Any:
    """The structure of a tree in a form that JSON can say.

    Raises ValueError for nodes of classes that are not registered for it.
    """
    data = tree.node_data()
    if data is None:
        return "leaf"
    kind, aux = data
    if kind is type(None):
        return "none"
    children = [tree_text(child) for child in tree.children()]
    if kind in (tuple, list):
        return {"node": kind.__name__, "children": children}
    if kind is dict:
        return {"node": "dict", "keys": _string_keys(aux), "children": children}
    node = _by_class.get(kind)
    if node is None:
        how = (
            "register_namedtuple_serialization"
            if hasattr(kind, "_fields")
            else "register_pytree_node_serialization"
        )
        raise ValueError(
            f"Cannot serialize PyTreeDef: a node is of unregistered type {kind}.\n"
            f"  Use jax.export.{how}."
        )
    return {
        "node": "registered",
        "name": node.name,
        "aux": base64.b64encode(node.serialize(aux)).decode(),
        "children": children,
    }


def read_tree(text: Any) -> Any:
    """The structure that `tree_text` wrote.

    Raises ValueError for nodes of classes that are not registered in this process.
    """
    if text in ("leaf", "none"):
        return pytrees.tree_structure(0 if text == "leaf" else None)
    children = [read_tree(child) for child in text["children"]]
    if text["node"] in ("tuple", "list"):
        return make_treedef((tuple if text["node"] == "tuple" else list, None), children)
    if text["node"] == "dict":
        return make_treedef((dict, text["keys"]), children)
    node = _by_name.get(text["name"])
    if node is None:
        raise ValueError(
            "Cannot deserialize a PyTreeDef: there is no class registered under serialized_name "
            f"`{text['name']}`.\n  Register it before, as where it was written: "
            "jax.export.register_pytree_node_serialization."
        )
    aux = node.deserialize(base64.b64decode(text["aux"]))
    if node.from_children is None:
        return make_treedef((node.kind, aux), children)
    return pytrees.tree_structure(
        node.from_children(aux, [pytrees.tree_unflatten(c, range(c.num_leaves)) for c in children])
    )
