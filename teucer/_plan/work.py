"""What an instruction of a compiled program does on one device: operations, bytes, seconds.

Products take what libtpu estimates for them, `estimated_cycles`. It estimates elementwise loops,
too, by a model that it calls invalid, and which is far from the speed of the memory. So these take
the time of their bytes, or of their operations if that is more. GPUs say no cycles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from teucer._derived import hlo_text as hlo
from teucer._plan.chips import Chip

_ARRAY = re.compile(r"([a-z]+\d*[a-z0-9]*)\[([\d,<= ]*)\](?:\{([^}]*)\})?")
_TILES = re.compile(r"T((?:\([\d,*]+\))+)")
_CYCLES = re.compile(
    r'"estimated_cycles":"(\d+)"(?:,"[^"]*":(?:"[^"]*"|\[[^\]]*\]))*?'
    r',"cost_model_type":"COST_MODEL_TYPE_(\w+)"'
)
# What takes no time.
FREE = frozenset(
    {
        "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all",
        "partition-id", "replica-id", "opt-barrier", "add-dependency", "domain",
    }
)  # fmt: skip
_MOVING = frozenset(
    {
        "broadcast", "concatenate", "convert", "copy", "dynamic-slice", "dynamic-update-slice",
        "gather", "iota", "pad", "reshape", "reverse", "select", "slice", "transpose",
    }
)  # fmt: skip
# Of these one unit computes an element where four add.
_HARD = frozenset(
    {
        "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "power", "sqrt",
        "rsqrt", "cbrt", "divide", "logistic", "sine", "cosine", "tan", "atan2", "erf",
    }
)  # fmt: skip


class Array(NamedTuple):
    """An array in the text of a type: its bytes in memory, with what tiles add, and which memory
    that is: 0 is that of the device, 1 of a TPU's core, 5 of the host."""

    text: str
    size: int
    space: int


def arrays(kind: str) -> list[Array]:
    """The arrays of a type."""
    found = []
    for dtype, dims, layout in _ARRAY.findall(kind):
        text = f"{dtype}[{dims}]"
        sizes = [int(n.strip().removeprefix("<=")) for n in dims.split(",") if n.strip()]
        space = re.search(r"S\((\d+)\)", layout)
        size = hlo.size_of(f"{dtype}[{','.join(map(str, _padded(sizes, layout)))}]")
        found.append(Array(text, size, int(space[1]) if space else 0))
    return found


