"""The collectives of a compiled program: their lines, and remedies that would remove them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._base import tracebacks
from teucer._derived import hlo_text as hlo
from teucer._derived.communication.groups import mesh_axes
from teucer._derived.communication.table import Collective, Communication
from teucer._derived.stages import jit
from teucer._programs.compiler import located

if TYPE_CHECKING:
    from teucer._core.typing import Value


# How many bytes one of n devices sends in a ring, if each has b bytes.
_SENT: dict[str, Callable[[int, int], float]] = {
    "all-reduce": lambda b, n: 2 * b * (n - 1) / n,
    "all-gather": lambda b, n: b * (n - 1),
    "reduce-scatter": lambda b, n: b * (n - 1) / n,
    "all-to-all": lambda b, n: b * (n - 1) / n,
    "ragged-all-to-all": lambda b, n: b * (n - 1) / n,
    "collective-permute": lambda b, n: float(b),
    "collective-broadcast": lambda b, n: float(b),
}
# Equations that are collectives as the user writes them, or as derivatives make of them.
_WRITTEN = re.compile(
    r"psum|pmax|pmin|pmean|all_gather|all_to_all|ppermute|reduce_scatter|pbroadcast"
    r"|pgather|ragged_all"
)
# Words in the names of fusions that only move elements.
_MOVING = {
    "fusion", "wrapped", "loop", "input", "copy", "bitcast", "convert", "transpose", "slice",
    "dynamic-slice", "reshape", "clone",
}  # fmt: skip
_OP_NAME = r'op_name="([^"]*)"'
# Operations whose results are elements of their first operand.
_HANDS_ON = {
    "copy",
    "bitcast",
    "convert",
    "reshape",
    "transpose",
    "slice",
    "dynamic-slice",
    "bitcast-convert",
    "copy-start",
    "copy-done",
    *_SENT,
}


@tracebacks.api_boundary
def communication(f: Callable[..., object], *args: object, **kwargs: object) -> Communication:
    """The communication of a call: the collectives of its program.

    f: a function, jitted or not. args, kwargs: its arguments: arrays over a mesh, or
    ShapeDtypeStructs with shardings. It is compiled, and not called.
    Returns a table of `Collective` rows: kind, types, bytes for each device, axes, line, and a
    remedy.

    >>> import teucer as jax
    >>> mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> x = jax.ShapeDtypeStruct((16, 4), "float32", sharding=jax.NamedSharding(mesh, jax.P("x")))
    >>> [row] = communication(lambda x: x.sum(), x)
    >>> row.kind, row.axes, row.bytes, row.operation
    ('all-reduce', ('x',), 4, 'reduce_sum')
    """
    jitted = f if hasattr(f, "trace") else jit(f)
    traced = jitted.trace(*args, **kwargs)
    lowering, executable = located(traced.job)
    arguments = [
        _Argument(name, aval, sharding)
        for name, aval, sharding in zip(
            _kept(
                ("",) * (len(lowering.kept) - len(traced.arg_names)) + tuple(traced.arg_names),
                lowering.kept,
            ),
            _kept(lowering.in_avals, lowering.kept),
            lowering.ins,
            strict=True,
        )
    ]
    mesh = lowering.placement.mesh
    sizes = {} if mesh is None else dict(mesh.shape)
    modules = (
        [hlo.Module(m.to_string()) for m in executable.whole().hlo_modules()]
        if mesh is not None
        else []
    )
    rows = [row for module in modules for row in _Reader(module, sizes, arguments).rows()]
    return Communication(traced.fun_name, sizes, rows)


def _kept(values: Sequence[Value], kept: Sequence[bool]) -> list[Any]:
    return [value for value, keep in zip(values, kept, strict=True) if keep]


def _shown(file: str, line: int, function: str) -> str:
    return f"{file.removeprefix(os.getcwd() + os.sep)}:{line}" + (
        f" ({function})" if function else ""
    )


class _Argument(NamedTuple):
    name: str
    aval: Any
    sharding: Any


class _Reader:
    """Reads the collectives of one module."""

    def __init__(
        self, module: hlo.Module, mesh: dict[str, int], arguments: Sequence[_Argument]
    ) -> None:
        self._module, self._mesh, self._arguments = module, mesh, arguments

    def rows(self) -> list[Collective]:
        """A row for each collective that runs."""
        return [
            self._row(computation, instruction, times)
            for computation in self._module.computations.values()
            for times in [self._module.runs[computation.name]]
            if times != 0
            for instruction in computation.instructions.values()
            if instruction.opcode.removesuffix("-start") in _SENT
        ]

    def _row(
        self, computation: hlo.Computation, instruction: hlo.Instruction, times: float
    ) -> Collective:
        kind = instruction.opcode.removesuffix("-start")
        known = computation.instructions
        types = [
            re.sub(r"\{[^}]*\}", "", known[name].type)
            for name in instruction.operands
            if name in known
        ]
        size = sum(map(hlo.size_of, types))
        axes, devices = mesh_axes(instruction, kind, self._mesh)
        sent = _SENT[kind](size, devices or math.prod(self._mesh.values()))
        origin = self._origin(computation, instruction)
        operation = origin.attribute(_OP_NAME) or ""
        name = re.split(r"[;:]", operation)[0].strip("()").rpartition("/")[2]
        place = self._module.place(origin)
        line = "" if place is None else _shown(*place)
        remedy = self._remedy(computation, instruction, kind, name, operation, axes)
        return Collective(
            kind, ", ".join(types), size, sent, times, axes, devices, name, line, remedy
        )

    def _origin(
        self, computation: hlo.Computation, instruction: hlo.Instruction
    ) -> hlo.Instruction:
        """The instruction that says where a collective comes from: itself, or what uses it."""
        waiting, seen = [instruction], {instruction.name}
        while waiting:
            found = waiting.pop(0)
            if "/" in (found.attribute(_OP_NAME) or "") and self._module.place(found) is not None:
                return found
            users = [i for i in computation.instructions.values() if found.name in i.operands]
            waiting += [user for user in users if user.name not in seen]
            seen |= {user.name for user in users}
        return instruction

    def _remedy(
        self,
        computation: hlo.Computation,
        instruction: hlo.Instruction,
        kind: str,
        name: str,
        operation: str,
        axes: tuple[str, ...] | None,
    ) -> str:
        along = "these devices" if not axes else " and ".join(repr(axis) for axis in axes)
        if _WRITTEN.match(name):
            return (
                "nothing: the program asks for it"
                if "transpose(" not in operation
                else "nothing: the derivative of a collective"
            )
        source = (
            None
            if kind in ("all-reduce", "reduce-scatter")
            else self._argument(computation, instruction.name)
        )
        if source is not None and axes and source.sharding is not None:
            return self._whole(source, axes)
        if name in ("sharding_constraint", "reshard"):
            return "the constraint here: leave it out, or let the value lie so where it is made"
        if kind in ("all-reduce", "reduce-scatter"):
            if "transpose(" in operation:
                return f"nothing: the gradient of a value that is whole along {along}"
            return f"a sum over what lies along {along}: divide another axis of its operands"
        return (
            f"the compiler moves a value along {along}: say how it lies (with_sharding_constraint)"
        )

    def _whole(self, source: _Argument, axes: tuple[str, ...]) -> str:
        """The annotation by which an argument is whole along mesh axes."""
        entries = [
            () if e is None else e if isinstance(e, tuple) else (e,)
            for e in source.sharding.spec.partitions
        ]
        left = [tuple(a for a in e if a not in axes) for e in entries]
        shown = ", ".join("None" if not e else repr(e[0]) if len(e) == 1 else repr(e) for e in left)
        size = (
            math.prod(source.aval.shape)
            * source.aval.dtype.itemsize
            // max(1, math.prod(self._mesh[a] for e in entries for a in e))
        )
        if left == entries:
            return (
                f"{source.name} is needed on other devices: lay it out as this operation needs it"
            )
        more = size * (math.prod(self._mesh[a] for e in entries for a in e if a in axes) - 1)
        return f"{source.name} as P({shown}), for {more} bytes more a device"

    def _argument(self, computation: hlo.Computation, name: str) -> _Argument | None:
        """The argument of the program whose elements an instruction hands on, if it is one."""
        seen = 0
        while seen < 1000:
            seen += 1
            instruction = computation.instructions.get(name)
            if instruction is None:
                return None
            if instruction.opcode == "parameter":
                if computation.is_entry:
                    number = int(instruction.operands[0])
                    return self._arguments[number] if number < len(self._arguments) else None
                return None
            if instruction.opcode == "get-tuple-element":
                outer = self._loop_operand(computation, instruction)
                if outer is None:
                    return None
                computation, name = outer
                continue
            following = self._handed_on(computation, instruction)
            if following is None:
                return None
            name = following
        return None

    def _handed_on(self, computation: hlo.Computation, instruction: hlo.Instruction) -> str | None:
        if instruction.opcode.removesuffix("-start") in _HANDS_ON:
            return instruction.operands[0]
        parts = set(re.split(r"[_.\d]+", instruction.name)) - {""}
        if instruction.opcode == "fusion" and parts <= _MOVING:
            large = [
                n
                for n in instruction.operands
                if n in computation.instructions and "[]" not in computation.instructions[n].type
            ]
            return large[0] if len(large) == 1 else None
        return None

    def _loop_operand(
        self, computation: hlo.Computation, element: hlo.Instruction
    ) -> tuple[hlo.Computation, str] | None:
        """The operand of a loop for an element of its state that no iteration changes."""
        index = element.attribute(r"index=(\d+)")
        state = computation.instructions.get(element.operands[0])
        if index is None or state is None or state.opcode != "parameter":
            return None
        root = computation.root
        kept = (
            computation.instructions.get(root.operands[int(index)])
            if root.opcode == "tuple"
            else None
        )
        if (
            kept is None
            or kept.opcode != "get-tuple-element"
            or kept.attribute(r"index=(\d+)") != index
        ):
            return None
        for caller, loop in self._module.callers(computation.name):
            given = caller.instructions.get(loop.operands[0]) if loop.opcode == "while" else None
            if given is not None and given.opcode == "tuple":
                return caller, given.operands[int(index)]
        return None