def _padded(sizes: Sequence[int], layout: str) -> list[int]:
    """The sizes with what the first tile of a layout adds to the axes that vary most."""
    tiles = _TILES.search(layout)
    order = [int(n) for n in layout.partition(":")[0].split(",") if n.strip().isdecimal()]
    if tiles is None or len(order) != len(sizes):
        return list(sizes)
    first = tiles[1][1:].partition(")")[0].split(",")
    padded = list(sizes)
    for axis, tile in zip(order, reversed(first), strict=False):
        if tile.isdecimal() and int(tile):
            padded[axis] = -(-padded[axis] // int(tile)) * int(tile)
    return padded


def memory_size(kind: str, space: int = 0) -> int:
    """Bytes of a type in one memory."""
    return sum(array.size for array in arrays(kind) if array.space == space)


class Work(NamedTuple):
    """What one run of an instruction takes. products: operations of products; bytes: to and from
    the memory. bound: what takes the time, 'products', 'elements' or 'memory'."""

    seconds: float
    products: float
    bytes: int
    bound: str


NOTHING = Work(0.0, 0.0, 0, "memory")


class Worker:
    """Tells the work of the instructions of a module on a chip."""

    def __init__(self, module: hlo.Module, chip: Chip) -> None:
        self._module, self._chip = module, chip
        self._counted: dict[str, tuple[float, float]] = {}

    def work(self, row: hlo.Instruction, computation: hlo.Computation) -> Work:
        """The work of an instruction that is no loop, call or collective."""
        if row.opcode in FREE or _is_free_call(row):
            return NOTHING
        chip = self._chip
        products, elements = self._operations(row, computation)
        moved = self._bytes(row, computation)
        narrow = products and _is_narrow(row, computation, self._module)
        takes = {
            "products": products / (chip.narrow if narrow else chip.peak),
            "elements": elements / chip.vector,
            "memory": moved / chip.bandwidth,
        }
        bound = max(takes, key=lambda name: takes[name])
        said = _CYCLES.search(row.attributes)
        if products and said is not None and said[2] != "INVALID":
            return Work(int(said[1]) / chip.clock, products, moved, bound)
        return Work(takes[bound], products, moved, bound)

    def _operations(
        self, row: hlo.Instruction, computation: hlo.Computation
    ) -> tuple[float, float]:
        """Operations of products, and of elements outside of them."""
        if row.opcode == "convolution":
            return _convolution(row, computation), 0.0
        if row.opcode == "dot":
            return _dot(row, computation), 0.0
        if row.opcode == "custom-call":
            return _said_operations(row), 0.0
        if row.opcode in ("fusion", "call") and row.called:
            return self._within(row.called)
        if row.opcode in FREE or row.opcode in _MOVING:
            return 0.0, 0.0
        if row.opcode in ("reduce", "reduce-window"):
            return 0.0, float(_elements(computation.type_of(row.operands[0])))
        if row.opcode == "sort":
            n = _elements(row.type)
            return 0.0, float(n * max(1, math.ceil(math.log2(max(n, 2)))) ** 2)
        return 0.0, _elements(row.type) * (4.0 if row.opcode in _HARD else 1.0)

    def _within(self, name: str) -> tuple[float, float]:
        if name not in self._counted:
            self._counted[name] = (0.0, 0.0)  # a circle ends here
            computation = self._module.computations.get(name)
            rows = computation.instructions.values() if computation is not None else ()
            counted = [self._operations(row, computation) for row in rows] if computation else []
            self._counted[name] = sum(c[0] for c in counted), sum(c[1] for c in counted)
        return self._counted[name]

    def _bytes(self, row: hlo.Instruction, computation: hlo.Computation) -> int:
        """Bytes that an instruction reads and writes in the memory of the device."""
        if row.opcode in ("dynamic-slice", "slice", "gather"):
            return 2 * memory_size(row.type)
        if row.opcode == "dynamic-update-slice":
            return 2 * memory_size(computation.type_of(row.operands[1]))
        inner = self._module.computations.get(row.called or "") if row.opcode == "fusion" else None
        operands = [computation.type_of(name) for name in row.operands]
        if inner is None:
            return memory_size(row.type) + sum(map(memory_size, operands))
        read = 0
        updated = _updated(inner)
        for name, number in inner.parameters.items():
            if number >= len(operands) or name in updated:
                continue
            whole = memory_size(operands[number])
            users = [r for r in inner.instructions.values() if name in r.operands]
            if users and all(r.opcode in ("dynamic-slice", "slice", "gather") for r in users):
                whole = min(whole, sum(memory_size(_plain(r.type)) for r in users))
            read += whole
        if updated:
            written = 2 * sum(updated.values())
        else:
            written = memory_size(row.type)
        return read + written


def _is_free_call(row: hlo.Instruction) -> bool:
    """Whether a call only says where values lie."""
    return row.opcode == "custom-call" and any(
        f'custom_call_target="{name}"' in row.attributes
        for name in ("AllocateBuffer", "ConcatBitcast", "Sharding", "LayoutConstraint")
    )


def _plain(kind: str) -> str:
    """A type, as if its values were in the memory of the device."""
    return re.sub(r"S\(\d+\)", "", kind)


def _updated(inner: hlo.Computation) -> dict[str, int]:
    """The parameters of a fusion that it only updates in part, and the bytes of the parts."""
    found: dict[str, int] = {}
    roots = [inner.root]
    if inner.root.opcode == "tuple":
        roots = [inner.instructions[n] for n in inner.root.operands if n in inner.instructions]
    for root in roots:
        while root.opcode in ("bitcast", "copy", "convert") and root.operands:
            if root.operands[0] not in inner.instructions:
                break
            root = inner.instructions[root.operands[0]]
        if root.opcode != "dynamic-update-slice":
            continue
        into = root.operands[0]
        while into in inner.instructions and inner.instructions[into].opcode == "bitcast":
            into = inner.instructions[into].operands[0]
        if into in inner.instructions and inner.instructions[into].opcode == "parameter":
            found[into] = memory_size(_plain(inner.type_of(root.operands[1])))
    return found if len(found) == len(roots) else {}


def _is_narrow(row: hlo.Instruction, computation: hlo.Computation, module: hlo.Module) -> bool:
    """Whether products are of 8-bit numbers."""
    inner = module.computations.get(row.called or "")
    rows = (
        [(row, computation)] if inner is None else [(r, inner) for r in inner.instructions.values()]
    )
    kinds = [c.type_of(r.operands[0]) for r, c in rows if r.opcode in ("dot", "convolution")]
    return bool(kinds) and all(re.match(r"[su]8|f8", kind) for kind in kinds)


def _said_operations(row: hlo.Instruction) -> float:
    """The operations that a kernel says it does."""
    said = row.attribute(r'"?flops"?\\?"?:\s*"?(\d+)')
    return float(said or 0)


def _elements(kind: str) -> int:
    return sum(math.prod(sizes) for _, sizes in hlo.sizes_in(kind))


def _sizes(kind: str) -> list[int]:
    return next((sizes for _, sizes in hlo.sizes_in(kind)), [])


def _dot(row: hlo.Instruction, computation: hlo.Computation) -> float:
    axes = row.attribute(r"lhs_contracting_dims=\{([\d,]*)\}")
    sizes = _sizes(computation.type_of(row.operands[0]))
    contracted = [sizes[int(i)] for i in (axes or "").split(",") if i and int(i) < len(sizes)]
    return 2.0 * _elements(row.type) * math.prod(contracted)


def _convolution(row: hlo.Instruction, computation: hlo.Computation) -> float:
    """Operations of a convolution. Compilers write products of batches as convolutions whose
    windows meet little else than padding; that is not counted."""
    labels = row.attribute(r"dim_labels=(\w+->\w+)")
    if labels is None or len(row.operands) < 2:
        return 0.0
    given, _, out_labels = labels.partition("->")
    lhs_labels, _, rhs_labels = given.partition("_")
    lhs, rhs, out = (
        dict(zip(names, _sizes(kind), strict=False))
        for names, kind in (
            (lhs_labels, computation.type_of(row.operands[0])),
            (rhs_labels, computation.type_of(row.operands[1])),
            (out_labels, row.type),
        )
    )
    window = row.attribute(r"window=\{([^}]*)\}") or ""
    spatial = sorted(name for name in out if name.isdecimal())
    pairs = 1.0
    for i, name in enumerate(spatial):
        pairs *= _met(
            lhs.get(name, 1),
            rhs.get(name, 1),
            out[name],
            _entry(window, "stride", i, 1),
            _entry(window, "pad", i, 0),
            _entry(window, "lhs_dilate", i, 1),
            _entry(window, "rhs_dilate", i, 1),
        )
    return 2.0 * out.get("b", 1) * out.get("f", 1) * rhs.get("i", 1) * pairs


def _entry(window: str, name: str, axis: int, default: int) -> int:
    found = re.search(rf"\b{name}=(\S+)", window)
    if found is None:
        return default
    entries = found[1].split("x")
    return int(entries[axis].split("_")[0]) if axis < len(entries) else default


def _met(size: int, window: int, out: int, stride: int, pad: int, dilated: int, spread: int) -> int:
    """How many places of a window meet elements, and not padding, along one axis in all."""
    if window == 1 and pad == 0 and dilated == 1:
        return out
    if out * window > 1 << 24:  # too many to count one by one
        return out * min(window, size)
    at = np.arange(out)[:, None] * stride + np.arange(window)[None, :] * spread - pad
    met = (at >= 0) & (at <= (size - 1) * dilated) & (at % dilated == 0)
    return int(met.sum())
